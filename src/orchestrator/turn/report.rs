//! The report of a turn.

use std::collections::BTreeMap;

use serde::Serialize;

use super::active_turn::ActiveTurn;
use crate::apply;
use crate::error::{Error, Result};
use crate::models::{
    CallOutcome, Finding, Mode, OperationId, RejectedEffect, Response, ReviewResult, SessionId,
    State, StepOutcome, StepResult, TurnResult, UsageMetrics,
};
use crate::pack::ModeSpec;

/// The result of a turn.
#[derive(Debug, Serialize)]
pub struct TurnReport {
    /// The session.
    pub session: SessionId,
    /// Number of the turn in the session.
    pub turn: u64,
    /// The mode that the turn was taken in.
    pub mode: Mode,
    /// The agent.
    pub agent: String,
    /// Size of the prompt.
    pub prompt_bytes: u64,
    /// The way the last call for the reply ended.
    pub end: CallOutcome,
    /// Number of processes that the agent left running, and that were killed.
    pub left_behind: u64,
    /// The reply, unchanged.
    #[serde(skip)]
    pub reply: String,
    /// The reply, parsed.
    pub response: Response,
    /// Warnings about the calls.
    pub warnings: Vec<String>,
    /// The verdict of the reply, if it has one.
    pub verdict: Option<ReviewResult>,
    /// Findings of the reply and of the round before it, the most severe first.
    pub findings: Vec<Finding>,
    /// Reason why the turn's result is worse than the verdict of its reply.
    pub overruled: Option<VerdictOverride>,
    /// Usage of all calls.
    pub usage: UsageMetrics,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that asked again for something the reply lacked.
    pub repairs: u64,
    /// Steps that were run or refused, with their results.
    pub settlements: Vec<StepResult>,
    /// Parts of the reply that were not taken, with the reasons.
    pub proposals: Vec<RejectedEffect>,
    /// State of the session after the turn.
    pub state: State,
    /// Condition that keeps the session in its mode, if one does.
    pub closed_gate: Option<String>,
    /// Error that keeps the session in its mode, if there is one.
    #[serde(skip)]
    pub fault: Option<Error>,
}

impl TurnReport {
    /// Returns a report with the facts of a turn that do not depend on its reply.
    pub(crate) fn new(turn: &ActiveTurn<'_>, response: Response) -> Result<Self> {
        let started = turn.started();
        let pack = &turn.session.context.workspace.pack;
        let state = turn.session.state.clone();
        let stays = state.mode.as_ref() == Some(&started.mode) && state.ended.is_none();
        let gate = apply::closed_gate(pack, &state)?.filter(|_| stays);

        Ok(Self {
            session: turn.session.lease.session.clone(),
            turn: started.turn,
            mode: started.mode.clone(),
            agent: started.agent.clone(),
            prompt_bytes: started.prompt_bytes,
            end: CallOutcome::Ok,
            left_behind: 0,
            reply: String::new(),
            response,
            warnings: turn.warnings.clone(),
            verdict: None,
            findings: Vec::new(),
            overruled: VerdictOverride::of_turn(turn.mode_spec()?, &started.mode, &state),
            usage: UsageMetrics::default(),
            calls: turn.calls,
            repairs: turn.repairs,
            settlements: Vec::new(),
            proposals: Vec::new(),
            closed_gate: gate.map(|gate| gate.text().to_owned()),
            state,
            fault: None,
        })
    }
}

/// A result that counts instead of the verdict of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictOverride {
    /// The result that counts, such as `NEEDS_CHANGES`.
    pub result: TurnResult,
    /// The operation whose result makes it worse.
    pub operation: OperationId,
    /// The reason, for people: `1 critical finding is open`.
    pub reason: String,
}

impl VerdictOverride {
    /// Compares a result with the results of operations, as the mode's `evidence` demands.
    fn find(
        spec: &ModeSpec,
        said: TurnResult,
        results: &BTreeMap<OperationId, StepResult>,
    ) -> Option<Self> {
        let (operation, result) = apply::overruled_by(spec, said, results)?;
        let reason = results.get(operation).map(|found| found.detail.clone());
        Some(Self {
            result,
            operation: operation.clone(),
            reason: reason.unwrap_or_default(),
        })
    }

    /// Returns the result that overrules the verdict of a session's last turn, taken in a mode.
    fn of_turn(spec: &ModeSpec, mode: &Mode, state: &State) -> Option<Self> {
        let left = state
            .left
            .as_ref()
            .filter(|left| left.mode == *mode && state.mode.as_ref() != Some(mode));
        let (verdict, results) = match left {
            Some(left) => (left.verdict, &left.results),
            None => (state.progress.verdict, &state.results),
        };
        let said = verdict.map_or(TurnResult::Otherwise, TurnResult::Verdict);
        let worse = Self::find(spec, said, results)?;

        // A ticked task is progress, even if others are still open.
        let is_progress = results
            .get(&worse.operation)
            .is_some_and(|found| found.result == Some(StepOutcome::Progress));
        (!is_progress).then_some(worse)
    }
}
