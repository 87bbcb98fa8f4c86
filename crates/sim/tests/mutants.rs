//! Every rule that can be broken on purpose must be missed by the checkers soon: a simulator that does not notice
//! proves nothing. `cargo test --profile simulation -p wayside-sim --features mutants`.
#![cfg(feature = "mutants")]

mod support;

use wayside_protocol::Mutant;
use wayside_sim::mutants::{RULES, Rule, SECOND_LINES, caught};
use wayside_sim::{CoreMutant, Options, run};

/// Seeds within which each is caught: most within ten, a few races within some thousand.
const SEEDS: u64 = 30_000;

#[test]
fn every_broken_rule_is_noticed() {
    support::notices(RULES, SEEDS);
}

/// Whoever is dropped from the queue asks again, so that nobody outside of the agent's books ever sees it.
#[test]
fn a_release_that_takes_other_waiters_along_shows_in_the_books_alone() {
    let broken = Rule::Machine(Mutant::WaitersByHandle).broken();
    let (seed, failure) = caught(&broken, 100).expect("the books are looked at");
    println!("seed {seed}: {failure}");
    assert_eq!(failure.invariant, "S3");
    assert_eq!(caught(&Options { books_unseen: true, ..broken }, 100), None, "somebody else notices too");
}

/// The agent's books show it when it happens; without them it takes until somebody else is granted, which can be in the
/// same call.
#[test]
fn a_release_by_handle_alone_shows_in_the_books_first() {
    for mutant in [Mutant::ReleaseByHandle, Mutant::ReleaseAnything] {
        let broken = Rule::Machine(mutant).broken();
        let shows_later = |seed: u64| {
            let failure = run(seed, &broken).failure?;
            if failure.invariant != "S3" || !failure.story.contains("the books of") {
                return None;
            }
            let later = run(seed, &Options { books_unseen: true, ..broken.clone() }).failure;
            println!("{mutant:?}: seed {seed}: {failure}; without the books {later:?}");
            let after = later.map_or(u64::MAX, |later| later.at);
            assert!(after >= failure.at, "something else showed before the books");
            (after > failure.at).then_some(())
        };
        (0..100).find_map(shows_later).expect("the books show it before anybody is harmed");
    }
}

#[test]
fn the_second_lines_harm_nobody_when_they_break_alone() {
    for &rule in SECOND_LINES {
        assert_eq!(caught(&rule.broken(), 100), None, "{rule:?} matters: it belongs to the others");
    }
}

/// Who has no key is found out the moment he is believed, not when harm is done; and so is an answer for the wrong one.
#[test]
fn a_tag_that_is_not_looked_at_shows_at_once() {
    let cases = [
        (Rule::Core(CoreMutant::AnyTag), "A1"),
        (Rule::Machine(Mutant::AnyTag), "A1"),
        (Rule::Core(CoreMutant::CopyForHolder), "A2"),
        (Rule::Machine(Mutant::HastyRotation), "A3"),
    ];
    for (rule, invariant) in cases {
        let (seed, failure) = caught(&rule.broken(), 2_000).expect("half of the seeds have tags");
        println!("{rule:?}: seed {seed}: {failure}");
        assert_eq!(failure.invariant, invariant, "{failure}");
        assert_eq!(seed % 2, 1, "a seed whose packets are signed");
    }
}

#[test]
fn a_failure_shrinks_to_what_it_takes() {
    support::shrinks(Rule::Machine(Mutant::ReleaseByHandle), 100);
}
