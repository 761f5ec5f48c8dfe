//! The door to files outside the project that only the user may read and write.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::file;

/// Returns the names in a folder that only the user can write to; none if it does not exist.
///
/// # Errors
///
/// `FileUnusable` if it is writable by other users, or it is not a folder.
pub fn private_names(folder: &Path) -> Result<Vec<String>> {
    match check_private(folder) {
        Ok(()) => Ok(file::names_in(folder)?
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()),
        Err(error) if file::is_missing(&error) => Ok(Vec::new()),
        Err(error) => Err(unusable(folder, "is not safe to use")
            .with_source(error)
            .with_hint(format!(
                "check its content, then run `chown` and `chmod 700 {}`",
                folder.display().to_string().escape_debug()
            ))),
    }
}

/// Checks that nobody else owns or can write to the folder of the user's settings and some entries in it.
///
/// A process that can write there decides which commands are run. Missing paths are accepted. Links are followed,
/// because settings are often kept elsewhere and linked.
///
/// # Errors
///
/// `FileUnusable` with a hint to the command that fixes it.
pub fn check_own(folder: &Path, entries: &[&str]) -> Result<()> {
    let paths =
        std::iter::once(folder.to_path_buf()).chain(entries.iter().map(|entry| folder.join(entry)));
    for path in paths {
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if let Some(why) = written_by_others(&metadata) {
            let shown = path.display().to_string().escape_debug().to_string();
            return Err(
                Error::new(ErrorKind::FileUnusable, format!("`{shown}` {why}")).with_hint(format!(
                    "check its content, then run `chown` and `chmod go-w {shown}`"
                )),
            );
        }
    }
    Ok(())
}

/// Returns the reason why a file cannot be trusted, if someone else can write to it. A group with the user's own id,
/// as many systems create for each user, counts as the user.
#[cfg(unix)]
fn written_by_others(metadata: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    let is_own_group = metadata.gid() == metadata.uid() && metadata.uid() != 0;
    let others = if is_own_group { 0o002 } else { 0o022 };
    (metadata.mode() & others != 0).then_some("is writable by other users")
}

#[cfg(not(unix))]
fn written_by_others(_: &std::fs::Metadata) -> Option<&'static str> {
    None
}

/// Writes a file atomically that only the user can read, into a folder that only the user can open.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written, or if others can write to the folder.
pub fn write_private(folder: &Path, name: &str, content: &str) -> Result<()> {
    let write = || {
        make_private(folder)?;
        check_private(folder)?;
        write_atomically(folder, name, content, true)
    };
    write().map_err(|error| unusable(folder, "is not writable").with_source(error))
}

/// Removes a file of a folder that only the user can use. A missing file is no failure.
///
/// # Errors
///
/// `FileUnusable` if it cannot be removed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to what is kept for the user"
)]
pub fn remove_private(folder: &Path, name: &str) -> Result<()> {
    match std::fs::remove_file(folder.join(name)) {
        Err(error) if !file::is_missing(&error) => {
            Err(unusable(folder, "is not writable").with_source(error))
        }
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
            return Err(io::Error::other("it is a link"));
        }
        write_atomically(folder, name, content, false)
    };
    write().map_err(|error| unusable(folder, "is not writable").with_source(error))
}

fn write_atomically(folder: &Path, name: &str, content: &str, lasting: bool) -> io::Result<()> {
    // Temporary files are created with permissions for the user alone, and keep them when they are renamed.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(content.as_bytes())?;
    if lasting {
        temporary.as_file().sync_all()?;
    }
    temporary.persist(folder.join(name))?;
    Ok(())
}

fn unusable(folder: &Path, what: &str) -> Error {
    let shown = folder.display().to_string();
    Error::new(
        ErrorKind::FileUnusable,
        format!("`{}` {what}", shown.escape_debug()),
    )
}

/// Creates a folder and its missing parents with permissions for the user alone.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Refuses anything but a folder that belongs to the user and that others cannot write to.
fn check_private(folder: &Path) -> io::Result<()> {
    let metadata = folder.symlink_metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other("it is writable by other users"));
        }
    }
    Ok(())
}
