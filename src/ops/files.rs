//! The door to project files: reading with limits, writing whole files at once.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{Operation, Planned, Site, change};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::file;
use crate::models::{BlobId, SessionId, Settlement};
use crate::store::blob_id;

/// The largest file that can be part of a prompt.
pub(super) const LARGEST: u64 = 16 * 1024 * 1024;

/// The largest reply that is read.
const LARGEST_REPLY: u64 = 2 * 1024 * 1024 * 1024;

/// Reads a text file that the user has named.
///
/// # Errors
///
/// `FileUnusable` if it is missing, or is not a readable text file of a sensible size.
pub fn read_text(path: &Path) -> Result<String> {
    file::read_text(path, LARGEST)?.ok_or_else(|| missing(path))
}

/// Reads the reply of an agent, whatever its bytes are.
///
/// # Errors
///
/// `FileUnusable` if it is missing, or is not a readable file.
pub fn read_reply(path: &Path) -> Result<Vec<u8>> {
    file::read_bytes(path, LARGEST_REPLY)?.ok_or_else(|| missing(path))
}

fn missing(path: &Path) -> Error {
    let shown = path.display().to_string();
    Error::new(ErrorKind::FileUnusable, format!("`{}` does not exist", shown.escape_debug()))
        .with_hint("paths are relative to the current folder, or to the one given with -C")
}

/// Reads a text file of the project, which must not lead out of it; `None` if there is none.
///
/// # Errors
///
/// `FileUnusable` if something is there that cannot be used.
pub fn read_project_text(root: &Path, relative: &str) -> Result<Option<String>> {
    file::read_text_inside(root, &root.join(relative), LARGEST)
}

/// Writes a new file of the project, and its folder if need be; tells whether it did. An existing file is left alone.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written.
pub fn create_new(root: &Path, relative: &str, content: &str) -> Result<bool> {
    if root.join(relative).symlink_metadata().is_ok() {
        return Ok(false);
    }
    write_whole(root, relative, content, Existing::Keep).map(|()| true).map_err(|error| {
        Error::new(ErrorKind::FileUnusable, format!("cannot write {relative}")).with_source(error)
    })
}

/// What happens to a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Keep,
    Replace,
}

/// Writes a file so that a reader sees the old or the new text, never a part. No folder on the way may be a link.
fn write_whole(root: &Path, relative: &str, content: &str, existing: Existing) -> io::Result<()> {
    let (folders, name) = relative.rsplit_once('/').unwrap_or(("", relative));
    let folder = make_folders(root, folders)?;
    let path = folder.join(name);
    let mut temporary = ordinary_file(&folder)?;
    temporary.write_all(content.as_bytes())?;
    if let Ok(before) = path.symlink_metadata()
        && before.is_file()
    {
        temporary.as_file().set_permissions(before.permissions())?;
    }
    temporary.as_file().sync_all()?;
    fail::point("writing").map_err(io::Error::other)?;
    match existing {
        Existing::Keep => temporary.persist_noclobber(path)?,
        Existing::Replace => temporary.persist(path)?,
    };
    sync_folder(&folder)?;
    fail::point("written").map_err(io::Error::other)
}

/// Makes what was renamed in a folder outlast a loss of power.
#[expect(clippy::disallowed_methods, reason = "this is the door to project files")]
fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Removes what writes that were interrupted have left in the session's folder.
#[expect(clippy::disallowed_methods, reason = "this is the door to project files")]
pub fn sweep(site: &Site<'_>) {
    let Some(session) = site.session else { return };
    let mut waiting = vec![site.root.join(change::folder(session))];
    while let Some(folder) = waiting.pop() {
        for name in file::names_in(&folder).unwrap_or_default() {
            let path = folder.join(&name);
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_dir() {
                waiting.push(path);
            } else if name.to_string_lossy().starts_with(UNFINISHED) {
                // One that cannot be removed does no harm.
                let _stays = fs::remove_file(path);
            }
        }
    }
}

/// Makes the folders of a path below a root, one by one, and refuses to go through a link.
#[expect(clippy::disallowed_methods, reason = "this is the door to project files")]
fn make_folders(root: &Path, folders: &str) -> io::Result<PathBuf> {
    let mut folder = root.to_path_buf();
    for name in folders.split('/').filter(|name| !name.is_empty()) {
        folder.push(name);
        match folder.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(found) if found.is_symlink() => return Err(io::Error::other(format!("{name} is a link"))),
            Ok(_) => return Err(io::Error::other(format!("{name} is not a folder"))),
            Err(error) if file::is_missing(&error) => fs::create_dir(&folder)?,
            Err(error) => return Err(error),
        }
    }
    Ok(folder)
}

/// What the name of a file starts with that is not written yet.
const UNFINISHED: &str = ".agentd-unfinished-";

/// Makes a temporary file with the permissions that any new file gets.
#[cfg(unix)]
fn ordinary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

#[cfg(not(unix))]
fn ordinary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)
}

/// `files.write`: writes updates into the session's folder.
pub(super) struct Write;

impl Operation for Write {
    fn name(&self) -> &'static str {
        "files.write"
    }

    fn before(&self, site: &Site<'_>, target: &str) -> Option<BlobId> {
        // What cannot be read now is told when it is to be written.
        current(site.root, &relative(site.session?, target)).ok().flatten()
    }

    fn carry_out(&self, site: &Site<'_>, planned: &Planned) -> Result<Settlement> {
        let Some(session) = site.session else {
            return Ok(planned
                .settled(false, "nothing is written without a session; name one with --change".to_owned()));
        };
        let relative = relative(session, &planned.effect.target);
        Ok(match write_target(site.root, &relative, planned) {
            Ok(words) => planned.settled(true, format!("{words} {relative}")),
            Err(error) => planned.settled(false, format!("cannot write {relative}: {error}")),
        })
    }
}

fn relative(session: &SessionId, target: &str) -> String {
    format!("{}/{target}", change::folder(session))
}

/// Returns the hash of what a file of the project holds; `None` if there is none.
fn current(root: &Path, relative: &str) -> io::Result<Option<BlobId>> {
    let bytes = file::read_bytes_inside(root, &root.join(relative), LARGEST).map_err(io::Error::other)?;
    Ok(bytes.map(|bytes| blob_id(&bytes)))
}

/// Writes a file if it still holds what it held when this was decided, or does nothing if it was written already.
fn write_target(root: &Path, relative: &str, planned: &Planned) -> io::Result<&'static str> {
    let content = &planned.effect.content;
    let now = current(root, relative)?;
    if now == Some(blob_id(content.as_bytes())) {
        return Ok("left unchanged");
    }
    if now != planned.before {
        return Err(io::Error::other("it has changed since the prompt was made"));
    }
    write_whole(root, relative, content, Existing::Replace)?;
    Ok(if now.is_some() { "replaced" } else { "wrote" })
}
