//! What a daemon learns of tasks and queues, and a wait that it gives up to end a deadlock. A test file of its own, for
//! the socket's path comes from the environment.

mod support;

use std::future::Future;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use support::control::Daemon;
use support::{TestSwitch, eventually};
use wayside_client::control::{Abort, Greeting, ListRequest, Listed, Listing, Queued, Welcome};
use wayside_client::{Error, SOCKET_VARIABLE, Session, TASK_VARIABLE, Task};

/// Longer than any machine keeps a thread from its processor.
const LEASE: Duration = Duration::from_secs(30);
const CYCLE: &str = "a waits for \"b\", which waits for a";

/// The daemon's end of a session's connection.
fn greeted(listener: &UnixListener, session: &Session) -> Daemon {
    let mut daemon = Daemon::accept(listener);
    assert_eq!(daemon.read::<Greeting>().hello.handle, session.info().unwrap().handle);
    daemon.write(&Welcome { ok: true });
    eventually(|| session.has_lifeline());
    daemon
}

fn list(daemon: &mut Daemon, waiting_us: Option<u64>) -> Listing {
    daemon.write(&ListRequest { id: 1, list: true, waiting_us });
    daemon.read()
}

/// What waits, as soon as something does.
fn waiting(daemon: &mut Daemon) -> Listed {
    loop {
        if let Some(found) = list(daemon, Some(0)).entries.into_iter().next() {
            return found;
        }
    }
}

fn abort(daemon: &mut Daemon, request: &str) {
    daemon.write(&Abort { abort: request.into(), cycle: CYCLE.into() });
}

fn is_deadlock<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error, Error::Deadlock { cycle: CYCLE.into() });
    assert!(error.to_string().starts_with(&format!("deadlock: {CYCLE};")), "{error}");
}

#[test]
fn waits_are_given_up_with_their_cycle_and_nothing_else_is() {
    let path = std::env::temp_dir().join(format!("wayside-aborts-{}.sock", std::process::id()));
    let parent = Task::new();
    // SAFETY: the only test of this process, before it starts a thread.
    unsafe {
        std::env::set_var(SOCKET_VARIABLE, &path);
        std::env::set_var(TASK_VARIABLE, parent.to_string());
    }
    let switch = TestSwitch::start();
    let listener = UnixListener::bind(&path).unwrap();
    let session = switch.builder().lease(LEASE).connect().unwrap();
    let mut daemon = greeted(&listener, &session);
    let other = switch.builder().lease(LEASE).connect().unwrap();
    let mut others = greeted(&listener, &other);
    let held = other.lock("b").acquire().unwrap();
    let own = session.info().unwrap().handle;

    // A thread that blocks.
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let session = &session;
        let waiter = scope.spawn(move || {
            // SAFETY: a query of this thread.
            tell.send(unsafe { libc::gettid() }).unwrap();
            session.lock("b").acquire()
        });
        let wait = waiting(&mut daemon);
        assert_eq!((wait.name.as_str(), wait.state.as_str(), wait.parent.as_str()), ("b", "waiting", ""));
        assert_eq!(wait.task, format!("thread/{}", told.recv().unwrap()));
        assert!(list(&mut daemon, Some(3_600_000_000)).entries.is_empty(), "it has not waited for an hour");
        eventually(|| list(&mut others, None).queues == [[Queued { handle: own, request: wait.request.clone() }]]);
        abort(&mut daemon, &wait.request);
        is_deadlock(waiter.join().unwrap());
    });
    eventually(|| list(&mut others, None).queues.is_empty());

    // Futures: of nobody who is known, and of a task.
    let task = Task::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut plain = pin!(session.lock("b").acquire_async());
    assert!(plain.as_mut().poll(&mut context).is_pending());
    let wait = waiting(&mut daemon);
    assert_eq!(wait.task, "");
    abort(&mut daemon, &wait.request);
    is_deadlock(support::block_on(plain));
    let mut scoped = pin!(task.scope(session.lock("b").acquire_async()));
    assert!(scoped.as_mut().poll(&mut context).is_pending());
    let wait = waiting(&mut daemon);
    assert_eq!(wait.task, task.to_string());
    abort(&mut daemon, &wait.request);
    is_deadlock(support::block_on(scoped));

    // Several at once: none is left held.
    thread::scope(|scope| {
        let waiter = scope.spawn(|| session.lock_many(["a", "b", "c"]).acquire());
        loop {
            let wait = waiting(&mut daemon);
            if wait.name == "b" {
                break abort(&mut daemon, &wait.request);
            }
        }
        is_deadlock(waiter.join().unwrap());
    });
    eventually(|| other.lock_many(["a", "c"]).try_lock().is_ok());

    // Whichever of them it is: the others may be awaited for long.
    let also = other.lock("c").acquire().unwrap();
    for (is_task, name) in [(false, "b"), (false, "c"), (true, "b"), (true, "c")] {
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let request = session.lock_many(["b", "c"]);
                if is_task { support::block_on(request.acquire_async()) } else { request.acquire() }
            });
            let wait = loop {
                let entries = list(&mut daemon, Some(0)).entries;
                if let (2, Some(wait)) = (entries.len(), entries.into_iter().find(|wait| wait.name == name)) {
                    break wait;
                }
            };
            abort(&mut daemon, &wait.request);
            is_deadlock(waiter.join().unwrap());
        });
        eventually(|| list(&mut daemon, None).entries.is_empty());
    }
    drop(also);

    // Who tries stands still for nobody, even if no answer comes.
    switch.faults.mute.store(true, SeqCst);
    let mut tries = Box::pin(task.scope(session.lock("e").try_lock_async()));
    assert!(tries.as_mut().poll(&mut context).is_pending());
    let wait = waiting(&mut daemon);
    assert_eq!((wait.name.as_str(), wait.task.as_str()), ("e", ""));
    switch.faults.mute.store(false, SeqCst);
    let tried = support::block_on(tries).unwrap();
    let of = |daemon: &mut Daemon, name: &str| list(daemon, None).entries.into_iter().find(|entry| entry.name == name);
    assert_eq!(of(&mut daemon, "e").unwrap().task, task.to_string(), "what it then holds is its task's");
    drop(tried);

    // A hold stays, whoever asks; and so does what is no request.
    let guard = thread::scope(|scope| scope.spawn(|| session.lock("d").acquire().unwrap()).join().unwrap());
    let of_hold = |daemon: &mut Daemon| of(daemon, "d").unwrap();
    let hold = of_hold(&mut daemon);
    for request in [hold.request.as_str(), "ffffffffffffffff", "none", ""] {
        abort(&mut daemon, request);
    }
    let listed = of_hold(&mut daemon);
    assert!(listed.state == "held" && !guard.is_lost());

    // It is whose who has it, as soon as that is said.
    assert!(listed.task.starts_with("thread/"));
    let _working = task.enter();
    guard.adopt();
    assert_eq!(of_hold(&mut daemon).task, task.to_string());
    assert_eq!(of_hold(&mut daemon).request, hold.request);

    drop(held);
    assert!(session.lock("b").acquire().is_ok(), "whoever gave up may try again");
    std::fs::remove_file(path).unwrap();
}
