//! Keys and values of real processes: the commands, the library, and what becomes of them when a daemon dies
//! (docs/chain.md).

use crate::support;

use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use support::{Daemon, Ended, Ending, connect, end, eventually};
use wayside_client::{Condition, Error, Session, Version, Written};

fn kv(daemon: &Daemon, arguments: &[&str]) -> Ended {
    end(daemon.command(&[&["kv"], arguments].concat()))
}

fn session(daemon: &Daemon) -> Session {
    connect(daemon.address.to_string())
}

#[test]
fn commands_read_write_compare_and_list() {
    let daemon = Daemon::start(&[]);
    let kv = |arguments: &[&str]| kv(&daemon, arguments);
    let absent = kv(&["get", "limit"]);
    assert_eq!((absent.code, absent.stdout.as_str()), (Some(1), ""));
    assert_eq!(absent.stderr.trim(), "limit has no value");

    let put = kv(&["put", "limit", "10"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let version: Version = put.stdout.trim().parse().expect("a version");
    assert_eq!(kv(&["get", "limit"]).stdout, "10\n");
    let told: serde_json::Value = serde_json::from_str(&kv(&["get", "limit", "-o", "json"]).stdout).expect("JSON");
    assert_eq!(told, serde_json::json!({ "name": "limit", "version": version.to_string(), "value": "10" }));

    assert_eq!(kv(&["cas", "limit", "10", "11"]).code, Some(0));
    let unmet = kv(&["cas", "limit", "10", "12"]);
    assert_eq!(unmet.code, Some(75));
    assert!(unmet.stderr.contains("it has \"11\""), "{unmet:?}");
    assert_eq!(kv(&["put", "limit", "12", "--if-absent"]).code, Some(75));
    assert_eq!(kv(&["put", "limit", "12", "--if-version", &version.to_string()]).code, Some(75));
    assert_eq!(kv(&["get", "limit"]).stdout, "11\n");

    assert_eq!(kv(&["put", "limits/a", "x"]).code, Some(0));
    let listed = kv(&["ls", "limit"]).stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[0][0], lines[1][0], lines[1][2], lines[2][0]), ("NAME", "limit", "2", "limits/a"), "{listed}");
    assert_eq!(kv(&["del", "limit"]).code, Some(0));
    assert_eq!(kv(&["get", "limit"]).code, Some(1));
    assert_eq!(kv(&["ls", "nothing"]).stdout, "no such key\n");
    assert!(kv(&["ls", "--namespace", "elsewhere"]).stderr.contains("there is no namespace"));
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_limit() {
    let daemon = Daemon::start(&[]);
    let (long, longer) = ("v".repeat(128), "v".repeat(129));
    assert_eq!(kv(&daemon, &["put", "k", &long]).code, Some(0));
    assert_eq!(kv(&daemon, &["get", "k"]).stdout.trim(), long);
    let refused = kv(&daemon, &["put", "k", &longer]);
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.contains("129 bytes") && refused.stderr.contains("at most 128"), "{refused:?}");
    assert_eq!(kv(&daemon, &["put", &"n".repeat(960), "x"]).code, Some(0));
    assert!(kv(&daemon, &["put", &"n".repeat(961), "x"]).stderr.contains("at most 960"));
    assert!(kv(&daemon, &["get", ""]).stderr.contains("it is empty"));

    // From standard input, any bytes.
    let mut put = daemon.command(&["kv", "put", "bytes"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(&[0, 255, 10, 7]).unwrap();
    assert!(put.wait().unwrap().success());
    let told: serde_json::Value =
        serde_json::from_str(&kv(&daemon, &["get", "bytes", "-o", "json"]).stdout).expect("JSON");
    assert_eq!(told["value_hex"], "00ff0a07");
}

#[test]
fn namespaces_keep_their_keys_apart_and_have_room_for_so_many() {
    let daemon =
        Daemon::configured("[[namespace]]\nname = 'a'\nkeys = 2\n[[namespace]]\nname = 'none'\nkeys = 0\n", &[]);
    let session = |namespace: &str| {
        support::builder().endpoint(daemon.address.to_string()).namespace(namespace).connect().unwrap()
    };
    let (a, none) = (session("a"), session("none"));
    a.store().put("k", "of a").unwrap();
    a.store().put("l", "").unwrap();
    assert_eq!(a.store().put("m", "").unwrap_err(), Error::StoreFull);
    assert_eq!(a.store().get("m").unwrap(), None);
    assert_eq!(a.store().get("l").unwrap().unwrap().value.bytes(), b"");
    assert_eq!(none.store().get("k").unwrap_err(), Error::NoStore);
    assert_eq!(none.store().put("k", "x").unwrap_err(), Error::NoStore);
}

#[test]
fn of_those_who_compare_and_swap_at_once_one_wins() {
    const THREADS: usize = 4;
    const EACH: u64 = 200;
    let daemon = Daemon::start(&[]);
    let sessions = [session(&daemon), session(&daemon)];
    // Half of them by version, half by the value's first eight bytes.
    let increment = |index: usize| {
        let store = sessions[index % 2].store();
        let mut unmet = 0;
        for _ in 0..EACH {
            loop {
                let found = store.get("count").unwrap();
                let count = found.map_or(0, |entry| u64::from_be_bytes(entry.value.bytes().try_into().unwrap()));
                let condition = match found {
                    Some(entry) if index < THREADS / 2 => Condition::Version(entry.version),
                    None if index < THREADS / 2 => Condition::Absent,
                    _ => Condition::Word(count),
                };
                match store.put_if("count", (count + 1).to_be_bytes(), condition).unwrap() {
                    Written::Done(_) => break,
                    Written::Unmet(_) => unmet += 1,
                }
            }
        }
        unmet
    };
    let unmet: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(move || increment(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let count = sessions[0].store().get("count").unwrap().unwrap();
    assert_eq!(u64::from_be_bytes(count.value.bytes().try_into().unwrap()), THREADS as u64 * EACH);
    println!("{unmet} lost the race");
}

/// Whoever raises one key after the other never lets the first be lower than the second, nor by more than 1 higher.
/// Plain reads see it otherwise; a snapshot does not.
#[test]
fn a_snapshot_is_of_one_instant() {
    let daemon = Daemon::start(&[]);
    let (writer, reader) = (session(&daemon), session(&daemon));
    let number = |entry: Option<wayside_client::Entry>| {
        entry.map_or(0, |entry| u64::from_be_bytes(entry.value.bytes().try_into().unwrap()))
    };
    let over = AtomicBool::new(false);
    // What is read in between takes so long that the writer often comes then.
    let mut names: Vec<String> = (0..100).map(|other| format!("other/{other}")).collect();
    names.insert(0, "first".into());
    names.push("second".into());
    let (mut torn, mut seen) = (0, Vec::new());
    thread::scope(|scope| {
        let _ending = Ending(&over);
        scope.spawn(|| {
            for count in (1_u64..).take_while(|_| !over.load(Relaxed)) {
                writer.store().put("first", count.to_be_bytes()).unwrap();
                writer.store().put("second", count.to_be_bytes()).unwrap();
                // So that there are moments for two readings.
                thread::sleep(Duration::from_millis(count % 4 * 4));
            }
        });
        for _ in 0..200 {
            let plain: Vec<u64> = names.iter().map(|name| number(reader.store().get(name).unwrap())).collect();
            torn += u64::from(plain.last() > plain.first());
            let all = reader.store().snapshot(&names).unwrap();
            let (first, second) = (number(all[0]), number(all[names.len() - 1]));
            seen.push((first, second));
        }
    });
    for (first, second) in seen {
        assert!(second <= first && first <= second + 1, "{first} and {second} were never there together");
    }
    assert!(torn > 0, "the writer never came between two reads: nothing was tested");
    println!("{torn} of 200 plain readings were torn");

    // Names that change all the time, and a time that is over; and the command.
    assert_eq!(reader.store().snapshot(&[""; 1]).unwrap_err().to_string(), "invalid name: it is empty");
    let none: [&str; 0] = [];
    assert_eq!(reader.store().snapshot(&none).unwrap(), []);
    kv(&daemon, &["put", "a", "1"]);
    let told = kv(&daemon, &["get", "a", "b", "-o", "json"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!((&told[0]["value"], &told[1]), (&"1".into(), &serde_json::json!({ "name": "b" })));
    kv(&daemon, &["put", "b", "2"]);
    let told = kv(&daemon, &["get", "a", "b"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "NAME  VALUE\na     \"1\"\nb     \"2\"\n"));
}

#[test]
fn more_futures_than_lanes_are_all_answered() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    let store = session.store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let writes: Vec<_> = (0..100u32)
            .map(|index| {
                let session = session.clone();
                let write = async move { session.store().put_async(format!("key/{index}"), index.to_be_bytes()).await };
                tokio::spawn(write)
            })
            .collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        let written = store.put_if_async("key/1", "x", Condition::Absent).await.unwrap();
        assert!(matches!(written, Written::Unmet(Ok(Some(entry))) if entry.value.bytes() == 1u32.to_be_bytes()));
        let entry = store.get_async("key/99").await.unwrap().unwrap();
        assert_eq!(entry.value.bytes(), 99u32.to_be_bytes());
    });
    assert!(store.wait(Duration::from_secs(5)).delete("key/99").is_ok());
    assert_eq!(store.get("key/99").unwrap(), None);
}

#[test]
fn a_switch_in_userspace_that_starts_again_has_no_values_and_takes_new_ones() {
    let mut daemon = Daemon::start(&[]);
    let session = session(&daemon);
    session.store().put("k", "before").unwrap();
    let before = session.store().get("k").unwrap().unwrap().version;
    daemon.kill();
    daemon.restart();
    eventually("the session goes on, or another has begun", || session.info().is_some());
    let found = session.store().wait(Duration::from_secs(10)).get("k");
    assert_eq!(found.unwrap(), None, "docs/chain.md says so");
    let after = session.store().wait(Duration::from_secs(10)).put("k", "after").unwrap();
    assert!(after > before, "{after} is not later than {before}");
}

/// At the hook: values are read and written without the daemon, and outlive it.
#[cfg(feature = "xdp")]
#[test]
fn values_at_the_hook_outlive_the_daemon() {
    use support::world::World;

    let Some(world) = World::or_skip(1) else { return };
    let (daemon, line) = world.daemon("native");
    assert!(line.contains("native XDP"), "{line}");
    // A thread's port belongs to the host where it is when it is opened: by its first question.
    let sessions = [0, 1].map(|client| {
        let session = world.session(client);
        session.store().get("limit").unwrap();
        session
    });
    let [first, second] = sessions.each_ref().map(|session| session.store().wait(Duration::from_secs(10)));
    let version = first.put("limit", "10").unwrap();
    let entry = second.get("limit").unwrap().unwrap();
    assert_eq!((entry.value.bytes(), entry.version), (&b"10"[..], version));

    // None of these reaches the daemon: it hands nothing up, and receives nothing.
    let before = ["read", "written", "handed_up"].map(|name| world.count(name));
    for round in 0..100u64 {
        let written = first.put_if("limit", round.to_be_bytes(), Condition::Always).unwrap();
        assert!(matches!(written, Written::Done(_)));
        let entry = second.get("limit").unwrap().unwrap();
        assert_eq!(entry.value.bytes(), round.to_be_bytes());
    }
    let after = ["read", "written", "handed_up"].map(|name| world.count(name));
    assert!(after[0] >= before[0] + 100 && after[1] == before[1] + 100, "{before:?} {after:?}");
    assert!(after[2] < before[2] + 20, "handed up: {before:?} {after:?}");

    daemon.signal(libc::SIGKILL);
    daemon.wait();
    let alone = first.put("limit", "written without a daemon").unwrap();
    assert_eq!(second.get("limit").unwrap().unwrap().version, alone);

    let (_daemon, _) = world.daemon("native");
    assert_eq!(second.get("limit").unwrap().unwrap().value.bytes(), b"written without a daemon");
    assert!(first.put("limit", "x").unwrap() > alone);
    first.put("new", "made by the second daemon").unwrap();
    assert_eq!(second.get("new").unwrap().unwrap().value.bytes(), b"made by the second daemon");
}

/// Lanes at the hook outlive the controller's records; sessions that begin without those count anew.
#[cfg(feature = "xdp")]
#[test]
fn values_are_written_after_the_records_are_lost() {
    use support::world::World;

    let Some(world) = World::or_skip(1) else { return };
    let write = |value: &str| {
        let session = world.session(0);
        // Every lane is used, and more than once.
        for index in 0..100u32 {
            session.store().put(format!("key/{}", index % 7), value).unwrap();
        }
        session.store().get("key/3").unwrap().unwrap().version
    };
    let (daemon, _) = world.daemon("native");
    let before = write("before");
    daemon.signal(libc::SIGKILL);
    daemon.wait();

    std::fs::remove_dir_all(world.directory.path().join("state")).unwrap();
    let (_daemon, line) = world.daemon("native");
    assert!(line.contains("native XDP"), "{line}");
    assert!(write("after") > before);
}
