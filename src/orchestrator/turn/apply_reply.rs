//! Applies a parsed reply: plans its permitted effects as steps, and commits them to the ledger before any step is run.

use super::active_turn::ActiveTurn;
use super::call::EndedCall;
use super::findings;
use super::reply_reader::ReplyReader;
use super::report::TurnReport;
use super::steps::{self, run_steps};
use super::turn_findings::{find_findings, find_places};
use crate::apply;
use crate::error::{Error, Result};
use crate::fail;
use crate::models::{
    Effect, Event, Finding, OperationId, RejectedEffect, Response, ReviewResult, StepResult,
    UpdateFormat,
};
use crate::ops::Step;
use crate::parse;

/// A reply that was applied and recorded, and the steps that remain to be run.
pub(crate) struct AppliedReply {
    pub(crate) response: Response,
    pub(crate) verdict: Option<ReviewResult>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) proposals: Vec<RejectedEffect>,
    pub(crate) fault: Option<Error>,
    pub(crate) steps: Vec<Step>,
}

impl AppliedReply {
    /// Returns the report of the turn, given the results of its steps.
    pub(crate) fn report(
        self,
        turn: &ActiveTurn<'_>,
        results: Vec<StepResult>,
    ) -> Result<TurnReport> {
        let report = TurnReport::new(turn, self.response)?;
        Ok(TurnReport {
            verdict: self.verdict,
            findings: self.findings,
            settlements: results,
            proposals: self.proposals,
            fault: self.fault,
            ..report
        })
    }
}

/// Applies a response: determines its verdict, permitted effects, findings and steps, and commits them in one
/// transaction, together with the end of the `last` call.
///
/// `findings` are the findings of the turn, if they are already known; otherwise they are read from the response.
pub(crate) fn apply_reply(
    turn: &mut ActiveTurn<'_>,
    reader: &ReplyReader<'_>,
    response: Response,
    last: Option<&EndedCall>,
    findings: Option<Vec<Finding>>,
) -> Result<AppliedReply> {
    let context = turn.session.context;
    let pack = &context.workspace.pack;
    let started = turn.started();

    // apply
    let verdict = parse::verdict(&response, &reader.grammar);
    let verdict = parse::required_markers(&response, &reader.grammar).and(verdict);
    // The shown files are recorded only if the reply may edit files of the working tree.
    let may_edit_tree = started.shown.is_some();
    let state = &turn.session.state;
    let outcome = apply::apply(pack, state, may_edit_tree, &response, verdict)?;

    // A reviewer's opinion on a change has no effects except its verdict and its findings.
    let is_opinion = started.for_change.is_some();
    let effects = if is_opinion {
        Vec::new()
    } else {
        without_findings(outcome.effects)
    };
    let site = turn.operation_site(state);
    let mut steps = context.operations.plan_effects(&site, effects, started)?;

    let mut findings = match findings {
        Some(findings) => Some(findings),
        None => find_findings(turn, &response, &steps)?,
    };
    if let Some(findings) = &mut findings {
        find_places(turn, findings);
    }
    if let Some(findings) = findings.as_deref().filter(|_| started.named) {
        complete_report(turn, findings, &mut steps)?;
    }
    if outcome.fault.is_none() && !is_opinion {
        let always = steps::always_run(
            turn,
            &outcome.events,
            &response.markers,
            outcome.verdict,
            findings.as_deref(),
        )?;
        steps.extend(always);
    }

    // commit
    let mut events = Vec::new();
    let mut blobs: Vec<&[u8]> = Vec::new();
    if let Some(answer) = last {
        events.push(Event::Answered(Box::new(answer.answered())));
        blobs.push(answer.reply.text.as_bytes());
    }
    if turn.session.has_deferred() {
        blobs.push(turn.prepared.fit.as_bytes());
    }
    let contents = steps.iter().filter_map(|step| step.content.as_ref());
    blobs.extend(contents.map(String::as_bytes));
    events.extend(outcome.events);
    events.extend(steps.iter().map(|step| Event::Intended {
        turn: started.turn,
        intent: step.intent(),
    }));
    if steps.is_empty() {
        let state = turn.session.state.clone().after(&events);
        events.extend(apply::advance(pack, &state)?);
    }
    fail::point("committing")?;
    turn.commit(&events, &blobs)?;
    fail::point("committed")?;

    Ok(AppliedReply {
        response,
        verdict: outcome.verdict,
        findings: findings.unwrap_or_default(),
        proposals: outcome.proposals,
        fault: outcome.fault,
        steps,
    })
}

/// Applies a response and runs its steps, for a turn that did not call its agent in this run.
pub(crate) fn apply_and_run(
    turn: &mut ActiveTurn<'_>,
    reader: &ReplyReader<'_>,
    response: Response,
    findings: Option<Vec<Finding>>,
) -> Result<TurnReport> {
    let applied = apply_reply(turn, reader, response, None, findings)?;
    let results = run_steps(turn, &applied.steps)?;
    applied.report(turn, results)
}

/// Returns the effects except those that note findings. Findings are noted together, once all of them are known.
fn without_findings(effects: Vec<Effect>) -> Vec<Effect> {
    let mut effects = effects;
    effects.retain(|effect| effect.operation != OperationId::FindingsNote);
    effects
}

/// Adds missing findings to the report of the mode.
fn complete_report(
    turn: &ActiveTurn<'_>,
    findings: &[Finding],
    steps: &mut Vec<Step>,
) -> Result<()> {
    let context = turn.session.context;
    let started = turn.started();
    let action = findings::finding_action(&context.workspace.pack, &started.mode);
    let words = action.map(|(_, words)| words).unwrap_or_default();

    let write = |target: &str, content: String| {
        let effect = Effect {
            action: None,
            operation: OperationId::FilesWrite,
            target: target.to_owned(),
            content,
            format: UpdateFormat::Whole,
        };
        let site = turn.operation_site(&turn.session.state);
        context
            .operations
            .plan_effects(&site, vec![effect], started)
    };
    findings::complete_report(turn.mode_spec()?, findings, &words, steps, write)
}
