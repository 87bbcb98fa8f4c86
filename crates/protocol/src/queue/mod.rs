//! The queue service at its ends: who asks for locks, and who has what the switch has no room for. docs/queue.md is the
//! contract; what a switch decides is `dataplane/queue.h`.
//!
//! * [`Requester`]: the requests of one node, from ACQUIRE to RELEASED.
//! * [`LockServer`]: which parts of the names are this node's. For each (`served.rs`): of queues in the switch what did
//!   not fit there (`overflow.rs`, of all of them `overflows.rs`), and locks of its own (`own.rs`), of which it tells
//!   what is asked for most (`popular.rs`).
//! * [`Fetches`]: what others are granted by way of this node, with its answer.

mod fetches;
mod overflow;
mod overflows;
mod own;
mod popular;
mod requester;
mod served;
mod server;

#[cfg(test)]
mod tests;

pub use fetches::Fetch;
pub(crate) use fetches::Fetches;
pub(crate) use overflow::{CEDED_ORDERS, first_number};
pub(crate) use requester::Requester;
pub use requester::{Fetched, NotFetched, Third};
pub(crate) use server::{LockServer, QUESTIONS};

use crate::line::{Priority, Rank};
use crate::outbox::Outbox;
use crate::{Handle, Mode, Port, Time};
use wayside_wire::{Attempt, Body, Fetch as FetchBody, Header, QueueKind, kind, limits, queue_flag};

/// What these machines need of their node for a call.
pub(crate) struct Link<'a> {
    /// Now.
    pub now: Time,
    /// Header of a packet of this session to the switch.
    pub header: Header,
    /// Where packets go.
    pub out: &'a mut Outbox,
}

impl Link<'_> {
    /// This node.
    fn me(&self) -> Handle {
        self.header.source
    }

    fn send(&mut self, port: Port, kind: u8, destination: Handle, attempt: &Attempt) {
        let header = Header { kind, destination, ..self.header };
        self.out.body(port, header, QueueKind::Acquire.body().bytes(0), |packet, at| attempt.write(packet, at));
    }

    /// A FETCH or FETCHED with this in its blocks, which is no more than they have room for.
    fn send_blocks(&mut self, port: Port, header: Header, fetch: &FetchBody, content: &[u8]) {
        let count = content.len().div_ceil(limits::BLOCK_BYTES).min(limits::MAX_BLOCKS);
        let content = &content[..content.len().min(limits::MAX_BLOCKS * limits::BLOCK_BYTES)];
        let header = Header { count: count as u8, ..header };
        let fetch = FetchBody { length: content.len() as u16, ..*fetch };
        self.out.body(port, header, Body::Fetch.bytes(count as u8), |packet, at| {
            fetch.write(packet, at);
            let (filled, padding) = packet[at + FetchBody::BYTES..].split_at_mut(content.len());
            filled.copy_from_slice(content);
            padding.fill(0);
        });
    }

    /// To a holder: what has become of its request.
    fn tell(&mut self, kind: u8, attempt: &Attempt) {
        self.send(0, kind, attempt.holder, attempt);
    }
}

/// Bits of a request id that count within an incarnation, of which the others are the low bits.
pub(crate) const COUNTER_BITS: u32 = 40;
/// Bits of a ticket that count the grants of one lock server; above them the server's term.
pub(crate) const TICKET_BITS: u32 = 30;
/// The last term that a ticket has room for. A lock server of a later one is none.
pub const LAST_TERM: u16 = (1 << (40 - TICKET_BITS)) - 1;
/// The most grants of one lock server: three hours at 100,000 a second.
const LAST_COUNT: u64 = (1 << TICKET_BITS) - 1;

/// What a node can that offers itself, in SERVE: take and cede locks,
pub(crate) const CAN_MOVE: u64 = 1;
/// and be the lock server of several parts, or of one again that was another's meanwhile.
pub(crate) const CAN_SHARE: u64 = 2;

/// A lock that is asked for with priorities stays at its lock server until nobody has done so for so long.
/// Microseconds.
pub(crate) const LULL: u64 = 10_000_000;

/// Whether a request says a priority of its own.
fn is_ranked(attempt: &Attempt) -> bool {
    Rank::from_byte(attempt.cause).priority != Priority::NORMAL
}

/// Bytes that a node may be asked with, and may answer, where a grant goes by way of it.
pub const FETCH_BYTES_MOST: usize = limits::MAX_BLOCKS * limits::BLOCK_BYTES;

fn is_exclusive(flags: u8) -> bool {
    flags & queue_flag::EXCLUSIVE != 0
}

fn mode_flag(mode: Mode) -> u8 {
    if mode == Mode::Exclusive { queue_flag::EXCLUSIVE } else { 0 }
}

/// Whether this is a lock server's packet about its own lock: the switch says which packet has led to its grants.
fn is_servers(attempt: &Attempt) -> bool {
    attempt.cause == 0
}

/// Whether a packet to a lock server is about one name.
pub(crate) fn is_about_a_name(kind: u8) -> bool {
    kind != kind::queue::SERVING
}

/// Whether a packet is for the lock server of the node that gets it, not for one of its requests.
pub(crate) fn is_for_server(kind: u8) -> bool {
    matches!(
        kind,
        kind::queue::ACQUIRE
            | kind::queue::RELEASE
            | kind::queue::CANCEL
            | kind::queue::NEXT
            | kind::queue::PUSHED
            | kind::queue::ROOM
            | kind::queue::SERVING
            | kind::queue::RECALL
            | kind::queue::YIELD
    )
}
