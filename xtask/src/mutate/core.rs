//! Mutants of the data plane's core. Tests and simulator are built once, against the core as a shared library; a mutant
//! is another library in its place, so that it costs a compilation of C and the tests' time. Whatever survives goes to
//! the kernel's hook: hook.rs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::c::{self, Edit};
use super::hook::{self, Hook};
use super::judge::Judge;
use super::ledger::{Fate, Ledger, Mutant};
use super::{Wish, check_out, machines, told};

/// What decides natively. What is in the BPF build alone is the hook's.
const FILES: &[&str] = &[
    "fission.h",
    "session.h",
    "packet.h",
    "seal.h",
    "siphash.h",
    "memory.h",
    "platform_native.h",
    "budget.h",
    "cells.h",
    "queue.h",
    "trace.h",
    "chain.h",
    "items.h",
    "take.h",
];
/// The sources of the library: the core, and what tests and simulator have of it.
const SOURCES: &[&str] = &["native.c", "cases/race_native.c", "cases/meanwhile_native.c", "cases/siphash_native.c"];
/// Of crates/switch; the last are its own. None needs root.
const TESTS: &[&str] = &[
    "cases",
    "memory",
    "siphash",
    "meanwhile",
    "copies",
    "invariants",
    "budget",
    "parts",
    "moves",
    "queue_model",
    "followed",
    "items",
    "watch",
    "copying",
    "sweeping",
    "wayside_switch",
];
/// One test at a time, and none with several threads: the quick compiler's core has no atomics, and no variables of a
/// thread.
const NO_THREADS: &[&str] = &[
    "--test-threads",
    "1",
    "--skip",
    "threads_together",
    "--skip",
    "places_are_read",
    "--skip",
    "nothing_is_missed",
    "--skip",
    "records_are_read",
];
/// What takes seconds or has threads, after the simulator.
const SLOW: &[&str] = &["counters", "rotation", "forgery", "threads", "queue_threads", "chain_threads"];
/// Its services that come by the core's files.
const SIMULATORS: &[&str] = &["lock", "queue", "chain"];
/// Without the simulator.
const NO_SEEDS: &str = "0..0";
/// Time goes into compiling, and into inlining most: without attributes nothing is.
const COMPILER: &str = "clang-19";
const FLAGS: &[&str] = &["-std=gnu11", "-w", "-fPIC", "-O0", "-D__attribute__(of)="];
/// With `--quick`: a hundredth of the time.
const QUICK: &str = "tcc";
const UNIT: &str = include_str!("quick.c");

/// Tries those that are wished for. All mutants.
pub fn run(root: &Path, place: &Path, wish: &Wish, ledger: &mut Ledger) -> Result<Vec<Mutant>, String> {
    if wish.by.as_deref().is_some_and(|by| by != hook::NAME) {
        return Err(format!("the only judge of the core that can be alone is --by {}", hook::NAME));
    }
    let tree = place.join("tree");
    check_out(root, &wish.commit, &tree, |_| Ok(()))?;
    let mut edits = Vec::new();
    for file in FILES.iter().chain(hook::FILES) {
        let path = format!("dataplane/{file}");
        let source = fs::read_to_string(tree.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        edits.extend(c::mutants(&path, &source));
    }
    if !wish.list && !wish.report {
        judge(&edits, &tree, place, wish, ledger)?;
    }
    Ok(edits.into_iter().map(|edit| edit.mutant).collect())
}

/// Tries those that are wished for.
fn judge(edits: &[Edit], tree: &Path, place: &Path, wish: &Wish, ledger: &mut Ledger) -> Result<(), String> {
    let has_hook = has_hook(tree, wish)?;
    let wanted: Vec<&Edit> = edits
        .iter()
        .enumerate()
        .filter(|(index, edit)| wants(wish, *index, &edit.mutant, ledger, has_hook))
        .map(|(_, edit)| edit)
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let court = Court::new(tree, place, wish, has_hook)?;
    for (index, edit) in wanted.iter().enumerate() {
        let fate = court.fate(edit)?;
        println!("{}/{} {fate:?}: {}", index + 1, wanted.len(), told(&edit.mutant));
        ledger.record(&edit.mutant, fate)?;
    }
    Ok(())
}

/// Whether the hook is one of the judges: not in a quick pass, and not where BPF cannot be loaded.
fn has_hook(tree: &Path, wish: &Wish) -> Result<bool, String> {
    match hook::missing(tree) {
        _ if wish.quick && wish.by.is_none() => Ok(false),
        Ok(()) => Ok(true),
        Err(why) if wish.by.is_some() => Err(format!("the hook cannot judge: {why}")),
        Err(why) => {
            println!("the hook does not judge: {why}");
            Ok(false)
        }
    }
}

/// Whether a mutant is to be tried now. By the hook alone: its own, and of the others what nobody has noticed, whatever
/// the reason, since most reasons are native ones.
fn wants(wish: &Wish, index: usize, mutant: &Mutant, ledger: &Ledger, has_hook: bool) -> bool {
    if hook::is_alone(&mutant.file) {
        return has_hook && wish.wants(index, mutant, ledger);
    }
    match ledger.fate(mutant) {
        _ if wish.by.is_none() => wish.wants(index, mutant, ledger),
        Some(Fate::Survived) => wish.means(index, mutant),
        Some(Fate::SurvivedHook) => wish.again && wish.means(index, mutant),
        _ => false,
    }
}

/// All judges, and a copy of the data plane for them, in which one file is another at a time.
struct Court {
    changed: PathBuf,
    native: Option<Bench>,
    hook: Option<Hook>,
}

impl Court {
    fn new(tree: &Path, place: &Path, wish: &Wish, has_hook: bool) -> Result<Court, String> {
        let changed = place.join("changed");
        let _ = fs::remove_dir_all(&changed);
        let script = "mkdir -p \"$1/wire\" && cp -r \"$0/dataplane\" \"$1/\" && cp -r \"$0/wire/gen\" \"$1/wire/\"";
        let status = Command::new("sh").args(["-ec", script]).arg(tree).arg(&changed).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("the data plane cannot be copied".to_string());
        }
        let native = wish.by.is_none().then(|| Bench::new(tree, &changed, place, wish)).transpose()?;
        let hook = has_hook.then(|| Hook::new(tree, &changed, place)).transpose()?;
        Ok(Court { changed, native, hook })
    }

    fn fate(&self, edit: &Edit) -> Result<Fate, String> {
        let path = self.changed.join(&edit.mutant.file);
        let source = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let mut text = source.clone();
        text.replace_range(edit.range.clone(), &edit.text);
        fs::write(&path, text).map_err(|error| error.to_string())?;
        let fate = self.judge(hook::is_alone(&edit.mutant.file));
        fs::write(&path, source).map_err(|error| error.to_string())?;
        fate
    }

    /// `alone`: it is the hook's matter.
    fn judge(&self, alone: bool) -> Result<Fate, String> {
        let native = self.native.as_ref().filter(|_| !alone);
        let natively = native.map_or(Ok(Fate::Survived), Bench::judge)?;
        match &self.hook {
            Some(hook) if natively == Fate::Survived => match hook.judge()? {
                // Natively it is another.
                Fate::Same if !alone => Ok(Fate::SurvivedHook),
                fate => Ok(fate),
            },
            _ => Ok(natively),
        }
    }
}

/// The tests, and where mutants are compiled for them.
struct Bench {
    tree: PathBuf,
    /// The data plane with a mutant in it.
    changed: PathBuf,
    library: PathBuf,
    quick: bool,
    judges: Vec<Judge>,
    /// The core without a mutant, as the product has it.
    object: Vec<u8>,
}

impl Bench {
    fn new(tree: &Path, changed: &Path, place: &Path, wish: &Wish) -> Result<Bench, String> {
        let library = place.join("library");
        fs::create_dir_all(&library).map_err(|error| error.to_string())?;
        let (tree, changed) = (tree.to_path_buf(), changed.to_path_buf());
        let mut bench = Bench { tree, changed, library, quick: false, judges: Vec::new(), object: Vec::new() };
        fs::write(bench.changed.join("quick.c"), UNIT).map_err(|error| error.to_string())?;
        fs::write(bench.changed.join("meanwhile.c"), format!("#define QUICK_MEANWHILE\n{UNIT}"))
            .map_err(|error| error.to_string())?;
        if !bench.compile()? {
            return Err(format!("{COMPILER} does not compile the core"));
        }
        bench.object = bench.as_in_the_product()?;
        // The linker wants a library of the better compiler.
        bench.judges = bench.build(&place.join("build"), wish)?;
        bench.quick = wish.quick;
        bench.compile()?;
        println!("judges, and what they take without a mutant");
        let environment = bench.environment();
        for judge in &mut bench.judges {
            judge.calibrate(&environment)?;
        }
        Ok(bench)
    }

    fn environment(&self) -> [(&'static str, OsString); 1] {
        [("LD_LIBRARY_PATH", self.library.clone().into_os_string())]
    }

    /// Tests and simulator, which find the core in the library.
    fn build(&self, target: &Path, wish: &Wish) -> Result<Vec<Judge>, String> {
        let host = machines::host()?;
        let link = format!("target.{host}.wayside_core.rustc-link-lib=[\"dylib=wayside_core\"]");
        let search = format!("target.{host}.wayside_core.rustc-link-search=[\"native={}\"]", self.library.display());
        let mut judges = Vec::new();
        let mut builds = vec![("dev", ["-p", "wayside-switch", "--tests"])];
        if wish.seeds != NO_SEEDS {
            builds.push(("simulation", ["-p", "wayside-sim", "--bins"]));
        }
        for (profile, packages) in builds {
            let settings = ["--profile", profile, "--config", &link, "--config", &search];
            let built = machines::build(&self.tree, target, &[&packages[..], &settings].concat())?;
            judges.extend(built.map_err(|_| "the tests do not build")?);
        }
        let program = |name: &str| {
            let found = judges.iter().find(|(built, _)| built == name).map(|(_, path)| path.clone());
            found.ok_or_else(|| format!("cargo has built no {name}"))
        };
        let directory = self.tree.join("crates/switch");
        let mut found = Vec::new();
        let quick = if wish.quick { NO_THREADS } else { &[] };
        for test in TESTS {
            found.push(Judge::new(test, &program(test)?, quick, &directory));
        }
        if wish.seeds != NO_SEEDS {
            for service in SIMULATORS {
                let arguments = ["--service", service, "--seeds", &wish.seeds, "--jobs", "1", "--no-shrink"];
                found.push(Judge::new(
                    &format!("simulator of {service}s"),
                    &program("wayside-sim")?,
                    &arguments,
                    &directory,
                ));
            }
        }
        for test in SLOW.iter().filter(|_| !wish.quick) {
            found.push(Judge::new(test, &program(test)?, &[], &directory));
        }
        Ok(found)
    }

    fn judge(&self) -> Result<Fate, String> {
        if !self.compile()? {
            return Ok(Fate::Invalid);
        }
        for judge in &self.judges {
            if judge.name == "invariants" && !self.quick && self.as_in_the_product()? == self.object {
                return Ok(Fate::Same);
            }
            if judge.notices(&self.environment())? {
                return Ok(Fate::Killed(judge.name.clone()));
            }
        }
        Ok(Fate::Survived)
    }

    /// Makes the library of what is there. False: it does not compile.
    fn compile(&self) -> Result<bool, String> {
        let data = self.changed.join("dataplane");
        let mut command = Command::new(if self.quick { QUICK } else { COMPILER });
        if self.quick {
            // It takes some of what is no C.
            if !ran(Command::new("cc").args(["-std=gnu11", "-w", "-fsyntax-only"]).arg(data.join("native.c")))? {
                return Ok(false);
            }
            command.arg("-w").args(["quick.c", "meanwhile.c"].map(|unit| self.changed.join(unit)));
        } else {
            command.args(FLAGS).args(SOURCES.iter().map(|source| data.join(source)));
        }
        ran(command.arg("-shared").arg("-o").arg(self.library.join("libwayside_core.so")))
    }

    /// The core's object code as `cc` makes it for the product.
    fn as_in_the_product(&self) -> Result<Vec<u8>, String> {
        let object = self.library.join("product.o");
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-w", "-O2", "-c"]).arg(self.changed.join("dataplane/native.c"));
        ran(command.arg("-o").arg(&object))?;
        fs::read(&object).map_err(|error| format!("{}: {error}", object.display()))
    }
}

/// Whether a compiler takes what it is given.
pub fn ran(command: &mut Command) -> Result<bool, String> {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.map_err(|error| format!("{:?}: {error}", command.get_program()))?.success())
}
