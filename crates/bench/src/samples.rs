//! Durations in nanoseconds, by operation, and of each round apart.

use crate::report::{Ratio, Row, Spread};
use hdrhistogram::Histogram;
use std::time::Instant;

/// Three digits, up to ten seconds: an operation that takes longer is counted as that.
const MOST: u64 = 10_000_000_000;

/// What one operation took.
pub(crate) struct Samples {
    name: &'static str,
    all: Histogram<u64>,
    round: Histogram<u64>,
    /// Medians of the rounds, in order.
    medians: Vec<u64>,
}

impl Samples {
    pub(crate) fn new(name: &'static str) -> Samples {
        let empty = || Histogram::new_with_bounds(1, MOST, 3).expect("bounds that fit");
        Samples { name, all: empty(), round: empty(), medians: Vec::new() }
    }

    /// Times `work`.
    pub(crate) fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        self.record(began);
        result
    }

    /// An operation that began then and ends now.
    pub(crate) fn record(&mut self, began: Instant) {
        self.round.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(MOST));
    }

    /// Ends a round. One of a warm-up is forgotten.
    pub(crate) fn end_round(&mut self, counts: bool) {
        if counts && !self.round.is_empty() {
            self.medians.push(self.round.value_at_quantile(0.5));
            self.all += &self.round;
        }
        self.round.reset();
    }

    pub(crate) fn median(&self) -> u64 {
        self.all.value_at_quantile(0.5)
    }

    /// None if it was never measured.
    pub(crate) fn row(&self) -> Option<Row> {
        if self.all.is_empty() {
            return None;
        }
        let micros = |quantile: f64| self.all.value_at_quantile(quantile) as f64 / 1_000.0;
        Some(Row {
            operation: self.name.into(),
            count: self.all.len(),
            median_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            to_echo: None,
        })
    }

    /// Medians against those of `echo`, round by round.
    pub(crate) fn ratio(&self, echo: &Samples) -> Ratio {
        let mut ratios: Vec<f64> =
            self.medians.iter().zip(&echo.medians).map(|(own, echo)| *own as f64 / *echo as f64).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| ratios.get((ratios.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Ratio {
            of_medians: self.median() as f64 / echo.median() as f64,
            rounds: ratios.len(),
            of_rounds: Spread { p10: at(0.1), median: at(0.5), p90: at(0.9) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn samples(rounds: &[u64]) -> Samples {
        let mut samples = Samples::new("test");
        for &nanos in rounds {
            samples.round.record(nanos).unwrap();
            samples.end_round(true);
        }
        samples
    }

    #[test]
    fn ratios_pair_the_rounds() {
        // Both twice as slow in the second half: the ratio does not move.
        let ratio = samples(&[1_000, 1_000, 2_000, 2_000]).ratio(&samples(&[500, 500, 1_000, 1_000]));
        assert_eq!((ratio.rounds, ratio.of_rounds.p10, ratio.of_rounds.p90), (4, 2.0, 2.0));
    }

    #[test]
    fn a_warm_up_leaves_nothing() {
        let mut samples = Samples::new("test");
        samples.time(|| std::thread::sleep(Duration::from_millis(1)));
        samples.end_round(false);
        assert!(samples.row().is_none());
    }
}
