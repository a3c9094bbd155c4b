//! Medians over trials, intervals by bootstrap, fairness and hand-overs.
//!
//! The unit of replication is the trial: the operations of one trial share its luck, so they are no independent samples.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A median over trials with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The median over the trials.
    pub est: f64,
    /// The lower end of the interval.
    pub lo: f64,
    /// The upper end of the interval.
    pub hi: f64,
}

impl Estimate {
    /// An estimate with this interval.
    #[must_use]
    pub const fn new(est: f64, lo: f64, hi: f64) -> Self {
        Self { est, lo, hi }
    }

    /// The median of one value a trial, with an interval by percentile bootstrap over the trials. `None` without trials.
    ///
    /// The same values and the same seed give the same interval.
    #[must_use]
    pub fn over_trials(values: &[f64], seed: u64) -> Option<Self> {
        const RESAMPLES: usize = 2000;
        let est = median(values)?;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sample = vec![0.0; values.len()];
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                sample.fill_with(|| values[random.usize(..values.len())]);
                median(&sample)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let (lo, hi) = (quantile(&medians, 0.025)?, quantile(&medians, 0.975)?);
        Some(Self::new(round(est), round(lo), round(hi)))
    }

    /// Whether the interval contains a value.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// This over another that was not measured in the same trials: the widest interval that both allow. `None` where the other may
    /// be zero.
    #[must_use]
    pub fn over(&self, other: &Self) -> Option<Self> {
        (other.lo > 0.0).then(|| Self::new(self.est / other.est, self.lo / other.hi, self.hi / other.lo))
    }

    /// Whether two intervals have a value in common: then nobody wins.
    #[must_use]
    pub fn ties_with(&self, other: &Self) -> bool {
        self.lo <= other.hi && other.lo <= self.hi
    }
}

/// The middle value; between two middle values their mean. `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// A quantile of sorted values, interpolated between neighbours.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * as_f64(last);
    let below = sorted.get(whole(at.floor()))?;
    let above = sorted.get(whole(at.ceil()))?;
    Some(below + (above - below) * at.fract())
}

/// The standard deviation over the mean; `None` for fewer than two values, or a mean of zero.
#[must_use]
pub fn variation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let n = as_f64(values.len());
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean != 0.0).then(|| variance.sqrt() / mean)
}

/// Jain's index of fairness: 1 when all have the same share, 1/n when one has everything. `None` when nobody has anything.
///
/// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301, 1984.
#[must_use]
pub fn jain(shares: &[u64]) -> Option<f64> {
    let values: Vec<f64> = shares.iter().map(|s| from_u64(*s)).collect();
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    (squares > 0.0).then(|| sum * sum / (as_f64(values.len()) * squares))
}

/// How often a name went to another holder than the one before.
///
/// ```
/// use lockyard_benches::stats::hand_overs;
/// assert_eq!(hand_overs(&[0, 0, 0, 1, 1, 0]), 2);
/// ```
#[must_use]
pub fn hand_overs(holders: &[usize]) -> usize {
    holders.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// A value as reports carry it: six significant digits. More would be noise, and fewer digits read back exactly.
#[must_use]
pub fn round(value: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The latencies of one side in one trial.
#[derive(Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    /// The time spent in what was recorded.
    total: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        const MAX_NANOS: u64 = 600_000_000_000;
        // It refuses only a lowest value of 0, a highest below twice the lowest, and more than 5 digits.
        let histogram = Histogram::new_with_bounds(1, MAX_NANOS, 3).expect("these bounds are valid");
        Self { histogram, total: Duration::ZERO }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.total += time;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.total += other.total;
    }

    /// The histogram as HDR V2, compressed; empty when it cannot be written.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(&self.histogram, &mut bytes) {
            Ok(_) => bytes,
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// A quantile in µs.
    pub(crate) fn micros(&self, q: f64) -> f64 {
        from_u64(self.histogram.value_at_quantile(q)) / 1e3
    }

    pub(crate) fn max_millis(&self) -> f64 {
        from_u64(self.histogram.max()) / 1e6
    }

    /// Operations a second of the time spent in them.
    pub(crate) fn per_second(&self) -> f64 {
        let seconds = self.total.as_secs_f64();
        if seconds > 0.0 { from_u64(self.count()) / seconds } else { 0.0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(crate) const fn from_u64(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(crate) const fn as_f64(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number from 0 to a length")]
const fn whole(index: f64) -> usize {
    index as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_of_known_samples() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(quantile(&[0.0, 10.0, 20.0, 30.0, 40.0], 0.25), Some(10.0));
        assert_eq!(quantile(&[0.0, 10.0], 0.9), Some(9.0));
        assert_eq!(quantile(&[1.0, 2.0], 7.0), Some(2.0));
    }

    #[test]
    fn an_interval_holds_the_median_and_is_the_same_for_the_same_seed() {
        let values = [10.0, 12.0, 11.0, 9.0, 30.0, 10.5, 11.5];
        let first = Estimate::over_trials(&values, 7).expect("values");
        assert_eq!(first.est, 11.0);
        assert!(first.lo >= 9.0 && first.lo <= 11.0 && first.hi >= 11.0 && first.hi <= 30.0, "{first:?}");
        assert_eq!(Estimate::over_trials(&values, 7), Some(first));
        assert_eq!(Estimate::over_trials(&[], 7), None);
        assert_eq!(Estimate::over_trials(&[2.5; 6], 1), Some(Estimate::new(2.5, 2.5, 2.5)));
    }

    /// The true median is 100. Percentile bootstraps of few trials hold it a little less often than they say: 92 of 100 here.
    #[test]
    fn intervals_hold_the_true_median_about_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(42);
        let held = (0..100)
            .filter(|seed| {
                let values: Vec<f64> =
                    (0..15).map(|_| 100.0 + (0..12).map(|_| random.f64()).sum::<f64>() - 6.0).collect();
                Estimate::over_trials(&values, *seed).expect("values").contains(100.0)
            })
            .count();
        assert!((84..=99).contains(&held), "{held} of 100");
    }

    #[test]
    fn ties_are_intervals_that_touch() {
        let a = Estimate::new(1.0, 0.9, 1.1);
        assert!(a.ties_with(&Estimate::new(1.2, 1.1, 1.3)) && a.contains(1.0));
        assert!(!a.ties_with(&Estimate::new(1.2, 1.11, 1.3)));
        let (four, two) = (Estimate::new(4.0, 3.0, 6.0), Estimate::new(2.0, 1.5, 3.0));
        assert_eq!(four.over(&two), Some(Estimate::new(2.0, 1.0, 4.0)));
        assert_eq!(four.over(&Estimate::new(1.0, 0.0, 2.0)), None);
    }

    #[test]
    fn fairness_of_known_shares() {
        assert_eq!(jain(&[5, 5, 5, 5]), Some(1.0));
        assert_eq!(jain(&[8, 0, 0, 0]), Some(0.25));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0, 0]), None);
        let uneven = jain(&[1, 3]).expect("shares");
        assert!((uneven - 0.8).abs() < 1e-12, "{uneven}");
    }

    #[test]
    fn a_hand_over_is_a_change_of_holder() {
        assert_eq!(hand_overs(&[]), 0);
        assert_eq!(hand_overs(&[3]), 0);
        assert_eq!(hand_overs(&[1, 2, 1, 2]), 3);
        assert_eq!(hand_overs(&[1, 1, 1]), 0);
    }

    #[test]
    fn variation_of_known_samples() {
        assert_eq!(variation(&[1.0]), None);
        assert_eq!(variation(&[5.0, 5.0, 5.0]), Some(0.0));
        let cv = variation(&[1.0, 3.0]).expect("two values");
        assert!((cv - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-12, "{cv}");
    }

    #[test]
    fn rounding_keeps_six_digits_and_reads_back() {
        assert_eq!(round(1_234.567_89), 1_234.57);
        assert_eq!(round(0.000_123_456_789), 0.000_123_457);
        assert_eq!((round(f64::NAN), round(0.0)), (0.0, 0.0));
        let text = serde_json::to_string(&round(98_765.432_1)).expect("JSON");
        assert_eq!(serde_json::from_str::<f64>(&text).expect("a number"), round(98_765.432_1));
    }

    #[test]
    fn latencies_tell_their_quantiles() {
        let mut latencies = Latencies::new();
        (1..=100).for_each(|ms| latencies.record(Duration::from_millis(ms)));
        assert!((latencies.micros(0.5) - 50_000.0).abs() < 100.0);
        assert!((latencies.micros(0.99) - 99_000.0).abs() < 100.0);
        assert!((latencies.per_second() - 100.0 / 5.05).abs() < 0.01);
        let mut twice = Latencies::new();
        twice.add(&latencies);
        twice.add(&latencies);
        assert_eq!(twice.count(), 200);
    }
}
