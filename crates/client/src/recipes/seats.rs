//! Seats: a known number of keys, `NAME/RECIPE/0` and so on, each of which somebody may take on a lease if nobody has
//! it. Recipes of one name have keys of their own.

use crate::leased::LeasedKey;
use crate::session::Session;
use crate::store::{Entry, Store};
use crate::wait::Asker;
use crate::watch::{Event, Watch};
use crate::{Condition, Error};
use std::future::Future;
use std::time::{Duration, Instant};

/// Seats of a name.
pub(super) const MOST: u32 = 1_024;

/// Who makes a call, and how long that may take, all in all.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) asker: Asker,
    end: Option<Instant>,
}

impl Patience {
    pub(super) fn new(asker: Asker, wait: Option<Duration>) -> Patience {
        Patience { asker, end: wait.and_then(|wait| Instant::now().checked_add(wait)) }
    }

    /// What is left of it; `None`: it has no end.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if nothing is.
    pub(super) fn left(self) -> Result<Option<Duration>, Error> {
        let Some(end) = self.end else { return Ok(None) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Error::TimedOut) } else { Ok(Some(left)) }
    }

    /// Begins again when the session is lost, which begins anew by itself, and waits for a switch that was there.
    pub(super) async fn outlasts<T, A>(self, mut ask: impl FnMut() -> A) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let mut met = false;
        loop {
            match ask().await {
                Err(Error::Lost) => met = true,
                Err(Error::Unavailable { .. }) if met => {}
                ended => return ended,
            }
            self.left()?;
        }
    }

    /// The session's keys, for no longer than that.
    pub(super) fn store(self, session: &Session) -> Result<Store<'_>, Error> {
        let store = session.store();
        Ok(self.left()?.map_or(store, |left| store.wait(left)))
    }

    /// What a key has.
    pub(super) async fn get(self, session: &Session, name: &str) -> Result<Option<Entry>, Error> {
        self.store(session)?.get_by(self.asker, name).await
    }
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    session: Session,
    prefix: String,
    names: Vec<String>,
}

impl Seats {
    /// # Errors
    /// [`Error::InvalidName`] for a number of seats that is none.
    pub(super) fn new(session: &Session, name: &str, recipe: &str, count: u32) -> Result<Seats, Error> {
        if !(1..=MOST).contains(&count) {
            return Err(Error::InvalidName(format!("{name} is to have {count} seats; 1 to {MOST} can be had")));
        }
        let prefix = format!("{name}/{recipe}/");
        let names = (0..count).map(|seat| format!("{prefix}{seat}")).collect();
        Ok(Seats { session: session.clone(), prefix, names })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// A name beside those of the seats, which [`Seats::watch`] sees too.
    pub(super) fn beside(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }

    /// What every seat has, at one instant.
    pub(super) async fn all(&self, patience: Patience) -> Result<Vec<Option<Entry>>, Error> {
        // They are asked for all at once, by whomever.
        patience.outlasts(|| async { patience.store(&self.session)?.snapshot_async(&self.names).await }).await
    }

    /// Sees whatever becomes of seats from now on, and of what is beside them.
    pub(super) async fn watch(&self, patience: Patience) -> Result<Watch, Error> {
        let watch = || async { patience.store(&self.session)?.watch_prefix_by(patience.asker, &self.prefix).await };
        patience.outlasts(watch).await
    }

    /// Takes the first free seat from this one on, in a circle; `None`: at some instant none was free.
    pub(super) async fn take(
        &self,
        from: usize,
        value: &[u8],
        patience: Patience,
    ) -> Result<Option<(u32, LeasedKey)>, Error> {
        patience.outlasts(|| self.try_to_take(from, value, patience)).await
    }

    async fn try_to_take(
        &self,
        from: usize,
        value: &[u8],
        patience: Patience,
    ) -> Result<Option<(u32, LeasedKey)>, Error> {
        loop {
            let all = self.all(patience).await?;
            let count = all.len();
            let free: Vec<usize> =
                (from..from + count).map(|seat| seat % count).filter(|&seat| all[seat].is_none()).collect();
            if free.is_empty() {
                return Ok(None);
            }
            for seat in free {
                let (store, name) = (patience.store(&self.session)?, self.names[seat].as_bytes());
                if let Ok(key) = store.hold_by(patience.asker, name, value, Condition::Absent).await? {
                    return Ok(Some((seat as u32, key)));
                }
            }
        }
    }

    /// The same, but waits for one to become free.
    pub(super) async fn await_seat(
        &self,
        from: usize,
        value: &[u8],
        patience: Patience,
    ) -> Result<(u32, LeasedKey), Error> {
        if let Some(taken) = self.take(from, value, patience).await? {
            return Ok(taken);
        }
        // From here on nothing is missed.
        let mut watch = self.watch(patience).await?;
        loop {
            if let Some(taken) = self.take(from, value, patience).await? {
                return Ok(taken);
            }
            watch = await_change(watch, patience, |event| !matches!(event, Event::Put { .. })).await?;
        }
    }
}

/// Waits for something that may matter.
pub(super) async fn await_change(
    mut watch: Watch,
    patience: Patience,
    matters: impl Fn(&Event) -> bool,
) -> Result<Watch, Error> {
    loop {
        if let Some(left) = patience.left()? {
            watch = watch.wait(left);
        }
        if matters(&watch.next_by(patience.asker).await?) {
            return Ok(watch);
        }
    }
}
