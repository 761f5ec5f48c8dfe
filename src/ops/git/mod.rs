//! The only access to git, with settings that a repository cannot override.
//!
//! The processes that work in a worktree are not trusted. Every command names its repository and worktree. No hook and
//! no program that a repository configures is run, not even for the merge into the user's branch. File names are read
//! from NUL-separated output, never from quoted text.

mod command;
mod diff;
mod init;
mod listing;
mod merge;
mod output;
mod pipes;
mod refs;
mod repository;
mod stage;
mod temp_repo;
mod texts;
mod wait;
mod worktree;

pub use command::Git;
pub use diff::{ChangedFile, Diff, DiffLimits, FileStatus, LeftOut, LeftOutKind, Snapshot};
pub use listing::CommitListing;
pub use merge::{MergeOutcome, MergeRequest, WorktreeMerge};
pub use repository::{Head, Repository, short_commit};
pub use worktree::{Leftover, Worktree, WorktreeCommit};
