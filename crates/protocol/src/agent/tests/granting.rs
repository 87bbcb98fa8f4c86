//! Who is granted when, and what requests do to the books.

use super::*;

#[test]
fn exclusive_grants_count_and_shared_ones_do_not() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, SHARED));
    scene.acquire(party(ME, 3, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 4, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    let sequences =
        |scene: &mut Scene| scene.local.drain(..).map(|p| (p.request, p.token.sequence())).collect::<Vec<_>>();
    assert_eq!(sequences(&mut scene), [(2, 0)]);
    scene.release(ME, 2);
    assert_eq!(sequences(&mut scene), [(3, 1)]);
    scene.release(ME, 3);
    assert_eq!(sequences(&mut scene), [(4, 2)]);
    assert_eq!(scene.agent.holders[0].token, Token::new(STAMP, 2));
}

#[test]
fn after_255_exclusive_grants_the_tenure_is_renewed_first() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.sequence = limits::MAX_SEQUENCE;
    scene.acquire(party(ME, 2, NAME, SHARED));
    scene.acquire(party(ME, 3, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2), "a shared grant needs no number");
    scene.release(ME, 2);
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, true));
    assert!(scene.local.is_empty());
    assert_eq!(scene.applied(SlotState::Managed), After::Goes);
    let granted = scene.local.pop_front().expect("it is granted now");
    assert_eq!(granted.token, Token::new(NEXT, 1));
}

/// A reader of another name that has joined: the switch lets nobody try by the first name's hash any more, and is not
/// told to.
#[test]
fn a_tenure_that_is_renewed_under_two_names_is_not_tryable() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.with(|agent, desk| agent.on_join(party(2, 20, OTHER, SHARED), STAMP, 1, false, desk));
    scene.agent.sequence = limits::MAX_SEQUENCE;
    scene.acquire(party(ME, 3, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    assert!(!scene.one().bits().tryable);

    // Where readers go first it is the agent that closes the slot.
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    scene.with(|agent, desk| agent.on_join(party(2, 20, OTHER, SHARED), STAMP, 1, false, desk));
    let writer = urgent(7, party(3, 30, NAME, EXCLUSIVE));
    let snapshot = Some((STAMP, bits(SlotState::Open, 1)));
    scene.with(|agent, desk| agent.on_acquire(writer, snapshot, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, false));
}

#[test]
fn each_name_has_its_own_order() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.agent.tryable = false;
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, SHARED));
    scene.is_silent();
    scene.acquire(party(4, 40, OTHER, EXCLUSIVE));
    assert_eq!(scene.one().to, 4, "another name is not blocked by the first");
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)], "a reader does not overtake a writer");
    scene.release(ME, 1);
    assert_eq!(scene.one().to, 2);
    scene.release(2, 20);
    assert_eq!(scene.one().to, 3);
}

/// It was asked for before the agency came to this node, so that its GRANT is no news to the node (`Book::floor`):
/// untold, it would hold the lock until it is reminded, half a second later.
#[test]
fn a_join_of_this_nodes_own_request_is_told_by_its_agent() {
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    scene.with(|agent, desk| agent.on_join(party(ME, 1, NAME, SHARED), STAMP, 1, false, desk));
    let told = scene.local.pop_front().expect("it is told");
    assert_eq!((told.request, told.token, told.tries), (1, Token::new(STAMP, 0), false));
    scene.with(|agent, desk| agent.on_join(party(3, 30, NAME, SHARED), STAMP, 2, false, desk));
    assert!(scene.local.is_empty(), "another node's has the switch's GRANT");
    scene.is_silent();
    assert_eq!(scene.holding(), [(2, 20), (ME, 1), (3, 30)]);
}

#[test]
fn nobody_is_granted_exclusively_while_a_join_is_unknown() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    let closed = (STAMP, bits(SlotState::Managed, 2));
    scene.with(|agent, desk| agent.on_acquire(party(ME, 2, NAME, EXCLUSIVE), Some(closed), desk));
    assert!(!scene.agent.is_open());
    scene.release(ME, 1);
    assert!(scene.local.is_empty());
    assert_eq!(scene.agent.due(), scene.now + scene.config.gap_us);
    // RELEASE carries the ordinal of its grant: so most gaps close by themselves.
    scene.with(|agent, desk| agent.on_release(3, 30, Some((STAMP, 1)), desk));
    assert!(scene.local.is_empty());
    scene.with(|agent, desk| agent.on_release(3, 31, Some((NEXT, 2)), desk));
    assert!(scene.local.is_empty(), "of another tenure");
    scene.with(|agent, desk| agent.on_release(3, 32, Some((STAMP, 2)), desk));
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2));
}

#[test]
fn a_try_is_granted_or_refused_but_never_waits() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    scene.acquire(Party { name: OTHER, ..trying(2, 20, EXCLUSIVE) });
    assert_eq!(scene.one().kind, kind::lock::GRANT);
    scene.acquire(trying(3, 30, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.flags), (kind::lock::BUSY, 3, 0));
    assert_eq!(said.entries[0].flags, entry_flag::TRY | entry_flag::EXCLUSIVE);
    scene.acquire(trying(ME, 4, SHARED));
    assert_eq!(scene.local.pop_front().map(|p| (p.request, p.tries)), Some((4, true)));
    assert!(scene.waiting().is_empty());
}

#[test]
fn tries_are_refused_where_the_agency_goes_to_somebody_else() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.suspended = true;
    for waiter in [party(2, 20, NAME, EXCLUSIVE), trying(3, 30, SHARED), party(4, 40, NAME, SHARED)] {
        scene.acquire(waiter);
    }
    scene.agent.suspended = false;
    scene.release(ME, 1);
    let said = scene.said();
    assert_eq!(
        said.iter().map(|said| (said.kind, said.holders())).collect::<Vec<_>>(),
        [(kind::lock::BUSY, [3].to_vec()), (kind::lock::RETENURE, [2, 4].to_vec())]
    );
}

#[test]
fn the_agency_stays_where_waiters_are_local_or_of_several_names() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    scene.is_silent();
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2));
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    scene.agent.suspended = true;
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, OTHER, EXCLUSIVE));
    scene.agent.suspended = false;
    scene.release(ME, 1);
    let grants: Vec<_> = scene.said().iter().map(|said| (said.kind, said.to)).collect();
    assert_eq!(grants, [(kind::lock::GRANT, 2), (kind::lock::GRANT, 3)]);
}

#[test]
fn a_slot_with_readers_alone_is_opened_again_and_says_whether_they_share_a_name() {
    for (name, tryable) in [(NAME, true), (OTHER, false)] {
        let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
        scene.agent.tryable = false;
        scene.acquire(party(3, 30, NAME, EXCLUSIVE));
        scene.acquire(party(4, 40, name, SHARED));
        scene.said();
        scene.release(3, 30);
        let said = scene.said().pop().expect("it is opened");
        assert_eq!(
            (said.kind, said.bits().state, said.bits().tryable),
            (kind::lock::RETENURE, SlotState::Open, tryable)
        );
        assert_eq!(said.entries[0].name, NAME);
    }
}

#[test]
fn a_slot_is_not_opened_for_a_writer_nor_while_somebody_waits() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, SHARED));
    scene.is_silent();
    scene.release(2, 20);
    assert!(scene.said().iter().all(|said| said.bits().state == SlotState::Open), "to the reader");
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.with(|agent, desk| agent.serve(desk));
    scene.is_silent();
}

/// 4,095 joins are all that a tenure can count: the next reader needs another one.
#[test]
fn an_open_slot_with_all_of_its_joins_is_opened_anew() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    for ordinal in 1..limits::MAX_JOINS {
        let join = party(2, ordinal.into(), NAME, SHARED);
        scene.with(|agent, desk| agent.on_join(join, STAMP, ordinal, true, desk));
        scene.is_silent();
    }
    let last = party(2, 5_000, NAME, SHARED);
    scene.with(|agent, desk| agent.on_join(last, STAMP, limits::MAX_JOINS, true, desk));
    let said = scene.one();
    assert_eq!((said.bits().state, said.bits().joins), (SlotState::Open, limits::MAX_JOINS));
}

/// Where readers go first: an exclusive request of a name that nobody holds closes the slot by the agent's own change.
#[test]
fn an_open_agent_closes_the_slot_for_a_writer_whose_name_nobody_holds() {
    let open = Some((STAMP, bits(SlotState::Open, 0)));
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    scene.with(|agent, desk| agent.on_acquire(party(3, 30, NAME, EXCLUSIVE), open, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.on_acquire(party(4, 40, OTHER, EXCLUSIVE), open, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, true));
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    assert_eq!(scene.acquire(party(3, 30, NAME, EXCLUSIVE)), Taken::Bounce, "elsewhere the switch closes it");
    scene.is_silent();
}

/// A reader whom the switch let in, and whose JOIN is still on its way, would be forgotten with the tenure.
#[test]
fn an_open_agent_closes_no_slot_before_it_knows_who_has_joined() {
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    scene.with(|agent, desk| agent.on_join(party(3, 30, NAME, SHARED), STAMP, 2, false, desk));
    let open = Some((STAMP, bits(SlotState::Open, 2)));
    scene.with(|agent, desk| agent.on_acquire(party(4, 40, OTHER, EXCLUSIVE), open, desk));
    scene.is_silent();
    assert_eq!(scene.agent.gap_due, Some(scene.now + scene.config.gap_us));
    scene.with(|agent, desk| agent.on_join(party(5, 50, NAME, SHARED), STAMP, 1, false, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().joins), (kind::lock::RETENURE, SlotState::Managed, 2));
}

#[test]
fn a_request_that_is_known_is_answered_again_and_not_queued_twice() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(Party { port: 9, ..party(2, 20, NAME, EXCLUSIVE) });
    let said = scene.one();
    assert_eq!((said.kind, said.entries[0].reply_port), (kind::lock::GRANT, 9), "at the port that it has now");
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.acquire(Party { port: 8, ..party(3, 30, NAME, EXCLUSIVE) });
    scene.is_silent();
    assert_eq!(scene.waiting(), [(3, 30)]);
    assert_eq!(scene.agent.queue[0].port, 8);
}

#[test]
fn what_is_over_is_not_queued_by_a_late_copy() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.release(3, 30);
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    assert!(scene.waiting().is_empty());
    scene.acquire(party(3, 31, NAME, EXCLUSIVE));
    assert_eq!(scene.waiting(), [(3, 31)], "another request of the same node");
}

#[test]
fn as_many_retired_requests_are_remembered_as_there_is_room_for_each_once() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.config.retired_most = 2;
    scene.release(ME, 5);
    assert!(scene.agent.retired.is_empty(), "this node knows its own");
    scene.release(3, 30);
    scene.release(3, 30);
    assert_eq!(scene.agent.retired, [(3, 30)]);
    scene.release(3, 31);
    scene.release(3, 32);
    assert_eq!(scene.agent.retired, [(3, 31), (3, 32)]);
}

#[test]
fn a_full_queue_refuses_those_who_cannot_be_granted_at_once() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.agent.tryable = false;
    scene.config.waiters_most = 1;
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.is_silent();
    scene.acquire(party(4, 40, NAME, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.flags), (kind::lock::BUSY, 4, header_flag::RETRY));
    assert_eq!(scene.waiting(), [(3, 30)]);
    scene.acquire(party(5, 50, OTHER, EXCLUSIVE));
    assert_eq!(scene.one().kind, kind::lock::GRANT, "it may hold what all the others wait for");
}

#[test]
fn late_waiters_count_as_well_where_the_queue_is_full() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.config.waiters_most = 2;
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.is_silent();
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    assert_eq!(scene.one().flags, header_flag::RETRY);
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
}

#[test]
fn a_join_counts_once_and_in_its_own_tenure() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    let join = party(2, 20, NAME, SHARED);
    scene.with(|agent, desk| agent.on_join(join, NEXT, 1, false, desk));
    assert_eq!(scene.holding(), [(ME, 1)]);
    scene.with(|agent, desk| agent.on_join(join, STAMP, 1, false, desk));
    scene.with(|agent, desk| agent.on_join(party(2, 21, NAME, SHARED), STAMP, 1, false, desk));
    assert_eq!(scene.holding(), [(ME, 1), (2, 20)], "an ordinal is granted once");
    assert_eq!(scene.agent.holders[1].token, Token::new(STAMP, 0));
    scene.with(|agent, desk| agent.on_join(party(3, 30, NAME, SHARED), STAMP, 2, true, desk));
    assert_eq!(scene.holding().len(), 2, "of a dead node the ordinal alone counts");
    scene.release(4, 40);
    scene.with(|agent, desk| agent.on_join(party(4, 40, NAME, SHARED), STAMP, 3, false, desk));
    assert_eq!(scene.holding().len(), 2, "and of a request that is over");
    assert!(scene.agent.joins.complete());
}

#[test]
fn a_waiter_that_has_joined_waits_no_more() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    scene.agent.suspended = true;
    scene.agent.queue.push_back(party(2, 20, NAME, SHARED));
    scene.agent.late.push_back(party(3, 30, NAME, SHARED));
    scene.agent.late.push_back(party(4, 40, NAME, SHARED));
    for (ordinal, holder) in [(1, 2), (2, 3)] {
        let join = party(holder, 10 * u64::from(holder), NAME, SHARED);
        scene.with(|agent, desk| agent.on_join(join, STAMP, ordinal, false, desk));
    }
    assert_eq!(scene.waiting(), [(4, 40)]);
    assert_eq!(scene.holding(), [(ME, 1), (2, 20), (3, 30)]);
}

#[test]
fn a_downgraded_hold_lets_readers_in_and_a_hold_that_is_none_cannot_be() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, SHARED));
    assert!(!scene.with(|agent, desk| agent.on_downgrade(2, 21, desk)));
    scene.is_silent();
    assert!(scene.with(|agent, desk| agent.on_downgrade(2, 20, desk)));
    let said = scene.said();
    let kinds: Vec<_> = said.iter().map(|said| (said.kind, said.to)).collect();
    assert_eq!(kinds, [(kind::lock::GRANT, 2), (kind::lock::GRANT, 3), (kind::lock::RETENURE, 0)]);
    assert_eq!(said[0].entries[0].flags, 0);
}

/// The first holder's name is the slot's one name, for the switch as well: a second request of it needs no renewal.
#[test]
fn the_first_grant_says_which_name_the_slot_is_of() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.granted_with(party(ME, 1, OTHER, SHARED), true);
    assert_eq!(scene.holding(), [(ME, 1)]);
    scene.acquire(party(2, 20, OTHER, SHARED));
    assert_eq!(scene.said()[0].kind, kind::lock::GRANT);
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.granted_with(party(ME, 1, OTHER, SHARED), false);
    assert!(scene.holding().is_empty() && !scene.agent.is_usable(), "it does not wait any more: only doubt is left");
}

#[test]
fn a_second_name_waits_for_an_unknown_join_of_the_first() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), STAMP, 2, false, desk));
    scene.acquire(party(3, 30, OTHER, SHARED));
    scene.is_silent();
    assert_eq!(scene.agent.gap_due, Some(scene.now + scene.config.gap_us));
}

#[test]
fn local_requests_are_told_in_the_order_in_which_they_came() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, SHARED));
    scene.acquire(party(ME, 3, NAME, SHARED));
    scene.acquire(trying(ME, 4, SHARED));
    scene.acquire(trying(ME, 5, SHARED));
    let told = |scene: &mut Scene| scene.local.drain(..).map(|party| party.request).collect::<Vec<_>>();
    assert_eq!(told(&mut scene), [4, 5], "refused at once");
    scene.release(ME, 1);
    assert_eq!(told(&mut scene), [2, 3]);
}

#[test]
fn a_slot_that_is_opened_again_remembers_the_name_that_is_held() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    scene.acquire(party(3, 30, OTHER, SHARED));
    scene.said();
    scene.release(2, 20);
    let said = scene.one();
    assert_eq!((said.bits().state, said.bits().tryable, said.entries[0].name), (SlotState::Open, true, OTHER));
}

#[test]
fn a_waiter_too_many_is_refused_also_while_others_are_still_to_come() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.config.waiters_most = 2;
    let now = scene.now;
    let arrived = [party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)];
    scene.agent.inherit(now, 4, 3, arrived.into_iter());
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    assert_eq!(scene.one().flags, header_flag::RETRY);
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
}

/// By its nonce an answer is told from that to an earlier change.
#[test]
fn every_change_has_a_nonce_of_its_own() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.acquire(party(2, 20, OTHER, EXCLUSIVE));
    let first = scene.one().entries[0].request;
    scene.with(|agent, desk| agent.on_refused(false, bits(SlotState::Managed, 0), desk));
    let second = scene.one().entries[0].request;
    assert_eq!((first, second), (1, 2));
}

/// Each time that it came again it would.
#[test]
fn who_does_not_stay_overtakes_nobody_where_its_name_is_held() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    scene.agent.holders.push(party(5, 50, OTHER, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.acquire(Party { tries: true, ..urgent(7, party(4, 40, NAME, SHARED)) });
    let refused = scene.one();
    assert_eq!((refused.kind, refused.to), (kind::lock::BUSY, 4));
    assert_eq!(scene.agent.queue.iter().map(|waiter| waiter.rank.overtaken).collect::<Vec<_>>(), [0]);
}
