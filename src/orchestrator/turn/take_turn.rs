//! One turn: inspect → compose → call agent → parse → apply → commit → run steps → settle → advance.

use super::active_turn::ActiveTurn;
use super::apply_reply::apply_reply;
use super::artifacts::observe_artifacts;
use super::call::{AgentCalls, EndedCall, record_answer};
use super::call_error::call_error;
use super::context::TurnContext;
use super::inspect::inspect;
use super::instructions::add_request;
use super::prepare::{judged_state, prepare_turn};
use super::recover::{recover, with_lease};
use super::repairs::read_with_repairs;
use super::reply_reader::ReplyReader;
use super::report::TurnReport;
use super::request::TurnRequest;
use super::resolved::ResolvedTurn;
use super::site::TurnSite;
use super::steps::run_steps;
use crate::agent::Driver;
use crate::error::Result;
use crate::fail;
use crate::models::{CallOutcome, Event, Response};
use crate::orchestrator::prompts::assemble_turn;
use crate::orchestrator::random;

/// Takes one turn of a session.
///
/// # Errors
///
/// Anything that prevents the turn from being taken. Once the agent has answered, faults of its reply are in the report.
pub fn take_turn(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    request: &TurnRequest,
) -> Result<TurnReport> {
    let mut turn = ResolvedTurn::new(context.workspace, request)?;
    turn.check_operations(context)?;

    with_lease(context, &turn.session()?, |lease| {
        let session = recover(context, lease)?;
        session.require_pack()?;

        // inspect
        let mut opening = turn.opening_events(&session.state);
        opening.extend(observe_artifacts(context.workspace, &session.state)?);
        let state = session.state.clone().after(&opening);
        let judged = judged_state(context, &turn, &state)?;
        let site = TurnSite::open(context, &turn.request, &judged)?;
        let inspected = inspect(context, &turn, &site, &judged)?;

        // compose: layers, fit, render
        turn.request.found.extend(inspected.items);
        turn.request.instructions = add_request(context.store, &turn.request)?;
        turn.request.measured = turn.measured(context)?;
        turn.request.nonce = Some(random::nonce()?);
        let assembly = assemble_turn(context.workspace, &state, &turn)?;
        let mut prepared = prepare_turn(context, driver, &state, &turn, &assembly)?;
        prepared.started.commit = site.commit()?;
        prepared.inspections = inspected.results;
        fail::point("prepared")?;

        let mut active = ActiveTurn::new(session, &prepared, &site);
        active.warnings.extend(inspected.warning);
        run_turn(active, driver, opening)
    })
}

/// Runs a prepared turn from the call of its agent on. `opening` is recorded with the start of the turn.
pub(crate) fn run_turn(
    mut turn: ActiveTurn<'_>,
    driver: &dyn Driver,
    opening: Vec<Event>,
) -> Result<TurnReport> {
    // call agent
    let mut calls = AgentCalls::new(&mut turn, driver);
    let answer = calls.ask(opening)?;
    fail::point("replied")?;
    if !answer.reply.end.is_ok() {
        return report_failed_call(&mut turn, &answer);
    }

    // parse, and ask again for what the reply lacks
    let workspace = calls.turn.session.context.workspace;
    let prepared = calls.turn.prepared;
    let reader = ReplyReader::new(workspace, &prepared.started, &prepared.texts)?;
    let text = answer.reply.text.clone();
    let left_behind = answer.reply.left_behind;
    let read = read_with_repairs(&mut calls, &reader, answer)?;
    if let Some(answer) = read.unrecorded.as_ref().filter(|answer| ends_turn(answer)) {
        return report_failed_call(&mut turn, answer);
    }

    // apply, commit
    let last = read.unrecorded.as_ref();
    let applied = apply_reply(&mut turn, &reader, read.response, last, None)?;

    // run steps, settle, advance
    let results = run_steps(&mut turn, &applied.steps)?;

    let report = applied.report(&turn, results)?;
    Ok(TurnReport {
        reply: text,
        left_behind,
        usage: read.usage,
        ..report
    })
}

/// Returns true for a repair call that edited files or was stopped by the user: nothing of its turn is decided.
fn ends_turn(answer: &EndedCall) -> bool {
    matches!(
        answer.reply.end,
        CallOutcome::Edited { .. } | CallOutcome::Stopped
    )
}

/// Records a call that failed, and reports it. Its text is shown, and has no effect.
fn report_failed_call(turn: &mut ActiveTurn<'_>, answer: &EndedCall) -> Result<TurnReport> {
    record_answer(turn, answer)?;

    let workspace = turn.session.context.workspace;
    let prepared = turn.prepared;
    let reader = ReplyReader::new(workspace, &prepared.started, &prepared.texts)?;
    let reply = answer.reply.clone();
    // The outcome of the call says already that the reply is cut off, or missing.
    let response = Response {
        problems: Vec::new(),
        ..reader.read(&reply.text, &reply.end)
    };

    let report = TurnReport::new(turn, response)?;
    let name = format!("{}/{}", report.session, report.turn);
    Ok(TurnReport {
        fault: call_error(&reply.end, &report.agent, &name, &reply.detail),
        reply: reply.text,
        usage: reply.usage,
        end: reply.end,
        left_behind: reply.left_behind,
        overruled: None,
        ..report
    })
}
