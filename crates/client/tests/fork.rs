//! A process that was forked and calls no exec.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::ptr;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use support::{LEASE, TestSwitch, block_on, eventually};
use wayside_client::{Error, Mode, Task};

/// Whether `work` says so in a process of its own, in time.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child goes on with this thread alone. It waits for no lock that the others may have, and ends below.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "there is room for another process");
    if child == 0 {
        let is_so = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: nothing is to be done at its exit, which would be its parent's.
        unsafe { libc::_exit(if is_so { 0 } else { 1 }) };
    }
    let mut status = -1;
    for _ in 0..1_000 {
        // SAFETY: our child, and a number of this frame.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return status == 0;
        }
        thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: our child, which has not been waited for.
    unsafe { (libc::kill(child, libc::SIGKILL), libc::waitpid(child, &raw mut status, 0)) };
    false
}

#[test]
fn what_a_fork_drops_its_parent_still_has() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.session(), switch.session());
    let guard = session.lock("a").acquire().unwrap();
    let guards = session.lock_many(["b", "c"]).acquire().unwrap();
    let others = other.lock("d").acquire().unwrap();
    let mut waits = pin!(session.lock("d").acquire_async());
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let is_well = in_child(|| {
        // SAFETY: this process drops these alone, and not what they were read from.
        let (guard, guards, session) = unsafe { (ptr::read(&guard), ptr::read(&guards), ptr::read(&session)) };
        let is_lost = guard.is_lost() && guards.is_lost() && session.info().is_none();
        let is_told = session.lock("e").acquire().unwrap_err() == Error::Closed
            && block_on(session.lock("e").acquire_async()).unwrap_err() == Error::Closed
            && block_on(waits.as_mut()).unwrap_err() == Error::Closed;
        drop(guard);
        let is_given_back = guards.release().is_ok();
        session.close();
        // One of its own works.
        drop(switch.session().lock("f").acquire().unwrap());
        is_lost && is_told && !is_given_back
    });
    assert!(is_well);
    // Whoever had left would hear of it within a lease.
    thread::sleep(2 * LEASE);
    assert!(!guard.is_lost() && !guards.is_lost());
    for name in ["a", "b", "c"] {
        assert!(matches!(other.lock(name).try_lock(), Err(Error::Busy { .. })), "{name}");
    }
    others.release().unwrap();
    block_on(waits.as_mut()).unwrap().release().unwrap();
    guard.release().unwrap();
    guards.release().unwrap();
    eventually(|| other.lock_many(["a", "b", "c"]).try_lock().is_ok());
}

/// Nothing is asked of the session, whose lock another thread of the parent's may have had; nor said in its name.
#[test]
fn what_a_fork_asks_of_a_guard_is_answered_by_itself() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let mut guard = session.lock("a").acquire().unwrap();
    let task = Task::of_main_thread();
    assert_eq!(task, Task::of_main_thread());
    assert!(in_child(|| {
        let mut of_child = pin!(guard.downgrade_async());
        let is_told = block_on(of_child.as_mut()).unwrap_err() == Error::Closed;
        let is_another = Task::of_main_thread() != task && Task::of_main_thread() == Task::of_main_thread();
        is_told && is_another && session.grants().switch == 0 && session.kept() == 0
    }));
    assert!(in_child(|| {
        guard.adopt();
        guard.mode() == Mode::Shared && guard.name().bytes().all(|byte| byte.is_ascii_digit()) && guard.is_lost()
    }));
    thread::sleep(LEASE);
    assert_eq!((guard.mode(), guard.name().as_str(), session.grants().switch), (Mode::Exclusive, "a", 1));
    guard.release().unwrap();
}

#[test]
fn the_last_of_a_session_may_go_in_a_fork() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let guard = session.lock("a").acquire().unwrap();
    drop(session);
    assert!(in_child(|| {
        // SAFETY: as above.
        drop(unsafe { ptr::read(&guard) });
        true
    }));
    thread::sleep(2 * LEASE);
    assert!(!guard.is_lost());
    guard.release().unwrap();
}
