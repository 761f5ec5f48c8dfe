//! Files that by their name hold secrets: no agent is shown one by mistake.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::pack::SECRET_FILES;
use crate::text::glob::matches_path;

/// Refuses a file that by its name, or by the name of its target after all links, holds secrets.
///
/// # Errors
///
/// `FileUnusable` with the way to show it all the same.
pub(crate) fn refuse(path: &Path, target: &Path) -> Result<()> {
    if !names_secrets(path) && !names_secrets(target) {
        return Ok(());
    }
    let shown = path.display().to_string();
    let message = format!(
        "`{}` is a file that usually holds secrets",
        shown.escape_debug()
    );
    Err(Error::new(ErrorKind::FileUnusable, message)
        .with_hint("if the agent and its provider may see it, add --force-secret-files"))
}

pub(crate) fn names_secrets(path: &Path) -> bool {
    let names: Vec<String> = path
        .iter()
        .map(|name| name.to_string_lossy().to_lowercase())
        .filter(|name| name != "/")
        .collect();
    let matches = |pattern: &str| {
        let start = names.len().saturating_sub(pattern.split('/').count());
        matches_path(pattern, &names[start..].join("/"))
    };
    let lines = || {
        SECRET_FILES
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
    };
    let excepted = lines()
        .filter_map(|line| line.strip_prefix('!'))
        .any(matches);
    !excepted && lines().filter(|line| !line.starts_with('!')).any(matches)
}
