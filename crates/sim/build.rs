//! Tells the simulator which commit it is: a failure is a seed and a commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // In a worktree they are elsewhere than in `.git`, and a file that is not there would have all of it built each
    // time.
    for changes in ["HEAD", "logs/HEAD"] {
        match git(&["rev-parse", "--git-path", changes]) {
            Some(path) if Path::new(&path).exists() => println!("cargo:rerun-if-changed={path}"),
            _ => {}
        }
    }
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=10"]);
    println!("cargo:rustc-env=WAYSIDE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
