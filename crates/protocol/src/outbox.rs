//! Packets on their way out: a ring of frames that grows when it must and is never given back.

use crate::Port;
use crate::seal::Sealer;
use alloc::vec::Vec;
use wayside_wire::{BODY, Entry, Header, entry_at, limits};

/// A packet for the switch.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// Local port to send it from; 0: the agent port.
    pub port: Port,
    /// UDP payload.
    pub packet: &'a [u8],
}

struct Frame {
    port: Port,
    bytes: usize,
    packet: [u8; limits::MAX_PACKET_BYTES],
}

/// First in, first out. `head..head + len` (modulo the ring's size) are waiting, `bytes` in all.
pub struct Outbox {
    ring: Vec<Frame>,
    head: usize,
    len: usize,
    bytes: usize,
}

/// Enough for a node that answers as fast as it is asked, and does what is due until the outbox is full.
const FRAMES: usize = 32;
/// What fills it: the longest packet, or 17 of one entry.
const FULL_BYTES: usize = limits::MAX_PACKET_BYTES;

impl Outbox {
    /// An empty one.
    pub fn new() -> Outbox {
        Outbox { ring: empty_frames(FRAMES), head: 0, len: 0, bytes: 0 }
    }

    /// A packet of entries; sets the header's count.
    pub fn entries(&mut self, port: Port, mut header: Header, entries: &[Entry]) {
        debug_assert!((1..=limits::MAX_ENTRIES).contains(&entries.len()));
        header.count = entries.len() as u8;
        let frame = self.push(port, entry_at(entries.len()));
        header.write(frame);
        for (index, entry) in entries.iter().enumerate() {
            entry.write(frame, entry_at(index));
        }
    }

    /// A packet with a body of its own, written by `body` behind the header.
    pub fn body(&mut self, port: Port, header: Header, bytes: usize, body: impl FnOnce(&mut [u8], usize)) {
        let frame = self.push(port, BODY + bytes);
        header.write(frame);
        body(frame, BODY);
    }

    /// The packet that has waited longest, signed if there is something to sign it with: every packet leaves by here.
    pub fn pop(&mut self, sealer: Option<&Sealer>) -> Option<Transmit<'_>> {
        if self.len == 0 {
            return None;
        }
        let index = self.head;
        self.head = (self.head + 1) % self.ring.len();
        self.len -= 1;
        let frame = &mut self.ring[index];
        self.bytes -= frame.bytes;
        if let Some(sealer) = sealer {
            sealer.seal(&mut frame.packet[..frame.bytes]);
        }
        Some(Transmit { port: frame.port, packet: &frame.packet[..frame.bytes] })
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether so much waits that whoever has more to say should let it be sent first.
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        (self.len, self.bytes) = (0, 0);
    }

    fn push(&mut self, port: Port, bytes: usize) -> &mut [u8] {
        if self.len == self.ring.len() {
            self.grow();
        }
        let index = (self.head + self.len) % self.ring.len();
        self.len += 1;
        self.bytes += bytes;
        let frame = &mut self.ring[index];
        frame.port = port;
        frame.bytes = bytes;
        &mut frame.packet[..bytes]
    }

    /// Doubles the ring, the oldest packet first.
    fn grow(&mut self) {
        self.ring.rotate_left(self.head);
        self.head = 0;
        let more = empty_frames(self.ring.len());
        self.ring.extend(more);
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::new()
    }
}

fn empty_frames(count: usize) -> Vec<Frame> {
    (0..count).map(|_| Frame { port: 0, bytes: 0, packet: [0; limits::MAX_PACKET_BYTES] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

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
        assert!(outbox.is_empty());
        assert_eq!(outbox.bytes, 0);
    }
}
