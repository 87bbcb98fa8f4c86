//! The words that every machine speaks in.

use core::fmt;
use core::ops::Add;

/// Microseconds on the owner's monotonic clock, from an origin of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Later than all.
    pub const NEVER: Time = Time(u64::MAX);

    /// Microseconds since `earlier`, 0 if it is not earlier.
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Time;

    /// This many microseconds later.
    fn add(self, micros: u64) -> Time {
        Time(self.0.saturating_add(micros))
    }
}

/// A node at the switch: one (node, incarnation). 0 is the controller.
pub type Handle = u16;

/// Local UDP port that a packet is sent from and its answer read at; 0 is the agent port.
pub type Port = u16;

/// One attempt to get one name: incarnation mod 2^24 (24 bits), counter (40 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// With any number of others.
    Shared,
    /// Alone.
    Exclusive,
}

/// When in a slot's life: epoch of the switch, tenure of the slot.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Boot epoch of the switch.
    pub epoch: u32,
    /// Tenure of the slot.
    pub tenure: u32,
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.tenure)
    }
}

/// Fencing token: 0 (1 bit), epoch (23), tenure (32), sequence (8). A later exclusive grant of a name has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The token of a grant at `stamp`, the agent's `sequence`-th.
    pub const fn new(stamp: Stamp, sequence: u8) -> Token {
        Token((stamp.epoch as u64) << 40 | (stamp.tenure as u64) << 8 | sequence as u64)
    }

    /// The token of a grant of the queue service: its ticket has the 40 bits of tenure and sequence.
    pub const fn of_ticket(epoch: u32, ticket: u64) -> Token {
        Token((epoch as u64) << 40 | ticket)
    }

    /// When in the slot's life it was granted.
    pub const fn stamp(self) -> Stamp {
        Stamp { epoch: (self.0 >> 40) as u32, tenure: (self.0 >> 8) as u32 }
    }

    /// The agent's count of exclusive grants within the tenure; 0 from the switch.
    pub const fn sequence(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
