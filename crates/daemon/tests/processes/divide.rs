//! A shard is added and another one drained while clients lock in a loop, with real processes: every critical section
//! is exclusive, tokens rise, nobody fails (docs/shards.md, "Adding and draining").

use crate::support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::shards::{command, daemon_of, joined_daemon_of, owner, shard};
use support::{Daemon, Ending, PATIENCE, Running, connect, eventually};
use wayside_client::Session;

const NAMES: usize = 60;
/// After so many milliseconds the command of a change is killed: one takes some tenths of a second.
const LIVES: [u64; 9] = [0, 15, 30, 60, 5, 100, 220, 320, 150];

fn name(index: usize) -> String {
    format!("job-{index}")
}

/// What all threads know of a lock.
#[derive(Default)]
struct Guarded {
    inside: AtomicU32,
    token: AtomicU64,
}

#[derive(Default)]
struct Load {
    locks: Vec<Guarded>,
    stop: AtomicBool,
    sections: AtomicU64,
    longest_us: AtomicU64,
}

impl Load {
    fn run(&self, session: Session, seed: usize) {
        let mut step = seed;
        while !self.stop.load(SeqCst) {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (first, second) = ((step >> 33) % NAMES, (step >> 43) % NAMES);
            let begun = Instant::now();
            // Not for ever: a test that has failed meanwhile has ended its shards, and is to end, too.
            if step >> 60 < 2 && first != second {
                let names = [name(first), name(second)];
                let guards = session.lock_many(names.iter().map(String::as_str)).wait(PATIENCE).acquire();
                let guards = guards.unwrap_or_else(|error| panic!("{error}"));
                self.enter(begun, first, guards.of(name(first).as_str()).unwrap().token().0);
                self.enter(begun, second, guards.of(name(second).as_str()).unwrap().token().0);
                [first, second].into_iter().for_each(|index| self.leave(index));
                drop(guards);
            } else {
                let guard = session.lock(name(first).as_str()).wait(PATIENCE).acquire();
                let guard = guard.unwrap_or_else(|error| panic!("{error}"));
                self.enter(begun, first, guard.token().0);
                std::thread::sleep(Duration::from_micros(200));
                self.leave(first);
                drop(guard);
            }
        }
        session.close();
    }

    fn enter(&self, begun: Instant, index: usize, token: u64) {
        self.longest_us.fetch_max(begun.elapsed().as_micros() as u64, SeqCst);
        let lock = &self.locks[index];
        assert_eq!(lock.inside.fetch_add(1, SeqCst), 0, "two hold {}", name(index));
        let before = lock.token.swap(token, SeqCst);
        assert!(token > before, "{} has token {token} after {before}", name(index));
        self.sections.fetch_add(1, SeqCst);
    }

    fn leave(&self, index: usize) {
        self.locks[index].inside.fetch_sub(1, SeqCst);
    }

    /// Some more critical sections are entered.
    fn goes_on(&self) {
        let before = self.sections.load(SeqCst);
        eventually("locks are taken", || self.sections.load(SeqCst) > before + 500);
    }
}

fn held(daemon: &Daemon) -> BTreeMap<String, String> {
    let locks = daemon.json("locks");
    let text = |lock: &serde_json::Value, field: &str| lock[field].as_str().unwrap().to_owned();
    locks["locks"].as_array().unwrap().iter().map(|lock| (text(lock, "name"), text(lock, "state"))).collect()
}

#[test]
fn a_shard_is_added_and_another_drained_under_load() {
    add_and_drain(daemon_of, |endpoints| connect(endpoints));
}

/// What a session pledges goes to each shard over TLS, and what the shards tell of the next one comes in packets that
/// are signed.
#[test]
fn so_they_are_where_packets_are_signed() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = directory.path();
    let start = |name: &str, shards: &str, more: &[&str]| joined_daemon_of(name, shards, more, credentials);
    add_and_drain(start, |endpoints| {
        support::builder().endpoint(endpoints).credentials(credentials).connect().unwrap()
    });
}

fn add_and_drain(start: impl Fn(&str, &str, &[&str]) -> Daemon, connect: impl Fn(&str) -> Session + Sync) {
    let (east, mut west) = (start("east", "east,west", &[]), start("west", "east,west", &[]));
    let endpoints = format!("east={};west={}", east.address, west.address);
    let load = Load { locks: (0..NAMES).map(|_| Guarded::default()).collect(), ..Load::default() };
    std::thread::scope(|scope| {
        let _ending = Ending(&load.stop);
        for seed in 1..=4 {
            let (load, connect, endpoints) = (&load, &connect, endpoints.as_str());
            scope.spawn(move || load.run(connect(endpoints), seed));
        }
        load.goes_on();
        let north = start("north", "east,north,west", &["--shard-joins"]);
        let added = shard(&["add", &format!("north={}", north.address)], &endpoints);
        assert_eq!(added.code, Some(0), "{added:?}");
        assert!(added.stdout.contains("divided among east, north, west"), "{added:?}");
        load.goes_on();
        // By its old configuration: it is told which shards there are.
        let late = connect(&endpoints);
        let moved = (0..).map(name).find(|name| owner(name, &["east", "north", "west"]) == "north").unwrap();
        let guard = late.lock(moved.as_str()).acquire().unwrap();
        assert!(held(&north).contains_key(&moved));
        drop(guard);

        let drained = shard(&["drain", "west"], &endpoints);
        assert_eq!(drained.code, Some(0), "{drained:?}");
        eventually("its sessions are over", || west.json("status")["sessions"].as_array().unwrap().is_empty());
        west.kill();
        load.goes_on();
        let status = shard(&["status"], &format!("east={};north={}", east.address, north.address));
        assert!(status.stdout.contains("settled: east="), "{status:?}");
        load.stop.store(true, SeqCst);
    });
    let longest = Duration::from_micros(load.longest_us.load(SeqCst));
    println!("{} critical sections, the longest wait {longest:?}", load.sections.load(SeqCst));
}

/// Ends what a command has left, by going on or, if that can still be, by taking it back. Whether north is one of the
/// shards then.
fn end_change(endpoints: &str, takes_back: bool) -> bool {
    let undone = takes_back && shard(&["undo"], endpoints).code == Some(0);
    if !undone {
        let resumed = shard(&["resume"], endpoints);
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
    }
    let status = shard(&["status"], endpoints);
    // As configured, where the command had told nobody anything yet.
    let settled = |line: &&str| line.contains("settled: ");
    let lines: Vec<&str> = status.stdout.lines().filter(settled).collect();
    let is_in = lines.iter().any(|line| line.contains("north="));
    let same = lines.windows(2).all(|two| two[0] == two[1]);
    assert!(same && lines.len() >= if is_in { 3 } else { 2 }, "takes back: {takes_back}; {status:?}");
    is_in
}

#[test]
fn a_command_that_is_killed_anywhere_leaves_what_the_next_one_ends() {
    let (east, west) = (daemon_of("east", "east,west", &[]), daemon_of("west", "east,west", &[]));
    let north = daemon_of("north", "east,north,west", &["--shard-joins"]);
    let endpoints = format!("east={};west={}", east.address, west.address);
    let added = format!("north={}", north.address);
    let load = Load { locks: (0..NAMES).map(|_| Guarded::default()).collect(), ..Load::default() };
    std::thread::scope(|scope| {
        let _ending = Ending(&load.stop);
        for seed in 1..=2 {
            let (load, endpoints) = (&load, endpoints.as_str());
            scope.spawn(move || load.run(connect(endpoints), seed));
        }
        load.goes_on();
        let mut is_in = false;
        for (takes_back, life) in [false, true].into_iter().cycle().zip(LIVES) {
            let change = if is_in { ["drain", "north"] } else { ["add", &added] };
            let running = Running::start(command(&change, &endpoints));
            std::thread::sleep(Duration::from_millis(life));
            drop(running);
            is_in = end_change(&endpoints, takes_back);
            load.goes_on();
        }
        load.stop.store(true, SeqCst);
    });
    let longest = Duration::from_micros(load.longest_us.load(SeqCst));
    println!("{} critical sections, the longest wait {longest:?}", load.sections.load(SeqCst));
}

#[test]
fn a_hold_that_does_not_end_is_named_and_the_change_taken_back() {
    let (east, west) = (daemon_of("east", "east,west", &[]), daemon_of("west", "east,west", &[]));
    let endpoints = format!("east={};west={}", east.address, west.address);
    let north = daemon_of("north", "east,north,west", &["--shard-joins"]);
    let moves = (0..).map(name).find(|name| owner(name, &["east", "north", "west"]) == "north").unwrap();
    let (session, other) = (connect(endpoints.as_str()), connect(endpoints.as_str()));
    let guard = session.lock(moves.as_str()).acquire().unwrap();
    let add = ["add", &format!("north={}", north.address), "--within", "1500ms"];
    let added = shard(&add, &endpoints);
    assert_eq!(added.code, Some(75), "{added:?}");
    assert!(added.stderr.contains(&moves) && added.stderr.contains("taken back"), "{added:?}");
    assert!(!guard.is_lost());
    assert!(other.lock(moves.as_str()).wait(Duration::from_millis(300)).acquire().is_err(), "it is held");
    guard.release().unwrap();
    other.lock(moves.as_str()).acquire().unwrap().release().unwrap();
    assert_eq!(held(&north).len(), 0);

    let added = shard(&add, &endpoints);
    assert_eq!(added.code, Some(0), "{added:?}");
    let guard = other.lock(moves.as_str()).acquire().unwrap();
    assert!(held(&north).contains_key(&moves));
    let again = shard(&add, &endpoints);
    assert_eq!(again.code, Some(0), "it has been added: {again:?}");
    drop(guard);
    for (arguments, why) in [
        (["drain", "east"], "has the keys"),
        (["drain", "south"], "no shard of this name"),
        (["add", "alpha=127.0.0.1:1"], "has the keys"),
        (["add", "zulu=127.0.0.1:1"], "shard zulu: no Wayside switch answers at 127.0.0.1:1"),
    ] {
        let refused = shard(&arguments, &endpoints);
        assert!(refused.code != Some(0) && refused.stderr.contains(why), "{refused:?}");
    }
}
