//! A lock server whose locks go to the switch and come back: docs/queue.md, "Moves".

use super::*;
use crate::queue::{CEDED_ORDERS, first_number};

const PUSHED: u8 = kind::queue::PUSHED;
const CEDED: u8 = kind::queue::CEDED;
const TAKEN: u8 = kind::queue::TAKEN;
const QUEUED: u8 = kind::queue::QUEUED;

/// The lock server, in the first term.
fn server() -> LockServer {
    let mut server = LockServer::new(&config(), INCARNATION);
    server.start(Time(0));
    serving(&mut server, 0, 0, 1);
    server
}

fn say(server: &mut LockServer, now: u64, kind: u8, attempt: &Attempt) -> Sent {
    let of_holders = [kind::queue::ACQUIRE, kind::queue::RELEASE, kind::queue::CANCEL];
    let from = |kind| if of_holders.contains(&kind) { attempt.holder } else { 0 };
    let header = Header { kind, source: from(kind), destination: ME, ..Header::default() };
    link(now, |link| server.on_packet(link, &header, attempt)).1
}

fn asks(server: &mut LockServer, now: u64, holder: Handle, mode: Mode) -> Sent {
    say(server, now, kind::queue::ACQUIRE, &wish(holder, mode))
}

fn recall(server: &mut LockServer, now: u64, id: u64) -> Sent {
    say(server, now, kind::queue::RECALL, &Attempt { name: NAME, number: id, holder: ME, ..Attempt::default() })
}

fn yields(server: &mut LockServer, now: u64, ticket: u64, given: u64, pushed: u64) -> Sent {
    let attempt = Attempt { name: NAME, ticket, order: given, number: pushed, holder: ME, ..Attempt::default() };
    say(server, now, kind::queue::YIELD, &attempt)
}

fn releases(server: &mut LockServer, now: u64, holder: Handle, ticket: u64) -> Sent {
    say(server, now, kind::queue::RELEASE, &Attempt { ticket, ..wish(holder, Mode::Exclusive) })
}

/// Node 1 held it, nodes 2 and 3 wait for it, and it was ceded for move 9. The switch's first ticket.
fn ceded(server: &mut LockServer) -> u64 {
    let held = asks(server, 10, 1, Mode::Exclusive)[0].2.ticket;
    for holder in [2, 3] {
        assert_eq!(told(&asks(server, 20, holder, Mode::Exclusive)), [(QUEUED, holder)]);
    }
    assert_eq!(recall(server, 30, 9), [], "somebody holds it");
    let sent = releases(server, 40, 1, held);
    assert_eq!(kinds(&sent), [kind::queue::RELEASED, CEDED], "and nobody is granted it any more");
    assert_eq!(sent[1].2.number, 9);
    assert!(sent[1].2.ticket > held + 1, "no other queue began there");
    sent[1].2.ticket
}

#[test]
fn a_recalled_lock_is_ceded_once_its_holder_has_left() {
    let mut server = server();
    let first = ceded(&mut server);
    let asked = link(40 + PAUSE, |link| server.on_tick(link)).1;
    assert!(told(&asked).contains(&(kind::queue::SETTLE, 0)), "whether the switch has it: {asked:?}");
    let again = recall(&mut server, 50, 9);
    assert_eq!((again[0].0, again[0].2.ticket), (CEDED, first), "if that was lost");
    assert_eq!(recall(&mut server, 50, 11)[0].2.number, 11, "a controller that has begun anew");
    assert_eq!(recall(&mut server, 50, 10), [], "the one before it");
}

#[test]
fn who_waited_is_pushed_in_order_and_before_who_was_given_an_order_by_the_switch() {
    let mut server = server();
    let first = ceded(&mut server);
    let base = first_number(first);
    // Under way before the queue was there, and given by the queue.
    assert_eq!(told(&asks(&mut server, 60, 4, Mode::Exclusive)), [(QUEUED, 4)]);
    let by_switch = Attempt { order: base + CEDED_ORDERS + 1, ..wish(5, Mode::Exclusive) };
    say(&mut server, 70, kind::queue::ACQUIRE, &by_switch);
    // Of an earlier queue of the name.
    let counters =
        |number, room| Attempt { name: NAME, number, order: base + CEDED_ORDERS + 1, room, ..Attempt::default() };
    assert_eq!(pushes(&say(&mut server, 80, PUSHED, &counters(base - 1, 8))), []);
    let sent = say(&mut server, 80, PUSHED, &counters(base, 8));
    assert_eq!(pushes(&sent), [(base + 1, base + 1, 2), (base + 2, base + 2, 3), (base + 3, base + 3, 4)]);
    // Nobody else of the server's own comes within a pause.
    say(&mut server, 90, PUSHED, &counters(base + 3, 8));
    let sent = link(80 + PAUSE, |link| server.on_tick(link)).1;
    assert_eq!(pushes(&sent), [(base + 4, base + CEDED_ORDERS + 1, 5)]);
    assert_eq!(asks(&mut server, 3_000, 6, Mode::Exclusive), [], "too late: the switch has the lock");
}

#[test]
fn a_holder_who_stays_keeps_others_waiting_for_a_pause_only() {
    let mut server = server();
    asks(&mut server, 10, 1, Mode::Shared);
    recall(&mut server, 20, 9);
    assert_eq!(told(&asks(&mut server, 30, 2, Mode::Shared)), [(QUEUED, 2)]);
    let tries = Attempt { flags: queue_flag::TRY, ..wish(3, Mode::Shared) };
    assert_eq!(told(&say(&mut server, 30, kind::queue::ACQUIRE, &tries)), [(kind::queue::BUSY, 3)]);
    assert!(server.next_timer() <= Time(20 + 8 * PAUSE));
    let sent = link(20 + 8 * PAUSE, |link| server.on_tick(link)).1;
    assert!(told(&sent).contains(&(GRANT, 2)), "{sent:?}");
    recall(&mut server, 9_000, 9);
    assert_eq!(told(&asks(&mut server, 9_000, 4, Mode::Shared)), [(GRANT, 4)], "it is not stopped again at once");
}

#[test]
fn a_lock_that_was_handed_over_is_granted_from_its_ticket_on_first_those_who_overflowed() {
    let mut server = server();
    let overflowed = |order| Attempt { order, ..wish(order as Handle, Mode::Exclusive) };
    say(&mut server, 10, kind::queue::ACQUIRE, &overflowed(2));
    // The first that comes after the move, before YIELD and before an order that was given before it.
    let after = Attempt { over: 700, ..wish(8, Mode::Exclusive) };
    assert_eq!(told(&say(&mut server, 20, kind::queue::ACQUIRE, &after)), [(QUEUED, 8)]);
    assert_eq!(kinds(&yields(&mut server, 30, 700, 3, 0)), [TAKEN], "two orders are missing");
    say(&mut server, 40, kind::queue::ACQUIRE, &overflowed(1));
    let sent = say(&mut server, 50, kind::queue::ACQUIRE, &overflowed(3));
    let granted: Vec<_> = sent.iter().filter(|sent| sent.0 == GRANT).map(|sent| (sent.1, sent.2.ticket)).collect();
    let ticket = 1 << TICKET_BITS | 1;
    assert_eq!(granted, [(1, ticket)], "of this term, which is above 700");
    for (holder, next) in [(1, 2), (2, 3), (3, 8)] {
        let sent = releases(&mut server, 60, holder, ticket + u64::from(holder) - 1);
        assert!(told(&sent).contains(&(GRANT, next)), "{holder}: {sent:?}");
    }
}

#[test]
fn tickets_go_on_from_those_of_the_switch_and_what_is_late_of_the_queue_changes_nothing() {
    let mut server = server();
    let ticket = (1 << TICKET_BITS) + 5_000;
    assert_eq!(kinds(&yields(&mut server, 10, ticket, 0, 0)), [TAKEN]);
    assert_eq!(asks(&mut server, 20, 1, Mode::Exclusive)[0].2.ticket, ticket);
    assert_eq!(kinds(&yields(&mut server, 30, ticket, 0, 0)), [TAKEN], "said again");
    let late = Attempt { order: 4, ..wish(2, Mode::Exclusive) };
    assert_eq!(say(&mut server, 40, kind::queue::ACQUIRE, &late), []);
    let room = Attempt { name: NAME, order: 4, number: 2, room: 1, ..Attempt::default() };
    assert_eq!(say(&mut server, 40, kind::queue::ROOM, &room), [], "nor does this");
    assert_eq!(yields(&mut server, 50, 2 << TICKET_BITS | 7, 0, 0), [], "no ticket of this term is above");
}

#[test]
fn an_order_that_is_lost_is_waited_for_a_pause() {
    let mut server = server();
    yields(&mut server, 10, 50, 3, 0);
    assert_eq!(told(&asks(&mut server, 20, 1, Mode::Exclusive)), [(QUEUED, 1)]);
    let sent = link(10 + PAUSE, |link| server.on_tick(link)).1;
    assert!(told(&sent).contains(&(GRANT, 1)), "{sent:?}");
}

#[test]
fn of_locks_that_are_taken_over_each_is_waited_for_a_pause() {
    let mut server = server();
    yields(&mut server, 10, 50, 3, 0);
    let other = Attempt { name: NAME + 1, ticket: 50, order: 3, holder: ME, ..Attempt::default() };
    say(&mut server, 500, kind::queue::YIELD, &other);
    assert_eq!(server.next_timer(), Time(10 + PAUSE));
    link(10 + PAUSE, |link| server.on_tick(link));
    assert_eq!(server.next_timer(), Time(500 + PAUSE));
}

#[test]
fn what_is_due_for_many_locks_goes_as_the_network_has_room() {
    const LOCKS: u64 = 40;
    let mut server = server();
    for name in 1..=LOCKS {
        say(&mut server, 10, kind::queue::ACQUIRE, &Attempt { name, order: 1, ..wish(1, Mode::Exclusive) });
    }
    let mut said = Vec::new();
    let mut calls = 0;
    while server.next_timer() <= Time(10 + PAUSE) {
        let sent = link(10 + PAUSE, |link| server.on_tick(link)).1;
        assert!(sent.len() < LOCKS as usize / 2, "{} at a time", sent.len());
        said.extend(sent.iter().map(|(_, _, attempt)| attempt.name));
        calls += 1;
    }
    said.sort_unstable();
    assert!(said.into_iter().eq(1..=LOCKS) && calls > 2, "each once");
}

#[test]
fn a_server_that_does_not_know_yet_who_holds_cedes_nothing() {
    let mut server = LockServer::new(&config(), INCARNATION);
    server.start(Time(0));
    serving(&mut server, 0, 0, 2);
    assert_eq!(recall(&mut server, 10, 9), []);
    assert_eq!(kinds(&recall(&mut server, PATIENCE, 9)), [CEDED]);
}

#[test]
fn a_lock_server_tells_in_each_window_what_it_is_asked_for_and_who_waits_for_the_switch() {
    let mut server = server();
    let asked = |server: &mut LockServer, now| {
        let sent = link(now, |link| server.on_tick(link)).1;
        let of = |(_, _, attempt): &(u8, Handle, Attempt)| (attempt.name, attempt.number, attempt.order, attempt.room);
        sent.iter().filter(|(kind, ..)| *kind == kind::queue::ASKED).map(of).collect::<Vec<_>>()
    };
    let held = asks(&mut server, 10, 1, Mode::Exclusive)[0].2.ticket;
    asks(&mut server, 20, 2, Mode::Exclusive);
    // Again, and a renewal.
    asks(&mut server, 30, 2, Mode::Exclusive);
    say(&mut server, 40, kind::queue::ACQUIRE, &Attempt { ticket: held, ..wish(1, Mode::Exclusive) });
    assert_eq!(asked(&mut server, WINDOW - 1), []);
    assert_eq!(asked(&mut server, WINDOW), [(NAME, 1, 2, 2)], "two asked, both at a time");
    assert_eq!(asked(&mut server, 2 * WINDOW), [], "nobody asked");
    // In the third window the lock is ceded, with who waits for it.
    recall(&mut server, 2 * WINDOW + 10, 9);
    releases(&mut server, 2 * WINDOW + 20, 1, held);
    assert_eq!(asked(&mut server, 3 * WINDOW), [(NAME, 3, 0, 1)]);
}

#[test]
fn a_queue_that_nobody_waits_for_is_not_told_of() {
    let mut server = server();
    overflowing(&mut server);
    for holder in [1, 2] {
        link(30, |link| server.on_down(link, holder, |_| true));
    }
    say(&mut server, 40, PUSHED, &counters(1, 3, 1));
    let sent = link(WINDOW, |link| server.on_tick(link)).1;
    assert!(!kinds(&sent).contains(&kind::queue::ASKED), "{sent:?}");
}

/// Long enough for every packet of it to have come; a lock that is away, or whose hand-over has begun, stays known.
#[test]
fn a_move_is_forgotten_once_nothing_of_it_can_be_late() {
    const LATEST: u64 = 60_000_000;
    let mut server = server();
    let ticket = (1 << TICKET_BITS) + 5_000;
    let late = Attempt { order: 4, ..wish(2, Mode::Exclusive) };
    yields(&mut server, 10, ticket, 0, 0);
    for now in [LATEST / 2, LATEST] {
        link(now, |link| server.on_tick(link));
        assert_eq!(say(&mut server, now, kind::queue::ACQUIRE, &late), [], "a copy of before the move");
    }
    assert_eq!(server.moves_known(), 1);
    assert!(server.next_timer() <= Time(2 * LATEST));
    link(2 * LATEST, |link| server.on_tick(link));
    assert_eq!(server.moves_known(), 0);
    // The lock is its own as before, and may move again.
    let granted = asks(&mut server, 2 * LATEST, 1, Mode::Exclusive);
    assert!(granted[0].0 == GRANT && granted[0].2.ticket >= ticket, "{granted:?}");
    recall(&mut server, 2 * LATEST, 9);
    let first = releases(&mut server, 2 * LATEST, 1, granted[0].2.ticket)[1].2.ticket;
    link(5 * LATEST, |link| server.on_tick(link));
    assert_eq!(server.moves_known(), 1, "the switch has it");
    // Handed back, as a request says first; the controller is away.
    asks_handed(&mut server, 5 * LATEST, first + 7);
    link(8 * LATEST, |link| server.on_tick(link));
    assert_eq!(server.moves_known(), 1, "it has been taken just now");
    assert_eq!(kinds(&yields(&mut server, 8 * LATEST, first + 7, 0, 0))[0], TAKEN);
}

/// A request for a lock that the switch has handed here, with this ticket.
fn asks_handed(server: &mut LockServer, now: u64, ticket: u64) {
    let after = Attempt { over: ticket, ..wish(8, Mode::Exclusive) };
    assert_eq!(told(&say(server, now, kind::queue::ACQUIRE, &after)), [(QUEUED, 8)]);
}

/// A lock server of a later term hears late that the lock was handed over, to the one before, which has taken it: the
/// controller has nothing more to say of that.
#[test]
fn a_lock_whose_hand_over_nobody_confirms_is_granted_after_a_while() {
    const UNTOLD: u64 = 4 * 8 * PAUSE;
    let mut server = LockServer::new(&config(), INCARNATION);
    server.start(Time(0));
    serving(&mut server, 0, 0, 2);
    asks_handed(&mut server, PATIENCE, 700);
    let tick = |server: &mut LockServer, now| told(&link(now, |link| server.on_tick(link)).1);
    assert_eq!(recall(&mut server, PATIENCE + 5, 9), [], "it may be the truth: there would be a YIELD");
    assert!(server.next_timer() <= Time(PATIENCE + UNTOLD));
    assert!(!tick(&mut server, PATIENCE + UNTOLD - 1).contains(&(GRANT, 8)));
    assert!(tick(&mut server, PATIENCE + UNTOLD).contains(&(GRANT, 8)));
    // Said again it is no news, and a YIELD is only answered.
    let now = PATIENCE + UNTOLD + 10;
    let after = Attempt { over: 700, ..wish(2, Mode::Exclusive) };
    assert_eq!(told(&say(&mut server, now, kind::queue::ACQUIRE, &after)), [(QUEUED, 2)]);
    assert_eq!(kinds(&yields(&mut server, now, 700, 3, 0)), [TAKEN]);
    assert!(told(&releases(&mut server, now, 8, 2 << TICKET_BITS | 1)).contains(&(GRANT, 2)));
    recall(&mut server, now, 10);
    let sent = releases(&mut server, now, 2, 2 << TICKET_BITS | 2);
    assert_eq!(kinds(&sent)[1], CEDED, "and it may go to the switch");
}

/// The switch's tickets of a stay that this server has ceded it may be of its own term: it grants none of them again.
#[test]
fn a_lock_whose_hand_over_nobody_confirms_has_tickets_above_those_of_the_switch() {
    let mut server = server();
    let first = ceded(&mut server);
    asks_handed(&mut server, 50, first + 40);
    let sent = link(50 + 32 * PAUSE, |link| server.on_tick(link)).1;
    let granted: Vec<_> = sent.iter().filter(|sent| sent.0 == GRANT).map(|sent| (sent.1, sent.2.ticket)).collect();
    assert_eq!(granted, [(2, first + 40)], "who waited before it was ceded is first");
    assert_eq!(yields(&mut server, 40_000, first + 39, 0, 0), [], "of no hand-over that was");
}

/// Late, a hand-over of before is believed where nothing is known of what came after it; orders of the queue that the
/// lock has by now tell better.
#[test]
fn orders_of_a_later_queue_are_taken_after_a_late_hand_over() {
    let later = Attempt { order: first_number(701), ..wish(3, Mode::Exclusive) };
    let of_before = Attempt { order: first_number(701) - 1, ..wish(4, Mode::Exclusive) };
    let room = Attempt { name: NAME, order: later.order, number: 9, room: 4, ..Attempt::default() };
    let mut served = server();
    yields(&mut served, 10, 700, 0, 0);
    assert_eq!(say(&mut served, 20, kind::queue::ACQUIRE, &of_before), []);
    assert_eq!(told(&say(&mut served, 30, kind::queue::ACQUIRE, &later)), [(kind::queue::SETTLE, 0), (QUEUED, 3)]);
    let mut served = server();
    yields(&mut served, 10, 700, 0, 0);
    assert_eq!(told(&say(&mut served, 30, kind::queue::ROOM, &room)), [(kind::queue::SETTLE, 0)]);
    // As a request says it alone: the queue is still this server's to settle.
    let mut served = server();
    asks_handed(&mut served, 10, 700);
    say(&mut served, 20, kind::queue::ROOM, &room);
    let sent = link(10 + 32 * PAUSE, |link| served.on_tick(link)).1;
    assert!(told(&sent).contains(&(GRANT, 8)));
    say(&mut served, 33_000, PUSHED, &room);
    let settles = |now| told(&link(now, |link| served.on_tick(link)).1).contains(&(kind::queue::SETTLE, 0));
    assert!([33_000 + PAUSE, 33_000 + 8 * PAUSE].into_iter().any(settles));
    // And what waits for the queue goes on waiting for it.
    let mut served = server();
    asks_handed(&mut served, 10, 700);
    say(&mut served, 20, kind::queue::ACQUIRE, &later);
    let sent = link(10 + 32 * PAUSE, |link| served.on_tick(link)).1;
    assert!(told(&sent).contains(&(GRANT, 8)), "the switch lets no such grant through");
    say(&mut served, 33_000, PUSHED, &room);
    let sent = link(33_000 + PAUSE, |link| served.on_tick(link)).1;
    assert_eq!(pushes(&sent), [(10, later.order, 3)]);
}

#[test]
fn what_waited_for_a_queue_that_was_handed_over_is_first_though_nobody_confirms_it() {
    let mut server = server();
    let overflowed = Attempt { order: first_number(700) + 3, ..wish(3, Mode::Exclusive) };
    say(&mut server, 10, kind::queue::ACQUIRE, &overflowed);
    asks_handed(&mut server, 20, 700);
    // Said again it is waited for no longer.
    let after = Attempt { over: 700, ..wish(9, Mode::Exclusive) };
    say(&mut server, 30_000, kind::queue::ACQUIRE, &after);
    let sent = link(20 + 32 * PAUSE, |link| server.on_tick(link)).1;
    let granted: Vec<_> = told(&sent).into_iter().filter(|(kind, _)| *kind == GRANT).collect();
    assert_eq!(granted, [(GRANT, 3)]);
}

#[test]
fn a_hand_over_above_all_tickets_of_the_term_opens_nothing() {
    let mut server = server();
    let ticket = 2 << TICKET_BITS | 7;
    asks_handed(&mut server, 10, ticket);
    let sent = link(10 + 32 * PAUSE, |link| server.on_tick(link)).1;
    assert!(told(&sent).iter().all(|(kind, _)| *kind != GRANT));
    assert_eq!(yields(&mut server, 40_000, ticket, 0, 0), [], "it is not taken");
}

#[test]
fn a_lock_that_comes_back_with_no_ticket_used_is_taken() {
    let mut server = server();
    let first = ceded(&mut server);
    asks_handed(&mut server, 50, first);
    assert_eq!(recall(&mut server, 60, 9), [], "it is not away any more");
    assert_eq!(yields(&mut server, 65, first - 1, 0, 0), [], "of before it was ceded");
    let sent = yields(&mut server, 70, first, first_number(first) + CEDED_ORDERS, first_number(first));
    assert_eq!(kinds(&sent), [TAKEN]);
    let sent = link(70 + PAUSE, |link| server.on_tick(link)).1;
    let granted: Vec<_> = sent.iter().filter(|sent| sent.0 == GRANT).map(|sent| (sent.1, sent.2.ticket)).collect();
    assert_eq!(granted, [(2, first)], "who waited before it was ceded is still first");
    // The recall of the move before is history, and this one is not.
    assert_eq!(recall(&mut server, 1_100, 9), []);
    let sent = releases(&mut server, 1_110, 2, first);
    assert_eq!(told(&sent), [(GRANT, 3), (kind::queue::RELEASED, 2)]);
    recall(&mut server, 1_120, 10);
    assert_eq!(kinds(&releases(&mut server, 1_130, 3, first + 1)), [kind::queue::RELEASED, CEDED]);
}

#[test]
fn who_tries_or_holds_does_not_wait_for_a_lock_that_is_away() {
    let mut server = server();
    ceded(&mut server);
    let tries = Attempt { flags: queue_flag::TRY, ..wish(4, Mode::Exclusive) };
    assert_eq!(say(&mut server, 50, kind::queue::ACQUIRE, &tries), []);
    let renews = Attempt { ticket: 77, ..wish(5, Mode::Exclusive) };
    assert_eq!(say(&mut server, 50, kind::queue::ACQUIRE, &renews), []);
    assert_eq!(told(&asks(&mut server, 50, 6, Mode::Exclusive)), [(QUEUED, 6)]);
}

#[test]
fn a_lock_that_never_moved_leaves_nothing_to_remember() {
    let mut server = server();
    asks(&mut server, 10, 1, Mode::Exclusive);
    assert_eq!(server.moves_known(), 0);
}

#[test]
fn only_the_controller_moves_locks() {
    let mut server = server();
    for kind in [kind::queue::RECALL, kind::queue::YIELD] {
        let attempt = Attempt { name: NAME, number: 9, ticket: 700, holder: ME, ..Attempt::default() };
        let header = Header { kind, source: 3, destination: ME, ..Header::default() };
        assert_eq!(link(10, |link| server.on_packet(link, &header, &attempt)).1, []);
    }
}

/// Orders 1 to 3 were given; the first two are here, and the first may have been pushed.
fn overflowing(server: &mut LockServer) {
    let counters = |number, room| Attempt { name: NAME, number, order: 3, room, ..Attempt::default() };
    for order in [1, 2] {
        let attempt = Attempt { order, ..wish(order as Handle, Mode::Exclusive) };
        say(server, 10, kind::queue::ACQUIRE, &attempt);
    }
    assert_eq!(pushes(&say(server, 20, PUSHED, &counters(0, 1))).len(), 1);
}

#[test]
fn of_what_was_pushed_only_what_was_not_taken_waits_for_a_lock_that_was_handed_over() {
    for taken in [0, 1] {
        let mut server = server();
        overflowing(&mut server);
        let late = Attempt { order: 1, ..wish(7, Mode::Exclusive) };
        assert_eq!(say(&mut server, 25, kind::queue::ACQUIRE, &late), [], "its order is another one's");
        assert_eq!(kinds(&yields(&mut server, 30, 700, 3, taken)), [TAKEN]);
        let room = Attempt { name: NAME, number: 1, order: 3, room: 4, ..Attempt::default() };
        assert_eq!(say(&mut server, 40, PUSHED, &room), [], "nothing is pushed any more");
        let sent = say(&mut server, 50, kind::queue::ACQUIRE, &Attempt { order: 3, ..wish(3, Mode::Exclusive) });
        assert_eq!(told(&sent), [(QUEUED, 3), (GRANT, 1 + taken as Handle)]);
    }
}

#[test]
fn who_is_down_waits_nowhere_and_holds_nothing() {
    let down = |server: &mut LockServer, now, dead| link(now, |link| server.on_down(link, dead, |_| true)).1;
    let mut served = server();
    for holder in [1, 2, 3] {
        asks(&mut served, 10, holder, Mode::Exclusive);
    }
    assert_eq!(down(&mut served, 20, 2), []);
    assert_eq!(told(&down(&mut served, 20, 1)), [(GRANT, 3)]);
    recall(&mut served, 30, 9);
    assert!(kinds(&down(&mut served, 40, 3)).contains(&CEDED), "nobody is left");
    // Of what waits for a queue, too; and of one that is being taken over nothing is pushed for that.
    for is_taken in [false, true] {
        let mut served = server();
        overflowing(&mut served);
        if is_taken {
            yields(&mut served, 30, 700, 3, 0);
        }
        assert_eq!(down(&mut served, 40, 1), []);
        assert_eq!(down(&mut served, 40, 2), []);
        let last = Attempt { order: 3, ..wish(3, Mode::Exclusive) };
        let sent = say(&mut served, 50, kind::queue::ACQUIRE, &last);
        assert_eq!(told(&sent).contains(&(GRANT, 3)), is_taken, "{sent:?}");
    }
}

#[test]
fn who_waits_behind_a_priority_that_is_gone_is_pushed_unless_the_lock_is_being_taken_over() {
    let cancelled = |served: &mut LockServer| say(served, 40, kind::queue::CANCEL, &urgent(7, 1, Mode::Exclusive));
    let down = |served: &mut LockServer| link(40, |link| served.on_down(link, 1, |_| true)).1;
    for (is_taken, cancels) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut served = server();
        for attempt in [urgent(7, 1, Mode::Exclusive), wish(2, Mode::Exclusive)] {
            let order = u64::from(attempt.holder);
            say(&mut served, 10, kind::queue::ACQUIRE, &Attempt { order, ..attempt });
        }
        assert_eq!(pushes(&say(&mut served, 20, PUSHED, &counters(0, 2, 8))), []);
        if is_taken {
            yields(&mut served, 30, 700, 3, 0);
        }
        let sent = if cancels { cancelled(&mut served) } else { down(&mut served) };
        assert_eq!(pushes(&sent).is_empty(), is_taken, "{sent:?}");
    }
}

#[test]
fn who_cancels_waits_nowhere_and_holds_nothing() {
    let cancels =
        |server: &mut LockServer, now, holder| say(server, now, kind::queue::CANCEL, &wish(holder, Mode::Exclusive));
    let mut served = server();
    for holder in [1, 2] {
        asks(&mut served, 10, holder, Mode::Exclusive);
    }
    assert_eq!(told(&cancels(&mut served, 20, 2)), [(kind::queue::RELEASED, 2)]);
    recall(&mut served, 30, 9);
    assert_eq!(kinds(&cancels(&mut served, 40, 1)), [kind::queue::RELEASED, CEDED], "its grant, which it never had");
    let mut served = server();
    overflowing(&mut served);
    cancels(&mut served, 30, 2);
    let room = Attempt { name: NAME, number: 1, order: 3, room: 4, ..Attempt::default() };
    assert_eq!(pushes(&say(&mut served, 40, PUSHED, &room)), []);
}

#[test]
fn a_recalled_lock_whose_holder_is_forgotten_is_ceded() {
    let mut server = server();
    asks(&mut server, 10, 1, Mode::Exclusive);
    recall(&mut server, PATIENCE, 9);
    let sent = link(PATIENCE + 20, |link| server.on_tick(link)).1;
    assert!(kinds(&sent).contains(&CEDED), "{sent:?}");
}

#[test]
fn a_term_whose_tickets_the_switch_has_used_is_over() {
    let mut server = server();
    assert!(!server.is_exhausted());
    yields(&mut server, 10, 2 << TICKET_BITS, 0, 0);
    assert!(server.is_exhausted());
}
