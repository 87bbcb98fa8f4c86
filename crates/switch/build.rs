//! Compiles the data plane's core: natively, and with the feature `bpf` for BPF.

use std::env;
use std::path::Path;
use std::process::Command;

const DATAPLANE: &str = "../../dataplane";

fn main() {
    println!("cargo::rerun-if-changed={DATAPLANE}");
    println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
    let tested = env::var_os("CARGO_FEATURE_RACE").is_some();
    let mut core = cc::Build::new();
    core.file(format!("{DATAPLANE}/native.c"));
    if tested {
        core.file(format!("{DATAPLANE}/cases/race_native.c"));
    }
    // Optimized in every profile: the simulator and the tests send millions of packets through it. A warning stops our own
    // tests, and nobody's build with a compiler that warns of more.
    core.std("gnu11").opt_level(2).extra_warnings(true).warnings_into_errors(tested).compile("wayside_core");

    if env::var_os("CARGO_FEATURE_BPF").is_some() {
        compile_for_bpf("wayside.bpf.c");
        compile_for_bpf("cases/race.bpf.c");
    }
}

/// `$CLANG`, or the clang that the program is known to pass the verifier with, or any.
fn compile_for_bpf(source: &str) {
    println!("cargo::rerun-if-env-changed=CLANG");
    let asked = env::var("CLANG").ok();
    let compilers = asked.as_deref().map_or_else(|| vec!["clang-19", "clang"], |asked| vec![asked]);
    let name = Path::new(source).file_name().expect("a file").to_str().expect("ASCII").replace(".c", ".o");
    let object = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join(name);
    for compiler in &compilers {
        let mut command = Command::new(compiler);
        command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"]);
        // Debian keeps <asm/types.h> in a directory of the host's.
        command.arg(format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH));
        command.arg("-c").arg(format!("{DATAPLANE}/{source}")).arg("-o").arg(&object);
        match command.status() {
            Ok(status) if status.success() => return,
            Ok(status) => panic!("{compiler} does not compile {source} for BPF: {status}"),
            Err(_) => continue,
        }
    }
    panic!("the feature `bpf` needs clang: none of {compilers:?} is there (apt-get install clang-19, or set CLANG)");
}
