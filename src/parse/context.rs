//! Facts about a reply other than its text.

use crate::models::CallOutcome;

/// Facts about a reply other than its text.
#[derive(Clone, Debug, Default)]
pub struct ReplyContext<'a> {
    /// Prose of the pack that the prompt was built from.
    pub ours: Vec<&'a str>,
    /// Segments of the prompt that were sent, other than `own_history`.
    pub sent: Vec<&'a str>,
    /// Earlier replies of the assistant in the prompt. An action or update in them may be sent again; a verdict or
    /// another marker that repeats them is ignored, as one that repeats `sent`.
    pub own_history: Vec<&'a str>,
    /// Outcome of the call. Effects of an incomplete reply are ignored.
    pub outcome: CallOutcome,
    /// Exit code of the agent process, if there was one.
    pub exit_code: Option<i32>,
    /// Value of the `run` attribute that verdicts of this turn must have; `None` if the prompt
    /// contains no such value.
    pub nonce: Option<&'a str>,
    /// Ids of the existing tasks; `None` if they are unknown.
    pub tasks: Option<Vec<String>>,
}

impl ReplyContext<'_> {
    /// Returns true if the end of the reply may be missing.
    pub(super) fn is_cut(&self) -> bool {
        !self.outcome.is_ok() || self.exit_code.is_some_and(|code| code != 0)
    }
}
