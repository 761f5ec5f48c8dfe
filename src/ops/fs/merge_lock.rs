//! One change of a project is merged at a time: what one has merged, the next one must have seen.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::files::make_folder;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{OperationId, paths};
use crate::ops::Step;

/// The right to merge into a branch of the user's; it ends with this value, or with its process.
#[derive(Debug)]
pub struct MergeLock {
    _held: File,
}

impl MergeLock {
    /// Takes the right for the project with this root; `None` if another process has it.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if that cannot be found out.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to project files"
    )]
    pub fn take(root: &Path) -> Result<Option<Self>> {
        make_folder(&root.join(paths::LOCAL_FOLDER))?;
        let path = root.join(paths::MERGE_LOCK_FILE);
        let unusable = |error| {
            let message = format!("cannot lock {}", paths::MERGE_LOCK_FILE);
            Error::new(ErrorKind::FileUnusable, message).with_source(error)
        };
        // A link would have another file made.
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(unusable(std::io::Error::other("it is no file")));
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

impl Step {
    /// Tells whether it belongs to the merging of a change, which one change does at a time.
    #[must_use]
    pub fn is_landing(&self) -> bool {
        matches!(
            self.operation,
            OperationId::SpecsMerge | OperationId::GitMerge | OperationId::GitSquash
        )
    }
}
