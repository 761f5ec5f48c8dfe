//! Origin of a change, and decisions of people about it.

use serde::{Deserialize, Serialize};

/// Origin of a session with its own branch and work tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOrigin {
    /// Name of the pack.
    pub pack: String,
    /// Request of the user.
    pub request: String,
    /// Commit that the branch starts from.
    pub base: String,
    /// Target branch; `None` if the change started from a detached HEAD.
    pub onto: Option<String>,
    /// Branch of the session.
    pub branch: String,
}

/// Decision of a person about a session.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Continue.
    Approve,
    /// Continue without asking, as the user has allowed in advance.
    Waive,
    /// Do the work again, with the given note.
    Revise,
    /// Abandon a session that waits for a decision.
    Reject,
    /// Abandon a session in any state.
    Cancel,
}
