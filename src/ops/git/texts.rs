//! Reads text files at a commit. Two git commands read any number of files.

use std::collections::BTreeMap;

use super::command::fields;
use super::output::{FILE_MODE_PREFIX, lossy, not_understood, split_at_tab};
use super::repository::Repository;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::ops::fs::MAX_FILE_BYTES;

/// A file or folder at a commit.
pub(super) struct TreeEntry {
    pub(super) path: String,
    /// Git's file mode, in octal digits.
    pub(super) mode: String,
    id: String,
    /// Size in bytes; `None` for a folder or a submodule.
    size: Option<u64>,
}

impl Repository {
    /// Returns the text of a file at a commit; `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the file is not UTF-8 text or is too large; `GitFailed` if a git command fails.
    pub fn text_at(&self, commit: &str, path: &str) -> Result<Option<String>> {
        Ok(self.texts_at(commit, &[path])?.remove(path))
    }

    /// Returns the texts of files at a commit, by path. Files that do not exist are omitted.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if a file is not UTF-8 text or is too large; `GitFailed` if a git command fails.
    pub fn texts_at(&self, commit: &str, paths: &[&str]) -> Result<BTreeMap<String, String>> {
        if paths.is_empty() {
            return Ok(BTreeMap::new());
        }
        let listed: Vec<&str> = paths
            .iter()
            .map(|path| path.trim_end_matches('/'))
            .collect();
        let mut entries = self.entries_at(commit, &listed)?;
        entries.retain(|entry| paths.contains(&entry.path.as_str()));
        self.texts_of(commit, entries)
    }

    /// Returns the texts of the files in a folder at a commit, by path, if `is_wanted` returns true for their names.
    /// Files in subfolders are omitted.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if a file is not UTF-8 text or is too large; `GitFailed` if a git command fails.
    pub fn texts_in(
        &self,
        commit: &str,
        folder: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let mut entries = self.entries_at(commit, &[&prefix])?;
        entries.retain(|entry| entry.path.strip_prefix(&prefix).is_some_and(&is_wanted));
        self.texts_of(commit, entries)
    }

    /// Returns the files and folders at `paths`. For a path that ends with `/`, returns the entries of that folder;
    /// without any path, those of the top folder.
    pub(super) fn entries_at(&self, commit: &str, paths: &[&str]) -> Result<Vec<TreeEntry>> {
        self.list(commit, &["ls-tree", "-z", "-l", "--full-tree"], paths)
    }

    /// Returns the files at `paths` and in all folders below them.
    pub(super) fn all_entries_at(&self, commit: &str, paths: &[&str]) -> Result<Vec<TreeEntry>> {
        self.list(commit, &["ls-tree", "-r", "-z", "-l", "--full-tree"], paths)
    }

    fn list(&self, commit: &str, args: &[&str], paths: &[&str]) -> Result<Vec<TreeEntry>> {
        let list = self.dir.call(args).literal();
        let list = list
            .args([self.resolve(commit)?.as_str(), "--"])
            .args(paths)
            .ok()?;

        let mut entries = Vec::new();
        for (meta, path) in fields(&list).filter_map(split_at_tab) {
            let meta = lossy(meta);
            let fields: Vec<&str> = meta.split_whitespace().collect();
            let [mode, _kind, id, size] = fields[..] else {
                return Err(not_understood("ls-tree"));
            };
            entries.push(TreeEntry {
                path: lossy(path),
                mode: mode.to_owned(),
                id: id.to_owned(),
                size: size.parse().ok(),
            });
        }
        Ok(entries)
    }

    pub(super) fn texts_of(
        &self,
        commit: &str,
        entries: Vec<TreeEntry>,
    ) -> Result<BTreeMap<String, String>> {
        if entries.is_empty() {
            return Ok(BTreeMap::new());
        }
        let unusable = |entry: &TreeEntry, what: &str| {
            let path = entry.path.escape_debug();
            Error::new(
                ErrorKind::FileUnusable,
                format!("`{path}` at {commit} {what}"),
            )
        };
        for entry in &entries {
            if !entry.mode.starts_with(FILE_MODE_PREFIX) {
                return Err(unusable(entry, "is not a regular file"));
            }
            if entry.size.is_none_or(|size| size > MAX_FILE_BYTES) {
                let limit = file::in_units(MAX_FILE_BYTES);
                return Err(unusable(entry, &format!("is larger than {limit}")));
            }
        }

        let ids: String = entries
            .iter()
            .map(|entry| format!("{}\n", entry.id))
            .collect();
        let output = self.dir.call(&["cat-file", "--batch"]).input(ids).ok()?;
        let mut rest = output.as_slice();
        let mut texts = BTreeMap::new();
        for entry in entries {
            let size = entry.size.unwrap_or(0);
            let bytes =
                next_blob(&mut rest, &entry.id, size).ok_or_else(|| not_understood("cat-file"))?;
            let text = String::from_utf8(bytes.to_vec())
                .ok()
                .filter(|text| !text.contains('\0'));
            let text = text.ok_or_else(|| unusable(&entry, "is not UTF-8 text"))?;
            texts.insert(entry.path, text);
        }
        Ok(texts)
    }
}

/// Takes the content of a file from the output of `cat-file --batch`: a line with its id, type and size, then its
/// bytes and a newline.
pub(super) fn next_blob<'a>(rest: &mut &'a [u8], id: &str, size: u64) -> Option<&'a [u8]> {
    let head = format!("{id} blob {size}\n");
    let content = rest.strip_prefix(head.as_bytes())?;
    let (bytes, after) = content.split_at_checked(usize::try_from(size).ok()?)?;
    *rest = after.strip_prefix(b"\n")?;
    Some(bytes)
}
