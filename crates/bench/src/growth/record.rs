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

    /// In words: the powers of the size by which time and memory grow.
    fn powers(&self) -> String {
        let said =
            |points: &[(f64, f64)]| exponent(points).map_or_else(|| "none".into(), |power| format!("{power:.2}"));
        format!("time {}, memory {}", said(&self.times()), said(&self.memories()))
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for curve in &self.curves {
            writeln!(f, "{}: {}; grows by the power {}", curve.of, curve.operation, curve.powers())?;
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
        let place = [LEFT, WIDTH - RIGHT - 260.0, top, top + 1.2 * PANEL];
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
            let power = exponent(points).map_or_else(|| "none".into(), |power| format!("power {power:.2}"));
            text(body, (at.0 + 18.0, at.1 + 4.0), "start", "normal", &format!("{}: {power}", curve.of));
        }
    }

    fn table(&self) -> String {
        let mut text = String::from("| how many | ns | bytes | bytes for each |\n| --- | --- | --- | --- |\n");
        for curve in &self.curves {
            text += &format!("| **{}**: {} | {} | | |\n", curve.of, curve.operation, curve.powers());
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
    let Machine { command, date, commit, processor, .. } = &growth.machine;
    let drawn = record.replace(".json", ".svg");
    let figures = format!(
        "`{command}`, {date}, commit {commit}: {processor}; medians of {} rounds, and in brackets the least and the most: \
         [{record}](../{record}).\n\n![time and memory](../{drawn})\n\n{}",
        growth.rounds,
        growth.table()
    );
    put_between(page, &figures)
}
