//! Safe reading of files: only regular files, up to a size, optionally only inside a folder, and UTF-8 for text.
//!
//! Packs and operations both read files through this module, so the rules exist once.
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

/// Reads a text file; `None` if it does not exist.
///
/// # Errors
///
/// `FileUnusable` if the file is not a readable UTF-8 text file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<Option<String>> {
    read_limited(path, limit)?
        .map(|bytes| into_text(path, bytes))
        .transpose()
}

/// Reads a text file that must be inside a folder after all symlinks are resolved.
///
/// # Errors
///
/// Those of [`read_text`], and `FileUnusable` for a symlink that is broken or points outside of the folder.
pub fn read_text_inside(folder: &Path, path: &Path, limit: u64) -> Result<Option<String>> {
    match resolve_inside(folder, path)? {
        Some(resolved) => resolved.read_text(limit),
        None => Ok(None),
    }
}

/// A file inside a folder, with all symlinks of its path resolved.
///
/// Between resolving and opening, another process may replace a parent folder with a symlink. So the file is not opened by
/// its path: each parent folder is opened relative to the one above it (`openat`), without following symlinks.
#[derive(Debug, PartialEq, Eq)]
pub struct ResolvedFile {
    folder: PathBuf,
    relative: PathBuf,
    /// Path for messages.
    shown: PathBuf,
}

impl ResolvedFile {
    /// Creates a resolved file from a path without symlinks; `None` if the path is not below the folder. Messages show
    /// `shown` instead of the path.
    #[must_use]
    pub fn at(folder: &Path, path: &Path, shown: &Path) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let relative = path.strip_prefix(&folder).ok()?.to_path_buf();
        Some(Self {
            folder,
            relative,
            shown: shown.to_path_buf(),
        })
    }

    /// Reads the bytes of the file; `None` if the file was removed.
    ///
    /// # Errors
    ///
    /// `FileUnusable` as for [`read_bytes`], and if a symlink has replaced the file or a parent folder.
    pub fn read(&self, limit: u64) -> Result<Option<Vec<u8>>> {
        let path = &self.shown;
        // Opening a device can have side effects, so the file type is checked first.
        match self.folder.join(&self.relative).symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {}
            Ok(metadata) => check_kind(path, &metadata)?,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(unusable(path, "cannot be accessed").with_source(error)),
        }
        match open_beneath(&self.folder, &self.relative) {
            Ok(file) => read_opened(path, file, limit).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(path, "cannot be read").with_source(error)),
        }
    }

    /// Reads the text of the file; `None` if the file was removed.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], and `FileUnusable` if the file is not UTF-8 text.
    pub fn read_text(&self, limit: u64) -> Result<Option<String>> {
        self.read(limit)?
            .map(|bytes| into_text(&self.shown, bytes))
            .transpose()
    }
}

/// Opens a file for reading, each part of its path relative to the opened parent folder. No symlink is followed, not even
/// if `folder` is one.
#[cfg(all(unix, feature = "run"))]
fn open_beneath(folder: &Path, relative: &Path) -> io::Result<File> {
    use nix::errno::Errno;
    use nix::fcntl::{OFlag, open, openat};
    use nix::sys::stat::Mode;
    use std::path::Component;

    // O_PATH needs only search permission on a folder.
    #[cfg(target_os = "linux")]
    let search = OFlag::O_PATH;
    #[cfg(not(target_os = "linux"))]
    let search = OFlag::O_RDONLY;
    let folder_flags = search | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file_flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let explain_error = |result: nix::Result<_>| {
        result.map_err(|error| match error {
            Errno::ELOOP | Errno::ENOTDIR => {
                io::Error::other("a part of the path was replaced by a symlink or a file")
            }
            error => io::Error::from(error),
        })
    };

    let mut opened = explain_error(open(folder, folder_flags, Mode::empty()))?;
    let mut names = relative.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else {
            return Err(io::Error::other("the path is not a plain relative path"));
        };
        let flags = if names.peek().is_some() {
            folder_flags
        } else {
            file_flags
        };
        opened = explain_error(openat(&opened, name, flags, Mode::empty()))?;
    }
    Ok(File::from(opened))
}

/// Opens a file for reading. Without the feature `run`, `openat` is not available.
#[cfg(not(all(unix, feature = "run")))]
fn open_beneath(folder: &Path, relative: &Path) -> io::Result<File> {
    open_nonblocking(&folder.join(relative))
}

/// Resolves a path that must be inside a folder; `None` if it does not exist.
fn resolve_inside(folder: &Path, path: &Path) -> Result<Option<ResolvedFile>> {
    // Most candidates do not exist. One call finds that out faster than resolving every parent folder.
    if path
        .symlink_metadata()
        .is_err_and(|error| is_missing(&error))
    {
        return Ok(None);
    }
    let target = path.canonicalize().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            unusable(path, "is a broken symlink")
        } else {
            unusable(path, "cannot be resolved").with_source(error)
        }
    })?;
    let Some(resolved) = ResolvedFile::at(folder, &target, &target) else {
        return Err(
            unusable(path, "is a symlink to a file outside of the project")
                .with_hint("copy the file into the project: such symlinks are not followed"),
        );
    };
    Ok(Some(resolved))
}

/// Reads the bytes of a file; `None` if it does not exist.
///
/// # Errors
///
/// `FileUnusable` if the file is not a readable regular file of at most `limit` bytes.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    read_limited(path, limit)
}

fn read_limited(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match path.metadata() {
        Ok(metadata) => check_kind(path, &metadata)?,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(unusable(path, "cannot be accessed").with_source(error)),
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
/// Fails if the file cannot be opened, with `InvalidInput` if it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let check = |metadata: &Metadata| {
        if metadata.is_file() {
            return Ok(());
        }
        let message = format!("{} is not a regular file", quote_path(path));
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    };
    check(&path.metadata()?)?;
    let file = open_nonblocking(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads the bytes of an open file. `path` is for messages only.
///
/// # Errors
///
/// `FileUnusable` if the file is not a readable regular file of at most `limit` bytes.
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

/// Returns the names in a folder, sorted by bytes; empty if the folder does not exist.
///
/// # Errors
///
/// `FileUnusable` if the folder cannot be listed.
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

/// Reads the bytes of a file that must be inside a folder; `None` if it does not exist.
///
/// # Errors
///
/// Those of [`read_bytes`], and `FileUnusable` for a symlink that is broken or points outside of the folder.
pub fn read_bytes_inside(folder: &Path, path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match resolve_inside(folder, path)? {
        Some(resolved) => resolved.read(limit),
        None => Ok(None),
    }
}

/// Returns true if an error means that a file does not exist.
#[must_use]
pub fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unusable(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::FileUnusable,
        format!("{} {what}", quote_path(path)),
    )
}

fn quote_path(path: &Path) -> String {
    format!("`{}`", path.display().to_string().escape_debug())
}

fn check_kind(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    if metadata.is_dir() {
        return Err(
            unusable(path, "is a folder, not a file").with_hint("pass its files one by one")
        );
    }
    Err(unusable(path, "is not a regular file")
        .with_hint("pipes, sockets and devices cannot be read"))
}

fn check_size(path: &Path, size: u64, limit: u64) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(
        unusable(path, &format!("is too large: over {}", in_units(limit)))
            .with_hint("pass a part of the file"),
    )
}

/// Opens a file for reading without blocking. The caller has checked the file's type before, but a named pipe may have
/// replaced the file since, so the caller checks the type of the opened file again.
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
            unusable(path, "is a binary file").with_hint("only text files can be part of a prompt")
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        unusable(path, &format!("is not UTF-8 text (byte {offset})"))
            .with_hint("convert it, for example with `iconv -t UTF-8`")
    })
}

/// Formats a number of bytes for messages, as bytes, KiB or MiB.
#[must_use]
pub fn in_units(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(all(test, unix, feature = "run"))]
#[expect(
    clippy::disallowed_methods,
    reason = "a test makes the files that it needs"
)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder and a file are replaced by symlinks to others of the same name after they were resolved.
    #[test]
    fn a_symlink_created_after_resolving_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        let outside = place.path().join("outside");
        fs::create_dir_all(root.join("inner/deep")).unwrap();
        fs::create_dir_all(outside.join("deep")).unwrap();
        fs::write(root.join("inner/deep/a"), "ours").unwrap();
        fs::write(root.join("b"), "ours").unwrap();
        fs::write(outside.join("deep/a"), "secret").unwrap();
        symlink("inner/deep/a", root.join("link")).unwrap();

        let direct = resolve_inside(&root, &root.join("inner/deep/a"))
            .unwrap()
            .unwrap();
        let linked = resolve_inside(&root, &root.join("link")).unwrap().unwrap();
        let single = resolve_inside(&root, &root.join("b")).unwrap().unwrap();
        for found in [&direct, &linked, &single] {
            assert_eq!(found.read_text(100).unwrap().unwrap(), "ours");
        }
        fs::rename(root.join("inner"), root.join("moved")).unwrap();
        symlink(&outside, root.join("inner")).unwrap();
        fs::remove_file(root.join("b")).unwrap();
        symlink(outside.join("deep/a"), root.join("b")).unwrap();

        for found in [direct, linked, single] {
            let refused = found.read_text(100).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::FileUnusable, "{refused}");
        }
    }
}
