//! Metrics of the client: a recorder of the test's own hears of everything that happens to locks, and observing costs
//! no allocation. One test, for a process has one recorder.

mod support;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use support::{TestSwitch, block_on, eventually};
use wayside_client::{Error, Name, Session, Shards};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// One series: what it counts, or how often it was observed; and the sum of what was.
#[derive(Default)]
struct Series {
    count: AtomicU64,
    micros: AtomicU64,
}

impl CounterFn for Series {
    fn increment(&self, by: u64) {
        self.count.fetch_add(by, Relaxed);
    }

    fn absolute(&self, _: u64) {
        unreachable!("nothing here is set");
    }
}

impl GaugeFn for Series {
    fn increment(&self, by: f64) {
        self.count.fetch_add(by as u64, Relaxed);
    }

    fn decrement(&self, by: f64) {
        self.count.fetch_sub(by as u64, Relaxed);
    }

    fn set(&self, _: f64) {
        unreachable!("nothing here is set");
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.count.fetch_add(1, Relaxed);
        self.micros.fetch_add((value * 1e6) as u64, Relaxed);
    }
}

#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, Arc<Series>>>>);

impl Book {
    fn series(&self, key: &Key) -> Arc<Series> {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.0.lock().unwrap().entry(name).or_default().clone()
    }

    /// It was registered, whether or not it ever moved.
    fn get(&self, series: &str) -> Arc<Series> {
        let book = self.0.lock().unwrap();
        book.get(series).unwrap_or_else(|| panic!("no {series} among {:?}", book.keys())).clone()
    }

    fn count(&self, series: &str) -> u64 {
        self.get(series).count.load(Relaxed)
    }

    fn acquired(&self, mode: &str, path: &str, result: &str) -> u64 {
        self.count(&acquired(mode, path, result))
    }

    fn lost(&self, reason: &str) -> u64 {
        self.count(&format!("wayside_lock_lost_total{{namespace=default,reason={reason}}}"))
    }
}

fn acquired(mode: &str, path: &str, result: &str) -> String {
    format!("wayside_lock_acquire_seconds{{namespace=default,mode={mode},path={path},result={result}}}")
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

const HELD: &str = "wayside_locks_held{namespace=default}";
const WAITERS: &str = "wayside_lock_waiters{namespace=default}";

#[test]
fn what_happens_to_locks_is_observed_without_an_allocation() {
    let book = Book::default();
    metrics::set_global_recorder(book.clone()).unwrap_or_else(|_| panic!("the first of this process"));
    let switch = TestSwitch::start();
    let (session, other) = (switch.session(), switch.session());
    assert_eq!(book.acquired("exclusive", "switch", "granted"), 0, "there before it is observed");

    let guard = session.lock(1u64).acquire().unwrap();
    assert_eq!((book.acquired("exclusive", "switch", "granted"), book.count(HELD)), (1, 1));
    assert!(book.get(&acquired("exclusive", "switch", "granted")).micros.load(Relaxed) > 0);
    let shared = session.lock(2u64).shared().acquire().unwrap();
    assert_eq!((book.acquired("shared", "switch", "granted"), book.count(HELD)), (1, 2));
    drop(shared);

    assert!(matches!(other.lock(1u64).try_lock(), Err(Error::Busy { .. })));
    assert_eq!(book.acquired("exclusive", "none", "busy"), 1);
    let most = Duration::from_millis(30);
    assert!(matches!(other.lock(1u64).wait(most).acquire(), Err(Error::TimedOut)));
    assert_eq!(book.acquired("exclusive", "none", "timed_out"), 1);
    assert!(book.get(&acquired("exclusive", "none", "timed_out")).micros.load(Relaxed) >= 30_000);

    let mut context = Context::from_waker(Waker::noop());
    {
        let mut waiting = pin!(other.lock(1u64).acquire_async());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(book.count(WAITERS), 1);
    }
    assert_eq!((book.acquired("exclusive", "none", "given_up"), book.count(WAITERS)), (1, 0));
    let guards = other.lock_many([11u64, 12]).acquire().unwrap();
    assert_eq!((book.acquired("exclusive", "switch", "granted"), book.count(HELD)), (3, 3));
    drop((guards, guard));
    assert_eq!(book.count(HELD), 0);

    let limited = session.lock(3u64).ttl(Duration::from_millis(20)).acquire().unwrap();
    eventually(|| book.lost("ttl") == 1);
    drop(limited);

    // Everything that is used again has been made.
    let cycle = || (100..200u64).for_each(|name| drop(session.lock(name).acquire().unwrap()));
    (0..20).for_each(|_| cycle());
    let before = ALLOCATIONS.with(Cell::get);
    let observed = || ["switch", "local"].map(|path| book.get(&acquired("exclusive", path, "granted")));
    let observed = observed();
    let total = || observed.iter().map(|series| series.count.load(Relaxed)).sum::<u64>();
    let (allocated, counted) = (ALLOCATIONS.with(Cell::get), total());
    assert!(allocated > before, "the allocator counts");
    (0..20).for_each(|_| cycle());
    assert_eq!((ALLOCATIONS.with(Cell::get) - allocated, total() - counted), (0, 2_000));

    let kept = session.lock(4u64).acquire().unwrap();
    let ended = other.lock(5u64).acquire().unwrap();
    other.close();
    assert_eq!((book.lost("closed"), ended.is_lost()), (1, true));
    switch.faults.mute.store(true, Relaxed);
    eventually(|| book.lost("session") == 1);
    switch.faults.mute.store(false, Relaxed);
    drop((kept, ended));
    assert_eq!((book.lost("ttl"), book.lost("closed"), book.lost("session")), (1, 1, 1), "each once");
    assert_eq!((book.count(HELD), book.count(WAITERS)), (0, 0));

    // Of several shards' locks some are granted before others are refused.
    let shards = Shards::new(["east", "west"].map(String::from)).unwrap();
    let switches = TestSwitch::of_shards(&shards);
    let endpoint = format!("east={};west={}", switches[0].address, switches[1].address);
    let [session, other] = [(); 2].map(|()| Session::connect(endpoint.as_str()).unwrap());
    let of = |shard| (0u64..).find(|name| shards.owner(Name::from(*name).id().unwrap()) == shard).unwrap();
    let both = [of(0), of(1)];
    let held = other.lock(both[1]).acquire().unwrap();
    assert!(matches!(session.lock_many(both).try_lock(), Err(Error::Busy { .. })));
    assert!(matches!(block_on(session.lock_many(both).try_lock_async()), Err(Error::Busy { .. })));
    assert_eq!(book.count(HELD), 1);
    drop(held);
    let guards = session.lock_many(both).wait(Duration::from_secs(10)).acquire().unwrap();
    assert_eq!(book.count(HELD), 2);
    drop(guards);
    assert_eq!(book.count(HELD), 0);
}
