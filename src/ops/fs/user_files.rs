//! Access to files outside the project that only the user may read and write.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::file;

/// Returns the names in a folder that only the user can write to; empty if the folder does not exist.
///
/// # Errors
///
/// `FileUnusable` if the folder belongs to another user or is writable by others, or if it is not a folder.
pub fn private_names(folder: &Path) -> Result<Vec<String>> {
    match check_private(folder) {
        Ok(()) => Ok(file::names_in(folder)?
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()),
        Err(error) if file::is_missing(&error) => Ok(Vec::new()),
        Err(error) => {
            let shown = folder.display().to_string().escape_debug().to_string();
            let message = format!("`{shown}` is not safe to use");
            let hint = match error.kind() {
                io::ErrorKind::NotADirectory => "move it away".to_owned(),
                _ => format!(
                    "check its content, then run `chown $USER {shown}` and `chmod 700 {shown}`"
                ),
            };
            Err(Error::new(ErrorKind::FileUnusable, message)
                .with_source(error)
                .with_hint(hint))
        }
    }
}

/// Checks that no other user owns or can write to the folder of the user's settings and the named entries in it.
///
/// The settings decide which commands are run. Missing paths are accepted. Symlinks are followed, because settings are
/// often kept in another folder and symlinked.
///
/// # Errors
///
/// `FileUnusable` if another user owns or can write to one of them; the hint names the commands that fix it.
pub fn check_own(folder: &Path, entries: &[&str]) -> Result<()> {
    let paths =
        std::iter::once(folder.to_path_buf()).chain(entries.iter().map(|entry| folder.join(entry)));
    for path in paths {
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if let Some(why) = unsafe_reason(&metadata) {
            let shown = path.display().to_string().escape_debug().to_string();
            return Err(
                Error::new(ErrorKind::FileUnusable, format!("`{shown}` {why}")).with_hint(format!(
                    "check its content, then run `chown $USER {shown}` and `chmod go-w {shown}`"
                )),
            );
        }
    }
    Ok(())
}

/// Returns the reason why a file is not safe to use, if another user owns it or can write to it. A group with the
/// user's own id, which many systems create for each user, counts as the user.
#[cfg(unix)]
fn unsafe_reason(metadata: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    let is_own_group = metadata.gid() == metadata.uid() && metadata.uid() != 0;
    let others = if is_own_group { 0o002 } else { 0o022 };
    (metadata.mode() & others != 0).then_some("is writable by other users")
}

#[cfg(not(unix))]
fn unsafe_reason(_: &std::fs::Metadata) -> Option<&'static str> {
    None
}

/// Writes a file atomically that only the user can read, into a folder that only the user can open.
///
/// # Errors
///
/// `FileUnusable` if the file cannot be written, or if other users can write to the folder.
pub fn write_private(folder: &Path, name: &str, content: &str) -> Result<()> {
    let write = || {
        make_private(folder)?;
        check_private(folder)?;
        write_atomically(folder, name, content, true)
    };
    write().map_err(|error| cannot("write", &folder.join(name), error))
}

/// Removes a file in a folder that only the user can use. A missing file is not an error.
///
/// # Errors
///
/// `FileUnusable` if it cannot be removed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the user's files"
)]
pub fn remove_private(folder: &Path, name: &str) -> Result<()> {
    match std::fs::remove_file(folder.join(name)) {
        Err(error) if !file::is_missing(&error) => Err(cannot("remove", &folder.join(name), error)),
        _ => Ok(()),
    }
}

/// Writes a file atomically that only the user can read, without syncing it to the disk.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written.
pub(in crate::ops) fn write_own(folder: &Path, name: &str, content: &str) -> Result<()> {
    let write = || {
        make_private(folder)?;
        if folder.symlink_metadata()?.is_symlink() {
            return Err(io::Error::other("the folder is a symlink"));
        }
        write_atomically(folder, name, content, false)
    };
    write().map_err(|error| cannot("write", &folder.join(name), error))
}

fn write_atomically(folder: &Path, name: &str, content: &str, sync: bool) -> io::Result<()> {
    // Temporary files are created with permissions for the user only, and keep them when they are renamed.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(content.as_bytes())?;
    if sync {
        temporary.as_file().sync_all()?;
    }
    temporary.persist(folder.join(name))?;
    Ok(())
}

/// Returns the error for a file that could not be written or removed.
fn cannot(verb: &str, path: &Path, error: io::Error) -> Error {
    let shown = path.display().to_string();
    let message = format!("cannot {verb} `{}`", shown.escape_debug());
    Error::new(ErrorKind::FileUnusable, message).with_source(error)
}

/// Creates a folder and its missing parents with permissions for the user only.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Fails unless the path is a folder that belongs to the user and that others cannot write to.
fn check_private(folder: &Path) -> io::Result<()> {
    let metadata = folder.symlink_metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::other("the path is not a folder"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::other("the folder belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other("the folder is writable by other users"));
        }
    }
    Ok(())
}
