//! What is asked of every service of the simulator.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ops::Range;
use wayside_sim::{Options, Outcome, processors, run, run_all};

/// The first so many seeds break nothing, and reach all that a batch of so many has to reach.
pub fn keeps_every_invariant(options: &Options, seeds: u64) {
    let mut total = Outcome { service: options.service, ..Outcome::default() };
    run_all(0..seeds, options, processors(), |outcome| {
        if let Some(failure) = &outcome.failure {
            panic!(
                "seed {}: {failure}\n{} (commit {})",
                outcome.seed,
                options.replay(outcome.seed),
                wayside_sim::COMMIT
            );
        }
        total.add(&outcome);
        true
    });
    assert_eq!(total.missing(seeds), [""; 0], "a batch that does not reach these proves little");
}

/// Each of these seeds is the same run again.
pub fn gives_the_same_trace(options: &Options, seeds: Range<u64>) {
    for seed in seeds {
        let (first, second) = (run(seed, options), run(seed, options));
        assert_eq!((first.trace_hash, first.packets), (second.trace_hash, second.packets), "seed {seed}");
    }
}

/// Each rule is missed within so many seeds when it is left out.
#[cfg(feature = "mutants")]
pub fn notices<'r>(rules: impl IntoIterator<Item = &'r wayside_sim::mutants::Rule>, seeds: u64) {
    let mut missed = Vec::new();
    for rule in rules {
        match wayside_sim::mutants::noticed(*rule, seeds) {
            Some((seed, failure)) => {
                println!("{rule:?}: seed {seed}: {failure}");
                // What a search took is taken again by everybody's next test.
                if seed > 300 && !wayside_sim::mutants::LATE.contains(&(*rule, seed)) {
                    println!("late: put {rule:?} and {seed} into `LATE` of crates/sim/src/mutants.rs");
                }
            }
            None => missed.push(rule),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?} in {seeds} seeds");
}

/// Of what happens until a rule that is left out is missed, a part is enough, and fails in the same way again.
#[cfg(feature = "mutants")]
pub fn shrinks(rule: wayside_sim::mutants::Rule, within: u64) {
    let options = rule.broken();
    let failed = (0..within).map(|seed| run(seed, &options)).find(|outcome| outcome.failure.is_some());
    let failed = failed.expect("a seed misses it");
    let shrunk = wayside_sim::shrink::shrink(&failed, &options, &|_| ()).expect("it failed");
    println!("{rule:?}, seed {}: {} happenings of {}", failed.seed, shrunk.happened.len(), shrunk.before);
    assert!(!shrunk.happened.is_empty() && shrunk.happened.len() * 2 <= shrunk.before);
    let again = run(failed.seed, &Options { filter: shrunk.filter, ..options });
    assert_eq!(again.happened, shrunk.happened);
    let told = |failure: &wayside_sim::Failure| (failure.invariant, failure.at, failure.story.clone());
    assert_eq!(again.failure.as_ref().map(told), Some(told(&shrunk.failure)));
    assert_eq!(failed.failure.map(|failure| failure.invariant), Some(shrunk.failure.invariant));
}
