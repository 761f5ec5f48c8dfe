//! `tasks.tick`: which tasks are done, by what was seen and not by what was said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::evidence::NO_TREE;
use super::files::{clear_path, read_project_text, remove_file, write_text};
use super::git::{Changed, Status};
use super::{Act, ChangeSite, Operation, Site, Step, TurnEnd, change};
use crate::error::Result;
use crate::fail;
use crate::models::{Marker, OperationId, SessionId, StepOutcome, StepResult, TaskStatus};
use crate::spec::{Tasks, tick};

/// The list of tasks, in the change's folder.
const TASKS: &str = "tasks.md";

/// The record of an implementation, in the change's folder.
const RECORD: &str = "IMPLEMENTATION.md";

/// How many changed files are named.
const NAMED: usize = 20;

/// `tasks.tick`: ticks the tasks that a reply claims, if files were changed and the checks passed.
pub(super) struct Tick;

/// What a turn claims, as the ledger keeps it until it is settled.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    turn: String,
    /// The commit that the turn began with.
    from: String,
    tasks: BTreeMap<String, TaskStatus>,
}

impl Operation for Tick {
    fn id(&self) -> OperationId {
        OperationId::TasksTick
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for Tick {
    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let (change, session) = (site.change?, site.session?);
        let status = |marker: &Marker| match marker {
            Marker::TaskStatus { id, status } => Some((id.clone(), *status)),
            Marker::Review { .. } | Marker::Named { .. } => None,
        };
        let claims = Claims {
            turn: format!("{session}/{}", end.started.turn),
            // What the agent has committed itself has changed, too.
            from: end
                .started
                .commit
                .clone()
                .or_else(|| change.worktree.head().ok())?,
            tasks: end.markers.iter().filter_map(status).collect(),
        };
        Some(Step::always(
            self.id(),
            TASKS,
            serde_json::to_string(&claims).ok()?,
        ))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let (Some(change), Some(session)) = (&site.change, site.session) else {
            return Ok(planned.settled(false, NO_TREE.to_owned()));
        };
        let claims = planned
            .content
            .as_deref()
            .and_then(|content| serde_json::from_str::<Claims>(content).ok());
        let Some(claims) = claims else {
            return Ok(planned.settled(false, "what was claimed cannot be read".to_owned()));
        };
        // Files that an agent could have made unreadable must not keep a change from being led on.
        Ok(settle(site, change, session, planned, &claims)
            .unwrap_or_else(|error| planned.settled(false, error.to_string())))
    }
}

fn settle(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    session: &SessionId,
    planned: &Step,
    claims: &Claims,
) -> Result<StepResult> {
    let folder = change::folder(session);
    let (tasks_file, record_file) = (format!("{folder}/{TASKS}"), format!("{folder}/{RECORD}"));
    let own = format!("{folder}/");
    let changed: Vec<Changed> = change.worktree.changed(&claims.from)?;
    let restored = restore(site, change, claims, &own, &changed)?;
    let changed: Vec<&Changed> = changed
        .iter()
        .filter(|changed| !changed.path.starts_with(&own))
        .collect();
    let checks = change
        .state
        .results
        .get(&OperationId::ChecksRun)
        .and_then(|found| found.result.clone())
        .unwrap_or(StepOutcome::None);
    let text = read_project_text(site.root, &tasks_file)?.unwrap_or_default();
    let tasks = Tasks::read(&text);
    let counts = !changed.is_empty() && checks != StepOutcome::Failed;
    let claimed = |id: &str| claims.tasks.get(id) == Some(&TaskStatus::Completed);
    // As the turn began: a run that was interrupted may have ticked some of them.
    let before = change.repository.text_at(&claims.from, &tasks_file)?;
    let before = before.map(|text| Tasks::read(&text)).unwrap_or_default();
    let was_done: BTreeSet<&str> = before
        .tasks
        .iter()
        .filter(|task| task.done)
        .map(|task| task.id.as_str())
        .collect();
    let ids = tasks.tasks.iter().map(|task| task.id.as_str());
    let ticked: BTreeSet<&str> = ids
        .filter(|id| counts && claimed(id) && !was_done.contains(id))
        .collect();
    if !ticked.is_empty() {
        let ticked: Vec<&str> = ticked.iter().copied().collect();
        write_text(site.root, &tasks_file, &tick(&text, &ticked))?;
        fail::point("ticked")?;
    }
    let left = tasks
        .open()
        .into_iter()
        .filter(|task| !ticked.contains(task.id.as_str()));
    let unclaimed = left.clone().filter(|task| !claimed(&task.id)).count();
    let result = match (changed.is_empty(), unclaimed, &checks) {
        (true, ..) => StepOutcome::Unchanged,
        (false, 0, StepOutcome::Failed) => StepOutcome::Unverified,
        (false, 0, _) => StepOutcome::Done,
        (false, ..) if !ticked.is_empty() => StepOutcome::Progress,
        (false, ..) => StepOutcome::Open,
    };
    let block = block(
        claims,
        &changed,
        &restored,
        &checks,
        &tasks,
        (&was_done, &ticked),
    );
    let record = read_project_text(site.root, &record_file)?.unwrap_or_default();
    write_text(site.root, &record_file, &with_block(&record, &block))?;
    let detail = format!(
        "{} of {} tasks ticked; {} left open",
        ticked.len(),
        tasks.tasks.len(),
        left.count()
    );
    Ok(planned
        .settled(true, detail)
        .with_outcome(result, Some(block)))
}

/// Puts back what an agent has changed of the change's own folder, its record excepted: what was planned, challenged
/// and reviewed is not for who implements it. What was put back before has not changed any more.
fn restore(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    claims: &Claims,
    own: &str,
    changed: &[Changed],
) -> Result<Vec<String>> {
    let mut restored = Vec::new();
    for file in changed {
        let mut paths = vec![&file.path];
        if let Status::Renamed { from } = &file.status {
            paths.push(from);
        }
        for path in paths {
            let Some(name) = path.strip_prefix(own).filter(|name| *name != RECORD) else {
                continue;
            };
            let before = change.repository.text_at(&claims.from, path)?;
            // A run that was interrupted may have ticked what is claimed: that is put back, and not told.
            let ids: Vec<&str> = claims.tasks.keys().map(String::as_str).collect();
            let ticked = before
                .as_deref()
                .filter(|_| name == TASKS)
                .map(|text| tick(text, &ids));
            let now = read_project_text(site.root, path).ok().flatten();
            clear_path(site.root, path)?;
            match before {
                Some(text) => write_text(site.root, path, &text)?,
                None => remove_file(site.root, path)?,
            }
            if ticked.is_none() || now != ticked {
                restored.push(name.to_owned());
            }
        }
    }
    Ok(restored)
}

/// Returns what was seen of a turn, for people to read.
fn block(
    claims: &Claims,
    changed: &[&Changed],
    restored: &[String],
    checks: &StepOutcome,
    tasks: &Tasks,
    (was_done, ticked): (&BTreeSet<&str>, &BTreeSet<&str>),
) -> String {
    let mut text = format!(
        "{EVIDENCE}{}\n\nWritten by agentd from what it saw, not by the agent.\n\n",
        claims.turn
    );
    let (added, removed) = changed.iter().fold((0, 0), |(added, removed), file| {
        (added + file.added, removed + file.removed)
    });
    let names: Vec<String> = changed
        .iter()
        .take(NAMED)
        .map(|file| format!("`{}`", file.path))
        .collect();
    let more = if changed.len() > NAMED { ", …" } else { "" };
    let files = match changed.len() {
        0 => "nothing".to_owned(),
        count => format!(
            "{count} files (+{added} −{removed}): {}{more}",
            names.join(", ")
        ),
    };
    let _infallible = writeln!(
        text,
        "- changed: {files}\n- checks: {}\n",
        checks.as_str().to_lowercase()
    );
    if !restored.is_empty() {
        let names: Vec<String> = restored.iter().map(|name| format!("`{name}`")).collect();
        let _infallible = writeln!(
            text,
            "- put back, as it is not the implementer's to change: {}\n",
            names.join(", ")
        );
    }
    text.push_str("| task | claimed | ticked | why |\n|---|---|---|---|\n");
    for task in &tasks.tasks {
        let claim = claims.tasks.get(&task.id);
        let is_ticked = ticked.contains(task.id.as_str());
        let why = match claim {
            _ if was_done.contains(task.id.as_str()) => "was done before",
            None => "not claimed",
            Some(TaskStatus::Failed) => "the agent gave it up",
            Some(TaskStatus::Completed) if is_ticked => "files changed, no check failed",
            Some(TaskStatus::Completed) if changed.is_empty() => "claimed, and nothing was changed",
            Some(TaskStatus::Completed) => "claimed, and checks failed",
        };
        let claim = claim.map_or("-", |status| status.name());
        let tick = if task.done || is_ticked { "yes" } else { "no" };
        let _infallible = writeln!(text, "| {} | {claim} | {tick} | {why} |", task.id);
    }
    text
}

/// What stands between our own words and the agent's.
const THE_AGENTS: &str = "<!-- What follows is the agent's own record. -->\n";

/// What our own words begin with.
const EVIDENCE: &str = "## Evidence of ";

/// Puts what was seen of a turn before an agent's record, in the place of what was seen of an earlier one. Nothing that
/// an agent writes can come before it, hide it or pass for it.
fn with_block(record: &str, block: &str) -> String {
    let own = record
        .split_once(THE_AGENTS)
        .filter(|_| record.starts_with(EVIDENCE));
    let own = own.map_or(record, |(_, own)| own).trim();
    let lines = own.lines().map(|line| {
        let is_ours =
            line.trim_start().starts_with(EVIDENCE) || line.contains(THE_AGENTS.trim_end());
        if is_ours {
            format!("> {line}\n")
        } else {
            format!("{line}\n")
        }
    });
    format!("{block}\n{THE_AGENTS}\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_comes_first_and_once() {
        let block = "## Evidence of c/3\n\n- changed: nothing\n";
        let once = with_block("# Mine\n\n## Evidence of c/3\n<!--\n", block);
        assert_eq!(
            once,
            format!("{block}\n{THE_AGENTS}\n# Mine\n\n> ## Evidence of c/3\n<!--\n")
        );
        assert_eq!(with_block(&once, block), once);
        let next = "## Evidence of c/4\n";
        assert_eq!(
            with_block("## Evidence of c/3\nok\n", next),
            format!("{next}\n{THE_AGENTS}\n> ## Evidence of c/3\nok\n")
        );
    }
}
