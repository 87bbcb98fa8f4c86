//! Grants by way of a third node: who asks, and who answers.

use super::*;
use wayside_wire::{Fetch as Body, blocks};

const SERVER: Third = Third { handle: 8, incarnation: 77 };
const WHOLE: &[u8] = &[0xab; FETCH_BYTES_MOST];

/// What was sent with blocks: header, body and what the blocks have.
fn sent_with_blocks<R>(now: u64, work: impl FnOnce(&mut Link<'_>) -> R) -> (R, Vec<(Header, Body, Vec<u8>)>) {
    let mut out = Outbox::new();
    let header = Header { service: wayside_wire::service::QUEUE, source: ME, epoch: EPOCH, ..Header::default() };
    let result = work(&mut Link { now: Time(now), header, out: &mut out });
    let mut sent = Vec::new();
    while let Some(transmit) = out.pop(None) {
        let header = wayside_wire::check(transmit.packet).expect("a packet");
        let body = Body::read(transmit.packet, BODY);
        let content = blocks(transmit.packet);
        assert!(content[body.length.into()..].iter().all(|byte| *byte == 0), "padding");
        sent.push((header, body, content[..body.length.into()].to_vec()));
    }
    (result, sent)
}

fn ask_by(requester: &mut Requester, now: u64, ask: &[u8]) -> RequestId {
    let wanted = want(7, Mode::Exclusive);
    let (id, sent) = sent_with_blocks(now, |link| requester.acquire_by(link, &wanted, SERVER, ask).expect("room"));
    let [(header, body, asked)] = &sent[..] else { panic!("one packet: {sent:?}") };
    assert_eq!((header.kind, header.destination), (kind::queue::FETCH, SERVER.handle));
    assert_eq!((body.incarnation, body.holder, body.sent_us), (SERVER.incarnation, ME, now));
    assert_eq!((body.request, body.flags, &asked[..]), (id.0, queue_flag::EXCLUSIVE, ask));
    assert_eq!(usize::from(header.count), ask.len().div_ceil(limits::BLOCK_BYTES), "no more than it takes");
    id
}

fn fetched(requester: &mut Requester, now: u64, source: Handle, flags: u16, body: &Body, data: &[u8]) -> Sent {
    let header =
        Header { kind: kind::queue::FETCHED, source, flags, destination: ME, epoch: EPOCH, ..Header::default() };
    link(now, |link| requester.on_fetched(link, &header, body, data)).1
}

/// As the switch lets it through.
fn body(RequestId(request): RequestId, ticket: u64) -> Body {
    let flags = queue_flag::EXCLUSIVE;
    Body { name: 7, request, ticket, holder: ME, flags, cause: kind::queue::FETCH, ..Body::default() }
}

fn grants(requester: &mut Requester) -> Vec<(RequestId, Token)> {
    let granted = |event| match event {
        Event::Granted { request, token, path: Path::Switch, .. } => Some((request, token)),
        _ => None,
    };
    core::iter::from_fn(|| requester.told()).filter_map(granted).collect()
}

#[test]
fn an_answer_is_the_grant_and_brings_the_data() {
    for content in [b"".as_slice(), b"item 7", WHOLE] {
        let mut requester = requester();
        let id = ask_by(&mut requester, 5, content);
        assert_eq!(fetched(&mut requester, 9, SERVER.handle, 0, &body(id, 40), content), vec![]);
        assert_eq!(grants(&mut requester), [(id, Token::of_ticket(EPOCH, 40))]);
        assert_eq!(requester.take_fetched(id), Some(Ok(content.to_vec())));
        assert_eq!(requester.take_fetched(id), None, "once");
    }
}

#[test]
fn whoever_hears_nothing_asks_the_switch_for_the_grant_alone() {
    let mut requester = requester();
    let id = ask_by(&mut requester, 0, b"item");
    let (_, sent) = link(PAUSE, |link| requester.on_tick(link));
    assert_eq!((sent.len(), sent[0].0, sent[0].1, sent[0].2.request), (1, kind::queue::ACQUIRE, 0, id.0));
    assert_eq!(answer(&mut requester, PAUSE + 9, kind::queue::GRANT, 0, granted(id, 40)), vec![]);
    assert_eq!(grants(&mut requester), [(id, Token::of_ticket(EPOCH, 40))]);
    // Too late: its owner has been told that there is nothing.
    assert_eq!(fetched(&mut requester, PAUSE + 10, SERVER.handle, 0, &body(id, 40), b"late"), vec![]);
    assert_eq!(grants(&mut requester), []);
    assert_eq!(requester.take_fetched(id), Some(Err(NotFetched::Silent)));
}

#[test]
fn a_grant_that_comes_alone_says_why() {
    // The switch grants it itself at once, and says that it knows no such server.
    let mut one = requester();
    let id = ask_by(&mut one, 0, b"item");
    answer(&mut one, 5, kind::queue::GRANT, 0, Attempt { cause: kind::queue::FETCH, ..granted(id, 40) });
    assert_eq!(one.take_fetched(id), Some(Err(NotFetched::Unknown)));
    // It comes in somebody else's packet, and to be told to wait is overtaken by that.
    let mut one = requester();
    let id = ask_by(&mut one, 0, b"item");
    answer(&mut one, 5, kind::queue::GRANT, 0, Attempt { cause: kind::queue::RELEASE, ..granted(id, 40) });
    assert_eq!(one.take_fetched(id), Some(Err(NotFetched::Direct)));
    // It had to come again, and nobody was asked.
    for why in [kind::queue::RECOVERING, kind::queue::REJECT] {
        let mut one = requester();
        let id = ask_by(&mut one, 0, b"item");
        answer(&mut one, 5, why, 0, Attempt { request: id.0, ..Attempt::default() });
        link(PAUSE, |link| one.on_tick(link));
        answer(&mut one, PAUSE + 5, kind::queue::GRANT, 0, granted(id, 40));
        assert_eq!(one.take_fetched(id), Some(Err(NotFetched::Direct)));
    }
    // Its server has nothing for it.
    let mut one = requester();
    let id = ask_by(&mut one, 0, b"item");
    fetched(&mut one, 5, SERVER.handle, header_flag::REFUSED, &body(id, 40), b"");
    assert_eq!((grants(&mut one).len(), one.take_fetched(id)), (1, Some(Err(NotFetched::Refused))));
    // It had to wait, and comes with somebody's release.
    let mut one = requester();
    let id = ask_by(&mut one, 0, b"item");
    answer(&mut one, 5, kind::queue::QUEUED, 0, Attempt { ticket: 40, ..granted(id, 40) });
    answer(&mut one, 9, kind::queue::GRANT, 0, granted(id, 40));
    assert_eq!(one.take_fetched(id), Some(Err(NotFetched::Direct)));
    // It is a lock server's own.
    let mut one = requester();
    let id = ask_by(&mut one, 0, b"item");
    answer(&mut one, 5, kind::queue::GRANT, 9, leased(id, 40, 0));
    assert_eq!(one.take_fetched(id), Some(Err(NotFetched::Direct)));
    // Who asked for nothing has nothing.
    let mut one = requester();
    let id = ask(&mut one, 0, &want(7, Mode::Exclusive));
    answer(&mut one, 5, kind::queue::GRANT, 0, granted(id, 40));
    assert_eq!(one.take_fetched(id), None);
}

#[test]
fn an_answer_of_another_node_is_none() {
    let mut requester = requester();
    let id = ask_by(&mut requester, 0, b"item");
    fetched(&mut requester, 5, SERVER.handle + 1, 0, &body(id, 40), b"forged");
    assert_eq!((grants(&mut requester), requester.take_fetched(id)), (vec![], None));
    fetched(&mut requester, 6, SERVER.handle, 0, &body(id, 40), b"right");
    assert_eq!(requester.take_fetched(id), Some(Ok(b"right".to_vec())));
}

#[test]
fn an_answer_for_a_request_that_is_over_serves_no_other_and_is_given_back() {
    let mut requester = requester();
    let before = ask_by(&mut requester, 0, b"item");
    link(1, |link| requester.end(link, before));
    let after = ask_by(&mut requester, 2, b"item");
    // It has cancelled without a ticket, and hears of one.
    let sent = fetched(&mut requester, 5, SERVER.handle, 0, &body(before, 40), b"of before");
    assert_eq!((grants(&mut requester), requester.take_fetched(after)), (vec![], None));
    assert_eq!((sent[0].0, sent[0].2.request, sent[0].2.ticket), (kind::queue::RELEASE, before.0, 40));
}

#[test]
fn what_was_fetched_goes_with_its_hold() {
    let mut requester = requester();
    let id = ask_by(&mut requester, 0, b"item");
    fetched(&mut requester, 5, SERVER.handle, 0, &body(id, 40), b"data");
    link(6, |link| requester.end(link, id));
    assert_eq!(requester.take_fetched(id), None);
}

/// Frames are used again: what was in one before is nobody's who is sent the next.
#[test]
fn nothing_of_an_earlier_packet_goes_with_a_later_one() {
    let mut out = Outbox::new();
    let header = Header { service: wayside_wire::service::QUEUE, source: ME, epoch: EPOCH, ..Header::default() };
    for content in (0..100).flat_map(|_| [WHOLE, b"item"]) {
        let mut link = Link { now: Time(0), header, out: &mut out };
        link.send_blocks(0, Header { kind: kind::queue::FETCH, ..header }, &Body::default(), content);
        let sent = out.pop(None).expect("a packet");
        let blocks = blocks(sent.packet);
        assert!(blocks.len() < content.len() + limits::BLOCK_BYTES, "no more than it takes");
        assert!(blocks[..content.len()] == *content && blocks[content.len()..].iter().all(|byte| *byte == 0));
    }
}

// ---- the third node ----

const OWN: u64 = 21;

fn asked(fetches: &mut Fetches, source: Handle, body: &Body, ask: &[u8]) -> Vec<(Header, Body, Vec<u8>)> {
    let header = Header { kind: kind::queue::FETCH, source, destination: ME, epoch: EPOCH, ..Header::default() };
    sent_with_blocks(5, |link| fetches.on_fetch(link, &header, OWN, body, ask)).1
}

fn question(ticket: u64) -> Body {
    let (request, holder) = (3 << 40 | 9, 6);
    Body { name: 7, request, ticket, incarnation: OWN, holder, sent_us: 11, ..Body::default() }
}

fn answered(
    fetches: &mut Fetches,
    incarnation: u64,
    fetch: &Fetch,
    data: Option<&[u8]>,
) -> Vec<(Header, Body, Vec<u8>)> {
    sent_with_blocks(8, |link| fetches.answer(link, incarnation, fetch, data, None)).1
}

#[test]
fn a_question_is_answered_under_its_own_request_and_ticket() {
    let mut fetches = Fetches::default();
    fetches.serve(true);
    assert_eq!(asked(&mut fetches, 0, &question(40), b"item"), vec![]);
    assert_eq!(asked(&mut fetches, 0, &Body { flags: queue_flag::EXCLUSIVE, ..question(41) }, b""), vec![]);
    let (first, second) = (fetches.take().expect("asked"), fetches.take().expect("asked"));
    assert_eq!(fetches.take(), None);
    assert_eq!(
        (first.mode, first.token, &first.ask[..]),
        (Mode::Shared, Token::of_ticket(EPOCH, 40), b"item".as_slice())
    );
    assert_eq!((second.mode, second.token), (Mode::Exclusive, Token::of_ticket(EPOCH, 41)));
    let sent = answered(&mut fetches, OWN, &first, Some(WHOLE));
    let [(header, body, data)] = &sent[..] else { panic!("one packet: {sent:?}") };
    assert_eq!((header.kind, header.destination, header.flags), (kind::queue::FETCHED, 6, 0));
    assert_eq!((body.ticket, body.request, body.holder, body.sent_us), (40, 3 << 40 | 9, 6, 11));
    assert_eq!(data, WHOLE);
    assert_eq!(answered(&mut fetches, OWN, &second, None)[0].0.flags, header_flag::REFUSED);
}

#[test]
fn who_does_not_serve_or_has_too_many_says_so_at_once() {
    let mut fetches = Fetches::default();
    let sent = asked(&mut fetches, 0, &question(40), b"item");
    assert_eq!((sent.len(), sent[0].0.flags, sent[0].1.ticket), (1, header_flag::REFUSED, 40));
    fetches.serve(true);
    // Whether its owner has taken them or not.
    let mut kept = Vec::new();
    let mut refused = 0;
    for ticket in 1..=2_000 {
        refused += asked(&mut fetches, 0, &question(ticket), b"").len();
        kept.extend(fetches.take().filter(|_| ticket % 2 == 0));
        kept.extend(fetches.take().filter(|_| ticket % 3 == 0));
    }
    assert_eq!(refused, 2_000 - 1_024);
    while let Some(fetch) = fetches.take() {
        kept.push(fetch);
    }
    let is_refused = |fetches: &mut Fetches| !asked(fetches, 0, &question(3_000), b"").is_empty();
    assert!(is_refused(&mut fetches));
    answered(&mut fetches, OWN + 1, &kept[0], None);
    assert!(is_refused(&mut fetches), "that was a question of another session");
    answered(&mut fetches, OWN, &kept[0], None);
    assert!(!is_refused(&mut fetches) && is_refused(&mut fetches), "one is answered, and another one has come");
    fetches.forget();
    assert!((0..1_024).all(|_| !is_refused(&mut fetches)), "another session begins with none");
    assert!(is_refused(&mut fetches));
}

#[test]
fn what_is_asked_of_another_session_or_not_by_the_switch_is_not_answered() {
    let mut fetches = Fetches::default();
    fetches.serve(true);
    let another = Body { incarnation: OWN + 1, ..question(40) };
    for (source, body) in [(0, another), (4, question(40)), (0, question(0))] {
        assert_eq!(asked(&mut fetches, source, &body, b"item"), vec![]);
        assert_eq!(fetches.take(), None);
    }
    asked(&mut fetches, 0, &question(40), b"item");
    let fetch = fetches.take().expect("asked");
    assert_eq!(answered(&mut fetches, OWN + 1, &fetch, Some(b"data")), vec![], "another session of this process");
    let later = Fetch { epoch: EPOCH - 1, ..fetch };
    assert_eq!(answered(&mut fetches, OWN, &later, Some(b"data")), vec![], "an earlier epoch");
}
