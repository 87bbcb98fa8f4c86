//! The kernel's hook as a judge of the core: a mutant is compiled for BPF, goes through the kernel's verifier and
//! decides on packets in test runs. So what is there for the verifier is judged by the verifier. The tests are built
//! once, and take their objects from a directory of ours.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::core::ran;
use super::judge::Judge;
use super::ledger::Fate;
use super::machines;

/// Its name on the command line.
pub const NAME: &str = "hook";
/// In the BPF build alone: nobody else judges them.
pub const FILES: &[&str] = &["frame.h", "ways.h", "platform_bpf.h", "wayside.bpf.c"];
/// The program as users have it.
const PRODUCT: &str = "wayside.bpf";
const OBSERVED: &str = "cases/observed.bpf";
const RACING: &str = "cases/race.bpf";
/// Of crates/switch, with their words and the programs that they load. Who loads what is compiled already comes early,
/// and who waits for time to pass comes late.
const TESTS: &[(&str, &[&str], &[&str])] = &[
    ("stack", &[], &[PRODUCT]),
    ("frames", &[], &[OBSERVED]),
    ("ways", &[], &[OBSERVED]),
    ("cases", &["as_bpf"], &[OBSERVED, RACING]),
    ("differential", &[], &[OBSERVED, RACING]),
    ("cpus", &[], &[OBSERVED]),
    ("chain_threads", &["as_bpf"], &[OBSERVED]),
    ("queue_threads", &["as_bpf"], &[OBSERVED]),
    ("budget", &["at_the_hook"], &[OBSERVED]),
];
/// Of random packets through both builds: a twentieth of what the tests have by themselves.
const PACKETS: &str = "50000";

/// Why it does not judge here, if so.
pub fn missing(tree: &Path) -> Result<(), String> {
    if fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid()) != 0 {
        return Err("loading BPF needs root".to_string());
    }
    let output = Command::new("sh").args(["scripts/xdp.sh", "wayside-switch"]).current_dir(tree).output();
    let output = output.map_err(|error| format!("scripts/xdp.sh: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr).trim().to_string();
    if output.stdout.is_empty() { Err(told) } else { Ok(()) }
}

/// Whether this file is judged here alone.
pub fn is_alone(file: &str) -> bool {
    FILES.iter().any(|own| file == format!("dataplane/{own}"))
}

/// The tests, and where mutants are compiled for them.
pub struct Hook {
    /// The data plane with a mutant in it.
    data: PathBuf,
    objects: PathBuf,
    compiler: String,
    judges: Vec<(Judge, &'static [&'static str])>,
    /// The program without a mutant, and without lines.
    code: Vec<u8>,
}

impl Hook {
    /// Builds the tests, and has them done without a mutant. `changed`: where mutants stand, which has none now.
    pub fn new(tree: &Path, changed: &Path, place: &Path) -> Result<Hook, String> {
        let objects = place.join("objects");
        fs::create_dir_all(&objects).map_err(|error| error.to_string())?;
        let compilers = wayside_clang::compilers();
        let is_there = |compiler: &&String| ran(Command::new(compiler).arg("--version")).unwrap_or(false);
        let compiler = compilers.iter().find(is_there).ok_or("there is no clang")?.clone();
        let data = changed.join("dataplane");
        let mut hook = Hook { data, objects, compiler, judges: Vec::new(), code: Vec::new() };
        hook.code = hook.code()?.ok_or("clang does not compile the data plane for BPF")?;
        hook.judges = build(tree, &place.join("build-hook"))?;
        println!("judges at the hook, and what they take without a mutant");
        for program in [PRODUCT, OBSERVED, RACING] {
            if !hook.compile(program)? {
                return Err(format!("clang does not compile {program}"));
            }
        }
        let environment = hook.environment(&hook.objects);
        // Who is content where there is no program at all has skipped its tests.
        let nothing = hook.environment(&place.join("nothing"));
        for (judge, _) in &mut hook.judges {
            judge.calibrate(&environment)?;
            if !judge.notices(&nothing)? {
                return Err(format!("{} loads no BPF here: run it by hand to see why", judge.name));
            }
        }
        Ok(hook)
    }

    fn environment(&self, objects: &Path) -> [(&'static str, OsString); 2] {
        [("WAYSIDE_OBJECTS", objects.as_os_str().to_owned()), ("WAYSIDE_FUZZ_PACKETS", PACKETS.into())]
    }

    /// What becomes of the mutant that stands there. Who gives the same code is not tried.
    pub fn judge(&self) -> Result<Fate, String> {
        let Some(code) = self.code()? else { return Ok(Fate::Invalid) };
        if code == self.code {
            return Ok(Fate::Same);
        }
        let environment = self.environment(&self.objects);
        let mut compiled: Vec<&str> = Vec::new();
        for (judge, programs) in &self.judges {
            for program in programs.iter().copied() {
                if compiled.contains(&program) {
                    continue;
                }
                // The product's has been compiled: what is larger by a test's part has no room left.
                if !self.compile(program)? {
                    return Ok(Fate::Killed(judge.name.clone()));
                }
                compiled.push(program);
            }
            if judge.notices(&environment)? {
                return Ok(Fate::Killed(judge.name.clone()));
            }
        }
        Ok(Fate::SurvivedHook)
    }

    /// Compiles a program for the tests. False: clang refuses it.
    fn compile(&self, program: &str) -> Result<bool, String> {
        let name = Path::new(program).file_name().expect("a file");
        let object = self.objects.join(name).with_extension("bpf.o");
        self.ran(&["-g"], program, &object)
    }

    /// The product's code: without lines, which every mutant changes. None: clang refuses it.
    fn code(&self) -> Result<Option<Vec<u8>>, String> {
        let object = self.objects.join("code.o");
        if !self.ran(&[], PRODUCT, &object)? {
            return Ok(None);
        }
        fs::read(&object).map(Some).map_err(|error| format!("{}: {error}", object.display()))
    }

    /// Warnings are none: what a mutant does not use any more is no error.
    fn ran(&self, settings: &[&str], program: &str, object: &Path) -> Result<bool, String> {
        let mut command = wayside_clang::command(&self.compiler);
        command.args(settings).args(["-w", "-c"]).arg(self.data.join(format!("{program}.c"))).arg("-o").arg(object);
        ran(&mut command)
    }
}

/// The tests, with the programs that they load.
fn build(tree: &Path, target: &Path) -> Result<Vec<(Judge, &'static [&'static str])>, String> {
    let mut arguments = vec!["-p", "wayside-switch", "--features", "xdp"];
    arguments.extend(TESTS.iter().flat_map(|(test, ..)| ["--test", test]));
    let built = machines::build(tree, target, &arguments)?.map_err(|_| "the tests at the hook do not build")?;
    let directory = tree.join("crates/switch");
    let judge = |(test, words, programs): &(&str, &[&str], &'static [&'static str])| {
        let found = built.iter().find(|(name, _)| name == test);
        let (_, path) = found.ok_or_else(|| format!("cargo has built no {test}"))?;
        Ok((Judge::new(&format!("{NAME}, {test}"), path, words, &directory), *programs))
    };
    TESTS.iter().map(judge).collect()
}
