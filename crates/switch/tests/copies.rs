//! The JOIN that goes to an agent beside a GRANT.

mod support;

use support::{lock_packet, switch};
use wayside_protocol::memory::SwitchMemory;
use wayside_wire::{Entry, Header, entry_flag, kind};

const HOLDER: u16 = 1;
const AGENT: u16 = 3;

/// A GRANT by join as the switch has made it.
fn grant() -> Vec<u8> {
    let entry = Entry { holder: HOLDER, flags: entry_flag::JOINED, ..Entry::default() };
    let mut grant = lock_packet(kind::lock::GRANT, AGENT, &[entry]);
    let header = Header { destination: HOLDER, ..Header::read(&grant).expect("a packet") };
    header.write(&mut grant);
    grant
}

#[test]
fn a_copy_is_the_join_from_the_holder_to_the_agent() {
    let switch = switch(1, 3);
    let mut copy = grant();
    assert!(switch.make_copy(&mut copy));
    let header = Header::read(&copy).expect("a packet");
    assert_eq!((header.kind, header.source, header.destination, header.tag), (kind::lock::JOIN, HOLDER, AGENT, 0));
    assert_eq!(switch.counters().map(|(_, count)| count).sum::<u64>(), 0);
}

/// Nothing leaves unsigned (docs/security.md): an agent without a key gets nothing, and that is counted.
#[test]
fn a_copy_for_an_agent_without_a_key_is_not_sent() {
    let switch = switch(1, 3);
    switch.set_authenticated(true);
    switch.set_keys(AGENT, None);
    assert!(!switch.make_copy(&mut grant()));
    assert_eq!(switch.counter("no_key"), 1);
    assert_eq!(switch.counters().map(|(_, count)| count).sum::<u64>(), 1);
}
