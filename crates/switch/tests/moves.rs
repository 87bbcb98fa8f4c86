//! The steps of a lock's move in the switch's memory, and the regions of cells that are used again: no two that have a
//! queue overlap, whatever was added and removed before.
//!
//! Left out one at a time, these rules of `src/queues.rs` fail here: a region counts as used until its queue is
//! removed; a queue is handed over only when nobody is in it; each step goes from one stage only; what is left of a
//! session that is over is nobody; a name is not put into a full bucket while its other one has room.

mod engine;
mod support;

use engine::hash::{buckets_of, hash};
use engine::random::Random;
use std::collections::{BTreeMap, HashMap};
use support::queue::{Client, Phase};
use support::{NAMESPACE, expire, from};
use wayside_protocol::Time;
use wayside_protocol::chain::Key;
use wayside_protocol::memory::{Part, Stage, Step, SwitchMemory};
use wayside_switch::{Action, QueueConfig, Switch};

const NAME: u64 = 77;
const SERVER: u16 = 8;
const SEED: u64 = 5;
const OPEN: Step = Step::Open { first: 500, pushed: 40, given: 60 };

fn switch(queues: u32, cells: u32) -> Switch {
    let switch = support::switch(1, SERVER).with_queues(QueueConfig { queues, cells, seed: SEED });
    switch.set_lock_server(NAMESPACE, Part::WHOLE, SERVER);
    switch
}

fn step(switch: &Switch, name: u64, step: Step) -> bool {
    SwitchMemory::step(switch, NAMESPACE, name, step)
}

/// A client asks for a lock.
fn ask(switch: &Switch, me: u16, name: u64) -> Client {
    let mut client = Client::new(me, name);
    let mut packet = client.acquire(true);
    let verdict = switch.process(Time(0), &mut packet, from(me));
    assert_eq!(verdict.action, Action::ToSender, "there is room");
    packet.truncate(verdict.length);
    client.on_packet(&packet);
    client
}

fn end(switch: &Switch, mut client: Client) {
    switch.process(Time(0), &mut client.end(), from(client.me));
}

#[test]
fn each_step_goes_from_one_stage() {
    let switch = switch(2, 4);
    let all = [Step::Await { cells: 4 }, OPEN, Step::Drain, Step::Stay, Step::Hand, Step::Remove];
    // Those that are taken, and the stage behind them.
    let path = [
        (0, Some(Stage::Awaited), vec![0]),
        (1, Some(Stage::Here), vec![1]),
        (2, Some(Stage::Drains), vec![2]),
        (3, Some(Stage::Here), vec![3, 4]),
        (2, Some(Stage::Drains), vec![2]),
        (4, Some(Stage::Handed), vec![3, 4]),
        (5, None, vec![5]),
    ];
    for (taken, stage, possible) in path {
        for (number, other) in all.iter().enumerate().filter(|(number, _)| !possible.contains(number)) {
            assert!(!step(&switch, NAME, *other), "step {number} before {taken}");
        }
        assert!(step(&switch, NAME, all[taken]), "step {taken}");
        assert_eq!(switch.queue(NAMESPACE, NAME).map(|queue| queue.stage), stage);
    }
}

#[test]
fn an_opened_queue_begins_as_it_is_told() {
    let switch = switch(2, 4);
    assert!(step(&switch, NAME, Step::Await { cells: 4 }) && step(&switch, NAME, OPEN));
    let queue = switch.queue(NAMESPACE, NAME).unwrap();
    assert_eq!((queue.head, queue.granted, queue.tail), (500, 500, 500));
    assert_eq!((queue.pushed, queue.settled, queue.given), (40, 40, 60), "its server has something first");
    assert!(!step(&switch, NAME + 1, Step::Await { cells: 1 }), "no cells are left");
}

#[test]
fn a_queue_is_handed_over_when_nobody_is_in_it() {
    let switch = switch(2, 4);
    switch.add_queue(NAMESPACE, NAME, 4, 1).unwrap();
    let holder = ask(&switch, 1, NAME);
    assert!(matches!(holder.phase, Phase::Holds { .. }));
    assert!(step(&switch, NAME, Step::Drain));
    assert!(!step(&switch, NAME, Step::Hand), "somebody holds");
    end(&switch, holder);
    assert!(step(&switch, NAME, Step::Hand));
    assert_eq!(SwitchMemory::lines(&switch, NAMESPACE)[0].ticket, 2);
}

#[test]
fn what_is_left_of_a_session_that_is_over_is_nobody() {
    let switch = switch(2, 4);
    switch.add_queue(NAMESPACE, NAME, 4, 1).unwrap();
    ask(&switch, 1, NAME);
    ask(&switch, 2, NAME);
    assert!(step(&switch, NAME, Step::Drain));
    expire(&switch, 1);
    assert!(!step(&switch, NAME, Step::Hand), "node 2 waits");
    let queue = switch.queue(NAMESPACE, NAME).unwrap();
    assert_eq!(queue.holders, 0, "and is not kept from it");
    expire(&switch, 2);
    assert!(step(&switch, NAME, Step::Hand));
}

/// What lies in a bucket says half of a name's hash. `ws_find_queue` compares the name besides.
#[test]
fn a_name_whose_hash_is_like_anothers_has_not_its_queue() {
    let hash_of = |name: u64| hash(SEED, NAMESPACE, Key { high: name, low: 0, check: 0 });
    let mut seen = HashMap::new();
    // Of 2^18 names some eight pairs are alike in 32 bits.
    let mut alike = (1u64..1 << 18).filter_map(|name| Some((name, seen.insert(hash_of(name) >> 32, name)?)));
    // Two queues lie in two buckets, so that half of the pairs look into the same.
    let meet = |(one, other): &(u64, u64)| buckets_of(hash_of(*one), 1)[0] == buckets_of(hash_of(*other), 1)[0];
    let (one, other) = alike.find(meet).expect("some are alike");
    let switch = switch(2, 4);
    switch.add_queue(NAMESPACE, one, 2, 1).unwrap();
    let asked = |name: u64| {
        let mut client = Client::new(1, name);
        switch.process(Time(0), &mut client.acquire(true), from(1)).action
    };
    assert!(matches!(asked(other), Action::ToNode { handle: SERVER, .. }), "it is its lock server's");
    switch.add_queue(NAMESPACE, other, 2, 1).unwrap();
    for name in [one, other] {
        assert!(matches!(ask(&switch, 2, name).phase, Phase::Holds { .. }));
        assert_eq!(switch.queue(NAMESPACE, name).map(|queue| queue.tail), Some(2));
    }
}

/// Whoever has a cell keeps it, whatever regions come and go around it, and until the last step of its own move.
#[test]
fn no_two_regions_overlap() {
    let mut random = Random::new(3);
    for _ in 0..50 {
        let switch = switch(8, 24);
        let mut holders: BTreeMap<u64, Client> = BTreeMap::new();
        for _ in 0..200 {
            let name = 1 + random.below(12);
            let cells = 1 + random.below(6) as u32;
            let here = Step::Open { first: 500, pushed: 0, given: 0 };
            if !holders.contains_key(&name) && step(&switch, name, Step::Await { cells }) {
                assert!(step(&switch, name, here));
                holders.insert(name, ask(&switch, 1, name));
            } else if holders.contains_key(&name) {
                assert!(step(&switch, name, Step::Drain));
                let other = 100 + name;
                if step(&switch, other, Step::Await { cells }) {
                    assert!(step(&switch, other, here));
                    // In all of its cells.
                    let all: Vec<Client> = (2..2 + cells as u16).map(|me| ask(&switch, me, other)).collect();
                    each_holds(&switch, &holders);
                    all.into_iter().for_each(|client| end(&switch, client));
                    for last in [Step::Drain, Step::Hand, Step::Remove] {
                        assert!(step(&switch, other, last), "{last:?}");
                    }
                }
                end(&switch, holders.remove(&name).unwrap());
                assert!(step(&switch, name, Step::Hand) && step(&switch, name, Step::Remove), "{name}");
            }
            each_holds(&switch, &holders);
        }
    }
}

fn each_holds(switch: &Switch, holders: &BTreeMap<u64, Client>) {
    for (name, client) in holders {
        let queued: Vec<u16> = switch.queued(NAMESPACE, *name).iter().map(|queued| queued.holder).collect();
        assert_eq!(queued, [client.me], "{name}: whoever held it has lost its cell, or somebody is in its region");
    }
}

/// However the names fall: a configuration that has room is not refused.
#[test]
fn as_many_names_find_a_place_as_there_are_queues() {
    for queues in [1, 9, 60, 128, 257, 1_000, 4_096] {
        for seed in 0..100_000 / queues.max(500) {
            let switch =
                support::switch(1, SERVER).with_queues(QueueConfig { queues, cells: queues, seed: seed.into() });
            for name in 0..queues {
                let added = switch.add_queue(NAMESPACE, wayside_wire::mix(name.into()), 1, 1);
                assert_eq!(added, Ok(()), "name {name} of {queues}, seed {seed}");
            }
            assert_eq!(switch.lines(NAMESPACE).len(), queues as usize);
        }
    }
}
