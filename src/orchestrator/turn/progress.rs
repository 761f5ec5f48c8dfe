//! A run: one invocation of the program, what it is held to, how it is watched, and how it is stopped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::agent::Limits;
use crate::models::{
    Budget, CallOutcome, CheckEnd, Mode, SessionId, StepResult, UsageMetrics, Why,
};
use crate::ops::Git;
use crate::orchestrator::chance;

/// Parts of a project that count as accepted for one run, without being kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptNow {
    /// Only what the user has accepted before.
    #[default]
    Nothing,
    /// The commands of the project's checks in addition, and nothing else: for a review of somebody else's work.
    Checks,
    /// All that the project holds.
    Everything,
}

impl AcceptNow {
    /// Returns true if the commands of checks count as accepted.
    #[must_use]
    pub fn covers_checks(self) -> bool {
        self != Self::Nothing
    }

    /// Returns true if settings, agents, packs, templates, files that an agent obeys, and a ledger that came with the
    /// project count as accepted.
    #[must_use]
    pub fn covers_definitions(self) -> bool {
        self == Self::Everything
    }
}

/// One invocation of the program.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it does, as others who want the same session are told.
    pub name: String,
    /// What tells it from all others.
    pub id: String,
    /// What its calls are held to.
    pub budget: Budget,
    /// How long a call may take, how much an agent may write, and how long it is waited for.
    pub limits: Limits,
    /// Parts that count as accepted for this run, as with `--trust`.
    pub trust: AcceptNow,
    /// Where it tells what happens, if someone wants to know.
    pub signs: Option<ProgressSender>,
    /// What git is run with.
    pub git: Git,
    /// The changes whose trees were looked after already.
    pub tended: CommittedTrees,
    /// How it is stopped.
    pub stop: StopFlag,
}

impl Run {
    /// Begins a run without a budget.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: chance::word(),
            budget: Budget::default(),
            limits: Limits::default(),
            trust: AcceptNow::Nothing,
            signs: None,
            git: Git::default(),
            tended: CommittedTrees::default(),
            stop: StopFlag::default(),
        }
    }

    /// Tells whether it is the first time that the run looks after a change's tree.
    pub(crate) fn tends(&self, session: &SessionId) -> bool {
        self.tended
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(session.clone())
    }

    /// Tells whoever watches. Nobody has to.
    pub(crate) fn tell(&self, sign: ProgressEvent) {
        if let Some(signs) = &self.signs {
            signs.send(sign);
        }
    }
}

/// How many bytes of an agent's words wait for whoever watches; further ones are not told.
const LONGEST_WAIT: usize = 1 << 20;

/// Returns the two ends of a way from a run to whoever watches it. The run never waits for the watcher: one that lags
/// behind misses words of the agent, and nothing else.
#[must_use]
pub fn progress_channel() -> (ProgressSender, ProgressReceiver) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (
        ProgressSender {
            sender,
            waiting: Arc::clone(&waiting),
        },
        ProgressReceiver { receiver, waiting },
    )
}

/// Where a run tells what happens.
#[derive(Clone, Debug)]
pub struct ProgressSender {
    sender: Sender<ProgressEvent>,
    /// How many bytes of an agent's words are not seen yet.
    waiting: Arc<AtomicUsize>,
}

impl ProgressSender {
    pub(crate) fn send(&self, sign: ProgressEvent) {
        if sign.words() > 0 {
            if self.waiting.load(Ordering::SeqCst) >= LONGEST_WAIT {
                return;
            }
            self.waiting.fetch_add(sign.words(), Ordering::SeqCst);
        }
        let _unwatched = self.sender.send(sign);
    }
}

/// Where it is seen.
#[derive(Debug)]
pub struct ProgressReceiver {
    receiver: Receiver<ProgressEvent>,
    waiting: Arc<AtomicUsize>,
}

impl ProgressReceiver {
    /// Waits for the next sign, for so long at most.
    ///
    /// # Errors
    ///
    /// `Timeout` if none came, `Disconnected` if none will come.
    pub fn recv_timeout(&self, patience: Duration) -> Result<ProgressEvent, RecvTimeoutError> {
        let sign = self.receiver.recv_timeout(patience)?;
        self.waiting.fetch_sub(sign.words(), Ordering::SeqCst);
        Ok(sign)
    }
}

/// Something that can be seen of a run while it goes on.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ProgressEvent {
    /// What an earlier run had left was brought to an end.
    Recovered {
        /// The session.
        session: SessionId,
        /// What was found and done, in words.
        what: Vec<String>,
    },
    /// A turn begins.
    Started {
        /// The session.
        session: SessionId,
        /// The turn's number in it.
        turn: u64,
        /// The mode.
        mode: Mode,
        /// The agent.
        agent: String,
        /// The model, if one was named.
        model: Option<String>,
        /// The prompt's length in bytes.
        prompt_bytes: u64,
    },
    /// The agent is called.
    Called {
        /// The call's number in the turn.
        call: u64,
        /// Why.
        why: Why,
    },
    /// The agent is asked again for what its reply lacks.
    AskingAgain {
        /// Number of the repair, counted from 1.
        number: u8,
        /// Most repairs of the turn.
        of: u8,
        /// Faults of the reply.
        complaints: Vec<String>,
    },
    /// The agent says something.
    Said {
        /// What is new of it.
        text: String,
    },
    /// The agent asks to wait, and is waited for.
    Waiting {
        /// How long, in seconds.
        seconds: u64,
        /// What it said.
        why: String,
    },
    /// A call came to its end.
    Answered {
        /// The call's number in the turn.
        call: u64,
        /// How.
        #[serde(flatten)]
        end: CallOutcome,
        /// What the agent reports to have used.
        usage: UsageMetrics,
        /// How long it took.
        milliseconds: u64,
        /// How many processes the agent had left behind.
        left_behind: u64,
    },
    /// Something that the reply asked for was done, or was not.
    Settled(StepResult),
    /// One of the project's own checks is run, or has ended.
    Check {
        /// Its name.
        name: String,
        /// How it ended; `None` while it runs.
        end: Option<CheckEnd>,
        /// How long it took.
        milliseconds: u64,
        /// Names of the secret variables that it did not see, if it failed.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        withheld: Vec<String>,
    },
}

impl ProgressEvent {
    /// Returns how many bytes of an agent's words it holds.
    fn words(&self) -> usize {
        match self {
            Self::Said { text } => text.len(),
            _ => 0,
        }
    }
}

/// The changes whose trees a run has looked after.
#[derive(Clone, Debug, Default)]
pub struct CommittedTrees(Arc<Mutex<BTreeSet<SessionId>>>);

/// How a run is stopped: once for a graceful end, twice for one at once.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicU8>);

impl StopFlag {
    /// Asks the run to stop; asked again, at once.
    pub fn ask(&self) {
        let _before = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |times| {
                Some(times.saturating_add(1))
            });
    }

    /// Returns how often that was asked.
    #[must_use]
    pub fn asked(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_that_lags_behind_misses_words_and_nothing_else() {
        let (signs, seen) = progress_channel();
        let run = Run {
            signs: Some(signs),
            ..Run::new("test")
        };
        let words = |length: usize| ProgressEvent::Said {
            text: "x".repeat(length),
        };
        run.tell(words(LONGEST_WAIT - 1));
        run.tell(words(3));
        run.tell(words(5));
        run.tell(ProgressEvent::Waiting {
            seconds: 7,
            why: String::new(),
        });
        let next = || match seen.recv_timeout(Duration::ZERO).unwrap() {
            ProgressEvent::Waiting { seconds, .. } => format!("waiting {seconds}"),
            sign => format!("words {}", sign.words()),
        };
        assert_eq!(
            [next(), next(), next()],
            [
                &format!("words {}", LONGEST_WAIT - 1),
                "words 3",
                "waiting 7"
            ]
        );
        assert_eq!(
            seen.recv_timeout(Duration::ZERO).unwrap_err(),
            RecvTimeoutError::Timeout
        );
        run.tell(words(11));
        assert_eq!(
            next(),
            "words 11",
            "one that has caught up hears everything again"
        );
        drop(run);
        assert_eq!(
            seen.recv_timeout(Duration::ZERO).unwrap_err(),
            RecvTimeoutError::Disconnected
        );
    }
}
