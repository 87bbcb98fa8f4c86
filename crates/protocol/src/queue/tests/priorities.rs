//! Whom a lock server serves before whom, of its own locks: docs/queue.md, "Priorities".

use super::*;
use crate::line::{OVERTAKEN_MOST, Priority, Rank};

fn urgent(level: u8, holder: Handle, mode: Mode) -> Attempt {
    let priority = Priority::new(level).expect("a level");
    Attempt { cause: Rank::newcomer(priority).to_byte(), ..wish(holder, mode) }
}

/// Node 1 has the lock. Its ticket.
fn held(own: &mut Own) -> u64 {
    acquire(own, 0, &wish(1, Mode::Exclusive))[0].2.ticket
}

/// Who is granted when one leaves, and the ticket of the first of them.
fn leaves(own: &mut Own, holder: Handle, ticket: u64) -> (Vec<Handle>, u64) {
    let sent = link(0, |link| own.on_release(link, &Attempt { ticket, ..wish(holder, Mode::Exclusive) }, false)).1;
    let granted: Vec<&Attempt> =
        sent.iter().filter(|(kind, ..)| *kind == GRANT).map(|(_, _, attempt)| attempt).collect();
    (granted.iter().map(|attempt| attempt.holder).collect(), granted.first().map_or(0, |attempt| attempt.ticket))
}

#[test]
fn the_most_urgent_is_served_first_and_equals_in_their_order() {
    let mut own = own(1);
    let mut ticket = held(&mut own);
    let mut holder = 1;
    for (level, asker) in [(4, 2), (0, 3), (7, 4), (4, 5), (7, 6)] {
        assert_eq!(told(&acquire(&mut own, 0, &urgent(level, asker, Mode::Exclusive))), [(QUEUED, asker)]);
    }
    for next in [4, 6, 2, 5, 3] {
        let (granted, its) = leaves(&mut own, holder, ticket);
        assert_eq!(granted, [next]);
        assert!(its > ticket, "tokens rise, whoever is first");
        (holder, ticket) = (next, its);
    }
}

#[test]
fn a_request_is_overtaken_so_often_and_no_more() {
    let mut own = own(1);
    let mut ticket = held(&mut own);
    let mut holder = 1;
    acquire(&mut own, 0, &urgent(0, 2, Mode::Exclusive));
    for count in 0..u16::from(OVERTAKEN_MOST) + 2 {
        acquire(&mut own, 0, &urgent(7, 10 + count, Mode::Exclusive));
    }
    for served in 0..=u16::from(OVERTAKEN_MOST) {
        let (granted, its) = leaves(&mut own, holder, ticket);
        assert_eq!(granted, [if served < u16::from(OVERTAKEN_MOST) { 10 + served } else { 2 }]);
        (holder, ticket) = (granted[0], its);
    }
}

#[test]
fn readers_and_tries_go_before_a_writer_that_is_less_urgent_alone() {
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Shared));
    acquire(&mut own, 0, &wish(2, Mode::Exclusive));
    let tries = |attempt: Attempt| Attempt { flags: attempt.flags | queue_flag::TRY, ..attempt };
    assert_eq!(told(&acquire(&mut own, 0, &wish(3, Mode::Shared))), [(QUEUED, 3)]);
    assert_eq!(told(&acquire(&mut own, 0, &tries(wish(4, Mode::Shared)))), [(kind::queue::BUSY, 4)]);
    assert_eq!(told(&acquire(&mut own, 0, &urgent(5, 5, Mode::Shared))), [(GRANT, 5)]);
    assert_eq!(told(&acquire(&mut own, 0, &tries(urgent(5, 6, Mode::Shared)))), [(GRANT, 6)]);
}

#[test]
fn who_comes_back_from_the_switch_has_its_priority_still() {
    let mut own = own(1);
    let ticket = held(&mut own);
    for asker in [urgent(0, 2, Mode::Exclusive), urgent(7, 3, Mode::Exclusive)] {
        acquire(&mut own, 0, &asker);
    }
    leaves(&mut own, 1, ticket);
    let (_, waiting) = own.cede(NAME);
    let waiting: Vec<Attempt> = waiting.collect();
    assert_eq!(waiting.iter().map(|attempt| attempt.holder).collect::<Vec<_>>(), [2]);
    let mut own = super::own(1);
    let ticket = held(&mut own);
    own.close(NAME);
    acquire(&mut own, 0, &wish(5, Mode::Exclusive));
    link(0, |link| own.open(link, NAME, waiting.into_iter()));
    assert_eq!(leaves(&mut own, 1, ticket).0, [5], "what was first is less urgent");
}
