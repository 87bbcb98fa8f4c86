use super::*;
use crate::outbox::Outbox;
use alloc::vec;
use wayside_wire::{BODY, check, service};

const ME: Handle = 5;
const INCARNATION: u64 = 9;
/// The first request of a session.
const FIRST: u64 = INCARNATION << COUNTER_BITS | 1;
/// Between two packets of a request: at first, and at last.
const PAUSES: (u64, u64) = (100, 800);

/// A requester, what it sends, and the time.
struct Desk {
    requester: Requester,
    out: Outbox,
    now: u64,
}

impl Desk {
    fn new() -> Desk {
        let config = NodeConfig {
            requests_most: 4,
            retransmit_us: PAUSES.0,
            retransmit_most_us: PAUSES.1,
            ..NodeConfig::new(0)
        };
        let mut requester = Requester::new(&config);
        requester.start(INCARNATION, 1);
        Desk { requester, out: Outbox::new(), now: 1_000 }
    }

    /// Does something; the packets that were sent because of it.
    fn does<T>(&mut self, what: impl FnOnce(&mut Requester, &mut Link<'_>) -> T) -> (T, Vec<(Header, Attempt)>) {
        let header = Header { service: service::QUEUE, source: ME, epoch: 1, namespace: 2, ..Header::default() };
        let answer = what(&mut self.requester, &mut Link { now: Time(self.now), header, out: &mut self.out });
        let mut sent = Vec::new();
        while let Some(out) = self.out.pop(None) {
            sent.push((check(out.packet).expect("a good packet"), Attempt::read(out.packet, BODY)));
        }
        (answer, sent)
    }

    fn asks(&mut self, want: Acquire) -> u64 {
        let (id, sent) = self.does(|requester, link| requester.acquire(link, &want));
        let id = id.expect("there is room").0;
        assert_eq!(kinds(&sent), [kind::queue::ACQUIRE]);
        id
    }

    fn ticks(&mut self, at: u64) -> Vec<(Header, Attempt)> {
        self.now = at;
        self.does(Requester::on_tick).1
    }

    fn hears(&mut self, kind: u8, source: Handle, attempt: Attempt) -> Vec<(Header, Attempt)> {
        let header = Header { service: service::QUEUE, kind, source, destination: ME, epoch: 1, ..Header::default() };
        let attempt = Attempt { holder: ME, ..attempt };
        self.does(|requester, link| requester.on_packet(link, &header, &attempt)).1
    }

    /// From the switch, without an end.
    fn granted(&mut self, request: u64, ticket: u64) -> Vec<(Header, Attempt)> {
        self.hears(kind::queue::GRANT, 0, Attempt { request, ticket, cause: kind::queue::ACQUIRE, ..want_none() })
    }

    /// From a lock server, for a while from `sent` on.
    fn lent(&mut self, request: u64, ticket: u64, sent: u64, lease: u64) -> Vec<(Header, Attempt)> {
        let grant = Attempt { request, ticket, sent_us: sent, order: lease, cause: 0, ..want_none() };
        self.hears(kind::queue::GRANT, 7, grant)
    }

    fn released(&mut self, request: u64, ticket: u64) -> Vec<(Header, Attempt)> {
        let over = Attempt { request, over: request, ticket, ..want_none() };
        self.hears(kind::queue::RELEASED, 0, over)
    }

    fn told(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.requester.told()).collect()
    }

    fn next(&mut self) -> u64 {
        self.requester.next_timer().0
    }
}

fn want_none() -> Attempt {
    Attempt { name: 3, ..Attempt::default() }
}

fn want() -> Acquire {
    Acquire { name: 3, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 0 }
}

fn kinds(sent: &[(Header, Attempt)]) -> Vec<u8> {
    sent.iter().map(|(header, _)| header.kind).collect()
}

#[test]
fn a_session_has_so_many_requests_at_a_time_and_so_many_ids() {
    let mut desk = Desk::new();
    for count in 0..4 {
        assert_eq!(desk.asks(want()), FIRST + count);
    }
    assert_eq!(desk.does(|requester, link| requester.acquire(link, &want())).0, Err(AcquireError::TooMany));
    desk.requester.lose_everything();
    desk.requester.start(INCARNATION, (1 << COUNTER_BITS) - 2);
    assert_eq!(desk.asks(want()), FIRST + (1 << COUNTER_BITS) - 3);
    assert_eq!(desk.does(|requester, link| requester.acquire(link, &want())).0, Err(AcquireError::Exhausted));
    desk.requester.start(INCARNATION + 1, 0);
    assert_eq!(desk.asks(want()), FIRST + (1 << COUNTER_BITS), "id 0 of a session is nobody's");
}

#[test]
fn of_several_nothing_is_asked_where_one_is_refused() {
    let mut desk = Desk::new();
    let mut ids = vec![RequestId(1)];
    let (refused, sent) = desk.does(|requester, link| requester.acquire_many(link, &[want(); 5], &mut ids));
    assert_eq!((refused, ids, sent.len()), (Err(AcquireError::TooMany), vec![RequestId(1)], 0));
    assert!(desk.requester.is_empty());
}

#[test]
fn who_waits_asks_in_pauses_that_double_and_gives_up_in_time() {
    let mut desk = Desk::new();
    let id = desk.asks(Acquire { deadline: Some(Time(2_650)), priority: Priority::new(7).expect("one"), ..want() });
    let mut asked = Vec::new();
    while desk.now < 2_650 {
        let next = desk.next();
        let sent = desk.ticks(next);
        asked.push((next, kinds(&sent)));
        assert!(sent.iter().all(|(header, attempt)| attempt.cause != 0 || header.kind == kind::queue::CANCEL));
    }
    let acquire = || vec![kind::queue::ACQUIRE];
    let expected = [(1_100, acquire()), (1_300, acquire()), (1_700, acquire()), (2_500, acquire())];
    assert_eq!(asked[..4], expected, "100, 200, 400, 800 microseconds");
    assert_eq!(asked[4], (2_650, vec![kind::queue::CANCEL]), "its time is over before its pause is");
    assert_eq!(desk.told(), [Event::TimedOut { request: RequestId(id), over_budget: false }]);
    // It says so until it is heard, beginning with short pauses again; nothing times out twice.
    for (at, kinds_then) in [(2_749, 0), (2_750, 1), (2_950, 1), (3_350, 1), (4_150, 1), (4_949, 0), (4_950, 1)] {
        assert_eq!(desk.ticks(at).len(), kinds_then, "at {at}");
    }
    assert_eq!(desk.told(), []);
    desk.released(id, 0);
    assert!(desk.requester.is_empty() && desk.next() == u64::MAX);
}

#[test]
fn one_that_is_parked_and_times_out_leaves_nothing_behind() {
    let mut desk = Desk::new();
    let mut ids = Vec::new();
    let wants = [Acquire { deadline: Some(Time(1_500)), ..want() }];
    desk.does(|requester, link| requester.park_many(link, &wants, &mut ids)).0.expect("there is room");
    assert_eq!(desk.next(), 1_500);
    assert_eq!(desk.ticks(1_500), []);
    assert_eq!(desk.told(), [Event::TimedOut { request: ids[0], over_budget: false }]);
    assert!(desk.requester.is_empty());
}

/// A lock server forgets who is silent for long: it says for how long.
#[test]
fn who_waits_at_a_lock_server_asks_as_often_as_that_wants() {
    let mut desk = Desk::new();
    let id = desk.asks(want());
    desk.hears(kind::queue::QUEUED, 7, Attempt { request: id, order: 1_200, ..want_none() });
    let mut at = Vec::new();
    for _ in 0..4 {
        let next = desk.next();
        desk.ticks(next);
        at.push(next);
    }
    assert_eq!(at, [1_100, 1_300, 1_600, 1_900], "a quarter of 1,200 at most");
    let queued = Attempt { request: id, order: 0, ..want_none() };
    desk.hears(kind::queue::QUEUED, 7, queued);
    assert_eq!(desk.next(), 2_200, "who says nothing of it changes nothing");
}

#[test]
fn a_hold_of_a_lock_server_is_renewed_in_time() {
    let mut desk = Desk::new();
    let id = desk.asks(want());
    desk.lent(id, 11, 1_000, 1_600);
    assert_eq!(desk.told().len(), 1);
    assert_eq!((desk.requester.holds_end(), desk.next()), (Time(2_600), 1_400));
    let sent = desk.ticks(1_400);
    assert_eq!((kinds(&sent), sent[0].1.ticket), (vec![kind::queue::ACQUIRE], 11));
    assert_eq!(desk.next(), 1_500, "a sixteenth of the lease later");
    // An answer to an earlier question shortens nothing, and the same one again neither.
    desk.lent(id, 11, 900, 1_600);
    desk.lent(id, 11, 1_000, 1_600);
    assert_eq!((desk.requester.holds_end(), desk.next()), (Time(2_600), 1_500));
    desk.lent(id, 11, 1_400, 1_600);
    assert_eq!((desk.requester.holds_end(), desk.next()), (Time(3_000), 1_800));
    // Not later than its end, while nobody answers.
    desk.ticks(2_950);
    assert_eq!(desk.next(), 3_000);
    desk.ticks(3_100);
    assert_eq!(desk.next(), 3_101);
    assert_eq!(desk.told(), []);
}

#[test]
fn a_grant_that_is_over_when_it_comes_is_asked_for_again() {
    let mut desk = Desk::new();
    let id = desk.asks(want());
    desk.now = 3_000;
    assert_eq!(kinds(&desk.lent(id, 11, 1_000, 2_000)), [kind::queue::ACQUIRE]);
    assert_eq!(desk.told(), []);
    desk.lent(id, 11, 1_001, 2_000);
    assert_eq!(desk.told().len(), 1);
}

#[test]
fn what_is_granted_to_who_has_given_up_is_given_back_by_its_ticket() {
    let mut desk = Desk::new();
    let id = desk.asks(want());
    let end = |desk: &mut Desk| kinds(&desk.does(|requester, link| requester.end(link, RequestId(id))).1);
    assert_eq!(end(&mut desk), [kind::queue::CANCEL]);
    assert_eq!(end(&mut desk), [0; 0], "it has ended");
    let sent = desk.granted(id, 11);
    assert_eq!((kinds(&sent), sent[0].1.ticket), (vec![kind::queue::RELEASE], 11));
    assert_eq!(desk.granted(id, 11), [], "that is said already, and said again in its pauses");
    let stray = desk.granted(id, 12);
    assert_eq!((kinds(&stray), stray[0].1.ticket), (vec![kind::queue::RELEASE], 12));
    desk.released(id, 12);
    assert!(!desk.requester.is_empty(), "that was the other ticket");
    desk.released(id, 11);
    assert!(desk.requester.is_empty());
    assert_eq!(desk.told(), []);
}

#[test]
fn a_grant_that_nobody_wants_is_given_back_until_that_is_heard() {
    let mut desk = Desk::new();
    assert_eq!(kinds(&desk.granted(FIRST, 11)), [kind::queue::RELEASE]);
    let mut at = Vec::new();
    for _ in 0..6 {
        let next = desk.next();
        assert_eq!(desk.ticks(next - 1), []);
        assert_eq!(kinds(&desk.ticks(next)), [kind::queue::RELEASE]);
        at.push(next);
    }
    assert_eq!(at, [1_100, 1_300, 1_700, 2_500, 3_300, 4_100]);
    // Several: the next one that is due is named.
    desk.now = 4_500;
    desk.granted(FIRST, 12);
    assert_eq!(desk.next(), 4_600);
    desk.released(FIRST, 12);
    assert_eq!(desk.next(), 4_900);
    desk.released(FIRST, 11);
    assert!(desk.requester.is_empty() && desk.next() == u64::MAX);
}

#[test]
fn a_cell_that_is_over_is_asked_for_anew_if_it_is_the_one_that_is_waited_in() {
    let mut desk = Desk::new();
    let id = desk.asks(want());
    assert_eq!(desk.released(id, 0), [], "it has no cell yet");
    desk.hears(kind::queue::QUEUED, 0, Attempt { request: id, ticket: 11, ..want_none() });
    assert_eq!(desk.released(id, 10), [], "another one");
    let sent = desk.released(id, 11);
    assert_eq!((kinds(&sent), sent[0].1.ticket), (vec![kind::queue::ACQUIRE], 0));
}

#[test]
fn a_try_says_so_and_what_may_have_been_granted_is_cancelled() {
    let mut desk = Desk::new();
    let tries = Acquire { try_: true, mode: Mode::Shared, ..want() };
    let (id, sent) = desk.does(|requester, link| requester.acquire(link, &tries));
    let id = id.expect("there is room").0;
    assert_eq!(sent[0].1.flags, queue_flag::TRY);
    assert_eq!(desk.hears(kind::queue::BUSY, 7, Attempt { request: id, ..want_none() }), []);
    assert_eq!(desk.told(), [Event::Busy { request: RequestId(id), agent: 7 }]);
    assert!(desk.requester.is_empty());

    let id = desk.asks(tries);
    desk.ticks(1_100);
    let cancelled = desk.hears(kind::queue::BUSY, 0, Attempt { request: id, ..want_none() });
    assert_eq!(kinds(&cancelled), [kind::queue::CANCEL], "it was asked for twice: one of them may be granted");
    assert!(!desk.requester.is_empty());
    // Who waits is told of no BUSY.
    let id = desk.asks(want());
    assert_eq!(desk.hears(kind::queue::BUSY, 0, Attempt { request: id, ..want_none() }), []);
    assert!(desk.requester.has(RequestId(id)));
}

#[test]
fn a_budget_that_is_spent_is_waited_for_and_told_of() {
    let mut desk = Desk::new();
    let wants = |deadline| Acquire { deadline: Some(Time(deadline)), ..want() };
    let id = desk.asks(wants(1_600));
    desk.hears(kind::queue::REJECT, 0, Attempt { request: id, order: 500, ..want_none() });
    assert_eq!(desk.ticks(1_499), []);
    // One that comes meanwhile waits for the same.
    let next = desk.asks(wants(1_580));
    assert_eq!(kinds(&desk.ticks(1_500)), [kind::queue::ACQUIRE]);
    desk.hears(kind::queue::REJECT, 0, Attempt { request: id, order: 10, ..want_none() });
    assert_eq!(desk.ticks(1_600).len(), 2, "both give up");
    let over_budget = |request| Event::TimedOut { request: RequestId(request), over_budget: true };
    assert_eq!(desk.told(), [over_budget(next), over_budget(id)]);
    // And a session that begins knows nothing of it.
    desk.requester.lose_everything();
    desk.told();
    desk.requester.start(INCARNATION + 1, 1);
    desk.now = 1_501;
    let id = desk.asks(wants(1_502));
    desk.ticks(1_502);
    assert_eq!(desk.told(), [Event::TimedOut { request: RequestId(id), over_budget: false }]);
}

#[test]
fn with_its_session_a_requester_loses_all() {
    let mut desk = Desk::new();
    let held = desk.asks(want());
    desk.lent(held, 11, 1_000, 1_600);
    let waits = desk.asks(want());
    let ends = desk.asks(want());
    desk.does(|requester, link| requester.end(link, RequestId(ends)));
    desk.granted(FIRST + 100, 12);
    desk.told();
    desk.requester.lose_everything();
    let lost = [held, waits].map(|request| Event::Lost { request: RequestId(request) });
    assert_eq!(desk.told(), lost, "of what was given up nobody wants to hear");
    assert!(desk.requester.is_empty());
    assert_eq!((desk.requester.holds_end(), desk.next()), (Time::NEVER, u64::MAX));
    assert_eq!(desk.ticks(100_000), []);
}

#[test]
fn with_an_epoch_ends_are_over_and_waits_begin_anew() {
    let mut desk = Desk::new();
    let held = desk.asks(want());
    desk.granted(held, 11);
    assert!(!desk.requester.begin_epoch(), "what is held is lost, and the session with it");
    desk.does(|requester, link| requester.end(link, RequestId(held)));
    desk.granted(FIRST + 100, 12);
    let waits = desk.asks(want());
    desk.hears(kind::queue::QUEUED, 0, Attempt { request: waits, ticket: 13, ..want_none() });
    assert!(desk.requester.begin_epoch());
    assert_eq!(desk.requester.requests().map(|(id, _)| id.0).collect::<Vec<_>>(), [waits]);
    let sent = desk.ticks(1_100);
    assert_eq!((kinds(&sent), sent[0].1.ticket), (vec![kind::queue::ACQUIRE], 0));
}

/// Timers are kept until they are found stale: a lock that changes hands all the time leaves none behind.
#[test]
fn timers_do_not_pile_up() {
    let mut desk = Desk::new();
    for round in 0..10_000 {
        let id = desk.asks(want());
        desk.granted(id, 11 + round);
        desk.does(|requester, link| requester.end(link, RequestId(id)));
        desk.released(id, 11 + round);
        assert_eq!(desk.next(), u64::MAX);
        assert!(desk.requester.timers.is_empty());
        desk.now += 1;
    }
    // Nor behind one that is due before all of them.
    let mut desk = Desk::new();
    desk.asks(want());
    for round in 0..1_000 {
        let id = desk.asks(want());
        desk.granted(id, 11 + round);
        desk.does(|requester, link| requester.end(link, RequestId(id)));
        desk.released(id, 11 + round);
        assert_eq!(desk.next(), 1_100);
        assert!(!desk.requester.timers.is_crowded(1), "{round}");
    }
}

/// For whoever looks at a node: since when it waits, holds or gives back.
#[test]
fn what_becomes_of_a_request_is_dated() {
    let mut desk = Desk::new();
    let since = |desk: &Desk| desk.requester.requests().map(|(_, pending)| pending.since.0).collect::<Vec<_>>();
    let id = desk.asks(want());
    assert_eq!(since(&desk), [1_000]);
    desk.now = 1_050;
    desk.granted(id, 6);
    assert_eq!(since(&desk), [1_050]);
    desk.now = 1_080;
    desk.does(|requester, link| requester.end(link, RequestId(id)));
    assert_eq!(since(&desk), [1_080]);
}

#[test]
fn who_holds_is_woken_for_its_lease_alone_and_not_for_what_it_waited_for() {
    let wanted = || Acquire { deadline: Some(Time(1_120)), ..want() };
    let mut desk = Desk::new();
    let id = desk.asks(wanted());
    desk.granted(id, 6);
    assert_eq!(desk.next(), u64::MAX, "the switch's has none");
    let mut desk = Desk::new();
    let id = desk.asks(wanted());
    desk.lent(id, 6, 1_000, 800);
    assert_eq!((desk.next(), desk.ticks(1_120).len()), (1_200, 0), "a quarter of its lease, and no deadline");
    let renewed = desk.ticks(1_200);
    assert_eq!((kinds(&renewed), renewed[0].1.ticket), (vec![kind::queue::ACQUIRE], 6));
}

/// Nor is its priority of any concern then.
#[test]
fn who_gives_up_says_so_in_its_own_pauses_and_not_in_those_of_a_lock_server() {
    let mut desk = Desk::new();
    let id = desk.asks(Acquire { priority: Priority::new(7).expect("one"), ..want() });
    desk.hears(kind::queue::QUEUED, 7, Attempt { request: id, order: 400, ..want_none() });
    let mut sent = desk.does(|requester, link| requester.end(link, RequestId(id))).1;
    let mut at = Vec::new();
    for _ in 0..4 {
        let next = desk.next();
        sent.extend(desk.ticks(next));
        at.push(next);
    }
    assert_eq!(at, [1_100, 1_300, 1_700, 2_500]);
    assert_eq!((kinds(&sent), sent.iter().all(|(_, it)| it.cause == 0)), (vec![kind::queue::CANCEL; 5], true));
}

/// A request whose grant goes by way of node 8.
fn asks_by(desk: &mut Desk, try_: bool) -> u64 {
    let third = Third { handle: 8, incarnation: 77 };
    let asked = desk.does(|requester, link| requester.acquire_by(link, &Acquire { try_, ..want() }, third, b"item"));
    asked.0.expect("there is room").0
}

#[test]
fn a_try_that_asks_by_way_of_another_says_so_too() {
    for try_ in [true, false] {
        let mut desk = Desk::new();
        let third = Third { handle: 8, incarnation: 77 };
        let header = Header { service: service::QUEUE, source: ME, epoch: 1, ..Header::default() };
        let mut link = Link { now: Time(desk.now), header, out: &mut desk.out };
        let want = Acquire { try_, ..want() };
        desk.requester.acquire_by(&mut link, &want, third, b"").expect("there is room");
        let sent = desk.out.pop(None).expect("a packet");
        let flags = Fetch::read(sent.packet, BODY).flags;
        assert_eq!((flags & queue_flag::TRY != 0, flags & queue_flag::EXCLUSIVE != 0), (try_, true));
    }
}

/// Else it would be said that who was to be asked has not answered.
#[test]
fn who_was_told_to_wait_knows_that_nobody_was_asked() {
    for (is_queued, why) in [(true, NotFetched::Direct), (false, NotFetched::Silent)] {
        let mut desk = Desk::new();
        let id = asks_by(&mut desk, false);
        if is_queued {
            desk.hears(kind::queue::QUEUED, 0, Attempt { request: id, ticket: 6, ..want_none() });
        }
        assert_eq!(kinds(&desk.ticks(1_100)), [kind::queue::ACQUIRE]);
        desk.granted(id, 6);
        assert_eq!(desk.requester.take_fetched(RequestId(id)), Some(Err(why)));
        assert_eq!(desk.requester.take_fetched(RequestId(id)), None, "once");
    }
}

#[test]
fn what_came_with_the_holds_of_a_session_goes_with_it() {
    let mut desk = Desk::new();
    let id = asks_by(&mut desk, false);
    desk.granted(id, 6);
    desk.requester.lose_everything();
    assert_eq!(desk.requester.take_fetched(RequestId(id)), None);
}

/// A lock server's word that it knows a hold no more ends one session, and not the next one, too.
#[test]
fn a_session_begins_without_the_loss_that_ended_the_one_before() {
    let mut desk = Desk::new();
    let id = desk.asks(want());
    desk.lent(id, 6, 1_000, 400);
    let over = Attempt { request: id, over: id, ticket: 6, ..want_none() };
    desk.hears(kind::queue::RELEASED, 7, over);
    assert!(desk.requester.bereft);
    desk.requester.lose_everything();
    desk.requester.start(INCARNATION + 1, 1);
    assert!(!desk.requester.bereft);
}

#[test]
fn what_nobody_wants_is_given_back_when_there_is_room_for_it() {
    let mut desk = Desk::new();
    let (first, second) = (FIRST + 70, FIRST + 71);
    for id in [first, second] {
        assert_eq!(kinds(&desk.granted(id, 6)), [kind::queue::RELEASE]);
    }
    let fill = |_: &mut Requester, link: &mut Link<'_>| {
        while !link.out.is_full() {
            link.send(0, kind::queue::NEXT, 0, &want_none());
        }
    };
    let ((), sent) = desk.does(|requester, link| {
        link.now = link.now + PAUSES.0;
        fill(requester, link);
        requester.on_tick(link);
    });
    assert!(sent.iter().all(|(header, _)| header.kind == kind::queue::NEXT), "it is no more than fits");
    let again = desk.ticks(1_000 + PAUSES.0);
    assert_eq!(kinds(&again), [kind::queue::RELEASE; 2]);
    assert_eq!(again.iter().map(|(_, attempt)| attempt.request).collect::<Vec<_>>(), [first, second]);
}
