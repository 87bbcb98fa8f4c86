//! Who waits for an answer, and how a thread does.

use crate::clock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use wayside_protocol::Time;

/// Who waits for an answer. What takes several questions is written once, as a future: whoever waits with his thread
/// runs it by `block_on`, and asks in a way that has the answer as soon as it is polled, at the thread's own port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Stands still meanwhile.
    Thread,
    /// Lets its thread do other things.
    Task,
}

/// How a thread waits for an answer: what it pays for a few microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Looks again and again: the shortest waits, at the price of a whole core while it waits.
    Spin,
    /// Sleeps until the packet comes: no processor time, and a wake-up (about 10 to 50 us on virtual machines) a wait.
    Block,
    /// Spins for 50 us, in which most undisputed locks are granted, then sleeps. Sleeps at once where half of the
    /// processors spin already, for threads of this process, since whoever answers may need the rest; and for the more
    /// waits, 63 at most, the more of this thread's were longer lately.
    #[default]
    Adaptive,
}

/// About the cost of one sleep and wake-up: who spins no longer than that loses at most half of it.
const ADAPTIVE_SPIN: Duration = Duration::from_micros(50);
/// After so many waits more that were too long than were not, a thread spins in one of 2^6.
const VAIN_MOST: u8 = 6;

/// Threads of this process that spin by [`Wait::Adaptive`].
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// This process was forked: its parent's threads are not its own.
pub(crate) fn forked() {
    SPINNING.store(0, Relaxed);
}

/// What a thread has learned of its waits. Its own, and read by no other.
#[derive(Default)]
pub(crate) struct Habit {
    /// How many more were too long to spin than were not.
    vain: AtomicU8,
    /// So many waits it does not spin.
    sleeps: AtomicU8,
}

impl Habit {
    #[inline]
    fn spins(&self) -> bool {
        let sleeps = self.sleeps.load(Relaxed);
        self.sleeps.store(sleeps.saturating_sub(1), Relaxed);
        sleeps == 0
    }

    fn learn(&self, in_vain: bool) {
        let vain = self.vain.load(Relaxed);
        let vain = if in_vain { (vain + 1).min(VAIN_MOST) } else { vain.saturating_sub(1) };
        self.vain.store(vain, Relaxed);
        self.sleeps.store((1 << vain) - 1, Relaxed);
    }
}

impl Wait {
    /// Of a wait that begins now: how it spins.
    #[inline]
    pub(crate) fn spin(self, habit: &Habit) -> Spin<'_> {
        match self {
            Wait::Spin => Spin { until: Time(u64::MAX), among: None },
            Wait::Adaptive if habit.spins() => Spin::among(&SPINNING, spinning_most(), habit),
            Wait::Block | Wait::Adaptive => Spin { until: Time(0), among: None },
        }
    }
}

/// A thread that spins, or does not any more.
pub(crate) struct Spin<'h> {
    until: Time,
    /// Counted there, as one of several, and by habit.
    among: Option<(&'static AtomicUsize, &'h Habit)>,
}

impl<'h> Spin<'h> {
    /// Spins if fewer than `most` do.
    fn among(spinning: &'static AtomicUsize, most: usize, habit: &'h Habit) -> Spin<'h> {
        if spinning.fetch_add(1, Relaxed) < most {
            return Spin { until: clock::after(clock::now(), ADAPTIVE_SPIN), among: Some((spinning, habit)) };
        }
        spinning.fetch_sub(1, Relaxed);
        Spin { until: Time(0), among: None }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.until > Time(0)
    }

    /// It is over if it is that late.
    #[inline]
    pub(crate) fn is_on_at(&mut self, now: Time) -> bool {
        if now >= self.until {
            self.end(true);
        }
        self.is_on()
    }

    #[inline]
    fn end(&mut self, in_vain: bool) {
        self.until = Time(0);
        if let Some((spinning, habit)) = self.among.take() {
            spinning.fetch_sub(1, Relaxed);
            habit.learn(in_vain);
        }
    }
}

impl Drop for Spin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end(false);
    }
}

fn spinning_most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_threads_spin_and_the_others_sleep_at_once() {
        static FEW: AtomicUsize = AtomicUsize::new(0);
        let habit = Habit::default();
        let spin = || Spin::among(&FEW, 2, &habit);
        let (one, two) = (spin(), spin());
        assert!(one.is_on() && two.is_on());
        assert!(!spin().is_on(), "one too many");
        drop(one);
        let (mut late, other) = (spin(), spin());
        assert!(late.is_on() && !other.is_on(), "who is granted something makes room for one");
        let end = clock::after(clock::now(), ADAPTIVE_SPIN);
        assert!(!late.is_on_at(end), "it sleeps now");
        assert!(spin().is_on(), "who sleeps makes room, too");
        drop((two, late, other));
        assert_eq!(FEW.load(Relaxed), 0, "each is counted once");
    }

    #[test]
    fn who_waits_long_spins_seldom_until_waits_are_short_again() {
        let habit = Habit::default();
        let waits_until_it_spins = || (0..).take_while(|_| !habit.spins()).count();
        for in_vain in [1, 3, 7, 15, 31, 63, 63] {
            habit.learn(true);
            assert_eq!(waits_until_it_spins(), in_vain);
        }
        for in_vain in [31, 15, 7, 3, 1, 0, 0] {
            habit.learn(false);
            assert_eq!(waits_until_it_spins(), in_vain);
        }
    }

    #[test]
    fn who_is_told_how_to_wait_does() {
        let habit = Habit::default();
        habit.learn(true);
        assert!(Wait::Spin.spin(&habit).is_on() && !Wait::Block.spin(&habit).is_on());
        assert!(!Wait::Adaptive.spin(&habit).is_on(), "it has learned");
    }
}
