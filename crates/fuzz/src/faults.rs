//! Schedules of faults: a small world of the simulator, and what goes wrong in it, as bytes. Whatever goes wrong, its
//! checkers have nothing to object to.

use wayside_sim::{Options, Outcome, Small};

/// As a target.
///
/// # Panics
/// If a rule is broken.
pub fn run(input: &[u8]) {
    // A world that broke a rule, as people read it: scripts/fuzz.sh one.
    let options = Options { chart: std::env::var_os("FUZZ_CHART").is_some(), ..Options::default() };
    let outcome = live(input, options);
    if let Some(failure) = outcome.failure {
        let happened = outcome.happened.iter().filter(|(_, mark)| mark.kind != wayside_sim::Kind::Ask);
        panic!("{failure}, after {:?}", happened.collect::<Vec<_>>());
    }
}

/// The life of an input's world. `options`: what is broken on purpose.
#[must_use]
pub fn live(input: &[u8], options: Options) -> Outcome {
    let small = Small::of_bytes(input);
    wayside_sim::run(small.seed(), &Options { small: Some(small), ..options })
}
