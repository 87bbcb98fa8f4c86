//! Recipes of real processes: the commands, and what becomes of who is killed.

use crate::support;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::{Daemon, Ended, Running, Stopped, connect, end, eventually};
use wayside_client::{Condition, Error, Event, Session, Version};

/// Short, so that the dead are noticed soon; they have no lifeline when they are threads of this process.
const LEASE: &str = "1s";

fn daemon() -> Daemon {
    Daemon::start(&["--lease", LEASE])
}

fn session(daemon: &Daemon) -> Session {
    connect(daemon.address.to_string())
}

fn run(daemon: &Daemon, arguments: &[&str]) -> Ended {
    end(daemon.command(arguments))
}

/// A command that is under way until it is killed.
struct UnderWay(Child);

impl UnderWay {
    fn start(mut command: Command) -> UnderWay {
        UnderWay(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for UnderWay {
    /// kill -9: what it runs is ended by its guardian.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn so_many_have_a_permit_and_that_of_a_dead_one_comes_back() {
    let daemon = daemon();
    let session = session(&daemon);
    let semaphore = session.semaphore("downloads", 2).unwrap();
    let other = UnderWay::start(daemon.command(&["semaphore", "downloads", "--permits", "2", "--", "sleep", "600"]));
    eventually("the other has one", || semaphore.available().unwrap() == 1);
    let first = semaphore.try_acquire().unwrap().expect("one is free");
    assert!(semaphore.try_acquire().unwrap().is_none());
    let late = run(&daemon, &["semaphore", "downloads", "--permits", "2", "--wait", "200ms", "--", "true"]);
    assert_eq!(late.code, Some(75), "{late:?}");
    assert_eq!(semaphore.clone().wait(Duration::from_millis(100)).acquire().unwrap_err(), Error::TimedOut);
    // Killed: its session ends, and its permit with it.
    drop(other);
    let second = semaphore.clone().wait(Duration::from_secs(30)).acquire().unwrap();
    assert_ne!(first.number(), second.number());
    second.release().unwrap();
    drop(first);
    assert_eq!(semaphore.available().unwrap(), 2);
    let told =
        run(&daemon, &["semaphore", "downloads", "--permits", "2", "--", "sh", "-c", "echo $WAYSIDE_PERMIT; exit 3"]);
    assert!(told.code == Some(3) && ["0", "1"].contains(&told.stdout.trim()), "{told:?}");
    assert!(session.semaphore("none", 0).is_err() && session.semaphore("many", 1_025).is_err());
}

#[test]
fn never_more_than_so_many_at_once() {
    const PERMITS: u32 = 3;
    let daemon = daemon();
    let sessions = [session(&daemon), session(&daemon)];
    let inside = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for index in 0..8 {
            let (session, inside) = (&sessions[index % 2], &inside);
            scope.spawn(move || {
                for _ in 0..20 {
                    let permit = session.semaphore("few", PERMITS).unwrap().acquire().unwrap();
                    let now = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                    assert!(now <= PERMITS, "{now} at once");
                    std::thread::yield_now();
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
}

#[test]
fn leaders_follow_each_other_in_turn_with_higher_tokens() {
    let daemon = daemon();
    let session = session(&daemon);
    let election = session.election("scheduler");
    assert_eq!(run(&daemon, &["election", "leader", "scheduler"]).code, Some(1));
    let first = UnderWay::start(daemon.command(&[
        "election",
        "campaign",
        "scheduler",
        "--value",
        "first",
        "--",
        "sleep",
        "600",
    ]));
    let leads = |who: &str| election.leader().unwrap().is_some_and(|entry| entry.value.bytes() == who.as_bytes());
    eventually("the first leads", || leads("first"));
    assert_eq!(run(&daemon, &["election", "leader", "scheduler"]).stdout.trim(), "first");
    assert_eq!(election.clone().wait(Duration::from_millis(200)).campaign("x").unwrap_err(), Error::TimedOut);
    assert!(leads("first"), "who did not win has written nothing");
    drop(first);
    let second = election.clone().wait(Duration::from_secs(30)).campaign("second").unwrap();
    assert!(leads("second"));
    let token = second.token();
    second.resign().unwrap();
    assert!(election.leader().unwrap().is_none());
    let third = election.campaign("third").unwrap();
    assert!(third.token() > token && leads("third"));
    drop(third);
    assert!(election.leader().unwrap().is_none());
}

#[test]
fn recipes_of_one_name_do_not_meet() {
    let daemon = daemon();
    let session = session(&daemon);
    let semaphore = session.semaphore("same", 1).unwrap();
    let permit = semaphore.try_acquire().unwrap().expect("it is free");
    let member = session.group("same").unwrap().wait(Duration::from_secs(30)).join("member").unwrap();
    let leader = session.election("same").wait(Duration::from_secs(30)).campaign("leader").unwrap();
    session.barrier("same", 1).unwrap().wait(Duration::from_secs(30)).enter().unwrap();
    assert_eq!(session.group("same").unwrap().members().unwrap().len(), 1);
    assert_eq!(session.election("same").leader().unwrap().unwrap().value.bytes(), b"leader");
    assert!(session.store().get("same").unwrap().is_none(), "the name itself is nobody's");
    assert!(semaphore.try_acquire().unwrap().is_none(), "the one permit is taken");
    assert!(!permit.is_lost() && !member.is_lost() && !leader.is_lost());
}

#[test]
fn members_are_seen_to_come_and_go() {
    let daemon = daemon();
    let session = session(&daemon);
    let group = session.group("workers").unwrap();
    let mut own = group.join("own").unwrap();
    let other =
        UnderWay::start(daemon.command(&["group", "join", "workers", "--value", "other", "--", "sleep", "600"]));
    let mut seen = Vec::new();
    let mut other = Some(other);
    group
        .follow(|members| {
            let names: Vec<String> =
                members.iter().map(|member| String::from_utf8_lossy(member.value.bytes()).into_owned()).collect();
            let is_over = seen.len() > 1 && names == ["own"];
            if names.len() == 2 {
                // Killed while it is a member.
                other = None;
            }
            seen.push(names);
            !is_over
        })
        .unwrap();
    assert!(seen.contains(&vec!["own".into(), "other".into()]), "{seen:?}");
    assert!(own.update("changed").unwrap());
    let listed = run(&daemon, &["group", "ls", "workers"]);
    assert!(listed.code == Some(0) && listed.stdout.contains("changed"), "{listed:?}");
    own.leave().unwrap();
    assert_eq!(run(&daemon, &["group", "ls", "workers"]).stdout.trim(), "nobody is there");
}

#[test]
fn nobody_goes_on_before_all_are_there() {
    let daemon = daemon();
    let session = session(&daemon);
    let barrier = session.barrier("step/1", 3).unwrap();
    assert_eq!(barrier.clone().wait(Duration::from_millis(200)).enter().unwrap_err(), Error::TimedOut);
    // One that dies does not count.
    drop(UnderWay::start(daemon.command(&["barrier", "step/1", "--parties", "3"])));
    let commands: Vec<UnderWay> =
        (0..2).map(|_| UnderWay::start(daemon.command(&["barrier", "step/1", "--parties", "3"]))).collect();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!barrier.is_open_now().unwrap());
    barrier.enter().unwrap();
    for mut command in commands {
        assert!(command.0.wait().unwrap().success());
    }
    // For ever, until it is closed.
    barrier.enter().unwrap();
    barrier.close().unwrap();
    assert!(!barrier.is_open_now().unwrap());
}

/// For a minute no session ends by itself.
fn patient_daemon() -> Daemon {
    Daemon::start(&["--lease", "60s"])
}

#[test]
fn what_was_taken_without_an_answer_is_given_back() {
    let daemon = patient_daemon();
    let [session, other] = [session(&daemon), session(&daemon)];
    let semaphore = session.semaphore("few", 1).unwrap();
    // The key is made: the next write has its effect without another question.
    semaphore.try_acquire().unwrap().expect("it is free").release().unwrap();
    let store = session.store();
    let name = "few/semaphore/0";
    let mut watch = other.store().watch(name).unwrap().wait(Duration::from_secs(20));
    let stopped = Stopped::stop(&daemon);
    let held = store.wait(Duration::from_millis(100)).hold(name, [], Condition::Absent);
    assert_eq!(held.unwrap_err(), Error::TimedOut);
    drop(stopped);
    let [first, then] = [(); 2].map(|()| watch.next().unwrap());
    assert!(matches!((&first, &then), (Event::Put { .. }, Event::Deleted { .. })), "{first:?} {then:?}");
    // Not because its session has ended.
    let permit = other.semaphore("few", 1).unwrap().wait(Duration::from_secs(5)).acquire().unwrap();
    drop(permit);
    // What somebody holds stays, whatever was in doubt before.
    let stopped = Stopped::stop(&daemon);
    assert_eq!(store.wait(Duration::from_millis(100)).hold(name, [], Condition::Absent).unwrap_err(), Error::TimedOut);
    drop(stopped);
    let permit = semaphore.wait(Duration::from_secs(5)).acquire().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(other.store().get(name).unwrap().map(|entry| entry.version), Some(permit.version()));
    let entry = store.get(name).unwrap().expect("it is there");
    assert!(entry.is_own && !other.store().get(name).unwrap().expect("it is there").is_own);
}

#[test]
fn what_was_given_back_without_an_answer_is_given_back_later() {
    let daemon = patient_daemon();
    let session = session(&daemon);
    let semaphore = session.semaphore("few", 2).unwrap();
    let [released, dropped] = [(); 2].map(|()| semaphore.try_acquire().unwrap().expect("it is free"));
    let leadership = session.election("lead").campaign("first").unwrap();
    let stopped = Stopped::stop(&daemon);
    let begun = Instant::now();
    assert_eq!(released.release().unwrap_err(), Error::TimedOut);
    drop(dropped);
    std::thread::scope(|scope| {
        // The lock is given back once somebody answers, though the key could not be.
        let resigned = scope.spawn(|| leadership.resign());
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(stopped);
        let _ = resigned.join().unwrap();
    });
    eventually("both permits are there", || semaphore.available().unwrap() == 2);
    session.election("lead").wait(Duration::from_secs(10)).campaign("second").unwrap();
}

#[test]
fn whoever_waits_outlasts_his_session() {
    let daemon = daemon();
    let session = &session(&daemon);
    let stopped = Stopped::stop(&daemon);
    std::thread::scope(|scope| {
        let wait = Duration::from_secs(30);
        let permit = scope.spawn(move || session.semaphore("few", 1).unwrap().wait(wait).acquire().map(drop));
        let member = scope.spawn(move || session.group("all").unwrap().wait(wait).join("me").map(drop));
        let leader = scope.spawn(move || session.election("lead").wait(wait).campaign("me").map(drop));
        let barrier = scope.spawn(move || session.barrier("step", 1).unwrap().wait(wait).enter());
        let named = scope.spawn(move || session.election("lead").wait(wait).leader().map(drop));
        let listed = scope.spawn(move || session.group("all").unwrap().wait(wait).members().map(drop));
        // Beyond the lease.
        std::thread::sleep(Duration::from_millis(2_500));
        assert!(session.info().is_none(), "the session is lost");
        drop(stopped);
        for waited in [permit, member, leader, barrier, named, listed] {
            assert_eq!(waited.join().unwrap(), Ok(()));
        }
    });
}

#[test]
fn a_party_with_two_seats_is_one() {
    let daemon = patient_daemon();
    let session = session(&daemon);
    let barrier = session.barrier("step", 2).unwrap();
    let store = session.store();
    std::thread::scope(|scope| {
        let entered = scope.spawn(|| barrier.clone().wait(Duration::from_secs(30)).enter());
        let seat = || store.get("step/barrier/0").unwrap();
        eventually("it has a seat", || seat().is_some());
        // As one that it was not answered, or that its session before has left.
        let second = store.hold("step/barrier/1", seat().unwrap().value.bytes(), Condition::Absent).unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(!barrier.is_open_now().unwrap(), "one party has come");
        second.release().unwrap();
        barrier.clone().wait(Duration::from_secs(30)).enter().unwrap();
        entered.join().unwrap().unwrap();
    });
    // Whoever comes again after he gave up is the same party.
    let late = session.barrier("other", 2).unwrap().wait(Duration::from_secs(2));
    let parties: Vec<Vec<u8>> = (0..2)
        .map(|_| {
            let mut watch = store.watch("other/barrier/0").unwrap().wait(Duration::from_secs(20));
            assert_eq!(late.enter().unwrap_err(), Error::TimedOut);
            loop {
                if let Event::Put { value, .. } = watch.next().unwrap() {
                    break value.bytes().to_vec();
                }
            }
        })
        .collect();
    assert_eq!(parties[0], parties[1]);
}

#[test]
fn a_wait_may_be_as_long_as_time_is() {
    let daemon = daemon();
    let session = session(&daemon);
    session.semaphore("few", 1).unwrap().wait(Duration::MAX).acquire().unwrap();
}

/// The lock of NetChain's paper, on a lease (docs/recipes.md): by the library, and by the command.
#[test]
fn of_those_who_swap_the_same_key_one_has_the_lock() {
    const THREADS: usize = 4;
    const EACH: usize = 50;
    let daemon = daemon();
    let sessions = [session(&daemon), session(&daemon)];
    let inside = AtomicBool::new(false);
    let take_turns = &|index: usize| {
        let store = sessions[index % 2].store();
        let (mut last, mut refused) = (None, 0);
        for _ in 0..EACH {
            let key = loop {
                match store.hold("swapped", index.to_string(), Condition::Absent).unwrap() {
                    Ok(key) => break key,
                    Err(_) => refused += 1,
                }
            };
            assert!(!inside.swap(true, SeqCst), "somebody else has it");
            assert!(last < Some(key.version()), "versions rise with the holders");
            last = Some(key.version());
            inside.store(false, SeqCst);
            key.release().unwrap();
        }
        refused
    };
    let refused: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(move || take_turns(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{refused} were refused");

    let take = ["kv", "put", "swapped", "me", "--if-absent", "--"];
    let holder =
        Running::start(daemon.command(&[&take[..], &["sh", "-c", "echo $WAYSIDE_KEY_VERSION; sleep 600"]].concat()));
    let version: Version = holder.line().parse().expect("a version");
    let late = run(&daemon, &[&take[..], &["true"]].concat());
    assert!(late.code == Some(75) && late.stderr.contains("it has \"me\""), "{late:?}");
    holder.signal(libc::SIGKILL);
    eventually("the dead give it back", || run(&daemon, &[&take[..], &["true"]].concat()).code == Some(0));
    let next = run(&daemon, &[&take[..], &["sh", "-c", "echo $WAYSIDE_KEY_VERSION"]].concat());
    assert!(next.stdout.trim().parse::<Version>().expect("a version") > version);
}
