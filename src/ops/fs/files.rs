//! Reads project files with size limits, and writes whole files atomically.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::beneath::{MissingFolders, OpenFolder};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::file;
use crate::models::SessionId;
use crate::models::paths::change_folder;

/// Maximum size of a file that is read for a prompt or written, in bytes.
pub(in crate::ops) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum size of a reply in a file, in bytes.
const MAX_REPLY_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Reads a text file that the user has named.
///
/// # Errors
///
/// `FileUnusable` if it is missing, not a readable UTF-8 file, or too large.
pub fn read_text(path: &Path) -> Result<String> {
    file::read_text(path, MAX_FILE_BYTES)?.ok_or_else(|| missing(path))
}

/// Reads a text file that the user has named as `path`. `target` is that path with all symlinks resolved: below the
/// folder `root` no symlink is followed, even if a part of `target` was replaced with one in the meantime.
///
/// # Errors
///
/// Those of [`read_text`].
pub fn read_resolved_text(root: &Path, path: &Path, target: &Path) -> Result<String> {
    match file::ResolvedFile::at(root, target, path) {
        Some(file) => file.read_text(MAX_FILE_BYTES)?.ok_or_else(|| missing(path)),
        None => read_text(path),
    }
}

/// Reads the reply of an agent, which need not be UTF-8.
///
/// # Errors
///
/// `FileUnusable` if it is missing, or is not a readable file.
pub fn read_reply(path: &Path) -> Result<Vec<u8>> {
    file::read_bytes(path, MAX_REPLY_BYTES)?.ok_or_else(|| missing(path))
}

fn missing(path: &Path) -> Error {
    let shown = path.display().to_string();
    Error::new(
        ErrorKind::FileUnusable,
        format!("`{}` does not exist", shown.escape_debug()),
    )
    .with_hint("paths are relative to the current folder, or to the folder set with -C")
}

/// Reads a text file of the project; `None` if it does not exist.
///
/// # Errors
///
/// `FileUnusable` if it cannot be read, or if a symlink on its path leads out of the project.
pub fn read_project_text(root: &Path, relative: &str) -> Result<Option<String>> {
    file::read_text_inside(root, &root.join(relative), MAX_FILE_BYTES)
}

/// Creates a file of the project, and its folder. Returns false if the file already exists, and leaves it unchanged.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written.
pub fn create_new(root: &Path, relative: &str, content: &str) -> Result<bool> {
    if root.join(relative).symlink_metadata().is_ok() {
        return Ok(false);
    }
    write_whole(
        root,
        relative,
        content,
        ExistingFile::Keep,
        UNFINISHED_PREFIX,
    )
    .map(|()| true)
    .map_err(|error| {
        Error::new(
            ErrorKind::FileUnusable,
            format!("cannot write `{relative}`"),
        )
        .with_source(error)
    })
}

/// Removes a symlink, or a folder and everything in it, that takes the place of a regular file.
///
/// # Errors
///
/// `FileUnusable` if it cannot be removed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
pub(in crate::ops) fn clear_path(root: &Path, relative: &str) -> Result<()> {
    let path = root.join(relative);
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
        Ok(metadata) if metadata.is_symlink() => fs::remove_file(&path),
        _ => Ok(()),
    };
    removed.map_err(|error| {
        Error::new(
            ErrorKind::FileUnusable,
            format!("cannot remove `{relative}`"),
        )
        .with_source(error)
    })
}

/// Removes a file of the project, if it exists.
///
/// # Errors
///
/// `FileUnusable` if it cannot be removed.
pub(in crate::ops) fn remove_file(root: &Path, relative: &str) -> Result<()> {
    match remove_entry(root, relative) {
        Err(error) if !file::is_missing(&error) => Err(Error::new(
            ErrorKind::FileUnusable,
            format!("cannot remove `{relative}`"),
        )
        .with_source(error)),
        _ => Ok(()),
    }
}

/// Creates a folder and its parents.
///
/// # Errors
///
/// `FileUnusable` if it cannot be created.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let message = format!(
            "cannot create the folder `{}`",
            path.display().to_string().escape_debug()
        );
        Error::new(ErrorKind::FileUnusable, message).with_source(error)
    })
}

/// Creates a folder in the system's folder for temporary files.
///
/// # Errors
///
/// `FileUnusable` if it cannot be created.
pub fn temporary_folder(prefix: &str) -> Result<PathBuf> {
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .map(tempfile::TempDir::keep)
        .map_err(|error| {
            Error::new(ErrorKind::FileUnusable, "cannot create a temporary folder")
                .with_source(error)
        })
}

/// Writes a file of the project; an existing one is replaced.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written.
pub fn write_text(root: &Path, relative: &str, content: &str) -> Result<()> {
    write_whole(
        root,
        relative,
        content,
        ExistingFile::Replace,
        UNFINISHED_PREFIX,
    )
    .map_err(|error| {
        Error::new(
            ErrorKind::FileUnusable,
            format!("cannot write `{relative}`"),
        )
        .with_source(error)
    })
}

/// Handling of an existing file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingFile {
    Keep,
    Replace,
}

/// Writes a file atomically: a reader sees the old or the new text, never a part of it. Fails if a folder on its path
/// is a symlink.
fn write_whole(
    root: &Path,
    relative: &str,
    content: &str,
    existing: ExistingFile,
    prefix: &str,
) -> io::Result<()> {
    let (folder, name) = OpenFolder::open_parent(root, relative, MissingFolders::Create)?;
    let mut unfinished = folder.create(prefix)?;
    unfinished.file.write_all(content.as_bytes())?;
    if let Some(permissions) = folder.permissions(name) {
        unfinished.set_permissions(permissions)?;
    }
    unfinished.file.sync_all()?;

    fail::point("writing").map_err(io::Error::other)?;
    match existing {
        ExistingFile::Keep => unfinished.keep(name)?,
        ExistingFile::Replace => unfinished.replace(name)?,
    }
    folder.sync()?;
    fail::point("written").map_err(io::Error::other)
}

/// Removes temporary files of interrupted writes: in the session's folder, and next to the project files `edited`.
pub fn remove_unfinished<'e>(
    root: &Path,
    session: &SessionId,
    edited: impl Iterator<Item = &'e str>,
) {
    let mut pending = vec![root.join(change_folder(session))];
    while let Some(folder) = pending.pop() {
        pending.extend(remove_with_prefix(&folder, UNFINISHED_PREFIX));
    }

    let folders: BTreeSet<PathBuf> = edited
        .filter_map(|target| Some(root.join(target).parent()?.to_path_buf()))
        .collect();
    // Other sessions may be writing to these folders, so only this session's files are removed.
    for folder in folders {
        remove_with_prefix(&folder, &unfinished_prefix(session));
    }
}

/// Removes the files in a folder whose names start with a prefix, and returns the subfolders. Symlinks are not
/// followed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
fn remove_with_prefix(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for name in file::names_in(folder).unwrap_or_default() {
        let path = folder.join(&name);
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            folders.push(path);
        } else if name.to_string_lossy().starts_with(prefix) {
            // A file that cannot be removed does no harm.
            let _ignored = fs::remove_file(path);
        }
    }
    folders
}

/// Prefix of the names of temporary files.
const UNFINISHED_PREFIX: &str = ".agentd-unfinished-";

/// Returns the prefix of the names of a session's temporary files.
fn unfinished_prefix(session: &SessionId) -> String {
    format!("{UNFINISHED_PREFIX}{session}~")
}

/// Like [`write_text`], but names the temporary file after the session, so that [`remove_unfinished`] finds it.
pub(in crate::ops) fn replace_file(
    root: &Path,
    relative: &str,
    content: &str,
    session: &SessionId,
) -> io::Result<()> {
    let prefix = unfinished_prefix(session);
    write_whole(root, relative, content, ExistingFile::Replace, &prefix)
}

/// Removes a file of the project; fails if it does not exist, or if a folder on its path is a symlink.
pub(in crate::ops) fn remove_entry(root: &Path, relative: &str) -> io::Result<()> {
    let (folder, name) = OpenFolder::open_parent(root, relative, MissingFolders::Fail)?;
    fail::point("writing").map_err(io::Error::other)?;
    folder.remove(name)?;
    folder.sync()?;
    fail::point("written").map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Several changes of one project may create `agentd/changes` at the same moment.
    #[test]
    fn folders_that_several_make_at_once_are_made_by_all() {
        for _ in 0..50 {
            let root = tempfile::tempdir().unwrap();
            let barrier = Barrier::new(8);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        barrier.wait();
                        OpenFolder::open_parent(
                            root.path(),
                            "agentd/changes/a/specs/x",
                            MissingFolders::Create,
                        )
                        .unwrap();
                    });
                }
            });
        }
    }
}
