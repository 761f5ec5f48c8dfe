//! `change.archive`: moves the change's folder to the archive, and adds its entry to the project's changelog.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::Result;
use crate::fail;
use crate::file;
use crate::models::paths::{ARCHIVE_FOLDER, CHANGELOG_FILE, change_file, change_folder};
use crate::models::{OperationId, SessionId, StepResult};
use crate::ops::fs::{has_change, read_project_text, write_text};
use crate::ops::{Act, Operation, Site, Step, TurnEnd};

/// The content of its step is the date in the name of the archived folder.
pub(crate) struct ChangeArchive;

impl Operation for ChangeArchive {
    fn id(&self) -> OperationId {
        OperationId::ChangeArchive
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for ChangeArchive {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        site.change
            .map(|_| Step::always(self.id(), ARCHIVE_FOLDER, end.today))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let Some(session) = site.change.and(site.session) else {
            return Ok(step.without_change());
        };
        let today = step.content.as_deref().unwrap_or_default();
        let to = format!("{ARCHIVE_FOLDER}/{today}-{session}");

        if !has_change(site.root, session) {
            return Ok(if site.root.join(&to).is_dir() {
                step.done(format!("already in {to}"))
            } else {
                step.not_done(format!("`{}` is missing", change_folder(session)))
            });
        }

        add_changelog_entry(site.root, session)?;
        fail::point("archiving")?;
        let moved = move_folder(site.root, &change_folder(session), &to);
        fail::point("archived")?;
        Ok(match moved {
            Ok(()) => step.done(format!("moved to {to}")),
            Err(error) => step.not_done(format!("cannot move the change to {to}: {error}")),
        })
    }
}

/// Renames a folder, unless something exists at the new path.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
fn move_folder(root: &Path, from: &str, to: &str) -> io::Result<()> {
    let archive = root.join(ARCHIVE_FOLDER);
    let is_symlink = archive
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_symlink());
    if is_symlink {
        return Err(io::Error::other(format!("`{ARCHIVE_FOLDER}` is a symlink")));
    }
    fs::create_dir_all(&archive)?;

    let to = root.join(to);
    match to.symlink_metadata() {
        Err(error) if file::is_missing(&error) => fs::rename(root.join(from), to),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("the target already exists")),
    }
}

/// Adds the change's entry to the project's changelog, if there is one and it does not have the entry yet.
fn add_changelog_entry(root: &Path, session: &SessionId) -> Result<()> {
    let entry = read_project_text(root, &change_file(session, CHANGELOG_FILE))?;
    let changelog = read_project_text(root, CHANGELOG_FILE)?;
    let (Some(entry), Some(changelog)) = (entry, changelog) else {
        return Ok(());
    };

    let entry = entry.trim();
    // Whole lines are compared, because an entry may be part of another one.
    let has_entry = format!("\n{changelog}\n").contains(&format!("\n{entry}\n"));
    if entry.is_empty() || has_entry {
        return Ok(());
    }
    write_text(root, CHANGELOG_FILE, &with_entry(&changelog, entry))
}

/// Returns a changelog with an entry below its heading `Unreleased`, which is added below the title if it is missing.
fn with_entry(changelog: &str, entry: &str) -> String {
    let is_unreleased =
        |line: &str| line.starts_with("## ") && line.to_lowercase().contains("unreleased");

    let mut offset = 0;
    let mut after_title = 0;
    let mut after_unreleased = None;
    for line in changelog.split_inclusive('\n') {
        offset += line.len();
        if is_unreleased(line) {
            after_unreleased = Some(offset);
            break;
        }
        if line.starts_with("# ") && after_title == 0 {
            after_title = offset;
        }
    }

    let (at, heading) = match after_unreleased {
        Some(at) => (at, ""),
        None => (after_title, "## Unreleased\n\n"),
    };
    let before = changelog[..at].trim_end();
    let after = changelog[at..].trim_start_matches('\n');
    let gap = if before.is_empty() { "" } else { "\n\n" };
    format!("{before}{gap}{heading}{entry}\n\n{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_below_what_is_not_released_yet() {
        let cases = [
            (
                "# Changelog\n\n## Unreleased\n\n- old\n",
                "# Changelog\n\n## Unreleased\n\n- new\n\n- old\n",
            ),
            (
                "# Changelog\n\n## 1.0\n- x\n",
                "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.0\n- x\n",
            ),
            ("", "## Unreleased\n\n- new\n\n"),
            (
                "## [Unreleased]\n## 1.0\n",
                "## [Unreleased]\n\n- new\n\n## 1.0\n",
            ),
        ];
        for (log, expected) in cases {
            assert_eq!(with_entry(log, "- new"), expected, "{log:?}");
        }
    }
}
