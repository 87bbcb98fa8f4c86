//! Decisions that are followed: which, and what is told of them (`dataplane/trace.h`).

mod support;

use std::time::Duration;

use support::queue::packet as queued;
use support::{NAMESPACE, from, lock_packet, request, switch};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::{RequestId, Time};
use wayside_switch::{Action, QueueConfig, Switch, TraceReader, Traced};
use wayside_wire::{Attempt, DropReason, Entry, entry_flag, kind, mix, queue_flag, service};

const ONE: u16 = 1;
const OTHER: u16 = 2;
/// As many as the ring has places.
const PLACES: u64 = 512;

fn acquire(switch: &Switch, node: u16, counter: u64, slot: u32) {
    let (name, request, flags) = (slot.into(), request(node, counter), entry_flag::EXCLUSIVE);
    let entry = Entry { name, request, slot, flags, holder: node, ..Entry::default() };
    switch.process(Time(0), &mut lock_packet(kind::lock::ACQUIRE, node, &[entry]), from(node));
}

fn all(switch: &Switch, reader: &mut TraceReader) -> (Vec<Traced>, u64) {
    let mut traced = Vec::new();
    let lost = switch.read_traces(reader, |one| traced.push(one));
    (traced, lost)
}

#[test]
fn nothing_is_followed_unless_it_is_asked_for() {
    let switch = switch(4, ONE);
    let mut reader = switch.trace_reader();
    acquire(&switch, ONE, 1, 0);
    assert_eq!(all(&switch, &mut reader), (Vec::new(), 0));
}

#[test]
fn a_decision_says_when_it_was_and_what_became_of_the_request() {
    let switch = switch(4, OTHER);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    let before = now();
    acquire(&switch, ONE, 1, 0);
    acquire(&switch, OTHER, 1, 0);
    acquire(&switch, OTHER, 2, 99);
    switch.set_serving(false);
    acquire(&switch, OTHER, 3, 1);
    let (traced, lost) = all(&switch, &mut reader);
    assert_eq!(lost, 0);
    let told: Vec<_> = traced.iter().map(|one| (one.request, one.kind, one.action, one.reason)).collect();
    let to_agent = Action::ToNode { handle: ONE, port: 0 };
    assert_eq!(
        told,
        [
            (RequestId(request(ONE, 1)), kind::lock::GRANT, Action::ToSender, DropReason::None),
            (RequestId(request(OTHER, 1)), kind::lock::ACQUIRE, to_agent, DropReason::None),
            (RequestId(request(OTHER, 2)), kind::lock::ACQUIRE, Action::Drop, DropReason::BadSlot),
            (RequestId(request(OTHER, 3)), kind::lock::RECOVERING, Action::ToSender, DropReason::None),
        ]
    );
    let mut latest = before.as_nanos() as u64;
    for one in &traced {
        assert_eq!((one.namespace, one.service), (NAMESPACE, service::LOCK));
        assert!(latest <= one.began_ns && one.began_ns <= one.ended_ns, "{one:?} after {latest}");
        latest = one.ended_ns;
    }
    assert_eq!(all(&switch, &mut reader), (Vec::new(), 0), "each is told once");
}

/// The clock of the traces.
fn now() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Those that nodes follow, too; and of several in one packet none.
#[test]
fn which_requests_are_followed_their_ids_say() {
    let switch = switch(4, ONE);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(3);
    (1..=300).for_each(|counter| acquire(&switch, ONE, counter, 0));
    let ids = (1..=300).map(|counter| request(ONE, counter));
    let sampled: Vec<_> = ids.filter(|id| mix(*id).is_multiple_of(3)).map(RequestId).collect();
    let traced: Vec<_> = all(&switch, &mut reader).0.iter().map(|one| one.request).collect();
    assert_eq!(traced, sampled);
    switch.set_trace_one_in(1);
    let entry = |slot| Entry { request: request(ONE, 400 + u64::from(slot)), slot, holder: ONE, ..Entry::default() };
    switch.process(Time(0), &mut lock_packet(kind::lock::ACQUIRE, ONE, &[entry(1), entry(2)]), from(ONE));
    assert_eq!(all(&switch, &mut reader), (Vec::new(), 0));
}

/// A lane that has followed a packet to its end follows nothing until the next one.
#[test]
fn what_is_not_followed_changes_nothing_that_was() {
    let switch = switch(4, ONE);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    acquire(&switch, ONE, 1, 0);
    switch.set_trace_one_in(u32::MAX);
    acquire(&switch, ONE, 2, 99);
    let told: Vec<_> = all(&switch, &mut reader).0.iter().map(|one| (one.request, one.kind, one.reason)).collect();
    assert_eq!(told, [(RequestId(request(ONE, 1)), kind::lock::GRANT, DropReason::None)]);
}

/// What is not from a node of this epoch, or is not signed where packets are, takes no place.
#[test]
fn what_is_refused_by_its_tag_takes_no_place() {
    let switch = switch(4, ONE);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    switch.set_authenticated(true);
    acquire(&switch, ONE, 1, 0);
    assert_eq!(switch.counter("no_key") + switch.counter("bad_tag"), 1);
    assert_eq!(all(&switch, &mut reader), (Vec::new(), 0));
}

/// A reader that comes too late is told how many it has missed, and gets the rest.
#[test]
fn what_is_overwritten_is_counted_as_lost() {
    let switch = switch(4, ONE);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    let asked = PLACES + 76;
    (1..=asked).for_each(|counter| acquire(&switch, ONE, counter, 0));
    let (traced, lost) = all(&switch, &mut reader);
    assert_eq!((traced.len() as u64, lost), (PLACES, 76));
    assert_eq!(traced.last().map(|one| one.request), Some(RequestId(request(ONE, asked))));
}

/// Two threads decide and a third one reads all the while: none is told twice or torn.
#[test]
fn places_are_read_while_they_are_written() {
    const EACH: u64 = 50_000;
    let switch = switch(4, OTHER);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    let (mut seen, mut lost) = ([0; 3], 0);
    std::thread::scope(|scope| {
        let threads = [ONE, OTHER].map(|node| {
            let switch = &switch;
            scope.spawn(move || (1..=EACH).for_each(|counter| acquire(switch, node, counter, node.into())))
        });
        let mut latest = [0; 3];
        loop {
            let ended = threads.iter().all(|thread| thread.is_finished());
            lost += switch.read_traces(&mut reader, |one| {
                let node = usize::from((one.request.0 >> 40) as u16 - 100);
                let counter = one.request.0 & 0xff_ffff_ffff;
                assert!(latest[node] < counter, "{one:?} after {latest:?}");
                assert!(one.began_ns <= one.ended_ns && one.namespace == NAMESPACE, "{one:?}");
                (latest[node], seen[node]) = (counter, seen[node] + 1);
            });
            // Whoever has ended has left nothing half written.
            if ended {
                break;
            }
        }
    });
    assert_eq!(seen[1] + seen[2] + lost, 2 * EACH, "{seen:?}, {lost} lost");
    // Whoever comes last, the last lap of the ring is there to be read.
    assert!(seen[1] + seen[2] >= PLACES, "{seen:?}");
}

/// Requests of the queue service, whichever way their grants are to go; and nothing else of it.
#[test]
fn who_asks_for_a_queue_is_followed_too() {
    let switch = switch(4, OTHER).with_queues(QueueConfig { queues: 1, cells: 4, seed: 5 });
    switch.add_queue(NAMESPACE, 7, 4, 1).unwrap();
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    let mut ask = |kind: u8, node: u16, counter: u64| {
        let attempt = Attempt {
            name: 7,
            request: request(node, counter),
            holder: node,
            flags: queue_flag::EXCLUSIVE,
            ..Attempt::default()
        };
        switch.process(Time(0), &mut queued(kind, node, 0, &attempt), from(node));
        all(&switch, &mut reader).0.iter().map(|one| (one.request.0, one.service, one.kind)).collect::<Vec<_>>()
    };
    assert_eq!(ask(kind::queue::ACQUIRE, ONE, 1), [(request(ONE, 1), service::QUEUE, kind::queue::GRANT)]);
    assert_eq!(ask(kind::queue::ACQUIRE, OTHER, 1), [(request(OTHER, 1), service::QUEUE, kind::queue::QUEUED)]);
    assert_eq!(ask(kind::queue::FETCH, OTHER, 2), [(request(OTHER, 2), service::QUEUE, kind::queue::QUEUED)]);
    assert_eq!(ask(kind::queue::NEXT, OTHER, 1), []);
    assert_eq!(ask(kind::queue::CANCEL, OTHER, 2), []);
}

/// What is no packet, and nobody's request: ids are never 0, nor are a trace's.
#[test]
fn strangers_are_not_followed() {
    let switch = switch(4, ONE);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    switch.process(Time(0), &mut [0; 64], from(ONE));
    let entry = Entry { request: 0, slot: 1, holder: ONE, ..Entry::default() };
    switch.process(Time(0), &mut lock_packet(kind::lock::ACQUIRE, ONE, &[entry]), from(ONE));
    assert_eq!(all(&switch, &mut reader), (Vec::new(), 0));
}
