//! A child process that ends with its owner, whichever way that ends.

use crate::hosts::{Hosts, Place};
use crate::system;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a command at a place; its lines go to `hear`, None at their end.
    pub fn start(
        mut command: Command,
        hosts: &Hosts,
        place: Place,
        mut hear: impl FnMut(Option<String>) + Send + 'static,
    ) -> io::Result<Process> {
        hosts.enter(&mut command, place);
        system::prepare_child(&mut command);
        // A group of its own: Ctrl-C at the terminal is for the demo, which then ends its children.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| hear(Some(line)));
            hear(None);
        });
        Ok(Process { child })
    }

    /// Writes a line to its standard input.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        self.child.stdin.as_mut().expect("piped, and closed only by waiting").write_all(format!("{line}\n").as_bytes())
    }

    pub fn signal(&self, signal: i32) -> io::Result<()> {
        system::signal(self.child.id(), signal)
    }

    /// Ends it by SIGKILL, and returns when it is gone.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Asks it to end, by SIGTERM, and returns when it has; by SIGKILL if that takes too long. Whether it was well.
    pub fn stop(&mut self) -> io::Result<bool> {
        /// A switch detaches its program within milliseconds.
        const MOST: Duration = Duration::from_secs(5);
        if self.ended()?.is_none() {
            self.signal(libc::SIGTERM)?;
        }
        let asked = Instant::now();
        while asked.elapsed() < MOST {
            if let Some(status) = self.ended()? {
                return Ok(status.success());
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.kill().map(|()| false)
    }

    /// Its end, if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or does now.
        let _ = self.kill();
    }
}

/// A command of ours, without what this process's environment says to Wayside.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"WAYSIDE_") {
            command.env_remove(variable);
        }
    }
    command
}
