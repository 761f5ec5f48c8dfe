//! Files whose names suggest secrets. They are shown to an agent only if the caller allows it.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::pack::SECRET_FILES;
use crate::text::glob::matches_path;

/// Fails if the name of a file, or of its target after following all symlinks, is that of a secret file.
///
/// # Errors
///
/// `FileUnusable` for a secret file; the hint mentions the option that sends it anyway.
pub(crate) fn refuse_secret_file(path: &Path, target: &Path) -> Result<()> {
    if !is_secret_file(path) && !is_secret_file(target) {
        return Ok(());
    }

    let shown = path.display().to_string();
    let shown_target = target.display().to_string();
    let message = if is_secret_file(path) {
        format!(
            "`{}` is a file that usually holds secrets",
            shown.escape_debug()
        )
    } else {
        format!(
            "`{}` resolves to `{}`, a file that usually holds secrets",
            shown.escape_debug(),
            shown_target.escape_debug()
        )
    };
    Err(Error::new(ErrorKind::FileUnusable, message)
        .with_hint("to send it to the agent and its provider, pass --force-secret-files"))
}

/// Returns true if a path matches a pattern of `data/secret_files.txt` and none of its exceptions (`!pattern`). A
/// pattern is compared with the last parts of the path, ignoring case.
pub(crate) fn is_secret_file(path: &Path) -> bool {
    let names: Vec<String> = path
        .iter()
        .map(|name| name.to_string_lossy().to_lowercase())
        .filter(|name| name != "/")
        .collect();
    let matches = |pattern: &str| {
        let start = names.len().saturating_sub(pattern.split('/').count());
        matches_path(pattern, &names[start..].join("/"))
    };

    let patterns = || {
        SECRET_FILES
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
    };
    let is_exception = patterns()
        .filter_map(|pattern| pattern.strip_prefix('!'))
        .any(matches);
    let is_secret = patterns()
        .filter(|pattern| !pattern.starts_with('!'))
        .any(matches);
    is_secret && !is_exception
}
