//! What the daemons of a chain's switches promise (docs/chain.md), rule by rule: real switches and real daemons, whose
//! packets the tests carry, hold back and change, by a clock that stands still between two lines.

mod behind;
mod copying;
mod heap;
mod histories;
mod leases;
mod leaving;
mod naming;
mod paper;
mod support;
