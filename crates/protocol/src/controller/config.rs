//! What the operator decides.

use crate::memory::Part;
use crate::queue::LULL;
use crate::seal::Secret;
use crate::{Mutant, Names};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use wayside_wire::{Engine, Policy, limits};

/// While slots are swept, or nodes told of deaths, a tick comes this soon. Microseconds.
pub(super) const BUSY_PERIOD: u64 = 1_000;

/// The longest lease that a namespace may allow. Microseconds.
pub const LONGEST_LEASE: u32 = 3_600_000_000;

/// Between attempts to write what the store did not take: each may hold up the controller for as long as the store is
/// waited for. Microseconds.
pub(super) const STORE_PAUSE: u64 = 500_000;

/// Records of ends that are written at a time: of etcd it is one transaction.
pub(super) const ENDS_AT_ONCE: usize = 100;

/// Who decides which locks have their queue in the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// The operator: all stays as it is.
    #[default]
    Fixed,
    /// What was measured: those that are asked for most for each cell that they need.
    Knapsack,
    /// Chance, to compare.
    Random,
}

/// What a namespace's queues may take of the switch's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Cells of all queues.
    pub cells: u32,
    /// Cells of one.
    pub most: u32,
    /// How many there may be.
    pub queues: u32,
}

/// A set of slots with rules of its own; a session belongs to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its id in packets; the switch must have slots for it.
    pub id: u16,
    /// What nodes ask for.
    pub name: String,
    /// Who goes first.
    pub policy: Policy,
    /// How often who waits is overtaken at most: 0 to [`crate::LONGEST_PATIENCE`].
    pub patience: u8,
    /// Who keeps its locks.
    pub engine: Engine,
    /// Of the hybrid engine: which names have their queue in the switch, as long as the epoch lasts.
    pub names: Names,
    /// Of engines that have queues: who decides what is in the switch,
    pub allocation: Allocation,
    /// how much that may be,
    pub room: Room,
    /// and how many parts its names are divided into, each with a lock server. 1 to [`Part::MOST`].
    pub servers: u16,
    /// Lease of a session that asks for none, in microseconds.
    pub lease: u32,
    /// A session that asks for more gets this. After a restart of the switch everybody waits for whoever is silent, of
    /// whatever namespace, until its lease is over. At most [`LONGEST_LEASE`].
    pub longest_lease: u32,
}

/// Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one.
    pub namespaces: Vec<Namespace>,
    /// A session that asks for less gets this.
    pub shortest_lease: u32,
    /// No session has less grace than this, however short its lease. The rule for drift may give it more.
    pub shortest_grace: u32,
    /// How far any clock may drift, in millionths: crystals stay below 100, virtual machines below 1,000.
    pub drift_ppm: u32,
    /// How often node words are polled.
    pub poll_period: u64,
    /// Pause before an unanswered packet is sent again.
    pub retransmit: u64,
    /// How long a handle rests before it is given again.
    pub quarantine: u64,
    /// How often it is planned which locks have their queue in the switch, by what was measured since.
    pub plan_period: u64,
    /// Locks of a namespace that begin to move at a time.
    pub moves_at_once: usize,
    /// For so long a lock whose queue has given its server requests with priorities is not asked back. Microseconds.
    pub lull: u64,
    /// Slots that a tick looks at: 65,536 take about 100 us.
    pub slots_per_tick: u32,
    /// Random: lifelines are made from it where packets are not signed.
    pub secret: u64,
    /// Random: sessions' secrets and lifelines are made from it. `None`: packets are not signed.
    pub root: Option<Secret>,
    /// How long a session's keys sign packets. Microseconds; 0: as long as the session and the epoch last.
    pub rotation_period: u64,
    /// A store without records begins with epochs above it. Taken from a calendar, it keeps tokens rising even if the
    /// records were lost.
    pub first_epoch: u32,
    /// And with incarnations above it, below 2^62. From a calendar it keeps sessions apart: what those of the lost
    /// records send is nobody else's.
    pub first_incarnation: u64,
    /// [`crate::Shards::fingerprint`] of the shards that names are divided among, and of this one; 0: there is one.
    /// That of the records counts, if they know a later map.
    pub shards: u32,
    /// Others have the names that will be this shard's: without records that say otherwise, no session begins.
    pub joins: bool,
    /// A rule to break, for the simulator's own tests.
    pub mutant: Option<Mutant>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            namespaces: Vec::new(),
            shortest_lease: 20_000,
            shortest_grace: 0,
            drift_ppm: 1_000,
            poll_period: 10_000,
            retransmit: 50_000,
            quarantine: 60_000_000,
            plan_period: 1_000_000,
            moves_at_once: 16,
            lull: LULL,
            slots_per_tick: 65_536,
            secret: 0,
            root: None,
            rotation_period: 3_600_000_000,
            first_epoch: 0,
            first_incarnation: 0,
            shards: 0,
            joins: false,
            mutant: None,
        }
    }
}

/// Why a configuration cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No namespace at all.
    NoNamespace,
    /// No lock server, or more than there can be.
    BadServers(String),
    /// Its locks are slots and queues, but none is listed, or what is listed is to change by a plan.
    BadList(String),
    /// Two namespaces share an id or a name.
    Twice(String),
    /// Longer than a packet carries, or empty.
    BadName(String),
    /// Leases of zero, or the shortest above a namespace's longest, or that above [`LONGEST_LEASE`].
    BadLeases,
    /// A period of zero.
    ZeroPeriod,
    /// Clocks that drift by half cannot count leases.
    BadDrift(u32),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::NoNamespace => write!(f, "there must be at least one namespace"),
            ConfigError::BadServers(name) => {
                write!(f, "namespace {name:?}: it has 1 to {} lock servers", Part::MOST)
            }
            ConfigError::BadList(name) => {
                write!(f, "namespace {name:?}: of the hybrid engine some names are listed, and stay so")
            }
            ConfigError::Twice(name) => write!(f, "namespace {name:?}: another one has its name or id"),
            ConfigError::BadName(name) => {
                write!(f, "namespace {name:?}: a name has 1 to {} bytes", limits::MAX_NAMESPACE_BYTES)
            }
            ConfigError::BadLeases => write!(f, "the shortest lease must be above 0 and not above the longest"),
            ConfigError::ZeroPeriod => {
                write!(f, "poll period, plan period, retransmission and slots per tick must be above 0")
            }
            ConfigError::BadDrift(ppm) => write!(f, "a clock drift of {ppm} ppm: must be below 500,000"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Why a switch that runs takes in no other namespace now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unaddable {
    /// With it the configuration could not work.
    Config(ConfigError),
    /// The switch serves, but recovers what nodes hold, or its lease does not run at this moment.
    NotServing,
    /// Another switch hands over to this one: what it sends is of other namespaces.
    TakesOver,
    /// Sessions of the namespace, of a time when there was one, are not over or their handles are at rest: what they
    /// held nobody has asked under this epoch.
    HasSessions,
    /// The switch has no slots for it: why.
    NoRoom(String),
}

impl fmt::Display for Unaddable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unaddable::Config(error) => error.fmt(f),
            Unaddable::NotServing => write!(f, "the switch recovers, or does not serve at this moment: try again"),
            Unaddable::NoRoom(why) => f.write_str(why),
            Unaddable::TakesOver => write!(f, "another switch hands over to this one: try again"),
            Unaddable::HasSessions => {
                write!(f, "sessions that it had before are not forgotten yet: try again in a minute, or start again")
            }
        }
    }
}

impl core::error::Error for Unaddable {}

impl Config {
    pub(super) fn set_policy(&mut self, namespace: u16, policy: Policy, patience: u8) {
        for own in self.namespaces.iter_mut().filter(|own| own.id == namespace) {
            (own.policy, own.patience) = (policy, patience);
        }
    }

    /// With another namespace.
    pub(super) fn with(&self, namespace: &Namespace) -> Config {
        let mut with = self.clone();
        with.namespaces.push(namespace.clone());
        with
    }

    /// Whether it can work.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.namespaces.is_empty() {
            return Err(ConfigError::NoNamespace);
        }
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let name = &namespace.name;
            if name.is_empty() || name.len() > limits::MAX_NAMESPACE_BYTES || name.contains('\0') {
                return Err(ConfigError::BadName(name.clone()));
            }
            if !(1..=Part::MOST).contains(&namespace.servers) {
                return Err(ConfigError::BadServers(name.clone()));
            }
            let is_fixed = namespace.allocation == Allocation::Fixed && !namespace.names.is_empty();
            if namespace.engine == Engine::Hybrid && !is_fixed {
                return Err(ConfigError::BadList(name.clone()));
            }
            if self.namespaces[..index].iter().any(|other| other.id == namespace.id || other.name == *name) {
                return Err(ConfigError::Twice(name.clone()));
            }
        }
        let allowed = self.shortest_lease..=LONGEST_LEASE;
        if self.shortest_lease == 0 || self.namespaces.iter().any(|each| !allowed.contains(&each.longest_lease)) {
            return Err(ConfigError::BadLeases);
        }
        if [self.poll_period, self.retransmit, self.slots_per_tick.into(), self.plan_period].contains(&0) {
            return Err(ConfigError::ZeroPeriod);
        }
        if self.drift_ppm >= 500_000 {
            return Err(ConfigError::BadDrift(self.drift_ppm));
        }
        Ok(())
    }

    /// The lease of a session that asked for `asked` (0: the namespace's), and the grace on top.
    pub(super) fn lease(&self, namespace: &Namespace, asked: u32) -> (u32, u32) {
        let asked = if asked == 0 { namespace.lease } else { asked };
        let lease = asked.clamp(self.shortest_lease, namespace.longest_lease);
        (lease, self.least_grace(lease).max(self.shortest_grace))
    }

    /// What clock drift asks for: the node's lease lasts at most `lease * (1 + drift)`, the controller's count at least
    /// `(lease + grace) * (1 - drift)`.
    pub fn least_grace(&self, lease: u32) -> u32 {
        let drift = u64::from(self.drift_ppm);
        let grace = (u64::from(lease) * 2 * drift).div_ceil(1_000_000 - drift) + self.poll_period;
        grace.min(u32::MAX.into()) as u32
    }

    /// Whether this rule is broken on purpose: never, unless built with the feature `mutants`.
    pub(super) fn is_broken(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }
}
