//! A change's folder: its artifacts, and its open tasks.

use std::fs;
use std::path::Path;

use super::files::read_project_text;
use super::{Operation, Site};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Effect, SessionId, Settlement, matches_pattern};

/// The folder of changes, in the project.
const CHANGES: &str = "agentd/changes";

/// Returns a change's folder, relative to the project's root.
pub(super) fn folder(session: &SessionId) -> String {
    format!("{CHANGES}/{session}")
}

/// Tells whether there is a change.
#[must_use]
pub fn has_change(root: &Path, session: &SessionId) -> bool {
    root.join(folder(session)).is_dir()
}

/// Returns a change's artifacts that match some patterns, as names and texts: by pattern, then sorted by bytes.
///
/// # Errors
///
/// `ChangeNotFound` if there is no such change, `FileUnusable` for an artifact that cannot be read.
pub fn artifacts(root: &Path, session: &SessionId, patterns: &[String]) -> Result<Vec<(String, String)>> {
    let folder = folder(session);
    if !has_change(root, session) {
        return Err(not_found(root, session));
    }
    let mut found = Vec::new();
    for pattern in patterns {
        for name in names(&root.join(&folder), pattern) {
            if let Some(text) = read_project_text(root, &format!("{folder}/{name}"))? {
                found.push((name, text));
            }
        }
    }
    Ok(found)
}

/// Returns the names that a pattern may stand for.
fn names(folder: &Path, pattern: &str) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.to_owned()];
    }
    let within = pattern.rsplit_once('/').map_or("", |(parent, _)| parent);
    let prefix = if within.is_empty() { String::new() } else { format!("{within}/") };
    let mut names: Vec<String> =
        listed(&folder.join(within)).into_iter().map(|name| format!("{prefix}{name}")).collect();
    names.retain(|name| matches_pattern(pattern, name));
    names.sort_unstable();
    names
}

#[expect(clippy::disallowed_methods, reason = "this is the door to project files")]
fn listed(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn not_found(root: &Path, session: &SessionId) -> Error {
    let mut known = listed(&root.join(CHANGES));
    known.retain(|name| name != "archive");
    known.sort_unstable();
    let hint = match known.as_slice() {
        [] => format!("{CHANGES}/ holds no change yet"),
        names => format!("there are {}", names.join(", ")),
    };
    Error::new(ErrorKind::ChangeNotFound, format!("there is no change `{session}`")).with_hint(hint)
}

/// Returns the open tasks of a `tasks.md`: each line `- [ ] 1.1 text`, with the indented lines that belong to it.
#[must_use]
pub fn open_tasks(tasks: &str) -> String {
    let mut open = String::new();
    let mut inside = false;
    for line in tasks.lines() {
        let indented = line.starts_with([' ', '\t']) && !line.trim().is_empty();
        inside = if is_open_task(line) { true } else { inside && indented };
        if inside {
            open.push_str(line.trim_end());
            open.push('\n');
        }
    }
    open.truncate(open.trim_end().len());
    open
}

fn is_open_task(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("- [ ] ") else { return false };
    let number = rest.split_whitespace().next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    number.contains('.') && number.split('.').all(is_number)
}

/// `change.require`: refuses a turn on a change that has not been planned.
pub(super) struct Require;

impl Operation for Require {
    fn name(&self) -> &'static str {
        "change.require"
    }

    fn run(&self, site: &Site<'_>, _effects: &[&Effect]) -> Result<Vec<Settlement>> {
        let Some(session) = site.session else {
            return Err(Error::new(
                ErrorKind::ChangeNotFound,
                "this mode works on a change, and none was named",
            )
            .with_hint("name one with --change"));
        };
        if artifacts(site.root, session, &["proposal.md".to_owned()])?.is_empty() {
            let message = format!("the change `{session}` has no proposal.md");
            return Err(Error::new(ErrorKind::ChangeNotFound, message).with_hint("plan it first"));
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_tasks_keep_their_details_and_leave_out_the_rest() {
        let tasks = "# Tasks\n\n## 1. Store\n- [x] 1.1 done\n  - file: a\n- [ ] 1.2 open\n  - file: b\n\n- [ ] no number\n\
                     - [ ] 2.10 last\n## 2\n  - stray\n";
        assert_eq!(open_tasks(tasks), "- [ ] 1.2 open\n  - file: b\n- [ ] 2.10 last");
    }
}
