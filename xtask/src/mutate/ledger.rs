//! What became of which mutant, in a file that grows by a line a mutant: a run that is stopped goes on where it was.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// A change of the source.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// From the repository's root.
    pub file: String,
    pub line: usize,
    /// The function that it is in.
    pub function: String,
    /// What is changed, and into what.
    pub what: String,
    /// The line that it begins in.
    pub code: String,
    /// Of the function's text: what became of a mutant is of no use once its function is another.
    pub hash: u64,
    /// Mutants of the same function before it.
    pub ordinal: usize,
}

impl Mutant {
    /// The same for the same mutant of the same function, wherever in its file that stands.
    fn key(&self) -> String {
        format!("{} {} {:016x} {}", self.file, self.function, self.hash, self.ordinal)
    }
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// By this test.
    Killed(String),
    Survived,
    /// No compiler takes it: it is none.
    Invalid,
    /// The compiler makes the same of it: it is none.
    Same,
}

/// The file.
pub struct Ledger {
    fates: BTreeMap<String, Fate>,
    file: File,
}

impl Ledger {
    /// Opens or makes it.
    pub fn open(path: &Path) -> Result<Ledger, String> {
        let mut fates = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let Some((key, fate)) = line.split_once('\t') else { continue };
            let fate = match fate.split_once(' ').unwrap_or((fate, "")) {
                ("killed", by) => Fate::Killed(by.to_string()),
                ("survived", _) => Fate::Survived,
                ("invalid", _) => Fate::Invalid,
                ("same", _) => Fate::Same,
                _ => continue,
            };
            fates.insert(key.to_string(), fate);
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Ledger { fates, file: file.map_err(|error| format!("{}: {error}", path.display()))? })
    }

    /// What became of it, if it was tried.
    pub fn fate(&self, mutant: &Mutant) -> Option<&Fate> {
        self.fates.get(&mutant.key())
    }

    /// Remembers it.
    pub fn record(&mut self, mutant: &Mutant, fate: Fate) -> Result<(), String> {
        let told = match &fate {
            Fate::Killed(by) => format!("killed {by}"),
            Fate::Survived => "survived".to_string(),
            Fate::Invalid => "invalid".to_string(),
            Fate::Same => "same".to_string(),
        };
        writeln!(self.file, "{}\t{told}", mutant.key()).map_err(|error| format!("the outcomes: {error}"))?;
        self.fates.insert(mutant.key(), fate);
        Ok(())
    }
}

/// FNV-1a: the same in every run.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
