//! The report of a probe.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Error;
use crate::models::{
    Amount, CallOutcome, ComplianceRate, ProbeCondition, ProbeTask, Reliability, SessionId,
};
use crate::orchestrator::prompts::Origin;

/// One request of a probe, and its result.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeTurn {
    /// Number of the turn in the session.
    pub turn: u64,
    /// Help that the prompt adds to the rules of the protocol.
    pub condition: ProbeCondition,
    /// Kind of reply that was requested.
    pub task: ProbeTask,
    /// Name of the case in `cases.yaml`.
    pub case: String,
    /// Outcome of the call.
    pub end: CallOutcome,
    /// True if the reply is right; `None` if the call failed.
    pub right: Option<bool>,
}

/// Results of a probe.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    /// Name of the agent.
    pub agent: String,
    /// Model of the agent, if known.
    pub model: Option<String>,
    /// Session in which the turns are recorded.
    pub session: SessionId,
    /// All requests, in order.
    pub asked: Vec<ProbeTurn>,
    /// Tokens and money that all calls used.
    pub spent: Amount,
    /// Share of right replies under [`ProbeCondition::Plain`] in the ledger, including replies of earlier probes.
    pub kept: ComplianceRate,
    /// Reliability of the model for later prompts, and the source of this value. `None` if the model is not known.
    pub reliability: Option<(Reliability, Origin)>,
    /// Error that ended the probe early, if any.
    #[serde(skip)]
    pub fault: Option<Error>,
}

/// Effect of a condition on the share of right replies, compared with [`ProbeCondition::Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionEffect {
    /// A larger share of replies was right; the 95 % confidence interval is above the share without help.
    Helps,
    /// A larger share of replies was right, but the difference may be chance.
    MayHelp,
    /// The share of right replies did not increase.
    DoesNotHelp,
}

impl ProbeReport {
    /// Returns the share of right replies under a condition, for one task or, if `task` is `None`, for all.
    #[must_use]
    pub fn share(&self, condition: ProbeCondition, task: Option<ProbeTask>) -> ComplianceRate {
        let turns = self.asked.iter().filter(|turn| {
            turn.condition == condition && task.is_none_or(|task| turn.task == task)
        });

        let mut share = ComplianceRate::default();
        for right in turns.filter_map(|turn| turn.right) {
            share.count(right);
        }
        share
    }

    /// Returns the number of failed calls, by the name of their outcome.
    #[must_use]
    pub fn failed(&self) -> BTreeMap<&'static str, u64> {
        let mut outcomes = BTreeMap::new();
        for turn in self.asked.iter().filter(|turn| turn.right.is_none()) {
            *outcomes.entry(turn.end.name()).or_default() += 1;
        }
        outcomes
    }

    /// Returns the effect of a condition; `None` if there are no replies under it or under [`ProbeCondition::Plain`].
    #[must_use]
    pub fn help(&self, condition: ProbeCondition) -> Option<ConditionEffect> {
        let plain_rate = self.share(ProbeCondition::Plain, None).rate()?;
        let share = self.share(condition, None);
        let rate = share.rate()?;
        let (lower_bound, _) = share.interval()?;

        Some(if lower_bound > plain_rate && rate > plain_rate {
            ConditionEffect::Helps
        } else if rate > plain_rate {
            ConditionEffect::MayHelp
        } else {
            ConditionEffect::DoesNotHelp
        })
    }
}
