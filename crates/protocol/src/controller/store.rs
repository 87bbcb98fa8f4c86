//! What the controller must not forget: a few numbers and one record per handle.
//!
//! A batch is durable before anything that follows from it leaves the controller: an epoch before a packet carries
//! it, an incarnation before its ENROLLED. So neither can be given twice, whatever dies when. A batch that failed may
//! be durable nevertheless: the incarnation in it is used up.

use crate::seal::Secret;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use wayside_wire::limits;

/// Key of the counters; sessions have their handle, 1 to 65,535, and what is kept of shards is above them.
pub const COUNTERS_KEY: u32 = 0;

/// A record to write: key and value.
pub type Record = (u32, Vec<u8>);

/// Durable storage of small records: at most 65,536 of about 100 bytes.
pub trait Store {
    /// Why it failed.
    type Error: fmt::Display;
    /// Every record written so far, the latest value of each key, in any order.
    fn load(&mut self) -> Result<Vec<Record>, Self::Error>;
    /// Writes all of these records or none; durable when it returns. Who is told that it failed does not know which.
    fn commit(&mut self, batch: &[Record]) -> Result<(), Self::Error>;
}

/// Why what was loaded cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The storage itself failed.
    Storage(alloc::string::String),
    /// A record of this key is of another length or layout than this version writes.
    Damaged(u32),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Storage(why) => write!(f, "the controller's store failed: {why}"),
            StoreError::Damaged(key) => write!(f, "the controller's store holds a damaged record under key {key}"),
        }
    }
}

impl core::error::Error for StoreError {}

/// First byte of every record; another layout takes another.
const LAYOUT: u8 = 3;
/// The layout before: sessions did not name their host's admission.
const WITHOUT_ADMISSIONS: u8 = 2;
/// The one before that: nor had they a secret.
const WITHOUT_SECRETS: u8 = 1;

/// Numbers that never go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Boot epoch in use.
    pub epoch: u32,
    /// Starts of the controller: the high half of census ids.
    pub starts: u32,
    /// Incarnation of the latest enrolment.
    pub incarnation: u64,
    /// Handle of the latest enrolment: the search for the next begins after it.
    pub handle: u16,
}

impl Counters {
    const BYTES: usize = 19;

    /// The record.
    pub fn encode(&self) -> Record {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.push(LAYOUT);
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.starts.to_be_bytes());
        bytes.extend(self.incarnation.to_be_bytes());
        bytes.extend(self.handle.to_be_bytes());
        (COUNTERS_KEY, bytes)
    }

    /// The reverse of [`Counters::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Counters> {
        let mut fields = Fields::of(bytes, Self::BYTES)?;
        let counters = Counters {
            epoch: u32::from_be_bytes(fields.take()),
            starts: u32::from_be_bytes(fields.take()),
            incarnation: u64::from_be_bytes(fields.take()),
            handle: u16::from_be_bytes(fields.take()),
        };
        // Nobody counts so far: the next one would be no count any more.
        let can_rise = counters.starts < u32::MAX && counters.incarnation < 1 << 63;
        (counters.epoch <= limits::MAX_EPOCH && can_rise).then_some(counters)
    }
}

/// How far a session's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It lives.
    Live = 0,
    /// It is over; its slots are being swept, the others being told.
    Mourned = 1,
    /// It is over for everybody. Its handle rests until the quarantine ends.
    AtRest = 2,
}

impl Stage {
    fn decode(byte: u8) -> Option<Stage> {
        [Stage::Live, Stage::Mourned, Stage::AtRest].into_iter().find(|&stage| stage as u8 == byte)
    }
}

/// A session, living or dead; a dead one is kept until its handle is given again, so that a late copy of its ENROL
/// begins nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Count of enrolments.
    pub incarnation: u64,
    /// Of the ENROL that began it.
    pub nonce: u64,
    /// Secret that ties the local connection to it.
    pub lifeline: u64,
    /// The node's agent port.
    pub address: SocketAddrV4,
    /// The one namespace it may touch.
    pub namespace: u16,
    /// Lease in microseconds.
    pub lease: u32,
    /// What is added to it, in microseconds.
    pub grace: u32,
    /// Process id, for people.
    pub pid: u32,
    /// Host, for people: UTF-8, padded with zeros.
    pub host: [u8; limits::MAX_HOST_BYTES],
    /// How far its life has come.
    pub stage: Stage,
    /// Where its keys come from; `None`: its packets are not signed.
    pub secret: Option<Secret>,
    /// The host that was let in and began it, by a number that means something to whoever lets hosts in; 0: none.
    pub admission: u64,
}

impl SessionRecord {
    const BYTES: usize = 119;
    const BYTES_WITHOUT_ADMISSION: usize = 111;
    const BYTES_WITHOUT_SECRET: usize = 78;

    /// The record of `handle`.
    pub fn encode(&self, handle: u16) -> Record {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.push(LAYOUT);
        bytes.extend(self.incarnation.to_be_bytes());
        bytes.extend(self.nonce.to_be_bytes());
        bytes.extend(self.lifeline.to_be_bytes());
        bytes.extend(self.address.ip().octets());
        bytes.extend(self.address.port().to_be_bytes());
        bytes.extend(self.namespace.to_be_bytes());
        bytes.extend(self.lease.to_be_bytes());
        bytes.extend(self.grace.to_be_bytes());
        bytes.extend(self.pid.to_be_bytes());
        bytes.extend(self.host);
        bytes.push(self.stage as u8);
        bytes.push(self.secret.is_some().into());
        bytes.extend(self.secret.map_or([0; 32], |Secret(secret)| secret));
        bytes.extend(self.admission.to_be_bytes());
        (handle.into(), bytes)
    }

    /// The reverse of [`SessionRecord::encode`].
    pub fn decode(bytes: &[u8]) -> Option<SessionRecord> {
        let layout = *bytes.first()?;
        let length = match layout {
            WITHOUT_SECRETS => Self::BYTES_WITHOUT_SECRET,
            WITHOUT_ADMISSIONS => Self::BYTES_WITHOUT_ADMISSION,
            _ => Self::BYTES,
        };
        let mut fields = Fields::of(bytes, length)?;
        let mut record = SessionRecord {
            incarnation: u64::from_be_bytes(fields.take()),
            nonce: u64::from_be_bytes(fields.take()),
            lifeline: u64::from_be_bytes(fields.take()),
            address: SocketAddrV4::new(Ipv4Addr::from(fields.take::<4>()), u16::from_be_bytes(fields.take())),
            namespace: u16::from_be_bytes(fields.take()),
            lease: u32::from_be_bytes(fields.take()),
            grace: u32::from_be_bytes(fields.take()),
            pid: u32::from_be_bytes(fields.take()),
            host: fields.take(),
            stage: Stage::decode(fields.take::<1>()[0])?,
            secret: None,
            admission: 0,
        };
        if layout != WITHOUT_SECRETS {
            let has_one = fields.take::<1>()[0] != 0;
            let secret = Secret(fields.take());
            record.secret = has_one.then_some(secret);
        }
        if layout == LAYOUT {
            record.admission = u64::from_be_bytes(fields.take());
        }
        Some(record)
    }
}

/// The rest of a record of known length.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Of a record whose layout and length somebody else has looked at.
    pub fn rest(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }

    fn of(bytes: &'a [u8], length: usize) -> Option<Self> {
        let is_known = bytes.first().is_some_and(|layout| (WITHOUT_SECRETS..=LAYOUT).contains(layout));
        (bytes.len() == length && is_known).then(|| Fields(&bytes[1..]))
    }

    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("the length was checked against the sum of the fields");
        self.0 = rest;
        *field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_store() {
        let counters = Counters { epoch: 7, starts: 3, incarnation: 1 << 40, handle: 65_535 };
        let (key, bytes) = counters.encode();
        assert_eq!((key, Counters::decode(&bytes)), (COUNTERS_KEY, Some(counters)));

        let session = SessionRecord {
            incarnation: 9,
            nonce: u64::MAX,
            lifeline: 5,
            address: SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 4711),
            namespace: 2,
            lease: 1_000_000,
            grace: 12_345,
            pid: 77,
            host: [b'h'; 32],
            stage: Stage::Mourned,
            secret: Some(Secret([9; 32])),
            admission: 1 << 63,
        };
        for session in [session, SessionRecord { secret: None, ..session }] {
            let (key, bytes) = session.encode(513);
            assert_eq!((key, SessionRecord::decode(&bytes)), (513, Some(session)));
        }
        let (_, mut before) = session.encode(513);
        for (layout, length, record) in [
            (WITHOUT_ADMISSIONS, 111, SessionRecord { admission: 0, ..session }),
            (WITHOUT_SECRETS, 78, SessionRecord { admission: 0, secret: None, ..session }),
        ] {
            before.truncate(length);
            assert_eq!(SessionRecord::decode(&before), None, "the layout that it says has more");
            before[0] = layout;
            assert_eq!(SessionRecord::decode(&before), Some(record), "layout {layout}");
        }
    }

    #[test]
    fn a_damaged_record_is_refused() {
        let (_, bytes) = Counters::default().encode();
        assert_eq!(Counters::decode(&bytes[1..]), None);
        assert_eq!(Counters::decode(&[0; 19]), None, "another layout");
        assert_eq!(SessionRecord::decode(&bytes), None);
        assert_eq!(Counters::decode(&[4; 19]), None, "a later layout");
        for at_end in [
            Counters { starts: u32::MAX, ..Counters::default() },
            Counters { incarnation: u64::MAX, ..Counters::default() },
            Counters { incarnation: 1 << 63, ..Counters::default() },
            Counters { epoch: limits::MAX_EPOCH + 1, ..Counters::default() },
        ] {
            assert_eq!(Counters::decode(&at_end.encode().1), None, "the next start or session would overflow it");
        }
        let (epoch, starts) = (limits::MAX_EPOCH, u32::MAX - 1);
        let last = Counters { epoch, starts, incarnation: (1 << 63) - 1, handle: u16::MAX };
        assert_eq!(Counters::decode(&last.encode().1), Some(last));
    }
}
