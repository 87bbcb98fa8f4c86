//! Charts of a record: how long grants and transactions take, as cumulative distributions; throughput, as bars and over
//! time. `heat.rs` has all workloads at once.

use super::record::{BIN_MS, Contest, QUANTILES, Run};
use crate::drawing::{Axes, BOTTOM, LEFT, PANEL, TOP, WIDTH, drawing, line, polyline, step, text};
use crate::recovery::summary::short;
use std::fmt::Write;

/// A colour for each service, in the record's order: of one kind of server, shades of one colour would not be told
/// apart where curves cross, so neighbours differ.
const COLOURS: [&str; 12] = [
    "#1b6ca8", "#c8501e", "#2e8540", "#7b4fa3", "#b58900", "#d33682", "#268bd2", "#6b4226", "#00796b", "#9e9d24",
    "#5d4e75", "#444444",
];
/// For a legend, right of the panel: the longest name fits.
const LEGEND: f64 = 216.0;
const ROW: f64 = 22.0;
/// Of a legend.
const LINE: f64 = 17.0;

fn colour(service: usize) -> &'static str {
    COLOURS[service % COLOURS.len()]
}

/// How its curve is drawn: there are more services than colours.
fn dashes(service: usize) -> &'static str {
    if service < COLOURS.len() { "" } else { "stroke-dasharray=\"5 3\"" }
}

/// Where a panel ends that is so high, or higher if its legend is.
fn bottom(panel: f64, services: usize) -> f64 {
    TOP + panel.max(LINE * services as f64)
}

/// From the power of ten below the least to that above the most.
fn decades(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.max(0.1).log10().floor() as i32, most.max(1.0).log10().ceil() as i32);
    (first..=last.max(first + 1)).map(|power| 10f64.powi(power)).collect()
}

impl Contest {
    /// Services with runs that count, by their place in the record.
    fn those_that_count(&self, played: usize) -> Vec<(usize, &str)> {
        let services = self.services.iter().map(|service| service.name.as_str()).enumerate();
        services.filter(|(_, name)| self.runs_of(played, name).any(Run::counts)).collect()
    }

    /// Which part of the grants took at most so long.
    pub(super) fn grants(&self, played: usize) -> Option<String> {
        self.distribution(played, ("Time from request to grant", "part of the grants"), Run::grant_us)
    }

    /// The same of transactions, with their attempts that were aborted.
    pub(super) fn transactions(&self, played: usize) -> Option<String> {
        let title = "Time from a transaction's first request to its last release";
        self.distribution(played, (title, "part of the transactions"), Run::transaction_us)
    }

    /// Of each quantile the median of the rounds. None: of no service there is one.
    fn distribution(
        &self,
        played: usize,
        (title, of): (&str, &str),
        look: fn(&Run, f64) -> Option<f64>,
    ) -> Option<String> {
        let at = |name: &str, quantile| self.spread(played, name, |run| look(run, quantile)).map(|one| one.median);
        let mut services = self.those_that_count(played);
        services.retain(|(_, name)| at(name, 0.5).is_some());
        let ends = |quantile| services.iter().filter_map(|(_, name)| at(name, quantile)).collect::<Vec<f64>>();
        let (least, most) = (ends(0.01).into_iter().reduce(f64::min)?, ends(0.999).into_iter().reduce(f64::max)?);
        let ticks = decades(least, most);
        let bottom = bottom(1.3 * PANEL, services.len());
        let place = [LEFT, WIDTH - LEGEND, TOP, bottom];
        let ends = (ticks[0], ticks[ticks.len() - 1]);
        let axes = Axes { place, x: ends, y: (0.0, 1.0), logarithmic: [true, false] };
        let mut body = String::new();
        axes.draw(&mut body, title, ("microseconds", &ticks), (of, &[0.0, 0.25, 0.5, 0.75, 1.0]));
        for (row, (index, name)) in services.iter().enumerate() {
            let points = QUANTILES.iter().filter(|quantile| **quantile <= 0.999);
            let points = points
                .filter_map(|&quantile| Some(axes.at(at(name, quantile)?.clamp(ends.0, ends.1), quantile)))
                .collect::<Vec<_>>();
            polyline(&mut body, &points, colour(*index), dashes(*index));
            legend(&mut body, row, *index, name);
        }
        Some(drawing(bottom + BOTTOM, &body))
    }

    /// Locks a second: the median, and from the least to the most of the rounds.
    pub(super) fn throughput(&self, played: usize) -> String {
        let services = self.those_that_count(played);
        let rates: Vec<_> = services
            .iter()
            .filter_map(|(index, name)| Some((*index, *name, self.spread(played, name, Run::grants_a_second)?)))
            .collect();
        let most = rates.iter().map(|rate| rate.2.most).fold(1.0, f64::max);
        let least = rates.iter().map(|rate| rate.2.least).reduce(f64::min).unwrap_or(1.0);
        let ticks = decades(least.max(1.0), most);
        let bottom = TOP + ROW * rates.len() as f64;
        let place = [LEGEND, WIDTH - 90.0, TOP, bottom];
        let axes = Axes { place, x: (ticks[0], ticks[ticks.len() - 1]), y: (0.0, 1.0), logarithmic: [true, false] };
        let mut body = String::new();
        axes.draw(&mut body, "Throughput (bars: median; lines: least to most)", ("locks a second", &ticks), ("", &[]));
        for (row, (index, name, rate)) in rates.iter().enumerate() {
            let middle = TOP + ROW * (row as f64 + 0.5);
            let to = |value: f64| axes.at(value.max(ticks[0]), 0.0).0;
            let (end, colour) = (to(rate.median), colour(*index));
            let _ = writeln!(
                body,
                "<rect x=\"{LEGEND}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" opacity=\"0.75\"/>",
                middle - 7.0,
                (end - LEGEND).max(1.0),
                14.0
            );
            line(&mut body, (to(rate.least), middle), (to(rate.most), middle), "#222222", "stroke-width=\"1.5\"");
            text(&mut body, (LEGEND - 8.0, middle + 4.0), "end", "normal", name);
            let figure =
                if rate.median < 10_000.0 { short(rate.median) } else { format!("{:.0} k", rate.median / 1e3) };
            text(&mut body, (to(rate.most).max(end) + 6.0, middle + 4.0), "start", "normal", &figure);
        }
        drawing(bottom + BOTTOM, &body)
    }

    /// Grants over time: of each bin the median of the rounds. None: nobody looked.
    pub(super) fn timeline(&self, played: usize) -> Option<String> {
        let services = self.those_that_count(played);
        let bins = self.runs.iter().filter(|run| run.played == played).map(|run| run.timeline.len()).max()?;
        if bins == 0 {
            return None;
        }
        let rate = |name: &str, bin: usize| {
            let look = |run: &Run| run.timeline.get(bin).map(|&count| f64::from(count) * 1e3 / BIN_MS as f64);
            self.spread(played, name, look).map_or(0.0, |spread| spread.median)
        };
        let curves: Vec<(usize, &str, Vec<f64>)> = services
            .iter()
            .map(|(index, name)| (*index, *name, (0..bins).map(|bin| rate(name, bin)).collect()))
            .collect();
        let most = curves.iter().flat_map(|curve| &curve.2).fold(1.0, |most: f64, rate| most.max(*rate));
        let tick = step(most);
        let y: Vec<f64> = (0..=(most / tick).ceil() as u32).map(|index| f64::from(index) * tick).collect();
        let end = (bins as u64 * BIN_MS) as f64;
        let x: Vec<f64> = (0..=(end / 300.0) as u32).map(|index| f64::from(index) * 300.0).collect();
        let axes = Axes {
            place: [LEFT, WIDTH - LEGEND, TOP, bottom(PANEL, curves.len())],
            x: (0.0, end),
            y: (0.0, y[y.len() - 1]),
            logarithmic: [false; 2],
        };
        let mut body = String::new();
        axes.draw(&mut body, "Throughput over time", ("milliseconds", &x), ("locks a second", &y));
        for (row, (index, name, rates)) in curves.iter().enumerate() {
            let points = rates.iter().enumerate();
            let points = points.map(|(bin, rate)| axes.at((bin as f64 + 0.5) * BIN_MS as f64, *rate));
            polyline(&mut body, &points.collect::<Vec<_>>(), colour(*index), dashes(*index));
            legend(&mut body, row, *index, name);
        }
        Some(drawing(bottom(PANEL, curves.len()) + BOTTOM, &body))
    }
}

fn legend(body: &mut String, row: usize, service: usize, name: &str) {
    let (x, y) = (WIDTH - LEGEND + 16.0, TOP + 8.0 + LINE * row as f64);
    line(body, (x, y), (x + 20.0, y), colour(service), &format!("stroke-width=\"3\" {}", dashes(service)));
    text(body, (x + 26.0, y + 4.0), "start", "normal", name);
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn decades_enclose_what_is_drawn() {
        assert_eq!(decades(3.0, 250.0), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(decades(10.0, 10.0), [10.0, 100.0]);
    }

    #[test]
    fn many_services_are_told_apart_and_all_are_in_the_legend() {
        let names: Vec<String> = (0..20).map(|number| format!("service-{number}")).collect();
        let services: Vec<(&str, &[f64])> = names.iter().map(|name| (name.as_str(), &[100.0][..])).collect();
        let svg = record(&services).grants(0).unwrap();
        let height: f64 =
            svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
        assert!(height > TOP + LINE * 20.0, "{height}");
        assert!(names.iter().all(|name| svg.contains(&format!(">{name}<"))), "{svg}");
        let mut looks: Vec<_> = (0..20).map(|service| (colour(service), dashes(service))).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), 20);
    }

    #[test]
    fn who_has_no_run_that_counts_is_not_drawn() {
        let mut contest = record(&[("redis", &[100.0, 200.0]), ("etcd", &[9_000.0])]);
        contest.runs[2].overlaps = 1;
        for svg in [contest.grants(0).unwrap(), contest.transactions(0).unwrap(), contest.throughput(0)] {
            assert!(svg.contains(">redis<") && !svg.contains(">etcd<"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(contest.timeline(0).is_none());
        let mut none = contest.clone();
        none.runs.clear();
        assert!(none.grants(0).is_none() && !none.throughput(0).contains("NaN"), "{}", none.throughput(0));
        contest.runs[0].timeline = vec![100, 200];
        assert!(contest.timeline(0).unwrap().contains("polyline"));
        // Runs so short that no transaction ended.
        contest.runs.iter_mut().for_each(|run| run.transaction_us.clear());
        assert!(contest.transactions(0).is_none() && contest.grants(0).is_some());
    }
}
