//! Restores the ledger's file if it is removed while it is open, for example by an agent that cleans up too much.

use std::io;
use std::path::Path;

use tempfile::TempPath;

use super::location::{self, LOCAL_FOLDER};
use super::open::{self, LedgerConnection, database_error, unusable_error};
use crate::error::{Error, Result};

/// Makes sure that the open connection writes to the file at the ledger's path.
///
/// If the file was removed, SQLite still has it open, so its content is copied back to the path and opened there. If the
/// path has another ledger by then, the content is saved next to it and every later write fails: events must not be
/// recorded in a deleted file, nor in another ledger.
pub(super) fn reattach(opened: &mut LedgerConnection, root: &Path) -> Result<()> {
    if location::is_ledger(root, opened.file) {
        return Ok(());
    }
    if let Some(copy) = &opened.saved_copy {
        return Err(replaced_error(copy));
    }

    let id = open::read_ledger_id(opened)?;
    let folder = location::create_folder(root)?;
    if !location::has_ledger(&folder)? {
        // Another process may be faster; the check of the id below detects a different ledger.
        let is_restored =
            location::install_ledger(write_copy(opened, &folder)?, &folder).map_err(write_error)?;
        if is_restored {
            log::warn!(
                "{} was removed while in use; it was restored",
                location::ledger_path()
            );
        }
    }

    let current = open::open_ledger(&folder)?;
    // A ledger without an id cannot be distinguished from another.
    if !id.is_empty() && open::read_ledger_id(&current)? != id {
        let path = write_copy(opened, &folder)?
            .keep()
            .map_err(|refused| write_error(refused.error))?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let copy = opened.saved_copy.insert(format!("{LOCAL_FOLDER}/{name}"));
        return Err(replaced_error(copy));
    }

    // Closing the old connection leaves the new file alone: SQLite notices that its file has moved.
    *opened = current;
    Ok(())
}

/// Writes a copy of the database to a new file in a folder.
fn write_copy(opened: &LedgerConnection, folder: &Path) -> Result<TempPath> {
    let draft = tempfile::Builder::new()
        .prefix("ledger-")
        .suffix(".db")
        .tempfile_in(folder);
    let draft = draft.map_err(write_error)?.into_temp_path();
    let path = draft.to_str().ok_or_else(|| {
        unusable_error("was removed while in use; its path is not UTF-8, so it cannot be restored")
            .with_hint("move the project to a path that is valid UTF-8")
    })?;

    opened
        .pragma_update(None, "synchronous", "full")
        .map_err(database_error)?;
    opened
        .execute("VACUUM INTO ?1", [path])
        .map_err(database_error)?;
    Ok(draft)
}

fn write_error(error: io::Error) -> Error {
    location::write_error(&location::ledger_path(), error)
}

fn replaced_error(copy: &str) -> Error {
    unusable_error(&format!(
        "was replaced by another ledger while in use; the recorded data is in {copy}"
    ))
    .with_hint(format!(
        "move the other ledger away and rename {copy} to {}",
        location::ledger_path()
    ))
}
