//! Decisions of the user about a change.

use super::close::close_change;
use super::open::{
    ChangeStatus, commit_message_for_edits, ensure_worktree, find_status, not_opened,
};
use crate::apply::{self, NextStep};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Decision, Event, SessionId, State};
use crate::orchestrator::turn::TurnContext;
use crate::orchestrator::turn::recover::{
    abandon_steps, recover, recover_without_steps, with_lease,
};
use crate::pack::UNANSWERED_NOTICE;

/// Records a decision of the user about a change, and moves the change to the mode that the decision leads to.
///
/// # Errors
///
/// `ChangeNotFound` if there is no such change, `NotWaiting` if the decision is not possible in its current state.
pub fn decide(
    context: &TurnContext<'_>,
    change: &SessionId,
    decision: Decision,
    note: Option<&str>,
) -> Result<ChangeStatus> {
    with_lease(context, change, |lease| {
        // A change that is about to be abandoned does not run its remaining steps.
        let abandons = matches!(decision, Decision::Reject | Decision::Cancel);
        let mut session = if abandons {
            recover_without_steps(context, lease)?
        } else {
            recover(context, lease)?
        };
        if session.state.change.is_none() {
            return Err(not_opened(change));
        }
        let workspace = context.workspace;
        let next = apply::next_step(&workspace.pack, &session.state, workspace.rounds())?;
        check_decision(change, decision, &next)?;

        let note = if abandons {
            note.map(str::to_owned)
        } else {
            with_questions(&session.state, note)
        };
        let note = note.map(|note| workspace.secrets.redact(&note).into_owned());
        let next_event = apply::decided(&workspace.pack, &session.state, decision)?;
        if abandons {
            abandon_steps(context, lease)?;
        } else {
            // Done before the decision is recorded, so that nothing is recorded if the change cannot continue.
            let worktree = ensure_worktree(context, change, &session.state)?;
            worktree.commit(&commit_message_for_edits(change))?;
        }
        let mut events: Vec<Event> = next_event.into_iter().collect();
        events.push(Event::Decided { decision, note });
        session.commit(&events, &[])?;

        let status = find_status(session)?;
        if abandons && let Err(error) = close_change(context, change, &status.state) {
            log::warn!("cannot remove the worktree of change `{change}`: {error}");
        }
        Ok(status)
    })
}

/// Returns an error if a decision is not possible in the current state of a change.
fn check_decision(change: &SessionId, decision: Decision, next: &NextStep) -> Result<()> {
    let Some(reason) = refusal(decision, next) else {
        return Ok(());
    };
    let hint = match next {
        NextStep::Ready { .. } => format!("continue it with `agentd run {change}`"),
        _ => format!("see its status with `agentd change show {change}`"),
    };
    let message = format!("change `{change}` {reason}");
    Err(Error::new(ErrorKind::NotWaiting, message).with_hint(hint))
}

/// Returns the reason why a decision is not possible, as the predicate of a sentence about the change, such as `is
/// archived`; `None` if the decision is possible.
fn refusal(decision: Decision, next: &NextStep) -> Option<&'static str> {
    match (decision, next) {
        (_, NextStep::Over { done: true }) => Some("is archived"),
        (Decision::Approve | Decision::Waive, NextStep::Over { .. }) => {
            Some("was abandoned; only `revise` reopens it")
        }
        (Decision::Reject | Decision::Cancel, NextStep::Over { .. }) => {
            Some("was already abandoned")
        }
        (Decision::Waive, NextStep::Person { .. }) => Some("is waiting for your decision"),
        (Decision::Approve | Decision::Waive | Decision::Reject, NextStep::Ready { .. }) => {
            Some("is not waiting for a decision")
        }
        _ => None,
    }
}

/// Returns the user's note together with the questions that it answers. Without a note, the text says that the
/// questions are not answered.
fn with_questions(state: &State, note: Option<&str>) -> Option<String> {
    let questions = &state.progress.questions;
    let repeats_questions = |note: &str| {
        questions
            .iter()
            .all(|question| note.contains(question.as_str()))
    };
    if questions.is_empty() || note.is_some_and(repeats_questions) {
        return note.map(str::to_owned);
    }

    let asked: Vec<String> = questions
        .iter()
        .map(|question| format!("> {question}"))
        .collect();
    let answer = note.unwrap_or(UNANSWERED_NOTICE.trim_end());
    Some(format!("{}\n\n{answer}", asked.join("\n")))
}
