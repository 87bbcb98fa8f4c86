//! Drawings as SVG: axes, curves and their legends.

use std::fmt::Write;

pub(crate) const WIDTH: f64 = 820.0;
/// Of one panel, and what is around its axes.
pub(crate) const PANEL: f64 = 210.0;
pub(crate) const LEFT: f64 = 80.0;
pub(crate) const RIGHT: f64 = 30.0;
pub(crate) const TOP: f64 = 34.0;
pub(crate) const BOTTOM: f64 = 46.0;
/// Told apart without colours too, by their marks.
pub(crate) const COLOURS: [&str; 4] = ["#1b6ca8", "#c8501e", "#2e8540", "#7b4fa3"];

/// Axes on paper: from values to places.
pub(crate) struct Axes {
    /// Left, right, top and bottom of the panel.
    pub(crate) place: [f64; 4],
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
    /// Whether x and y are.
    pub(crate) logarithmic: [bool; 2],
}

impl Axes {
    pub(crate) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let part = |value: f64, (from, to): (f64, f64), logarithmic: bool| {
            let scale = |value: f64| if logarithmic { value.log10() } else { value };
            (scale(value) - scale(from)) / (scale(to) - scale(from))
        };
        let ([left, right, top, bottom], [of_x, of_y]) = (self.place, self.logarithmic);
        (left + (right - left) * part(x, self.x, of_x), bottom - (bottom - top) * part(y, self.y, of_y))
    }

    /// Lines and labels at these values, and what they are.
    pub(crate) fn draw(&self, svg: &mut String, title: &str, x: (&str, &[f64]), y: (&str, &[f64])) {
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

pub(crate) fn label(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{} M", value / 1e6),
        size if size >= 1e3 => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

// Nothing can fail that is written to a string.
pub(crate) fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, more: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ =
        writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" {more}/>");
}

pub(crate) fn text(svg: &mut String, at: (f64, f64), anchor: &str, weight: &str, text: &str) {
    let (x, y) = at;
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{text}</text>"
    );
}

pub(crate) fn polyline(svg: &mut String, points: &[(f64, f64)], colour: &str, more: &str) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ =
        writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" {more}/>");
}

pub(crate) fn drawing(height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// The least of 1, 2, 5, 10, ... that at most six of reach so far.
pub(crate) fn step(most: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if most / step <= 6.0 {
            return step;
        }
        step *= factor;
    }
    unreachable!("a cycle does not end")
}

/// A disc, a square, a triangle, a diamond.
pub(crate) fn mark(svg: &mut String, (x, y): (f64, f64), kind: usize, colour: &str) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        assert_eq!([1.0, 6.0, 7.0, 13.0, 31.0, 70.0, 400.0].map(step), [1.0, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0]);
    }

    #[test]
    fn axes_lead_from_corner_to_corner() {
        let axes =
            Axes { place: [10.0, 110.0, 20.0, 70.0], x: (1.0, 100.0), y: (1.0, 1_000.0), logarithmic: [true; 2] };
        assert_eq!((axes.at(1.0, 1.0), axes.at(10.0, 1_000.0)), ((10.0, 70.0), (60.0, 20.0)));
    }
}
