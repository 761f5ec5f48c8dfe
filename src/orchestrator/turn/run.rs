//! Run: one invocation of the program, with its id, limits, budget, progress channel and stop flag.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::progress::{ProgressEvent, ProgressSender};
use crate::agent::Limits;
use crate::error::Result;
use crate::models::{Budget, SessionId};
use crate::ops::Git;
use crate::orchestrator::random;

/// Parts of a project that are trusted for one run only, in addition to those that the user trusts permanently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptNow {
    /// Nothing.
    #[default]
    Nothing,
    /// Only the commands of the project's checks, for a review of somebody else's work.
    Checks,
    /// Everything in the project.
    Everything,
}

impl AcceptNow {
    /// Returns true if the commands of checks are trusted.
    #[must_use]
    pub fn covers_checks(self) -> bool {
        self != Self::Nothing
    }

    /// Returns true if settings, agents, packs, templates, instruction files of agents, and a ledger that came with the
    /// project are trusted.
    #[must_use]
    pub fn covers_definitions(self) -> bool {
        self == Self::Everything
    }
}

/// One invocation of the program.
#[derive(Clone, Debug)]
pub struct Run {
    /// Command name shown to other processes that find the session locked, such as `agentd run`.
    pub name: String,
    /// Unique id; part of the marker in the environment of every process that the run starts.
    pub id: String,
    /// Budgets of the run and of its sessions.
    pub budget: Budget,
    /// Timeouts and size limits of one call.
    pub limits: Limits,
    /// Parts of the project that are trusted for this run only, as with `--trust`.
    pub trust: AcceptNow,
    /// Channel for progress events; `None` if there is no watcher.
    pub progress: Option<ProgressSender>,
    /// Environment and watcher of git commands.
    pub git: Git,
    /// Changes whose worktree was checked for uncommitted edits in this run.
    pub committed_trees: CommittedTrees,
    /// Flag with which the user stops the run.
    pub stop: StopFlag,
}

impl Run {
    /// Creates a run without a budget.
    ///
    /// # Errors
    ///
    /// `NoRandomness` if no random id can be generated.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            id: random::random_name()?,
            budget: Budget::default(),
            limits: Limits::default(),
            trust: AcceptNow::Nothing,
            progress: None,
            git: Git::default(),
            committed_trees: CommittedTrees::default(),
            stop: StopFlag::default(),
        })
    }

    /// Returns true if this method is called for the first time in this run for a change.
    pub(crate) fn is_first_look_at(&self, session: &SessionId) -> bool {
        let mut seen = self
            .committed_trees
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.insert(session.clone())
    }

    /// Sends an event to the watcher, if there is one.
    pub(crate) fn report(&self, event: ProgressEvent) {
        if let Some(progress) = &self.progress {
            progress.send(event);
        }
    }
}

/// Changes whose worktree a run has checked for uncommitted edits.
#[derive(Clone, Debug, Default)]
pub struct CommittedTrees(Arc<Mutex<BTreeSet<SessionId>>>);

/// Flag with which a run is stopped: gracefully after one request, immediately after two.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicU8>);

impl StopFlag {
    /// Asks the run to stop.
    pub fn ask(&self) {
        let _before = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |times| {
                Some(times.saturating_add(1))
            });
    }

    /// Discards all stop requests, so that the run can continue.
    pub fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Returns the number of stop requests.
    #[must_use]
    pub fn asked(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }
}
