//! A lock server's own locks, one at a time: who is believed, who waits for what, and what becomes of a stop.

use super::*;

const BUSY: u8 = kind::queue::BUSY;
/// Nobody new is granted a lock that the switch wants for so long,
const STOP: u64 = 8 * PAUSE;
/// and then for so long, from its beginning, all goes on.
const AGAIN: u64 = 5 * STOP;

fn stop(own: &mut Own, now: u64, name: u64, id: u64) {
    link(now, |link| own.stop(link, name, id));
}

fn tick(own: &mut Own, now: u64) -> Sent {
    link(now, |link| own.on_tick(link)).1
}

fn release(own: &mut Own, now: u64, holder: Handle, ticket: u64) -> Sent {
    let attempt = Attempt { ticket, ..wish(holder, Mode::Exclusive) };
    link(now, |link| own.on_release(link, &attempt, false)).1
}

/// Says that it holds by this ticket.
fn holds(holder: Handle, mode: Mode, ticket: u64) -> Attempt {
    Attempt { ticket, ..wish(holder, mode) }
}

/// Of the term before.
fn before(count: u64) -> u64 {
    1 << TICKET_BITS | count
}

/// A busy answer to a try, and whether it says that it is of use to ask again.
fn tries(own: &mut Own, now: u64, holder: Handle, mode: Mode) -> Option<bool> {
    let flags = mode_flag(mode) | queue_flag::TRY;
    let mut out = Outbox::new();
    let header = Header { service: wayside_wire::service::QUEUE, source: ME, epoch: EPOCH, ..Header::default() };
    let mut link = Link { now: Time(now), header, out: &mut out };
    own.on_acquire(&mut link, &Attempt { flags, ..wish(holder, mode) });
    // Whatever follows is another answer.
    assert_eq!(link.header.flags, 0);
    let header = wayside_wire::check(out.pop(None)?.packet).expect("a packet");
    (header.kind == BUSY).then_some(header.flags & header_flag::RETRY != 0)
}

#[test]
fn who_asks_again_is_answered_where_it_reads_now() {
    let mut own = own(1);
    let ticket = acquire(&mut own, 0, &wish(1, Mode::Exclusive))[0].2.ticket;
    acquire(&mut own, 0, &Attempt { reply_port: 70, ..wish(2, Mode::Exclusive) });
    acquire(&mut own, 10, &Attempt { reply_port: 71, sent_us: 9, ..wish(2, Mode::Exclusive) });
    // A late copy of what it sent before.
    acquire(&mut own, 20, &Attempt { reply_port: 71, sent_us: 7, ..wish(2, Mode::Exclusive) });
    let granted = release(&mut own, 30, 1, ticket)[0];
    assert_eq!((granted.0, granted.1), (GRANT, 2));
    assert_eq!((granted.2.reply_port, granted.2.sent_us), (71, 9), "a hold runs from the latest that was heard");
    assert_eq!(granted.2.flags, queue_flag::EXCLUSIVE);
    assert_eq!(acquire(&mut own, 40, &wish(2, Mode::Exclusive))[0].2.ticket, granted.2.ticket);
}

#[test]
fn who_names_a_ticket_that_it_has_not_is_told_that_it_is_over() {
    let mut own = own(1);
    let ticket = acquire(&mut own, 0, &wish(1, Mode::Exclusive))[0].2.ticket;
    acquire(&mut own, 0, &wish(2, Mode::Exclusive));
    let sent = acquire(&mut own, 10, &holds(1, Mode::Exclusive, ticket + 1));
    assert_eq!((told(&sent), sent[0].2.over), (vec![(RELEASED, 1)], 1));
    let sent = acquire(&mut own, 10, &holds(2, Mode::Exclusive, ticket));
    assert_eq!(told(&sent), [(RELEASED, 2)], "it waits");
    // Neither has lost anything by that.
    assert_eq!(told(&acquire(&mut own, 20, &holds(1, Mode::Exclusive, ticket))), [(GRANT, 1)]);
    assert_eq!(told(&release(&mut own, 30, 1, ticket)), [(GRANT, 2), (RELEASED, 1)], "whoever waits first");
}

#[test]
fn who_asks_again_keeps_its_place_whatever_it_says_of_tickets() {
    let mut own = own(2);
    for holder in [2, 3] {
        acquire(&mut own, 0, &wish(holder, Mode::Exclusive));
    }
    let line = |own: &Own| own.line(EPOCH, NAME).map(|one| one.holder).collect::<Vec<_>>();
    let of_now = 2 << TICKET_BITS | 1;
    assert_eq!(told(&acquire(&mut own, 10, &holds(2, Mode::Exclusive, of_now))), [(RELEASED, 2)], "nobody's yet");
    assert_eq!(line(&own), [2, 3]);
    let sent = tick(&mut own, PATIENCE);
    assert_eq!((told(&sent), sent[0].2.ticket), (vec![(GRANT, 2)], of_now));
    acquire(&mut own, PATIENCE, &wish(4, Mode::Exclusive));
    assert_eq!(told(&acquire(&mut own, PATIENCE, &holds(3, Mode::Exclusive, before(6)))), [(RELEASED, 3)], "too late");
    assert_eq!(told(&acquire(&mut own, PATIENCE, &wish(3, Mode::Exclusive))), [(QUEUED, 3)]);
    assert_eq!(line(&own), [2, 3, 4]);
}

#[test]
fn a_try_is_worth_another_only_where_nobody_may_be_granted_anything_yet() {
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Shared));
    assert_eq!(tries(&mut own, 0, 2, Mode::Exclusive), Some(false), "somebody holds it");
    stop(&mut own, 10, NAME, 9);
    assert_eq!(tries(&mut own, 20, 2, Mode::Shared), Some(true), "it is to move");
    assert_eq!(tries(&mut super::own(2), 0, 2, Mode::Shared), Some(true), "who holds it is not known");
}

#[test]
fn new_wishes_are_counted_with_those_that_are_there() {
    let mut own = own(1);
    let mut count = |attempt: &Attempt| link(0, |link| own.on_acquire(link, attempt)).0;
    assert_eq!(count(&wish(1, Mode::Exclusive)), Some(1));
    assert_eq!(count(&wish(2, Mode::Exclusive)), Some(2));
    assert_eq!(count(&wish(2, Mode::Exclusive)), None, "asked again");
    let tries = Attempt { flags: queue_flag::TRY | queue_flag::EXCLUSIVE, ..wish(3, Mode::Exclusive) };
    assert_eq!((count(&tries), count(&tries)), (Some(3), Some(3)), "it does not stay");
}

// ---- stops ----

#[test]
fn what_is_stopped_for_the_switch_is_due_when_the_first_of_its_stops_ends() {
    let mut own = own(1);
    for (name, now) in [(NAME, 100), (NAME + 1, 50), (NAME + 2, 200)] {
        acquire(&mut own, 0, &Attempt { name, ..wish(1, Mode::Shared) });
        stop(&mut own, now, name, 9);
    }
    assert_eq!(own.due(), Time(50 + STOP));
    tick(&mut own, 50 + STOP);
    assert_eq!(own.due(), Time(100 + STOP));
    drop(own.cede(NAME));
    assert_eq!(own.due(), Time(200 + STOP), "what is ceded is not due any more");
    tick(&mut own, 200 + STOP);
    assert_eq!(own.due(), Time(PATIENCE), "who is silent is looked for");
    tick(&mut own, PATIENCE);
    assert_eq!(own.due(), Time(PATIENCE + PATIENCE / 4), "every now and then");
}

#[test]
fn a_lock_is_stopped_for_a_pause_in_five() {
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Shared));
    stop(&mut own, 0, NAME, 9);
    assert_eq!(told(&acquire(&mut own, 10, &wish(2, Mode::Shared))), [(QUEUED, 2)]);
    assert_eq!(told(&tick(&mut own, STOP)), [(GRANT, 2)]);
    stop(&mut own, AGAIN - 1, NAME, 9);
    assert_eq!(told(&acquire(&mut own, AGAIN - 1, &wish(3, Mode::Shared))), [(GRANT, 3)]);
    stop(&mut own, AGAIN, NAME, 10);
    assert_eq!(told(&acquire(&mut own, AGAIN, &wish(4, Mode::Shared))), [(QUEUED, 4)]);
    for (holder, ticket) in [(1, 1), (2, 2), (3, 3)] {
        assert_eq!(own.is_left(NAME), None);
        release(&mut own, AGAIN + 10, holder, before(ticket));
    }
    assert_eq!((own.is_left(NAME), own.first_left()), (Some(10), Some((NAME, 10))));
}

/// The switch has it, or had it a moment ago.
#[test]
fn a_lock_that_is_closed_is_not_stopped() {
    let mut own = own(1);
    own.close(NAME);
    stop(&mut own, 0, NAME, 9);
    assert_eq!((own.is_left(NAME), own.first_left()), (None, None));
    link(10, |link| own.open(link, NAME, core::iter::empty()));
    stop(&mut own, 10, NAME, 9);
    assert_eq!(own.is_left(NAME), Some(9));
}

#[test]
fn a_term_that_has_used_its_tickets_cedes_nothing_and_grants_nothing() {
    /// The first that it has not.
    const ABOVE: u64 = 2 << TICKET_BITS;
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Exclusive));
    stop(&mut own, 0, NAME, 9);
    assert!(own.raise(ABOVE) && own.is_exhausted());
    release(&mut own, 10, 1, before(1));
    assert_eq!((own.is_left(NAME), own.first_left()), (None, None), "its next ticket would be another term's");
    assert_eq!(told(&tick(&mut own, STOP)), []);
    assert_eq!(told(&acquire(&mut own, STOP, &wish(2, Mode::Exclusive))), []);
    let mut other = super::own(1);
    assert!(other.raise(ABOVE));
    stop(&mut other, 0, NAME, 9);
    assert_eq!(other.due(), Time(PATIENCE), "nor is it stopped");
}

#[test]
fn who_waits_goes_to_the_switch_as_it_asked() {
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Exclusive));
    acquire(&mut own, 0, &Attempt { reply_port: 70, sent_us: 8, ..wish(2, Mode::Shared) });
    acquire(&mut own, 0, &wish(3, Mode::Exclusive));
    let (first, waiting) = own.cede(NAME);
    let waiting: Vec<Attempt> = waiting.collect();
    let asked = [Attempt { reply_port: 70, sent_us: 8, ..wish(2, Mode::Shared) }, wish(3, Mode::Exclusive)];
    assert_eq!(waiting, asked, "not who holds");
    assert_eq!(first, before(3), "the second is nobody's");
}

// ---- locks that come back ----

#[test]
fn who_asked_again_while_a_lock_came_back_has_one_place_and_those_of_the_switch_are_first() {
    let mut own = own(1);
    own.close(NAME);
    for holder in [4, 2, 3] {
        assert_eq!(told(&acquire(&mut own, 0, &wish(holder, Mode::Exclusive))), [(QUEUED, holder)]);
    }
    let first = [1, 2, 3].map(|holder| wish(holder, Mode::Exclusive));
    let sent = link(10, |link| own.open(link, NAME, first.into_iter())).1;
    assert_eq!(told(&sent), [(GRANT, 1)]);
    for (ticket, holder, next) in [(1, 1, Some(2)), (2, 2, Some(3)), (3, 3, Some(4)), (4, 4, None)] {
        let granted = told(&release(&mut own, 20, holder, before(ticket)));
        assert_eq!(granted[0], next.map_or((RELEASED, holder), |next| (GRANT, next)), "after {holder}");
    }
}

/// Otherwise whoever has waited for a lease would get a hold that is all but over.
#[test]
fn a_hold_lasts_from_when_its_holder_was_heard_last_before_the_lock_came_back() {
    let sent_at = |holder: Handle, sent_us: u64| Attempt { sent_us, ..wish(holder, Mode::Exclusive) };
    let granted = |sent: Sent| {
        let grant = sent.into_iter().find(|(kind, ..)| *kind == GRANT).expect("a grant").2;
        (grant.holder, grant.reply_port, grant.sent_us)
    };
    // While it waited for the switch's queue.
    let mut overflow = Overflow::new(NAME, (PAUSE, 8 * PAUSE), None);
    for (order, sent_us, reply_port) in [(1, 100, 4), (2, 900, 5), (3, 500, 5)] {
        let attempt = Attempt { order, reply_port, ..sent_at(1, sent_us) };
        assert!(link(0, |link| overflow.on_acquire(link, &attempt)).0);
    }
    assert_eq!(overflow.waiting().map(|attempt| (attempt.sent_us, attempt.reply_port)).collect::<Vec<_>>(), [(900, 5)]);
    // Among those who have been pushed, too.
    pushed(&mut overflow, 10, &counters(0, 3, 1));
    link(20, |link| overflow.on_acquire(link, &Attempt { order: 4, reply_port: 6, ..sent_at(1, 950) }));
    let waiting: Vec<Attempt> = overflow.waiting().copied().collect();
    let mut own = own(1);
    assert_eq!(granted(link(30, |link| own.open(link, NAME, waiting.iter().copied())).1), (1, 6, 950));
    // While the lock came back, by the server itself.
    for (heard, lasts_from) in [(990, 990), (910, 950)] {
        let mut own = super::own(1);
        own.close(NAME);
        acquire(&mut own, 25, &Attempt { reply_port: 7, ..sent_at(1, heard) });
        assert_eq!(granted(link(30, |link| own.open(link, NAME, waiting.iter().copied())).1), (1, 7, lasts_from));
    }
}

#[test]
fn a_lock_that_came_back_with_a_priority_in_its_line_stays_for_a_while() {
    let lull = config().lull_us;
    let waits = |first: &[Attempt], later: &[Attempt]| {
        let mut own = own(1);
        own.close(NAME);
        for attempt in later {
            acquire(&mut own, 0, attempt);
        }
        link(10, |link| own.open(link, NAME, first.iter().copied()));
        // Everybody leaves at once.
        link(20, |link| own.on_down(link, 1, |_| true));
        link(20, |link| own.on_down(link, 2, |_| true));
        stop(&mut own, 30, NAME, 9);
        let stays = own.is_left(NAME).is_none();
        stop(&mut own, 10 + lull, NAME, 9);
        assert_eq!(own.is_left(NAME), Some(9));
        stays
    };
    let (plain, other) = (wish(1, Mode::Exclusive), wish(2, Mode::Exclusive));
    let said = urgent(7, 2, Mode::Exclusive);
    assert!(!waits(&[plain, other], &[]) && !waits(&[], &[plain, other]));
    assert!(waits(&[plain, said], &[]) && waits(&[], &[plain, said]) && waits(&[plain], &[said]));
}

// ---- priorities ----

#[test]
fn who_waits_on_with_a_priority_keeps_the_lock_for_as_long_as_it_asks() {
    let mut own = own(1);
    let lull = config().lull_us;
    acquire(&mut own, 0, &wish(1, Mode::Exclusive));
    acquire(&mut own, 0, &urgent(7, 2, Mode::Exclusive));
    acquire(&mut own, lull / 2, &urgent(7, 2, Mode::Exclusive));
    release(&mut own, lull / 2, 1, before(1));
    release(&mut own, lull / 2, 2, before(2));
    stop(&mut own, 3 * lull / 2 - 1, NAME, 9);
    assert_eq!(own.is_left(NAME), None);
    stop(&mut own, 3 * lull / 2, NAME, 9);
    assert_eq!(own.is_left(NAME), Some(9));
}

#[test]
fn who_waits_for_the_move_alone_does_not_keep_the_lock_by_its_priority() {
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Shared));
    stop(&mut own, 10, NAME, 9);
    for now in [20, 30] {
        assert_eq!(told(&acquire(&mut own, now, &urgent(7, 2, Mode::Shared))), [(QUEUED, 2)], "at {now}");
    }
    release(&mut own, 40, 1, before(1));
    assert_eq!(own.is_left(NAME), Some(9));
}

/// It has waited since before the switch wanted the lock, and for longer than a priority counts.
#[test]
fn who_says_again_that_it_waits_with_a_priority_ends_a_stop_for_all() {
    let mut own = own(1);
    let lull = config().lull_us;
    acquire(&mut own, 0, &wish(1, Mode::Shared));
    acquire(&mut own, 0, &urgent(5, 2, Mode::Exclusive));
    stop(&mut own, lull, NAME, 9);
    assert_eq!(told(&acquire(&mut own, lull + 10, &urgent(7, 3, Mode::Shared))), [(QUEUED, 3)]);
    let sent = acquire(&mut own, lull + 20, &urgent(5, 2, Mode::Exclusive));
    assert_eq!(told(&sent), [(QUEUED, 2), (GRANT, 3)], "nobody but the move kept it waiting");
    release(&mut own, lull + 30, 1, before(1));
    release(&mut own, lull + 30, 3, before(2));
    assert_eq!(own.is_left(NAME), None, "2 has it");
}

// ---- holders of terms before ----

#[test]
fn readers_of_a_term_before_are_all_believed_and_who_waits_waits_on() {
    let mut own = own(2);
    for attempt in [wish(3, Mode::Shared), wish(4, Mode::Exclusive)] {
        acquire(&mut own, 0, &attempt);
    }
    for (holder, count) in [(1, 8), (2, 6)] {
        let sent = acquire(&mut own, 10, &holds(holder, Mode::Shared, before(count)));
        assert_eq!((told(&sent), sent[0].2.ticket), (vec![(GRANT, holder)], before(count)));
    }
    // A writer of before the later of them: over. One of after both: they are.
    assert_eq!(told(&acquire(&mut own, 20, &holds(5, Mode::Exclusive, before(7)))), [(RELEASED, 5)]);
    assert_eq!(told(&acquire(&mut own, 30, &holds(5, Mode::Exclusive, before(9)))), [(GRANT, 5)]);
    assert_eq!(told(&acquire(&mut own, 40, &holds(1, Mode::Shared, before(8)))), [(RELEASED, 1)]);
    let line: Vec<(Handle, bool)> = own.line(EPOCH, NAME).map(|one| (one.holder, one.token.is_some())).collect();
    assert_eq!(line, [(5, true), (3, false), (4, false)]);
    tick(&mut own, PATIENCE);
    assert_eq!(told(&release(&mut own, PATIENCE, 5, before(9))), [(GRANT, 3), (RELEASED, 5)]);
}

#[test]
fn what_was_wished_for_before_it_was_granted_is_that_holders_wish_alone() {
    let mut own = own(2);
    for holder in [1, 3] {
        acquire(&mut own, 0, &wish(holder, Mode::Exclusive));
    }
    acquire(&mut own, 10, &holds(1, Mode::Exclusive, before(6)));
    let line: Vec<Handle> = own.line(EPOCH, NAME).map(|one| one.holder).collect();
    assert_eq!(line, [1, 3]);
    // Said again it is a renewal.
    assert_eq!(told(&acquire(&mut own, 20, &holds(1, Mode::Exclusive, before(6)))), [(GRANT, 1)]);
    assert_eq!(own.line(EPOCH, NAME).count(), 2);
}

/// Each name that is ever asked for would take memory, and time at every look at the silent.
#[test]
fn names_that_nobody_has_or_wants_are_forgotten() {
    let mut own = own(2);
    assert_eq!(tries(&mut own, 0, 4, Mode::Shared), Some(true), "it grants nothing yet");
    assert_eq!(own.names_known(), (0, 0), "who was told to come again left nothing");
    tick(&mut own, PATIENCE);
    let stranger = holds(1, Mode::Exclusive, before(6));
    assert_eq!(told(&acquire(&mut own, PATIENCE, &stranger)), [(RELEASED, 1)]);
    assert_eq!(own.names_known(), (0, 0), "who came too late to say that it holds neither");

    let ticket = acquire(&mut own, PATIENCE, &wish(1, Mode::Exclusive))[0].2.ticket;
    acquire(&mut own, PATIENCE, &urgent(7, 2, Mode::Exclusive));
    assert_eq!(own.names_known(), (1, 1));
    let look = own.due().0;
    tick(&mut own, look);
    assert_eq!(own.names_known(), (1, 1), "it was asked for with a priority just now");
    let next = release(&mut own, PATIENCE, 1, ticket)[0].2.ticket;
    assert_eq!(own.names_known().0, 1, "the other one has it");
    release(&mut own, PATIENCE, 2, next);
    assert_eq!(own.names_known().0, 0);

    acquire(&mut own, 2 * PATIENCE, &wish(1, Mode::Exclusive));
    let mut now = own.due().0;
    while own.names_known().0 > 0 {
        assert!(now <= 4 * PATIENCE, "it is silent");
        tick(&mut own, now);
        now = own.due().0;
    }
    tick(&mut own, PATIENCE + config().lull_us.max(now));
    assert_eq!(own.names_known(), (0, 0), "and for long nobody has asked with a priority");
}

/// Its hold lasts from its grant on, however long it has waited since it asked.
#[test]
fn who_is_granted_a_lock_has_it_for_as_long_as_if_it_had_just_asked() {
    let mut own = own(1);
    let first = acquire(&mut own, 0, &wish(1, Mode::Exclusive))[0].2.ticket;
    acquire(&mut own, 0, &wish(2, Mode::Exclusive));
    tick(&mut own, PATIENCE);
    // It has not been heard since, and need not have been.
    assert_eq!(told(&release(&mut own, PATIENCE + 1, 1, first)), [(GRANT, 2), (RELEASED, 1)]);
    acquire(&mut own, PATIENCE + 1, &wish(3, Mode::Exclusive));
    let holds = |own: &Own| own.line(EPOCH, NAME).filter(|one| one.token.is_some()).map(|one| one.holder).next();
    for at in [5 * PATIENCE / 4, 3 * PATIENCE / 2, 7 * PATIENCE / 4, 2 * PATIENCE] {
        assert_eq!(told(&tick(&mut own, at)), []);
        assert_eq!(holds(&own), Some(2), "at {at}");
    }
    acquire(&mut own, 2 * PATIENCE, &wish(3, Mode::Exclusive));
    assert_eq!(told(&tick(&mut own, 9 * PATIENCE / 4)), [(GRANT, 3)], "it was silent for longer");
}

#[test]
fn a_grant_says_how_it_is_held() {
    for (mode, flags) in [(Mode::Exclusive, queue_flag::EXCLUSIVE), (Mode::Shared, 0)] {
        let sent = acquire(&mut own(1), 0, &wish(1, mode));
        assert_eq!((told(&sent), sent[0].2.flags), (vec![(GRANT, 1)], flags));
    }
}
