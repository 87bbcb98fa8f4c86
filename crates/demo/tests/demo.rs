//! The demo as people run it, in its shortest form, and that it can fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What the time-line must tell, in this order.
const STORY: [&str; 11] = [
    "Without locks",
    "money is astray",
    "With locks",
    "kill -9: worker 2 on host 2",
    "its daemon saw the connection close",
    "kill -9: worker 3 on host 3",
    "the lease ran out",
    "SIGSTOP: worker 4 on host 4",
    "SIGCONT",
    "its write is refused: token",
    "it moves money again",
];
/// Then, of a switch in userspace.
const USERSPACE: [&str; 1] = ["kill -9: the switch, which has all locks in memory"];
/// Or of one at the XDP hook.
const HOOK: [&str; 4] = [
    "kill -9: the switch's daemon; its program stays at the hook",
    "it goes on alone:",
    "it takes the running switch over, in the same epoch",
    "SIGTERM: the switch leaves the hook",
];
const END: [&str; 3] = ["knowing nothing of any lock", "locks are granted again", "without locks"];

/// Runs it alone: leases of half a second do not outlast three demos at once on two processors.
fn demo(arguments: &[&str]) -> Output {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Command::new(env!("CARGO_BIN_EXE_wayside-demo"))
        .arg("--short")
        .args(arguments)
        .arg("--wayside")
        .arg(wayside())
        .output()
        .expect("it starts")
}

/// The binary beside the demo's. `cargo test --workspace` has just built it, for the daemon's own tests; with the
/// demo's tests alone it may have to be built first.
fn wayside() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let directory = Path::new(env!("CARGO_BIN_EXE_wayside-demo")).parent().expect("a file's directory");
        let path = directory.join("wayside");
        if !path.exists() {
            build(directory);
        }
        path
    })
}

fn build(directory: &Path) {
    let profile = match directory.file_name().and_then(|name| name.to_str()).expect("named after the profile") {
        "debug" => "dev",
        profile => profile,
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "wayside-daemon", "--profile", profile, "--target-dir"])
        .arg(directory.parent().expect("the target directory"))
        .args(if cfg!(feature = "xdp") { &["--features", "xdp"][..] } else { &[] })
        .status()
        .expect("cargo starts");
    assert!(built.success(), "`wayside` does not build");
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (text(&output.stdout), text(&output.stderr))
}

/// The last column of a row of the table, without its commas.
fn cell(table: &str, label: &str) -> String {
    let row = table.lines().find(|line| line.trim_start().starts_with(label));
    let row = row.unwrap_or_else(|| panic!("no row {label:?} in\n{table}"));
    row.rsplit("  ").next().expect("a split has a part").trim().replace(',', "")
}

fn assert_complete(output: &Output, hosts: &str, switch: &str) {
    let (out, errors) = text(output);
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
    assert_eq!(errors, "");
    assert!(out.lines().next().is_some_and(|line| line.contains(hosts)), "not {hosts}:\n{out}");
    assert!(out.lines().any(|line| line.starts_with(&format!("The switch: {switch} on "))), "not {switch}:\n{out}");
    let restarts: &[&str] = if switch == "userspace" { &USERSPACE } else { &HOOK };
    let mut rest = out.as_str();
    for step in STORY.iter().chain(restarts).chain(&END) {
        let (_, after) = rest.split_once(step).unwrap_or_else(|| panic!("no {step:?} in its place in\n{out}"));
        rest = after;
    }
    assert!(!out.contains('\x1b') && !out.contains('\r'), "no colours and no progress into a pipe:\n{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "too wide:\n{out}");
    let number = |label| cell(rest, label).parse::<u64>().unwrap_or_else(|_| panic!("{label} in\n{rest}"));
    assert!(number("operations") > 100, "{rest}");
    assert!(number("refused as stale") >= 1, "{rest}");
    assert_eq!(number("missing on accounts"), 0, "{rest}");
    assert_eq!(number("money after"), number("money before"), "{rest}");
    for label in
        ["wait for the locks, median", "p99", "p99.9", "locks granted by the switch", "by an agent", "by the process's"]
    {
        assert_ne!(cell(rest, label), "-", "{label} in\n{rest}");
    }
    assert!(rest.contains("exact") && rest.contains("all the money is there"), "{rest}");
}

#[test]
fn the_money_is_exact_on_loopback() {
    assert_complete(&demo(&["--loopback"]), "on loopback", "userspace");
}

#[test]
fn the_money_is_exact_over_network_namespaces() {
    if let Some(why) = wayside_hosts::missing() {
        println!("skipped: the demo on four hosts: {why}");
        return;
    }
    let before = bpf_directories();
    let output = demo(&[]);
    let ours = bpf_directories().into_iter().filter(|name| !before.contains(name)).collect::<Vec<_>>();
    assert_complete(&output, "network namespace of its own", home());
    assert!(ours.is_empty(), "left in bpffs: {ours:?}");
}

/// Where the switch is to be found on four hosts: at the hook, if this was built with XDP and the kernel has it.
fn home() -> &'static str {
    #[cfg(feature = "xdp")]
    {
        let host = || wayside_hosts::Host::new().expect("as above");
        let (one, other) = (host(), host());
        one.join("left", &other, "right", 1).expect("veth");
        match other.pass("right") {
            Ok(_) => return "native XDP",
            Err(error) => println!("skipped: the demo in native XDP: {error}"),
        }
    }
    "userspace"
}

fn bpf_directories() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/fs/bpf").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("wayside-demo-")).collect()
}

#[test]
fn without_fencing_the_paused_worker_destroys_money_and_the_demo_fails() {
    let output = demo(&["--loopback", "--without-fencing"]);
    let (out, errors) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{out}\n{errors}");
    assert!(out.contains("its stale write went through"), "{out}");
    // Its switches may have said before that etcd is slow.
    let is_why = |line: &str| line == "FAILED: the stale write of the paused worker went through";
    assert!(errors.lines().any(is_why), "{errors}");
    assert!(errors.contains("with locks the money is"), "{errors}");
    // A stale write of both accounts of a transfer may keep the sum and still be wrong.
    let astray = |label| cell(&out, label) != "0";
    assert!(astray("missing on accounts") || astray("too much on accounts"), "{out}");
}

#[test]
fn what_cannot_be_is_said() {
    for (arguments, expected) in [
        (["--wayside", "/nowhere/wayside"], "FAILED: no program /nowhere/wayside"),
        (["--workers", "3"], "3 is not in 4..=64"),
        (["--seconds", "0"], "0 is not in 10..=600"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_wayside-demo")).args(arguments).output().expect("it starts");
        assert!(!output.status.success());
        let (_, errors) = text(&output);
        assert!(errors.contains(expected), "{errors}");
    }
}
