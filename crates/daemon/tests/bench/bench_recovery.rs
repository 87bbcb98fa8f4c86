//! `wayside bench recovery`: whatever it breaks, nothing is lost, and it says what it measured. No time is judged.

use std::process::Command;

#[test]
fn nothing_is_lost_while_switches_and_nodes_die() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside"));
    let output = command.args(["bench", "recovery", "--short", "-o", "json"]).output().expect("wayside starts");
    // It ends well only if every trial found everything as it must be.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let trials = record["trials"].as_array().expect("a list");
    let faults: Vec<&str> = trials.iter().filter_map(|trial| trial["fault"].as_str()).collect();
    assert!(["killed", "stopped", "restart"].iter().all(|fault| faults.contains(fault)), "{faults:?}");
    assert!(trials.iter().all(|trial| trial["passed_on_ms"].as_f64() > Some(0.0)), "{record}");
    let bins = record["timelines"][0]["operations"].as_array().expect("a list");
    assert!(bins.iter().any(|bin| bin.as_u64() > Some(0)), "nobody got a lock: {bins:?}");
    if record["etcd"].is_null() {
        return println!("skipped: standbys, which need etcd (Debian: etcd-server)");
    }
    assert!(["failover", "drain"].iter().all(|fault| faults.contains(fault)), "{faults:?}");
}
