//! Measurements of agents: reported token counts, and compliance with the protocol.

use serde::{Deserialize, Serialize};

use super::Reliability;

/// A measurement of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Name of the agent.
    pub agent: String,
    /// Id of the model; `None` if it is unknown.
    pub model: Option<String>,
    #[expect(missing_docs, reason = "the name says it all")]
    pub figure: MeasuredValue,
}

/// Measured values of one call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum MeasuredValue {
    /// Tokens of a prompt.
    Tokens {
        /// Number that agentd estimates.
        ours: u64,
        /// Number that the agent reports.
        reported: u64,
    },
    /// Compliance of a reply with the protocol.
    Protocol {
        /// Additional help in the prompt.
        condition: ProbeCondition,
        /// Requested kind of reply.
        task: ProbeTask,
        /// Name of the test case.
        case: String,
        /// True if the reply complies.
        right: bool,
    },
}

impl MeasuredValue {
    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn kind(&self) -> MeasuredKind {
        match self {
            Self::Tokens { .. } => MeasuredKind::Tokens,
            Self::Protocol { .. } => MeasuredKind::Protocol,
        }
    }
}

/// Kind of a measurement.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeasuredKind {
    /// [`MeasuredValue::Tokens`].
    Tokens,
    /// [`MeasuredValue::Protocol`].
    Protocol,
}

impl MeasuredKind {
    /// Returns the name of the kind in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Protocol => "protocol",
        }
    }
}

/// Additional help in the prompt of a probe. The rules of the protocol are always included.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeCondition {
    /// No additional help.
    Plain,
    /// A reminder of the format.
    Reminder,
    /// An example turn.
    Example,
}

impl ProbeCondition {
    /// All conditions.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Reminder, Self::Example];

    /// Returns the name of the condition in data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Reminder => "reminder",
            Self::Example => "example",
        }
    }
}

/// Kind of reply that a test case of a probe requests.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeTask {
    /// Only a message.
    Message,
    /// An action.
    Action,
    /// A verdict.
    Verdict,
}

impl ProbeTask {
    /// All tasks.
    pub const ALL: [Self; 3] = [Self::Message, Self::Action, Self::Verdict];

    /// Returns the name of the task in data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Action => "action",
            Self::Verdict => "verdict",
        }
    }
}

/// Share of replies that comply with the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComplianceRate {
    /// Number of compliant replies.
    pub right: u64,
    /// Number of all replies.
    pub all: u64,
}

impl ComplianceRate {
    /// Returns the share from 0 to 1; `None` if there are no replies.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        (self.all > 0).then(|| self.right as f64 / self.all as f64)
    }

    /// Returns the 95 % confidence interval of the share (Wilson score interval); `None` if there are no replies.
    #[must_use]
    pub fn interval(self) -> Option<(f64, f64)> {
        /// Quantile of the standard normal distribution for 95 %.
        const Z: f64 = 1.959_964;
        let rate = self.rate()?;
        let all = self.all as f64;

        let denominator = 1.0 + Z * Z / all;
        let center = (rate + Z * Z / (2.0 * all)) / denominator;
        let half_width =
            Z / denominator * (rate * (1.0 - rate) / all + Z * Z / (4.0 * all * all)).sqrt();
        Some((
            (center - half_width).max(0.0),
            (center + half_width).min(1.0),
        ))
    }

    /// Returns the reliability rating for the share; see [`Reliability`] for the thresholds. `None` if there are no
    /// replies.
    #[must_use]
    pub fn reliability(self) -> Option<Reliability> {
        Some(match self.rate()? {
            rate if rate < 0.60 => Reliability::Low,
            rate if rate < 0.85 => Reliability::Medium,
            rate if rate < 0.97 => Reliability::High,
            _ => Reliability::VeryHigh,
        })
    }

    /// Counts one more reply.
    pub fn count(&mut self, is_right: bool) {
        self.right += u64::from(is_right);
        self.all += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_interval_of_wilson() {
        // From the tables of Newcombe (1998): 81 of 263, and the ends of the scale.
        let cases = [
            ((81, 263), (0.2553, 0.3662)),
            ((15, 148), (0.0624, 0.1605)),
            ((0, 20), (0.0, 0.1611)),
            ((1, 29), (0.0061, 0.1718)),
            ((10, 10), (0.7225, 1.0)),
        ];
        for ((right, all), (low, high)) in cases {
            let found = ComplianceRate { right, all }.interval().unwrap();
            assert!(
                (found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4,
                "{right}/{all}: {found:?}"
            );
        }
        assert_eq!(ComplianceRate::default().interval(), None);
    }

    #[test]
    fn a_share_stands_for_a_reliability_from_its_threshold_on() {
        let cases = [
            (0, Reliability::Low),
            (59, Reliability::Low),
            (60, Reliability::Medium),
            (84, Reliability::Medium),
            (85, Reliability::High),
            (96, Reliability::High),
            (97, Reliability::VeryHigh),
            (100, Reliability::VeryHigh),
        ];
        for (right, expected) in cases {
            assert_eq!(
                ComplianceRate { right, all: 100 }.reliability(),
                Some(expected),
                "{right}"
            );
        }
        assert_eq!(ComplianceRate::default().reliability(), None);
    }
}
