//! Detects network file systems, on which the ledger is not safe.

use std::path::Path;

use super::system;

/// Returns the name of the network file system of a path, or of its nearest existing parent; `None` if it is local.
#[must_use]
pub fn network_filesystem(path: &Path) -> Option<String> {
    let existing = path
        .ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("."));
    system::network_filesystem(existing).map(str::to_owned)
}
