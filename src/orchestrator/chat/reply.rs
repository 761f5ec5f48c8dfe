//! The reply to a message, as a program shows it to the user.

use serde::Serialize;

use crate::apply::{self, GateChecklist};
use crate::error::Result;
use crate::models::{ActionOutcome, ActionResult, Mode, SessionId, Update, UsageMetrics};
use crate::orchestrator::turn::TurnReport;
use crate::pack::Pack;

/// The reply to a message.
#[derive(Debug, Serialize)]
pub struct ChatReply {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    /// Number of the turn in the session; that of the last follow-up call, if there are any.
    pub turn: u64,
    /// Number of follow-up calls, which gave the agent the results of its actions.
    pub follow_ups: u64,
    /// Actions of the last call.
    #[serde(skip)]
    last_actions: Vec<ActionResult>,
    /// Name of the agent.
    pub agent: String,
    /// Text shown to the user.
    pub message: String,
    /// Reasoning of the agent, in order.
    pub thinking: Vec<String>,
    /// Actions and updates that the reply asked for, with their results: first refused ones, then those that were tried.
    pub actions: Vec<ActionResult>,
    /// Updates in the reply, unmodified.
    pub updates: Vec<Update>,
    /// Mode that the message was sent in.
    pub turn_mode: Mode,
    /// Mode of the session after the reply.
    pub mode: Mode,
    /// Conditions for leaving that mode; `None` for a mode without a gate.
    pub gate: Option<GateChecklist>,
    /// True if the reply ended the session.
    pub ended: bool,
    /// Tolerated problems of the reply.
    pub warnings: Vec<String>,
    /// Warnings about the prompt and the call. They were logged, too.
    pub call_warnings: Vec<String>,
    /// Usage of all calls.
    pub usage: UsageMetrics,
}

impl ChatReply {
    /// Builds the reply from the report of its turn.
    ///
    /// # Errors
    ///
    /// The error of a failed call.
    pub(super) fn from_report(pack: &Pack, report: TurnReport) -> Result<Self> {
        let mut warnings = Vec::new();
        if let Some(fault) = report.fault {
            if !report.end.is_ok() {
                return Err(fault);
            }
            warnings.push(fault.message().to_owned());
        }
        for problem in &report.response.problems {
            if !warnings.contains(&problem.message) {
                warnings.push(problem.message.clone());
            }
        }

        let mode = report.state.mode.clone();
        let mode = mode.unwrap_or_else(|| report.mode.clone());
        Ok(Self {
            follow_ups: 0,
            last_actions: report.state.action_results.clone(),
            actions: report.state.action_results.clone(),
            gate: apply::gate_checklist(pack, &report.state, &mode)?,
            turn_mode: report.mode,
            mode,
            ended: report.state.ended.is_some(),
            session: report.session,
            turn: report.turn,
            agent: report.agent,
            message: report.response.message,
            thinking: report.response.thoughts,
            updates: report.response.updates,
            warnings,
            call_warnings: report.warnings,
            usage: report.usage,
        })
    }

    /// Returns true if the last call used an action whose result the agent is waiting for. An action that was refused has
    /// no result.
    pub(super) fn awaits_answers(&self, pack: &Pack) -> bool {
        let answers = |action: &ActionResult| {
            let spec = pack.uses.get(&action.action);
            action.outcome != ActionOutcome::Refused && spec.is_some_and(|spec| spec.answers)
        };
        self.last_actions.iter().any(answers)
    }

    /// Returns the reply with that of a follow-up call added.
    pub(super) fn followed_by(self, next: Self) -> Self {
        let messages = [self.message, next.message];
        let messages: Vec<String> = messages
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();

        Self {
            follow_ups: self.follow_ups + 1,
            message: messages.join("\n\n"),
            thinking: [self.thinking, next.thinking].concat(),
            actions: [self.actions, next.actions].concat(),
            updates: [self.updates, next.updates].concat(),
            turn_mode: self.turn_mode,
            warnings: [self.warnings, next.warnings].concat(),
            usage: self.usage.plus(next.usage),
            ..next
        }
    }

    /// Returns true if the reply asked for something, and nothing of it was carried out.
    #[must_use]
    pub fn is_all_refused(&self) -> bool {
        let is_refused = |action: &ActionResult| action.outcome != ActionOutcome::Done;
        !self.actions.is_empty() && self.actions.iter().all(is_refused)
    }
}
