//! How fast slots are looked at, and what is asked about those that stay as they are.

use super::*;

/// A slot a tick, and node 1 has all of them. How many are frozen when it has ended so, and as long as a hurried pass
/// takes.
fn frozen_after(end: impl FnOnce(&mut Bench)) -> usize {
    let mut bench = Bench::with(Config { slots_per_tick: 1, ..config() });
    bench.enrol(1);
    bench.enrol(2);
    bench.live(&[1, 2], 400_000);
    let due = bench.controller.next_timer();
    bench.pass(due.0 - bench.now);
    assert_eq!(bench.controller.next_timer(), due + config().poll_period, "nobody waits");
    (0..SLOTS).for_each(|slot| bench.hold(slot, 1, 5));
    end(&mut bench);
    bench.live(&[2], 145_000);
    (0..SLOTS).filter(|slot| bench.slot(*slot).state == SlotState::Frozen).count()
}

#[test]
fn slots_of_the_dead_are_looked_for_in_a_hurry_and_those_of_who_had_none_are_not() {
    assert_eq!(frozen_after(|bench| bench.controller.closed(Time(bench.now), 1)), SLOTS as usize);
    let leaves = |bench: &mut Bench| {
        let flags = wayside_wire::header_flag::CLEAN;
        let header = Header { service: service::FABRIC, kind: fabric::LEAVE, flags, ..Header::default() };
        let body = Heartbeat { incarnation: 1, ..Heartbeat::default() };
        bench.receive(1, header, |packet| body.write(packet, BODY), Heartbeat::BYTES);
    };
    let frozen = frozen_after(leaves);
    assert!((1..20).contains(&frozen), "{frozen}: one each ten milliseconds");
}

#[test]
fn the_agent_of_a_slot_that_stays_as_it_is_is_asked_about_it() {
    const PATIENCE: u64 = 1_000_000;
    let pause = config().poll_period;
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.hold(9, 1, 5);
    bench.hold(10, 1, 6);
    bench.live(&[1], pause);
    let asked = |bench: &mut Bench| -> Vec<Entry> {
        bench.sent(lock::INSPECT).iter().flat_map(|packet| entries(packet).collect::<Vec<_>>()).collect()
    };
    bench.live(&[1], PATIENCE / 2);
    bench.hold(10, 1, 7);
    bench.live(&[1], PATIENCE / 2 - pause);
    assert_eq!(asked(&mut bench), []);
    bench.live(&[1], 3 * pause);
    let slot_bits = wayside_wire::SlotBits { state: SlotState::Managed, ..Default::default() }.to_u16();
    assert_eq!(asked(&mut bench), [Entry { slot: 9, tenure: 5, holder: 1, slot_bits, ..Entry::default() }], "once");
    bench.live(&[1], PATIENCE / 2);
    assert_eq!(asked(&mut bench).iter().map(|entry| entry.slot).collect::<Vec<_>>(), [10]);
}

#[test]
fn so_many_slots_are_watched_at_a_time_and_no_more() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.memory.more_slots.set(5_000);
    (0..5_000).for_each(|slot| bench.hold(slot, 1, 5));
    bench.live(&[1], 1_050_000);
    let asked: usize = bench.sent(lock::INSPECT).iter().map(|packet| entries(packet).count()).sum();
    assert_eq!(asked, 4_096);
}
