//! Membership of a group: each member a seat, with what it says of itself.

use super::seats::{Patience, Seats, await_change};
use crate::guard::block_on;
use crate::leased::LeasedKey;
use crate::session::Session;
use crate::wait::Asker;
use crate::{Error, Value, Version};
use std::time::{Duration, Instant};

/// Members that a group has room for unless it is told otherwise.
const ROOM: u32 = 64;
/// Its seats are keys of `NAME/group/`.
const RECIPE: &str = "group";

/// Who is there.
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// let group = session.group("workers")?;
/// let _membership = group.join("10.0.0.7:9000")?;
/// group.follow(|members| {
///     println!("{} are there", members.len());
///     true
/// })?;
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    session: Session,
    name: String,
    seats: Seats,
    wait: Option<Duration>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the group. One that has left makes room for another.
    pub seat: u32,
    /// What it says of itself.
    pub value: Value,
    /// Since when.
    pub version: Version,
}

/// This process's own. Dropped, it leaves, as [`LeasedKey`] says; it also ends with its session.
#[derive(Debug)]
pub struct Membership {
    seat: u32,
    key: LeasedKey,
}

impl Group {
    pub(crate) fn new(session: &Session, name: &str) -> Result<Group, Error> {
        let seats = Seats::new(session, name, RECIPE, ROOM)?;
        Ok(Group { session: session.clone(), name: name.into(), seats, wait: None })
    }

    /// How many members there may be: 64 without it, up to 1,024. Everybody must say the same.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for another number.
    pub fn room(mut self, members: u32) -> Result<Self, Error> {
        self.seats = Seats::new(&self.session, &self.name, RECIPE, members)?;
        Ok(self)
    }

    /// How long each call waits at most.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// Becomes a member, who says this of itself: up to 128 bytes. Where there is no room it waits for somebody to
    /// leave.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`crate::Store::put`].
    pub fn join(&self, value: impl AsRef<[u8]>) -> Result<Membership, Error> {
        block_on(self.join_by(Asker::Thread, value.as_ref()))
    }

    /// As [`Group::join`], as a future for any executor. Dropped before it is ready, it is no member.
    ///
    /// # Errors
    /// Those of [`Group::join`].
    pub async fn join_async(&self, value: impl AsRef<[u8]>) -> Result<Membership, Error> {
        self.join_by(Asker::Task, value.as_ref()).await
    }

    async fn join_by(&self, asker: Asker, value: &[u8]) -> Result<Membership, Error> {
        let (seat, key) = self.seats.await_seat(0, value, Patience::new(asker, self.wait)).await?;
        Ok(Membership { seat, key })
    }

    /// All members at one instant, by seat.
    ///
    /// # Errors
    /// Those of [`crate::Store::get`].
    pub fn members(&self) -> Result<Vec<Member>, Error> {
        block_on(self.members_by(Asker::Thread))
    }

    /// As [`Group::members`], as a future.
    ///
    /// # Errors
    /// Those of [`Group::members`].
    pub async fn members_async(&self) -> Result<Vec<Member>, Error> {
        self.members_by(Asker::Task).await
    }

    async fn members_by(&self, asker: Asker) -> Result<Vec<Member>, Error> {
        let all = self.seats.all(Patience::new(asker, self.wait)).await?;
        let member = |(seat, entry): (u32, Option<crate::Entry>)| {
            entry.map(|entry| Member { seat, value: entry.value, version: entry.version })
        };
        Ok((0..).zip(all).filter_map(member).collect())
    }

    /// Shows the members, and again whenever they have changed, until `show` returns false. Changes that come fast are
    /// shown together: the last is always shown.
    ///
    /// # Errors
    /// Those of [`Group::members`] and [`crate::Store::watch_prefix`].
    pub fn follow(&self, show: impl FnMut(&[Member]) -> bool) -> Result<(), Error> {
        block_on(self.follow_by(Asker::Thread, show))
    }

    /// As [`Group::follow`], as a future.
    ///
    /// # Errors
    /// Those of [`Group::follow`].
    pub async fn follow_async(&self, show: impl FnMut(&[Member]) -> bool) -> Result<(), Error> {
        self.follow_by(Asker::Task, show).await
    }

    async fn follow_by(&self, asker: Asker, mut show: impl FnMut(&[Member]) -> bool) -> Result<(), Error> {
        let mut watch = self.seats.watch(Patience::new(asker, self.wait)).await?;
        let mut shown = None;
        loop {
            let members = self.members_by(asker).await?;
            if shown.as_ref() != Some(&members) && !show(&members) {
                return Ok(());
            }
            shown = Some(members);
            watch = await_change(watch, Patience::new(asker, None), |_| true).await?;
        }
    }
}

impl Membership {
    /// Its place in the group.
    pub fn seat(&self) -> u32 {
        self.seat
    }

    /// Says something else of itself. False: this is no member any more.
    ///
    /// # Errors
    /// Those of [`LeasedKey::update`].
    pub fn update(&mut self, value: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.key.update(value)
    }

    /// As [`Membership::update`], as a future.
    ///
    /// # Errors
    /// Those of [`LeasedKey::update`].
    pub async fn update_async(&mut self, value: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.key.update_async(value).await
    }

    /// As [`LeasedKey::deadline`].
    pub fn deadline(&self) -> Instant {
        self.key.deadline()
    }

    /// Whether it has ended with its session.
    pub fn is_lost(&self) -> bool {
        self.key.is_lost()
    }

    /// Leaves now.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`]; [`Error::Lost`] if it was lost before.
    pub fn leave(self) -> Result<(), Error> {
        if self.key.release()? { Ok(()) } else { Err(Error::Lost) }
    }

    /// As [`Membership::leave`], as a future. Dropped before it is ready, it leaves all the same.
    ///
    /// # Errors
    /// Those of [`Membership::leave`].
    pub async fn leave_async(self) -> Result<(), Error> {
        if self.key.release_async().await? { Ok(()) } else { Err(Error::Lost) }
    }
}
