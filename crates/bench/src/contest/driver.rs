//! Runs a workload's transactions over a lock service: a thread for each node, its clients as tasks on it, each of them
//! one transaction after the other. The service is checked all the while (`witness.rs`).
//!
//! A transaction acquires its locks one by one, works for the workload's execution time or on the data that they guard
//! (`bank.rs`), thinks for as long as it is told, and gives all back; where the workload has a time-out, one that has
//! not all locks by then gives back what it has and tries again a little later. Grants and transactions count if they
//! end within the measured time.

use super::bank::{Bank, Teller};
use super::service::{Grant, LockService, Refusal};
use super::witness::Witness;
use crate::Error;
use crate::phases::{PATIENCE, Phases, Span, Times};
use crate::workloads::{Transaction, Workload};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use wayside_client::Mode;

/// An aborted transaction tries again after up to so many milliseconds.
const BACKOFF_MS: u64 = 2;
/// Of the throughput over time.
pub(crate) const BIN: Duration = Duration::from_millis(20);

/// What to run, and how.
pub(crate) struct Course<'w> {
    pub(crate) workload: &'w dyn Workload,
    pub(crate) execution: Duration,
    /// For how long all locks are held besides ([`think`]).
    pub(crate) think: Duration,
    /// What the locks guard, if it is there.
    pub(crate) bank: Option<&'w Bank>,
    /// After how long a transaction is aborted.
    pub(crate) abort: Option<Duration>,
    /// Locks are acquired in the order of their numbers, so that nobody can wait in a circle; otherwise in the
    /// program's.
    pub(crate) is_sorted: bool,
    pub(crate) nodes: usize,
    /// Of all nodes.
    pub(crate) clients: usize,
    pub(crate) seed: u64,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What came of it.
pub(crate) struct Outcome {
    /// From asking for a lock until it was granted: nanoseconds.
    pub(crate) grants: Histogram<u64>,
    /// From a transaction's first request until all was given back, with what was aborted before: nanoseconds.
    pub(crate) transactions: Histogram<u64>,
    pub(crate) aborts: u64,
    /// Of these grants, those that the service says its switch made.
    pub(crate) by_switch: u64,
    /// Grants in each [`BIN`],
    pub(crate) timeline: Vec<u32>,
    /// those that the switch made,
    pub(crate) timeline_of_switch: Vec<u32>,
    /// and those of each node alone.
    pub(crate) of_nodes: Vec<Vec<u32>>,
    pub(crate) overlaps: u64,
    pub(crate) stale_tokens: u64,
    /// Of the bank's money, if there is one.
    pub(crate) missing_money: Option<i64>,
    pub(crate) times: Times,
}

/// A thread's place among the nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) clients: usize,
}

/// What all threads of a run share.
struct Shared<'c, 'w> {
    course: &'c Course<'w>,
    witness: &'c Witness,
    phases: &'c Phases,
}

/// What one node's clients saw.
struct Tally {
    grants: Histogram<u64>,
    transactions: Histogram<u64>,
    aborts: u64,
    by_switch: u64,
    timeline: Vec<u32>,
    timeline_of_switch: Vec<u32>,
}

impl Tally {
    fn new(measured: Duration) -> Tally {
        // Two digits at least, up to the longest wait.
        let empty = || Histogram::new_with_bounds(1, PATIENCE.as_nanos() as u64, 2).expect("bounds that fit");
        let bins = measured.as_nanos().div_ceil(BIN.as_nanos()) as usize;
        Tally {
            grants: empty(),
            transactions: empty(),
            aborts: 0,
            by_switch: 0,
            timeline: vec![0; bins],
            timeline_of_switch: vec![0; bins],
        }
    }
}

fn add(sums: &mut [u32], ones: &[u32]) {
    sums.iter_mut().zip(ones).for_each(|(sum, one)| *sum += one);
}

fn nanos(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Runs it. `enter` brings a node's thread to its place, `connect` its clients to the service; `servers` are the
/// service's processes.
///
/// # Errors
/// If the service fails. That it breaks its promise is in the outcome.
pub(crate) fn drive<S: LockService>(
    course: &Course<'_>,
    servers: &[u32],
    enter: impl Fn(Node) + Sync,
    connect: impl AsyncFn(Node) -> Result<S, Error> + Sync,
) -> Result<Outcome, Error> {
    let witness = Witness::new();
    let span = Span { warm_up: course.warm_up, measured: course.measured };
    let servers: Vec<u32> = servers.iter().copied().chain(course.bank.map(Bank::id)).collect();
    let ran = Phases::new().drive(course.nodes, span, &servers, |phases, index| {
        // Clients that do not divide evenly are the first nodes'.
        let clients = course.clients / course.nodes + usize::from(index < course.clients % course.nodes);
        let node = Node { index, clients };
        enter(node);
        let shared = Shared { course, witness: &witness, phases };
        let tally = RefCell::new(Tally::new(course.measured));
        phases.run(async {
            let service = connect(node).await?;
            let teller = match course.bank {
                Some(bank) => Some(bank.teller().await?),
                None => None,
            };
            phases.connected().await;
            let place = Place { node, service, teller, tally: &tally };
            let clients = (0..node.clients).map(|client| run_client(&shared, &place, client));
            try_join_all(clients).await?;
            place.service.end().await
        });
        tally.into_inner()
    });
    // After a run that failed, too: what it has lost is not the next one's.
    let missing_money = course.bank.map(Bank::missing).transpose()?;
    let (tallies, times) = ran?;
    let mut all = Tally::new(course.measured);
    let mut of_nodes = Vec::new();
    for tally in tallies {
        all.grants += tally.grants;
        all.transactions += tally.transactions;
        all.aborts += tally.aborts;
        all.by_switch += tally.by_switch;
        add(&mut all.timeline, &tally.timeline);
        add(&mut all.timeline_of_switch, &tally.timeline_of_switch);
        of_nodes.push(tally.timeline);
    }
    Ok(Outcome {
        grants: all.grants,
        transactions: all.transactions,
        aborts: all.aborts,
        by_switch: all.by_switch,
        timeline: all.timeline,
        timeline_of_switch: all.timeline_of_switch,
        of_nodes,
        overlaps: witness.overlaps(),
        stale_tokens: witness.stale_tokens(),
        missing_money,
        times,
    })
}

/// What the clients of one node share.
struct Place<'p, S> {
    node: Node,
    service: S,
    teller: Option<Teller>,
    tally: &'p RefCell<Tally>,
}

/// One client: a transaction after the other, to the end of the run.
async fn run_client<S: LockService>(shared: &Shared<'_, '_>, place: &Place<'_, S>, client: usize) -> Result<(), Error> {
    let course = shared.course;
    let Place { node, service, teller, tally } = place;
    // Clients are dealt out to the nodes in turn.
    let number = (client * course.nodes + node.index) as u64;
    let mut generator = course.workload.generator(course.seed, number);
    let mut dice = ChaCha8Rng::seed_from_u64(number);
    let mut transaction = Transaction::empty();
    let mut held = Vec::with_capacity(32);
    while !shared.phases.is_over() {
        let began = Instant::now();
        generator.next(shared.phases.elapsed(), &mut transaction);
        if course.is_sorted {
            transaction.requests.sort_unstable_by_key(|request| request.lock);
        }
        loop {
            let attempt = Attempt { shared, client, service, tally };
            let has_all = attempt.acquire(&transaction, &mut held).await?;
            if has_all {
                work(course.execution);
                if let Some(teller) = teller {
                    teller.serve(&transaction, &mut dice).await?;
                }
                think(course.think).await;
            }
            attempt.give_back(&mut held).await?;
            if has_all {
                break;
            }
            service.forget(client).await?;
            if shared.phases.counts() {
                tally.borrow_mut().aborts += 1;
            }
            if shared.phases.is_over() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..=BACKOFF_MS))).await;
        }
        if shared.phases.counts() {
            tally.borrow_mut().transactions.saturating_record(nanos(began));
        }
    }
    Ok(())
}

/// What a transaction does with its locks: its own work keeps a processor busy, as in a database in memory.
fn work(execution: Duration) {
    if execution.is_zero() {
        return;
    }
    let until = Instant::now() + execution;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The shortest that a runtime's clock knows.
const TICK: Duration = Duration::from_millis(1);

/// Holds on, and leaves the processor to other clients: below a millisecond to those alone that have something to do,
/// since nobody is woken so soon, and so exactly as they let it; from a millisecond on asleep, for one or two more.
async fn think(time: Duration) {
    if time >= TICK {
        return tokio::time::sleep(time).await;
    }
    let began = Instant::now();
    while began.elapsed() < time {
        tokio::task::yield_now().await;
    }
}

/// One attempt at a transaction.
struct Attempt<'a, 'c, 'w, S> {
    shared: &'a Shared<'c, 'w>,
    client: usize,
    service: &'a S,
    tally: &'a RefCell<Tally>,
}

impl<S: LockService> Attempt<'_, '_, '_, S> {
    /// Whether all locks are held, in time.
    async fn acquire(&self, transaction: &Transaction, held: &mut Vec<(u64, Mode, S::Held)>) -> Result<bool, Error> {
        let began = Instant::now();
        let abort = self.shared.course.abort;
        let until = began + abort.unwrap_or(PATIENCE);
        for request in &transaction.requests {
            let asked = Instant::now();
            match self.service.acquire(self.client, request.lock, request.mode, until).await {
                Ok(Grant { held: lock, token }) => {
                    self.shared.witness.enter(request.lock, request.mode, token);
                    self.granted(asked, self.service.is_by_switch(&lock));
                    held.push((request.lock, request.mode, lock));
                }
                Err(Refusal::TimedOut) if abort.is_some() => return Ok(false),
                Err(Refusal::TimedOut) => {
                    return Err(format!("lock {} was not granted within {PATIENCE:?}", request.lock));
                }
                Err(Refusal::Failed(why)) => return Err(why),
            }
        }
        Ok(abort.is_none() || Instant::now() < until)
    }

    fn granted(&self, asked: Instant, by_switch: bool) {
        if !self.shared.phases.counts() {
            return;
        }
        let mut tally = self.tally.borrow_mut();
        tally.grants.saturating_record(nanos(asked));
        tally.by_switch += u64::from(by_switch);
        let counted = self.shared.phases.counted();
        let bin = (counted.as_nanos() / BIN.as_nanos()) as usize;
        if bin < tally.timeline.len() {
            tally.timeline[bin] += 1;
            tally.timeline_of_switch[bin] += u32::from(by_switch);
        }
    }

    /// The last lock first.
    async fn give_back(&self, held: &mut Vec<(u64, Mode, S::Held)>) -> Result<(), Error> {
        while let Some((lock, mode, one)) = held.pop() {
            self.shared.witness.leave(lock, mode);
            self.service.release(self.client, one).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::named;
    use std::collections::HashMap;
    use std::rc::Rc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

    /// A lock service of this process: right, or one that lets in everybody one time in so many.
    struct Local {
        locks: RefCell<HashMap<u64, std::sync::Arc<RwLock<u64>>>>,
        grants: RefCell<u64>,
        slips: Option<u64>,
    }

    #[allow(dead_code, reason = "held, not looked at")]
    enum Held {
        Read(OwnedRwLockReadGuard<u64>),
        Write(OwnedRwLockWriteGuard<u64>),
        Nothing,
    }

    impl LockService for Rc<Local> {
        type Held = Held;

        async fn acquire(&self, _: usize, lock: u64, mode: Mode, until: Instant) -> Result<Grant<Held>, Refusal> {
            *self.grants.borrow_mut() += 1;
            if self.slips.is_some_and(|each| self.grants.borrow().is_multiple_of(each)) {
                return Ok(Grant { held: Held::Nothing, token: None });
            }
            let lock = self.locks.borrow_mut().entry(lock).or_default().clone();
            let waited = async {
                match mode {
                    Mode::Shared => (Held::Read(lock.read_owned().await), None),
                    Mode::Exclusive => {
                        let mut guard = lock.write_owned().await;
                        *guard += 1;
                        let token = *guard;
                        (Held::Write(guard), Some(token))
                    }
                }
            };
            let waited = tokio::time::timeout_at(until.into(), waited).await;
            tokio::task::yield_now().await;
            waited.map(|(held, token)| Grant { held, token }).map_err(|_| Refusal::TimedOut)
        }

        async fn release(&self, _: usize, _: Held) -> Result<(), Error> {
            Ok(())
        }
    }

    fn run(name: &str, is_sorted: bool, is_right: bool) -> Result<Outcome, Error> {
        let named = named(name).unwrap();
        let workload = named.build();
        let course = Course {
            workload: &*workload,
            execution: named.execution,
            think: Duration::ZERO,
            bank: None,
            abort: if is_sorted { None } else { named.abort },
            is_sorted,
            nodes: 1,
            clients: 40,
            seed: 1,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
        };
        run_course(&course, if is_right { None } else { Some(100) })
    }

    fn run_course(course: &Course<'_>, slips: Option<u64>) -> Result<Outcome, Error> {
        let local = || Rc::new(Local { locks: RefCell::default(), grants: RefCell::default(), slips });
        drive(course, &[], |_| {}, async |_| Ok(local()))
    }

    /// A run is short, and may see little on a busy machine: of several the first with something to look at.
    fn run_until(name: &str, is_sorted: bool, is_right: bool, is_seen: impl Fn(&Outcome) -> bool) -> Outcome {
        for _ in 0..50 {
            let outcome = run(name, is_sorted, is_right).unwrap();
            if is_seen(&outcome) && !outcome.grants.is_empty() {
                return outcome;
            }
        }
        panic!("{name}, sorted: {is_sorted}: not seen in fifty runs");
    }

    #[test]
    fn a_service_that_keeps_its_promise_passes_and_is_counted() {
        // Few enough warehouses for everybody to wait for everybody; unsorted, transactions wait in circles and abort.
        for (name, is_sorted) in [("exclusive-500", true), ("tpcc-high", true), ("tpcc-high", false)] {
            let outcome = run_until(name, is_sorted, true, |outcome| outcome.aborts > 0 || is_sorted);
            assert_eq!((outcome.overlaps, outcome.stale_tokens), (0, 0), "{name}");
            assert!(!outcome.grants.is_empty(), "{name}");
            let in_bins: u64 = outcome.timeline.iter().map(|&count| u64::from(count)).sum();
            assert!(in_bins > 0 && in_bins <= outcome.grants.len(), "{name}");
            assert_eq!(outcome.aborts > 0, !is_sorted, "{name}, sorted: {is_sorted}");
        }
    }

    #[test]
    fn a_service_that_lets_two_in_is_noticed() {
        run_until("tpcc-high", true, false, |outcome| outcome.overlaps > 0);
    }

    /// The sum of all balances is what it was, or the locks were none.
    #[test]
    fn locks_that_let_two_in_lose_money_and_others_do_not() {
        let workload = named("banking-redis-1k").unwrap().build();
        let bank = match Bank::open(workload.locks()) {
            Ok(bank) => bank,
            Err(why) => return println!("skipped: {why}"),
        };
        let course = Course {
            workload: &*workload,
            execution: Duration::ZERO,
            think: Duration::ZERO,
            bank: Some(&bank),
            abort: None,
            is_sorted: true,
            nodes: 1,
            clients: 40,
            seed: 1,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(500),
        };
        let right = run_course(&course, None).unwrap();
        assert!(right.transactions.len() > 100, "{}", right.transactions.len());
        assert_eq!((right.overlaps, right.missing_money), (0, Some(0)));
        let is_seen = |_| {
            let broken = run_course(&course, Some(2)).unwrap();
            broken.overlaps > 0 && broken.missing_money != Some(0)
        };
        assert!((0..50).any(is_seen), "locks that are none lost nothing in fifty runs");
        let again = run_course(&course, None).unwrap();
        assert_eq!(again.missing_money, Some(0), "what others have lost before is not this run's");
    }

    #[test]
    fn who_thinks_holds_for_that_long_and_lets_others_go_on() {
        let workload = named("exclusive-55k").unwrap().build();
        let think = Duration::from_micros(100);
        let course = |think, clients| Course {
            workload: &*workload,
            execution: Duration::ZERO,
            think,
            bank: None,
            abort: None,
            is_sorted: true,
            nodes: 1,
            clients,
            seed: 1,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
        };
        let alone = run_course(&course(think, 1), None).unwrap();
        assert!(!alone.transactions.is_empty());
        assert!(alone.transactions.min() >= think.as_nanos() as u64 * 99 / 100, "{}", alone.transactions.min());
        let most = alone.times.measured.as_nanos() / think.as_nanos();
        assert!(u128::from(alone.transactions.len()) <= most + 1);
        // Whoever else has work does it meanwhile: together they make more than one could who waited for each.
        let is_seen = |_| {
            let many = run_course(&course(think, 40), None).unwrap();
            u128::from(many.transactions.len()) > 2 * most
        };
        assert!((0..20).any(is_seen), "forty clients make no more than one");
    }

    /// The lock of a node that has come to its end is somebody else's then, and so is that of a client that gave up.
    #[test]
    fn who_gives_up_forgets_and_every_nodes_service_ends_after_its_last_release() {
        static FORGOT: AtomicU64 = AtomicU64::new(0);
        static ENDED: AtomicU64 = AtomicU64::new(0);

        struct Watched(Rc<Local>, RefCell<Vec<&'static str>>);

        impl LockService for Watched {
            type Held = Held;

            async fn acquire(
                &self,
                client: usize,
                lock: u64,
                mode: Mode,
                until: Instant,
            ) -> Result<Grant<Held>, Refusal> {
                self.0.acquire(client, lock, mode, until).await
            }

            async fn release(&self, client: usize, held: Held) -> Result<(), Error> {
                self.1.borrow_mut().push("release");
                self.0.release(client, held).await
            }

            async fn forget(&self, _: usize) -> Result<(), Error> {
                FORGOT.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }

            async fn end(&self) -> Result<(), Error> {
                assert_eq!(self.1.borrow().last(), Some(&"release"));
                ENDED.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }

        let named = named("tpcc-high").unwrap();
        let workload = named.build();
        let course = Course {
            workload: &*workload,
            execution: named.execution,
            think: Duration::ZERO,
            bank: None,
            abort: named.abort,
            is_sorted: false,
            nodes: 2,
            clients: 80,
            seed: 1,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
        };
        let local = || Rc::new(Local { locks: RefCell::default(), grants: RefCell::default(), slips: None });
        for runs in 1..50 {
            let aborts =
                drive(&course, &[], |_| {}, async |_| Ok(Watched(local(), RefCell::default()))).unwrap().aborts;
            assert_eq!(ENDED.load(Ordering::Relaxed), 2 * runs);
            assert!(FORGOT.load(Ordering::Relaxed) >= aborts, "{aborts}");
            if aborts > 0 {
                return;
            }
        }
        panic!("nobody gave up in fifty runs");
    }

    #[test]
    fn a_service_that_fails_fails_the_run() {
        let named = named("exclusive-500").unwrap();
        let workload = named.build();
        let course = Course {
            workload: &*workload,
            execution: Duration::ZERO,
            think: Duration::ZERO,
            bank: None,
            abort: None,
            is_sorted: true,
            nodes: 2,
            clients: 4,
            seed: 1,
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(20),
        };
        let began = Instant::now();
        let connect = async |node: Node| -> Result<Rc<Local>, Error> { Err(format!("node {} is refused", node.index)) };
        let outcome = drive(&course, &[], |_| {}, connect);
        assert!(outcome.is_err_and(|why| why.contains("is refused")));
        assert!(began.elapsed() < Duration::from_secs(20), "it does not wait for the end");
    }
}
