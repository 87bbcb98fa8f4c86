//! Budgets of namespaces: what is admitted over time, by several threads at once, and at the hook by its own clock.
//! What a spent budget refuses, and what it never does, is in `dataplane/cases/budget.cases`.

mod engine;

use engine::cases;
#[cfg(feature = "xdp")]
use engine::{DROP, Engine, Meter, TO_SENDER};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wayside_protocol::Time;
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_switch::{Action, Budget, QueueConfig, Switch, SwitchConfig};
use wayside_wire::{Attempt, BODY, DropReason, Entry, Header, Policy, entry_at, kind, limits, service};

const SLOTS: u32 = 64;
const NODE: u16 = 1;
const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 20_001);

/// A serving switch with one namespace, and a node in it.
fn switch(budget: Option<Budget>) -> Switch {
    let switch = Switch::new(SwitchConfig { slots: SLOTS, max_handle: 4 });
    switch.add_namespace(0, SLOTS, Policy::Fair).unwrap();
    switch.set_budget(0, budget);
    switch.set_epoch(1);
    switch.set_node(NODE, &NodeEntry { address: FROM, namespace: 0, incarnation: 1 });
    switch.set_serving(true);
    switch
}

fn packet(kind: u8, requests: u8) -> Vec<u8> {
    let mut packet = vec![0; entry_at(requests.into())];
    let header = Header { service: service::LOCK, kind, count: requests, source: NODE, epoch: 1, ..Header::default() };
    header.write(&mut packet);
    for index in 0..requests {
        let name = u64::from(index);
        let entry = Entry { name, request: 1 << 40 | name, slot: index.into(), holder: NODE, ..Entry::default() };
        entry.write(&mut packet, entry_at(index.into()));
    }
    packet
}

/// Whether the switch takes such a packet at this moment.
fn takes(switch: &Switch, now: u64, kind: u8, requests: u8) -> bool {
    let verdict = switch.process(Time(now), &mut packet(kind, requests), FROM);
    assert!(verdict.action != Action::Drop || verdict.reason == DropReason::OverBudget, "{verdict:?}");
    verdict.reason != DropReason::OverBudget
}

/// For how long it says not to ask again, if it refuses such a packet and says so.
fn told(switch: &Switch, now: u64, requests: u8) -> Option<u32> {
    let mut packet = packet(kind::lock::ACQUIRE, requests);
    let verdict = switch.process(Time(now), &mut packet, FROM);
    let rejects = verdict.reason == DropReason::OverBudget && verdict.action != Action::Drop;
    rejects.then(|| {
        assert_eq!((packet[4], packet[5], verdict.length), (kind::lock::REJECT, 1, entry_at(1)));
        Entry::read(&packet, BODY).tenure
    })
}

/// How many single ACQUIREs are admitted at this moment, of many.
fn admitted(switch: &Switch, now: u64) -> u64 {
    (0..10_000).filter(|_| takes(switch, now, kind::lock::ACQUIRE, 1)).count() as u64
}

#[test]
fn a_burst_is_admitted_at_once_and_then_the_rate() {
    let switch = switch(Some(Budget { rate: 1_000, burst: 50 }));
    let began = 5_000_000;
    assert_eq!(admitted(&switch, began), 50);
    assert_eq!(admitted(&switch, began + 999), 0, "the next one is paid for a millisecond later");
    assert_eq!(admitted(&switch, began + 1_000), 1);
    assert_eq!(admitted(&switch, began + 11_000), 10);
    assert_eq!(admitted(&switch, began + 3_600_000_000), 50, "an hour saves no more than a burst");
    assert_eq!(switch.over_budget(0), 5 * 10_000 - 50 - 1 - 10 - 50);
    assert_eq!(switch.counter("over_budget"), switch.over_budget(0));
}

#[test]
fn every_rate_is_kept_to_a_hundredth() {
    for rate in [1, 7, 1_000, 333_333, 1_000_000, Budget::MAX_RATE] {
        let switch = switch(Some(Budget { rate, burst: Budget::least_burst(rate) }));
        // From a spent bucket, packets of 32 at 4,000 moments, between which about 8 requests are paid off.
        let pause = (8_000_000 / u64::from(rate)).max(1);
        let mut now = 1_000_000_000_000;
        while takes(&switch, now, kind::lock::ACQUIRE, 1) {}
        let began = now;
        let mut granted = 0;
        for _ in 0..4_000 {
            now += pause;
            while takes(&switch, now, kind::lock::ACQUIRE, 1) {
                granted += 1;
            }
        }
        let due = (now - began) as f64 * f64::from(rate) / 1e6;
        assert!((granted as f64 - due).abs() <= due / 90.0 + 1.0, "{rate} a second: {granted} of {due}");
    }
}

/// `dataplane/budget.h`: whoever comes after the pause is admitted, and not a microsecond before.
#[test]
fn who_is_told_of_a_pause_is_admitted_after_it() {
    for (rate, requests) in [(1_000, 1), (1_000, 20), (3, 1), (333_333, 32)] {
        let burst = Budget::least_burst(rate);
        let switch = switch(Some(Budget { rate, burst }));
        let now = 5_000_000;
        (0..burst).for_each(|_| assert!(takes(&switch, now, kind::lock::ACQUIRE, 1)));
        let pause = told(&switch, now, requests).expect("the first to be refused is told");
        let due = f64::from(requests) * 1e6 / f64::from(rate);
        assert!((f64::from(pause) - due).abs() <= 1.0 + due / 100.0, "{rate}: {pause} of {due}");
        assert!(!takes(&switch, now + u64::from(pause) - u64::from(pause > 1) * 2, kind::lock::ACQUIRE, requests));
        assert!(takes(&switch, now + u64::from(pause) + 1, kind::lock::ACQUIRE, requests), "{rate}");
    }
    // What is a thousandth of a microsecond short is a whole request short.
    let rate = 999_024;
    let burst = Budget::least_burst(rate);
    let switch = switch(Some(Budget { rate, burst }));
    (0..burst).for_each(|_| assert!(takes(&switch, 1_000_000, kind::lock::ACQUIRE, 1)));
    assert_eq!(told(&switch, 1_000_001, 1), Some(1), "of 1,025 units, 1,024 are there");
    // Longer than a second is told nobody: the budget may be another one by then.
    let switch = self::switch(Some(Budget { rate: 1, burst: 32 }));
    assert!(takes(&switch, 1_000_000, kind::lock::ACQUIRE, 32));
    assert_eq!(told(&switch, 1_000_000, 20), Some(limits::MAX_PAUSE_US));
}

/// In its order, which says nothing else then.
#[test]
fn who_asks_for_a_queue_is_told_of_a_pause_for_one_request() {
    let switch = switch(Some(Budget { rate: 1_000, burst: 32 }));
    let switch = switch.with_queues(QueueConfig { queues: 1, cells: 32, seed: 5 });
    switch.add_queue(0, 7, 32, 1).unwrap();
    let ask = |counter: u64| {
        let header =
            Header { service: service::QUEUE, kind: kind::queue::ACQUIRE, source: NODE, epoch: 1, ..Header::default() };
        let attempt = Attempt { name: 7, request: 1 << 40 | counter, holder: NODE, ..Attempt::default() };
        let mut packet = vec![0; BODY + Attempt::BYTES];
        header.write(&mut packet);
        attempt.write(&mut packet, BODY);
        let verdict = switch.process(Time(5_000_000), &mut packet, FROM);
        (verdict.reason == DropReason::OverBudget).then(|| Attempt::read(&packet, BODY).order)
    };
    (0..32).for_each(|counter| assert_eq!(ask(counter), None, "a burst"));
    let pause = ask(32).expect("it is refused, and told");
    assert!((999..=1_001).contains(&pause), "{pause} us");
}

/// A flood is answered no faster than its tenant is granted something.
#[test]
fn refusals_are_answered_once_for_each_request_that_was_admitted() {
    let switch = switch(Some(Budget { rate: 1_000, burst: 50 }));
    let began = 5_000_000;
    assert_eq!(admitted(&switch, began), 50);
    assert_eq!(switch.counter("rejected"), 1, "of 9,950");
    assert_eq!(told(&switch, began, 1), None);
    for moment in 1..=20 {
        assert_eq!(admitted(&switch, began + moment * 1_000), 1);
        assert_eq!(switch.counter("rejected"), 1 + moment);
    }
    // Without anything admitted nobody is told anything, however long it takes.
    (0..999).for_each(|us| assert_eq!(told(&switch, began + 20_000 + us, 1), None));
    assert_eq!(switch.counter("over_budget"), switch.over_budget(0), "whether they are told or not");
}

#[test]
fn a_packet_of_32_is_admitted_whole_or_not_at_all() {
    let switch = switch(Some(Budget { rate: 1_000, burst: 32 }));
    assert!(takes(&switch, 1_000_000, kind::lock::ACQUIRE, 32), "the least burst has room for it");
    assert!(!takes(&switch, 1_031_000, kind::lock::ACQUIRE, 32));
    assert!(takes(&switch, 1_031_000, kind::lock::ACQUIRE, 31), "what was refused has cost nothing");
    assert!(!takes(&switch, 1_031_000, kind::lock::ACQUIRE, 1));
}

/// What gives back, or changes what is had.
const GIVES_BACK: [u8; 5] =
    [kind::lock::RELEASE, kind::lock::CANCEL, kind::lock::DOWNGRADE, kind::lock::RETENURE, kind::lock::FREE];

#[test]
fn what_gives_back_is_never_refused_and_costs_nothing() {
    let switch = switch(Some(Budget { rate: 1, burst: 32 }));
    for _ in 0..1_000 {
        for kind in GIVES_BACK {
            assert!(takes(&switch, 1_000_000, kind, 1), "kind {kind}");
        }
    }
    assert_eq!(admitted(&switch, 1_000_000), 32);
    for kind in GIVES_BACK {
        assert!(takes(&switch, 1_000_000, kind, 1), "kind {kind}");
    }
}

#[test]
fn without_a_budget_nothing_is_refused_and_a_new_one_forgets_what_was_spent() {
    let switch = switch(None);
    assert_eq!(admitted(&switch, 1_000_000), 10_000);
    switch.set_budget(0, Some(Budget { rate: 1, burst: 40 }));
    assert_eq!(admitted(&switch, 1_000_000), 40);
    switch.set_budget(0, Some(Budget { rate: 1, burst: 60 }));
    assert_eq!(admitted(&switch, 1_000_000), 60);
    switch.set_budget(0, None);
    assert_eq!(admitted(&switch, 1_000_000), 10_000);
}

/// `dataplane/budget.h`: one packet more for every other CPU that decides in the same moment.
#[test]
fn threads_together_get_no_more_than_the_budget() {
    const THREADS: u64 = 4;
    for _ in 0..50 {
        let switch = switch(Some(Budget { rate: 1, burst: 500 }));
        let granted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let own = (0..1_000).filter(|_| takes(&switch, 1_000_000, kind::lock::ACQUIRE, 1)).count();
                    granted.fetch_add(own as u64, Relaxed);
                });
            }
        });
        let granted = granted.into_inner();
        assert!((500..500 + THREADS).contains(&granted), "{granted}");
        assert_eq!(switch.over_budget(0), THREADS * 1_000 - granted);
    }
}

#[test]
fn there_are_cases_of_it() {
    let reached = cases::all().iter().filter(|case| case.reaches().any(|name| name == "over_budget")).count();
    assert!(reached >= 4, "{reached}");
}

/// The clock at the hook goes on by itself: what is spent is paid off by its ticks.
#[cfg(feature = "xdp")]
#[test]
fn at_the_hook_time_pays_off_what_was_spent() {
    use engine::bpf::Bpf;
    if let Some(why) = Bpf::missing() {
        return println!("skipped: {why}");
    }
    let mut bpf = Bpf::load(false);
    let mut state = engine::State::default();
    state.globals.epoch = 1;
    state.globals.serving = 1;
    state.nodes[1].word = 1 << 56;
    state.nodes[1].incarnation = 1;
    state.nodes[1].oldest = 1 << 40;
    state.regions[0].count = 8;
    state.regions[0].burst = 32;
    // 256 ticks a request, a quarter of a second at least: none is paid off while the burst is spent.
    state.regions[0].own = Meter { due: 0, cost: 256 << 24 };
    bpf.set(&state);
    let acquire = packet(kind::lock::ACQUIRE, 1);
    let mut answers = || (0..40).map(|_| bpf.process(&acquire, 20_001, None).0).collect::<Vec<_>>();
    let answers = answers();
    assert_eq!(answers.iter().filter(|verdict| verdict.action == TO_SENDER && verdict.reason == 0).count(), 32);
    let rejected = |verdict: &&engine::Verdict| verdict.action == TO_SENDER && verdict.reason != 0;
    assert_eq!(answers.iter().filter(rejected).count(), 1, "of eight that were refused one is told so");
    let release = packet(kind::lock::RELEASE, 1);
    assert_ne!(bpf.process(&release, 20_001, None).0.action, DROP, "never refused");
    let mut after = bpf.get();
    assert_eq!((after.regions[0].over_budget, after.regions[0].other), (8, Meter::default()));
    // 2^18 a tick: four requests of an eighth of a tick each have been paid off before the next one comes.
    after.regions[0].own.cost = 1 << 18;
    after.regions[0].own.due = 0;
    bpf.set(&after);
    let granted = (0..40)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(12));
            let verdict = bpf.process(&acquire, 20_001, None).0;
            (verdict.action, verdict.reason)
        })
        .filter(|answer| *answer == (TO_SENDER, 0))
        .count();
    assert_eq!(granted, 40, "each is paid off when the next one comes");
}
