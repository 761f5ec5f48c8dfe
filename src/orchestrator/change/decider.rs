//! Decisions about a change that only a person may make.

use super::open::ChangeStatus;
use crate::apply::NextStep;
use crate::config::CheckCommand;
use crate::error::Result;
use crate::models::Decision;

/// Makes the decisions of a change on behalf of a person.
///
/// `agentd run` asks on the terminal. A program may ask in its own way, or use [`LeaveWaiting`] and record the decision
/// later with [`decide`](super::decide).
pub trait Decider {
    /// Returns the decision about a change that waits, or `None` to leave it waiting. `status.next` has the reason.
    ///
    /// # Errors
    ///
    /// Ends the run; the change stays as it is.
    fn decide(&mut self, status: &ChangeStatus) -> Result<Option<PersonDecision>>;

    /// Returns true to accept the check commands of the project for good. They run code of the project.
    ///
    /// Called once, before anything is spent, unless they were accepted before. The default accepts nothing.
    ///
    /// # Errors
    ///
    /// Ends the run before its first turn.
    fn accept_checks(&mut self, _commands: &[CheckCommand]) -> Result<bool> {
        Ok(false)
    }
}

/// A decision about a change, with what the agents should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonDecision {
    /// The decision.
    pub decision: Decision,
    /// Shown to every agent from now on.
    pub note: Option<String>,
}

impl PersonDecision {
    /// Returns a decision without a note.
    #[must_use]
    pub fn new(decision: Decision) -> Self {
        Self {
            decision,
            note: None,
        }
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(self, note: impl Into<String>) -> Self {
        Self {
            note: Some(note.into()),
            ..self
        }
    }
}

/// Decides nothing: the run ends wherever a person is needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaveWaiting;

impl Decider for LeaveWaiting {
    fn decide(&mut self, _status: &ChangeStatus) -> Result<Option<PersonDecision>> {
        Ok(None)
    }
}

/// Approves every phase and leaves questions unanswered, as `agentd run --auto --yes` does.
///
/// A change that must not go on without a person still waits: after too many rounds, or if the reviewer was not shown
/// everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApproveAll;

impl Decider for ApproveAll {
    fn decide(&mut self, status: &ChangeStatus) -> Result<Option<PersonDecision>> {
        Ok(match status.next {
            NextStep::Approval { .. } | NextStep::Answers { .. } => {
                Some(PersonDecision::new(Decision::Waive))
            }
            _ => None,
        })
    }
}
