//! Survivors that do no harm, and why: `xtask/survivors.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::ledger::Mutant;

/// Why a mutant may survive.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// From the repository's root.
    file: String,
    /// In these functions; in any, if there is none.
    #[serde(default)]
    functions: Vec<String>,
    /// Of a line that contains this.
    #[serde(default)]
    code: String,
    /// That do this; whatever they do, if there is none.
    #[serde(default)]
    what: Vec<String>,
    /// So many of them; any number, if there is none. Of lines that are alike one may matter.
    most: Option<usize>,
    why: String,
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    survivor: Vec<Reason>,
}

/// All of them.
pub struct Reasons(Vec<Reason>);

impl Reasons {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Reasons, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let written: Written = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Reasons(written.survivor))
    }

    /// The reason of a mutant, if one is known besides those of the mutants before it.
    pub fn of(&self, mutant: &Mutant, explained: &[(&Mutant, &Reason)]) -> Option<&Reason> {
        let uses = |reason: &Reason| explained.iter().filter(|(_, used)| std::ptr::eq(*used, reason)).count();
        let is_left = |reason: &&Reason| reason.most.is_none_or(|most| uses(reason) < most);
        self.0.iter().filter(|reason| reason.speaks_of(mutant)).find(is_left)
    }

    /// Whether one of any number is known, so that it needs no other try.
    pub fn excuse(&self, mutant: &Mutant) -> bool {
        self.0.iter().any(|reason| reason.most.is_none() && reason.speaks_of(mutant))
    }

    /// Reasons that explain nothing, of files that were looked at.
    pub fn unused(&self, explained: &[(&Mutant, &Reason)], mutants: &[&Mutant]) -> Vec<String> {
        let is_used = |reason: &Reason| explained.iter().any(|(_, used)| std::ptr::eq(*used, reason));
        let is_looked_at = |reason: &Reason| mutants.iter().any(|mutant| mutant.file == reason.file);
        let unused = self.0.iter().filter(|reason| is_looked_at(reason) && !is_used(reason));
        unused.map(|reason| format!("{} {:?} {}", reason.file, reason.functions, reason.code)).collect()
    }
}

impl Reason {
    fn speaks_of(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file
            && (self.functions.is_empty() || self.functions.contains(&mutant.function))
            && mutant.code.contains(&self.code)
            && (self.what.is_empty() || self.what.contains(&mutant.what))
    }
}

/// The survivors by reason.
pub fn print(explained: &[(&Mutant, &Reason)]) {
    let mut by_reason: BTreeMap<(&str, &str), Vec<&Mutant>> = BTreeMap::new();
    for (mutant, reason) in explained {
        by_reason.entry((&mutant.file, &reason.why)).or_default().push(mutant);
    }
    println!("\n| file | where | survivors | why they do no harm |\n| --- | --- | ---: | --- |");
    for ((file, why), mutants) in by_reason {
        let mut functions: Vec<String> = mutants.iter().map(|mutant| format!("`{}`", mutant.function)).collect();
        functions.dedup();
        println!("| `{file}` | {} | {} | {why} |", functions.join(", "), mutants.len());
    }
}
