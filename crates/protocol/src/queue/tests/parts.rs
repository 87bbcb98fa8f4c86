//! A node that is the lock server of some parts of its namespace: docs/queue.md, "Parts".

use super::*;
use crate::memory::Part;
use wayside_wire::Policy;

const PARTS: u16 = 3;

/// SERVING: whose a part is, in which term; 0: not this node's.
fn told(server: &mut LockServer, now: u64, part: u16, term: u16, mine: bool) -> Sent {
    let header = Header { kind: kind::queue::SERVING, source: 0, destination: ME, ..Header::default() };
    let attempt = Attempt {
        number: if mine { term.into() } else { 0 },
        ticket: term.into(),
        room: part,
        cause: PARTS as u8,
        order: LEASE,
        over: PATIENCE,
        holder: ME,
        ..Attempt::default()
    };
    link(now, |link| server.on_packet(link, &header, &attempt)).1
}

fn server() -> LockServer {
    let mut server = LockServer::new(&config(), INCARNATION);
    server.start(Time(0));
    server
}

/// A name of each part.
fn name_in(part: u16) -> u64 {
    (0..).find(|name| Part::of_name(*name, PARTS).number == part).expect("there are many")
}

fn asks(server: &mut LockServer, now: u64, part: u16, holder: Handle) -> Sent {
    let header = Header { kind: kind::queue::ACQUIRE, source: holder, destination: ME, ..Header::default() };
    let attempt = Attempt { name: name_in(part), ..wish(holder, Mode::Exclusive) };
    link(now, |link| server.on_packet(link, &header, &attempt)).1
}

/// The ticket, if it was granted.
fn granted(sent: &Sent) -> Option<u64> {
    sent.iter().find(|sent| sent.0 == GRANT).map(|sent| sent.2.ticket)
}

#[test]
fn each_part_has_its_term_and_tickets_of_its_own() {
    let mut server = server();
    told(&mut server, 0, 0, 1, true);
    told(&mut server, 0, 2, 4, true);
    assert_eq!([0, 1, 2].map(|part| server.serves(name_in(part))), [true, false, true]);
    assert_eq!(granted(&asks(&mut server, 10, 0, 1)), Some(1 << TICKET_BITS | 1), "nobody held it before");
    assert_eq!(asks(&mut server, 10, 1, 1), [], "somebody else's");
    assert_eq!(kinds(&asks(&mut server, 10, 2, 1)), [QUEUED], "others have had this one");
    let sent = link(PATIENCE, |link| server.on_tick(link)).1;
    assert_eq!(granted(&sent), Some(4 << TICKET_BITS | 1));
}

#[test]
fn a_part_that_is_anothers_is_left_and_the_others_go_on() {
    let mut server = server();
    told(&mut server, 0, 0, 1, true);
    told(&mut server, 0, 1, 1, true);
    let first = granted(&asks(&mut server, 10, 1, 1));
    asks(&mut server, 10, 0, 1);
    told(&mut server, 20, 0, 2, false);
    assert_eq!((server.serves(name_in(0)), asks(&mut server, 30, 0, 1)), (false, Sent::new()));
    assert_eq!(granted(&asks(&mut server, 30, 1, 1)), first, "the same hold");
    // What was said before comes late.
    told(&mut server, 40, 0, 1, true);
    assert!(!server.serves(name_in(0)));
}

#[test]
fn a_part_that_comes_back_begins_in_its_new_term_and_waits_for_who_holds() {
    let mut server = server();
    told(&mut server, 0, 0, 1, true);
    assert!(granted(&asks(&mut server, 10, 0, 1)).is_some());
    // Whether it was told in between, or not.
    for (now, term, lost) in [(1_000, 3, true), (1_000_000, 5, false)] {
        if lost {
            told(&mut server, now, 0, term - 1, false);
        }
        told(&mut server, now, 0, term, true);
        assert_eq!(kinds(&asks(&mut server, now, 0, 2)), [QUEUED], "others may hold by the one in between");
        let stranger =
            Attempt { name: name_in(0), ticket: u64::from(term - 1) << TICKET_BITS | 9, ..wish(3, Mode::Exclusive) };
        let header = Header { kind: kind::queue::ACQUIRE, source: 3, destination: ME, ..Header::default() };
        let sent = link(now + 10, |link| server.on_packet(link, &header, &stranger)).1;
        assert_eq!(granted(&sent), Some(stranger.ticket), "and say so");
        told(&mut server, now + 20, 0, 1, true);
        told(&mut server, now + 20, 0, term, true);
        let sent = link(now + 20, |link| server.on_packet(link, &header, &stranger)).1;
        assert_eq!(granted(&sent), Some(stranger.ticket), "copies of what was said change nothing");
    }
}

#[test]
fn a_switch_that_knows_no_parts_has_one() {
    let mut server = server();
    serving(&mut server, 0, 0, 1);
    assert!((0..100).all(|name| server.serves(name)));
}

#[test]
fn the_controller_is_asked_four_times_in_a_lease_and_every_pause_until_it_answers() {
    let mut server = server();
    let asks = |server: &mut LockServer, now: u64| kinds(&link(now, |link| server.on_tick(link)).1);
    assert_eq!(asks(&mut server, 0), [kind::queue::SERVE]);
    assert_eq!((server.next_timer(), asks(&mut server, PAUSE - 1)), (Time(PAUSE), vec![]));
    assert_eq!(asks(&mut server, PAUSE), [kind::queue::SERVE]);
    told(&mut server, PAUSE + 5, 0, 1, false);
    assert_eq!(server.next_timer(), Time(PAUSE + 5 + LEASE / 4));
    assert_eq!(asks(&mut server, PAUSE + 5 + LEASE / 4), [kind::queue::SERVE]);
}

#[test]
fn the_next_time_is_the_earliest_of_any_part() {
    let mut server = server();
    told(&mut server, 0, 0, 1, true);
    let first = server.next_timer();
    assert!(first <= Time(WINDOW));
    told(&mut server, 100, 2, 1, true);
    assert_eq!(server.next_timer(), first, "the part that came later has to do later");
}

/// It is of before the epoch, or of a switch that knows of no parts.
#[test]
fn what_is_said_of_another_division_changes_nothing_where_something_is_served() {
    let mut server = server();
    told(&mut server, 0, 0, 1, true);
    serving(&mut server, 10, 0, 7);
    assert_eq!([0, 1, 2].map(|part| server.serves(name_in(part))), [true, false, false]);
    assert!(granted(&asks(&mut server, 20, 0, 1)).is_some());
}

#[test]
fn a_part_that_comes_after_another_policy_is_served_by_that() {
    let mut server = server();
    server.decide_by(&NodeConfig { policy: Policy::WritePreferring, ..config() });
    told(&mut server, 0, 0, 1, true);
    let wishes = [(1, Mode::Exclusive), (2, Mode::Shared), (3, Mode::Exclusive)];
    let header = Header { kind: kind::queue::ACQUIRE, destination: ME, ..Header::default() };
    for (holder, mode) in wishes {
        let attempt = Attempt { name: name_in(0), ..wish(holder, mode) };
        link(0, |link| server.on_packet(link, &Header { source: holder, ..header }, &attempt));
    }
    let line: Vec<Handle> = server.line(EPOCH, name_in(0)).map(|one| one.holder).collect();
    assert_eq!(line, [1, 3, 2], "who writes goes first");
}

#[test]
fn who_offers_itself_tells_another_switch_at_once() {
    let mut server = server();
    let asked = |server: &mut LockServer, at| link(at, |link| server.on_tick(link)).1;
    assert_eq!(kinds(&asked(&mut server, 0)), [kind::queue::SERVE]);
    told(&mut server, 10, 0, 1, true);
    assert_eq!(asked(&mut server, 20), [], "it knows");
    server.hurry(Time(30));
    assert_eq!(kinds(&asked(&mut server, 30)), [kind::queue::SERVE]);
    server.stop();
    server.hurry(Time(40));
    assert_eq!(asked(&mut server, 50), [], "one that has no session offers nothing");
}
