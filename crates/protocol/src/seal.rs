//! Tags: whose packet this is. `dataplane/seal.h` is the switch's part of it, docs/security.md says against what.
//!
//! Two ends share a session's secret, which enrolment has handed out over a secure connection, and derive from it a key
//! for every direction, epoch of the switch and rotation. Nothing secret is ever in a packet.
//!
//! Invariants
//! * A tag covers the whole packet, its own field taken as 0.
//! * A node signs under its own epoch and the latest rotation that a genuine packet has shown it. It believes that
//!   rotation, the one before (packets under way) and the one after, which the controller may begin at any time; of a
//!   later epoch, the first.
//! * The controller begins a rotation only once the switch has heard the node under the last: nobody is left behind.

use crate::{Handle, Names};
use core::fmt;
use core::hash::Hasher;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use siphasher::sip::SipHasher24;
use wayside_wire::{BODY, Engine, Header, Policy, header_flag, service};

/// Where flags and tag are in a header. Whoever signs touches nothing else of a packet.
const FLAGS: usize = 6;
const TAG: usize = 24;

/// 32 bytes that nobody else knows. Shows nothing of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Which way packets go that a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the node to the switch.
    Up = 1,
    /// To the node, from the switch or the controller.
    Down = 2,
}

/// Which of a session's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Count of enrolments: the session's.
    pub incarnation: u64,
    /// Boot epoch of the switch.
    pub epoch: u32,
    /// Changes of keys within session and epoch.
    pub rotation: u32,
}

impl Secret {
    /// HMAC-SHA256 of what the key is for, cut to SipHash's 128 bits.
    pub fn key(&self, direction: Direction, period: Period) -> Key {
        let digest = self.digest(&[
            b"wayside",
            &[direction as u8],
            &period.incarnation.to_be_bytes(),
            &period.epoch.to_be_bytes(),
            &period.rotation.to_be_bytes(),
        ]);
        let half = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| digest[at + index]));
        Key([half(0), half(8)])
    }

    /// Both directions'.
    pub fn keys(&self, period: Period) -> Keys {
        Keys { up: self.key(Direction::Up, period), down: self.key(Direction::Down, period) }
    }

    /// The secret of one session, from the controller's own: as good as random to whoever does not know that.
    pub fn of_session(&self, incarnation: u64, nonce: u64) -> Secret {
        Secret(self.digest(&[b"wayside session", &incarnation.to_be_bytes(), &nonce.to_be_bytes()]))
    }

    /// What ties connections to that session. None tells of another one, nor of the controller's secret.
    pub fn lifeline_of_session(&self, incarnation: u64, nonce: u64) -> u64 {
        first_eight(&self.digest(&[b"wayside lifeline", &incarnation.to_be_bytes(), &nonce.to_be_bytes()]))
    }

    fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }
}

/// HMAC-SHA256 under a session's lifeline, cut to 64 bits: for a connection that others may read, or answer in the
/// daemon's place.
pub fn under_lifeline(lifeline: u64, parts: &[&[u8]]) -> u64 {
    // A shorter key is the same with zeros behind it.
    let mut key = [0; 32];
    key[..8].copy_from_slice(&lifeline.to_be_bytes());
    first_eight(&Secret(key).digest(parts))
}

fn first_eight(digest: &[u8; 32]) -> u64 {
    u64::from_be_bytes(core::array::from_fn(|index| digest[index]))
}

/// A key of SipHash-2-4: its 16 bytes as two numbers, the first byte lowest. Shows nothing of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Key(pub [u64; 2]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Keys of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Of packets from the node.
    pub up: Key,
    /// Of packets to it.
    pub down: Key,
}

impl Key {
    /// The tag of a packet, which has a header at least.
    pub fn tag(&self, packet: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.0[0], self.0[1]);
        hasher.write(&packet[..TAG]);
        hasher.write(&[0; BODY - TAG]);
        hasher.write(&packet[BODY..]);
        hasher.finish()
    }

    /// Signs a packet as of this rotation.
    pub fn sign(&self, rotation: u32, packet: &mut [u8]) {
        let others = u16::from_be_bytes([packet[FLAGS], packet[FLAGS + 1]]) & !header_flag::KEY;
        let flags = if is_odd(rotation) { others | header_flag::KEY } else { others };
        packet[FLAGS..FLAGS + 2].copy_from_slice(&flags.to_be_bytes());
        let tag = self.tag(packet);
        packet[TAG..BODY].copy_from_slice(&tag.to_be_bytes());
    }

    /// Whether this key made the packet's tag. One comparison of words: it takes as long whatever the tag.
    pub fn made_tag(&self, packet: &[u8]) -> bool {
        let made: [u8; BODY - TAG] = core::array::from_fn(|index| packet[TAG + index]);
        self.tag(packet) == u64::from_be_bytes(made)
    }
}

/// Which slot a rotation's keys are in.
pub const fn is_odd(rotation: u32) -> bool {
    rotation & 1 != 0
}

/// A node's end: signs what leaves, opens what comes.
pub struct Sealer {
    secret: Secret,
    period: Period,
    up: Key,
    /// The rotation before, this one, the one after.
    down: [Option<Key>; 3],
    /// Of the latest epoch beyond this one that a packet claimed to be of.
    ahead: Option<(u32, Key)>,
}

impl Sealer {
    /// Of a session that begins, in this epoch.
    pub fn new(secret: Secret, incarnation: u64, epoch: u32) -> Sealer {
        let period = Period { incarnation, epoch, rotation: 0 };
        let (up, down) = (secret.key(Direction::Up, period), [None; 3]);
        let mut sealer = Sealer { secret, period, up, down, ahead: None };
        sealer.begin(period, None);
        sealer
    }

    /// The switch has another boot epoch, and the session the first keys of it.
    pub fn raise_epoch(&mut self, epoch: u32) {
        if epoch > self.period.epoch {
            self.begin(Period { epoch, rotation: 0, ..self.period }, None);
            self.ahead = None;
        }
    }

    /// Signs a packet for the switch.
    pub fn seal(&self, packet: &mut [u8]) {
        self.up.sign(self.period.rotation, packet);
    }

    /// Whether a packet is the switch's or the controller's, and meant for this session.
    pub fn open(&mut self, header: &Header, packet: &[u8]) -> bool {
        let odd = header.flags & header_flag::KEY != 0;
        // A chain's packets tell of a group's epoch, which has no keys.
        if header.epoch != self.period.epoch && header.service != service::CHAIN {
            return header.epoch > self.period.epoch && !odd && self.first_of(header.epoch).made_tag(packet);
        }
        let made = |key: &Option<Key>| key.is_some_and(|key| key.made_tag(packet));
        if odd == is_odd(self.period.rotation) {
            return made(&self.down[1]);
        }
        if made(&self.down[2]) {
            let next = Period { rotation: self.period.rotation.wrapping_add(1), ..self.period };
            self.begin(next, self.down[1]);
            return true;
        }
        made(&self.down[0])
    }

    /// Changes of keys so far, within the epoch.
    pub fn rotation(&self) -> u32 {
        self.period.rotation
    }

    fn begin(&mut self, period: Period, former: Option<Key>) {
        let next = Period { rotation: period.rotation.wrapping_add(1), ..period };
        let down = |period| Some(self.secret.key(Direction::Down, period));
        self.down = [former, down(period), down(next)];
        self.up = self.secret.key(Direction::Up, period);
        self.period = period;
    }

    /// A derivation takes 0.4 us: what a forger may cost us for a packet.
    fn first_of(&mut self, epoch: u32) -> Key {
        match self.ahead {
            Some((known, key)) if known == epoch => key,
            _ => {
                let key = self.secret.key(Direction::Down, Period { epoch, rotation: 0, ..self.period });
                self.ahead = Some((epoch, key));
                key
            }
        }
    }
}

/// What a node is told of its session by a secure connection, in place of ENROLLED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// Name of the node at the switch.
    pub handle: Handle,
    /// Cluster-wide count of enrolments.
    pub incarnation: u64,
    /// Boot epoch of the switch.
    pub epoch: u32,
    /// Id of the namespace.
    pub namespace: u16,
    /// Slots of the namespace.
    pub slots: u32,
    /// Who keeps the namespace's locks.
    pub engine: Engine,
    /// Where the engine is hybrid: the names that have their queue in the switch.
    pub names: Names,
    /// Who goes first there.
    pub policy: Policy,
    /// How often who waits is overtaken there at most: 0 to [`crate::LONGEST_PATIENCE`].
    pub patience: u8,
    /// Lease in microseconds.
    pub lease: u32,
    /// What the controller adds to it, in microseconds.
    pub grace: u32,
    /// Ties a local connection to the session.
    pub lifeline: u64,
    /// [`crate::Shards::fingerprint`] of the shards whose names the controller takes for its own; 0: there is one.
    pub shards: u32,
    /// Version of the packets that the switch speaks, as in a header; 0: not known, as over a secure connection, where
    /// earlier nodes would not take a field that they do not know.
    pub version: u8,
    /// Where all keys come from; None: packets of this switch are not signed.
    pub secret: Option<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use wayside_wire::{Effect, Entry, entry_at, kind};

    const SECRET: Secret = Secret([7; 32]);
    const PERIOD: Period = Period { incarnation: 9, epoch: 3, rotation: 0 };

    fn packet(epoch: u32) -> Vec<u8> {
        let mut packet = vec![0; entry_at(2)];
        let header = Header { service: service::LOCK, kind: kind::lock::GRANT, count: 2, epoch, ..Header::default() };
        header.write(&mut packet);
        Entry { name: 5, request: 6, ..Entry::default() }.write(&mut packet, entry_at(0));
        packet
    }

    fn down(epoch: u32, rotation: u32) -> Vec<u8> {
        let mut packet = packet(epoch);
        SECRET.key(Direction::Down, Period { epoch, rotation, ..PERIOD }).sign(rotation, &mut packet);
        packet
    }

    #[test]
    fn a_packet_of_a_chain_is_signed_by_the_sessions_keys_whatever_its_groups_epoch() {
        let mut sealer = Sealer::new(SECRET, PERIOD.incarnation, PERIOD.epoch);
        for epoch in [1, PERIOD.epoch, 70] {
            let mut packet = vec![0; BODY + Effect::BYTES];
            let header = Header { service: service::CHAIN, kind: kind::chain::ANSWER, epoch, ..Header::default() };
            header.write(&mut packet);
            SECRET.key(Direction::Down, PERIOD).sign(0, &mut packet);
            assert!(open(&mut sealer, &packet), "epoch {epoch}");
            packet[40] ^= 1;
            assert!(!open(&mut sealer, &packet));
        }
    }

    /// A later epoch's packet is believed by that epoch's key, whichever was asked for before.
    #[test]
    fn each_later_epoch_has_a_key_of_its_own() {
        let mut sealer = Sealer::new(SECRET, PERIOD.incarnation, PERIOD.epoch);
        for epoch in [4, 6, 4, 5, 5] {
            assert!(open(&mut sealer, &down(epoch, 0)), "epoch {epoch}");
        }
        assert_eq!(sealer.ahead.map(|(epoch, _)| epoch), Some(5), "derived once for as long as it is asked for");
        let (known, key) = sealer.ahead.expect("it was derived");
        sealer.ahead = Some((known, Key([1, 2])));
        assert!(!open(&mut sealer, &down(5, 0)), "what is known is not derived again");
        sealer.ahead = Some((known, key));
        let mut as_if = down(5, 0);
        Header { epoch: 6, ..Header::read(&as_if).expect("a header") }.write(&mut as_if);
        assert!(!open(&mut sealer, &as_if));
    }

    #[test]
    fn an_epoch_that_is_none_changes_no_key() {
        let mut sealer = Sealer::new(SECRET, PERIOD.incarnation, PERIOD.epoch);
        assert!(open(&mut sealer, &down(3, 1)) && sealer.rotation() == 1);
        for epoch in [2, 3] {
            sealer.raise_epoch(epoch);
            assert_eq!((sealer.rotation(), sealer.period.epoch), (1, 3));
        }
        assert!(open(&mut sealer, &down(4, 0)));
        sealer.raise_epoch(4);
        assert_eq!((sealer.rotation(), sealer.ahead), (0, None));
    }

    fn open(sealer: &mut Sealer, packet: &[u8]) -> bool {
        Header::read(packet).is_ok_and(|header| sealer.open(&header, packet))
    }

    /// Computed by Python's hmac and hashlib.
    #[test]
    fn keys_are_what_others_would_derive() {
        let secret = Secret(core::array::from_fn(|index| index as u8));
        let period = Period { incarnation: 0x0102_0304_0506_0708, epoch: 7, rotation: 5 };
        assert_eq!(secret.key(Direction::Up, period).0, [0x2141_4883_2647_62ff, 0x20fd_9cba_d194_7bb1]);
        assert_eq!(secret.key(Direction::Down, period).0, [0x2f22_a696_8f76_7fd9, 0x3726_926b_1d75_8915]);
    }

    /// Computed by Python's hmac and hashlib.
    #[test]
    fn lifelines_are_what_others_would_derive() {
        let secret = Secret(core::array::from_fn(|index| index as u8));
        assert_eq!(secret.lifeline_of_session(0x0102_0304_0506_0708, 9), 0xc6c2_84cf_293e_4c27);
        assert_eq!(under_lifeline(0x0102_0304_0506_0708, &[b"wayside ", b"told"]), 0x3f7d_c3f9_3a85_8dbf);
    }

    #[test]
    fn every_key_is_another_one() {
        let periods = [
            PERIOD,
            Period { incarnation: 10, ..PERIOD },
            Period { epoch: 4, ..PERIOD },
            Period { rotation: 1, ..PERIOD },
        ];
        let mut keys: Vec<[u64; 2]> = vec![];
        for secret in [SECRET, SECRET.of_session(1, 1), SECRET.of_session(1, 2), SECRET.of_session(2, 1)] {
            for period in periods {
                let Keys { up, down } = secret.keys(period);
                keys.extend([up.0, down.0]);
            }
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn no_bit_of_a_packet_can_change() {
        let mut sealer = Sealer::new(SECRET, 9, 3);
        let signed = down(3, 0);
        assert!(open(&mut sealer, &signed));
        for bit in 0..signed.len() * 8 {
            let mut changed = signed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!open(&mut sealer, &changed), "bit {bit}");
        }
        assert!(!open(&mut sealer, &signed[..entry_at(1)]), "an entry less");
    }

    #[test]
    fn a_node_follows_a_rotation_and_takes_what_was_under_way() {
        let mut sealer = Sealer::new(SECRET, 9, 3);
        assert!(!open(&mut sealer, &down(3, 2)) && !open(&mut sealer, &down(3, 3)), "not before the next");
        for rotation in 1..6 {
            assert!(open(&mut sealer, &down(3, rotation)), "rotation {rotation}");
            assert_eq!(sealer.rotation(), rotation);
            assert!(open(&mut sealer, &down(3, rotation - 1)), "under way");
            assert!(rotation < 2 || !open(&mut sealer, &down(3, rotation - 2)), "long over");
            let mut up = packet(3);
            sealer.seal(&mut up);
            assert!(SECRET.key(Direction::Up, Period { rotation, ..PERIOD }).made_tag(&up));
            assert_eq!(Header::read(&up).unwrap().flags & header_flag::KEY != 0, is_odd(rotation));
        }
    }

    #[test]
    fn a_later_epoch_is_believed_before_the_session_is_in_it() {
        let mut sealer = Sealer::new(SECRET, 9, 3);
        assert!(open(&mut sealer, &down(3, 1)));
        assert!(open(&mut sealer, &down(8, 0)) && open(&mut sealer, &down(3, 1)), "both");
        assert!(!open(&mut sealer, &down(8, 1)), "no rotation begins before this node was heard");
        assert!(!open(&mut sealer, &down(2, 0)), "an epoch that is over");
        sealer.raise_epoch(8);
        assert!(open(&mut sealer, &down(8, 0)) && open(&mut sealer, &down(8, 1)));
        assert!(!open(&mut sealer, &down(3, 1)));
    }

    #[test]
    fn nothing_shows_a_secret() {
        use alloc::format;
        assert_eq!(format!("{SECRET:?} {:?}", SECRET.keys(PERIOD)), "Secret(..) Keys { up: Key(..), down: Key(..) }");
    }
}
