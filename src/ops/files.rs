//! The door to project files: reading with limits, writing whole files at once.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{Operation, Site, change};
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::{Effect, Settlement};

/// The largest file that can be part of a prompt.
const LARGEST: u64 = 16 * 1024 * 1024;

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
    match existing {
        Existing::Keep => temporary.persist_noclobber(path)?,
        Existing::Replace => temporary.persist(path)?,
    };
    Ok(())
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

/// Makes a temporary file with the permissions that any new file gets.
#[cfg(unix)]
fn ordinary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}

#[cfg(not(unix))]
fn ordinary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::NamedTempFile::new_in(folder)
}

/// `files.write`: writes updates into the session's folder.
pub(super) struct Write;

impl Operation for Write {
    fn name(&self) -> &'static str {
        "files.write"
    }

    fn run(&self, site: &Site<'_>, effects: &[&Effect]) -> Result<Vec<Settlement>> {
        Ok(effects.iter().map(|effect| settle(site, effect)).collect())
    }
}

fn settle(site: &Site<'_>, effect: &Effect) -> Settlement {
    let (done, detail) = match site.session {
        None => (false, "no change was named; name one with --change".to_owned()),
        Some(session) => {
            let relative = format!("{}/{}", change::folder(session), effect.target);
            match write_target(site.root, &relative, &effect.content) {
                Ok(words) => (true, format!("{words} {relative}")),
                Err(error) => (false, format!("cannot write {relative}: {error}")),
            }
        }
    };
    Settlement { operation: effect.operation.clone(), target: effect.target.clone(), done, detail }
}

fn write_target(root: &Path, relative: &str, content: &str) -> io::Result<&'static str> {
    let before = read_project_text(root, relative).ok().flatten();
    if before.as_deref() == Some(content) {
        return Ok("left unchanged");
    }
    write_whole(root, relative, content, Existing::Replace)?;
    Ok(if before.is_some() { "replaced" } else { "wrote" })
}
