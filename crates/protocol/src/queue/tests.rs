//! Both ends of the queue service, rule by rule of docs/queue.md. Whole worlds of them are the simulator's.

extern crate std;

mod fetches;
mod moves;
mod own;
mod parts;
mod priorities;
mod pushes;

use super::overflow::Overflow;
use super::own::{Own, Terms};
use super::server::LockServer;
use super::*;
use crate::line::{Priority, Rank};
use crate::lock::{Acquire, Path};
use crate::node::{Event, NodeConfig};
use crate::{RequestId, Token};
use alloc::vec;
use alloc::vec::Vec;
use wayside_wire::{BODY, header_flag};

const ME: Handle = 5;
const EPOCH: u32 = 3;
const INCARNATION: u64 = 9;
const LEASE: u64 = 100_000;
const PATIENCE: u64 = 110_000;
const PAUSE: u64 = 1_000;
const WINDOW: u64 = 20_000;

/// What was sent: kind, to whom, and what.
type Sent = Vec<(u8, Handle, Attempt)>;

fn link<R>(now: u64, work: impl FnOnce(&mut Link<'_>) -> R) -> (R, Sent) {
    let mut out = Outbox::new();
    let header = Header { service: wayside_wire::service::QUEUE, source: ME, epoch: EPOCH, ..Header::default() };
    let result = work(&mut Link { now: Time(now), header, out: &mut out });
    let mut sent = Vec::new();
    while let Some(transmit) = out.pop(None) {
        let header = wayside_wire::check(transmit.packet).expect("a packet");
        sent.push((header.kind, header.destination, Attempt::read(transmit.packet, BODY)));
    }
    (result, sent)
}

fn config() -> NodeConfig {
    NodeConfig { retransmit_us: PAUSE, retransmit_most_us: 8 * PAUSE, asked_us: WINDOW, ..NodeConfig::new(1) }
}

// ---- the requester ----

fn requester() -> Requester {
    let mut requester = Requester::new(&config());
    requester.start(INCARNATION, 1);
    requester
}

fn want(name: u64, mode: Mode) -> Acquire {
    Acquire { name, mode, try_: false, priority: Priority::NORMAL, deadline: None, port: 70 }
}

fn ask(requester: &mut Requester, now: u64, want: &Acquire) -> RequestId {
    let (id, sent) = link(now, |link| requester.acquire(link, want).expect("there is room"));
    assert_eq!((sent.len(), sent[0].0, sent[0].2.sent_us), (1, kind::queue::ACQUIRE, now));
    id
}

fn answer(requester: &mut Requester, now: u64, kind: u8, source: Handle, attempt: Attempt) -> Sent {
    let header = Header { kind, source, destination: ME, epoch: EPOCH, ..Header::default() };
    link(now, |link| requester.on_packet(link, &header, &attempt)).1
}

/// As the switch grants it.
fn granted(RequestId(request): RequestId, ticket: u64) -> Attempt {
    let flags = queue_flag::EXCLUSIVE;
    Attempt { name: 7, request, ticket, holder: ME, flags, cause: kind::queue::ACQUIRE, ..Attempt::default() }
}

/// As a lock server grants it, which has had the packet of that time last.
fn leased(request: RequestId, ticket: u64, sent_us: u64) -> Attempt {
    Attempt { cause: 0, order: LEASE, sent_us, ..granted(request, ticket) }
}

fn events(requester: &mut Requester) -> Vec<Event> {
    core::iter::from_fn(|| requester.told()).collect()
}

fn tick(requester: &mut Requester, now: u64) -> Sent {
    link(now, |link| requester.on_tick(link)).1
}

#[test]
fn a_grant_has_the_token_of_its_ticket_and_with_more_asks_for_the_next() {
    let mut requester = requester();
    let id = ask(&mut requester, 10, &want(7, Mode::Exclusive));
    let more = Attempt { flags: queue_flag::EXCLUSIVE | queue_flag::MORE, ..granted(id, 0x1234) };
    let sent = answer(&mut requester, 20, kind::queue::GRANT, 0, more);
    assert_eq!((sent.len(), sent[0].0, sent[0].2.ticket), (1, kind::queue::NEXT, 0x1234));
    let token = Token::of_ticket(EPOCH, 0x1234);
    let event = Event::Granted { request: id, token, mode: Mode::Exclusive, path: Path::Switch };
    assert_eq!(events(&mut requester), [event]);
    assert_eq!(requester.holds_end(), Time::NEVER, "the session's lease is a queue's");
    // Told again, nobody is told again; but the next may still not have been granted.
    assert_eq!(answer(&mut requester, 30, kind::queue::GRANT, 0, more)[0].0, kind::queue::NEXT);
    assert_eq!(events(&mut requester), []);
}

#[test]
fn whoever_waits_repeats_and_names_the_ticket_that_it_was_told() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &want(7, Mode::Shared));
    assert_eq!(requester.next_timer(), Time(PAUSE));
    answer(&mut requester, 10, kind::queue::QUEUED, 0, Attempt { ticket: 40, ..granted(id, 0) });
    let sent = tick(&mut requester, PAUSE);
    assert_eq!((sent[0].0, sent[0].2.ticket, sent[0].2.flags), (kind::queue::ACQUIRE, 40, 0));
    assert_eq!(requester.next_timer(), Time(3 * PAUSE), "pauses double");
    // The ticket is over: there may be another cell, or none.
    let over = Attempt { over: id.0, ..granted(id, 40) };
    let sent = answer(&mut requester, 4_000, kind::queue::RELEASED, 0, over);
    assert_eq!((sent[0].0, sent[0].2.ticket), (kind::queue::ACQUIRE, 0));
}

#[test]
fn what_is_released_or_cancelled_is_repeated_until_it_is_over() {
    for (held, kind) in [(true, kind::queue::RELEASE), (false, kind::queue::CANCEL)] {
        let mut requester = requester();
        let id = ask(&mut requester, 0, &want(7, Mode::Exclusive));
        if held {
            answer(&mut requester, 10, kind::queue::GRANT, 0, granted(id, 3));
        }
        let sent = link(20, |link| requester.end(link, id)).1;
        assert_eq!((sent[0].0, sent[0].2.ticket), (kind, if held { 3 } else { 0 }));
        assert_eq!(tick(&mut requester, 20 + PAUSE)[0].0, kind);
        assert_eq!(requester.oldest(), Some(id.0), "until then nobody may forget it");
        // As a copy of the GRANT that it has led to: `over` alone is of this request.
        let copy = Attempt { over: id.0, ..granted(RequestId(77), 4) };
        answer(&mut requester, 3_000, kind::queue::RELEASED, 0, copy);
        assert!(requester.is_empty() && requester.oldest().is_none());
        assert_eq!(tick(&mut requester, 900_000), []);
    }
}

#[test]
fn a_grant_that_nobody_waits_for_is_given_back_by_its_ticket_until_it_is_over() {
    let mut requester = requester();
    let gone = RequestId(INCARNATION << 40 | 1);
    let sent = answer(&mut requester, 0, kind::queue::GRANT, 0, granted(gone, 8));
    assert_eq!((sent[0].0, sent[0].2.ticket, sent[0].2.request), (kind::queue::RELEASE, 8, gone.0));
    assert_eq!(tick(&mut requester, PAUSE).len(), 1);
    // Of another ticket of the same request: not this one.
    answer(&mut requester, PAUSE, kind::queue::RELEASED, 0, Attempt { over: gone.0, ..granted(gone, 6) });
    assert!(!requester.is_empty());
    answer(&mut requester, PAUSE, kind::queue::RELEASED, 0, Attempt { over: gone.0, ..granted(gone, 8) });
    assert!(requester.is_empty() && events(&mut requester).is_empty());
    // What a former session of the handle was granted is over with it.
    assert_eq!(answer(&mut requester, 9_000, kind::queue::GRANT, 0, granted(RequestId(8 << 40 | 1), 9)), []);
}

#[test]
fn a_second_ticket_is_given_back_and_the_first_kept() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &want(7, Mode::Exclusive));
    answer(&mut requester, 10, kind::queue::GRANT, 0, granted(id, 8));
    let sent = answer(&mut requester, 20, kind::queue::GRANT, 0, granted(id, 9));
    assert_eq!((sent[0].0, sent[0].2.ticket), (kind::queue::RELEASE, 9));
    answer(&mut requester, 30, kind::queue::RELEASED, 0, Attempt { over: id.0, ..granted(id, 9) });
    assert_eq!(requester.requests().filter(|(_, r)| r.ticket() == Some(8)).count(), 1, "what it was told is over is 9");
    assert!(!requester.bereft);
}

#[test]
fn a_cancelled_request_that_was_granted_meanwhile_is_released() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &want(7, Mode::Exclusive));
    link(10, |link| requester.end(link, id));
    let sent = answer(&mut requester, 20, kind::queue::GRANT, 0, granted(id, 8));
    assert_eq!((sent[0].0, sent[0].2.ticket), (kind::queue::RELEASE, 8));
    assert_eq!(events(&mut requester), []);
}

#[test]
fn a_try_fails_at_once_and_is_cancelled_if_it_may_have_been_granted() {
    let try_ = Acquire { try_: true, ..want(7, Mode::Exclusive) };
    let mut requester = requester();
    let id = ask(&mut requester, 0, &try_);
    let busy = granted(id, 0);
    assert_eq!(answer(&mut requester, 10, kind::queue::BUSY, 0, busy), []);
    assert_eq!(events(&mut requester), [Event::Busy { request: id, agent: 0 }]);
    assert!(requester.is_empty());

    let id = ask(&mut requester, 0, &try_);
    tick(&mut requester, PAUSE);
    let sent = answer(&mut requester, 2_000, kind::queue::BUSY, 0, Attempt { request: id.0, ..busy });
    assert_eq!(sent[0].0, kind::queue::CANCEL, "the other packet may have come first");
}

#[test]
fn a_try_that_is_told_to_come_again_does() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &Acquire { try_: true, ..want(7, Mode::Exclusive) });
    let header = Header { kind: kind::queue::BUSY, flags: header_flag::RETRY, destination: ME, ..Header::default() };
    link(10, |link| requester.on_packet(link, &header, &granted(id, 0)));
    assert_eq!(events(&mut requester), []);
    assert_eq!(tick(&mut requester, PAUSE)[0].0, kind::queue::ACQUIRE);
}

#[test]
fn who_waits_asks_again_soon_when_another_switch_goes_on() {
    let mut requester = requester();
    let waits = ask(&mut requester, 0, &want(7, Mode::Exclusive));
    let held = ask(&mut requester, 0, &want(8, Mode::Exclusive));
    answer(&mut requester, 1, kind::queue::GRANT, 0, Attempt { name: 8, ..granted(held, 3) });
    for at in [PAUSE, 3 * PAUSE, 7 * PAUSE] {
        assert_eq!(tick(&mut requester, at).len(), 1, "its pauses double");
    }
    assert_eq!(requester.next_timer(), Time(15 * PAUSE));
    requester.hurry(Time(8 * PAUSE));
    assert_eq!(requester.next_timer(), Time(9 * PAUSE));
    let [(kind, _, again)] = tick(&mut requester, 9 * PAUSE)[..] else { panic!("it alone asks") };
    assert_eq!((kind, again.request), (kind::queue::ACQUIRE, waits.0));
    assert_eq!(requester.next_timer(), Time(11 * PAUSE), "and doubles them anew");
    requester.hurry(Time(10 * PAUSE + 500));
    assert_eq!(requester.next_timer(), Time(11 * PAUSE), "it is not put off");
}

#[test]
fn who_is_over_the_budget_asks_again_when_it_was_told_and_says_so_if_its_time_is_over() {
    let until = |at| Acquire { deadline: Some(Time(at)), ..want(7, Mode::Exclusive) };
    let refused = |id: RequestId, order| Attempt { order, ..granted(id, 0) };
    let mut requester = requester();
    let id = ask(&mut requester, 0, &until(50_000));
    answer(&mut requester, 10, kind::queue::REJECT, 0, refused(id, 9_990));
    assert_eq!(requester.next_timer(), Time(10_000), "its first pause is a millisecond");
    assert_eq!(tick(&mut requester, 10_000)[0].0, kind::queue::ACQUIRE);
    answer(&mut requester, 10_010, kind::queue::REJECT, 0, refused(id, 1));
    assert_eq!(requester.next_timer(), Time(12_000), "nobody comes earlier for it");
    tick(&mut requester, 50_000);
    assert_eq!(events(&mut requester), [Event::TimedOut { request: id, over_budget: true }]);
    // Who has a place after all does not wait for the budget, and takes no late refusal.
    let id = ask(&mut requester, 60_000, &until(90_000));
    answer(&mut requester, 60_010, kind::queue::REJECT, 0, refused(id, 100));
    answer(&mut requester, 60_020, kind::queue::QUEUED, 0, granted(id, 3));
    answer(&mut requester, 60_030, kind::queue::REJECT, 0, refused(id, 20_000));
    assert!(requester.next_timer() < Time(62_000));
    (0..90).for_each(|at| drop(tick(&mut requester, 60_000 + at * 1_000)));
    assert_eq!(events(&mut requester), [Event::TimedOut { request: id, over_budget: false }]);
    // Nobody is sent away for longer than a second.
    let mut requester = self::requester();
    let id = ask(&mut requester, 200_000, &want(8, Mode::Exclusive));
    answer(&mut requester, 200_000, kind::queue::REJECT, 0, refused(id, u64::MAX));
    assert_eq!(requester.next_timer(), Time(1_200_000));
}

#[test]
fn a_deadline_cancels_and_several_are_asked_for_one_by_one() {
    let mut requester = requester();
    let until = |at| Acquire { deadline: Some(Time(at)), ..want(7, Mode::Exclusive) };
    let mut ids = Vec::new();
    let wants = [until(50_000), Acquire { name: 8, ..until(2_000) }];
    let sent = link(0, |link| requester.acquire_many(link, &wants, &mut ids).expect("there is room")).1;
    assert_eq!(sent.len(), 1, "the second waits for the first");
    let sent = answer(&mut requester, 100, kind::queue::GRANT, 0, granted(ids[0], 1));
    assert_eq!((sent[0].0, sent[0].2.name), (kind::queue::ACQUIRE, 8));
    events(&mut requester);
    let sent: Sent = (1..4).flat_map(|at| tick(&mut requester, at * 1_000)).collect();
    assert_eq!(events(&mut requester), [Event::TimedOut { request: ids[1], over_budget: false }]);
    assert_eq!(sent.last().map(|sent| sent.0), Some(kind::queue::CANCEL));
}

#[test]
fn a_lock_servers_hold_lasts_from_the_packet_that_was_answered_and_is_renewed() {
    let mut requester = requester();
    let id = ask(&mut requester, 1_000, &want(7, Mode::Exclusive));
    answer(&mut requester, 60_000, kind::queue::GRANT, 4, leased(id, 8, 1_000));
    assert_eq!(requester.holds_end(), Time(1_000 + LEASE), "not from its arrival");
    let at = requester.next_timer();
    assert_eq!(at, Time(60_000 + (LEASE - 59_000) / 4), "so often in what is left");
    let sent = tick(&mut requester, at.0);
    assert_eq!((sent[0].0, sent[0].2.ticket, sent[0].2.sent_us), (kind::queue::ACQUIRE, 8, at.0));
    answer(&mut requester, at.0 + 10, kind::queue::GRANT, 4, leased(id, 8, at.0));
    assert_eq!(requester.holds_end(), Time(at.0 + LEASE));
    // An answer from before makes it no shorter; one that the clock has not come to yet is no answer.
    answer(&mut requester, at.0 + 20, kind::queue::GRANT, 4, leased(id, 8, 1_000));
    answer(&mut requester, at.0 + 20, kind::queue::GRANT, 4, leased(id, 8, u64::MAX));
    assert_eq!(requester.holds_end(), Time(at.0 + 20 + LEASE));
    link(at.0 + 30, |link| requester.end(link, id));
    assert_eq!(requester.holds_end(), Time::NEVER);
}

#[test]
fn a_lock_servers_grant_that_is_too_old_is_asked_for_again() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &want(7, Mode::Exclusive));
    let sent = answer(&mut requester, LEASE, kind::queue::GRANT, 4, leased(id, 8, 0));
    assert_eq!((sent[0].0, sent[0].2.sent_us), (kind::queue::ACQUIRE, LEASE));
    assert_eq!(events(&mut requester), []);
}

#[test]
fn a_hold_that_its_lock_server_does_not_know_is_lost() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &want(7, Mode::Exclusive));
    answer(&mut requester, 10, kind::queue::GRANT, 4, leased(id, 8, 0));
    answer(&mut requester, 20, kind::queue::RELEASED, 4, Attempt { over: id.0, ..leased(id, 7, 0) });
    assert!(!requester.bereft, "another ticket");
    answer(&mut requester, 30, kind::queue::RELEASED, 4, Attempt { over: id.0, ..leased(id, 8, 0) });
    assert!(requester.bereft);
}

#[test]
fn no_hold_outlives_its_epoch_and_who_waits_forgets_its_ticket() {
    let mut requester = requester();
    let id = ask(&mut requester, 0, &want(7, Mode::Exclusive));
    answer(&mut requester, 10, kind::queue::QUEUED, 0, granted(id, 8));
    assert!(requester.begin_epoch());
    assert_eq!(tick(&mut requester, PAUSE)[0].2.ticket, 0);
    answer(&mut requester, 2_000, kind::queue::GRANT, 0, granted(id, 1));
    assert!(!requester.begin_epoch());
    requester.lose_everything();
    assert_eq!(events(&mut requester).last(), Some(&Event::Lost { request: id }));
}

// ---- what a queue has no room for ----

const NAME: u64 = 7;

fn overflow() -> Overflow {
    let mut overflow = Overflow::new(NAME, (PAUSE, 8 * PAUSE), None);
    let (_, sent) = link(0, |link| overflow.on_acquire(link, &overflowed(1, 1)));
    assert_eq!(kinds(&sent), [kind::queue::SETTLE], "it does not know yet what the switch has taken");
    assert_eq!((sent[0].2.number, sent[0].2.order), (0, 0));
    overflow
}

fn overflowed(order: u64, request: u64) -> Attempt {
    let flags = queue_flag::EXCLUSIVE;
    Attempt { name: NAME, order, request, holder: 1, flags, reply_port: 4, sent_us: 99, ..Attempt::default() }
}

fn counters(number: u64, order: u64, room: u16) -> Attempt {
    Attempt { name: NAME, number, order, room, ..Attempt::default() }
}

fn kinds(sent: &Sent) -> Vec<u8> {
    sent.iter().map(|sent| sent.0).collect()
}

/// Of pushes: number, order up to which nothing is left, and request.
fn pushes(sent: &Sent) -> Vec<(u64, u64, u64)> {
    let pushes = sent.iter().filter(|sent| sent.0 == kind::queue::PUSH);
    pushes.map(|(_, _, attempt)| (attempt.number, attempt.order, attempt.request)).collect()
}

fn pushed(overflow: &mut Overflow, now: u64, attempt: &Attempt) -> Sent {
    link(now, |link| overflow.on_counters(link, attempt, true)).1
}

fn room(overflow: &mut Overflow, now: u64, attempt: &Attempt) -> Sent {
    link(now, |link| overflow.on_counters(link, attempt, false)).1
}

/// Whatever becomes due, and what is sent for it.
fn until(overflow: &mut Overflow, end: u64) -> Sent {
    let due = |overflow: &mut Overflow| Some(overflow.due().0).filter(|due| *due <= end);
    core::iter::from_fn(|| due(overflow).map(|now| link(now, |link| overflow.on_tick(link)).1)).flatten().collect()
}

#[test]
fn pushes_are_numbered_in_order_as_many_as_there_is_room_for() {
    let mut overflow = overflow();
    for order in 2..5 {
        assert_eq!(link(10, |link| overflow.on_acquire(link, &overflowed(order, order))).1, []);
    }
    let sent = pushed(&mut overflow, 20, &counters(0, 4, 2));
    assert_eq!(pushes(&sent), [(1, 1, 1), (2, 2, 2)]);
    assert_eq!((sent[0].2.holder, sent[0].2.reply_port, sent[0].2.flags), (1, 4, queue_flag::EXCLUSIVE));
    assert_eq!((sent[0].2.ticket, sent[0].2.sent_us), (0, 0));
    // One was taken, and there is no room; then one cell.
    assert_eq!(pushes(&pushed(&mut overflow, 30, &counters(1, 4, 0))), []);
    assert_eq!(pushes(&pushed(&mut overflow, 40, &counters(2, 4, 1))), [(3, 3, 3)]);
    // An answer from before changes nothing.
    assert_eq!(pushes(&pushed(&mut overflow, 50, &counters(1, 4, 9))), []);
    assert_eq!(pushes(&pushed(&mut overflow, 60, &counters(3, 4, 1))), [(4, 4, 4)]);
}

#[test]
fn a_gap_holds_back_what_is_above_for_one_pause_and_then_is_given_up() {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 1, 8));
    pushed(&mut overflow, 20, &counters(1, 3, 8));
    assert_eq!(link(30, |link| overflow.on_acquire(link, &overflowed(3, 3))).1, [], "2 is missing");
    assert_eq!(pushes(&until(&mut overflow, 19 + PAUSE)), []);
    let sent = until(&mut overflow, 20 + PAUSE);
    assert_eq!(pushes(&sent), [(2, 3, 3)], "and 3 says that nothing is left up to itself");
    let (waits, sent) = link(9_000, |link| overflow.on_acquire(link, &overflowed(2, 2)));
    assert!(!waits && pushes(&sent).is_empty(), "2 was given up: its node asks again");
    let (waits, sent) = link(9_000, |link| overflow.on_acquire(link, &overflowed(3, 4)));
    assert!(!waits && pushes(&sent).is_empty(), "nor has another one an order that was pushed");
}

#[test]
fn what_is_left_here_is_never_said_to_be_settled() {
    let mut overflow = overflow();
    for order in 2..4 {
        link(10, |link| overflow.on_acquire(link, &overflowed(order, order)));
    }
    assert_eq!(pushes(&pushed(&mut overflow, 20, &counters(0, 3, 1))), [(1, 1, 1)], "2 and 3 wait here");
}

#[test]
fn a_request_that_comes_twice_waits_once_at_its_first_place() {
    let mut overflow = overflow();
    assert!(link(10, |link| overflow.on_acquire(link, &overflowed(2, 1))).0);
    link(10, |link| overflow.on_acquire(link, &overflowed(3, 3)));
    let sent = pushed(&mut overflow, 20, &counters(0, 3, 8));
    assert_eq!(pushes(&sent), [(1, 2, 1), (2, 3, 3)], "the second order counts as seen");
}

#[test]
fn what_is_cancelled_is_taken_out_and_what_has_its_number_is_nobodys() {
    let mut overflow = overflow();
    link(10, |link| overflow.on_acquire(link, &overflowed(2, 2)));
    link(10, |link| overflow.on_acquire(link, &overflowed(3, 3)));
    link(15, |link| overflow.on_cancel(link, 1, 2, true));
    assert_eq!(pushes(&pushed(&mut overflow, 20, &counters(0, 3, 1))), [(1, 2, 1)], "2 is gone");
    link(30, |link| overflow.on_cancel(link, 1, 1, true));
    let sent = link(overflow.due().0, |link| overflow.on_tick(link)).1;
    assert_eq!((sent[0].2.number, sent[0].2.holder), (1, 0));
    assert_eq!(overflow.waiting().count(), 1);
}

#[test]
fn what_is_cancelled_behind_a_gap_leaves_none() {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 3, 8));
    link(20, |link| overflow.on_acquire(link, &overflowed(3, 3)));
    assert_eq!(link(30, |link| overflow.on_cancel(link, 1, 3, true)).1, []);
    // A late copy of it.
    link(40, |link| overflow.on_acquire(link, &overflowed(3, 3)));
    let sent = link(50, |link| overflow.on_acquire(link, &overflowed(2, 2))).1;
    assert_eq!(pushes(&sent), [(2, 3, 2)], "all is settled with it");
}

#[test]
fn who_waited_when_the_lock_was_ceded_and_whoever_comes_late_have_the_orders_that_are_not_the_switchs() {
    let waiters = (2..=CEDED_ORDERS).map(|request| Attempt { order: 0, ..overflowed(0, request) });
    let mut overflow = Overflow::new(NAME, (PAUSE, 8 * PAUSE), None).ceded(Time(0), 1, waiters);
    assert_eq!(overflow.due(), Time(PAUSE), "then the switch is asked whether it has it");
    assert!(link(10, |link| overflow.on_late(link, &overflowed(0, 1))).0, "the last");
    assert!(!link(10, |link| overflow.on_late(link, &overflowed(0, CEDED_ORDERS + 1))).0);
    let base = first_number(1);
    let sent = pushed(&mut overflow, 20, &counters(base, base + CEDED_ORDERS, 2));
    assert_eq!(pushes(&sent), [(base + 1, base + 1, 2), (base + 2, base + 2, 3)]);
}

#[test]
fn what_a_dead_session_asked_for_is_as_cancelled() {
    let mut overflow = overflow();
    for order in 2..=4 {
        let holder = if order == 3 { 2 } else { 1 };
        link(0, |link| overflow.on_acquire(link, &Attempt { holder, ..overflowed(order, order) }));
    }
    assert_eq!(pushes(&pushed(&mut overflow, 10, &counters(0, 4, 1))), [(1, 1, 1)]);
    let sent = link(20, |link| overflow.on_down(link, 1, |request| request != 4, true)).1;
    assert_eq!(sent, [], "one has its number");
    let sent = pushed(&mut overflow, 30, &counters(1, 4, 2));
    assert_eq!(pushes(&sent), [(2, 3, 3), (3, 4, 4)], "of another node, and of another session");
}

#[test]
fn a_lock_server_that_has_nothing_of_what_was_given_settles_it() {
    let mut server = LockServer::new(&config(), INCARNATION);
    server.start(Time(0));
    serving(&mut server, 0, 0, 1);
    let say = |server: &mut LockServer, now, kind| {
        let header = Header { kind, destination: ME, ..Header::default() };
        link(now, |link| server.on_packet(link, &header, &counters(3, 5, 4))).1
    };
    let sent = say(&mut server, 10, kind::queue::ROOM);
    assert_eq!((kinds(&sent), sent[0].2.name), (vec![kind::queue::SETTLE], NAME), "what has the switch taken?");
    say(&mut server, 20, kind::queue::PUSHED);
    let mut sent = Vec::new();
    for now in 1..10 {
        sent.extend(link(now * PAUSE, |link| server.on_tick(link)).1);
    }
    let settles = sent.iter().find(|sent| sent.0 == kind::queue::SETTLE).expect("after a pause");
    assert_eq!((settles.2.number, settles.2.order), (3, 5));
}

#[test]
fn a_push_is_repeated_under_its_number_until_it_is_taken_and_room_wakes_it() {
    let mut overflow = overflow();
    assert_eq!(pushes(&pushed(&mut overflow, 10, &counters(0, 1, 1))), [(1, 1, 1)]);
    let due = overflow.due();
    assert_eq!(pushes(&link(due.0, |link| overflow.on_tick(link)).1), [(1, 1, 1)]);
    assert!(overflow.due() > due + PAUSE, "pauses double");
    for _ in 0..2 {
        assert_eq!(pushes(&pushed(&mut overflow, due.0 + 1, &counters(0, 1, 0))), [], "it was refused twice");
    }
    assert_eq!(pushes(&room(&mut overflow, due.0 + 1, &counters(0, 1, 1))), [(1, 1, 1)], "ROOM");
    pushed(&mut overflow, due.0 + 2, &counters(1, 1, 1));
    let settles: Sent = (1..9).flat_map(|at| link(due.0 + at * 9_000, |link| overflow.on_tick(link)).1).collect();
    assert!(settles.iter().all(|(kind, _, attempt)| (*kind, attempt.order) == (kind::queue::SETTLE, 1)));
    assert_eq!((settles.len(), overflow.due()), (3, Time::NEVER));
    // Who tries finds that the switch has heard none of them.
    room(&mut overflow, 100_000, &counters(1, 1, 1));
    let again: Sent = (0..2).flat_map(|_| link(overflow.due().0, |link| overflow.on_tick(link)).1).collect();
    assert_eq!((again.len(), again[0].0, again[0].2.order), (1, kind::queue::SETTLE, 1));
    assert_eq!(overflow.due(), Time::NEVER);
}

/// A ROOM of long ago, when the same lock was this server's before.
#[test]
fn who_has_heard_of_fewer_pushes_than_were_taken_goes_on_from_those() {
    let mut overflow = overflow();
    room(&mut overflow, 5, &counters(1, 1, 1));
    pushed(&mut overflow, 10, &counters(70, 1, 1));
    let sent = link(20, |link| overflow.on_acquire(link, &overflowed(2, 2))).1;
    assert_eq!(pushes(&sent), [(71, 2, 2)]);
}

#[test]
fn of_a_lock_that_is_being_taken_nothing_is_pushed() {
    let mut overflow = overflow();
    link(0, |link| overflow.on_acquire(link, &overflowed(2, 2)));
    pushed(&mut overflow, 10, &counters(0, 2, 1));
    overflow.close(2, 1);
    assert_eq!(link(20, |link| overflow.on_cancel(link, 9, 9, false)).1, []);
    assert_eq!(link(20, |link| overflow.on_down(link, 9, |_| true, false)).1, []);
    assert_eq!(pushes(&link(20, |link| overflow.on_cancel(link, 9, 9, true)).1), [(2, 2, 2)]);
}

/// The queue of a lock that is held for no time is empty after each push: if each ROOM had all sent again that is under
/// way, and each copy its answer, the lock server would do little else.
#[test]
fn what_is_under_way_is_not_sent_again_because_there_is_room() {
    let mut overflow = overflow();
    for order in 2..=6 {
        link(0, |link| overflow.on_acquire(link, &overflowed(order, order)));
    }
    assert_eq!(pushes(&pushed(&mut overflow, 10, &counters(0, 6, 4))).len(), 4);
    assert_eq!(pushes(&room(&mut overflow, 20, &counters(0, 6, 8))), [(5, 5, 5), (6, 6, 6)], "what has not gone");
    assert_eq!(pushes(&pushed(&mut overflow, 30, &counters(1, 6, 8))), []);
    assert_eq!(pushes(&room(&mut overflow, 40, &counters(1, 6, 8))), []);
    // The second was refused, as those behind it, and there was room since.
    for at in 0..5 {
        assert_eq!(pushes(&pushed(&mut overflow, 50 + at, &counters(1, 6, 0))), []);
    }
    let again = pushes(&pushed(&mut overflow, 60, &counters(1, 6, 2)));
    assert_eq!(again, [(2, 2, 2), (3, 3, 3)], "as many as there is room for, once all are answered");
    for at in 0..2 {
        assert_eq!(pushes(&pushed(&mut overflow, 70 + at, &counters(1, 6, 2))), [], "a queue that drains takes none");
    }
    let again = pushes(&room(&mut overflow, 80, &counters(1, 6, 8)));
    assert_eq!(again.len(), 5, "{again:?}");
    // Answers are lost, too.
    assert_eq!(pushes(&room(&mut overflow, 79 + PAUSE, &counters(1, 6, 8))), []);
    assert_eq!(pushes(&room(&mut overflow, 80 + PAUSE, &counters(1, 6, 8))).len(), 5);
    for at in 0..5 {
        pushed(&mut overflow, 90 + PAUSE + at, &counters(1, 6, 0));
    }
    assert_eq!(pushes(&room(&mut overflow, 99 + PAUSE, &counters(1, 6, 8))).len(), 5, "none is awaited any more");
}

#[test]
fn a_push_is_overdue_a_pause_after_the_latest_that_was_taken() {
    let mut overflow = overflow();
    for order in 2..=3 {
        link(0, |link| overflow.on_acquire(link, &overflowed(order, order)));
    }
    pushed(&mut overflow, 10, &counters(0, 3, 8));
    for due in [1_000, 3_000] {
        assert_eq!(overflow.due(), Time(due));
        link(due, |link| overflow.on_tick(link));
    }
    assert_eq!(overflow.due(), Time(7_000));
    for (at, taken, due) in [(3_100, 1, 4_100), (3_500, 2, 4_500), (3_600, 2, 4_500)] {
        pushed(&mut overflow, at, &counters(taken, 3, 8));
        assert_eq!(overflow.due(), Time(due), "{taken} at {at}");
    }
    link(4_500, |link| overflow.on_tick(link));
    assert_eq!(overflow.due(), Time(6_500));
    pushed(&mut overflow, 4_550, &counters(2, 3, 8));
    assert_eq!(overflow.due(), Time(6_500), "what is refused is repeated no sooner");
    for at in [4_600, 4_700] {
        room(&mut overflow, at, &counters(2, 3, 8));
        assert_eq!(overflow.due(), Time(5_600), "once there is room");
    }
}

#[test]
fn a_successor_goes_on_from_what_the_switch_has_taken_and_settles_the_rest() {
    let mut overflow = Overflow::new(NAME, (PAUSE, 8 * PAUSE), None);
    link(0, |link| overflow.on_acquire(link, &overflowed(9, 1)));
    assert_eq!(pushes(&pushed(&mut overflow, 10, &counters(5, 9, 1))), [], "1 to 8 may be on their way");
    let sent = link(10 + PAUSE, |link| overflow.on_tick(link)).1;
    assert_eq!(pushes(&sent), [(6, 9, 1)], "they were its predecessor's");
}

// ---- locks of its own ----

fn own(term: u16) -> Own {
    Own::new(Time(0), Terms { term, lease: LEASE, patience: PATIENCE }, &config())
}

fn wish(holder: Handle, mode: Mode) -> Attempt {
    let flags = mode_flag(mode);
    Attempt { name: NAME, request: u64::from(holder), holder, flags, sent_us: 5, ..Attempt::default() }
}

/// With a priority.
fn urgent(level: u8, holder: Handle, mode: Mode) -> Attempt {
    let priority = Priority::new(level).expect("a level");
    Attempt { cause: Rank::newcomer(priority).to_byte(), ..wish(holder, mode) }
}

fn acquire(own: &mut Own, now: u64, attempt: &Attempt) -> Sent {
    link(now, |link| own.on_acquire(link, attempt)).1
}

/// Kind, and to whom.
fn told(sent: &Sent) -> Vec<(u8, Handle)> {
    sent.iter().map(|(kind, to, _)| (*kind, *to)).collect()
}

const GRANT: u8 = kind::queue::GRANT;
const QUEUED: u8 = kind::queue::QUEUED;
const RELEASED: u8 = kind::queue::RELEASED;

#[test]
fn first_come_first_served_and_shared_ones_together() {
    let mut own = own(1);
    let granted = acquire(&mut own, 0, &wish(1, Mode::Exclusive));
    assert_eq!(told(&granted), [(GRANT, 1)]);
    assert_eq!((granted[0].2.order, granted[0].2.sent_us, granted[0].2.cause), (LEASE, 5, 0));
    for (holder, mode) in [(2, Mode::Shared), (3, Mode::Shared), (4, Mode::Exclusive), (6, Mode::Shared)] {
        assert_eq!(told(&acquire(&mut own, 0, &wish(holder, mode))), [(QUEUED, holder)]);
    }
    let release = |own: &mut Own, holder, ticket| {
        let attempt = Attempt { ticket, ..wish(holder, Mode::Shared) };
        link(0, |link| own.on_release(link, &attempt, false)).1
    };
    let first = granted[0].2.ticket;
    assert_eq!(told(&release(&mut own, 1, first + 1)), [(RELEASED, 1)], "another ticket frees nothing");
    let sent = release(&mut own, 1, first);
    assert_eq!(told(&sent), [(GRANT, 2), (GRANT, 3), (RELEASED, 1)], "6 came after 4");
    assert_eq!((sent[0].2.ticket, sent[1].2.ticket), (first + 1, first + 2));
    release(&mut own, 2, first + 1);
    assert_eq!(told(&release(&mut own, 3, first + 2)), [(GRANT, 4), (RELEASED, 3)]);
    assert_eq!(told(&release(&mut own, 4, first + 3)), [(GRANT, 6), (RELEASED, 4)]);
}

#[test]
fn a_try_never_waits() {
    let mut own = own(1);
    let try_ = |holder| Attempt { flags: queue_flag::TRY | queue_flag::EXCLUSIVE, ..wish(holder, Mode::Exclusive) };
    assert_eq!(told(&acquire(&mut own, 0, &try_(1))), [(GRANT, 1)]);
    assert_eq!(told(&acquire(&mut own, 0, &try_(1))), [(GRANT, 1)], "again: it holds");
    assert_eq!(told(&acquire(&mut own, 0, &try_(2))), [(kind::queue::BUSY, 2)]);
    let ticket = acquire(&mut own, 0, &try_(1))[0].2.ticket;
    let given_back = Attempt { ticket, ..wish(1, Mode::Exclusive) };
    assert_eq!(told(&link(0, |link| own.on_release(link, &given_back, false)).1), [(RELEASED, 1)]);
}

#[test]
fn who_is_silent_is_forgotten_and_who_renews_is_not() {
    let mut own = own(1);
    let ticket = acquire(&mut own, 0, &wish(1, Mode::Exclusive))[0].2.ticket;
    acquire(&mut own, 0, &wish(2, Mode::Exclusive));
    let renewed = acquire(&mut own, 90_000, &Attempt { ticket, sent_us: 77, ..wish(1, Mode::Exclusive) });
    assert_eq!((told(&renewed), renewed[0].2.sent_us), (vec![(GRANT, 1)], 77));
    acquire(&mut own, 90_000, &wish(2, Mode::Exclusive));
    let until = |own: &mut Own, end: u64| -> Sent {
        let mut sent = Vec::new();
        while own.due().0 <= end {
            let now = own.due().0;
            sent.extend(link(now, |link| own.on_tick(link)).1);
        }
        sent
    };
    assert_eq!(until(&mut own, 90_000 + PATIENCE), []);
    acquire(&mut own, 90_000 + PATIENCE, &wish(2, Mode::Exclusive));
    assert_eq!(told(&until(&mut own, 90_000 + 2 * PATIENCE)), [(GRANT, 2)]);
    // Its late renewal is no hold.
    let late = acquire(&mut own, 90_000 + 2 * PATIENCE, &Attempt { ticket, ..wish(1, Mode::Exclusive) });
    assert_eq!(told(&late), [(RELEASED, 1)]);
}

#[test]
fn a_session_that_is_over_leaves_its_locks_to_the_next() {
    let mut own = own(1);
    acquire(&mut own, 0, &wish(1, Mode::Exclusive));
    acquire(&mut own, 0, &wish(2, Mode::Exclusive));
    assert_eq!(link(10, |link| own.on_down(link, 1, |request| request != 1)).1, [], "of another session");
    assert_eq!(told(&link(10, |link| own.on_down(link, 1, |request| request == 1)).1), [(GRANT, 2)]);
}

#[test]
fn a_successor_grants_nothing_before_all_holders_of_its_predecessor_are_known() {
    let mut own = own(2);
    let ticket = 1 << TICKET_BITS | 6;
    let holds = |holder, ticket| Attempt { ticket, ..wish(holder, Mode::Exclusive) };
    assert_eq!(told(&acquire(&mut own, 0, &wish(3, Mode::Shared))), [(QUEUED, 3)]);
    let try_ = Attempt { flags: queue_flag::TRY, ..wish(4, Mode::Shared) };
    assert_eq!(told(&acquire(&mut own, 0, &try_)), [(kind::queue::BUSY, 4)]);
    assert_eq!(told(&acquire(&mut own, 10, &holds(1, ticket))), [(GRANT, 1)], "it says so, and is believed");
    assert_eq!(told(&acquire(&mut own, 20, &holds(2, ticket - 1))), [(RELEASED, 2)], "over, or 1 would not hold");
    assert_eq!(told(&acquire(&mut own, 20, &holds(2, ticket + 1))), [(GRANT, 2)], "then 1 was over");
    assert_eq!(told(&acquire(&mut own, 20, &wish(2, Mode::Exclusive))), [(GRANT, 2)], "a late packet");
    assert_eq!(told(&acquire(&mut own, 20, &holds(4, 2 << TICKET_BITS | 1))), [(RELEASED, 4)], "nobody's ticket yet");
    let opens = own.due();
    assert_eq!(opens, Time(PATIENCE));
    acquire(&mut own, 60_000, &holds(2, ticket + 1));
    acquire(&mut own, 60_000, &wish(3, Mode::Shared));
    assert_eq!(link(opens.0, |link| own.on_tick(link)).1, [], "2 holds");
    let sent = link(opens.0, |link| own.on_release(link, &holds(2, ticket + 1), false)).1;
    assert_eq!(told(&sent), [(GRANT, 3), (RELEASED, 2)]);
    assert!(sent[0].2.ticket > ticket + 1, "above all of earlier terms");
    assert_eq!(told(&acquire(&mut own, opens.0, &holds(1, ticket))), [(RELEASED, 1)], "too late to say so");
}

#[test]
fn who_was_granted_what_its_successor_knows_as_a_wish_still_holds() {
    let mut own = own(2);
    let holds = Attempt { ticket: 1 << TICKET_BITS | 6, ..wish(1, Mode::Exclusive) };
    assert_eq!(told(&acquire(&mut own, 0, &wish(1, Mode::Exclusive))), [(QUEUED, 1)], "it was under way for long");
    let sent = acquire(&mut own, 10, &holds);
    assert_eq!((told(&sent), sent[0].2.ticket), (vec![(GRANT, 1)], holds.ticket));
    acquire(&mut own, 60_000, &holds);
    assert_eq!(link(PATIENCE, |link| own.on_tick(link)).1, [], "and nobody else is granted it, nor the same again");
}

// ---- who is the lock server ----

fn serving(server: &mut LockServer, now: u64, source: Handle, term: u64) {
    let header = Header { kind: kind::queue::SERVING, source, destination: ME, ..Header::default() };
    let attempt = Attempt { number: term, order: LEASE, over: PATIENCE, holder: ME, ..Attempt::default() };
    link(now, |link| server.on_packet(link, &header, &attempt));
}

#[test]
fn a_lock_server_asks_until_it_is_told_and_answers_nobody_before() {
    let mut server = LockServer::new(&config(), INCARNATION);
    server.start(Time(0));
    let sent = link(0, |link| server.on_tick(link)).1;
    assert_eq!((kinds(&sent), sent[0].2.request), (vec![kind::queue::SERVE], INCARNATION << 40), "of this session");
    assert_eq!(kinds(&link(PAUSE, |link| server.on_tick(link)).1), [kind::queue::SERVE]);
    let header = Header { kind: kind::queue::ACQUIRE, source: 1, destination: ME, ..Header::default() };
    let ask =
        |server: &mut LockServer, now| link(now, |link| server.on_packet(link, &header, &wish(1, Mode::Exclusive))).1;
    serving(&mut server, 1_500, 0, 0);
    assert!(!server.serves(NAME) && ask(&mut server, 1_600).is_empty());
    serving(&mut server, 1_700, 3, 1);
    assert!(!server.serves(NAME), "only the controller says so");
    serving(&mut server, 1_800, 0, 1);
    let ticket = ask(&mut server, 1_900)[0].2.ticket;
    // Late copies of what it was told before.
    serving(&mut server, 2_000, 0, 0);
    serving(&mut server, 2_000, 0, 1);
    assert_eq!(ask(&mut server, 2_100)[0].2.ticket, ticket, "it goes on");
    server.stop();
    assert!(ask(&mut server, 2_200).is_empty() && server.next_timer() == Time::NEVER);
    serving(&mut server, 2_300, 0, 1);
    assert!(!server.serves(NAME), "its session is over");
}
