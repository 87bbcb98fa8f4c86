//! The cases of `dataplane/cases`, on every home of the core.

mod engine;

use std::collections::BTreeSet;

use engine::cases::{Case, all};
use engine::{Engine, Native, counter_names};

fn run(cases: &[Case], engine: &mut dyn Engine) {
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.run(engine)).collect();
    assert!(wrong.is_empty(), "{} of {} cases fail\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn natively() {
    run(&all(), &mut Native::new());
}

#[test]
#[cfg(feature = "xdp")]
fn as_bpf() {
    use engine::bpf::Bpf;
    if let Some(why) = Bpf::missing() {
        return println!("skipped: cases as BPF: {why}");
    }
    let (racing, alone): (Vec<Case>, Vec<Case>) = all().into_iter().partition(|case| case.race.is_some());
    run(&alone, &mut Bpf::load(false));
    run(&racing, &mut Bpf::load(true));
}

/// Nothing is dropped for no reason. What is handed up is the XDP program's affair (`frames.rs`).
const NEVER: [&str; 3] = ["none", "handed_up", "handed_up_lost"];

#[test]
fn every_counter_is_reached() {
    let cases = all();
    let reached: BTreeSet<&str> = cases.iter().flat_map(Case::reaches).collect();
    let missing: Vec<&str> =
        counter_names().into_iter().filter(|name| !reached.contains(name) && !NEVER.contains(name)).collect();
    assert!(missing.is_empty(), "no case counts {missing:?}");
    let impossible: Vec<&str> = NEVER.into_iter().filter(|name| reached.contains(name)).collect();
    assert!(impossible.is_empty(), "a case counts {impossible:?}");
}
