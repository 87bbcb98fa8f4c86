//! The one source of chance in a run: everything that a seed decides is drawn here. Each purpose has a stream of its
//! own, so that a fault that is left out changes no throw but those that follow from it.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wayside_wire::mix;

/// A seeded generator with the few distributions that a world needs.
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The same seed gives the same throws for ever.
    pub fn new(seed: u64) -> Dice {
        Dice(Pcg64Mcg::seed_from_u64(seed))
    }

    /// For one purpose of a seed, told by numbers: what is thrown for others is no matter.
    pub fn of(seed: u64, purpose: &[u64]) -> Dice {
        let step = |state: u64, number: &u64| mix(state.wrapping_add(*number).wrapping_add(0x9e37_79b9_7f4a_7c15));
        Dice::new(purpose.iter().fold(step(0, &seed), step))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 0 to `end - 1`, near enough to evenly: `end` is far below 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(end)) >> 64) as u64
    }

    /// `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `millionths` times in a million.
    pub fn chance(&mut self, millionths: u32) -> bool {
        millionths > 0 && self.below(1_000_000) < u64::from(millionths)
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.chance(percent * 10_000)
    }

    /// Small ones often, large ones rarely: the exponent is even, so every magnitude up to `high` is as likely.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (small, large) = (low.max(1).ilog2(), high.max(1).ilog2());
        let exponent = self.between(small.into(), large.into());
        self.between(1 << exponent, (2 << exponent) - 1).clamp(low, high)
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
