//! The parts of a namespace's names, each with a lock server of its own: switch and nodes must agree on which a name is
//! in. docs/queue.md, "Parts".

mod support;

use support::queue::packet;
use support::{NAMESPACE, enrol, expire, from, request};
use wayside_protocol::Time;
use wayside_protocol::memory::{LockServer, Part, SwitchMemory};
use wayside_switch::{Action, QueueConfig, Switch, Verdict};
use wayside_wire::{Attempt, DropReason, kind, queue_flag};

const ASKS: u16 = 20;

/// With these nodes as the lock servers of as many parts: handles from 1.
fn switch(parts: u16) -> Switch {
    let switch = support::switch(1, ASKS).with_queues(QueueConfig { queues: 1, cells: 1, seed: 5 });
    for number in 0..parts {
        switch.set_lock_server(NAMESPACE, Part { number, of: parts }, number + 1);
    }
    switch
}

fn acquire(switch: &Switch, name: u64) -> Verdict {
    let attempt = Attempt { name, request: request(ASKS, 1), holder: ASKS, ..Attempt::default() };
    switch.process(Time(0), &mut packet(kind::queue::ACQUIRE, ASKS, 0, &attempt), from(ASKS))
}

#[test]
fn a_names_packets_go_to_the_lock_server_of_its_part_and_no_other_is_believed() {
    for parts in 1..=Part::MOST {
        let switch = switch(parts);
        assert_eq!(switch.parts(NAMESPACE), parts);
        let mut names = [0; Part::MOST as usize];
        for name in 0..200 {
            let part = Part::of_name(name, parts).number;
            names[usize::from(part)] += 1;
            let server = part + 1;
            assert_eq!(acquire(&switch, name).action, Action::ToNode { handle: server, port: 0 }, "{name} of {parts}");
            for source in 1..=parts {
                let attempt = Attempt { name, request: request(ASKS, 1), holder: ASKS, ..Attempt::default() };
                let mut granted = packet(kind::queue::GRANT, source, ASKS, &attempt);
                let reason = switch.process(Time(0), &mut granted, from(source)).reason;
                let wanted = if source == server { DropReason::None } else { DropReason::NotItsServer };
                assert_eq!(reason, wanted, "{name} of {parts} by {source}");
            }
        }
        let even = 200 / u32::from(parts);
        assert!(names[..usize::from(parts)].iter().all(|count| (even / 3..=even * 3).contains(count)), "{names:?}");
    }
}

#[test]
fn a_part_without_a_lock_server_keeps_no_other_from_its_own() {
    let switch = switch(3);
    expire(&switch, 2);
    for name in 0..50 {
        let (verdict, part) = (acquire(&switch, name), Part::of_name(name, 3).number);
        let is_lost = verdict.reason == DropReason::NoServer;
        assert_eq!((is_lost, verdict.action == Action::Drop), (part == 1, part == 1), "{name}");
        let flags = queue_flag::TRY | queue_flag::EXCLUSIVE;
        let attempt = Attempt { name, request: request(ASKS, 1), holder: ASKS, flags, ..Attempt::default() };
        let tried = switch.process(Time(0), &mut packet(kind::queue::ACQUIRE, ASKS, 0, &attempt), from(ASKS));
        assert_eq!(tried.action == Action::ToSender, part == 1, "a try is refused at once");
    }
}

#[test]
fn a_handles_next_session_has_none_of_its_parts_and_terms_stay() {
    let switch = switch(3);
    switch.set_lock_server(NAMESPACE, Part { number: 2, of: 3 }, 2);
    let before = [0, 1, 2].map(|part| switch.lock_server(NAMESPACE, part));
    assert_eq!(before.map(|server| (server.handle, server.term)), [(1, 1), (2, 1), (2, 2)]);
    expire(&switch, 2);
    enrol(&switch, 2, NAMESPACE);
    let after = [0, 1, 2].map(|part| switch.lock_server(NAMESPACE, part));
    assert_eq!(after.map(|server| (server.handle, server.term)), [(1, 1), (0, 1), (0, 2)]);
    assert_eq!(switch.lock_server(NAMESPACE, 14), LockServer::default(), "there is none such");
    assert_eq!(switch.lock_server(NAMESPACE + 1, 0), LockServer::default());
}
