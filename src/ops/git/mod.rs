//! The only access to git: one program, with settings that a repository cannot override.
//!
//! The processes that work in a worktree are not trusted. Every command names the repository and the worktree it is
//! for, no hook and no program that a repository names is run, not even at the merge into the user's branch, and
//! names of files are never read from quoted text.

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
