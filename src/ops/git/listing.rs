//! Listing of a project's files at a commit, for its definitions and checks.

use std::collections::BTreeMap;

use super::command::failed;
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
    /// Path of the project in its repository: empty, or with `/` at the end.
    prefix: String,
    /// Git's modes by path in the project.
    modes: BTreeMap<String, String>,
}

impl Repository {
    /// Lists a project at a commit. `folder` is the path of the project in the repository, empty for its top.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn listing_at(&self, commit: &str, folder: &str) -> Result<CommitListing<'_>> {
        let prefix = prefix_of(folder);
        let folders = [""]
            .iter()
            .chain(&TEST_FOLDERS)
            .map(|folder| format!("{prefix}{}", prefix_of(folder)));
        let mut modes = BTreeMap::new();
        for folder in folders {
            let paths: Vec<&str> = [folder.as_str()]
                .into_iter()
                .filter(|path| !path.is_empty())
                .collect();
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

    /// Returns the texts of files at a commit by their paths in a project: of those paths that are given, and of all
    /// files in the folders among them that `wanted` accepts by their path.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if one of them is not a regular text file, or is too large; `GitFailed`, also if they are too
    /// many.
    pub fn definitions_at(
        &self,
        commit: &str,
        folder: &str,
        paths: &[&str],
        wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        let prefix = prefix_of(folder);
        let paths: Vec<String> = paths.iter().map(|path| format!("{prefix}{path}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut entries = self.all_entries_at(commit, &paths)?;
        entries.retain(|entry| entry.path.strip_prefix(&prefix).is_some_and(&wanted));
        if entries.len() > MAX_DEFINITIONS {
            return Err(failed(format!(
                "more than {MAX_DEFINITIONS} definition files at {commit}"
            )));
        }
        let texts = self.texts_of(commit, entries)?;
        let in_project =
            |(path, text): (String, String)| Some((path.strip_prefix(&prefix)?.to_owned(), text));
        Ok(texts.into_iter().filter_map(in_project).collect())
    }
}

/// Returns the prefix of the paths in a folder.
fn prefix_of(folder: &str) -> String {
    let folder = folder.trim_matches('/');
    if folder.is_empty() {
        String::new()
    } else {
        format!("{folder}/")
    }
}

impl CommitListing<'_> {
    fn has_mode(&self, name: &str, kind: &str) -> bool {
        self.modes
            .get(name)
            .is_some_and(|mode| mode.starts_with(kind))
    }
}

impl ProjectListing for CommitListing<'_> {
    fn has(&self, name: &str) -> bool {
        self.modes.contains_key(name)
    }

    fn has_file(&self, name: &str) -> bool {
        self.has_mode(name, "100")
    }

    fn has_folder(&self, name: &str) -> bool {
        self.has_mode(name, "040")
    }

    fn has_program(&self, name: &str) -> bool {
        self.has_mode(name, "100755")
    }

    fn text(&self, name: &str) -> Option<String> {
        if !self.has_file(name) {
            return None;
        }
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
