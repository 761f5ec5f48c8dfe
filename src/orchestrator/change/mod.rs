//! Changes: requests that go through the modes of a pack, each on its own branch and in its own worktree.
//!
//! [`run_change`] runs a change until it is done, abandoned, or waiting for the user. The other functions open a
//! change, record a decision, list all changes, and review the working tree without a change.

mod close;
mod decide;
mod decider;
mod next_turn;
mod open;
mod retry;
mod review;
mod reviewers;
mod run;
mod status;

pub use decide::decide;
pub use decider::{ApproveAll, Decider, LeaveWaiting, PersonDecision};
pub use open::{ChangeStatus, check_change_pack, open_change};
pub use review::{ReviewBase, ReviewReport, review_tree};
pub use run::{
    ChangeEvent, ChangeOutcome, ChangeRequest, check_change_start, no_agent, run_change,
    warn_of_own_work,
};
pub use status::{ChangeRow, list_changes};
