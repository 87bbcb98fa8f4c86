//! What a tenant that floods the switch does to another one: `cargo run --release -p wayside-bench --features xdp
//! --example isolation -- WAYSIDE [ROUNDS [RATE]]`, as root, with the path of a `wayside` built alike. 20 rounds, and a
//! budget of 20,000 requests a second, without other numbers. Prints a table, and as the last line a record in JSON.

use std::process::ExitCode;
use wayside_bench::{IsolationOptions, run_isolation};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).map_or(Ok(20_u32 * 1_000_u32.pow(at as u32 - 1)), |word| word.parse());
    let (Some(wayside), Ok(rounds @ 1..), Ok(rate @ 1..)) = (words.first(), number(1), number(2)) else {
        eprintln!("usage: isolation WAYSIDE [ROUNDS [RATE]]");
        return ExitCode::from(64);
    };
    match run_isolation(&IsolationOptions { wayside: wayside.into(), rounds, rate }) {
        Ok(isolation) => {
            print!("{isolation}");
            println!("{}", isolation.to_json());
            if isolation.missed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("isolation: {error}");
            ExitCode::from(69)
        }
    }
}
