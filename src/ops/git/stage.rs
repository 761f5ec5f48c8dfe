//! Putting all that is in a work tree into an index, and nothing that somebody else should decide on.

use std::path::PathBuf;

use super::run::{Dir, fields, join_bytes, path_of};
use super::{lossy, not_understood, split_at_tab};
use crate::error::Result;

/// Where the index is if not at its place, and where new objects go.
type Env = [(&'static str, PathBuf)];

/// What needs care in an index and its work tree.
pub(super) struct Special {
    /// Files that git was told not to look at.
    hidden: Vec<Vec<u8>>,
    /// Submodules.
    links: Vec<Vec<u8>>,
    /// Repositories in the work tree that are no submodules.
    nested: Vec<Vec<u8>>,
}

impl Special {
    /// Looks for it.
    pub(super) fn of(dir: &Dir, env: &Env) -> Result<Self> {
        let (mut hidden, mut links) = (Vec::new(), Vec::new());
        for field in fields(&dir.call(&["ls-files", "-z", "-v", "-s"]).env(env).ok()?) {
            let (meta, path) = split_at_tab(field).ok_or_else(|| not_understood("ls-files"))?;
            let (tag, mode) = (meta.first().copied().unwrap_or_default(), meta.get(2..8).unwrap_or_default());
            let is_there = || dir.work_tree.join(path_of(path)).symlink_metadata().is_ok();
            if tag.is_ascii_lowercase() || (tag == b'S' && is_there()) {
                hidden.push(path.to_vec());
            }
            if mode == b"160000" {
                links.push(path.to_vec());
            }
        }
        let others = dir.call(&["ls-files", "-z", "--others", "--exclude-standard"]).env(env).ok()?;
        let nested = fields(&others).filter_map(|path| path.strip_suffix(b"/")).map(<[u8]>::to_vec).collect();
        Ok(Self { hidden, links, nested })
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
        // `git add` would run `git status` in a submodule, with the settings that whoever works there has given it.
        let paths = self.links.iter().chain(&self.nested);
        let without = paths.map(|path| join_bytes(b":(top,exclude,literal)", path));
        dir.call(&["add", "--all", "--", "."]).args(without).env(env).ok()?;
        if self.links.is_empty() {
            return Ok(());
        }
        let update = dir.call(&["update-index", "--add", "--remove", "-z", "--stdin"]);
        update.env(env).input(joined(&self.links)).ok().map(drop)
    }
}

fn joined(paths: &[Vec<u8>]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.iter().copied().chain([0])).collect()
}
