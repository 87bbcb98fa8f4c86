//! What the controller's thread counts of its own doings: sessions, recoveries, commits. Nothing of it is on the data
//! path.

use crate::server::namespaces::Namespaces;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wayside_protocol::controller::{Ending, Notice};

/// One label, two labels.
type One = [(&'static str, &'static str); 1];
type Two = [(&'static str, String); 2];

/// From 0.1 ms (a disk that lies) to 3.3 s (one that fails).
fn commit_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 16))
}

/// From 1 ms (one round trip and a tick) to 131 s (nodes that had to expire first, at long leases).
fn census_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

/// What becomes of the records, in the state directory or in etcd.
#[derive(Clone, Debug)]
pub struct Commits {
    seconds: Histogram,
    failures: Counter,
    reads: Counter,
    failed: Arc<AtomicBool>,
}

impl Default for Commits {
    fn default() -> Commits {
        Commits {
            seconds: commit_buckets(),
            failures: Counter::default(),
            reads: Counter::default(),
            failed: Arc::default(),
        }
    }
}

impl Commits {
    /// One took so long.
    pub fn note(&self, took: Duration, success: bool) {
        self.seconds.observe(took.as_secs_f64());
        if !success {
            self.failures.inc();
        }
        self.failed.store(!success, Ordering::Relaxed);
    }

    /// All of a shard's records were read, since what has changed was not told.
    pub fn note_read(&self) {
        self.reads.inc();
    }

    /// How often they were.
    #[cfg(test)]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Whether the latest did.
    pub fn succeed(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Ledger {
    namespaces: Arc<Namespaces>,
    pub commits: Commits,
    begun: Counter,
    rotated: Counter,
    cut_off: Counter,
    promoted: Counter,
    demoted: Counter,
    leases_ended: Counter,
    keys_removed: Counter,
    ended: Family<One, Counter>,
    recovered: Family<Two, Counter>,
    moved: Family<Two, Counter>,
    census: Family<One, Histogram, fn() -> Histogram>,
    open: Mutex<Open>,
}

/// What is not over, and since when.
#[derive(Debug, Default)]
struct Open {
    /// Slots that were frozen. An heir that dies begins their census anew, not their time.
    frozen: BTreeMap<(u16, u32), Instant>,
    /// All slots, under a new epoch.
    everything: Option<Instant>,
}

impl Ledger {
    pub fn new(namespaces: Arc<Namespaces>, commits: Commits) -> Arc<Ledger> {
        let ledger = Ledger {
            namespaces,
            commits,
            begun: Counter::default(),
            rotated: Counter::default(),
            cut_off: Counter::default(),
            promoted: Counter::default(),
            demoted: Counter::default(),
            leases_ended: Counter::default(),
            keys_removed: Counter::default(),
            ended: Family::default(),
            recovered: Family::default(),
            moved: Family::default(),
            census: Family::new_with_constructor(census_buckets),
            open: Mutex::default(),
        };
        // A rate needs the 0 before the 1.
        for ending in [Ending::Expired, Ending::Left, Ending::LeftClean, Ending::Closed] {
            drop(ledger.ended.get_or_create(&of_ending(ending)));
        }
        for scope in ["slot", "switch"] {
            drop(ledger.census.get_or_create(&[("scope", scope)]));
        }
        ledger.namespaces.all().iter().for_each(|namespace| ledger.begin(namespace.number));
        Arc::new(ledger)
    }

    /// Counts for a namespace from now on.
    pub fn begin(&self, namespace: u16) {
        for agent in [None, Some(1)] {
            drop(self.recovered.get_or_create(&self.of_recovery(namespace, agent)));
            drop(self.moved.get_or_create(&self.of_move(namespace, agent.is_some())));
        }
    }

    /// So many leases on keys were ended, and keys removed.
    pub fn note_keys(&self, (ended, removed): (u64, u64)) {
        self.leases_ended.inc_by(ended);
        self.keys_removed.inc_by(removed);
    }

    /// Something happened.
    pub fn note(&self, notice: &Notice) {
        match notice {
            Notice::Enrolled(_) => {
                self.begun.inc();
            }
            Notice::Rotated(_) => {
                self.rotated.inc();
            }
            Notice::CutOff(_) => {
                self.cut_off.inc();
            }
            Notice::Ended(_, ending) => {
                self.ended.get_or_create(&of_ending(*ending)).inc();
            }
            Notice::Frozen(namespace, slot) => {
                self.open().frozen.entry((*namespace, *slot)).or_insert_with(Instant::now);
            }
            Notice::Recovered(namespace, slot, agent) => {
                self.recovered.get_or_create(&self.of_recovery(*namespace, *agent)).inc();
                let frozen = self.open().frozen.remove(&(*namespace, *slot));
                self.observe("slot", frozen);
            }
            Notice::Moved(namespace, _, to_switch) => {
                self.moved.get_or_create(&self.of_move(*namespace, *to_switch)).inc();
            }
            Notice::Promoted => {
                self.promoted.inc();
            }
            Notice::Demoted => {
                self.demoted.inc();
                *self.open() = Open::default();
            }
            Notice::EpochRaised(_) => {
                let mut open = self.open();
                open.frozen.clear();
                open.everything.get_or_insert_with(Instant::now);
            }
            Notice::Serving(_) => {
                let everything = self.open().everything.take();
                self.observe("switch", everything);
            }
            // Commits are counted where they are made; the rest is for the log.
            _ => {}
        }
    }

    /// Slots that wait for the end of their census, by namespace.
    pub fn frozen(&self) -> Vec<(String, u64)> {
        let open = self.open();
        let count = |number: u16| open.frozen.range((number, 0)..=(number, u32::MAX)).count() as u64;
        self.namespaces.all().iter().map(|each| (each.settings.name.clone(), count(each.number))).collect()
    }

    /// Changes of sessions' keys.
    pub fn rotations(&self) -> u64 {
        self.rotated.get()
    }

    /// Shows all of it to a scrape.
    pub fn register(&self, registry: &mut Registry) {
        let begun = "Sessions that began, since the daemon started";
        registry.register("wayside_sessions_begun", begun, self.begun.clone());
        let ended = "Sessions that ended: expired (no heartbeat for lease and grace), left or left_clean (it said so), \
                     closed (its process on this host was gone)";
        registry.register("wayside_sessions_ended", ended, self.ended.clone());
        let rotated = "Changes of the keys that sign a session's packets";
        registry.register("wayside_key_rotations", rotated, self.rotated.clone());
        let cut_off = "Sessions whose host was removed: they end with their leases";
        registry.register("wayside_sessions_cut_off", cut_off, self.cut_off.clone());
        let promoted = "How often this switch began to serve its shard, in another's place or nobody's";
        registry.register("wayside_promotions", promoted, self.promoted.clone());
        let demoted = "How often it ceased to, for another switch";
        registry.register("wayside_demotions", demoted, self.demoted.clone());
        let leases_ended = "Keys whose value was taken away, its lease's session being over";
        registry.register("wayside_key_leases_ended", leases_ended, self.leases_ended.clone());
        let keys_removed = "Keys without a value that were removed from their chain";
        registry.register("wayside_keys_removed", keys_removed, self.keys_removed.clone());
        let recovered = "Slots that a census was held for, by what they are now: kept by an agent, or unheld";
        registry.register("wayside_recoveries", recovered, self.recovered.clone());
        let moved = "Locks whose queue came to the switch, or left it for their lock server";
        registry.register("wayside_lock_moves", moved, self.moved.clone());
        let census = "From freezing a slot, or from a new epoch of the switch, to the moment it worked again";
        registry.register("wayside_census_seconds", census, self.census.clone());
        let commits = "What a transaction of the controller's records took, in the state directory or in etcd";
        registry.register("wayside_store_commit_seconds", commits, self.commits.seconds.clone());
        let failures = "Transactions of the controller's records that failed";
        registry.register("wayside_store_failures", failures, self.commits.failures.clone());
        let reads = "Times that all of the shard's records were read from etcd, as what had changed was not told";
        registry.register("wayside_shard_reads", reads, self.commits.reads.clone());
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, scope: &'static str, since: Option<Instant>) {
        if let Some(since) = since {
            self.census.get_or_create(&[("scope", scope)]).observe(since.elapsed().as_secs_f64());
        }
    }

    fn of_move(&self, namespace: u16, to_switch: bool) -> Two {
        [("namespace", self.name_of(namespace)), ("to", if to_switch { "switch" } else { "server" }.into())]
    }

    fn name_of(&self, namespace: u16) -> String {
        self.namespaces.name_of(namespace)
    }

    fn of_recovery(&self, namespace: u16, agent: Option<u16>) -> Two {
        [("namespace", self.name_of(namespace)), ("result", if agent.is_some() { "agent" } else { "unheld" }.into())]
    }
}

fn of_ending(ending: Ending) -> One {
    let ending = match ending {
        Ending::Expired => "expired",
        Ending::Left => "left",
        Ending::LeftClean => "left_clean",
        Ending::Closed => "closed",
    };
    [("ending", ending)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    fn text(ledger: &Ledger) -> String {
        let mut registry = Registry::default();
        ledger.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    fn ledger() -> Arc<Ledger> {
        let names = Namespaces::named(&[(0, "default"), (3, "other")]);
        Ledger::new(names, Commits::default())
    }

    #[test]
    fn a_slot_is_frozen_from_its_first_census_to_its_recovery() {
        let ledger = ledger();
        let frozen = |ledger: &Ledger| ledger.frozen().into_iter().map(|(_, count)| count).collect::<Vec<_>>();
        for slot in [5, 6, 5] {
            ledger.note(&Notice::Frozen(3, slot));
        }
        assert_eq!(frozen(&ledger), [0, 2]);
        ledger.note(&Notice::Recovered(3, 5, Some(7)));
        assert_eq!(frozen(&ledger), [0, 1]);
        let text = text(&ledger);
        assert!(text.contains("wayside_recoveries_total{namespace=\"other\",result=\"agent\"} 1"), "{text}");
        assert!(text.contains("wayside_recoveries_total{namespace=\"other\",result=\"unheld\"} 0"), "{text}");
        assert!(text.contains("wayside_census_seconds_count{scope=\"slot\"} 1"), "{text}");
    }

    #[test]
    fn moves_are_counted_by_where_they_go() {
        let ledger = ledger();
        [true, true, false].into_iter().for_each(|to_switch| ledger.note(&Notice::Moved(3, 77, to_switch)));
        let text = text(&ledger);
        assert!(text.contains("wayside_lock_moves_total{namespace=\"other\",to=\"switch\"} 2"), "{text}");
        assert!(text.contains("wayside_lock_moves_total{namespace=\"other\",to=\"server\"} 1"), "{text}");
        assert!(text.contains("wayside_lock_moves_total{namespace=\"default\",to=\"server\"} 0"), "{text}");
    }

    #[test]
    fn a_new_epoch_is_one_census_of_everything() {
        let ledger = ledger();
        ledger.note(&Notice::Frozen(0, 1));
        ledger.note(&Notice::EpochRaised(2));
        ledger.note(&Notice::EpochRaised(3));
        ledger.note(&Notice::Serving(3));
        // A controller that came back to a switch that went on.
        ledger.note(&Notice::Serving(3));
        assert!(ledger.frozen().iter().all(|(_, count)| *count == 0));
        let text = text(&ledger);
        assert!(text.contains("wayside_census_seconds_count{scope=\"switch\"} 1"), "{text}");
        assert!(text.contains("wayside_census_seconds_count{scope=\"slot\"} 0"), "{text}");
    }

    #[test]
    fn a_store_is_as_good_as_its_latest_commit() {
        let commits = Commits::default();
        assert!(commits.succeed());
        commits.note(Duration::from_millis(3), false);
        assert!(!commits.succeed());
        let ledger = Ledger::new(Namespaces::named(&[]), commits.clone());
        commits.note(Duration::from_millis(3), true);
        assert!(ledger.commits.succeed());
        let text = text(&ledger);
        assert!(text.contains("wayside_store_failures_total 1"), "{text}");
        assert!(text.contains("wayside_store_commit_seconds_count 2"), "{text}");
    }
}
