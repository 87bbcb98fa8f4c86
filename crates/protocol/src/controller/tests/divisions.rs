//! What a shard makes of the orders by which names come to other shards: docs/shards.md, "Adding and draining".

use super::*;
use crate::controller::Step;
use crate::shards::pledge_of;

const BEFORE: u32 = 7;

fn divided() -> Bench {
    Bench::with(Config { shards: BEFORE, ..config() })
}

/// To go so far with the map of this version.
fn order(version: u32, step: Step, begins: Option<u32>) -> Order {
    let (map, former) = (version.to_string().into_bytes(), (version - 1).to_string().into_bytes());
    Order { version, step, begins, above: 0, map, former }
}

impl Bench {
    fn comes(&mut self, nonce: u64, shards: u32) -> Result<Handle, Refusal> {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        self.controller.enrol(Time(self.now), applicant(0), shards, &body).map(|enrolment| enrolment.handle)
    }

    fn obeys(&mut self, order: &Order) {
        assert_eq!(self.controller.redivide(order), Ok(()), "{order:?}");
    }

    fn behind(&self) -> Vec<Handle> {
        self.controller.division().behind
    }
}

#[test]
fn who_has_followed_a_map_has_done_so_until_there_is_another() {
    let mut bench = divided();
    assert_eq!(bench.comes(1, BEFORE), Ok(1));
    bench.obeys(&order(1, Step::Moved, Some(8)));
    assert_eq!(bench.behind(), [1]);
    assert_eq!(bench.comes(1, pledge_of(8, 1)), Ok(1));
    for step in [Step::Moved, Step::Decided, Step::Settled] {
        bench.obeys(&order(1, step, Some(8)));
        assert_eq!(bench.behind(), [], "{step:?}");
        assert_eq!(bench.controller.division().division.since, 1, "who began by the map before");
    }
    assert_eq!(bench.comes(2, 8), Ok(2));
    for (step, behind) in [(Step::Announced, vec![1]), (Step::Moved, vec![1, 2])] {
        bench.obeys(&order(2, step, Some(9)));
        assert_eq!(bench.behind(), behind, "{step:?}");
    }
    assert_eq!(bench.comes(2, pledge_of(9, 2)), Ok(2));
    assert_eq!(bench.behind(), [1]);
}

#[test]
fn what_could_not_be_written_down_is_not_done_and_what_is_done_need_not_be_written_again() {
    let mut bench = divided();
    bench.obeys(&order(1, Step::Moved, Some(8)));
    let before = bench.controller.division().division;
    bench.disk.full.set(true);
    assert_eq!(bench.controller.redivide(&order(1, Step::Decided, Some(8))), Err(Disobeyed::Store));
    bench.obeys(&order(1, Step::Moved, Some(8)));
    bench.obeys(&order(1, Step::Announced, Some(8)));
    assert_eq!(bench.controller.division().division, before);
    bench.disk.full.set(false);
    bench.obeys(&order(1, Step::Decided, Some(8)));
    assert_eq!(bench.controller.division().division, Division { step: Step::Decided, ..before });
}

/// Tokens of a name rise whichever shard has it.
#[test]
fn a_shard_grants_what_it_was_given_under_an_epoch_above_that_of_who_had_it() {
    let mut bench = divided();
    bench.obeys(&Order { above: 1, ..order(1, Step::Moved, Some(8)) });
    assert_eq!(bench.comes(1, 8), Ok(1), "and so it is raised before anybody comes");
    assert_eq!(bench.memory.epoch(), 2);
    bench.obeys(&order(1, Step::Settled, Some(8)));
    bench.obeys(&Order { above: 1, ..order(2, Step::Moved, Some(9)) });
    bench.pass(config().poll_period);
    assert_eq!(bench.memory.epoch(), 2, "it is above that");
    assert_eq!(bench.controller.division().division.above, 1);
}

#[test]
fn half_of_the_epochs_that_are_left_may_be_used_up_by_an_order_and_no_more() {
    let highest = 1 + (limits::MAX_EPOCH - 1) / 2;
    let mut bench = divided();
    let high = |above| Order { above, ..order(1, Step::Moved, Some(8)) };
    assert_eq!(bench.controller.redivide(&high(highest + 1)), Err(Disobeyed::High(highest + 1)));
    bench.obeys(&high(highest));
    bench.pass(config().poll_period);
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (highest + 1, true));
}

#[test]
fn a_shard_that_was_drained_is_so_for_the_next_controller() {
    let mut bench = divided();
    bench.obeys(&order(1, Step::Moved, None));
    bench.restart_controller();
    assert_eq!(bench.controller.division().division.begins, None);
    assert_eq!([BEFORE, 8].map(|shards| bench.comes(1, shards)), [Err(Refusal::Shards); 2]);
    assert_eq!(bench.comes(1, pledge_of(0, 1)), Err(Refusal::Shards));
}
