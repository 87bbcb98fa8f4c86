//! The workers of one part of the demo, as the demo sees them.

use crate::bank::{Bank, Statement};
use crate::hosts::{HOSTS, Hosts, Place};
use crate::messages::{Order, Said};
use crate::process::{Process, command};
use crate::screen::{Screen, grouped};
use crate::system;
use crate::tally::Tally;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a condition is looked at while nothing is heard.
const LOOK: Duration = Duration::from_millis(2);
/// How often the progress is shown.
const SHOW: Duration = Duration::from_millis(250);

/// Why the demo ends before its end.
#[derive(Debug)]
pub enum Failure {
    /// Somebody wants it so.
    Interrupted,
    /// Something did not happen that should have, or the other way round.
    Failed(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

pub fn failed<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Failed(why.into()))
}

/// How the workers are started.
pub struct Terms {
    pub bank: PathBuf,
    pub count: usize,
    /// The daemon's socket for processes on its own host; None: without a switch, and without locks.
    pub control_socket: Option<PathBuf>,
    pub fenced: bool,
}

struct Worker {
    process: Process,
    /// What it said, but for reports.
    said: VecDeque<Said>,
    /// Its end is expected.
    dismissed: bool,
    gone: bool,
}

pub struct Crew {
    workers: Vec<Worker>,
    /// Lines by worker; None at their end.
    inbox: Receiver<(usize, Option<String>)>,
    bank: Bank,
    began: Instant,
    shown: Instant,
    pub tally: Tally,
}

/// The host that a worker is on: one after the other.
pub fn host_of(worker: usize) -> usize {
    worker % HOSTS
}

/// Whether a daemon runs on that host, for the kernel to tell it of the end of processes there. All hosts of the demo
/// have one kernel; to two of them the daemon's socket is not shown, as if they were machines of their own.
fn has_daemon(host: usize) -> bool {
    host < HOSTS / 2
}

impl Crew {
    /// Starts the workers and waits until all are ready. Gives back what lease and grace the switch granted.
    pub fn start(terms: &Terms, hosts: &Hosts, screen: &mut Screen) -> Result<(Crew, Duration, Duration), Failure> {
        let (tell, inbox) = channel();
        let program = std::env::current_exe()?;
        let mut workers = Vec::new();
        for index in 0..terms.count {
            let tell = tell.clone();
            let hear = move |line| {
                // Nobody listens any more while the demo ends.
                let _ = tell.send((index, line));
            };
            let command = worker_command(&program, terms, hosts, index);
            let process = Process::start(command, hosts, Place::Host(host_of(index)), hear)?;
            workers.push(Worker { process, said: VecDeque::new(), dismissed: false, gone: false });
        }
        let bank = Bank::open(&terms.bank, false)?;
        let now = Instant::now();
        let mut crew = Crew { workers, inbox, bank, began: now, shown: now, tally: Tally::default() };
        let mut granted = (Duration::ZERO, Duration::ZERO);
        for index in 0..terms.count {
            let ready = |said: &Said| match *said {
                Said::Ready { lease_us, grace_us } => Some((lease_us, grace_us)),
                _ => None,
            };
            let (lease, grace) = crew.hear(screen, index, "be ready", ready)?;
            granted = (Duration::from_micros(lease), Duration::from_micros(grace));
        }
        Ok((crew, granted.0, granted.1))
    }

    pub fn count(&self) -> usize {
        self.workers.len()
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    pub fn statement(&self) -> Result<Statement, Failure> {
        Ok(self.bank.statement()?)
    }

    pub fn order(&mut self, worker: usize, order: &Order) -> Result<(), Failure> {
        let line = serde_json::to_string(order).expect("numbers and names become text");
        Ok(self.workers[worker].process.tell(&line)?)
    }

    /// `kill -9`. When, in microseconds since boot.
    pub fn kill(&mut self, worker: usize) -> Result<u64, Failure> {
        self.workers[worker].dismissed = true;
        let at = system::now_us();
        self.workers[worker].process.kill()?;
        Ok(at)
    }

    pub fn signal(&self, worker: usize, signal: i32) -> Result<(), Failure> {
        Ok(self.workers[worker].process.signal(signal)?)
    }

    /// Waits until the worker has said what `pick` looks for.
    pub fn hear<T>(
        &mut self,
        screen: &mut Screen,
        worker: usize,
        what: &str,
        pick: impl Fn(&Said) -> Option<T>,
    ) -> Result<T, Failure> {
        let what = format!("worker {} was to {what}", worker + 1);
        self.until(screen, Duration::from_secs(15), &what, |crew| {
            let said = &mut crew.workers[worker].said;
            while let Some(said) = said.pop_front() {
                if let Some(found) = pick(&said) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }

    /// Lets the workers work.
    pub fn watch(&mut self, screen: &mut Screen, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.listen(screen)?;
        }
        Ok(())
    }

    /// Waits until `look` finds something.
    pub fn until<T>(
        &mut self,
        screen: &mut Screen,
        most: Duration,
        what: &str,
        mut look: impl FnMut(&mut Crew) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let end = Instant::now() + most;
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if Instant::now() >= end {
                return failed(format!("{what}, and did not within {} s", most.as_secs_f32()));
            }
            self.listen(screen)?;
        }
    }

    /// Hears one line, if one comes soon.
    fn listen(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        if system::is_interrupted() {
            return Err(Failure::Interrupted);
        }
        if self.shown.elapsed() >= SHOW {
            self.shown = Instant::now();
            let transfers = self.bank.statement()?.transfers;
            let seconds = self.began.elapsed().as_secs_f64();
            screen.progress(&format!("{seconds:>7.1} s  {} transfers", grouped(transfers)));
        }
        match self.inbox.recv_timeout(LOOK) {
            Ok((worker, Some(line))) => self.note(worker, &line),
            Ok((worker, None)) => {
                let index = worker;
                let worker = &mut self.workers[index];
                worker.gone = true;
                if worker.dismissed { Ok(()) } else { failed(format!("worker {} ended by itself", index + 1)) }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    fn note(&mut self, worker: usize, line: &str) -> Result<(), Failure> {
        let said = serde_json::from_str(line)
            .map_err(|error| Failure::Failed(format!("worker {}: {line}: {error}", worker + 1)))?;
        match said {
            Said::Report(report) => self.tally.add(&report),
            said => self.workers[worker].said.push_back(said),
        }
        Ok(())
    }

    /// Lets all finish, and waits for their last reports.
    pub fn dismiss(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        for index in 0..self.count() {
            if !self.workers[index].dismissed {
                self.workers[index].dismissed = true;
                self.order(index, &Order::Stop)?;
            }
        }
        self.until(screen, Duration::from_secs(25), "the workers were to end", |crew| {
            Ok(crew.workers.iter().all(|worker| worker.gone).then_some(()))
        })
    }
}

fn worker_command(program: &Path, terms: &Terms, hosts: &Hosts, index: usize) -> std::process::Command {
    let mut command = command(program);
    command.arg("worker").arg("--bank").arg(&terms.bank);
    if let Some(socket) = &terms.control_socket {
        command.arg("--endpoint").arg(hosts.listen.to_string());
        let shown = if has_daemon(host_of(index)) { socket.clone() } else { socket.with_extension("elsewhere") };
        command.env(wayside_client::SOCKET_VARIABLE, shown);
    }
    if !terms.fenced {
        command.arg("--without-fencing");
    }
    command
}
