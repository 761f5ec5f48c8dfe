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
    /// Number of the turn in the session.
    pub turn: u64,
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
    /// Tolerated problems of the reply and warnings about the call.
    pub warnings: Vec<String>,
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
        let mut warnings = report.warnings;
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
            usage: report.usage,
        })
    }

    /// Returns true if the reply asked for something, and nothing of it was carried out.
    #[must_use]
    pub fn is_all_refused(&self) -> bool {
        let is_refused = |action: &ActionResult| action.outcome != ActionOutcome::Done;
        !self.actions.is_empty() && self.actions.iter().all(is_refused)
    }
}
