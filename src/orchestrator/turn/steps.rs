//! Runs the steps of a turn and records their results.
//!
//! The intent of a step is committed before the step is run, and its result afterwards. After a crash in between, the
//! step is run again; operations are idempotent.

use std::time::Duration;

use super::active_turn::ActiveTurn;
use super::progress::ProgressEvent;
use super::session::Heartbeat;
use crate::apply;
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{Event, Finding, Marker, OperationId, ReviewResult, StepResult};
use crate::ops::{self, ChatSite, MergeLock, Site, Step, TurnEnd};
use crate::orchestrator::clock;
use crate::store::blob_id;

/// Poll interval while waiting for the merge lock.
const MERGE_LOCK_POLL: Duration = Duration::from_millis(100);

/// Plans the operations in `after` of the mode, and those in `finish` if the session ends. `events` are the events of
/// the reply.
pub(crate) fn always_run(
    turn: &ActiveTurn<'_>,
    events: &[Event],
    markers: &[Marker],
    verdict: Option<ReviewResult>,
    findings: Option<&[Finding]>,
) -> Result<Vec<Step>> {
    let context = turn.session.context;
    let started = turn.started();
    let spec = turn.mode_spec()?;

    // Findings are recorded only when the steps are run, but they decide whether the session ends.
    let noted = findings.map(|findings| settled(started.turn, &ops::noted(findings)));
    let state = turn.session.state.clone().after(events).after(&noted);
    let next = apply::advance(&context.workspace.pack, &state)?;
    let is_end = next == Some(Event::Ended { done: true });
    let finish = spec.finish.iter().filter(|_| is_end);

    let end = TurnEnd {
        started,
        markers,
        verdict,
        findings,
        today: &clock::today(),
    };
    let site = turn.operation_site(&state);
    let mut steps = Vec::new();
    for name in spec.after.iter().chain(finish) {
        let step = context.operations.plan_always(name.as_str(), &site, &end)?;
        steps.extend(step);
    }
    Ok(steps)
}

/// Runs steps in order, records their results, and moves the session to its next mode if its rules allow it.
///
/// After a failed step, steps that are run after every turn are skipped, because they depend on the steps before them.
pub(crate) fn run_steps(turn: &mut ActiveTurn<'_>, steps: &[Step]) -> Result<Vec<StepResult>> {
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let context = turn.session.context;
    let _merge_lock = take_merge_lock(turn, steps)?;

    let mut results: Vec<StepResult> = Vec::new();
    let mut recorded = 0;
    // A step sees the changes of the steps before it, which are not recorded yet.
    let mut document = turn.session.state.document.clone();
    let mut failed = failed_before(turn, steps);
    for step in steps {
        let unrecorded = &results[recorded..];
        let has_changes = unrecorded.iter().any(|result| !result.changes.is_empty());
        if has_changes || (step.is_always_run() && !unrecorded.is_empty()) {
            // This step may change files that earlier steps depend on. Their results are recorded first, so that they
            // are not run again after a crash.
            record_results(turn, &results[recorded..], None)?;
            recorded = results.len();
            fail::point("noted")?;
        }

        let mut result = match failed.as_ref().filter(|_| step.is_always_run()) {
            Some(failed) => step.settled(false, format!("skipped: {failed} failed")),
            None => {
                let site = turn.operation_site(&turn.session.state);
                let chat = site.chat.map(|chat| ChatSite {
                    document: &document,
                    ..chat
                });
                context.operations.run(&Site { chat, ..site }, step)?
            }
        };
        for change in result.changes.iter().filter(|_| result.done) {
            document.apply_change(change);
            fail::point("changed")?;
        }
        if !result.done {
            failed.get_or_insert_with(|| result.operation.clone());
        }
        result.report = result.text.as_ref().map(|text| blob_id(text.as_bytes()));
        context.run.report(ProgressEvent::Settled(result.clone()));
        results.push(result);
    }

    // advance
    let number = turn.started().turn;
    let last = results[recorded..].iter();
    let last: Vec<Event> = last.map(|result| settled(number, result)).collect();
    let state = turn.session.state.clone().after(&last);
    let next = apply::advance(&context.workspace.pack, &state)?;
    fail::point("settling")?;
    record_results(turn, &results[recorded..], next)?;
    fail::point("settled")?;
    Ok(results)
}

/// Returns the reason why unfinished or failed steps must not be run: the current commit is not the reviewed one.
/// `None` if they may be run.
pub(crate) fn stale_reason(turn: &ActiveTurn<'_>, steps: &[Step]) -> Result<Option<String>> {
    if turn.session.state.change.is_none() || !steps.iter().any(Step::is_always_run) {
        return Ok(None);
    }
    let context = turn.session.context;
    turn.site.check_trust(context, &turn.started().mode)?;
    if !turn
        .mode_spec()?
        .before
        .contains(&OperationId::ReviewRequire)
    {
        return Ok(None);
    }

    let operation = context
        .operations
        .find_inspect(OperationId::ReviewRequire.as_str())?;
    match operation.inspect(&turn.operation_site(&turn.session.state)) {
        Err(error) if error.kind() == ErrorKind::VerdictStale => Ok(Some(error.to_string())),
        inspection => inspection.map(|_| None),
    }
}

/// Records steps as not run, with the reason.
pub(crate) fn refuse_steps(turn: &mut ActiveTurn<'_>, steps: &[Step], reason: &str) -> Result<()> {
    let number = turn.started().turn;
    let refused = steps
        .iter()
        .map(|step| settled(number, &step.settled(false, reason.to_owned())));
    let events: Vec<Event> = refused.collect();
    turn.commit(&events, &[])
}

/// Waits for the merge lock of the project if one of the steps merges; returns `None` if none does.
fn take_merge_lock(turn: &ActiveTurn<'_>, steps: &[Step]) -> Result<Option<MergeLock>> {
    if !steps.iter().any(Step::needs_merge_lock) {
        return Ok(None);
    }
    let mut heartbeat = Heartbeat::new();
    loop {
        if let Some(lock) = MergeLock::take(&turn.session.context.workspace.root)? {
            return Ok(Some(lock));
        }
        if !turn.session.pause(MERGE_LOCK_POLL, &mut heartbeat)? {
            let message = "stopped while waiting for another change to be merged";
            return Err(Error::new(ErrorKind::AgentStopped, message));
        }
    }
}

/// Returns an operation that failed earlier in this turn and that `steps` do not run again.
fn failed_before(turn: &ActiveTurn<'_>, steps: &[Step]) -> Option<OperationId> {
    let is_run_again = |operation: &OperationId, target: &str| {
        steps
            .iter()
            .any(|step| step.operation == *operation && step.target == target)
    };
    let mut failed = turn.session.state.progress.failed();
    failed
        .find(|(operation, target)| !is_run_again(operation, target))
        .map(|(operation, _)| operation.clone())
}

/// Records the results of steps, and the `next` event that follows from them.
fn record_results(
    turn: &mut ActiveTurn<'_>,
    results: &[StepResult],
    next: Option<Event>,
) -> Result<()> {
    let number = turn.started().turn;
    let mut events: Vec<Event> = results
        .iter()
        .map(|result| settled(number, result))
        .collect();
    events.extend(next);

    let texts = results.iter().filter_map(|result| result.text.as_ref());
    let texts: Vec<&[u8]> = texts.map(String::as_bytes).collect();
    turn.commit(&events, &texts)
}

fn settled(turn: u64, result: &StepResult) -> Event {
    Event::Settled {
        turn,
        settlement: result.clone(),
    }
}
