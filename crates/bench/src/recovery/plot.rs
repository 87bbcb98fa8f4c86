//! Drawings, as SVG: throughput while a switch is away, and recovery against the number of held locks.

use super::record::{Fault, Recovery, Timeline, Trial};
use std::fmt::Write;

const WIDTH: f64 = 820.0;
/// Of one panel, and what is around its axes.
const PANEL: f64 = 210.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
/// Told apart without colours too, by their marks.
const COLOURS: [&str; 4] = ["#1b6ca8", "#c8501e", "#2e8540", "#7b4fa3"];

/// Axes on paper: from values to places.
struct Axes {
    /// Left, right, top and bottom of the panel.
    place: [f64; 4],
    x: (f64, f64),
    y: (f64, f64),
    logarithmic: bool,
}

impl Axes {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let scale = |value: f64| if self.logarithmic { value.log10() } else { value };
        let part = |value, (from, to): (f64, f64)| (scale(value) - scale(from)) / (scale(to) - scale(from));
        let [left, right, top, bottom] = self.place;
        (left + (right - left) * part(x, self.x), bottom - (bottom - top) * part(y, self.y))
    }

    /// Lines and labels at these values, and what they are.
    fn draw(&self, svg: &mut String, title: &str, x: (&str, &[f64]), y: (&str, &[f64])) {
        let [left, right, top, bottom] = self.place;
        text(svg, (left, top - 10.0), "start", "bold", title);
        for &value in y.1 {
            let (_, at) = self.at(self.x.0, value);
            line(svg, (left, at), (right, at), "#dddddd", "");
            text(svg, (left - 8.0, at + 4.0), "end", "normal", &label(value));
        }
        for &value in x.1 {
            let (at, _) = self.at(value, self.y.0);
            line(svg, (at, bottom), (at, bottom + 5.0), "#333333", "");
            text(svg, (at, bottom + 19.0), "middle", "normal", &label(value));
        }
        line(svg, (left, bottom), (right, bottom), "#333333", "");
        line(svg, (left, top), (left, bottom), "#333333", "");
        text(svg, ((left + right) / 2.0, bottom + 37.0), "middle", "normal", x.0);
        let (at_x, at_y) = (left - 58.0, (top + bottom) / 2.0);
        let turned = format!("transform=\"rotate(-90 {at_x} {at_y})\" text-anchor=\"middle\"");
        let _ = writeln!(svg, "<text x=\"{at_x}\" y=\"{at_y}\" {turned}>{}</text>", y.0);
    }
}

fn label(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{} M", value / 1e6),
        size if size >= 1e3 => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

// Nothing can fail that is written to a string.
fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, more: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ =
        writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" {more}/>");
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, weight: &str, text: &str) {
    let (x, y) = at;
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{text}</text>"
    );
}

fn polyline(svg: &mut String, points: &[(f64, f64)], colour: &str) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>");
}

fn drawing(height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// The least of 1, 2, 5, 10, ... that at most six of reach so far.
fn step(most: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if most / step <= 6.0 {
            return step;
        }
        step *= factor;
    }
    unreachable!("a cycle does not end")
}

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
        let axes = Axes { place, x: ends(&x), y: ends(&y), logarithmic: true };
        let title = "Recovery against the number of held locks (median; bars: least to most)";
        axes.draw(&mut body, title, ("held locks", &x), ("milliseconds after the fault", &y));
        for (index, ((name, curve), colour)) in curves.iter().zip(COLOURS).enumerate() {
            let places: Vec<(f64, f64)> = curve.iter().map(|(locks, ms)| axes.at(*locks as f64, ms.median)).collect();
            polyline(&mut body, &places, colour);
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

/// A disc, a square, a triangle, a diamond.
fn mark(svg: &mut String, (x, y): (f64, f64), kind: usize, colour: &str) {
    let corners: &[(f64, f64)] = match kind {
        0 => {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
            return;
        }
        1 => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
        2 => &[(-5.0, 4.0), (5.0, 4.0), (0.0, -5.0)],
        _ => &[(-5.0, 0.0), (0.0, -5.0), (5.0, 0.0), (0.0, 5.0)],
    };
    let corners: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    let _ = writeln!(svg, "<polygon points=\"{}\" fill=\"{colour}\"/>", corners.join(" "));
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
            logarithmic: false,
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
        polyline(body, &points, COLOURS[0]);
        let broke = if self.fault == Fault::Drain { "told to end" } else { "killed" };
        for (at, what) in [(Some(0.0), broke), (self.back_ms, "started again")] {
            let Some(at) = at else { continue };
            let (low, high) = (axes.at(at / 1e3, axes.y.0), axes.at(at / 1e3, axes.y.1));
            line(body, low, high, COLOURS[1], "stroke-dasharray=\"4 3\"");
            text(body, (high.0 + 5.0, high.1 + 12.0), "start", "normal", what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        assert_eq!([1.0, 6.0, 7.0, 13.0, 31.0, 70.0, 400.0].map(step), [1.0, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0]);
    }

    #[test]
    fn axes_lead_from_corner_to_corner() {
        let axes = Axes { place: [10.0, 110.0, 20.0, 70.0], x: (1.0, 100.0), y: (1.0, 1_000.0), logarithmic: true };
        assert_eq!((axes.at(1.0, 1.0), axes.at(10.0, 1_000.0)), ((10.0, 70.0), (60.0, 20.0)));
    }
}
