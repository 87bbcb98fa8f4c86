//! A runtime that reads for its tasks.

use crate::support::{TestSwitch, block_on, eventually};
use std::future::Future;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use wayside_client::{Mode, Session};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn driven(session: &Session) -> JoinHandle<()> {
    tokio::spawn(session.driver())
}

async fn ends(driver: JoinHandle<()>) {
    tokio::time::timeout(Duration::from_secs(10), driver).await.expect("within ten seconds").unwrap();
}

/// Each takes the lock so many times; nobody is forgotten.
async fn contend(session: &Session, tasks: usize, times: usize) {
    let task = |index: usize| async move {
        for round in 0..times {
            let name = format!("lock/{}", (index + round) % 3);
            session.lock(name.as_str()).wait(Duration::from_secs(10)).await.unwrap().release().unwrap();
        }
    };
    futures_util::future::join_all((0..tasks).map(task)).await;
}

#[test]
fn tasks_are_answered_through_their_own_runtime() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.session(), switch.session());
    runtime().block_on(async {
        let (one, two) = (driven(&session), driven(&other));
        tokio::join!(contend(&session, 20, 20), contend(&other, 20, 20));
        assert!(!one.is_finished() && !two.is_finished());
    });
}

/// Nothing but the driver reads: the session's own thread would take the answers before it does.
#[test]
fn the_sessions_own_thread_leaves_the_answers_to_it() {
    let switch = TestSwitch::start();
    let session = switch.session();
    runtime().block_on(async {
        let _driver = driven(&session);
        drop(session.lock("a").await.unwrap());
        let granted = || session.grants().switch + session.grants().local;
        // That thread reads when a timer is due, such as the next heartbeat's: mostly not within these milliseconds.
        let left_alone = (0..20).filter(|index| {
            let before = granted();
            let name = format!("fresh/{index}");
            let mut acquiring = Box::pin(session.lock(name.as_str()).acquire_async());
            let mut poll = || acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
            // By a thread that is not the runtime's, so that it is sent at once.
            assert!(std::thread::scope(|scope| scope.spawn(&mut poll).join()).unwrap());
            std::thread::sleep(Duration::from_millis(2));
            granted() == before
        });
        assert!(left_alone.count() > 0);
    });
}

#[test]
fn a_thread_that_goes_on_with_a_tasks_lock_is_answered() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.session(), switch.session());
    runtime().block_on(async {
        let _driver = driven(&session);
        // So that the agent is another node's, and the answer a packet.
        let shared = other.lock("a").shared().await.unwrap();
        drop(shared);
        let mut guard = session.lock("a").await.unwrap();
        let downgraded = tokio::task::spawn_blocking(move || guard.downgrade().map(|()| guard.mode()));
        assert_eq!(downgraded.await.unwrap().unwrap(), Mode::Shared);
    });
}

#[test]
fn without_it_the_sessions_own_thread_reads_again() {
    let switch = TestSwitch::start();
    let session = switch.session();
    for _ in 0..2 {
        let runtime = runtime();
        runtime.block_on(async {
            let driver = driven(&session);
            drop(session.lock("a").await.unwrap());
            assert!(!driver.is_finished());
        });
        // With the runtime its driver goes.
        drop(runtime);
        block_on(contend(&session, 3, 3));
    }
}

#[test]
fn a_second_one_ends_at_once_and_the_last_with_the_session() {
    let switch = TestSwitch::start();
    let session = switch.session();
    runtime().block_on(async {
        let driver = driven(&session);
        tokio::task::yield_now().await;
        ends(driven(&session)).await;
        drop(session.lock("a").await.unwrap());
        assert!(!driver.is_finished());
        drop(session);
        ends(driver).await;
    });
}

#[test]
fn it_goes_on_with_the_session_that_follows_one_that_was_lost() {
    let switch = TestSwitch::start();
    let session = switch.session();
    runtime().block_on(async {
        let driver = driven(&session);
        let held = session.lock("a").await.unwrap();
        let before = session.info().unwrap().incarnation;
        switch.faults.mute.store(true, SeqCst);
        held.lost_async().await;
        switch.faults.mute.store(false, SeqCst);
        eventually(|| session.info().is_some_and(|info| info.incarnation != before));
        contend(&session, 10, 10).await;
        assert!(!driver.is_finished());
    });
}
