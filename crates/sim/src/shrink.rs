//! A failure's happenings, fewer and fewer, as long as the same invariant breaks: first conditions and kinds of faults
//! as a whole, then halves, quarters, ... and single ones, until no single one can be left out.

use std::time::{Duration, Instant};

use crate::schedule::{Filter, Kind, Mark, Marks};
use crate::{Failure, Options, Outcome, run};

/// After which it is what it is. A late failure has more than a thousand happenings, each of which is left out by
/// itself once at the least, and each run may take as long as the first.
const LONGEST: Duration = Duration::from_secs(60);
/// In microseconds of the world's time: what is left out may let it break later.
const MARGIN: u64 = 100_000;
/// Invariants that are looked at when a run is over.
const AT_THE_END: [&str; 4] = ["L1", "L2", "P4", "vacuous"];

/// A failure with as few happenings as could be found.
pub struct Shrunk {
    /// With them alone it fails.
    pub filter: Filter,
    /// What happens then, and when.
    pub happened: Vec<(u64, Mark)>,
    /// How it fails then.
    pub failure: Failure,
    /// Happenings of the failure as it was found.
    pub before: usize,
    /// Runs that it took.
    pub runs: u64,
}

struct Shrinking<'a> {
    seed: u64,
    options: &'a Options,
    invariant: &'static str,
    best: (Filter, Outcome),
    runs: u64,
    until: Instant,
    progress: &'a dyn Fn(usize),
}

/// Shrinks a failed run. `progress` hears how many happenings are left.
pub fn shrink(outcome: &Outcome, options: &Options, progress: &dyn Fn(usize)) -> Option<Shrunk> {
    let invariant = outcome.failure.as_ref()?.invariant;
    let before = outcome.happened.len();
    let best = (options.filter.clone(), outcome.clone());
    let mut shrinking =
        Shrinking { seed: outcome.seed, options, invariant, best, runs: 0, until: Instant::now() + LONGEST, progress };
    shrinking.leave_out_kinds();
    shrinking.leave_out_happenings();
    let Shrinking { best: (filter, outcome), runs, .. } = shrinking;
    let failure = outcome.failure?;
    Some(Shrunk { filter, happened: outcome.happened, failure, before, runs })
}

impl Shrinking<'_> {
    /// Whether it still fails so; then that is what it is from now on.
    fn try_with(&mut self, filter: Filter) -> bool {
        if self.is_late() {
            return false;
        }
        self.runs += 1;
        // With less that happens it breaks a little later, or never: what promises that all ends well is looked at
        // last.
        let at = self.best.1.failure.as_ref().map(|failure| 2 * failure.at + MARGIN);
        let until = at.filter(|_| !AT_THE_END.contains(&self.invariant));
        let options = Options { filter, until, chart: false, ..self.options.clone() };
        let outcome = run(self.seed, &options);
        let fails = outcome.failure.as_ref().is_some_and(|failure| failure.invariant == self.invariant);
        if fails {
            (self.progress)(outcome.happened.len());
            self.best = (options.filter, outcome);
        }
        fails
    }

    fn is_late(&self) -> bool {
        Instant::now() > self.until
    }

    fn leave_out_kinds(&mut self) {
        for &kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Ask) {
            let filter = &self.best.0;
            let matters = kind.is_condition() || self.best.1.happened.iter().any(|(_, mark)| mark.kind == kind);
            if matters && !filter.without.has_all(kind) {
                let without = filter.without.clone().with_all(kind);
                self.try_with(Filter { without, ..filter.clone() });
            }
        }
    }

    fn leave_out_happenings(&mut self) {
        // What is left out as a whole, but for conditions, need not be said once it is said what is in.
        let conditions = Kind::ALL.iter().copied().filter(|kind| kind.is_condition());
        let mut without = Marks::default();
        for kind in conditions.filter(|kind| self.best.0.without.has_all(*kind)) {
            without = without.with_all(kind);
        }
        let all: Vec<Mark> = self.best.1.happened.iter().map(|(_, mark)| *mark).collect();
        if !self.try_with(Filter { only: Some(Marks::new(all.iter().copied())), without: without.clone() }) {
            return;
        }
        let mut size = all.len().div_ceil(2);
        loop {
            let (mut from, before) = (0, self.best.1.happened.len());
            loop {
                let left: Vec<Mark> = self.best.1.happened.iter().map(|(_, mark)| *mark).collect();
                if from >= left.len() {
                    break;
                }
                // The latest first: what is left before them happens as it did.
                let end = left.len() - from;
                let rest = left[..end.saturating_sub(size)].iter().chain(&left[end..]).copied();
                if !self.try_with(Filter { only: Some(Marks::new(rest)), without: without.clone() }) {
                    from += size;
                }
            }
            let is_done = size == 1 && self.best.1.happened.len() == before;
            if self.is_late() || is_done {
                return;
            }
            size = size.div_ceil(2);
        }
    }
}
