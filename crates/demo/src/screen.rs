//! What people see: a time-line, one line of progress where there is a terminal, a table.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// How text is set off, where that is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Tone {
    Heading,
    Good,
    Bad,
}

pub struct Screen {
    /// A terminal, which can take a line back.
    live: bool,
    colors: bool,
    progress_shown: bool,
}

impl Screen {
    pub fn new() -> Screen {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default();
        let live = std::io::stdout().is_terminal() && variable("TERM") != "dumb";
        Screen { live, colors: live && variable("NO_COLOR").is_empty(), progress_shown: false }
    }

    /// `text` in colour, if colours are wanted.
    pub fn toned(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Heading => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
        };
        if self.colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn heading(&mut self, text: &str) {
        let text = self.toned(Tone::Heading, text);
        self.line(&format!("\n{text}"));
    }

    /// Something that happened, at a time since the beginning of its part.
    pub fn event(&mut self, at: Duration, text: &str) {
        self.line(&format!("{:>7.3} s  {text}", at.as_secs_f64()));
    }

    /// More about the event above.
    pub fn detail(&mut self, text: &str) {
        self.line(&format!("{:11}{text}", ""));
    }

    pub fn line(&mut self, text: &str) {
        let clear = if self.progress_shown { "\r\x1b[K" } else { "" };
        self.progress_shown = false;
        self.write(&format!("{clear}{text}\n"));
    }

    /// How far it is, replaced by the next line.
    pub fn progress(&mut self, text: &str) {
        if self.live {
            self.progress_shown = true;
            self.write(&format!("\r\x1b[K{text}"));
        }
    }

    /// Nobody may be reading: the demo's exit code tells as much.
    fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Three digits in the unit that people would choose: `850 us`, `3.24 ms`, `12.3 ms`, `1.05 s`.
pub fn span(duration: Duration) -> String {
    let micros = duration.as_nanos() as f64 / 1e3;
    let (value, unit) = match micros {
        ..1e3 => (micros, "us"),
        ..1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits"));
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_naturally() {
        for (nanos, text) in
            [(1_234, "1.23 us"), (850_000, "850 us"), (12_345_678, "12.3 ms"), (1_049_000_000, "1.05 s")]
        {
            assert_eq!(span(Duration::from_nanos(nanos)), text);
        }
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
    }
}
