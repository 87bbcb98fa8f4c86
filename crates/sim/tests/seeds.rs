//! A few hundred seeds for every change; `wayside sim --seeds` runs as many as there is time for.

use wayside_sim::{Filter, Marks, Options, Outcome, processors, run, run_all};

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    const SEEDS: u64 = 400;
    let mut total = Outcome::default();
    run_all(0..SEEDS, &Options::default(), processors(), |outcome| {
        if let Some(failure) = &outcome.failure {
            panic!("seed {}: {failure}\n{} (commit {})", outcome.seed, outcome.replay(), wayside_sim::COMMIT);
        }
        total.add(&outcome);
        true
    });
    assert_eq!(total.missing(SEEDS), [""; 0], "a batch that does not reach these proves little");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 100..110 {
        let (first, second) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!((first.trace_hash, first.packets), (second.trace_hash, second.packets), "seed {seed}");
    }
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
