//! `tasks.tick`: ticks the tasks that a reply claims, if there is evidence that they are done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fail;
use crate::models::paths::{IMPLEMENTATION_FILE, TASKS_FILE, change_file, change_folder};
use crate::models::{Marker, OperationId, SessionId, StepOutcome, StepResult, TaskStatus};
use crate::ops::fs::{clear_path, read_project_text, remove_file, write_text};
use crate::ops::git::{ChangedFile, FileStatus};
use crate::ops::{Act, ChangeSite, Operation, Site, Step, TurnEnd};
use crate::spec::{Tasks, tick};

/// Start of the heading above the evidence in the change's implementation record.
const EVIDENCE: &str = "## Evidence of ";

/// Line that separates the evidence, which agentd writes, from the text that the agent writes.
const AGENT_RECORD: &str = "<!-- What follows is the agent's own record. -->\n";

/// Maximum number of changed files that the record lists.
const MAX_LISTED_FILES: usize = 20;

/// Ticks tasks only if files were changed and no check failed, and writes the evidence to the change's record. The
/// content of its step is [`Claims`] as JSON.
pub(crate) struct TasksTick;

/// Claims of a turn, recorded in the ledger until the step is run.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    /// The turn, as `SESSION/NUMBER`.
    turn: String,
    /// Commit of the worktree when the turn was started.
    from: String,
    /// Status that the reply gives for each task.
    tasks: BTreeMap<String, TaskStatus>,
}

impl Operation for TasksTick {
    fn id(&self) -> OperationId {
        OperationId::TasksTick
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for TasksTick {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let change = site.change?;
        let session = site.session?;

        let task_status = |marker: &Marker| match marker {
            Marker::TaskStatus { id, status } => Some((id.clone(), *status)),
            Marker::Review { .. } | Marker::Named { .. } => None,
        };
        // The comparison starts at the turn's first commit, so that commits of the agent itself count as its changes.
        let from = end
            .started
            .commit
            .clone()
            .or_else(|| change.worktree.head().ok())?;
        let claims = Claims {
            turn: format!("{session}/{}", end.started.turn),
            from,
            tasks: end.markers.iter().filter_map(task_status).collect(),
        };

        let content = serde_json::to_string(&claims).ok()?;
        Some(Step::always(self.id(), TASKS_FILE, content))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let (Some(change), Some(session)) = (&site.change, site.session) else {
            return Ok(step.without_change());
        };
        let content = step.content.as_deref().unwrap_or_default();
        let Ok(claims) = serde_json::from_str::<Claims>(content) else {
            return Ok(step.not_done("cannot parse the recorded task claims"));
        };

        // An agent can make files unreadable. The step then fails, but the change can continue.
        Ok(tick_tasks(site, change, session, step, &claims)
            .unwrap_or_else(|error| step.not_done(error.to_string())))
    }
}

/// Evidence on the claims of a turn.
struct Evidence<'a> {
    claims: &'a Claims,
    /// Changed files outside the change's folder.
    changed: Vec<&'a ChangedFile>,
    /// Names of the restored files in the change's folder.
    restored: Vec<String>,
    /// Outcome of `checks.run`.
    checks: StepOutcome,
    tasks: &'a Tasks,
    /// Tasks that were done when the turn was started.
    was_done: BTreeSet<&'a str>,
    /// Tasks that this turn ticks.
    ticked: BTreeSet<&'a str>,
}

/// Restores the change's folder, ticks tasks in it, and writes the record.
fn tick_tasks(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    session: &SessionId,
    step: &Step,
    claims: &Claims,
) -> Result<StepResult> {
    let folder = format!("{}/", change_folder(session));
    let tasks_path = change_file(session, TASKS_FILE);
    let record_path = change_file(session, IMPLEMENTATION_FILE);

    let all_changed: Vec<ChangedFile> = change.worktree.changed(&claims.from)?;
    let restored = restore_folder(site, change, claims, &folder, &all_changed)?;
    let changed: Vec<&ChangedFile> = all_changed
        .iter()
        .filter(|changed| !changed.path.starts_with(&folder))
        .collect();
    let checks = change
        .state
        .results
        .get(&OperationId::ChecksRun)
        .and_then(|checks| checks.result.clone())
        .unwrap_or(StepOutcome::None);

    // The file at the start of the turn is read, because an interrupted run may have ticked some tasks since then.
    let text_at_start = change.repository.text_at(&claims.from, &tasks_path)?;
    let tasks_at_start = Tasks::read(&text_at_start.unwrap_or_default());
    let was_done: BTreeSet<&str> = tasks_at_start
        .tasks
        .iter()
        .filter(|task| task.done)
        .map(|task| task.id.as_str())
        .collect();

    let text = read_project_text(site.root, &tasks_path)?.unwrap_or_default();
    let tasks = Tasks::read(&text);
    let is_claimed = |id: &str| claims.tasks.get(id) == Some(&TaskStatus::Completed);
    let has_evidence = !changed.is_empty() && checks != StepOutcome::Failed;
    let ticked: BTreeSet<&str> = tasks
        .tasks
        .iter()
        .map(|task| task.id.as_str())
        .filter(|id| has_evidence && is_claimed(id) && !was_done.contains(id))
        .collect();
    if !ticked.is_empty() {
        let ids: Vec<&str> = ticked.iter().copied().collect();
        write_text(site.root, &tasks_path, &tick(&text, &ids))?;
        fail::point("ticked")?;
    }

    let left: Vec<_> = tasks
        .open()
        .into_iter()
        .filter(|task| !ticked.contains(task.id.as_str()))
        .collect();
    let unclaimed = left.iter().filter(|task| !is_claimed(&task.id)).count();
    let outcome = match (changed.is_empty(), unclaimed, &checks) {
        (true, ..) => StepOutcome::Unchanged,
        (false, 0, StepOutcome::Failed) => StepOutcome::Unverified,
        (false, 0, _) => StepOutcome::Done,
        (false, ..) if !ticked.is_empty() => StepOutcome::Progress,
        (false, ..) => StepOutcome::Open,
    };
    let detail = format!(
        "{} of {} tasks ticked; {} left open",
        ticked.len(),
        tasks.tasks.len(),
        left.len()
    );

    let evidence = Evidence {
        claims,
        changed,
        restored,
        checks,
        tasks: &tasks,
        was_done,
        ticked,
    };
    let evidence = evidence_text(&evidence);
    let record = read_project_text(site.root, &record_path)?.unwrap_or_default();
    write_text(site.root, &record_path, &with_evidence(&record, &evidence))?;
    Ok(step.done(detail).with_outcome(outcome, Some(evidence)))
}

/// Restores the files in the change's folder that the agent has changed, except the record: an implementer may not
/// change the plan or its review. Returns the names of the restored files, without those that an interrupted run has
/// already restored.
fn restore_folder(
    site: &Site<'_>,
    change: &ChangeSite<'_>,
    claims: &Claims,
    folder: &str,
    changed: &[ChangedFile],
) -> Result<Vec<String>> {
    let mut restored = Vec::new();
    for file in changed {
        let mut paths = vec![&file.path];
        if let FileStatus::Renamed { from } = &file.status {
            paths.push(from);
        }

        for path in paths {
            let Some(name) = path
                .strip_prefix(folder)
                .filter(|name| *name != IMPLEMENTATION_FILE)
            else {
                continue;
            };
            let before = change.repository.text_at(&claims.from, path)?;

            // An interrupted run may have ticked the claimed tasks. Such a file is restored, but not reported.
            let ids: Vec<&str> = claims.tasks.keys().map(String::as_str).collect();
            let ticked_before = before
                .as_deref()
                .filter(|_| name == TASKS_FILE)
                .map(|text| tick(text, &ids));
            let current = read_project_text(site.root, path).ok().flatten();

            clear_path(site.root, path)?;
            match before {
                Some(text) => write_text(site.root, path, &text)?,
                None => remove_file(site.root, path)?,
            }
            if ticked_before.is_none() || current != ticked_before {
                restored.push(name.to_owned());
            }
        }
    }
    Ok(restored)
}

/// Returns the evidence as Markdown.
fn evidence_text(evidence: &Evidence<'_>) -> String {
    let Evidence {
        claims,
        changed,
        restored,
        checks,
        ..
    } = evidence;
    let mut text = format!(
        "{EVIDENCE}{}\n\nWritten by agentd from what it saw, not by the agent.\n\n",
        claims.turn
    );

    let added: u64 = changed.iter().map(|file| file.added).sum();
    let removed: u64 = changed.iter().map(|file| file.removed).sum();
    let names: Vec<String> = changed
        .iter()
        .take(MAX_LISTED_FILES)
        .map(|file| format!("`{}`", file.path))
        .collect();
    let more = if changed.len() > MAX_LISTED_FILES {
        ", …"
    } else {
        ""
    };
    let files = match changed.len() {
        0 => "nothing".to_owned(),
        count => {
            let noun = if count == 1 { "file" } else { "files" };
            let names = names.join(", ");
            format!("{count} {noun} (+{added} −{removed}): {names}{more}")
        }
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
            "- restored, because the implementer may not change it: {}\n",
            names.join(", ")
        );
    }

    text.push_str("| task | claimed | ticked | why |\n|---|---|---|---|\n");
    for task in &evidence.tasks.tasks {
        let claim = claims.tasks.get(&task.id);
        let is_ticked = evidence.ticked.contains(task.id.as_str());
        let why = match claim {
            _ if evidence.was_done.contains(task.id.as_str()) => "was done before",
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

/// Returns a record that starts with the evidence, in place of the evidence of an earlier turn.
///
/// Lines of the agent's record that look like evidence are quoted, so that the agent cannot forge evidence.
fn with_evidence(record: &str, evidence: &str) -> String {
    let parts = record
        .split_once(AGENT_RECORD)
        .filter(|_| record.starts_with(EVIDENCE));
    let agent_record = parts
        .map_or(record, |(_, agent_record)| agent_record)
        .trim();

    let mut text = format!("{evidence}\n{AGENT_RECORD}\n");
    for line in agent_record.lines() {
        let looks_like_evidence =
            line.trim_start().starts_with(EVIDENCE) || line.contains(AGENT_RECORD.trim_end());
        if looks_like_evidence {
            text.push_str("> ");
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_comes_first_and_once() {
        let block = "## Evidence of c/3\n\n- changed: nothing\n";
        let once = with_evidence("# Mine\n\n## Evidence of c/3\n<!--\n", block);
        assert_eq!(
            once,
            format!("{block}\n{AGENT_RECORD}\n# Mine\n\n> ## Evidence of c/3\n<!--\n")
        );
        assert_eq!(with_evidence(&once, block), once);
        let next = "## Evidence of c/4\n";
        assert_eq!(
            with_evidence("## Evidence of c/3\nok\n", next),
            format!("{next}\n{AGENT_RECORD}\n> ## Evidence of c/3\nok\n")
        );
    }
}
