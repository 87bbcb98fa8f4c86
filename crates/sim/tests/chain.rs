//! The chain service: a few hundred seeds for every change, and rules that must be missed when they are left out.

mod support;

use wayside_sim::{Options, ServiceKind};

fn options() -> Options {
    Options { service: ServiceKind::Chain, ..Options::default() }
}

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    support::keeps_every_invariant(&options(), 300);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    support::gives_the_same_trace(&options(), 100..110);
}

#[cfg(feature = "mutants")]
#[test]
fn every_broken_rule_is_noticed() {
    support::notices(wayside_sim::mutants::CHAIN_RULES, 20_000);
}
