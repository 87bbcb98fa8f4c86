//! With the feature `xdp`, compiles the echoes that are measured against: by one switch, and by several. Records say
//! which compiler built what they are of.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo says which");
    let said = Command::new(rustc).arg("--version").output().expect("a compiler that builds this starts");
    println!("cargo::rustc-env=WAYSIDE_RUSTC={}", String::from_utf8_lossy(&said.stdout).trim());
    if env::var_os("CARGO_FEATURE_XDP").is_some() {
        println!("cargo::rerun-if-changed=../../wire/gen/wire.h");
        for source in ["echo.bpf.c", "relay.bpf.c"] {
            wayside_clang::compile(&Path::new("../../dataplane/cases").join(source));
        }
    }
}
