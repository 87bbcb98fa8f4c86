//! Which of many held slots are watched, as nobody may know of them.

use super::*;

#[test]
fn slots_that_are_free_again_make_room_for_others_to_be_watched() {
    const WATCHED: u32 = 4_096;
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.memory.more_slots.set(5_000);
    (0..WATCHED).for_each(|slot| bench.hold(slot, 1, 5));
    bench.live(&[1], 3 * config().poll_period);
    bench.memory.slots.borrow_mut().clear();
    bench.live(&[1], 3 * config().poll_period);
    (WATCHED..WATCHED + 100).for_each(|slot| bench.hold(slot, 1, 5));
    bench.live(&[1], 20 * config().retransmit + 3 * config().poll_period);
    let asked: usize = bench.sent(lock::INSPECT).iter().map(|packet| entries(packet).count()).sum();
    assert_eq!(asked, 100);
}
