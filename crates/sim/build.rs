//! Tells the simulator which commit it is: a failure is a seed and a commit.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let output = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).output();
    let commit = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        _ => "unknown".to_string(),
    };
    println!("cargo:rustc-env=WAYSIDE_COMMIT={commit}");
}
