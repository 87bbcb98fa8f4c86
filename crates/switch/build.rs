//! Compiles the data plane's core: natively, and with the feature `xdp` for BPF.

use std::env;
use std::path::Path;

const DATAPLANE: &str = "../../dataplane";

fn main() {
    println!("cargo::rerun-if-changed={DATAPLANE}");
    println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
    let tested = env::var_os("CARGO_FEATURE_RACE").is_some();
    let mut core = cc::Build::new();
    core.file(format!("{DATAPLANE}/native.c"));
    if tested {
        core.file(format!("{DATAPLANE}/cases/race_native.c"));
        core.file(format!("{DATAPLANE}/cases/siphash_native.c"));
        core.file(format!("{DATAPLANE}/cases/dying_native.c"));
    }
    if env::var_os("CARGO_FEATURE_MEANWHILE").is_some() {
        core.file(format!("{DATAPLANE}/cases/meanwhile_native.c"));
    }
    // Optimized in every profile: the simulator and the tests send millions of packets through it. A warning stops our
    // own tests, and nobody's build with a compiler that warns of more.
    core.std("gnu11").opt_level(2).extra_warnings(true).warnings_into_errors(tested).compile("wayside_core");

    if env::var_os("CARGO_FEATURE_XDP").is_some() {
        for source in
            ["wayside.bpf.c", "cases/observed.bpf.c", "cases/race.bpf.c", "cases/timed.bpf.c", "cases/siphash.bpf.c"]
        {
            wayside_clang::compile(&Path::new(DATAPLANE).join(source));
        }
    }
}
