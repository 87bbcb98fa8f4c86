//! `cargo xtask mutate`: the code is changed in one place at a time, and the tests must notice. docs/mutation.md says
//! what came of it.

mod c;
mod core;
mod hook;
mod judge;
mod ledger;
mod machines;
mod reasons;
mod rust;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use ledger::{Fate, Ledger, Mutant};
use reasons::Reasons;

pub const USAGE: &str = "\
  mutate core [PATH...]      change the data plane's C, one place at a time, and see whether tests notice
  mutate machines [PATH...]  the same for the protocol machines in Rust
         --again             try those again that nobody has noticed, and that have no reason
         --quick             without the tests that take longest; the core compiled by tcc
         --part K/N          every N-th mutant from the K-th on
         --commit COMMIT     mutate this one [default: the last]
         --seeds A..B        the simulator's seeds [default: 0..300]; 0..0: without it
         --by JUDGE          of the machines: by this test alone (allocation, node, ...), or by the simulator (wayside-sim),
                             or its worlds of one service (hybrid, chain, ...), for what others have tried.
                             Of the core: by the hook, for all that survived natively; needs root and clang
         --list              print the mutants, with what became of each
         --keep              put what became of them into xtask/outcomes-*.txt, for others to go on from
         --report            print what a full run found, as docs/mutation.md has it";

/// What was asked for.
pub struct Wish {
    /// Mutants of files whose path begins so; all if there is none.
    paths: Vec<String>,
    again: bool,
    quick: bool,
    list: bool,
    keep: bool,
    report: bool,
    part: (usize, usize),
    /// Of the simulator, as it takes them.
    seeds: String,
    /// The only judge: a test, the simulator, or one of its services; of the core the hook.
    by: Option<String>,
    /// What is mutated.
    commit: String,
    reasons: Reasons,
}

impl Wish {
    fn read(root: &Path, words: &[&str]) -> Result<Wish, String> {
        let commit = git(root, &["rev-parse", "HEAD"])?.trim().to_string();
        let mut wish = Wish {
            paths: Vec::new(),
            again: false,
            quick: false,
            list: false,
            keep: false,
            report: false,
            part: (0, 1),
            seeds: "0..300".to_string(),
            by: None,
            commit,
            reasons: Reasons::read(&root.join("xtask/survivors.toml"))?,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--again" => wish.again = true,
                "--commit" => {
                    let commit = words.next().ok_or("--commit takes one")?;
                    wish.commit = git(root, &["rev-parse", &format!("{commit}^{{commit}}")])?.trim().to_string();
                }
                "--quick" => wish.quick = true,
                "--by" => wish.by = Some(words.next().ok_or("--by takes a judge")?.to_string()),
                "--list" => wish.list = true,
                "--keep" => wish.keep = true,
                "--report" => wish.report = true,
                "--part" => {
                    let part = words.next().and_then(|part| part.split_once('/'));
                    let numbers = part.and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
                    wish.part = numbers.filter(|(k, n)| k < n).ok_or("--part takes K/N, K from 0 to N - 1")?;
                }
                "--seeds" => wish.seeds = words.next().ok_or("--seeds takes A..B")?.to_string(),
                _ if word.starts_with('-') => return Err(format!("mutate: there is no {word}")),
                _ => wish.paths.push((*word).to_string()),
            }
        }
        Ok(wish)
    }

    /// Whether it is to be tried now.
    fn wants(&self, index: usize, mutant: &Mutant, ledger: &Ledger) -> bool {
        self.means(index, mutant)
            && match ledger.fate(mutant) {
                None => true,
                Some(Fate::Survived | Fate::SurvivedHook) => self.again && !self.reasons.excuse(mutant),
                Some(_) => false,
            }
    }

    /// Whether it is of the files and of the part that were asked for.
    fn means(&self, index: usize, mutant: &Mutant) -> bool {
        self.speaks_of(mutant) && index % self.part.1 == self.part.0
    }

    fn speaks_of(&self, mutant: &Mutant) -> bool {
        self.paths.is_empty() || self.place_of(mutant) < self.paths.len()
    }

    /// Of its file among those that were asked for: they are tried in that order.
    fn place_of(&self, mutant: &Mutant) -> usize {
        self.paths.iter().position(|path| mutant.file.contains(path.as_str())).unwrap_or(self.paths.len())
    }
}

/// Runs what the words ask for.
pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let (what, rest) = words.split_first().ok_or("mutate what: core, or machines?")?;
    let wish = Wish::read(root, rest)?;
    let place = place(root).join(what);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let kept = root.join(format!("xtask/outcomes-{what}.txt"));
    let mut ledger = Ledger::open(&place.join("outcomes.tsv"), &kept)?;
    let mutants = match *what {
        "core" => core::run(root, &place, &wish, &mut ledger)?,
        "machines" => machines::run(root, &place, &wish, &mut ledger)?,
        _ => return Err(format!("mutate what: core or machines, not {what}")),
    };
    if wish.keep {
        ledger.keep(&mutants, &kept)?;
    }
    let meant: Vec<&Mutant> = mutants.iter().filter(|mutant| wish.speaks_of(mutant)).collect();
    if wish.list {
        for mutant in &meant {
            println!("{}: {:?}", told(mutant), ledger.fate(mutant));
        }
        return Ok(());
    }
    println!("commit {}", &wish.commit[..10]);
    conclude(&meant, &ledger, &wish.reasons, wish.report)
}

/// Where trees, builds and outcomes lie: with cargo's.
fn place(root: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("mutate")
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("git {arguments:?}: {error}"))
}

/// A commit's files, in a directory of their own, changed by `change`. Files that are
/// as they were keep their times, so that cargo builds what has changed.
fn check_out(
    root: &Path,
    commit: &str,
    tree: &Path,
    change: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let fresh = tree.with_extension("fresh");
    let script = "rm -rf \"$0\" && mkdir \"$0\" && git archive \"$1\" | tar -x -C \"$0\"";
    let status = Command::new("sh").args(["-ec", script]).arg(&fresh).arg(commit).current_dir(root).status();
    if !status.as_ref().is_ok_and(ExitStatus::success) {
        return Err(format!("git archive into {}: {status:?}", fresh.display()));
    }
    change(&fresh)?;
    mirror(&fresh, tree).map_err(|error| format!("{}: {error}", tree.display()))
}

/// Makes a directory the same as another.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let path = entry?.path();
        if !from.join(path.file_name().expect("an entry")).exists() {
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            mirror(&entry.path(), &target)?;
        } else if fs::read(entry.path())? != fs::read(&target).unwrap_or_default() || !target.exists() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn told(mutant: &Mutant) -> String {
    format!("{}:{} {}: {} | {}", mutant.file, mutant.line, mutant.function, mutant.what, mutant.code)
}

/// Counts by file, and the survivors that no reason is known for: an error if there are any.
fn conclude(mutants: &[&Mutant], ledger: &Ledger, reasons: &Reasons, is_report: bool) -> Result<(), String> {
    let mut rows: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let (mut unexplained, mut explained) = (Vec::new(), Vec::new());
    for &mutant in mutants {
        let row = rows.entry(&mutant.file).or_default();
        match ledger.fate(mutant) {
            None => row[3] += 1,
            Some(Fate::Invalid | Fate::Same) => {}
            Some(Fate::Killed(_)) => row[0] += 1,
            Some(Fate::Survived | Fate::SurvivedHook) => match reasons.of(mutant, &explained) {
                Some(reason) => {
                    row[1] += 1;
                    explained.push((mutant, reason));
                }
                None => {
                    row[2] += 1;
                    unexplained.push(mutant);
                }
            },
        }
    }
    println!("| file | mutants | killed | survived, harmless | survived | not tried |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let total = rows.values().fold([0; 4], |sum, row| [0, 1, 2, 3].map(|at| sum[at] + row[at]));
    for (file, row) in rows.into_iter().chain([("all", total)]) {
        let tried = row[0] + row[1] + row[2];
        let share = 100.0 * row[0] as f64 / tried.max(1) as f64;
        println!("| `{file}` | {tried} | {} ({share:.1} %) | {} | {} | {} |", row[0], row[1], row[2], row[3]);
    }
    if is_report {
        reasons::print(&explained);
    }
    for mutant in &unexplained {
        println!("survived: {}", told(mutant));
    }
    let stale = reasons.unused(&explained, mutants);
    stale.iter().for_each(|reason| println!("xtask/survivors.toml speaks of none that survived: {reason}"));
    match unexplained.len() {
        0 => Ok(()),
        count => Err(format!("{count} mutants survived, and nobody knows why")),
    }
}
