//! Reads texts from the ledger.

use crate::error::{Error, ErrorKind, Result};
use crate::models::BlobId;
use crate::store::Store;

/// Returns the blob with an id from the ledger as text.
///
/// # Errors
///
/// `LedgerUnusable` if the blob is missing or is not UTF-8.
pub fn ledger_text(store: &dyn Store, id: &BlobId) -> Result<String> {
    let Some(bytes) = store.blob(id)? else {
        let message = format!("blob {id} is missing in the ledger");
        return Err(Error::new(ErrorKind::LedgerUnusable, message));
    };
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("blob {id} in the ledger is not UTF-8");
        Error::new(ErrorKind::LedgerUnusable, message)
    })
}
