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

/// Reads a text file that the user has named.
///
/// # Errors
///
/// `FileUnusable` if it is missing, or is not a readable text file of a sensible size.
pub fn read_text(path: &Path) -> Result<String> {
    file::read_text(path, LARGEST)?.ok_or_else(|| {
        let shown = path.display().to_string();
        Error::new(ErrorKind::FileUnusable, format!("`{}` does not exist", shown.escape_debug()))
            .with_hint("paths are relative to the current folder, or to the one given with -C")
    })
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
    let path = root.join(relative);
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    write_whole(root, &path, content).map(|()| true).map_err(|error| {
        Error::new(ErrorKind::FileUnusable, format!("cannot write {relative}")).with_source(error)
    })
}

/// Writes a file so that a reader sees the old or the new text, never a part; never through a link out of `root`.
#[expect(clippy::disallowed_methods, reason = "this is the door to project files")]
fn write_whole(root: &Path, path: &Path, content: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder)?;
    if !folder.canonicalize()?.starts_with(root.canonicalize()?) {
        return Err(io::Error::other("the folder is a link that leads out of the project"));
    }
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(content.as_bytes())?;
    set_mode(temporary.as_file())?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    Ok(())
}

/// Gives a temporary file, which only its owner may read, the permissions of an ordinary one.
#[cfg(unix)]
fn set_mode(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn set_mode(_file: &fs::File) -> io::Result<()> {
    Ok(())
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
    let path: PathBuf = root.join(relative);
    let before = read_project_text(root, relative).ok().flatten();
    if before.as_deref() == Some(content) {
        return Ok("left unchanged");
    }
    write_whole(root, &path, content)?;
    Ok(if before.is_some() { "replaced" } else { "wrote" })
}
