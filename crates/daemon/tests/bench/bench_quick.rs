//! `wayside bench quick`: runs, and says what it measured.

use std::process::Command;

fn quick(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside"));
    command.args(["bench", "quick"]).args(arguments).output().expect("wayside starts")
}

#[test]
fn measures_an_acquire_beside_an_echo() {
    let output = quick(&["--time", "3s", "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let text = report.to_string();
    assert!(text.contains("acquire") && text.contains("echo"), "{text}");
    let modes: Vec<&str> =
        report["modes"].as_array().unwrap().iter().filter_map(|mode| mode["name"].as_str()).collect();
    assert!(modes.contains(&"Userspace switch, sleeping, one core"), "{modes:?}");
    if cfg!(not(feature = "xdp")) || wayside_hosts::missing().is_some() {
        return println!("skipped: measurements at the hook, which need the feature `xdp` and root");
    }
    for mode in ["UDP", "AF_XDP", "UDP, signed", "AF_XDP, signed"].map(|way| format!("XDP switch, {way}")) {
        assert!(modes.contains(&mode.as_str()), "{modes:?}: {}", report["notes"]);
    }
}

#[test]
fn too_short_a_time_is_refused() {
    let output = quick(&["--time", "1ms"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--time"));
}
