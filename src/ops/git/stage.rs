//! Stages all files of a working tree, whatever flags and settings an agent has set there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::command::{RepositoryFolders, failed, fields, join_bytes, path_of};
use super::output::{SUBMODULE_MODE, lossy, not_understood, split_at_tab};
use crate::error::Result;
use crate::file;

/// Maximum size of a file that is staged for a temporary snapshot, in bytes.
pub(super) const MAX_SNAPSHOT_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum size of a file that is staged for a commit, in bytes.
pub(super) const MAX_COMMIT_FILE_BYTES: u64 = 1024 * 1024 * 1024;

/// Maximum total size of the files that are staged at once, in bytes.
const MAX_STAGED_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Environment variables that select another index, and another folder for new objects.
type Env = [(&'static str, PathBuf)];

/// The parts of an index and its working tree that staging depends on.
pub(super) struct IndexListing {
    /// Files with the flag `assume-unchanged`, and existing files with the flag `skip-worktree`.
    hidden: Vec<Vec<u8>>,
    /// Paths of submodules.
    submodules: Vec<Vec<u8>>,
    /// Nested repositories that are not submodules.
    nested: Vec<Vec<u8>>,
    /// Files that are not staged because of their size.
    oversized: Vec<OversizedFile>,
    /// Total size of the files that would be staged, in bytes.
    staged_bytes: u64,
    /// True if the index equals the working tree, so that nothing has to be staged.
    is_staged: bool,
}

/// A new or changed file that is too large to be staged. It is never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OversizedFile {
    pub(super) path: Vec<u8>,
    /// Size in bytes.
    pub(super) size: u64,
    /// True if the file is not in the index.
    pub(super) is_untracked: bool,
}

impl IndexListing {
    /// Lists an index and its working tree. Files over `max_file_bytes` will not be staged.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub(super) fn read(dir: &RepositoryFolders, env: &Env, max_file_bytes: u64) -> Result<Self> {
        let args = [
            "ls-files",
            "-z",
            "-v",
            "-s",
            "--cached",
            "--modified",
            "--deleted",
        ];
        let output = dir
            .call(&args)
            .args(["--others", "--exclude-standard"])
            .env(env)
            .ok()?;

        let mut listing = Self {
            hidden: Vec::new(),
            submodules: Vec::new(),
            nested: Vec::new(),
            oversized: Vec::new(),
            staged_bytes: 0,
            is_staged: true,
        };
        let mut folders = HashSet::new();
        for field in fields(&output) {
            // An untracked path has only the tag `?` before it; a nested repository ends with `/`.
            if let Some(path) = field.strip_prefix(b"? ") {
                listing.is_staged = false;
                match path.strip_suffix(b"/") {
                    Some(folder) => listing.nested.push(folder.to_vec()),
                    None => listing.measure(dir, path, max_file_bytes, true),
                }
                continue;
            }

            let (meta, path) = split_at_tab(field).ok_or_else(|| not_understood("ls-files"))?;
            let tag = meta.first().copied().unwrap_or_default();
            let is_submodule = meta.get(2..8) == Some(SUBMODULE_MODE.as_bytes());
            if tag != b'H' || is_submodule {
                listing.is_staged = false;
            }

            // A path that differs from the index is listed again, as changed (C) or removed (R).
            if matches!(tag.to_ascii_uppercase(), b'C' | b'R') {
                listing.measure(dir, path, max_file_bytes, false);
                continue;
            }

            // A lower-case tag means `assume-unchanged`, `S` means `skip-worktree`. A missing file with `S` belongs to a
            // sparse checkout and keeps its flag.
            let exists = || dir.work_tree.join(path_of(path)).symlink_metadata().is_ok();
            if tag.is_ascii_lowercase() || (tag == b'S' && exists()) {
                listing.hidden.push(path.to_vec());
                listing.measure(dir, path, max_file_bytes, false);
            }
            if is_submodule {
                listing.submodules.push(path.to_vec());
            }
            add_folders(path, &mut folders);
        }

        // `ls-files` follows a symlink that has replaced a folder; `add` would stage the symlink.
        let is_folder = |path: &&[u8]| is_real_folder(&dir.work_tree.join(path_of(path)));
        listing.is_staged = listing.is_staged && folders.iter().all(is_folder);
        Ok(listing)
    }

    /// Adds the size of a file that would be staged, or adds the file to the oversized ones.
    fn measure(
        &mut self,
        dir: &RepositoryFolders,
        path: &[u8],
        max_file_bytes: u64,
        is_untracked: bool,
    ) {
        let Ok(metadata) = dir.work_tree.join(path_of(path)).symlink_metadata() else {
            return;
        };
        let size = metadata.len();
        if !metadata.is_file() {
            return;
        }
        if size <= max_file_bytes {
            self.staged_bytes = self.staged_bytes.saturating_add(size);
            return;
        }
        self.oversized.push(OversizedFile {
            path: path.to_vec(),
            size,
            is_untracked,
        });
    }

    /// Returns the oversized files without those that a flag of the user hides from git.
    pub(super) fn oversized_and_visible(&self) -> Vec<OversizedFile> {
        let hidden: HashSet<&Vec<u8>> = self.hidden.iter().collect();
        self.oversized
            .iter()
            .filter(|file| !hidden.contains(&file.path))
            .cloned()
            .collect()
    }

    /// Returns the files that are not staged because of their size.
    pub(super) fn oversized(&self) -> &[OversizedFile] {
        &self.oversized
    }

    /// Returns the paths of nested repositories that are not submodules.
    pub(super) fn nested(&self) -> Vec<String> {
        self.nested.iter().map(|path| lossy(path)).collect()
    }

    /// Clears the flags `assume-unchanged` and `skip-worktree` of the hidden files.
    pub(super) fn show_hidden(&self, dir: &RepositoryFolders, env: &Env) -> Result<()> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            let update = dir.call(&["update-index", flag, "-z", "--stdin"]);
            update.env(env).input(nul_terminated(&self.hidden)).ok()?;
        }
        Ok(())
    }

    /// Stages all files that are not ignored, except nested repositories and oversized files.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if the files are too large in total: reading them would take minutes.
    pub(super) fn add_all(&self, dir: &RepositoryFolders, env: &Env) -> Result<()> {
        if self.is_staged {
            return Ok(());
        }
        if self.staged_bytes > MAX_STAGED_BYTES {
            return Err(failed(format!(
                "new and changed files are too large: {} in total, the limit is {}",
                file::in_units(self.staged_bytes),
                file::in_units(MAX_STAGED_BYTES)
            ))
            .with_hint("remove the large files, or list them in .gitignore"));
        }

        // Submodules are staged separately: `git add` would run `git status` in them, with settings that an agent may
        // have written.
        let oversized = self.oversized.iter().map(|file| &file.path);
        let paths = self.submodules.iter().chain(&self.nested).chain(oversized);
        let exclusions = paths.map(|path| join_bytes(b":(top,exclude,literal)", path));
        dir.call(&["add", "--all", "--", "."])
            .args(exclusions)
            .env(env)
            .ok()?;
        if self.submodules.is_empty() {
            return Ok(());
        }

        let update = dir.call(&["update-index", "--add", "--remove", "-z", "--stdin"]);
        update
            .env(env)
            .input(nul_terminated(&self.submodules))
            .ok()
            .map(drop)
    }
}

/// Adds all parent folders of a path to `folders`.
fn add_folders<'a>(path: &'a [u8], folders: &mut HashSet<&'a [u8]>) {
    let mut rest = path;
    while let Some(end) = rest.iter().rposition(|&byte| byte == b'/') {
        rest = &rest[..end];
        if !folders.insert(rest) {
            return;
        }
    }
}

fn is_real_folder(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_dir())
}

fn nul_terminated(paths: &[Vec<u8>]) -> Vec<u8> {
    paths
        .iter()
        .flat_map(|path| path.iter().copied().chain([0]))
        .collect()
}
