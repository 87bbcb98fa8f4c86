//! Compiles the data plane's core: natively, and with the feature `xdp` for BPF.

use std::env;
use std::path::Path;
use std::thread;

const DATAPLANE: &str = "../../dataplane";
/// For tests and examples alone.
const TESTED: [&str; 4] = ["cases/observed.bpf.c", "cases/race.bpf.c", "cases/timed.bpf.c", "cases/siphash.bpf.c"];

fn main() {
    println!("cargo::rerun-if-changed={DATAPLANE}");
    println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
    let tested = env::var_os("CARGO_FEATURE_RACE").is_some();
    // Optimized in every profile: the simulator and the tests send millions of packets through it. A warning stops our
    // own tests, and nobody's build with a compiler that warns of more.
    let core = |level: u32, sources: &[&str]| {
        let mut core = cc::Build::new();
        core.files(sources.iter().map(|source| Path::new(DATAPLANE).join(source)));
        core.std("gnu11").opt_level(level).extra_warnings(true).warnings_into_errors(tested);
        // Lines, for backtraces: where variables are takes GCC half as long again, as every function is inlined.
        core.debug(false).force_frame_pointer(true).flag("-g1");
        core
    };
    let mut others = Vec::new();
    if tested {
        others.extend(["cases/race_native.c", "cases/siphash_native.c", "cases/dying_native.c"]);
    }
    if env::var_os("CARGO_FEATURE_MEANWHILE").is_some() {
        others.push("cases/meanwhile_native.c");
    }
    // Each of them has the whole core in it, and takes seconds.
    let programs = ["wayside.bpf.c"].into_iter().chain(TESTED.into_iter().filter(|_| tested));
    thread::scope(|scope| {
        if env::var_os("CARGO_FEATURE_XDP").is_some() {
            scope.spawn(|| {
                programs.for_each(|program| drop(wayside_clang::compile(&Path::new(DATAPLANE).join(program))));
            });
        }
        // More of the core, for tests, in half the time.
        if !others.is_empty() {
            core(1, &others).compile("wayside_core_tested");
        }
        core(2, &["native.c"]).compile("wayside_core");
    });
}
