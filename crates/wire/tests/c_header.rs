//! Compiles c_header.c, which holds the C header against the golden vectors, and runs it.

use std::path::Path;
use std::process::Command;

/// Misaligned loads and shifts too far must fail the test, not only give right numbers by luck.
const FLAGS: [&str; 6] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined"];

#[test]
fn the_c_header_agrees_with_the_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_header");
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let compiled = Command::new(&compiler)
        .args(FLAGS)
        .arg("-fno-sanitize-recover=all")
        .arg(folder.join("c_header.c"))
        .arg("-o")
        .arg(&binary)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&binary).output().expect("the test runs");
    let (said, complained) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}{complained}");
}
