//! Output of git: names, fields and the error for malformed output.

use super::command::failed;
use crate::error::Error;

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

/// Returns the first of some names, for a message.
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
