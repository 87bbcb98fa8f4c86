//! What is remembered of a namespace's queues between two looks at them. Whole moves are with `tests/plans`.

use super::*;
use alloc::vec;

const SPACE: u16 = 1;
const OTHER: u16 = 2;
const LULL: u64 = 100;

fn line(name: u64, cells: u32, stage: Stage) -> Line {
    Line { name, cells, stage, ticket: 1, used: 0, given: 0, settled: 0, pushed: 0, ranked: 0 }
}

fn here(name: u64) -> Line {
    line(name, 2, Stage::Here)
}

fn ranked(name: u64, ranked: u32) -> Line {
    Line { ranked, ..here(name) }
}

fn wanting(wanted: &[(u64, u32)]) -> Moves {
    Moves { wanted: BTreeMap::from([(SPACE, wanted.iter().copied().collect())]), ..Moves::default() }
}

#[test]
fn a_lock_is_kept_for_its_priorities_for_a_lull_from_when_its_queue_counts_one_more() {
    let mut moves = Moves::default();
    let note = |moves: &mut Moves, now: u64, lines: &[Line]| moves.note_ranks(Time(now), LULL, SPACE, lines);
    let is_ranked = |moves: &Moves, now: u64| moves.is_ranked(Time(now), SPACE, 1);
    assert!(!note(&mut moves, 10, &[here(1), here(2)]) && !is_ranked(&moves, 10));
    assert!(note(&mut moves, 20, &[ranked(1, 3), here(2)]), "news");
    assert!(is_ranked(&moves, 20) && is_ranked(&moves, 119) && !is_ranked(&moves, 120));
    assert!(!moves.is_ranked(Time(20), SPACE, 2) && !moves.is_ranked(Time(20), OTHER, 1));
    assert!(!note(&mut moves, 50, &[ranked(1, 3), here(2)]) && !is_ranked(&moves, 120), "no news");
    assert!(note(&mut moves, 60, &[ranked(1, 4), here(2)]) && is_ranked(&moves, 159) && !is_ranked(&moves, 160));
}

#[test]
fn news_of_one_lock_change_nothing_that_is_known_of_others() {
    let mut moves = Moves::default();
    assert!(moves.note_ranks(Time(0), LULL, SPACE, &[ranked(1, 1), ranked(2, 1)]));
    // 2 is its lock server's by now: its next queue counts anew.
    moves.ranks.get_mut(&(SPACE, 2)).expect("it is known").count = 0;
    assert!(moves.note_ranks(Time(50), LULL, SPACE, &[ranked(1, 1), here(2), ranked(3, 1)]));
    assert!(moves.is_ranked(Time(99), SPACE, 2));
    assert!(moves.note_ranks(Time(200), LULL, SPACE, &[ranked(1, 1), here(2), ranked(3, 2)]));
    assert!(!moves.note_ranks(Time(201), LULL, SPACE, &[ranked(1, 1), here(2), ranked(3, 2)]));
    assert!(!moves.is_ranked(Time(201), SPACE, 1), "what was heard of long ago is still no news");
    assert!(!moves.ranks.contains_key(&(SPACE, 2)), "of a queue that is gone nothing is kept when its time is over");
}

#[test]
fn a_namespace_rests_while_its_queues_are_those_that_were_found_in_their_places() {
    let mut moves = Moves::default();
    assert!(!moves.rests(SPACE, &[]), "it was not looked at");
    moves.in_place.insert(SPACE, vec![(1, 2), (2, 2)]);
    assert!(moves.rests(SPACE, &[here(1), here(2)]));
    assert!(!moves.rests(OTHER, &[here(1), here(2)]));
    for lines in [
        vec![],
        vec![here(1)],
        vec![here(1), here(2), here(3)],
        vec![here(1), here(3)],
        vec![here(1), line(2, 4, Stage::Here)],
        vec![line(1, 2, Stage::Drains), here(2)],
        vec![here(1), line(2, 2, Stage::Awaited)],
    ] {
        assert!(!moves.rests(SPACE, &lines), "{lines:?}");
    }
}

#[test]
fn every_lock_is_in_its_place_where_those_are_here_that_are_wanted_and_may_stay() {
    let wanted = wanting(&[(1, 2), (2, 2)]);
    let are_all = |moves: &Moves, lines: &[Line]| moves.are_in_place(Time(50), SPACE, lines);
    assert!(are_all(&wanted, &[here(1), here(2)]));
    for lines in [
        vec![here(1)],
        vec![here(1), here(2), here(3)],
        vec![here(1), here(3)],
        vec![here(1), line(2, 4, Stage::Here)],
        vec![here(1), line(2, 2, Stage::Drains)],
        vec![line(1, 2, Stage::Awaited), here(2)],
    ] {
        assert!(!are_all(&wanted, &lines), "{lines:?}");
    }
    // Where nobody plans, whatever is here is in its place.
    for mut moves in [wanted, Moves::default()] {
        let lines = [here(1), here(2)];
        assert!(moves.are_in_place(Time(0), SPACE, &lines));
        moves.note_ranks(Time(0), LULL, SPACE, &[here(1), ranked(2, 1)]);
        assert!(!moves.are_in_place(Time(50), SPACE, &lines), "asked for with priorities");
        assert!(moves.are_in_place(Time(LULL), SPACE, &lines), "for a while");
    }
    assert!(!are_all(&Moves::default(), &[here(1), line(2, 2, Stage::Handed)]));
}

#[test]
fn a_namespace_whose_wishes_are_forgotten_is_looked_at_again_and_no_other() {
    let mut moves = wanting(&[(1, 2)]);
    moves.in_place.insert(SPACE, vec![(1, 2)]);
    moves.forget_wishes(OTHER);
    assert!(moves.rests(SPACE, &[here(1)]));
    moves.forget_wishes(SPACE);
    assert!(!moves.rests(SPACE, &[here(1)]) && moves.wanted.is_empty(), "all stays where it is");
}

/// An answer to one that has no number would not be believed.
#[test]
fn a_lock_is_asked_back_by_the_number_of_its_move_whatever_was_known_of_it() {
    let (config, memory, disk) = (super::super::tests::config(), Default::default(), Default::default());
    let mut controller: Controller<alloc::rc::Rc<super::super::tests::Memory>, super::super::tests::Disk> =
        Controller::new(config, memory, disk).expect("an empty store");
    controller.moves.under_way.insert((SPACE, 7), Move { id: 0, since: Time(1), due: Time(1) });
    let server = LockServer { handle: 1, term: 1 };
    controller.recall(Time(50), SPACE, 7, server);
    let Move { id, since, .. } = controller.moves.under_way[&(SPACE, 7)];
    assert!(id != 0 && since == Time(50), "it begins now");
    controller.recall(Time(90), SPACE, 7, server);
    assert_eq!((controller.moves.under_way[&(SPACE, 7)].id, since), (id, Time(50)), "and goes on");
}
