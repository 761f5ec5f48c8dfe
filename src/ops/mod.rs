//! What the program can do by name: the operations that packs call, and the doors to project files and to git.

mod beneath;
mod census;
mod change_folder;
mod checks;
mod detect;
mod diff;
mod files;
mod git;
mod landing;
mod listing;
mod operation;
mod operations;
mod private;
mod registry;
mod site;
mod specs;
mod step;
mod survey;
mod tree;

pub use census::{SnapshotScope, TreeSnapshot};
pub use change_folder::{
    ARCHIVE, NOTES, OpenTasks, artifacts, folder as change_folder, has_change, notes_text,
    open_tasks, targets, task_ids,
};
pub use checks::{CheckJob, checks_report, run_checks};
pub use detect::{check_commands, check_commands_in, detected};
pub use files::{
    create_new, make_folder, read_project_text, read_reply, read_text, sweep, temporary_folder,
    write_text,
};
pub use git::{
    Changed, CommitListing, Diff, DiffLimits, Git, Head, LandRequest, Landed, LeftOut, LeftOutKind,
    Leftover, Merged, Repository, Snapshot, Status, Worktree, WorktreeCommit, short_commit,
};
pub use landing::MergeLock;
pub use listing::ProjectListing;
pub use operation::{Act, Inspect, Inspection, Operation, TurnEnd};
pub use operations::{DIFF_LIMITS, find_places, noted, some_left_out};
pub use private::{check_own, private_names, write_private};
pub use registry::Operations;
pub use site::{ChangeSite, ReviewSite, Site};
pub use specs::{SPECS, specs, wanted_specs};
pub use step::Step;
pub use survey::{Survey, survey};
pub use tree::{structure, visible_path};
