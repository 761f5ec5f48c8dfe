//! What measurements come to: how our counts of tokens are corrected, and how well the protocol is kept to.

use serde::Serialize;

use crate::models::{Condition, Figure, Measurement, Reliability, Share};

/// How many of the newest samples count.
const MAX_SAMPLES: usize = 50;

/// From how many samples on they are used.
const MIN_SAMPLES: usize = 3;

/// From how many samples on, of prompts that differ in length, a factor can be told from what comes on top.
const MIN_FACTOR_SAMPLES: usize = 5;

/// Between which numbers a factor is believed.
const FACTOR_RANGE: (f64, f64) = (0.5, 3.0);

/// From how many replies without help on a measured reliability takes the place of the catalogue's.
pub const MIN_RELIABILITY_REPLIES: u64 = 10;

/// What was measured of an agent and its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// How our counts compare with those that it reports.
    pub calibration: Calibration,
    /// How many of its replies to probes without any help were right.
    pub protocol: Share,
}

impl Measured {
    /// Returns what measurements come to; the newest is the last.
    #[must_use]
    pub fn from_measurements<'a>(measurements: impl IntoIterator<Item = &'a Measurement>) -> Self {
        let (mut samples, mut protocol) = (Vec::new(), Share::default());
        for measurement in measurements {
            match measurement.figure {
                Figure::Tokens { ours, reported } => samples.push((ours, reported)),
                Figure::Protocol {
                    condition: Condition::Plain,
                    right,
                    ..
                } => protocol.count(right),
                Figure::Protocol { .. } => {}
            }
        }
        Self {
            calibration: Calibration::from_samples(&samples),
            protocol,
        }
    }

    /// Returns how well the protocol is kept to, if enough replies tell.
    #[must_use]
    pub fn reliability(&self) -> Option<Reliability> {
        self.protocol
            .reliability()
            .filter(|_| self.protocol.all >= MIN_RELIABILITY_REPLIES)
    }
}

/// How our counts of tokens compare with those that an agent reports: `factor` times ours, and `overhead` on top.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// What our count is multiplied with.
    pub factor: f64,
    /// What the agent adds to every prompt, in tokens.
    pub overhead: u64,
    /// How many samples tell so.
    pub samples: usize,
    /// How many more there are of prompts that seem to have been cut; they tell nothing.
    pub cut: usize,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            factor: 1.0,
            overhead: 0,
            samples: 0,
            cut: 0,
        }
    }
}

impl Calibration {
    /// Returns what samples of our count and the reported one come to; the newest is the last.
    #[must_use]
    pub fn from_samples(samples: &[(u64, u64)]) -> Self {
        let (cut, whole): (Vec<_>, Vec<_>) = samples
            .iter()
            .partition(|(ours, reported)| seems_cut(*ours, *reported));
        let newest = &whole[whole.len().saturating_sub(MAX_SAMPLES)..];
        let newest: Vec<(f64, f64)> = newest
            .iter()
            .map(|&(ours, reported): &(u64, u64)| (ours as f64, reported as f64))
            .collect();
        let factor = fit_factor(&newest);
        let rest = newest
            .iter()
            .map(|(ours, reported)| reported - factor * ours)
            .collect();
        let overhead = median(rest).unwrap_or(0.0).max(0.0).ceil() as u64;
        Self {
            factor,
            overhead,
            samples: newest.len(),
            cut: cut.len(),
        }
    }

    /// Returns it if there are enough samples to be used.
    #[must_use]
    pub fn used(self) -> Option<Self> {
        (self.samples >= MIN_SAMPLES).then_some(self)
    }
}

/// Tells whether an agent reports so few tokens that it cannot have seen the whole prompt.
#[must_use]
pub fn seems_cut(ours: u64, reported: u64) -> bool {
    reported < ours.div_ceil(2)
}

/// Returns the slope through samples, of all between two of them the one in the middle, if it can be told.
fn fit_factor(samples: &[(f64, f64)]) -> f64 {
    let shortest = samples
        .iter()
        .map(|(ours, _)| *ours)
        .fold(f64::INFINITY, f64::min);
    let longest = samples.iter().map(|(ours, _)| *ours).fold(0.0, f64::max);
    if samples.len() < MIN_FACTOR_SAMPLES || longest < 2.0 * shortest {
        return 1.0;
    }
    let mut slopes = Vec::new();
    for (index, (x, y)) in samples.iter().enumerate() {
        let others = samples[index + 1..].iter().filter(|(other, _)| other != x);
        slopes.extend(others.map(|(other_x, other_y)| (other_y - y) / (other_x - x)));
    }
    median(slopes)
        .unwrap_or(1.0)
        .clamp(FACTOR_RANGE.0, FACTOR_RANGE.1)
}

/// Returns the number in the middle, or between the two in the middle.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let (low, high) = (
        numbers.get(numbers.len().checked_sub(1)? / 2)?,
        numbers.get(numbers.len() / 2)?,
    );
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(factor: f64, overhead: u64, samples: usize) -> Calibration {
        Calibration {
            factor,
            overhead,
            samples,
            cut: 0,
        }
    }

    #[test]
    fn prompts_of_different_lengths_tell_factor_and_overhead() {
        let line = |ours: u64| (ours, ours * 6 / 5 + 3_000);
        let samples = [1_000, 2_000, 3_000, 4_000, 5_000].map(line);
        let found = Calibration::from_samples(&samples);
        assert!((found.factor - 1.2).abs() < 1e-9, "{found:?}");
        assert!(
            (3_000..=3_001).contains(&found.overhead) && found.samples == 5,
            "{found:?}"
        );
        // Two of seven that are far off change nothing.
        let odd = [&samples[..], &[(1_500, 60_000), (4_500, 90_000)]].concat();
        let found = Calibration::from_samples(&odd);
        assert!(
            (found.factor - 1.2).abs() < 0.3 && found.overhead < 4_500,
            "{found:?}"
        );
    }

    #[test]
    fn what_cannot_be_told_apart_is_overhead() {
        // Too few, and too much alike.
        assert_eq!(
            Calibration::from_samples(&[(100, 150), (200, 280), (400, 440)]),
            told(1.0, 50, 3)
        );
        let alike = [
            (1_000, 1_300),
            (1_100, 1_500),
            (1_200, 1_700),
            (1_300, 1_900),
            (1_999, 2_500),
        ];
        assert_eq!(Calibration::from_samples(&alike), told(1.0, 500, 5));
        // Fewer tokens than we count are no negative overhead.
        assert_eq!(
            Calibration::from_samples(&[(100, 80), (100, 90), (100, 70)]),
            told(1.0, 0, 3)
        );
        assert_eq!(Calibration::from_samples(&[]), Calibration::default());
        assert_eq!(Calibration::from_samples(&[(0, 0)]), told(1.0, 0, 1));
    }

    #[test]
    fn a_factor_stays_within_what_is_believed() {
        let steep: Vec<(u64, u64)> = (1..=6).map(|n| (n * 100, n * 900)).collect();
        let found = Calibration::from_samples(&steep);
        assert_eq!(
            (found.factor, found.overhead),
            (3.0, 2_100),
            "median of 600n is 2,100"
        );
        let flat: Vec<(u64, u64)> = (1..=6).map(|n| (n * 100, 2_000 + n)).collect();
        assert_eq!(Calibration::from_samples(&flat).factor, 0.5);
    }

    #[test]
    fn samples_that_seem_cut_tell_nothing_and_old_ones_are_forgotten() {
        let cut = [(40_000, 1_200); 9];
        let whole = [(1_000, 1_010), (1_000, 1_020), (1_000, 1_030)];
        let found = Calibration::from_samples(&[&whole[..], &cut].concat());
        assert_eq!(
            found,
            Calibration {
                cut: 9,
                ..told(1.0, 20, 3)
            }
        );
        assert!(seems_cut(40_000, 19_999) && !seems_cut(40_000, 20_000) && !seems_cut(0, 0));
        let old = [[(1_000, 9_000); 60].as_slice(), &[(1_000, 1_007); 50]].concat();
        assert_eq!(Calibration::from_samples(&old), told(1.0, 7, 50));
    }

    #[test]
    fn few_samples_are_shown_and_not_used() {
        assert_eq!(
            Calibration::from_samples(&[(100, 150), (100, 150)]).used(),
            None
        );
        assert!(Calibration::from_samples(&[(100, 150); 3]).used().is_some());
    }

    #[test]
    fn only_replies_without_help_tell_the_reliability() {
        let reply = |condition, right| Measurement {
            agent: "a".to_owned(),
            model: None,
            figure: Figure::Protocol {
                condition,
                task: crate::models::Task::Message,
                case: "hello".to_owned(),
                right,
            },
        };
        let mut all = vec![reply(Condition::Plain, true); 8];
        all.extend(vec![reply(Condition::Example, false); 40]);
        all.push(reply(Condition::Plain, false));
        let nine = Measured::from_measurements(&all);
        assert_eq!(
            (nine.protocol, nine.reliability()),
            (Share { right: 8, all: 9 }, None)
        );
        all.push(reply(Condition::Plain, false));
        assert_eq!(
            Measured::from_measurements(&all).reliability(),
            Some(Reliability::Medium)
        );
    }
}
