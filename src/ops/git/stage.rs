//! Putting all that is in a work tree into an index, and nothing that somebody else should decide on.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::command::{Dir, fields, join_bytes, path_of};
use super::output::{lossy, not_understood, split_at_tab};
use crate::error::Result;

/// Where the index is if not at its place, and where new objects go.
type Env = [(&'static str, PathBuf)];

/// The parts of an index and its worktree that staging depends on.
pub(super) struct IndexListing {
    /// Files that git was told not to look at.
    hidden: Vec<Vec<u8>>,
    /// Submodules.
    links: Vec<Vec<u8>>,
    /// Repositories in the work tree that are no submodules.
    nested: Vec<Vec<u8>>,
    /// The index equals the worktree, so nothing has to be staged.
    is_staged: bool,
}

impl IndexListing {
    /// Lists an index and its work tree.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub(super) fn read(dir: &Dir, env: &Env) -> Result<Self> {
        let words = [
            "ls-files",
            "-z",
            "-v",
            "-s",
            "--cached",
            "--modified",
            "--deleted",
        ];
        let output = dir
            .call(&words)
            .args(["--others", "--exclude-standard"])
            .env(env)
            .ok()?;

        let mut listing = Self {
            hidden: Vec::new(),
            links: Vec::new(),
            nested: Vec::new(),
            is_staged: true,
        };
        let mut folders = HashSet::new();
        for field in fields(&output) {
            // A path that is not in the index has a tag and nothing else before it.
            if let Some(path) = field.strip_prefix(b"? ") {
                listing.is_staged = false;
                listing
                    .nested
                    .extend(path.strip_suffix(b"/").map(<[u8]>::to_vec));
                continue;
            }
            let (meta, path) = split_at_tab(field).ok_or_else(|| not_understood("ls-files"))?;
            let tag = meta.first().copied().unwrap_or_default();
            let is_link = meta.get(2..8) == Some(b"160000");
            if tag != b'H' || is_link {
                listing.is_staged = false;
            }
            // A path that differs is listed once more, as changed (C) or removed (R).
            if matches!(tag.to_ascii_uppercase(), b'C' | b'R') {
                continue;
            }
            let is_there = || dir.work_tree.join(path_of(path)).symlink_metadata().is_ok();
            if tag.is_ascii_lowercase() || (tag == b'S' && is_there()) {
                listing.hidden.push(path.to_vec());
            }
            if is_link {
                listing.links.push(path.to_vec());
            }
            add_folders(path, &mut folders);
        }

        // `ls-files` looks through a link that has taken the place of a folder; `add` would see the link.
        let is_folder = |path: &&[u8]| is_plain_folder(&dir.work_tree.join(path_of(path)));
        listing.is_staged = listing.is_staged && folders.iter().all(is_folder);
        Ok(listing)
    }

    /// Returns the paths of repositories that are no submodules.
    pub(super) fn nested(&self) -> Vec<String> {
        self.nested.iter().map(|path| lossy(path)).collect()
    }

    /// Makes git look at files again that it was told not to look at.
    pub(super) fn show_hidden(&self, dir: &Dir, env: &Env) -> Result<()> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            let update = dir.call(&["update-index", flag, "-z", "--stdin"]);
            update.env(env).input(joined(&self.hidden)).ok()?;
        }
        Ok(())
    }

    /// Puts all that is not ignored into the index, but for nested repositories.
    pub(super) fn add_all(&self, dir: &Dir, env: &Env) -> Result<()> {
        if self.is_staged {
            return Ok(());
        }

        // `git add` would run `git status` in a submodule, with the settings that whoever works there has given it.
        let paths = self.links.iter().chain(&self.nested);
        let without = paths.map(|path| join_bytes(b":(top,exclude,literal)", path));
        dir.call(&["add", "--all", "--", "."])
            .args(without)
            .env(env)
            .ok()?;
        if self.links.is_empty() {
            return Ok(());
        }

        let update = dir.call(&["update-index", "--add", "--remove", "-z", "--stdin"]);
        update.env(env).input(joined(&self.links)).ok().map(drop)
    }
}

/// Adds the folders above a path.
fn add_folders<'a>(path: &'a [u8], folders: &mut HashSet<&'a [u8]>) {
    let mut rest = path;
    while let Some(end) = rest.iter().rposition(|&byte| byte == b'/') {
        rest = &rest[..end];
        if !folders.insert(rest) {
            return;
        }
    }
}

fn is_plain_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn joined(paths: &[Vec<u8>]) -> Vec<u8> {
    paths
        .iter()
        .flat_map(|path| path.iter().copied().chain([0]))
        .collect()
}
