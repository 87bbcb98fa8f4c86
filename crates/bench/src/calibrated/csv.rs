//! The headlines' figures for other programs.

use super::report::{Calibrated, Cell, spread};
use crate::contest::quoted;
use crate::recovery::summary::Spread;

impl Calibrated {
    /// A line for each figure, with all digits: median, least and most of the seeds; the median of runs as short as
    /// those with other costs; and what it is with each constant halved and doubled, `constant=halved/doubled`.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "id,figure,paper,ours_median,ours_least,ours_most,unit,how,as_short_median,constants_halved_and_doubled\n",
        );
        for row in &self.rows {
            for cell in &row.figures {
                let Spread { least, median, most } = spread(&cell.ours);
                let short = if cell.short.is_empty() { String::new() } else { spread(&cell.short).median.to_string() };
                let varied = cell.varied.iter().map(|one| format!("{}={}/{}", one.constant, one.half, one.double));
                let cells = [
                    row.id.clone(),
                    quoted(&cell.name),
                    paper(cell),
                    median.to_string(),
                    least.to_string(),
                    most.to_string(),
                    quoted(&cell.unit),
                    quoted(row.how()),
                    short,
                    quoted(&varied.collect::<Vec<_>>().join("; ")),
                ];
                text += &(cells.join(",") + "\n");
            }
        }
        text
    }
}

/// A number, a range, that it is drawn, or nothing.
fn paper(cell: &Cell) -> String {
    match (cell.paper, cell.paper_to) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(number), None) => number.to_string(),
        (None, _) => cell.papers(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::Machine;
    use serde_json::json;

    #[test]
    fn every_figure_has_a_line_with_what_it_is_made_of() {
        let varied = json!([
            { "constant": "manager", "half": 1.5, "double": 2.5 },
            { "constant": "client, NetLock", "half": 3.0, "double": 1.0 },
        ]);
        let record = json!({
            "machine": Machine::look(), "requests": [9, 1], "seeds": 3, "seconds": 1.0, "constants": [],
            "rows": [
                { "id": "N1", "what": "several", "how": "simulated", "why": "", "figures": [
                    { "name": "over one, two", "paper": 2.0, "paper_to": 3.5, "ours": [1.0, 3.25, 2.0], "unit": "x",
                      "short": [2.0, 4.0], "varied": varied },
                    { "name": "another", "paper": 4.58, "ours": [0.001], "unit": "M/s", "short": [], "varied": [] },
                ] },
                { "id": "C4", "what": "none", "how": "on packets", "why": "", "figures": [] },
                { "id": "F1", "what": "one", "how": "computed, and on packets", "why": "", "figures": [
                    { "name": "a drawing", "paper": null, "drawn": true, "ours": [7.0], "unit": "", "short": [],
                      "varied": [] },
                    { "name": "ours alone", "paper": null, "ours": [8.0], "unit": "", "short": [], "varied": [] },
                ] },
            ],
        });
        let csv = Calibrated::from_json(&record.to_string()).unwrap().to_csv();
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        let expected = [
            "N1,\"over one, two\",2 to 3.5,2,1,3.25,\"x\",\"simulated\",3,\"manager=1.5/2.5; client, NetLock=3/1\"",
            "N1,\"another\",4.58,0.001,0.001,0.001,\"M/s\",\"simulated\",,\"\"",
            "F1,\"a drawing\",drawn,7,7,7,\"\",\"computed, and on packets\",,\"\"",
            "F1,\"ours alone\",,8,8,8,\"\",\"computed, and on packets\",,\"\"",
        ];
        assert_eq!(lines, expected, "{csv}");
        assert_eq!(csv.lines().next().unwrap().split(',').count(), 10, "as many heads as cells");
    }
}
