//! `specs.merge`: merges the specs of a change into those of the project, section by section.

use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::paths::{CHANGE_SPECS, SPECS_FOLDER, project_spec};
use crate::models::{OperationId, SessionId, StepOutcome, StepResult};
use crate::ops::fs::{artifacts, has_change, write_text};
use crate::ops::git::WorktreeMerge;
use crate::ops::{Act, ChangeSite, Inspect, Inspection, Operation, Site, Step, TurnEnd};
use crate::spec::{self, SpecConflict};

/// Before a turn, it reports conflicts, so that no agent is called for a change that cannot be merged. After the turn,
/// it merges the target branch into the change if that branch has moved, and writes the merged specs. The content of
/// its step is the current date.
pub(crate) struct SpecsMerge;

impl Operation for SpecsMerge {
    fn id(&self) -> OperationId {
        OperationId::SpecsMerge
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for SpecsMerge {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let (change, session) = site.require_change(&self.id())?;
        let target = target_commit(change)?;
        // The merged texts are not used, so any date will do.
        merge_specs(site, change, session, target.as_deref(), "1970-01-01")?;
        Ok(Inspection::default())
    }
}

impl Act for SpecsMerge {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        site.change
            .map(|_| Step::always(self.id(), SPECS_FOLDER, end.today))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let (Some(change), Some(session)) = (&site.change, site.session) else {
            return Ok(step.without_change());
        };
        // The folder is missing if the change was archived; its specs were merged before that.
        if !has_change(site.root, session) {
            return Ok(step.done("the specs were already merged"));
        }

        let today = step.content.as_deref().unwrap_or_default();
        Ok(match write_merged_specs(site, change, session, today) {
            Ok((count, target_moved)) => {
                let outcome = if target_moved {
                    StepOutcome::Moved
                } else {
                    StepOutcome::Merged
                };
                step.done(format!("specs merged: {count}"))
                    .with_outcome(outcome, None)
            }
            Err(error) => step.failed(&error),
        })
    }
}

/// Merges the target branch into the change and writes the merged specs. Returns the number of specs, and true if the
/// target branch has moved since the change was opened.
fn write_merged_specs(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    session: &SessionId,
    today: &str,
) -> Result<(usize, bool)> {
    let target = target_commit(change)?;
    let specs = merge_specs(site, change, session, target.as_deref(), today)?;
    let target_moved = merge_target(change, session, target.as_deref(), &specs)?;
    fail::point("following")?;

    for (path, text) in &specs {
        write_text(site.root, path, text)?;
    }
    Ok((specs.len(), target_moved))
}

/// Merges the target branch at the commit `tip` into the change, with the texts in `specs` for the project's specs.
///
/// Returns true if the target branch has moved since the change was opened, even if it was already merged: manually, or
/// by an interrupted run.
fn merge_target(
    change: &ChangeSite<'_>,
    session: &SessionId,
    tip: Option<&str>,
    specs: &[(String, String)],
) -> Result<bool> {
    let target = target_name(change);
    let Some(tip) = tip else {
        let message = match &change.opened.onto {
            Some(branch) => format!("branch `{branch}` no longer exists"),
            None => format!("base commit {target} no longer exists"),
        };
        return Err(Error::new(ErrorKind::GitFailed, message));
    };

    let has_moved = tip != change.opened.base;
    let head = change.worktree.head()?;
    if change.repository.is_ancestor(tip, &head)? {
        return Ok(has_moved);
    }

    change
        .worktree
        .commit(&format!("agentd({session}): archive"))?;
    let message = format!("agentd({session}): merge {target}");
    match change.worktree.merge_from(tip, &message, specs)? {
        WorktreeMerge::UpToDate | WorktreeMerge::Done(_) => Ok(has_moved),
        WorktreeMerge::Conflict(paths) => Err(file_conflict(session, target, &paths)),
    }
}

/// Returns the branch that the change is merged into; without one, its base commit.
fn target_name<'a>(change: &ChangeSite<'a>) -> &'a str {
    change.opened.onto.as_deref().unwrap_or(&change.opened.base)
}

/// Returns the current commit of [`target_name`]; `None` if the branch or the commit no longer exists.
fn target_commit(change: &ChangeSite<'_>) -> Result<Option<String>> {
    match &change.opened.onto {
        Some(branch) => change.repository.branch_commit(branch),
        None => change.repository.commit_of(&change.opened.base),
    }
}

/// Returns the path and merged text of each spec of the change, with the project's specs of the commit `tip`.
///
/// # Errors
///
/// `MergeConflict` if both sides have changed a section.
fn merge_specs(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    session: &SessionId,
    tip: Option<&str>,
    today: &str,
) -> Result<Vec<(String, String)>> {
    let mut wanted = artifacts(site.root, session, &[CHANGE_SPECS.to_owned()])?;
    for (name, _) in &mut wanted {
        *name = project_spec(name);
    }

    let base = change.opened.base.as_str();
    let paths: Vec<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
    let at_base = change.repository.texts_at(base, &paths)?;
    let at_tip = match tip {
        Some(tip) if tip != base => change.repository.texts_at(tip, &paths)?,
        _ => at_base.clone(),
    };

    let updated_at = format!("{today}T00:00:00Z");
    let mut specs = Vec::new();
    for (path, wanted) in wanted {
        let merged = spec::merge(
            at_base.get(&path).map(String::as_str),
            at_tip.get(&path).map(String::as_str),
            &wanted,
            &updated_at,
        );
        match merged {
            Ok(text) => specs.push((path, text)),
            Err(conflicts) => return Err(spec_conflict(session, &path, &conflicts)),
        }
    }
    Ok(specs)
}

/// Returns the error for sections of a spec that both sides have changed.
fn spec_conflict(session: &SessionId, path: &str, conflicts: &[SpecConflict]) -> Error {
    let list: String = conflicts
        .iter()
        .map(|conflict| format!("\n  {path}: {}: {}", conflict.section, conflict.why))
        .collect();
    let message =
        format!("merge conflict between the specs of `{session}` and of the project:{list}");
    let hint = format!("edit one side to match the other, then run `agentd review {session}`");
    Error::new(ErrorKind::MergeConflict, message).with_hint(hint)
}

/// Returns the error for other files that both sides have changed.
fn file_conflict(session: &SessionId, target: &str, paths: &[String]) -> Error {
    let message = format!(
        "merge conflict between `{target}` and `{session}` in {}",
        paths.join(", ")
    );
    let hint = format!(
        "merge `{target}` in the worktree of the change, then run `agentd review {session}`"
    );
    Error::new(ErrorKind::MergeConflict, message).with_hint(hint)
}
