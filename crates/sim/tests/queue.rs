//! The queue service: a few hundred seeds for every change, and rules that must be missed when they are left out.

use wayside_sim::{Options, Outcome, ServiceKind, processors, run, run_all};

fn options() -> Options {
    Options { service: ServiceKind::Queue, ..Options::default() }
}

#[test]
fn seeds_keep_every_invariant_and_reach_everything() {
    const SEEDS: u64 = 300;
    let mut total = Outcome { service: ServiceKind::Queue, ..Outcome::default() };
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
    for seed in 100..110 {
        let (first, second) = (run(seed, &options()), run(seed, &options()));
        assert_eq!((first.trace_hash, first.packets), (second.trace_hash, second.packets), "seed {seed}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_broken_rule_is_noticed() {
    use wayside_sim::mutants::{QUEUE_RULES, caught};
    let mut missed = Vec::new();
    for &rule in QUEUE_RULES {
        match caught(&rule.broken(), 10_000) {
            Some((seed, failure)) => println!("{rule:?}: seed {seed}: {failure}"),
            None => missed.push(rule),
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?} in 10,000 seeds");
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
