//! The nine workflows of lock fission (FissLock, OSDI 2024, 4.1, figure 5) and what packet loss makes of them (4.2),
//! through the real core.

use crate::bench::{Bench, LEASE, SLOTS, handle};
use wayside_protocol::{Acquire, Event, Mode, Path, Priority, RequestId, Time};
use wayside_wire::{LockKind, SlotState, check, kind, service};

const NAME: u64 = 5;

fn exclusive(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 }
}

#[test]
fn workflow_1_a_free_lock_is_granted_by_the_switch() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, path) = bench.granted(0, id);
    assert_eq!(path, Path::Switch);
    assert_eq!((token.stamp().epoch, token.sequence()), (7, 0));
    assert_eq!(bench.slot(NAME).agent, handle(0));
    bench.release(0, id);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert!(bench.nodes[0].is_idle(), "nothing is left behind");
}

#[test]
fn workflow_2_readers_join_at_the_switch_and_the_agent_hears_of_them() {
    let mut bench = Bench::new(3);
    let ids: Vec<_> = (0..3).map(|node| bench.ask(node, NAME, Mode::Shared)).collect();
    bench.run();
    for (node, &id) in ids.iter().enumerate() {
        assert_eq!(bench.granted(node, id).1, Path::Switch);
    }
    assert_eq!(bench.slot(NAME).joins, 2);
    bench.release(0, ids[0]);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Open, "two readers are left");
    bench.release(1, ids[1]);
    bench.release(2, ids[2]);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn workflows_3_and_8_a_waiter_gets_lock_and_agency() {
    let mut bench = Bench::new(3);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (first_token, _) = bench.granted(0, first);
    let second = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let third = bench.ask(2, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(1);
    bench.release(0, first);
    bench.run();
    let (second_token, _) = bench.granted(1, second);
    assert!(second_token > first_token);
    assert_eq!(bench.slot(NAME).agent, handle(1));
    bench.quiet(2);
    bench.release(1, second);
    bench.run();
    assert!(bench.granted(2, third).0 > second_token, "the queue travelled with the agency");
    bench.release(2, third);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert!(bench.nodes.iter().all(|node| node.is_idle()));
}

/// Node 0 has handed its lock to node 1, whose grant has arrived.
fn handed_over(bench: &mut Bench) -> RequestId {
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let second = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, first);
    bench.run();
    bench.granted(1, second);
    second
}

#[test]
fn an_heir_confirms_along_with_its_next_packet() {
    let mut bench = Bench::new(2);
    handed_over(&mut bench);
    assert_eq!(bench.count(LockKind::Queued), 0, "the one who waited for the lock comes first");
    assert!(!bench.nodes[0].is_idle(), "it keeps what may have been lost");
    bench.ask(1, NAME + 1, Mode::Exclusive);
    let kinds: Vec<u8> = bench.flying.iter().map(|f| check(&f.packet).unwrap().kind).collect();
    assert_eq!(kinds, [kind::lock::ACQUIRE, kind::lock::QUEUED]);
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_silent_heir_is_asked_at_its_agent_port() {
    let mut bench = Bench::new(2);
    handed_over(&mut bench);
    bench.now = bench.nodes[0].next_timer().expect("it asks again");
    bench.nodes[0].on_tick(bench.now);
    bench.collect(0);
    assert!(bench.step(), "to the switch");
    let again = bench.flying.front().expect("the switch repeats the grant");
    assert_eq!((again.to, again.from.port()), (Some(1), 9_000), "the thread of the reply port reads no more");
    bench.run();
    assert_eq!(bench.nodes[1].event(), None, "it was granted once");
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn who_came_to_the_old_agent_too_late_does_not_wait_for_a_silent_heir() {
    let mut bench = Bench::new(3);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let second = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let third = bench.ask(2, NAME, Mode::Exclusive);
    assert!(bench.step(), "the switch sends it on to node 0");
    let late = bench.flying.pop_front().unwrap();
    bench.release(0, first);
    bench.run();
    bench.granted(1, second);
    bench.deliver(late);
    bench.pass(250);
    assert!(bench.nodes[0].is_idle(), "it sent the late one on");
    bench.release(1, second);
    bench.run();
    bench.granted(2, third);
}

#[test]
fn workflows_4_and_5_a_node_with_the_agent_decides_by_itself() {
    let mut bench = Bench::new(1);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (first_token, _) = bench.granted(0, first);
    let second = bench.ask(0, NAME, Mode::Exclusive);
    assert!(bench.flying.is_empty(), "no packet");
    bench.quiet(0);
    bench.release(0, first);
    let (second_token, path) = bench.granted(0, second);
    assert_eq!(path, Path::Local);
    assert!(second_token > first_token);
}

#[test]
fn a_name_is_asked_for_again_while_its_slot_is_being_freed() {
    let mut bench = Bench::new(1);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (first_token, _) = bench.granted(0, first);
    bench.release(0, first);
    let second = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (second_token, path) = bench.granted(0, second);
    assert_eq!(path, Path::Switch);
    assert!(second_token > first_token);
    bench.release(0, second);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_slot_whose_freeing_was_lost_is_freed_again() {
    for lost in [LockKind::Retenure, LockKind::Retenured] {
        let mut bench = Bench::new(1);
        let id = bench.ask(0, NAME, Mode::Exclusive);
        bench.run();
        bench.granted(0, id);
        bench.release(0, id);
        if lost == LockKind::Retenured {
            bench.step();
        }
        assert_eq!(bench.lose(lost as u8), 1, "{lost:?}");
        bench.pass(20_000);
        assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
        assert!(bench.nodes[0].is_idle(), "{lost:?}");
    }
}

#[test]
fn who_comes_while_the_slot_is_being_freed_gets_it_at_the_switch() {
    let mut bench = Bench::new(2);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let second = bench.ask(1, NAME, Mode::Exclusive);
    bench.step();
    bench.release(0, first);
    bench.run();
    assert_eq!(bench.granted(1, second).1, Path::Switch);
    assert_eq!(bench.slot(NAME).agent, handle(1));
}

#[test]
fn nothing_is_left_to_wake_up_for_while_a_lock_is_held_or_after_it() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, id);
    let beat = bench.now + LEASE / 8;
    assert!(bench.nodes[0].next_timer() >= Some(beat), "held");
    bench.release(0, id);
    assert!(bench.nodes[0].next_timer() < Some(beat), "until the switch has answered");
    bench.run();
    assert!(bench.nodes[0].next_timer() >= Some(beat), "freed");
}

#[test]
fn workflow_9_a_remote_reader_releases_through_the_switch() {
    let mut bench = Bench::new(2);
    let a = bench.ask(0, NAME, Mode::Shared);
    let b = bench.ask(1, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, a);
    bench.granted(1, b);
    bench.release(1, b);
    bench.run();
    assert!(bench.nodes[1].is_idle(), "RELEASED came");
    assert_eq!(bench.slot(NAME).state, SlotState::Open);
}

#[test]
fn a_writer_closes_the_slot_and_readers_queue_behind_it() {
    let mut bench = Bench::new(3);
    let reader = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, reader);
    let writer = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let late = bench.ask(2, NAME, Mode::Shared);
    bench.run();
    bench.quiet(1);
    bench.quiet(2);
    bench.release(0, reader);
    bench.run();
    let (written, _) = bench.granted(1, writer);
    bench.quiet(2);
    bench.release(1, writer);
    bench.run();
    assert!(bench.granted(2, late).0 > written);
}

#[test]
fn a_lost_grant_is_claimed() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.step();
    assert_eq!(bench.lose(LockKind::Grant as u8), 1);
    bench.pass(100_000);
    let (token, _) = bench.granted(0, id);
    assert!(token.sequence() > 0, "granted by its own agent after the claim");
    bench.release(0, id);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn a_lost_join_is_a_gap_until_its_reader_releases() {
    let mut bench = Bench::new(3);
    let a = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, a);
    let b = bench.ask(1, NAME, Mode::Shared);
    bench.step();
    assert_eq!(bench.lose(LockKind::Join as u8), 1);
    bench.run();
    bench.granted(1, b);
    let writer = bench.ask(2, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, a);
    bench.run();
    bench.quiet(2);
    bench.release(1, b);
    bench.run();
    bench.granted(2, writer);
}

#[test]
fn a_lost_transfer_is_sent_again_and_grants_once() {
    let mut bench = Bench::new(2);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let second = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, first);
    bench.step();
    assert_eq!(bench.lose(LockKind::Grant as u8), 1);
    bench.pass(50_000);
    bench.granted(1, second);
    bench.quiet(1);
    bench.release(1, second);
    bench.pass(50_000);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert!(bench.nodes.iter().all(|node| node.is_idle()));
}

#[test]
fn a_grant_that_comes_after_its_deadline_is_given_back() {
    let mut bench = Bench::new(2);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let deadline = Some(bench.now + 20_000);
    let second = bench.ask_with(1, Acquire { deadline, ..exclusive(NAME) });
    bench.pass(30_000);
    assert_eq!(bench.nodes[1].event(), Some(Event::TimedOut { request: second, over_budget: false }));
    bench.release(0, first);
    bench.pass(30_000);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    bench.quiet(1);
}

#[test]
fn two_names_of_one_slot_do_not_block_each_other() {
    let other = NAME + u64::from(SLOTS);
    let mut bench = Bench::new(2);
    let a = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, a);
    let b = bench.ask(1, other, Mode::Exclusive);
    bench.run();
    assert_eq!(bench.granted(1, b).1, Path::Agent);
    let again = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(1);
    bench.release(0, a);
    bench.run();
    bench.granted(1, again);
    bench.release(1, b);
    bench.release(1, again);
    bench.pass(100_000);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn a_try_is_refused_by_the_switch_while_one_name_holds() {
    let mut bench = Bench::new(2);
    let a = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, a);
    bench.delivered.clear();
    let id = bench.ask_with(1, Acquire { try_: true, ..exclusive(NAME) });
    bench.run();
    assert_eq!(bench.nodes[1].event(), Some(Event::Busy { request: id, agent: handle(0) }));
    assert_eq!(bench.count(LockKind::Acquire), 1, "the agent was not asked");
    let other = NAME + u64::from(SLOTS);
    let free = bench.ask_with(1, Acquire { try_: true, ..exclusive(other) });
    bench.run();
    bench.granted(1, free);
}

#[test]
fn a_downgrade_lets_readers_in_and_keeps_the_token() {
    let mut bench = Bench::new(2);
    let a = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(0, a);
    let b = bench.ask(1, NAME, Mode::Shared);
    bench.run();
    bench.nodes[0].downgrade(bench.now, a);
    bench.collect(0);
    bench.run();
    assert_eq!(bench.nodes[0].event(), Some(Event::Downgraded { request: a }));
    bench.granted(1, b);
    assert_eq!(bench.nodes[0].holds().next().map(|hold| hold.token), Some(token));
    bench.release(0, a);
    bench.release(1, b);
    bench.pass(100_000);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn a_remote_holder_can_downgrade_too() {
    let other = NAME + u64::from(SLOTS);
    let mut bench = Bench::new(2);
    let keeps_agency = bench.ask(0, other, Mode::Exclusive);
    bench.run();
    bench.granted(0, keeps_agency);
    let a = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(1, a);
    bench.nodes[1].downgrade(bench.now, a);
    bench.collect(1);
    bench.run();
    assert_eq!(bench.nodes[1].event(), Some(Event::Downgraded { request: a }));
    let reader = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, reader);
}

#[test]
fn many_names_come_in_one_packet_and_held_ones_in_order() {
    let mut bench = Bench::new(2);
    let held = bench.ask(1, 20, Mode::Exclusive);
    bench.run();
    bench.granted(1, held);
    bench.delivered.clear();
    let wants: Vec<_> = (0..40).map(exclusive).collect();
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, &wants, &mut ids).expect("the session lives");
    bench.collect(0);
    bench.pass(1_000);
    for &id in &ids[..20] {
        bench.granted(0, id);
    }
    bench.quiet(0);
    bench.release(1, held);
    bench.pass(50_000);
    for &id in &ids[20..] {
        bench.granted(0, id);
    }
    let asked = bench.delivered.iter().filter(|(to, kind)| to.is_none() && *kind == LockKind::Acquire as u8).count();
    assert!(asked <= 4, "{asked} packets for 40 names, one of them held");
    for id in ids {
        bench.release(0, id);
    }
    bench.pass(100_000);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_long_queue_travels_in_pieces_and_in_order() {
    let mut bench = Bench::new(3);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let id = bench.ask(1, NAME, Mode::Exclusive);
            bench.run();
            let other = bench.ask(2, NAME, Mode::Exclusive);
            bench.run();
            (id, other)
        })
        .collect();
    bench.release(0, first);
    let mut last = None;
    for (a, b) in waiting {
        bench.pass(2_000);
        let (token, _) = bench.granted(1, a);
        assert!(last < Some(token));
        bench.quiet(2);
        bench.release(1, a);
        bench.pass(2_000);
        let (token_b, _) = bench.granted(2, b);
        assert!(token_b > token);
        last = Some(token_b);
        bench.release(2, b);
    }
    bench.pass(100_000);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn tokens_rise_beyond_the_sequence() {
    let mut bench = Bench::new(1);
    let mut last = None;
    let mut id = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    for _ in 0..600 {
        let (token, _) = bench.granted(0, id);
        assert!(last < Some(token));
        last = Some(token);
        let next = bench.ask(0, NAME, Mode::Exclusive);
        bench.release(0, id);
        bench.run();
        id = next;
    }
}

#[test]
fn joins_beyond_saturation_are_the_agents() {
    let mut bench = Bench::new(2);
    let first = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, first);
    let ids: Vec<_> = (0..4_200)
        .map(|_| {
            let id = bench.ask(1, NAME, Mode::Shared);
            bench.run();
            bench.granted(1, id);
            id
        })
        .collect();
    let writer = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, first);
    for id in ids {
        bench.quiet(0);
        bench.release(1, id);
        bench.run();
    }
    bench.granted(0, writer);
}

#[test]
fn a_session_without_acknowledged_heartbeats_loses_everything_at_its_lease() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, id);
    let end = bench.nodes[0].session().expect("it lives").lease_end;
    // The node alone: what it sends is lost.
    let mut node = bench.nodes.remove(0);
    while let Some(due) = node.next_timer().filter(|due| *due < end) {
        node.on_tick(due);
        while node.transmit().is_some() {}
    }
    assert_eq!(node.event(), None, "the lease is not over");
    node.on_tick(end);
    assert_eq!(node.event(), Some(Event::Lost { request: id }));
    assert_eq!(node.event(), Some(Event::SessionLost));
    assert!(node.acquire(end, exclusive(NAME)).is_err());
    assert!(end <= Time(1_000) + 2 * LEASE);
}

#[test]
fn a_leave_goes_out_at_once() {
    let mut bench = Bench::new(1);
    bench.nodes[0].leave(bench.now);
    bench.collect(0);
    bench.run();
    let leaves = bench.to_controller.iter().filter_map(|packet| check(packet).ok());
    let leaves = leaves.filter(|header| (header.service, header.kind) == (service::FABRIC, kind::fabric::LEAVE));
    assert_eq!(leaves.map(|header| header.source).collect::<Vec<_>>(), [handle(0)]);
}

#[test]
fn a_gap_is_not_forgotten_by_a_new_tenure() {
    let other = NAME + u64::from(SLOTS);
    let mut bench = Bench::new(3);
    let agent = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, agent);
    let unknown = bench.ask(1, NAME, Mode::Shared);
    bench.step();
    assert_eq!(bench.lose(LockKind::Join as u8), 1);
    bench.run();
    bench.granted(1, unknown);
    // A second name wants the slot renewed, an exclusive request for the first wants everyone gone.
    let second = bench.ask(2, other, Mode::Exclusive);
    bench.run();
    let writer = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, agent);
    bench.pass(10_000);
    bench.quiet(0);
    bench.release(1, unknown);
    bench.pass(10_000);
    bench.granted(2, second);
    bench.granted(0, writer);
}

#[test]
fn who_slept_sends_again_in_pieces_until_all_is_sent() {
    const LOCKS: u64 = 40;
    let mut bench = Bench::new(1);
    for name in 0..LOCKS {
        bench.ask(0, name, Mode::Exclusive);
    }
    bench.flying.clear();
    let late = bench.now + 20_000;
    let node = &mut bench.nodes[0];
    let mut pieces = Vec::new();
    while node.next_timer().is_some_and(|due| due <= late) {
        node.on_tick(late);
        let mut sent = 0;
        while node.transmit().is_some() {
            sent += 1;
        }
        pieces.push(sent);
    }
    assert_eq!(pieces.iter().sum::<u64>(), LOCKS, "{pieces:?}");
    assert!(pieces.iter().all(|&sent| sent > 0 && sent <= 17), "a piece is a packet's length: {pieces:?}");
}
