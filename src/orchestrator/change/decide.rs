//! A person's decision about a change.

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

/// Records a person's decision about a change, and what follows from it.
///
/// # Errors
///
/// `ChangeNotFound`; `NotWaiting` if the decision cannot be made now.
pub fn decide(
    context: &TurnContext<'_>,
    change: &SessionId,
    decision: Decision,
    note: Option<&str>,
) -> Result<ChangeStatus> {
    with_lease(context, change, |lease| {
        // Steps of a change that is abandoned are not run first.
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
        let follows = apply::decided(&workspace.pack, &session.state, decision)?;
        if abandons {
            abandon_steps(context, lease)?;
        } else {
            // Anything that keeps the change from going on is reported before the decision is recorded.
            let worktree = ensure_worktree(context, change, &session.state)?;
            worktree.commit(&commit_message_for_edits(change))?;
        }
        let mut events: Vec<Event> = follows.into_iter().collect();
        events.push(Event::Decided { decision, note });
        session.commit(&events, &[])?;

        let status = find_status(session)?;
        if abandons && let Err(error) = close_change(context, change, &status.state) {
            log::warn!("cannot remove the worktree: {error}");
        }
        Ok(status)
    })
}

/// Refuses a decision that cannot be made now.
fn check_decision(change: &SessionId, decision: Decision, next: &NextStep) -> Result<()> {
    let Some(reason) = refusal(decision, next) else {
        return Ok(());
    };
    let hint = match next {
        NextStep::Ready { .. } => format!("continue it with `agentd run {change}`"),
        _ => format!("see its status with `agentd change show {change}`"),
    };
    let message = format!("`{change}` {reason}");
    Err(Error::new(ErrorKind::NotWaiting, message).with_hint(hint))
}

/// Returns the reason why a decision cannot be made now.
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

/// Returns a person's note together with the questions that it answers. Without a note, the text says that nobody
/// answers them.
fn with_questions(state: &State, note: Option<&str>) -> Option<String> {
    let questions = &state.progress.questions;
    let repeats_them = |note: &str| {
        questions
            .iter()
            .all(|question| note.contains(question.as_str()))
    };
    if questions.is_empty() || note.is_some_and(repeats_them) {
        return note.map(str::to_owned);
    }

    let asked: Vec<String> = questions
        .iter()
        .map(|question| format!("> {question}"))
        .collect();
    let answer = note.unwrap_or(UNANSWERED_NOTICE.trim_end());
    Some(format!("{}\n\n{answer}", asked.join("\n")))
}
