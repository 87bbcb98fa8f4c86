//! With the feature `afxdp`, compiles the client's XDP program, and the echo that its tests and example measure
//! against.

use std::env;
use std::path::Path;

const DATAPLANE: &str = "../../dataplane";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_AFXDP").is_some() {
        println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
        for source in ["endpoint.bpf.c", "cases/echo.bpf.c"] {
            wayside_clang::compile(&Path::new(DATAPLANE).join(source));
        }
    }
}
