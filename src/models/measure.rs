//! Figures that are measured: our count of tokens against what an agent reports, and how well it keeps to the protocol.

use serde::{Deserialize, Serialize};

use super::Reliability;

/// Of whom something was measured, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The agent.
    pub agent: String,
    /// Its model, if one was named.
    pub model: Option<String>,
    /// What was measured.
    pub figure: Figure,
}

/// What was measured, in one call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Figure {
    /// The tokens of a prompt.
    Tokens {
        /// The likely number, by our count.
        ours: u64,
        /// The number that the agent reports.
        reported: u64,
    },
    /// Whether a reply is what the protocol asks for.
    Protocol {
        /// What the prompt held beside the rules.
        condition: Condition,
        /// What was asked for.
        task: Task,
        /// The name of the case.
        case: String,
        /// Whether the reply is right.
        right: bool,
    },
}

impl Figure {
    /// Returns the kind of figure that it is.
    #[must_use]
    pub fn kind(&self) -> FigureKind {
        match self {
            Self::Tokens { .. } => FigureKind::Tokens,
            Self::Protocol { .. } => FigureKind::Protocol,
        }
    }
}

/// The kinds of figures.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FigureKind {
    /// Tokens of prompts.
    Tokens,
    /// How the protocol is kept to.
    Protocol,
}

impl FigureKind {
    /// Returns the kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Protocol => "protocol",
        }
    }
}

/// What a prompt of a probe holds beside the rules of the protocol.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Nothing.
    Plain,
    /// A reminder of the form.
    Reminder,
    /// A turn as an example.
    Example,
}

impl Condition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Reminder, Self::Example];

    /// Returns the condition's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Reminder => "reminder",
            Self::Example => "example",
        }
    }
}

/// What a case of a probe asks for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// A message and nothing else.
    Message,
    /// An action.
    Action,
    /// A verdict.
    Verdict,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Message, Self::Action, Self::Verdict];

    /// Returns the task's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Action => "action",
            Self::Verdict => "verdict",
        }
    }
}

/// How many of some replies were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Those that were.
    pub right: u64,
    /// All.
    pub all: u64,
}

impl Share {
    /// Returns the share as a number from 0 to 1; `None` of nothing.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        (self.all > 0).then(|| self.right as f64 / self.all as f64)
    }

    /// Returns between which numbers the true share lies in 95 of 100 cases, by Wilson's score; `None` of nothing.
    #[must_use]
    pub fn interval(self) -> Option<(f64, f64)> {
        const Z: f64 = 1.959_964;
        let (rate, all) = (self.rate()?, self.all as f64);
        let whole = 1.0 + Z * Z / all;
        let middle = (rate + Z * Z / (2.0 * all)) / whole;
        let half = Z / whole * (rate * (1.0 - rate) / all + Z * Z / (4.0 * all * all)).sqrt();
        Some(((middle - half).max(0.0), (middle + half).min(1.0)))
    }

    /// Returns the reliability that the share stands for; `None` of nothing.
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
    pub fn count(&mut self, right: bool) {
        self.right += u64::from(right);
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
            let found = Share { right, all }.interval().unwrap();
            assert!(
                (found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4,
                "{right}/{all}: {found:?}"
            );
        }
        assert_eq!(Share::default().interval(), None);
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
                Share { right, all: 100 }.reliability(),
                Some(expected),
                "{right}"
            );
        }
        assert_eq!(Share::default().reliability(), None);
    }
}
