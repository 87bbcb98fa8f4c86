//! Packets on their way out: a ring of frames that grows when it must and is never given back.

use crate::Port;
use crate::seal::Sealer;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{BODY, Entry, Header, entry_at, limits};

/// A packet for the switch.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// Local port to send it from; 0: the agent port.
    pub port: Port,
    /// Which switches it is for; `None`: the session's.
    pub to: Option<Ends>,
    /// UDP payload.
    pub packet: &'a [u8],
}

/// The switches that see to a request: of a chain it may be two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Gets the packet.
    pub asked: SocketAddrV4,
    /// Sends the answer.
    pub answers: SocketAddrV4,
}

struct Frame {
    port: Port,
    to: Option<Ends>,
    bytes: usize,
    packet: [u8; limits::MAX_PACKET_BYTES],
}

impl Frame {
    #[inline]
    fn leave(&mut self, sealer: Option<&Sealer>) -> Transmit<'_> {
        let packet = &mut self.packet[..self.bytes];
        if let Some(sealer) = sealer {
            sealer.seal(packet);
        }
        Transmit { port: self.port, to: self.to, packet }
    }
}

/// First in, first out. `head..head + len` (modulo the ring's size) are waiting, `bytes` in all. It begins anew
/// whenever it is empty: who sends as he writes always has the same frame, in the nearest cache.
struct Ring {
    frames: Vec<Frame>,
    head: usize,
    len: usize,
    bytes: usize,
}

/// What is to be sent, and what need not be sent for itself: that goes along behind the next packet that must.
pub struct Outbox {
    now: Ring,
    along: Ring,
    /// Something was sent: what goes along, which there is, follows.
    goes: bool,
}

/// Enough for a node that answers as fast as it is asked, and does what is due until the outbox is full.
const FRAMES: usize = 32;
/// Packets that wait for another one to go with. One more, and they go by themselves.
const ALONG_MOST: usize = 8;
/// What fills it: the longest packet, or 17 of one entry.
const FULL_BYTES: usize = limits::MAX_PACKET_BYTES;

/// A packet of entries that is being written; none, unless it is sent.
pub struct Draft<'a> {
    frame: &'a mut Frame,
    len: &'a mut usize,
    bytes: &'a mut usize,
    count: usize,
}

impl Draft<'_> {
    /// Another entry. Only where [`Draft::is_full`] says no.
    #[inline]
    pub fn add(&mut self, entry: &Entry) {
        entry.write(&mut self.frame.packet, entry_at(self.count));
        self.count += 1;
    }

    /// Entries so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether no other entry fits.
    pub fn is_full(&self) -> bool {
        self.count == limits::MAX_ENTRIES
    }

    /// Puts it into the outbox; sets the header's count.
    #[inline]
    pub fn send(self, port: Port, header: Header) {
        debug_assert!(self.count > 0);
        let header = Header { count: self.count as u8, ..header };
        header.write(&mut self.frame.packet);
        self.frame.port = port;
        self.frame.to = None;
        self.frame.bytes = entry_at(self.count);
        *self.bytes += self.frame.bytes;
        *self.len += 1;
    }
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Outbox {
        Outbox { now: Ring::new(FRAMES), along: Ring::new(ALONG_MOST), goes: false }
    }

    /// Begins a packet of entries.
    #[inline]
    pub fn draft(&mut self) -> Draft<'_> {
        self.now.draft()
    }

    /// A packet of one entry, as nearly all are: in its callers' midst its fields need not go by memory.
    #[inline(always)]
    pub fn entry(&mut self, port: Port, header: Header, entry: &Entry) {
        let mut draft = self.draft();
        draft.add(entry);
        draft.send(port, header);
    }

    /// Adds an entry to the last packet that has not left yet, if that is one of these entries from the same port, and
    /// has room; what was in its header's `flags` is cleared and given back.
    #[inline]
    pub fn join(&mut self, port: Port, of: (u8, u8), flags: u16, entry: &Entry) -> Option<u16> {
        if self.now.len == 0 { None } else { self.now.join(port, of, flags, entry) }
    }

    /// A packet of entries; sets the header's count.
    pub fn entries(&mut self, port: Port, header: Header, entries: &[Entry]) {
        self.now.entries(port, header, entries);
    }

    /// A packet that can wait for another one to go with: whoever lacks it asks for it.
    pub fn entries_along(&mut self, port: Port, header: Header, entries: &[Entry]) {
        self.goes |= self.along.len == ALONG_MOST - 1;
        self.along.entries(port, header, entries);
    }

    /// A packet with a body of its own, written by `body` behind the header.
    pub fn body(&mut self, port: Port, header: Header, bytes: usize, body: impl FnOnce(&mut [u8], usize)) {
        self.body_to(None, port, header, bytes, body);
    }

    /// The same, for switches that need not be the session's.
    pub fn body_to(
        &mut self,
        to: Option<Ends>,
        port: Port,
        header: Header,
        bytes: usize,
        body: impl FnOnce(&mut [u8], usize),
    ) {
        let Draft { frame, len, bytes: waiting, .. } = self.now.draft();
        frame.port = port;
        frame.to = to;
        frame.bytes = BODY + bytes;
        let packet = &mut frame.packet[..BODY + bytes];
        header.write(packet);
        body(packet, BODY);
        *waiting += BODY + bytes;
        *len += 1;
    }

    /// The packet that has waited longest, signed if there is something to sign it with: every packet leaves by here.
    #[inline]
    pub fn pop(&mut self, sealer: Option<&Sealer>) -> Option<Transmit<'_>> {
        if self.now.len > 0 {
            self.goes = self.along.len > 0;
            return Some(self.now.pop().leave(sealer));
        }
        if !self.goes {
            return None;
        }
        self.goes = self.along.len > 1;
        Some(self.along.pop().leave(sealer))
    }

    /// Whether so much waits that whoever has more to say should let it be sent first.
    pub fn is_full(&self) -> bool {
        self.now.bytes >= FULL_BYTES
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.now.clear();
        self.along.clear();
        self.goes = false;
    }
}

impl Ring {
    fn new(frames: usize) -> Ring {
        Ring { frames: empty_frames(frames), head: 0, len: 0, bytes: 0 }
    }

    #[inline]
    fn draft(&mut self) -> Draft<'_> {
        if self.len == self.frames.len() {
            self.grow();
        }
        let index = self.wrapped(self.head + self.len);
        Draft { frame: &mut self.frames[index], len: &mut self.len, bytes: &mut self.bytes, count: 0 }
    }

    fn entries(&mut self, port: Port, header: Header, entries: &[Entry]) {
        let mut draft = self.draft();
        for entry in entries {
            draft.add(entry);
        }
        draft.send(port, header);
    }

    /// As [`Outbox::join`], where there is one.
    fn join(&mut self, port: Port, of: (u8, u8), flags: u16, entry: &Entry) -> Option<u16> {
        let index = self.wrapped(self.head + self.len - 1);
        let frame = &mut self.frames[index];
        let header = Header::read(&frame.packet).ok()?;
        let count = usize::from(header.count);
        if (header.service, header.kind) != of
            || frame.port != port
            || frame.to.is_some()
            || count == limits::MAX_ENTRIES
        {
            return None;
        }
        entry.write(&mut frame.packet, entry_at(count));
        Header { count: header.count + 1, flags: header.flags & !flags, ..header }.write(&mut frame.packet);
        frame.bytes += limits::ENTRY_BYTES;
        self.bytes += limits::ENTRY_BYTES;
        Some(header.flags & flags)
    }

    /// The first of at least one.
    #[inline]
    fn pop(&mut self) -> &mut Frame {
        let index = self.head;
        self.len -= 1;
        self.head = if self.len == 0 { 0 } else { self.wrapped(index + 1) };
        let frame = &mut self.frames[index];
        self.bytes -= frame.bytes;
        frame
    }

    /// An index of less than twice the ring's size.
    #[inline]
    fn wrapped(&self, index: usize) -> usize {
        if index < self.frames.len() { index } else { index - self.frames.len() }
    }

    fn clear(&mut self) {
        (self.len, self.bytes) = (0, 0);
    }

    /// Doubles the ring, the oldest packet first.
    #[cold]
    fn grow(&mut self) {
        self.frames.rotate_left(self.head);
        self.head = 0;
        let more = empty_frames(self.frames.len());
        self.frames.extend(more);
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::new()
    }
}

fn empty_frames(count: usize) -> Vec<Frame> {
    (0..count).map(|_| Frame { port: 0, to: None, bytes: 0, packet: [0; limits::MAX_PACKET_BYTES] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use wayside_wire::{header_flag, kind, service};

    #[test]
    fn keeps_order_while_it_grows() {
        let mut outbox = Outbox::new();
        let mut next = 0;
        let mut sent = 0;
        let mut got = vec![];
        for round in 1..8 {
            for _ in 0..round * 5 {
                outbox.entries(next, Header::default(), &[Entry::default()]);
                next += 1;
            }
            for _ in 0..round * 3 {
                got.push(outbox.pop(None).expect("more was pushed than popped").port);
                sent += 1;
            }
        }
        while let Some(out) = outbox.pop(None) {
            got.push(out.port);
            sent += 1;
        }
        assert_eq!(sent, usize::from(next));
        assert!(got.is_sorted());
        assert_eq!((outbox.now.len, outbox.now.bytes), (0, 0));
    }

    #[test]
    fn what_goes_along_waits_for_another_packet() {
        let mut outbox = Outbox::new();
        let along = |outbox: &mut Outbox, port| outbox.entries_along(port, Header::default(), &[Entry::default()]);
        let sent =
            |outbox: &mut Outbox| core::iter::from_fn(|| outbox.pop(None).map(|out| out.port)).collect::<Vec<_>>();
        along(&mut outbox, 1);
        along(&mut outbox, 2);
        assert_eq!(sent(&mut outbox), vec![]);
        outbox.entries(3, Header::default(), &[Entry::default()]);
        assert_eq!(sent(&mut outbox), vec![3, 1, 2], "behind what must go");
        along(&mut outbox, 4);
        assert_eq!(sent(&mut outbox), vec![]);
        for port in 5..12 {
            along(&mut outbox, port);
        }
        assert_eq!(sent(&mut outbox), (4..12).collect::<Vec<_>>(), "there is no room for more of them");
        assert_eq!(outbox.along.frames.len(), ALONG_MOST);
    }

    /// Frames are used again: a packet for another switch, or another port, is no matter of the next one's.
    #[test]
    fn each_packet_goes_where_it_is_sent() {
        let mut outbox = Outbox::new();
        let address = SocketAddrV4::new(core::net::Ipv4Addr::LOCALHOST, 1);
        let other = Ends { asked: address, answers: address };
        for round in 0..3 * FRAMES as u16 {
            let ports = [4 * round, 4 * round + 1, 4 * round + 2];
            outbox.body_to(Some(other), ports[0], Header::default(), 8, |_, _| ());
            outbox.entries(ports[1], Header::default(), &[Entry::default()]);
            outbox.body(ports[2], Header::default(), 8, |_, _| ());
            let mut sent = vec![];
            while let Some(out) = outbox.pop(None) {
                sent.push((out.port, out.to.is_some()));
            }
            assert_eq!(sent, [(ports[0], true), (ports[1], false), (ports[2], false)]);
            assert_eq!(outbox.now.head, 0, "an empty ring begins anew, so few frames are written");
        }
    }

    #[test]
    fn it_is_full_of_a_packet_of_the_longest_and_empty_when_it_is_cleared() {
        let mut outbox = Outbox::new();
        outbox.body(0, Header::default(), FULL_BYTES - BODY - 1, |_, _| ());
        assert!(!outbox.is_full());
        outbox.clear();
        outbox.body(0, Header::default(), FULL_BYTES - BODY, |_, _| ());
        assert!(outbox.is_full());
        for port in 0..ALONG_MOST as u16 {
            outbox.entries_along(port, Header::default(), &[Entry::default()]);
        }
        outbox.clear();
        assert!(outbox.pop(None).is_none() && !outbox.is_full());
        outbox.entries(7, Header::default(), &[Entry::default()]);
        assert_eq!(outbox.pop(None).map(|out| out.port), Some(7));
        assert!(outbox.pop(None).is_none(), "what was to go along is forgotten");
    }

    /// In one and the same frame.
    #[test]
    fn entries_go_to_the_sessions_switch_whatever_was_sent_before() {
        let mut outbox = Outbox::new();
        let address = SocketAddrV4::new(core::net::Ipv4Addr::LOCALHOST, 1);
        outbox.body_to(Some(Ends { asked: address, answers: address }), 1, Header::default(), 8, |_, _| ());
        assert!(outbox.pop(None).is_some_and(|out| out.to.is_some()));
        outbox.entries(2, Header::default(), &[Entry::default()]);
        assert!(outbox.pop(None).is_some_and(|out| out.to.is_none()));
    }

    const FREE: (u8, u8) = (service::LOCK, kind::lock::FREE);
    const QUIET: u16 = header_flag::QUIET;

    fn of(kind: (u8, u8), flags: u16) -> Header {
        Header { service: kind.0, kind: kind.1, flags, ..Header::default() }
    }

    fn slot(slot: u32) -> Entry {
        Entry { slot, ..Entry::default() }
    }

    /// Port, flags and slots of each packet.
    fn packets(outbox: &mut Outbox) -> Vec<(Port, u16, Vec<u32>)> {
        let each = || {
            let out = outbox.pop(None)?;
            let header = wayside_wire::check(out.packet).expect("as long as its count says");
            Some((out.port, header.flags, wayside_wire::entries(out.packet).map(|entry| entry.slot).collect()))
        };
        core::iter::from_fn(each).collect()
    }

    #[test]
    fn an_entry_joins_the_last_packet_that_has_not_left() {
        let mut outbox = Outbox::new();
        assert_eq!(outbox.join(1, FREE, QUIET, &slot(9)), None, "there is none");
        for first in [1, 2] {
            outbox.entry(1, of(FREE, QUIET | header_flag::LAST), &slot(first));
        }
        assert_eq!(outbox.join(1, FREE, QUIET, &slot(3)), Some(QUIET), "what was cleared");
        assert_eq!(outbox.join(1, FREE, QUIET, &slot(4)), Some(0), "nothing was left to clear");
        let (last, quiet) = (header_flag::LAST, QUIET | header_flag::LAST);
        assert_eq!(packets(&mut outbox), [(1, quiet, vec![1]), (1, last, vec![2, 3, 4])]);
        assert_eq!(outbox.join(1, FREE, QUIET, &slot(9)), None, "they have left");
        assert_eq!(packets(&mut outbox), []);
    }

    #[test]
    fn an_entry_joins_no_packet_of_another_kind_port_or_switch_and_changes_nothing_there() {
        let address = SocketAddrV4::new(core::net::Ipv4Addr::LOCALHOST, 1);
        let begin: [fn(&mut Outbox, SocketAddrV4); 5] = [
            |outbox, _| outbox.entry(2, of(FREE, QUIET), &slot(1)),
            |outbox, _| outbox.entry(1, of((service::LOCK, kind::lock::RETENURE), QUIET), &slot(1)),
            |outbox, _| outbox.entry(1, of((service::QUEUE, FREE.1), QUIET), &slot(1)),
            |outbox, address| {
                let to = Some(Ends { asked: address, answers: address });
                let header = Header { count: 1, ..of(FREE, QUIET) };
                outbox.body_to(to, 1, header, Entry::BYTES, |packet, at| slot(1).write(packet, at));
            },
            |outbox, _| {
                outbox.entry(1, of(FREE, QUIET), &slot(2));
                outbox.entry(1, of((service::LOCK, kind::lock::ACQUIRE), QUIET), &slot(1));
            },
        ];
        for begin in begin {
            let [mut outbox, mut without] = [(); 2].map(|()| {
                let mut outbox = Outbox::new();
                begin(&mut outbox, address);
                outbox
            });
            assert_eq!(outbox.join(1, FREE, QUIET, &slot(9)), None);
            assert_eq!(outbox.now.bytes, without.now.bytes);
            while let Some(out) = without.pop(None) {
                assert_eq!(
                    outbox.pop(None).map(|same| (same.port, same.packet.to_vec())),
                    Some((out.port, out.packet.to_vec()))
                );
            }
            assert!(outbox.pop(None).is_none());
        }
    }

    #[test]
    fn a_packet_has_room_for_32_entries_and_each_counts_for_what_waits() {
        let mut outbox = Outbox::new();
        outbox.entry(1, of(FREE, 0), &slot(0));
        for next in 1..limits::MAX_ENTRIES as u32 {
            assert!(!outbox.is_full());
            assert_eq!(outbox.join(1, FREE, QUIET, &slot(next)), Some(0));
            assert_eq!(outbox.now.bytes, entry_at(next as usize + 1));
        }
        assert!(outbox.is_full());
        assert_eq!(outbox.join(1, FREE, QUIET, &slot(99)), None);
        assert_eq!(packets(&mut outbox), [(1, 0, (0..limits::MAX_ENTRIES as u32).collect())]);
        assert_eq!((outbox.now.len, outbox.now.bytes), (0, 0));
    }

    /// The last frame of the ring's memory, and then its first.
    #[test]
    fn an_entry_joins_the_last_packet_wherever_it_lies() {
        let mut outbox = Outbox::new();
        (0..FRAMES as u32).for_each(|each| outbox.entry(1, of(FREE, 0), &slot(each)));
        assert_eq!(outbox.join(1, FREE, 0, &slot(100)), Some(0));
        outbox.pop(None);
        outbox.entry(1, of(FREE, 0), &slot(32));
        assert_eq!(outbox.join(1, FREE, 0, &slot(101)), Some(0));
        let slots: Vec<Vec<u32>> = packets(&mut outbox).into_iter().map(|(.., slots)| slots).collect();
        assert_eq!((slots.len(), &slots[30], &slots[31]), (FRAMES, &vec![31, 100], &vec![32, 101]));
        assert_eq!(outbox.now.frames.len(), FRAMES);
    }

    /// It is one that must go itself; what waits for another one to go with is none.
    #[test]
    fn an_entry_joins_nothing_that_goes_along() {
        let mut outbox = Outbox::new();
        outbox.entries_along(1, of(FREE, QUIET), &[slot(1)]);
        assert_eq!(outbox.join(1, FREE, QUIET, &slot(2)), None);
        assert_eq!(packets(&mut outbox), []);
    }
}
