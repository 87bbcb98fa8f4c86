//! The headlines in the report: their table, how far ours are from the papers' and why, what they depend on as a heat
//! map, and the constants with their sources.

use std::fmt::Write;

use super::report::{Calibrated, Cell, Row, digits, shown, spread};
use crate::contest::{escaped, figures, wide};
use crate::drawing::{Axes, BOTTOM, TOP, WIDTH, drawing, line, mark, text};

/// Of the names, left of a panel.
const NAMES: f64 = 330.0;
const LINE: f64 = 16.0;
/// Of the heat map: what is above the columns, and right of them for the last one's slanted head.
const HEADS: f64 = 130.0;
const SLANT: f64 = 70.0;
/// A figure that is so many times another is as dark as can be.
const DARKEST: f64 = 4.0;

const OURS: &str = "#1b6ca8";

/// A headline's figure, and the row that it is of.
type Line<'r> = (&'r Row, &'r Cell);

impl Calibrated {
    /// Everything for one section of the report.
    pub(crate) fn to_html(&self) -> String {
        let [whole, varied] = self.requests;
        let mut html = format!(
            "<p>NetLock's, FissLock's and NetChain's headline figures, and what their designs give by a model of what \
             everything costs, in virtual time. {} seeds, about {whole} requests a run ({varied} with other costs); \
             commit {}, by <code>{}</code>. Drawn: the paper has a drawing of it, without a number. How the model is \
             made: docs/headlines.md of that commit.</p>\n",
            self.seeds,
            escaped(&self.machine.commit),
            escaped(&self.machine.command),
        );
        let parts = [Some(self.headlines()), Some(self.distances()), self.heat_map(), Some(self.sources())];
        parts.iter().flatten().for_each(|part| html += &wide(part));
        html + &self.differences()
    }

    /// Each constant, with where its value is from.
    fn sources(&self) -> String {
        let mut html = String::from("<table><tr><th>constant</th><th>ns</th><th>source</th></tr>\n");
        for constant in &self.constants {
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                escaped(&constant.name),
                constant.nanoseconds,
                escaped(&constant.source)
            );
        }
        html + "</table>\n"
    }

    /// Why ours differ.
    fn differences(&self) -> String {
        let mut html = String::from("<h3>Why they differ</h3>\n<ul>\n");
        for (why, ids) in self.reasons() {
            let _ = writeln!(html, "<li><b>{}</b>: {}</li>", escaped(&ids.join(", ")), escaped(&without_links(why)));
        }
        html + "</ul>\n"
    }

    fn headlines(&self) -> String {
        let mut html = String::from("<table><tr><th>id</th><th>figure</th><th>paper</th><th>ours</th><th></th></tr>\n");
        for row in &self.rows {
            let (id, what, how) = (escaped(&row.id), escaped(&row.what), escaped(row.how()));
            let _ =
                writeln!(html, "<tr class=\"best\"><td>{id}</td><td>{what}</td><td></td><td></td><td>{how}</td></tr>");
            for cell in &row.figures {
                let ours = shown(&cell.ours, &cell.unit);
                let _ = writeln!(
                    html,
                    "<tr><td></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td></td></tr>",
                    escaped(&cell.name),
                    figures(&cell.papers()),
                    figures(&ours)
                );
            }
        }
        html + "</table>\n"
    }

    fn lines(&self, takes: impl Fn(&Cell) -> bool) -> Vec<Line<'_>> {
        let all = self.rows.iter().flat_map(|row| row.figures.iter().map(move |cell| (row, cell)));
        all.filter(|(_, cell)| takes(cell)).collect()
    }

    /// Ours over the paper's, of every figure for which the paper has a number: 1 would be the same.
    fn distances(&self) -> String {
        let lines = self.lines(|cell| cell.paper.is_some_and(|paper| over(spread(&cell.ours).median, paper).is_some()));
        let bottom = TOP + LINE * lines.len() as f64;
        let ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
        let axes = Axes {
            place: [NAMES, WIDTH - 60.0, TOP, bottom],
            x: (ticks[0], ticks[ticks.len() - 1]),
            y: (0.0, 1.0),
            logarithmic: [true, false],
        };
        let mut body = String::new();
        axes.draw(&mut body, "Ours over the paper's (line: least to most of the seeds)", ("times", &ticks), ("", &[]));
        let (one, _) = axes.at(1.0, 0.0);
        line(&mut body, (one, TOP), (one, bottom), "#c8501e", "stroke-dasharray=\"4 3\"");
        for (index, (row, cell)) in lines.iter().enumerate() {
            let middle = TOP + LINE * (index as f64 + 0.5);
            text(&mut body, (NAMES - 8.0, middle + 4.0), "end", "normal", &escaped(&named(row, cell)));
            let (paper, ours) = (cell.paper.unwrap_or(1.0), spread(&cell.ours));
            let to = |value| axes.at(over(value, paper).unwrap_or(1.0).clamp(axes.x.0, axes.x.1), 0.0).0;
            line(&mut body, (to(ours.least), middle), (to(ours.most), middle), OURS, "stroke-width=\"2\"");
            mark(&mut body, (to(ours.median), middle), 0, OURS);
        }
        drawing(bottom + BOTTOM, &body)
    }

    /// Each figure with each constant halved, and doubled, over what it is without: red is more, blue is less. None: it
    /// was not looked for.
    fn heat_map(&self) -> Option<String> {
        let lines = self.lines(|cell| cell.is_papers() && !cell.varied.is_empty());
        let mut constants: Vec<&str> = Vec::new();
        for one in lines.iter().flat_map(|(_, cell)| &cell.varied) {
            if !constants.contains(&one.constant.as_str()) {
                constants.push(&one.constant);
            }
        }
        if constants.is_empty() {
            return None;
        }
        // Two for each constant, and a gap.
        let wide = (WIDTH - NAMES - SLANT) / (2.2 * constants.len() as f64);
        let place = |column: usize, half: usize| NAMES + wide * (2.2 * column as f64 + half as f64);
        let mut body = String::new();
        let title = "What each depends on: every constant halved (left) and doubled (right)";
        text(&mut body, (10.0, 16.0), "start", "bold", title);
        for (column, constant) in constants.iter().enumerate() {
            let (x, y) = (place(column, 1), HEADS - 8.0);
            let _ = writeln!(
                body,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-45 {x:.1} {y:.1})\">{}</text>",
                escaped(constant)
            );
        }
        for (index, (row, cell)) in lines.iter().enumerate() {
            let top = HEADS + LINE * index as f64;
            let name = escaped(&named(row, cell));
            text(&mut body, (NAMES - 8.0, top + 12.0), "end", "normal", &name);
            let short = spread(&cell.short).median;
            for one in &cell.varied {
                let Some(column) = constants.iter().position(|constant| *constant == one.constant) else { continue };
                for (half, (value, how)) in [(one.half, "halved"), (one.double, "doubled")].into_iter().enumerate() {
                    let _ = writeln!(
                        body,
                        "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{name}, {} {how}: \
                         {}, without {}</title></rect>",
                        place(column, half),
                        wide - 1.0,
                        LINE - 1.0,
                        heat(over(value, short)),
                        escaped(&one.constant),
                        digits(value),
                        digits(short),
                    );
                }
            }
        }
        Some(drawing(HEADS + LINE * lines.len() as f64 + 20.0, &body))
    }
}

/// A link of the page in Markdown, `[name](address)`, as its name alone.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, name, after)) = rest.split_once('[').and_then(|(before, link)| {
        let (name, address) = link.split_once("](")?;
        Some((before, name, address.split_once(')')?.1))
    }) {
        plain = plain + before + name;
        rest = after;
    }
    plain + rest
}

fn named(row: &Row, cell: &Cell) -> String {
    let name: String = cell.name.chars().take(44).collect();
    format!("{} {name}", row.id)
}

/// Nothing where a ratio means nothing: other signs, or zero.
fn over(value: f64, of: f64) -> Option<f64> {
    Some(value / of).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

/// White is the same, red more, blue less, grey no ratio at all.
fn heat(ratio: Option<f64>) -> String {
    let Some(ratio) = ratio else { return "#bbbbbb".into() };
    let part = (ratio.ln() / DARKEST.ln()).clamp(-1.0, 1.0);
    let [red, green, blue] = if part > 0.0 { [200.0, 80.0, 30.0] } else { [27.0, 108.0, 168.0] };
    let mixed = |colour: f64| (255.0 + (colour - 255.0) * part.abs()).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mixed(red), mixed(green), mixed(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_its_name() {
        assert_eq!(without_links("see [one](../one), [two](two)."), "see one, two.");
        assert_eq!(without_links("from [0, 1] on"), "from [0, 1] on");
    }

    #[test]
    fn more_is_red_less_is_blue_and_what_means_nothing_is_grey() {
        assert_eq!((heat(Some(1.0)), heat(None)), ("#ffffff".into(), "#bbbbbb".into()));
        assert_eq!((heat(Some(4.0)), heat(Some(100.0))), ("#c8501e".into(), "#c8501e".into()));
        assert_eq!(heat(Some(0.25)), "#1b6ca8");
        assert_eq!(
            (over(-20.0, -80.0), over(1.0, -1.0), over(0.0, 1.0), over(1.0, 0.0)),
            (Some(0.25), None, None, None)
        );
    }
}
