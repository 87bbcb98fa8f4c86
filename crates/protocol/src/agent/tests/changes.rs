//! What the agent asks the switch for, what it makes of the answers, and what it does in time.

use super::*;

#[test]
fn a_transfer_names_its_condition_and_takes_the_waiters_along() {
    let third = party(3, 30, NAME, SHARED);
    let (_, said) = transferring(&[party(2, 20, NAME, EXCLUSIVE), third]);
    assert_eq!((said.kind, said.to, said.position, said.flags), (kind::lock::RETENURE, 0, 1, 0));
    let [first, second] = said.entries[..] else { panic!("{said:?}") };
    assert_eq!((first.holder, first.request, first.name, first.tenure), (2, 20, NAME, STAMP.tenure));
    assert_eq!((first.slot, first.reply_port), (SLOT, 20_002));
    assert_eq!(second, third.to_entry(SLOT));
    assert_eq!(said.bits(), SlotBits { state: SlotState::Managed, transferred: true, tryable: true, joins: 0 });
}

#[test]
fn a_transfer_leaves_the_slot_open_only_where_everybody_reads() {
    let readers = [party(2, 20, NAME, SHARED), party(3, 30, NAME, SHARED)];
    assert_eq!(transferring(&readers).1.bits().state, SlotState::Open);
    let mixed = [party(2, 20, NAME, SHARED), party(3, 30, NAME, SHARED), party(2, 21, NAME, EXCLUSIVE)];
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    mixed.into_iter().for_each(|waiter| assert_eq!(scene.acquire(waiter), Taken::Yes));
    scene.release(ME, 1);
    assert_eq!(scene.one().bits().state, SlotState::Managed, "one of them wants to write");
    let writer = [party(2, 20, NAME, EXCLUSIVE)];
    assert_eq!(transferring(&writer).1.bits().state, SlotState::Managed);
}

/// "A transfer is asked for again until QUEUED, from the second time on with reply port 0".
#[test]
fn a_change_is_asked_for_again_in_pauses_that_double_up_to_the_longest() {
    let (mut scene, said) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(said.entries[0].reply_port, 20_002);
    let mut pause = scene.config.retransmit_us;
    for _ in 0..12 {
        assert_eq!(scene.agent.pending.as_ref().map(|pending| pending.due), Some(scene.now + pause));
        scene.tick(pause - 1);
        scene.is_silent();
        scene.tick(1);
        let again = scene.one();
        assert_eq!((again.kind, again.entries[0].reply_port), (kind::lock::RETENURE, 0));
        pause = (pause * 2).min(scene.config.retransmit_most_us);
    }
    assert_eq!(pause, scene.config.retransmit_most_us);
}

/// "After 200 us, if somebody waits in limbo for the outcome", and no later than it would be anyway.
#[test]
fn a_transfer_that_somebody_waits_for_is_asked_for_again_soon() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    scene.agent.hurry(scene.now);
    assert_eq!(scene.agent.due(), scene.now + 200);
    scene.agent.hurry(scene.now + 100);
    assert_eq!(scene.agent.due(), scene.now + 200, "the first who waits counts");
    scene.tick(200);
    let due = scene.agent.due();
    scene.agent.hurry(scene.now);
    assert_eq!(scene.agent.due(), due, "the second time it has been asked for already");
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    let due = scene.agent.due();
    scene.agent.hurry(scene.now);
    assert_eq!(scene.agent.due(), due, "nobody has to send anything for a free slot");
}

#[test]
fn an_answer_to_something_else_changes_nothing() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    let entry = Entry { request: 21, slot: SLOT, tenure: NEXT.tenure, holder: 2, ..Entry::default() };
    for flags in [header_flag::APPLIED, header_flag::STALE_TENURE, header_flag::REFUSED | header_flag::DEAD] {
        let header = Header { flags, ..Header::default() };
        let at = (NEXT, bits(SlotState::Managed, 1));
        assert_eq!(scene.with(|agent, desk| agent.on_retenured(&header, &entry, at, desk)), After::Goes);
        assert!(scene.agent.is_pending());
    }
    scene.is_silent();
}

#[test]
fn an_answer_about_an_earlier_tenure_or_of_no_outcome_is_ignored() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    let managed = bits(SlotState::Managed, 0);
    assert_eq!(scene.answer(0, NEXT, managed, 2), After::Goes, "it says of nothing that it came to pass");
    assert_eq!(scene.answer(header_flag::APPLIED, STAMP, managed, ME), After::Goes);
    assert_eq!(scene.answer(header_flag::STALE_TENURE, STAMP, managed, ME), After::Goes);
    let earlier = Stamp { tenure: STAMP.tenure - 1, ..STAMP };
    assert_eq!(scene.answer(header_flag::REFUSED | header_flag::DEAD, earlier, managed, ME), After::Goes);
    assert!(scene.agent.is_pending());
    scene.is_silent();
    assert_eq!(scene.answer(header_flag::APPLIED, NEXT, managed, 2), After::Over);
}

#[test]
fn a_stale_tenure_is_the_end_of_an_agent() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(scene.answer(header_flag::STALE_TENURE, NEXT, bits(SlotState::Managed, 0), 2), After::Over);
}

/// REFUSED is meant for this change only if the switch counts other joins, or says that the heir is dead.
#[test]
fn a_refusal_that_names_the_same_joins_is_a_late_copy() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Managed, 0), ME), After::Goes);
    assert!(scene.agent.is_pending());
    scene.is_silent();
    assert_eq!(scene.answer(header_flag::REFUSED, NEXT, bits(SlotState::Managed, 1), ME), After::Goes);
    assert!(scene.agent.is_pending(), "of another tenure");
}

#[test]
fn a_transfer_that_is_refused_for_its_joins_puts_the_waiter_back_to_the_front() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)]);
    assert_eq!(scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Managed, 1), ME), After::Goes);
    assert!(!scene.agent.is_pending());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
    scene.is_silent();
    assert_eq!(scene.agent.due(), scene.now + scene.config.gap_us, "a join is missing");
    let join = party(4, 40, NAME, SHARED);
    scene.with(|agent, desk| agent.on_join(join, STAMP, 1, false, desk));
    assert_eq!(scene.holding(), [(4, 40)]);
}

#[test]
fn a_transfer_to_a_dead_node_drops_all_that_it_waits_for() {
    let waiters = [party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE), party(2, 21, NAME, SHARED)];
    let (mut scene, _) = transferring(&waiters);
    let flags = header_flag::REFUSED | header_flag::DEAD;
    assert_eq!(scene.answer(flags, STAMP, bits(SlotState::Managed, 0), ME), After::Goes);
    let said = scene.one();
    assert_eq!((said.kind, said.holders()), (kind::lock::RETENURE, [3].to_vec()));
}

/// A handle is given again: who asks with it now is somebody else, and keeps its place.
#[test]
fn a_transfer_to_a_dead_session_drops_none_of_the_next_with_that_handle() {
    let next = party(2, 1 << 40 | 20, NAME, EXCLUSIVE);
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE), party(2, 21, NAME, SHARED), next]);
    scene.answer(header_flag::REFUSED | header_flag::DEAD, STAMP, bits(SlotState::Managed, 0), ME);
    let said = scene.one();
    assert_eq!((said.kind, said.entries[0].request, said.entries.len()), (kind::lock::RETENURE, next.request, 1));
}

/// Either refusal comes from the switch, which looks at who is agent: so it is confirmed.
#[test]
fn a_refusal_confirms_an_adopted_agent() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.confirmed = false;
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.one().kind, kind::lock::RETENURE);
    scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Managed, 1), ME);
    assert!(scene.agent.is_usable());
}

#[test]
fn after_a_renewal_the_agent_goes_on_in_a_new_tenure() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.agent.tryable = true;
    scene.acquire(party(2, 20, OTHER, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, false));
    assert_eq!(scene.waiting(), [(2, 20)], "nothing is granted meanwhile");
    let renewed = SlotBits { tryable: false, ..bits(SlotState::Managed, 0) };
    assert_eq!(scene.answer(header_flag::APPLIED, NEXT, renewed, ME), After::Goes);
    let grant = scene.one();
    assert_eq!((grant.kind, grant.to, grant.entries[0].tenure), (kind::lock::GRANT, 2, NEXT.tenure));
    assert_eq!(grant.entries[0].sequence, 1);
}

#[test]
fn a_renewal_that_somebody_else_answers_for_is_the_end() {
    for (stamp, holder) in [(Stamp { tenure: NEXT.tenure + 1, ..NEXT }, ME), (NEXT, 2)] {
        let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
        scene.acquire(party(2, 20, OTHER, EXCLUSIVE));
        assert_eq!(scene.answer(header_flag::APPLIED, stamp, bits(SlotState::Managed, 0), holder), After::Over);
    }
}

#[test]
fn an_heir_waits_for_the_other_waiters_and_then_goes_on_without_them() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 1, [].into_iter());
    assert_eq!(scene.agent.due(), now + 4_000_000);
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    scene.is_silent();
    scene.tick(3_999_999);
    scene.is_silent();
    scene.tick(1);
    let said = scene.one();
    assert_eq!((said.kind, said.holders()), (kind::lock::RETENURE, [3].to_vec()));
}

#[test]
fn a_gap_is_told_to_the_controller_until_it_closes() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    let gap = scene.config.gap_us;
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), STAMP, 2, false, desk));
    scene.release(ME, 1);
    scene.release(2, 20);
    scene.is_silent();
    assert_eq!(scene.agent.due(), scene.now + gap);
    scene.tick(gap - 1);
    scene.is_silent();
    scene.tick(1);
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.entries[0].tenure), (kind::lock::GAP, 0, STAMP.tenure));
    assert_eq!((said.entries[0].slot, said.entries.len()), (SLOT, 1));
    assert_eq!(scene.agent.due(), scene.now + 4 * gap, "in longer pauses from then on");
    scene.tick(4 * gap);
    assert_eq!(scene.one().kind, kind::lock::GAP);
    scene.with(|agent, desk| agent.on_join(party(3, 30, NAME, SHARED), STAMP, 1, true, desk));
    assert_eq!(scene.one().kind, kind::lock::RETENURE, "nobody is left: the slot is free");
    assert_eq!(scene.agent.gap_due, None);
}

#[test]
fn holders_are_reminded_in_pauses_that_double_and_a_new_waiter_makes_them_short_again() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    let most = scene.config.retransmit_most_us;
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.is_silent();
    let mut pause = most;
    for _ in 0..6 {
        assert_eq!(scene.agent.due(), scene.now + pause);
        scene.tick(pause);
        let said = scene.one();
        assert_eq!((said.kind, said.to), (kind::lock::GRANT, 2));
        pause = (pause * 2).min(16 * most);
    }
    assert_eq!(pause, 16 * most);
    scene.tick(1);
    scene.acquire(party(4, 40, NAME, EXCLUSIVE));
    assert_eq!(scene.agent.due(), scene.now + most);
    scene.tick(most - 10);
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    assert_eq!(scene.agent.due(), scene.now + 10, "which never puts a reminder off");
    scene.tick(10);
    assert_eq!(scene.one().kind, kind::lock::GRANT);
    assert_eq!(scene.agent.due(), scene.now + 2 * most);
}

#[test]
fn an_agent_that_may_not_grant_reminds_nobody() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.agent.suspend();
    let most = scene.config.retransmit_most_us;
    scene.tick(most);
    scene.is_silent();
    assert_eq!(scene.agent.due(), Time(u64::MAX));
}

#[test]
fn nobody_is_reminded_once_nobody_holds() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    assert_eq!(scene.agent.due(), scene.now + scene.config.retransmit_most_us);
    scene.agent.tryable = false;
    scene.acquire(party(3, 30, OTHER, EXCLUSIVE));
    scene.said();
    for (holder, request) in [(ME, 1), (ME, 2), (3, 30)] {
        scene.release(holder, request);
    }
    assert_eq!(scene.one().bits().state, SlotState::Unheld);
    scene.with(|agent, desk| agent.on_refused(false, bits(SlotState::Managed, 0), desk));
    assert_eq!(scene.agent.reminder, None);
}
