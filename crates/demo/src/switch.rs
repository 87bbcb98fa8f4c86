//! The switch: the real `wayside switch`, with directories of its own.

use crate::crew::{Failure, failed};
use crate::hosts::{Hosts, Place};
use crate::process::{Process, command};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// It says that it is ready within a second, even on a busy machine.
const START: Duration = Duration::from_secs(15);
/// What it says besides comes with the same write.
const MORE: Duration = Duration::from_secs(1);

pub struct Switch {
    process: Process,
    /// It was asked to be in native XDP, and is.
    pub native: bool,
    /// What it says of its home: `native XDP on 10.76.0.1:7600 (host1, host2)`.
    pub residence: String,
    lines: Receiver<Option<String>>,
}

/// Where the switch keeps what.
pub struct SwitchFiles<'h> {
    program: PathBuf,
    config: PathBuf,
    pub control_socket: PathBuf,
    /// In bpffs, which outlives the demo: to be left as it was found.
    bpf_dir: PathBuf,
    hosts: &'h Hosts,
}

impl<'h> SwitchFiles<'h> {
    /// Writes its configuration.
    pub fn write(program: &Path, directory: &Path, hosts: &'h Hosts, lease: Duration) -> Result<Self, Failure> {
        let (config, control_socket) = (directory.join("switch.toml"), directory.join("switch.sock"));
        let bpf_dir = PathBuf::from(format!("/sys/fs/bpf/wayside-demo-{}", std::process::id()));
        let text = format!(
            "listen = {:?}\nadmin_listen = {:?}\nauthentication = \"off\"\nlease = \"{}ms\"\nstate_dir = {:?}\ncontrol_socket = {:?}\nbpf_dir = {:?}\n",
            hosts.listen.to_string(),
            hosts.admin_listen.to_string(),
            lease.as_millis(),
            directory.join("state"),
            control_socket,
            bpf_dir,
        );
        std::fs::write(&config, text)?;
        Ok(SwitchFiles { program: program.to_owned(), config, control_socket, bpf_dir, hosts })
    }

    fn command(&self) -> Command {
        let mut command = command(&self.program);
        command.arg("switch").arg("--config").arg(&self.config);
        command
    }
}

impl Drop for SwitchFiles<'_> {
    /// A daemon that was killed has left its program and memory there.
    fn drop(&mut self) {
        if self.bpf_dir.exists() {
            let mut command = self.command();
            self.hosts.enter(&mut command, Place::Switch);
            // Where this fails, so did the demo.
            let _ = command.arg("--detach").stdout(Stdio::null()).stderr(Stdio::null()).status();
            let _ = std::fs::remove_dir(&self.bpf_dir);
        }
    }
}

impl Switch {
    /// Starts it and waits until it is ready: in native XDP if `native`, else wherever it finds best.
    pub fn start(files: &SwitchFiles, native: bool) -> Result<Switch, Failure> {
        let mut command = files.command();
        command.args(["--mode", if native { "native" } else { "auto" }]);
        let (tell, lines) = channel();
        let hear = move |line| {
            // Nobody listens any more once it is to end.
            let _ = tell.send(line);
        };
        let process = Process::start(command, files.hosts, Place::Switch, hear)
            .map_err(|error| Failure::Failed(format!("can't start {}: {error}", files.program.display())))?;
        let line = lines.recv_timeout(START).ok().flatten();
        match line.as_deref().and_then(|line| line.strip_prefix("switch: ")?.rsplit_once(", ready in")) {
            Some((residence, _)) => Ok(Switch { process, native, residence: residence.to_owned(), lines }),
            None => failed(line.map_or_else(|| "the switch did not start".into(), |line| format!("it said: {line}"))),
        }
    }

    /// Whether its program decides at the XDP hook, with or without the daemon.
    pub fn at_hook(&self) -> bool {
        self.residence.contains("XDP on ")
    }

    /// Whether it has found a switch that was running, and goes on with its memory.
    pub fn took_over(&self) -> bool {
        let mut lines = std::iter::from_fn(|| self.lines.recv_timeout(MORE).ok().flatten());
        lines.any(|line| line.contains("taken over"))
    }

    /// `kill -9`: in userspace, its memory of the locks is gone; at the hook it stays.
    pub fn kill(mut self) -> Result<(), Failure> {
        Ok(self.process.kill()?)
    }

    /// SIGTERM: it leaves the hook, and its memory of the locks is gone.
    pub fn stop(mut self) -> Result<(), Failure> {
        if self.process.stop()? { Ok(()) } else { failed("the switch did not end well") }
    }

    pub fn runs(&mut self) -> Result<bool, Failure> {
        Ok(self.process.ended()?.is_none())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It detaches its program if it is asked to.
        let _ = self.process.stop();
    }
}
