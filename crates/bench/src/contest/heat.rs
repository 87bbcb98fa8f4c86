//! All workloads against all services at once, as heat maps: how far each service is from the best of its workload.

use super::page::escaped;
use super::record::{Contest, Played, Run};
use crate::drawing::{WIDTH, drawing, text};
use std::fmt::Write;

/// Left of a map, for services; above it, for its title.
const NAMES: f64 = 190.0;
const TITLE: f64 = 26.0;
const LINE: f64 = 18.0;
/// Workloads' names are above it, this slanted, in letters so wide on average: the last one ends right of it.
const SLANT_DEGREES: f64 = 55.0;
const LETTER: f64 = 5.2;
/// Of a column, at most.
const WIDEST: f64 = 64.0;
/// Who is so many times worse than the best is white.
const WORST: f64 = 1_000.0;
const BEST: [f64; 3] = [27.0, 108.0, 168.0];
const NOTHING: &str = "#dddddd";

/// What a map is of: its title, whether more is better, and what is looked at.
type Map = (&'static str, bool, fn(&Run) -> Option<f64>);

const MAPS: [Map; 2] = [
    ("Locks a second: the darker, the nearer to the best of the workload", true, Run::grants_a_second),
    ("99th percentile of the time from request to grant, us: the darker, the nearer to the best", false, |run| {
        run.grant_us(0.99)
    }),
];

impl Contest {
    /// One for throughput, one for latency. None of one workload: its own charts show it.
    pub(super) fn heat_maps(&self) -> Vec<String> {
        if self.played.len() < 2 {
            return Vec::new();
        }
        MAPS.iter().map(|map| self.heat_map(map)).collect()
    }

    fn heat_map(&self, &(title, more, look): &Map) -> String {
        let letters = self.played.iter().map(|played| self.head(played).chars().count()).max().unwrap_or(0);
        let (up, along) = SLANT_DEGREES.to_radians().sin_cos();
        let [above, beside] = [up, along].map(|part| LETTER * letters as f64 * part);
        let heads = TITLE + above;
        let wide = ((WIDTH - NAMES - beside) / self.played.len() as f64).min(WIDEST);
        let mut body = String::new();
        text(&mut body, (10.0, 16.0), "start", "bold", title);
        for (column, played) in self.played.iter().enumerate() {
            let (x, y) = (NAMES + wide * (column as f64 + 0.6), heads - 6.0);
            let head = escaped(&self.head(played));
            let _ = writeln!(
                body,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-{SLANT_DEGREES} {x:.1} {y:.1})\" font-size=\"10\">{head}</text>"
            );
        }
        for (row, service) in self.services.iter().enumerate() {
            let top = heads + LINE * row as f64;
            text(&mut body, (NAMES - 8.0, top + 13.0), "end", "normal", &escaped(&service.name));
        }
        for (column, played) in self.played.iter().enumerate() {
            let of = |name: &str| self.spread(column, name, look).map(|spread| spread.median);
            let all = self.services.iter().filter_map(|service| of(&service.name));
            let best = all.reduce(if more { f64::max } else { f64::min });
            for (row, service) in self.services.iter().enumerate() {
                let (value, place) = (of(&service.name), (NAMES + wide * column as f64, heads + LINE * row as f64));
                let said = value.map_or_else(|| self.no_cells(column, &service.name).into(), brief);
                let title = format!("{}, {}: {said}", played.title(), service.name);
                cell(&mut body, place, wide, &title, Cell { value, best, more });
            }
        }
        drawing(heads + LINE * self.services.len() as f64 + 12.0, &body)
    }

    /// A workload's name, with how it was run if that is not the only way.
    fn head(&self, played: &Played) -> String {
        let ways = self.played.iter().filter(|other| other.workload == played.workload).count();
        if ways > 1 { played.title() } else { played.workload.clone() }
    }
}

struct Cell {
    /// None: no run counts.
    value: Option<f64>,
    /// Of the workload.
    best: Option<f64>,
    more: bool,
}

impl Cell {
    /// 1 of the best, 0 of who is [`WORST`] times worse, or more; None: there is nothing to compare.
    fn nearness(&self) -> Option<f64> {
        let (value, best) = self.value.zip(self.best)?;
        let worse = if self.more { best / value } else { value / best };
        worse.is_finite().then(|| (1.0 - worse.ln() / WORST.ln()).clamp(0.0, 1.0))
    }
}

fn cell(body: &mut String, (x, y): (f64, f64), wide: f64, title: &str, cell: Cell) {
    let nearness = cell.nearness();
    let colour = nearness.map_or_else(|| NOTHING.into(), |near| mixed(BEST, near));
    let (figure, title) = (cell.value.map_or_else(|| "none".into(), brief), escaped(title));
    let (width, height) = (wide - 1.0, LINE - 1.0);
    // Nothing can fail that is written to a string.
    let _ = writeln!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
         <title>{title}</title></rect>"
    );
    let ink = if nearness.is_some_and(|near| near > 0.6) { "#ffffff" } else { "#222222" };
    let (middle, base) = (x + width / 2.0, y + 12.0);
    let _ = writeln!(
        body,
        "<text x=\"{middle:.1}\" y=\"{base:.1}\" text-anchor=\"middle\" font-size=\"8\" fill=\"{ink}\" \
         pointer-events=\"none\">{figure}</text>"
    );
}

/// So much of a colour, the rest white.
fn mixed(colour: [f64; 3], part: f64) -> String {
    let [red, green, blue] = colour.map(|one| (255.0 + (one - 255.0) * part).round() as u8);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// In four letters or five: columns are narrow.
fn brief(value: f64) -> String {
    match value {
        value if value >= 999_500.0 => format!("{:.1}M", value / 1e6),
        value if value >= 9_950.0 => format!("{:.0}k", value / 1e3),
        value if value >= 999.5 => format!("{:.1}k", value / 1e3),
        value if value >= 9.95 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn the_best_is_dark_who_is_a_thousand_times_worse_is_white_and_who_failed_is_grey() {
        let of = |value: f64, more| Cell { value: Some(value), best: Some(100.0), more }.nearness().unwrap();
        assert_eq!((of(100.0, true), of(100.0, false)), (1.0, 1.0));
        assert!(of(0.1, true) < 1e-9 && of(100_000.0, false) < 1e-9 && of(0.001, true) < 1e-9);
        assert!((of(10.0, true) - 2.0 / 3.0).abs() < 1e-9 && (of(1_000.0, false) - 2.0 / 3.0).abs() < 1e-9);
        assert!(Cell { value: None, best: Some(1.0), more: true }.nearness().is_none());
        assert_eq!((mixed(BEST, 1.0), mixed(BEST, 0.0)), ("#1b6ca8".into(), "#ffffff".into()));
    }

    #[test]
    fn figures_are_as_short_as_columns_are_narrow() {
        for (value, shown) in
            [(0.26, "0.3"), (9.94, "9.9"), (99.6, "100"), (999.6, "1.0k"), (12_345.0, "12k"), (1.26e6, "1.3M")]
        {
            assert_eq!(brief(value), shown);
        }
    }

    #[test]
    fn a_map_has_a_cell_for_each_service_of_each_workload() {
        let mut contest = record(&[("redis", &[100.0, 200.0]), ("etcd", &[9_000.0])]);
        assert!(contest.heat_maps().is_empty(), "one workload has its own charts");
        let again = Played { workload: "<other>".into(), ..contest.played[0].clone() };
        contest.played.push(again);
        let mut one = contest.runs[0].clone();
        one.played = 1;
        contest.runs.push(one);
        let maps = contest.heat_maps();
        assert_eq!(maps.len(), 2);
        for map in &maps {
            // The background is one, too.
            assert_eq!(map.matches("<rect").count(), 1 + 4, "{map}");
            assert!(map.contains(">&lt;other&gt;<") && map.contains(NOTHING) && map.contains("etcd: failed"), "{map}");
            assert!(!map.contains("NaN") && !map.contains("inf"), "{map}");
        }
        assert!(maps[0].contains("tatp, 2 clients, aborted after 10 ms, redis: 7.5k"), "{}", maps[0]);
    }
}
