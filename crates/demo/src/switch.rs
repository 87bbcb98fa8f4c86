//! The switch: the real `wayside switch`, with a directory of its own.

use crate::crew::{Failure, failed};
use crate::hosts::{Hosts, Place};
use crate::process::{Process, command};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// It says that it is ready within a second, even on a busy machine.
const START: Duration = Duration::from_secs(15);

pub struct Switch {
    process: Process,
}

/// Where the switch keeps what.
pub struct SwitchFiles {
    program: PathBuf,
    config: PathBuf,
    pub control_socket: PathBuf,
}

impl SwitchFiles {
    /// Writes its configuration.
    pub fn write(program: &Path, directory: &Path, hosts: &Hosts, lease: Duration) -> Result<SwitchFiles, Failure> {
        let (config, control_socket) = (directory.join("switch.toml"), directory.join("switch.sock"));
        let text = format!(
            "listen = {:?}\nadmin_listen = {:?}\nlease = \"{}ms\"\nstate_dir = {:?}\ncontrol_socket = {:?}\n",
            hosts.listen.to_string(),
            hosts.admin_listen.to_string(),
            lease.as_millis(),
            directory.join("state"),
            control_socket,
        );
        std::fs::write(&config, text)?;
        Ok(SwitchFiles { program: program.to_owned(), config, control_socket })
    }
}

impl Switch {
    /// Starts it and waits until it is ready.
    pub fn start(files: &SwitchFiles, hosts: &Hosts) -> Result<Switch, Failure> {
        let mut command = command(&files.program);
        command.arg("switch").arg("--config").arg(&files.config);
        let (tell, lines) = channel();
        let hear = move |line| {
            // Nobody listens to later lines.
            let _ = tell.send(line);
        };
        let process = Process::start(command, hosts, Place::Switch, hear)
            .map_err(|error| Failure::Failed(format!("can't start {}: {error}", files.program.display())))?;
        match lines.recv_timeout(START) {
            Ok(Some(line)) if line.contains("ready") => Ok(Switch { process }),
            Ok(Some(line)) => failed(format!("the switch said: {line}")),
            _ => failed("the switch did not start"),
        }
    }

    /// `kill -9`: its memory of the locks is gone.
    pub fn kill(mut self) -> Result<(), Failure> {
        Ok(self.process.kill()?)
    }

    pub fn runs(&mut self) -> Result<bool, Failure> {
        Ok(self.process.ended()?.is_none())
    }
}
