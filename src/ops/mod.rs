//! Operations that packs call by name, such as `checks.run` and `git.diff`, and access to project files and to git.
//!
//! [`Operations`] is the registry. A program adds its own operations to the shipped ones;
//! `examples/custom_operation.rs` shows one that a pack uses and an agent requests.
//!
//! ```
//! use agentd::ops::Operations;
//!
//! let operations = Operations::shipped();
//! assert!(operations.find_inspect("git.diff").is_ok());
//! assert!(operations.find_act("tracker.create").is_err());
//! ```

mod artifact_file;
mod checks;
mod fs;
mod git;
mod operation;
mod operations;
mod project_summary;
mod registry;
mod site;
mod step;

pub use artifact_file::{read_artifact, restore_artifact};
pub use checks::{
    CheckJob, ProjectListing, check_commands, check_commands_in, checks_report, detect_checks,
    run_checks,
};
pub use fs::{
    MergeLock, OpenTasks, SnapshotScope, TreeSnapshot, artifacts, check_own, create_new,
    has_change, make_folder, notes_text, open_tasks, private_names, read_project_text, read_reply,
    read_resolved_text, read_text, remove_private, remove_unfinished, specs, structure, targets,
    task_ids, temporary_folder, visible_path, wanted_specs, write_private, write_text,
};
pub use git::{
    ChangedFile, CommitListing, Diff, DiffLimits, FileStatus, Git, Head, LeftOut, LeftOutKind,
    Leftover, MergeOutcome, MergeRequest, Repository, Snapshot, Worktree, WorktreeCommit,
    WorktreeMerge, short_commit,
};
pub use operation::{Act, Inspect, Inspection, Operation, TurnEnd};
pub use operations::{DIFF_LIMITS, find_places, noted, some_left_out};
pub use project_summary::{ProjectSummary, summarize_project};
pub use registry::Operations;
pub use site::{ChangeSite, ChatSite, ReviewSite, Site};
pub use step::Step;
