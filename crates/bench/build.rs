//! With the feature `xdp`, compiles the echo that is measured against.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_XDP").is_some() {
        println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
        wayside_clang::compile(Path::new("../../dataplane/cases/echo.bpf.c"));
    }
}
