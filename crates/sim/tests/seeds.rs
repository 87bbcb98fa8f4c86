//! A few dozen seeds for every change; `wayside-sim --seeds` runs as many as there is time for.

use wayside_sim::{Options, Outcome, run};

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    let mut total = Outcome::default();
    for seed in 0..60 {
        let outcome = run(seed, Options::default());
        if let Some(failure) = &outcome.failure {
            panic!("seed {seed}: {failure}\n{} (commit {})", outcome.replay(), wayside_sim::COMMIT);
        }
        total.add(&outcome);
    }
    assert_eq!(total.missing(), [""; 0], "a batch that does not reach these proves little");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 100..110 {
        let (first, second) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!((first.trace_hash, first.packets), (second.trace_hash, second.packets), "seed {seed}");
    }
}

#[test]
fn another_seed_gives_another_trace() {
    assert_ne!(run(1, Options::default()).trace_hash, run(2, Options::default()).trace_hash);
}
