//! Origin of a change, and decisions of the user about it.

use serde::{Deserialize, Serialize};

/// Origin of a change: a session with its own branch and worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOrigin {
    /// Name of the pack.
    pub pack: String,
    /// Request of the user.
    pub request: String,
    /// Commit that the branch starts from.
    pub base: String,
    /// Target branch of the merge; `None` if the change started from a detached HEAD.
    pub onto: Option<String>,
    /// Branch of the change.
    pub branch: String,
}

/// Decision of the user about a change.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Continue with the next phase.
    Approve,
    /// Continue without a decision, as allowed in advance with `--auto`.
    Waive,
    /// Repeat the work, taking the note into account.
    Revise,
    /// Abandon a change that waits for a decision.
    Reject,
    /// Abandon a change in any state.
    Cancel,
}
