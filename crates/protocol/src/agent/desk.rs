//! Who takes part in a slot, and what an agent has at hand while it works.

use crate::agency::Dead;
use crate::kept::Kept;
use crate::line::{Order, Rank, Ranked};
use crate::node::NodeConfig;
use crate::outbox::Outbox;
use crate::{Handle, Mode, Port, Time, Token};
use alloc::collections::VecDeque;
use wayside_wire::{Entry, Header, entry_flag, request_id, service};

/// A request as its agent knows it: holder or waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    pub holder: Handle,
    pub request: u64,
    pub name: u64,
    pub mode: Mode,
    pub port: Port,
    /// Does not queue.
    pub tries: bool,
    /// While it waits.
    pub rank: Rank,
    /// Of its grant, if it holds.
    pub token: Token,
}

impl Party {
    pub fn from_entry(entry: &Entry) -> Party {
        let exclusive = entry.flags & entry_flag::EXCLUSIVE != 0;
        Party {
            holder: entry.holder,
            request: entry.request,
            name: entry.name,
            mode: if exclusive { Mode::Exclusive } else { Mode::Shared },
            port: entry.reply_port,
            tries: entry.flags & entry_flag::TRY != 0,
            rank: Rank::from_byte(entry.sequence),
            token: Token::default(),
        }
    }

    /// With its token if it holds, with its rank if it waits.
    pub fn to_entry(self, slot: u32) -> Entry {
        let waits = self.token == Token::default();
        Entry {
            name: self.name,
            request: self.request,
            slot,
            tenure: self.token.stamp().tenure,
            holder: self.holder,
            reply_port: self.port,
            slot_bits: 0,
            flags: mode_flag(self.mode),
            sequence: if waits { self.rank.to_byte() } else { self.token.sequence() },
        }
    }

    /// Whether it waits in the line in which the other one does. Who tries is in nobody's way: it may not be refused at
    /// once, while the agent asks for a change or a join is not known.
    pub fn waits_beside(&self, other: &Party) -> bool {
        self.name == other.name && !self.tries
    }

    /// One who waited with a former agent keeps its rank.
    pub fn handed_over(self, order: Order) -> Party {
        Party { rank: order.handed_over(self.rank), ..self }
    }

    pub fn is(&self, holder: Handle, request: u64) -> bool {
        self.request == request && self.holder == holder
    }

    /// Whether both are of one session: a handle is given again.
    pub fn is_of_session(&self, other: &Party) -> bool {
        let incarnation = request_id::incarnation;
        self.holder == other.holder && incarnation(self.request) == incarnation(other.request)
    }
}

impl Ranked for Party {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn rank_mut(&mut self) -> &mut Rank {
        &mut self.rank
    }

    fn is_exclusive(&self) -> bool {
        self.mode == Mode::Exclusive
    }
}

pub fn mode_flag(mode: Mode) -> u8 {
    match mode {
        Mode::Shared => 0,
        Mode::Exclusive => entry_flag::EXCLUSIVE,
    }
}

/// What an agent has at hand while it works: who and when it is, and where its words go.
pub struct Desk<'a> {
    pub me: Handle,
    pub now: Time,
    /// Local port to answer from.
    pub port: Port,
    /// Header of this session's lock packets; kind, destination and the rest are filled in.
    pub header: Header,
    pub config: &'a NodeConfig,
    pub dead: &'a Dead,
    pub nonce: &'a mut u64,
    pub out: &'a mut Outbox,
    /// Grants to requests of this very node; one that still `tries` is refused.
    pub local: &'a mut VecDeque<Party>,
    pub kept: &'a mut Kept,
}

impl Desk<'_> {
    pub fn send(&mut self, kind: u8, destination: Handle, flags: u16, position: u16, entries: &[Entry]) {
        let header = Header { service: service::LOCK, kind, destination, flags, position, ..self.header };
        self.out.entries(self.port, header, entries);
    }

    /// Sends it with the next packet of this node, whatever that is.
    pub fn send_along(&mut self, kind: u8, destination: Handle, flags: u16, position: u16, entries: &[Entry]) {
        let header = Header { service: service::LOCK, kind, destination, flags, position, ..self.header };
        self.out.entries_along(self.port, header, entries);
    }

    pub fn next_nonce(&mut self) -> u64 {
        *self.nonce += 1;
        *self.nonce
    }
}
