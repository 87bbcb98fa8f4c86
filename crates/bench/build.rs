//! With the feature `xdp`, compiles the echoes that are measured against: by one switch, and by several.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_XDP").is_some() {
        println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
        for source in ["echo.bpf.c", "relay.bpf.c"] {
            wayside_clang::compile(&Path::new("../../dataplane/cases").join(source));
        }
    }
}
