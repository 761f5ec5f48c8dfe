//! Report of a turn.

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

/// Report of a turn.
#[derive(Debug, Serialize)]
pub struct TurnReport {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    /// Number of the turn in the session, from 1.
    pub turn: u64,
    /// Mode in which the turn was taken. After the turn, the session may be in another mode.
    pub mode: Mode,
    /// Name of the agent.
    pub agent: String,
    #[expect(missing_docs, reason = "the name says it all")]
    pub prompt_bytes: u64,
    /// Outcome of the last call for the reply.
    pub end: CallOutcome,
    /// Number of leftover processes of the agent, which were killed.
    pub left_behind: u64,
    /// Reply of the agent, with secrets redacted and otherwise unchanged.
    #[serde(skip)]
    pub reply: String,
    /// Parsed reply.
    pub response: Response,
    /// Warnings about skipped operations and about calls.
    pub warnings: Vec<String>,
    /// Verdict of the reply, if it has one.
    pub verdict: Option<ReviewResult>,
    /// Findings of the reply, and findings of earlier rounds with their new status; the most severe first.
    pub findings: Vec<Finding>,
    /// Result of an operation that overrules the verdict of the reply, if one does.
    pub overruled: Option<VerdictOverride>,
    /// Usage of all calls.
    pub usage: UsageMetrics,
    /// Number of calls.
    pub calls: u64,
    /// Number of repair calls: calls for parts that were missing in the reply.
    pub repairs: u64,
    /// Steps that were run or refused, with their results.
    pub settlements: Vec<StepResult>,
    /// Requests in the reply that were rejected, with the reasons.
    pub proposals: Vec<RejectedEffect>,
    /// State of the session after the turn.
    pub state: State,
    /// Gate of the mode that is not met, so that the session stays in the mode.
    pub closed_gate: Option<String>,
    /// Error of the call or of the reply, because of which the session stays in the mode.
    #[serde(skip)]
    pub fault: Option<Error>,
}

impl TurnReport {
    /// Creates a report without the values that depend on the calls and on the steps of the turn.
    pub(crate) fn new(turn: &ActiveTurn<'_>, response: Response) -> Result<Self> {
        let started = turn.started();
        let pack = &turn.session.context.workspace.pack;
        let state = turn.session.state.clone();
        let is_in_same_mode = state.mode.as_ref() == Some(&started.mode) && state.ended.is_none();
        let gate = apply::closed_gate(pack, &state)?.filter(|_| is_in_same_mode);

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

/// Result that overrules the verdict of a reply, because the result of an operation is worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictOverride {
    /// Effective result, such as `NEEDS_CHANGES`.
    pub result: TurnResult,
    /// Operation whose result overrules the verdict.
    pub operation: OperationId,
    /// Reason for the user, such as `1 critical finding is open`.
    pub reason: String,
}

impl VerdictOverride {
    /// Finds the result of an operation that overrules the result of a reply, by the rules in `evidence` of the mode.
    fn find(
        spec: &ModeSpec,
        reply_result: TurnResult,
        results: &BTreeMap<OperationId, StepResult>,
    ) -> Option<Self> {
        let (operation, result) = apply::overruled_by(spec, reply_result, results)?;
        let reason = results.get(operation).map(|step| step.detail.clone());
        Some(Self {
            result,
            operation: operation.clone(),
            reason: reason.unwrap_or_default(),
        })
    }

    /// Returns the result that overrules the verdict of a turn in `mode`; `None` if none does. `state` is the state after
    /// the turn, in which the session may have left the mode.
    fn of_turn(spec: &ModeSpec, mode: &Mode, state: &State) -> Option<Self> {
        let previous = state
            .previous
            .as_ref()
            .filter(|previous| previous.mode == *mode && state.mode.as_ref() != Some(mode));
        let (verdict, results) = match previous {
            Some(previous) => (previous.verdict, &previous.results),
            None => (state.progress.verdict, &state.results),
        };
        let reply_result = verdict.map_or(TurnResult::Otherwise, TurnResult::Verdict);
        let worse = Self::find(spec, reply_result, results)?;

        // A turn that ticked a task made progress, so it is not overruled because other tasks are still open.
        let is_progress = results
            .get(&worse.operation)
            .is_some_and(|step| step.result == Some(StepOutcome::Progress));
        (!is_progress).then_some(worse)
    }
}
