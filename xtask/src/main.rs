//! Chores of this repository, run as `cargo xtask CHORE`.

mod mutate;
mod wire;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask wire [--check | --freeze]
       cargo xtask mutate core|machines [--again] [--part K/N] [--list | --report] [PATH...]
  wire          generate wire/gen, wire/vectors and docs/packets.md from wire/messages.toml
  wire --check  fail if what is there is not what would be generated
  wire --freeze keep the good packets of the version that messages.toml names, for ever";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    let outcome = match words.as_slice() {
        ["wire"] => wire::generate(root),
        ["wire", "--check"] => wire::check(root),
        ["wire", "--freeze"] => wire::freeze(root),
        ["mutate", rest @ ..] => mutate::run(root, rest),
        _ => {
            eprintln!("{USAGE}\n{}", mutate::USAGE);
            return ExitCode::from(64);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("xtask: {complaint}");
            ExitCode::FAILURE
        }
    }
}
