//! Parts of git's output: file modes, names, fields and the error for malformed output.

use super::command::failed;
use crate::error::Error;

/// Start of the mode of a regular file, executable or not.
pub(super) const FILE_MODE_PREFIX: &str = "100";

/// Mode of an executable file.
pub(super) const EXECUTABLE_MODE: &str = "100755";

/// Mode of a folder.
pub(super) const FOLDER_MODE: &str = "040000";

/// Mode of a submodule.
pub(super) const SUBMODULE_MODE: &str = "160000";

/// Maximum number of names in a message.
const MAX_LISTED_NAMES: usize = 8;

/// Returns output as text, with replacement characters for invalid UTF-8.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the parts of a field before and after its first tab.
pub(super) fn split_at_tab(field: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = field.iter().position(|&byte| byte == b'\t')?;
    Some((&field[..at], &field[at + 1..]))
}

/// Returns the error for output of a git command that cannot be parsed.
pub(super) fn not_understood(name: &str) -> Error {
    failed(format!("unexpected output of git {name}")).with_hint("install git 2.25 or newer")
}

/// Returns the first names, joined for a message, and the number of the others.
pub(super) fn some_names(names: &[String]) -> String {
    let mut shown: Vec<_> = names
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|name| name.escape_debug().to_string())
        .collect();
    if names.len() > MAX_LISTED_NAMES {
        shown.push(format!("and {} more", names.len() - MAX_LISTED_NAMES));
    }
    shown.join(", ")
}
