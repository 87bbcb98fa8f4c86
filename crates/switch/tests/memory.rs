//! The switch's memory from the controller's side, while the data plane uses it.

mod support;

use support::{EPOCH, NAMESPACE, expire, from, heartbeat, lock_packet, request};
use wayside_protocol::Time;
use wayside_protocol::controller::{Counters, Roster, SessionRecord, Stage};
use wayside_protocol::memory::{NodeEntry, NodeMemory, NodeWord, SlotWord, SwitchMemory};
use wayside_switch::{Action, RegionError, Switch, SwitchConfig};
use wayside_wire::{DropReason, Entry, Header, NodeState, Policy, SlotState, header_flag, kind, limits};

#[test]
fn a_lease_ends_when_it_was_said_to_and_not_before() {
    let switch = Switch::new(SwitchConfig { slots: 8, max_handle: 4 });
    switch.set_epoch(EPOCH);
    switch.set_node(1, &NodeEntry { address: from(1), namespace: NAMESPACE, incarnation: 101 });
    let mut sequence = 0;
    let mut acknowledges = |now| {
        let before = switch.counter("heartbeat");
        sequence += 1;
        switch.process(Time(now), &mut heartbeat(1, sequence), from(1));
        switch.counter("heartbeat") > before
    };
    assert!(acknowledges(u64::MAX), "nobody else ever serves");
    switch.serve_for(switch.moment(Time(1_000)), 300);
    assert!(acknowledges(1_299) && !acknowledges(1_300) && !acknowledges(1_000_000));
    switch.serve_for(switch.moment(Time(1_200)), 300);
    assert!(acknowledges(1_499), "renewed");
    switch.serve_for(switch.moment(Time(0)), 0);
    assert!(!acknowledges(1), "given up");
    switch.serve_without_end();
    assert!(acknowledges(u64::MAX));
}

/// As at a hook whose daemon was restarted: its roster reads the records before its post turns out to be its own still.
/// A request that was too old before is too old afterwards.
#[test]
fn what_a_memory_that_goes_on_knows_of_a_session_is_not_written_anew_from_the_records() {
    let switch = Switch::new(SwitchConfig { slots: 8, max_handle: 4 });
    switch.set_epoch(EPOCH);
    let (entry, incarnation) = (NodeEntry { address: from(1), namespace: NAMESPACE, incarnation: 101 }, 101);
    let word = NodeWord { state: NodeState::Live, sequence: 7 };
    switch.take_up_node(1, &NodeMemory { entry, word, oldest: request(1, 500), rotation: 0 });
    let record = SessionRecord {
        incarnation,
        nonce: 1,
        lifeline: 2,
        address: from(1),
        namespace: NAMESPACE,
        lease: 1_000_000,
        grace: 100_000,
        pid: 3,
        host: [0; limits::MAX_HOST_BYTES],
        stage: Stage::Live,
        secret: None,
        admission: 0,
    };
    let mut roster = Roster::default();
    assert!(roster.take(&switch, &Counters { epoch: EPOCH, ..Counters::default() }.encode()));
    assert!(roster.take(&switch, &record.encode(1)));
    let known = switch.node(1).expect("it lives");
    assert_eq!((known.word, known.oldest), (word, request(1, 500)));
    // Another session of this handle.
    assert!(roster.take(&switch, &SessionRecord { incarnation: 102, ..record }.encode(1)));
    let known = switch.node(1).expect("it lives");
    assert_eq!((known.entry.incarnation, known.word.sequence), (102, 0));
}

#[test]
fn namespaces_get_slots_of_their_own_until_none_are_left() {
    let switch = Switch::new(SwitchConfig { slots: 10, max_handle: 5 });
    assert_eq!(switch.add_namespace(1, 0, Policy::Fair), Err(RegionError::Empty));
    assert_eq!(switch.add_namespace(1, 11, Policy::Fair), Err(RegionError::Full { wanted: 11, left: 10 }));
    assert_eq!(switch.add_namespace(1, 6, Policy::Fair), Ok(()));
    assert_eq!(switch.add_namespace(1, 1, Policy::Fair), Err(RegionError::Taken { namespace: 1 }));
    let full = switch.add_namespace(u16::MAX, 5, Policy::Fair).unwrap_err();
    assert_eq!(full.to_string(), "5 slots do not fit: the switch has 4 left");
    assert_eq!(switch.add_namespace(u16::MAX, 4, Policy::ReadPreferring), Ok(()));
    assert_eq!([0, 1, u16::MAX].map(|namespace| switch.slot_count(namespace)), [0, 6, 4]);

    let held = SlotWord { state: SlotState::Managed, agent: 3, ..SlotWord::unheld(7) };
    assert!(switch.cas_slot(u16::MAX, 0, SlotWord::unheld(0), held));
    assert!(!switch.cas_slot(u16::MAX, 0, SlotWord::unheld(0), held), "it is another one by now");
    assert_eq!(switch.load_slot(u16::MAX, 0), held);
    assert!((0..6).all(|slot| switch.load_slot(1, slot) == SlotWord::unheld(0)));
}

/// Whoever looks for slots to work at must see every one that is not at rest, in its own namespace alone.
#[test]
fn busy_slots_are_found_one_after_the_other() {
    let switch = Switch::new(SwitchConfig { slots: 20, max_handle: 5 });
    switch.add_namespace(1, 4, Policy::Fair).unwrap();
    switch.add_namespace(2, 12, Policy::Fair).unwrap();
    switch.add_namespace(3, 4, Policy::Fair).unwrap();
    let word = |state, tenure| SlotWord { state, ..SlotWord::unheld(tenure) };
    let busy = [
        (0, word(SlotState::Open, 0)),
        (3, word(SlotState::Managed, 9)),
        (4, word(SlotState::Frozen, 1)),
        (9, SlotWord::unheld(limits::MAX_TENURE)),
        (11, word(SlotState::Managed, limits::MAX_TENURE)),
    ];
    let others = [(1, 3), (3, 0)].map(|(namespace, slot)| (namespace, slot, word(SlotState::Open, 1)));
    let at_rest = [(2, 5, SlotWord::unheld(limits::MAX_TENURE - 1)), (2, 10, SlotWord::unheld(1))];
    for (namespace, slot, word) in busy.map(|(slot, word)| (2, slot, word)).into_iter().chain(others).chain(at_rest) {
        assert!(switch.cas_slot(namespace, slot, SlotWord::unheld(0), word));
    }
    for (from, end) in (0..=12).flat_map(|from| (from..=12).map(move |end| (from, end))) {
        let first = busy.iter().map(|(slot, _)| *slot).find(|slot| (from..end).contains(slot));
        assert_eq!(switch.next_busy(2, from, end), first.unwrap_or(end), "{from}..{end}");
    }
}

#[test]
fn a_switch_without_memory_drops_every_request_and_counts_it() {
    let switch = Switch::new(SwitchConfig { slots: 0, max_handle: 1 });
    let mut packet = lock_packet(kind::lock::ACQUIRE, 1, &[Entry { holder: 1, ..Entry::default() }]);
    let verdict = switch.process(Time(0), &mut packet, from(1));
    assert_eq!((verdict.action, verdict.reason), (Action::Drop, DropReason::StaleEpoch));
    assert_eq!(switch.counter("stale_epoch"), 1);
    assert_eq!(switch.counters().map(|(_, count)| count).sum::<u64>(), 1);
}

/// docs/protocol.md, Sessions: the controller expires by compare-and-swap on the sequence that it saw.
#[test]
fn a_session_ends_between_two_heartbeats_or_not_at_all() {
    let switch = support::switch(8, 2);
    let seen = switch.node_word(1);
    assert_eq!(seen, NodeWord { state: NodeState::Live, sequence: 0 });
    assert_eq!(switch.process(Time(0), &mut heartbeat(1, 1), from(1)).action, Action::ToSender);
    let expired = NodeWord { state: NodeState::Expired, ..seen };
    assert!(!switch.cas_node_word(1, seen, expired), "a heartbeat came in between");

    expire(&switch, 1);
    let mut late = heartbeat(1, 2);
    assert_eq!(switch.process(Time(0), &mut late, from(1)).action, Action::ToSender);
    assert_ne!(Header::read(&late).unwrap().flags & header_flag::EXPIRED, 0, "the lease is over");
    assert_eq!(switch.node_word(1).sequence, 1);
    let acquire = Entry { holder: 1, request: request(1, 1), ..Entry::default() };
    let verdict = switch.process(Time(0), &mut lock_packet(kind::lock::ACQUIRE, 1, &[acquire]), from(1));
    assert_eq!(verdict.reason, DropReason::SourceNotLive);
    assert_eq!(switch.load_slot(NAMESPACE, 0), SlotWord::unheld(0));
}

#[test]
fn a_handle_has_an_address_from_its_first_session_on() {
    let switch = support::switch(8, 1);
    assert_eq!(switch.address(1, 0).unwrap().to_string(), "10.0.0.1:10001");
    assert_eq!(switch.address(1, 55).unwrap().to_string(), "10.0.0.1:55");
    assert_eq!(switch.address(2, 0), None);
    assert_eq!(switch.oldest(1), request(1, 0));
}

/// A standby that served before has in its slots what was there then.
#[test]
fn a_memory_is_new_until_it_has_served_once() {
    let switch = Switch::new(SwitchConfig { slots: 8, max_handle: 1 });
    switch.set_epoch(0);
    assert!(switch.is_new());
    switch.set_epoch(EPOCH);
    assert!(!switch.is_new());
    switch.set_epoch(0);
    assert!(!switch.is_new());
}

/// A hand-over: slots and nodes as they are, at a switch that knew some of the nodes, or others in their place.
#[test]
fn another_switch_goes_on_where_one_has_ended() {
    let entry = |node: u16| Entry { slot: 3, holder: node, request: request(node, 5), name: 3, ..Entry::default() };
    let acquire = |node: u16| lock_packet(kind::lock::ACQUIRE, node, &[entry(node)]);
    let first = support::switch(8, 2);
    first.process(Time(0), &mut heartbeat(1, 9), from(1));
    assert_eq!(first.process(Time(0), &mut acquire(1), from(1)).action, Action::ToSender);
    expire(&first, 2);
    let second = Switch::new(SwitchConfig { slots: 8, max_handle: 1_000 });
    second.add_namespace(NAMESPACE, 8, Policy::Fair).unwrap();
    support::enrol(&second, 1, NAMESPACE);
    second.set_node(2, &NodeEntry { address: from(2), namespace: NAMESPACE, incarnation: 50 });
    let mut slots = [[0; 2]; 8];
    first.read_slots(NAMESPACE, 0, &mut slots);
    assert!(second.is_new());
    second.write_slots(NAMESPACE, 0, &slots);
    assert!(!second.is_new(), "a census is to look at every slot");
    for handle in [1, 2] {
        let node = first.node(handle).expect("it was given out");
        second.take_up_node(handle, &node);
        assert_eq!(second.node(handle), Some(node));
    }
    assert_eq!((first.node(3), second.node_word(1).sequence), (None, 9));
    assert_eq!(second.oldest(1), first.oldest(1));
    second.set_serving(true);
    second.set_epoch(EPOCH);
    assert_eq!(second.load_slot(NAMESPACE, 3), first.load_slot(NAMESPACE, 3));
    assert_eq!(second.hint(NAMESPACE, 3), first.hint(NAMESPACE, 3));
    let dead = second.process(Time(0), &mut acquire(2), from(2));
    assert_eq!((dead.action, dead.reason), (Action::Drop, DropReason::SourceNotLive));
    let late = second.process(Time(0), &mut heartbeat(1, 9), from(1));
    assert_eq!(late.reason, DropReason::StaleHeartbeat, "it was taken where it came first");
}
