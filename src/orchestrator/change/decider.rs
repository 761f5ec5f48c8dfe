//! Interface through which a run asks the user for decisions about a change.

use super::open::ChangeStatus;
use crate::apply::NextStep;
use crate::config::CheckCommand;
use crate::error::Result;
use crate::models::Decision;

/// Makes the decisions about a change on behalf of the user.
///
/// `agentd run` asks on the terminal. A program may ask in its own way, or use [`LeaveWaiting`] and record the decision
/// later with [`decide`](super::decide).
pub trait Decider {
    /// Returns the decision about a waiting change, or `None` to leave the change waiting. `status.next` says what it
    /// waits for.
    ///
    /// # Errors
    ///
    /// An error ends the run and leaves the change unchanged.
    fn decide(&mut self, status: &ChangeStatus) -> Result<Option<PersonDecision>>;

    /// Returns true to trust the check commands of the project permanently. The commands run code of the project.
    ///
    /// Called once, before the first turn, unless the user already trusts the commands. The default implementation returns
    /// false.
    ///
    /// # Errors
    ///
    /// An error ends the run before its first turn.
    fn accept_checks(&mut self, _commands: &[CheckCommand]) -> Result<bool> {
        Ok(false)
    }
}

/// A decision about a change, with a note for the agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonDecision {
    #[expect(missing_docs, reason = "the name says it all")]
    pub decision: Decision,
    /// Note that is part of the prompts of all later turns of the change.
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

    /// Sets the note for the agents.
    #[must_use]
    pub fn with_note(self, note: impl Into<String>) -> Self {
        Self {
            note: Some(note.into()),
            ..self
        }
    }
}

/// Makes no decisions: the run ends as soon as the change waits for the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaveWaiting;

impl Decider for LeaveWaiting {
    fn decide(&mut self, _status: &ChangeStatus) -> Result<Option<PersonDecision>> {
        Ok(None)
    }
}

/// Approves every phase and leaves questions unanswered, like `agentd run --auto --yes`.
///
/// Some changes still wait for the user: after too many rounds, or if the reviewer was not shown all files.
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
