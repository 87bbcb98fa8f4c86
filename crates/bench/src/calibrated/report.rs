//! What comes out: the table of headlines, the sensitivity of each, and the constants that both rest on.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::Packets;
use super::costs::sources;
use super::headlines::{Figure, Headline, How, Look, Paper};
use crate::Error;
use crate::contest::{Better, Compared};
use crate::figures::put_between;
use crate::knobs::Machine;
use crate::recovery::summary::Spread;

/// All that a run of the model has given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibrated {
    pub(super) machine: Machine,
    /// Requests that each run has measured, about; and each with other costs.
    pub(super) requests: [u64; 2],
    /// Runs of each figure.
    pub(super) seeds: u64,
    /// Real time.
    pub(super) seconds: f64,
    pub(super) constants: Vec<Constant>,
    pub(super) rows: Vec<Row>,
}

/// A constant of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) nanoseconds: u64,
    pub(super) source: String,
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
    pub(super) what: String,
    /// `simulated` or `computed`, either of them `and on packets`; or that alone; nothing, as earlier records have it:
    /// on packets, too.
    how: String,
    pub(super) figures: Vec<Cell>,
    pub(super) why: String,
}

const ON_PACKETS: &str = "on packets";

impl Row {
    /// How it came about, for people.
    pub(super) fn how(&self) -> &str {
        if self.how.is_empty() { ON_PACKETS } else { &self.how }
    }
}

/// One figure of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) paper: Option<f64>,
    /// The other end, where the paper has a range. Earlier records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paper_to: Option<f64>,
    /// The paper has a drawing of it, and no number. Earlier records do not tell.
    #[serde(default, skip_serializing_if = "is_not")]
    drawn: bool,
    /// Of every seed.
    pub(super) ours: Vec<f64>,
    pub(super) unit: String,
    /// The same in runs that are as short as those with other costs. None: there are no such.
    pub(super) short: Vec<f64>,
    /// With a constant halved, and doubled: the first seed.
    pub(super) varied: Vec<Varied>,
}

/// A figure with another cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Varied {
    pub(super) constant: String,
    pub(super) half: f64,
    pub(super) double: f64,
}

fn is_not(drawn: &bool) -> bool {
    !drawn
}

/// Figure `index` of every seed.
fn of_seeds(seeds: &[Vec<Figure>], index: usize) -> Vec<f64> {
    seeds.iter().map(|figures| figures[index].ours).collect()
}

pub(super) fn spread(values: &[f64]) -> Spread {
    Spread::of(values.to_vec()).expect("every figure is of a seed at least")
}

impl Row {
    /// `seeds`: of each, the figures.
    pub(super) fn new(headline: &Headline, seeds: &[Vec<Figure>]) -> Row {
        let cell = |(index, figure): (usize, &Figure)| Cell::of(figure, of_seeds(seeds, index));
        let how = match headline.how {
            How::Simulated(..) => "simulated",
            How::Computed(..) => "computed",
            How::OnPackets(_) => ON_PACKETS,
        };
        Row {
            id: headline.id.into(),
            what: headline.what.into(),
            how: how.into(),
            figures: seeds.first().into_iter().flatten().enumerate().map(cell).collect(),
            why: headline.why.into(),
        }
    }

    /// What a record of packets has of it, if there is such a record; it is named.
    pub(super) fn add_packets(&mut self, packets: &Packets, look: Look) {
        let Some((record, figures)) = look.at(packets).filter(|(_, figures)| !figures.is_empty()) else { return };
        self.figures.extend(figures.iter().map(|figure| Cell::of(figure, vec![figure.ours])));
        self.why += &format!(" On packets: [{record}](../{record}).");
        if self.how != ON_PACKETS {
            self.how += &format!(", and {ON_PACKETS}");
        }
    }

    /// What runs with other costs are to be compared with: of each seed, the figures.
    pub(super) fn compare_with(&mut self, seeds: &[Vec<Figure>]) {
        let cells = self.figures.iter_mut().enumerate();
        cells.for_each(|(index, cell)| cell.short = of_seeds(seeds, index));
    }

    /// The figures with another cost.
    pub(super) fn vary(&mut self, constant: &str, half: &[Figure], double: &[Figure]) {
        for (index, cell) in self.figures.iter_mut().enumerate() {
            let (half, double) = (half[index].ours, double[index].ours);
            cell.varied.push(Varied { constant: constant.into(), half, double });
        }
    }
}

impl Cell {
    fn of(figure: &Figure, ours: Vec<f64>) -> Cell {
        let (paper, paper_to) = match figure.paper {
            Paper::Number(number) => (Some(number), None),
            Paper::Range(from, to) => (Some(from), Some(to)),
            Paper::Nothing | Paper::Drawn => (None, None),
        };
        Cell {
            name: figure.name.clone(),
            paper,
            paper_to,
            drawn: figure.paper == Paper::Drawn,
            ours,
            unit: figure.unit.into(),
            short: Vec::new(),
            varied: Vec::new(),
        }
    }

    /// Whether the paper has it, in whichever way: then it is told what it depends on.
    pub(super) fn is_papers(&self) -> bool {
        self.paper.is_some() || self.drawn
    }

    /// As the paper has it.
    pub(super) fn papers(&self) -> String {
        match (self.paper, self.paper_to) {
            (Some(from), Some(to)) => format!("{} to {}", digits(from), with_unit(to, &self.unit)),
            (Some(number), None) => with_unit(number, &self.unit),
            (None, _) if self.drawn => "drawn".into(),
            (None, _) => String::new(),
        }
    }

    /// Median, and least to most of all seeds.
    fn shown(&self) -> String {
        shown(&self.ours, &self.unit)
    }

    /// The constants that matter: with which the figure is further by a twentieth than any seed without them.
    fn matters(&self) -> impl Iterator<Item = &Varied> {
        let Spread { least, median, most } = spread(&self.short);
        let far = 0.05 * median.abs();
        let is_far = move |value: f64| value < least - far || value > most + far;
        self.varied.iter().filter(move |one| is_far(one.half) || is_far(one.double))
    }
}

/// Three digits, or the whole number.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(super) fn with_unit(value: f64, unit: &str) -> String {
    let space = if matches!(unit, "" | "x" | "%") { "" } else { " " };
    format!("{}{space}{unit}", digits(value))
}

fn in_unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(", {unit}") }
}

/// Median, and least to most where they differ in what is shown.
pub(super) fn shown(values: &[f64], unit: &str) -> String {
    let Spread { least, median, most } = spread(values);
    let [least, most] = [least, most].map(digits);
    let range = if least == most { String::new() } else { format!(" ({least} to {most})") };
    format!("{}{range}", with_unit(median, unit))
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{:<4}{} ({})", row.id, row.what, row.how())?;
            for cell in &row.figures {
                writeln!(f, "      {:<52} paper {:>11}   ours {}", cell.name, cell.papers(), cell.shown())?;
            }
        }
        writeln!(f, "{:.0} s; about {} requests a run, {} seeds", self.seconds, self.requests[0], self.seeds)
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

    /// Ours of a headline's figure: the median of all seeds.
    pub fn ours(&self, id: &str, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.id == id)?;
        row.figures.iter().find(|cell| cell.name == name).map(|cell| spread(&cell.ours).median)
    }

    /// What another record may have, too.
    pub(crate) fn compared(&self) -> Vec<Compared> {
        let of = |row: &Row, cell: &Cell| Compared {
            name: format!("{}: {}{}", row.id, cell.name, in_unit(&cell.unit)),
            values: cell.ours.clone(),
            better: Better::Neither,
        };
        self.rows.iter().flat_map(|row| row.figures.iter().map(move |cell| of(row, cell))).collect()
    }

    fn table(&self) -> String {
        let mut text = String::from("| id | figure | paper | ours | |\n| --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let _ = writeln!(text, "| **{}** | **{}** | | | {} |", row.id, row.what, row.how());
            for cell in &row.figures {
                let _ = writeln!(text, "| | {} | {} | {} | |", cell.name, cell.papers(), cell.shown());
            }
        }
        text
    }

    /// What is to be said of each, once for those of which the same is to be said.
    pub(super) fn reasons(&self) -> Vec<(&str, Vec<&str>)> {
        let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
        for row in &self.rows {
            match said.iter_mut().find(|(why, _)| *why == row.why) {
                Some((_, ids)) => ids.push(&row.id),
                None => said.push((&row.why, vec![&row.id])),
            }
        }
        said
    }

    /// Figures that a paper has, with each constant halved and doubled, beside runs as short as those.
    fn sensitivity(&self) -> String {
        let mut text =
            String::from("| id | figure | as short | constant: halved, doubled |\n| --- | --- | --- | --- |\n");
        for row in &self.rows {
            for cell in row.figures.iter().filter(|cell| cell.is_papers() && !cell.varied.is_empty()) {
                let one = |one: &Varied| format!("{}: {}, {}", one.constant, digits(one.half), digits(one.double));
                let varied: Vec<String> = cell.matters().map(one).collect();
                let varied = if varied.is_empty() { "none".into() } else { varied.join("; ") };
                let short = shown(&cell.short, &cell.unit);
                let _ = writeln!(text, "| {} | {} | {short} | {varied} |", row.id, cell.name);
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
    let Machine { command, date, commit, processor, cores, .. } = &record.machine;
    let [base, varied] = record.requests;
    let reasons: String =
        record.reasons().iter().map(|(why, ids)| format!("* **{}**: {why}\n", ids.join(", "))).collect();
    let figures = format!(
        "`{command}`, {date}, commit {commit}, {} seeds, about {base} requests a run ({varied} with other costs), {:.0} s in \
         all on\n{processor}, {cores} cores, on which no figure depends: [{name}](../{name}).\nMedians of the seeds, and in \
         brackets the least and the most; *drawn*: the paper has a drawing of it, without a number.\n\n{}\n\
         ## Why they differ\n\n*Beside*: in the table above, among the same headline's figures. *Below*: in the next \
         one.\n\n{}\n## What they depend on\n\n\
         Each constant halved and doubled, in shorter runs; *as short* is what such runs give with the constants as \
         they are.\nA constant is named where the figure with it is further by a twentieth than that of any seed \
         without it.\n\n{}\n## The constants\n\n\
         *Published* by whom is named; *set by* a figure of the papers themselves, which is no prediction then; or \
         *assumed*.\n\n{}",
        record.seeds,
        record.seconds,
        record.table(),
        reasons,
        record.sensitivity(),
        record.constants(),
    );
    put_between(page, &figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_matters_that_changes_more_than_seeds_do() {
        let varied = |constant: &str, half, double| Varied { constant: constant.into(), half, double };
        let cell = Cell {
            name: "one".into(),
            paper: Some(1.0),
            paper_to: None,
            drawn: false,
            ours: vec![5.0, 7.0, 6.0],
            unit: "x".into(),
            short: vec![2.0, 2.4, 2.2],
            varied: vec![varied("within the seeds", 2.0, 2.4), varied("far", 2.2, 2.6), varied("near", 1.9, 2.5)],
        };
        let names: Vec<&str> = cell.matters().map(|one| one.constant.as_str()).collect();
        assert_eq!(names, ["far"]);
        assert_eq!(cell.shown(), "6.00x (5.00 to 7.00)");
    }

    #[test]
    fn what_a_paper_has_is_a_number_a_range_a_drawing_or_nothing() {
        let papers =
            |paper| Cell::of(&crate::calibrated::headlines::figure("one", paper, 1.0, "M/s"), vec![1.0]).papers();
        assert_eq!(papers(Paper::Number(4.58)), "4.58 M/s");
        assert_eq!(papers(Paper::Range(3.44, 4.58)), "3.44 to 4.58 M/s");
        assert_eq!((papers(Paper::Drawn), papers(Paper::Nothing)), ("drawn".into(), String::new()));
        // As earlier records have it.
        let old = r#"{"name":"one","paper":2.0,"ours":[1.0],"unit":"x","short":[],"varied":[]}"#;
        let cell: Cell = serde_json::from_str(old).unwrap();
        assert!(cell.papers() == "2.00x" && cell.is_papers());
    }
}
