//! Who holds what, as clients see it: whether a lock service keeps its promise while it is measured.
//!
//! A client says here that it holds a lock after the service has said so, and that it does not before it gives the lock
//! back. All clients are in this process, so two that exclude each other and are here at once were granted at once.
//!
//! Invariants, for each lock
//! * Either one exclusive holder, or shared ones, or nobody.
//! * The token of an exclusive grant is above that of the one before, where the service has tokens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use wayside_client::Mode;

/// Locks are spread over so many tables: clients of two threads rarely meet in one.
const TABLES: usize = 64;

#[derive(Default)]
struct Holders {
    exclusive: u32,
    shared: u32,
    /// Of the last exclusive grant that had one.
    token: u64,
}

/// What all clients of a run hold.
pub(super) struct Witness {
    tables: Vec<Mutex<HashMap<u64, Holders>>>,
    overlaps: AtomicU64,
    stale_tokens: AtomicU64,
}

impl Witness {
    pub(super) fn new() -> Witness {
        let tables = (0..TABLES).map(|_| Mutex::default()).collect();
        Witness { tables, overlaps: 0.into(), stale_tokens: 0.into() }
    }

    fn within<R>(&self, lock: u64, look: impl FnOnce(&mut Holders) -> R) -> R {
        let mut table = self.tables[lock as usize % TABLES].lock().unwrap_or_else(PoisonError::into_inner);
        let holders = table.entry(lock).or_default();
        let result = look(holders);
        // Without tokens there is nothing to remember.
        if holders.exclusive == 0 && holders.shared == 0 && holders.token == 0 {
            table.remove(&lock);
        }
        result
    }

    /// A client was granted this lock.
    pub(super) fn enter(&self, lock: u64, mode: Mode, token: Option<u64>) {
        self.within(lock, |holders| {
            let alone = holders.exclusive == 0 && (mode == Mode::Shared || holders.shared == 0);
            if !alone {
                self.overlaps.fetch_add(1, Relaxed);
            }
            match mode {
                Mode::Exclusive => {
                    holders.exclusive += 1;
                    if let Some(token) = token {
                        if token <= holders.token {
                            self.stale_tokens.fetch_add(1, Relaxed);
                        }
                        holders.token = token;
                    }
                }
                Mode::Shared => holders.shared += 1,
            }
        });
    }

    /// A client is about to give this lock back.
    pub(super) fn leave(&self, lock: u64, mode: Mode) {
        self.within(lock, |holders| match mode {
            Mode::Exclusive => holders.exclusive -= 1,
            Mode::Shared => holders.shared -= 1,
        });
    }

    /// Grants that overlapped another one that excludes them.
    pub(super) fn overlaps(&self) -> u64 {
        self.overlaps.load(Relaxed)
    }

    /// Exclusive grants whose token did not rise.
    pub(super) fn stale_tokens(&self) -> u64 {
        self.stale_tokens.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, Shared};

    #[test]
    fn holders_that_exclude_each_other_are_noticed_and_others_are_not() {
        for (one, other, overlaps) in
            [(Shared, Shared, 0), (Shared, Exclusive, 1), (Exclusive, Shared, 1), (Exclusive, Exclusive, 1)]
        {
            let witness = Witness::new();
            witness.enter(7, one, None);
            witness.enter(8, Exclusive, None);
            witness.enter(7, other, None);
            assert_eq!(witness.overlaps(), overlaps, "{one:?} {other:?}");
            witness.leave(7, one);
            witness.leave(7, other);
            witness.enter(7, Exclusive, None);
            assert_eq!(witness.overlaps(), overlaps, "{one:?} {other:?}, after they have left");
        }
    }

    #[test]
    fn a_token_that_does_not_rise_is_noticed() {
        let witness = Witness::new();
        for (token, stale) in [(1, 0), (2, 0), (2, 1), (1, 2), (3, 2)] {
            witness.enter(7, Exclusive, Some(token));
            witness.leave(7, Exclusive);
            assert_eq!(witness.stale_tokens(), stale);
        }
    }
}
