//! Every rule that can be broken on purpose must be missed by the checkers soon: a simulator that does not notice
//! proves nothing. `cargo test -p wayside-sim --features mutants --release`.
#![cfg(feature = "mutants")]

use wayside_protocol::Mutant;
use wayside_sim::{Options, run};

/// Seeds within which each is caught.
const SEEDS: u64 = 3_000;

/// Every broken rule, and the invariants by which it may show.
const MUTANTS: &[Mutant] = &[
    Mutant::IgnoreFloor,
    Mutant::KeepUnwantedGrant,
    Mutant::IgnoreGaps,
    Mutant::ClaimWithoutAnswer,
    Mutant::ClaimTransferred,
    Mutant::IgnoreSuspension,
    Mutant::CensusKeepsFloors,
    Mutant::ReleaseAnything,
    Mutant::SameSequence,
    Mutant::IgnoreLease,
    Mutant::LeaseFromAck,
    Mutant::ServeUnconfirmed,
    Mutant::BelieveTheDead,
    Mutant::ForgetQueue,
    Mutant::ForgetRetired,
    Mutant::NoGrace,
    Mutant::NoSweep,
    Mutant::HastyCensus,
    Mutant::ForgetHolds,
];

#[test]
fn every_broken_rule_is_noticed() {
    let mut missed = Vec::new();
    for &mutant in MUTANTS {
        let options = Options { mutant: Some(mutant), ..Options::default() };
        let found = (0..SEEDS).find_map(|seed| run(seed, options).failure.map(|failure| (seed, failure)));
        match found {
            Some((seed, failure)) => println!("{mutant:?}: seed {seed}: {failure}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?} in {SEEDS} seeds");
}
