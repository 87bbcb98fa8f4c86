//! What became of which mutant, in a file that grows by a line a mutant: a run that is stopped goes on where it was.
//! Of functions as they are in the repository it is kept there, too: a line each, a letter a mutant.

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
        format!("{} {}", self.function_key(), self.ordinal)
    }

    fn function_key(&self) -> String {
        format!("{} {} {:016x}", self.file, self.function, self.hash)
    }
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// By this test.
    Killed(String),
    Survived,
    /// The tests at the hook, too: hook.rs.
    SurvivedHook,
    /// No compiler takes it: it is none.
    Invalid,
    /// The compiler makes the same of it: it is none.
    Same,
}

/// In the repository's file.
const KILLED: char = 'k';
const SURVIVED: char = 'S';
const SURVIVED_HOOK: char = 'H';
const INVALID: char = 'i';
const SAME: char = '=';
const NOT_TRIED: char = '.';

impl Fate {
    fn letter(fate: Option<&Fate>) -> char {
        match fate {
            Some(Fate::Killed(_)) => KILLED,
            Some(Fate::Survived) => SURVIVED,
            Some(Fate::SurvivedHook) => SURVIVED_HOOK,
            Some(Fate::Invalid) => INVALID,
            Some(Fate::Same) => SAME,
            None => NOT_TRIED,
        }
    }

    fn of_letter(letter: char) -> Option<Fate> {
        match letter {
            KILLED => Some(Fate::Killed("a test of before".to_string())),
            SURVIVED => Some(Fate::Survived),
            SURVIVED_HOOK => Some(Fate::SurvivedHook),
            INVALID => Some(Fate::Invalid),
            SAME => Some(Fate::Same),
            _ => None,
        }
    }
}

/// The file.
pub struct Ledger {
    fates: BTreeMap<String, Fate>,
    file: File,
}

impl Ledger {
    /// Opens or makes it. What the repository keeps comes first.
    pub fn open(path: &Path, kept: &Path) -> Result<Ledger, String> {
        let mut fates = BTreeMap::new();
        for line in fs::read_to_string(kept).unwrap_or_default().lines() {
            let Some((function, letters)) = line.rsplit_once(' ') else { continue };
            let each = letters.chars().enumerate();
            fates.extend(
                each.filter_map(|(ordinal, letter)| Some((format!("{function} {ordinal}"), Fate::of_letter(letter)?))),
            );
        }
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let Some((key, fate)) = line.split_once('\t') else { continue };
            let fate = match fate.split_once(' ').unwrap_or((fate, "")) {
                ("killed", by) => Fate::Killed(by.to_string()),
                ("survived", "hook") => Fate::SurvivedHook,
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

    /// Writes what became of these into the repository's file, and nothing else: functions that are no more go.
    pub fn keep(&self, mutants: &[Mutant], kept: &Path) -> Result<(), String> {
        let mut lines: BTreeMap<String, Vec<char>> = BTreeMap::new();
        for mutant in mutants {
            let letters = lines.entry(mutant.function_key()).or_default();
            letters.resize(letters.len().max(mutant.ordinal + 1), NOT_TRIED);
            letters[mutant.ordinal] = Fate::letter(self.fate(mutant));
        }
        lines.retain(|_, letters| letters.iter().any(|letter| *letter != NOT_TRIED));
        let line = |(function, letters): (String, Vec<char>)| format!("{function} {}\n", String::from_iter(letters));
        let text: String = lines.into_iter().map(line).collect();
        fs::write(kept, text).map_err(|error| format!("{}: {error}", kept.display()))
    }

    /// Remembers it.
    pub fn record(&mut self, mutant: &Mutant, fate: Fate) -> Result<(), String> {
        let told = match &fate {
            Fate::Killed(by) => format!("killed {by}"),
            Fate::Survived => "survived".to_string(),
            Fate::SurvivedHook => "survived hook".to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(function: &str, hash: u64, ordinal: usize) -> Mutant {
        let (file, what, code) = ("a.rs".to_string(), String::new(), String::new());
        Mutant { file, line: 1, function: function.to_string(), what, code, hash, ordinal }
    }

    #[test]
    fn what_is_kept_is_known_again_until_its_function_changes() {
        let place = std::env::temp_dir().join(format!("wayside-ledger-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let [own, kept] = ["own.tsv", "kept.txt"].map(|name| place.join(name));
        let mutants: Vec<Mutant> = (0..6).map(|ordinal| mutant("one two", 7, ordinal)).collect();
        let gone = mutant("gone", 1, 0);
        let mut ledger = Ledger::open(&own, &kept).unwrap();
        let fates = [Fate::Killed("x y".to_string()), Fate::Survived, Fate::Invalid, Fate::Same, Fate::SurvivedHook];
        for (mutant, fate) in mutants.iter().zip(&fates) {
            ledger.record(mutant, fate.clone()).unwrap();
        }
        ledger.record(&gone, Fate::Survived).unwrap();
        ledger.keep(&mutants, &kept).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "a.rs one two 0000000000000007 kSi=H.\n");
        let again = Ledger::open(&place.join("other.tsv"), &kept).unwrap();
        assert!(matches!(again.fate(&mutants[0]), Some(Fate::Killed(_))));
        let rest: Vec<_> = mutants[1..].iter().map(|mutant| again.fate(mutant)).collect();
        assert_eq!(rest, [Some(&fates[1]), Some(&fates[2]), Some(&fates[3]), Some(&fates[4]), None]);
        assert_eq!((again.fate(&gone), again.fate(&mutant("one two", 8, 0))), (None, None));
        fs::remove_dir_all(&place).unwrap();
    }
}
