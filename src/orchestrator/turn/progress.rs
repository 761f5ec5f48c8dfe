//! Progress events of a run, and the channel that carries them to a watcher.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::models::{CallOutcome, CallReason, CheckEnd, Mode, SessionId, StepResult, UsageMetrics};

/// Maximum bytes of agent output that are queued for the watcher. While the queue is full, further output is dropped.
const MAX_WAITING_TEXT_BYTES: usize = 1 << 20;

/// Poll interval of [`ProgressSender::flush`].
const FLUSH_POLL: Duration = Duration::from_millis(1);

/// Creates a channel that carries progress events from a run to its watcher.
///
/// The run never waits for the watcher. A watcher that is too slow loses agent output ([`ProgressEvent::Said`]), but no
/// other event.
#[must_use]
pub fn progress_channel() -> (ProgressSender, ProgressReceiver) {
    let (sender, receiver) = mpsc::channel();
    let counters = Arc::new(Counters::default());

    let sender = ProgressSender {
        sender,
        counters: Arc::clone(&counters),
    };
    let receiver = ProgressReceiver {
        receiver,
        received: Cell::new(0),
        counters,
    };
    (sender, receiver)
}

/// State shared by the two ends of a channel.
#[derive(Debug, Default)]
struct Counters {
    /// Bytes of agent output that are sent but not yet received.
    waiting_text: AtomicUsize,
    sent: AtomicU64,
    /// Number of events that the watcher has received and finished handling.
    handled: AtomicU64,
    is_closed: AtomicBool,
}

/// The run's end of a progress channel.
#[derive(Clone, Debug)]
pub struct ProgressSender {
    sender: Sender<ProgressEvent>,
    counters: Arc<Counters>,
}

impl ProgressSender {
    pub(crate) fn send(&self, event: ProgressEvent) {
        let text_bytes = event.text_bytes();
        if text_bytes > 0 {
            if self.counters.waiting_text.load(Ordering::SeqCst) >= MAX_WAITING_TEXT_BYTES {
                return;
            }
            self.counters
                .waiting_text
                .fetch_add(text_bytes, Ordering::SeqCst);
        }

        self.counters.sent.fetch_add(1, Ordering::SeqCst);
        let _unwatched = self.sender.send(event);
    }

    /// Waits until the watcher has handled every event sent so far, so that later output of the caller follows the
    /// watcher's. Returns immediately if the receiver was dropped.
    pub fn flush(&self) {
        let sent = self.counters.sent.load(Ordering::SeqCst);
        while self.counters.handled.load(Ordering::SeqCst) < sent
            && !self.counters.is_closed.load(Ordering::SeqCst)
        {
            thread::sleep(FLUSH_POLL);
        }
    }
}

/// The watcher's end of a progress channel.
#[derive(Debug)]
pub struct ProgressReceiver {
    receiver: Receiver<ProgressEvent>,
    received: Cell<u64>,
    counters: Arc<Counters>,
}

impl ProgressReceiver {
    /// Waits for the next event. The call also marks the previously received event as handled, which
    /// [`ProgressSender::flush`] waits for.
    ///
    /// # Errors
    ///
    /// `Timeout` if no event arrives in time, `Disconnected` if all senders were dropped.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<ProgressEvent, RecvTimeoutError> {
        let received = self.received.get();
        self.counters.handled.store(received, Ordering::SeqCst);

        let event = self.receiver.recv_timeout(timeout)?;
        self.counters
            .waiting_text
            .fetch_sub(event.text_bytes(), Ordering::SeqCst);
        self.received.set(received + 1);
        Ok(event)
    }
}

impl Drop for ProgressReceiver {
    fn drop(&mut self) {
        self.counters.is_closed.store(true, Ordering::SeqCst);
    }
}

/// An event in the progress of a run.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ProgressEvent {
    /// Unfinished work of an interrupted run was recovered.
    Recovered {
        #[expect(missing_docs, reason = "the name says it all")]
        session: SessionId,
        /// Messages for the user, one for each thing that was recovered.
        what: Vec<String>,
    },
    /// A turn starts.
    Started {
        #[expect(missing_docs, reason = "the name says it all")]
        session: SessionId,
        /// Number of the turn in the session, from 1.
        turn: u64,
        #[expect(missing_docs, reason = "the name says it all")]
        mode: Mode,
        /// Name of the agent.
        agent: String,
        /// Id of the model; `None` if the agent chooses it.
        model: Option<String>,
        #[expect(missing_docs, reason = "the name says it all")]
        prompt_bytes: u64,
    },
    /// The agent is called.
    Called {
        /// Number of the call in the turn, from 1.
        call: u64,
        /// Reason for the call.
        why: CallReason,
    },
    /// A repair call follows: the agent is asked for parts that are missing in its reply.
    AskingAgain {
        /// Number of the repair call in the turn, from 1.
        number: u8,
        /// Maximum number of repair calls in the turn.
        of: u8,
        /// Problems of the reply, for the user.
        complaints: Vec<String>,
    },
    /// The agent wrote output.
    Said {
        /// Output since the previous `Said` event.
        text: String,
    },
    /// The agent is rate limited; the run waits before the next call.
    Waiting {
        /// Seconds to wait.
        seconds: u64,
        /// Error message of the agent.
        why: String,
    },
    /// A call ended.
    Answered {
        /// Number of the call in the turn, from 1.
        call: u64,
        /// Outcome of the call.
        #[serde(flatten)]
        end: CallOutcome,
        /// Usage that the agent reports.
        usage: UsageMetrics,
        /// Duration of the call.
        milliseconds: u64,
        /// Number of leftover processes of the agent, which were killed.
        left_behind: u64,
    },
    /// A step of the turn was run or refused.
    Settled(StepResult),
    /// One of the project's checks starts or has ended.
    Check {
        /// Name of the check.
        name: String,
        /// Result of the check; `None` when the check starts.
        end: Option<CheckEnd>,
        /// Duration of the check; 0 when it starts.
        milliseconds: u64,
        /// Names of secret variables that were removed from the environment of a failed check; empty otherwise.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        withheld: Vec<String>,
    },
}

impl ProgressEvent {
    /// Returns the length of the agent output that the event carries; 0 for other events.
    fn text_bytes(&self) -> usize {
        match self {
            Self::Said { text } => text.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_watcher_misses_text_and_nothing_else() {
        let (sender, receiver) = progress_channel();
        let text = |length: usize| ProgressEvent::Said {
            text: "x".repeat(length),
        };
        sender.send(text(MAX_WAITING_TEXT_BYTES - 1));
        sender.send(text(3));
        sender.send(text(5));
        sender.send(ProgressEvent::Waiting {
            seconds: 7,
            why: String::new(),
        });

        let next = || match receiver.recv_timeout(Duration::ZERO).unwrap() {
            ProgressEvent::Waiting { seconds, .. } => format!("waiting {seconds}"),
            event => format!("text {}", event.text_bytes()),
        };
        assert_eq!(
            [next(), next(), next()],
            [
                &format!("text {}", MAX_WAITING_TEXT_BYTES - 1),
                "text 3",
                "waiting 7"
            ]
        );
        assert_eq!(
            receiver.recv_timeout(Duration::ZERO).unwrap_err(),
            RecvTimeoutError::Timeout
        );

        sender.send(text(11));
        assert_eq!(next(), "text 11", "a watcher that caught up gets all text");
        drop(sender);
        assert_eq!(
            receiver.recv_timeout(Duration::ZERO).unwrap_err(),
            RecvTimeoutError::Disconnected
        );
    }

    #[test]
    fn flush_returns_once_every_event_was_handled() {
        let (sender, receiver) = progress_channel();
        let handled = Arc::new(AtomicU64::new(0));
        for seconds in 0..3 {
            let why = String::new();
            sender.send(ProgressEvent::Waiting { seconds, why });
        }

        let counter = Arc::clone(&handled);
        let watcher = thread::spawn(move || {
            while receiver.recv_timeout(Duration::from_secs(60)).is_ok() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        sender.flush();
        assert_eq!(handled.load(Ordering::SeqCst), 3);

        drop(sender);
        watcher.join().unwrap();
    }

    #[test]
    fn flush_does_not_wait_for_a_watcher_that_is_gone() {
        let (sender, receiver) = progress_channel();
        drop(receiver);
        let why = String::new();
        sender.send(ProgressEvent::Waiting { seconds: 1, why });
        sender.flush();
    }
}
