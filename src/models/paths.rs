//! Layout of a project: paths of its settings, its changes and its ledger.
//!
//! Paths are relative to the project's root and separated by `/`. The paths of a change's documents are relative to the
//! folder of the change.

use super::SessionId;

/// Description of the project, which is part of every prompt.
pub const PROJECT_FILE: &str = "agentd/project.md";

/// Settings of the project.
pub const CONFIG_FILE: &str = "agentd/config.toml";

/// Folder of the project's packs.
pub const PACKS_FOLDER: &str = "agentd/packs";

/// Folder of the project's specs.
pub const SPECS_FOLDER: &str = "agentd/specs";

/// Folder of open changes, which also contains the archive.
pub const CHANGES_FOLDER: &str = "agentd/changes";

/// Name of the archive in [`CHANGES_FOLDER`], which is reserved: no change can have it.
pub const ARCHIVE_NAME: &str = "archive";

/// Folder of archived changes.
pub const ARCHIVE_FOLDER: &str = "agentd/changes/archive";

/// Changelog of the project. The file of this name in the folder of a change is the changelog entry for the change.
pub const CHANGELOG_FILE: &str = "CHANGELOG.md";

/// Proposal of a change.
pub const PROPOSAL_FILE: &str = "proposal.md";

/// Tasks of a change.
pub const TASKS_FILE: &str = "tasks.md";

/// Glob pattern of the specs of a change.
pub const CHANGE_SPECS: &str = "specs/*.md";

/// Record of the implementation of a change.
pub const IMPLEMENTATION_FILE: &str = "IMPLEMENTATION.md";

/// Notes of the user on a change. Agents get the notes in their instructions.
pub const NOTES_FILE: &str = "NOTES.md";

/// Folder of the ledger and of other local files. It is not committed.
pub const LOCAL_FOLDER: &str = ".agentd";

/// Name of the ledger in [`LOCAL_FOLDER`].
pub const LEDGER_NAME: &str = "ledger.db";

/// Database of the ledger.
pub const LEDGER_FILE: &str = ".agentd/ledger.db";

/// Folder of the files of running calls.
pub const CALLS_FOLDER: &str = ".agentd/calls";

/// Lock file that one process holds while it merges a change.
pub const MERGE_LOCK_FILE: &str = ".agentd/landing.lock";

/// Returns the folder of a change.
#[must_use]
pub fn change_folder(session: &SessionId) -> String {
    format!("{CHANGES_FOLDER}/{session}")
}

/// Returns the path of a file in the folder of a change.
#[must_use]
pub fn change_file(session: &SessionId, name: &str) -> String {
    format!("{CHANGES_FOLDER}/{session}/{name}")
}

/// Returns the path in the project for a spec of a change: `agentd/specs/login.md` for `specs/login.md`.
#[must_use]
pub fn project_spec(name: &str) -> String {
    format!("{SPECS_FOLDER}/{}", name.trim_start_matches("specs/"))
}

/// Maximum length of a plain path in bytes.
const MAX_PLAIN_PATH_BYTES: usize = 200;

/// Returns true for a relative path whose components consist of ASCII letters, digits, `-`, `_` and `.`, and do not
/// start with `.`.
#[must_use]
pub fn is_plain_path(path: &str) -> bool {
    let is_plain_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    path.len() <= MAX_PLAIN_PATH_BYTES && path.split('/').all(is_plain_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_of_the_parts_that_they_name() {
        assert_eq!(ARCHIVE_FOLDER, format!("{CHANGES_FOLDER}/{ARCHIVE_NAME}"));
        assert_eq!(LEDGER_FILE, format!("{LOCAL_FOLDER}/{LEDGER_NAME}"));
        for path in [CALLS_FOLDER, MERGE_LOCK_FILE] {
            assert!(path.starts_with(&format!("{LOCAL_FOLDER}/")), "{path}");
        }
        assert_eq!(project_spec("specs/login.md"), "agentd/specs/login.md");
    }
}
