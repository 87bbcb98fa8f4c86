//! A counting semaphore: so many permits, each a seat.

use super::seats::{Patience, Seats};
use crate::guard::block_on;
use crate::leased::LeasedKey;
use crate::session::Session;
use crate::wait::Asker;
use crate::{Error, Version};
use std::time::{Duration, Instant};

/// So many at a time. Whoever waits takes what becomes free: there is no queue, and nobody is next; where that matters,
/// or a fencing token, use [`Session::lock`].
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// let permit = session.semaphore("downloads", 4)?.acquire()?;
/// println!("number {} of 4", permit.number());
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    seats: Seats,
    wait: Option<Duration>,
}

/// A permit. Dropped, it is given back, as [`LeasedKey`] says; it also ends with its session.
#[derive(Debug)]
pub struct Permit {
    number: u32,
    key: LeasedKey,
}

impl Semaphore {
    pub(crate) fn new(session: &Session, name: &str, permits: u32) -> Result<Semaphore, Error> {
        Ok(Semaphore { seats: Seats::new(session, name, "semaphore", permits)?, wait: None })
    }

    /// How long [`Semaphore::acquire`] waits at most.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`crate::Store::put`] and [`crate::Store::watch_prefix`].
    pub fn acquire(&self) -> Result<Permit, Error> {
        block_on(self.acquire_by(Asker::Thread))
    }

    /// As [`Semaphore::acquire`], as a future for any executor. Dropped before it is ready, it has no permit.
    ///
    /// # Errors
    /// Those of [`Semaphore::acquire`].
    pub async fn acquire_async(&self) -> Result<Permit, Error> {
        self.acquire_by(Asker::Task).await
    }

    async fn acquire_by(&self, asker: Asker) -> Result<Permit, Error> {
        self.seats.await_seat(self.first(), &[], Patience::new(asker, self.wait)).await.map(Permit::of)
    }

    /// A permit, if one is free.
    ///
    /// # Errors
    /// Those of [`crate::Store::put`].
    pub fn try_acquire(&self) -> Result<Option<Permit>, Error> {
        block_on(self.try_acquire_by(Asker::Thread))
    }

    /// As [`Semaphore::try_acquire`], as a future.
    ///
    /// # Errors
    /// Those of [`Semaphore::try_acquire`].
    pub async fn try_acquire_async(&self) -> Result<Option<Permit>, Error> {
        self.try_acquire_by(Asker::Task).await
    }

    async fn try_acquire_by(&self, asker: Asker) -> Result<Option<Permit>, Error> {
        Ok(self.seats.take(self.first(), &[], Patience::new(asker, self.wait)).await?.map(Permit::of))
    }

    /// How many are free, at one instant.
    ///
    /// # Errors
    /// Those of [`crate::Store::get`].
    pub fn available(&self) -> Result<usize, Error> {
        block_on(self.available_by(Asker::Thread))
    }

    /// As [`Semaphore::available`], as a future.
    ///
    /// # Errors
    /// Those of [`Semaphore::available`].
    pub async fn available_async(&self) -> Result<usize, Error> {
        self.available_by(Asker::Task).await
    }

    async fn available_by(&self, asker: Asker) -> Result<usize, Error> {
        let all = self.seats.all(Patience::new(asker, self.wait)).await?;
        Ok(all.iter().filter(|seat| seat.is_none()).count())
    }

    /// Where sessions begin to look: not all at the same permit.
    fn first(&self) -> usize {
        self.seats.session().info().map_or(0, |info| usize::from(info.handle))
    }
}

impl Permit {
    fn of((number, key): (u32, LeasedKey)) -> Permit {
        Permit { number, key }
    }

    /// Which of them: 0 to permits - 1. Two that are there at once have two numbers.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// It rises with every holder of this number.
    pub fn version(&self) -> Version {
        self.key.version()
    }

    /// As [`LeasedKey::deadline`].
    pub fn deadline(&self) -> Instant {
        self.key.deadline()
    }

    /// Whether it has ended with its session. Ask before every step that must not happen without it.
    pub fn is_lost(&self) -> bool {
        self.key.is_lost()
    }

    /// Gives it back now.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`]; [`Error::Lost`] if it was lost before.
    pub fn release(self) -> Result<(), Error> {
        if self.key.release()? { Ok(()) } else { Err(Error::Lost) }
    }

    /// As [`Permit::release`], as a future. Dropped before it is ready, it is given back all the same.
    ///
    /// # Errors
    /// Those of [`Permit::release`].
    pub async fn release_async(self) -> Result<(), Error> {
        if self.key.release_async().await? { Ok(()) } else { Err(Error::Lost) }
    }
}
