//! `wayside bench recovery`: whatever it breaks, nothing is lost, and it says what it measured. No time is judged.

use std::process::Command;

#[test]
fn nothing_is_lost_while_switches_and_nodes_die() {
    let record = recovered(&[]);
    assert!(faults(&record).contains(&"killed"), "{record}");
}

/// The same at the hook, where a switch's program outlives its daemon.
#[cfg(feature = "xdp")]
#[test]
fn nothing_is_lost_while_switches_at_the_hook_and_nodes_die() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: recovery at the hook: {why}");
    }
    let record = recovered(&["--hook"]);
    assert_eq!(record["place"], "hook");
    assert!(faults(&record).contains(&"killed_away"), "{record}");
}

/// What it says with these arguments besides.
fn recovered(besides: &[&str]) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside"));
    command.args(["bench", "recovery", "--short", "-o", "json"]).args(besides);
    let output = command.output().expect("wayside starts");
    // It ends well only if every trial found everything as it must be.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let faults = faults(&record);
    assert!(["stopped", "restart"].iter().all(|fault| faults.contains(fault)), "{faults:?}");
    let mut trials = record["trials"].as_array().expect("a list").iter();
    assert!(trials.all(|trial| trial["passed_on_ms"].as_f64() > Some(0.0)), "{record}");
    let bins = record["timelines"][0]["operations"].as_array().expect("a list");
    assert!(bins.iter().any(|bin| bin.as_u64() > Some(0)), "nobody got a lock: {bins:?}");
    if record["etcd"].is_null() {
        println!("skipped: standbys, which need etcd (Debian: etcd-server)");
    } else {
        assert!(["failover", "drain"].iter().all(|fault| faults.contains(fault)), "{faults:?}");
    }
    record
}

/// What broke, in the order of the trials.
fn faults(record: &serde_json::Value) -> Vec<&str> {
    let trials = record["trials"].as_array().expect("a list");
    trials.iter().filter_map(|trial| trial["fault"].as_str()).collect()
}
