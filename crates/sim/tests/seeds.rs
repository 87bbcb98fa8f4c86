//! A few hundred seeds for every change; `wayside sim --seeds` runs as many as there is time for.

mod support;

use wayside_sim::{Filter, Marks, Options, run};

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    support::keeps_every_invariant(&Options::default(), 400);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    support::gives_the_same_trace(&Options::default(), 100..110);
}

#[test]
fn another_seed_gives_another_trace() {
    let hash = |seed| run(seed, &Options::default()).trace_hash;
    assert_ne!(hash(1), hash(2));
}

/// What a failure is shrunk by: with its own happenings alone a run is itself, up to where it heals.
#[test]
fn a_run_with_all_of_its_happenings_alone_is_itself() {
    let whole = run(7, &Options::default());
    let only = Some(Marks::new(whole.happened.iter().map(|(_, mark)| *mark)));
    let again = run(7, &Options { filter: Filter { only, ..Filter::default() }, ..Options::default() });
    let half = whole.happened.len() / 2;
    assert!(half > 50, "enough happens");
    assert_eq!(again.happened[..half], whole.happened[..half], "the same happens at the same time");
}
