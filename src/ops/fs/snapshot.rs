//! Snapshots of a working tree before and after a call, to find files that a read-only agent has changed.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::tree::{IgnoreRules, is_ignored, read_rules, rules_above, visible_path};
use super::user_files::write_own;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::{SessionId, paths};
use crate::text::glob::matches_path;

/// Maximum size of a stored snapshot, in bytes.
const MAX_SNAPSHOT_BYTES: u64 = 1 << 30;

/// Maximum size of a `.git` file, which only points to a folder, in bytes.
const MAX_GIT_FILE_BYTES: u64 = 4096;

/// Entries of a `.git` folder through which an agent could switch branches or make git run programs.
const GUARDED_GIT_ENTRIES: [&str; 3] = ["HEAD", "config", "hooks"];

/// Every file of a project with its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSnapshot(BTreeMap<String, FileStamp>);

/// Metadata that changes when a file is written. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    length: u64,
    modified: i128,
    /// Time of the last change of content, name or permissions; a process cannot set it.
    changed: i128,
    /// Inode number; 0 on systems without one.
    file: u64,
    mode: u32,
}

/// The files that a snapshot covers.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotScope<'a> {
    /// The project's root.
    pub root: &'a Path,
    /// The session of the call. The folders of other sessions are skipped.
    pub session: &'a SessionId,
    /// Patterns of files that the reply may update. They are skipped: a change by another process is detected when they
    /// are written.
    pub updates: &'a [String],
    /// Returns true for the path of a file that is covered even if git ignores it.
    pub always: fn(&Path) -> bool,
}

impl TreeSnapshot {
    /// Takes a snapshot of the files that git does not ignore, of the files that are always covered, and of the guarded
    /// entries of `.git` folders. Folders that git ignores are not opened.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the root cannot be listed.
    pub fn take(scope: &SnapshotScope<'_>) -> Result<Self> {
        let root = scope.root;
        let mut stamps = BTreeMap::new();
        let mut git_dirs = Vec::new();

        let mut rules = rules_above(root);
        let above = rules.len().checked_sub(1);
        let mut folders = vec![(root.to_path_buf(), above)];
        while let Some((folder, above)) = folders.pop() {
            rules.push(IgnoreRules {
                matcher: read_rules(root, &folder),
                above,
            });
            let here = rules.len() - 1;

            let listed = list(&folder, |path, metadata| {
                if scope.is_skipped(&path) {
                    return;
                }
                let is_git_ignored = is_ignored(&path, metadata.is_dir(), &rules, here);
                let name = path.file_name().unwrap_or_default();
                // A `.gitignore` is always covered, or writing one could hide other writes.
                let is_always_covered =
                    || name == ".gitignore" || name == ".git" || (scope.always)(&path);
                if metadata.is_dir() && name == ".git" {
                    git_dirs.push(path);
                } else if metadata.is_dir() && !is_git_ignored {
                    folders.push((path, Some(here)));
                } else if !metadata.is_dir() && (!is_git_ignored || is_always_covered()) {
                    stamps.insert(
                        visible_path(path.strip_prefix(root).unwrap_or(&path)),
                        FileStamp::from_metadata(&metadata),
                    );
                }
            });

            match listed {
                Err(cause) if folder == root => return Err(unlisted(root, cause)),
                // A folder that was made unreadable has also changed.
                Err(_) => stamp_all(root, &folder, &mut stamps),
                Ok(()) => {}
            }
        }

        git_dirs.extend(git_folders(root));
        for git_dir in &git_dirs {
            for name in GUARDED_GIT_ENTRIES {
                stamp_all(root, &git_dir.join(name), &mut stamps);
            }
        }
        Ok(Self(stamps))
    }

    /// Returns the paths that differ in a later snapshot, sorted. Files that were changed after `until` are omitted.
    #[must_use]
    pub fn changes(&self, later: &Self, until: Option<SystemTime>) -> Vec<String> {
        let until = until.and_then(|until| until.duration_since(UNIX_EPOCH).ok());
        let until = until.map_or(i128::MAX, |until| {
            i128::try_from(until.as_nanos()).unwrap_or(i128::MAX)
        });
        let touched = later.0.iter().filter(|(path, stamp)| {
            self.0.get(*path).is_none_or(|before| before != *stamp) && stamp.changed <= until
        });
        // The time at which a file was removed is unknown, so `until` does not apply.
        let gone = self.0.keys().filter(|path| !later.0.contains_key(*path));
        let mut paths: Vec<String> = touched
            .map(|(path, _)| path.clone())
            .chain(gone.cloned())
            .collect();
        paths.sort();
        paths
    }

    /// Stores the snapshot in a file, as JSON.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if it cannot be written.
    pub fn keep(&self, folder: &Path, name: &str) -> Result<()> {
        let text = serde_json::to_string(self).unwrap_or_default();
        write_own(folder, name, &text)
    }

    /// Reads a stored snapshot; `None` if it does not exist or cannot be read.
    #[must_use]
    pub fn kept(root: &Path, path: &Path) -> Option<Self> {
        let bytes = file::read_bytes_inside(root, path, MAX_SNAPSHOT_BYTES).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Removes a stored snapshot.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to project files"
    )]
    pub fn forget(path: &Path) {
        let _gone = fs::remove_file(path);
    }
}

impl SnapshotScope<'_> {
    /// Returns true for paths that a snapshot skips: agentd's own folder, the folders of other sessions, and files that
    /// the reply may update.
    fn is_skipped(&self, path: &Path) -> bool {
        let inside: Vec<_> = path
            .strip_prefix(self.root)
            .unwrap_or(path)
            .iter()
            .collect();
        match inside[..] {
            [first] if first == paths::LOCAL_FOLDER => true,
            [first, second, change, ..] if first == "agentd" && second == "changes" => {
                let is_own_folder = change == self.session.as_str();
                let target = inside[3..].iter().collect::<PathBuf>();
                let is_target = |pattern: &String| matches_path(pattern, &target.to_string_lossy());
                !is_own_folder || self.updates.iter().any(is_target)
            }
            _ => false,
        }
    }
}

impl FileStamp {
    #[cfg(unix)]
    fn from_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let nanos =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            length: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
            file: metadata.ino(),
            mode: metadata.mode(),
        }
    }

    #[cfg(not(unix))]
    fn from_metadata(metadata: &Metadata) -> Self {
        let since = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0));
        let mode = u32::from(metadata.permissions().readonly());
        Self {
            length: metadata.len(),
            modified,
            changed: modified,
            file: 0,
            mode,
        }
    }
}

/// Calls `take` with every entry of a folder. Entries that are removed in the meantime are skipped.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
fn list(folder: &Path, mut take: impl FnMut(PathBuf, Metadata)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Ok(metadata) = entry.metadata() {
            take(entry.path(), metadata);
        }
    }
    Ok(())
}

/// Returns the git folders of a project: `.git` at its root or in the nearest parent folder. If `.git` is the file of a
/// linked worktree, returns that file, the git folder that it points to, and the common git folder of the repository.
pub(in crate::ops) fn git_folders(root: &Path) -> Vec<PathBuf> {
    let Some(git) = root
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.exists())
    else {
        return Vec::new();
    };
    if git.is_dir() {
        return vec![git];
    }
    let read_line = |path: &Path| {
        let bytes = file::read_bytes_inside(path.parent()?, path, MAX_GIT_FILE_BYTES).ok()??;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let target =
        read_line(&git).and_then(|line| Some(PathBuf::from(line.strip_prefix("gitdir:")?.trim())));
    let Some(git_dir) = target.map(|target| git.parent().unwrap_or(root).join(target)) else {
        return vec![git];
    };
    let common = read_line(&git_dir.join("commondir")).map(|target| git_dir.join(target));
    [git, git_dir].into_iter().chain(common).collect()
}

/// Adds the metadata of a file, or of the files directly in a folder.
fn stamp_all(root: &Path, path: &Path, stamps: &mut BTreeMap<String, FileStamp>) {
    let mut stamp = |path: &Path, metadata: &Metadata| {
        stamps.insert(
            visible_path(path.strip_prefix(root).unwrap_or(path)),
            FileStamp::from_metadata(metadata),
        );
    };
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {
            if list(path, |path, metadata| stamp(&path, &metadata)).is_err() {
                stamp(path, &metadata);
            }
        }
        Ok(metadata) => stamp(path, &metadata),
        Err(_) => {}
    }
}

fn unlisted(root: &Path, cause: io::Error) -> Error {
    Error::new(
        ErrorKind::FileUnusable,
        format!("cannot list the folder `{}`", root.display()),
    )
    .with_source(cause)
}
