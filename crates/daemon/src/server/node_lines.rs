//! What a node writes on its control connection once it has greeted: the listings that it is asked for.
//!
//! A short line is taken at any time. A long one is taken only while the node is asked, and as far as there is room for
//! such lines, of which each namespace has its own: nodes that write without end, however many they are, take no more
//! memory than that, and none that another tenant's nodes need. What is longer is passed over to its end: no line makes
//! the connection close, since that would look like the node's death.
//!
//! Invariant: what `bytes` has room for beyond the short line that it began with is `granted`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wayside_client::control::Listing;

/// A greeting has about 120 bytes, a query 30, a listing 250 for each hold or wait.
pub const SHORT: usize = 4 << 10;
/// A listing: the 1,000 entries of the longest names, every byte of them escaped.
const LONGEST: usize = 8 << 20;
/// Of all long lines of one namespace's nodes at a moment: those of 500 nodes with 1,000 locks each.
const ROOM: usize = 128 << 20;
/// What is granted at a time.
const UNIT: usize = 1 << 10;

/// Room for long lines, by namespace.
#[derive(Default)]
pub struct Rooms(Mutex<HashMap<String, Arc<Semaphore>>>);

impl Rooms {
    pub fn of(&self, namespace: &str) -> Arc<Semaphore> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(namespace) {
            return Arc::clone(room);
        }
        let room = Arc::new(Semaphore::new(ROOM / UNIT));
        rooms.insert(namespace.into(), Arc::clone(&room));
        room
    }
}

pub struct NodeLines<R> {
    read: R,
    /// What has come; from `start` on it has not been given out, and up to `looked` no line ends there.
    bytes: Vec<u8>,
    start: usize,
    looked: usize,
    /// Up to the next end of a line comes the rest of one that was too long.
    passes_over: bool,
    /// While the node is asked.
    room: Option<Arc<Semaphore>>,
    granted: Option<OwnedSemaphorePermit>,
}

impl<R: AsyncRead + Unpin> NodeLines<R> {
    /// `come`: what was read behind the greeting.
    pub fn new(read: R, come: &[u8]) -> NodeLines<R> {
        let mut bytes = Vec::with_capacity(SHORT.max(come.len()));
        bytes.extend_from_slice(come);
        NodeLines { read, bytes, start: 0, looked: 0, passes_over: false, room: None, granted: None }
    }

    /// The node is asked: what it writes may be long.
    pub fn lengthen(&mut self, room: Arc<Semaphore>) {
        self.room.get_or_insert(room);
    }

    /// It is asked nothing any more.
    pub fn shorten(&mut self) {
        if self.room.take().is_none() {
            return;
        }
        if self.bytes.len() - self.start > SHORT {
            return self.pass_over();
        }
        let (rest, looked) = (self.bytes[self.start..].to_vec(), self.looked - self.start);
        self.forget();
        self.bytes.extend_from_slice(&rest);
        self.looked = looked;
    }

    /// The next line; None: the connection is at its end. Nothing is lost if the answer is not waited for.
    pub async fn next(&mut self) -> Option<serde_json::Result<Listing>> {
        loop {
            if let Some(line) = self.line() {
                return Some(serde_json::from_slice(&self.bytes[line]));
            }
            self.make_room();
            let Ok(1..) = self.read.read_buf(&mut self.bytes).await else { return None };
        }
    }

    /// Where the next line is, if all of it has come.
    fn line(&mut self) -> Option<Range<usize>> {
        while let Some(length) = self.bytes[self.looked..].iter().position(|byte| *byte == b'\n') {
            let line = self.start..self.looked + length;
            (self.start, self.looked) = (line.end + 1, line.end + 1);
            if !std::mem::take(&mut self.passes_over) {
                return Some(line);
            }
        }
        self.looked = self.bytes.len();
        None
    }

    /// For one more byte at least, of a line whose end has not come.
    fn make_room(&mut self) {
        if self.passes_over || self.start == self.bytes.len() {
            return self.forget();
        }
        if self.bytes.len() < self.bytes.capacity() {
            return;
        }
        if self.start > 0 {
            self.bytes.drain(..self.start);
            (self.start, self.looked) = (0, self.bytes.len());
        } else if !self.grow() {
            self.pass_over();
        }
    }

    /// To twice the room, if that is to be had.
    fn grow(&mut self) -> bool {
        let more = self.bytes.capacity();
        let Some(room) = self.room.as_ref().filter(|_| more < LONGEST) else { return false };
        let Ok(granted) = Arc::clone(room).try_acquire_many_owned((more / UNIT) as u32) else { return false };
        match &mut self.granted {
            Some(all) => all.merge(granted),
            none => *none = Some(granted),
        }
        self.bytes.reserve_exact(more);
        true
    }

    fn pass_over(&mut self) {
        self.passes_over = self.bytes.last() != Some(&b'\n');
        self.forget();
    }

    /// Nothing of what has come is needed.
    fn forget(&mut self) {
        (self.start, self.looked) = (0, 0);
        if self.granted.take().is_some() || self.bytes.capacity() != SHORT {
            self.bytes = Vec::with_capacity(SHORT);
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, DuplexStream};

    /// A listing of this id, in a line of so many bytes.
    fn line(id: u64, bytes: usize) -> Vec<u8> {
        let (begin, end) = (format!("{{\"id\":{id},\"process\":\""), "\",\"entries\":[]}\n");
        [begin.as_bytes(), &vec![b'a'; bytes.saturating_sub(begin.len() + end.len())], end.as_bytes()].concat()
    }

    /// A node that has written so, and then gone; and what is read of it.
    fn node(written: &[Vec<u8>]) -> NodeLines<DuplexStream> {
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let written = written.concat();
        tokio::spawn(async move { there.write_all(&written).await });
        NodeLines::new(here, b"")
    }

    async fn ids(lines: &mut NodeLines<DuplexStream>) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some(listing) = lines.next().await {
            ids.extend(listing.map(|listing| listing.id));
        }
        ids
    }

    fn room(bytes: usize) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(bytes / UNIT))
    }

    #[tokio::test]
    async fn a_node_that_is_not_asked_writes_no_long_line() {
        let mut lines =
            node(&[line(1, SHORT), line(2, SHORT + 2), line(3, 5 * SHORT), b"nonsense\n".into(), line(4, 0)]);
        assert_eq!(ids(&mut lines).await, [1, 4]);
        assert_eq!(lines.bytes.capacity(), SHORT);
    }

    #[tokio::test]
    async fn what_a_node_is_asked_for_may_be_long_as_far_as_there_is_room() {
        let room = room(6 * SHORT);
        // The one takes room for three short ones more, the other would for seven.
        let mut lines = node(&[line(1, 3 * SHORT), line(2, 5 * SHORT), line(3, 60)]);
        lines.lengthen(Arc::clone(&room));
        assert_eq!(ids(&mut lines).await, [1, 3]);
        assert_eq!(room.available_permits(), 6 * SHORT / UNIT, "it is given back");

        let mut lines = node(&[line(1, LONGEST - 1), line(2, LONGEST + 2), line(3, 60)]);
        let room = Rooms::default().of("default");
        lines.lengthen(Arc::clone(&room));
        assert_eq!(ids(&mut lines).await, [1, 3]);
        assert_eq!((room.available_permits(), lines.bytes.capacity()), (ROOM / UNIT, SHORT));
    }

    #[tokio::test]
    async fn nodes_of_one_namespace_have_their_room_together() {
        let rooms = Rooms::default();
        let (mine, theirs) = (rooms.of("a"), rooms.of("b"));
        let _taken = rooms.of("a").try_acquire_many_owned((ROOM / UNIT) as u32).unwrap();
        for (room, heard) in [(mine, vec![2]), (theirs, vec![1, 2])] {
            let mut lines = node(&[line(1, 2 * SHORT), line(2, 60)]);
            lines.lengthen(room);
            assert_eq!(ids(&mut lines).await, heard);
        }
    }

    /// As one would that writes forever: what it has is given back when nobody waits for it any more.
    #[tokio::test]
    async fn a_line_that_does_not_end_is_passed_over_once_nobody_waits_for_it() {
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let mut lines = NodeLines::new(here, b"");
        let room = room(1 << 20);
        lines.lengthen(Arc::clone(&room));
        there.write_all(&[b' '; 10 * SHORT]).await.unwrap();
        let waits = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(waits, lines.next()).await.is_err());
        assert!(room.available_permits() < (1 << 20) / UNIT);
        lines.shorten();
        assert_eq!((room.available_permits(), lines.bytes.capacity()), ((1 << 20) / UNIT, SHORT));
        there.write_all(&[vec![b' '; 3 * SHORT], b"\n".into(), line(1, 60)].concat()).await.unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap().id, 1);
        // What is short stays.
        lines.lengthen(room);
        let whole = line(2, 60);
        there.write_all(&whole[..30]).await.unwrap();
        assert!(tokio::time::timeout(waits, lines.next()).await.is_err());
        lines.shorten();
        there.write_all(&whole[30..]).await.unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap().id, 2);
    }
}
