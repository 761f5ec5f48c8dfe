//! What is known of a change beside its turns: where it lives, and what people decided.

use serde::{Deserialize, Serialize};

/// A session that has a branch and a work tree of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The pack that leads it.
    pub pack: String,
    /// What was asked for.
    pub request: String,
    /// The commit it starts from.
    pub base: String,
    /// The branch it goes back to; `None` if it started from no branch.
    pub onto: Option<String>,
    /// Its own branch.
    pub branch: String,
}

/// What a person decides about a session.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may go on.
    Approve,
    /// It goes on without anyone being asked, as was said beforehand.
    Waive,
    /// It shall be done again, with what was said.
    Revise,
    /// It is given up where it waits.
    Reject,
    /// It is given up wherever it stands.
    Cancel,
}
