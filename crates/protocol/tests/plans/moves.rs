//! Step by step, how a lock gets its queue in the switch and loses it: docs/queue.md, "Moves".
//!
//! Left out one at a time, these rules fail here: who stays in a queue keeps it from leaving for a while only; a queue
//! drains while somebody would have it, in a term with tickets above its own; it opens by the CEDED of its own move,
//! and is removed by the TAKEN of its own ticket, of its lock server alone; no more drain or come than are allowed and
//! have room; nothing moves before the switch serves, and in a new epoch everything begins anew.

use super::*;

/// Of retransmission.
const PAUSE: u64 = 50_000;
/// A queue drains for so long if somebody stays in it,
const PATIENCE: u64 = 20 * PAUSE;
/// and rests for so long before it does again.
const REST: u64 = 5 * PATIENCE;
/// Orders and pushes of a queue begin at its first ticket times this.
const NUMBERS: u64 = 1 << 24;
/// Orders that are the lock server's own when it has ceded a lock.
const CEDED_ORDERS: u64 = 65_536;
const TERM: u64 = 1 << 30;

impl Bench {
    /// Nobody plans these queues.
    fn fixed(queues: &[(u64, u32)]) -> Bench {
        Bench::of(Allocation::Fixed, ROOM, queues)
    }

    /// The lock server's node holds these, too.
    fn hold(&mut self, names: impl IntoIterator<Item = u64>) {
        names.into_iter().for_each(|name| assert!(ask(self, self.server, name, 1, 0), "{name}"));
    }

    /// Somebody waits for a lock who says a priority: the lock server is given the request.
    fn rank(&mut self, name: u64) {
        assert!(!ask(self, self.server, name, 2, 3), "{name}");
    }

    fn leave(&mut self, name: u64, request: u64, ticket: u64) {
        let (holder, request) = (self.server, u64::from(self.server) << 40 | request);
        send(self, holder, kind::queue::RELEASE, &Attempt { name, request, ticket, holder, ..Attempt::default() });
    }

    fn stage(&self, name: u64) -> Option<Stage> {
        self.switch.line(SPACE, name).map(|line| line.stage)
    }

    fn cede(&mut self, source: u16, name: u64, number: u64) {
        self.hear(source, kind::queue::CEDED, Attempt { name, number, ticket: FIRST, ..Attempt::default() });
    }

    fn take(&mut self, source: u16, name: u64, ticket: u64) {
        self.hear(source, kind::queue::TAKEN, Attempt { name, ticket, ..Attempt::default() });
    }

    /// Locks that have moved since this was asked last, and whether to the switch.
    fn moved(&mut self) -> Vec<(u64, bool)> {
        let of = |notice: Notice| if let Notice::Moved(SPACE, name, here) = notice { Some((name, here)) } else { None };
        std::iter::from_fn(|| self.controller.notice()).filter_map(of).collect()
    }

    /// The switch's memory is lost. The lock server offers itself at once, and nobody has reported.
    fn restart_switch(&mut self) {
        self.switch.set_epoch(0);
        self.pass(TICK);
        self.hear(self.server, kind::queue::SERVE, Attempt { number: 1, ..Attempt::default() });
    }
}

#[test]
fn a_queue_whose_holder_stays_serves_on_and_drains_again_after_a_rest() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.hold([1]);
    bench.controller.place(SPACE, []);
    for _ in 0..2 {
        bench.pass(TICK);
        assert_eq!(bench.stage(1), Some(Stage::Drains));
        bench.pass(PATIENCE);
        assert_eq!(bench.stage(1), Some(Stage::Drains), "for as long as it takes others to ask again");
        bench.pass(TICK);
        assert_eq!(bench.stage(1), Some(Stage::Here), "others may hold beside who stays");
        bench.pass(REST - TICK);
        assert_eq!(bench.stage(1), Some(Stage::Here));
    }
}

#[test]
fn a_queue_that_drains_is_not_given_up_because_others_are_wanted_elsewhere() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.hold([1]);
    // A controller that died has let it drain; the operator's plan speaks of nothing.
    assert!(bench.switch.step(SPACE, 1, Step::Drain));
    bench.pass(TICK + PATIENCE);
    assert_eq!(bench.stage(1), Some(Stage::Drains));
    bench.pass(TICK);
    assert_eq!(bench.stage(1), Some(Stage::Here));
    bench.pass(REST + 2 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Here), "nobody wants it elsewhere");
}

#[test]
fn a_queue_that_is_wanted_again_ceases_to_drain_and_has_no_rest_to_keep() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.hold([1]);
    for _ in 0..2 {
        bench.controller.place(SPACE, []);
        bench.pass(TICK);
        assert_eq!(bench.stage(1), Some(Stage::Drains));
        bench.controller.place(SPACE, [(1, 2)]);
        bench.pass(TICK);
        assert_eq!(bench.stage(1), Some(Stage::Here));
        bench.pass(TICK);
    }
}

#[test]
fn a_queue_whose_lock_server_is_gone_serves_on_and_leaves_once_there_is_another() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    let (one, other) = (bench.enrol(2), bench.enrol(3));
    assert!(ask(&bench, one, 1, 1, 0) && !ask(&bench, other, 1, 1, 3));
    bench.pass(TICK);
    assert_eq!(bench.stage(1), Some(Stage::Drains), "it is asked for with a priority");
    bench.controller.closed(bench.now, bench.server);
    bench.pass(TICK);
    assert_eq!(bench.stage(1), Some(Stage::Here), "nobody would have it");
    bench.pass(2 * TICK);
    bench.succeed(one, 1);
    bench.pass(2 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Drains));
}

/// Of versions before 1.6.
#[test]
fn a_lock_server_that_moves_no_locks_keeps_what_it_has() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    let other = bench.enrol(2);
    bench.succeed(other, 0);
    bench.controller.place(SPACE, [(5, 2)]);
    bench.pass(PATIENCE);
    assert_eq!(bench.stages(), [(1, Stage::Here)]);
    bench.hear(other, kind::queue::SERVE, Attempt { number: 1, ..Attempt::default() });
    bench.pass(2 * TICK);
    assert_eq!(bench.stages(), [(1, Stage::Handed), (5, Stage::Awaited)], "it says by now that it can");
}

#[test]
fn no_more_queues_drain_at_a_time_than_are_allowed() {
    const HERE: Stage = Stage::Here;
    const DRAINS: Stage = Stage::Drains;
    let mut bench = Bench::fixed(&[(1, 2), (2, 2), (3, 2), (4, 2)]);
    bench.hold(1..=4);
    bench.controller.place(SPACE, []);
    let stages = |bench: &Bench| [1, 2, 3, 4].map(|name| bench.stage(name).expect("it has a queue"));
    for _ in 0..2 {
        bench.pass(TICK);
        assert_eq!(stages(&bench), [DRAINS, DRAINS, HERE, HERE]);
    }
    bench.pass(PATIENCE + TICK);
    assert_eq!(stages(&bench), [HERE, HERE, DRAINS, DRAINS], "the first rest, and others have their turn");
}

#[test]
fn a_lock_that_comes_back_is_one_of_those_that_come_however_long_ago_it_left() {
    let mut bench = Bench::fixed(&[]);
    bench.switch.add_queue(SPACE, 1, 2, FIRST).unwrap();
    bench.controller.place(SPACE, []);
    bench.pass(2 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Handed));
    bench.take(bench.server, 1, FIRST);
    bench.pass(100 * PATIENCE);
    bench.controller.place(SPACE, [(1, 2), (2, 2), (3, 2)]);
    for _ in 0..3 {
        bench.pass(TICK);
        assert_eq!(bench.stages(), [(1, Stage::Awaited), (2, Stage::Awaited)], "two at a time");
    }
}

/// docs/queue.md, "Moves": tokens rise.
#[test]
fn a_lock_is_handed_over_only_to_a_term_that_has_higher_tickets() {
    for (first, stage) in [(2 * TERM, Stage::Handed), (2 * TERM + 1, Stage::Here)] {
        let mut bench = Bench::fixed(&[]);
        bench.switch.add_queue(SPACE, 1, 2, first).unwrap();
        bench.controller.place(SPACE, []);
        bench.pass(2 * TICK);
        assert_eq!(bench.stage(1), Some(stage), "{first}");
        if stage == Stage::Here {
            // One that drains already, as a controller that died has left it.
            assert!(bench.switch.step(SPACE, 1, Step::Drain));
            bench.pass(TICK);
            assert_eq!(bench.stage(1), Some(Stage::Here));
            // The next term's are higher.
            let other = bench.enrol(2);
            bench.succeed(other, 1);
            bench.pass(REST + 2 * TICK);
            assert_eq!(bench.stage(1), Some(Stage::Handed));
        }
    }
}

#[test]
fn what_was_handed_over_is_said_once_a_pause_until_its_lock_server_has_taken_it() {
    for (is_settled, order) in [(false, 1), (true, 0)] {
        let mut bench = Bench::fixed(&[(1, 2)]);
        let (server, other) = (bench.server, bench.enrol(2));
        let granted = [1, 2, 3].map(|request| ask(&bench, server, 1, request, 0));
        assert_eq!(granted, [true, false, false], "the second waits, the third is at the lock server");
        if is_settled {
            send(&bench, server, kind::queue::SETTLE, &Attempt { name: 1, order: 1, ..Attempt::default() });
        }
        [1, 2].into_iter().for_each(|request| bench.leave(1, request, request));
        bench.controller.place(SPACE, []);
        bench.pass(TICK);
        bench.moved();
        assert_eq!((bench.stage(1), bench.said(kind::queue::YIELD)), (Some(Stage::Drains), vec![]));
        bench.pass(TICK);
        let said = bench.said(kind::queue::YIELD);
        let [(to, body)] = said[..] else { panic!("at once, and once: {said:?}") };
        assert_eq!((to, body.name, body.ticket, body.number, body.order), (server, 1, 3, 0, order));
        bench.pass(PAUSE - TICK);
        assert_eq!(bench.said(kind::queue::YIELD), []);
        bench.pass(TICK);
        assert_eq!(bench.said(kind::queue::YIELD).len(), 1);
        bench.pass(10 * PAUSE);
        assert_eq!(bench.said(kind::queue::YIELD).len(), 10);

        bench.take(other, 1, 3);
        bench.take(server, 1, 4);
        assert_eq!((bench.stage(1), bench.moved()), (Some(Stage::Handed), vec![]), "another node's, another stay's");
        bench.take(server, 1, 3);
        assert_eq!((bench.stage(1), bench.moved()), (None, vec![(1, false)]), "its cells are free for others");
        bench.take(server, 1, 3);
        bench.pass(2 * PAUSE);
        assert_eq!((bench.moved(), bench.said(kind::queue::YIELD)), (vec![], vec![]));
    }
}

#[test]
fn a_taken_of_a_lock_that_was_not_handed_over_removes_nothing() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.hold([1]);
    for step in [None, Some(Step::Drain)] {
        assert!(step.is_none_or(|step| bench.switch.step(SPACE, 1, step)));
        bench.take(bench.server, 1, 2);
        assert_eq!((bench.moved(), bench.switch.line(SPACE, 1).map(|line| line.used)), (vec![], Some(1)));
    }
}

#[test]
fn a_lock_is_asked_back_more_and_more_seldom_under_the_number_of_its_move() {
    let mut bench = Bench::fixed(&[]);
    bench.controller.place(SPACE, [(7, 2), (8, 2)]);
    bench.pass(TICK);
    assert_eq!(bench.stages(), [(7, Stage::Awaited), (8, Stage::Awaited)]);
    let (mut at, mut numbers) = (vec![], std::collections::BTreeSet::new());
    for tick in 0..400 {
        bench.pass(TICK);
        for (to, body) in bench.said(kind::queue::RECALL) {
            assert_eq!(to, bench.server);
            numbers.insert((body.name, body.number));
            at.extend((body.name == 7).then_some(tick * 10));
        }
    }
    assert_eq!(at, [0, 50, 100, 200, 400, 800, 1600, 2600, 3600], "milliseconds");
    let numbers: Vec<(u64, u64)> = numbers.into_iter().collect();
    let [(7, one), (8, other)] = numbers[..] else { panic!("a number for each: {numbers:?}") };
    assert!(one != other && one != 0 && other != 0);
}

#[test]
fn a_queue_opens_by_what_its_lock_server_cedes_for_this_move_alone() {
    let mut bench = Bench::fixed(&[]);
    let (server, other) = (bench.server, bench.enrol(2));
    bench.controller.place(SPACE, [(7, 2)]);
    bench.pass(2 * TICK);
    let id = bench.said(kind::queue::RECALL)[0].1.number;
    bench.pass(1_650_000);
    bench.moved();
    bench.sent();
    for (source, number) in [(server, id + 1), (server, 0), (other, id)] {
        bench.cede(source, 7, number);
        assert_eq!((bench.stage(7), bench.moved()), (Some(Stage::Awaited), vec![]), "{number} of {source}");
    }
    bench.cede(server, 7, id);
    assert_eq!(bench.moved(), [(7, true)]);
    let line = bench.switch.line(SPACE, 7).expect("it is here");
    let (pushed, given) = (FIRST * NUMBERS, FIRST * NUMBERS + CEDED_ORDERS);
    assert_eq!((line.stage, line.ticket, line.cells), (Stage::Here, FIRST, 2));
    assert_eq!((line.pushed, line.settled, line.given), (pushed, pushed, given), "who waits there is first");
    let said = bench.said(kind::queue::PUSHED);
    let [(to, body)] = said[..] else { panic!("what it would ask for a moment later: {said:?}") };
    assert_eq!((to, body.name, body.number, body.order, body.room), (server, 7, pushed, given, 2));
    bench.cede(server, 7, id);
    assert_eq!((bench.moved(), bench.said(kind::queue::PUSHED)), (vec![], vec![]), "a copy");

    // What was to be said of that move puts off no other.
    send(&bench, server, kind::queue::SETTLE, &Attempt { name: 7, number: pushed, order: given, ..Attempt::default() });
    bench.hold([7]);
    bench.rank(7);
    bench.pass(TICK);
    assert_eq!(bench.stage(7), Some(Stage::Drains));
}

#[test]
fn locks_that_are_kept_for_their_priorities_keep_no_others_from_moving_and_are_not_asked_back() {
    let mut bench = Bench::fixed(&[(1, 2), (2, 2), (3, 2)]);
    bench.hold([1, 2]);
    [1, 2].into_iter().for_each(|name| bench.rank(name));
    bench.pass(TICK);
    [1, 2].into_iter().for_each(|name| bench.leave(name, 1, 1));
    bench.pass(TICK);
    assert_eq!(bench.answer().1, [1, 2]);
    bench.hold([3]);
    bench.rank(3);
    bench.pass(TICK);
    assert_eq!(bench.stages(), [(1, Stage::Awaited), (2, Stage::Awaited), (3, Stage::Drains)]);
    bench.pass(2 * PATIENCE);
    assert_eq!(bench.said(kind::queue::RECALL), [], "whoever else is asked for with one");
}

#[test]
fn priorities_that_were_heard_of_are_no_news_when_others_are() {
    let mut bench = Bench::fixed(&[(1, 2), (2, 2)]);
    bench.hold([1]);
    bench.rank(1);
    // Its holder stays for longer than priorities count.
    bench.pass(10 * SECOND + 2 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Here));
    bench.hold([2]);
    bench.rank(2);
    bench.pass(REST + 2 * TICK);
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Drains)]);
}

#[test]
fn regions_never_have_more_cells_than_there_is_room_for_and_what_is_too_large_keeps_nothing_else_out() {
    let stages = |queues: &[(u64, u32)], wanted: &[(u64, u32)]| {
        let mut bench = Bench::new(ROOM, queues);
        bench.controller.place(SPACE, wanted.iter().copied());
        bench.pass(TICK);
        bench.stages()
    };
    let (here, awaited) = (Stage::Here, Stage::Awaited);
    assert_eq!(stages(&[], &[(9, 2), (10, 2)]), [(9, awaited), (10, awaited)], "all at once");
    assert_eq!(stages(&[(8, 2)], &[(8, 2), (9, 2), (10, 2)]), [(8, here), (9, awaited)]);
    assert_eq!(stages(&[(8, 2)], &[(8, 2), (9, 3), (10, 2), (11, 2)]), [(8, here), (10, awaited)]);
    assert_eq!(stages(&[(8, 2)], &[(8, 2), (9, 1), (10, 1)]), [(8, here), (9, awaited), (10, awaited)]);
    // Where nobody plans, the switch's memory is all the room that there is.
    let mut bench = Bench::fixed(&[(8, 2)]);
    bench.controller.place(SPACE, [(8, 2), (9, 4), (10, 4)]);
    bench.pass(TICK);
    assert_eq!(bench.stages(), [(8, here), (9, awaited), (10, awaited)]);
}

#[test]
fn nothing_moves_before_the_switch_serves() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.restart_switch();
    bench.controller.place(SPACE, [(5, 2)]);
    bench.pass(5 * TICK);
    assert_eq!((bench.switch.serving(), bench.stages()), (false, vec![(1, Stage::Here)]));
    bench.report();
    bench.pass(2 * TICK);
    assert_eq!(bench.stages(), [(1, Stage::Handed), (5, Stage::Awaited)]);
}

#[test]
fn a_queue_that_rested_in_the_epoch_before_may_leave_at_once() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.hold([1]);
    bench.controller.place(SPACE, []);
    bench.pass(PATIENCE + 2 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Here));
    bench.restart_switch();
    bench.report();
    bench.pass(2 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Handed), "nobody holds it any more");
}

#[test]
fn priorities_of_the_epoch_before_move_nothing() {
    let mut bench = Bench::fixed(&[(1, 2)]);
    bench.hold([1]);
    bench.rank(1);
    bench.pass(TICK);
    assert_eq!(bench.stage(1), Some(Stage::Drains));
    bench.restart_switch();
    bench.report();
    bench.pass(3 * TICK);
    assert_eq!(bench.stage(1), Some(Stage::Here));
}
