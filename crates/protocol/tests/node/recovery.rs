//! A node in a recovery (docs/protocol.md, Recovery): what it asks for, and when.

use crate::bench::{Bench, SLOTS, handle};
use wayside_protocol::Mode;
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_wire::{
    BODY, Entry, Header, LockKind, SlotBits, SlotState, entry_flag, header_flag, kind, limits, service,
};

const NEXT_EPOCH: u32 = 8;
const CENSUS: u64 = 77;

/// A packet of the controller's to node 0, in the next epoch.
fn tell(bench: &mut Bench, kind: u8, flags: u16, entries: &[Entry]) {
    let mut packet = vec![0; BODY + entries.len() * Entry::BYTES];
    let count = entries.len() as u8;
    let header = Header { service: service::LOCK, kind, flags, count, destination: handle(0), ..Header::default() };
    Header { epoch: NEXT_EPOCH, namespace: 1, ..header }.write(&mut packet);
    for (index, entry) in entries.iter().enumerate() {
        entry.write(&mut packet, BODY + index * Entry::BYTES);
    }
    bench.nodes[0].on_packet(bench.now, &packet);
    bench.collect(0);
}

fn ask_what_it_holds(bench: &mut Bench) {
    tell(bench, kind::lock::CENSUS, 0, &[Entry { request: CENSUS, slot: limits::ALL_SLOTS, ..Entry::default() }]);
}

/// The switch has begun anew, and node 0 adopts what it holds: `names`, each in the slot of its number.
fn adopt(bench: &mut Bench, names: u32) {
    bench.switch.set_epoch(NEXT_EPOCH);
    for slot in 0..SLOTS {
        let agent = if slot < names { handle(0) } else { 0 };
        let state = if slot < names { SlotState::Managed } else { SlotState::Unheld };
        let tenure = u32::from(slot < names);
        let word = SlotWord { state, agent, transferred: slot < names, ..SlotWord::unheld(tenure) };
        assert!(bench.switch.cas_slot(1, slot, bench.switch.load_slot(1, slot), word));
    }
    let word = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    ask_what_it_holds(bench);
    let mut entries = vec![Entry { request: CENSUS, ..Entry::default() }];
    let report = bench.flying.pop_back().expect("a report").packet;
    let holds = wayside_wire::entries(&report).skip(1).filter(|entry| entry.flags & entry_flag::HELD != 0);
    for hold in holds {
        let (slot, holder, flags) = (hold.slot, handle(0), entry_flag::AGENCY);
        entries.push(Entry { slot, tenure: 1, holder, slot_bits: word.to_u16(), flags, ..Entry::default() });
        entries.push(hold);
    }
    assert_eq!(entries.len(), 1 + 2 * names as usize);
    bench.flying.clear();
    tell(bench, kind::lock::ADOPT, header_flag::LAST, &entries);
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
    ask_what_it_holds(&mut bench);
    bench.delivered.clear();
    bench.pass(5_000);
    assert_eq!(bench.count(LockKind::Acquire), 1);
    assert!(matches!(bench.nodes[0].event(), Some(wayside_protocol::Event::Granted { .. })));
}

#[test]
fn agents_that_were_adopted_together_are_confirmed_one_after_the_other() {
    let mut bench = Bench::new(1);
    for name in 0..8 {
        bench.ask(0, name, Mode::Exclusive);
    }
    bench.run();
    adopt(&mut bench, 8);
    bench.delivered.clear();
    bench.run();
    assert_eq!(renewals(&mut bench), 1, "not all at once");
    bench.pass(400);
    assert!(renewals(&mut bench) < 8);
    bench.pass(2_000);
    assert_eq!(renewals(&mut bench), 8, "each once");
    assert!((0..8).all(|name| bench.slot(name).tenure == 2), "the switch has confirmed all");
}

#[test]
fn a_lock_that_is_given_back_before_its_agent_was_confirmed_is_free_soon() {
    let mut bench = Bench::new(2);
    let held: Vec<_> = (0..8).map(|name| bench.ask(0, name, Mode::Exclusive)).collect();
    bench.run();
    while bench.nodes[0].event().is_some() {}
    adopt(&mut bench, 8);
    bench.run();
    // Given back before the agent was confirmed.
    bench.release(0, held[7]);
    bench.pass(600);
    assert_eq!(bench.slot(7).state, SlotState::Unheld);
    assert!((0..7).all(|name| bench.slot(name).state == SlotState::Managed));
}
