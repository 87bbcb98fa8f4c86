//! Counting: in a worker between two reports, in the demo over all of them.

use crate::messages::{Counts, Report};
use hdrhistogram::Histogram;
use std::time::Duration;

/// Longest wait that is told from longer ones, in nanoseconds: a minute.
const LONGEST_WAIT_NS: u64 = 60_000_000_000;

pub struct Tally {
    pub counts: Counts,
    waits: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        // Three digits: a wait of 123 us is told from one of 124 us.
        let waits = Histogram::new_with_bounds(1, LONGEST_WAIT_NS, 3).expect("bounds and digits are allowed");
        Tally { counts: Counts::default(), waits }
    }
}

impl Tally {
    pub fn waited(&mut self, wait: Duration) {
        self.waits.saturating_record(wait.as_nanos() as u64);
    }

    /// Everything since the last time.
    pub fn take_report(&mut self) -> Report {
        let waits = self.waits.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        self.waits.reset();
        Report { counts: std::mem::take(&mut self.counts), waits }
    }

    pub fn add(&mut self, report: &Report) {
        self.counts.add(&report.counts);
        for &(wait, times) in &report.waits {
            self.waits.saturating_record_n(wait, times);
        }
    }

    /// The wait that so many in a hundred do not exceed; None if nothing waited.
    pub fn wait_at(&self, percentile: f64) -> Option<Duration> {
        (!self.waits.is_empty()).then(|| Duration::from_nanos(self.waits.value_at_percentile(percentile)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_add_up_to_what_was_counted() {
        let mut worker = Tally::default();
        let mut demo = Tally::default();
        for round in 0..2 {
            for wait in 1..=500 {
                worker.waited(Duration::from_micros(round * 500 + wait));
                worker.counts.transfers += 1;
            }
            demo.add(&worker.take_report());
        }
        assert_eq!(demo.counts.transfers, 1_000);
        let near = |percentile, micros: u64| {
            let wait = demo.wait_at(percentile).unwrap().as_micros() as u64;
            assert!(wait.abs_diff(micros) <= 1 + micros / 1_000, "p{percentile}: {wait} us, not {micros}");
        };
        near(50.0, 500);
        near(99.9, 999);
        assert_eq!(Tally::default().wait_at(50.0), None);
    }
}
