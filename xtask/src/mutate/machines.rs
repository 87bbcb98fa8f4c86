//! Mutants of the protocol machines: one build of tests and simulator has them all, and an environment variable says
//! which one is active. (A build for each would take some 20 s, and they are thousands.)

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::judge::Judge;
use super::ledger::{Fate, Ledger, Mutant};
use super::rust::{Instrumented, Written};
use super::{Wish, check_out, git, told};

const SOURCES: &str = "crates/protocol/src";
/// Tests of crates/protocol, its own by the crate's name, and the simulator: the quick ones first.
const TESTS: &[(&str, &[&str])] = &[
    ("wayside_protocol", &[]),
    ("records", &[]),
    ("plans", &[]),
    ("chain_client", &[]),
    ("chain_controller", &[]),
    ("chain_member", &[]),
    ("node", &["--skip", "chaos"]),
    (SIMULATOR, &["--no-shrink"]),
    (SIMULATOR, &["--no-shrink", "--service", "queue"]),
    (SIMULATOR, &["--no-shrink", "--service", "hybrid"]),
    (SIMULATOR, &["--no-shrink", "--service", "chain"]),
];
/// Those that take as long as all of the others.
const SLOW_TESTS: &[(&str, &[&str])] =
    &[("allocation", &[]), ("node", &["chaos"]), (SIMULATOR, &["--no-shrink", "--service", "shards"])];
const SIMULATOR: &str = "wayside-sim";
/// Tests that a process does, the shortest first: who notices a mutant is among the first, mostly.
const TOGETHER: usize = 24;
/// In a quick pass a mutant meets so many of the seeds that come by it: all, where few do.
const SEEDS_QUICKLY: usize = 20;
/// What tells the build which mutant is active.
const VARIABLE: &str = "WAYSIDE_MUTANT";

/// What the mutated crate asks: whether this mutant is active. The variable is read once. With `reach:FILE` none is
/// active, and those that are asked for are written there: without allocating, for a test counts that.
const SWITCH: &str = r#"
#[allow(missing_docs)]
pub mod mutation {
    extern crate std;
    use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
    use std::io::Write;
    const UNREAD: u32 = u32::MAX;
    const REACH: u32 = u32::MAX - 1;
    static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
    static REACHED: [AtomicU8; 65_536] = [const { AtomicU8::new(0) }; 65_536];
    static FILE: std::sync::OnceLock<std::fs::File> = std::sync::OnceLock::new();
    #[inline]
    pub fn on(number: u32) -> bool {
        let active = ACTIVE.load(Relaxed);
        active == number || active >= REACH && slow(number)
    }
    #[cold]
    #[inline(never)]
    fn slow(number: u32) -> bool {
        if ACTIVE.load(Relaxed) == UNREAD {
            let wish = std::env::var("WAYSIDE_MUTANT").unwrap_or_default();
            if let Some(path) = wish.strip_prefix("reach:") {
                FILE.get_or_init(|| {
                    std::fs::OpenOptions::new().append(true).create(true).open(path).expect("a file")
                });
            }
            let active = if wish.starts_with("reach:") { REACH } else { wish.parse().unwrap_or(REACH - 1) };
            ACTIVE.store(active, Relaxed);
            // The first test that fails is enough.
            std::panic::set_hook(std::boxed::Box::new(|_| std::process::exit(101)));
        }
        if ACTIVE.load(Relaxed) == REACH
            && REACHED[number as usize].load(Relaxed) == 0
            && REACHED[number as usize].swap(1, Relaxed) == 0
        {
            let mut line = *b"00000\n";
            (0..5).rev().fold(number, |rest, at| {
                line[at] = b'0' + (rest % 10) as u8;
                rest / 10
            });
            FILE.get().expect("it is open").write_all(&line).expect("a line");
        }
        ACTIVE.load(Relaxed) == number
    }
}
"#;

/// Tries those that are wished for. All mutants.
pub fn run(root: &Path, place: &Path, wish: &Wish, ledger: &mut Ledger) -> Result<Vec<Mutant>, String> {
    let (commit, seeds, place) = (wish.commit.clone(), wish.seeds.clone(), place.to_path_buf());
    let (quick, by) = (wish.quick, wish.by.clone());
    let (files, invalid) = (BTreeMap::new(), BTreeSet::new());
    let mut program = Program { commit, seeds, quick, by, place, files, invalid };
    program.read(root)?;
    let all = program.mutants();
    let is_tried = !wish.list && !wish.report;
    let mut wanted: Vec<(usize, &Mutant)> = all
        .iter()
        .enumerate()
        .filter(|(index, (_, mutant))| is_tried && wish.wants(*index, mutant, ledger))
        .map(|(_, (number, mutant))| (*number, mutant))
        .collect();
    wanted.sort_by_key(|(_, mutant)| wish.place_of(mutant));
    if !wanted.is_empty() {
        for (number, mutant) in &all {
            if ledger.fate(mutant) == Some(&Fate::Invalid) {
                program.invalid.insert(*number);
            }
        }
        let judges = program.build(root)?;
        for (number, mutant) in &all {
            if program.invalid.contains(number) && ledger.fate(mutant).is_none() {
                ledger.record(mutant, Fate::Invalid)?;
            }
        }
        for (index, (number, mutant)) in wanted.iter().enumerate() {
            let fate = program.fate(*number, &judges)?;
            println!("{}/{} {fate:?}: {}", index + 1, wanted.len(), told(mutant));
            ledger.record(mutant, fate)?;
        }
    }
    Ok(all.into_iter().map(|(_, mutant)| mutant).collect())
}

/// The crate with all of its mutants.
struct Program {
    commit: String,
    seeds: String,
    /// Without the slow tests.
    quick: bool,
    /// One judge alone.
    by: Option<String>,
    place: PathBuf,
    files: BTreeMap<String, Instrumented>,
    /// What no compiler takes.
    invalid: BTreeSet<usize>,
}

/// A program that judges, and what it can do alone: a test of it, or all of it.
struct Bound {
    judge: Judge,
    parts: Vec<Part>,
}

/// A test, or a seed, and the mutants that it comes by: no other can change what it does.
struct Part {
    name: String,
    seconds: f64,
    reached: BTreeSet<usize>,
}

impl Program {
    fn read(&mut self, root: &Path) -> Result<(), String> {
        let listed = git(root, &["ls-tree", "-r", "--name-only", &self.commit, SOURCES])?;
        let mut first = 0;
        let is_product = |path: &&str| !["/tests.rs", "/tests/", "/mutant.rs"].iter().any(|part| path.contains(part));
        for path in listed.lines().filter(is_product) {
            let source = git(root, &["show", &format!("{}:{path}", self.commit)])?;
            let file = Instrumented::new(path, source, first)?;
            first += file.mutants.len();
            self.files.insert(path.to_string(), file);
        }
        Ok(())
    }

    fn mutants(&self) -> Vec<(usize, Mutant)> {
        let all = self.files.values().flat_map(|file| &file.mutants);
        all.filter(|(_, mutant)| !breaks_a_rule(mutant)).map(|(number, mutant)| (*number, mutant.clone())).collect()
    }

    /// Builds tests and, with seeds, the simulator, leaving out what does not compile until the rest does.
    fn build(&mut self, root: &Path) -> Result<Vec<Bound>, String> {
        let tree = self.place.join("tree");
        let tests = ["-p", "wayside-protocol", "--lib", "--tests", "--profile", "simulation"];
        let simulator = ["-p", "wayside-sim", "--bins", "--profile", "simulation"];
        let judges: Vec<&str> = self.judges()?.iter().map(|(test, _)| *test).collect();
        let (has_tests, has_seeds) = (judges.iter().any(|test| *test != SIMULATOR), judges.contains(&SIMULATOR));
        let first = if has_tests { &tests[..] } else { &simulator[..] };
        for _ in 0..30 {
            let written = self.write(root, &tree)?;
            match build(&tree, &self.place.join("build"), first)? {
                Ok(mut built) => {
                    if has_seeds && has_tests {
                        let simulator = build(&tree, &self.place.join("build"), &simulator)?;
                        built.extend(simulator.map_err(|_| "the simulator does not build")?);
                    }
                    return self.bind(&tree, &built);
                }
                Err(complaints) => self.leave_out(&complaints, &written)?,
            }
        }
        Err("the mutated crate does not build".into())
    }

    fn write(&self, root: &Path, tree: &Path) -> Result<BTreeMap<String, Vec<Written>>, String> {
        let mut places = BTreeMap::new();
        check_out(root, &self.commit, tree, |fresh| {
            for (path, file) in &self.files {
                let (mut text, written) = file.write(|number| !self.invalid.contains(&number));
                if path.ends_with("src/lib.rs") {
                    text.push_str(SWITCH);
                }
                fs::write(fresh.join(path), text).map_err(|error| format!("{path}: {error}"))?;
                places.insert(path.clone(), written);
            }
            Ok(())
        })?;
        Ok(places)
    }

    /// Takes those for invalid that the compiler complains of.
    fn leave_out(&mut self, complaints: &[Complaint], written: &BTreeMap<String, Vec<Written>>) -> Result<(), String> {
        let before = self.invalid.len();
        for complaint in complaints {
            for span in &complaint.spans {
                let Some(places) = written.get(&span.file_name) else { continue };
                let touches = |range: &Range<usize>| {
                    range.start < span.byte_end.max(span.byte_start + 1) && span.byte_start < range.end
                };
                self.invalid.extend(places.iter().filter(|place| touches(&place.range)).map(|place| place.number));
            }
        }
        println!("{} mutants are no programs", self.invalid.len());
        if self.invalid.len() == before {
            let told: Vec<&str> = complaints.iter().take(3).map(|complaint| complaint.rendered.as_str()).collect();
            return Err(format!("the mutated crate does not build:\n{}", told.join("\n")));
        }
        Ok(())
    }

    fn bind(&self, tree: &Path, built: &[(String, PathBuf)]) -> Result<Vec<Bound>, String> {
        let program = |name: &str| {
            let found = built.iter().find(|(built, _)| built == name);
            found.map(|(_, path)| path).ok_or_else(|| format!("cargo has built no {name}"))
        };
        let directory = tree.join("crates/protocol");
        let mut judges = Vec::new();
        for (test, arguments) in self.judges()? {
            judges.push(Judge::new(test, program(test)?, arguments, &directory));
        }
        println!("judges, and what they take without a mutant");
        judges.into_iter().map(|judge| self.bound(judge)).collect()
    }

    /// Programs and their arguments that judge now.
    fn judges(&self) -> Result<Vec<(&'static str, &'static [&'static str])>, String> {
        let has_seeds = self.has_seeds()?;
        let is_meant = |(test, arguments): &(&str, &[&str])| {
            let is_there = *test != SIMULATOR || has_seeds;
            let by = self.by.as_deref();
            is_there && by.is_none_or(|by| *test == by || arguments.contains(&by))
        };
        let slow = SLOW_TESTS.iter().filter(|_| !self.quick || self.by.is_some());
        let judges: Vec<_> = TESTS.iter().chain(slow).copied().filter(is_meant).collect();
        if judges.is_empty() { Err("no such judge".into()) } else { Ok(judges) }
    }

    /// Has each part done once.
    fn bound(&self, judge: Judge) -> Result<Bound, String> {
        let path = self.place.join("reached");
        let mut environment = OsString::from("reach:");
        environment.push(&path);
        let environment = [(VARIABLE, environment)];
        let mut parts = Vec::new();
        for name in self.parts(&judge)? {
            let _ = fs::remove_file(&path);
            let seconds = judge.measure(&words(&judge, [&name]), &environment)?;
            let reached = fs::read_to_string(&path).unwrap_or_default();
            let reached = reached.lines().filter_map(|line| line.parse().ok()).collect();
            parts.push(Part { name, seconds, reached });
        }
        parts.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let seconds: f64 = parts.iter().map(|part| part.seconds).sum();
        let all: BTreeSet<usize> = parts.iter().flat_map(|part| part.reached.iter().copied()).collect();
        println!("  {:<24} {:>4} parts, {seconds:>7.2} s, by {} mutants", judge.name, parts.len(), all.len());
        Ok(Bound { judge, parts })
    }

    /// What a judge can do alone: each of its tests, or a seed.
    fn parts(&self, judge: &Judge) -> Result<Vec<String>, String> {
        if judge.name != SIMULATOR {
            return judge.tests();
        }
        Ok(self.seeds()?.map(|seed| seed.to_string()).collect())
    }

    fn seeds(&self) -> Result<Range<u64>, String> {
        let seeds = self.seeds.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
        seeds.ok_or_else(|| "--seeds takes A..B".to_string())
    }

    /// Whether the simulator is a judge. It takes longer to build than the tests.
    fn has_seeds(&self) -> Result<bool, String> {
        Ok(!self.seeds()?.is_empty())
    }

    fn fate(&self, number: usize, judges: &[Bound]) -> Result<Fate, String> {
        if self.invalid.contains(&number) {
            return Ok(Fate::Invalid);
        }
        let environment = [(VARIABLE, number.to_string().into())];
        for Bound { judge, parts } in judges {
            let parts: Vec<&Part> = parts.iter().filter(|part| part.reached.contains(&number)).collect();
            // Tests by the dozen cost a process; a seed is one.
            let (together, step) = match judge.name.as_str() {
                SIMULATOR if self.quick => (1, parts.len().div_ceil(SEEDS_QUICKLY).max(1)),
                SIMULATOR => (1, 1),
                _ => (TOGETHER, 1),
            };
            let parts: Vec<&Part> = parts.into_iter().step_by(step).collect();
            for parts in parts.chunks(together) {
                let words = words(judge, parts.iter().map(|part| &part.name));
                if judge.fails(&words, parts.iter().map(|part| part.seconds).sum(), &environment)? {
                    return Ok(Fate::Killed(judge.name.clone()));
                }
            }
        }
        Ok(Fate::Survived)
    }
}

/// Whether it is of the question if a rule is broken on purpose, in builds with the feature `mutants`: those rules have
/// a table of their own. What is done where one is broken is no mutant either (`rust.rs`); what else stands in such a
/// line is as good as any other.
fn breaks_a_rule(mutant: &Mutant) -> bool {
    mutant.function.ends_with("is_broken")
}

/// What makes a judge do these parts and no other. The simulator takes one.
fn words<'a>(judge: &Judge, parts: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let first = if judge.name == SIMULATOR { "--seed" } else { "--exact" };
    core::iter::once(first.to_string()).chain(parts.into_iter().cloned()).collect()
}

/// An error of the compiler.
#[derive(Deserialize)]
pub struct Complaint {
    level: String,
    #[serde(default)]
    rendered: String,
    spans: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
}

/// What cargo says of a build, a line each.
#[derive(Deserialize)]
struct Told {
    reason: String,
    message: Option<Complaint>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Names of programs, and where they are.
pub type Programs = Vec<(String, PathBuf)>;

/// Builds programs of a tree: their names and where they are, or what the compiler complains of.
pub fn build(tree: &Path, target: &Path, arguments: &[&str]) -> Result<Result<Programs, Vec<Complaint>>, String> {
    let tests = arguments.iter().any(|argument| argument.starts_with("--test"));
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(if tests { &["test", "--no-run"][..] } else { &["build"] }).args(arguments);
    command.args(["--message-format", "json", "--quiet"]).current_dir(tree);
    command.env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", "-Awarnings").stderr(Stdio::null());
    command.env("CARGO_PROFILE_SIMULATION_DEBUG", "false");
    // The simulator asks git for the commit, and every commit would compile it anew.
    command.env("GIT_DIR", tree.join("no-repository"));
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let (mut built, mut complaints) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(told) = serde_json::from_str::<Told>(line) else { continue };
        match (told.reason.as_str(), told.message, told.target, told.executable) {
            ("compiler-message", Some(complaint), ..) if complaint.level == "error" => complaints.push(complaint),
            ("compiler-artifact", _, Some(target), Some(path)) => built.push((target.name, path)),
            _ => {}
        }
    }
    Ok(if output.status.success() { Ok(built) } else { Err(complaints) })
}

/// The triple of this machine, as cargo's settings name it.
pub fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| "rustc names no host".to_string())
}
