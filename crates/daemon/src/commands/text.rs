//! Text for people.

use std::io::Write;
use std::time::Duration;

/// Prints to stdout, with a newline at the end. Whoever stops reading (`| head`) has read enough.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end_matches('\n'));
}

/// Lines of equally many cells, in columns two spaces apart; the first line is the heading.
pub fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let mut shown = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            shown.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// How long something has lasted, in the unit that people would choose: `0.8 ms`, `12 ms`, `2 s`, `3 min`, `5 h`, `2
/// d`.
pub fn lasted(duration: Duration) -> String {
    match duration.as_micros() {
        micros @ 0..1_000 => format!("0.{} ms", micros / 100),
        micros @ 1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => match duration.as_secs() {
            seconds @ 0..120 => format!("{seconds} s"),
            seconds @ 120..7_200 => format!("{} min", seconds / 60),
            seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
            seconds => format!("{} d", seconds / 86_400),
        },
    }
}

/// A name as it can be shown on a terminal: control characters escaped.
pub fn shown(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let lines = [["NAME", "MODE"], ["a", "shared"], ["orders/42", ""]].map(|line| line.map(String::from).to_vec());
        assert_eq!(table(&lines), "NAME       MODE\na          shared\norders/42\n");
    }

    #[test]
    fn durations_read_naturally() {
        for (micros, expected) in [
            (850, "0.8 ms"),
            (12, "0.0 ms"),
            (12_345, "12 ms"),
            (2_900_000, "2 s"),
            (180_000_000, "3 min"),
            (18_000_000_000, "5 h"),
        ] {
            assert_eq!(lasted(Duration::from_micros(micros)), expected);
        }
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(shown("a\x1b[2Jé\n"), "a\\u{1b}[2Jé\\n");
    }
}
