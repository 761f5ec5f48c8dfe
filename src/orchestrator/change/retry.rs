//! Retries the failed steps of a change's last turn without calling the agent.

use super::open::ensure_worktree;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Event, SessionId, StepResult};
use crate::ops::Step;
use crate::orchestrator::turn::record::TurnRecord;
use crate::orchestrator::turn::recover::{load_steps, recover, with_lease};
use crate::orchestrator::turn::site::TurnSite;
use crate::orchestrator::turn::{ActiveTurn, TurnContext, run_steps, stale_reason};

/// Retries the steps that are run after every turn, if one of them failed after the last turn of a change. Returns
/// `None` if none failed, or if a step that the reply requested failed: that needs another turn.
///
/// # Errors
///
/// `VerdictStale` if the current commit is not the reviewed one. Also fails if the steps cannot be run or recorded.
pub(super) fn retry_steps(
    context: &TurnContext<'_>,
    change: &SessionId,
) -> Result<Option<Vec<StepResult>>> {
    with_lease(context, change, |lease| {
        let session = recover(context, lease)?;
        let state = &session.state;
        let progress = &state.progress;
        if state.change.is_none()
            || state.ended.is_some()
            || progress.fault.is_some()
            || progress.undone == 0
        {
            return Ok(None);
        }
        let events = context.store.events(change)?;
        let Some(turn) = TurnRecord::last(change, &events) else {
            return Ok(None);
        };
        let Some(steps) = steps_to_retry(context, &turn)? else {
            return Ok(None);
        };

        ensure_worktree(context, change, state)?;
        let prepared = turn.to_prepared(context.store)?;
        let site = TurnSite::for_session(context, Some(change), state)?;
        let mut active = ActiveTurn::new(session, &prepared, &site);
        // The user may have changed the reviewed files, for example to resolve a merge conflict.
        if let Some(reason) = stale_reason(&active, &steps)? {
            let hint = format!("review it again with `agentd review {change}`");
            return Err(Error::new(ErrorKind::VerdictStale, reason).with_hint(hint));
        }
        let intended = steps.iter().map(|step| Event::Intended {
            turn: prepared.started.turn,
            intent: step.intent(),
        });
        let intended: Vec<Event> = intended.collect();
        active.commit(&intended, &[])?;
        run_steps(&mut active, &steps).map(Some)
    })
}

/// Returns all steps that are run after every turn, if one of them failed and all steps that the reply requested
/// succeeded. Successful steps are included, because their results may be outdated.
fn steps_to_retry(context: &TurnContext<'_>, turn: &TurnRecord) -> Result<Option<Vec<Step>>> {
    let steps = load_steps(context.store, &turn.intents)?;
    let results = turn.settlements.iter().map(|result| result.done);
    let mut last_results: Vec<(Step, bool)> = Vec::new();
    for (step, done) in steps.into_iter().zip(results) {
        if !step.is_always_run() && !done {
            return Ok(None);
        }
        match last_results.iter_mut().find(|(known, _)| *known == step) {
            Some((_, last)) => *last = done,
            None if step.is_always_run() => last_results.push((step, done)),
            None => {}
        }
    }

    let has_failed = last_results.iter().any(|(_, done)| !done);
    let steps = last_results.into_iter().map(|(step, _)| step);
    Ok(has_failed.then(|| steps.collect()))
}
