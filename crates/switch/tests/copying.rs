//! A group that is copied over a way that takes longer than the pause after which a question is asked again
//! (docs/chain.md). The test carries the packets between both daemons, and is the clock.

mod support;

use std::collections::VecDeque;
use std::sync::Arc;

use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_protocol::chain::{FELLOWS, Following, GroupRoute, Groups, Key, Member, Place};
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_switch::{StoreConfig, Switch};
use wayside_wire::{BODY, Header, Operation, Placement, Role, check, kind, service};

const GROUP: u16 = 1;
const EPOCH: u32 = 5;
const BOOT: u64 = 7;
/// Handles: of the source, of the joiner, and of the controller.
const HANDLES: [u16; 2] = [11, 12];
const CONTROLLER: u16 = 13;
const KEYS: usize = 40;
/// Microseconds.
const RETRANSMIT: u64 = 100;

type Daemon = Member<Arc<Switch>>;

fn daemon(at: usize) -> Daemon {
    let switch = support::switch(1, 20).with_store(StoreConfig { keys: 2 * KEYS as u32, seed: 7 });
    switch.set_node(HANDLES[1 - at], &NodeEntry { address: from(1), namespace: FELLOWS, incarnation: 1 });
    let groups = Groups { namespace: NAMESPACE, name: b"space".as_slice().into(), base: GROUP, count: 1 };
    let following =
        Following { boot: BOOT, retransmit: RETRANSMIT, renewal: 1 << 40, window: 4, ..Following::default() };
    Member::new(Arc::new(switch), HANDLES[at], vec![groups]).following(following)
}

/// Copies a group of [`KEYS`] keys over a way of so many microseconds. When the joiner had all, and what was said.
fn copied(way: u64) -> (u64, usize) {
    let mut daemons = [daemon(0), daemon(1)];
    let route = GroupRoute { epoch: EPOCH, head: from(1), tail: from(1) };
    daemons[0].take_place(GROUP, Place { epoch: EPOCH, previous: 0, next: 0 }, route);
    for index in 0..KEYS {
        let name = format!("key/{index}");
        let key = Key::of(b"space", name.as_bytes()).expect("a short name");
        daemons[0].on_packet(Time(0), 1, &insert(key, name.as_bytes()));
        while daemons[0].transmit().is_some() {}
    }
    let told = Placement {
        boot: BOOT,
        pass: 1,
        epoch: EPOCH,
        group: GROUP,
        source: HANDLES[0],
        role: Role::Joiner as u8,
        ..Placement::default()
    };
    let mut place = vec![0; BODY + Placement::BYTES];
    let header = Header { service: service::CHAIN, kind: kind::chain::PLACE, source: CONTROLLER, ..Header::default() };
    header.write(&mut place);
    told.write(&mut place, BODY);
    daemons[1].on_fellow(Time(0), &place);
    let (mut under_way, mut said) = (VecDeque::<(u64, usize, Vec<u8>)>::new(), 0);
    for now in (0..10_000_000).step_by(10) {
        while under_way.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, packet) = under_way.pop_front().expect("it is there");
            daemons[to].on_fellow(Time(now), &packet);
        }
        for at in 0..2 {
            if daemons[at].next_timer() <= Time(now) {
                daemons[at].on_tick(Time(now));
            }
            while let Some(sent) = daemons[at].transmit() {
                said += 1;
                if sent.to == CONTROLLER && check(&sent.packet).is_ok_and(|header| header.kind == kind::chain::PLACED) {
                    assert_eq!(daemons[1].known_names(), KEYS as u64, "it says so once it has all");
                    return (now, said);
                }
                under_way.push_back((now + way, 1 - at, sent.packet));
            }
        }
    }
    panic!("it is never copied over a way of {way} us");
}

fn insert(key: Key, name: &[u8]) -> Vec<u8> {
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
    support::chain::operation_packet(kind::chain::INSERT, 1, EPOCH, &operation, name)
}

#[test]
fn a_group_is_copied_however_long_the_way_is() {
    for way in [10, RETRANSMIT / 2, RETRANSMIT, 3 * RETRANSMIT, 20 * RETRANSMIT] {
        let (took, said) = copied(way);
        assert!(took < 200 * KEYS as u64 * way.max(RETRANSMIT), "{took} us over {way} us");
        assert!(said < 100 * KEYS, "{said} packets over {way} us");
    }
}
