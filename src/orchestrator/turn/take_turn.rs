//! One turn: inspect → compose → call agent → parse → apply → commit → run steps → settle → advance.

use super::active_turn::ActiveTurn;
use super::apply_reply::apply_reply;
use super::call::{AgentCalls, EndedCall, record_answer};
use super::call_error::call_error;
use super::context::TurnContext;
use super::history::load_history;
use super::inspect::inspect;
use super::instructions::add_request;
use super::opening::open_turn;
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
/// Fails if the turn cannot be prepared, the agent cannot be called, or the ledger cannot be written. A failed call or
/// an unusable reply is not an error: it is in `fault` of the report.
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
        let opening = open_turn(context.workspace, &session.state, &turn.request)?;
        for event in &opening {
            if let Event::GateSkipped { risk, .. } = event {
                log::warn!("{risk}");
            }
        }
        let mut state = session.state.clone().after(&opening);
        load_history(context.workspace, context.store, &lease.session, &mut state)?;
        let judged = judged_state(context, &turn, &state)?;
        let site = TurnSite::open(context, &turn.request, &judged)?;
        let inspected = inspect(context, &turn, &site, &judged)?;

        // compose: layers, fit, render
        let message = turn.message(&context.workspace.pack);
        turn.request.found.extend(inspected.items);
        turn.request.instructions = add_request(context.store, &turn.request)?;
        turn.request.measured = turn.measured(context)?;
        turn.request.nonce = Some(random::nonce()?);
        let assembly = assemble_turn(context.workspace, &state, &turn)?;
        let mut prepared = prepare_turn(context, driver, &state, &turn, &assembly)?;
        prepared.started.commit = site.commit()?;
        prepared.set_message(message);
        prepared.inspections = inspected.results;
        fail::point("prepared")?;

        let mut active = ActiveTurn::new(session, &prepared, &site);
        active.warnings.extend(inspected.warning);
        active.warnings.extend(assembly.warnings);
        run_turn(active, driver, opening)
    })
}

/// Runs a prepared turn, starting with the call of its agent. The `opening` events are recorded with the start of the
/// turn.
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

    // parse, with repair calls for missing parts
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

/// Returns true if a repair call edited files or was stopped by the user. The turn then ends without applying its
/// reply.
fn ends_turn(answer: &EndedCall) -> bool {
    matches!(
        answer.reply.end,
        CallOutcome::Edited { .. } | CallOutcome::Stopped
    )
}

/// Records a failed call and returns the report of its turn. The report contains the text of the call, which has no
/// effect.
fn report_failed_call(turn: &mut ActiveTurn<'_>, answer: &EndedCall) -> Result<TurnReport> {
    record_answer(turn, answer)?;

    let workspace = turn.session.context.workspace;
    let prepared = turn.prepared;
    let reader = ReplyReader::new(workspace, &prepared.started, &prepared.texts)?;
    let reply = answer.reply.clone();
    // The outcome already says that the reply is truncated or missing.
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
