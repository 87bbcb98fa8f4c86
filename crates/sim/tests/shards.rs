//! Shards that are added and drained: 200 seeds for every change, and rules that must be missed when they are
//! left out.

mod support;

use wayside_sim::{Options, ServiceKind};

fn options() -> Options {
    Options { service: ServiceKind::Shards, ..Options::default() }
}

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    support::keeps_every_invariant(&options(), 200);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    support::gives_the_same_trace(&options(), 100..105);
}

#[cfg(feature = "mutants")]
#[test]
fn every_broken_rule_is_noticed() {
    support::notices(wayside_sim::mutants::SHARD_RULES, 5_000);
}

#[cfg(feature = "mutants")]
#[test]
fn a_failure_shrinks_to_what_it_takes() {
    use wayside_protocol::Mutant;
    support::shrinks(wayside_sim::mutants::Rule::Machine(Mutant::KeepEpochAtMove), 500);
}
