//! A census, from the question to the last page that an heir has adopted.

mod slots;

use super::*;

const LAST: u16 = wayside_wire::header_flag::LAST;

/// Nodes 1 and 2 are asked about slot 9, whose agent 3 is dead. What names the census.
fn asked() -> (Bench, Entry) {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.hold(9, 3, 5);
    bench.controller.closed(Time(bench.now), 3);
    bench.pass(config().poll_period);
    bench.notices();
    let request = Bench::id_of(&bench.sent(lock::CENSUS).pop().expect("asked"));
    (bench, Entry { request, slot: 9, ..Entry::default() })
}

fn agency(slot: u32, tenure: u32) -> Entry {
    Entry { slot, tenure, flags: entry_flag::AGENCY, ..Entry::default() }
}

/// The entries of all pages, in order, and to whom they went.
fn adopted(bench: &mut Bench) -> (Vec<Handle>, Vec<Entry>) {
    let pages = bench.sent(lock::ADOPT);
    let to = pages.iter().map(|page| check(page).unwrap().destination).collect();
    (to, pages.iter().flat_map(|page| entries(page).skip(1).collect::<Vec<_>>()).collect())
}

#[test]
fn the_youngest_agent_keeps_the_books_of_all_who_hold() {
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 4), held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, agency(9, 5)]);
    let (to, books) = adopted(&mut bench);
    assert_eq!(to, [2]);
    assert_eq!((books[0].slot, books[0].tenure, books[0].holder), (9, 7, 2));
    assert_eq!(books[1..], [Entry { holder: 1, ..held(9, 1) }]);
    bench.lock(2, lock::ADOPTED, 0, 0, &[about]);
    assert_eq!(bench.notices(), [Notice::Recovered(1, 9, Some(2))]);
}

#[test]
fn the_youngest_agent_keeps_the_books_after_a_restart_too() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    let about = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 4), held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, agency(9, 5)]);
    let (to, books) = adopted(&mut bench);
    assert_eq!(to, [2]);
    assert_eq!((books[0].slot, books[0].tenure, books[0].holder), (9, 1, 2));
    assert_eq!(books[1..], [Entry { holder: 1, ..held(9, 1) }]);
}

#[test]
fn what_was_granted_to_an_earlier_process_of_the_node_is_nobodys() {
    let (mut bench, about) = asked();
    let former = Entry { request: 7 << 40 | 1, ..held(9, 1) };
    bench.lock(1, lock::REPORT, LAST, 0, &[about, former]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!(bench.slot(9), SlotWord::unheld(7));
    assert_eq!(bench.notices(), [Notice::Recovered(1, 9, None)]);
}

#[test]
fn whoever_does_not_answer_is_asked_again_once_a_pause() {
    let (mut bench, about) = asked();
    bench.live(&[1, 2], 3 * config().retransmit);
    let mut to: Vec<Handle> =
        bench.sent(lock::CENSUS).iter().map(|packet| check(packet).unwrap().destination).collect();
    to.sort_unstable();
    assert_eq!(to, [1, 1, 1, 2, 2, 2]);
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!(adopted(&mut bench).0, [1]);
    bench.live(&[1, 2], 3 * config().retransmit);
    assert_eq!(adopted(&mut bench).0, [1, 1, 1]);
}

#[test]
fn what_a_node_says_of_slots_that_it_is_not_asked_about_is_not_kept() {
    let (mut bench, about) = asked();
    let reported = |bench: &Bench| bench.controller.recovery.reported_by(1);
    bench.lock(1, lock::REPORT, 0, 0, &[about, held(10, 1), held(9, 1), agency(11, 4)]);
    assert_eq!(reported(&bench), 1);
    bench.lock(1, lock::REPORT, LAST, 1, &[about, held(8, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    let (to, books) = adopted(&mut bench);
    assert_eq!((to, reported(&bench)), (vec![1], 0));
    assert_eq!(books[1..], [Entry { holder: 1, ..held(9, 1) }]);
}

#[test]
fn who_reports_more_than_a_node_can_hold_is_dismissed() {
    let (mut bench, about) = asked();
    bench.hold(20, 2, 5);
    bench.lock(2, lock::GAP, 0, 0, &[Entry { slot: 20, tenure: 5, ..Entry::default() }]);
    let other = Entry { request: Bench::id_of(&bench.sent(lock::CENSUS).pop().expect("asked")), ..about };
    assert_ne!(other.request, about.request);
    bench.notices();
    let mut report = |about: Entry, page, holds: &[Entry]| {
        bench.lock(1, lock::REPORT, 0, page, &[&[about], holds].concat());
        bench.sent(0);
        (bench.controller.recovery.reported_by(1), bench.notices())
    };
    const WHOLE: usize = recovery::REPORTED_MOST / 31;
    for page in 0..WHOLE as u16 {
        assert_eq!(report(about, page, &[held(9, 1); 31]), (31 * (usize::from(page) + 1), vec![]));
    }
    let rest = [held(9, 1); recovery::REPORTED_MOST % 31];
    assert_eq!(report(about, WHOLE as u16, &rest), (recovery::REPORTED_MOST, vec![]), "so much it may have");
    let first = report(other, 0, &[held(20, 1)]);
    assert_eq!(first, (recovery::REPORTED_MOST + 1, vec![]), "the first page of a census is what all have asked for");
    assert_eq!(report(other, 1, &[]).1, [Notice::Dismissed(1)]);
}

#[test]
fn a_slot_is_frozen_until_its_heir_has_every_page() {
    let (mut bench, about) = asked();
    let holds: Vec<Entry> = (1..=40).map(|id| Entry { request: 1 << 40 | id, ..held(9, 1) }).collect();
    let page = |holds: &[Entry]| [&[about], holds].concat();
    bench.lock(1, lock::REPORT, 0, 0, &page(&holds[..31]));
    bench.lock(1, lock::REPORT, LAST, 1, &page(&holds[31..]));
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    let pages = bench.sent(lock::ADOPT);
    let told: Vec<(u16, bool, usize)> = pages
        .iter()
        .map(|page| check(page).unwrap())
        .map(|header| (header.position, header.flags & LAST != 0, header.count.into()))
        .collect();
    assert_eq!(told, [(0, false, 32), (1, true, 11)]);
    let books: Vec<u64> =
        pages.iter().flat_map(|page| entries(page).skip(1).collect::<Vec<_>>()).map(|entry| entry.request).collect();
    assert_eq!(books[1..], holds.iter().map(|hold| hold.request).collect::<Vec<_>>());
    bench.lock(1, lock::ADOPTED, 0, 0, &[about]);
    assert_eq!(bench.slot(9).state, SlotState::Frozen, "it lacks a page");
    bench.lock(1, lock::ADOPTED, 0, 1, &[about]);
    assert_eq!((bench.slot(9).state, bench.slot(9).agent), (SlotState::Managed, 1));
}

#[test]
fn what_a_dead_heir_was_to_have_goes_to_another_census() {
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    bench.sent(0);
    bench.controller.closed(Time(bench.now), 1);
    let census = bench.sent(lock::CENSUS).pop().expect("asked at once");
    let about = entries(&census).next().expect("a slot");
    assert_eq!((check(&census).unwrap().destination, about.slot, about.tenure), (2, 9, 7));
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!(bench.slot(9), SlotWord::unheld(8));
}

/// Its books name one who died after they were decided on, and of whose death it has heard before it had them.
#[test]
fn an_heir_hears_again_of_the_death_of_who_is_in_its_books() {
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(9, 2)]);
    assert_eq!(adopted(&mut bench).0, [1]);
    for (dead, incarnation) in [(3, 3), (2, 2)] {
        if dead == 2 {
            bench.controller.closed(Time(bench.now), 2);
        }
        bench.fabric(1, fabric::DOWN_ACK, dead, incarnation);
    }
    let downs = |bench: &mut Bench| -> Vec<u16> {
        bench.live(&[1], config().retransmit);
        bench.sent(fabric::DOWN).iter().map(|down| check(down).unwrap().position).collect()
    };
    bench.sent(0);
    assert_eq!(downs(&mut bench), []);
    bench.lock(1, lock::ADOPTED, 0, 0, &[about]);
    assert_eq!(bench.slot(9).agent, 1);
    assert!(downs(&mut bench).contains(&2), "what it holds is given up");
    bench.fabric(1, fabric::DOWN_ACK, 2, 2);
    assert_eq!(downs(&mut bench), []);
}

#[test]
fn a_gap_counts_where_there_is_such_a_slot_and_from_its_agent() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.hold(SLOTS, 1, 5);
    let gap = |bench: &mut Bench, node, slot, tenure| {
        bench.lock(node, lock::GAP, 0, 0, &[Entry { slot, tenure, ..Entry::default() }]);
        bench.slot(slot).state == SlotState::Frozen
    };
    assert!(!gap(&mut bench, 1, SLOTS, 5), "there is no such slot");
    bench.hold(9, 1, 5);
    assert!(!gap(&mut bench, 1, 9, 0), "it has won it, and knows its tenure");
    let transferred = SlotWord { transferred: true, ..bench.slot(9) };
    bench.memory.slots.borrow_mut().insert(9, transferred);
    assert!(!gap(&mut bench, 2, 9, 0));
    assert!(gap(&mut bench, 1, 9, 0));
}

/// The heir's is two above.
#[test]
fn a_slot_is_frozen_while_two_tenures_are_left_besides_the_last() {
    for (tenure, epoch) in [(limits::MAX_TENURE - 3, 1), (limits::MAX_TENURE - 2, 2)] {
        let mut bench = Bench::new();
        bench.enrol(1);
        bench.hold(9, 1, tenure);
        bench.lock(1, lock::GAP, 0, 0, &[Entry { slot: 9, tenure, ..Entry::default() }]);
        assert_eq!((bench.memory.epoch(), bench.memory.serving()), (epoch, epoch == 1));
    }
}

/// Of a later version of nodes, say.
#[test]
fn what_is_neither_a_hold_nor_an_agency_makes_nobody_an_heir() {
    let neither = Entry { flags: 0, ..agency(9, 5) };
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, neither]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!((adopted(&mut bench).0, bench.slot(9)), (vec![], SlotWord::unheld(7)));
    let (mut bench, about) = restarted();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, neither]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!((adopted(&mut bench).0, bench.slot(9), bench.memory.serving()), (vec![], SlotWord::unheld(0), true));
}

/// Nodes 1 and 2 are asked about all slots. What names the census.
fn restarted() -> (Bench, Entry) {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    let about = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    (bench, about)
}

/// Whoever reports it alone, and can be told to adopt the rest, is the agent still of what nobody holds.
#[test]
fn an_agent_keeps_a_slot_that_nobody_holds() {
    let (mut bench, about) = restarted();
    let about = Entry { flags: entry_flag::AGENCY, ..about };
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 5)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    let (to, books) = adopted(&mut bench);
    assert_eq!((to, books.len(), books[0].slot, books[0].tenure), (vec![1], 1, 9, 1));
    bench.lock(1, lock::ADOPTED, 0, 0, &[about]);
    assert_eq!((bench.slot(9).agent, bench.memory.serving()), (1, true));
}

/// Node 1 reports so many holds of slot 9, page by page.
fn report_many(bench: &mut Bench, about: Entry, holds: u64) {
    let holds: Vec<Entry> = (1..=holds).map(|id| Entry { request: 1 << 40 | id, ..held(9, 1) }).collect();
    let pages = holds.chunks(31);
    let last = pages.len() - 1;
    for (page, holds) in pages.enumerate() {
        let flags = if page == last { LAST } else { 0 };
        bench.lock(1, lock::REPORT, flags, page as u16, &[&[about], holds].concat());
    }
    bench.sent(0);
}

#[test]
fn a_switch_serves_again_when_its_heirs_have_every_page() {
    let (mut bench, about) = restarted();
    report_many(&mut bench, about, 40);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    let pages = bench.sent(lock::ADOPT);
    let told: Vec<(u16, u8)> =
        pages.iter().map(|page| check(page).unwrap()).map(|it| (it.position, it.count)).collect();
    assert_eq!(told, [(0, 32), (1, 11)]);
    for (page, serves) in [(0, false), (1, true)] {
        bench.lock(1, lock::ADOPTED, 0, page, &[about]);
        assert_eq!(bench.memory.serving(), serves, "{page}");
    }
}

/// However long that takes: nothing has been sent to it yet.
#[test]
fn an_heir_is_not_waited_for_while_slots_are_written() {
    let mut bench = Bench::with(Config { slots_per_tick: 1, ..config() });
    bench.memory.more_slots.set(200);
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    let about = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(3, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(3, 2)]);
    let mut ticks = 0;
    while bench.controller.next_timer() <= Time(bench.now) {
        bench.now += config().retransmit;
        [1, 2].into_iter().for_each(|node| bench.beat(node));
        bench.controller.on_tick(Time(bench.now));
        ticks += 1;
    }
    assert!(ticks > 40, "{ticks}");
    assert_eq!([1, 2].map(|node| bench.memory.node_word(node).state), [NodeState::Live; 2]);
    assert_eq!(adopted(&mut bench).0, [1]);
}
