//! The operations that are part of agentd, one per file, each in the file of its name.

mod change_archive;
mod change_require;
mod checks_again;
mod checks_run;
mod checks_show;
mod file_step;
mod files_edit;
mod files_write;
mod findings_note;
mod findings_show;
mod git_commit;
mod git_diff;
mod git_merge;
mod review_require;
mod specs_merge;
mod specs_show;
mod tasks_tick;

pub(crate) use change_archive::ChangeArchive;
pub(crate) use change_require::ChangeRequire;
pub(crate) use checks_again::ChecksAgain;
pub(crate) use checks_run::ChecksRun;
pub(crate) use checks_show::ChecksShow;
pub(crate) use files_edit::FilesEdit;
pub(crate) use files_write::FilesWrite;
pub(crate) use findings_note::FindingsNote;
pub use findings_note::{find_places, noted};
pub(crate) use findings_show::FindingsShow;
pub(crate) use git_commit::GitCommit;
pub(crate) use git_diff::GitDiff;
pub use git_diff::{DIFF_LIMITS, some_left_out};
pub(crate) use git_merge::GitMerge;
pub(crate) use review_require::ReviewRequire;
pub(crate) use specs_merge::SpecsMerge;
pub(crate) use specs_show::SpecsShow;
pub(crate) use tasks_tick::TasksTick;
