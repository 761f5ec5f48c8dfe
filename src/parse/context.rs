//! Facts about a reply other than its text.

use crate::models::CallOutcome;

/// Facts about a reply other than its text.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// The pack's own prose that the prompt was made from.
    pub ours: Vec<&'a str>,
    /// The segments that were sent.
    pub sent: Vec<&'a str>,
    /// Outcome of the call. Without a complete reply nothing in it takes effect.
    pub outcome: CallOutcome,
    /// The exit code of the agent, if it has one.
    pub exit_code: Option<i32>,
    /// The `run` that verdicts of this turn must carry; `None` if the prompt has none.
    pub nonce: Option<&'a str>,
    /// The ids of the tasks that there are, if they are known.
    pub tasks: Option<Vec<String>>,
}

impl Context<'_> {
    /// Returns true if the reply may lack its end.
    pub(super) fn is_cut(&self) -> bool {
        !self.outcome.is_ok() || self.exit_code.is_some_and(|code| code != 0)
    }
}
