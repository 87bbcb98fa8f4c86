//! In which order deaths are told, and when the dead rest.

use super::*;

/// So many sessions in each of these namespaces, whose numbers begin with 1; handles are given in this order.
fn cluster(spaces: &[u16]) -> Bench {
    let mut shared = config();
    let first = shared.namespaces[0].clone();
    let others = (2..=spaces.len() as u16).map(|id| Namespace { id, name: name_of(id), ..first.clone() });
    shared.namespaces.extend(others);
    let mut bench = Bench::with(shared);
    bench.memory.more_handles.set(1_000);
    bench.memory.more_namespaces.set(spaces.len() as u16 - 1);
    let mut nonce = 0;
    for (id, count) in (1..).zip(spaces) {
        for _ in 0..*count {
            nonce += 1;
            let body = Enrol { nonce, namespace_name: padded(&name_of(id)).expect("short"), ..Enrol::default() };
            let begun = bench.controller.enrol(Time(0), applicant(0), 0, &body).expect("there is room");
            assert_eq!(u64::from(begun.handle), nonce);
        }
    }
    bench.sent(0);
    bench
}

fn name_of(id: u16) -> String {
    if id == 1 { "default".to_string() } else { std::format!("space {id}") }
}

/// Whose deaths are told, and how often in a row.
fn told(bench: &mut Bench) -> Vec<(Handle, usize)> {
    let dead = bench.sent(fabric::DOWN).into_iter().map(|down| check(&down).expect("well formed").position);
    dead.collect::<Vec<_>>().chunk_by(|one, other| one == other).map(|row| (row[0], row.len())).collect()
}

#[test]
fn of_two_deaths_in_a_namespace_each_is_told_to_sixteen_and_then_it_is_the_others_turn() {
    let mut bench = cluster(&[22]);
    bench.controller.closed_together(Time(0), &[1, 2]);
    let round = [(1, 16), (2, 16), (1, 4), (2, 4)];
    assert_eq!(told(&mut bench), round, "all at once: it is no more than may be told");
    bench.live(&(3..=22).collect::<Vec<_>>(), config().retransmit - 1);
    assert_eq!(told(&mut bench), []);
    bench.live(&(3..=22).collect::<Vec<_>>(), config().poll_period);
    assert_eq!(told(&mut bench), round, "from the first on again");
}

#[test]
fn the_namespace_whose_turn_was_last_comes_last() {
    let mut bench = cluster(&[81, 81, 81]);
    let [a, b, c] = [1, 82, 163];
    bench.controller.closed_together(Time(0), &[a, b, c]);
    let rows = |order: [Handle; 4]| order.map(|dead| (dead, 16));
    assert_eq!(told(&mut bench), rows([a, b, c, a]));
    for order in [[b, c, a, b], [c, a, b, c]] {
        bench.pass(1_000);
        assert_eq!(told(&mut bench), rows(order));
    }
    bench.pass(1_000);
    assert_eq!(told(&mut bench), rows([a, b, c, a])[..3], "that was all");
}

#[test]
fn what_was_told_less_often_is_told_first() {
    let mut bench = cluster(&[4]);
    bench.controller.closed(Time(0), 1);
    bench.pass(config().retransmit - 1);
    assert_eq!(told(&mut bench), [(1, 3)]);
    bench.now += 1;
    bench.controller.closed(Time(bench.now), 2);
    assert_eq!(told(&mut bench), [(2, 2), (1, 2)]);
}

/// Nobody who waits for a handle waits for a pass more than that takes.
#[test]
fn whose_death_is_known_rests_after_the_pass_over_all_slots_that_comes_next() {
    let mut bench = cluster(&[2]);
    bench.pass(config().poll_period);
    let stage = |bench: &Bench| SessionRecord::decode(&bench.disk.records.borrow()[&1]).expect("its own record").stage;
    bench.controller.closed(Time(bench.now), 1);
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    // The first tick looks at all slots, and the one behind it finds that it has.
    for expected in [Stage::Mourned, Stage::AtRest] {
        bench.now = bench.controller.next_timer().0;
        bench.controller.on_tick(Time(bench.now));
        assert_eq!(stage(&bench), expected);
    }
}
