//! What a call to an agent is held to: time, output, containment and budgets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::models::{Budget, Caps};

/// The longest time that can be set: a year, which any clock can add.
pub(super) const YEAR: u64 = 365 * 24 * 60 * 60;

/// The most bytes that can be set: one tebibyte.
const MOST_BYTES: u64 = 1 << 40;

/// The most dollars that can be set.
const MOST_DOLLARS: f64 = 1e9;

/// How long a call to an agent may take, and how much it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// From start to end.
    pub wall: Duration,
    /// Without a byte of output.
    pub idle: Duration,
    /// Between the request to end and the end by force.
    pub grace: Duration,
    /// The most bytes of output.
    pub output: u64,
    /// How long a turn waits in all for an agent that asks to wait.
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

/// What keeps the processes of an agent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Containment {
    /// A process of ours that ends all of the agent's.
    #[default]
    Guard,
    /// A PID namespace, which the kernel ends as a whole.
    Namespace,
}

/// A number within bounds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Within<const LEAST: u64, const MOST: u64>(pub(super) u64);

impl<const LEAST: u64, const MOST: u64> TryFrom<u64> for Within<LEAST, MOST> {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        if (LEAST..=MOST).contains(&number) {
            return Ok(Self(number));
        }
        Err(format!("{number} is not a number from {LEAST} to {MOST}"))
    }
}

/// The table `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLimits {
    wall_seconds: Option<Within<1, YEAR>>,
    idle_seconds: Option<Within<1, YEAR>>,
    grace_seconds: Option<Within<0, YEAR>>,
    output_bytes: Option<Within<1, MOST_BYTES>>,
    max_wait_seconds: Option<Within<0, YEAR>>,
}

impl WrittenLimits {
    /// Puts what is written in place of what held before.
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

/// Money, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Dollars(u64);

impl TryFrom<f64> for Dollars {
    type Error = String;

    fn try_from(dollars: f64) -> Result<Self, String> {
        if (0.0..=MOST_DOLLARS).contains(&dollars) {
            return Ok(Self((dollars * 1e6).round() as u64));
        }
        Err(format!(
            "{dollars} is not an amount from 0 to {MOST_DOLLARS}"
        ))
    }
}

/// The tables `[budget.run]` and `[budget.session]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenBudget {
    #[serde(default)]
    run: WrittenCaps,
    #[serde(default)]
    session: WrittenCaps,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCaps {
    tokens: Option<u64>,
    dollars: Option<Dollars>,
    turns: Option<u64>,
    minutes: Option<Within<0, { YEAR / 60 }>>,
}

impl WrittenBudget {
    /// Puts what is written in place of what held before.
    pub(super) fn overlay(&self, budget: &mut Budget) {
        self.run.overlay(&mut budget.run);
        self.session.overlay(&mut budget.session);
    }
}

impl WrittenCaps {
    fn overlay(&self, caps: &mut Caps) {
        caps.tokens = self.tokens.or(caps.tokens);
        caps.micro_dollars = self.dollars.map(|dollars| dollars.0).or(caps.micro_dollars);
        caps.turns = self.turns.or(caps.turns);
        caps.seconds = self.minutes.map(|minutes| minutes.0 * 60).or(caps.seconds);
    }
}
