//! Listings of a project's files, in a folder or at a commit, for detecting its checks.

use std::path::Path;

use crate::agent::is_program;
use crate::file;
use crate::ops::fs::read_project_text;

/// Files and folders of a project. Names are paths relative to its root.
pub trait ProjectListing {
    /// Returns true if there is a file or a folder of that name.
    fn has(&self, name: &str) -> bool;

    /// Returns true if there is a regular file of that name.
    fn has_file(&self, name: &str) -> bool;

    /// Returns true if there is a folder of that name.
    fn has_folder(&self, name: &str) -> bool;

    /// Returns true if there is an executable file of that name.
    fn has_program(&self, name: &str) -> bool;

    /// Returns the text of a file; `None` if the file does not exist or cannot be read as text.
    fn text(&self, name: &str) -> Option<String>;

    /// Returns the names in a folder; empty if the folder does not exist.
    fn names_in(&self, folder: &str) -> Vec<String>;
}

/// Lists the files of a folder on disk.
pub(in crate::ops) struct FolderListing<'a>(pub(in crate::ops) &'a Path);

impl ProjectListing for FolderListing<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    fn has_file(&self, name: &str) -> bool {
        self.0.join(name).is_file()
    }

    fn has_folder(&self, name: &str) -> bool {
        self.0.join(name).is_dir()
    }

    fn has_program(&self, name: &str) -> bool {
        is_program(&self.0.join(name))
    }

    fn text(&self, name: &str) -> Option<String> {
        read_project_text(self.0, name).ok().flatten()
    }

    fn names_in(&self, folder: &str) -> Vec<String> {
        let names = file::names_in(&self.0.join(folder)).unwrap_or_default();
        names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()
    }
}
