//! Drawings, as SVG: locks a second and the switch's share against its cells, how long grants take, and tenants over
//! time.

use super::moves;
use super::record::{BIN_MS, MemoryRun, Queues, TenantRun};
use crate::contest::QUANTILES;
use crate::drawing::{
    Axes, BOTTOM, COLOURS, LEFT, PANEL, RIGHT, TOP, WIDTH, drawing, line, mark, polyline, step, text,
};

/// Panels, one above the other, each with its legend at the right.
struct Sheet {
    body: String,
    panels: u32,
}

const EACH: f64 = TOP + PANEL + BOTTOM;
const LEGEND: f64 = 150.0;

/// A curve: its name, and its points.
type Curve = (String, Vec<(f64, f64)>);

impl Sheet {
    fn panel(&mut self, title: &str, x: (&str, &[f64]), y: &str, logarithmic: bool, curves: &[Curve]) {
        let most = curves.iter().flat_map(|(_, points)| points).fold(1.0, |most: f64, point| most.max(point.1));
        let tick = step(most);
        let ticks: Vec<f64> = (0..=(most / tick).ceil() as u32).map(|index| f64::from(index) * tick).collect();
        let (Some(&first), Some(&last)) = (x.1.first(), x.1.last()) else { return };
        let top = f64::from(self.panels) * EACH + TOP;
        let ends = (first, if last > first { last } else { first + 1.0 });
        let axes = Axes {
            place: [LEFT, WIDTH - RIGHT - LEGEND, top, top + PANEL],
            x: ends,
            y: (0.0, ticks[ticks.len() - 1]),
            logarithmic: [logarithmic, false],
        };
        axes.draw(&mut self.body, title, x, (y, &ticks));
        for (index, (name, points)) in curves.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places: Vec<(f64, f64)> = points.iter().map(|&(x, y)| axes.at(x.clamp(ends.0, ends.1), y)).collect();
            polyline(&mut self.body, &places, colour, "");
            if places.len() <= 8 {
                places.iter().for_each(|&place| mark(&mut self.body, place, index, colour));
            }
            let at = (WIDTH - RIGHT - LEGEND + 40.0, top + 14.0 + 18.0 * index as f64);
            line(&mut self.body, (at.0 - 26.0, at.1 - 4.0), (at.0 - 6.0, at.1 - 4.0), colour, "stroke-width=\"2\"");
            text(&mut self.body, at, "start", "normal", name);
        }
        self.panels += 1;
    }
}

impl Queues {
    /// All of it, in one drawing.
    #[must_use]
    pub fn as_svg(&self) -> String {
        let mut sheet = Sheet { body: String::new(), panels: 0 };
        self.draw_memory(&mut sheet);
        for (runs, what, differ) in [
            (&self.priorities, "12 a", ["priorities alike", "priorities 0 and 7"]),
            (&self.isolation, "12 b", ["no budgets", "each half as its budget"]),
        ] {
            draw_tenants(&mut sheet, runs, what, differ);
        }
        self.draw_moves(&mut sheet);
        drawing(f64::from(sheet.panels) * EACH + 8.0, &sheet.body)
    }

    fn draw_moves(&self, sheet: &mut Sheet) {
        let curves = |look: fn(&moves::MovesRun) -> Vec<(f64, f64)>| -> Vec<Curve> {
            moves::drawn(&self.moves).map(|run| (run.keeper().to_owned(), look(run))).collect()
        };
        let (rates, shares) = (curves(moves::MovesRun::rates), curves(moves::MovesRun::shares));
        let seconds = rates.iter().flat_map(|(_, points)| points).fold(0.0, |most: f64, point| most.max(point.0));
        if seconds == 0.0 {
            return;
        }
        let ticks: Vec<f64> = (0..=(seconds / 5.0).ceil() as u32).map(|fives| f64::from(5 * fives)).collect();
        let axis = ("seconds", &ticks[..]);
        sheet.panel("a hot spot that moves", axis, "locks a second", false, &rates);
        sheet.panel("a hot spot that moves: granted by the switch", axis, "hundredths of the grants", false, &shares);
    }

    fn draw_memory(&self, sheet: &mut Sheet) {
        let cells = self.cells();
        let ticks: Vec<f64> = cells.iter().map(|&cells| f64::from(cells)).collect();
        let curve = |plan: &str, think, look: &dyn Fn(&MemoryRun) -> f64| -> Vec<(f64, f64)> {
            let at = |&cells: &u32| Some((f64::from(cells), self.spread(plan, cells, think, look)?.median));
            cells.iter().filter_map(at).collect()
        };
        let plans = |look: &dyn Fn(&MemoryRun) -> f64| -> Vec<Curve> {
            ["knapsack", "random"].map(|plan| (plan.to_owned(), curve(plan, 0, look))).into()
        };
        let axis = ("cells in the switch", &ticks[..]);
        sheet.panel("13 a, 14 b: no think time", axis, "locks a second", true, &plans(&MemoryRun::rate));
        let shares = plans(&MemoryRun::share_of_switch);
        sheet.panel("13 a: granted by the switch", axis, "hundredths of the grants", true, &shares);
        if let Some(&middle) = cells.get(cells.len() / 2) {
            let part = |plan: &str| -> Vec<(f64, f64)> {
                let of = |at: usize| self.spread(plan, middle, 0, |run| run.grant_us.get(at).copied().unwrap_or(0.0));
                let points = QUANTILES.iter().enumerate().filter(|(_, quantile)| **quantile <= 0.999);
                points.filter_map(|(at, quantile)| Some((of(at)?.median, quantile * 100.0))).collect()
            };
            let curves = ["knapsack", "random"].map(|plan| (plan.to_owned(), part(plan)));
            let decades: Vec<f64> = (0..=5).map(|power| 10f64.powi(power)).collect();
            let title = format!("13 b: from a request to its grant, {middle} cells");
            sheet.panel(&title, ("microseconds", &decades), "hundredths of the grants", true, &curves);
        }
        let thinks: Vec<Curve> =
            self.thinks().into_iter().map(|ms| (format!("{ms} ms"), curve("knapsack", ms, &MemoryRun::rate))).collect();
        sheet.panel("14 a: knapsack, by think time", axis, "locks a second", true, &thinks);
    }
}

/// Both tenants of the first round over time.
fn draw_tenants(sheet: &mut Sheet, runs: &[TenantRun], what: &str, differ: [&str; 2]) {
    for run in runs.iter().filter(|run| run.round == 0 && !run.timelines[0].is_empty()) {
        let curves: Vec<Curve> = ["first tenant", "second tenant"]
            .into_iter()
            .zip(&run.timelines)
            .map(|(name, bins)| {
                let points = bins.chunks(5).enumerate().map(|(index, bins)| {
                    let sum: f64 = bins.iter().map(|&count| f64::from(count)).sum();
                    ((index as f64 + 0.5) * 5.0 * BIN_MS / 1e3, sum * 1e3 / (bins.len() as f64 * BIN_MS))
                });
                (name.to_owned(), points.collect())
            })
            .collect();
        let seconds = run.timelines[0].len() as f64 * BIN_MS / 1e3;
        let ticks: Vec<f64> = (0..=seconds.ceil() as u32).map(f64::from).collect();
        let title = format!("{what}: {}, {}", run.engine, differ[usize::from(run.differ)]);
        sheet.panel(&title, ("seconds", &ticks), "locks a second", false, &curves);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;

    #[test]
    fn every_figure_has_its_panel() {
        let svg = record().as_svg();
        for title in [
            "13 a, 14 b",
            "granted by the switch",
            "13 b",
            "14 a",
            "12 a: fission, priorities 0 and 7",
            "12 b",
            "hot spot",
        ] {
            assert!(svg.contains(title), "{title}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
