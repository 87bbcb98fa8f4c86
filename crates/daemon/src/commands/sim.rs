//! `wayside sim`.

use crate::failure::Failure;
use wayside_sim::command::Sim;

/// Whether every seed kept its invariants, as an exit code.
pub fn sim(args: &Sim) -> Result<u8, Failure> {
    let all_was_well = wayside_sim::command::sim(args).map_err(Failure::usage)?;
    Ok(u8::from(!all_was_well))
}
