//! Small worlds whose faults are bytes, over the inputs that are committed for the fuzzer (crates/fuzz).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use wayside_sim::{Kind, Options, Outcome, Small, run};

fn corpus() -> Vec<Small> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/faults");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    // In one order everywhere.
    let files: BTreeSet<_> = files.collect();
    files.iter().map(|path| Small::of_bytes(&fs::read(path).unwrap())).collect()
}

fn live(small: &Small, options: &Options) -> Outcome {
    run(small.seed(), &Options { small: Some(small.clone()), ..options.clone() })
}

/// That nothing breaks is the fuzzer's to say, and that something could have is this test's.
#[test]
fn the_committed_inputs_are_short_and_reach_every_fault() {
    let mut all = Outcome::default();
    let corpus = corpus();
    for small in &corpus {
        all.add(&live(small, &Options::default()));
    }
    let inputs = corpus.len() as u64;
    assert!((10 * inputs..60 * inputs).contains(&all.operations), "{} operations", all.operations);
    assert!(all.packets < 1_000 * inputs, "{} packets", all.packets);
    let drawn_alone = [Kind::Ask, Kind::Move, Kind::Flood, Kind::Budget, Kind::Queue, Kind::Handles, Kind::Shards];
    for kind in Kind::ALL.iter().filter(|kind| !kind.is_of_shards() && !drawn_alone.contains(kind)) {
        assert!(all.faults.contains_key(kind.name()), "{kind:?} never happens: {:?}", all.faults);
    }
}

#[test]
fn the_same_bytes_give_the_same_trace() {
    for small in corpus().iter().step_by(10) {
        assert_eq!(live(small, &Options::default()).trace_hash, live(small, &Options::default()).trace_hash);
    }
}

/// Two thirds of all rules, and of those that break often each: other inputs may be committed.
#[cfg(feature = "mutants")]
#[test]
fn most_broken_rules_are_noticed() {
    use wayside_protocol::Mutant;
    use wayside_sim::CoreMutant;
    use wayside_sim::mutants::{RULES, Rule};

    let corpus = corpus();
    let notices = |rule: &&Rule| corpus.iter().any(|small| live(small, &rule.broken()).failure.is_some());
    let noticed: Vec<Rule> = RULES.iter().filter(notices).copied().collect();
    println!("{} of {} rules: {noticed:?}", noticed.len(), RULES.len());
    assert!(noticed.len() * 10 > RULES.len() * 6);
    for mutant in [
        Mutant::FreeUnderReaders,
        Mutant::ForgetHolds,
        Mutant::IgnoreLease,
        Mutant::NoSweep,
        Mutant::ChangeOnce,
        Mutant::SameSequence,
        Mutant::SameEpoch,
        Mutant::HastyServing,
        Mutant::OvertakeEquals,
        Mutant::AnyTag,
    ] {
        assert!(noticed.contains(&Rule::Machine(mutant)), "{mutant:?}");
    }
    for mutant in [CoreMutant::AnyTenure, CoreMutant::NoSecondLook, CoreMutant::AnyTag] {
        assert!(noticed.contains(&Rule::Core(mutant)), "{mutant:?}");
    }
}
