//! What callers get: modes, tries, time-outs, several locks, loss.

use crate::support::{LEASE, TestSwitch, block_on, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error, Mode, Path, Session, Wait};

/// Of sessions that look at nothing by themselves for seconds.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_undisputed_lock_is_granted_by_the_switch_and_given_back() {
    let switch = TestSwitch::start();
    for wait in [Wait::Spin, Wait::Block, Wait::Adaptive] {
        let session = switch.builder().wait(wait).connect().unwrap();
        let first = session.lock("jobs").acquire().unwrap();
        assert_eq!((first.mode(), first.name().as_str()), (Mode::Exclusive, "jobs"));
        assert!(!first.is_lost());
        assert!(first.deadline() > Instant::now());
        let token = first.token();
        first.release().unwrap();
        let second = session.lock("jobs").acquire().unwrap();
        assert!(second.token() > token, "{wait:?}");
        // On a busy host an answer may take longer than a retransmission, which this node's own agent then grants.
        let others: Vec<_> = (0..20u64).map(|name| session.lock(name).acquire().unwrap()).collect();
        let by_switch = others.iter().filter(|guard| guard.path() == Path::Switch).count();
        assert!(by_switch > others.len() / 2, "{wait:?}: {by_switch} of {} by the switch", others.len());
    }
}

#[test]
fn a_held_lock_is_busy_for_others_until_its_guard_is_dropped() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let guard = one.lock(42).acquire().unwrap();
    let holder = one.info().unwrap().handle;
    assert_eq!(other.lock(42).try_lock().unwrap_err(), Error::Busy { holder });
    assert_eq!(one.lock(42).try_lock().unwrap_err(), Error::Busy { holder }, "a guard owns, not a session");
    drop(guard);
    eventually(|| other.lock(42).try_lock().is_ok());
}

#[test]
fn waiting_ends_at_its_deadline_and_leaves_nothing_behind() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let guard = one.lock(1).acquire().unwrap();
    for wait in [Wait::Block, Wait::Spin] {
        let other = switch.builder().wait(wait).connect().unwrap();
        let began = Instant::now();
        assert_eq!(other.lock(1).wait(Duration::from_millis(50)).acquire().unwrap_err(), Error::TimedOut);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(50) && took < Duration::from_secs(2), "{took:?}");
    }
    guard.release().unwrap();
    other.lock(1).wait(Duration::from_secs(5)).acquire().unwrap().release().unwrap();
}

#[test]
fn hundreds_of_threads_that_wait_are_not_woken_by_each_others_timers() {
    const THREADS: u64 = 100;
    let switch = TestSwitch::start();
    let holder = switch.session();
    let guards: Vec<_> = (0..THREADS).map(|name| holder.lock(name).acquire().unwrap()).collect();
    let session = switch.builder().wait(Wait::Block).connect().unwrap();
    let session = &session;
    let wait_of = |name| {
        let before = times_asleep();
        assert_eq!(session.lock(name).wait(Duration::from_secs(1)).acquire().unwrap_err(), Error::TimedOut);
        times_asleep() - before
    };
    let asleep: u64 = thread::scope(|scope| {
        let waits: Vec<_> = (0..THREADS).map(|name| scope.spawn(move || wait_of(name))).collect();
        waits.into_iter().map(|wait| wait.join().unwrap()).sum()
    });
    drop(guards);
    // Each sleeps for 50 ms at a time, and after each of the ten answers to what was sent again; its own timers alone
    // are eight, of which all of them together have 800.
    assert!(asleep < THREADS * 60, "{} times a thread", asleep / THREADS);
}

/// How often the calling thread has slept.
fn times_asleep() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn a_waiter_is_served_when_the_holder_lets_go() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let guard = one.lock("a").acquire().unwrap();
    let token = guard.token();
    let waiter = thread::spawn(move || other.lock("a").acquire().unwrap().token());
    thread::sleep(Duration::from_millis(20));
    guard.release().unwrap();
    assert!(waiter.join().unwrap() > token);
}

#[test]
fn readers_share_and_a_writer_excludes() {
    let switch = TestSwitch::start();
    let sessions: Vec<Session> = (0..3).map(|_| switch.session()).collect();
    let readers: Vec<_> = sessions.iter().map(|session| session.lock(9).shared().acquire().unwrap()).collect();
    assert!(readers.iter().all(|reader| reader.mode() == Mode::Shared));
    assert!(matches!(sessions[0].lock(9).wait(Duration::from_millis(30)).acquire(), Err(Error::TimedOut)));
    drop(readers);
    let mut writer = sessions[0].lock(9).wait(Duration::from_secs(5)).acquire().unwrap();
    assert!(matches!(sessions[1].lock(9).shared().try_lock(), Err(Error::Busy { .. })));
    writer.downgrade().unwrap();
    assert_eq!(writer.mode(), Mode::Shared);
    let reader = sessions[1].lock(9).shared().wait(Duration::from_secs(5)).acquire().unwrap();
    assert!(!writer.is_lost() && !reader.is_lost());
}

/// Counts under the lock without atomics' help: a lost update shows two holders.
#[test]
fn threads_and_sessions_exclude_each_other() {
    const ROUNDS: u64 = 300;
    let switch = TestSwitch::start();
    let sessions = [switch.session(), switch.builder().wait(Wait::Block).connect().unwrap()];
    let count = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = sessions
        .iter()
        .flat_map(|session| [session.clone(), session.clone()])
        .map(|session| {
            let count = count.clone();
            thread::spawn(move || {
                let mut last = 0;
                for _ in 0..ROUNDS {
                    let guard = session.lock("counter").acquire().unwrap();
                    assert!(guard.token().0 > last, "tokens rise");
                    last = guard.token().0;
                    let seen = count.load(SeqCst);
                    thread::yield_now();
                    count.store(seen + 1, SeqCst);
                    guard.release().unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(count.load(SeqCst), 4 * ROUNDS);
}

#[test]
fn several_locks_are_taken_all_or_none() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let names: Vec<u64> = (0..100).rev().collect();
    let guards = one.lock_many(names.iter().copied()).acquire().unwrap();
    assert_eq!(guards.each().len(), 100);
    assert!(guards.of(7).is_some() && guards.of(100).is_none());
    assert!(matches!(other.lock_many([200, 99]).try_lock(), Err(Error::Busy { .. })));
    assert!(matches!(other.lock_many([200, 99]).wait(Duration::from_millis(30)).acquire(), Err(Error::TimedOut)));
    other.lock(200).wait(Duration::from_secs(5)).acquire().expect("none of them is held").release().unwrap();
    guards.release().unwrap();
    let twice = other.lock_many(["a", "b", "a"]).wait(Duration::from_secs(5)).acquire().unwrap();
    assert_eq!(twice.each().len(), 2);
    assert!(one.lock_many::<u64>([]).acquire().unwrap().each().is_empty());
}

/// Names in opposite orders, some in the same slot: a circle would wait for ever.
#[test]
fn several_locks_do_not_deadlock() {
    let switch = TestSwitch::start();
    let same_slot = u64::from(crate::support::SLOTS);
    let orders = [[1, 2, 3, same_slot + 2], [same_slot + 2, 3, 2, 1], [3, 1, same_slot + 2, 2]];
    let threads: Vec<_> = orders
        .into_iter()
        .map(|order| {
            let session = switch.session();
            thread::spawn(move || {
                for _ in 0..100 {
                    session.lock_many(order).wait(Duration::from_secs(10)).acquire().unwrap().release().unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_hold_ends_with_its_own_time() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let guard = one.lock("short").ttl(Duration::from_millis(60)).acquire().unwrap();
    assert!(guard.deadline() <= Instant::now() + Duration::from_millis(60));
    let began = Instant::now();
    drop(other.lock("short").wait(Duration::from_secs(5)).acquire().unwrap());
    assert!(began.elapsed() > Duration::from_millis(40));
    guard.lost();
    assert!(guard.is_lost());
    assert_eq!(guard.release(), Err(Error::Lost));
    drop(one.lock("short").wait(Duration::from_secs(5)).acquire().expect("the session lives on"));
}

#[test]
fn a_lost_session_loses_its_guards_once_and_enrols_anew() {
    let switch = TestSwitch::start();
    loses_once(&switch, &switch.session());
}

/// Whose address another thread looks up, in its own time.
#[test]
fn so_does_one_of_a_switch_that_has_a_name() {
    let switch = TestSwitch::start();
    let endpoint = format!("localhost:{}", switch.address.port());
    loses_once(&switch, &Session::builder().endpoint(endpoint).connect().unwrap());
}

fn loses_once(switch: &TestSwitch, session: &Session) {
    let guard = session.lock("a").acquire().unwrap();
    let (deadline, first) = (guard.deadline(), session.info().unwrap());
    switch.faults.mute.store(true, SeqCst);
    let began = Instant::now();
    assert_eq!(session.lock("b").acquire().unwrap_err(), Error::Lost);
    assert!(began.elapsed() < 2 * LEASE);
    guard.lost();
    assert!(guard.is_lost() && deadline <= Instant::now());
    switch.faults.mute.store(false, SeqCst);
    let again = session.lock("b").wait(Duration::from_secs(5)).acquire().unwrap();
    assert!(again.token() > guard.token() || first.epoch == session.info().unwrap().epoch);
    assert!(session.info().unwrap().incarnation > first.incarnation);
    assert_eq!(guard.release(), Err(Error::Lost));
    assert!(!again.is_lost());
}

#[test]
fn a_closed_session_frees_its_locks_at_once() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let guard = one.lock("a").acquire().unwrap();
    std::mem::forget(one.lock("forgotten").acquire().unwrap());
    let clone = one.clone();
    one.close();
    assert!(guard.is_lost());
    assert_eq!(clone.lock("a").acquire().unwrap_err(), Error::Closed);
    for name in ["a", "forgotten"] {
        let began = Instant::now();
        drop(other.lock(name).wait(Duration::from_secs(5)).acquire().unwrap());
        assert!(began.elapsed() < LEASE, "{name}");
    }
}

#[test]
fn locks_survive_a_lossy_network() {
    let switch = TestSwitch::start();
    let sessions = [switch.session(), switch.session()];
    switch.faults.loss.store(5, SeqCst);
    let threads: Vec<_> = sessions
        .into_iter()
        .map(|session| {
            thread::spawn(move || {
                for round in 0..60u64 {
                    let guard = session.lock(round % 3).wait(Duration::from_secs(10)).acquire().unwrap();
                    guard.release().unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn ports_of_ended_threads_serve_others() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let take = |name: u64| {
        let session = session.clone();
        thread::spawn(move || session.lock(name).acquire().unwrap().release().unwrap()).join().unwrap();
    };
    (0..10).for_each(take);
    let before = descriptors();
    (10..200).for_each(take);
    // Other tests open and close theirs meanwhile; 190 threads with ports of their own would have 380 more.
    assert!(descriptors() < before + 190);
}

#[test]
fn a_session_ends_in_bounded_time_without_a_switch() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let guard = session.lock("a").acquire().unwrap();
    switch.faults.mute.store(true, SeqCst);
    let began = Instant::now();
    drop(session);
    drop(guard);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

/// A lock that the process has already comes without a packet, and nobody waits who would look at the time.
#[test]
fn a_hold_that_came_at_once_ends_in_time() {
    let switch = TestSwitch::start();
    for several in [false, true] {
        let late = || {
            // Its background thread looks for a daemon here once a second, when it has just begun.
            let session = switch.builder().lease(LONG).connect().unwrap();
            let held = session.lock("a").shared().acquire().unwrap();
            // Then it sleeps again.
            thread::sleep(Duration::from_millis(100));
            let (begun, short) = (Instant::now(), Duration::from_millis(50));
            if several {
                session.lock_many(["a"]).shared().ttl(short).acquire().unwrap().each()[0].lost();
            } else {
                session.lock("a").shared().ttl(short).acquire().unwrap().lost();
            }
            let late = begun.elapsed();
            held.release().unwrap();
            late
        };
        // On a busy machine now and then.
        assert!((0..20).any(|_| late() < Duration::from_millis(600)), "several: {several}");
    }
}

/// One that is over by its own time is not held when the last one comes, however long that takes.
#[test]
fn several_are_lost_with_the_first_that_is() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.builder().lease(LONG).connect().unwrap(), switch.session());
    let blocks = other.lock("b").acquire().unwrap();
    let request = || session.lock_many(["a", "b"]).ttl(Duration::from_millis(50));
    let begun = Instant::now();
    assert_eq!(request().acquire().unwrap_err(), Error::Lost);
    assert_eq!(block_on(request().acquire_async()).unwrap_err(), Error::Lost);
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    eventually(|| other.lock("a").try_lock().is_ok());
    // Who has dropped it is called no more, and forgotten.
    let called = Arc::new(Called::default());
    let mut waits = Box::pin(request().acquire_async());
    let waker = Waker::from(called.clone());
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop((waits, waker));
    eventually(|| Arc::strong_count(&called) == 1);
    let before = called.0.load(SeqCst);
    assert_eq!(request().acquire().unwrap_err(), Error::Lost);
    assert_eq!(called.0.load(SeqCst), before);
    blocks.release().unwrap();
    session.lock_many(["a", "b"]).acquire().unwrap().release().unwrap();
}

#[derive(Default)]
struct Called(AtomicU64);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
