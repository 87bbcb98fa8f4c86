//! How often locks are asked for, and by how many at a time: docs/queue.md, "The plan", "Measured".

use super::*;

impl Bench {
    /// The lock server's node takes a lock and gives it back, so often.
    fn use_it(&mut self, name: u64, times: u64) {
        for _ in 0..times {
            let (holder, ticket) = (self.server, self.switch.line(SPACE, name).expect("it has a queue").ticket);
            assert!(ask(self, holder, name, ticket, 0));
            let request = u64::from(holder) << 40 | ticket;
            send(self, holder, kind::queue::RELEASE, &Attempt { name, request, ticket, holder, ..Attempt::default() });
        }
    }

    fn concurrency(&self, name: u64) -> Option<u32> {
        self.view().locks.into_iter().find(|lock| lock.name == name).map(|lock| lock.concurrency)
    }
}

#[test]
fn the_rate_of_a_queue_is_what_it_granted_in_a_second_and_half_of_it_is_what_was_known() {
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[(1, 2), (2, 2), (3, 2)]);
    bench.pass(SECOND / 2);
    bench.use_it(1, 10);
    bench.use_it(3, 30);
    assert_eq!(bench.rate(1), Some(0), "nothing is known before a whole second");
    bench.pass(SECOND / 2);
    assert_eq!([1, 2, 3].map(|name| bench.rate(name)), [Some(10_000), Some(0), Some(30_000)], "in 1,000 seconds");
    bench.use_it(1, 30);
    bench.pass(SECOND);
    assert_eq!([1, 3].map(|name| bench.rate(name)), [Some(20_000), Some(15_000)]);
}

#[test]
fn so_many_are_at_a_lock_as_have_cells_and_wait_at_its_server_besides_and_are_forgotten_after_a_while() {
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[(1, 4), (2, 4)]);
    let server = bench.server;
    let granted = [1, 2, 3].map(|request| ask(&bench, server, 1, request, 0));
    assert_eq!(granted, [true, false, false]);
    bench.asked(server, 1, 1, 0, 10);
    bench.asked(server, 1, 2, 0, 6);
    bench.pass(SECOND);
    assert_eq!([1, 2].map(|name| bench.concurrency(name)), [Some(13), Some(0)]);
    // Eight seconds, and eight more of which that one was the first.
    bench.pass(14 * SECOND);
    assert_eq!(bench.concurrency(1), Some(13));
    bench.pass(SECOND);
    assert_eq!(bench.concurrency(1), Some(3), "who waited there has left");
}

#[test]
fn a_lock_that_has_just_come_has_the_rate_that_its_lock_server_told() {
    for (before, rate) in [(3, 100_000), (7, 50_000)] {
        let mut bench = Bench::new(ROOM, &[]);
        bench.asked(bench.server, 7, 1, 100, 1);
        bench.pass(SECOND);
        assert_eq!(bench.stages(), [(7, Stage::Awaited)]);
        bench.pass(SECOND - before * SECOND / 10);
        assert_eq!(bench.answer().0, [7]);
        bench.pass(before * SECOND / 10);
        assert_eq!(bench.rate(7), Some(rate), "{before} tenths of a second");
    }
}

#[test]
fn what_nobody_asks_for_loses_half_its_rate_each_second_until_it_is_forgotten() {
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[]);
    bench.asked(bench.server, 7, 1, 4, 1);
    let mut rates = vec![];
    for _ in 0..14 {
        bench.pass(SECOND);
        rates.push(bench.rate(7).unwrap_or(0));
    }
    assert_eq!(rates, [4_000, 2_000, 1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1, 0, 0]);
    assert_eq!(bench.rate(7), None);
    bench.asked(bench.server, 8, 1, 0, 1);
    assert_eq!(bench.rate(8), None, "a lock of its own that nobody has asked for is not known");
    // Those who were there at a time are, too, after twice eight seconds.
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[]);
    bench.asked(bench.server, 9, 1, 1_000_000, 9);
    bench.pass(15 * SECOND);
    assert_eq!(bench.concurrency(9), Some(9));
    bench.pass(SECOND);
    assert!(bench.concurrency(9) == Some(0) && bench.rate(9) > Some(0));
}

/// Whoever is the lock server next counts its windows from the first.
#[test]
fn windows_are_of_one_lock_server() {
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[]);
    let (server, other) = (bench.server, bench.enrol(2));
    bench.asked(server, 7, 9, 100, 1);
    bench.pass(TICK);
    bench.asked(server, 7, 1, 900, 1);
    assert_eq!(bench.rate(7), Some(100_000), "of long ago");
    bench.succeed(other, 1);
    bench.asked(other, 7, 1, 900, 1);
    assert_eq!(bench.rate(7), Some(100_000), "it is not looked at yet");
    bench.pass(TICK);
    bench.asked(server, 7, 10, 900, 1);
    assert_eq!(bench.rate(7), Some(100_000), "that one's session is over");
    bench.asked(other, 7, 1, 300, 1);
    assert_eq!(bench.rate(7), Some(200_000));
}

#[test]
fn a_lock_is_worth_a_queue_that_is_asked_for_once_a_second() {
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[]);
    for (window, (name, requests)) in (1..).zip([(7, 1), (8, 2)]) {
        bench.asked(bench.server, name, window, requests, 1);
    }
    bench.hear(
        bench.server,
        kind::queue::ASKED,
        Attempt { name: 9, number: 1, order: 1, over: SECOND + 10_000, room: 1, ..Attempt::default() },
    );
    let asked = bench.view().locks.into_iter().map(|lock| (lock.name, lock.is_asked_for()));
    assert_eq!(asked.collect::<Vec<_>>(), [(8, true), (7, true), (9, false)], "those that are asked for most first");
}
