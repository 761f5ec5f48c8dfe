//! The work tree before and after a call: who may only read has changed nothing, or is told to have.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::tree::{Rules, is_ignored, read_rules, rules_above, visible_path};
use super::user_files::write_own;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::{SessionId, paths};
use crate::text::glob::matches_path;

/// The largest census that is read back.
const LARGEST: u64 = 1 << 30;

/// The longest file that only names a folder.
const LONGEST_LINE: u64 = 4096;

/// What of git's own folder an agent could do harm with.
const GIT: [&str; 3] = ["HEAD", "config", "hooks"];

/// Every file of a project, and what would show that it was touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSnapshot(BTreeMap<String, Stamp>);

/// What would show that a file was touched. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    length: u64,
    modified: i128,
    /// When anything about it changed, its name and its rights too; nobody can set it at will.
    changed: i128,
    file: u64,
    mode: u32,
}

/// What belongs to a census.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotScope<'a> {
    /// The project's root.
    pub root: &'a Path,
    /// The session whose call it is; the folders of others are theirs.
    pub session: &'a SessionId,
    /// What the reply may update: whoever else changes it is found out when it is written.
    pub updates: &'a [String],
    /// Tells files that are looked at even if git ignores them.
    pub always: fn(&Path) -> bool,
}

impl TreeSnapshot {
    /// Looks at every file of a project: what git does not ignore, what is always looked at, and what of git's own
    /// folder could do harm. Folders that git ignores are not looked into.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the root cannot be listed.
    pub fn take(counted: &SnapshotScope<'_>) -> Result<Self> {
        let root = counted.root;
        let (mut stamps, mut gits) = (BTreeMap::new(), Vec::new());
        let mut rules = rules_above(root);
        let above = rules.len().checked_sub(1);
        let mut folders = vec![(root.to_path_buf(), above)];
        while let Some((folder, above)) = folders.pop() {
            rules.push(Rules {
                own: read_rules(root, &folder),
                above,
            });
            let here = rules.len() - 1;
            let listed = list(&folder, |path, metadata| {
                let ignored = is_ignored(&path, metadata.is_dir(), &rules, here);
                let name = path.file_name().unwrap_or_default();
                // Rules that hide files are told themselves, or who writes some could hide what else is written.
                let always = || name == ".gitignore" || name == ".git" || (counted.always)(&path);
                if counted.is_ours(&path) {
                } else if metadata.is_dir() && name == ".git" {
                    gits.push(path);
                } else if metadata.is_dir() && !ignored {
                    folders.push((path, Some(here)));
                } else if !metadata.is_dir() && (!ignored || always()) {
                    stamps.insert(
                        visible_path(path.strip_prefix(root).unwrap_or(&path)),
                        Stamp::of(&metadata),
                    );
                }
            });
            match listed {
                Err(cause) if folder == root => return Err(unlisted(root, cause)),
                // One that was made unreadable is a change, too.
                Err(_) => stamp_all(root, &folder, &mut stamps),
                Ok(()) => {}
            }
        }
        gits.extend(git_folders(root));
        for (git, name) in gits.iter().flat_map(|git| GIT.map(|name| (git, name))) {
            stamp_all(root, &git.join(name), &mut stamps);
        }
        Ok(Self(stamps))
    }

    /// Returns what differs between this census and a later one: the paths, sorted. What was touched after a moment
    /// does not count, if one is given.
    #[must_use]
    pub fn changes(&self, later: &Self, until: Option<SystemTime>) -> Vec<String> {
        let until = until.and_then(|until| until.duration_since(UNIX_EPOCH).ok());
        let until = until.map_or(i128::MAX, |until| {
            i128::try_from(until.as_nanos()).unwrap_or(i128::MAX)
        });
        let touched = later.0.iter().filter(|(path, stamp)| {
            self.0.get(*path).is_none_or(|before| before != *stamp) && stamp.changed <= until
        });
        // When a file was removed cannot be told afterwards.
        let gone = self.0.keys().filter(|path| !later.0.contains_key(*path));
        let mut paths: Vec<String> = touched
            .map(|(path, _)| path.clone())
            .chain(gone.cloned())
            .collect();
        paths.sort();
        paths
    }

    /// Keeps a census in a file of the program's own.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if it cannot be written.
    pub fn keep(&self, folder: &Path, name: &str) -> Result<()> {
        let text = serde_json::to_string(self).unwrap_or_default();
        write_own(folder, name, &text)
    }

    /// Returns a census that was kept; `None` if there is none.
    #[must_use]
    pub fn kept(root: &Path, path: &Path) -> Option<Self> {
        let bytes = file::read_bytes_inside(root, path, LARGEST).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Removes a census that was kept.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to project files"
    )]
    pub fn forget(path: &Path) {
        let _gone = fs::remove_file(path);
    }
}

impl SnapshotScope<'_> {
    /// Tells what belongs to the program or to another session.
    fn is_ours(&self, path: &Path) -> bool {
        let inside: Vec<_> = path
            .strip_prefix(self.root)
            .unwrap_or(path)
            .iter()
            .collect();
        match inside[..] {
            [first] if first == paths::LOCAL_FOLDER => true,
            [first, second, change, ..] if first == "agentd" && second == "changes" => {
                let own = change == self.session.as_str();
                let target = inside[3..].iter().collect::<PathBuf>();
                let is_target = |pattern: &String| matches_path(pattern, &target.to_string_lossy());
                !own || self.updates.iter().any(is_target)
            }
            _ => false,
        }
    }
}

impl Stamp {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
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
    fn of(metadata: &Metadata) -> Self {
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

/// Hands on every entry of a folder; what is gone again is passed over.
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

/// Returns where git keeps what belongs to a project: in a folder of it or above it, or where a worktree's file says.
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
    let line = |path: &Path| {
        let bytes = file::read_bytes_inside(path.parent()?, path, LONGEST_LINE).ok()??;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let told =
        line(&git).and_then(|line| Some(PathBuf::from(line.strip_prefix("gitdir:")?.trim())));
    let Some(own) = told.map(|told| git.parent().unwrap_or(root).join(told)) else {
        return vec![git];
    };
    let common = line(&own.join("commondir")).map(|told| own.join(told));
    [git, own].into_iter().chain(common).collect()
}

/// Stamps a file, or the files right in a folder.
fn stamp_all(root: &Path, path: &Path, stamps: &mut BTreeMap<String, Stamp>) {
    let mut stamp = |path: &Path, metadata: &Metadata| {
        stamps.insert(
            visible_path(path.strip_prefix(root).unwrap_or(path)),
            Stamp::of(metadata),
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
        format!("cannot list `{}`", root.display()),
    )
    .with_source(cause)
}
