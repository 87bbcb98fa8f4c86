//! The table at the end: both parts of the demo beside each other.

use crate::bank::Statement;
use crate::screen::{Screen, Tone, grouped, span};
use crate::story::Part;
use crate::teller::PATIENCE;

const LABEL: usize = 34;
const COLUMN: usize = 16;

pub fn lines(bare: &Part, locked: &Part, screen: &Screen) -> Vec<String> {
    let mut lines = vec![screen.toned(Tone::Heading, &row("", "without locks", "with locks"))];
    let mut add = |label: &str, of: &dyn Fn(&Part) -> String| lines.push(row(label, &of(bare), &of(locked)));
    let operations = |part: &Part| part.end.transfers + part.tally.counts.audits;
    add("operations", &|part| grouped(operations(part)));
    add("  a second", &|part| grouped((operations(part) as f64 / part.took.as_secs_f64()) as u64));
    for (label, percentile) in [("wait for the locks, median", 50.0), ("  p99", 99.0), ("  p99.9", 99.9)] {
        add(label, &|part| part.tally.wait_at(percentile).map_or_else(|| "-".into(), span));
    }
    add("locks granted by the switch", &|part| share(part, part.tally.counts.by_switch));
    add("  by an agent on another host", &|part| share(part, part.tally.counts.by_agent));
    add("  by the process's own agent", &|part| share(part, part.tally.counts.by_local));
    add(&format!("given up after {} ms", PATIENCE.as_millis()), &|part| locked_only(part, part.tally.counts.timed_out));
    add("lost with their session", &|part| locked_only(part, part.tally.counts.lost));
    add("refused as stale", &|part| locked_only(part, part.tally.counts.refused));
    add("audits, and with a wrong sum", &|part| {
        format!("{}, {}", grouped(part.tally.counts.audits), grouped(part.tally.counts.wrong_audits))
    });
    add("missing on accounts", &|part| grouped(part.end.astray().0));
    add("too much on accounts", &|part| grouped(part.end.astray().1));
    add("money before", &|part| grouped(part.end.founded_with as u64));
    add("money after", &|part| money(part.end.sum()));
    // The tone's codes take no room on the screen, so it comes last.
    let (bare, locked) = (difference(&bare.end), difference(&locked.end));
    let tone = if locked == EXACT { Tone::Good } else { Tone::Bad };
    let line = row("", &bare, &locked);
    let at = line.len() - locked.len();
    lines.push(format!("{}{}", &line[..at], screen.toned(tone, &locked)));
    lines
}

fn row(label: &str, bare: &str, locked: &str) -> String {
    format!("{label:<LABEL$}{bare:>COLUMN$}{locked:>COLUMN$}")
}

fn grants(part: &Part) -> u64 {
    let counts = &part.tally.counts;
    counts.by_switch + counts.by_agent + counts.by_local
}

fn share(part: &Part, by: u64) -> String {
    match grants(part) {
        0 => "-".into(),
        all => format!("{} {:>5.1} %", grouped(by), by as f64 * 100.0 / all as f64),
    }
}

fn locked_only(part: &Part, count: u64) -> String {
    if grants(part) == 0 { "-".into() } else { grouped(count) }
}

fn money(sum: i64) -> String {
    let sign = if sum < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(sum.unsigned_abs()))
}

const EXACT: &str = "exact";

/// `exact`, or how wrong the sum is.
pub fn difference(end: &Statement) -> String {
    match end.sum() - end.founded_with {
        0 if end.is_exact() => EXACT.into(),
        0 => "wrong".into(),
        less @ ..0 => format!("{} lost", grouped(less.unsigned_abs())),
        more => format!("{} too much", grouped(more.unsigned_abs())),
    }
}
