//! Listing of a project's files at a commit, for its definitions and checks.

use std::collections::BTreeMap;

use super::command::failed;
use super::output::{EXECUTABLE_MODE, FILE_MODE_PREFIX, FOLDER_MODE};
use super::repository::Repository;
use super::texts::TreeEntry;
use crate::error::Result;
use crate::ops::checks::ProjectListing;
use crate::ops::checks::TEST_FOLDERS;

/// Maximum number of definition files at a commit.
const MAX_DEFINITIONS: usize = 2_000;

/// A project at a commit: the names at its root and in its test folders. Texts are read on demand.
#[derive(Debug)]
pub struct CommitListing<'a> {
    repository: &'a Repository,
    commit: String,
    /// Path of the project in its repository: empty, or ending with `/`.
    prefix: String,
    /// Git's file modes, in octal digits, by path in the project.
    modes: BTreeMap<String, String>,
}

impl Repository {
    /// Lists a project at a commit. `folder` is the path of the project in the repository; empty for the top folder.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn listing_at(&self, commit: &str, folder: &str) -> Result<CommitListing<'_>> {
        let prefix = prefix_of(folder);
        let folders = [""]
            .iter()
            .chain(&TEST_FOLDERS)
            .map(|folder| format!("{prefix}{}", prefix_of(folder)));
        let mut modes = BTreeMap::new();
        for folder in folders {
            // Without a path, git lists the top folder.
            let paths = if folder.is_empty() {
                Vec::new()
            } else {
                vec![folder.as_str()]
            };
            for TreeEntry { path, mode, .. } in self.entries_at(commit, &paths)? {
                modes.extend(
                    path.strip_prefix(&prefix)
                        .map(|path| (path.to_owned(), mode)),
                );
            }
        }
        Ok(CommitListing {
            repository: self,
            commit: commit.to_owned(),
            prefix,
            modes,
        })
    }

    /// Returns the texts of files at a commit, by path in the project: the files at `paths` and in the folders below
    /// them, if `is_wanted` returns true for their path. `folder` is the path of the project in the repository.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if one of the files is not a regular text file or is too large; `GitFailed` if there are too many
    /// files, or if a git command fails.
    pub fn definitions_at(
        &self,
        commit: &str,
        folder: &str,
        paths: &[&str],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        let prefix = prefix_of(folder);
        let full_paths: Vec<String> = paths.iter().map(|path| format!("{prefix}{path}")).collect();
        let path_args: Vec<&str> = full_paths.iter().map(String::as_str).collect();
        let mut entries = self.all_entries_at(commit, &path_args)?;
        entries.retain(|entry| entry.path.strip_prefix(&prefix).is_some_and(&is_wanted));
        if entries.len() > MAX_DEFINITIONS {
            return Err(failed(format!(
                "commit {commit} has more than {MAX_DEFINITIONS} definition files"
            )));
        }
        let texts = self.texts_of(commit, entries)?;
        let relative_to_project =
            |(path, text): (String, String)| Some((path.strip_prefix(&prefix)?.to_owned(), text));
        Ok(texts.into_iter().filter_map(relative_to_project).collect())
    }
}

/// Returns the common prefix of all paths in a folder: empty, or ending with `/`.
fn prefix_of(folder: &str) -> String {
    let folder = folder.trim_matches('/');
    if folder.is_empty() {
        String::new()
    } else {
        format!("{folder}/")
    }
}

impl CommitListing<'_> {
    fn has_mode(&self, name: &str, mode_prefix: &str) -> bool {
        self.modes
            .get(name)
            .is_some_and(|mode| mode.starts_with(mode_prefix))
    }
}

impl ProjectListing for CommitListing<'_> {
    fn has(&self, name: &str) -> bool {
        self.modes.contains_key(name)
    }

    fn has_file(&self, name: &str) -> bool {
        self.has_mode(name, FILE_MODE_PREFIX)
    }

    fn has_folder(&self, name: &str) -> bool {
        self.has_mode(name, FOLDER_MODE)
    }

    fn has_program(&self, name: &str) -> bool {
        self.has_mode(name, EXECUTABLE_MODE)
    }

    fn text(&self, name: &str) -> Option<String> {
        if !self.has_file(name) {
            return None;
        }
        // A file that cannot be read as text counts as missing, as the trait says.
        self.repository
            .text_at(&self.commit, &format!("{}{name}", self.prefix))
            .ok()
            .flatten()
    }

    fn names_in(&self, folder: &str) -> Vec<String> {
        let prefix = prefix_of(folder);
        let names = self
            .modes
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix));
        names.map(str::to_owned).collect()
    }
}
