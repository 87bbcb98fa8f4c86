//! Drawings, as SVG: throughput while a switch is away, and recovery against the number of held locks.

use super::record::{Fault, Recovery, Timeline, Trial};
use crate::drawing::{
    Axes, BOTTOM, COLOURS, LEFT, PANEL, RIGHT, TOP, WIDTH, drawing, label, line, mark, polyline, step, text,
};

impl Recovery {
    /// Operations in each bin, one panel for each fault.
    #[must_use]
    pub fn timelines_as_svg(&self) -> String {
        let mut body = String::new();
        let each = TOP + PANEL + BOTTOM;
        for (index, timeline) in self.timelines.iter().enumerate() {
            timeline.draw(&mut body, index as f64 * each + TOP);
        }
        drawing(self.timelines.len() as f64 * each + 8.0, &body)
    }

    /// Milliseconds against held locks, both logarithmic.
    #[must_use]
    pub fn growth_as_svg(&self) -> String {
        type Curve = (&'static str, Fault, fn(&Trial) -> Option<f64>);
        let curves: [Curve; 4] = [
            ("standby: held locks pass on", Fault::Failover, |trial| trial.passed_on_ms),
            ("restart: first grant", Fault::Restart, |trial| trial.first_grant_ms),
            ("standby: first grant", Fault::Failover, |trial| trial.first_grant_ms),
            ("dead node: all its locks taken", Fault::Killed, |trial| trial.all_ms),
        ];
        let mut body = String::new();
        let curves = curves.map(|(name, fault, look)| (name, self.curve(fault, look)));
        let points = || curves.iter().flat_map(|(_, curve)| curve);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(1.0, f64::max);
        let (locks, ms) =
            (most(&mut points().map(|point| point.0 as f64)), most(&mut points().map(|point| point.1.most)));
        let decades = |most: f64| (0..=most.log10().ceil() as i32).map(|power| 10f64.powi(power)).collect::<Vec<_>>();
        let (x, y) = (decades(locks), decades(ms));
        let ends = |ticks: &[f64]| (ticks[0], ticks[ticks.len() - 1]);
        let place = [LEFT, WIDTH - RIGHT - 250.0, TOP, TOP + 1.6 * PANEL];
        let axes = Axes { place, x: ends(&x), y: ends(&y), logarithmic: [true; 2] };
        let title = "Recovery against the number of held locks (median; bars: least to most)";
        axes.draw(&mut body, title, ("held locks", &x), ("milliseconds after the fault", &y));
        for (index, ((name, curve), colour)) in curves.iter().zip(COLOURS).enumerate() {
            let places: Vec<(f64, f64)> = curve.iter().map(|(locks, ms)| axes.at(*locks as f64, ms.median)).collect();
            polyline(&mut body, &places, colour, "");
            for (locks, ms) in curve {
                let locks = *locks as f64;
                line(
                    &mut body,
                    axes.at(locks, ms.least.max(1.0)),
                    axes.at(locks, ms.most),
                    colour,
                    "stroke-width=\"3\" opacity=\"0.4\"",
                );
                mark(&mut body, axes.at(locks, ms.median), index, colour);
            }
            let at = (place[1] + 24.0, TOP + 16.0 + 24.0 * index as f64);
            line(&mut body, (at.0 - 10.0, at.1), (at.0 + 10.0, at.1), colour, "stroke-width=\"1.5\"");
            mark(&mut body, at, index, colour);
            text(&mut body, (at.0 + 18.0, at.1 + 4.0), "start", "normal", name);
        }
        drawing(TOP + 1.6 * PANEL + BOTTOM + 8.0, &body)
    }
}

impl Timeline {
    fn draw(&self, body: &mut String, top: f64) {
        let (bin, before) = (self.bin_ms as f64, self.before_ms as f64);
        let most = self.operations.iter().copied().max().unwrap_or(0).max(1) as f64;
        let step = step(most);
        let y: Vec<f64> = (0..=(most / step).ceil() as u32).map(|tick| f64::from(tick) * step).collect();
        let end = bin * self.operations.len() as f64 - before;
        let x: Vec<f64> = (-(before / 500.0) as i32..=(end / 500.0) as i32).map(|tick| f64::from(tick) / 2.0).collect();
        let axes = Axes {
            place: [LEFT, WIDTH - RIGHT, top, top + PANEL],
            x: (-before / 1e3, end / 1e3),
            y: (0.0, y[y.len() - 1]),
            logarithmic: [false; 2],
        };
        let stall = self.stall_ms;
        let title =
            format!("{} ({} locks held): {stall:.0} ms without a grant", self.fault.name(), label(self.held as f64));
        let axis = format!("operations in {bin} ms");
        axes.draw(body, &title, ("seconds after the fault", &x), (&axis, &y));
        let points = self.operations.iter().enumerate();
        let points: Vec<(f64, f64)> = points
            .map(|(index, count)| axes.at(((index as f64 + 0.5) * bin - before) / 1e3, f64::from(*count)))
            .collect();
        polyline(body, &points, COLOURS[0], "");
        let broke = if self.fault == Fault::Drain { "told to end" } else { "killed" };
        for (at, what) in [(Some(0.0), broke), (self.back_ms, "started again")] {
            let Some(at) = at else { continue };
            let (low, high) = (axes.at(at / 1e3, axes.y.0), axes.at(at / 1e3, axes.y.1));
            line(body, low, high, COLOURS[1], "stroke-dasharray=\"4 3\"");
            text(body, (high.0 + 5.0, high.1 + 12.0), "start", "normal", what);
        }
    }
}
