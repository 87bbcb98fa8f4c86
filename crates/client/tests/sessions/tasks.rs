//! Futures, without a runtime: polled by hand, dropped at every point, woken by the session's own thread.

use crate::support::{TestSwitch, block_on, eventually};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error, Mode, Session};

/// Counts its calls.
#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_task_acquires_downgrades_and_releases() {
    let switch = TestSwitch::start();
    let session = switch.builder().begin().unwrap();
    block_on(async {
        let mut guard = session.lock("a").await.unwrap();
        assert!(matches!(session.lock("a").try_lock_async().await, Err(Error::Busy { .. })));
        guard.downgrade_async().await.unwrap();
        assert_eq!(guard.mode(), Mode::Shared);
        let other = session.lock("a").shared().wait(Duration::from_secs(5)).await.unwrap();
        other.release().unwrap();
        guard.release().unwrap();
        session.lock_many(["a", "b", "c"]).await.unwrap().release().unwrap();
    });
}

/// docs/protocol.md, "Priorities"; of several locks each is asked for with it.
#[test]
fn urgent_tasks_are_served_before_others_and_there_are_eight_levels() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let guard = session.lock("a").acquire().unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let served = std::cell::RefCell::new(Vec::new());
    let one = async |level: u8| {
        let guard = session.lock("a").priority(level).acquire_async().await.unwrap();
        served.borrow_mut().push(level);
        guard.release().unwrap();
    };
    let many = async |level: u8| {
        let guards = session.lock_many(["a", "b"]).priority(level).acquire_async().await.unwrap();
        served.borrow_mut().push(level);
        guards.release().unwrap();
    };
    let (mut low, mut normal) = (pin!(one(0)), pin!(one(4)));
    let (mut high, mut higher) = (pin!(one(6)), pin!(many(7)));
    assert!(low.as_mut().poll(context).is_pending() && normal.as_mut().poll(context).is_pending());
    assert!(high.as_mut().poll(context).is_pending() && higher.as_mut().poll(context).is_pending());
    guard.release().unwrap();
    let mut tasks: Vec<std::pin::Pin<&mut dyn Future<Output = ()>>> = vec![low, normal, high, higher];
    eventually_mut(|| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        tasks.is_empty()
    });
    drop(tasks);
    assert_eq!(*served.borrow(), [7, 6, 4, 0]);
    let bad = Error::InvalidPriority(8);
    assert_eq!(session.lock("a").priority(8).acquire().unwrap_err(), bad);
    assert_eq!(session.lock_many(["a"]).priority(8).acquire().unwrap_err(), bad);
    assert_eq!(block_on(session.lock("a").priority(8).acquire_async()).unwrap_err(), bad);
    assert_eq!(block_on(session.lock_many(["a"]).priority(8).acquire_async()).unwrap_err(), bad);
    assert_eq!(bad.to_string(), "invalid priority: 8; it is 0 to 7, and the higher is served earlier");
}

#[test]
fn many_tasks_of_one_thread_wait_at_once() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let guard = session.lock("a").acquire().unwrap();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    let mut tasks: Vec<_> = (0..50).map(|_| Box::pin(session.lock("a").acquire_async())).collect();
    assert!(tasks.iter_mut().all(|task| task.as_mut().poll(&mut context).is_pending()));
    guard.release().unwrap();
    let mut granted = 0;
    eventually_mut(|| {
        let before = granted;
        tasks.retain_mut(|task| match task.as_mut().poll(&mut context) {
            Poll::Ready(guard) => {
                guard.unwrap().release().unwrap();
                granted += 1;
                false
            }
            Poll::Pending => true,
        });
        assert!(granted - before <= 50);
        granted == 50
    });
    assert!(bell.0.load(SeqCst) > 0, "the session called, not only the polls found");
}

#[test]
fn a_dropped_acquire_leaves_the_lock_to_others() {
    let switch = TestSwitch::start();
    let (one, other) = (switch.session(), switch.session());
    let waker = Waker::from(Arc::new(Bell::default()));
    let mut context = Context::from_waker(&waker);
    // Before it is polled, while its packet is on its way, and while it waits for another holder.
    drop(one.lock("a").acquire_async());
    for _ in 0..100 {
        let mut acquiring = Box::pin(one.lock("a").acquire_async());
        let _ = acquiring.as_mut().poll(&mut context);
    }
    let guard = other.lock("a").wait(Duration::from_secs(5)).acquire().unwrap();
    let mut acquiring = Box::pin(one.lock("a").acquire_async());
    assert!(acquiring.as_mut().poll(&mut context).is_pending());
    thread::sleep(Duration::from_millis(20));
    drop(acquiring);
    let mut many = Box::pin(one.lock_many(["b", "a", "c"]).acquire_async());
    assert!(many.as_mut().poll(&mut context).is_pending());
    thread::sleep(Duration::from_millis(20));
    drop(many);
    guard.release().unwrap();
    for name in ["a", "b", "c"] {
        eventually(|| other.lock(name).try_lock().is_ok());
    }
}

#[test]
fn a_task_hears_of_loss_and_of_time_outs() {
    let switch = TestSwitch::start();
    let session = switch.session();
    block_on(async {
        let guard = session.lock("a").ttl(Duration::from_millis(50)).await.unwrap();
        guard.lost_async().await;
        assert!(guard.is_lost());
        let held = session.lock("b").await.unwrap();
        assert_eq!(session.lock("b").wait(Duration::from_millis(30)).await.unwrap_err(), Error::TimedOut);
        switch.faults.mute.store(true, SeqCst);
        held.lost_async().await;
        assert!(held.is_lost());
    });
}

#[test]
fn a_task_without_a_switch_is_told_in_time() {
    let session = wayside_client::Session::builder()
        .endpoint("127.0.0.1:9")
        .patience(Duration::from_millis(200))
        .begin()
        .unwrap();
    let outcome = block_on(async { session.lock("a").await });
    assert!(matches!(outcome, Err(Error::Unavailable { .. })));
}

#[test]
fn a_task_that_watches_without_a_session_is_told_in_time() {
    // By a thread that nobody waits for longer.
    let watch = |session: &Session, wait: Option<Duration>| {
        let (session, (told, is_told)) = (session.clone(), channel());
        thread::spawn(move || {
            let store = session.store();
            let store = wait.map_or(store, |wait| store.wait(wait));
            let _ = told.send(block_on(store.watch_async("k")).map(|_| ()));
        });
        is_told.recv_timeout(Duration::from_secs(10)).expect("within ten seconds")
    };
    let nowhere = Session::builder().endpoint("127.0.0.1:9").patience(Duration::from_millis(200)).begin().unwrap();
    assert!(matches!(watch(&nowhere, None), Err(Error::Unavailable { .. })));
    assert_eq!(watch(&nowhere, Some(Duration::from_millis(30))), Err(Error::TimedOut));
    let switch = TestSwitch::start();
    let refused = switch.builder().namespace("none").begin().unwrap();
    assert!(matches!(watch(&refused, None), Err(Error::Refused(_))));
}

#[test]
fn who_is_called_while_a_switch_is_looked_for_may_ask_where_it_is() {
    struct Asks(Session, AtomicU32);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let _ = self.0.switch();
            self.1.fetch_add(1, SeqCst);
        }
    }
    // By a thread that nobody waits for longer.
    let (told, is_told) = channel();
    thread::spawn(move || {
        let builder = Session::builder().endpoint("127.0.0.1:9").patience(Duration::from_secs(60));
        let session = builder.begin().unwrap();
        let asks = Arc::new(Asks(session.clone(), AtomicU32::new(0)));
        let waker = Waker::from(asks.clone());
        let mut acquiring = pin!(session.lock("a").acquire_async());
        // After a second the endpoint is looked up anew.
        let end = Instant::now() + Duration::from_millis(2_500);
        while Instant::now() < end {
            assert!(acquiring.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            thread::sleep(Duration::from_millis(1));
        }
        let _ = session.switch();
        let _ = told.send(asks.1.load(SeqCst));
    });
    let called = is_told.recv_timeout(Duration::from_secs(10)).expect("nobody waits for a lock for ever");
    assert!(called > 0);
}

/// Wakers may run their task at once, on the session's own thread, and drop the last of the session there.
#[test]
fn a_session_may_end_on_its_own_thread() {
    type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    struct DropsIt(std::sync::Mutex<Option<Task>>);
    impl Wake for DropsIt {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let switch = TestSwitch::start();
    let session = switch.session();
    let mut task: Task = Box::pin(async move {
        let _guard = session.lock("a").await.unwrap();
        let _ = session.lock("a").wait(Duration::from_millis(30)).await;
    });
    let drops = Arc::new(DropsIt(std::sync::Mutex::new(None)));
    let waker = Waker::from(drops.clone());
    let mut own = drops.0.lock().unwrap();
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    *own = Some(task);
    drop(own);
    eventually(|| drops.0.lock().unwrap().is_none());
    let other = switch.session();
    drop(other.lock("a").wait(Duration::from_secs(5)).acquire().unwrap());
}

/// By another thread and by a waker at once: neither waits for the other for ever.
#[test]
fn a_session_may_end_on_its_own_thread_while_another_ends_it() {
    struct Ends(std::sync::Mutex<Option<Session>>, std::sync::mpsc::Sender<Option<String>>);
    impl Wake for Ends {
        fn wake(self: Arc<Self>) {
            let session = self.0.lock().unwrap().take();
            session.into_iter().for_each(Session::close);
            let _ = self.1.send(thread::current().name().map(String::from));
        }
    }
    let switch = TestSwitch::start();
    let session = switch.session();
    let guard = session.lock("a").acquire().unwrap();
    // What is given back lingers, and is the session's own thread's by then.
    switch.faults.mute.store(true, SeqCst);
    let (told, is_told) = channel();
    thread::spawn(move || {
        let waker = Waker::from(Arc::new(Ends(std::sync::Mutex::new(Some(session.clone())), told)));
        let store = session.store();
        let mut asks = pin!(store.get_async("k"));
        assert!(asks.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(guard);
        session.clone().close();
    });
    let ended_by = is_told.recv_timeout(Duration::from_secs(10)).expect("it ends");
    assert_eq!(ended_by.as_deref(), Some("wayside"));
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn several_locks_are_granted_once() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let mut acquiring = pin!(session.lock_many(["a", "b"]).acquire_async());
    drop(block_on(acquiring.as_mut()).unwrap());
    let _ = acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[track_caller]
fn eventually_mut(mut what: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if what() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("not within ten seconds");
}

/// A task that works under a lock asks with each of its steps, and drops the question when the step is done.
#[test]
fn who_no_longer_waits_for_a_loss_leaves_nothing_behind() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let guards = session.lock_many(["a", "b"]).acquire().unwrap();
    let ask = |bell: &Arc<Bell>| {
        let waker = Waker::from(bell.clone());
        let context = &mut Context::from_waker(&waker);
        let (mut one, mut all) = (pin!(guards.each()[0].lost_async()), pin!(guards.lost_async()));
        for _ in 0..2 {
            assert!(one.as_mut().poll(context).is_pending() && all.as_mut().poll(context).is_pending());
        }
    };
    let bells = [(); 100].map(|()| Arc::new(Bell::default()));
    bells.iter().for_each(ask);
    assert!(bells.iter().all(|bell| Arc::strong_count(bell) == 1), "each was dropped with its futures");
    // Two of the same task: the one that stays is still called.
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let context = &mut Context::from_waker(&waker);
    let mut stays = pin!(guards.each()[1].lost_async());
    assert!(stays.as_mut().poll(context).is_pending());
    ask(&bell);
    session.close();
    eventually(|| bell.0.load(SeqCst) > 0);
    assert!(stays.as_mut().poll(context).is_ready());
}
