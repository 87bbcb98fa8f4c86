//! Watches of keys by real processes: what is told, how soon, and that nothing is missed silently, whoever dies
//! (docs/chain.md, Watches).

use crate::support;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, Running, connect, end, signal_process};
use wayside_client::{Error, Event, Session, Store, Version, Watch};

fn session(daemon: &Daemon) -> Session {
    connect(daemon.address.to_string())
}

/// A command whose messages come with its answers.
fn watching(daemon: &Daemon, arguments: &[&str]) -> Running {
    let told = daemon.command(&[&["kv", "watch"], arguments].concat());
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(told.get_program()).args(told.get_args());
    for (name, value) in told.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let watch = Running::start(command);
    assert!(watch.line().starts_with("watching "));
    watch
}

/// The next thing, which is awaited.
fn next(watch: &mut Watch) -> Event {
    watch.next().expect("in time")
}

fn put(name: &str, value: &str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Put { name: n, value: v, .. } if **n == *name.as_bytes() && v.bytes() == value.as_bytes())
}

#[test]
fn the_command_writes_a_line_for_each_change() {
    let daemon = Daemon::start(&[]);
    let kv = |arguments: &[&str]| end(daemon.command(&[&["kv"], arguments].concat()));
    assert_eq!(kv(&["put", "config/old", "there before"]).code, Some(0));
    let lines = watching(&daemon, &["config/"]);
    let json = watching(&daemon, &["config/limit", "-o", "json", "--count", "3"]);
    let mut versions = Vec::new();
    for arguments in [["put", "config/limit", "10"], ["put", "other", "x"], ["put", "config/limit", "11"]] {
        versions.push(kv(&arguments).stdout.trim().to_owned());
    }
    versions.push(kv(&["del", "config/limit"]).stdout.trim().to_owned());
    let expected = [
        format!("put config/limit {} 10", versions[0]),
        format!("put config/limit {} 11", versions[2]),
        format!("deleted config/limit {}", versions[3]),
    ];
    expected.iter().for_each(|line| assert_eq!(lines.line(), *line));
    for (event, version, value) in [("put", 0, Some("10")), ("put", 2, Some("11")), ("deleted", 3, None)] {
        let line: serde_json::Value = serde_json::from_str(&json.line()).expect("JSON");
        assert_eq!(line["event"], event);
        assert_eq!((&line["name"], &line["version"]), (&"config/limit".into(), &versions[version].as_str().into()));
        assert_eq!(line["value"].as_str(), value);
    }
    assert_eq!(json.wait().code(), Some(0), "three lines");
    lines.signal(libc::SIGINT);
    assert_eq!(lines.wait().code(), Some(0), "interrupted");
    let idle = Instant::now();
    assert_eq!(kv(&["watch", "config/limit", "--wait", "300ms"]).code, Some(0));
    assert_eq!(kv(&["watch", "config/limit", "--wait", "300ms", "--count", "1"]).code, Some(75));
    assert!(idle.elapsed() >= Duration::from_millis(600));
    assert!(kv(&["watch", "x", "--namespace", "elsewhere"]).stderr.contains("no namespace"));
    let (longest, longer) = ("n".repeat(960), "n".repeat(961));
    assert!(kv(&["watch", &longer]).stderr.contains("at most 960"));
    assert_eq!(kv(&["watch", &longest, "--prefix", "--wait", "100ms"]).code, Some(0));
}

#[test]
fn what_is_written_is_told_within_milliseconds() {
    const ROUNDS: u32 = 200;
    let daemon = Daemon::start(&[]);
    let (writer, reader) = (session(&daemon), session(&daemon));
    writer.store().put("limit", "0").unwrap();
    let (found, watch) = reader.store().get_and_watch("limit").unwrap();
    assert_eq!(found.unwrap().value.bytes(), b"0");
    let mut watch = watch.wait(Duration::from_secs(10));
    let mut delays: Vec<Duration> = (0..ROUNDS)
        .map(|round| {
            let begun = Instant::now();
            writer.store().put("limit", round.to_string()).unwrap();
            let event = next(&mut watch);
            assert!(put("limit", &round.to_string())(&event), "{event:?}");
            begun.elapsed()
        })
        .collect();
    delays.sort_unstable();
    let median = delays[delays.len() / 2];
    println!("put to told: median {median:?}, longest {:?}", delays[delays.len() - 1]);
    assert!(median < Duration::from_millis(20), "{median:?}");
}

#[test]
fn futures_and_time_outs() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    let store = session.store();
    let mut watch = store.watch_prefix("key/").unwrap().wait(Duration::from_millis(50));
    assert_eq!(watch.next().unwrap_err(), Error::TimedOut);
    store.put("key/1", "x").unwrap();
    assert!(put("key/1", "x")(&watch.wait(Duration::from_secs(10)).next().unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut watch = store.watch_async("key/2").await.unwrap();
        let writer = session.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            writer.store().put_async("key/2", "later").await.unwrap();
        });
        assert!(put("key/2", "later")(&watch.next_async().await.unwrap()));
        let mut watch = watch.wait(Duration::from_millis(50));
        assert_eq!(watch.next_async().await.unwrap_err(), Error::TimedOut);
    });
    let mut closed = store.watch("key/3").unwrap();
    let ended = thread::scope(|scope| {
        let waiting = scope.spawn(|| closed.next());
        thread::sleep(Duration::from_millis(100));
        session.clone().close();
        waiting.join().unwrap()
    });
    assert_eq!(ended.unwrap_err(), Error::Closed);
}

/// 16 groups, so 16 watches each; a session may have 256.
#[test]
fn a_loop_of_short_watches_does_not_use_up_what_a_session_may_have() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    let begun = Instant::now();
    for round in 0..40 {
        let watch = session.store().wait(Duration::from_secs(10)).watch_prefix("key/");
        let watch = watch.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(watch.wait(Duration::from_millis(5)).next().unwrap_err(), Error::TimedOut, "round {round}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn no_tenant_sees_anothers_keys() {
    let namespaces = "[[namespace]]\nname = 'a'\n[[namespace]]\nname = 'b'\n[[namespace]]\nname = 'c'\nkeys = 0\n";
    let daemon = Daemon::configured(namespaces, &[]);
    let session =
        |name: &str| support::builder().endpoint(daemon.address.to_string()).namespace(name).connect().unwrap();
    let (a, b, none) = (session("a"), session("b"), session("c"));
    let wait = Duration::from_secs(10);
    let mut watches = [a.store(), b.store()].map(|store| store.watch_prefix("").unwrap().wait(wait));
    let mut keys = [a.store(), b.store()].map(|store| store.watch("same").unwrap().wait(wait));
    a.store().put("same", "of a").unwrap();
    b.store().put("same", "of b").unwrap();
    for (index, value) in ["of a", "of b"].into_iter().enumerate() {
        assert!(put("same", value)(&next(&mut watches[index])));
        assert!(put("same", value)(&next(&mut keys[index])));
    }
    for watch in watches.into_iter().chain(keys) {
        assert_eq!(watch.wait(Duration::from_millis(200)).next().unwrap_err(), Error::TimedOut, "and nothing else");
    }
    assert_eq!(none.store().watch("same").unwrap_err(), Error::NoStore);
    assert_eq!(none.store().watch_prefix("").unwrap_err(), Error::NoStore);
}

#[test]
fn watches_have_a_limit_that_is_told() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    let store = session.store();
    let store = store.wait(Duration::from_secs(10));
    // Of 16 groups each.
    let watches: Vec<Watch> = (0..16).map(|_| store.watch_prefix("x").unwrap()).collect();
    thread::sleep(Duration::from_millis(200));
    let mut refused = 0;
    for _ in 0..2 {
        let mut more = match store.watch_prefix("x") {
            Ok(watch) => watch.wait(Duration::from_secs(2)),
            Err(error) => {
                assert_eq!(error, Error::TooManyWatches);
                refused += 1;
                continue;
            }
        };
        assert_eq!(more.next().unwrap_err(), Error::TooManyWatches);
        refused += 1;
    }
    assert_eq!(refused, 2);
    drop(watches);
}

/// What a watcher knows of keys: by reading, and by what it is told.
struct Ledger<'s> {
    store: Store<'s>,
    known: BTreeMap<String, Option<Version>>,
    told: u64,
    rereads: u64,
}

impl Ledger<'_> {
    fn see(&mut self, event: Event) {
        let (name, version, before) = match event {
            Event::Put { name, version, before, .. } | Event::Deleted { name, version, before } => {
                (String::from_utf8(name.into()).unwrap(), version, before)
            }
            Event::Unnamed { version } => panic!("version {version} of a key without a name"),
            Event::Reread => {
                self.rereads += 1;
                // What comes next follows what is read now, or is what was read.
                for (name, known) in &mut self.known {
                    *known = self.store.get(name).expect("an answer").map(|entry| entry.version);
                }
                return;
            }
        };
        let known = self.known.entry(name.clone()).or_default();
        match *known {
            // It was read already.
            Some(known) if version <= known => return,
            Some(known) => assert_eq!(before, known, "{name}: something between the two was not told"),
            None => {}
        }
        *known = Some(version);
        self.told += 1;
    }
}

/// Writers write while a watcher looks on and `disturb` does its worst; then the watcher knows what there is.
fn write_and_watch<'s>(store: Store<'s>, writers: &[Session], disturb: impl FnOnce() + Send) -> Ledger<'s> {
    let mut watch = store.watch_prefix("key/").unwrap().wait(Duration::from_millis(500));
    let mut ledger = Ledger { store, known: BTreeMap::new(), told: 0, rereads: 0 };
    let disturbed = AtomicBool::new(false);
    thread::scope(|scope| {
        for (index, writer) in writers.iter().enumerate() {
            let disturbed = &disturbed;
            scope.spawn(move || {
                let store = writer.store().wait(Duration::from_secs(30));
                let mut round = 0u64;
                while !disturbed.load(SeqCst) || round < 500 {
                    let name = format!("key/{}", (round * 7 + index as u64) % 10);
                    // A switch that is away is found again.
                    let _ = store.put(name, round.to_be_bytes());
                    round += 1;
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        scope.spawn(|| {
            disturb();
            disturbed.store(true, SeqCst);
        });
        while !disturbed.load(SeqCst) {
            match watch.next() {
                Ok(event) => ledger.see(event),
                Err(error) => assert_eq!(error, Error::TimedOut),
            }
        }
    });
    let mut watch = watch.wait(Duration::from_secs(3));
    loop {
        match watch.next() {
            Ok(event) => ledger.see(event),
            Err(Error::TimedOut) => break,
            Err(error) => panic!("{error}"),
        }
    }
    for (name, known) in &ledger.known {
        let entry = ledger.store.get(name).expect("an answer");
        assert_eq!(entry.map(|entry| entry.version), *known, "{name}: the last version was told");
    }
    println!("{} told, {} rereads", ledger.told, ledger.rereads);
    ledger
}

#[test]
fn a_session_that_is_lost_misses_nothing() {
    let daemon = Daemon::start(&["--lease", "1s"]);
    let (watcher, writers) = (session(&daemon), [session(&daemon), session(&daemon)]);
    let before = watcher.info().expect("a session").incarnation;
    let ledger = write_and_watch(watcher.store().wait(Duration::from_secs(30)), &writers, || {
        thread::sleep(Duration::from_millis(300));
        signal_process(daemon.pid(), libc::SIGSTOP);
        thread::sleep(Duration::from_millis(2_500));
        signal_process(daemon.pid(), libc::SIGCONT);
        thread::sleep(Duration::from_millis(1_000));
    });
    assert!(watcher.info().expect("another session").incarnation > before, "the session was lost");
    assert_eq!(ledger.rereads, 0, "the daemon had it all");
    assert!(ledger.told > 500, "{}", ledger.told);
}

#[test]
fn a_switch_that_begins_anew_tells_to_read_again() {
    let mut daemon = Daemon::start(&["--lease", "1s"]);
    let session = session(&daemon);
    let store = session.store().wait(Duration::from_secs(30));
    let mut watch = store.watch("limit").unwrap().wait(Duration::from_secs(30));
    store.put("limit", "10").unwrap();
    assert!(put("limit", "10")(&next(&mut watch)));
    daemon.kill();
    daemon.restart();
    assert_eq!(next(&mut watch), Event::Reread);
    assert_eq!(store.get("limit").unwrap(), None, "it went with the daemon");
    store.put("limit", "11").unwrap();
    assert!(put("limit", "11")(&next(&mut watch)));
}

/// The decision is the kernel's: the daemon sees what was written in the memory that both have.
#[cfg(feature = "xdp")]
#[test]
fn what_is_written_at_the_hook_is_told_and_a_new_daemon_says_to_read_again() {
    use support::world::World;

    let Some(world) = World::or_skip(1) else { return };
    let (daemon, line) = world.daemon("native");
    assert!(line.contains("native XDP"), "{line}");
    let sessions = [0, 1].map(|client| {
        let session = world.session(client);
        session.store().get("limit").unwrap();
        session
    });
    let [writer, watcher] = sessions.each_ref().map(|session| session.store().wait(Duration::from_secs(30)));
    writer.put("limit", "0").unwrap();
    let mut watch = watcher.watch("limit").unwrap().wait(Duration::from_secs(10));
    let mut delays: Vec<Duration> = (0..200u32)
        .map(|round| {
            let begun = Instant::now();
            writer.put("limit", round.to_string()).unwrap();
            assert!(put("limit", &round.to_string())(&next(&mut watch)));
            begun.elapsed()
        })
        .collect();
    delays.sort_unstable();
    println!("put to told, at the hook: median {:?}, longest {:?}", delays[100], delays[199]);
    assert!(delays[100] < Duration::from_millis(20), "{:?}", delays[100]);
    // Threads are on the host of whoever starts them.
    let writers = [sessions[1].clone()];
    let ledger = write_and_watch(watcher, &writers, || thread::sleep(Duration::from_secs(2)));
    assert_eq!(ledger.rereads, 0);
    assert!(ledger.told > 500, "{}", ledger.told);

    let mut prefix = watcher.watch_prefix("lim").unwrap().wait(Duration::from_secs(20));
    daemon.signal(libc::SIGKILL);
    daemon.wait();
    let alone = writer.put("limit", "written without a daemon").unwrap();
    let (_daemon, _) = world.daemon("native");
    let mut watch = watch.wait(Duration::from_secs(20));
    let begun = Instant::now();
    assert_eq!(next(&mut watch), Event::Reread);
    println!("the new daemon said to read again after {:?}", begun.elapsed());
    assert_eq!(watcher.get("limit").unwrap().unwrap().version, alone);
    assert_eq!(next(&mut prefix), Event::Reread);
    writer.put("limit", "again").unwrap();
    assert!(put("limit", "again")(&next(&mut watch)));
    println!("and told what was written after {:?}", begun.elapsed());
    // The new daemon has the names of the one that is no more. Each group says for itself that it is to be read again,
    // and whoever does finds what was written before.
    let mut prefix = prefix.wait(Duration::from_millis(200));
    let told = (0..100).find_map(|_| {
        writer.put("limit", "again").unwrap();
        prefix.next().ok().filter(|event| *event != Event::Reread)
    });
    assert!(told.as_ref().is_some_and(put("limit", "again")), "{told:?}");
}
