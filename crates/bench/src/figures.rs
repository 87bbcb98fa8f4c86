//! The figures of the README, of the page of bars and of that on recovery, from a report that was kept: never by hand.

use crate::Error;
use crate::report::{Bar, GRANTED_BY_SWITCH, Mode, Ratio, Report, Row};

/// A page has its figures between this and [`END`].
const BEGIN: &str = "<!-- figures: written by `wayside-bench --figures` -->\n";
/// The same of a page that has others of the hook.
pub(crate) const BEGIN_AT_HOOK: &str = "<!-- figures at the hook: written by `wayside-bench --figures` -->\n";
const END: &str = "<!-- end of figures -->\n";

/// Modes that have a column, with their heads, and by what the switch is reached.
const COLUMNS: [(&str, &str, &str); 4] = [
    ("Userspace switch, spinning, two cores", "userspace, both spin", "UDP on loopback"),
    ("Userspace switch, sleeping, two cores", "userspace, both sleep", "UDP on loopback"),
    ("XDP switch, UDP", "XDP, by UDP", "UDP over veth"),
    ("XDP switch, AF_XDP", "XDP, by AF_XDP", "AF_XDP over veth"),
];
/// What every line is of besides.
const BESIDES: &str = "\nIn brackets: how many bare echoes of its column that is, of 64 bytes, signed or not. A packet is one lock, but in \
                       the lines of 32 locks. Nothing\nis written to a disk, in Redis neither. Of Redis' ways the fastest \
                       is shown, with what it was: a socket and cores of its own, not its column's.\n";
/// Operations that have a line, with their heads. Of several rows, the fastest: echoes in userspace, Redis' ways.
const LINES: [(&str, &str); 9] = [
    ("echo", "bare echo, 64 bytes"),
    ("acquire", "acquire of a free lock"),
    ("acquire and release", "acquire and release"),
    ("signed acquire", "acquire, signed"),
    ("signed acquire and release", "acquire and release, signed"),
    ("Redis lock", "Redis `SET NX PX`"),
    ("Redis lock and unlock", "the same, then compare and delete"),
    ("32 locks and their guards", "32 locks in a call, with their guards"),
    ("packet of 32 locks, checked", "the packet alone, each lock checked"),
];

/// The README with the figures of `report`, which is kept as `record`, in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_figures(readme: &str, report: &Report, record: &str) -> Result<String, Error> {
    put_between(readme, &figures(report, record))
}

/// The page with these figures in the place of those before.
pub(crate) fn put_between(page: &str, figures: &str) -> Result<String, Error> {
    put_after(BEGIN, page, figures)
}

/// The page with these figures in the place of those between this mark and the next end.
pub(crate) fn put_after(mark: &str, page: &str, figures: &str) -> Result<String, Error> {
    let begin = page.find(mark).map(|at| at + mark.len());
    let place = begin.and_then(|begin| Some((begin, begin + page[begin..].find(END)?)));
    let (begin, end) = place.ok_or_else(|| format!("there is no {} before {}", mark.trim(), END.trim()))?;
    Ok(format!("{}{figures}{}", &page[..begin], &page[end..]))
}

fn figures(report: &Report, record: &str) -> String {
    let machine = &report.machine;
    let latency = if report.cpu_dma_latency_held { "idle processors kept awake" } else { "processors left to idle" };
    let redis = if machine.redis.is_empty() { "no Redis" } else { &machine.redis };
    let mut text = format!(
        "`{}`, {}, commit {}: {}, {} cores,\nLinux {}, {redis}, {latency}; the whole run, with spreads, is\n\
         [{record}]({record}):\n\n| median, us |",
        machine.command, machine.date, machine.commit, machine.processor, machine.cores, machine.kernel,
    );
    COLUMNS.iter().for_each(|(_, head, _)| text += &format!(" {head} |"));
    text += &format!("\n|{}\n", " --- |".repeat(COLUMNS.len() + 1));
    let endpoints = COLUMNS.map(|(.., endpoint)| endpoint);
    let cores = COLUMNS.map(|(mode, ..)| cores(report, mode));
    text += &format!("| endpoint | {} |\n", endpoints.join(" | "));
    text += &format!("| cores of client and switch | {} |\n", cores.join(" | "));
    for (operation, head) in LINES {
        let cells = COLUMNS.map(|(mode, ..)| cell(report, mode, operation));
        if cells.iter().any(Option::is_some) {
            text += &format!("| {head} |");
            cells.into_iter().for_each(|cell| text += &format!(" {} |", cell.unwrap_or_default()));
            text += "\n";
        }
    }
    let (met, barred) = met(report);
    text += BESIDES;
    text + &format!("{met} of {barred} ratios are as they are meant to be: [docs/bars.md](docs/bars.md) has each.\n")
}

/// How many ratios have a bar and meet it, and how many have one.
pub(crate) fn met(report: &Report) -> (usize, usize) {
    let barred = || report.modes.iter().flat_map(|mode| &mode.ratios).filter_map(|ratio| Some((ratio, ratio.bar?)));
    (barred().filter(|(ratio, bar)| bar.is_met_by(ratio.of_medians)).count(), barred().count())
}

/// The page of bars with the ratios of `report`, which is kept as `record`, in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_bars(page: &str, report: &Report, record: &str) -> Result<String, Error> {
    let machine = &report.machine;
    let (met, barred) = met(report);
    let mut text = format!(
        "[{record}](../{record}): `{}`, {}, commit {}, {}, {} cores, Linux {}, {:.0} s.\n**{met} of {barred} ratios are as they are meant to be.**\n\n\
         | switch | ratio | of medians | of rounds, a tenth to nine tenths | meant to be | |\n| --- | --- | ---: | --- | --- | --- |\n",
        machine.command, machine.date, machine.commit, machine.processor, machine.cores, machine.kernel, report.seconds
    );
    for mode in &report.modes {
        for ratio in &mode.ratios {
            if let Some(bar) = ratio.bar {
                text +=
                    &format!("{} {} | {} |\n", line(mode, ratio), meant(bar), verdict(bar.is_met_by(ratio.of_medians)));
            }
        }
        if let Some(seen) = mode.seen.as_ref().filter(|_| mode.ratios.iter().any(|ratio| ratio.bar.is_some())) {
            let (share, is_met) = (seen.granted_by_switch, seen.granted_by_switch >= GRANTED_BY_SWITCH);
            let least = meant(Bar::AtLeast(GRANTED_BY_SWITCH));
            text += &format!(
                "| {} | acquires that the switch granted | {share:.4} | | {least} | {} |\n",
                mode.name,
                verdict(is_met)
            );
        }
    }
    text += "\nWithout a bar:\n\n| switch | ratio | of medians | of rounds, a tenth to nine tenths |\n| --- | --- | ---: | --- |\n";
    for mode in &report.modes {
        mode.ratios.iter().filter(|ratio| ratio.bar.is_none()).for_each(|ratio| text += &(line(mode, ratio) + "\n"));
    }
    put_between(page, &text)
}

fn line(mode: &Mode, ratio: &Ratio) -> String {
    let Ratio { what, of_medians, of_rounds, .. } = ratio;
    format!("| {} | {what} | {of_medians:.2} | {:.2} to {:.2} |", mode.name, of_rounds.p10, of_rounds.p90)
}

fn meant(bar: Bar) -> String {
    match bar {
        Bar::AtMost(most) => format!("at most {most}"),
        Bar::AtLeast(least) => format!("at least {least}"),
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

/// Those that client and switch have together while a lock is acquired.
fn cores(report: &Report, mode: &str) -> String {
    let rows = report.modes.iter().filter(|one| one.name == mode).flat_map(|one| &one.rows);
    let mut acquires = rows.filter(|row| row.operation == "acquire");
    acquires.next().map_or_else(String::new, |row| row.how.cores.to_string())
}

/// Its median, and how many echoes that is.
fn cell(report: &Report, mode: &str, operation: &str) -> Option<String> {
    let (mode, operation) = match operation.strip_prefix("signed ") {
        Some(operation) => (format!("{mode}, signed"), operation),
        None => (mode.to_owned(), operation),
    };
    let mode = report.modes.iter().find(|one| one.name == mode)?;
    let is_it = |row: &&Row| row.operation == operation || operation == "echo" && is_echo(row);
    let row = fastest(mode, is_it)?;
    let echo = row.to_echo.filter(|_| !is_echo(row)).map_or_else(String::new, |echo| format!(" ({echo:.2}x)"));
    Some(format!("{:.1}{echo}{}", row.median_us, own_way(row)))
}

/// By what a peer is reached, and on how many cores: not by what its column says.
fn own_way(row: &Row) -> String {
    if !row.operation.starts_with("Redis") {
        return String::new();
    }
    let socket = if row.how.transport == "unix" { "Unix socket" } else { &row.how.transport };
    let cores = if row.how.cores == 1 { "core" } else { "cores" };
    format!(", {socket}, {} {cores}", row.how.cores)
}

/// An echo as long as an acquire.
fn is_echo(row: &Row) -> bool {
    row.operation.starts_with("UDP echo, ") || row.operation == "XDP echo, 64 bytes"
}

fn fastest(mode: &Mode, is_it: impl Fn(&&Row) -> bool) -> Option<&Row> {
    mode.rows.iter().filter(is_it).min_by(|one, other| one.median_us.total_cmp(&other.median_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::Machine;
    use crate::report::{How, Spread};

    fn mode(name: &str, rows: &[(&str, f64)]) -> Mode {
        let how = How { transport: "UDP".into(), cores: 1, waits: "spin".into(), signed: "off".into() };
        let redis = How { transport: "unix".into(), cores: 2, ..how.clone() };
        let row = |&(operation, median_us): &(&str, f64)| Row {
            operation: operation.to_owned(),
            how: if operation.starts_with("Redis") { redis.clone() } else { how.clone() },
            count: 1,
            median_us,
            p99_us: 0.0,
            p999_us: 0.0,
            to_echo: Some(median_us / 2.0),
        };
        let rows = rows.iter().map(row).collect();
        Mode { name: name.into(), rows, ratios: Vec::new(), rates: Vec::new(), seen: None }
    }

    #[test]
    fn figures_replace_those_before_and_nothing_else() {
        let rows = [("XDP echo, 64 bytes", 2.0), ("acquire", 2.5), ("Redis lock", 9.0), ("Redis lock", 8.0)];
        let modes = vec![mode("XDP switch, UDP", &rows), mode("XDP switch, UDP, signed", &[("acquire", 3.0)])];
        let (machine, notes) = (Machine::look(), Vec::new());
        let report = Report { machine, pinned: true, cpu_dma_latency_held: true, seconds: 1.0, modes, notes };
        let readme = format!("before\n{BEGIN}old\n{END}after\n");
        let text = put_figures(&readme, &report, "bench/runs/one.json").unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("after\n") && !text.contains("old"), "{text}");
        for line in [
            "| endpoint | UDP on loopback | UDP on loopback | UDP over veth | AF_XDP over veth |",
            "| cores of client and switch |  |  | 1 |  |",
            "| bare echo, 64 bytes |  |  | 2.0 |  |",
            "| acquire of a free lock |  |  | 2.5 (1.25x) |  |",
            "| acquire, signed |  |  | 3.0 (1.50x) |  |",
            "| Redis `SET NX PX` |  |  | 8.0 (4.00x), Unix socket, 2 cores |  |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let is_of_32 = |line: &str| line.starts_with("| ") && line.contains("32 locks");
        assert!(!text.lines().any(is_of_32), "what was not measured has no line: {text}");
        assert_eq!(put_figures(&text, &report, "bench/runs/one.json").unwrap(), text);
        assert!(put_figures("nothing", &report, "").is_err());
    }

    #[test]
    fn every_bar_has_a_line_that_says_whether_it_is_met() {
        let ratio = |what: &str, of_medians, bar| Ratio {
            what: what.into(),
            of_medians,
            rounds: 8,
            of_rounds: Spread { p10: 1.0, median: of_medians, p90: 9.0 },
            bar,
        };
        let bare = ratio("bare", 3.0, None);
        let ratios =
            vec![ratio("first", 1.2, Some(Bar::AtMost(1.15))), ratio("other", 4.0, Some(Bar::AtLeast(4.0))), bare];
        let modes = vec![Mode { ratios, ..mode("XDP switch, UDP", &[]) }];
        let (machine, notes) = (Machine::look(), Vec::new());
        let report = Report { machine, pinned: true, cpu_dma_latency_held: true, seconds: 1.0, modes, notes };
        let text = put_bars(&format!("{BEGIN}{END}"), &report, "bench/runs/one.json").unwrap();
        for line in [
            "**1 of 2 ratios are as they are meant to be.**",
            "| XDP switch, UDP | first | 1.20 | 1.00 to 9.00 | at most 1.15 | **missed** |",
            "| XDP switch, UDP | other | 4.00 | 1.00 to 9.00 | at least 4 | met |",
            "| XDP switch, UDP | bare | 3.00 | 1.00 to 9.00 |\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_pages_have_a_place_for_figures() {
        for page in [include_str!("../../../README.md"), include_str!("../../../docs/bars.md")] {
            assert!(page.find(BEGIN).unwrap() < page.find(END).unwrap());
        }
    }
}
