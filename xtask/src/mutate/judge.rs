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
    /// As long as it may take: as long as without a mutant several times.
    limit: Duration,
}

impl Judge {
    /// `directory`: where it runs.
    pub fn new(name: &str, program: &Path, arguments: &[&str], directory: &Path) -> Judge {
        Judge {
            name: name.to_string(),
            program: program.to_path_buf(),
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: directory.to_path_buf(),
            limit: Duration::from_secs(300),
        }
    }

    /// Runs it without a mutant: it must be content, and is given ten times as long from then on.
    pub fn calibrate(&mut self, environment: &[(&str, OsString)]) -> Result<(), String> {
        let begun = Instant::now();
        if self.notices(environment)? {
            return Err(format!("{} fails without a mutant", self.name));
        }
        let took = begun.elapsed();
        self.limit = took * 10 + Duration::from_secs(5);
        println!("  {:<24} {:>7.2} s", self.name, took.as_secs_f64());
        Ok(())
    }

    /// Whether it fails, or takes too long.
    pub fn notices(&self, environment: &[(&str, OsString)]) -> Result<bool, String> {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v \"$0\" -c 0; exec \"$@\""]).arg(MEMORY_KIB.to_string());
        command.arg(&self.program).args(&self.arguments).current_dir(&self.directory);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let begun = Instant::now();
        loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => return Ok(!status.success()),
                None if begun.elapsed() > self.limit => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok(true);
                }
                None => sleep(Duration::from_millis(2)),
            }
        }
    }
}
