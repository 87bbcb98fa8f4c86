//! Who serves and who stands by, what is handed over, and what changes meanwhile.

use super::super::Post;
use super::super::enrolment::tests::applicant;
use super::super::hand_over::Copying;
use super::super::tests::{Disk, Memory, config};
use super::*;
use crate::memory::{Line, LockServer, NodeEntry, NodeMemory, NodeWord, QueueMemory, QueuesMemory, SlotWord, Stage};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use wayside_wire::{BODY, Enrol, Header, Heartbeat, NodeState, SlotState, kind, padded};

const LEASE: u64 = 300_000;
const LEASE_OF_SESSIONS: u32 = 100_000;
const SERVING: ServingConfig = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };

fn seat() -> (Seat<Rc<Memory>, Disk>, Rc<Memory>) {
    let memory = Rc::new(Memory::default());
    let serving = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };
    (Seat::sharing(Time(0), config(), memory.clone(), Disk::default(), serving), memory)
}

fn promoted(seat: &mut Seat<Rc<Memory>, Disk>, at: Time) {
    let looked = seat.ask(at).expect("at once");
    seat.on_answer(at, looked, Answer::Is(Post::default()));
    let taken = seat.ask(at).expect("it is vacant");
    assert_eq!(taken.question, Question::Take(0));
    seat.on_answer(at, taken, Answer::Done(Post { holder: 1, revision: 1 }));
}

#[test]
fn a_standby_has_no_controller_and_one_that_serves_has() {
    let (mut seat, memory) = seat();
    assert!(seat.controller(Time(0)).is_none());
    promoted(&mut seat, Time(1));
    assert!(seat.controller(Time(2)).is_some() && memory.epoch() == 1);
    assert!(seat.controller(Time(1 + LEASE)).is_none(), "not once its lease is over");
}

/// What it acknowledged after the end of its lease would keep sessions alive that its successor takes for dead.
#[test]
fn a_memory_that_was_emptied_serves_no_longer_than_before() {
    let (mut seat, memory) = seat();
    promoted(&mut seat, Time(1));
    for renewed in [false, true] {
        let epoch = memory.epoch();
        let until = memory.lease_end.get().expect("it shares the post");
        memory.set_epoch(0);
        memory.serve_without_end();
        seat.on_tick(Time(2 + u64::from(renewed) * (LEASE / 4 + config().poll_period)));
        assert_eq!((memory.epoch(), memory.lease_end.get()), (epoch + 1, Some(until)));
        let at = Time(1 + LEASE / 4);
        if !renewed {
            let asked = seat.ask(at).expect("a renewal is due");
            seat.on_answer(at, asked, Answer::Done(Post { holder: 1, revision: 2 }));
            assert_eq!(memory.lease_end.get(), Some(at + LEASE));
        }
    }
}

/// It is renewed meanwhile, and that is what it serves by once it has read them.
#[test]
fn a_switch_whose_records_can_not_be_read_yet_keeps_its_latest_lease() {
    let (disk, memory) = (Disk::default(), Rc::new(Memory::default()));
    disk.unreadable.set(true);
    let mut seat = Seat::sharing(Time(0), config(), memory.clone(), disk.clone(), SERVING);
    promoted(&mut seat, Time(1));
    assert!(seat.records().is_none());
    let at = Time(1 + LEASE / 4);
    let asked = seat.ask(at).expect("a renewal is due");
    seat.on_answer(at, asked, Answer::Done(Post { holder: 1, revision: 2 }));
    assert_eq!(memory.lease_end.get(), Some(at + LEASE));
    disk.unreadable.set(false);
    seat.on_tick(at + ATTEMPT);
    assert!(seat.records().is_some());
    assert_eq!((memory.epoch(), memory.lease_end.get()), (1, Some(at + LEASE)));
}

/// What was due when the lease ended would be due at once for ever, and never done.
#[test]
fn a_lease_that_is_over_wakes_nobody_in_vain() {
    let (mut seat, _) = seat();
    promoted(&mut seat, Time(1));
    let late = Time(2 * LEASE);
    let asked = seat.ask(late).expect("a renewal is due");
    seat.on_tick(late);
    assert!(seat.next_timer(late) > late);
    seat.on_answer(late, asked, Answer::Done(Post { holder: 1, revision: 2 }));
    assert!(seat.next_timer(late) <= late, "now it may go on");
}

type Switch = (Seat<Rc<Memory>, Disk>, Rc<Memory>);

/// Two seats of one shard, the first of which serves with a session and a lock that it holds.
fn two() -> [Switch; 2] {
    two_with(config())
}

fn two_with(config: Config) -> [Switch; 2] {
    let disk = Disk::default();
    let mut seats = [1, 2].map(|own| {
        let memory = Rc::new(Memory::default());
        let serving = ServingConfig { own, ..SERVING };
        (Seat::sharing(Time(0), config.clone(), memory.clone(), disk.clone(), serving), memory)
    });
    promoted(&mut seats[0].0, Time(1));
    let body = Enrol { nonce: 7, namespace_name: padded("default").expect("short"), ..Enrol::default() };
    let controller = seats[0].0.controller(Time(2)).expect("it serves");
    assert!(controller.enrol(Time(2), applicant(0), 0, &body).is_ok());
    let word = SlotWord { state: SlotState::Managed, agent: 1, ..SlotWord::unheld(4) };
    seats[0].1.write_slots(1, 9, &[[word.pack(), 5]]);
    seats
}

/// Carries what the first has over to the second; the revision that it is left the post at.
fn carried([(first, former), (second, _)]: &mut [Switch; 2]) -> Inquiry {
    let look = second.ask(Time(3)).expect("at once");
    second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
    let copying = first.prepare(Time(4)).expect("nothing is in its way");
    let opening = copying.opening();
    let asked: Vec<Vec<u8>> = core::iter::from_fn(|| first.controller(Time(4))?.transmit()).map(|(_, it)| it).collect();
    let is_turn = |packet: &Vec<u8>| Header::read(packet).unwrap().kind == kind::fabric::TURN;
    assert_eq!(asked.iter().filter(|packet| is_turn(packet)).count(), 1, "whether it would follow");
    assert!(!first.is_prepared(Time(5)), "a node has not said that it would follow");
    assert!(first.is_prepared(Time(5 + u64::from(LEASE_OF_SESSIONS) / 4)), "it is silent");
    assert!(first.stop(Time(6)) && first.controller(Time(6)).is_none());
    assert_eq!(former.lease_end.get(), Some(Time(6)), "nothing is decided on any more");
    let mut messages = alloc::vec![opening];
    assert!(first.hand_over(copying, |message| messages.push(message)));
    let last = messages.len() - 1;
    for (index, message) in messages.iter().enumerate() {
        assert_eq!(second.receive(Time(7), message), Ok(index == last));
    }
    second.ask(Time(7)).expect("it is told to take it")
}

#[test]
fn what_is_handed_over_goes_on_under_its_epoch_and_is_nobodys_any_more_where_it_was() {
    let mut seats = two();
    let taken = carried(&mut seats);
    let [(_, former), (second, memory)] = &mut seats;
    assert_eq!((former.epoch(), former.serving()), (0, false), "before anybody can have taken it");
    assert_eq!((taken.question, memory.epoch()), (Question::Take(1), 0), "nor is it decided on before");
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!((memory.epoch(), memory.serving()), (1, true));
    assert_eq!(memory.load_slot(1, 9).tenure, 4);
    assert_eq!(memory.node_word(1).state, NodeState::Live);
    let told: Vec<Vec<u8>> = core::iter::from_fn(|| second.controller(Time(8))?.transmit()).map(|(_, it)| it).collect();
    let [turn, policy] = &told[..] else { panic!("{told:?}") };
    assert_eq!(Header::read(policy).unwrap().kind, kind::fabric::POLICY);
    assert_eq!((Header::read(turn).unwrap().kind, Heartbeat::read(turn, BODY).sequence), (kind::fabric::TURN, 2));
}

#[test]
fn what_is_taken_up_is_told_of_and_goes_on_under_its_keys() {
    let root = Some(crate::seal::Secret([42; 32]));
    let mut seats = two_with(Config { root, rotation_period: 5, ..config() });
    let memory = seats[0].1.clone();
    let former = memory.keys_of(1).expect("it has keys");
    memory.follow(1);
    seats[0].0.controller(Time(3)).expect("it serves").rotate_keys(Time(7));
    let again = memory.keys_of(1).expect("it has keys");
    assert_ne!(again, former);
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    assert!(!memory.authenticated());
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert!(memory.authenticated());
    assert_eq!((memory.keys_of(1), memory.rotation(1)), (Some(again), 1));
    assert!(told(second).contains(&Notice::TookOver(1, 1)));
}

/// What was taken over is of before it.
#[test]
fn what_is_handed_over_is_not_gone_on_with_where_another_epoch_has_begun() {
    let mut seats = two();
    let taken = carried(&mut seats);
    let disk = seats[0].0.shared.as_ref().expect("it shares").store.clone();
    let mut third = Controller::new(config(), Rc::new(Memory::default()), disk).expect("it loads");
    third.on_tick(Time(8));
    assert_eq!(third.epoch(), 2);
    let (second, memory) = &mut seats[1];
    second.on_answer(Time(9), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!(memory.epoch(), 3);
    assert!(!told(second).iter().any(|notice| matches!(notice, Notice::TookOver(..))));
}

/// A switch that was restarted meanwhile, say.
#[test]
fn what_is_handed_over_is_not_gone_on_with_where_it_is_not_there_any_more() {
    let mut seats = two();
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    memory.write_slots(1, 9, &[[0; 2]]);
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!((memory.epoch(), memory.serving()), (2, false), "everybody is asked");
    assert!(!told(second).iter().any(|notice| matches!(notice, Notice::TookOver(..))));
}

/// At the hook a memory outlives its daemon: it may have served before the other one did.
#[test]
fn a_standby_whose_memory_is_of_an_earlier_life_takes_what_is_handed_over() {
    let mut seats = two();
    let memory = seats[1].1.clone();
    memory.set_epoch(1);
    memory.set_serving(true);
    let stale = SlotWord { state: SlotState::Managed, agent: 3, ..SlotWord::unheld(2) };
    memory.write_slots(1, 4, &[[stale.pack(), 6]]);
    let opening = Copying::new(seats[1].0.shape().expect("it shares"), 1, Time(1)).opening();
    assert_eq!(seats[1].0.receive(Time(2), &opening), Err(Unfit::Serves), "the post may be its own still");
    assert_eq!((memory.epoch(), memory.serving()), (1, true), "and it may go on with it");
    let taken = carried(&mut seats);
    let (second, _) = &mut seats[1];
    assert_eq!((memory.epoch(), memory.serving()), (0, false), "it is decided on by nobody while slots come");
    let (epoch, slots) = memory.awaited.borrow().first().cloned().expect("who has looked at it before has ended");
    assert!(epoch == 0 && slots.contains_key(&4), "before anything is written");
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert!(told(second).contains(&Notice::TookOver(1, 1)));
    let slot = |slot| memory.load_slot(1, slot);
    assert_eq!((slot(9), slot(4)), (seats[0].1.load_slot(1, 9), SlotWord::unheld(0)));
}

/// Whoever forges them, or has a larger table.
#[test]
fn nodes_that_the_successor_has_no_room_for_are_not_taken_up() {
    let mut seats = two();
    let (second, memory) = &mut seats[1];
    let look = second.ask(Time(3)).expect("at once");
    second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
    let entry = NodeEntry { address: "10.0.0.1:7600".parse().unwrap(), namespace: 1, incarnation: 1 };
    let word = NodeWord { state: NodeState::Live, sequence: 4 };
    let node = NodeMemory { entry, word, oldest: 0, rotation: 0 };
    let copying = Copying::new(second.shape().expect("it shares"), 1, Time(4));
    assert_eq!(second.receive(Time(5), &copying.opening()), Ok(false));
    let nodes = alloc::vec![(0, node), (1, node), (4, node)];
    assert_eq!(second.receive(Time(5), &copying.closing(1, 1, nodes)), Ok(true));
    let taken = second.ask(Time(7)).expect("it is told to take it");
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!([0, 1, 4].map(|handle| memory.node(handle).is_some()), [false, true, false]);
}

#[test]
fn who_does_not_decide_on_locks_alone_has_nothing_to_hand_over() {
    let [(mut first, memory), (mut second, _)] = two();
    assert!(matches!(second.prepare(Time(3)), Err(NotServing)) && !second.stop(Time(3)), "a standby");
    memory.set_serving(false);
    assert!(matches!(first.prepare(Time(3)), Err(NotServing)), "it recovers");
    memory.set_serving(true);
    let copying = first.prepare(Time(3)).expect("nothing is in its way");
    assert!(!first.hand_over(copying, |_| panic!("it has not stopped")));
    let copying = first.prepare(Time(3)).expect("nothing is in its way");
    assert!(first.stop(Time(4)));
    memory.set_epoch(0);
    assert!(!first.hand_over(copying, |_| panic!("its memory is lost")));
}

/// Two seats that have a namespace with queues besides, and the queues of the first.
fn two_with_queues() -> ([Switch; 2], BTreeMap<u16, QueuesMemory>) {
    let queued = Namespace { id: 2, engine: wayside_wire::Engine::Queue, ..config().namespaces[0].clone() };
    let namespaces = [config().namespaces, alloc::vec![queued]].concat();
    let seats = two_with(Config { namespaces, ..config() });
    seats[0].1.set_serving(true);
    let line =
        Line { name: 5, cells: 2, stage: Stage::Here, ticket: 8, used: 1, given: 0, settled: 0, pushed: 0, ranked: 0 };
    let queue = QueueMemory { line, granted: 8, members: alloc::vec![[6, 1 << 48]] };
    seats.iter().for_each(|(_, memory)| {
        memory.queue_shape.set(1);
        memory.queue_room.set([1, 2]);
    });
    let servers = alloc::vec![LockServer { handle: 1, term: 3 }];
    let queues = BTreeMap::from([(2, QueuesMemory { servers, queues: alloc::vec![queue] })]);
    *seats[0].1.queues.borrow_mut() = queues.clone();
    (seats, queues)
}

#[test]
fn queues_are_gone_on_with() {
    let (mut seats, queues) = two_with_queues();
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    assert!(memory.queues.borrow().is_empty(), "the post is not its own yet");
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!((memory.epoch(), memory.serving()), (1, true));
    assert_eq!(*memory.queues.borrow(), queues);
}

#[test]
fn queues_that_find_no_room_end_with_their_epoch() {
    let (mut seats, _) = two_with_queues();
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    memory.no_room_for_queues.set(true);
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!((memory.epoch(), memory.serving()), (2, false), "everybody is asked");
    assert!(!told(second).iter().any(|notice| matches!(notice, Notice::TookOver(..))));
}

#[test]
fn who_serves_or_begins_to_or_wants_no_post_takes_nothing_over() {
    let opening = |seat: &Seat<Rc<Memory>, Disk>| Copying::new(seat.shape().unwrap(), 1, Time(1)).opening();
    let [(mut first, _), (mut second, memory)] = two();
    assert_eq!(first.receive(Time(3), &opening(&first)), Err(Unfit::Serves));
    memory.set_epoch(1);
    assert_eq!(second.receive(Time(3), &opening(&second)), Err(Unfit::Serves), "its memory is decided on");
    memory.set_epoch(0);
    let by_hand = Shape { signed: false, ..second.shape().unwrap() };
    assert_eq!(second.receive(Time(3), &Copying::new(by_hand, 1, Time(1)).opening()), Ok(false));
    second.shared.as_mut().expect("it shares").serving.resign(Time(4));
    assert_eq!(second.receive(Time(5), &opening(&second)), Err(Unfit::Serves), "it has resigned");
    // It has the post, and can't read its records.
    let (mut third, _) = seat();
    third.shared.as_ref().expect("it shares").store.full.set(true);
    promoted(&mut third, Time(1));
    third.shared.as_mut().expect("it shares").serving = Serving::new(SERVING, None);
    assert!(third.records().is_none());
    assert_eq!(third.receive(Time(2), &opening(&third)), Err(Unfit::Serves));
}

/// It would grant from its queues what nodes still hold by slots, since nobody would ask them.
#[test]
fn a_successor_whose_locks_are_by_another_engine_takes_nothing() {
    let [(mut first, _), (mut second, _)] = two();
    second.shared.as_mut().expect("a standby").config.namespaces[0].engine = wayside_wire::Engine::Queue;
    let look = second.ask(Time(3)).expect("at once");
    second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
    let copying = first.prepare(Time(4)).expect("nothing is in its way");
    assert_eq!(second.receive(Time(7), &copying.opening()), Err(Unfit::Unlike));
}

/// What it does not know of them would be believed of its own: a name that has its queue elsewhere, a shorter lease.
#[test]
fn a_successor_whose_queues_are_configured_in_another_way_takes_nothing() {
    let ([(mut first, _), (mut second, memory)], _) = two_with_queues();
    let look = second.ask(Time(3)).expect("at once");
    second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
    let copying = first.prepare(Time(4)).expect("nothing is in its way");
    memory.queue_shape.set(2);
    assert_eq!(second.receive(Time(7), &copying.opening()), Err(Unfit::Unlike));
}

#[test]
fn who_takes_the_post_in_another_way_asks_everybody() {
    let mut seats = two();
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    second.on_answer(Time(8), taken, Answer::Is(Post { holder: 0, revision: 2 }));
    let again = second.ask(Time(LEASE)).expect("it is vacant");
    second.on_answer(Time(LEASE), again, Answer::Done(Post { holder: 2, revision: 3 }));
    assert_eq!((memory.epoch(), memory.serving()), (2, false), "a census is under way");
}

#[test]
fn another_ones_post_takes_controller_and_epoch_away() {
    let (mut seat, memory) = seat();
    promoted(&mut seat, Time(1));
    let asked = seat.ask(Time(LEASE / 4 + 1)).expect("a renewal is due");
    seat.on_answer(Time(LEASE), asked, Answer::Is(Post { holder: 2, revision: 2 }));
    assert!(seat.records().is_none() && seat.post() == Some(Post { holder: 2, revision: 2 }));
    assert_eq!((memory.epoch(), memory.serving()), (0, false));
}

fn told(seat: &mut Seat<Rc<Memory>, Disk>) -> Vec<Notice> {
    core::iter::from_fn(|| seat.notice()).collect()
}

/// Nobody tells of a host's removal twice.
#[test]
fn a_host_that_is_removed_while_the_lease_is_over_is_cut_off_once_it_runs_again() {
    for goes_on in [true, false] {
        let memory = Rc::new(Memory::default());
        let serving = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };
        let config = Config { root: Some(crate::seal::Secret([42; 32])), ..config() };
        let mut seat = Seat::sharing(Time(0), config, memory.clone(), Disk::default(), serving);
        seat.admit_only(Time(0), BTreeSet::new());
        promoted(&mut seat, Time(1));
        let body = Enrol { nonce: 7, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        let enrolled = seat.controller(Time(2)).expect("it serves").enrol(Time(2), applicant(3), 0, &body);
        assert!(enrolled.is_ok() && memory.keys_of(1).is_some(), "what a standby heard is of another time");
        let late = Time(2 * LEASE);
        let asked = seat.ask(late).expect("a renewal is due");
        seat.admit_only(late, BTreeSet::from([4]));
        assert!(memory.keys_of(1).is_some(), "another switch may serve");
        let holder = if goes_on { 1 } else { 2 };
        let post = Post { holder, revision: 2 };
        seat.on_answer(late, asked, if goes_on { Answer::Done(post) } else { Answer::Is(post) });
        assert_eq!((memory.keys_of(1).is_none(), seat.admitted.is_none()), (goes_on, true));
    }
}

/// At once where there is a controller, and else with it; sessions of before hosts were written down stay.
#[test]
fn a_host_that_is_removed_is_cut_off_as_soon_as_there_is_somebody_to_do_it() {
    let config = Config { root: Some(crate::seal::Secret([42; 32])), ..config() };
    let disk = Disk::default();
    let begun = |own| {
        let memory = Rc::new(Memory::default());
        let serving = ServingConfig { own, ..SERVING };
        (Seat::sharing(Time(0), config.clone(), memory.clone(), disk.clone(), serving), memory)
    };
    let (mut seat, memory) = begun(1);
    promoted(&mut seat, Time(1));
    for (nonce, host) in [(7, 3), (8, 0), (9, 5)] {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        let controller = seat.controller(Time(2)).expect("it serves");
        controller.enrol(Time(2), applicant(host), 0, &body).expect("there is room");
    }
    let kept = |memory: &Memory| [1, 2, 3].map(|handle| memory.keys_of(handle).is_some());
    seat.admit_only(Time(3), BTreeSet::from([3]));
    assert_eq!(kept(&memory), [true, true, false]);
    let (mut next, memory) = begun(1);
    disk.full.set(true);
    promoted(&mut next, Time(10));
    next.admit_only(Time(11), BTreeSet::from([4]));
    disk.full.set(false);
    next.on_tick(Time(10 + ATTEMPT));
    assert_eq!(kept(&memory), [false, true, false]);
}

#[test]
fn the_lease_of_the_switch_is_that_of_the_post_and_ends_with_it() {
    let (mut seat, memory) = seat();
    let leases = |seat: &Seat<Rc<Memory>, Disk>| (memory.lease_end.get(), seat.serves_until());
    assert_eq!(leases(&seat), (Some(Time(0)), Time(0)));
    promoted(&mut seat, Time(1));
    assert_eq!(leases(&seat), (Some(Time(1 + LEASE)), Time(1 + LEASE)));
    let renewed = Time(1 + LEASE / 4);
    let asked = seat.ask(renewed).expect("a renewal is due");
    let heard = Time(2 * LEASE / 3);
    seat.on_answer(heard, asked, Answer::Done(Post { holder: 1, revision: 2 }));
    assert_eq!(leases(&seat), (Some(renewed + LEASE), renewed + LEASE));
    let asked = seat.ask(heard).expect("a renewal is due");
    memory.awaited.borrow_mut().clear();
    seat.on_answer(Time(LEASE), asked, Answer::Is(Post { holder: 2, revision: 3 }));
    let awaited: Vec<u32> = memory.awaited.borrow().iter().map(|(epoch, _)| *epoch).collect();
    assert_eq!(awaited, [0], "nor goes anything on that had begun");
    assert_eq!(leases(&seat), (Some(Time(LEASE)), Time(0)), "nothing more is decided on");
    assert_eq!(told(&mut seat), [Notice::Promoted, Notice::Demoted]);
}

#[test]
fn a_switch_that_drains_has_stopped_before_it_makes_room() {
    let (mut seat, memory) = seat();
    assert!(!seat.drain(Time(0)), "it does not serve");
    promoted(&mut seat, Time(1));
    assert!(seat.drain(Time(50)));
    assert_eq!(memory.lease_end.get(), Some(Time(50)));
    assert!(seat.controller(Time(50)).is_none());
    assert_eq!(seat.ask(Time(50)).expect("at once").question, Question::Resign(1));
}

#[test]
fn a_switch_that_is_alone_serves_without_end() {
    let memory = Rc::new(Memory::default());
    memory.serve_for(memory.moment(Time(0)), 0);
    let mut seat = Seat::alone(config(), memory.clone(), Disk::default()).expect("an empty store");
    assert_eq!((memory.lease_end.get(), seat.serves_until()), (None, Time::NEVER));
    assert!(!seat.drain(Time(5)), "to whom?");
}

#[test]
fn who_has_the_post_and_cannot_read_the_records_tries_again_soon_and_only_while_it_has_it() {
    for keeps in [true, false] {
        let (mut seat, _) = seat();
        let disk = seat.shared.as_ref().expect("it shares").store.clone();
        disk.full.set(true);
        promoted(&mut seat, Time(1));
        assert!(matches!(told(&mut seat)[..], [Notice::Promoted, Notice::StoreFailed(_)]));
        assert_eq!(seat.next_timer(Time(1)), Time(1 + ATTEMPT));
        disk.full.set(false);
        if !keeps {
            let asked = seat.ask(Time(1 + LEASE / 4)).expect("a renewal is due");
            seat.on_answer(Time(1 + LEASE / 4), asked, Answer::Is(Post { holder: 2, revision: 2 }));
        }
        seat.on_tick(Time(ATTEMPT));
        assert!(seat.records().is_none());
        seat.on_tick(Time(1 + ATTEMPT));
        assert_eq!(seat.records().is_some(), keeps);
    }
}

// ---- another namespace, while the switch runs ----

fn other() -> Namespace {
    Namespace { id: 2, name: "other".to_string(), ..config().namespaces[0].clone() }
}

/// Makes room for it, as a switch does.
fn add(seat: &mut Seat<Rc<Memory>, Disk>, now: u64, memory: &Memory) -> Result<(), Unaddable> {
    seat.add_namespace(Time(now), &other(), |_| {
        memory.more_namespaces.set(1);
        Ok(())
    })
}

/// Whether a session begins in it.
fn begins(seat: &mut Seat<Rc<Memory>, Disk>, now: u64) -> bool {
    let body = Enrol { nonce: 8, namespace_name: padded("other").expect("short"), ..Enrol::default() };
    let controller = seat.controller(Time(now)).expect("it serves");
    controller.enrol(Time(now), applicant(0), 0, &body).is_ok()
}

#[test]
fn a_namespace_is_added_where_a_switch_serves_and_where_it_stands_by() {
    let [(mut first, memory), (mut second, other_memory)] = two();
    memory.set_serving(true);
    assert!(!begins(&mut first, 3), "nobody knows it");
    assert_eq!(add(&mut first, 3, &memory), Ok(()));
    assert!(begins(&mut first, 4));
    assert_eq!(add(&mut second, 4, &other_memory), Ok(()));
    // The first is silent.
    let at = 2 * LEASE;
    let looked = second.ask(Time(at)).expect("at once");
    second.on_answer(Time(at), looked, Answer::Is(Post { holder: 0, revision: 5 }));
    let taken = second.ask(Time(at)).expect("it is vacant");
    second.on_answer(Time(at), taken, Answer::Done(Post { holder: 2, revision: 6 }));
    assert!(second.controller(Time(at)).is_some_and(|controller| controller.config.namespaces.len() == 2));
    let mut alone = Seat::alone(config(), Rc::new(Memory::default()), Disk::default()).expect("its records");
    alone.on_tick(Time(1));
    alone.memory.set_serving(true);
    let memory = alone.memory.clone();
    assert_eq!(add(&mut alone, 2, &memory), Ok(()));
    assert!(begins(&mut alone, 3));
}

#[test]
fn nothing_changes_where_there_is_no_room_or_the_namespace_is_there() {
    let [(mut first, memory), _] = two();
    memory.set_serving(true);
    let full = first.add_namespace(Time(3), &other(), |_| Err("full".to_string()));
    assert_eq!(full, Err(Unaddable::NoRoom("full".to_string())));
    assert!(!begins(&mut first, 3));
    assert_eq!(add(&mut first, 4, &memory), Ok(()));
    let twice = Unaddable::Config(super::super::ConfigError::Twice("other".to_string()));
    assert_eq!(first.add_namespace(Time(5), &other(), |_| panic!("it has room already")), Err(twice));
}

/// Its slots would be unheld in the middle of what is asked, written or compared.
#[test]
fn no_namespace_comes_while_a_switch_recovers_or_its_lease_is_over() {
    let [(mut first, memory), _] = two();
    memory.set_serving(false);
    assert_eq!(add(&mut first, 3, &memory), Err(Unaddable::NotServing), "it recovers");
    memory.set_serving(true);
    assert_eq!(add(&mut first, 1 + LEASE, &memory), Err(Unaddable::NotServing), "another may serve by now");
    assert_eq!(add(&mut first, 3, &memory), Ok(()));
}

/// What a session of before holds is not known to the slots that the namespace would get: they would be granted.
#[test]
fn a_namespace_whose_sessions_are_not_forgotten_does_not_come_back() {
    let with = Config { namespaces: alloc::vec![config().namespaces[0].clone(), other()], ..config() };
    let [(mut first, memory), (mut second, other_memory)] = two_with(with);
    memory.more_namespaces.set(1);
    memory.set_serving(true);
    assert!(begins(&mut first, 3));
    // The second's file does not have it.
    second.shared.as_mut().expect("a standby").config = config();
    let mut at = 2 * LEASE;
    let looked = second.ask(Time(at)).expect("at once");
    second.on_answer(Time(at), looked, Answer::Is(Post { holder: 0, revision: 5 }));
    let taken = second.ask(Time(at)).expect("it is vacant");
    second.on_answer(Time(at), taken, Answer::Done(Post { holder: 2, revision: 6 }));
    second.on_tick(Time(at));
    other_memory.set_serving(true);
    assert_eq!(add(&mut second, at, &other_memory), Err(Unaddable::HasSessions), "it may hold locks");
    // Nobody hears it: it ends with its lease, and its handle rests.
    let until = at + config().quarantine + 10 * u64::from(LEASE_OF_SESSIONS);
    let mut refused = 0;
    while add(&mut second, at, &other_memory).is_err() {
        assert!(at < until, "it is forgotten some time");
        refused += 1;
        at += u64::from(LEASE_OF_SESSIONS) / 2;
        second.memory.serve_without_end();
        renewed(&mut second, at);
        second.on_tick(Time(at));
        other_memory.set_serving(true);
    }
    assert!(refused as u64 * u64::from(LEASE_OF_SESSIONS) / 2 >= config().quarantine, "not before");
    assert!(begins(&mut second, at));
}

/// The post is its own for another lease.
fn renewed(seat: &mut Seat<Rc<Memory>, Disk>, at: u64) {
    while let Some(inquiry) = seat.ask(Time(at)) {
        let revision = seat.post().expect("it has one").revision + 1;
        seat.on_answer(Time(at), inquiry, Answer::Done(Post { holder: 2, revision }));
    }
}

/// Who takes over would go on under the same epoch with slots that it never saw.
#[test]
fn what_came_after_a_hand_over_was_prepared_is_not_handed_over() {
    let [(mut first, memory), (mut second, other_memory)] = two();
    memory.set_serving(true);
    let look = second.ask(Time(3)).expect("at once");
    second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
    let copying = first.prepare(Time(4)).expect("nothing is in its way");
    assert_eq!(second.receive(Time(5), &copying.opening()), Ok(false));
    assert_eq!(add(&mut second, 5, &other_memory), Err(Unaddable::TakesOver));
    assert_eq!(add(&mut first, 5, &memory), Ok(()));
    assert!(first.stop(Time(6)));
    assert!(!first.hand_over(copying, |_| panic!("the successor knows another memory")));
}

/// The order of a file's namespaces means nothing.
#[test]
fn a_successor_that_has_the_namespaces_in_another_order_takes_over() {
    let mut seats = two();
    seats[0].1.set_serving(true);
    let turned = Config { namespaces: alloc::vec![other(), config().namespaces[0].clone()], ..config() };
    let memories = [seats[0].1.clone(), seats[1].1.clone()];
    add(&mut seats[0].0, 3, &memories[0]).expect("there is room");
    seats[1].1.more_namespaces.set(1);
    seats[1].0.shared.as_mut().expect("a standby").config = turned;
    carried(&mut seats);
}

// ---- what is not gone on with ----

/// Finds the post vacant, and takes it.
fn takes(seat: &mut Seat<Rc<Memory>, Disk>, at: u64, revision: u64) {
    let looked = seat.ask(Time(at)).expect("at once");
    seat.on_answer(Time(at), looked, Answer::Is(Post { holder: 0, revision }));
    let taken = seat.ask(Time(at)).expect("it is vacant");
    seat.on_answer(Time(at), taken, Answer::Done(Post { holder: 2, revision: revision + 1 }));
}

/// Another has the post by the time that a renewal is due.
fn loses(seat: &mut Seat<Rc<Memory>, Disk>, at: u64, revision: u64) {
    let asked = seat.ask(Time(at)).expect("a renewal is due");
    seat.on_answer(Time(at), asked, Answer::Is(Post { holder: 1, revision }));
}

#[test]
fn what_was_handed_over_is_forgotten_with_the_post() {
    let mut seats = two();
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    let disk = second.shared.as_ref().expect("it shares").store.clone();
    disk.full.set(true);
    second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert!(second.records().is_none(), "it could not write that it begins");
    assert_eq!(add(second, 9, memory), Err(Unaddable::TakesOver));
    loses(second, 8 + LEASE / 4, 3);
    disk.full.set(false);
    assert_eq!(add(second, 9 + LEASE / 4, memory), Ok(()));
}

/// Slots that came before this switch served by itself are overwritten.
#[test]
fn a_hand_over_that_was_begun_before_a_switch_served_is_not_gone_on_with() {
    let [(mut first, former), (mut second, _)] = two();
    let look = second.ask(Time(3)).expect("at once");
    second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
    let mut copying = first.prepare(Time(4)).expect("nothing is in its way");
    assert_eq!(second.receive(Time(5), &copying.opening()), Ok(false));
    takes(&mut second, 2 * LEASE, 5);
    assert!(second.records().is_some());
    loses(&mut second, 3 * LEASE, 7);
    let mut slots = Vec::new();
    copying.send(&former, |message| slots.push(message));
    assert_eq!((slots.len(), second.receive(Time(3 * LEASE), &slots[0])), (1, Err(Unfit::Torn)));
}

#[test]
fn whatever_comes_behind_the_end_of_a_hand_over_undoes_it() {
    let mut seats = two();
    let taken = carried(&mut seats);
    let (second, memory) = &mut seats[1];
    assert_eq!(second.receive(Time(8), &[]), Err(Unfit::Torn));
    second.on_answer(Time(9), taken, Answer::Done(Post { holder: 2, revision: 2 }));
    assert_eq!((memory.epoch(), memory.serving()), (2, false), "everybody is asked");
}

#[test]
fn a_policy_that_a_standby_hears_of_is_the_one_by_which_it_begins_sessions_when_it_serves() {
    let [_, (mut second, _)] = two();
    second.set_policy(Time(3), 1, Policy::WritePreferring, 3);
    takes(&mut second, 2 * LEASE, 5);
    let body = Enrol { nonce: 8, namespace_name: padded("default").expect("short"), ..Enrol::default() };
    let controller = second.controller(Time(2 * LEASE)).expect("it serves");
    let enrolment = controller.enrol(Time(2 * LEASE), applicant(0), 0, &body).expect("there is room");
    assert_eq!((enrolment.policy, enrolment.patience), (Policy::WritePreferring, 3));
}
