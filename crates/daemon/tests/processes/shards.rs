//! Locks that are divided among two shards, with real processes: who has which, what the loss of one means to the
//! other, and that nobody who divides otherwise is granted anything (docs/shards.md).

use crate::support;

use std::process::Command;
use std::time::Duration;
use support::etcd::Etcd;
use support::shards::joined_daemon_of;
use support::{Daemon, Ended, Running, connect, end, eventually, signal_process, wayside};
use wayside_client::{Endpoints, Error, Name, Session, Shards};
use wayside_hosts::Host;

const DIVIDED: [&str; 4] = ["--shards", "east,west", "--lease", "1s"];

fn daemon_of(shard: &str) -> Daemon {
    Daemon::start(&[&["--shard", shard], &DIVIDED[..]].concat())
}

/// The place of the shard that has this name: 0 is east.
fn owner(name: &str) -> usize {
    let shards = Shards::new(["east", "west"].map(String::from)).unwrap();
    shards.owner(Name::from(name).id().unwrap())
}

/// So many names of a shard.
fn names_of(shard: usize, count: usize) -> Vec<String> {
    (0..).map(|number| format!("job-{number}")).filter(|name| owner(name) == shard).take(count).collect()
}

struct Pair {
    east: Daemon,
    west: Daemon,
}

impl Pair {
    fn start() -> Pair {
        Pair { east: daemon_of("east"), west: daemon_of("west") }
    }

    fn endpoints(&self) -> String {
        format!("west={};east={}", self.west.address, self.east.address)
    }

    fn session(&self) -> Session {
        connect(self.endpoints())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wayside(arguments);
        command.env("WAYSIDE_ENDPOINTS", self.endpoints());
        command
    }

    fn lock(&self, arguments: &[&str]) -> Ended {
        end(self.command(&[&["lock"], arguments].concat()))
    }
}

/// Names that a switch knows to be held, in order.
fn held(daemon: &Daemon) -> Vec<String> {
    let locks = daemon.json("locks");
    sorted(locks["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap().into()).collect())
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Its lock may be another shard's than its key: that one, too, is to see that a process of the command's lives.
#[test]
fn a_campaigns_command_outlives_its_parent_at_the_shard_of_the_lock() {
    let start = |shard| Daemon::start(&["--shard", shard, "--shards", "east,west", "--lease", "30s"]);
    let pair = Pair { east: start("east"), west: start("west") };
    let name = names_of(1, 1).remove(0);
    // In a session of its own: whatever ends the command's group leaves it. It says so itself, once it is there.
    let script = "setsid sh -c 'echo $$; exec sleep 600' & wait";
    let command = ["election", "campaign", name.as_str(), "--value", "x", "--", "sh", "-c", script];
    let campaign = Running::start(pair.command(&command));
    let lives: i32 = campaign.line().parse().expect("a process");
    campaign.signal(libc::SIGKILL);
    campaign.wait();
    let other = pair.session();
    std::thread::sleep(Duration::from_secs(1));
    let tried = other.lock(name.as_str()).try_lock().map(drop);
    signal_process(lives, libc::SIGKILL);
    assert!(matches!(tried, Err(Error::Busy { .. })), "{tried:?}");
    eventually("its end is noticed", || other.lock(name.as_str()).try_lock().is_ok());
}

#[test]
fn each_shard_has_its_locks_and_no_other() {
    let pair = Pair::start();
    let (session, other) = (pair.session(), pair.session());
    let expected = [("east".into(), pair.east.address), ("west".into(), pair.west.address)];
    assert_eq!(session.shards(), expected);
    let (east, west) = (sorted(names_of(0, 20)), sorted(names_of(1, 20)));
    let all: Vec<&str> = west.iter().chain(&east).map(String::as_str).collect();

    let guards = session.lock_many(all.iter().copied()).acquire().unwrap();
    assert_eq!((held(&pair.east), held(&pair.west)), (east.clone(), west.clone()));
    assert!(guards.each().iter().all(|guard| !guard.is_lost()));
    let busy = |session: &Session, name: &str| matches!(session.lock(name).try_lock(), Err(Error::Busy { .. }));
    assert!(all.iter().all(|name| busy(&other, name)), "whoever divides alike asks the same one");
    let some = [east[3].as_str(), west[3].as_str()];
    assert!(matches!(other.lock_many(some).try_lock(), Err(Error::Busy { .. })));
    guards.release().unwrap();
    let first = other.lock_many(some).try_lock().unwrap();
    assert_eq!(first.each().len(), 2);
    drop(first);

    // As futures, by a driver that reads for both.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guards = runtime.block_on(async {
        tokio::spawn(session.driver());
        let one = session.lock(west[0].as_str()).await.unwrap();
        one.release().unwrap();
        let refused = session.lock_many(["", "a"]).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidName(_)), "{refused}");
        session.lock_many(all.iter().copied()).await.unwrap()
    });
    assert_eq!((held(&pair.east), held(&pair.west)), (east.clone(), west.clone()));
    assert!(all.iter().all(|name| guards.of(*name).is_some()));
    drop(guards);

    // What part waits for is given up with the rest when its time is over.
    let held_there = other.lock(west[1].as_str()).acquire().unwrap();
    let wait = Duration::from_millis(100);
    let waited = session.lock_many([east[1].as_str(), west[1].as_str()]).wait(wait).acquire();
    assert!(matches!(waited, Err(Error::TimedOut)));
    assert!(other.lock(east[1].as_str()).try_lock().is_ok(), "the first of them was given back");
    drop(held_there);

    let status = end(pair.command(&["status"])).stdout;
    for line in [
        "shard east\nswitch: ",
        "shard west\nswitch: ",
        "shards: this is west, which has 50 % of the names; the others: east",
    ] {
        assert!(status.contains(line), "{status}");
    }
    session.store().put("config/limit", "10").unwrap();
    assert_eq!(other.store().get("config/limit").unwrap().unwrap().value.bytes(), b"10");
    session.close();
    other.close();
    eventually("sessions are over", || pair.west.json("status")["sessions"].as_array().unwrap().is_empty());
}

#[test]
fn the_loss_of_one_shard_is_nothing_to_the_other() {
    let mut pair = Pair::start();
    let session = pair.session();
    let (east, west) = (names_of(0, 2), names_of(1, 2));
    let [kept, lost] = [&east[0], &west[0]].map(|name| session.lock(name.as_str()).acquire().unwrap());
    pair.west.kill();
    eventually("its locks are lost", || lost.is_lost());
    assert!(!kept.is_lost());
    session.lock(east[1].as_str()).acquire().unwrap().release().unwrap();
    let command = pair.lock(&[&east[1], "--", "true"]);
    assert_eq!(command.code, Some(0), "a command needs the shard of its lock alone: {command:?}");
    let status = end(pair.command(&["status"]));
    assert_eq!(status.code, Some(69));
    assert!(status.stdout.contains("shard east\n") && status.stderr.contains("shard west: no Wayside"), "{status:?}");
    pair.west.restart();
    let again = session.lock(west[1].as_str()).wait(support::PATIENCE);
    again.acquire().expect("the session with it has begun anew").release().unwrap();
    assert!(!kept.is_lost());
    kept.release().unwrap();
}

#[test]
fn whoever_divides_names_otherwise_is_granted_nothing() {
    let pair = Pair::start();
    let (east, west) = (pair.east.address, pair.west.address);
    let third = Daemon::start(&["--shard", "north", "--shards", "east,north,west"]);
    for (endpoints, what) in [
        (east.to_string(), "no shards at all"),
        (format!("east={west};west={east}"), "the switches are changed round"),
        (format!("east={east};west={west};north={}", third.address), "one more"),
        (format!("east={east};south={west}"), "another name"),
    ] {
        let refused = Session::connect(endpoints.as_str()).map(|_| ()).expect_err(what);
        assert!(refused.to_string().contains("locks are divided among shards"), "{what}: {refused}");
        // By a command the shard of its lock alone is asked: not the third, which divides so.
        let asked = Endpoints::parse(&endpoints).unwrap().of_lock("jobs".into()).unwrap()[0].to_string();
        assert_ne!(asked, third.address.to_string(), "another name would do");
        let ended = end(wayside(&["lock", "jobs", "--endpoint", &endpoints, "--", "true"]));
        assert_eq!(ended.code, Some(69), "{what}: {ended:?}");
    }
    let alone = Daemon::start(&[]);
    let refused = Session::connect(format!("east={east};west={}", alone.address)).map(|_| ()).expect_err("no shard");
    assert!(refused.to_string().contains("locks are divided among shards"), "{refused}");
}

#[test]
fn records_are_of_the_shards_that_they_began_with() {
    let mut east = daemon_of("east");
    assert_eq!(east.interrupt().code(), Some(0));
    let state = east.directory.path().join("state");
    let start = |flags: &[&str]| {
        let mut command = wayside(&[&["dev", "--listen", "127.0.0.1:0"], flags].concat());
        command.arg("--state-dir").arg(&state).env("WAYSIDE_SOCKET", east.directory.path().join("control.sock"));
        end(command)
    };
    for (flags, which) in [
        (&["--shard", "east", "--shards", "east,west,north"][..], "shard east of east,north,west"),
        (&["--shard", "west", "--shards", "east,west"], "shard west of east,west"),
        (&[], "no shards"),
    ] {
        let ended = start(flags);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let why =
            format!("are those of shard east of east,west, not of {which}: --shard east --shards east,west starts");
        assert!(ended.stderr.contains(&why), "{ended:?}");
    }
    east.restart();
}

#[test]
fn a_shards_standby_takes_over_while_the_other_goes_on() {
    let Some(etcd) = Etcd::or_skip("shards with a standby") else { return };
    let flags = [&["--etcd", &etcd.url, "--shard", "east", "--serving-lease", "200ms"], &DIVIDED[..2]].concat();
    let mut first = Daemon::start(&flags);
    eventually("it serves", || first.json("status")["serving"] == true);
    let second = Daemon::start(&flags);
    let west = Daemon::start(&["--shard", "west", "--shards", "east,west"]);
    let endpoints = format!("east={},{};west={}", first.address, second.address, west.address);
    let session = connect(endpoints.as_str());
    let (easts, wests) = (names_of(0, 3), names_of(1, 3));
    let [in_east, in_west] = [&easts[0], &wests[0]].map(|name| session.lock(name.as_str()).acquire().unwrap());
    let (before, both) = (in_east.token(), [easts[1].as_str(), wests[1].as_str()]);
    first.kill();
    for _ in 0..50 {
        session.lock(wests[2].as_str()).acquire().unwrap().release().unwrap();
    }
    session.lock_many(both).acquire().unwrap().release().unwrap();
    assert_eq!(second.json("status")["serving"], true);
    assert!(!in_east.is_lost() && !in_west.is_lost(), "whoever held goes on");
    in_east.release().unwrap();
    assert!(session.lock(easts[0].as_str()).acquire().unwrap().token() > before);
    // Whoever would stand by for it divides alike.
    let other = ["dev", "--listen", "127.0.0.1:0", "--etcd", &etcd.url, "--shard", "east"];
    let directory = tempfile::tempdir().unwrap();
    let mut other = wayside(&other);
    other.arg("--state-dir").arg(directory.path()).env("WAYSIDE_SOCKET", directory.path().join("control.sock"));
    let ended = end(other);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.stderr.contains("the records in etcd are those of shard east of east,west, not of no shards"));
}

/// Two switches and a client, each a host of its own; the client has a way of its own to each.
#[test]
fn a_host_that_is_cut_off_from_one_shard_keeps_the_locks_of_the_other() {
    if let Some(why) = wayside_hosts::missing() {
        println!("skipped: shards in namespaces: {why}");
        return;
    }
    let (client, directory) = (Host::new().unwrap(), tempfile::tempdir().unwrap());
    let mut running = Vec::new();
    let switches = ["east", "west"].map(|shard| {
        let (switch, own) = (Host::new().unwrap(), if shard == "east" { 0 } else { 1 });
        client.join(&format!("eth{own}"), &switch, "eth0", 1).unwrap();
        client.ip(&format!("addr add 10.81.{own}.2/24 dev eth{own}")).unwrap();
        switch.ip(&format!("addr add 10.81.{own}.1/24 dev eth0")).unwrap();
        let listen = format!("10.81.{own}.1:7600");
        let flags = ["switch", "--listen", &listen, "--authentication", "off", "--mode", "userspace", "--shard", shard];
        let mut command = wayside(&[&flags, &DIVIDED[..]].concat());
        command.arg("--state-dir").arg(directory.path().join(shard));
        command.arg("--control-socket").arg(directory.path().join(format!("{shard}.sock")));
        switch.enter(&mut command);
        let daemon = Running::start(command);
        daemon.line();
        running.push(daemon);
        (switch, listen)
    });
    client.within(|| {
        let session = connect(format!("east={};west={}", switches[0].1, switches[1].1));
        let (easts, wests) = (names_of(0, 3), names_of(1, 3));
        let all: Vec<&str> = easts.iter().chain(&wests).map(String::as_str).collect();
        let guards = session.lock_many(all).acquire().unwrap();
        client.ip("link set eth1 down").unwrap();
        eventually("the other shard's locks are lost", || guards.of(wests[0].as_str()).unwrap().is_lost());
        for name in &easts {
            assert!(!guards.of(name.as_str()).unwrap().is_lost());
        }
        let other = names_of(0, 4).pop().unwrap();
        session.lock(other.as_str()).acquire().unwrap().release().unwrap();
        client.ip("link set eth1 up").unwrap();
        let again = session.lock(wests[0].as_str()).wait(support::PATIENCE).acquire();
        again.expect("once it is back").release().unwrap();
        for name in &easts {
            assert!(!guards.of(name.as_str()).unwrap().is_lost());
        }
    });
}

/// Sessions that begin over a secure connection say there by what they divide, and hear it.
#[test]
fn signed_sessions_divide_as_well() {
    let credentials = tempfile::tempdir().unwrap();
    let join = |shard| joined_daemon_of(shard, "east,west", &[], credentials.path());
    let daemons = ["east", "west"].map(join);
    let [east, west] = daemons.each_ref().map(|daemon| daemon.address);
    let builder = || support::builder().credentials(credentials.path());
    let session = builder().endpoint(format!("east={east};west={west}")).connect().unwrap();
    let (in_east, in_west) = (names_of(0, 5), names_of(1, 5));
    let guards = session.lock_many(in_east.iter().chain(&in_west)).acquire().unwrap();
    assert_eq!((held(&daemons[0]), held(&daemons[1])), (sorted(in_east), sorted(in_west)));
    guards.release().unwrap();
    for endpoints in [east.to_string(), format!("east={west};west={east}")] {
        // All of it is waited for: which shards there are may be told in a moment.
        let refused = builder().endpoint(endpoints).patience(Duration::from_secs(6)).connect();
        let refused = refused.map(|_| ()).expect_err("other shards");
        assert!(refused.to_string().contains("locks are divided among shards"), "{refused}");
    }
    let answers = &daemons[0].json("status")["authentication"]["answers"]["enrol"];
    assert!(answers["other_shards"].as_u64() >= Some(1), "{answers}");
}
