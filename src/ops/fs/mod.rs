//! Access to files of the project and of the user.

mod beneath;
mod change_folder;
mod files;
mod merge_lock;
mod patch;
mod snapshot;
mod specs;
mod tree;
mod user_files;

pub(super) use beneath::read_bytes;
pub use change_folder::{
    OpenTasks, artifacts, has_change, notes_text, open_tasks, targets, task_ids,
};
pub(super) use files::{MAX_FILE_BYTES, clear_path, remove_entry, remove_file, replace_file};
pub use files::{
    create_new, make_folder, read_project_text, read_reply, read_resolved_text, read_text,
    remove_unfinished, temporary_folder, write_text,
};
pub use merge_lock::MergeLock;
pub(super) use patch::{apply_patch, with_line_endings_of};
pub(super) use snapshot::git_folders;
pub use snapshot::{SnapshotScope, TreeSnapshot};
pub use specs::{specs, wanted_specs};
pub use tree::{structure, visible_path};
pub(super) use tree::{top_level, visible_name};
pub use user_files::{check_own, private_names, remove_private, write_private};
