//! What a node keeps that its packets do not show at once: books in few words, what is due, and whom it remembers.

use super::*;
use crate::lock::Acquire;
use crate::seal::Enrolment;
use alloc::vec;
use alloc::vec::Vec;
use wayside_wire::{Attempt, Engine, Policy, QueueKind, SlotState, entry_flag, header_flag, queue_flag};

const ME: Handle = 1;
const OTHER: Handle = 2;
const THIRD: Handle = 3;
const INCARNATION: u64 = 9;
const EPOCH: u32 = 7;
const SLOTS: u32 = 64;
const NAME: u64 = 5;
const SLOT: u32 = 5;
const LEASE: u64 = 60_000_000;
const GRACE: u64 = 1_000_000;
const PAUSE: u64 = 5_000;
const CENSUS: u64 = 77;
const TENURE: u32 = 4;
const EXCLUSIVE: u8 = entry_flag::EXCLUSIVE;
const AGENCY: u8 = entry_flag::AGENCY;

struct Scene {
    node: Node,
    now: Time,
    epoch: u32,
}

/// A node that keeps slots.
fn keeping(kept_most: usize) -> Scene {
    Scene::new(NodeConfig { kept_most, ..NodeConfig::new(1) })
}

impl Scene {
    fn new(config: NodeConfig) -> Scene {
        Scene::with(config, Engine::Fission)
    }

    fn with(config: NodeConfig, engine: Engine) -> Scene {
        let mut node = Node::new(config);
        let now = Time(1_000_000);
        let enrolment = Enrolment {
            handle: ME,
            incarnation: INCARNATION,
            epoch: EPOCH,
            namespace: 1,
            slots: SLOTS,
            engine,
            names: Names::default(),
            policy: Policy::Fair,
            patience: OVERTAKEN_MOST,
            lease: LEASE as u32,
            grace: GRACE as u32,
            lifeline: 0,
            shards: 0,
            secret: None,
            version: wayside_wire::VERSION,
        };
        node.begin(now, now, &enrolment);
        let mut scene = Scene { node, now, epoch: EPOCH };
        scene.tick(0);
        scene.told();
        scene.sent();
        scene
    }

    fn want(name: u64, mode: Mode) -> Acquire {
        Acquire { name, mode, try_: false, priority: Priority::NORMAL, deadline: None, port: 70 }
    }

    fn ask(&mut self, name: u64, mode: Mode) -> RequestId {
        self.node.acquire(self.now, Scene::want(name, mode)).expect("the session lives")
    }

    fn release(&mut self, id: RequestId) {
        self.node.release(self.now, id);
    }

    /// So many microseconds later.
    fn tick(&mut self, later: u64) {
        self.now = self.now + later;
        self.node.on_tick(self.now);
    }

    /// A lock packet arrives.
    fn hear(&mut self, header: Header, entries: &[Entry]) {
        let mut packet = vec![0; BODY + entries.len() * Entry::BYTES];
        let (service, count) = (service::LOCK, entries.len() as u8);
        let header = Header { service, count, destination: ME, namespace: 1, epoch: self.epoch, ..header };
        header.write(&mut packet);
        for (index, entry) in entries.iter().enumerate() {
            entry.write(&mut packet, BODY + index * Entry::BYTES);
        }
        self.node.on_packet(self.now, &packet);
    }

    /// Lock packets since, each with its first entry.
    fn sent(&mut self) -> Vec<(Header, Entry)> {
        let mut sent = Vec::new();
        while let Some(out) = self.node.transmit() {
            let header = check(out.packet).expect("a node writes packets");
            if header.service == service::LOCK {
                sent.push((header, Entry::read(out.packet, BODY)));
            }
        }
        sent
    }

    fn kinds(&mut self) -> Vec<u8> {
        self.sent().iter().map(|(header, _)| header.kind).collect()
    }

    fn told(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.node.event()).collect()
    }

    fn book(&self, slot: u32) -> &Book {
        self.node.agency.books.get(slot).expect("it has a book")
    }

    fn request(&self, RequestId(id): RequestId) -> &Request {
        self.node.requests.get(id).expect("it is known")
    }

    /// The switch grants an exclusive request with the agency.
    fn grant(&mut self, name: u64, id: RequestId, tenure: u32) {
        self.hear(of_kind(kind::lock::GRANT), &[fresh(name, id, tenure)]);
        assert!(matches!(self.told()[..], [Event::Granted { request, .. }] if request == id));
    }

    /// A name that this node holds alone, and its agent.
    fn hold(&mut self, name: u64) -> RequestId {
        let id = self.ask(name, Mode::Exclusive);
        self.sent();
        self.grant(name, id, TENURE);
        id
    }

    /// The switch names this node as agent to a request of another one.
    fn forward(&mut self, kind: u8, entry: Entry) {
        self.hear(Header { source: entry.holder, ..of_kind(kind) }, &[entry]);
    }

    /// The controller asks for all slots, in the next epoch.
    fn ask_all(&mut self, id: u64) {
        self.epoch += 1;
        let about = Entry { request: id, slot: limits::ALL_SLOTS, ..Entry::default() };
        self.hear(of_kind(kind::lock::CENSUS), &[about]);
    }

    /// The controller asks for these slots up to a tenure. The slots that are reported with their flags, if any page.
    fn ask_some(&mut self, id: u64, page: u16, slots: &[u32], tenure: u32) -> Option<Vec<(u32, u8)>> {
        self.sent();
        let about = |slot: &u32| Entry { request: id, slot: *slot, tenure, ..Entry::default() };
        let header = Header { position: page, ..of_kind(kind::lock::CENSUS) };
        self.hear(header, &slots.iter().map(about).collect::<Vec<_>>());
        let mut report = None;
        while let Some(out) = self.node.transmit() {
            let header = check(out.packet).expect("a node writes packets");
            if (header.service, header.kind) == (service::LOCK, kind::lock::REPORT) {
                report = Some(lock_entries(out.packet).skip(1).map(|entry| (entry.slot, entry.flags)).collect());
            }
        }
        report
    }

    /// The controller tells all of an adoption in a page: `flags` of its first entry.
    fn adopt(&mut self, id: u64, flags: u8, named: &[Entry]) {
        let about = Entry { request: id, flags, ..agency(0, 1) };
        let header = Header { flags: header_flag::LAST, ..of_kind(kind::lock::ADOPT) };
        self.hear(header, &[&[about], named].concat());
    }
}

fn of_kind(kind: u8) -> Header {
    Header { kind, ..Header::default() }
}

fn managed(transferred: bool) -> u16 {
    SlotBits { state: SlotState::Managed, transferred, tryable: false, joins: 0 }.to_u16()
}

fn fresh(name: u64, RequestId(request): RequestId, tenure: u32) -> Entry {
    let (slot, flags) = (name as u32 % SLOTS, AGENCY | EXCLUSIVE);
    let entry = Entry { name, request, slot, tenure, holder: ME, flags, ..Entry::default() };
    Entry { slot_bits: managed(false), reply_port: 70, ..entry }
}

/// As another node's agent grants it.
fn plain(name: u64, id: RequestId, tenure: u32) -> Entry {
    Entry { flags: EXCLUSIVE, sequence: 3, ..fresh(name, id, tenure) }
}

/// What an ADOPT says of a slot that is this node's.
fn agency(slot: u32, tenure: u32) -> Entry {
    Entry { slot, tenure, holder: ME, slot_bits: managed(true), flags: AGENCY, ..Entry::default() }
}

/// A request of another node's for this slot, of its name of the same number.
fn theirs(holder: Handle, number: u64, slot: u32, tenure: u32) -> Entry {
    let request = (100 + u64::from(holder)) << 40 | number;
    let entry = Entry { name: slot.into(), request, slot, tenure, holder, ..Entry::default() };
    Entry { flags: EXCLUSIVE, slot_bits: managed(false), ..entry }
}

fn is_in_few_words(book: &Book) -> bool {
    book.plain && book.agent.is_none() && book.sole.is_some()
}

// ---- few words ----

#[test]
fn what_rests_at_home_takes_few_words_and_so_does_what_is_held_from_there() {
    let mut scene = keeping(8);
    let first = scene.hold(NAME);
    scene.node.held.prepare(&scene.node.requests);
    scene.release(first);
    assert!(is_in_few_words(scene.book(SLOT)) && scene.node.keeps(SLOT));
    for mode in [Mode::Exclusive, Mode::Shared] {
        let id = scene.ask(NAME, mode);
        assert!(matches!(scene.told()[..], [Event::Granted { path: Path::Local, .. }]));
        assert!(is_in_few_words(scene.book(SLOT)) && scene.book(SLOT).waits == 0);
        let RequestId(number) = id;
        assert!(scene.node.held.in_slot(SLOT).any(|held| held == number), "a census finds it by its slot");
        scene.release(id);
        assert!(is_in_few_words(scene.book(SLOT)) && scene.node.keeps(SLOT));
    }
    assert_eq!(scene.kinds(), []);
}

/// Whether its owner releases or cancels it.
#[test]
fn several_locks_that_come_in_one_packet_take_few_words_until_they_are_free() {
    let mut scene = keeping(0);
    let names = [1, 2, 3];
    let mut ids = Vec::new();
    scene.node.acquire_many(scene.now, &names.map(|name| Scene::want(name, Mode::Exclusive)), &mut ids).expect("room");
    let granted = [0, 1, 2].map(|place| fresh(names[place], ids[place], TENURE));
    scene.hear(of_kind(kind::lock::GRANT), &granted);
    assert_eq!(scene.told().len(), 3);
    assert!(names.iter().all(|&name| is_in_few_words(scene.book(name as u32))));
    scene.sent();
    scene.release(ids[0]);
    scene.node.cancel(scene.now, ids[1]);
    assert_eq!(scene.kinds(), [kind::lock::FREE], "in one packet, as they came");
    assert!(names.iter().all(|&name| is_in_few_words(scene.book(name as u32))));
}

#[test]
fn who_is_asked_whether_it_is_agent_needs_no_more_words_for_that() {
    let mut scene = keeping(0);
    scene.hold(NAME);
    let entry = Entry { slot: SLOT, tenure: TENURE, slot_bits: managed(false), ..Entry::default() };
    scene.hear(of_kind(kind::lock::INSPECT), &[entry]);
    assert!(is_in_few_words(scene.book(SLOT)));
    assert_eq!(scene.kinds(), []);
}

#[test]
fn a_time_that_has_passed_by_is_no_reason_to_look_into_a_book() {
    let mut scene = keeping(0);
    let first = scene.hold(NAME);
    scene.release(first);
    let (_, asked) = scene.sent()[0];
    scene.tick(1_000);
    let freed = Entry { tenure: TENURE + 1, ..asked };
    scene.hear(Header { flags: header_flag::APPLIED, ..of_kind(kind::lock::RETENURED) }, &[freed]);
    assert!(scene.node.is_idle());
    let second = scene.ask(NAME, Mode::Exclusive);
    scene.sent();
    scene.grant(NAME, second, TENURE + 2);
    scene.tick(PAUSE - 1_000);
    assert!(is_in_few_words(scene.book(SLOT)));
}

#[test]
fn what_is_adopted_with_the_rest_is_said_in_few_words_again_and_found_at_its_place() {
    let mut scene = keeping(0);
    let elsewhere = scene.ask(9, Mode::Exclusive);
    scene.hear(Header { source: OTHER, ..of_kind(kind::lock::GRANT) }, &[plain(9, elsewhere, TENURE)]);
    assert!(scene.node.agency.books.get(9).is_none(), "another node is its agent");
    scene.told();
    scene.hold(NAME);
    for kind in [kind::lock::ACQUIRE, kind::lock::CANCEL] {
        scene.forward(kind, theirs(OTHER, 1, SLOT, TENURE));
    }
    assert!(scene.book(SLOT).agent.is_some(), "somebody has asked for it meanwhile");
    scene.ask_all(CENSUS);
    scene.adopt(CENSUS, AGENCY, &[]);
    for slot in [SLOT, 9] {
        assert!(is_in_few_words(scene.book(slot)), "slot {slot}");
    }
    let place = scene.node.agency.books.find(9);
    assert_eq!(Some(scene.request(elsewhere).book), place);
}

// ---- what is due ----

#[test]
fn nothing_is_due_in_a_slot_that_is_free_where_somebody_waits() {
    for by_census in [false, true] {
        let mut scene = keeping(0);
        let first = scene.hold(NAME);
        scene.release(first);
        let (_, asked) = scene.sent()[0];
        scene.now = scene.now + 1_000;
        scene.ask(NAME, Mode::Exclusive);
        assert_ne!(scene.book(SLOT).due, Time::NEVER);
        if by_census {
            scene.ask_all(CENSUS);
        } else {
            let freed = Entry { tenure: TENURE + 1, ..asked };
            scene.hear(Header { flags: header_flag::APPLIED, ..of_kind(kind::lock::RETENURED) }, &[freed]);
        }
        let book = scene.book(SLOT);
        assert!(book.sole.is_none() && book.waits == 1);
        assert_eq!(book.due, Time::NEVER);
    }
}

#[test]
fn an_agent_that_acts_is_not_to_be_forgotten() {
    for is_adopted in [true, false] {
        let mut scene = keeping(0);
        scene.hold(NAME);
        scene.forward(kind::lock::ACQUIRE, theirs(OTHER, 1, SLOT, TENURE));
        assert!(scene.ask_some(CENSUS, 0, &[SLOT], TENURE + 1).is_some());
        assert_eq!(scene.book(SLOT).forget, Some(scene.now + 2 * (LEASE + GRACE)));
        let second = scene.ask(NAME, Mode::Exclusive);
        if is_adopted {
            scene.adopt(CENSUS, 0, &[agency(SLOT, TENURE + 2)]);
        } else {
            scene.grant(NAME, second, TENURE + 2);
        }
        let book = scene.book(SLOT);
        assert!(book.agent.as_ref().is_some_and(|agent| !agent.suspended) && book.forget.is_none());
    }
}

/// It waited in limbo for the answer to a change, and knows of an agent after this one.
#[test]
fn when_a_limbo_has_gone_back_the_slot_is_due_for_what_is_left() {
    let mut scene = keeping(0);
    scene.ask(NAME, Mode::Exclusive);
    let RequestId(request) = scene.node.waits().next().expect("it waits").request;
    let bits = SlotBits { state: SlotState::Managed, transferred: false, tryable: true, joins: 0 };
    let granted = Entry { slot_bits: bits.to_u16(), ..fresh(NAME, RequestId(request), TENURE) };
    scene.hear(of_kind(kind::lock::GRANT), &[granted]);
    scene.sent();
    let beside = Entry { name: NAME + u64::from(SLOTS), ..theirs(OTHER, 1, SLOT, TENURE) };
    scene.forward(kind::lock::ACQUIRE, beside);
    let (header, asked) = scene.sent()[0];
    assert_eq!(header.kind, kind::lock::RETENURE, "tries are decided by one name no more");
    let late = Entry { slot_bits: managed(true), ..theirs(THIRD, 1, SLOT, TENURE + 5) };
    scene.forward(kind::lock::ACQUIRE, late);
    assert!(scene.book(SLOT).limbo_due.is_some());
    let answer = Entry { tenure: TENURE + 1, slot_bits: managed(true), ..asked };
    scene.hear(Header { flags: header_flag::APPLIED, ..of_kind(kind::lock::RETENURED) }, &[answer]);
    assert!(scene.kinds().contains(&kind::lock::ACQUIRE), "the late one goes back to the switch");
    let book = scene.book(SLOT);
    assert!(book.limbo.is_empty() && book.limbo_due.is_none());
    assert_eq!(book.due, book.next_due());
}

/// For an agency that may be on its way, or for the answer to a claim, of which nothing comes then.
#[test]
fn who_waits_in_limbo_while_a_slot_is_adopted_is_in_its_line_soon() {
    for is_claimed in [false, true] {
        let mut scene = keeping(0);
        if !is_claimed {
            scene.ask(NAME, Mode::Exclusive);
        }
        for number in [1, 2] {
            scene.forward(kind::lock::ACQUIRE, theirs(OTHER, number, SLOT, TENURE));
        }
        assert_eq!(scene.book(SLOT).claim.is_some(), is_claimed);
        let about = Entry { request: CENSUS, ..Entry::default() };
        scene.hear(of_kind(kind::lock::ADOPT), &[about, agency(SLOT, TENURE + 2)]);
        scene.tick(PAUSE);
        assert_eq!(scene.book(SLOT).limbo.len(), 2, "it is not known yet who holds");
        let holder = Entry { flags: entry_flag::HELD | EXCLUSIVE, ..theirs(THIRD, 1, SLOT, 1) };
        let last = Header { position: 1, flags: header_flag::LAST, ..of_kind(kind::lock::ADOPT) };
        scene.hear(last, &[about, holder]);
        scene.tick(PAUSE);
        let book = scene.book(SLOT);
        let waiters = book.agent.iter().flat_map(|agent| agent.waiters()).map(|waiter| waiter.holder);
        // The agent asks to be confirmed for the first of them, and the other waits for the answer to that.
        assert_eq!((waiters.collect::<Vec<_>>(), book.limbo.len()), (vec![OTHER], 1));
    }
}

#[test]
fn a_census_ends_the_limbo_of_its_slots_and_the_time_for_it() {
    let mut scene = keeping(0);
    scene.ask(NAME, Mode::Exclusive);
    scene.now = scene.now + 1_000;
    scene.forward(kind::lock::ACQUIRE, theirs(OTHER, 1, SLOT, TENURE));
    assert_eq!(scene.book(SLOT).limbo_due, Some(scene.now + PAUSE), "an agency may be on its way");
    scene.ask_some(CENSUS, 0, &[SLOT], TENURE);
    let book = scene.book(SLOT);
    assert!(book.limbo.is_empty() && book.limbo_due.is_none());
    assert_eq!(book.due, Time::NEVER);
}

#[test]
fn a_node_that_keeps_no_slot_has_none_to_let_go() {
    let mut scene = keeping(0);
    let next = scene.node.next_timer();
    scene.node.keep_no_more(scene.now);
    assert_eq!(scene.node.next_timer(), next);
}

/// It was in its place before the switch began anew, which knows of this hold alone.
#[test]
fn who_lets_go_what_it_kept_leaves_alone_what_is_kept_no_more() {
    let mut scene = keeping(8);
    let first = scene.hold(NAME);
    scene.release(first);
    let second = scene.ask(NAME, Mode::Exclusive);
    scene.ask_all(CENSUS);
    scene.adopt(CENSUS, AGENCY, &[]);
    scene.sent();
    scene.node.keep_no_more(scene.now);
    scene.tick(0);
    assert!(is_in_few_words(scene.book(SLOT)));
    assert_eq!(scene.kinds(), []);
    scene.release(second);
    assert_eq!(scene.kinds(), [kind::lock::FREE]);
}

#[test]
fn an_adopted_slot_is_not_kept_before_the_switch_has_confirmed_it() {
    let mut scene = keeping(8);
    let held = scene.hold(NAME);
    scene.ask_all(CENSUS);
    scene.adopt(CENSUS, AGENCY, &[]);
    scene.sent();
    scene.release(held);
    assert_eq!(scene.kinds(), [kind::lock::RETENURE]);
    assert!(!scene.node.keeps(SLOT));
}

/// The turn of the second comes when the first is held, and it is known how long it may wait at most.
#[test]
fn a_lock_at_home_is_held_since_its_turn_came_and_is_due_for_nothing_then() {
    let mut scene = keeping(8);
    let first = scene.hold(NAME);
    scene.release(first);
    let deadline = Some(scene.now + 3 * PAUSE);
    let wants = [9, NAME].map(|name| Acquire { deadline, ..Scene::want(name, Mode::Exclusive) });
    let mut ids = Vec::new();
    scene.node.acquire_many(scene.now, &wants, &mut ids).expect("there is room");
    scene.tick(1_000);
    scene.hear(of_kind(kind::lock::GRANT), &[fresh(9, ids[0], TENURE)]);
    scene.tick(500);
    assert_eq!(scene.told().len(), 2);
    let home = scene.request(ids[1]);
    assert_eq!((home.since, home.due), (scene.now, Time::NEVER));
    assert!(is_in_few_words(scene.book(SLOT)));
}

#[test]
fn agents_are_confirmed_at_their_time_whatever_else_is_due_before() {
    let mut scene = keeping(0);
    let holder = Entry { flags: entry_flag::HELD | EXCLUSIVE, ..theirs(OTHER, 1, 9, 1) };
    scene.adopt(CENSUS, 0, &[agency(9, TENURE), holder]);
    scene.sent();
    let confirm = scene.node.adoptions.due();
    scene.node.adoptions.forget_by(scene.now + 10);
    scene.node.on_adoptions_tick(scene.now + 10);
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.node.adoptions.due(), confirm);
    // Nor does a death hurry them that is no matter of theirs.
    let down = Header { service: service::FABRIC, kind: kind::fabric::DOWN, position: 8, ..Header::default() };
    let body = Heartbeat { incarnation: 50, ..Heartbeat::default() };
    scene.node.on_down(scene.now, &Header { destination: ME, ..down }, &body);
    assert_eq!(scene.kinds(), []);
    scene.node.on_adoptions_tick(confirm);
    assert_eq!(scene.kinds(), [kind::lock::RETENURE]);
}

#[test]
fn of_those_that_are_forgotten_together_nothing_is_left_and_others_have_their_own_time() {
    let mut scene = keeping(0);
    scene.hold(9);
    scene.ask_all(CENSUS);
    scene.adopt(CENSUS + 1, 0, &[]);
    let holder = Entry { flags: entry_flag::HELD | EXCLUSIVE, ..theirs(OTHER, 1, SLOT, 1) };
    scene.adopt(CENSUS + 2, 0, &[agency(SLOT, TENURE), holder]);
    assert!(scene.ask_some(CENSUS + 3, 0, &[SLOT], TENURE + 1).is_some());
    let forget = scene.book(SLOT).forget.expect("it is suspended");
    scene.node.adoptions.forget_by(scene.now);
    scene.node.on_adoptions_tick(scene.now);
    assert!(scene.node.agency.books.get(9).is_none(), "nobody has adopted it");
    assert!(scene.book(SLOT).agent.is_some() && forget > scene.now);
}

// ---- censuses and adoptions ----

#[test]
fn a_report_is_by_slot_and_request_whichever_way_it_is_found() {
    let held = entry_flag::HELD | EXCLUSIVE;
    for scanned_most in [0, 1_000] {
        let mut scene = Scene::new(NodeConfig { scanned_most, ..NodeConfig::new(1) });
        for name in [3, 1, 2] {
            scene.hold(name);
        }
        assert_eq!(scene.ask_some(CENSUS, 0, &[2, 3, 1], 9), Some(vec![(1, held), (2, held), (3, held)]));
    }
}

#[test]
fn a_report_of_one_page_says_how_things_are_whenever_it_is_asked_for() {
    let mut scene = Scene::new(NodeConfig { page_entries: 1, ..NodeConfig::new(1) });
    let held = scene.hold(NAME);
    assert_eq!(scene.ask_some(CENSUS, 0, &[SLOT], 9).map(|found| found.len()), Some(1));
    scene.release(held);
    assert_eq!(scene.ask_some(CENSUS, 0, &[SLOT], 9), Some(vec![]));
}

/// Those that it consists of are asked for again only as long as something may come of it.
#[test]
fn a_report_of_several_pages_is_over_with_its_adoption_and_with_its_epoch() {
    for by_adoption in [true, false] {
        let mut scene = Scene::new(NodeConfig { page_entries: 1, ..NodeConfig::new(1) });
        for name in [1, 2] {
            scene.hold(name);
        }
        assert_eq!(scene.ask_some(CENSUS, 0, &[1, 2], 9).map(|page| page[0].0), Some(1));
        assert_eq!(scene.ask_some(CENSUS, 1, &[1, 2], 9).map(|page| page[0].0), Some(2));
        if by_adoption {
            scene.adopt(CENSUS, 0, &[]);
        } else {
            scene.ask_all(CENSUS + 1);
        }
        assert_eq!(scene.ask_some(CENSUS, 1, &[1, 2], 9), None);
    }
}

#[test]
fn what_nobody_asks_about_is_forgotten_in_two_leases_and_what_the_controller_adds_to_them() {
    let scene = keeping(0);
    assert_eq!(scene.node.forgotten_by(scene.now), scene.now + 2 * (LEASE + GRACE));
}

#[test]
fn a_census_of_all_stops_every_agent_of_before_it_and_none_of_its_own_epoch() {
    let mut scene = keeping(0);
    let last = scene.ask(NAME, Mode::Exclusive);
    scene.grant(NAME, last, limits::MAX_TENURE);
    scene.ask_all(CENSUS);
    assert!(scene.book(SLOT).sole.is_some_and(|sole| sole.suspended), "the last tenure that there is, too");
    // The controller begins anew in that epoch: who waits with an agent of it is no matter of the census.
    scene.hold(9);
    scene.forward(kind::lock::ACQUIRE, theirs(OTHER, 1, 9, TENURE));
    scene.sent();
    scene.epoch -= 1;
    scene.ask_all(CENSUS + 1);
    let mut reported = Vec::new();
    while let Some(out) = scene.node.transmit() {
        let is_report = check(out.packet).is_ok_and(|header| header.kind == kind::lock::REPORT);
        reported.extend(lock_entries(out.packet).skip(1).filter(|_| is_report).map(|entry| (entry.slot, entry.flags)));
    }
    reported.sort_unstable();
    assert_eq!(reported, [SLOT, 9].map(|slot| (slot, entry_flag::HELD | EXCLUSIVE)));
    assert!(scene.book(9).agent.as_ref().is_some_and(|agent| !agent.suspended));
}

#[test]
fn who_waits_in_the_only_slot_of_an_adoption_takes_no_grant_of_before_it() {
    let mut scene = keeping(0);
    let waits = scene.ask(NAME, Mode::Exclusive);
    scene.adopt(CENSUS, 0, &[agency(SLOT, 7)]);
    assert_eq!(scene.request(waits).floor, Stamp { epoch: EPOCH, tenure: 7 });
}

#[test]
fn a_slot_of_the_rest_where_somebody_waits_keeps_who_waits() {
    // One of its own that has asked the switch.
    let mut scene = keeping(0);
    scene.hold(NAME);
    scene.ask_all(CENSUS);
    scene.ask(NAME, Mode::Exclusive);
    scene.adopt(CENSUS, AGENCY, &[]);
    assert_eq!(scene.book(SLOT).waits, 1);
    assert!(scene.book(SLOT).agent.as_ref().is_some_and(|agent| !agent.suspended));
    // One of its own, and one of another node, with its agent.
    for own in [true, false] {
        let mut scene = keeping(0);
        scene.hold(NAME);
        if own {
            scene.ask(NAME, Mode::Exclusive);
        } else {
            scene.forward(kind::lock::ACQUIRE, theirs(OTHER, 1, SLOT, TENURE));
        }
        scene.ask_all(CENSUS);
        scene.adopt(CENSUS, AGENCY, &[]);
        let agent = scene.book(SLOT).agent.as_ref().expect("in full");
        assert_eq!((agent.holders().count(), agent.waiters().count()), (1, 1));
        assert_eq!(scene.book(SLOT).waits, u32::from(own));
    }
}

// ---- requests ----

/// The books of its agent have no such hold: somebody else may count it.
#[test]
fn a_hold_of_an_earlier_tenure_that_its_own_agent_does_not_know_is_given_back_by_the_switch() {
    let mut scene = keeping(0);
    let held = scene.hold(NAME);
    scene.ask_some(CENSUS, 0, &[SLOT], TENURE + 1);
    let holder = Entry { flags: entry_flag::HELD | EXCLUSIVE, ..theirs(OTHER, 1, SLOT, 1) };
    scene.adopt(CENSUS, 0, &[agency(SLOT, TENURE + 2), holder]);
    scene.sent();
    scene.release(held);
    let sent = scene.sent();
    assert_eq!((sent.len(), sent[0].0.kind, sent[0].1.tenure), (1, kind::lock::RELEASE, TENURE));
}

#[test]
fn one_of_several_that_was_given_up_is_not_asked_for_when_its_turn_comes() {
    let mut scene = keeping(0);
    let wants = [NAME, NAME + 1].map(|name| Scene::want(name, Mode::Exclusive));
    let mut ids = Vec::new();
    scene.node.acquire_many(scene.now, &wants, &mut ids).expect("there is room");
    scene.node.cancel(scene.now, ids[1]);
    scene.hear(Header { source: OTHER, ..of_kind(kind::lock::GRANT) }, &[plain(NAME + 1, ids[1], TENURE)]);
    assert!(scene.kinds().contains(&kind::lock::RELEASE), "nobody waits for it");
    scene.grant(NAME, ids[0], TENURE);
    assert!(matches!(scene.request(ids[1]).state, State::Returning { .. }));
    scene.tick(PAUSE);
    assert_eq!(scene.kinds(), [kind::lock::RELEASE]);
}

#[test]
fn what_an_own_agent_refuses_to_a_request_that_has_ended_is_told_to_nobody() {
    let mut scene = keeping(0);
    let id = scene.ask(NAME, Mode::Exclusive);
    scene.node.cancel(scene.now, id);
    let RequestId(request) = id;
    let party = Party { tries: true, ..Party::from_entry(&Entry { request, ..fresh(NAME, id, TENURE) }) };
    scene.node.local.push_back(party);
    scene.node.drain_local(scene.now);
    assert_eq!(scene.told(), []);
    assert!(matches!(scene.request(id).state, State::Returning { .. }), "until that is answered");
}

/// The switch has let in as many as its packet says, of which this agent has not heard.
#[test]
fn who_gives_up_a_wait_says_nothing_of_joins() {
    let mut scene = keeping(0);
    let id = scene.ask(NAME, Mode::Shared);
    let open = |joins| SlotBits { state: SlotState::Open, transferred: false, tryable: true, joins }.to_u16();
    let granted = Entry { flags: AGENCY, slot_bits: open(0), ..fresh(NAME, id, TENURE) };
    scene.hear(of_kind(kind::lock::GRANT), &[granted]);
    scene.sent();
    scene.forward(kind::lock::CANCEL, Entry { slot_bits: open(1), ..theirs(OTHER, 1, SLOT, TENURE) });
    scene.sent();
    scene.release(id);
    let freeing: Vec<_> = scene.sent().into_iter().filter(|(header, _)| header.kind == kind::lock::RETENURE).collect();
    assert!(freeing.iter().all(|(_, entry)| SlotBits::from_u16(entry.slot_bits).joins == 0), "{freeing:?}");
}

#[test]
fn a_reader_that_is_agent_asks_the_switch_to_let_others_in_unless_it_does() {
    for state in [SlotState::Open, SlotState::Managed] {
        let mut scene = keeping(0);
        let id = scene.ask(NAME, Mode::Shared);
        scene.sent();
        let bits = SlotBits { state, transferred: false, tryable: true, joins: 0 };
        let granted = Entry { flags: AGENCY, slot_bits: bits.to_u16(), ..fresh(NAME, id, TENURE) };
        scene.hear(of_kind(kind::lock::GRANT), &[granted]);
        assert_eq!(scene.told().len(), 1);
        let is_open = state == SlotState::Open;
        assert_eq!(scene.kinds(), if is_open { vec![] } else { vec![kind::lock::RETENURE] });
        assert_eq!(is_in_few_words(scene.book(SLOT)), is_open);
    }
}

/// It is not known yet whether it will be used here again.
#[test]
fn a_lock_that_was_used_here_once_goes_along_with_its_agency() {
    let mut scene = keeping(8);
    let held = scene.hold(NAME);
    scene.forward(kind::lock::ACQUIRE, theirs(OTHER, 1, SLOT, TENURE));
    scene.sent();
    scene.release(held);
    let sent = scene.sent();
    assert_eq!((sent.len(), sent[0].0.kind, sent[0].1.holder), (1, kind::lock::RETENURE, OTHER));
}

// ---- sessions and queues ----

#[test]
fn nothing_of_a_session_is_left_to_the_next_one() {
    let mut scene = keeping(0);
    scene.hold(NAME);
    scene.ask(9, Mode::Exclusive);
    scene.node.dead.note(8, 3);
    scene.node.held.prepare(&scene.node.requests);
    scene.node.policy_change = 5;
    scene.node.leave(scene.now);
    assert!(scene.node.dead.is_empty() && scene.node.agency.books.is_empty());
    assert_eq!(scene.node.held.in_slot(SLOT).count(), 0);
    assert_eq!(scene.node.timers.due(Time::NEVER), None);
    scene = keeping(0);
    scene.node.policy_change = 5;
    scene.node.on_change(Some(Change::Enrolled));
    assert_eq!(scene.node.policy_change, 0, "it has heard of no change");
}

#[test]
fn a_session_that_has_not_begun_cannot_be_lost() {
    let mut node = Node::new(NodeConfig::new(1));
    node.lose_session(Time(5));
    assert_eq!((node.event(), node.is_bereft), (None, false));
}

#[test]
fn who_would_be_a_lock_server_is_none_where_locks_are_slots() {
    for (engine, is_one) in [(Engine::Fission, false), (Engine::Queue, true)] {
        let scene = Scene::with(NodeConfig { lock_server: true, ..NodeConfig::new(1) }, engine);
        assert_eq!(scene.node.server.is_some(), is_one);
    }
}

fn of_queue(scene: &mut Scene, kind: u8, body: &Attempt) {
    let mut packet = vec![0; BODY + QueueKind::Grant.body().bytes(0)];
    let header = Header { service: service::QUEUE, kind, destination: ME, epoch: EPOCH, namespace: 1, ..of_kind(0) };
    Header { kind, ..header }.write(&mut packet);
    body.write(&mut packet, BODY);
    scene.node.on_packet(scene.now, &packet);
}

#[test]
fn a_node_wakes_up_for_its_queues_once_it_has_had_any() {
    let mut scene = Scene::with(NodeConfig::new(1), Engine::Queue);
    assert_eq!(scene.node.next_queue_timer(), Time::NEVER);
    scene.ask(NAME, Mode::Exclusive);
    assert_eq!(scene.node.next_queue_timer(), scene.now + PAUSE);
    // Where locks are slots somebody may send a grant of a queue all the same: it is given back until that is known.
    let mut scene = keeping(0);
    let cause = kind::queue::ACQUIRE;
    let request = INCARNATION << 40 | 1;
    let grant = Attempt {
        name: NAME,
        request,
        ticket: 1,
        holder: ME,
        flags: queue_flag::EXCLUSIVE,
        cause,
        ..Attempt::default()
    };
    of_queue(&mut scene, kind::queue::GRANT, &grant);
    assert_ne!(scene.node.next_queue_timer(), Time::NEVER);
}

#[test]
fn a_lock_server_whose_session_is_over_serves_nothing() {
    let mut scene = Scene::with(NodeConfig { lock_server: true, ..NodeConfig::new(1) }, Engine::Queue);
    let term = Attempt { number: 1, order: 100_000, over: 110_000, holder: ME, ..Attempt::default() };
    of_queue(&mut scene, kind::queue::SERVING, &term);
    assert!(scene.node.serves(NAME));
    scene.node.leave(scene.now);
    assert!(!scene.node.serves(NAME));
}

/// Another term has to follow, which only another session has.
#[test]
fn a_lock_server_that_has_no_ticket_left_ends_its_session() {
    let mut scene = Scene::with(NodeConfig { lock_server: true, ..NodeConfig::new(1) }, Engine::Queue);
    let term = Attempt { number: 1, order: 100_000, over: 110_000, holder: ME, ..Attempt::default() };
    of_queue(&mut scene, kind::queue::SERVING, &term);
    scene.tick(0);
    assert!(scene.node.session().is_some());
    let last = Attempt { name: NAME, ticket: 2 << 30, holder: ME, ..Attempt::default() };
    of_queue(&mut scene, kind::queue::YIELD, &last);
    scene.tick(0);
    assert!(scene.node.session().is_none() && scene.node.is_bereft);
}

#[test]
fn a_call_is_quick_if_it_is_of_a_lock_that_nobody_else_wants() {
    let mut scene = keeping(0);
    let id = scene.ask(NAME, Mode::Exclusive);
    assert!(scene.node.was_quick());
    scene.sent();
    scene.grant(NAME, id, TENURE);
    assert!(scene.node.was_quick());
    scene.release(id);
    assert!(scene.node.was_quick());
    let (_, asked) = scene.sent()[0];
    scene.hear(of_kind(kind::lock::FREED), &[Entry { tenure: TENURE + 1, ..asked }]);
    assert!(scene.node.was_quick() && scene.node.is_idle());
    scene.release(id);
    assert!(!scene.node.was_quick(), "it is over");
    let id = scene.ask(NAME, Mode::Exclusive);
    scene.sent();
    scene.grant(NAME, id, TENURE + 1);
    scene.ask(NAME, Mode::Exclusive);
    assert!(!scene.node.was_quick(), "its own agent decides");
    scene.forward(kind::lock::ACQUIRE, theirs(OTHER, 1, SLOT, TENURE + 1));
    assert!(!scene.node.was_quick());
    scene.ask(NAME, Mode::Exclusive);
    assert!(!scene.node.was_quick(), "its own agent has it in its books");
    scene.release(id);
    assert!(!scene.node.was_quick(), "others wait");
}

#[test]
fn a_lock_that_turns_out_to_be_wanted_is_not_quick() {
    let mut scene = keeping(0);
    let reads = scene.ask(NAME, Mode::Shared);
    scene.grant(NAME, reads, TENURE);
    let again = scene.ask(NAME, Mode::Shared);
    scene.grant(NAME, again, TENURE + 1);
    assert!(!scene.node.was_quick(), "granted as others are");

    let mut scene = keeping(0);
    let id = scene.ask(NAME, Mode::Exclusive);
    scene.grant(NAME, id, TENURE);
    scene.sent();
    scene.release(id);
    let (_, asked) = scene.sent()[0];
    scene.hear(of_kind(kind::lock::FREED), &[Entry { tenure: TENURE, ..asked }]);
    assert!(!scene.node.was_quick(), "it is not free");
}

#[test]
fn a_slot_that_is_free_by_retenure_is_quick() {
    let mut scene = Scene::new(NodeConfig { version: wayside_wire::MAJOR << 4 | 13, ..NodeConfig::new(1) });
    let id = scene.ask(NAME, Mode::Exclusive);
    scene.grant(NAME, id, TENURE);
    scene.sent();
    scene.release(id);
    let (_, asked) = scene.sent()[0];
    let header = Header { flags: header_flag::APPLIED, ..of_kind(kind::lock::RETENURED) };
    scene.hear(header, &[Entry { tenure: TENURE + 1, ..asked }]);
    assert!(scene.node.was_quick() && scene.node.is_idle());
}

/// For a caller that looks by itself until then.
#[test]
fn a_timer_that_was_set_wants_a_look() {
    let mut scene = keeping(0);
    scene.ask(NAME, Mode::Exclusive);
    let pause = scene.node.config.retransmit_us;
    assert!(scene.node.next_timer() == Some(scene.now + pause) && !scene.node.wants_a_look_before(Time::NEVER));
    scene.ask(NAME + 1, Mode::Exclusive);
    let at = [pause, pause + 1].map(|later| scene.node.wants_a_look_before(scene.now + later));
    assert_eq!(at, [false, true]);
}
