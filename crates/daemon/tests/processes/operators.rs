//! Changes of the shards that do not go as they should: operators who stop, die or come late, switches that are away or
//! have forgotten, processes that start meanwhile (docs/shards.md, "Adding and draining").

use crate::support;

use std::time::Duration;
use support::etcd::Etcd;
use support::shards::{command, daemon_of, flags_of, name_that_goes, shard, step_of, waiting};
use support::{Daemon, Ended, Running, connect, end, eventually, signal_process, wayside};
use wayside_client::{Guard, Session};

const TWO: &[&str] = &["east", "west"];
const THREE: &[&str] = &["east", "north", "west"];

/// Two shards, and a third one that may join them.
struct Fabric {
    east: Daemon,
    west: Daemon,
    north: Daemon,
    endpoints: String,
    session: Session,
}

impl Fabric {
    fn start() -> Fabric {
        let (east, west) = (daemon_of("east", "east,west", &[]), daemon_of("west", "east,west", &[]));
        let north = daemon_of("north", "east,north,west", &["--shard-joins"]);
        let endpoints = format!("east={};west={}", east.address, west.address);
        let session = connect(endpoints.as_str());
        Fabric { east, west, north, endpoints, session }
    }

    fn shard(&self, arguments: &[&str]) -> Ended {
        shard(arguments, &self.endpoints)
    }

    fn north(&self) -> String {
        format!("north={}", self.north.address)
    }

    fn add(&self) {
        let added = self.shard(&["add", &self.north()]);
        assert_eq!(added.code, Some(0), "{added:?}");
    }

    /// Holds a lock that would go to the new shard, and begins to add it.
    fn add_in_vain(&self) -> (Guard, Running) {
        let guard = self.session.lock(moves().as_str()).acquire().unwrap();
        (guard, waiting(&["add", &self.north()], &self.endpoints, TWO))
    }

    fn version_of(&self, daemon: &Daemon) -> (u64, String, bool) {
        let name = if daemon.address == self.north.address { "north" } else { "east" };
        let status = end(command(&["status", "-o", "json"], &format!("{};{}", self.endpoints, self.north())));
        let lines = status.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let line = lines.into_iter().find(|line| line["shard"] == name).unwrap();
        let step = line["step"].as_str().unwrap().to_owned();
        (line["version"].as_u64().unwrap(), step, line["open"].as_bool().unwrap())
    }
}

/// From the second shard to the third.
fn moves() -> String {
    name_that_goes(("west", TWO), ("north", THREE))
}

/// At the first shard.
fn stays() -> String {
    name_that_goes(("east", TWO), ("east", THREE))
}

#[test]
fn a_command_that_was_suspended_does_nothing_once_another_took_the_change_back() {
    let fabric = Fabric::start();
    let (guard, add) = fabric.add_in_vain();
    signal_process(add.pid(), libc::SIGSTOP);
    let undone = fabric.shard(&["undo"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.stdout.contains("taken back: locks are divided among east, west"), "{undone:?}");
    signal_process(add.pid(), libc::SIGCONT);
    assert_eq!(add.wait().code(), Some(69));
    assert_eq!(fabric.version_of(&fabric.north), (1, "announced".into(), false));
    assert!(!guard.is_lost());
    drop(guard);
    fabric.add();
    assert_eq!(fabric.version_of(&fabric.north), (3, "settled".into(), true));
}

#[test]
fn a_switch_that_stands_still_for_longer_than_a_question_waits_is_waited_for() {
    let fabric = Fabric::start();
    let (guard, add) = fabric.add_in_vain();
    signal_process(fabric.east.pid(), libc::SIGSTOP);
    drop(guard);
    // A question waits for two seconds.
    std::thread::sleep(Duration::from_secs(5));
    signal_process(fabric.east.pid(), libc::SIGCONT);
    assert!(add.line().contains("divided among east, north, west"));
    assert_eq!(add.wait().code(), Some(0));
    assert_eq!(fabric.version_of(&fabric.east), (1, "settled".into(), true));
}

#[test]
fn what_a_killed_command_has_left_is_ended_or_taken_back_by_others() {
    let fabric = Fabric::start();
    let (guard, add) = fabric.add_in_vain();
    drop(add);
    let again = fabric.shard(&["drain", "west"]);
    assert!(again.code == Some(69) && again.stderr.contains("is under way"), "{again:?}");
    let resume = Running::start(command(&["resume", "--within", "60s"], &fabric.endpoints));
    drop(guard);
    assert!(resume.line().contains("divided among east, north, west"));
    assert_eq!(resume.wait().code(), Some(0));
    let none = fabric.shard(&["resume"]);
    assert!(none.code == Some(0) && none.stdout.contains("no change is under way"), "{none:?}");

    let guard = fabric.session.lock(moves().as_str()).acquire().unwrap();
    drop(waiting(&["drain", "north"], &fabric.endpoints, &["north"]));
    let undone = fabric.shard(&["undo"]);
    assert!(undone.code == Some(0) && undone.stdout.contains("among east, north, west"), "{undone:?}");
    assert!(!guard.is_lost());
    assert_eq!(fabric.version_of(&fabric.north), (3, "settled".into(), true));
}

#[test]
fn a_joiner_that_begins_sessions_is_refused_before_anybody_is_told() {
    let (east, west) = (daemon_of("east", "east,west", &[]), daemon_of("west", "east,west", &[]));
    let endpoints = format!("east={};west={}", east.address, west.address);
    let north = daemon_of("north", "east,north,west", &[]);
    let added = shard(&["add", &format!("north={}", north.address)], &endpoints);
    assert_eq!(added.code, Some(69), "{added:?}");
    assert!(added.stderr.contains("north begins sessions already"), "{added:?}");
    assert!(added.stderr.contains("--shard-joins"), "{added:?}");
    let status = shard(&["status"], &endpoints);
    assert_eq!(status.stdout.matches("map 0, settled").count(), 2, "{status:?}");
}

#[test]
fn a_decision_outlives_the_records_of_the_shard_that_took_it() {
    let mut fabric = Fabric::start();
    fabric.add();
    fabric.east.kill();
    std::fs::remove_dir_all(fabric.east.directory.path().join("state")).unwrap();
    fabric.east.restart_with(&flags_of("east", "east,north,west", &[]));
    assert_eq!(fabric.version_of(&fabric.east).0, 0);
    let undone = fabric.shard(&["undo"]);
    assert!(undone.code == Some(69) && undone.stderr.contains("is decided"), "{undone:?}");
    assert_eq!(fabric.version_of(&fabric.east).0, 0, "nobody was told");
    let resumed = fabric.shard(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(fabric.version_of(&fabric.east), (1, "settled".into(), true));
    fabric.session.lock(moves().as_str()).acquire().unwrap().release().unwrap();
}

#[test]
fn nobody_says_that_no_change_is_under_way_while_a_shard_gives_no_answer() {
    let mut fabric = Fabric::start();
    fabric.west.kill();
    let says = |fabric: &Fabric, who: &str| {
        for command in ["resume", "undo", "status"] {
            let ended = fabric.shard(&[command]);
            assert!(ended.code == Some(69) && ended.stderr.contains(who), "{command}: {ended:?}");
        }
    };
    says(&fabric, "shard west");
    fabric.west.restart();
    fabric.add();
    fabric.north.kill();
    let resumed = fabric.shard(&["resume"]);
    assert!(resumed.code == Some(69) && resumed.stderr.contains("shard north"), "{resumed:?}");
}

#[test]
fn a_shard_that_dies_during_a_change_is_waited_for_and_operators_are_told_what_they_can_do() {
    const BRIEFLY: &[&str] = &["resume", "--within", "300ms"];
    const GOES_ON: &str = "`wayside shard resume` goes on once shard north answers";
    let mut fabric = Fabric::start();
    let (guard, add) = fabric.add_in_vain();
    drop(add);
    fabric.north.kill();
    let resumed = fabric.shard(BRIEFLY);
    assert_eq!(resumed.code, Some(69), "{resumed:?}");
    assert!(resumed.stderr.contains(&format!("{GOES_ON}, or `wayside shard undo` takes it back")), "{resumed:?}");
    assert_eq!(fabric.shard(&["undo"]).code, Some(0));
    drop(guard);

    fabric.north.restart();
    let (guard, add) = fabric.add_in_vain();
    fabric.north.kill();
    drop(guard);
    eventually("it is decided", || step_of("east", &fabric.endpoints) == "decided");
    let resumed = fabric.shard(BRIEFLY);
    assert_eq!(resumed.code, Some(69), "{resumed:?}");
    assert!(resumed.stderr.contains(&format!("{GOES_ON}; it is decided, and can't be taken back")), "{resumed:?}");
    fabric.north.restart();
    assert_eq!(add.wait().code(), Some(0), "it has waited");
    fabric.session.lock(moves().as_str()).acquire().unwrap().release().unwrap();
}

#[test]
fn a_daemon_starts_again_after_the_second_change_and_during_the_third() {
    let mut fabric = Fabric::start();
    fabric.add();
    let three = flags_of("east", "east,north,west", &[]);
    fabric.east.kill();
    fabric.east.restart_with(&three);
    let guard = fabric.session.lock(moves().as_str()).acquire().unwrap();
    drop(waiting(&["drain", "north"], &fabric.endpoints, &["north"]));
    fabric.east.kill();
    // By the map before, which all have still.
    fabric.east.restart_with(&three);
    drop(guard);
    let resumed = fabric.shard(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    fabric.add();
    // By one that lags behind by more than one change.
    fabric.east.kill();
    fabric.east.restart_with(&flags_of("east", "east,south,west", &[]));
    assert_eq!(fabric.version_of(&fabric.east), (3, "settled".into(), true));
    fabric.session.lock(stays().as_str()).acquire().unwrap().release().unwrap();
}

#[test]
fn who_starts_during_a_change_waits_for_names_that_move_and_for_nothing_else() {
    let fabric = Fabric::start();
    let (guard, add) = fabric.add_in_vain();
    let new = format!("{};{}", fabric.endpoints, fabric.north());
    for endpoints in [&fabric.endpoints, &new] {
        let session = connect(endpoints.as_str());
        session.lock(stays().as_str()).wait(Duration::from_secs(2)).acquire().unwrap().release().unwrap();
        let waits = session.lock(moves().as_str()).wait(Duration::from_millis(200)).acquire();
        assert_eq!(waits.err(), Some(wayside_client::Error::TimedOut));
        // One that does not wait for its session.
        let begun = Session::builder().endpoint(endpoints.as_str()).begin().unwrap();
        begun.lock(stays().as_str()).wait(Duration::from_secs(2)).acquire().unwrap().release().unwrap();
        for arguments in [&["kv", "put", "key", "value"][..], &["lock", &stays(), "--", "true"]] {
            let mut command = wayside(arguments);
            command.env("WAYSIDE_ENDPOINTS", endpoints);
            let ended = end(command);
            assert_eq!(ended.code, Some(0), "{endpoints} {arguments:?}: {ended:?}");
        }
    }
    let mut lock = wayside(&["lock", &moves(), "--", "echo", "got it"]);
    lock.env("WAYSIDE_ENDPOINTS", &new);
    let lock = Running::start(lock);
    // Longer than anybody waits for a switch.
    std::thread::sleep(Duration::from_secs(4));
    drop(guard);
    assert_eq!(lock.line(), "got it");
    assert_eq!(add.wait().code(), Some(0));
    // By what it was told before there was a third one.
    let begun = Session::builder().endpoint(fabric.endpoints.as_str()).begin().unwrap();
    begun.lock(moves().as_str()).acquire().unwrap().release().unwrap();
}

#[test]
fn standbys_neither_answer_for_their_shard_nor_refuse_for_it() {
    let Some(etcd) = Etcd::or_skip("a shard with a standby") else { return };
    let shared = |shards| flags_of("west", shards, &["--etcd", &etcd.url]);
    let serving = Daemon::start(&shared("east,west"));
    eventually("it serves", || serving.json("status")["role"] == "serving");
    let standby = Daemon::start(&shared("east,west"));
    eventually("it stands by", || standby.json("status")["role"].get("standby").is_some());
    let east = daemon_of("east", "east,west", &[]);
    let north = daemon_of("north", "east,north,west", &["--shard-joins"]);
    let of =
        |first: &Daemon, second: &Daemon| format!("east={};west={},{}", east.address, first.address, second.address);
    for endpoints in [of(&serving, &standby), of(&standby, &serving)] {
        let status = shard(&["status"], &endpoints);
        assert_eq!((status.code, status.stdout.matches("settled").count()), (Some(0), 2), "{status:?}");
        let far: Vec<String> = (0..200).map(|port| format!("127.0.0.1:{}", 1000 + port)).collect();
        let long = shard(&["add", &format!("north={},{}", north.address, far.join(","))], &endpoints);
        assert!(long.code == Some(69) && long.stderr.contains("more than 1920 bytes"), "{long:?}");
        let session = connect(endpoints.as_str());
        let guard = session.lock(moves().as_str()).acquire().unwrap();
        let added = shard(&["add", &format!("north={}", north.address), "--within", "1500ms"], &endpoints);
        assert_eq!(added.code, Some(75), "{added:?}");
        assert!(added.stderr.contains(&format!("{} held", moves())), "{added:?}");
        assert_eq!(step_of("west", &endpoints), "settled");
        drop(guard);
    }
}
