//! The end of a change: its folder goes to the archive, its branch is committed and merged.

use std::fs;
use std::io;
use std::path::Path;

use super::evidence::{NO_TREE, short};
use super::files::{read_project_text, write_text};
use super::git::{LandRequest, Landed, WorktreeCommit};
use super::{Act, ChangeSite, Operation, Site, Step, TurnEnd, change};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::file;
use crate::models::{BlobId, OperationId, SessionId, StepOutcome, StepResult};
use crate::store::blob_id;

/// The folder of archived changes.
pub const ARCHIVE: &str = "agentd/changes/archive";

/// The project's own list of what is new, and the change's part of it.
const CHANGELOG: &str = "CHANGELOG.md";

/// `change.archive`: moves the change's folder to the archive, at once, and adds its entry to the changelog.
pub(super) struct Archive;

impl Operation for Archive {
    fn id(&self) -> OperationId {
        OperationId::ChangeArchive
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for Archive {
    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        site.change
            .map(|_| Step::always(self.id(), ARCHIVE, end.today))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let Some(session) = site.change.and(site.session) else {
            return Ok(planned.settled(false, NO_TREE.to_owned()));
        };
        let today = planned.content.as_deref().unwrap_or_default();
        let to = format!("{ARCHIVE}/{today}-{session}");
        if !change::has_change(site.root, session) {
            return Ok(match site.root.join(&to).is_dir() {
                true => planned.settled(true, format!("it is in {to}")),
                false => planned.settled(false, "its folder is gone".to_owned()),
            });
        }
        log_change(site.root, session)?;
        fail::point("archiving")?;
        let moved = move_folder(site.root, &change::folder(session), &to);
        fail::point("archived")?;
        Ok(match moved {
            Ok(()) => planned.settled(true, format!("moved to {to}")),
            Err(error) => planned.settled(false, format!("cannot move it to {to}: {error}")),
        })
    }
}

/// Moves a folder at once. What is there already is not replaced.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
fn move_folder(root: &Path, from: &str, to: &str) -> io::Result<()> {
    let (archive, from, to) = (root.join(ARCHIVE), root.join(from), root.join(to));
    if archive
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink())
    {
        return Err(io::Error::other("the archive is a link"));
    }
    fs::create_dir_all(&archive)?;
    match to.symlink_metadata() {
        Err(error) if file::is_missing(&error) => fs::rename(from, to),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("something of this name is there")),
    }
}

/// Adds the change's entry to the project's changelog, once, if the project keeps one.
fn log_change(root: &Path, session: &SessionId) -> Result<()> {
    let entry = read_project_text(root, &format!("{}/{CHANGELOG}", change::folder(session)))?;
    let (Some(entry), Some(log)) = (entry, read_project_text(root, CHANGELOG)?) else {
        return Ok(());
    };
    let entry = entry.trim();
    // Whole lines: an entry may be part of another one.
    if entry.is_empty() || format!("\n{log}\n").contains(&format!("\n{entry}\n")) {
        return Ok(());
    }
    write_text(root, CHANGELOG, &with_entry(&log, entry))
}

/// Puts an entry below the heading of what is not released yet; makes one below the title if there is none.
fn with_entry(log: &str, entry: &str) -> String {
    let is_unreleased =
        |line: &str| line.starts_with("## ") && line.to_lowercase().contains("unreleased");
    let is_title = |line: &str| line.starts_with("# ");
    let mut offset = 0;
    let (mut after_title, mut place) = (0, None);
    for line in log.split_inclusive('\n') {
        offset += line.len();
        if is_unreleased(line) {
            place = Some(offset);
            break;
        }
        if is_title(line) && after_title == 0 {
            after_title = offset;
        }
    }
    let (at, heading) = place.map_or((after_title, "## Unreleased\n\n"), |at| (at, ""));
    let (before, after) = log.split_at(at);
    let (before, after) = (before.trim_end(), after.trim_start_matches('\n'));
    let gap = if before.is_empty() { "" } else { "\n\n" };
    format!("{before}{gap}{heading}{entry}\n\n{after}")
}

/// `git.commit`: commits all that a turn has left in the change's work tree.
pub(super) struct Commit;

impl Operation for Commit {
    fn id(&self) -> OperationId {
        OperationId::GitCommit
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for Commit {
    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let (change, session) = (site.change?, site.session?);
        let mode = &end.started.mode;
        let verdict = end
            .verdict
            .map(|verdict| format!(": {}", verdict.name()))
            .unwrap_or_default();
        let turn = format!("{session}/{}", end.started.turn);
        let agent = &end.started.agent;
        let message = format!(
            "agentd({session}): {mode}{verdict}\n\nAgentd-Turn: {turn}\nAgentd-Agent: {agent}\n"
        );
        // What the agent has committed itself counts as well.
        let before = end.started.commit.clone().unwrap_or_default();
        Some(Step {
            before: Some(BlobId(before)),
            ..Step::always(self.id(), change.opened.branch.clone(), message)
        })
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let Some(change) = &site.change else {
            return Ok(planned.settled(false, NO_TREE.to_owned()));
        };
        let committed = change
            .worktree
            .commit_all(planned.content.as_deref().unwrap_or_default());
        fail::point("git-committed")?;
        let WorktreeCommit { commit, is_new } = match committed {
            Ok(committed) => committed,
            Err(error) => return Ok(planned.settled(false, error.to_string())),
        };

        let is_as_before = planned.before == Some(BlobId(commit.clone()));
        let (detail, result) = match (is_new, is_as_before) {
            (true, _) => (
                format!("committed {}", short(&commit)),
                StepOutcome::Committed,
            ),
            (false, false) => (
                "the agent has committed it".to_owned(),
                StepOutcome::Committed,
            ),
            (false, true) => ("nothing to commit".to_owned(), StepOutcome::Nothing),
        };
        Ok(planned
            .settled(true, detail)
            .with_outcome(result, Some(commit)))
    }
}

/// `git.merge`: merges the change's branch into the one it came from, if that is wanted.
pub(super) struct Merge {
    /// Whether all of it becomes one commit.
    pub(super) squash: bool,
}

impl Operation for Merge {
    fn id(&self) -> OperationId {
        if self.squash {
            OperationId::GitSquash
        } else {
            OperationId::GitMerge
        }
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for Merge {
    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let (change, session) = (site.change?, site.session?);
        let title = change
            .opened
            .request
            .lines()
            .next()
            .unwrap_or_default()
            .trim();
        let title: String = title.chars().take(TITLE).collect();
        let turn = format!("{session}/{}", end.started.turn);
        let message = match self.squash {
            true => format!("{title}\n\nAgentd-Turn: {turn}\n"),
            false => format!(
                "Merge {}: {title}\n\nAgentd-Turn: {turn}\n",
                change.opened.branch
            ),
        };
        Some(Step::always(
            self.id(),
            change.opened.onto.clone().unwrap_or_default(),
            message,
        ))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let Some(change) = &site.change else {
            return Ok(planned.settled(false, NO_TREE.to_owned()));
        };
        let landed = land(change, planned, self.squash);
        fail::point("landed")?;
        Ok(match landed {
            Ok(words) => planned.settled(true, words),
            Err(error) => planned.settled(false, with_hint(&error)),
        })
    }
}

/// The longest first line of a message.
const TITLE: usize = 70;

/// Returns an error on one line, with what to do about it.
pub(super) fn with_hint(error: &Error) -> String {
    let hint = error
        .hint()
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    format!("{error}{hint}")
}

/// Refuses to merge a commit of the change's branch that is not the one that was judged or committed.
fn check_tip(change: &ChangeSite<'_>, squash: bool, tip: &str) -> Result<()> {
    let (branch, results) = (&change.opened.branch, &change.state.results);
    let is_right = match squash {
        true => results
            .get(&OperationId::GitDiff)
            .is_some_and(|seen| seen.target == tip),
        false => results
            .get(&OperationId::GitCommit)
            .is_some_and(|made| made.report == Some(blob_id(tip.as_bytes()))),
    };
    if !is_right {
        let message = format!(
            "{branch} is not what was judged any more: it is at {}",
            short(tip)
        );
        return Err(Error::new(ErrorKind::VerdictStale, message));
    }
    Ok(())
}

fn land(change: &ChangeSite<'_>, planned: &Step, squash: bool) -> Result<String> {
    let branch = &change.opened.branch;
    let Some(onto) = change.opened.onto.as_deref().filter(|_| change.merges) else {
        return Ok(format!("the branch {branch} is left for you to merge"));
    };
    let message = planned.content.as_deref().unwrap_or_default();
    let request = LandRequest {
        branch,
        into: onto,
        message,
        squash,
        // A small fix was reviewed alone, so it is merged onto its base and nothing newer.
        onto: Some(change.opened.base.as_str()).filter(|_| squash),
        check_tip: &|tip| check_tip(change, squash, tip),
    };
    match change.repository.land_checked(&request) {
        Ok(Landed::Already) => Ok(format!("{branch} is merged into {onto}")),
        Ok(_) => Ok(format!("merged {branch} into {onto}")),
        Err(error) if error.kind() == ErrorKind::MergeConflict => Err(error.with_hint(format!(
            "the branch {branch} has all of it; try again, or merge it by hand"
        ))),
        Err(error) => Err(error),
    }
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
