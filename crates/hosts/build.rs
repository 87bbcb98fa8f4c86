//! With the feature `xdp`, compiles what lets native XDP answer over veth.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_XDP").is_some() {
        wayside_clang::compile(Path::new("../../dataplane/cases/pass.bpf.c"));
    }
}
