//! What a queue had no room for: when its lock server says what. docs/queue.md, "Overflow".

use super::*;

#[test]
fn a_gap_that_is_filled_shortens_the_wait_for_no_other() {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 1, 8));
    pushed(&mut overflow, 20, &counters(1, 3, 8));
    for order in [2, 3] {
        link(100, |link| overflow.on_acquire(link, &overflowed(order, order)));
    }
    pushed(&mut overflow, 150, &counters(3, 3, 8));
    pushed(&mut overflow, 200, &counters(3, 5, 8));
    link(210, |link| overflow.on_acquire(link, &overflowed(5, 5)));
    assert_eq!(pushes(&until(&mut overflow, 199 + PAUSE)), []);
    assert_eq!(pushes(&until(&mut overflow, 200 + PAUSE)), [(4, 5, 5)]);
}

#[test]
fn what_came_behind_a_gap_goes_with_what_was_above_it() {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 1, 8));
    pushed(&mut overflow, 20, &counters(1, 3, 8));
    link(500, |link| overflow.on_acquire(link, &overflowed(4, 4)));
    assert_eq!(pushes(&until(&mut overflow, 20 + PAUSE)), [(2, 4, 4)], "2 and 3 were given up");
}

#[test]
fn what_is_settled_is_said_three_times_when_all_that_was_pushed_is_taken() {
    let mut overflow = overflow();
    pushed(&mut overflow, 10, &counters(0, 1, 8));
    assert_eq!(kinds(&until(&mut overflow, 9_000)), [kind::queue::PUSH; 3], "the push says it");
    pushed(&mut overflow, 9_010, &counters(1, 1, 7));
    assert_eq!(kinds(&until(&mut overflow, 900_000)), [kind::queue::SETTLE; 3]);
    assert_eq!(overflow.due(), Time::NEVER);
}
