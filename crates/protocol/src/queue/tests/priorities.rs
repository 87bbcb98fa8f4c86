//! Whom a lock server serves before whom, of its own locks: docs/queue.md, "Priorities".

use super::*;
use crate::line::OVERTAKEN_MOST;
use crate::queue::{CEDED_ORDERS, first_number};
use wayside_wire::Policy;

/// So long is waited for a queue without anybody in it.
const WITHHELD: u64 = 4 * 8 * PAUSE;

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
fn who_says_a_priority_is_withheld_anew_from_when_the_latest_push_was_taken() {
    let mut overflow = Overflow::new(NAME, (PAUSE, 8 * PAUSE), None);
    for order in [1, 2] {
        let attempt = Attempt { order, ..urgent(7, order as Handle, Mode::Exclusive) };
        link(0, |link| overflow.on_acquire(link, &attempt));
    }
    assert_eq!(pushes(&pushed(&mut overflow, 10, &counters(0, 2, 8))), []);
    let tick = |overflow: &mut Overflow, now| pushes(&link(now, |link| overflow.on_tick(link)).1);
    let first = 11 + WITHHELD;
    assert_eq!(tick(&mut overflow, first), [(1, 1, 1)]);
    let taken = first + 20_000;
    assert_eq!(pushes(&pushed(&mut overflow, taken, &counters(1, 2, 8))), []);
    assert_eq!(tick(&mut overflow, first + WITHHELD + 1), []);
    assert_eq!(tick(&mut overflow, taken + WITHHELD + 1), [(2, 2, 2)]);
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
fn where_writers_go_first_they_are_served_before_readers_of_their_priority() {
    for (policy, served) in [(Policy::Fair, [&[2][..], &[3]]), (Policy::WritePreferring, [&[3][..], &[2, 4, 5]])] {
        let config = NodeConfig { policy, ..config() };
        let mut own = Own::new(Time(0), Terms { term: 1, lease: LEASE, patience: PATIENCE }, &config);
        let ticket = held(&mut own);
        acquire(&mut own, 0, &wish(2, Mode::Shared));
        acquire(&mut own, 0, &wish(3, Mode::Exclusive));
        acquire(&mut own, 0, &wish(4, Mode::Shared));
        acquire(&mut own, 0, &urgent(0, 5, Mode::Shared));
        let (first, ticket) = leaves(&mut own, 1, ticket);
        let (second, _) = leaves(&mut own, first[0], ticket);
        assert_eq!((first, second), (served[0].to_vec(), served[1].to_vec()), "{policy:?}");
    }
}

/// One who reads holds, and one who writes waits.
fn read_while_a_writer_waits(policy: Policy) -> Own {
    let config = NodeConfig { policy, ..config() };
    let mut own = Own::new(Time(0), Terms { term: 1, lease: LEASE, patience: PATIENCE }, &config);
    assert_eq!(told(&acquire(&mut own, 0, &wish(1, Mode::Shared))), [(GRANT, 1)]);
    assert_eq!(told(&acquire(&mut own, 0, &wish(2, Mode::Exclusive))), [(QUEUED, 2)]);
    own
}

#[test]
fn where_readers_go_first_they_join_who_reads_though_a_writer_waits() {
    for (policy, answer) in [(Policy::Fair, QUEUED), (Policy::ReadPreferring, GRANT), (Policy::WritePreferring, QUEUED)]
    {
        let mut own = read_while_a_writer_waits(policy);
        assert_eq!(told(&acquire(&mut own, 0, &wish(3, Mode::Shared))), [(answer, 3)], "{policy:?}");
    }
    let mut own = read_while_a_writer_waits(Policy::ReadPreferring);
    let tries = |attempt: Attempt| Attempt { flags: attempt.flags | queue_flag::TRY, ..attempt };
    assert_eq!(told(&acquire(&mut own, 0, &tries(wish(3, Mode::Shared)))), [(GRANT, 3)]);
    assert_eq!(told(&acquire(&mut own, 0, &wish(4, Mode::Exclusive))), [(QUEUED, 4)], "writers wait in their order");
    let line: Vec<(Handle, u8)> = own.line(EPOCH, NAME).map(|one| (one.holder, one.overtaken)).collect();
    assert_eq!(line, [(1, 0), (3, 0), (2, 0), (4, 0)], "nobody has borne anything");
}

/// Nor where a writer holds, where one is more urgent, or where the lock is about to leave.
#[test]
fn where_readers_go_first_they_wait_for_who_writes_or_is_more_urgent_all_the_same() {
    let config = NodeConfig { policy: Policy::ReadPreferring, ..config() };
    let mut own = Own::new(Time(0), Terms { term: 1, lease: LEASE, patience: PATIENCE }, &config);
    let ticket = held(&mut own);
    for (asker, mode) in [(2, Mode::Exclusive), (3, Mode::Shared), (4, Mode::Shared)] {
        assert_eq!(told(&acquire(&mut own, 0, &wish(asker, mode))), [(QUEUED, asker)]);
    }
    assert_eq!(leaves(&mut own, 1, ticket).0, [2], "first come, first served");

    let mut own = read_while_a_writer_waits(Policy::ReadPreferring);
    assert_eq!(told(&acquire(&mut own, 0, &urgent(5, 3, Mode::Exclusive))), [(QUEUED, 3)]);
    assert_eq!(told(&acquire(&mut own, 0, &wish(4, Mode::Shared))), [(QUEUED, 4)]);
    assert_eq!(told(&acquire(&mut own, 0, &urgent(5, 5, Mode::Shared))), [(GRANT, 5)]);

    let mut own = read_while_a_writer_waits(Policy::ReadPreferring);
    link(0, |link| own.stop(link, NAME, 1));
    assert_eq!(told(&acquire(&mut own, 0, &wish(3, Mode::Shared))), [(QUEUED, 3)]);
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

/// An order of the switch's, with a priority.
fn ranked(order: u64, level: u8) -> Attempt {
    Attempt { cause: urgent(level, 1, Mode::Exclusive).cause, ..overflowed(order, order) }
}

#[test]
fn nobody_is_pushed_behind_others_while_somebody_waits_who_says_a_priority() {
    let mut overflow = overflow();
    assert_eq!(pushes(&pushed(&mut overflow, 10, &counters(0, 1, 8))), [(1, 1, 1)]);
    pushed(&mut overflow, 20, &counters(1, 1, 7));
    for (order, level) in [(2, 4), (3, 7), (4, 7), (5, 4)] {
        let sent = link(30, |link| overflow.on_acquire(link, &ranked(order, level))).1;
        assert_eq!(pushes(&sent), if order == 2 { vec![(2, 2, 2)] } else { vec![] }, "whoever comes after {order}");
    }
    assert_eq!(pushes(&pushed(&mut overflow, 40, &counters(2, 5, 7))), [], "there is room, and somebody in the queue");
    // Of before, when nobody was in the queue either.
    assert_eq!(pushes(&room(&mut overflow, 50, &counters(1, 5, 8))), []);
    assert_eq!(pushes(&room(&mut overflow, 50, &counters(2, 2, 8))), []);
    // Now nobody is: one at a time.
    assert_eq!(pushes(&room(&mut overflow, 60, &counters(2, 5, 8))), [(3, 3, 3)]);
    assert_eq!(pushes(&pushed(&mut overflow, 70, &counters(3, 5, 7))), []);
    // Then nobody is left who says anything.
    assert_eq!(pushes(&room(&mut overflow, 80, &counters(3, 5, 8))), [(4, 4, 4), (5, 5, 5)]);
}

#[test]
fn who_says_a_priority_is_pushed_in_the_end_if_nobody_moves_the_lock() {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 1, 8));
    pushed(&mut overflow, 20, &counters(1, 1, 7));
    link(30, |link| overflow.on_acquire(link, &ranked(2, 7)));
    let mut now = 30;
    while now < 30 + 32 * PAUSE {
        now = overflow.due().0.max(now + 1);
        let sent = link(now, |link| overflow.on_tick(link)).1;
        assert!(now > 30 + 32 * PAUSE || pushes(&sent).is_empty(), "at {now}");
    }
    assert_eq!(pushes(&link(now + 1, |link| overflow.on_counters(link, &counters(1, 2, 7), true)).1), []);
    assert_eq!(overflow.waiting().count(), 1, "it is pushed, and not taken yet");
}

/// The first order was pushed and taken, and somebody is in the queue.
fn queued() -> Overflow {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 1, 8));
    pushed(&mut overflow, 20, &counters(1, 1, 7));
    overflow
}

#[test]
fn answers_that_are_no_news_put_off_nobody_who_says_a_priority() {
    let mut overflow = queued();
    link(30, |link| overflow.on_acquire(link, &ranked(2, 7)));
    for now in [1_000, 9_000, 30 + WITHHELD] {
        assert_eq!(pushes(&pushed(&mut overflow, now, &counters(1, 2, 7))), [], "at {now}");
    }
    assert_eq!(pushes(&pushed(&mut overflow, 31 + WITHHELD, &counters(1, 2, 7))), [(2, 2, 2)]);
}

#[test]
fn while_who_says_a_priority_is_withheld_no_more_is_said_than_what_is_settled() {
    let mut overflow = queued();
    link(30, |link| overflow.on_acquire(link, &ranked(2, 7)));
    assert_eq!(kinds(&until(&mut overflow, 30 + WITHHELD)), [kind::queue::SETTLE; 3]);
}

#[test]
fn who_says_a_priority_is_pushed_at_once_where_nobody_is_in_the_queue() {
    let mut overflow = queued();
    link(30, |link| overflow.on_acquire(link, &ranked(2, 7)));
    assert_eq!(pushes(&pushed(&mut overflow, 40, &counters(1, 2, 7))), []);
    assert_eq!(pushes(&room(&mut overflow, 50, &counters(1, 2, 8))), [(2, 2, 2)], "the last that was given an order");
    // A queue begins with nobody in it.
    let waiters = [2, 3].map(|request| Attempt { order: 0, ..ranked(request, 7) });
    let mut ceded = Overflow::new(NAME, (PAUSE, 8 * PAUSE), None).ceded(Time(0), 1, waiters.into_iter());
    let base = first_number(1);
    let sent = pushed(&mut ceded, 20, &counters(base, base + CEDED_ORDERS, 8));
    assert_eq!(pushes(&sent), [(base + 1, base + 1, 2)], "one at a time");
}

#[test]
fn others_are_pushed_at_once_when_nobody_is_left_who_says_a_priority() {
    let gone: [fn(&mut Link<'_>, &mut Overflow); 3] = [
        |link, overflow| overflow.on_cancel(link, 2, 2, true),
        |link, overflow| overflow.on_down(link, 2, |_| true, true),
        // The lock is being taken over.
        |link, overflow| overflow.on_down(link, 2, |_| true, false),
    ];
    let pushed = gone.map(|goes| {
        let mut overflow = queued();
        for attempt in [Attempt { holder: 2, ..ranked(2, 7) }, overflowed(3, 3)] {
            link(30, |link| overflow.on_acquire(link, &attempt));
        }
        assert_eq!(pushes(&pushed(&mut overflow, 40, &counters(1, 3, 7))), []);
        pushes(&link(50, |link| goes(link, &mut overflow)).1)
    });
    assert_eq!(pushed, [vec![(2, 3, 3)], vec![(2, 3, 3)], vec![]]);
}

#[test]
fn a_lock_that_is_asked_for_with_priorities_is_not_ceded() {
    let mut own = own(1);
    let ticket = held(&mut own);
    let recalled = |own: &mut Own, now: u64| link(now, |link| own.stop(link, NAME, 9)).0;
    recalled(&mut own, 10);
    assert_eq!(own.due(), Time(10 + 8 * PAUSE), "nobody is granted it before that");
    acquire(&mut own, 20, &urgent(7, 2, Mode::Exclusive));
    assert!(own.due() > Time(10 + 8 * PAUSE), "it is not to leave");
    assert_eq!(leaves(&mut own, 1, ticket).0, [2]);
    // A holder that renews does not wait.
    let lull = config().lull_us;
    let holder = Attempt { ticket: ticket + 1, ..urgent(7, 2, Mode::Exclusive) };
    acquire(&mut own, lull, &holder);
    link(lull, |link| own.on_release(link, &holder, false));
    recalled(&mut own, 19 + lull);
    assert_eq!(own.is_left(NAME), None, "nobody has it, and somebody waited for it");
    recalled(&mut own, 20 + lull);
    assert_eq!(own.is_left(NAME), Some(9));
}

#[test]
fn who_need_not_wait_keeps_no_lock_from_the_switch() {
    let mut own = own(1);
    let granted = acquire(&mut own, 0, &urgent(7, 2, Mode::Exclusive));
    let tries = Attempt { flags: queue_flag::TRY | queue_flag::EXCLUSIVE, ..urgent(7, 3, Mode::Exclusive) };
    assert_eq!(told(&acquire(&mut own, 1, &tries)), [(kind::queue::BUSY, 3)]);
    assert!(leaves(&mut own, 2, granted[0].2.ticket).0.is_empty());
    link(10, |link| own.stop(link, NAME, 9));
    assert_eq!(own.is_left(NAME), Some(9));
}
