//! Mutants of the data plane's core. Tests and simulator are built once, against the core as a shared library; a mutant
//! is another library in its place, so that it costs a compilation of C and the tests' time.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::c::{self, Edit};
use super::judge::Judge;
use super::ledger::{Fate, Ledger, Mutant};
use super::{Wish, check_out, machines, told};

/// What decides natively. `frame.h` and `ways.h` are in the BPF build alone.
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
];
/// The sources of the library: the core, and what tests and simulator have of it.
const SOURCES: &[&str] = &["native.c", "cases/race_native.c", "cases/meanwhile_native.c", "cases/siphash_native.c"];
/// Of crates/switch. None needs root.
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
];
/// One test at a time, and none with several threads: the quick compiler's core has no atomics, and no variables of a
/// thread.
const NO_THREADS: &[&str] = &["--test-threads", "1", "--skip", "threads_together", "--skip", "places_are_read"];
/// What takes seconds or has threads, after the simulator.
const SLOW: &[&str] = &["counters", "rotation", "forgery", "threads", "queue_threads"];
/// Its services that come by the core's files.
const SIMULATORS: &[&str] = &["lock", "queue"];
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
    let tree = place.join("tree");
    check_out(root, &wish.commit, &tree, |_| Ok(()))?;
    let mut edits = Vec::new();
    for file in FILES {
        let path = format!("dataplane/{file}");
        let source = fs::read_to_string(tree.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        edits.extend(c::mutants(&path, &source));
    }
    let wanted: Vec<&Edit> = edits
        .iter()
        .enumerate()
        .filter(|(index, edit)| wish.wants(*index, &edit.mutant, ledger))
        .map(|(_, edit)| edit)
        .collect();
    if !wanted.is_empty() && !wish.list && !wish.report {
        let bench = Bench::new(&tree, place, wish)?;
        for (index, edit) in wanted.iter().enumerate() {
            let fate = bench.fate(edit)?;
            println!("{}/{} {fate:?}: {}", index + 1, wanted.len(), told(&edit.mutant));
            ledger.record(&edit.mutant, fate)?;
        }
    }
    Ok(edits.into_iter().map(|edit| edit.mutant).collect())
}

/// The tests, and where mutants are compiled for them.
struct Bench {
    tree: PathBuf,
    /// A copy of the data plane, in which one file is another at a time.
    changed: PathBuf,
    library: PathBuf,
    quick: bool,
    judges: Vec<Judge>,
    /// The core without a mutant, as the product has it.
    object: Vec<u8>,
}

impl Bench {
    fn new(tree: &Path, place: &Path, wish: &Wish) -> Result<Bench, String> {
        let library = place.join("library");
        let changed = place.join("changed");
        fs::create_dir_all(&library).map_err(|error| error.to_string())?;
        let _ = fs::remove_dir_all(&changed);
        let tree = tree.to_path_buf();
        let mut bench = Bench { tree, changed, library, quick: false, judges: Vec::new(), object: Vec::new() };
        bench.copy()?;
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

    fn copy(&self) -> Result<(), String> {
        let script = "mkdir -p \"$1/wire\" && cp -r \"$0/dataplane\" \"$1/\" && cp -r \"$0/wire/gen\" \"$1/wire/\"";
        let status = Command::new("sh").args(["-ec", script]).arg(&self.tree).arg(&self.changed).status();
        status.is_ok_and(|status| status.success()).then_some(()).ok_or("the data plane cannot be copied".to_string())
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

    fn fate(&self, edit: &Edit) -> Result<Fate, String> {
        let path = self.changed.join(&edit.mutant.file);
        let source = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let mut text = source.clone();
        text.replace_range(edit.range.clone(), &edit.text);
        fs::write(&path, text).map_err(|error| error.to_string())?;
        let fate = self.judge();
        fs::write(&path, source).map_err(|error| error.to_string())?;
        fate
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
fn ran(command: &mut Command) -> Result<bool, String> {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.map_err(|error| format!("{:?}: {error}", command.get_program()))?.success())
}
