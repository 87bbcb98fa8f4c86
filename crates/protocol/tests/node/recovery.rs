//! A node in a recovery (docs/protocol.md, Recovery): what it asks for, and when.

use crate::bench::{Bench, LEASE, SLOTS, handle};
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::{Event, Mode, NodeConfig, RequestId};
use wayside_wire::{
    BODY, Entry, Header, Heartbeat, LockKind, Policy, SlotBits, SlotState, check, entries, entry_flag, header_flag,
    kind, limits, service,
};

const NEXT_EPOCH: u32 = 8;
const CENSUS: u64 = 77;
const NAME: u64 = 5;

/// A packet of the controller's to node 0, in the next epoch.
fn tell(bench: &mut Bench, kind: u8, position: u16, flags: u16, entries: &[Entry]) {
    tell_node(bench, 0, kind, position, flags, entries);
}

fn tell_node(bench: &mut Bench, node: usize, kind: u8, position: u16, flags: u16, entries: &[Entry]) {
    bench.tell(node, Header { epoch: NEXT_EPOCH, kind, position, flags, ..Header::default() }, entries);
}

/// Node 1 hears of the next epoch, too, and has nothing to say.
fn bring_node_1_along(bench: &mut Bench) {
    let about = Entry { request: CENSUS, slot: limits::ALL_SLOTS, ..Entry::default() };
    tell_node(bench, 1, kind::lock::CENSUS, 0, 0, &[about]);
    bench.flying.clear();
}

/// The newest packet that node 0 has sent, if it is of this kind.
fn answer(bench: &mut Bench, kind: u8) -> Option<(Header, Vec<Entry>)> {
    let packet = bench.flying.pop_back()?.packet;
    let header = check(&packet).expect("well formed");
    (header.kind == kind).then(|| (header, entries(&packet).collect()))
}

fn ask_what_it_holds(bench: &mut Bench, page: u16) {
    let about = Entry { request: CENSUS, slot: limits::ALL_SLOTS, ..Entry::default() };
    tell(bench, kind::lock::CENSUS, page, 0, &[about]);
}

/// All pages of what node 0 reports.
fn report(bench: &mut Bench) -> Vec<Entry> {
    let mut found = Vec::new();
    for page in 0.. {
        ask_what_it_holds(bench, page);
        let (header, entries) = answer(bench, kind::lock::REPORT).expect("a report");
        assert_eq!(header.position, page);
        found.extend(&entries[1..]);
        if header.flags & header_flag::LAST != 0 {
            break;
        }
    }
    found
}

/// Node 0 holds so many names.
fn hold(bench: &mut Bench, names: u64) -> Vec<RequestId> {
    let held = (0..names).map(|name| bench.ask(0, name, Mode::Exclusive)).collect();
    bench.run();
    while bench.nodes[0].event().is_some() {}
    held
}

/// The switch has begun anew, and node 0 has the first slots.
fn begin_anew(bench: &mut Bench, slots: u32) {
    bench.switch.set_epoch(NEXT_EPOCH);
    for slot in 0..SLOTS {
        let agent = if slot < slots { handle(0) } else { 0 };
        let state = if slot < slots { SlotState::Managed } else { SlotState::Unheld };
        let tenure = u32::from(slot < slots);
        let word = SlotWord { state, agent, transferred: slot < slots, ..SlotWord::unheld(tenure) };
        assert!(bench.switch.cas_slot(1, slot, bench.switch.load_slot(1, slot), word));
    }
}

fn agency(slot: u32) -> Entry {
    let word = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let (slot_bits, flags) = (word.to_u16(), entry_flag::AGENCY);
    Entry { slot, tenure: 1, holder: handle(0), slot_bits, flags, ..Entry::default() }
}

/// Node 0 adopts what it holds: `names`, each in the slot of its number, each by an entry of its own.
fn adopt(bench: &mut Bench, names: u32) {
    begin_anew(bench, names);
    let mut entries = Vec::new();
    for hold in report(bench) {
        assert_ne!(hold.flags & entry_flag::HELD, 0, "of an agent that keeps nothing else the hold says enough");
        entries.extend([agency(hold.slot), hold]);
    }
    assert_eq!(entries.len(), 2 * names as usize);
    let pages = entries.chunks(30).count() as u16;
    for (page, chunk) in (0..pages).zip(entries.chunks(30)) {
        let flags = if page + 1 == pages { header_flag::LAST } else { 0 };
        let about = Entry { request: CENSUS, ..Entry::default() };
        tell(bench, kind::lock::ADOPT, page, flags, &[&[about], chunk].concat());
    }
    bench.flying.clear();
}

/// Node 0 adopts what is named, and whatever else it has reported.
fn adopt_the_rest(bench: &mut Bench, named: &[Entry]) {
    let about = Entry { request: CENSUS, ..agency(0) };
    tell(bench, kind::lock::ADOPT, 0, header_flag::LAST, &[&[about], named].concat());
}

fn holders(bench: &Bench, slot: u32) -> Option<usize> {
    bench.nodes[0].books(slot).map(Iterator::count)
}

fn renewals(bench: &mut Bench) -> usize {
    bench.count(LockKind::Retenure)
}

#[test]
fn who_waits_asks_again_soon_once_a_census_shows_that_somebody_is_there() {
    let mut bench = Bench::with_lease(1, 60_000_000);
    bench.ask(0, 5, Mode::Exclusive);
    // Nobody answers: the pauses grow to half a second.
    let end = bench.now + 700_000;
    while bench.now < end {
        bench.flying.clear();
        bench.now = bench.nodes[0].next_timer().expect("it asks again").min(end);
        bench.nodes[0].on_tick(bench.now);
        bench.collect(0);
    }
    bench.flying.clear();
    bench.switch.set_epoch(NEXT_EPOCH);
    ask_what_it_holds(&mut bench, 0);
    bench.delivered.clear();
    bench.pass(5_000);
    assert_eq!(bench.count(LockKind::Acquire), 1);
    assert!(matches!(bench.nodes[0].event(), Some(wayside_protocol::Event::Granted { .. })));
}

#[test]
fn agents_that_were_adopted_together_are_confirmed_some_at_a_time() {
    let mut bench = Bench::new(1);
    hold(&mut bench, 40);
    adopt(&mut bench, 40);
    bench.delivered.clear();
    bench.run();
    assert_eq!(renewals(&mut bench), 0, "nobody wants any of them");
    bench.pass(10_000);
    assert_eq!(renewals(&mut bench), 32, "not all at once");
    bench.pass(10_000);
    assert_eq!(renewals(&mut bench), 40, "each once");
    assert!((0..40).all(|name| bench.slot(name).tenure == 2), "the switch has confirmed all");
}

#[test]
fn an_adopted_agent_is_confirmed_as_soon_as_somebody_wants_the_lock() {
    let mut bench = Bench::new(2);
    hold(&mut bench, 4);
    adopt(&mut bench, 4);
    bring_node_1_along(&mut bench);
    bench.delivered.clear();
    bench.run();
    bench.ask(1, 3, Mode::Exclusive);
    bench.run();
    assert_eq!((renewals(&mut bench), bench.slot(3).tenure), (1, 2));
}

#[test]
fn a_lock_that_is_given_back_before_its_agent_was_confirmed_is_free_soon() {
    let mut bench = Bench::new(2);
    let held = hold(&mut bench, 8);
    adopt(&mut bench, 8);
    bench.run();
    // Given back before the agent was confirmed.
    bench.release(0, held[7]);
    bench.pass(600);
    assert_eq!(bench.slot(7).state, SlotState::Unheld);
    assert!((0..7).all(|name| bench.slot(name).state == SlotState::Managed));
}

#[test]
fn what_a_node_holds_alone_it_reports_and_adopts_in_a_word() {
    let mut bench = Bench::new(2);
    let held = hold(&mut bench, 40);
    begin_anew(&mut bench, 40);
    assert_eq!(report(&mut bench).len(), 40, "an entry each");
    adopt_the_rest(&mut bench, &[]);
    assert!((0..40).all(|slot| holders(&bench, slot) == Some(1)));
    bring_node_1_along(&mut bench);
    bench.ask(1, 3, Mode::Exclusive);
    bench.run();
    assert!(bench.nodes[1].event().is_none(), "it is held");
    bench.release(0, held[3]);
    bench.release(0, held[4]);
    bench.run();
    assert!(matches!(bench.nodes[1].event(), Some(wayside_protocol::Event::Granted { .. })));
    assert_eq!(bench.slot(4).state, SlotState::Unheld);
}

#[test]
fn what_an_adoption_names_is_no_part_of_the_rest() {
    let mut bench = Bench::new(2);
    let shared = bench.ask(0, 3, Mode::Shared);
    bench.ask(1, 3, Mode::Shared);
    hold(&mut bench, 2);
    begin_anew(&mut bench, 4);
    let reported = report(&mut bench);
    let mine = *reported.iter().find(|hold| hold.slot == 3 && hold.request == shared.0).expect("it holds");
    let others = Entry { holder: handle(1), request: 101 << 40 | 1, ..mine };
    // Slot 1 is another node's.
    let left = Entry { slot: 1, ..Entry::default() };
    adopt_the_rest(&mut bench, &[agency(3), mine, others, left]);
    assert_eq!([0, 1, 3].map(|slot| holders(&bench, slot)), [Some(1), None, Some(2)]);
}

#[test]
fn a_copy_of_an_adoption_is_confirmed_and_does_nothing() {
    let mut bench = Bench::new(1);
    let held = hold(&mut bench, 2);
    begin_anew(&mut bench, 2);
    report(&mut bench);
    adopt_the_rest(&mut bench, &[]);
    bench.release(0, held[1]);
    bench.run();
    assert_eq!(bench.slot(1).state, SlotState::Unheld);
    for _ in 0..2 {
        adopt_the_rest(&mut bench, &[]);
        assert!(answer(&mut bench, kind::lock::ADOPTED).is_some(), "or the controller would ask for ever");
    }
    assert_eq!([0, 1].map(|slot| holders(&bench, slot)), [Some(1), None]);
    // A late copy of the question finds nobody who answers it another way.
    ask_what_it_holds(&mut bench, 0);
    assert!(bench.flying.is_empty());
    assert_eq!(holders(&bench, 0), Some(1));
}

/// The answer to the last of several pages may be lost, while other adoptions begin and end.
#[test]
fn the_last_page_of_an_adoption_is_confirmed_as_often_as_it_comes() {
    let mut bench = Bench::new(1);
    hold(&mut bench, 40);
    adopt(&mut bench, 40);
    for others in [1_000..2_000, 0..0] {
        let about = Entry { request: CENSUS, ..Entry::default() };
        tell(&mut bench, kind::lock::ADOPT, 2, header_flag::LAST, &[about]);
        let (header, _) = answer(&mut bench, kind::lock::ADOPTED).expect("confirmed");
        assert_eq!(header.position, 2);
        for request in others {
            tell(&mut bench, kind::lock::ADOPT, 0, header_flag::LAST, &[Entry { request, ..Entry::default() }]);
        }
    }
}

#[test]
fn an_agent_that_others_wait_for_is_reported_beside_the_hold() {
    let mut bench = Bench::new(2);
    hold(&mut bench, 2);
    bench.ask(1, 1, Mode::Exclusive);
    bench.run();
    begin_anew(&mut bench, 2);
    let found: Vec<(u32, u8)> = report(&mut bench).iter().map(|entry| (entry.slot, entry.flags)).collect();
    let held = entry_flag::HELD | entry_flag::EXCLUSIVE;
    assert_eq!(found, [(0, held), (1, held), (1, entry_flag::AGENCY)]);
}

/// Whoever gives a lock back between his report and the adoption has it given back after that.
#[test]
fn what_is_given_back_before_it_is_adopted_is_free_in_the_end() {
    let mut bench = Bench::new(1);
    let held = hold(&mut bench, 2);
    begin_anew(&mut bench, 2);
    bench.switch.set_serving(false);
    report(&mut bench);
    bench.release(0, held[1]);
    bench.run();
    adopt_the_rest(&mut bench, &[]);
    bench.switch.set_serving(true);
    bench.pass(50_000);
    assert_eq!([0, 1].map(|slot| bench.slot(slot).state), [SlotState::Managed, SlotState::Unheld]);
}

/// Nobody holds it, so it is free for all; whoever kept it must not go on by what it knew.
#[test]
fn a_slot_that_is_kept_is_not_told_of_and_is_kept_no_more() {
    let mut bench = Bench::with(1, LEASE, Policy::Fair, &NodeConfig { kept_most: 8, ..NodeConfig::new(1) });
    let id = bench.ask(0, 1, Mode::Exclusive);
    bench.run();
    while bench.nodes[0].event().is_some() {}
    bench.release(0, id);
    bench.run();
    assert_eq!(bench.nodes[0].kept(), 1);
    begin_anew(&mut bench, 0);
    assert!(report(&mut bench).is_empty());
    assert_eq!(bench.nodes[0].kept(), 0);
    bench.ask(0, 1, Mode::Exclusive);
    assert_eq!(bench.nodes[0].event(), None, "the switch is asked");
}

/// Its agent, which has adopted the hold, says of which grant it speaks; the packet is of the later epoch.
#[test]
fn a_hold_that_outlives_its_epoch_can_be_downgraded() {
    let mut bench = Bench::new(2);
    let other = bench.ask(0, NAME + u64::from(SLOTS), Mode::Exclusive);
    bench.run();
    bench.granted(0, other);
    let held = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(1, held);
    bring_node_1_along(&mut bench);
    bench.nodes[1].downgrade(bench.now, held);
    let RequestId(request) = held;
    let answer = |tenure| Entry {
        name: NAME,
        request,
        slot: NAME as u32,
        holder: handle(1),
        tenure,
        sequence: token.sequence(),
        ..Entry::default()
    };
    tell_node(&mut bench, 1, kind::lock::GRANT, 0, 0, &[answer(token.stamp().tenure + 1)]);
    assert_eq!(bench.nodes[1].event(), None, "of another grant");
    tell_node(&mut bench, 1, kind::lock::GRANT, 0, 0, &[answer(token.stamp().tenure)]);
    assert_eq!(bench.nodes[1].event(), Some(Event::Downgraded { request: held }));
}

impl Bench {
    /// What the controller tells node 0, in the epoch that it knows, by a kind that another one answers; the number
    /// that it answers.
    fn ask_fabric(
        &mut self,
        (kind, answer): (u8, u8),
        number: u64,
        change: impl Fn(&mut Header, &mut Heartbeat),
    ) -> Option<u64> {
        let epoch = self.nodes[0].session().expect("a session").epoch;
        let service = service::FABRIC;
        let mut header = Header { service, kind, destination: handle(0), epoch, namespace: 1, ..Header::default() };
        let mut body = Heartbeat { sequence: number, incarnation: 100, ..Heartbeat::default() };
        change(&mut header, &mut body);
        let mut packet = vec![0; BODY + Heartbeat::BYTES];
        header.write(&mut packet);
        body.write(&mut packet, BODY);
        self.flying.clear();
        self.nodes[0].on_packet(self.now, &packet);
        self.collect(0);
        let is_answer = |packet: &Vec<u8>| check(packet).is_ok_and(|header| header.kind == answer);
        let answer = self.flying.drain(..).map(|flying| flying.packet).find(is_answer);
        answer.map(|packet| Heartbeat::read(&packet, BODY).sequence)
    }
}

/// TURN to node 0; the number that it answers.
fn turn(bench: &mut Bench, number: u64, change: impl Fn(&mut Header, &mut Heartbeat)) -> Option<u64> {
    bench.ask_fabric((kind::fabric::TURN, kind::fabric::TURN_ACK), number, change)
}

#[test]
fn a_node_follows_the_latest_turn_of_its_epoch_alone() {
    let mut bench = Bench::new(1);
    let same = |_: &mut Header, _: &mut Heartbeat| ();
    assert_eq!((turn(&mut bench, 0, same), bench.nodes[0].turn()), (Some(0), 0), "a question changes nothing");
    let before = bench.nodes[0].next_timer();
    assert_eq!((turn(&mut bench, 9, same), bench.nodes[0].turn()), (Some(9), 9));
    assert!(bench.nodes[0].next_timer() < before, "its new switch is to hear of it");
    assert_eq!(turn(&mut bench, 9, same), Some(9), "the answer was lost");
    assert_eq!((turn(&mut bench, 8, same), bench.nodes[0].turn()), (None, 9), "late");
    for change in [
        (|header: &mut Header, _: &mut Heartbeat| header.epoch += 1) as fn(&mut Header, &mut Heartbeat),
        |header, _| header.epoch -= 1,
        |header, _| header.destination += 1,
        |_, body| body.incarnation += 1,
    ] {
        assert_eq!((turn(&mut bench, 10, change), bench.nodes[0].turn()), (None, 9), "of another epoch, or to another");
    }
}

/// POLICY to node 0; the number that it answers.
fn policy(bench: &mut Bench, number: u64, said: [u8; 2], change: impl Fn(&mut Header, &mut Heartbeat)) -> Option<u64> {
    bench.ask_fabric((kind::fabric::POLICY, kind::fabric::POLICY_ACK), number, |header, body| {
        header.position = u16::from_le_bytes(said);
        change(header, body);
    })
}

#[test]
fn lines_are_decided_by_the_policy_that_was_told_last() {
    let mut bench = Bench::new(1);
    let same = |_: &mut Header, _: &mut Heartbeat| ();
    let known = |bench: &Bench| bench.nodes[0].session().map(|session| (session.policy, session.patience));
    let (first, second) = ([Policy::WritePreferring as u8, 4], [Policy::ReadPreferring as u8, 6]);
    assert_eq!(policy(&mut bench, 7, first, same), Some(7));
    assert_eq!(known(&bench), Some((Policy::WritePreferring, 3)));
    assert_eq!(policy(&mut bench, 9, second, same), Some(9));
    assert_eq!(policy(&mut bench, 7, first, same), Some(7), "late");
    assert_eq!(known(&bench), Some((Policy::ReadPreferring, 5)));
    for change in [
        (|header: &mut Header, _: &mut Heartbeat| header.epoch += 1) as fn(&mut Header, &mut Heartbeat),
        |header, _| header.destination += 1,
        |header, _| header.position = 200,
        |_, body| body.incarnation += 1,
    ] {
        assert_eq!((policy(&mut bench, 10, first, change), known(&bench)), (None, Some((Policy::ReadPreferring, 5))));
    }
}
