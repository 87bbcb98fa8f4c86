//! What has come out: each size's time and memory, the powers by which they grow, and a drawing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::contest::{Better, Compared};
use crate::drawing::{Axes, BOTTOM, LEFT, PANEL, RIGHT, TOP, WIDTH, drawing, line, mark, polyline, text};
use crate::figures::put_between;
use crate::fit::exponent;
use crate::knobs::Machine;
use crate::recovery::summary::{Spread, thousands};

/// A run's figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Growth {
    pub(super) machine: Machine,
    pub(super) rounds: usize,
    pub(super) curves: Vec<Curve>,
}

/// What grows with one thing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Curve {
    /// With what.
    pub(super) of: String,
    /// What was timed.
    pub(super) operation: String,
    pub(super) points: Vec<Point>,
}

/// Of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) size: u64,
    /// Of an operation, in each round.
    pub(super) nanos: Vec<f64>,
    /// That came with the size. None: nobody counted.
    pub(super) bytes: Option<f64>,
}

impl Point {
    fn time(&self) -> Spread {
        Spread::of(self.nanos.clone()).expect("a round at least")
    }

    /// If there are any: what is freed again takes none.
    fn memory(&self) -> Option<f64> {
        self.bytes.filter(|bytes| *bytes > 0.0)
    }
}

impl Curve {
    fn times(&self) -> Vec<(f64, f64)> {
        self.points.iter().map(|point| (point.size as f64, point.time().median)).collect()
    }

    fn memories(&self) -> Vec<(f64, f64)> {
        self.points.iter().filter_map(|point| Some((point.size as f64, point.memory()?))).collect()
    }

    /// By which powers time grows, of the medians and of each round alone.
    fn time_power(&self, points: fn(&[Place]) -> &[Place]) -> Option<Power> {
        let rounds = self.points.iter().map(|point| point.nanos.len()).min().unwrap_or(0);
        let round = |round: usize| -> Vec<(f64, f64)> {
            self.points.iter().map(|point| (point.size as f64, point.nanos[round])).collect()
        };
        let each = (0..rounds).filter_map(|index| exponent(points(&round(index)))).collect();
        Power::of(points(&self.times()), each)
    }

    /// In words: the powers of the size by which time and memory grow, over all sizes and over the largest.
    fn powers(&self) -> String {
        let said = |power: Option<Power>| power.map_or_else(|| "none".into(), |power| power.to_string());
        let (all, last) = (self.time_power(|points| points), self.time_power(tail));
        let memories = self.memories();
        let [whole, end] = [&memories[..], tail(&memories)].map(|points| Power::of(points, Vec::new()));
        format!(
            "time, largest sizes: {}; all: {}; memory, largest sizes: {}; all: {}",
            said(last),
            said(all),
            said(end),
            said(whole)
        )
    }
}

/// A size, and what it takes.
type Place = (f64, f64);

/// The largest sizes: the last decade, and three of them at least.
fn tail(points: &[Place]) -> &[Place] {
    let most = points.last().map_or(0.0, |point| point.0);
    let of_decade = points.iter().filter(|point| point.0 * 10.0 >= most * 0.999).count();
    &points[points.len().saturating_sub(of_decade.max(3))..]
}

/// A fitted power, and how well it fits: one line through what bends, or through what differs from round to round, says
/// little.
struct Power {
    of_medians: f64,
    /// Of each round alone; of one that was counted once there are none.
    of_rounds: Option<Spread>,
    /// The factor by which the worst of the points is off the line.
    off: f64,
}

impl Power {
    fn of(points: &[(f64, f64)], of_rounds: Vec<f64>) -> Option<Power> {
        let of_medians = exponent(points)?;
        let aside = |&(size, value): &(f64, f64)| value.ln() - of_medians * size.ln();
        let middle = points.iter().map(aside).sum::<f64>() / points.len() as f64;
        let off = points.iter().map(|point| (aside(point) - middle).abs()).fold(0.0, f64::max).exp();
        Some(Power { of_medians, of_rounds: Spread::of(of_rounds), off })
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.of_medians)?;
        if let Some(Spread { least, most, .. }) = self.of_rounds {
            write!(f, " (rounds {least:.2} to {most:.2})")?;
        }
        if self.off >= 1.05 { write!(f, ", off by {:.1}x", self.off) } else { Ok(()) }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for curve in &self.curves {
            writeln!(f, "{}: {}; grows by powers:\n    {}", curve.of, curve.operation, curve.powers())?;
            for point in &curve.points {
                let Spread { least, median, most } = point.time();
                let bytes = point.bytes.map_or_else(String::new, |bytes| format!("{bytes:>14.0} bytes"));
                writeln!(f, "{:>12} {median:>10.0} ns ({least:.0} to {most:.0}){bytes}", thousands(point.size))?;
            }
        }
        Ok(())
    }
}

/// Of a curve's mark and colour.
const COLOURS: [&str; 5] = ["#1b6ca8", "#c8501e", "#2e8540", "#7b4fa3", "#b58900"];

impl Growth {
    /// What it was measured with.
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }

    /// For `bench/runs`.
    ///
    /// # Panics
    /// Never: a record is numbers, words and lists.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, words and lists")
    }

    /// A record that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Growth, Error> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// What another record may have, too.
    pub(crate) fn compared(&self) -> Vec<Compared> {
        let of = |curve: &Curve, point: &Point| {
            let name = |what: &str| format!("{}, {}: {what}", curve.of, thousands(point.size));
            let bytes =
                point.memory().map(|bytes| Compared { name: name("bytes"), values: vec![bytes], better: Better::Less });
            let time = Compared { name: name("ns"), values: point.nanos.clone(), better: Better::Less };
            [Some(time), bytes].into_iter().flatten()
        };
        self.curves.iter().flat_map(|curve| curve.points.iter().flat_map(move |point| of(curve, point))).collect()
    }

    /// Time and memory against size, all logarithmic.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut body = String::new();
        let time = "Nanoseconds of an operation, against the number of what is there";
        let memory = "Bytes that came with it";
        self.draw(&mut body, TOP, time, "nanoseconds", Curve::times);
        self.draw(&mut body, TOP + 1.2 * PANEL + BOTTOM + TOP, memory, "bytes", Curve::memories);
        drawing(2.0 * (TOP + 1.2 * PANEL + BOTTOM) + 8.0, &body)
    }

    fn draw(&self, body: &mut String, top: f64, title: &str, unit: &str, look: fn(&Curve) -> Vec<(f64, f64)>) {
        let curves: Vec<Vec<(f64, f64)>> = self.curves.iter().map(look).collect();
        let all = || curves.iter().flatten();
        let decades = |values: &mut dyn Iterator<Item = f64>| {
            let (least, most) =
                values.fold((f64::MAX, 1.0f64), |(least, most), value| (least.min(value), most.max(value)));
            let first = least.min(most).log10().floor() as i32;
            (first..=(most.log10().ceil() as i32).max(first + 1)).map(|power| 10f64.powi(power)).collect::<Vec<_>>()
        };
        let (x, y) = (decades(&mut all().map(|point| point.0)), decades(&mut all().map(|point| point.1)));
        let ends = |ticks: &[f64]| (ticks[0], ticks[ticks.len() - 1]);
        let place = [LEFT, WIDTH - RIGHT - 320.0, top, top + 1.2 * PANEL];
        let axes = Axes { place, x: ends(&x), y: ends(&y), logarithmic: [true; 2] };
        axes.draw(body, title, ("how many", &x), (unit, &y));
        for (index, (curve, points)) in self.curves.iter().zip(&curves).enumerate() {
            let (colour, kind) = (COLOURS[index % COLOURS.len()], index % 4);
            let places: Vec<(f64, f64)> = points.iter().map(|point| axes.at(point.0, point.1)).collect();
            polyline(body, &places, colour, "");
            places.iter().for_each(|&at| mark(body, at, kind, colour));
            let at = (place[1] + 24.0, top + 16.0 + 24.0 * index as f64);
            line(body, (at.0 - 10.0, at.1), (at.0 + 10.0, at.1), colour, "stroke-width=\"1.5\"");
            mark(body, at, kind, colour);
            let said =
                |points: &[(f64, f64)]| exponent(points).map_or_else(|| "none".into(), |power| format!("{power:.2}"));
            let powers = format!("{}: power {}, all {}", curve.of, said(tail(points)), said(points));
            text(body, (at.0 + 18.0, at.1 + 4.0), "start", "normal", &powers);
        }
    }

    fn table(&self) -> String {
        let mut text = String::from("| how many | ns | bytes | bytes for each |\n| --- | --- | --- | --- |\n");
        for curve in &self.curves {
            text += &format!("| **{}**: {} | *{}* | | |\n", curve.of, curve.operation, curve.powers());
            for point in &curve.points {
                let Spread { least, median, most } = point.time();
                let bytes = point.bytes.unwrap_or(0.0);
                text += &format!(
                    "| {} | {median:.0} ({least:.0} to {most:.0}) | {} | {:.0} |\n",
                    thousands(point.size),
                    thousands(bytes.max(0.0) as u64),
                    (bytes / point.size as f64).max(0.0)
                );
            }
        }
        text
    }
}

/// The page with these figures in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_growth(page: &str, growth: &Growth, record: &str) -> Result<String, Error> {
    let Machine { command, date, commit, processor, cores, kernel, load_before, .. } = &growth.machine;
    let drawn = record.replace(".json", ".svg");
    let figures = format!(
        "`{command}`, {date}, commit {commit}: {processor}, {cores} cores, Linux {kernel}, load {load_before} before; medians \
         of {} rounds, and in brackets the least and the most: [{record}](../{record}).\n\n\
         ![time and memory](../{drawn})\n\n{}",
        growth.rounds,
        growth.table()
    );
    put_between(page, &figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, [f64; 2])]) -> Curve {
        let point = |&(size, nanos): &(u64, [f64; 2])| Point { size, nanos: nanos.to_vec(), bytes: Some(size as f64) };
        Curve { of: "locks".into(), operation: "one".into(), points: points.iter().map(point).collect() }
    }

    /// What falls where little is there and grows where much is has no one power: the end is told apart from the whole.
    #[test]
    fn the_largest_sizes_have_a_power_of_their_own() {
        let bent = curve(&[
            (1, [900.0, 900.0]),
            (10, [300.0, 300.0]),
            (100, [100.0, 100.0]),
            (1_000, [1_000.0, 1_000.0]),
            (10_000, [10_000.0, 10_000.0]),
        ]);
        let last = bent.time_power(tail).unwrap();
        assert_eq!(last.to_string(), "1.00 (rounds 1.00 to 1.00)");
        let all = bent.time_power(|points| points).unwrap();
        assert!(all.of_medians < 0.5 && all.off > 3.0, "{all}");
        assert!(bent.powers().starts_with("time, largest sizes: 1.00") && bent.powers().ends_with("all: 1.00"));
    }

    #[test]
    fn a_power_says_how_far_rounds_are_apart_and_its_points_off() {
        let noisy = curve(&[(1, [100.0, 100.0]), (10, [100.0, 1_000.0]), (100, [100.0, 10_000.0])]);
        let power = noisy.time_power(|points| points).unwrap();
        let Spread { least, most, .. } = power.of_rounds.unwrap();
        assert!(least.abs() < 1e-9 && (most - 1.0).abs() < 1e-9, "{power}");
        assert!(power.to_string().contains("rounds ") && power.to_string().contains("off by"), "{power}");
    }

    /// The last decade where sizes lie close, three sizes where they lie far from each other.
    #[test]
    fn a_tail_is_a_decade_and_three_sizes_at_least() {
        let points = |sizes: &[f64]| sizes.iter().map(|&size| (size, 1.0)).collect::<Vec<_>>();
        let firsts = |sizes: &[f64]| tail(&points(sizes)).first().map(|point| point.0);
        assert_eq!(firsts(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]), Some(64.0));
        assert_eq!(firsts(&[1.0, 10.0, 100.0, 1_000.0]), Some(10.0));
        assert_eq!((firsts(&[1.0, 10.0]), firsts(&[])), (Some(1.0), None));
    }
}
