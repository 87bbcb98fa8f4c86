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
const FILES: &[&str] = &["fission.h", "session.h", "packet.h", "seal.h", "siphash.h", "memory.h", "platform_native.h"];
/// The sources of the library: the core, and what tests and simulator have of it.
const SOURCES: &[&str] = &["native.c", "cases/race_native.c", "cases/meanwhile_native.c", "cases/siphash_native.c"];
/// Of crates/switch, the quick ones first. Neither needs root.
const TESTS: &[&str] = &["cases", "memory", "siphash", "counters", "invariants", "threads", "forgery", "rotation"];
const SEEDS: &str = "0..400";
/// The quickest that makes code of it: time goes into compiling. What survives is compared as the product has it.
const COMPILER: &str = "clang-19";
const FLAGS: &[&str] = &["-std=gnu11", "-w", "-fPIC", "-O0"];

/// Tries those that are wished for. All mutants.
pub fn run(root: &Path, place: &Path, wish: &Wish, ledger: &mut Ledger) -> Result<Vec<Mutant>, String> {
    let tree = place.join("tree");
    check_out(root, &tree, |_| Ok(()))?;
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
        let bench = Bench::new(&tree, place)?;
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
    judges: Vec<Judge>,
    /// The core without a mutant, as the product has it.
    object: Vec<u8>,
}

impl Bench {
    fn new(tree: &Path, place: &Path) -> Result<Bench, String> {
        let library = place.join("library");
        let changed = place.join("changed");
        fs::create_dir_all(&library).map_err(|error| error.to_string())?;
        let _ = fs::remove_dir_all(&changed);
        let mut bench = Bench { tree: tree.to_path_buf(), changed, library, judges: Vec::new(), object: Vec::new() };
        bench.copy()?;
        if !bench.compile()? {
            return Err(format!("{COMPILER} does not compile the core"));
        }
        bench.object = bench.as_in_the_product()?;
        bench.judges = bench.build(&place.join("build"))?;
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
    fn build(&self, target: &Path) -> Result<Vec<Judge>, String> {
        let host = machines::host()?;
        let link = format!("target.{host}.wayside_core.rustc-link-lib=[\"dylib=wayside_core\"]");
        let search = format!("target.{host}.wayside_core.rustc-link-search=[\"native={}\"]", self.library.display());
        let mut judges = Vec::new();
        for packages in [["-p", "wayside-switch", "--tests"], ["-p", "wayside-sim", "--bins"]] {
            let arguments = [&packages[..], &["--config", &link, "--config", &search]].concat();
            let built = machines::build(&self.tree, target, &arguments)?.map_err(|_| "the tests do not build")?;
            judges.extend(built);
        }
        let program = |name: &str| judges.iter().find(|(built, _)| built == name).map(|(_, path)| path.clone());
        let directory = self.tree.join("crates/switch");
        let mut found = Vec::new();
        for test in TESTS {
            let path = program(test).ok_or_else(|| format!("cargo has built no test {test}"))?;
            found.push(Judge::new(test, &path, &[], &directory));
        }
        let simulator = program("wayside-sim").ok_or("cargo has built no simulator")?;
        let arguments = ["--seeds", SEEDS, "--jobs", "1", "--no-shrink"];
        found.push(Judge::new("simulator", &simulator, &arguments, &directory));
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
            if judge.name == "invariants" && self.as_in_the_product()? == self.object {
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
        let sources = SOURCES.iter().map(|source| self.changed.join("dataplane").join(source));
        let mut command = Command::new(COMPILER);
        command.args(FLAGS).arg("-shared").args(sources).arg("-o").arg(self.library.join("libwayside_core.so"));
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(status.map_err(|error| format!("{COMPILER}: {error}"))?.success())
    }

    /// The core's object code as `cc` makes it for the product.
    fn as_in_the_product(&self) -> Result<Vec<u8>, String> {
        let object = self.library.join("product.o");
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-w", "-O2", "-c"]).arg(self.changed.join("dataplane/native.c"));
        let status = command.arg("-o").arg(&object).stderr(Stdio::null()).status();
        status.map_err(|error| format!("cc: {error}"))?;
        fs::read(&object).map_err(|error| format!("{}: {error}", object.display()))
    }
}
