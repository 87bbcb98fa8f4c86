//! Acquire, release and hand-over allocate nothing once every buffer has been used: not once in 200,000 locks. A test
//! file of its own, for it counts the allocations of the process, of the sessions' background threads too; the switch,
//! and the daemon's end of the lifelines, are in another process.
//!
//! The protocol machine alone does a million, with losses and pauses, in the test of this name in `wayside-protocol`.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::{TestSwitch, eventually};
use wayside_client::daemon::abstract_name;
use wayside_client::{Session, Wait};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The first thread is the test harness's: it has a say of its own about tests that take long.
fn count() {
    // SAFETY: both ask for a number and cannot fail.
    if unsafe { libc::gettid() != libc::getpid() } {
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Cycles of three locks each.
const WARM_UP: u64 = 2_000;
const CYCLES: u64 = 66_000;
/// Of the session that sleeps: a wake-up takes 300 us on a virtual machine.
const ASLEEP: u64 = 6_600;
/// Lengths of their texts: 4 to 93 bytes.
const NAMES: u64 = 20_000;
/// Of each of two nodes.
const HAND_OVERS_WARM_UP: usize = 500;
const HAND_OVERS: usize = 5_000;
/// One of them must be clean, from the first cycle to the last.
const RUNS: usize = 3;
/// Longer than any machine's other work keeps a thread from its processor.
const LEASE: Duration = Duration::from_secs(30);
/// Set for the process that is the switch.
const BE_THE_SWITCH: &str = "WAYSIDE_TEST_BE_THE_SWITCH";

#[test]
fn the_data_path_does_not_allocate() {
    if std::env::var_os(BE_THE_SWITCH).is_some() {
        be_the_switch();
    }
    let (_switch, endpoint) = spawn_switch();
    let texts: Vec<String> = (0..NAMES).map(|id| format!("{id:0>0$}", id as usize % 90 + 4)).collect();
    // All from the beginning and to the end: that a session is over is told to the others, who take a note.
    let sessions = [Wait::Spin, Wait::Block, Wait::Block].map(|wait| connect(&endpoint, wait));
    for (session, count) in sessions.iter().zip([CYCLES, ASLEEP]) {
        cycles(session, &texts, WARM_UP);
        assert_clean("cycles", || allocations_in(|| cycles(session, &texts, count)));
    }
    assert_clean("hand-overs", || hand_overs(&sessions[1], &sessions[2]));
}

/// On a machine so busy that a thread is away while its answer lies unread, a slot may need recovery, and a census is
/// no part of the data path: then all is done once more. A data path that allocates has no clean run.
fn assert_clean(what: &str, run: impl Fn() -> u64) {
    let made: Vec<u64> = (0..RUNS).map(|_| run()).take_while(|&made| made > 0).collect();
    assert!(made.len() < RUNS, "{what}: allocations of each run: {made:?}");
    if !made.is_empty() {
        println!("{what}: runs before the clean one allocated {made:?} times");
    }
}

fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Relaxed);
    work();
    ALLOCATIONS.load(Relaxed) - before
}

/// A session that is settled: what a background thread does once is done.
fn connect(endpoint: &str, wait: Wait) -> Session {
    let session = Session::builder().endpoint(endpoint).wait(wait).lease(LEASE).connect().unwrap();
    eventually(|| session.has_lifeline());
    session
}

/// Names that nobody has just given back, by number and by text, exclusive and shared.
fn cycles(session: &Session, texts: &[String], count: u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..count {
        let round = NEXT.fetch_add(1, Relaxed);
        let exclusive = session.lock(round % NAMES).acquire().unwrap();
        let shared = session.lock(NAMES + round % NAMES).shared().acquire().unwrap();
        let text = session.lock(&texts[(round % NAMES) as usize]).acquire().unwrap();
        drop((exclusive, shared));
        text.release().unwrap();
    }
}

/// Both want one lock all the time; how many allocations that made after a warm-up.
fn hand_overs(one: &Session, other: &Session) -> u64 {
    let (warm, over, counted) = (Barrier::new(3), Barrier::new(3), Barrier::new(3));
    let take_turns = |session: &Session, count| {
        for _ in 0..count {
            session.lock("hand-over").acquire().unwrap().release().unwrap();
        }
    };
    std::thread::scope(|scope| {
        for session in [one, other] {
            scope.spawn(|| {
                take_turns(session, HAND_OVERS_WARM_UP);
                warm.wait();
                take_turns(session, HAND_OVERS);
                over.wait();
                counted.wait();
            });
        }
        warm.wait();
        let made = allocations_in(|| {
            over.wait();
        });
        counted.wait();
        made
    })
}

/// Ended with the test, however that ends. Its output stays open: the harness in it has a say after a minute, and a
/// pipe that nobody could read any more would be its end.
struct Ended {
    child: Child,
    _output: Lines<BufReader<ChildStdout>>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// This very test again, as the switch; and its address.
fn spawn_switch() -> (Ended, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(BE_THE_SWITCH, "1")
        .args(["the_data_path_does_not_allocate", "--exact", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = output.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix(PREFIX).map(str::to_owned));
    (Ended { child, _output: output }, address.expect("the switch says where it is"))
}

/// And the daemon that every session looks for once a second until it has one.
fn be_the_switch() -> ! {
    let switch = TestSwitch::start();
    let place = SocketAddr::from_abstract_name(abstract_name(switch.address)).unwrap();
    let daemon = UnixListener::bind_addr(&place).unwrap();
    println!("\n{PREFIX}{}", switch.address);
    let mut lifelines = Vec::new();
    for lifeline in daemon.incoming() {
        let mut lifeline = lifeline.unwrap();
        writeln!(lifeline, "{{\"ok\":true}}").unwrap();
        lifelines.push(lifeline);
    }
    unreachable!("a listener has no end")
}

/// Before the switch's address, among whatever else the test harness prints.
const PREFIX: &str = "switch: ";
