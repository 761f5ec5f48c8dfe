//! Reads text files: regular files, within a size, inside a folder if they must be, and UTF-8.
//!
//! Both `pack/source.rs` and the room `ops` read files through this module, so the rules exist once.
//!
//! ```
//! use agentd::file::read_text;
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("notes.md");
//! assert_eq!(read_text(&path, 1024)?, None);
//!
//! std::fs::write(&path, "Two loaves\n").unwrap();
//! assert_eq!(read_text(&path, 1024)?.as_deref(), Some("Two loaves\n"));
//! assert!(read_text(&path, 4).is_err());
//! # Ok::<(), agentd::Error>(())
//! ```

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Reads a text file; `None` if there is none.
///
/// # Errors
///
/// `FileUnusable` if there is something that is not a readable UTF-8 text file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<Option<String>> {
    read_limited(path, limit)?
        .map(|bytes| into_text(path, bytes))
        .transpose()
}

/// Reads a text file that must not lead out of a folder, however it is linked.
///
/// # Errors
///
/// Those of [`read_text`], and `FileUnusable` for a link that leads out or nowhere.
pub fn read_text_inside(folder: &Path, path: &Path, limit: u64) -> Result<Option<String>> {
    match inside(folder, path)? {
        Some(target) => read_text(&target, limit),
        None => Ok(None),
    }
}

/// Returns where a path inside a folder leads; `None` if nothing is there.
fn inside(folder: &Path, path: &Path) -> Result<Option<PathBuf>> {
    // Most files that are looked for are not there: that is told by one call, not by resolving every folder above.
    if path
        .symlink_metadata()
        .is_err_and(|error| is_missing(&error))
    {
        return Ok(None);
    }
    let (Ok(folder), Ok(target)) = (folder.canonicalize(), path.canonicalize()) else {
        return Err(unusable(path, "is a link that leads nowhere"));
    };
    if !target.starts_with(&folder) {
        return Err(unusable(path, "is a link that leads out of the project")
            .with_hint("a repository may not pull other files of this machine into a prompt"));
    }
    Ok(Some(target))
}

/// Reads the bytes of a file; `None` if there is none.
///
/// # Errors
///
/// `FileUnusable` as for [`read_text`], but for what the bytes mean.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    read_limited(path, limit)
}

fn read_limited(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match path.metadata() {
        Ok(metadata) => check_kind(path, &metadata)?,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(unusable(path, "cannot be looked at").with_source(error)),
    }
    match open_nonblocking(path) {
        Ok(file) => read_opened(path, file, limit).map(Some),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(unusable(path, "cannot be read").with_source(error)),
    }
}

/// Opens a regular file for reading.
///
/// # Errors
///
/// Those of the system, and `InvalidInput` for what is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let check = |metadata: &Metadata| {
        if metadata.is_file() {
            return Ok(());
        }
        let message = format!("{} is not a regular file", shown(path));
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    };
    check(&path.metadata()?)?;
    let file = open_nonblocking(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads the bytes of a file that is open. Its path is for messages only.
///
/// # Errors
///
/// `FileUnusable` if it is not a regular file of at most `limit` bytes.
pub fn read_opened(path: &Path, file: File, limit: u64) -> Result<Vec<u8>> {
    let unreadable = |error| unusable(path, "cannot be read").with_source(error);
    let metadata = file.metadata().map_err(unreadable)?;
    check_kind(path, &metadata)?;
    check_size(path, metadata.len(), limit)?;

    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    check_size(path, bytes.len() as u64, limit)?;
    Ok(bytes)
}

/// Returns the names in a folder, sorted by bytes; none if there is no such folder.
///
/// # Errors
///
/// `FileUnusable` if it cannot be listed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where folders are listed"
)]
pub fn names_in(folder: &Path) -> Result<Vec<OsString>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(folder, "cannot be listed").with_source(error)),
    };
    let mut names = entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| unusable(folder, "cannot be listed").with_source(error))?;
    names.sort_unstable();
    Ok(names)
}

/// Reads the bytes of a file that must not lead out of a folder; `None` if there is none.
///
/// # Errors
///
/// `FileUnusable` as for [`read_text_inside`], but for what the bytes mean.
pub fn read_bytes_inside(folder: &Path, path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match inside(folder, path)? {
        Some(target) => read_limited(&target, limit),
        None => Ok(None),
    }
}

/// Tells whether an error means that there is no such file.
#[must_use]
pub fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unusable(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::FileUnusable, format!("{} {what}", shown(path)))
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display().to_string().escape_debug())
}

fn check_kind(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    if metadata.is_dir() {
        return Err(
            unusable(path, "is a folder, not a file").with_hint("name the files in it one by one")
        );
    }
    Err(unusable(path, "is not a regular file")
        .with_hint("pipes, sockets and devices are not read"))
}

fn check_size(path: &Path, size: u64, limit: u64) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(
        unusable(path, &format!("is too large: over {}", in_units(limit)))
            .with_hint("give the agent the part that matters"),
    )
}

/// Opens a file for reading. Its kind was checked before, but a named pipe may have taken its place, which must not
/// block; the caller checks the kind again. The standard library has no flag for that.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where files are opened for reading"
)]
fn open_nonblocking(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(all(unix, feature = "run"))]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        nix::fcntl::OFlag::O_NONBLOCK.bits(),
    );
    options.open(path)
}

fn into_text(path: &Path, bytes: Vec<u8>) -> Result<String> {
    if bytes.contains(&0) {
        return Err(
            unusable(path, "is a binary file").with_hint("only text can be part of a prompt")
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        unusable(path, &format!("is not UTF-8 text (byte {offset})"))
            .with_hint("convert it, for example with `iconv -t UTF-8`")
    })
}

/// Returns a number of bytes as people say it.
#[must_use]
pub fn in_units(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}
