//! Programs that notice a mutant, or do not.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Address space of a judge in KiB: a mutant may ask for memory without end.
const MEMORY_KIB: u64 = 8 << 20;

/// One program. It fails if it notices.
pub struct Judge {
    pub name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    directory: PathBuf,
    /// What all of it takes without a mutant.
    seconds: f64,
}

/// However busy the machine is: who takes longer without computing waits for ever.
const PATIENCE: Duration = Duration::from_secs(600);

impl Judge {
    /// `directory`: where it runs.
    pub fn new(name: &str, program: &Path, arguments: &[&str], directory: &Path) -> Judge {
        Judge {
            name: name.to_string(),
            program: program.to_path_buf(),
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: directory.to_path_buf(),
            seconds: 0.0,
        }
    }

    /// The tests that it has, if it is a program of tests.
    pub fn tests(&self) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(["--list", "--format", "terse"]).current_dir(&self.directory);
        let output = command.output().map_err(|error| format!("{}: {error}", self.name))?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect())
    }

    /// Runs it without a mutant: it must be content.
    pub fn calibrate(&mut self, environment: &[(&str, OsString)]) -> Result<(), String> {
        self.seconds = self.measure(&[], environment)?;
        println!("  {:<24} {:>7.2} s", self.name, self.seconds);
        Ok(())
    }

    /// The same with these words behind its own: the seconds of the processors that it takes.
    pub fn measure(&self, words: &[String], environment: &[(&str, OsString)]) -> Result<f64, String> {
        let before = children_seconds();
        if self.fails(words, PATIENCE.as_secs_f64(), environment)? {
            return Err(format!("{} {words:?} fails without a mutant", self.name));
        }
        Ok(children_seconds() - before)
    }

    /// Whether it fails, or takes too long.
    pub fn notices(&self, environment: &[(&str, OsString)]) -> Result<bool, String> {
        self.fails(&[], self.seconds, environment)
    }

    /// The same with these words behind its own, which make it do what takes so many seconds without a mutant: it has
    /// ten times as long, of the processors' time.
    pub fn fails(&self, words: &[String], seconds: f64, environment: &[(&str, OsString)]) -> Result<bool, String> {
        let limit = (10.0 * seconds) as u64 + 3;
        let mut command = Command::new("sh");
        let script = "ulimit -v \"$0\"; ulimit -t \"$1\"; ulimit -c 0; shift; exec \"$@\"";
        command.args(["-c", script]).arg(MEMORY_KIB.to_string()).arg(limit.to_string());
        command.arg(&self.program).args(&self.arguments).args(words).current_dir(&self.directory);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let begun = Instant::now();
        loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => return Ok(!status.success()),
                None if begun.elapsed() > PATIENCE => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok(true);
                }
                None => sleep(Duration::from_millis(2)),
            }
        }
    }
}

/// What the processors have done so far for programs that have ended. By the clock it would depend on who else is busy.
fn children_seconds() -> f64 {
    // Behind the name, which may be anything: from the state, the third field, on.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}
