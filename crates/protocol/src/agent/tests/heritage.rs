//! Books that change hands.

use super::super::sole::{Duty, Sole};
use super::*;

#[test]
fn waiters_of_the_former_agent_come_before_later_ones_in_their_order_and_once() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    let [second, third] = [party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)];
    scene.agent.inherit(now, 4, 2, [second].into_iter());
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    scene.acquire(third);
    assert_eq!(scene.agent.late.len(), 2, "who comes meanwhile is late");
    scene.agent.take_waiters(now, 0, [second].into_iter());
    assert_eq!(scene.agent.queue.len(), 1, "those have arrived already");
    scene.agent.take_waiters(now, 2, [third].into_iter());
    assert_eq!(scene.agent.queue.len(), 1, "those before them have not");
    scene.agent.take_waiters(now + 5, 1, [third].into_iter());
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.waiting(), [(2, 20), (3, 30), (5, 50)]);
    assert!(scene.agent.late.is_empty());
    assert_eq!(scene.agent.heir.as_ref().map(|heir| heir.until), Some(now + 5 + 4_000_000));
    scene.agent.take_waiters(now, 2, [party(6, 60, NAME, EXCLUSIVE)].into_iter());
    assert_eq!(scene.waiting().len(), 3, "more than there were");
}

/// Only who forges packets says either.
#[test]
fn the_last_position_that_can_be_said_and_the_largest_total_are_no_waiters() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    let two = [party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)];
    scene.agent.inherit(now, 4, u16::MAX, [].into_iter());
    scene.agent.take_waiters(now, u16::MAX, two.into_iter());
    assert_eq!(scene.waiting(), [], "neither that one nor the first");
    scene.agent.heir.as_mut().unwrap().arrived = u16::MAX - 2;
    scene.agent.take_waiters(now, u16::MAX - 2, two.into_iter());
    assert_eq!(scene.waiting(), [(2, 20)]);
    scene.with(|agent, desk| agent.acknowledge(true, desk));
    assert_eq!(scene.one().position, u16::MAX);
}

/// Not all of the line is looked at again with each of its packets; whoever may be granted is, all the same.
#[test]
fn who_arrives_is_granted_at_once_unless_somebody_before_it_waits_for_its_name() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    let now = scene.now;
    scene.agent.inherit(now, 4, 9, [].into_iter());
    let mut arrive = |position, parties: &[Party]| {
        let first = scene.agent.queue_len();
        scene.agent.take_waiters(now, position, parties.iter().copied());
        scene.with(|agent, desk| agent.serve_arrivals(first, desk));
        (scene.holding(), scene.waiting())
    };
    let (holding, waiting) = arrive(0, &[party(3, 30, NAME, SHARED), party(4, 40, NAME, EXCLUSIVE)]);
    assert_eq!((holding.as_slice(), waiting.as_slice()), (&[(2, 20), (3, 30)][..], &[(4, 40)][..]));
    let (holding, waiting) = arrive(2, &[party(5, 50, NAME, SHARED)]);
    assert_eq!((holding.len(), waiting.as_slice()), (2, &[(4, 40), (5, 50)][..]), "a writer is before it");
    let (_, waiting) = arrive(3, &[party(6, 60, NAME, SHARED), party(7, 70, NAME, SHARED)]);
    assert_eq!(waiting, [(4, 40), (5, 50), (6, 60), (7, 70)]);
}

/// The switch has said so meanwhile: it has to hear that somebody wants to be alone, whoever is still to come.
#[test]
fn who_arrives_and_wants_to_be_alone_has_a_slot_closed_that_readers_are_let_into() {
    let mut scene = Scene::held(SlotState::Open, party(2, 20, OTHER, SHARED));
    let now = scene.now;
    scene.agent.inherit(now, 4, 9, [].into_iter());
    scene.agent.take_waiters(now, 0, [party(3, 30, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.serve_arrivals(0, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state), (kind::lock::RETENURE, SlotState::Managed));
}

#[test]
fn who_arrives_dead_does_not_wait() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 9, [].into_iter());
    scene.dead.note(3, 1);
    let all = [party(3, 30, NAME, SHARED), party(5, 50, NAME, SHARED), party(3, 31, NAME, SHARED)];
    scene.agent.take_waiters(now, 0, all.into_iter());
    scene.with(|agent, desk| agent.serve_arrivals(0, desk));
    assert_eq!(scene.waiting(), [(5, 50)]);
}

#[test]
fn inherited_waiters_that_hold_or_are_over_do_not_wait() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.release(3, 30);
    scene.said();
    scene.agent.pending = None;
    let now = scene.now;
    let all = [party(2, 20, NAME, SHARED), party(3, 30, NAME, SHARED), party(3, 31, NAME, SHARED)];
    scene.agent.inherit(now, 4, 3, all.into_iter());
    assert_eq!(scene.waiting(), [(3, 31)]);
}

/// "Tells the former agent what has arrived": by itself where more is to come or it was asked, with the next packet
/// otherwise.
#[test]
fn an_heir_acknowledges_what_has_arrived() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.with(|agent, desk| agent.acknowledge(true, desk));
    scene.is_silent();
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.acknowledge(false, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.position), (kind::lock::QUEUED, 4, 2));
    assert_eq!((said.entries[0].slot, said.entries[0].tenure), (SLOT, STAMP.tenure));
    scene.agent.take_waiters(now, 1, [party(3, 30, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.acknowledge(false, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.acknowledge(true, desk));
    assert_eq!(scene.said().iter().map(|said| said.position).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn who_hands_over_is_dead_so_the_rest_of_the_waiters_will_not_come() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [].into_iter());
    scene.release(ME, 1);
    scene.with(|agent, desk| agent.on_down(5, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.on_down(4, desk));
    assert_eq!(scene.one().bits().state, SlotState::Unheld);
}

/// "Whatever enters its books is dropped if its node is dead".
#[test]
fn the_dead_leave_all_books() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 21, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(2, 22, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.dead.note(2, 1);
    scene.with(|agent, desk| agent.on_down(2, desk));
    assert!(scene.holding().is_empty());
    assert_eq!(scene.waiting(), [(3, 30)]);
}

#[test]
fn a_census_takes_back_what_was_asked_for_and_grants_nothing() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)]);
    scene.agent.suspend();
    assert!(!scene.agent.is_pending() && !scene.agent.is_usable());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
    scene.acquire(party(ME, 5, NAME, EXCLUSIVE));
    scene.is_silent();
    assert!(scene.local.is_empty());
}

#[test]
fn an_adoption_is_of_its_own_pages_and_lists_each_holder_once() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.agent.suspend();
    scene.agent.queue.push_back(party(3, 30, NAME, SHARED));
    scene.agent.prepare_adoption(9, NEXT, bits(SlotState::Managed, 0));
    assert!(scene.holding().is_empty());
    assert_eq!(scene.agent.adoption_stamp(), Some(NEXT));
    assert!(scene.agent.adopts(9) && !scene.agent.adopts(8));
    scene.agent.adopt_holder(8, party(4, 40, NAME, SHARED));
    scene.agent.adopt_holder(9, party(3, 30, NAME, SHARED));
    scene.agent.adopt_holder(9, party(3, 30, NAME, SHARED));
    assert_eq!(scene.holding(), [(3, 30)]);
    assert!(scene.waiting().is_empty(), "who holds does not wait");
}

/// Nobody but the switch can say that it is agent: it asks before it grants.
#[test]
fn an_adopted_agent_asks_the_switch_before_it_grants() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.confirmed = false;
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.bits().state, said.bits().tryable), (SlotState::Managed, false), "it renews");
    assert!(scene.local.is_empty());
    scene.applied(SlotState::Managed);
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2));
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.confirmed = false;
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.one().bits().state, SlotState::Unheld, "nobody holds, nobody waits: it frees");
    for with in [
        |scene: &mut Scene| scene.agent.holders.push(party(2, 20, NAME, SHARED)),
        |scene: &mut Scene| {
            let now = scene.now;
            scene.agent.inherit(now, 4, 2, [].into_iter());
        },
    ] {
        let mut scene = Scene::new(SlotState::Managed);
        scene.agent.confirmed = false;
        with(&mut scene);
        scene.with(|agent, desk| agent.serve(desk));
        assert_eq!(scene.one().bits().state, SlotState::Managed, "somebody holds, or is still to come");
    }
}

#[test]
fn a_packet_takes_31_waiters_along_and_says_how_many_there_are() {
    let waiters: Vec<Party> = (0..40).map(|index| party(2, 100 + index, NAME, EXCLUSIVE)).collect();
    let (_, said) = transferring(&waiters);
    assert_eq!((said.entries.len(), said.position), (limits::MAX_ENTRIES, 39));
    assert_eq!(said.entries[31].request, 131);
}

#[test]
fn what_an_agent_says_of_itself() {
    let (scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(scene.agent.transfer_to(), Some((2, NEXT)));
    assert!(scene.agent.is_pending() && !scene.agent.has_waiters());
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    assert!(scene.agent.is_usable() && !scene.agent.is_open());
    assert!(scene.agent.holds(ME, 1) && !scene.agent.holds(ME, 2) && !scene.agent.holds(2, 1));
    assert_eq!(scene.agent.transfer_to(), None);
    let now = scene.now;
    assert!(!scene.agent.inherited_at(STAMP));
    scene.agent.inherit(now, 4, 1, [].into_iter());
    assert!(scene.agent.inherited_at(STAMP) && !scene.agent.inherited_at(NEXT));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    assert!(scene.agent.has_waiters(), "the late ones count");
    assert_eq!(BODY, entry_at(0));
}

/// A claim is answered with the joins of the tenure before: those of its own tenure are ordinals of that one.
#[test]
fn a_claimed_agent_knows_joins_by_the_tenure_before() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.reset(SLOT, NEXT, bits(SlotState::Managed, 1));
    scene.agent.claimed();
    assert_eq!(scene.agent.joins_stamp, STAMP);
    assert!(!scene.agent.joins.complete());
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), NEXT, 1, false, desk));
    assert!(!scene.agent.joins.complete());
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), STAMP, 1, false, desk));
    assert!(scene.agent.joins.complete());
    let told = Some((NEXT, bits(SlotState::Managed, 3)));
    scene.with(|agent, desk| agent.on_acquire(party(3, 30, NAME, SHARED), told, desk));
    assert!(scene.agent.joins.complete(), "what the switch says now is of this tenure");
}

#[test]
fn a_census_ends_the_wait_for_a_gap_and_for_other_waiters() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.agent.gap_due = Some(now);
    scene.agent.suspend();
    assert!(scene.agent.heir_is_complete());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
    scene.agent.joins.expected = 1;
    scene.tick(0);
    scene.is_silent();
}

#[test]
fn a_gap_that_has_closed_meanwhile_is_not_told() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.gap_due = Some(scene.now);
    scene.tick(0);
    scene.is_silent();
    assert_eq!(scene.agent.gap_due, None);
}

/// An agent that the controller has named, with these holders, after a census.
fn adopted(holders: &[Party], joins: u16) -> Scene {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.suspend();
    scene.agent.prepare_adoption(9, NEXT, bits(SlotState::Managed, joins));
    holders.iter().for_each(|holder| scene.agent.adopt_holder(9, *holder));
    scene
}

/// Where nobody waits for it, it has time to ask the switch whether it is the agent.
#[test]
fn an_adopted_agent_has_time_while_somebody_holds_and_nobody_waits() {
    let holder = party(2, 20, NAME, SHARED);
    let mut scene = adopted(&[holder], 0);
    assert!(scene.with(Agent::resume));
    scene.is_silent();
    assert!(!scene.agent.is_usable(), "the switch has not confirmed it");
    assert_eq!(scene.agent.stamp, NEXT);
    assert!(!scene.with(Agent::resume), "it was adopted once");
    scene.with(Agent::confirm);
    assert_eq!(scene.one().bits().state, SlotState::Managed);

    let mut scene = adopted(&[], 0);
    assert!(!scene.with(Agent::resume));
    assert_eq!(scene.one().bits().state, SlotState::Unheld, "nobody holds: it frees");

    let mut scene = adopted(&[holder], 0);
    scene.agent.queue.push_back(party(3, 30, NAME, EXCLUSIVE));
    assert!(!scene.with(Agent::resume));
    assert_eq!(scene.one().kind, kind::lock::RETENURE, "somebody waits");

    let mut scene = adopted(&[holder], 1);
    assert!(!scene.with(Agent::resume));
    let asked = scene.one();
    assert_eq!((asked.kind, asked.bits().joins), (kind::lock::RETENURE, 0), "a join is unknown: to be refused");

    let mut scene = adopted(&[holder], 0);
    scene.dead.note(2, 1);
    assert!(!scene.with(Agent::resume));
    assert_eq!(scene.one().bits().state, SlotState::Unheld, "the holder died before the census was over");
}

/// A hand-over that is said again, to who has given the lock back since: the slot may be somebody else's by now, and
/// then nobody else ever says so.
#[test]
fn an_heir_without_a_holder_asks_although_a_join_is_unknown_and_never_gets_what_it_asks_for() {
    let heir = || {
        let mut scene = Scene::new(SlotState::Open);
        scene.agent.reset(SLOT, STAMP, bits(SlotState::Open, 2));
        scene.agent.granted_with(party(ME, 1, NAME, SHARED), false);
        scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), STAMP, 2, true, desk));
        let asked = scene.one();
        assert_eq!((asked.kind, asked.bits().state, asked.bits().joins), (kind::lock::RETENURE, SlotState::Unheld, 1));
        scene
    };
    let mut scene = heir();
    assert_eq!(scene.answer(header_flag::STALE_TENURE, NEXT, bits(SlotState::Unheld, 0), 0), After::Over);

    let mut scene = heir();
    assert_eq!(scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Open, 2), ME), After::Goes);
    assert!(scene.agent.is_usable(), "it is the agent");
    scene.is_silent();
    assert_eq!(scene.agent.due(), scene.now + scene.config.gap_us, "of an unknown holder");
}

#[test]
fn a_confirmed_agent_does_not_ask_again() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.with(Agent::confirm);
    scene.is_silent();
    assert_eq!(scene.agent.reminder, None, "it has nothing to do");
}

/// Agents are put away and taken again for another slot: of the former one nothing is left but memory.
#[test]
fn a_used_agent_begins_anew() {
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    let now = scene.now;
    scene.release(5, 50);
    scene.agent.inherit(now, 4, 2, [party(2, 21, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(3, 30, NAME, SHARED));
    scene.agent.late.push_back(party(6, 60, NAME, SHARED));
    scene.said();
    scene.agent.prepare_adoption(9, NEXT, bits(SlotState::Managed, 3));
    scene.agent.holders.push(party(2, 20, NAME, SHARED));
    scene.with(|agent, desk| agent.start(Change::Free, desk));
    scene.agent.suspended = true;
    scene.agent.confirmed = false;
    scene.agent.gap_due = Some(now);
    scene.agent.reminder = Some((now, 1));
    scene.agent.sequence = 9;
    scene.agent.joins.learn(3);
    scene.agent.reset(SLOT + 1, NEXT, bits(SlotState::Managed, 0));
    assert!(scene.agent.is_usable() && !scene.agent.is_open() && scene.agent.tryable);
    assert!(scene.holding().is_empty() && scene.waiting().is_empty() && scene.agent.retired.is_empty());
    assert!(scene.agent.heir_is_complete() && !scene.agent.inherited_at(STAMP));
    assert_eq!(scene.agent.adoption_stamp(), None);
    assert_eq!(scene.agent.due(), Time(u64::MAX), "nothing is to come");
    assert_eq!((scene.agent.slot, scene.agent.stamp, scene.agent.joins_stamp), (SLOT + 1, NEXT, NEXT));
    assert_eq!(scene.agent.sequence, 0);
    assert!(scene.agent.joins.complete());
}

#[test]
fn an_agent_is_alone_while_one_of_its_own_node_holds_and_nobody_waits() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    assert!(scene.agent.is_alone(ME) && !scene.agent.is_alone(2));
    scene.agent.holders.push(party(ME, 2, NAME, SHARED));
    assert!(!scene.agent.is_alone(ME), "two hold");
    scene.agent.holders.clear();
    assert!(scene.agent.is_alone(ME), "nobody does");
    scene.agent.holders.push(party(2, 20, NAME, SHARED));
    assert!(!scene.agent.is_alone(ME), "another node does");
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    assert!(!scene.agent.is_alone(ME), "somebody waits");
}

#[test]
fn the_end_of_a_node_concerns_an_agent_that_has_it_in_its_books() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.agent.late.push_back(party(4, 40, NAME, EXCLUSIVE));
    assert!([2, 3, 4].iter().all(|node| scene.agent.involves(*node)));
    assert!(!scene.agent.involves(5));
    let now = scene.now;
    scene.agent.inherit(now, 5, 1, [].into_iter());
    assert!(scene.agent.involves(5), "its waiters are still to come");
    let (scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert!(scene.agent.involves(2), "the agency is on its way to it");
}

#[test]
fn who_comes_while_waiters_are_still_to_come_waits_in_the_order_of_arrival_and_may_go() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.config.waiters_most = 3;
    let now = scene.now;
    scene.agent.inherit(now, 4, 1, [].into_iter());
    for request in [30, 31, 32] {
        scene.acquire(party(3, request, NAME, EXCLUSIVE));
    }
    scene.is_silent();
    scene.acquire(party(3, 33, NAME, EXCLUSIVE));
    assert_eq!(scene.one().flags, header_flag::RETRY);
    scene.release(3, 31);
    assert_eq!(scene.waiting(), [(3, 30), (3, 32)]);
    scene.agent.take_waiters(now, 0, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30), (3, 32)]);
    scene.agent.reminder = None;
    assert_eq!(scene.agent.due(), Time(u64::MAX), "all have come");
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.waiting(), [(2, 20), (3, 30), (3, 32)], "nor is it another order once all are in one line");
    assert!(scene.agent.late.is_empty());
}

#[test]
fn an_agent_in_a_few_words_decides_while_its_one_request_holds() {
    let keep = Sole {
        stamp: STAMP,
        name: NAME,
        holder: ME,
        port: 9,
        mode: EXCLUSIVE,
        tryable: true,
        open: false,
        suspended: false,
        confirmed: true,
        sequence: 0,
        home: Home::default(),
        duty: Duty::Keep { request: 5 },
    };
    let free = Sole { duty: Duty::Free { nonce: 6, pause: 7, due: Time(8) }, ..keep };
    assert!(keep.keeps(5) && !keep.keeps(6) && !free.keeps(6));
    assert!(keep.is_usable());
    for other in [Sole { suspended: true, ..keep }, Sole { confirmed: false, ..keep }, free] {
        assert!(!other.is_usable(), "{other:?}");
    }
    let mut scene = Scene::new(SlotState::Open);
    scene.agent.write_out(SLOT, &Sole { suspended: true, confirmed: false, ..keep });
    assert_eq!(scene.holding(), [(ME, 5)]);
    assert!(scene.agent.suspended && !scene.agent.confirmed && !scene.agent.is_open() && scene.agent.tryable);
    assert_eq!((scene.agent.name, scene.agent.holders[0].token), (NAME, Token::new(STAMP, 0)));
    scene.agent.write_out(SLOT, &Sole { open: true, tryable: false, mode: SHARED, ..free });
    assert!(scene.holding().is_empty() && scene.agent.is_pending());
    assert!(scene.agent.is_open() && !scene.agent.tryable);
    assert_eq!(scene.agent.due(), Time(8));
    let entry = free.freeing(SLOT, 6);
    assert_eq!((entry.name, entry.request, entry.slot, entry.tenure), (NAME, 6, SLOT, STAMP.tenure));
    assert_eq!((entry.holder, SlotBits::from_u16(entry.slot_bits).state), (ME, SlotState::Unheld));
}

/// The last of those who were to come is here, and those who came meanwhile are in no line yet.
#[test]
fn who_comes_after_the_last_of_them_lines_up_behind_those_that_were_late() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 1, [].into_iter());
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.agent.take_waiters(now, 0, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    assert_eq!(scene.waiting(), [(2, 20), (3, 30), (5, 50)]);
}

#[test]
fn when_the_last_of_them_arrives_whoever_was_late_is_granted_what_nobody_holds() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    let now = scene.now;
    scene.agent.inherit(now, 4, 1, [].into_iter());
    scene.acquire(party(5, 50, OTHER, EXCLUSIVE));
    scene.is_silent();
    scene.agent.take_waiters(now, 0, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.serve_arrivals(0, desk));
    assert_eq!((scene.one().to, scene.waiting()), (5, alloc::vec![(2, 20)]));
}

/// The controller has found that it holds: it may have been granted by somebody before.
#[test]
fn who_is_adopted_as_a_holder_waits_no_more_and_all_others_do() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 9, 1, [].into_iter());
    for holder in [4, 5] {
        scene.acquire(party(holder, 10 * u64::from(holder), NAME, EXCLUSIVE));
    }
    scene.agent.suspend();
    scene.agent.prepare_adoption(77, NEXT, bits(SlotState::Managed, 0));
    scene.agent.adopt_holder(77, party(4, 40, NAME, EXCLUSIVE));
    assert_eq!((scene.holding(), scene.waiting()), (alloc::vec![(4, 40)], alloc::vec![(5, 50)]));
}
