//! Every rule that can be broken on purpose must be missed by the checkers soon: a simulator that does not notice
//! proves nothing. `cargo test --release -p wayside-sim --features mutants`.
#![cfg(feature = "mutants")]

use wayside_protocol::Mutant;
use wayside_sim::{CoreMutant, Failure, Options, run};

/// Seeds within which each is caught: most within ten, a missing grace (a race of 1 ms) within 2,000.
const SEEDS: u64 = 10_000;

const NODE_AND_CONTROLLER: &[Mutant] = &[
    Mutant::IgnoreFloor,
    Mutant::KeepUnwantedGrant,
    Mutant::IgnoreGaps,
    Mutant::ClaimWithoutAnswer,
    Mutant::IgnoreSuspension,
    Mutant::CensusKeepsFloors,
    Mutant::ReleaseAnything,
    Mutant::ReleaseByHandle,
    Mutant::WaitersByHandle,
    Mutant::SameSequence,
    Mutant::IgnoreLease,
    Mutant::LeaseFromAck,
    Mutant::ServeUnconfirmed,
    Mutant::BelieveTheDead,
    Mutant::NoGrace,
    Mutant::NoSweep,
    Mutant::HastyCensus,
    Mutant::ForgetHolds,
    Mutant::AnyTag,
    Mutant::HastyRotation,
];

const CORE: &[CoreMutant] =
    &[CoreMutant::AnyEpoch, CoreMutant::AnyTenure, CoreMutant::AnyJoins, CoreMutant::AnyTag, CoreMutant::CopyForHolder];

/// These save time, or stand before another rule that holds alone: a transferred slot's claim is refused by the core as
/// well, waiters that are forgotten ask again, and what a retired request is granted is given back.
const SECOND_LINES: &[Mutant] = &[Mutant::ClaimTransferred, Mutant::ForgetQueue, Mutant::ForgetRetired];

fn caught(options: Options, seeds: u64) -> Option<(u64, Failure)> {
    (0..seeds).find_map(|seed| run(seed, options).failure.map(|failure| (seed, failure)))
}

#[test]
fn every_broken_rule_is_noticed() {
    let rules = NODE_AND_CONTROLLER
        .iter()
        .map(|&mutant| (format!("{mutant:?}"), Options { mutant: Some(mutant), ..Options::default() }));
    let conditions =
        CORE.iter().map(|&mutant| (format!("{mutant:?}"), Options { core: Some(mutant), ..Options::default() }));
    let mut missed = Vec::new();
    for (name, options) in rules.chain(conditions) {
        match caught(options, SEEDS) {
            Some((seed, failure)) => println!("{name}: seed {seed}: {failure}"),
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?} in {SEEDS} seeds");
}

/// Whoever is dropped from the queue asks again, so that nobody outside of the agent's books ever sees it.
#[test]
fn a_release_that_takes_other_waiters_along_shows_in_the_books_alone() {
    let broken = Options { mutant: Some(Mutant::WaitersByHandle), ..Options::default() };
    let (seed, failure) = caught(broken, 100).expect("the books are looked at");
    println!("seed {seed}: {failure}");
    assert_eq!(failure.invariant, "S3");
    assert_eq!(caught(Options { books_unseen: true, ..broken }, 100), None, "somebody else notices too");
}

/// The agent's books show it when it happens; without them it takes until somebody else is granted.
#[test]
fn a_release_by_handle_alone_shows_in_the_books_first() {
    for mutant in [Mutant::ReleaseByHandle, Mutant::ReleaseAnything] {
        let broken = Options { mutant: Some(mutant), ..Options::default() };
        let (seed, failure) = caught(broken, 100).expect("the books are looked at");
        assert!(failure.invariant == "S3" && failure.story.contains("the books of"), "{failure}");
        let later = run(seed, Options { books_unseen: true, ..broken }).failure;
        println!("{mutant:?}: seed {seed}: {failure}; without the books {later:?}");
        assert!(later.is_none_or(|later| later.at > failure.at));
    }
}

#[test]
fn the_second_lines_harm_nobody_when_they_break_alone() {
    for &mutant in SECOND_LINES {
        let found = caught(Options { mutant: Some(mutant), ..Options::default() }, 100);
        assert_eq!(found, None, "{mutant:?} matters: it belongs to the others");
    }
}

/// Who has no key is found out the moment he is believed, not when harm is done; and so is an answer for the wrong one.
#[test]
fn a_tag_that_is_not_looked_at_shows_at_once() {
    let cases = [
        (Options { core: Some(CoreMutant::AnyTag), ..Options::default() }, "A1"),
        (Options { mutant: Some(Mutant::AnyTag), ..Options::default() }, "A1"),
        (Options { core: Some(CoreMutant::CopyForHolder), ..Options::default() }, "A2"),
        (Options { mutant: Some(Mutant::HastyRotation), ..Options::default() }, "A3"),
    ];
    for (broken, invariant) in cases {
        let (seed, failure) = caught(broken, 100).expect("half of the seeds have tags");
        println!("{broken:?}: seed {seed}: {failure}");
        assert_eq!(failure.invariant, invariant, "{failure}");
        assert_eq!(seed % 2, 1, "a seed whose packets are signed");
    }
}
