//! The merge lock: only one change of a project is merged at a time, so that each merge starts from the result of the
//! previous one.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::files::make_folder;
use crate::error::{Error, ErrorKind, Result};
use crate::models::paths;

/// The project's merge lock. It is released when the value is dropped, or when its process ends.
#[derive(Debug)]
pub struct MergeLock {
    _held: File,
}

impl MergeLock {
    /// Takes the lock of the project with this root; `None` if another process holds it.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the lock file cannot be created or locked.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to project files"
    )]
    pub fn take(root: &Path) -> Result<Option<Self>> {
        make_folder(&root.join(paths::LOCAL_FOLDER))?;
        let path = root.join(paths::MERGE_LOCK_FILE);
        let unusable = |error| {
            let message = format!("cannot lock `{}`", paths::MERGE_LOCK_FILE);
            Error::new(ErrorKind::FileUnusable, message).with_source(error)
        };
        // Opening a symlink would create the lock file elsewhere.
        if path
            .symlink_metadata()
            .is_ok_and(|metadata| !metadata.is_file())
        {
            return Err(unusable(std::io::Error::other("it is not a regular file")));
        }
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _held: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }
}
