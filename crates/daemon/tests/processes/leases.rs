//! Keys that are there as long as a process, and keys that give their place back (docs/kv.md, docs/chain.md).

use crate::support;

use std::future::Future;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use support::{Daemon, Running, connect, end, eventually, is_alive};
use wayside_client::{Condition, Error, Session, Written};

fn session(daemon: &Daemon) -> Session {
    connect(daemon.address.to_string())
}

fn value(session: &Session, name: &str) -> Option<Vec<u8>> {
    session.store().wait(Duration::from_secs(20)).get(name).unwrap().map(|entry| entry.value.bytes().to_vec())
}

/// A count of the daemon's metrics.
fn count(daemon: &Daemon, name: &str) -> u64 {
    let text = daemon.scrape();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}_total"))).expect("it is counted");
    line.rsplit(' ').next().unwrap().parse().expect("a number")
}

#[test]
fn a_leased_key_goes_with_the_process_that_wrote_it() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    // The command's process tells its number: it is to die with `wayside`.
    let holder = Running::start(daemon.command(&["kv", "put", "leader", "me", "--", "sh", "-c", "echo $$; sleep 600"]));
    let command: i32 = holder.line().parse().expect("a process");
    let entry = session.store().get("leader").unwrap().expect("it is there");
    assert_eq!((entry.value.bytes(), entry.is_leased), (&b"me"[..], true));
    let unmet = end(daemon.command(&["kv", "put", "leader", "you", "--if-absent", "--", "true"]));
    assert_eq!(unmet.code, Some(75), "{unmet:?}");

    holder.signal(libc::SIGKILL);
    holder.wait();
    eventually("the key has gone", || value(&session, "leader").is_none());
    eventually("the command has ended", || !is_alive(command));
    assert_eq!(count(&daemon, "wayside_key_leases_ended"), 1);
    // Whoever was too late before is in time now.
    let taken = session.store().put_if("leader", "other", Condition::Absent).unwrap();
    assert!(matches!(taken, Written::Done(version) if version > entry.version));
}

#[test]
fn a_leased_key_is_there_while_the_command_runs_and_no_longer() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    let script = "echo $WAYSIDE_KEY_VERSION; read line; exit 7";
    let mut command = daemon.command(&["kv", "put", "k", "v", "--", "sh", "-c", script]);
    command.stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it is there", || value(&session, "k").is_some());
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_eq!(value(&session, "k"), None, "it was deleted before `wayside kv` ended");
}

#[test]
fn what_is_written_later_is_as_long_as_it_says_itself() {
    let daemon = Daemon::start(&[]);
    let reader = session(&daemon);
    let [first, second] = [session(&daemon), session(&daemon)];
    first.store().leased().put("overwritten", "leased").unwrap();
    second.store().put("overwritten", "for good").unwrap();
    first.store().leased().put("taken over", "of the first").unwrap();
    second.store().leased().put("taken over", "of the second").unwrap();
    second.store().put("plain", "for good").unwrap();
    first.store().leased().put("of the first", "x").unwrap();
    first.close();
    eventually("what was the first's has gone", || value(&reader, "of the first").is_none());
    assert_eq!(value(&reader, "taken over").as_deref(), Some(&b"of the second"[..]));
    second.close();
    eventually("what was the second's has gone", || value(&reader, "taken over").is_none());
    assert_eq!(value(&reader, "overwritten").as_deref(), Some(&b"for good"[..]));
    assert_eq!(value(&reader, "plain").as_deref(), Some(&b"for good"[..]));
}

/// More of them than are looked at between two packets, of sessions that follow each other.
#[test]
fn many_leases_end_while_others_go_on() {
    let daemon = Daemon::start(&[]);
    let stays = session(&daemon);
    for index in 0..100 {
        stays.store().leased().put(format!("stays/{index}"), "x").unwrap();
    }
    for round in 0..3 {
        let goes = session(&daemon);
        thread::scope(|scope| {
            for part in 0..4 {
                let goes = &goes;
                scope.spawn(move || {
                    for index in 0..500 {
                        goes.store().leased().put(format!("goes/{part}/{index}"), "x").unwrap();
                    }
                });
            }
        });
        goes.close();
        eventually("all of them have gone", || count(&daemon, "wayside_key_leases_ended") == 2_000 * (round + 1));
        assert!((0..4).all(|part| value(&stays, &format!("goes/{part}/499")).is_none()));
    }
    assert!((0..100).all(|index| value(&stays, &format!("stays/{index}")).is_some()));
}

#[test]
fn a_held_key_is_deleted_when_it_is_dropped_and_knows_when_it_is_lost() {
    let mut daemon = Daemon::start(&["--lease", "300ms", "--grace", "100ms"]);
    let session = session(&daemon);
    let store = session.store();
    let mut key = store.hold("k", "1", Condition::Absent).unwrap().expect("nobody has it");
    assert!(matches!(store.hold("k", "2", Condition::Absent).unwrap(), Err(Ok(Some(found))) if found.is_leased));
    assert!(key.update("3").unwrap() && !key.is_lost());
    assert_eq!(value(&session, "k").as_deref(), Some(&b"3"[..]));
    drop(key);
    assert_eq!(value(&session, "k"), None);
    let key = store.hold("k", "4", Condition::Always).unwrap().expect("no condition");
    store.put("k", "another's").unwrap();
    assert!(!key.release().unwrap(), "it is another's by now");
    assert_eq!(value(&session, "k").as_deref(), Some(&b"another's"[..]));

    let mut key = store.hold("lost", "5", Condition::Absent).unwrap().expect("nobody has it");
    daemon.kill();
    eventually("it is lost", || key.is_lost());
    assert_eq!(key.update("6").unwrap_err(), Error::Lost);
}

/// A switch that is alone in userspace has its keys in its own memory. Sessions are in its records, and live on.
#[test]
fn keys_of_a_switch_that_has_begun_anew_are_lost_before_another_can_have_them() {
    let mut daemon = Daemon::start(&["--lease", "30s"]);
    let [owner, other] = [session(&daemon), session(&daemon)];
    let mut key = owner.store().hold("k", "1", Condition::Absent).unwrap().expect("nobody has it");
    let permit = owner.semaphore("few", 1).unwrap().acquire().unwrap();
    let membership = owner.group("workers").unwrap().join("1").unwrap();
    let before = owner.info().expect("it lives");
    daemon.kill();
    assert!(!key.is_lost() && !permit.is_lost() && !membership.is_lost(), "nobody else is served");
    daemon.restart();
    // Whoever is served can have them from now on.
    assert_eq!(value(&other, "k"), None);
    assert!(key.is_lost() && permit.is_lost() && membership.is_lost());
    let taken = other.store().hold("k", "2", Condition::Absent).unwrap().expect("nobody has it");
    assert_ne!(key.update("3"), Ok(true));
    drop((key, permit, membership));
    assert_eq!(value(&owner, "k").as_deref(), Some(&b"2"[..]));
    let now = owner.info().expect("it lives");
    assert!(now.incarnation == before.incarnation && now.epoch > before.epoch, "{before:?}, {now:?}");
    let again = owner.store().hold("again", "1", Condition::Absent).unwrap().expect("nobody has it");
    assert!(!again.is_lost() && !taken.is_lost());
}

#[test]
fn a_command_ends_with_the_permit_that_its_switch_has_lost() {
    let mut daemon = Daemon::start(&["--lease", "30s"]);
    let command = ["semaphore", "few", "--permits", "1", "--", "sh", "-c", "echo began; exec sleep 600"];
    let holder = Running::start(daemon.command(&command));
    assert_eq!(holder.line(), "began");
    daemon.kill();
    daemon.restart();
    assert_eq!(holder.wait().code(), Some(76));
}

#[test]
fn keys_without_a_value_give_their_place_back() {
    let daemon = Daemon::configured("[[namespace]]\nname = 'default'\nkeys = 8\n", &["--collect-after", "1s"]);
    let session = session(&daemon);
    let store = session.store();
    let first = store.put("kept", "x").unwrap();
    let mut last = first;
    // Four times as many as there is room for.
    for index in 0..28 {
        let name = format!("comes and goes/{}", index % 14);
        let mut written = Err(Error::StoreFull);
        eventually("there is room", || {
            written = store.put(&name, "x");
            written != Err(Error::StoreFull)
        });
        let version = written.unwrap();
        assert_eq!(store.get(&name).unwrap().unwrap().version, version);
        last = store.delete(&name).unwrap();
    }
    assert!(last > first);
    eventually("all of them are removed", || end(daemon.command(&["kv", "ls", "comes"])).stdout == "no such key\n");
    assert_eq!(count(&daemon, "wayside_keys_removed"), 28);
    assert_eq!(store.get("kept").unwrap().unwrap().version, first);
}

/// At the hook the owner's end is decided by nobody while no daemon runs; the next one finds it.
#[cfg(feature = "xdp")]
#[test]
fn leases_at_the_hook_end_although_no_daemon_saw_their_session_end() {
    use support::world::World;

    let Some(world) = World::or_skip(1) else { return };
    let (daemon, line) = world.daemon("native");
    assert!(line.contains("native XDP"), "{line}");
    // A thread's port belongs to the host where it is when it is opened: by its first question.
    let [goes, stays] = [0, 1].map(|client| {
        let session = world.session(client);
        session.store().get("first").unwrap();
        session
    });
    goes.store().leased().put("goes", "x").unwrap();
    let stays = stays.store().wait(Duration::from_secs(10));
    stays.leased().put("stays", "x").unwrap();
    daemon.signal(libc::SIGKILL);
    daemon.wait();
    // Written without a daemon.
    goes.store().leased().put("goes", "y").unwrap();
    stays.leased().put("stays", "y").unwrap();
    goes.close();
    assert_eq!(stays.get("goes").unwrap().unwrap().value.bytes(), b"y");

    let (_daemon, _) = world.daemon("native");
    eventually("it has gone", || stays.get("goes").unwrap().is_none());
    let entry = stays.get("stays").unwrap().expect("its session lives");
    assert_eq!((entry.value.bytes(), entry.is_leased), (&b"y"[..], true));
}

#[test]
fn an_update_that_nobody_waited_for_is_no_others() {
    let daemon = Daemon::start(&[]);
    let session = session(&daemon);
    let store = session.store();
    let mut key = store.hold("here", "5", Condition::Absent).unwrap().expect("nobody has it");
    for round in 0..20 {
        let value = format!("unheard {round}");
        {
            let mut update = std::pin::pin!(key.update_async(&value));
            assert!(update.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        eventually("it is written", || store.get("here").unwrap().unwrap().value.bytes() == value.as_bytes());
        assert_eq!(key.update(format!("heard {round}")), Ok(true));
    }
    assert_eq!(key.release(), Ok(true));
    assert_eq!(store.get("here").unwrap(), None);
}
