//! What the program can do by name: the operations that packs call, and the doors to project files and to git.

mod archive;
mod beneath;
mod census;
mod change;
mod checks;
mod detect;
mod diff;
mod edit;
mod evidence;
mod files;
mod findings;
mod git;
mod landing;
mod listing;
mod operation;
mod private;
mod registry;
mod site;
mod spec_merge;
mod specs;
mod step;
mod survey;
mod tasks;
mod tree;

pub use archive::ARCHIVE;
pub use census::{SnapshotScope, TreeSnapshot};
pub use change::{
    NOTES, OpenTasks, artifacts, folder as change_folder, has_change, notes_text, open_tasks,
    targets, task_ids,
};
pub use checks::{CheckJob, checks_report, run_checks};
pub use detect::{check_commands, check_commands_in, detected};
pub use evidence::{DIFF_LIMITS, short, some_left_out};
pub use files::{
    create_new, make_folder, read_project_text, read_reply, read_text, sweep, temporary_folder,
    write_text,
};
pub use findings::{find_places, noted};
pub use git::{
    Changed, CommitListing, Diff, DiffLimits, Git, Head, LandRequest, Landed, LeftOut, LeftOutKind,
    Leftover, Merged, Repository, Snapshot, Status, Worktree, WorktreeCommit,
};
pub use landing::MergeLock;
pub use listing::ProjectListing;
pub use operation::{Act, Inspect, Inspection, Operation, TurnEnd};
pub use private::{check_own, private_names, write_private};
pub use registry::Operations;
pub use site::{ChangeSite, ReviewSite, Site};
pub use spec_merge::SPECS;
pub use specs::{specs, wanted_specs};
pub use step::Step;
pub use survey::{Survey, survey};
pub use tree::{structure, visible_path};
