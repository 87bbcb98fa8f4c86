//! The queue service: a few hundred seeds for every change, and rules that must be missed when they are left out.

mod support;

use wayside_sim::{Options, ServiceKind};

fn options() -> Options {
    Options { service: ServiceKind::Queue, ..Options::default() }
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
    support::notices(wayside_sim::mutants::QUEUE_RULES, 20_000);
}

/// A lock server orders its lines by the same code as an agent, and by the same rules.
#[cfg(feature = "mutants")]
#[test]
fn whom_a_lock_server_overtakes_shows_in_its_lines() {
    use wayside_protocol::Mutant;
    use wayside_sim::mutants::caught;
    for mutant in [Mutant::IgnorePriority, Mutant::OvertakeEquals, Mutant::NoPatience] {
        let broken = Options { mutant: Some(mutant), ..options() };
        let (seed, failure) = caught(&broken, 300).unwrap_or_else(|| panic!("nobody noticed {mutant:?}"));
        println!("{mutant:?}: seed {seed}: {failure}");
        assert!(["P1", "P2"].contains(&failure.invariant), "{failure}");
    }
}

/// docs/queue.md, Q10.
#[cfg(feature = "mutants")]
#[test]
fn who_says_a_priority_is_not_pushed_behind_others() {
    use wayside_protocol::Mutant;
    use wayside_sim::mutants::caught;
    let broken = Options { mutant: Some(Mutant::PushRanked), ..options() };
    let (seed, failure) = caught(&broken, 300).expect("somebody notices");
    println!("seed {seed}: {failure}");
    assert_eq!(failure.invariant, "Q10");
}
