//! A daemon that runs for ever keeps nothing of what is over.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use wayside_protocol::chain::Sweeping;
use wayside_wire::Outcome;

use crate::support::*;

/// Counts the bytes that each thread has: tests run side by side.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    BYTES.with(|count| count.set(count.get() + bytes));
}

// SAFETY: passes everything on to the system's allocator; `realloc` goes by both of these.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn of_keys_that_have_left_and_sessions_that_are_over_nothing_is_kept() {
    let sweeping = Sweeping { collect_after: 1_000, looks: 512, retransmit: RETRANSMIT, look_again: 1_000 };
    for switches in [1, 3] {
        let mut world = World::of(&Setup { switches, sweeping, ..Setup::default() });
        let mut lives = |rounds: u64, from: u64| {
            for round in from..from + rounds {
                let name = round.to_be_bytes();
                assert_eq!(world.insert(&name), Some(Outcome::Done));
                assert!(world.write(1, &name, b"x").is_some() && world.lease(2, &name, b"mine").is_some());
                world.end_session(2);
                // It is found to be without a value, and then to have been so for long enough.
                (0..4).for_each(|_| world.run(500));
                assert_eq!(world.contents(&name), vec![None; switches]);
                world.begin_session(2, 0);
                for seat in &mut world.seats {
                    assert!(seat.member.removed().is_some());
                    while seat.member.ended().is_some() {}
                }
            }
            BYTES.with(Cell::get)
        };
        let warm = lives(20, 0);
        let grown = lives(500, 20) - warm;
        assert!(grown < 2_000, "{grown} bytes of 500 keys with {switches} switches");
    }
}
