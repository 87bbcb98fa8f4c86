//! A switch with nodes, and packets for it.
#![allow(dead_code)] // Every test file uses its own part.

pub mod chain;
pub mod queue;

use std::net::{Ipv4Addr, SocketAddrV4};

use wayside_protocol::memory::{NodeEntry, NodeWord, SwitchMemory};
use wayside_switch::{Switch, SwitchConfig};
use wayside_wire::{Entry, Header, Heartbeat, NodeState, Policy, entry_at, kind, service};

pub const EPOCH: u32 = 7;
pub const NAMESPACE: u16 = 1;

/// A serving switch with one fair namespace of `slots` slots, and the nodes 1 to `nodes`, of incarnations 101 and on.
pub fn switch(slots: u32, nodes: u16) -> Switch {
    let switch = Switch::new(SwitchConfig { slots, max_handle: 1_000 });
    switch.add_namespace(NAMESPACE, slots, Policy::Fair).unwrap();
    switch.set_epoch(EPOCH);
    switch.set_serving(true);
    for handle in 1..=nodes {
        enrol(&switch, handle, NAMESPACE);
    }
    switch
}

/// Installs a session: incarnation `handle + 100`, agent port `10,000 + handle`.
pub fn enrol(switch: &Switch, handle: u16, namespace: u16) {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, (handle >> 8) as u8, handle as u8), 10_000 + handle);
    switch.set_node(handle, &NodeEntry { address, namespace, incarnation: u64::from(handle) + 100 });
}

/// Ends a session, as the controller does.
pub fn expire(switch: &Switch, handle: u16) {
    let word = switch.node_word(handle);
    assert!(switch.cas_node_word(handle, word, NodeWord { state: NodeState::Expired, ..word }));
}

/// The `counter`-th request of a node.
pub fn request(handle: u16, counter: u64) -> u64 {
    (u64::from(handle) + 100) << 40 | counter
}

/// Where a node's thread sends from.
pub fn from(handle: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, (handle >> 8) as u8, handle as u8), 20_000 + handle)
}

/// A lock packet of these entries.
pub fn lock_packet(kind: u8, source: u16, entries: &[Entry]) -> Vec<u8> {
    let header = Header {
        service: service::LOCK,
        kind,
        count: entries.len() as u8,
        source,
        epoch: EPOCH,
        namespace: NAMESPACE,
        ..Header::default()
    };
    let mut packet = vec![0; entry_at(entries.len())];
    header.write(&mut packet);
    for (index, entry) in entries.iter().enumerate() {
        entry.write(&mut packet, entry_at(index));
    }
    packet
}

/// A heartbeat of the session of [`enrol`].
pub fn heartbeat(source: u16, sequence: u64) -> Vec<u8> {
    let header = Header { kind: kind::fabric::HEARTBEAT, source, epoch: EPOCH, ..Header::default() };
    let mut packet = vec![0; entry_at(1)];
    header.write(&mut packet);
    let oldest = request(source, 0);
    Heartbeat { sequence, oldest, sent_us: 5, incarnation: u64::from(source) + 100 }.write(&mut packet, entry_at(0));
    packet
}
