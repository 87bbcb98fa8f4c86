//! What a thread leaves that dies in the middle of a write, and what the next process makes of it.

use wayside_protocol::Time;
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_wire::{BODY, Condition, Effect, Header, Operation, Outcome, kind, service};

use super::*;
use crate::layout::{RawVerdict, View};
use crate::locks::DAEMON;
use crate::{Action, SwitchConfig};
use wayside_protocol::chain::memory::{JournalMemory, Recorded};

unsafe extern "C" {
    fn ws_process_dying(view: *const View, packet: *mut u8, length: u32, from_port: u16, stores: u32) -> RawVerdict;
}

const CONFIG: StoreConfig = StoreConfig { keys: 10, seed: 7 };
const KEY: Key = Key { high: 1, low: 2, check: 3 };
const GROUP: u16 = 1;
const LANE: u8 = 4;
const CLIENT: u16 = 1;
const INCARNATION: u64 = 3;
/// More than a write has, with its record in the journal.
const ENOUGH: u32 = 80;
/// After so many it has both locks.
const BOTH_LOCKS: u32 = 2;

/// A write of this word, if the word was that; with the lane's request of this number.
fn packet(request: u64, expected: u64, word: u64) -> Vec<u8> {
    let header = Header {
        service: service::CHAIN,
        kind: kind::chain::WRITE,
        count: 1,
        source: CLIENT,
        epoch: 11,
        namespace: 1,
        ..Header::default()
    };
    let operation = Operation {
        key_high: KEY.high,
        key_low: KEY.low,
        check: KEY.check,
        request: id(request),
        group: GROUP,
        client: CLIENT,
        lane: LANE,
        length: 8,
        condition: Condition::Word as u8,
        expected,
        ..Operation::default()
    };
    let mut packet = vec![0; BODY + Operation::BYTES + 32];
    header.write(&mut packet);
    operation.write(&mut packet, BODY);
    packet[BODY + Operation::BYTES..][..8].copy_from_slice(&word.to_be_bytes());
    packet
}

/// Request number `request` of the session.
fn id(request: u64) -> u64 {
    request_id::with_incarnation(request, INCARNATION as u32)
}

/// A switch of one key, whose word is 100, by request 1.
fn switch() -> Switch {
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 10 }).with_store(CONFIG);
    switch.set_epoch(7);
    let address = "10.0.0.1:10001".parse().unwrap();
    switch.set_node(CLIENT, &NodeEntry { address, namespace: 1, incarnation: INCARNATION });
    switch.set_place(GROUP, 1, Place { epoch: 11, previous: 0, next: 0 });
    assert_eq!(switch.insert(GROUP, KEY, Version { epoch: 11, sequence: switch.next_sequence(GROUP) }), Ok(true));
    assert_eq!(write(&switch, packet(1, 0, 100)), Outcome::Done);
    switch
}

fn write(switch: &Switch, mut packet: Vec<u8>) -> Outcome {
    let verdict = switch.process(Time(0), &mut packet, "10.0.0.1:20001".parse().unwrap());
    assert_eq!(verdict.action, Action::ToSender);
    Outcome::try_from(Effect::read(&packet, BODY).outcome).unwrap()
}

/// The same memory, as another process finds it.
fn reopened(switch: Switch) -> Switch {
    let Switch { memory, store, queues, counters, traces, tables: _, deciders: _ } = switch;
    let Store { groups, buckets, items, lanes, journal, own, books: _ } = store;
    let store = Store::over(CONFIG, groups, buckets, items, lanes, journal, own);
    Switch::of(memory, store, queues, counters, traces)
}

fn word(switch: &Switch) -> u64 {
    let content = switch.content(GROUP, KEY).expect("it is there");
    u64::from_be_bytes(content.bytes[..8].try_into().unwrap())
}

/// Dies after every number of stores that there may be: the write has happened, and its lane knows; or it has not, and
/// its lane does not. Sent again, it is done once in either case.
#[test]
fn a_dead_writer_has_written_or_not() {
    let mut happened = [0; 2];
    for stores in 0..ENOUGH {
        let switch = switch();
        let mut dying = packet(2, 100, 200);
        // SAFETY: as in `Switch::process`.
        unsafe {
            ws_process_dying(&switch.view(Time(0)), dying.as_mut_ptr(), dying.len() as u32, 20_001, stores);
        }
        let switch = reopened(switch);
        let locks = switch.store.items.iter().map(|item| &item.lock);
        let locks = locks.chain(switch.store.lanes.iter().map(|lane| &lane.lock));
        assert!(locks.into_iter().all(|lock| lock.load(SeqCst) & OWNER == 0), "{stores} stores: a lock is left");
        let lane = ItemMemory::lane(&switch, CLIENT, LANE);
        match (word(&switch), lane.request - id(0)) {
            (100, 1) => happened[0] += 1,
            (200, 2) => {
                happened[1] += 1;
                let content = switch.content(GROUP, KEY).expect("it is there");
                assert_eq!((lane.own, lane.outcome), (content.version, Outcome::Done as u8), "{stores} stores");
            }
            other => panic!("{stores} stores: word and request are {other:?}"),
        }
        // The client, which has heard nothing, sends it again. A second effect would find the condition unmet.
        assert_eq!(write(&switch, packet(2, 100, 200)), Outcome::Done, "{stores} stores");
        assert_eq!((word(&switch), switch.keys()), (200, (1, 10)));
        assert_eq!(write(&switch, packet(3, 200, 300)), Outcome::Done, "{stores} stores: and so on");
    }
    assert!(happened.iter().all(|&times| times >= 2), "only one of both: {happened:?}");
}

/// What never counted does not begin to count when a second writer dies, with the request that the lane does remember.
#[test]
fn a_second_dead_writer() {
    for stores in 0..ENOUGH {
        let mut switch = switch();
        for (mut dying, stores) in [(packet(2, 100, 200), stores), (packet(1, 0, 100), BOTH_LOCKS)] {
            let before = word(&switch);
            // SAFETY: as in `Switch::process`.
            unsafe {
                ws_process_dying(&switch.view(Time(0)), dying.as_mut_ptr(), dying.len() as u32, 20_001, stores);
            }
            switch = reopened(switch);
            let lane = ItemMemory::lane(&switch, CLIENT, LANE);
            assert_eq!(word(&switch) == 200, lane.request == id(2), "{stores} stores");
            assert!(stores != BOTH_LOCKS || word(&switch) == before, "{stores} stores: nothing new was written");
        }
    }
}

/// A daemon that died between an item and its place, or between a place and its item, leaves an item to be used.
#[test]
fn items_without_a_place_are_used_again() {
    let switch = switch();
    let others: Vec<Key> = (10..19).map(|number| Key { high: number, ..KEY }).collect();
    for key in &others {
        assert_eq!(switch.insert(GROUP, *key, Version { epoch: 11, sequence: 50 }), Ok(true));
    }
    assert_eq!(switch.insert(GROUP, Key { high: 99, ..KEY }, Version::default()), Err(Unmade::Items));
    for key in &others[..3] {
        let (place, item) = switch.store.find(GROUP, *key).expect("just made");
        place.store(0, SeqCst);
        item.lock.fetch_or(DAEMON << 48, SeqCst);
    }
    let switch = reopened(switch);
    assert_eq!(switch.keys(), (7, 10));
    for key in &others {
        let there = switch.content(GROUP, *key).is_some();
        assert_eq!(switch.insert(GROUP, *key, Version { epoch: 11, sequence: 60 }), Ok(!there));
    }
    assert_eq!(switch.keys(), (10, 10));
    assert_eq!(word(&switch), 100);
}

fn read(switch: &Switch) -> Version {
    let header = Header {
        service: service::CHAIN,
        kind: kind::chain::READ,
        count: 1,
        source: CLIENT,
        epoch: 11,
        namespace: 1,
        ..Header::default()
    };
    let operation = Operation {
        key_high: KEY.high,
        key_low: KEY.low,
        check: KEY.check,
        group: GROUP,
        client: CLIENT,
        ..Default::default()
    };
    let mut packet = vec![0; BODY + Operation::BYTES + 32];
    header.write(&mut packet);
    operation.write(&mut packet, BODY);
    assert_eq!(switch.process(Time(0), &mut packet, "10.0.0.1:20001".parse().unwrap()).action, Action::ToSender);
    let effect = Effect::read(&packet, BODY);
    Version { epoch: effect.epoch, sequence: effect.sequence }
}

/// After whatever number of stores: what the journal tells can be read, and whole. The place of a record whose writer
/// is dead is for others again.
#[test]
fn what_is_told_can_be_read() {
    let mut told = 0;
    for stores in 0..ENOUGH {
        let switch = switch();
        switch.watch_groups(GROUP..GROUP + 1, true);
        let mut dying = packet(2, 100, 200);
        // SAFETY: as in `Switch::process`.
        unsafe {
            ws_process_dying(&switch.view(Time(0)), dying.as_mut_ptr(), dying.len() as u32, 20_001, stores);
        }
        match switch.record(1) {
            Recorded::Awaited => {}
            Recorded::Overwritten => panic!("{stores} stores: by whom?"),
            Recorded::Record(record) => {
                told += 1;
                assert!(read(&switch) >= record.content.version, "{stores} stores: told before it could be read");
                assert_eq!((record.key, record.before.sequence + 1), (KEY, record.content.version.sequence));
                assert_eq!(record.content.bytes[..8], 200u64.to_be_bytes());
            }
        }
        let switch = reopened(switch);
        let (drawn, torn) = (switch.drawn(), switch.torn());
        for number in 0..2 * RECORDS as u64 {
            let before = word(&switch);
            assert_eq!(write(&switch, packet(3 + number, before, number)), Outcome::Done);
        }
        assert_eq!((switch.drawn(), switch.torn()), (drawn + 2 * RECORDS as u64, torn), "{stores} stores");
    }
    assert!(told > 1, "hardly anything was told: {told}");
}

/// Whoever took an item's lock before its group was watched notes nothing: it is waited for.
#[test]
fn who_watches_waits_for_those_who_write() {
    let switch = switch();
    let (_, item) = switch.store.find(GROUP, KEY).expect("it is there");
    let lock = take(&item.lock);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| switch.watch_groups(GROUP..GROUP + 1, true));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!watching.is_finished(), "somebody writes, and does not know that he is watched");
        item.lock.store(lock, SeqCst);
        watching.join().expect("it waits no longer");
    });
}
