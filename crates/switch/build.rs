//! Compiles the data plane's core.

fn main() {
    let dataplane = "../../dataplane";
    for file in ["native.c", "native.h", "platform_native.h", "memory.h", "session.h", "fission.h", "packet.h"] {
        println!("cargo::rerun-if-changed={dataplane}/{file}");
    }
    println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
    // Optimized in every profile: the simulator and the tests send millions of packets through it.
    cc::Build::new()
        .file(format!("{dataplane}/native.c"))
        .std("gnu11")
        .opt_level(2)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("wayside_core");
}
