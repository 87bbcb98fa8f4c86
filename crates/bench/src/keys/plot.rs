//! Drawings, as SVG and as text: answers over time while a switch dies and another takes its place.

use super::failover::Timeline;
use super::record::Keys;
use crate::drawing::{Axes, BOTTOM, COLOURS, LEFT, PANEL, RIGHT, TOP, WIDTH, drawing, line, polyline, step, text};
use std::fmt;

/// Of a drawing as text, at most.
const COLUMNS: usize = 80;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Keys {
    /// Reads and writes in each bin, one panel for each number of groups.
    #[must_use]
    pub fn timelines_as_svg(&self) -> String {
        let mut body = String::new();
        let each = TOP + PANEL + BOTTOM;
        for (index, timeline) in self.timelines.iter().enumerate() {
            timeline.draw(&mut body, index as f64 * each + TOP);
        }
        drawing(self.timelines.len() as f64 * each + 8.0, &body)
    }
}

impl Timeline {
    fn draw(&self, body: &mut String, top: f64) {
        let (bin, before) = (self.bin_ms as f64, self.before_ms as f64);
        let most = self.reads.iter().chain(&self.writes).copied().max().unwrap_or(0).max(1);
        let step = step(f64::from(most));
        let y: Vec<f64> = (0..=(f64::from(most) / step).ceil() as u32).map(|tick| f64::from(tick) * step).collect();
        let end = bin * self.reads.len() as f64 - before;
        let x: Vec<f64> = (-(before / 1e3) as i32..=(end / 1e3) as i32).map(f64::from).collect();
        let axes = Axes {
            place: [LEFT, WIDTH - RIGHT, top, top + PANEL],
            x: (-before / 1e3, end / 1e3),
            y: (0.0, y[y.len() - 1]),
            logarithmic: [false; 2],
        };
        let title = format!(
            "{} ({} keys): {:.0} ms without a read, {:.0} ms without a write",
            groups(self.groups),
            self.keys,
            self.reads_gap_ms,
            self.writes_gap_ms
        );
        let axis = format!("answers in {bin} ms");
        axes.draw(body, &title, ("seconds after the death of a switch of the chains", &x), (&axis, &y));
        for (index, (name, counts)) in [("reads", &self.reads), ("writes", &self.writes)].into_iter().enumerate() {
            let points = counts.iter().enumerate();
            let points: Vec<(f64, f64)> = points
                .map(|(index, count)| axes.at(((index as f64 + 0.5) * bin - before) / 1e3, f64::from(*count)))
                .collect();
            polyline(body, &points, COLOURS[index * 2], "");
            let at = (WIDTH - RIGHT - 60.0, top + 14.0 + 18.0 * index as f64);
            line(body, (at.0 - 26.0, at.1 - 4.0), (at.0 - 6.0, at.1 - 4.0), COLOURS[index * 2], "stroke-width=\"2\"");
            text(body, at, "start", "normal", name);
        }
        for (at, what) in [(Some(0.0), "killed"), (self.whole_ms, "whole again")] {
            let Some(at) = at else { continue };
            let (low, high) = (axes.at(at / 1e3, axes.y.0), axes.at(at / 1e3, axes.y.1));
            line(body, low, high, COLOURS[1], "stroke-dasharray=\"4 3\"");
            text(body, (high.0 + 5.0, high.1 + 12.0), "start", "normal", what);
        }
    }
}

/// For terminals: reads and writes, a line each.
impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bins = self.reads.len().div_ceil(COLUMNS).max(1);
        let bars = |counts: &[u32]| {
            let sums: Vec<u32> = counts.chunks(bins).map(|some| some.iter().sum()).collect();
            let most = sums.iter().copied().max().unwrap_or(0).max(1);
            let height = |sum: u32| (sum * BARS.len() as u32).div_ceil(most) as usize;
            sums.iter().map(|sum| if *sum == 0 { ' ' } else { BARS[height(*sum) - 1] }).collect::<String>()
        };
        let column = bins as u64 * self.bin_ms;
        writeln!(f, "Answers by time, {}: {column} ms a column", groups(self.groups))?;
        writeln!(f, "  reads  |{}|\n  writes |{}|", bars(&self.reads), bars(&self.writes))?;
        let marks = [(Some(0.0), "killed"), (self.whole_ms, "whole again")];
        let at = |ms: f64| ((ms + self.before_ms as f64) / column as f64) as usize;
        let mut line = String::new();
        for (ms, what) in marks {
            if let Some(column) = ms.map(at).filter(|column| *column >= line.chars().count()) {
                line = format!("{line:column$}^ {what} ");
            }
        }
        writeln!(f, "          {}", line.trim_end())
    }
}

pub(crate) fn groups(count: u16) -> String {
    if count == 1 { "one group".into() } else { format!("{count} groups") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_seen_as_one() {
        let mut reads = vec![8; 200];
        reads[50..80].fill(0);
        let timeline = Timeline {
            groups: 1,
            keys: 1,
            bin_ms: 20,
            before_ms: 1_000,
            writes: reads.iter().map(|count| count / 2).collect(),
            reads,
            reads_gap_ms: 600.0,
            writes_gap_ms: 600.0,
            whole_ms: Some(1_200.0),
            unsure: 0,
        };
        let text = timeline.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Answers by time, one group: 60 ms a column");
        // Killed after 1 s, in column 16 of those behind the heads, which had answers still.
        assert_eq!((lines[3].find('^'), lines[1].chars().nth(10 + 17)), (Some(10 + 16), Some(' ')), "{text}");
        assert!(lines[3].contains("^ killed") && lines[3].contains("^ whole again"), "{text}");
        assert_eq!(lines[1].matches('█').count(), lines[2].matches('█').count(), "each beside its own most");
    }
}
