//! A barrier: each party takes a seat; whoever sees all of them taken, each by another party, opens the barrier, for
//! ever.
//!
//! A seat has its party's number, drawn at random. A party may have a second one for a while: one of a session that was
//! lost, or that it was not answered. Then the barrier waits until that is gone.
//!
//! A name is good for one round. A party that dies before the barrier is open leaves its seat to another; one that
//! comes when it is open goes on at once.

use super::seats::{Patience, Seats, await_change};
use crate::session::Session;
use crate::store::Entry;
use crate::{Condition, Error, LeasedKey};
use std::collections::BTreeSet;
use std::time::Duration;

/// Nobody goes on before so many are there.
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// session.barrier("step/17", 3)?.enter()?; // three have come
/// // ... and to end the step together:
/// session.barrier("step/17/done", 3)?.enter()?;
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    seats: Seats,
    open: String,
    wait: Option<Duration>,
}

impl Barrier {
    pub(crate) fn new(session: &Session, name: &str, parties: u32) -> Result<Barrier, Error> {
        let seats = Seats::new(session, name, "barrier", parties)?;
        let open = seats.beside("open");
        Ok(Barrier { seats, open, wait: None })
    }

    /// How long [`Barrier::enter`] waits at most. Whoever gives up does not count.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// Waits until all parties have come.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`crate::Store::put`] and [`crate::Store::watch_prefix`].
    pub fn enter(&self) -> Result<(), Error> {
        let leases = self.seats.session().leases();
        let party = leases.party(&self.open);
        let entered = self.enter_as(party, Patience::new(self.wait));
        if entered.is_err() {
            // It may have a seat that it does not know of, with which it must not count as another.
            leases.party_again(&self.open, party);
        }
        entered
    }

    fn enter_as(&self, party: u64, patience: Patience) -> Result<(), Error> {
        let mut watch = self.seats.watch(patience)?;
        let mut seat = None;
        while !self.is_open(patience)? {
            // One that was lost with its session is another's by now, or nobody's.
            if seat.as_ref().is_none_or(|(_, key): &(u32, LeasedKey)| key.is_lost()) {
                seat = self.seats.take(0, &party.to_be_bytes(), patience)?;
            }
            if are_all_there(&self.seats.all(patience)?) {
                // Another may have been first.
                patience
                    .outlasts(|| patience.store(self.seats.session())?.put_if(&self.open, [], Condition::Absent))?;
                break;
            }
            watch = await_change(watch, patience, |_| true)?;
        }
        Ok(())
    }

    /// Whether all have come.
    ///
    /// # Errors
    /// Those of [`crate::Store::get`].
    pub fn is_open_now(&self) -> Result<bool, Error> {
        self.is_open(Patience::new(self.wait))
    }

    /// Forgets that it was open: for the name to be used again, once nobody waits at it.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`].
    pub fn close(&self) -> Result<(), Error> {
        Patience::new(self.wait).store(self.seats.session())?.delete(&self.open).map(|_| ())
    }

    fn is_open(&self, patience: Patience) -> Result<bool, Error> {
        Ok(patience.outlasts(|| patience.store(self.seats.session())?.get(&self.open))?.is_some())
    }
}

/// Whether every seat is taken, and no party has two.
fn are_all_there(seats: &[Option<Entry>]) -> bool {
    let parties: BTreeSet<&[u8]> = seats.iter().flatten().map(|entry| entry.value.bytes()).collect();
    parties.len() == seats.len()
}
