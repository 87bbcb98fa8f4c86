//! A real etcd of one member or of three, which keeps what it knows when it is killed and started again.

use super::{Running, eventually, free_address};
use std::ffi::CStr;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Ended with its owner.
pub struct Etcd {
    pub url: String,
    address: String,
    peers: String,
    /// Of several members: its name, and where all of them are, by name.
    member: Option<(String, String)>,
    directory: TempDir,
    running: Option<Running>,
    has_answered: bool,
}

/// Starts of an etcd until its ports are nobody else's.
const TRIES: u32 = 20;

impl Etcd {
    /// Started; None, and said, where it is not installed.
    pub fn or_skip(what: &str) -> Option<Etcd> {
        let mut etcd = Etcd::unstarted(what)?;
        etcd.start();
        Some(etcd)
    }

    /// For who wants to start [`Etcd::command`] elsewhere.
    pub fn unstarted(what: &str) -> Option<Etcd> {
        let there = Command::new("etcd").arg("--version").output().is_ok_and(|output| output.status.success());
        if !there {
            println!("skipped: {what}: etcd is not installed (Debian: etcd-server)");
            return None;
        }
        let (address, peers) = (free_address(), free_address());
        let url = format!("http://{address}");
        let directory = its_directory();
        Some(Etcd { url, address, peers, member: None, directory, running: None, has_answered: false })
    }

    /// Three members, started.
    pub fn three_or_skip(what: &str) -> Option<[Etcd; 3]> {
        for _ in 0..TRIES {
            let mut members = [Etcd::unstarted(what)?, Etcd::unstarted(what)?, Etcd::unstarted(what)?];
            let place = |(number, member): (usize, &Etcd)| format!("member{number}=http://{}", member.peers);
            let all = members.iter().enumerate().map(place).collect::<Vec<_>>().join(",");
            for (number, member) in members.iter_mut().enumerate() {
                member.member = Some((format!("member{number}"), all.clone()));
                member.running = Some(Running::start(member.command()));
            }
            if members.iter_mut().all(Etcd::answers) {
                return Some(members);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("three members of etcd ended {TRIES} times as soon as they were started");
    }

    /// Whether it does before it ends, since somebody else has one of its ports.
    fn answers(&mut self) -> bool {
        let (etcd, address) = (self.running.as_mut().expect("started"), &self.address);
        eventually("etcd answers", || !etcd.is_running() || TcpStream::connect(address).is_ok());
        let is_there = etcd.is_running();
        self.has_answered |= is_there;
        is_there
    }

    /// Of a member: whether it has the others, and they a leader.
    pub fn has_leader(&self) -> bool {
        self.ask("range", r#"{"key":"AA=="}"#).contains("200 OK")
    }

    pub fn pid(&self) -> i32 {
        self.running.as_ref().expect("it runs").pid()
    }

    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// What it answers to this, `range` or another order to its keys, which it takes as JSON.
    pub fn ask(&self, order: &str, question: &str) -> String {
        let mut etcd = TcpStream::connect(&self.address).expect("etcd runs");
        write!(etcd, "POST /v3/kv/{order} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{question}", question.len()).unwrap();
        let mut answer = String::new();
        etcd.read_to_string(&mut answer).unwrap();
        answer
    }

    /// For who wants a secure one: these flags besides, after [`Etcd::secure`].
    pub fn start_with(&mut self, flags: &[&str]) {
        for _ in 0..TRIES {
            let mut command = self.command();
            command.args(flags);
            self.running = Some(Running::start(command));
            if self.answers() {
                return;
            }
            // Somebody has taken a port. Nobody knows ours before it has answered for the first time.
            if !self.has_answered {
                self.move_to(free_address(), free_address());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("etcd ended {TRIES} times as soon as it was started");
    }

    fn move_to(&mut self, address: String, peers: String) {
        self.url = self.url.replace(&self.address, &address);
        (self.address, self.peers, self.directory) = (address, peers, its_directory());
    }

    /// By TLS.
    pub fn secure(mut self) -> Etcd {
        self.url = self.url.replace("http://", "https://");
        self
    }

    pub fn command(&self) -> Command {
        let (url, peers) = (&self.url, format!("http://{}", self.peers));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.directory.path()).args(["--log-level", "fatal", "--logger", "zap"]);
        command.args(["--listen-client-urls", url, "--advertise-client-urls", url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        match &self.member {
            Some((name, all)) => command.args(["--name", name, "--initial-cluster", all]),
            None => command.arg("--initial-cluster").arg(format!("default={peers}")),
        };
        command
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.running = None;
    }
}

fn its_directory() -> TempDir {
    let directory = in_memory().unwrap_or_else(|| tempfile::tempdir().expect("a directory"));
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(directory.path(), private).expect("our directory");
    directory
}

/// A directory in memory, where there is room for several members' logs, of 64 MiB and more each: etcd syncs each
/// write, and a disk that others use keeps it waiting for longer than a serving lease.
fn in_memory() -> Option<TempDir> {
    const PLACE: &CStr = c"/dev/shm";
    let mut room = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a string that ends, and a place for the answer, which is there if the call has not failed.
    let room = unsafe { (libc::statvfs(PLACE.as_ptr(), room.as_mut_ptr()) == 0).then(|| room.assume_init()) }?;
    (room.f_bavail * room.f_frsize >= 4 << 30).then(|| tempfile::tempdir_in("/dev/shm").ok())?
}

/// One switch's way to etcd, which can be closed.
pub struct Detour {
    address: SocketAddr,
    is_open: Arc<AtomicBool>,
    /// Milliseconds by which what etcd says comes late.
    pub late: Arc<AtomicU64>,
    under_way: Arc<Mutex<Vec<TcpStream>>>,
}

impl Detour {
    pub fn to(url: &str) -> Detour {
        let etcd = url.strip_prefix("http://").expect("without TLS").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let detour =
            Detour { address, is_open: Arc::new(true.into()), late: Arc::default(), under_way: Arc::default() };
        let (is_open, late, under_way) = (detour.is_open.clone(), detour.late.clone(), detour.under_way.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok).filter(|_| is_open.load(SeqCst)) {
                let Ok(far) = TcpStream::connect(&etcd) else { continue };
                let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let (mut from, mut to, late) = (far.try_clone().unwrap(), near.try_clone().unwrap(), late.clone());
                std::thread::spawn(move || {
                    let mut bytes = [0; 1 << 16];
                    while let Ok(length @ 1..) = from.read(&mut bytes) {
                        std::thread::sleep(Duration::from_millis(late.load(SeqCst)));
                        if to.write_all(&bytes[..length]).is_err() {
                            return;
                        }
                    }
                });
                under_way.lock().unwrap().extend([near, far]);
            }
        });
        detour
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn close(&self) {
        self.is_open.store(false, SeqCst);
        for stream in self.under_way.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn open(&self) {
        self.is_open.store(true, SeqCst);
    }
}
