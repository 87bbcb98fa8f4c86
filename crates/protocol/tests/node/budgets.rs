//! What a node does when the switch says that its namespace is over its budget, and what a namespace's patience does at
//! its agents: docs/isolation.md, docs/protocol.md ("Priorities").

use crate::bench::{Bench, Flying, LEASE, SLOTS, handle};
use wayside_protocol::{Acquire, Event, Mode, NodeConfig, Priority, RequestId, Time};
use wayside_switch::Budget;
use wayside_wire::{BODY, Entry, Header, LockKind, Policy, kind, service};

const NAME: u64 = 5;

fn want(name: u64, deadline: Option<Time>) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline, port: 5_000 }
}

/// The answer to a request that is over the budget, which says not to ask again for so long.
fn reject(bench: &mut Bench, request: RequestId, pause: u32) {
    let mut packet = vec![0; BODY + Entry::BYTES];
    let header = Header {
        service: service::LOCK,
        kind: kind::lock::REJECT,
        count: 1,
        destination: handle(0),
        epoch: 7,
        namespace: 1,
        ..Header::default()
    };
    header.write(&mut packet);
    let slot = (NAME % u64::from(SLOTS)) as u32;
    let entry = Entry { name: NAME, request: request.0, slot, tenure: pause, holder: handle(0), ..Entry::default() };
    entry.write(&mut packet, BODY);
    let from = "10.0.0.9:7600".parse().expect("an address");
    bench.deliver(Flying { to: Some(0), from, packet });
}

/// When the node sends its next ACQUIRE, of which none arrives.
fn asks_at(bench: &mut Bench) -> u64 {
    bench.flying.clear();
    loop {
        bench.now = bench.nodes[0].next_timer().expect("it waits");
        bench.nodes[0].on_tick(bench.now);
        bench.collect(0);
        if bench.lose(LockKind::Acquire as u8) > 0 {
            return bench.now.0;
        }
        bench.flying.clear();
    }
}

#[test]
fn who_is_over_the_budget_asks_again_when_it_was_told_and_not_before() {
    // None of its heartbeats arrives.
    let mut bench = Bench::with_lease(1, 10 * LEASE);
    let began = bench.now.0;
    let id = bench.ask_with(0, want(NAME, None));
    bench.flying.clear();
    reject(&mut bench, id, 90_000);
    assert_eq!(asks_at(&mut bench), began + 90_000, "the first pause is 5 ms");
    // A shorter one than its own, which grow, makes nobody come earlier.
    reject(&mut bench, id, 1);
    assert_eq!(asks_at(&mut bench), began + 100_000);
    // Nobody is sent away for minutes: the budget may be another one by then.
    reject(&mut bench, id, u32::MAX);
    let now = bench.now.0;
    assert_eq!(asks_at(&mut bench), now + 1_000_000);
}

#[test]
fn whose_time_is_over_meanwhile_hears_that_it_was_the_budget() {
    let mut bench = Bench::new(1);
    for told in [false, true] {
        let id = bench.ask_with(0, want(NAME, Some(bench.now + 50_000)));
        bench.flying.clear();
        if told {
            reject(&mut bench, id, 400_000);
        }
        bench.now = bench.now + 50_000;
        bench.nodes[0].on_tick(bench.now);
        assert_eq!(bench.nodes[0].event(), Some(Event::TimedOut { request: id, over_budget: told }));
    }
}

#[test]
fn of_several_locks_each_that_waits_behind_the_one_that_was_refused_knows_why() {
    let mut bench = Bench::new(1);
    let deadline = Some(bench.now + 50_000);
    let wants: Vec<Acquire> = (0..3).map(|name| want(NAME + name, deadline)).collect();
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, &wants, &mut ids).expect("there is room");
    bench.collect(0);
    bench.flying.clear();
    reject(&mut bench, ids[0], 1_000);
    bench.now = bench.now + 50_000;
    bench.nodes[0].on_tick(bench.now);
    let mut ended = Vec::new();
    while let Some(event) = bench.nodes[0].event() {
        ended.push(event);
    }
    ended.sort_by_key(|event| if let Event::TimedOut { request, .. } = event { request.0 } else { 0 });
    let all: Vec<Event> = ids.iter().map(|&request| Event::TimedOut { request, over_budget: true }).collect();
    assert_eq!(ended, all);
}

#[test]
fn a_refusal_of_what_waits_no_more_changes_nothing() {
    let mut bench = Bench::new(1);
    let id = bench.ask_with(0, want(NAME, None));
    bench.run();
    let (token, _) = bench.granted(0, id);
    reject(&mut bench, id, 1_000);
    bench.quiet(0);
    bench.release(0, id);
    reject(&mut bench, id, 1_000);
    reject(&mut bench, RequestId(77), 1_000);
    bench.pass(50_000);
    assert!(bench.nodes[0].is_idle() && token.0 > 0);
}

/// Through the real core: everybody is granted in the end, at the budget's rate.
#[test]
fn whoever_was_refused_is_granted_when_there_is_room() {
    let mut bench = Bench::new(1);
    bench.switch.set_budget(1, Some(Budget { rate: 1_000, burst: 32 }));
    let ids: Vec<RequestId> = (0..64).map(|name| bench.ask_with(0, want(name, None))).collect();
    let began = bench.now;
    bench.run();
    assert!(bench.delivered.contains(&(Some(0), kind::lock::REJECT)), "one of 32 that are too many");
    let mut granted = 0;
    while granted < ids.len() {
        bench.pass(1_000);
        while let Some(event) = bench.nodes[0].event() {
            assert!(matches!(event, Event::Granted { .. }), "{event:?}");
            granted += 1;
        }
        assert!(bench.now.since(began) < LEASE / 2, "{granted} of 64");
    }
    assert!(bench.now.since(began) >= 31_000, "32 of them had to wait for a millisecond each");
}

/// Where the namespace says twice, the third who is more urgent goes behind.
#[test]
fn a_namespace_says_how_often_who_waits_is_overtaken() {
    for most in [0, 2, 8] {
        let config = NodeConfig { overtaken_most: most, ..NodeConfig::new(1) };
        let mut bench = Bench::with(12, LEASE, Policy::Fair, &config);
        let of = |level| Acquire { priority: Priority::new(level).expect("a level"), ..want(NAME, None) };
        let first = bench.ask_with(0, of(4));
        bench.run();
        bench.granted(0, first);
        let patient = bench.ask_with(1, of(0));
        bench.run();
        let urgent: Vec<(usize, RequestId)> = (2..12).map(|node| (node, bench.ask_with(node, of(7)))).collect();
        bench.run();
        bench.release(0, first);
        let mut before = 0;
        let mut holder = None;
        while holder != Some((1, patient)) {
            bench.run();
            let next = [(1, patient)].into_iter().chain(urgent.iter().copied());
            holder = next.into_iter().find(|&(node, id)| {
                matches!(bench.nodes[node].event(), Some(Event::Granted { request, .. }) if request == id)
            });
            let (node, id) = holder.expect("somebody is served");
            before += u8::from(node != 1);
            bench.release(node, id);
        }
        assert_eq!(before, most, "who go before the patient one");
    }
}
