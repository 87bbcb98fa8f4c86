//! The gist of a record: tables with medians, and how they grow. The page on recovery has them from a record, never by
//! hand.

use super::place::PlaceName;
use super::record::{Fault, Recovery, Trial};
use crate::Error;
use crate::figures::{BEGIN_AT_HOOK, put_after, put_between};
use crate::fit::exponent;
use std::fmt;

/// What is looked at of a trial, with its head.
pub(crate) type Look = (&'static str, fn(&Trial) -> Option<f64>);

const OF_SWITCHES: [Look; 5] = [
    ("post taken", |trial| trial.promoted_ms),
    ("rebuild", Trial::rebuild_ms),
    ("first grant", |trial| trial.first_grant_ms),
    ("held locks pass on", |trial| trial.passed_on_ms),
    ("a client's longest gap", |trial| Some(trial.gap_to_all_ms)),
];
const OF_NODES: [Look; 4] = [
    ("first waiter has its lock", |trial| trial.passed_on_ms),
    ("all were taken", |trial| trial.all_ms),
    ("a bystander's longest gap", |trial| Some(trial.gap_to_all_ms)),
    ("its gap before", |trial| Some(trial.quiet_gap_ms)),
];

/// Whether the holder lives on.
fn is_of_switch(fault: Fault) -> bool {
    matches!(fault, Fault::Restart | Fault::Failover | Fault::Drain)
}

/// What is looked at of the trials with this fault.
pub(crate) fn looks(fault: Fault) -> impl Iterator<Item = Look> {
    if is_of_switch(fault) { &OF_SWITCHES[..] } else { &OF_NODES }.iter().copied()
}

/// Least, middle and most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { least, median: (low + high) / 2.0, most })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", short(self.median))?;
        if self.least == self.most { Ok(()) } else { write!(f, " ({} to {})", short(self.least), short(self.most)) }
    }
}

/// Two digits, or what is before the point.
pub(crate) fn short(ms: f64) -> String {
    let digits = if ms < 1.0 { 2 } else { usize::from(ms < 10.0) };
    format!("{ms:.digits$}")
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
    groups.join(",")
}

impl Recovery {
    pub(crate) fn locks(&self) -> Vec<u64> {
        let mut locks: Vec<u64> = self.trials.iter().map(|trial| trial.locks).collect();
        locks.sort_unstable();
        locks.dedup();
        locks
    }

    /// Of all sound trials of a kind.
    pub(crate) fn values(&self, fault: Fault, locks: u64, look: impl Fn(&Trial) -> Option<f64>) -> Vec<f64> {
        let trials = self.trials.iter().filter(|trial| trial.fault == fault && trial.locks == locks);
        trials.filter(|trial| trial.broken.is_none()).filter_map(look).collect()
    }

    fn spread(&self, fault: Fault, locks: u64, look: impl Fn(&Trial) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.values(fault, locks, look))
    }

    /// Numbers of locks, and what it took.
    pub(super) fn curve(&self, fault: Fault, look: impl Fn(&Trial) -> Option<f64>) -> Vec<(u64, Spread)> {
        self.locks().into_iter().filter_map(|locks| Some((locks, self.spread(fault, locks, &look)?))).collect()
    }

    fn table(&self, fault: Fault) -> String {
        let looks: Vec<Look> = looks(fault)
            .filter(|(_, look)| self.locks().iter().any(|&locks| self.spread(fault, locks, look).is_some()))
            .collect();
        if looks.is_empty() {
            return String::new();
        }
        let heads: String = looks.iter().map(|(head, _)| format!(" {head} |")).collect();
        let mut text = format!(
            "| {}: ms, with this many locks held |{heads}\n|{}\n",
            fault.name(),
            " --- |".repeat(looks.len() + 1)
        );
        for locks in self.locks() {
            let cells = looks.iter().map(|(_, look)| self.spread(fault, locks, look));
            let cells: String =
                cells.map(|cell| cell.map_or_else(|| " |".into(), |cell| format!(" {cell} |"))).collect();
            text += &format!("| {} |{cells}\n", thousands(locks));
        }
        text + "\n"
    }

    /// How the time grows, in words.
    fn growth(&self) -> String {
        let of = |what: &str, fault, look: fn(&Trial) -> Option<f64>| {
            let (exponent, each) = growth(&self.curve(fault, look))?;
            Some(format!(
                "* {what}: what comes with the locks grows with their number to the power of \
                 {exponent:.2}; with most of them it is {each:.2} us for each.\n"
            ))
        };
        [
            of("Rebuild after the switch's restart", Fault::Restart, Trial::rebuild_ms),
            of("Rebuild by a standby", Fault::Failover, Trial::rebuild_ms),
            of("Until held locks pass on, with a standby", Fault::Failover, |trial| trial.passed_on_ms),
            of("Until every lock of a dead node was taken", Fault::Killed, |trial| trial.all_ms),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// How what is above the time with the fewest locks grows from a thousand on: its exponent, and with the most locks
/// microseconds for each.
fn growth(curve: &[(u64, Spread)]) -> Option<(f64, f64)> {
    let (&(_, first), &(most, last)) = (curve.first()?, curve.last()?);
    let above = curve[1..].iter().map(|(locks, spread)| (*locks as f64, spread.median - first.median));
    let points: Vec<(f64, f64)> = above.filter(|(locks, ms)| *locks >= 1_000.0 && *ms > 0.0).collect();
    let slope = exponent(&points)?;
    Some((slope, 1e3 * (last.median - first.median) / most as f64))
}

/// The page with the figures of `recovery`, which is kept as `record`, in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_recovery(page: &str, recovery: &Recovery, record: &str) -> Result<String, Error> {
    match recovery.place {
        PlaceName::Loopback => put_between(page, &figures(recovery, record)),
        PlaceName::Hook => put_after(BEGIN_AT_HOOK, page, &figures(recovery, record)),
    }
}

fn figures(recovery: &Recovery, record: &str) -> String {
    let machine = &recovery.machine;
    let etcd = recovery.etcd.as_deref().unwrap_or("no etcd");
    let link = format!("../{record}");
    let mut text = format!(
        "`{}`, {}, commit {}: {}, {} cores,\nLinux {}, {etcd}, load {} before and {} after, {} slots; medians of {} rounds (more \
         than 100,000 locks: of one), and in brackets the least and the most.\nAll trials: [{record}]({link}).\n\n",
        machine.command,
        machine.date,
        machine.commit,
        machine.processor,
        machine.cores,
        machine.kernel,
        machine.load_before,
        recovery.load_after,
        thousands(recovery.slots),
        recovery.rounds,
    );
    Fault::ALL.iter().for_each(|fault| text += &recovery.table(*fault));
    text += &recovery.growth();
    let stem = link.trim_end_matches(".json");
    text += &format!(
        "\n![Recovery against the number of held locks]({stem}-growth.svg)\n\n\
         ![Throughput while the switch is away]({stem}.svg)\n\n"
    );
    for line in &recovery.timelines {
        text += &format!(
            "* {}: {} ms without a grant, to {} threads.\n",
            line.fault.name(),
            short(line.stall_ms),
            line.threads
        );
    }
    for why in recovery.broken() {
        text += &format!("* BROKEN: {why}.\n");
    }
    text
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(
            f,
            "{}, {} cores, Linux {}, commit {}, {}, load {} before and {} after; {} rounds, {:.0} s.\nMilliseconds: \
             median (least to most).\n",
            machine.processor,
            machine.cores,
            machine.kernel,
            machine.commit,
            self.etcd.as_deref().unwrap_or("no etcd"),
            machine.load_before,
            self.load_after,
            self.rounds,
            self.seconds,
        )?;
        Fault::ALL.iter().try_for_each(|fault| f.write_str(&self.table(*fault)))?;
        f.write_str(&self.growth())?;
        for line in &self.timelines {
            writeln!(f, "* {}: {} ms without a grant.", line.fault.name(), short(line.stall_ms))?;
        }
        self.notes.iter().cloned().chain(self.broken()).try_for_each(|note| writeln!(f, "* {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(ms: f64) -> Spread {
        Spread { least: ms, median: ms, most: ms }
    }

    #[test]
    fn growth_is_of_what_comes_on_top() {
        let curve = [(1, 50.0), (1_000, 51.0), (10_000, 60.0), (100_000, 150.0)].map(|(locks, ms)| (locks, spread(ms)));
        let (exponent, each) = growth(&curve).unwrap();
        assert!((exponent - 1.0).abs() < 1e-9 && (each - 1.0).abs() < 1e-9, "{exponent} {each}");
        assert!(growth(&curve[..2]).is_none(), "one point has no slope");
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).unwrap().to_string(), "2.0 (1.0 to 3.0)");
        assert_eq!(Spread::of(vec![300.0, 400.0]).unwrap().median, 350.0);
        assert!(Spread::of(Vec::new()).is_none());
        assert_eq!(
            (thousands(1), thousands(10_000), thousands(1_000_000)),
            ("1".into(), "10,000".into(), "1,000,000".into())
        );
    }

    #[test]
    fn the_page_has_a_place_for_figures() {
        let page = include_str!("../../../../docs/recovery.md");
        for place in [PlaceName::Loopback, PlaceName::Hook] {
            let recovery = Recovery::new(crate::knobs::Machine::look(), place, 0, 0, None);
            assert!(put_recovery(page, &recovery, "bench/runs/one.json").is_ok());
        }
    }
}
