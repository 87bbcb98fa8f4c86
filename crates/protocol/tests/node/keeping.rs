//! Locality: slots that a node keeps as agent though nobody holds or waits (docs/protocol.md, "Locality").

use crate::bench::{Bench, LEASE, handle};
use wayside_protocol::{Acquire, Event, Mode, NodeConfig, Path, Priority, RequestId};
use wayside_wire::{LockKind, Policy, SlotState};

const NAME: u64 = 5;

/// Nodes that keep so many slots.
fn keeping(nodes: usize, kept_most: usize) -> Bench {
    Bench::with(nodes, LEASE, Policy::Fair, &NodeConfig { kept_most, ..NodeConfig::new(1) })
}

/// Holds and gives back. Who decided.
fn turn(bench: &mut Bench, node: usize, name: u64, mode: Mode) -> Path {
    let id = bench.ask(node, name, mode);
    bench.run();
    let (_, path) = bench.granted(node, id);
    bench.release(node, id);
    bench.run();
    path
}

fn exclusive(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 }
}

/// Packets since.
fn packets(bench: &Bench, before: usize) -> usize {
    bench.delivered.len() - before
}

#[test]
fn a_lock_that_stays_at_home_costs_no_packet() {
    let mut bench = keeping(1, 8);
    assert_eq!(turn(&mut bench, 0, NAME, Mode::Exclusive), Path::Switch);
    assert_eq!(bench.count(LockKind::Retenure), 1, "the switch is told not to decide here any more");
    let word = bench.slot(NAME);
    assert_eq!((word.state, word.agent, word.tryable), (SlotState::Managed, handle(0), false));
    let before = bench.delivered.len();
    let mut last = None;
    for round in 0..200 {
        let mode = if round % 3 == 0 { Mode::Shared } else { Mode::Exclusive };
        let id = bench.ask(0, NAME, mode);
        let (token, path) = bench.granted(0, id);
        assert_eq!(path, Path::Local);
        let rises = if mode == Mode::Exclusive { last < Some(token) } else { last.is_none_or(|last| last == token) };
        assert!(rises, "{mode:?}: {token:?} after {last:?}; a reader needs no number of its own");
        last = Some(token);
        bench.release(0, id);
    }
    assert_eq!(packets(&bench, before), 0);
    assert_eq!(bench.nodes[0].kept(), 1);
}

#[test]
fn several_locks_that_stay_at_home_cost_no_packet() {
    let mut bench = keeping(1, 8);
    let names = [NAME, NAME + 1, NAME + 2];
    for name in names {
        turn(&mut bench, 0, name, Mode::Exclusive);
    }
    let before = bench.delivered.len();
    for _ in 0..20 {
        let mut ids = Vec::new();
        bench.nodes[0].acquire_many(bench.now, &names.map(exclusive), &mut ids).expect("there is room");
        for _ in names {
            bench.nodes[0].on_tick(bench.now);
            bench.run();
        }
        for id in ids {
            assert_eq!(bench.granted(0, id).1, Path::Local);
            bench.release(0, id);
        }
        bench.run();
    }
    assert_eq!(packets(&bench, before), 0);
}

#[test]
fn after_255_grants_the_tenure_is_renewed_and_tokens_rise() {
    let mut bench = keeping(1, 8);
    turn(&mut bench, 0, NAME, Mode::Exclusive);
    let before = bench.delivered.len();
    let mut last = None;
    for _ in 0..1_000 {
        let id = bench.ask(0, NAME, Mode::Exclusive);
        bench.run();
        let (token, _) = bench.granted(0, id);
        assert!(last < Some(token));
        last = Some(token);
        bench.release(0, id);
        bench.run();
    }
    assert_eq!(packets(&bench, before), 6, "three renewals");
}

#[test]
fn another_nodes_request_finds_its_way_and_the_agency_stays_where_the_lock_is_used() {
    let mut bench = keeping(2, 8);
    (0..4).for_each(|_| {
        turn(&mut bench, 0, NAME, Mode::Exclusive);
    });
    for round in 0..3 {
        assert_eq!(turn(&mut bench, 1, NAME, Mode::Exclusive), Path::Agent, "round {round}");
        assert_eq!(bench.slot(NAME).agent, handle(0), "it was lent");
        let before = bench.delivered.len();
        assert_eq!(turn(&mut bench, 0, NAME, Mode::Exclusive), Path::Local);
        assert_eq!(packets(&bench, before), 0, "and came back");
    }
}

#[test]
fn the_agency_goes_to_who_asks_more_often() {
    let mut bench = keeping(2, 8);
    (0..9).for_each(|_| {
        turn(&mut bench, 0, NAME, Mode::Exclusive);
    });
    let asked = (0..9).position(|_| {
        turn(&mut bench, 1, NAME, Mode::Exclusive);
        bench.slot(NAME).agent != handle(0)
    });
    assert_eq!(asked, Some(3), "three are lent");
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld, "whoever asks again has it");
    assert_eq!(turn(&mut bench, 1, NAME, Mode::Exclusive), Path::Switch);
    let before = bench.delivered.len();
    assert_eq!(turn(&mut bench, 1, NAME, Mode::Exclusive), Path::Local);
    assert_eq!(packets(&bench, before), 0);
    assert_eq!(bench.nodes[0].kept(), 0);
}

#[test]
fn nobody_is_refused_what_nobody_holds() {
    let mut bench = keeping(2, 8);
    turn(&mut bench, 0, NAME, Mode::Exclusive);
    let want = Acquire {
        name: NAME,
        mode: Mode::Exclusive,
        try_: true,
        priority: Priority::NORMAL,
        deadline: None,
        port: 5_000,
    };
    let id = bench.ask_with(1, want);
    bench.run();
    bench.granted(1, id);
}

#[test]
fn another_name_of_the_slot_is_no_other_matter() {
    let mut bench = keeping(1, 8);
    turn(&mut bench, 0, NAME, Mode::Exclusive);
    let ids: Vec<RequestId> = [NAME, NAME + 64].map(|name| bench.ask(0, name, Mode::Exclusive)).into_iter().collect();
    for id in ids.iter().copied() {
        assert_eq!(bench.granted(0, id).1, Path::Local);
    }
    ids.into_iter().for_each(|id| bench.release(0, id));
    bench.run();
    assert_eq!((bench.count(LockKind::Acquire), bench.nodes[0].kept()), (1, 1));
}

#[test]
fn readers_of_one_node_do_not_open_the_slot() {
    let mut bench = keeping(2, 8);
    turn(&mut bench, 0, NAME, Mode::Exclusive);
    let before = bench.delivered.len();
    turn(&mut bench, 0, NAME, Mode::Shared);
    assert_eq!(packets(&bench, before), 0);
    let [ours, theirs] = [0, 1].map(|node| bench.ask(node, NAME, Mode::Shared));
    bench.run();
    bench.granted(0, ours);
    bench.granted(1, theirs);
    assert_eq!(bench.slot(NAME).state, SlotState::Open, "another's may let others in at the switch");
}

/// The switch would tell it that the lock is held, where its agent lets in whoever reads.
#[test]
fn a_reader_that_tries_is_let_in_beside_readers_who_keep_the_slot_at_home() {
    let mut bench = keeping(2, 8);
    let writer = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, writer);
    let reader = bench.ask(0, NAME, Mode::Shared);
    bench.release(0, writer);
    bench.run();
    bench.granted(0, reader);
    let word = bench.slot(NAME);
    assert_eq!((word.state, word.agent, word.tryable), (SlotState::Managed, handle(0), false));
    let trying = bench.ask_with(1, Acquire { mode: Mode::Shared, try_: true, ..exclusive(NAME) });
    bench.run();
    bench.granted(1, trying);
}

#[test]
fn so_many_slots_are_kept_and_those_that_are_used() {
    let mut bench = keeping(1, 3);
    for name in 0..3 {
        turn(&mut bench, 0, name, Mode::Exclusive);
    }
    assert_eq!(bench.nodes[0].kept(), 3);
    for name in 10..40 {
        assert_eq!(turn(&mut bench, 0, 1, Mode::Exclusive), Path::Local, "what is used again and again stays");
        turn(&mut bench, 0, name, Mode::Exclusive);
        assert!(bench.nodes[0].kept() <= 3);
    }
    assert_eq!(bench.slot(0).state, SlotState::Unheld, "what is not makes room");
}

#[test]
fn who_is_going_to_leave_lets_all_of_them_go() {
    let mut bench = keeping(1, 1_000);
    for name in 0..64 {
        turn(&mut bench, 0, name, Mode::Exclusive);
    }
    assert!(bench.nodes[0].kept() == 64 && !bench.nodes[0].is_idle());
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.granted(0, held);
    bench.nodes[0].keep_no_more(bench.now);
    bench.pass(2_000);
    assert_eq!(bench.nodes[0].kept(), 0);
    bench.release(0, held);
    bench.run();
    assert!(bench.nodes[0].is_idle() && (0..64).all(|name| bench.slot(name).state == SlotState::Unheld));
}

#[test]
fn a_session_that_ends_takes_what_it_kept_along() {
    let mut bench = keeping(1, 8);
    turn(&mut bench, 0, NAME, Mode::Exclusive);
    bench.now = bench.now + 2 * LEASE;
    bench.nodes[0].on_tick(bench.now);
    assert_eq!(bench.nodes[0].event(), Some(Event::SessionLost));
    assert_eq!(bench.nodes[0].kept(), 0);
}

#[test]
fn what_rests_is_shown_as_held_by_whoever_takes_it() {
    let mut bench = keeping(1, 8);
    turn(&mut bench, 0, NAME, Mode::Exclusive);
    let slot = NAME as u32;
    assert!(bench.nodes[0].keeps(slot) && !bench.nodes[0].keeps(slot + 1));
    bench.now = bench.now + 700;
    let id = bench.ask(0, NAME + 64, Mode::Shared);
    bench.granted(0, id);
    assert!(!bench.nodes[0].keeps(slot), "it is used");
    let booked: Vec<_> = bench.nodes[0].books(slot).expect("its agent").map(|b| (b.request, b.name, b.mode)).collect();
    assert_eq!(booked, [(id, NAME + 64, Mode::Shared)]);
    assert_eq!(bench.nodes[0].holds().map(|hold| hold.since).collect::<Vec<_>>(), [bench.now]);
    assert_eq!(bench.nodes[0].waits().count(), 0);
    // Nobody has to be told, and a second one waits behind it.
    let second = bench.ask(0, NAME + 64, Mode::Exclusive);
    bench.quiet(0);
    bench.release(0, id);
    assert_eq!(bench.granted(0, second).1, Path::Local);
    bench.release(0, second);
    bench.run();
    assert!(bench.nodes[0].keeps(slot));
}

/// The switch has granted a lock that its owner did not want any more.
#[test]
fn what_was_never_used_here_is_not_kept() {
    let mut bench = keeping(1, 8);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.nodes[0].cancel(bench.now, id);
    bench.collect(0);
    bench.run();
    assert_eq!((bench.slot(NAME).state, bench.nodes[0].kept()), (SlotState::Unheld, 0));
    bench.quiet(0);
}

/// Both of them wait in the slot, and the first of them was asked of the switch.
#[test]
fn where_two_of_its_own_want_what_rests_both_have_it_in_turn() {
    let mut bench = keeping(1, 8);
    let ids = [NAME, NAME].map(|name| bench.ask(0, name, Mode::Exclusive));
    bench.run();
    for id in ids {
        bench.granted(0, id);
        bench.quiet(0);
        bench.release(0, id);
        bench.run();
    }
    assert!(bench.nodes[0].keeps(NAME as u32));
    let ids = [NAME, NAME].map(|name| bench.ask(0, name, Mode::Exclusive));
    for id in ids {
        assert_eq!(bench.granted(0, id).1, Path::Local);
        bench.quiet(0);
        bench.release(0, id);
    }
    assert!(bench.nodes[0].keeps(NAME as u32));
}

/// The switch repeats the hand-over with the slot as it is by then: a reader has joined it, of whom the heir never
/// heard, and a writer has closed it. The heir stays, so it asks the switch nothing that would be refused.
#[test]
fn an_heir_whose_grant_is_said_again_counts_who_joined_before_it_came() {
    let mut bench = keeping(4, 8);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let heirs = [(); 2].map(|()| bench.ask(1, NAME, Mode::Shared));
    bench.run();
    bench.release(0, first);
    bench.step();
    assert_eq!(bench.lose(LockKind::Grant as u8), 1);
    let reader = bench.ask(2, NAME, Mode::Shared);
    bench.step();
    assert_eq!(bench.lose(LockKind::Join as u8), 1);
    bench.run();
    let (read, _) = bench.granted(2, reader);
    bench.ask(3, NAME, Mode::Exclusive);
    bench.step();
    assert_eq!(bench.lose(LockKind::Acquire as u8), 1, "it was on its way to the heir");
    bench.now = bench.nodes[0].next_timer().expect("it asks again");
    bench.nodes[0].on_tick(bench.now);
    bench.collect(0);
    bench.run();
    for heir in heirs {
        bench.granted(1, heir);
    }
    let writer = bench.ask(1, NAME, Mode::Exclusive);
    for heir in heirs {
        bench.release(1, heir);
    }
    bench.run();
    bench.quiet(1);
    bench.release(2, reader);
    bench.run();
    assert!(bench.granted(1, writer).0 > read);
}
