//! What is done when the ledger's file is gone while it is open: an agent may have cleaned up more than it should.

use std::io;
use std::path::Path;

use tempfile::TempPath;

use super::location::{self, FOLDER};
use super::open::{self, Opened, failed, unusable};
use crate::error::{Error, Result};

/// Writes the ledger back if its file is no longer there, so that nothing is recorded where nobody finds it.
pub(super) fn restore(opened: &mut Opened, root: &Path) -> Result<()> {
    if location::is_ledger(root, opened.file) {
        return Ok(());
    }
    if let Some(kept) = &opened.kept {
        return Err(replaced(kept));
    }
    let id = open::id(opened)?;
    let folder = location::make(root)?;
    if !location::has_ledger(&folder)? {
        // If another process was faster, it is seen below whether it has put back the same one.
        if location::name(copy(opened, &folder)?, &folder).map_err(unwritable)? {
            log::warn!(
                "{} was removed while it was in use, and is put back",
                location::ledger()
            );
        }
    }
    let there = open::open(&folder)?;
    // One without an id cannot be told from another.
    if !id.is_empty() && open::id(&there)? != id {
        let path = copy(opened, &folder)?
            .keep()
            .map_err(|refused| unwritable(refused.error))?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        return Err(replaced(opened.kept.insert(format!("{FOLDER}/{name}"))));
    }
    // The old one is closed without a trace: the database knows that its file is no longer at its place.
    *opened = there;
    Ok(())
}

/// Writes all that is recorded to a new file of a folder.
fn copy(opened: &Opened, folder: &Path) -> Result<TempPath> {
    let draft = tempfile::Builder::new()
        .prefix("ledger-")
        .suffix(".db")
        .tempfile_in(folder);
    let draft = draft.map_err(unwritable)?.into_temp_path();
    let path = draft.to_str().ok_or_else(|| {
        unusable("was removed while it was in use, and cannot be put back")
            .with_hint("the path of the project must be UTF-8 for that")
    })?;
    opened
        .pragma_update(None, "synchronous", "full")
        .map_err(failed)?;
    opened.execute("VACUUM INTO ?1", [path]).map_err(failed)?;
    Ok(draft)
}

fn unwritable(error: io::Error) -> Error {
    location::unwritable(&location::ledger(), error)
}

fn replaced(kept: &str) -> Error {
    unusable(&format!(
        "was replaced by another ledger while it was in use; what was recorded is in {kept}"
    ))
    .with_hint(format!(
        "move the other one away and call {kept} {}",
        location::ledger()
    ))
}
