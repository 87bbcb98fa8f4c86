//! A small world whose faults are told instead of drawn: what a fuzzer makes of bytes (crates/fuzz). A seed's world is
//! so large that all of its faults reach nearly everything, a different number of times; this one has hosts, slots and
//! operations as few as it takes for anything to go wrong, and a life as short: three leases with its faults, one
//! without, and until all have come to rest.

use wayside_protocol::controller::{Allocation, Config, Counters, LONGEST_LEASE, Namespace as Rules, Room};
use wayside_protocol::seal::Secret;
use wayside_protocol::{Mutant, Names, NodeConfig};
use wayside_wire::{Engine, kind, limits, service};

use crate::dice::Dice;
use crate::faults::Mix;
use crate::schedule::Kind;
use crate::seat::Namespace;
use crate::setup::{MIXED_POLICIES, PATIENCES, Setup, name};

/// Of every session, and how long the load goes on when all is healed. Microseconds, like all times here.
pub(crate) const LEASE: u64 = 20_000;
/// Of the post of those who share it: a question to the register takes up to 10 ms.
const SERVING: u64 = 40_000;
/// More would make an input slow, and faults meet in pairs.
const FAULTS_MOST: usize = 16;
const FAULT_BYTES: usize = 5;
/// What an input begins with: conditions, operations, which packet is chosen.
const HEAD_BYTES: usize = 4;
/// As many as start in a world's life, and some more: none has to wait for a handle.
const MAX_HANDLE: u16 = 32;

/// A fault that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// At the first occasion of its kind from then on.
    pub at: u64,
    /// Its kind.
    pub kind: Kind,
    /// At so many occasions one after the other.
    pub times: u32,
    /// What is drawn about it follows from this.
    pub choice: u16,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Small {
    conditions: u8,
    operations: u8,
    chosen: (u8, u8, u64),
    faults: Vec<Fault>,
}

/// Bits of an input's first byte.
const SIGNED: u8 = 1;
const STANDBY: u8 = 2;
const KEEPS: u8 = 4;
const AGED: u8 = 8;
const TIGHT: u8 = 16;
const DRIFT: u8 = 32;
const JITTER: u8 = 64;
const THIRD: u8 = 128;

impl Small {
    /// What bytes say: any do. Eight conditions, which operations, the kind of packet of which one is lost with its
    /// copies, which one; and five bytes for each fault: its kind with how often it happens, when, how.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Small {
        let mut head = [0; HEAD_BYTES];
        let there = HEAD_BYTES.min(bytes.len());
        head[..there].copy_from_slice(&bytes[..there]);
        let [conditions, operations, chosen, number] = head;
        let (faults, _) = bytes[there..].as_chunks::<FAULT_BYTES>();
        let mut small = Small { conditions, operations, faults: Vec::new(), chosen: (0, 0, 0) };
        // There are few packets of a kind.
        if let Some(kind) = usize::from(chosen).checked_sub(1) {
            small.chosen = (service::LOCK, CHOSEN[kind % CHOSEN.len()], u64::from(number & 15) + 1);
        }
        let faults = faults.iter().take(FAULTS_MOST).map(|bytes| fault(*bytes));
        small.faults = faults.filter(|fault| small.has(fault.kind)).collect();
        small
    }

    /// What decides all that no byte says.
    #[must_use]
    pub fn seed(&self) -> u64 {
        u64::from(self.operations)
    }

    /// What is to go wrong.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    fn is(&self, condition: u8) -> bool {
        self.conditions & condition != 0
    }

    /// Whether a kind of fault is one in this world.
    fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Flipped | Kind::Forged => self.is(SIGNED),
            Kind::Register | Kind::Drain | Kind::Hand => self.is(STANDBY),
            _ => true,
        }
    }

    /// When nothing goes wrong any more: a lease behind the last fault, as it may take that long to do harm.
    pub(crate) fn heals_at(&self) -> u64 {
        self.faults.iter().map(|fault| fault.at).max().unwrap_or(0).max(LEASE) + LEASE
    }

    /// What the world is made from.
    pub(crate) fn setup(&self, mutant: Option<Mutant>) -> Setup {
        let dice = &mut Dice::of(self.seed(), &[SMALL]);
        let (tight, hosts) = (self.is(TIGHT), if self.is(THIRD) { 3 } else { 2 });
        let namespace = Namespace {
            id: 1,
            slots: dice.between(1, 3) as u32,
            policy: dice.pick(&MIXED_POLICIES),
            patience: dice.pick(&PATIENCES),
            budget: None,
        };
        let mix = self.mix(dice);
        let records = Counters {
            epoch: limits::MAX_EPOCH - 1_000,
            starts: u32::MAX - 1_000,
            incarnation: (1 << 24) - 2,
            handle: MAX_HANDLE - 1,
        };
        let usual = NodeConfig::new(0);
        let few = |few: usize, usual: usize| if tight { few } else { usual };
        let node = NodeConfig {
            kept_most: if self.is(KEEPS) { 4 } else { 0 },
            retransmit_us: 2_000,
            retransmit_most_us: 10_000,
            gap_us: dice.pick(&[300, 5_000]),
            waiters_most: few(1, usual.waiters_most),
            retired_most: few(2, usual.retired_most),
            scanned_most: few(1, usual.scanned_most),
            page_entries: few(1, usual.page_entries),
            requests_most: few(6, usual.requests_most),
            seldom_us: dice.pick(&[0, 5_000]),
            mutant,
            ..usual
        };
        let config = Config {
            namespaces: vec![rules(&namespace)],
            drift_ppm: mix.drift_ppm,
            poll_period: 4_000,
            retransmit: 5_000,
            secret: 1,
            root: self.is(SIGNED).then_some(Secret([7; 32])),
            rotation_period: if self.is(SIGNED) { 30_000 } else { 0 },
            mutant,
            ..Config::default()
        };
        Setup {
            hosts,
            mix,
            namespaces: vec![namespace],
            lease: LEASE,
            authenticated: self.is(SIGNED),
            max_handle: MAX_HANDLE,
            records: self.is(AGED).then_some(records),
            node,
            config,
            queues: Vec::new(),
            lists: Vec::new(),
            spare_queues: 0,
            planned: false,
            parts: 1,
            first_server: usize::MAX,
            calm: false,
            standby: self.is(STANDBY).then_some(SERVING),
            division: None,
        }
    }

    /// Nothing goes wrong by chance.
    fn mix(&self, dice: &mut Dice) -> Mix {
        Mix {
            rates: Vec::new(),
            chosen: self.chosen,
            delay: 100,
            jitter: if self.is(JITTER) { 500 } else { 0 },
            late_by: 2 * LEASE,
            partition_for: 2 * LEASE,
            pause_for: 2 * LEASE,
            store_for: LEASE,
            lifelines: dice.percent(50),
            drift_ppm: if self.is(DRIFT) { 50_000 } else { 0 },
            wildness: 1,
            tenures_left: if self.is(AGED) { 4 } else { 0 },
            packet_time: 0,
            link_queue: 0,
            packets: 0,
            crowd: false,
        }
    }
}

fn rules(namespace: &Namespace) -> Rules {
    Rules {
        id: namespace.id,
        name: name(namespace.id),
        policy: namespace.policy,
        patience: namespace.patience,
        engine: Engine::Fission,
        names: Names::default(),
        allocation: Allocation::Fixed,
        room: Room::default(),
        servers: 1,
        lease: LEASE as u32,
        longest_lease: LONGEST_LEASE,
    }
}

fn fault([what, early, late, high, low]: [u8; FAULT_BYTES]) -> Fault {
    let kind = KINDS[usize::from(what & 31) % KINDS.len()];
    // What befalls a packet may befall several.
    let times = if ONCE.contains(&kind) { 1 } else { 1 << (what >> 5) };
    Fault { at: u16::from_be_bytes([early, late]).into(), kind, times, choice: u16::from_be_bytes([high, low]) }
}

/// Another place in this list is another meaning of a committed input: the corpus is to be found anew then.
const KINDS: [Kind; 22] = [
    Kind::Lost,
    Kind::JoinLost,
    Kind::Duplicated,
    Kind::Replayed,
    Kind::Corrupted,
    Kind::Flipped,
    Kind::Forged,
    Kind::Late,
    Kind::Overlap,
    Kind::Register,
    Kind::Partition,
    Kind::Crash,
    Kind::Pause,
    Kind::Leave,
    Kind::Controller,
    Kind::Switch,
    Kind::Store,
    Kind::Stall,
    Kind::Drain,
    Kind::Hand,
    Kind::Mute,
    Kind::Policy,
];

/// What befalls a host, a switch or a controller.
const ONCE: &[Kind] = KINDS.split_at(10).1;

/// What the third byte of an input may name, each once: as with `KINDS`, another place is another meaning. Seeds draw
/// from the same kinds, a GRANT twice as often (`faults.rs`).
const CHOSEN: [u8; 18] = [
    kind::lock::ACQUIRE,
    kind::lock::GRANT,
    kind::lock::JOIN,
    kind::lock::RELEASE,
    kind::lock::RELEASED,
    kind::lock::CANCEL,
    kind::lock::DOWNGRADE,
    kind::lock::RETENURE,
    kind::lock::RETENURED,
    kind::lock::FREE,
    kind::lock::FREED,
    kind::lock::QUEUE,
    kind::lock::QUEUED,
    kind::lock::GAP,
    kind::lock::CENSUS,
    kind::lock::REPORT,
    kind::lock::ADOPT,
    kind::lock::ADOPTED,
];

/// Purpose of dice.
const SMALL: u64 = 67;
