//! Where the ledger lies: a folder of the project that only its owner may look into.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd;
use tempfile::TempPath;

use crate::error::{Error, ErrorKind, Result};
use crate::models::paths;

/// The folder of the ledger in a project.
pub(super) const FOLDER: &str = paths::LOCAL_FOLDER;

/// The ledger in it.
pub(super) const FILE: &str = paths::LEDGER_NAME;

/// What tells a file from all others that there are: its device and its number there.
pub(super) type FileId = (u64, u64);

/// Returns which file something is.
pub(super) fn file_id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// Tells whether a file is the ledger of a project. It is only looked at: to open and to close a database would void
/// the locks that are held on it.
pub(super) fn is_ledger(root: &Path, file: FileId) -> bool {
    let found = inside(root)
        .ok()
        .and_then(|folder| folder.join(FILE).symlink_metadata().ok());
    found.is_some_and(|found| file_id(&found) == file)
}

/// Makes the folder of a project's ledger if need be, and returns it.
pub(super) fn make(root: &Path) -> Result<PathBuf> {
    let folder = inside(root)?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unwritable(FOLDER, error));
        }
        _ => {}
    }
    check(&folder, FOLDER, Metadata::is_dir)?;
    ignore(&folder)?;
    Ok(folder)
}

/// Returns the folder of a project's ledger; `None` if there is none.
pub(super) fn find(root: &Path) -> Result<Option<PathBuf>> {
    let folder = inside(root)?;
    Ok(check(&folder, FOLDER, Metadata::is_dir)?.then_some(folder))
}

/// Tells whether the ledger is there. What is there must be a file of ours.
pub(super) fn has_ledger(folder: &Path) -> Result<bool> {
    check(&folder.join(FILE), &ledger(), Metadata::is_file)
}

/// Refuses anything but files of ours in the places of the files that SQLite opens with the ledger. It would wait for a
/// named pipe without a limit.
pub(super) fn check_companions(folder: &Path) -> Result<()> {
    for suffix in ["-journal", "-wal", "-shm"] {
        let path = folder.join(format!("{FILE}{suffix}"));
        check(&path, &format!("{}{suffix}", ledger()), Metadata::is_file)?;
    }
    Ok(())
}

/// Makes a database the ledger of a folder, and tells whether it has become that: not if the folder has one.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the database"
)]
pub(super) fn name(draft: TempPath, folder: &Path) -> io::Result<bool> {
    let held = File::open(folder)?;
    // Or what is removed here could be of a ledger that another process has just named.
    held.lock()?;
    let path = folder.join(FILE);
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    // What is left of one that was removed would be taken for the newest part of this one.
    for end in ["-wal", "-shm"] {
        match fs::remove_file(folder.join(format!("{FILE}{end}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    draft.persist_noclobber(path)?;
    // Its name is to outlast a loss of power.
    held.sync_all()?;
    Ok(true)
}

/// Returns the ledger as messages name it.
pub(super) fn ledger() -> String {
    format!("{FOLDER}/{FILE}")
}

/// Returns the error for something that cannot be written.
pub(super) fn unwritable(name: &str, error: io::Error) -> Error {
    let full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let (kind, hint) = if full {
        (
            ErrorKind::StorageFull,
            "free some space and try again; what was recorded is kept",
        )
    } else {
        (
            ErrorKind::LedgerUnusable,
            "the project's folder must be yours to write to",
        )
    };
    Error::new(kind, format!("cannot write {name}"))
        .with_source(error)
        .with_hint(hint)
}

/// Returns where the folder is or would be. Links above the project are the user's own, and are resolved here.
fn inside(root: &Path) -> Result<PathBuf> {
    let root = root.canonicalize().map_err(|error| {
        let message = format!("`{}` cannot be entered", root.display());
        Error::new(ErrorKind::LedgerUnusable, message).with_source(error)
    })?;
    Ok(root.join(FOLDER))
}

/// Tells whether something is there; it must be of the right kind and ours, and is made ours alone.
fn check(path: &Path, name: &str, right: impl Fn(&Metadata) -> bool) -> Result<bool> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unwritable(name, error)),
    };
    let refuse = |what: &str| {
        Error::new(ErrorKind::LedgerUnusable, format!("{name} {what}"))
            .with_hint("the record holds prompts and replies; move that away and try again")
    };
    if found.is_symlink() {
        return Err(refuse("is a link"));
    }
    if !right(&found) {
        return Err(refuse("is not what agentd made"));
    }
    if found.uid() != unistd::geteuid().as_raw() {
        return Err(refuse("belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        let narrow = Permissions::from_mode(found.mode() & 0o700);
        fs::set_permissions(path, narrow).map_err(|error| unwritable(name, error))?;
    }
    Ok(true)
}

/// Keeps the folder out of the repository, so that no command makes a work tree look changed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the database"
)]
fn ignore(folder: &Path) -> Result<()> {
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
            Err(unwritable(&format!("{FOLDER}/.gitignore"), error))
        }
        _ => Ok(()),
    }
}
