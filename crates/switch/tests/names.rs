//! Names of keys that a daemon learns for a memory which an earlier one has left (docs/chain.md).

mod support;

use std::sync::Arc;

use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{GroupRoute, Groups, Key, Member, Place};
use wayside_switch::{StoreConfig, Switch};
use wayside_wire::{Operation, kind};

const GROUP: u16 = 1;
const EPOCH: u32 = 5;

fn daemon(switch: &Arc<Switch>) -> Member<Arc<Switch>> {
    let groups = Groups { namespace: NAMESPACE, name: b"space".as_slice().into(), base: GROUP, count: 1 };
    let mut daemon = Member::new(Arc::clone(switch), 0, vec![groups]);
    let route = GroupRoute { epoch: EPOCH, head: from(1), tail: from(1) };
    daemon.take_place(GROUP, Place { epoch: EPOCH, previous: 0, next: 0 }, route);
    daemon
}

fn make(daemon: &mut Member<Arc<Switch>>, name: &[u8]) {
    let key = Key::of(b"space", name).expect("a short name");
    let operation = Operation {
        key_high: key.high,
        key_low: key.low,
        check: key.check,
        request: 1,
        group: GROUP,
        client: 1,
        length: name.len() as u16,
        ..Operation::default()
    };
    daemon.on_packet(Time(0), 1, &support::chain::operation_packet(kind::chain::INSERT, 1, EPOCH, &operation, name));
}

/// A line of another memory's file, or of a key that has gone since, names no key and makes none.
#[test]
fn a_name_counts_only_if_the_memory_has_the_key_that_is_its_hash() {
    let switch = Arc::new(support::switch(1, 20).with_store(StoreConfig { keys: 8, seed: 7 }));
    let mut first = daemon(&switch);
    first.keep_names();
    make(&mut first, b"config/limit");
    let made = first.made().expect("it is to be kept");
    assert_eq!((made.0, &*made.1), (NAMESPACE, &b"config/limit"[..]));
    assert_eq!((switch.keys().0, first.known_names()), (1, 1));

    let mut next = daemon(&switch);
    assert_eq!(next.known_names(), 0, "the memory has hashes");
    for (namespace, name) in [(NAMESPACE, &b"config/gone"[..]), (NAMESPACE + 1, b"config/limit"), (NAMESPACE, b"")] {
        assert!(!next.learn_name(namespace, name), "{namespace} {name:?}");
    }
    assert_eq!((switch.keys().0, next.known_names()), (1, 0), "nothing was made");
    assert!(next.learn_name(NAMESPACE, b"config/limit"));
    assert!(!next.learn_name(NAMESPACE, b"config/limit"), "a line may be there twice");
    assert_eq!((switch.keys().0, next.known_names()), (1, 1));
    assert!(next.made().is_none(), "it is in the file");
}
