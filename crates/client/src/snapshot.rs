//! Several keys as they were at one instant.
//!
//! They are read twice, the second time only when the first reading has ended. Versions never come again, so a key that
//! had the same one both times had it in between; and if all did, they had what they have together, at the moment
//! between the two readings. Where one has changed, the second reading is the first of the next try: a *double
//! collect*.
//!
//! A key that is not there has no version. Such a one might have been made, deleted and collected as garbage between
//! the two, if that is long enough.

use crate::Error;
use crate::guard::block_on;
use crate::store::{Asking, Entry, Shown, Store};
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use wayside_protocol::chain::{Answer, Version};

/// Two readings that took longer tell nothing of keys that were not there at either: what is collected has been without
/// a value for longer than this, a second at least.
const BELIEVED: Duration = Duration::from_millis(900);
/// So often in a row they take longer before it is taken for what they always take here.
const SLOW_MOST: u32 = 8;

impl Store<'_> {
    /// What several keys have, all at one instant; `None`: no value. In the order of the names, which may be in any
    /// groups. Two round trips, and one more whenever one of them was written meanwhile: keys that are written faster
    /// than they are read, all the time, end it with [`Error::TimedOut`] after [`Store::wait`]'s time, and never
    /// without. So do keys that are not there where a round trip always takes more than 450 ms, after some of them.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn snapshot<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Vec<Option<Entry>>, Error> {
        block_on(self.snapshot_async(names))
    }

    /// As [`Store::snapshot`], as a future for any executor.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub async fn snapshot_async<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Vec<Option<Entry>>, Error> {
        let begun = Instant::now();
        let (mut since, mut before) = (begun, self.collect(names).await?);
        let mut slow = 0;
        loop {
            let mut again = *self;
            again.wait = self.wait.map(|most| most.saturating_sub(begun.elapsed()));
            if again.wait == Some(Duration::ZERO) {
                return Err(Error::TimedOut);
            }
            let between = Instant::now();
            let after = again.collect(names).await?;
            let same = before.iter().map(|answer| answer.version).eq(after.iter().map(|answer| answer.version));
            let are_there = after.iter().all(|answer| answer.version != Version::default());
            if same && (are_there || since.elapsed() <= BELIEVED) {
                return Ok(after.into_iter().map(Answer::entry).collect());
            }
            slow = if same { slow + 1 } else { 0 };
            if slow == SLOW_MOST {
                return Err(Error::TimedOut);
            }
            (since, before) = (between, after);
        }
    }

    /// Reads all of them, at once.
    async fn collect<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Vec<Answer>, Error> {
        let asked: Result<Vec<Asking>, Error> = names.iter().map(|name| self.read(name.as_ref())).collect();
        let mut asked = asked?;
        let mut answers = vec![None; asked.len()];
        poll_fn(|context| {
            for (asking, answer) in asked.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
                if let Poll::Ready(read) = Pin::new(asking).poll(context) {
                    *answer = Some(read?);
                }
            }
            if answers.contains(&None) {
                return Poll::Pending;
            }
            Poll::Ready(Ok(mem::take(&mut answers).into_iter().flatten().collect()))
        })
        .await
    }
}
