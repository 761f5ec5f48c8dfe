//! Location of the ledger: a folder of the project that only the user can read.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd;
use tempfile::TempPath;

use crate::error::{Error, ErrorKind, Result};
use crate::models::paths;

/// Folder of the ledger in a project.
pub(super) const LOCAL_FOLDER: &str = paths::LOCAL_FOLDER;

/// File name of the ledger.
pub(super) const LEDGER_NAME: &str = paths::LEDGER_NAME;

/// Device and inode of a file.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Returns true if a file is the ledger of a project. The ledger is not opened for that: closing any file descriptor of a
/// database releases the POSIX locks that this process holds on the database.
pub(super) fn is_ledger(root: &Path, file: FileId) -> bool {
    let ledger = folder_path(root)
        .ok()
        .and_then(|folder| folder.join(LEDGER_NAME).symlink_metadata().ok());
    ledger.is_some_and(|metadata| file_id(&metadata) == file)
}

/// Returns the folder of a project's ledger, and creates it if it is missing.
pub(super) fn create_folder(root: &Path) -> Result<PathBuf> {
    let folder = folder_path(root)?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(write_error(LOCAL_FOLDER, error));
        }
        _ => {}
    }

    check_ownership(&folder, LOCAL_FOLDER, FileKind::Folder)?;
    write_gitignore(&folder)?;
    Ok(folder)
}

/// Returns the folder of a project's ledger; `None` if there is none.
pub(super) fn find_folder(root: &Path) -> Result<Option<PathBuf>> {
    let folder = folder_path(root)?;
    Ok(check_ownership(&folder, LOCAL_FOLDER, FileKind::Folder)?.then_some(folder))
}

/// Returns true if a folder contains a ledger. Fails if the ledger is not a regular file that belongs to this user.
pub(super) fn has_ledger(folder: &Path) -> Result<bool> {
    check_ownership(&folder.join(LEDGER_NAME), &ledger_path(), FileKind::Regular)
}

/// Refuses anything but regular files of this user at the paths that SQLite opens along with the ledger: SQLite would wait
/// forever for a named pipe.
pub(super) fn check_companions(folder: &Path) -> Result<()> {
    for suffix in ["-journal", "-wal", "-shm"] {
        let path = folder.join(format!("{LEDGER_NAME}{suffix}"));
        check_ownership(
            &path,
            &format!("{}{suffix}", ledger_path()),
            FileKind::Regular,
        )?;
    }
    Ok(())
}

/// Moves a finished database to the path of the ledger. Returns false if the folder already has a ledger.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the database"
)]
pub(super) fn install_ledger(draft: TempPath, folder: &Path) -> io::Result<bool> {
    let folder_lock = File::open(folder)?;
    // Without the lock, the files removed below could belong to a ledger that another process has just installed.
    folder_lock.lock()?;

    let path = folder.join(LEDGER_NAME);
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }

    // SQLite would apply the leftover log of a removed ledger to the new one.
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(folder.join(format!("{LEDGER_NAME}{suffix}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }

    draft.persist_noclobber(path)?;
    // Makes the new name survive a power loss.
    folder_lock.sync_all()?;
    Ok(true)
}

/// Returns the path of the ledger from the project's root, for messages.
pub(super) fn ledger_path() -> String {
    format!("{LOCAL_FOLDER}/{LEDGER_NAME}")
}

/// Returns the error for a path that cannot be written.
pub(super) fn write_error(name: &str, error: io::Error) -> Error {
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let (kind, hint) = if is_full {
        (
            ErrorKind::StorageFull,
            "free disk space and try again; recorded data is kept",
        )
    } else {
        (
            ErrorKind::LedgerUnusable,
            "make the project folder writable",
        )
    };
    Error::new(kind, format!("cannot write {name}"))
        .with_source(error)
        .with_hint(hint)
}

/// Returns the path of the ledger's folder, which need not exist. Symlinks in the path of the project are resolved.
fn folder_path(root: &Path) -> Result<PathBuf> {
    let root = root.canonicalize().map_err(|error| {
        let message = format!("cannot open the folder `{}`", root.display());
        Error::new(ErrorKind::LedgerUnusable, message).with_source(error)
    })?;
    Ok(root.join(LOCAL_FOLDER))
}

/// Kind of file that a path must have.
#[derive(Clone, Copy)]
enum FileKind {
    Folder,
    Regular,
}

/// Returns true if a path exists, and removes the permissions of group and others. Fails if the path is a symlink or
/// another kind of file, or belongs to another user.
fn check_ownership(path: &Path, name: &str, expected: FileKind) -> Result<bool> {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(write_error(name, error)),
    };

    let refuse = |what: &str| {
        Error::new(ErrorKind::LedgerUnusable, format!("{name} {what}")).with_hint(format!(
            "move {name} away and try again; the ledger contains private prompts and replies"
        ))
    };
    if metadata.is_symlink() {
        return Err(refuse("is a symlink"));
    }
    match expected {
        FileKind::Folder if !metadata.is_dir() => return Err(refuse("is not a folder")),
        FileKind::Regular if !metadata.is_file() => return Err(refuse("is not a regular file")),
        FileKind::Folder | FileKind::Regular => {}
    }
    if metadata.uid() != unistd::geteuid().as_raw() {
        return Err(refuse("belongs to another user"));
    }

    if metadata.mode() & 0o077 != 0 {
        let owner_only = Permissions::from_mode(metadata.mode() & 0o700);
        fs::set_permissions(path, owner_only).map_err(|error| write_error(name, error))?;
    }
    Ok(true)
}

/// Adds a `.gitignore` that ignores the whole folder.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the database"
)]
fn write_gitignore(folder: &Path) -> Result<()> {
    let path = folder.join(".gitignore");
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }

    let write = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?
            .write_all(b"*\n")
    };
    match write() {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(write_error(&format!("{LOCAL_FOLDER}/.gitignore"), error))
        }
        _ => Ok(()),
    }
}
