//! A barrier: each party takes a seat; whoever sees all of them taken, each by another party, opens the barrier, for
//! ever.
//!
//! A seat has its party's number, drawn at random. A party may have a second one for a while: one of a session that was
//! lost, or that it was not answered. Then the barrier waits until that is gone.
//!
//! A name is good for one round. A party that dies before the barrier is open leaves its seat to another; one that
//! comes when it is open goes on at once.

use super::seats::{Patience, Seats, await_change};
use crate::guard::block_on;
use crate::session::Session;
use crate::store::Entry;
use crate::wait::Asker;
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
        block_on(self.enter_by(Asker::Thread))
    }

    /// As [`Barrier::enter`], as a future for any executor. Dropped before it is ready, it does not count.
    ///
    /// # Errors
    /// Those of [`Barrier::enter`].
    pub async fn enter_async(&self) -> Result<(), Error> {
        self.enter_by(Asker::Task).await
    }

    async fn enter_by(&self, asker: Asker) -> Result<(), Error> {
        let mut party = Party::of(self);
        let entered = self.enter_as(party.number, Patience::new(asker, self.wait)).await;
        party.has_entered = entered.is_ok();
        entered
    }

    async fn enter_as(&self, party: u64, patience: Patience) -> Result<(), Error> {
        let mut watch = self.seats.watch(patience).await?;
        let mut seat = None;
        while !self.is_open(patience).await? {
            // One that was lost with its session is another's by now, or nobody's.
            if seat.as_ref().is_none_or(|(_, key): &(u32, LeasedKey)| key.is_lost()) {
                seat = self.seats.take(0, &party.to_be_bytes(), patience).await?;
            }
            if are_all_there(&self.seats.all(patience).await?) {
                // Another may have been first.
                patience.outlasts(|| self.open(patience)).await?;
                break;
            }
            watch = await_change(watch, patience, |_| true).await?;
        }
        Ok(())
    }

    /// Whether all have come.
    ///
    /// # Errors
    /// Those of [`crate::Store::get`].
    pub fn is_open_now(&self) -> Result<bool, Error> {
        block_on(self.is_open(Patience::new(Asker::Thread, self.wait)))
    }

    /// As [`Barrier::is_open_now`], as a future.
    ///
    /// # Errors
    /// Those of [`crate::Store::get`].
    pub async fn is_open_now_async(&self) -> Result<bool, Error> {
        self.is_open(Patience::new(Asker::Task, self.wait)).await
    }

    /// Forgets that it was open: for the name to be used again, once nobody waits at it.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`].
    pub fn close(&self) -> Result<(), Error> {
        Patience::new(Asker::Thread, self.wait).store(self.seats.session())?.delete(&self.open).map(|_| ())
    }

    /// As [`Barrier::close`], as a future.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`].
    pub async fn close_async(&self) -> Result<(), Error> {
        Patience::new(Asker::Task, self.wait).store(self.seats.session())?.delete_async(&self.open).await.map(|_| ())
    }

    async fn is_open(&self, patience: Patience) -> Result<bool, Error> {
        Ok(patience.outlasts(|| patience.get(self.seats.session(), &self.open)).await?.is_some())
    }

    async fn open(&self, patience: Patience) -> Result<(), Error> {
        let store = patience.store(self.seats.session())?;
        store.put_if_by(patience.asker, self.open.as_bytes(), &[], Condition::Absent).await.map(|_| ())
    }
}

/// Who enters.
struct Party<'b> {
    barrier: &'b Barrier,
    number: u64,
    has_entered: bool,
}

impl Party<'_> {
    fn of(barrier: &Barrier) -> Party<'_> {
        let number = barrier.seats.session().leases().party(&barrier.open);
        Party { barrier, number, has_entered: false }
    }
}

impl Drop for Party<'_> {
    fn drop(&mut self) {
        if !self.has_entered {
            // It may have a seat that it does not know of, with which it must not count as another.
            self.barrier.seats.session().leases().party_again(&self.barrier.open, self.number);
        }
    }
}

/// Whether every seat is taken, and no party has two.
fn are_all_there(seats: &[Option<Entry>]) -> bool {
    let parties: BTreeSet<&[u8]> = seats.iter().flatten().map(|entry| entry.value.bytes()).collect();
    parties.len() == seats.len()
}
