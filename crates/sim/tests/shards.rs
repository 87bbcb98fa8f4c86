//! Shards that are added and drained: 200 seeds for every change, and rules that must be missed when they are
//! left out.

use wayside_sim::{Options, Outcome, ServiceKind, processors, run, run_all};

fn options() -> Options {
    Options { service: ServiceKind::Shards, ..Options::default() }
}

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    const SEEDS: u64 = 200;
    let mut total = Outcome { service: ServiceKind::Shards, ..Outcome::default() };
    run_all(0..SEEDS, &options(), processors(), |outcome| {
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
    for seed in 100..105 {
        let (first, second) = (run(seed, &options()), run(seed, &options()));
        assert_eq!((first.trace_hash, first.packets), (second.trace_hash, second.packets), "seed {seed}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_broken_rule_is_noticed() {
    use wayside_sim::mutants::{SHARD_RULES, caught};
    let mut missed = Vec::new();
    for &rule in SHARD_RULES {
        match caught(&rule.broken(), 5_000) {
            Some((seed, failure)) => println!("{rule:?}: seed {seed}: {failure}"),
            None => missed.push(rule),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?} in 5,000 seeds");
}
