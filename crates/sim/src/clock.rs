//! Clocks that drift. The world has a time of its own, in microseconds; every process reads another one.

use wayside_protocol::Time;

/// A process's clock: starts anywhere, runs too fast or too slow by a constant rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    ppm: i64,
}

impl Clock {
    /// Shows `origin` at the world's beginning and gains `ppm` microseconds a second.
    pub fn new(origin: u64, ppm: i64) -> Clock {
        Clock { origin, ppm }
    }

    /// What the clock shows.
    pub fn at(&self, world: u64) -> Time {
        Time(self.origin + (world as i64 + world as i64 * self.ppm / 1_000_000) as u64)
    }

    /// The first moment of the world at which the clock shows `local` or more; `None` if that never comes.
    pub fn world(&self, local: Time) -> Option<u64> {
        if local.0 >= 1 << 62 {
            return None;
        }
        let shown = local.0.saturating_sub(self.origin);
        // The division rounds, and so does the clock: from a little before, step by step.
        let rate = (1_000_000 + self.ppm) as u64;
        // In 64 bits while that is enough, which is five months of a world: a division of 128 takes ten times as long.
        let near = match shown.checked_mul(1_000_000) {
            Some(product) => product / rate,
            None => (u128::from(shown) * 1_000_000 / u128::from(rate)) as u64,
        };
        let mut world = near.saturating_sub(2);
        while self.at(world) < local {
            world += 1;
        }
        Some(world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_rings_when_the_clock_shows_its_time_and_not_before() {
        for ppm in [-100_000, -1, 0, 1, 333_333] {
            let clock = Clock::new(77, ppm);
            for local in 77..10_000 {
                let world = clock.world(Time(local)).expect("soon");
                assert!(clock.at(world) >= Time(local));
                assert!(world == 0 || clock.at(world - 1) < Time(local));
            }
        }
        assert_eq!(Clock::new(0, 0).world(Time(u64::MAX)), None);
    }
}
