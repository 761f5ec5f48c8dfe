//! Evaluates measurements of agents: correction of token counts, and reliability in keeping to the protocol.

use serde::Serialize;

use crate::models::{ComplianceRate, MeasuredValue, Measurement, ProbeCondition, Reliability};

/// Maximum number of samples used; older ones are ignored.
const MAX_SAMPLES: usize = 50;

/// Minimum number of samples for a correction.
const MIN_SAMPLES: usize = 3;

/// Minimum number of samples, of prompts that differ in length, to separate the factor from the overhead.
const MIN_FACTOR_SAMPLES: usize = 5;

/// Plausible factors; others are clamped to this range.
const FACTOR_RANGE: (f64, f64) = (0.5, 3.0);

/// Minimum number of replies to plain probes after which the measured reliability replaces the catalogue's.
pub const MIN_RELIABILITY_REPLIES: u64 = 10;

/// Measurements of an agent and its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ModelMeasurements {
    /// Comparison of our token counts with those that the agent reports.
    pub calibration: Calibration,
    /// Share of correct replies to plain probes.
    pub protocol: ComplianceRate,
}

impl ModelMeasurements {
    /// Evaluates measurements; the newest is the last.
    #[must_use]
    pub fn from_measurements<'a>(measurements: impl IntoIterator<Item = &'a Measurement>) -> Self {
        let mut samples = Vec::new();
        let mut protocol = ComplianceRate::default();
        for measurement in measurements {
            match measurement.figure {
                MeasuredValue::Tokens { ours, reported } => samples.push((ours, reported)),
                MeasuredValue::Protocol {
                    condition: ProbeCondition::Plain,
                    right,
                    ..
                } => protocol.count(right),
                MeasuredValue::Protocol { .. } => {}
            }
        }

        Self {
            calibration: Calibration::from_samples(&samples),
            protocol,
        }
    }

    /// Returns the measured reliability; `None` with fewer than [`MIN_RELIABILITY_REPLIES`] replies.
    #[must_use]
    pub fn reliability(&self) -> Option<Reliability> {
        self.protocol
            .reliability()
            .filter(|_| self.protocol.all >= MIN_RELIABILITY_REPLIES)
    }
}

/// Linear relation of our token counts to reported ones: reported = `factor` × ours + `overhead`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Multiplier of our count.
    pub factor: f64,
    /// Tokens that the agent adds to every prompt.
    pub overhead: u64,
    /// Number of samples used.
    pub samples: usize,
    /// Number of samples ignored because the prompt was probably truncated.
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
    /// Fits a calibration to samples of (our count, reported count); the newest is the last.
    ///
    /// Medians are used for the slope and for the overhead, so that a few outliers do not matter.
    #[must_use]
    pub fn from_samples(samples: &[(u64, u64)]) -> Self {
        let (cut, whole): (Vec<_>, Vec<_>) = samples
            .iter()
            .partition(|(ours, reported)| seems_cut(*ours, *reported));
        let newest: Vec<(f64, f64)> = whole[whole.len().saturating_sub(MAX_SAMPLES)..]
            .iter()
            .map(|&(ours, reported): &(u64, u64)| (ours as f64, reported as f64))
            .collect();
        let factor = fit_factor(&newest);
        let residuals = newest
            .iter()
            .map(|(ours, reported)| reported - factor * ours)
            .collect();

        let overhead = median(residuals).unwrap_or(0.0).max(0.0).ceil() as u64;
        Self {
            factor,
            overhead,
            samples: newest.len(),
            cut: cut.len(),
        }
    }

    /// Returns the calibration if it has enough samples to be applied.
    #[must_use]
    pub fn used(self) -> Option<Self> {
        (self.samples >= MIN_SAMPLES).then_some(self)
    }
}

/// Returns true if an agent reports less than half of the tokens that we counted: the prompt was probably truncated.
#[must_use]
pub fn seems_cut(ours: u64, reported: u64) -> bool {
    reported < ours.div_ceil(2)
}

/// Returns the median slope of all pairs of samples (Theil–Sen estimator); 1 if there are too few samples or if their
/// lengths are too similar.
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

/// Returns the median; `None` without numbers.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let low = numbers.get(numbers.len().checked_sub(1)? / 2)?;
    let high = numbers.get(numbers.len() / 2)?;
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(factor: f64, overhead: u64, samples: usize) -> Calibration {
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
            calibration(1.0, 50, 3)
        );
        let alike = [
            (1_000, 1_300),
            (1_100, 1_500),
            (1_200, 1_700),
            (1_300, 1_900),
            (1_999, 2_500),
        ];
        assert_eq!(Calibration::from_samples(&alike), calibration(1.0, 500, 5));
        // Fewer reported tokens than counted ones do not make the overhead negative.
        assert_eq!(
            Calibration::from_samples(&[(100, 80), (100, 90), (100, 70)]),
            calibration(1.0, 0, 3)
        );
        assert_eq!(Calibration::from_samples(&[]), Calibration::default());
        assert_eq!(Calibration::from_samples(&[(0, 0)]), calibration(1.0, 0, 1));
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
                ..calibration(1.0, 20, 3)
            }
        );
        assert!(seems_cut(40_000, 19_999) && !seems_cut(40_000, 20_000) && !seems_cut(0, 0));
        let old = [[(1_000, 9_000); 60].as_slice(), &[(1_000, 1_007); 50]].concat();
        assert_eq!(Calibration::from_samples(&old), calibration(1.0, 7, 50));
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
            figure: MeasuredValue::Protocol {
                condition,
                task: crate::models::ProbeTask::Message,
                case: "hello".to_owned(),
                right,
            },
        };
        let mut all = vec![reply(ProbeCondition::Plain, true); 8];
        all.extend(vec![reply(ProbeCondition::Example, false); 40]);
        all.push(reply(ProbeCondition::Plain, false));
        let nine = ModelMeasurements::from_measurements(&all);
        assert_eq!(
            (nine.protocol, nine.reliability()),
            (ComplianceRate { right: 8, all: 9 }, None)
        );
        all.push(reply(ProbeCondition::Plain, false));
        assert_eq!(
            ModelMeasurements::from_measurements(&all).reliability(),
            Some(Reliability::Medium)
        );
    }
}
