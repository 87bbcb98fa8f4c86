//! The soak as people run it, for some seconds: nothing may be lost, and something must have broken. And the judges.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

const SECONDS: &str = "12";

/// One at a time: leases of a second do not outlast two soaks on two processors.
fn soak(arguments: &[&str]) -> Output {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    build_porcupine();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside-soak"));
    command.args(["--seconds", SECONDS, "--skip-missing", "--wayside"]).arg(wayside()).args(arguments);
    command.output().expect("it starts")
}

fn directory() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_wayside-soak")).parent().expect("a file's directory")
}

/// The binary beside the soak's. `cargo test --workspace` has just built it, for the daemon's own tests; with the
/// soak's tests alone it may have to be built first.
fn wayside() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = directory().join("wayside");
        if !path.exists() {
            let profile = match directory().file_name().and_then(|name| name.to_str()).expect("the profile's name") {
                "debug" => "dev",
                profile => profile,
            };
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--package", "wayside-daemon", "--profile", profile, "--target-dir"])
                .arg(directory().parent().expect("the target directory"))
                .args(if cfg!(feature = "xdp") { &["--features", "xdp"][..] } else { &[] })
                .status();
            assert!(built.expect("cargo starts").success(), "`wayside` does not build");
        }
        path
    })
}

fn porcupine() -> PathBuf {
    directory().join("wayside-porcupine")
}

/// Where there is Go, and its modules can be had; the soak says so where it is not there.
fn build_porcupine() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("porcupine");
        let built = Command::new("go").args(["build", "-o"]).arg(porcupine()).arg(".").current_dir(source).output();
        match built {
            Ok(output) if output.status.success() => {}
            Ok(output) => println!("skipped: porcupine: {}", String::from_utf8_lossy(&output.stderr).trim()),
            Err(_) => println!("skipped: porcupine: Go is not installed (Debian: golang-go)"),
        }
    });
}

/// The number in the line that begins so.
fn number(out: &str, label: &str) -> u64 {
    let line = out.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no {label:?} in\n{out}"));
    let digits = line.rsplit(' ').next().expect("a line has an end");
    digits.parse().unwrap_or_else(|_| panic!("no number in {line:?}"))
}

fn check(output: &Output) {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    out.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
    if out.starts_with("skipped: ") {
        return;
    }
    assert!(number(&out, "histories") > 100, "{out}");
    let rows = out.lines().skip_while(|line| *line != "mishaps").skip(1).take_while(|line| line.starts_with(' '));
    let mishaps: u64 = rows.map(|line| line.rsplit(' ').next().expect("a row").parse::<u64>().expect("a count")).sum();
    assert!(mishaps >= 5, "next to nothing broke:\n{out}");
}

#[test]
fn nothing_is_lost_while_everything_breaks() {
    check(&soak(&["--seed", "7"]));
}

#[test]
#[cfg(feature = "xdp")]
fn nor_at_the_hook() {
    check(&soak(&["--seed", "8", "--hook"]));
}

/// Locks that move between queues in the switch and their lock servers.
#[test]
#[cfg(feature = "xdp")]
fn nor_in_queues_at_the_hook() {
    check(&soak(&["--engine", "queue", "--seed", "11", "--hook"]));
}

/// Some in slots, some in queues.
#[test]
fn nor_in_slots_and_queues() {
    check(&soak(&["--engine", "hybrid", "--seed", "12"]));
}

#[test]
fn nor_are_values() {
    check(&soak(&["--service", "keys", "--seed", "9"]));
}

#[test]
#[cfg(feature = "xdp")]
fn nor_are_they_at_the_hook() {
    check(&soak(&["--service", "keys", "--seed", "10", "--hook"]));
}

/// What Porcupine is told that locks and keys allow.
#[test]
fn porcupine_knows_what_is_allowed() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("porcupine");
    let tested = Command::new("go").args(["test", "./..."]).current_dir(source).output();
    let Ok(output) = tested else { return println!("skipped: porcupine: Go is not installed (Debian: golang-go)") };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // Without its modules it can't be built; with them a model that errs is a failure.
    match output.status.success() {
        true => {}
        false if said.contains("--- FAIL") => panic!("{said}"),
        false => println!("skipped: porcupine: {}", said.trim()),
    }
}

#[test]
fn a_write_that_vanished_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let judged = |read: &str| {
        let lines = [
            r#"{"at":1,"operation":1,"event":{"write":{"key":1,"value":7,"only":"always"}}}"#,
            r#"{"at":5,"operation":1,"event":{"done":{"version":"3.1"}}}"#,
            r#"{"at":6,"operation":2,"event":{"read":{"key":1}}}"#,
            &format!(r#"{{"at":9,"operation":2,"event":{{"found":{{"entry":{read}}}}}}}"#),
        ];
        std::fs::write(directory.path().join("0.1-0.jsonl"), lines.join("\n") + "\n").expect("a history");
        let mut command = Command::new(env!("CARGO_BIN_EXE_wayside-soak"));
        let output = command.args(["check", "--service", "keys"]).arg(directory.path()).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(judged(r#"{"value":7,"version":"3.1"}"#).0, Some(0));
    let (code, out) = judged(r#"{"value":7,"version":"2.9"}"#);
    assert!(code == Some(1) && out.contains("FAULT: K1"), "{out}");
    build_porcupine();
    if porcupine().exists() {
        let (code, out) = judged("null");
        assert!(code == Some(1) && out.contains("FAULT: porcupine"), "{out}");
    }
}

#[test]
fn two_holders_and_a_token_that_falls_are_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, operation: u64, times: [u64; 3], token: u64| {
        let line = |at: u64, event: String| format!("{{\"at\":{at},\"operation\":{operation},\"event\":{event}}}\n");
        let [asked, held, back] = times;
        let text = [
            line(asked, r#"{"ask":{"names":[1],"exclusive":true}}"#.into()),
            line(held, format!(r#"{{"held":{{"tokens":[{token}],"until":99}}}}"#)),
            line(back, r#""give_back""#.into()),
        ];
        std::fs::write(directory.path().join(name), text.concat()).expect("a history");
    };
    let judged = || {
        let output = Command::new(env!("CARGO_BIN_EXE_wayside-soak")).arg("check").arg(directory.path()).output();
        let output = output.expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    write("0.1-0.jsonl", 1, [0, 10, 20], 5);
    write("1.2-0.jsonl", 1, [0, 30, 40], 6);
    assert_eq!(judged().0, Some(0));
    write("1.2-0.jsonl", 1, [0, 15, 40], 6);
    let (code, out) = judged();
    assert!(code == Some(1) && out.contains("FAULT: S1"), "{out}");
    write("1.2-0.jsonl", 1, [21, 30, 40], 5);
    let (code, out) = judged();
    assert!(code == Some(1) && out.contains("FAULT: S2"), "{out}");
}
