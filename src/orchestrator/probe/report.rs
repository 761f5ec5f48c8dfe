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
    /// Addition to the protocol's rules in the prompt.
    pub condition: ProbeCondition,
    /// Kind of reply that was requested.
    pub task: ProbeTask,
    /// Name of the case.
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
    /// Its model, if known.
    pub model: Option<String>,
    /// Session of the turns.
    pub session: SessionId,
    /// All requests, in order.
    pub asked: Vec<ProbeTurn>,
    /// Tokens and money that all calls used.
    pub spent: Amount,
    /// Share of right replies under [`ProbeCondition::Plain`] in the ledger, including those of earlier probes.
    pub kept: ComplianceRate,
    /// Reliability of the model that prompts use from now on, and its source. `None` if the model is not known.
    pub reliability: Option<(Reliability, Origin)>,
    /// Error that ended the probe early.
    #[serde(skip)]
    pub fault: Option<Error>,
}

/// Effect of a condition on the share of right replies, compared with [`ProbeCondition::Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionEffect {
    /// More replies were right; the difference is statistically significant.
    Helps,
    /// More replies were right; the difference may be chance.
    MayHelp,
    /// No more replies were right.
    DoesNotHelp,
}

impl ProbeReport {
    /// Returns the share of right replies under a condition, for one task or for all.
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

    /// Returns the number of failed calls by the name of their outcome.
    #[must_use]
    pub fn failed(&self) -> BTreeMap<&'static str, u64> {
        let mut outcomes = BTreeMap::new();
        for turn in self.asked.iter().filter(|turn| turn.right.is_none()) {
            *outcomes.entry(turn.end.name()).or_default() += 1;
        }
        outcomes
    }

    /// Returns the effect of a condition; `None` if there is nothing to compare.
    #[must_use]
    pub fn help(&self, condition: ProbeCondition) -> Option<ConditionEffect> {
        let plain = self.share(ProbeCondition::Plain, None).rate()?;
        let helped = self.share(condition, None);
        let rate = helped.rate()?;
        let (lower_bound, _) = helped.interval()?;

        Some(if lower_bound > plain && rate > plain {
            ConditionEffect::Helps
        } else if rate > plain {
            ConditionEffect::MayHelp
        } else {
            ConditionEffect::DoesNotHelp
        })
    }
}
