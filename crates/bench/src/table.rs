//! A report as people read it: 100 columns.

use crate::figures::met;
use crate::knobs::Machine;
use crate::report::{Bar, GRANTED_BY_SWITCH, How, Mode, Ratio, Report, Row, Seen, Spread};
use std::fmt;

/// Columns of a line.
const WIDTH: usize = 100;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.modes.iter().try_for_each(|mode| mode.fmt(f))?;
        let (met, barred) = met(self);
        writeln!(f, "{met} of {barred} ratios with a bar meet it.\n")?;
        let Machine { processor, cores, kernel, commit, load_before, command, date, redis, .. } = &self.machine;
        let place = if self.pinned {
            "clients on core 0, servers on core 1 (2 cores) or 0 (1 core)"
        } else {
            "nothing bound to a core"
        };
        let latency = if self.cpu_dma_latency_held { "held at 0" } else { "not held" };
        let redis = if redis.is_empty() { String::new() } else { format!(", {redis}") };
        paragraph(f, &format!("Knobs: {place}; cpu_dma_latency {latency}; packets of 64 bytes, of 32 locks 1,056."))?;
        paragraph(
            f,
            &format!(
                "Machine: {processor}, {cores} cores, Linux {kernel}{redis}{}, load {load_before} before; commit \
                 {commit}, {date}, {:.0} s, by `{command}`.",
                self.machine.besides(),
                self.seconds
            ),
        )?;
        self.notes.iter().try_for_each(|note| paragraph(f, &format!("* {note}")))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        writeln!(
            f,
            "  {:<31} {:<6} {:>5} {:<5} {:<6} {:>8} {:>7} {:>7} {:>8} {:>6}",
            "us", "by", "cores", "waits", "signed", "count", "median", "p99", "p99.9", "x echo"
        )?;
        for Row { operation, how, count, median_us, p99_us, p999_us, to_echo } in &self.rows {
            let How { transport, cores, waits, signed } = how;
            write!(f, "  {operation:<31} {transport:<6} {cores:>5} {waits:<5} {signed:<6} {count:>8}")?;
            write!(f, " {median_us:>7.2} {p99_us:>7.1} {p999_us:>8.1}")?;
            match to_echo {
                Some(ratio) => writeln!(f, " {ratio:>6.2}")?,
                None => writeln!(f)?,
            }
        }
        self.ratios.iter().try_for_each(|ratio| ratio.fmt(f))?;
        for (what, a_second) in &self.rates {
            writeln!(f, "  {what}: {:.2} million a second", a_second / 1e6)?;
        }
        if let Some(Seen { granted_by_switch, allocations }) = &self.seen {
            let met = verdict(*granted_by_switch >= GRANTED_BY_SWITCH);
            let (share, bar) = (100.0 * granted_by_switch, 100.0 * GRANTED_BY_SWITCH);
            writeln!(f, "  {share:.3} % of the acquires granted by the switch; bar >= {bar}: {met}")?;
            if let Some(count) = allocations {
                writeln!(
                    f,
                    "  {count} allocations by the thread that locks while it was timed; bar 0: {}",
                    verdict(*count == 0)
                )?;
            }
        }
        writeln!(f)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { what, of_medians, rounds, of_rounds: Spread { p10, p90, .. }, bar } = self;
        write!(f, "  {what:<50} {of_medians:>5.2}  {p10:.2} to {p90:.2} of {rounds}")?;
        if let Some(bar) = bar {
            let met = verdict(bar.is_met_by(*of_medians));
            match bar {
                Bar::AtMost(most) => write!(f, "; bar <= {most}: {met}")?,
                Bar::AtLeast(least) => write!(f, "; bar >= {least}: {met}")?,
            }
        }
        writeln!(f)
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Text, broken between words; what follows the first line is indented.
fn paragraph(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            write!(f, "\n  ")?;
            column = 2;
        } else if column > 0 {
            write!(f, " ")?;
            column += 1;
        }
        write!(f, "{word}")?;
        column += length;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let how = How { transport: "AF_XDP".into(), cores: 2, waits: "sleep".into(), signed: "off".into() };
        let row = Row {
            operation: "blocking ping-pong of two hosts".into(),
            how,
            count: 10_000_000,
            median_us: 1_000.0,
            p99_us: 10_000.0,
            p999_us: 10_000.0,
            to_echo: Some(100.0),
        };
        let ratio = Ratio {
            what: "Redis (unix, 2 cores, sleep) / acquire and release".into(),
            of_medians: 3.5,
            rounds: 1_000,
            of_rounds: Spread { p10: 12.0, median: 13.0, p90: 14.0 },
            bar: Some(Bar::AtLeast(4.0)),
        };
        let mode = Mode {
            name: "XDP switch, AF_XDP, signed".into(),
            rows: vec![row],
            ratios: vec![ratio],
            rates: vec![("locks".into(), 1.5e6)],
            seen: Some(Seen { granted_by_switch: 1.0, allocations: Some(1) }),
        };
        Report {
            machine: Machine::look(),
            pinned: true,
            cpu_dma_latency_held: false,
            seconds: 1.0,
            modes: vec![mode],
            notes: vec!["word ".repeat(60)],
        }
    }

    #[test]
    fn no_line_is_longer_than_100_columns() {
        let text = report().to_string();
        let longest = text.lines().filter(|line| !line.contains('`')).max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= WIDTH, "{longest}");
    }

    #[test]
    fn what_misses_its_bar_is_said_to() {
        let text = report().to_string();
        assert!(text.contains("bar >= 4: MISSED") && text.contains("0 of 1 ratios"), "{text}");
        assert!(text.contains("granted by the switch; bar >= 99.9: met"), "{text}");
        assert!(text.contains("1 allocations by the thread that locks while it was timed; bar 0: MISSED"), "{text}");
    }

    #[test]
    fn a_record_is_read_back_as_it_was() {
        let report = report();
        let read = Report::from_json(&report.to_json()).unwrap();
        assert_eq!((read.to_string(), read.to_json()), (report.to_string(), report.to_json()));
    }
}
