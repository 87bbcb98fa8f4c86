//! `wayside bench keys`: every store that is installed is read and written, and none fails. No time is judged.

use std::process::Command;

#[test]
fn every_store_is_read_and_written() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside"));
    let output = command.args(["bench", "keys", "--short", "-o", "json"]).output().expect("wayside starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    for note in record["notes"].as_array().expect("a list") {
        println!("skipped: {}", note.as_str().expect("text"));
    }
    let stores: Vec<&str> =
        record["stores"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert!(stores.contains(&"wayside-userspace-1"), "{stores:?}");
    let runs = record["runs"].as_array().expect("a list");
    // Reads and writes, by one client and by many.
    assert_eq!(runs.len(), stores.len() * 4);
    assert!(
        runs.iter().all(|run| run["answered"].as_u64() > Some(0) && run["median_us"].as_f64() > Some(0.0)),
        "{runs:?}"
    );
}

#[test]
fn a_store_that_is_none_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside"));
    let output = command.args(["bench", "keys", "--short", "--store", "nothing"]).output().expect("wayside starts");
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("no store \"nothing\""));
}
