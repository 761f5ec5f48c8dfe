//! Names that identify a call outside the ledger: its folder, and the marker of its processes.

use std::path::PathBuf;

use crate::models::SessionId;
use crate::models::paths::CALLS_FOLDER;

/// Returns the marker of a call, which is in the environment of all its processes.
pub(crate) fn marker(run: &str, turn: u64, call: u64) -> String {
    format!("{run}.{turn}.{call}")
}

/// Returns the folder of a call, relative to the project's root.
pub(crate) fn folder(session: &SessionId, turn: u64, call: u64) -> PathBuf {
    PathBuf::from(format!("{CALLS_FOLDER}/{session}.{turn}.{call}"))
}
