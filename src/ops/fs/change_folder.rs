//! The folder of a change: its artifacts, tasks and notes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use super::files::{MAX_FILE_BYTES, read_project_text};
use super::tree::visible_name;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::paths::{ARCHIVE_NAME, CHANGES_FOLDER, change_folder};
use crate::models::{BlobId, SessionId};
use crate::spec::Tasks;
use crate::store::blob_id;
use crate::text::glob::matches_path;

/// Returns the text of a change's notes file; `None` without notes.
#[must_use]
pub fn notes_text(notes: &[String]) -> Option<String> {
    if notes.is_empty() {
        return None;
    }
    Some(format!(
        "# Notes\n\nWhat people said to this change, in order.\n\n{}\n",
        notes.join("\n\n")
    ))
}

/// Returns true if the folder of a change exists.
#[must_use]
pub fn has_change(root: &Path, session: &SessionId) -> bool {
    root.join(change_folder(session)).is_dir()
}

/// Returns names and texts of a change's artifacts that match `patterns`: in the order of the patterns, and sorted by
/// bytes for each pattern.
///
/// # Errors
///
/// `ChangeNotFound` if the change does not exist, `FileUnusable` if an artifact cannot be read.
pub fn artifacts(
    root: &Path,
    session: &SessionId,
    patterns: &[String],
) -> Result<Vec<(String, String)>> {
    let folder = change_folder(session);
    if !has_change(root, session) {
        return Err(not_found(root, session));
    }
    let mut artifacts = Vec::new();
    for pattern in patterns {
        for name in names(&root.join(&folder), pattern)? {
            if let Some(text) = read_project_text(root, &format!("{folder}/{name}"))? {
                artifacts.push((visible_name(OsStr::new(&name)), text));
            }
        }
    }
    Ok(artifacts)
}

/// Returns the hashes of a change's files that match `patterns`, by name. A file that cannot be read is omitted; the
/// error is reported when the file is written.
#[must_use]
pub fn targets(root: &Path, session: &SessionId, patterns: &[String]) -> BTreeMap<String, BlobId> {
    let folder = change_folder(session);
    let names = patterns
        .iter()
        .flat_map(|pattern| names(&root.join(&folder), pattern).unwrap_or_default());
    let hash_file = |name: String| {
        let bytes = file::read_bytes_inside(root, &root.join(&folder).join(&name), MAX_FILE_BYTES)
            .ok()??;
        Some((name, blob_id(&bytes)))
    };
    names.filter_map(hash_file).collect()
}

/// Returns the names in a folder that match a pattern. A pattern without `*` is returned unchanged.
pub(in crate::ops) fn names(folder: &Path, pattern: &str) -> Result<Vec<String>> {
    if !pattern.contains('*') {
        return Ok(vec![pattern.to_owned()]);
    }
    let (parent, _) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let prefix = if parent.is_empty() {
        String::new()
    } else {
        format!("{parent}/")
    };
    let mut names = Vec::new();
    for name in file::names_in(&folder.join(parent))? {
        let Some(name) = name.to_str().map(|name| format!("{prefix}{name}")) else {
            let message = format!(
                "the file name `{prefix}{}` is not UTF-8",
                visible_name(&name)
            );
            return Err(Error::new(ErrorKind::FileUnusable, message).with_hint("rename the file"));
        };
        names.extend(matches_path(pattern, &name).then_some(name));
    }
    Ok(names)
}

fn not_found(root: &Path, session: &SessionId) -> Error {
    let entries = file::names_in(&root.join(CHANGES_FOLDER)).unwrap_or_default();
    let changes: Vec<String> = entries
        .iter()
        .filter(|name| *name != ARCHIVE_NAME)
        .map(|name| visible_name(name))
        .collect();
    let hint = match changes.as_slice() {
        [] => format!("{CHANGES_FOLDER}/ has no changes yet"),
        names => format!("known changes: {}", names.join(", ")),
    };
    Error::new(
        ErrorKind::ChangeNotFound,
        format!("unknown change `{session}`"),
    )
    .with_hint(hint)
}

/// The open tasks of a `tasks.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenTasks {
    /// Each line `- [ ] 1.1 text`, with the indented lines that belong to it.
    pub text: String,
    /// Number of the tasks in `text`.
    pub count: usize,
    /// Number of open tasks without a number, which `text` omits.
    pub skipped: usize,
}

/// Returns the open tasks of a `tasks.md`.
#[must_use]
pub fn open_tasks(tasks: &str) -> OpenTasks {
    let tasks = Tasks::read(tasks);
    let open: Vec<&str> = tasks
        .open()
        .into_iter()
        .map(|task| task.block.as_str())
        .collect();
    OpenTasks {
        text: open.join("\n"),
        count: open.len(),
        skipped: tasks.unnumbered.len(),
    }
}

/// Returns the numbers of all tasks in a `tasks.md`, open or done.
#[must_use]
pub fn task_ids(tasks: &str) -> Vec<String> {
    Tasks::read(tasks)
        .tasks
        .into_iter()
        .map(|task| task.id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_tasks_keep_their_details_and_leave_out_the_rest() {
        let tasks = "# Tasks\n\n## 1. Store\n- [x] 1.1 done\n  - file: a\n- [ ] 1.2 open\n  - file: b\n\n- [ ] no number\n\
                     - [ ] 2.10 last\n## 2\n  - stray\n";
        let text = "- [ ] 1.2 open\n  - file: b\n- [ ] 2.10 last";
        assert_eq!(
            open_tasks(tasks),
            OpenTasks {
                text: text.to_owned(),
                count: 2,
                skipped: 1
            }
        );
        let spaced = "- [ ] 1.1 a\n\n  - file: b\n\nprose about `- [ ]`\n* [ ] x\n";
        assert_eq!(
            open_tasks(spaced),
            OpenTasks {
                text: "- [ ] 1.1 a\n\n  - file: b".into(),
                count: 1,
                skipped: 1
            }
        );
        assert_eq!(open_tasks("- [x] 1.1 done\n"), OpenTasks::default());
        assert_eq!(task_ids(tasks), ["1.1", "1.2", "2.10"]);
    }
}
