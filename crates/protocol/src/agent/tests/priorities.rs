//! Who is served before whom, and that it goes along (docs/protocol.md, "Priorities").

use super::*;
use crate::line::OVERTAKEN_MOST;
use alloc::vec;
use wayside_wire::Policy;

fn held() -> Scene {
    Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE))
}

#[test]
fn the_most_urgent_waiter_is_handed_the_lock_and_its_equals_keep_their_order() {
    let mut scene = held();
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(urgent(0, party(3, 30, NAME, EXCLUSIVE)));
    scene.acquire(urgent(7, party(4, 40, NAME, EXCLUSIVE)));
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    scene.acquire(urgent(7, party(6, 60, NAME, EXCLUSIVE)));
    assert_eq!(scene.waiting(), [(4, 40), (6, 60), (2, 20), (5, 50), (3, 30)]);
    scene.release(ME, 1);
    let said = scene.one();
    assert_eq!((said.kind, said.holders()), (kind::lock::RETENURE, vec![4, 6, 2, 5, 3]));
    let ranks: Vec<Rank> = said.entries[1..].iter().map(|entry| Rank::from_byte(entry.sequence)).collect();
    let [high, normal, low] = [7, 4, 0].map(|level| Priority::new(level).expect("a level"));
    let rank = |priority, overtaken| Rank { priority, overtaken };
    assert_eq!(ranks, [rank(high, 0), rank(normal, 2), rank(normal, 1), rank(low, 3)], "all of it travels");
}

/// As an older node, which leaves the byte 0, sends it.
#[test]
fn who_says_nothing_of_a_priority_has_the_normal_one() {
    let entry = party(2, 20, NAME, EXCLUSIVE).to_entry(SLOT);
    assert_eq!(entry.sequence, 0);
    assert_eq!(Party::from_entry(&entry).rank, Rank::newcomer(Priority::NORMAL));
    let holder = Party { token: Token::new(STAMP, 9), ..urgent(7, party(2, 20, NAME, EXCLUSIVE)) };
    assert_eq!(holder.to_entry(SLOT).sequence, 9, "a hold says its token");
}

#[test]
fn a_waiter_is_overtaken_so_often_and_no_more_whoever_keeps_its_line() {
    let mut scene = held();
    scene.acquire(urgent(0, party(2, 20, NAME, EXCLUSIVE)));
    for request in 0..u64::from(OVERTAKEN_MOST) + 3 {
        scene.acquire(urgent(7, party(3, 30 + request, NAME, EXCLUSIVE)));
    }
    let place = |scene: &Scene| scene.waiting().iter().position(|waiter| *waiter == (2, 20));
    assert_eq!(place(&scene), Some(usize::from(OVERTAKEN_MOST)));
    // Handed over, it is known how often that was.
    let waiters: Vec<Party> = scene.agent.waiters().copied().collect();
    let entries = waiters.iter().map(|waiter| waiter.to_entry(SLOT));
    let mut heir = held();
    let (now, total) = (heir.now, waiters.len() as u16);
    heir.agent.inherit(now, 9, total, entries.map(|entry| Party::from_entry(&entry)));
    heir.acquire(urgent(7, party(4, 40, NAME, EXCLUSIVE)));
    assert_eq!(place(&heir), Some(usize::from(OVERTAKEN_MOST)));
    assert_eq!(heir.waiting().last(), Some(&(4, 40)));
}

#[test]
fn nobody_says_of_itself_that_it_was_overtaken() {
    let mut scene = held();
    let rank = Rank { priority: Priority::LOWEST, overtaken: OVERTAKEN_MOST };
    scene.acquire(Party { rank, ..party(2, 20, NAME, EXCLUSIVE) });
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    assert_eq!(scene.waiting(), [(3, 30), (2, 20)]);
}

#[test]
fn a_reader_joins_those_who_read_unless_a_writer_waits_that_is_as_urgent() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.acquire(urgent(5, party(2, 20, NAME, EXCLUSIVE)));
    scene.acquire(party(3, 30, NAME, SHARED));
    scene.acquire(urgent(5, party(4, 40, NAME, SHARED)));
    scene.is_silent();
    scene.acquire(urgent(6, party(5, 50, NAME, SHARED)));
    assert_eq!(scene.one().to, 5, "it is served before the writer, so it reads at once");
    assert_eq!(scene.waiting(), [(2, 20), (4, 40), (3, 30)]);
    // The last of the line was overtaken by two so far.
    for request in 2..u64::from(OVERTAKEN_MOST) {
        scene.acquire(urgent(6, party(5, 50 + request, NAME, SHARED)));
    }
    assert_eq!(scene.said().len(), usize::from(OVERTAKEN_MOST) - 2);
    scene.acquire(urgent(6, party(5, 90, NAME, SHARED)));
    scene.is_silent();
    assert_eq!(scene.waiting().last(), Some(&(5, 90)), "readers do not keep others out for ever");
}

#[test]
fn each_name_of_a_slot_has_a_line_of_its_own() {
    let mut scene = held();
    scene.agent.tryable = false;
    scene.agent.holders.push(Party { token: Token::new(STAMP, 1), ..party(9, 90, OTHER, EXCLUSIVE) });
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, OTHER, EXCLUSIVE));
    scene.acquire(urgent(7, party(4, 40, NAME, EXCLUSIVE)));
    let ranks: Vec<(u64, u8)> = scene.agent.waiters().map(|p| (p.request, p.rank.overtaken)).collect();
    assert_eq!(ranks, [(40, 0), (20, 1), (30, 0)], "who waits for another name is not overtaken");
}

#[test]
fn where_writers_go_first_a_reader_lets_so_many_of_its_priority_pass_and_no_more() {
    let mut scene = held();
    scene.config.policy = Policy::WritePreferring;
    scene.acquire(party(2, 20, NAME, SHARED));
    scene.acquire(urgent(5, party(3, 30, NAME, SHARED)));
    scene.acquire(party(4, 40, NAME, EXCLUSIVE));
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    scene.acquire(party(6, 60, NAME, SHARED));
    assert_eq!(scene.waiting(), [(3, 30), (4, 40), (5, 50), (2, 20), (6, 60)], "writers keep their order");
    for request in 0..u64::from(OVERTAKEN_MOST) {
        scene.acquire(party(7, 70 + request, NAME, EXCLUSIVE));
    }
    // It was overtaken by who is more urgent, too: that counts.
    let place = scene.waiting().iter().position(|waiter| *waiter == (2, 20));
    assert_eq!(place, Some(usize::from(OVERTAKEN_MOST)), "nobody else came before it");
}

#[test]
fn a_reader_that_comes_does_not_pass_a_writer_whoever_goes_first() {
    for policy in [Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring] {
        let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
        scene.config.policy = policy;
        scene.acquire(party(2, 20, NAME, EXCLUSIVE));
        scene.acquire(party(3, 30, NAME, SHARED));
        scene.acquire(party(4, 40, NAME, EXCLUSIVE));
        scene.is_silent();
        let writes_first = [(2, 20), (4, 40), (3, 30)];
        let line = if policy == Policy::WritePreferring { writes_first } else { [(2, 20), (3, 30), (4, 40)] };
        assert_eq!(scene.waiting(), line);
    }
}

/// However often it is tried: nobody's patience is used up by what does not stay.
#[test]
fn who_does_not_stay_overtakes_nobody() {
    let mut scene = held();
    scene.config.waiters_most = 1;
    scene.acquire(urgent(0, party(2, 20, NAME, EXCLUSIVE)));
    for request in 0..3 {
        scene.acquire(Party { tries: true, ..urgent(7, party(3, 30 + request, NAME, EXCLUSIVE)) });
        assert_eq!(scene.one().flags, 0, "a try is refused");
        scene.acquire(urgent(7, party(4, 40 + request, NAME, EXCLUSIVE)));
        assert_eq!(scene.one().flags, header_flag::RETRY, "there is no room");
    }
    let waiter = scene.agent.queue.front().copied().expect("it waits");
    assert_eq!((waiter.request, waiter.rank.overtaken), (20, 0));
}

/// It may stay for a moment, while a change is asked for or a join is unknown.
#[test]
fn who_tries_is_in_nobodys_way() {
    let mut scene = held();
    scene.agent.suspended = true;
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(urgent(7, trying(3, 30, EXCLUSIVE)));
    scene.acquire(urgent(7, party(4, 40, NAME, EXCLUSIVE)));
    assert_eq!(scene.waiting(), [(4, 40), (2, 20), (3, 30)]);
}

#[test]
fn a_try_is_granted_where_it_would_be_served_before_all_who_wait() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(trying(3, 30, SHARED));
    assert_eq!(scene.one().kind, kind::lock::BUSY);
    scene.acquire(urgent(5, trying(3, 31, SHARED)));
    assert_eq!(scene.one().kind, kind::lock::GRANT);
}

#[test]
fn who_comes_while_waiters_are_on_their_way_lines_up_behind_them() {
    let mut scene = held();
    let now = scene.now;
    scene.agent.inherit(now, 9, 2, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(4, 40, NAME, EXCLUSIVE));
    scene.acquire(urgent(7, party(5, 50, NAME, EXCLUSIVE)));
    assert_eq!(scene.waiting(), [(2, 20), (4, 40), (5, 50)], "the order is not known yet");
    scene.agent.take_waiters(now, 1, [party(3, 30, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.waiting(), [(5, 50), (2, 20), (3, 30), (4, 40)]);
}

/// The switch lets any reader in there, and knows of no priorities.
#[test]
fn where_readers_go_first_a_writer_that_is_more_urgent_than_most_closes_the_slot() {
    let open = Some((STAMP, bits(SlotState::Open, 0)));
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    scene.with(|agent, desk| agent.on_acquire(party(2, 20, NAME, EXCLUSIVE), open, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.on_acquire(urgent(5, party(3, 30, NAME, EXCLUSIVE)), open, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state), (kind::lock::RETENURE, SlotState::Managed));
    assert_eq!(scene.applied(SlotState::Managed), After::Goes);
    scene.acquire(party(4, 40, NAME, SHARED));
    assert_eq!(scene.waiting(), [(3, 30), (2, 20), (4, 40)]);
}
