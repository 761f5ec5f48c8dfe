//! The reply to a message, as a program shows it to a person.

use serde::Serialize;

use crate::apply::{self, GateChecklist};
use crate::error::Result;
use crate::models::{
    EffectKind, Mode, RejectedEffect, SessionId, StepResult, Update, UsageMetrics,
};
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
    /// Text for the person.
    pub message: String,
    /// Reasoning of the agent, in order.
    pub thinking: Vec<String>,
    /// Actions and updates that the reply asked for, with their results: first those that were tried, then refused ones.
    pub actions: Vec<ActionReport>,
    /// Contents for targets, as the reply has them.
    pub updates: Vec<Update>,
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

/// Result of something that a reply asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionReport {
    /// Name of the action, or the operation of an update.
    pub name: String,
    /// Path or other target; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
    #[expect(missing_docs, reason = "the name says it all")]
    pub outcome: ActionStatus,
    /// Description of the effect, or the reason why there is none.
    pub detail: String,
    /// Source text of a refused action; empty for others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Outcome of something that a reply asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// It was carried out.
    Done,
    /// It was not carried out, because it is invalid or not permitted.
    Refused,
    /// It was permitted, but carrying it out failed.
    Failed,
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

        let carried_out = report.settlements.iter().map(ActionReport::from_step);
        let refused = report.proposals.iter().map(ActionReport::from_refused);
        Ok(Self {
            actions: carried_out.chain(refused).collect(),
            gate: apply::gate_checklist(pack, &report.state)?,
            mode: report.state.mode.unwrap_or(report.mode),
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
        let is_refused = |action: &ActionReport| action.outcome != ActionStatus::Done;
        !self.actions.is_empty() && self.actions.iter().all(is_refused)
    }
}

impl ActionReport {
    fn from_step(step: &StepResult) -> Self {
        Self {
            name: step.operation.as_str().to_owned(),
            target: step.target.clone(),
            outcome: if step.done {
                ActionStatus::Done
            } else {
                ActionStatus::Failed
            },
            detail: step.detail.clone(),
            text: String::new(),
        }
    }

    fn from_refused(refused: &RejectedEffect) -> Self {
        let (name, target) = match &refused.what {
            EffectKind::Action(Some(name)) => (name.clone(), String::new()),
            EffectKind::Update(Some(target)) => ("content_update".to_owned(), target.clone()),
            other => (other.to_string(), String::new()),
        };
        Self {
            name,
            target,
            outcome: ActionStatus::Refused,
            detail: refused.reason.clone(),
            text: refused.text.clone(),
        }
    }
}
