//! `review.require`: refuses a turn unless the last review passed and no reviewed file has changed since.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::models::paths::{
    ARCHIVE_FOLDER, CHANGELOG_FILE, PROPOSAL_FILE, SPECS_FOLDER, change_folder,
};
use crate::models::{OperationId, ReviewResult, SessionId, StepOutcome};
use crate::ops::fs::has_change;
use crate::ops::git::{ChangedFile, FileStatus, Snapshot, short_commit};
use crate::ops::{ChangeSite, Inspect, Inspection, Operation, Site};

pub(crate) struct ReviewRequire;

impl Operation for ReviewRequire {
    fn id(&self) -> OperationId {
        OperationId::ReviewRequire
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for ReviewRequire {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let (change, session) = site.require_change(&self.id())?;
        let refuse = |reason: String| {
            Error::new(ErrorKind::VerdictStale, reason)
                .with_hint(format!("review it again: `agentd review {session}`"))
        };

        let commit = reviewed_commit(change, session).map_err(refuse)?;
        let stale = changed_since_review(site, change, session, commit)?;
        let commit = short_commit(commit);
        match stale.as_slice() {
            [] => Ok(Inspection::default()),
            [only] => Err(refuse(format!(
                "1 file changed since the review of {commit}: {only}"
            ))),
            [first, ..] => Err(refuse(format!(
                "{} files changed since the review of {commit}, including {first}",
                stale.len()
            ))),
        }
    }
}

/// Returns the commit that the last review passed, or the reason why there is none.
fn reviewed_commit<'a>(
    change: &ChangeSite<'a>,
    session: &SessionId,
) -> std::result::Result<&'a str, String> {
    let review = change.state.previous.as_ref();
    let has_outcome = |operation: OperationId, outcome: StepOutcome| {
        let result = review.and_then(|review| review.results.get(&operation));
        result.is_some_and(|result| result.result == Some(outcome))
    };

    let passed = review.filter(|review| review.verdict == Some(ReviewResult::Pass));
    let diff = passed.and_then(|review| review.results.get(&OperationId::GitDiff));
    let Some(diff) = diff else {
        return Err(format!("`{session}` has not passed a review"));
    };
    if has_outcome(OperationId::ChecksRun, StepOutcome::Failed) {
        return Err(format!("the checks of `{session}` failed in its review"));
    }
    if has_outcome(OperationId::FindingsNote, StepOutcome::Blocking) {
        return Err(format!(
            "the review of `{session}` has open critical or major findings"
        ));
    }
    Ok(&diff.target)
}

/// Returns the reviewed files that differ from the reviewed commit. Changes that came with a merge of the target branch
/// are ignored.
fn changed_since_review(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    session: &SessionId,
    commit: &str,
) -> Result<Vec<String>> {
    let snapshot = change.worktree.snapshot(commit)?;
    let changed = snapshot.changed(commit)?;

    // An interrupted run may have moved the folder without recording it.
    let is_archived = change.state.done.contains_key(&OperationId::ChangeArchive)
        || !has_change(site.root, session);
    let mut stale: Vec<String> = changed_paths(&changed)
        .filter(|path| is_reviewed(site, session, path, is_archived))
        .map(str::to_owned)
        .collect();

    if !stale.is_empty() {
        let from_target = paths_from_target(change, &snapshot)?;
        stale.retain(|path| !from_target(path));
    }
    Ok(stale)
}

/// Returns true for the files that a review covers: those of the project, and the change's proposal and specs, but not
/// the files that archiving the change writes.
fn is_reviewed(site: &Site<'_>, session: &SessionId, path: &str, is_archived: bool) -> bool {
    let folder = change_folder(session);
    if let Some(name) = path.strip_prefix(&format!("{folder}/")) {
        return !is_archived && (name == PROPOSAL_FILE || name.starts_with("specs/"));
    }

    let is_of_change = |name: &str| site.root.join(format!("{folder}/specs/{name}")).is_file();
    let is_merged_spec = path
        .strip_prefix(&format!("{SPECS_FOLDER}/"))
        .is_some_and(|name| is_archived || is_of_change(name));
    let is_in_archive = is_archived && path.starts_with(&format!("{ARCHIVE_FOLDER}/"));
    !(is_merged_spec || is_in_archive || path == CHANGELOG_FILE)
}

/// Returns the paths of changed files; for a renamed file, the old and the new path.
fn changed_paths(changed: &[ChangedFile]) -> impl Iterator<Item = &str> {
    changed.iter().flat_map(|changed| {
        let from = match &changed.status {
            FileStatus::Renamed { from } => Some(from.as_str()),
            _ => None,
        };
        std::iter::once(changed.path.as_str()).chain(from)
    })
}

/// Returns a predicate for files whose changes came from the target branch: they differ from the change's base, and
/// equal the version on the target branch, now or when it was last merged.
fn paths_from_target(
    change: &ChangeSite<'_>,
    snapshot: &Snapshot,
) -> Result<impl Fn(&str) -> bool + use<>> {
    let differences = |commit: &str| -> Result<BTreeSet<String>> {
        Ok(changed_paths(&snapshot.changed(commit)?)
            .map(str::to_owned)
            .collect())
    };

    let mut differs_from_target = Vec::new();
    if let Some(onto) = &change.opened.onto {
        let tip = change.repository.branch_commit(onto)?;
        let merged = match &tip {
            Some(tip) => change
                .repository
                .merge_base(&change.worktree.head()?, tip)?,
            None => None,
        };

        let mut commits: Vec<String> = tip.into_iter().chain(merged).collect();
        commits.dedup();
        for commit in commits {
            differs_from_target.push(differences(&commit)?);
        }
    }

    let differs_from_base = differences(&change.opened.base)?;
    Ok(move |path: &str| {
        let equals_target = differs_from_target
            .iter()
            .any(|differs| !differs.contains(path));
        differs_from_base.contains(path) && equals_target
    })
}
