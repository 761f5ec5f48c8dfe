//! Texts that the ledger keeps.

use crate::error::{Error, ErrorKind, Result};
use crate::models::BlobId;
use crate::store::Store;

/// Returns a text of the ledger.
///
/// # Errors
///
/// `LedgerUnusable` if the ledger does not have it, or if it is not UTF-8.
pub fn ledger_text(store: &dyn Store, id: &BlobId) -> Result<String> {
    let Some(bytes) = store.blob(id)? else {
        let message = format!("the ledger lacks the text {id}");
        return Err(Error::new(ErrorKind::LedgerUnusable, message));
    };
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("text {id} of the ledger is not UTF-8");
        Error::new(ErrorKind::LedgerUnusable, message)
    })
}
