//! Text files at a commit, several of them by two commands.

use std::collections::BTreeMap;

use super::command::fields;
use super::output::{lossy, not_understood, split_at_tab};
use super::repository::Repository;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::ops::fs::MAX_FILE_BYTES;

/// A file or folder at a commit.
pub(super) struct TreeEntry {
    pub(super) path: String,
    /// Git's mode in octal digits; regular files begin with `100`.
    pub(super) mode: String,
    id: String,
    /// Size in bytes; `None` for a folder or a submodule.
    size: Option<u64>,
}

impl Repository {
    /// Returns the text of a file at a commit; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if it is not a text file of a sensible size.
    pub fn text_at(&self, commit: &str, path: &str) -> Result<Option<String>> {
        Ok(self.texts_at(commit, &[path])?.remove(path))
    }

    /// Returns the texts of files at a commit by their paths, without those that do not exist.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if one of them is not a text file of a sensible size.
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

    /// Returns the texts of the files of a folder at a commit by their paths, as far as `wanted` accepts their names;
    /// files in folders below it are left out.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if one of them is not a text file of a sensible size.
    pub fn texts_in(
        &self,
        commit: &str,
        folder: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let mut entries = self.entries_at(commit, &[&prefix])?;
        entries.retain(|entry| entry.path.strip_prefix(&prefix).is_some_and(&wanted));
        self.texts_of(commit, entries)
    }

    /// Returns the files and folders at some paths; of a path that ends with `/`, those in that folder. Without a
    /// path, those at the top.
    pub(super) fn entries_at(&self, commit: &str, paths: &[&str]) -> Result<Vec<TreeEntry>> {
        self.list(commit, &["ls-tree", "-z", "-l", "--full-tree"], paths)
    }

    /// Returns the files at some paths and in all folders below them.
    pub(super) fn all_entries_at(&self, commit: &str, paths: &[&str]) -> Result<Vec<TreeEntry>> {
        self.list(commit, &["ls-tree", "-r", "-z", "-l", "--full-tree"], paths)
    }

    fn list(&self, commit: &str, words: &[&str], paths: &[&str]) -> Result<Vec<TreeEntry>> {
        let list = self.dir.call(words).literal();
        let list = list
            .args([self.named(commit)?.as_str(), "--"])
            .args(paths)
            .ok()?;

        let mut entries = Vec::new();
        for (meta, path) in fields(&list).filter_map(split_at_tab) {
            let meta = lossy(meta);
            let words: Vec<&str> = meta.split_whitespace().collect();
            let [mode, _kind, id, size] = words[..] else {
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
            if !entry.mode.starts_with("100") {
                return Err(unusable(entry, "is not a regular file"));
            }
            if entry.size.is_none_or(|size| size > MAX_FILE_BYTES) {
                let limit = file::in_units(MAX_FILE_BYTES);
                return Err(unusable(entry, &format!("is too large: over {limit}")));
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

/// Takes the content of a file from the output of `cat-file --batch`: a line with its id, kind and size, then its
/// bytes and a line end.
pub(super) fn next_blob<'a>(rest: &mut &'a [u8], id: &str, size: u64) -> Option<&'a [u8]> {
    let head = format!("{id} blob {size}\n");
    let content = rest.strip_prefix(head.as_bytes())?;
    let (bytes, after) = content.split_at_checked(usize::try_from(size).ok()?)?;
    *rest = after.strip_prefix(b"\n")?;
    Some(bytes)
}
