//! Compiles c_header.c, which holds the C header against the golden vectors, and runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Misaligned loads and shifts too far must fail the test, not only give right numbers by luck.
const FLAGS: [&str; 6] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined"];

/// Compiles and runs it with a file of `wire/vectors/`.
fn expect_agreement(vectors: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(vectors.replace('.', "_"));
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let compiled = Command::new(&compiler)
        .args(FLAGS)
        .arg("-fno-sanitize-recover=all")
        .arg(format!("-DVECTORS=\"../../../wire/vectors/{vectors}\""))
        .arg(folder.join("c_header.c"))
        .arg("-o")
        .arg(&binary)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&binary).output().expect("the test runs");
    let (said, complained) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{vectors}: {said}{complained}");
}

#[test]
fn the_c_header_agrees_with_the_vectors() {
    expect_agreement("packets.h");
}

#[test]
fn the_c_header_reads_what_earlier_versions_sent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wire/vectors");
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let of_this_major = format!("v{}_", wayside_wire::MAJOR);
    let frozen: Vec<String> = names.filter(|name| name.starts_with(&of_this_major) && name.ends_with(".h")).collect();
    assert!(!frozen.is_empty());
    frozen.iter().for_each(|vectors| expect_agreement(vectors));
}
