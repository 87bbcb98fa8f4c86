//! Programs that notice a mutant, or do not.

use std::ffi::OsString;
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
    /// Seconds of processors that it may take: several times what it takes without a mutant.
    limit: u64,
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
            limit: PATIENCE.as_secs(),
        }
    }

    /// Runs it without a mutant: it must be content, and is given ten times as long from then on.
    pub fn calibrate(&mut self, environment: &[(&str, OsString)]) -> Result<(), String> {
        let begun = Instant::now();
        if self.notices(environment)? {
            return Err(format!("{} fails without a mutant", self.name));
        }
        let took = begun.elapsed();
        self.limit = 10 * took.as_secs() + 5;
        println!("  {:<24} {:>7.2} s", self.name, took.as_secs_f64());
        Ok(())
    }

    /// Whether it fails, or takes too long.
    pub fn notices(&self, environment: &[(&str, OsString)]) -> Result<bool, String> {
        let mut command = Command::new("sh");
        let script = "ulimit -v \"$0\"; ulimit -t \"$1\"; ulimit -c 0; shift; exec \"$@\"";
        command.args(["-c", script]).arg(MEMORY_KIB.to_string()).arg(self.limit.to_string());
        command.arg(&self.program).args(&self.arguments).current_dir(&self.directory);
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
