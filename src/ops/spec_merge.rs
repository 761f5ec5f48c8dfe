//! The project's specs: shown to who plans and judges, and merged with those of a change.

use super::archive::with_hint;
use super::change::{self, artifacts};
use super::evidence::NO_TREE;
use super::files::write_text;
use super::git::Merged;
use super::{Act, ChangeSite, Inspect, Inspection, Operation, Site, Step, TurnEnd, specs};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{ContextItem, ContextKind, OperationId, SessionId, StepOutcome, StepResult};
use crate::spec::{self, Conflict};

/// The folder of the project's specs: what is true now.
pub const SPECS: &str = "agentd/specs";

/// `specs.show`: shows the project's specs as they were when the change was opened; for a session that was not opened as
/// a change, as they are in the tree.
pub(super) struct Show;

impl Operation for Show {
    fn id(&self) -> OperationId {
        OperationId::SpecsShow
    }
}

impl Inspect for Show {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let specs = match &site.change {
            Some(change) => {
                let is_spec = |name: &str| name.ends_with(".md");
                change
                    .repository
                    .texts_in(&change.opened.base, SPECS, is_spec)?
            }
            None => specs::specs(site.root)?.into_iter().collect(),
        };
        let mut found = Inspection::default();
        for (path, text) in specs {
            let item = ContextItem::new(ContextKind::File, path, text);
            found.items.push((item, "the project's specs".to_owned()));
        }
        Ok(found)
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        self.inspect(site)
    }
}

/// `specs.merge`: merges the specs of a change into those of the project, section by section.
pub(super) struct Merge;

impl Operation for Merge {
    fn id(&self) -> OperationId {
        OperationId::SpecsMerge
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for Merge {
    /// A conflict is told before anything is spent.
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let (change, session) = site.require_change(&self.id())?;
        let target = target_commit(change)?;
        merged(site, change, session, target.as_deref(), "1970-01-01")?;
        Ok(Inspection::default())
    }
}

impl Act for Merge {
    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        site.change
            .map(|_| Step::always(self.id(), SPECS, end.today))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let (Some(change), Some(session)) = (&site.change, site.session) else {
            return Ok(planned.settled(false, NO_TREE.to_owned()));
        };
        // The folder is gone once the change was archived, and its specs were merged before.
        if !change::has_change(site.root, session) {
            return Ok(planned.settled(true, "its specs are merged".to_owned()));
        }
        let today = planned.content.as_deref().unwrap_or_default();
        let merge = || {
            let target = target_commit(change)?;
            let specs = merged(site, change, session, target.as_deref(), today)?;
            let moved = follow(change, session, target.as_deref(), &specs)?;
            fail::point("following")?;
            specs
                .iter()
                .try_for_each(|(path, text)| write_text(site.root, path, text))?;
            Ok((specs.len(), moved))
        };
        Ok(match merge() {
            Ok((count, moved)) => {
                let result = if moved {
                    StepOutcome::Moved
                } else {
                    StepOutcome::Merged
                };
                planned
                    .settled(true, format!("specs that are merged: {count}"))
                    .with_outcome(result, None)
            }
            Err(error) => planned.settled(false, with_hint(&error)),
        })
    }
}

/// Brings into a change what has happened to its target meanwhile; tells whether that was anything, also if it was
/// brought in before by a run that was interrupted. `now` is the commit of the target, for which `specs` were made.
fn follow(
    change: &ChangeSite<'_>,
    session: &SessionId,
    now: Option<&str>,
    specs: &[(String, String)],
) -> Result<bool> {
    let target = target(change);
    let Some(now) = now else {
        return Err(Error::new(
            ErrorKind::GitFailed,
            format!("there is no commit `{target}`"),
        ));
    };
    // Also what was brought in before, by hand or when this was tried last.
    let moved = now != change.opened.base;
    if change
        .repository
        .is_ancestor(now, &change.worktree.head()?)?
    {
        return Ok(moved);
    }
    change
        .worktree
        .commit(&format!("agentd({session}): archive"))?;
    let message = format!("agentd({session}): what has changed in {target} meanwhile");
    match change.worktree.merge_from(now, &message, specs)? {
        Merged::UpToDate | Merged::Done(_) => Ok(moved),
        Merged::Conflict(paths) => Err(elsewhere(session, target, &paths)),
    }
}

/// Returns what a change is merged with: the branch it goes back to, or where it came from.
fn target<'a>(change: &ChangeSite<'a>) -> &'a str {
    change.opened.onto.as_deref().unwrap_or(&change.opened.base)
}

/// Returns the commit of [`target`] now; `None` if the branch is gone.
fn target_commit(change: &ChangeSite<'_>) -> Result<Option<String>> {
    match &change.opened.onto {
        Some(branch) => change.repository.branch_commit(branch),
        None => change.repository.commit_of(&change.opened.base),
    }
}

/// Returns the path and merged text of each spec of the change, with the project's specs taken from the commit `now`.
fn merged(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    session: &SessionId,
    now: Option<&str>,
    today: &str,
) -> Result<Vec<(String, String)>> {
    let (repository, base) = (change.repository, change.opened.base.as_str());
    let mut wanted = artifacts(site.root, session, &["specs/*.md".to_owned()])?;
    for (name, _) in &mut wanted {
        *name = format!("{SPECS}/{}", name.trim_start_matches("specs/"));
    }
    let paths: Vec<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
    let before = repository.texts_at(base, &paths)?;
    let current = match now {
        Some(now) if now != base => repository.texts_at(now, &paths)?,
        _ => before.clone(),
    };

    let updated_at = format!("{today}T00:00:00Z");
    let mut specs = Vec::new();
    for (path, wanted) in wanted {
        let (before, current) = (before.get(&path), current.get(&path));
        match spec::merge(
            before.map(String::as_str),
            current.map(String::as_str),
            &wanted,
            &updated_at,
        ) {
            Ok(text) => specs.push((path, text)),
            Err(conflicts) => return Err(conflict(session, &path, &conflicts)),
        }
    }
    Ok(specs)
}

/// Tells of sections that were changed by someone else, too.
fn conflict(session: &SessionId, path: &str, conflicts: &[Conflict]) -> Error {
    let told: String = conflicts
        .iter()
        .map(|conflict| format!("\n  {path}: {}: {}", conflict.section, conflict.why))
        .collect();
    let message = format!("the specs of `{session}` and of the project do not go together:{told}");
    let hint = format!("make both say the same, then `agentd review {session}` once more");
    Error::new(ErrorKind::MergeConflict, message).with_hint(hint)
}

fn elsewhere(session: &SessionId, target: &str, paths: &[String]) -> Error {
    let message = format!(
        "`{target}` has changed the same lines as `{session}`: {}",
        paths.join(", ")
    );
    Error::new(ErrorKind::MergeConflict, message).with_hint(format!(
        "merge `{target}` in its work tree, then `agentd review {session}` once more"
    ))
}
