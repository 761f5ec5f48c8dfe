//! Limits of a call to an agent: timeouts, output size, containment and budgets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::models::{Budget, BudgetLimits};

/// Maximum time that can be set, in seconds: one year. Adding it to the current time cannot overflow.
pub(super) const MAX_SECONDS: u64 = 365 * 24 * 60 * 60;

/// Maximum output limit that can be set: 1 TiB.
const MAX_OUTPUT_BYTES: u64 = 1 << 40;

const MAX_DOLLARS: f64 = 1e9;

/// Timeouts and output limit of a call to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum time from start to end.
    pub wall: Duration,
    /// Maximum time without output.
    pub idle: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Maximum size of stdout, and of stderr, in bytes.
    pub output: u64,
    /// Maximum total time that a turn waits for rate limits of the agent.
    pub max_wait: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(60 * 60),
            idle: Duration::from_secs(10 * 60),
            grace: Duration::from_secs(10),
            output: 32 * 1024 * 1024,
            max_wait: Duration::from_secs(10 * 60),
        }
    }
}

/// Mechanism that keeps the processes of an agent together, so that all of them end with the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Containment {
    /// A guard process that kills all processes of the agent.
    #[default]
    Guard,
    /// A PID namespace, whose processes the kernel kills all at once.
    Namespace,
}

/// A number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct BoundedNumber<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> TryFrom<u64> for BoundedNumber<MIN, MAX> {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        if (MIN..=MAX).contains(&number) {
            return Ok(Self(number));
        }
        Err(format!(
            "{number} is out of range; expected a number from {MIN} to {MAX}"
        ))
    }
}

/// The table `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsTable {
    wall_seconds: Option<BoundedNumber<1, MAX_SECONDS>>,
    idle_seconds: Option<BoundedNumber<1, MAX_SECONDS>>,
    grace_seconds: Option<BoundedNumber<0, MAX_SECONDS>>,
    output_bytes: Option<BoundedNumber<1, MAX_OUTPUT_BYTES>>,
    max_wait_seconds: Option<BoundedNumber<0, MAX_SECONDS>>,
}

impl LimitsTable {
    /// Replaces the limits that the table sets.
    pub(super) fn overlay(&self, limits: &mut CallLimits) {
        let seconds = |number: u64| Duration::from_secs(number);
        limits.wall = self
            .wall_seconds
            .map_or(limits.wall, |number| seconds(number.0));
        limits.idle = self
            .idle_seconds
            .map_or(limits.idle, |number| seconds(number.0));
        limits.grace = self
            .grace_seconds
            .map_or(limits.grace, |number| seconds(number.0));
        limits.output = self.output_bytes.map_or(limits.output, |number| number.0);
        limits.max_wait = self
            .max_wait_seconds
            .map_or(limits.max_wait, |number| seconds(number.0));
    }
}

/// An amount in US dollars, held in millionths.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Dollars(u64);

impl TryFrom<f64> for Dollars {
    type Error = String;

    fn try_from(dollars: f64) -> Result<Self, String> {
        if (0.0..=MAX_DOLLARS).contains(&dollars) {
            return Ok(Self((dollars * 1e6).round() as u64));
        }
        Err(format!(
            "{dollars} is out of range; expected an amount from 0 to {MAX_DOLLARS}"
        ))
    }
}

/// The tables `[budget.run]` and `[budget.session]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetTable {
    #[serde(default)]
    run: CapsTable,
    #[serde(default)]
    session: CapsTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapsTable {
    tokens: Option<u64>,
    dollars: Option<Dollars>,
    turns: Option<u64>,
    minutes: Option<BoundedNumber<0, { MAX_SECONDS / 60 }>>,
}

impl BudgetTable {
    /// Replaces the limits that the tables set.
    pub(super) fn overlay(&self, budget: &mut Budget) {
        self.run.overlay(&mut budget.run);
        self.session.overlay(&mut budget.session);
    }
}

impl CapsTable {
    fn overlay(&self, caps: &mut BudgetLimits) {
        caps.tokens = self.tokens.or(caps.tokens);
        caps.micro_dollars = self.dollars.map(|dollars| dollars.0).or(caps.micro_dollars);
        caps.turns = self.turns.or(caps.turns);
        caps.seconds = self.minutes.map(|minutes| minutes.0 * 60).or(caps.seconds);
    }
}
