//! Recipes as futures: many tasks on one thread, and what becomes of what is dropped at any point (docs/recipes.md).

use crate::support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use support::{Daemon, Stopped, connect, eventually};
use wayside_client::recipes::Member;
use wayside_client::{Condition, Error, Event, Session};

const WAIT: Duration = Duration::from_secs(30);

/// For a minute no session ends by itself.
fn daemon() -> Daemon {
    Daemon::start(&["--lease", "60s"])
}

fn session(daemon: &Daemon) -> Session {
    connect(daemon.address.to_string())
}

/// Has tasks run, all on this thread, which must not stand still for one of them.
fn run<F: Future<Output = ()>>(tasks: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(2 * WAIT, tasks).await.expect("in time") });
}

/// Begins it, and drops it while it waits for a switch that says nothing.
fn begin_only<F: Future>(future: F) {
    let mut future = pin!(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn tasks_of_one_thread_take_turns_at_a_semaphore() {
    const PERMITS: u32 = 3;
    let daemon = daemon();
    let sessions = [session(&daemon), session(&daemon)];
    let inside = Arc::new(AtomicU32::new(0));
    run(async {
        let task = |index: usize| {
            let (session, inside) = (sessions[index % 2].clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                let semaphore = session.semaphore("few", PERMITS).unwrap().wait(WAIT);
                for _ in 0..5 {
                    let permit = semaphore.acquire_async().await.unwrap();
                    let now = inside.fetch_add(1, SeqCst) + 1;
                    assert!(now <= PERMITS, "{now} at once");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, SeqCst);
                    permit.release_async().await.unwrap();
                }
            })
        };
        for task in (0..12).map(task).collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let semaphore = sessions[0].semaphore("few", PERMITS).unwrap();
        assert_eq!(semaphore.available_async().await.unwrap(), 3);
        let mut permits = Vec::new();
        for _ in 0..PERMITS {
            permits.push(semaphore.try_acquire_async().await.unwrap().expect("it is free"));
        }
        assert!(semaphore.try_acquire_async().await.unwrap().is_none());
        let late = semaphore.wait(Duration::from_millis(50)).acquire_async().await;
        assert_eq!(late.unwrap_err(), Error::TimedOut);
    });
}

#[test]
fn tasks_of_one_thread_lead_in_turn_meet_at_barriers_and_see_members() {
    let daemon = daemon();
    let session = session(&daemon);
    run(async {
        let election = session.election("scheduler").wait(WAIT);
        let first = election.campaign_async("first").await.unwrap();
        let candidate = tokio::spawn({
            let election = election.clone();
            async move { election.campaign_async("second").await }
        });
        let (leader, mut watch) = election.follow_async().await.unwrap();
        assert_eq!(leader.expect("there is one").value.bytes(), b"first");
        let token = first.token();
        first.resign_async().await.unwrap();
        let mut second = candidate.await.unwrap().unwrap();
        assert!(second.token() > token);
        assert!(second.update_async("second, later").await.unwrap());
        while !matches!(watch.next_async().await.unwrap(), Event::Put { value, .. } if value.bytes().len() > 6) {}
        assert_eq!(election.leader_async().await.unwrap().unwrap().value.bytes(), b"second, later");

        let barrier = session.barrier("step", 3).unwrap().wait(WAIT);
        let enter = || {
            let barrier = barrier.clone();
            tokio::spawn(async move { barrier.enter_async().await })
        };
        let parties = [enter(), enter()];
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!barrier.is_open_now_async().await.unwrap());
        enter().await.unwrap().unwrap();
        for party in parties {
            party.await.unwrap().unwrap();
        }
        barrier.close_async().await.unwrap();
        assert!(!barrier.is_open_now_async().await.unwrap());

        let group = session.group("workers").unwrap().wait(WAIT);
        let own = group.join_async("own").await.unwrap();
        let (seen, is_seen) = tokio::sync::oneshot::channel();
        let coming = tokio::spawn({
            let group = group.clone();
            async move {
                let other = group.join_async("other").await.unwrap();
                is_seen.await.unwrap();
                other.leave_async().await
            }
        });
        let mut seen = Some(seen);
        let show = |members: &[Member]| {
            if members.len() == 2 {
                seen.take().into_iter().for_each(|seen| seen.send(()).unwrap());
            }
            seen.is_some() || members.len() == 2
        };
        group.follow_async(show).await.unwrap();
        coming.await.unwrap().unwrap();
        assert_eq!(group.members_async().await.unwrap().len(), 1);
        own.leave_async().await.unwrap();
    });
}

/// It may have been written all the same: nobody else would give it back for a minute.
#[test]
fn what_a_dropped_future_may_have_taken_is_given_back() {
    let daemon = daemon();
    let [session, other] = [session(&daemon), session(&daemon)];
    let semaphore = session.semaphore("few", 1).unwrap();
    // The key is made: the next write has its effect without another question.
    semaphore.try_acquire().unwrap().expect("it is free").release().unwrap();
    let name = "few/semaphore/0";
    let store = session.store();
    let mut watch = other.store().watch(name).unwrap().wait(WAIT);
    let stopped = Stopped::stop(&daemon);
    begin_only(store.hold_async(name, [], Condition::Absent));
    drop(stopped);
    let [first, then] = [(); 2].map(|()| watch.next().unwrap());
    assert!(matches!((&first, &then), (Event::Put { .. }, Event::Deleted { .. })), "{first:?} {then:?}");
    let permit = other.semaphore("few", 1).unwrap().wait(WAIT).acquire().unwrap();
    drop(permit);

    // What it was about to change, and to give back.
    let mut permit = store.hold(name, [], Condition::Absent).unwrap().expect("it is free");
    let stopped = Stopped::stop(&daemon);
    begin_only(permit.update_async("changed"));
    drop(stopped);
    drop(permit);
    eventually("it is deleted", || other.store().get(name).unwrap().is_none());
    let permit = store.hold(name, [], Condition::Absent).unwrap().expect("it is free");
    let stopped = Stopped::stop(&daemon);
    begin_only(permit.release_async());
    drop(stopped);
    eventually("it is deleted", || other.store().get(name).unwrap().is_none());
}

#[test]
fn what_a_task_drops_is_given_back_without_keeping_its_thread() {
    let daemon = daemon();
    let [session, other] = [session(&daemon), session(&daemon)];
    let permits = [(); 2].map(|()| {
        let mut permit = None;
        run(async { permit = session.semaphore("few", 2).unwrap().try_acquire_async().await.unwrap() });
        permit.expect("it is free")
    });
    let stopped = Stopped::stop(&daemon);
    let begun = Instant::now();
    drop(permits);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    drop(stopped);
    eventually("both are free", || other.semaphore("few", 2).unwrap().available().unwrap() == 2);
}

/// Of a barrier: whoever comes again is the party that gave up.
#[test]
fn a_party_that_was_dropped_does_not_count_twice() {
    let daemon = daemon();
    let session = session(&daemon);
    let store = session.store();
    let barrier = session.barrier("step", 2).unwrap();
    run(async {
        let mut parties = Vec::new();
        for _ in 0..2 {
            eventually("its seat is free", || store.get("step/barrier/0").unwrap().is_none());
            let mut watch = store.watch_async("step/barrier/0").await.unwrap();
            let mut entering = pin!(barrier.enter_async());
            parties.push(loop {
                tokio::select! {
                    entered = &mut entering => panic!("the other one has not come: {entered:?}"),
                    event = watch.next_async() => if let Event::Put { value, .. } = event.unwrap() {
                        break value.bytes().to_vec();
                    }
                }
            });
        }
        assert_eq!(parties[0], parties[1]);
    });
    eventually("it has left", || store.get("step/barrier/0").unwrap().is_none());
}
