//! Durations in nanoseconds, by operation, and of each round apart.

use crate::report::{How, Ratio, Row, Spread};
use hdrhistogram::Histogram;
use std::borrow::Cow;
use std::time::Instant;

/// Three digits, up to ten seconds: an operation that takes longer is counted as that.
const MOST: u64 = 10_000_000_000;

/// What one operation took.
pub(crate) struct Samples {
    name: Cow<'static, str>,
    all: Histogram<u64>,
    round: Histogram<u64>,
    /// Medians of the rounds, in order; None where it did not take part.
    medians: Vec<Option<u64>>,
}

impl Samples {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>) -> Samples {
        let empty = || Histogram::new_with_bounds(1, MOST, 3).expect("bounds that fit");
        Samples { name: name.into(), all: empty(), round: empty(), medians: Vec::new() }
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
        self.record_each(began, 1);
    }

    /// As many operations as this that began then and end now: what one of them took.
    pub(crate) fn record_each(&mut self, began: Instant, operations: u64) {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(MOST);
        self.round.saturating_record(nanos / operations);
    }

    /// Ends a round. One of a warm-up is forgotten.
    pub(crate) fn end_round(&mut self, counts: bool) {
        if counts {
            self.medians.push((!self.round.is_empty()).then(|| self.round.value_at_quantile(0.5)));
            self.all += &self.round;
        }
        self.round.reset();
    }

    /// Of the round that has not ended yet.
    #[cfg(feature = "xdp")]
    pub(crate) fn of_round(&self, quantile: f64) -> u64 {
        self.round.value_at_quantile(quantile)
    }

    pub(crate) fn median(&self) -> u64 {
        self.all.value_at_quantile(0.5)
    }

    /// Forgets everything: it is measured anew, beside others.
    pub(crate) fn clear(&mut self) {
        self.all.reset();
        self.round.reset();
        self.medians.clear();
    }

    /// None if it was never measured.
    pub(crate) fn row(&self, how: &How) -> Option<Row> {
        if self.all.is_empty() {
            return None;
        }
        let micros = |quantile: f64| self.all.value_at_quantile(quantile) as f64 / 1_000.0;
        Some(Row {
            operation: self.name.clone().into_owned(),
            how: how.clone(),
            count: self.all.len(),
            median_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            to_echo: None,
        })
    }

    /// Medians against those of `other`, round by round where both took part.
    pub(crate) fn ratio(&self, what: impl Into<String>, other: &Samples) -> Ratio {
        let both = self.medians.iter().zip(&other.medians);
        let mut ratios: Vec<f64> = both.filter_map(|(own, other)| Some((*own)? as f64 / (*other)? as f64)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| ratios.get((ratios.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Ratio {
            what: what.into(),
            of_medians: self.median() as f64 / other.median() as f64,
            rounds: ratios.len(),
            of_rounds: Spread { p10: at(0.1), median: at(0.5), p90: at(0.9) },
            bar: None,
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
        let ratio = samples(&[1_000, 1_000, 2_000, 2_000]).ratio("", &samples(&[500, 500, 1_000, 1_000]));
        assert_eq!((ratio.rounds, ratio.of_rounds.p10, ratio.of_rounds.p90), (4, 2.0, 2.0));
    }

    #[test]
    fn rounds_of_one_alone_are_no_pairs() {
        let seldom = {
            let mut seldom = Samples::new("test");
            for nanos in [None, Some(3_000), None] {
                nanos.into_iter().for_each(|nanos| seldom.round.record(nanos).unwrap());
                seldom.end_round(true);
            }
            seldom
        };
        let ratio = seldom.ratio("", &samples(&[500, 1_000, 2_000]));
        assert_eq!((ratio.rounds, ratio.of_rounds.median.round()), (1, 3.0));
    }

    #[test]
    fn a_warm_up_leaves_nothing() {
        let mut samples = Samples::new("test");
        samples.time(|| std::thread::sleep(Duration::from_millis(1)));
        samples.end_round(false);
        let how = How { transport: "UDP".into(), cores: 1, waits: "spin".into(), signed: "off".into() };
        assert!(samples.row(&how).is_none());
    }
}
