//! What comes out: the table of headlines, the sensitivity of each, and the constants that both rest on.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::costs::sources;
use super::headlines::{Figure, Headline, How};
use crate::Error;
use crate::figures::put_between;
use crate::knobs::Machine;

/// All that a run of the model has given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibrated {
    pub(super) machine: Machine,
    /// Requests that each run has measured, about; and each with other costs.
    pub(super) requests: [u64; 2],
    /// Real time.
    pub(super) seconds: f64,
    pub(super) constants: Vec<Constant>,
    pub(super) rows: Vec<Row>,
}

/// A constant of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Constant {
    name: String,
    nanoseconds: u64,
    source: String,
}

pub(super) fn constants() -> Vec<Constant> {
    let constant = |(_, name, nanoseconds, source): (_, &str, u64, &str)| Constant {
        name: name.into(),
        nanoseconds,
        source: source.into(),
    };
    sources().map(constant).collect()
}

/// A headline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) id: String,
    what: String,
    /// `simulated`, `computed`, or nothing.
    how: String,
    pub(super) figures: Vec<Cell>,
    why: String,
}

/// One figure of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cell {
    name: String,
    paper: Option<f64>,
    pub(super) ours: f64,
    unit: String,
    /// With a constant halved, and doubled.
    pub(super) varied: Vec<Varied>,
}

/// A figure with another cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Varied {
    pub(super) constant: String,
    pub(super) half: f64,
    pub(super) double: f64,
}

impl Row {
    pub(super) fn new(headline: &Headline, figures: &[Figure]) -> Row {
        let cell = |figure: &Figure| Cell {
            name: figure.name.clone(),
            paper: figure.paper,
            ours: figure.ours,
            unit: figure.unit.into(),
            varied: Vec::new(),
        };
        let (how, why) = match headline.how {
            How::Simulated(_) => ("simulated", headline.why),
            How::Computed(_) => ("computed", headline.why),
            How::Elsewhere(what) => ("", what),
        };
        Row {
            id: headline.id.into(),
            what: headline.what.into(),
            how: how.into(),
            figures: figures.iter().map(cell).collect(),
            why: why.into(),
        }
    }
}

/// Three digits, or the whole number.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    let space = if matches!(unit, "x" | "%") { "" } else { " " };
    format!("{}{space}{unit}", digits(value))
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{:<4}{} ({})", row.id, row.what, if row.how.is_empty() { "not here" } else { &row.how })?;
            for cell in &row.figures {
                let paper = cell.paper.map_or_else(|| "-".into(), |paper| with_unit(paper, &cell.unit));
                writeln!(
                    f,
                    "      {:<52} paper {paper:>11}   ours {:>11}",
                    cell.name,
                    with_unit(cell.ours, &cell.unit)
                )?;
            }
        }
        writeln!(f, "{:.0} s; about {} requests a run", self.seconds, self.requests[0])
    }
}

impl Calibrated {
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
    pub fn from_json(text: &str) -> Result<Calibrated, Error> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Ours of a headline's figure.
    pub fn ours(&self, id: &str, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.id == id)?;
        row.figures.iter().find(|cell| cell.name == name).map(|cell| cell.ours)
    }

    fn table(&self) -> String {
        let mut text = String::from("| id | figure | paper | ours | |\n| --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let how = if row.how.is_empty() { "not here" } else { &row.how };
            let _ = writeln!(text, "| **{}** | **{}** | | | {how} |", row.id, row.what);
            for cell in &row.figures {
                let paper = cell.paper.map_or_else(String::new, |paper| with_unit(paper, &cell.unit));
                let _ = writeln!(text, "| | {} | {paper} | {} | |", cell.name, with_unit(cell.ours, &cell.unit));
            }
        }
        text
    }

    /// What is to be said of each, once for those of which the same is to be said.
    fn reasons(&self) -> String {
        let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
        for row in &self.rows {
            match said.iter_mut().find(|(why, _)| *why == row.why) {
                Some((_, ids)) => ids.push(&row.id),
                None => said.push((&row.why, vec![&row.id])),
            }
        }
        said.iter().map(|(why, ids)| format!("* **{}**: {why}\n", ids.join(", "))).collect()
    }

    /// Figures of which a paper has a number, with each constant halved and doubled.
    fn sensitivity(&self) -> String {
        let mut text = String::from("| id | figure | ours | constant: halved, doubled |\n| --- | --- | --- | --- |\n");
        for row in &self.rows {
            for cell in row.figures.iter().filter(|cell| cell.paper.is_some() && !cell.varied.is_empty()) {
                let one = |one: &Varied| format!("{}: {}, {}", one.constant, digits(one.half), digits(one.double));
                // What changes nothing is not worth its place.
                let matters = |one: &&Varied| {
                    let far = |value: f64| (value - cell.ours).abs() > 0.05 * cell.ours.abs();
                    far(one.half) || far(one.double)
                };
                let varied: Vec<String> = cell.varied.iter().filter(matters).map(one).collect();
                let varied = if varied.is_empty() { "none by a twentieth".into() } else { varied.join("; ") };
                let _ =
                    writeln!(text, "| {} | {} | {} | {varied} |", row.id, cell.name, with_unit(cell.ours, &cell.unit));
            }
        }
        text
    }

    fn constants(&self) -> String {
        let mut text = String::from("| constant | ns | source |\n| --- | --- | --- |\n");
        for constant in &self.constants {
            let _ = writeln!(text, "| {} | {} | {} |", constant.name, constant.nanoseconds, constant.source);
        }
        text
    }
}

/// The page with these headlines in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_calibrated(page: &str, record: &Calibrated, name: &str) -> Result<String, Error> {
    let Machine { command, date, commit, .. } = &record.machine;
    let [base, varied] = record.requests;
    let figures = format!(
        "`{command}`, {date}, commit {commit}, about {base} requests a run ({varied} with other costs), {:.0} s in \
         all:\n\
         [{name}](../{name}).\n\n{}\n## Why they differ\n\n{}\n## What they depend on\n\n\
         Each constant halved and doubled, where that changes the figure by a twentieth or more.\n\n{}\n\
         ## The constants\n\n{}",
        record.seconds,
        record.table(),
        record.reasons(),
        record.sensitivity(),
        record.constants(),
    );
    put_between(page, &figures)
}
