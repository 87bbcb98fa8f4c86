// SPDX-License-Identifier: Apache-2.0
//! Wayside's packets. Generated from wire/messages.toml by `cargo xtask wire`; do not edit.

/// A number that names nothing in an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(pub u8);

/// The `N` bytes at `at`.
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("long enough")
}

#[inline]
fn array_mut<const N: usize>(bytes: &mut [u8], at: usize) -> &mut [u8; N] {
    bytes[at..].first_chunk_mut().expect("long enough")
}

/// `width` (1 to 63) bits of a word, the lowest at `low`.
const fn bits(word: u64, low: u32, width: u32) -> u64 {
    word >> low & !(!0 << width)
}

const fn with_bits(word: u64, low: u32, width: u32, x: u64) -> u64 {
    word & !(!(!0 << width) << low) | (x & !(!0 << width)) << low
}

/// UDP port of the switch's address.
pub const PORT: u16 = 7600;

/// TCP port of the control connection.
pub const ADMIN_PORT: u16 = 7601;

/// First two bytes of a packet.
pub const MAGIC: u16 = 0x5753;

/// Version; packets of another are dropped.
pub const MAJOR: u8 = 1;

/// Minor version; any is accepted.
pub const MINOR: u8 = 14;

/// The version byte.
pub const VERSION: u8 = MAJOR << 4 | MINOR;

/// Limits.
pub mod limits {

    /// Common header.
    pub const HEADER_BYTES: usize = 32;

    /// One lock entry.
    pub const ENTRY_BYTES: usize = 32;

    /// Lock entries in a packet.
    pub const MAX_ENTRIES: usize = 32;

    /// One block of a value or a name.
    pub const BLOCK_BYTES: usize = 32;

    /// Blocks in a packet.
    pub const MAX_BLOCKS: usize = 30;

    /// Header and 32 entries, or an operation and 30 blocks: below an MTU of 1,280 with IPv6 and UDP.
    pub const MAX_PACKET_BYTES: usize = 1056;

    /// Bounces of a request before its holder is told BUSY with RETRY.
    pub const MAX_HOPS: u16 = 8;

    /// Joins of a tenure: 12 bits.
    pub const MAX_JOINS: u16 = 4095;

    /// A slot that reaches it is frozen.
    pub const MAX_TENURE: u32 = 4294967295;

    /// 23 bits of a token: one restart a second lasts 97 days, one a minute 15 years.
    pub const MAX_EPOCH: u32 = 8388607;

    /// Priority of a request: 0 to 7, and the higher is served earlier.
    pub const MAX_PRIORITY: u8 = 7;

    /// Exclusive grants of an agent within a tenure.
    pub const MAX_SEQUENCE: u8 = 255;

    /// Nodes at a time.
    pub const MAX_HANDLE: u16 = 65535;

    /// The controller.
    pub const CONTROLLER_HANDLE: u16 = 0;

    /// Slot of a census of the whole switch.
    pub const ALL_SLOTS: u32 = 4294967295;

    /// Names of a hybrid namespace that have their queue in the switch.
    pub const MAX_LISTED: usize = 120;

    /// Name of a namespace.
    pub const MAX_NAMESPACE_BYTES: usize = 24;

    /// Host name that a node reports.
    pub const MAX_HOST_BYTES: usize = 32;

    /// A lock's name, checked by clients; packets carry its 64-bit id.
    pub const MAX_LOCK_NAME_BYTES: usize = 1024;

    /// A value.
    pub const MAX_VALUE_BYTES: usize = 128;

    /// A key's name, which an INSERT carries in blocks.
    pub const MAX_KEY_NAME_BYTES: usize = 960;

    /// Switches of a chain.
    pub const MAX_CHAIN: usize = 5;

    /// Longest pause that a REJECT tells: a budget may be another one by then.
    pub const MAX_PAUSE_US: u32 = 1000000;

    /// Writes of a node under way at a time.
    pub const MAX_LANES: usize = 16;
}

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Service {
    /// Sessions.
    Fabric = 0,
    /// Lock fission.
    Lock = 1,
    /// Locks whose queues are in the switch, or at a lock server.
    Queue = 2,
    /// A key-value store, replicated along chains of switches.
    Chain = 3,
}

impl Service {
    /// Every one, in the order of their numbers.
    pub const ALL: [Service; 4] = [Service::Fabric, Service::Lock, Service::Queue, Service::Chain];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Fabric => "fabric",
            Service::Lock => "lock",
            Service::Queue => "queue",
            Service::Chain => "chain",
        }
    }
}

impl TryFrom<u8> for Service {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Service::Fabric),
            1 => Ok(Service::Lock),
            2 => Ok(Service::Queue),
            3 => Ok(Service::Chain),
            _ => Err(Unknown(number)),
        }
    }
}

/// Services by number.
pub mod service {

    /// Sessions.
    pub const FABRIC: u8 = 0;

    /// Lock fission.
    pub const LOCK: u8 = 1;

    /// Locks whose queues are in the switch, or at a lock server.
    pub const QUEUE: u8 = 2;

    /// A key-value store, replicated along chains of switches.
    pub const CHAIN: u8 = 3;
}

/// Kinds by number, per service.
pub mod kind {

    /// Sessions.
    pub mod fabric {

        /// Node to controller: begin a session.
        pub const ENROL: u8 = 1;

        /// Controller to node: the session, or why not.
        pub const ENROLLED: u8 = 2;

        /// Node to switch: alive.
        pub const HEARTBEAT: u8 = 3;

        /// Switch to node: recorded.
        pub const HEARTBEAT_ACK: u8 = 4;

        /// Node to controller: the session ends.
        pub const LEAVE: u8 = 5;

        /// Controller to node: it has ended.
        pub const LEFT: u8 = 6;

        /// Controller to node: the handle in the header's position is dead.
        pub const DOWN: u8 = 7;

        /// Node to controller.
        pub const DOWN_ACK: u8 = 8;

        /// Switch to node: the header's epoch is the current one.
        pub const STALE: u8 = 9;

        /// Controller to node: this switch serves, in this turn of the header's epoch.
        pub const TURN: u8 = 10;

        /// Node to controller.
        pub const TURN_ACK: u8 = 11;

        /// Controller to node, before an ENROLLED of a hybrid namespace: which names have their queue in the switch.
        pub const NAMES: u8 = 12;

        /// Controller to node: the namespace's policy, in the low byte of the header's position, and its patience as in ENROLLED, in the high one.
        pub const POLICY: u8 = 13;

        /// Node to controller.
        pub const POLICY_ACK: u8 = 14;
    }

    /// Lock fission.
    pub mod lock {

        /// Node to switch, switch to agent.
        pub const ACQUIRE: u8 = 1;

        /// Switch or agent to holder.
        pub const GRANT: u8 = 2;

        /// Switch to agent: granted by the switch.
        pub const JOIN: u8 = 3;

        /// Holder to switch to agent.
        pub const RELEASE: u8 = 4;

        /// As release, of a request without a known grant.
        pub const CANCEL: u8 = 5;

        /// Agent or switch to holder.
        pub const RELEASED: u8 = 6;

        /// Holder to switch to agent: exclusive to shared.
        pub const DOWNGRADE: u8 = 7;

        /// Agent to switch: the one conditional change.
        pub const RETENURE: u8 = 8;

        /// Switch to agent: its outcome, with the slot as it is.
        pub const RETENURED: u8 = 9;

        /// Switch or agent to holder: not now.
        pub const BUSY: u8 = 10;

        /// Switch to node: ask again later.
        pub const RECOVERING: u8 = 11;

        /// Old agent to new agent: more waiters.
        pub const QUEUE: u8 = 12;

        /// New agent to old agent: all below position arrived.
        pub const QUEUED: u8 = 13;

        /// To the controller: this slot needs a census.
        pub const GAP: u8 = 14;

        /// Controller to node: what do you hold here?.
        pub const CENSUS: u8 = 15;

        /// Node to controller: a page of holds.
        pub const REPORT: u8 = 16;

        /// Controller to node: be the agent of these holders.
        pub const ADOPT: u8 = 17;

        /// Node to controller: page taken.
        pub const ADOPTED: u8 = 18;

        /// Controller to agent: is this slot still yours?.
        pub const INSPECT: u8 = 19;

        /// Switch to holder: the namespace is over its budget; ask again after a pause.
        pub const REJECT: u8 = 20;

        /// Agent to switch: RETENURE *free* of every entry's slot.
        pub const FREE: u8 = 21;

        /// Switch to agent: those slots as they are now.
        pub const FREED: u8 = 22;
    }

    /// Locks whose queues are in the switch, or at a lock server.
    pub mod queue {

        /// Holder to switch, switch to lock server.
        pub const ACQUIRE: u8 = 1;

        /// Switch or lock server to holder.
        pub const GRANT: u8 = 2;

        /// Switch or lock server to holder: the request waits.
        pub const QUEUED: u8 = 3;

        /// Holder to switch, switch to lock server.
        pub const RELEASE: u8 = 4;

        /// As release, of a request without a known grant.
        pub const CANCEL: u8 = 5;

        /// Switch or lock server to holder: the request is over.
        pub const RELEASED: u8 = 6;

        /// Holder to switch: grant the one behind me.
        pub const NEXT: u8 = 7;

        /// Switch or lock server to holder: not now.
        pub const BUSY: u8 = 8;

        /// Switch to node: ask again later.
        pub const RECOVERING: u8 = 9;

        /// Lock server to switch: take this request into the queue.
        pub const PUSH: u8 = 10;

        /// Lock server to switch: I have nothing more, up to this order.
        pub const SETTLE: u8 = 11;

        /// Switch to lock server: what has been taken.
        pub const PUSHED: u8 = 12;

        /// Switch to lock server: the queue is empty, and you have more.
        pub const ROOM: u8 = 13;

        /// Node to controller: I can be a lock server of the namespace.
        pub const SERVE: u8 = 14;

        /// Controller to node: you are, or another one is.
        pub const SERVING: u8 = 15;

        /// Controller to lock server: cede this lock to the switch.
        pub const RECALL: u8 = 16;

        /// Lock server to controller: nobody holds it, and nobody is granted it here any more.
        pub const CEDED: u8 = 17;

        /// Controller to lock server: this lock is yours from now on.
        pub const YIELD: u8 = 18;

        /// Lock server to controller: I know that it is mine.
        pub const TAKEN: u8 = 19;

        /// Lock server to controller: how often this lock was asked for.
        pub const ASKED: u8 = 20;

        /// Switch to holder: the namespace is over its budget; ask again after a pause.
        pub const REJECT: u8 = 21;

        /// Holder to switch: as acquire; switch to third node: it is granted, and what it asks you for.
        pub const FETCH: u8 = 22;

        /// Third node to switch to holder: the grant, and what it was answered.
        pub const FETCHED: u8 = 23;
    }

    /// A key-value store, replicated along chains of switches.
    pub mod chain {

        /// Client to tail.
        pub const READ: u8 = 1;

        /// Client to head.
        pub const WRITE: u8 = 2;

        /// Client to head.
        pub const DELETE: u8 = 3;

        /// Switch to the next of the chain: have at least this version.
        pub const APPLY: u8 = 4;

        /// Tail, or whoever refuses, to client.
        pub const ANSWER: u8 = 5;

        /// Client to head's daemon: the key of this name is to exist.
        pub const INSERT: u8 = 6;

        /// Daemon to the next switch's daemon: have this key.
        pub const INSTALL: u8 = 7;

        /// Client to daemon: where are the groups from `first` on?.
        pub const MAP: u8 = 8;

        /// Daemon to client: as many as the question had blocks.
        pub const ROUTES: u8 = 9;

        /// Controller to switch: this is your place in a group.
        pub const PLACE: u8 = 10;

        /// Switch to controller: it is.
        pub const PLACED: u8 = 11;

        /// Switch to controller: I am here, and ask for a lease.
        pub const RENEW: u8 = 12;

        /// Controller to switch: the lease.
        pub const RENEWED: u8 = 13;

        /// Joiner to source: what comes after this piece?.
        pub const FETCH: u8 = 14;

        /// Source to joiner: this.
        pub const COPY: u8 = 15;

        /// Client to tail's daemon: what comes after this position?.
        pub const WATCH: u8 = 16;

        /// Tail's daemon to client: this, or that the position is lost.
        pub const EVENT: u8 = 17;

        /// Daemon to the next switch's daemon: this key goes, if it is without a value at this version.
        pub const REMOVE: u8 = 18;

        /// Daemon to the daemon before: it is gone here, and from here on.
        pub const REMOVED: u8 = 19;
    }
}

/// Kinds of the fabric service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FabricKind {
    /// Node to controller: begin a session.
    Enrol = 1,
    /// Controller to node: the session, or why not.
    Enrolled = 2,
    /// Node to switch: alive.
    Heartbeat = 3,
    /// Switch to node: recorded.
    HeartbeatAck = 4,
    /// Node to controller: the session ends.
    Leave = 5,
    /// Controller to node: it has ended.
    Left = 6,
    /// Controller to node: the handle in the header's position is dead.
    Down = 7,
    /// Node to controller.
    DownAck = 8,
    /// Switch to node: the header's epoch is the current one.
    Stale = 9,
    /// Controller to node: this switch serves, in this turn of the header's epoch.
    Turn = 10,
    /// Node to controller.
    TurnAck = 11,
    /// Controller to node, before an ENROLLED of a hybrid namespace: which names have their queue in the switch.
    Names = 12,
    /// Controller to node: the namespace's policy, in the low byte of the header's position, and its patience as in ENROLLED, in the high one.
    Policy = 13,
    /// Node to controller.
    PolicyAck = 14,
}

impl FabricKind {
    /// Every one, in the order of their numbers.
    pub const ALL: [FabricKind; 14] = [
        FabricKind::Enrol,
        FabricKind::Enrolled,
        FabricKind::Heartbeat,
        FabricKind::HeartbeatAck,
        FabricKind::Leave,
        FabricKind::Left,
        FabricKind::Down,
        FabricKind::DownAck,
        FabricKind::Stale,
        FabricKind::Turn,
        FabricKind::TurnAck,
        FabricKind::Names,
        FabricKind::Policy,
        FabricKind::PolicyAck,
    ];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            FabricKind::Enrol => "enrol",
            FabricKind::Enrolled => "enrolled",
            FabricKind::Heartbeat => "heartbeat",
            FabricKind::HeartbeatAck => "heartbeat_ack",
            FabricKind::Leave => "leave",
            FabricKind::Left => "left",
            FabricKind::Down => "down",
            FabricKind::DownAck => "down_ack",
            FabricKind::Stale => "stale",
            FabricKind::Turn => "turn",
            FabricKind::TurnAck => "turn_ack",
            FabricKind::Names => "names",
            FabricKind::Policy => "policy",
            FabricKind::PolicyAck => "policy_ack",
        }
    }
}

impl TryFrom<u8> for FabricKind {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            1 => Ok(FabricKind::Enrol),
            2 => Ok(FabricKind::Enrolled),
            3 => Ok(FabricKind::Heartbeat),
            4 => Ok(FabricKind::HeartbeatAck),
            5 => Ok(FabricKind::Leave),
            6 => Ok(FabricKind::Left),
            7 => Ok(FabricKind::Down),
            8 => Ok(FabricKind::DownAck),
            9 => Ok(FabricKind::Stale),
            10 => Ok(FabricKind::Turn),
            11 => Ok(FabricKind::TurnAck),
            12 => Ok(FabricKind::Names),
            13 => Ok(FabricKind::Policy),
            14 => Ok(FabricKind::PolicyAck),
            _ => Err(Unknown(number)),
        }
    }
}

/// Kinds of the lock service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockKind {
    /// Node to switch, switch to agent.
    Acquire = 1,
    /// Switch or agent to holder.
    Grant = 2,
    /// Switch to agent: granted by the switch.
    Join = 3,
    /// Holder to switch to agent.
    Release = 4,
    /// As release, of a request without a known grant.
    Cancel = 5,
    /// Agent or switch to holder.
    Released = 6,
    /// Holder to switch to agent: exclusive to shared.
    Downgrade = 7,
    /// Agent to switch: the one conditional change.
    Retenure = 8,
    /// Switch to agent: its outcome, with the slot as it is.
    Retenured = 9,
    /// Switch or agent to holder: not now.
    Busy = 10,
    /// Switch to node: ask again later.
    Recovering = 11,
    /// Old agent to new agent: more waiters.
    Queue = 12,
    /// New agent to old agent: all below position arrived.
    Queued = 13,
    /// To the controller: this slot needs a census.
    Gap = 14,
    /// Controller to node: what do you hold here?.
    Census = 15,
    /// Node to controller: a page of holds.
    Report = 16,
    /// Controller to node: be the agent of these holders.
    Adopt = 17,
    /// Node to controller: page taken.
    Adopted = 18,
    /// Controller to agent: is this slot still yours?.
    Inspect = 19,
    /// Switch to holder: the namespace is over its budget; ask again after a pause.
    Reject = 20,
    /// Agent to switch: RETENURE *free* of every entry's slot.
    Free = 21,
    /// Switch to agent: those slots as they are now.
    Freed = 22,
}

impl LockKind {
    /// Every one, in the order of their numbers.
    pub const ALL: [LockKind; 22] = [
        LockKind::Acquire,
        LockKind::Grant,
        LockKind::Join,
        LockKind::Release,
        LockKind::Cancel,
        LockKind::Released,
        LockKind::Downgrade,
        LockKind::Retenure,
        LockKind::Retenured,
        LockKind::Busy,
        LockKind::Recovering,
        LockKind::Queue,
        LockKind::Queued,
        LockKind::Gap,
        LockKind::Census,
        LockKind::Report,
        LockKind::Adopt,
        LockKind::Adopted,
        LockKind::Inspect,
        LockKind::Reject,
        LockKind::Free,
        LockKind::Freed,
    ];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            LockKind::Acquire => "acquire",
            LockKind::Grant => "grant",
            LockKind::Join => "join",
            LockKind::Release => "release",
            LockKind::Cancel => "cancel",
            LockKind::Released => "released",
            LockKind::Downgrade => "downgrade",
            LockKind::Retenure => "retenure",
            LockKind::Retenured => "retenured",
            LockKind::Busy => "busy",
            LockKind::Recovering => "recovering",
            LockKind::Queue => "queue",
            LockKind::Queued => "queued",
            LockKind::Gap => "gap",
            LockKind::Census => "census",
            LockKind::Report => "report",
            LockKind::Adopt => "adopt",
            LockKind::Adopted => "adopted",
            LockKind::Inspect => "inspect",
            LockKind::Reject => "reject",
            LockKind::Free => "free",
            LockKind::Freed => "freed",
        }
    }
}

impl TryFrom<u8> for LockKind {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            1 => Ok(LockKind::Acquire),
            2 => Ok(LockKind::Grant),
            3 => Ok(LockKind::Join),
            4 => Ok(LockKind::Release),
            5 => Ok(LockKind::Cancel),
            6 => Ok(LockKind::Released),
            7 => Ok(LockKind::Downgrade),
            8 => Ok(LockKind::Retenure),
            9 => Ok(LockKind::Retenured),
            10 => Ok(LockKind::Busy),
            11 => Ok(LockKind::Recovering),
            12 => Ok(LockKind::Queue),
            13 => Ok(LockKind::Queued),
            14 => Ok(LockKind::Gap),
            15 => Ok(LockKind::Census),
            16 => Ok(LockKind::Report),
            17 => Ok(LockKind::Adopt),
            18 => Ok(LockKind::Adopted),
            19 => Ok(LockKind::Inspect),
            20 => Ok(LockKind::Reject),
            21 => Ok(LockKind::Free),
            22 => Ok(LockKind::Freed),
            _ => Err(Unknown(number)),
        }
    }
}

/// Kinds of the queue service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum QueueKind {
    /// Holder to switch, switch to lock server.
    Acquire = 1,
    /// Switch or lock server to holder.
    Grant = 2,
    /// Switch or lock server to holder: the request waits.
    Queued = 3,
    /// Holder to switch, switch to lock server.
    Release = 4,
    /// As release, of a request without a known grant.
    Cancel = 5,
    /// Switch or lock server to holder: the request is over.
    Released = 6,
    /// Holder to switch: grant the one behind me.
    Next = 7,
    /// Switch or lock server to holder: not now.
    Busy = 8,
    /// Switch to node: ask again later.
    Recovering = 9,
    /// Lock server to switch: take this request into the queue.
    Push = 10,
    /// Lock server to switch: I have nothing more, up to this order.
    Settle = 11,
    /// Switch to lock server: what has been taken.
    Pushed = 12,
    /// Switch to lock server: the queue is empty, and you have more.
    Room = 13,
    /// Node to controller: I can be a lock server of the namespace.
    Serve = 14,
    /// Controller to node: you are, or another one is.
    Serving = 15,
    /// Controller to lock server: cede this lock to the switch.
    Recall = 16,
    /// Lock server to controller: nobody holds it, and nobody is granted it here any more.
    Ceded = 17,
    /// Controller to lock server: this lock is yours from now on.
    Yield = 18,
    /// Lock server to controller: I know that it is mine.
    Taken = 19,
    /// Lock server to controller: how often this lock was asked for.
    Asked = 20,
    /// Switch to holder: the namespace is over its budget; ask again after a pause.
    Reject = 21,
    /// Holder to switch: as acquire; switch to third node: it is granted, and what it asks you for.
    Fetch = 22,
    /// Third node to switch to holder: the grant, and what it was answered.
    Fetched = 23,
}

impl QueueKind {
    /// Every one, in the order of their numbers.
    pub const ALL: [QueueKind; 23] = [
        QueueKind::Acquire,
        QueueKind::Grant,
        QueueKind::Queued,
        QueueKind::Release,
        QueueKind::Cancel,
        QueueKind::Released,
        QueueKind::Next,
        QueueKind::Busy,
        QueueKind::Recovering,
        QueueKind::Push,
        QueueKind::Settle,
        QueueKind::Pushed,
        QueueKind::Room,
        QueueKind::Serve,
        QueueKind::Serving,
        QueueKind::Recall,
        QueueKind::Ceded,
        QueueKind::Yield,
        QueueKind::Taken,
        QueueKind::Asked,
        QueueKind::Reject,
        QueueKind::Fetch,
        QueueKind::Fetched,
    ];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            QueueKind::Acquire => "acquire",
            QueueKind::Grant => "grant",
            QueueKind::Queued => "queued",
            QueueKind::Release => "release",
            QueueKind::Cancel => "cancel",
            QueueKind::Released => "released",
            QueueKind::Next => "next",
            QueueKind::Busy => "busy",
            QueueKind::Recovering => "recovering",
            QueueKind::Push => "push",
            QueueKind::Settle => "settle",
            QueueKind::Pushed => "pushed",
            QueueKind::Room => "room",
            QueueKind::Serve => "serve",
            QueueKind::Serving => "serving",
            QueueKind::Recall => "recall",
            QueueKind::Ceded => "ceded",
            QueueKind::Yield => "yield",
            QueueKind::Taken => "taken",
            QueueKind::Asked => "asked",
            QueueKind::Reject => "reject",
            QueueKind::Fetch => "fetch",
            QueueKind::Fetched => "fetched",
        }
    }
}

impl TryFrom<u8> for QueueKind {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            1 => Ok(QueueKind::Acquire),
            2 => Ok(QueueKind::Grant),
            3 => Ok(QueueKind::Queued),
            4 => Ok(QueueKind::Release),
            5 => Ok(QueueKind::Cancel),
            6 => Ok(QueueKind::Released),
            7 => Ok(QueueKind::Next),
            8 => Ok(QueueKind::Busy),
            9 => Ok(QueueKind::Recovering),
            10 => Ok(QueueKind::Push),
            11 => Ok(QueueKind::Settle),
            12 => Ok(QueueKind::Pushed),
            13 => Ok(QueueKind::Room),
            14 => Ok(QueueKind::Serve),
            15 => Ok(QueueKind::Serving),
            16 => Ok(QueueKind::Recall),
            17 => Ok(QueueKind::Ceded),
            18 => Ok(QueueKind::Yield),
            19 => Ok(QueueKind::Taken),
            20 => Ok(QueueKind::Asked),
            21 => Ok(QueueKind::Reject),
            22 => Ok(QueueKind::Fetch),
            23 => Ok(QueueKind::Fetched),
            _ => Err(Unknown(number)),
        }
    }
}

/// Kinds of the chain service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChainKind {
    /// Client to tail.
    Read = 1,
    /// Client to head.
    Write = 2,
    /// Client to head.
    Delete = 3,
    /// Switch to the next of the chain: have at least this version.
    Apply = 4,
    /// Tail, or whoever refuses, to client.
    Answer = 5,
    /// Client to head's daemon: the key of this name is to exist.
    Insert = 6,
    /// Daemon to the next switch's daemon: have this key.
    Install = 7,
    /// Client to daemon: where are the groups from `first` on?.
    Map = 8,
    /// Daemon to client: as many as the question had blocks.
    Routes = 9,
    /// Controller to switch: this is your place in a group.
    Place = 10,
    /// Switch to controller: it is.
    Placed = 11,
    /// Switch to controller: I am here, and ask for a lease.
    Renew = 12,
    /// Controller to switch: the lease.
    Renewed = 13,
    /// Joiner to source: what comes after this piece?.
    Fetch = 14,
    /// Source to joiner: this.
    Copy = 15,
    /// Client to tail's daemon: what comes after this position?.
    Watch = 16,
    /// Tail's daemon to client: this, or that the position is lost.
    Event = 17,
    /// Daemon to the next switch's daemon: this key goes, if it is without a value at this version.
    Remove = 18,
    /// Daemon to the daemon before: it is gone here, and from here on.
    Removed = 19,
}

impl ChainKind {
    /// Every one, in the order of their numbers.
    pub const ALL: [ChainKind; 19] = [
        ChainKind::Read,
        ChainKind::Write,
        ChainKind::Delete,
        ChainKind::Apply,
        ChainKind::Answer,
        ChainKind::Insert,
        ChainKind::Install,
        ChainKind::Map,
        ChainKind::Routes,
        ChainKind::Place,
        ChainKind::Placed,
        ChainKind::Renew,
        ChainKind::Renewed,
        ChainKind::Fetch,
        ChainKind::Copy,
        ChainKind::Watch,
        ChainKind::Event,
        ChainKind::Remove,
        ChainKind::Removed,
    ];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ChainKind::Read => "read",
            ChainKind::Write => "write",
            ChainKind::Delete => "delete",
            ChainKind::Apply => "apply",
            ChainKind::Answer => "answer",
            ChainKind::Insert => "insert",
            ChainKind::Install => "install",
            ChainKind::Map => "map",
            ChainKind::Routes => "routes",
            ChainKind::Place => "place",
            ChainKind::Placed => "placed",
            ChainKind::Renew => "renew",
            ChainKind::Renewed => "renewed",
            ChainKind::Fetch => "fetch",
            ChainKind::Copy => "copy",
            ChainKind::Watch => "watch",
            ChainKind::Event => "event",
            ChainKind::Remove => "remove",
            ChainKind::Removed => "removed",
        }
    }
}

impl TryFrom<u8> for ChainKind {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            1 => Ok(ChainKind::Read),
            2 => Ok(ChainKind::Write),
            3 => Ok(ChainKind::Delete),
            4 => Ok(ChainKind::Apply),
            5 => Ok(ChainKind::Answer),
            6 => Ok(ChainKind::Insert),
            7 => Ok(ChainKind::Install),
            8 => Ok(ChainKind::Map),
            9 => Ok(ChainKind::Routes),
            10 => Ok(ChainKind::Place),
            11 => Ok(ChainKind::Placed),
            12 => Ok(ChainKind::Renew),
            13 => Ok(ChainKind::Renewed),
            14 => Ok(ChainKind::Fetch),
            15 => Ok(ChainKind::Copy),
            16 => Ok(ChainKind::Watch),
            17 => Ok(ChainKind::Event),
            18 => Ok(ChainKind::Remove),
            19 => Ok(ChainKind::Removed),
            _ => Err(Unknown(number)),
        }
    }
}

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// As many entries as the header counts.
    Entries,
    /// One [`Enrol`](struct@Enrol).
    Enrol,
    /// One [`Enrolled`](struct@Enrolled).
    Enrolled,
    /// One [`Names`](struct@Names), and as many blocks as the header counts.
    Names,
    /// One [`Heartbeat`](struct@Heartbeat).
    Heartbeat,
    /// One [`Operation`](struct@Operation), and as many blocks as the header counts.
    Operation,
    /// One [`Effect`](struct@Effect), and as many blocks as the header counts.
    Effect,
    /// One [`Routes`](struct@Routes), and as many blocks as the header counts.
    Routes,
    /// One [`Watch`](struct@Watch), and as many blocks as the header counts.
    Watch,
    /// One [`Placement`](struct@Placement), and as many blocks as the header counts.
    Placement,
    /// One [`Renewal`](struct@Renewal), and as many blocks as the header counts.
    Renewal,
    /// One [`Copied`](struct@Copied), and as many blocks as the header counts.
    Copied,
    /// One [`Attempt`](struct@Attempt).
    Attempt,
    /// One [`Fetch`](struct@Fetch), and as many blocks as the header counts.
    Fetch,
}

impl Body {
    /// Bytes after the header.
    pub const fn bytes(self, count: u8) -> usize {
        match self {
            Body::Entries => count as usize * Entry::BYTES,
            Body::Enrol => Enrol::BYTES,
            Body::Enrolled => Enrolled::BYTES,
            Body::Names => Names::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Heartbeat => Heartbeat::BYTES,
            Body::Operation => Operation::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Effect => Effect::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Routes => Routes::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Watch => Watch::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Placement => Placement::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Renewal => Renewal::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Copied => Copied::BYTES + count as usize * limits::BLOCK_BYTES,
            Body::Attempt => Attempt::BYTES,
            Body::Fetch => Fetch::BYTES + count as usize * limits::BLOCK_BYTES,
        }
    }

    /// Whether there may be as many entries or blocks; 0 where there are neither.
    pub const fn count_fits(self, count: u8) -> bool {
        let count = count as usize;
        match self {
            Body::Entries => count >= 1 && count <= limits::MAX_ENTRIES,
            Body::Names
            | Body::Operation
            | Body::Effect
            | Body::Routes
            | Body::Watch
            | Body::Placement
            | Body::Renewal
            | Body::Copied
            | Body::Fetch => count <= limits::MAX_BLOCKS,
            _ => count == 0,
        }
    }
}

impl FabricKind {
    /// What follows the header.
    pub const fn body(self) -> Body {
        match self {
            FabricKind::Enrol => Body::Enrol,
            FabricKind::Enrolled => Body::Enrolled,
            FabricKind::Names => Body::Names,
            FabricKind::Heartbeat
            | FabricKind::HeartbeatAck
            | FabricKind::Leave
            | FabricKind::Left
            | FabricKind::Down
            | FabricKind::DownAck
            | FabricKind::Stale
            | FabricKind::Turn
            | FabricKind::TurnAck
            | FabricKind::Policy
            | FabricKind::PolicyAck => Body::Heartbeat,
        }
    }
}

impl LockKind {
    /// What follows the header.
    pub const fn body(self) -> Body {
        Body::Entries
    }
}

impl QueueKind {
    /// What follows the header.
    pub const fn body(self) -> Body {
        match self {
            QueueKind::Acquire
            | QueueKind::Grant
            | QueueKind::Queued
            | QueueKind::Release
            | QueueKind::Cancel
            | QueueKind::Released
            | QueueKind::Next
            | QueueKind::Busy
            | QueueKind::Recovering
            | QueueKind::Push
            | QueueKind::Settle
            | QueueKind::Pushed
            | QueueKind::Room
            | QueueKind::Serve
            | QueueKind::Serving
            | QueueKind::Recall
            | QueueKind::Ceded
            | QueueKind::Yield
            | QueueKind::Taken
            | QueueKind::Asked
            | QueueKind::Reject => Body::Attempt,
            QueueKind::Fetch | QueueKind::Fetched => Body::Fetch,
        }
    }
}

impl ChainKind {
    /// What follows the header.
    pub const fn body(self) -> Body {
        match self {
            ChainKind::Read | ChainKind::Write | ChainKind::Delete | ChainKind::Insert => Body::Operation,
            ChainKind::Apply | ChainKind::Answer | ChainKind::Install => Body::Effect,
            ChainKind::Map | ChainKind::Routes => Body::Routes,
            ChainKind::Watch | ChainKind::Event => Body::Watch,
            ChainKind::Place | ChainKind::Placed => Body::Placement,
            ChainKind::Renew | ChainKind::Renewed => Body::Renewal,
            ChainKind::Fetch | ChainKind::Copy | ChainKind::Remove | ChainKind::Removed => Body::Copied,
        }
    }
}

/// Header flags.
pub mod header_flag {

    /// RETENURE: a claim.
    pub const CLAIM: u16 = 1 << 0;

    /// RETENURED: the change stands.
    pub const APPLIED: u16 = 1 << 1;

    /// RETENURED: joins differ, or DEAD; ENROLLED: no session; FETCHED: no answer.
    pub const REFUSED: u16 = 1 << 2;

    /// RETENURED: the tenure is over.
    pub const STALE_TENURE: u16 = 1 << 3;

    /// Last page.
    pub const LAST: u16 = 1 << 4;

    /// The node in question is not LIVE.
    pub const DEAD: u16 = 1 << 5;

    /// HEARTBEAT_ACK: the session is over.
    pub const EXPIRED: u16 = 1 << 6;

    /// LEAVE: nothing is left to sweep.
    pub const CLEAN: u16 = 1 << 7;

    /// BUSY: send it again after a pause.
    pub const RETRY: u16 = 1 << 8;

    /// FREE: to be answered only if one of the slots is not freed by it.
    pub const QUIET: u16 = 1 << 10;

    /// The tag is made with the key of an odd rotation; otherwise of an even one.
    pub const KEY: u16 = 1 << 9;
}

/// Entry flags.
pub mod entry_flag {

    /// Mode: exclusive; otherwise shared.
    pub const EXCLUSIVE: u8 = 1 << 0;

    /// ACQUIRE: do not queue.
    pub const TRY: u8 = 1 << 1;

    /// GRANT: the slot's agent is the holder's node from now on.
    pub const AGENCY: u8 = 1 << 2;

    /// GRANT, JOIN, RELEASE: granted by a join, the ordinal is in slot_bits.
    pub const JOINED: u8 = 1 << 3;

    /// REPORT, ADOPT, QUEUE: a hold; otherwise a wait.
    pub const HELD: u8 = 1 << 4;

    /// JOIN: the ordinal's node is not LIVE: no holder.
    pub const DEAD: u8 = 1 << 5;
}

/// Value flags.
pub mod value_flag {

    /// The key has a value.
    pub const PRESENT: u16 = 1 << 0;

    /// WRITE: as long as the writer's session lasts; otherwise: the version is leased, or, without a value, ended a lease.
    pub const LEASED: u16 = 1 << 1;

    /// In a head's memory only: the key is being removed from its chain.
    pub const LEAVING: u16 = 1 << 2;
}

/// Queue flags.
pub mod queue_flag {

    /// Mode: exclusive; otherwise shared.
    pub const EXCLUSIVE: u8 = 1 << 0;

    /// ACQUIRE: do not queue.
    pub const TRY: u8 = 1 << 1;

    /// GRANT: whoever is behind may be granted too: send NEXT.
    pub const MORE: u8 = 1 << 2;
}

/// State of a slot: top two bits of w0 and of slot_bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SlotState {
    /// Nobody.
    Unheld = 0,
    /// The switch grants shared requests itself.
    Open = 1,
    /// The agent decides everything.
    Managed = 2,
    /// The controller does.
    Frozen = 3,
}

impl SlotState {
    /// Every one, in the order of their numbers.
    pub const ALL: [SlotState; 4] = [SlotState::Unheld, SlotState::Open, SlotState::Managed, SlotState::Frozen];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            SlotState::Unheld => "unheld",
            SlotState::Open => "open",
            SlotState::Managed => "managed",
            SlotState::Frozen => "frozen",
        }
    }
}

impl TryFrom<u8> for SlotState {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(SlotState::Unheld),
            1 => Ok(SlotState::Open),
            2 => Ok(SlotState::Managed),
            3 => Ok(SlotState::Frozen),
            _ => Err(Unknown(number)),
        }
    }
}

/// State in a node's word at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum NodeState {
    /// No such node.
    Vacant = 0,
    /// Enrolled.
    Live = 1,
    /// Its session is over.
    Expired = 2,
    /// It is heard no more; its lease may run.
    Dismissed = 3,
}

impl NodeState {
    /// Every one, in the order of their numbers.
    pub const ALL: [NodeState; 4] = [NodeState::Vacant, NodeState::Live, NodeState::Expired, NodeState::Dismissed];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            NodeState::Vacant => "vacant",
            NodeState::Live => "live",
            NodeState::Expired => "expired",
            NodeState::Dismissed => "dismissed",
        }
    }
}

impl TryFrom<u8> for NodeState {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(NodeState::Vacant),
            1 => Ok(NodeState::Live),
            2 => Ok(NodeState::Expired),
            3 => Ok(NodeState::Dismissed),
            _ => Err(Unknown(number)),
        }
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Policy {
    /// First come, first served.
    Fair = 0,
    /// Shared requests join although an exclusive one waits.
    ReadPreferring = 1,
    /// Exclusive waiters before shared ones.
    WritePreferring = 2,
}

impl Policy {
    /// Every one, in the order of their numbers.
    pub const ALL: [Policy; 3] = [Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Fair => "fair",
            Policy::ReadPreferring => "read_preferring",
            Policy::WritePreferring => "write_preferring",
        }
    }
}

impl TryFrom<u8> for Policy {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Policy::Fair),
            1 => Ok(Policy::ReadPreferring),
            2 => Ok(Policy::WritePreferring),
            _ => Err(Unknown(number)),
        }
    }
}

/// Who keeps a namespace's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Engine {
    /// The switch decides, and the node of a holder keeps the books.
    Fission = 0,
    /// Queues in the switch, and a lock server.
    Queue = 1,
    /// Queues for the names that are listed, and lock fission for all others.
    Hybrid = 2,
}

impl Engine {
    /// Every one, in the order of their numbers.
    pub const ALL: [Engine; 3] = [Engine::Fission, Engine::Queue, Engine::Hybrid];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Fission => "fission",
            Engine::Queue => "queue",
            Engine::Hybrid => "hybrid",
        }
    }
}

impl TryFrom<u8> for Engine {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Engine::Fission),
            1 => Ok(Engine::Queue),
            2 => Ok(Engine::Hybrid),
            _ => Err(Unknown(number)),
        }
    }
}

/// Reason in an ENROLLED with REFUSED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Refusal {
    /// Not refused.
    None = 0,
    /// The switch speaks another major version, or the namespace needs a later minor one.
    Version = 1,
    /// No such namespace.
    Namespace = 2,
    /// No free handle.
    Full = 3,
    /// The switch is recovering: ask again.
    Recovering = 4,
    /// The switch divides names among other shards, or is another one of them.
    Shards = 5,
}

impl Refusal {
    /// Every one, in the order of their numbers.
    pub const ALL: [Refusal; 6] =
        [Refusal::None, Refusal::Version, Refusal::Namespace, Refusal::Full, Refusal::Recovering, Refusal::Shards];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::None => "none",
            Refusal::Version => "version",
            Refusal::Namespace => "namespace",
            Refusal::Full => "full",
            Refusal::Recovering => "recovering",
            Refusal::Shards => "shards",
        }
    }
}

impl TryFrom<u8> for Refusal {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Refusal::None),
            1 => Ok(Refusal::Version),
            2 => Ok(Refusal::Namespace),
            3 => Ok(Refusal::Full),
            4 => Ok(Refusal::Recovering),
            5 => Ok(Refusal::Shards),
            _ => Err(Unknown(number)),
        }
    }
}

/// What a write asks of the item that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Condition {
    /// Nothing.
    None = 0,
    /// The key's version is the expected one, and it has a value.
    Version = 1,
    /// The key has no value.
    Absent = 2,
    /// The value's first eight bytes, padded with zeros, are the expected ones; no value counts as zeros.
    Word = 3,
}

impl Condition {
    /// Every one, in the order of their numbers.
    pub const ALL: [Condition; 4] = [Condition::None, Condition::Version, Condition::Absent, Condition::Word];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Condition::None => "none",
            Condition::Version => "version",
            Condition::Absent => "absent",
            Condition::Word => "word",
        }
    }
}

impl TryFrom<u8> for Condition {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Condition::None),
            1 => Ok(Condition::Version),
            2 => Ok(Condition::Absent),
            3 => Ok(Condition::Word),
            _ => Err(Unknown(number)),
        }
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// It was done.
    Done = 0,
    /// The condition does not hold; the value is the one that it met.
    Unmet = 1,
    /// The switch has no such key: INSERT it first.
    Missing = 2,
    /// The value is longer than the packet's blocks; `length` says how long.
    NoRoom = 3,
    /// The group has another epoch, which the header tells, or another head or tail.
    Moved = 4,
    /// Ask again later.
    Recovering = 5,
    /// No room for another key.
    Full = 6,
    /// Another name has this key.
    Collision = 7,
    /// The write was first sent to another chain of the group: whether it has had its effect nobody knows.
    Unsure = 8,
    /// What came after the position is not known any more: read again, and go on from here.
    Reset = 9,
}

impl Outcome {
    /// Every one, in the order of their numbers.
    pub const ALL: [Outcome; 10] = [
        Outcome::Done,
        Outcome::Unmet,
        Outcome::Missing,
        Outcome::NoRoom,
        Outcome::Moved,
        Outcome::Recovering,
        Outcome::Full,
        Outcome::Collision,
        Outcome::Unsure,
        Outcome::Reset,
    ];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Unmet => "unmet",
            Outcome::Missing => "missing",
            Outcome::NoRoom => "no_room",
            Outcome::Moved => "moved",
            Outcome::Recovering => "recovering",
            Outcome::Full => "full",
            Outcome::Collision => "collision",
            Outcome::Unsure => "unsure",
            Outcome::Reset => "reset",
        }
    }
}

impl TryFrom<u8> for Outcome {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Outcome::Done),
            1 => Ok(Outcome::Unmet),
            2 => Ok(Outcome::Missing),
            3 => Ok(Outcome::NoRoom),
            4 => Ok(Outcome::Moved),
            5 => Ok(Outcome::Recovering),
            6 => Ok(Outcome::Full),
            7 => Ok(Outcome::Collision),
            8 => Ok(Outcome::Unsure),
            9 => Ok(Outcome::Reset),
            _ => Err(Unknown(number)),
        }
    }
}

/// What a switch is to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Nothing.
    None = 0,
    /// One of its chain.
    Member = 1,
    /// Its tail, which is read from and takes nothing new.
    Quiet = 2,
    /// One that copies what its tail has.
    Joiner = 3,
}

impl Role {
    /// Every one, in the order of their numbers.
    pub const ALL: [Role; 4] = [Role::None, Role::Member, Role::Quiet, Role::Joiner];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Member => "member",
            Role::Quiet => "quiet",
            Role::Joiner => "joiner",
        }
    }
}

impl TryFrom<u8> for Role {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Role::None),
            1 => Ok(Role::Member),
            2 => Ok(Role::Quiet),
            3 => Ok(Role::Joiner),
            _ => Err(Unknown(number)),
        }
    }
}

/// Of what a WATCH wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Scope {
    /// Of one key.
    Key = 0,
    /// Of keys whose names begin so.
    Prefix = 1,
}

impl Scope {
    /// Every one, in the order of their numbers.
    pub const ALL: [Scope; 2] = [Scope::Key, Scope::Prefix];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Key => "key",
            Scope::Prefix => "prefix",
        }
    }
}

impl TryFrom<u8> for Scope {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Scope::Key),
            1 => Ok(Scope::Prefix),
            _ => Err(Unknown(number)),
        }
    }
}

/// What a COPY has, or a FETCH asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// A key's name, and its first version.
    Name = 0,
    /// What a key has.
    Value = 1,
    /// Nothing comes after.
    End = 2,
}

impl Part {
    /// Every one, in the order of their numbers.
    pub const ALL: [Part; 3] = [Part::Name, Part::Value, Part::End];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Name => "name",
            Part::Value => "value",
            Part::End => "end",
        }
    }
}

impl TryFrom<u8> for Part {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(Part::Name),
            1 => Ok(Part::Value),
            2 => Ok(Part::End),
            _ => Err(Unknown(number)),
        }
    }
}

/// Why a packet was dropped; one counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// Not dropped.
    None = 0,
    /// Shorter than a header.
    TooShort = 1,
    /// Not a Wayside packet.
    BadMagic = 2,
    /// Another major version.
    ForeignVersion = 3,
    /// No such service here.
    UnknownService = 4,
    /// No such kind, or not one for the switch.
    UnknownKind = 5,
    /// Length does not fit kind and count.
    BadLength = 6,
    /// No entries, or too many for the kind.
    BadCount = 7,
    /// No such namespace.
    UnknownNamespace = 8,
    /// Slot beyond the namespace.
    BadSlot = 9,
    /// Source handle is vacant.
    UnknownSource = 10,
    /// Source's session is over.
    SourceNotLive = 11,
    /// Holder is vacant or its session is over.
    HolderNotLive = 12,
    /// Holder of another tenant.
    ForeignHolder = 13,
    /// Request older than the node's oldest, or of another incarnation; FETCHED of one that does not hold.
    StaleRequest = 14,
    /// Epoch is not the switch's (the sender is told, where it is not a copy).
    StaleEpoch = 15,
    /// Destination is vacant or its session is over.
    DestinationNotLive = 16,
    /// Heartbeat sequence not above the recorded one.
    StaleHeartbeat = 17,
    /// A RETENURE to FROZEN, to agent 0, or a transfer to UNHELD; a RELEASE or FETCHED without a ticket, or a FETCH with one; a PUSH of more than was given.
    BadState = 18,
    /// Compare-and-swap lost 8 times in a row: the sender retransmits.
    LostRace = 19,
    /// Authentication failed.
    BadTag = 20,
    /// Won for a holder that had just expired: undone.
    NotGranted = 21,
    /// ENROL as a packet while authentication is on.
    EnrolInClear = 22,
    /// An answer whose receiver has no key: nothing leaves without a tag.
    NoKey = 23,
    /// Heartbeat or FETCHED after the switch's serving lease: another one may serve.
    NotServing = 24,
    /// ACQUIRE of a namespace that has spent its budget: the sender retransmits (it may be told REJECT).
    OverBudget = 25,
    /// No such group here, or not of the sender's namespace.
    UnknownGroup = 26,
    /// Not for a switch at this place of the chain, or not from the one before.
    WrongPlace = 27,
    /// Value longer than its blocks, or than values may be; FETCH or FETCHED with other blocks than its length takes.
    BadValue = 28,
    /// No such lane.
    BadLane = 29,
    /// A lock that is not the switch's, in a namespace without a live lock server.
    NoServer = 30,
    /// What a lock's server says, from another node.
    NotItsServer = 31,
    /// PUSH, SETTLE or FETCHED of a lock that has no queue here.
    NoQueue = 32,
}

impl DropReason {
    /// Every one, in the order of their numbers.
    pub const ALL: [DropReason; 33] = [
        DropReason::None,
        DropReason::TooShort,
        DropReason::BadMagic,
        DropReason::ForeignVersion,
        DropReason::UnknownService,
        DropReason::UnknownKind,
        DropReason::BadLength,
        DropReason::BadCount,
        DropReason::UnknownNamespace,
        DropReason::BadSlot,
        DropReason::UnknownSource,
        DropReason::SourceNotLive,
        DropReason::HolderNotLive,
        DropReason::ForeignHolder,
        DropReason::StaleRequest,
        DropReason::StaleEpoch,
        DropReason::DestinationNotLive,
        DropReason::StaleHeartbeat,
        DropReason::BadState,
        DropReason::LostRace,
        DropReason::BadTag,
        DropReason::NotGranted,
        DropReason::EnrolInClear,
        DropReason::NoKey,
        DropReason::NotServing,
        DropReason::OverBudget,
        DropReason::UnknownGroup,
        DropReason::WrongPlace,
        DropReason::BadValue,
        DropReason::BadLane,
        DropReason::NoServer,
        DropReason::NotItsServer,
        DropReason::NoQueue,
    ];

    /// Its name in the schema, for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::None => "none",
            DropReason::TooShort => "too_short",
            DropReason::BadMagic => "bad_magic",
            DropReason::ForeignVersion => "foreign_version",
            DropReason::UnknownService => "unknown_service",
            DropReason::UnknownKind => "unknown_kind",
            DropReason::BadLength => "bad_length",
            DropReason::BadCount => "bad_count",
            DropReason::UnknownNamespace => "unknown_namespace",
            DropReason::BadSlot => "bad_slot",
            DropReason::UnknownSource => "unknown_source",
            DropReason::SourceNotLive => "source_not_live",
            DropReason::HolderNotLive => "holder_not_live",
            DropReason::ForeignHolder => "foreign_holder",
            DropReason::StaleRequest => "stale_request",
            DropReason::StaleEpoch => "stale_epoch",
            DropReason::DestinationNotLive => "destination_not_live",
            DropReason::StaleHeartbeat => "stale_heartbeat",
            DropReason::BadState => "bad_state",
            DropReason::LostRace => "lost_race",
            DropReason::BadTag => "bad_tag",
            DropReason::NotGranted => "not_granted",
            DropReason::EnrolInClear => "enrol_in_clear",
            DropReason::NoKey => "no_key",
            DropReason::NotServing => "not_serving",
            DropReason::OverBudget => "over_budget",
            DropReason::UnknownGroup => "unknown_group",
            DropReason::WrongPlace => "wrong_place",
            DropReason::BadValue => "bad_value",
            DropReason::BadLane => "bad_lane",
            DropReason::NoServer => "no_server",
            DropReason::NotItsServer => "not_its_server",
            DropReason::NoQueue => "no_queue",
        }
    }
}

impl TryFrom<u8> for DropReason {
    type Error = Unknown;

    fn try_from(number: u8) -> Result<Self, Unknown> {
        match number {
            0 => Ok(DropReason::None),
            1 => Ok(DropReason::TooShort),
            2 => Ok(DropReason::BadMagic),
            3 => Ok(DropReason::ForeignVersion),
            4 => Ok(DropReason::UnknownService),
            5 => Ok(DropReason::UnknownKind),
            6 => Ok(DropReason::BadLength),
            7 => Ok(DropReason::BadCount),
            8 => Ok(DropReason::UnknownNamespace),
            9 => Ok(DropReason::BadSlot),
            10 => Ok(DropReason::UnknownSource),
            11 => Ok(DropReason::SourceNotLive),
            12 => Ok(DropReason::HolderNotLive),
            13 => Ok(DropReason::ForeignHolder),
            14 => Ok(DropReason::StaleRequest),
            15 => Ok(DropReason::StaleEpoch),
            16 => Ok(DropReason::DestinationNotLive),
            17 => Ok(DropReason::StaleHeartbeat),
            18 => Ok(DropReason::BadState),
            19 => Ok(DropReason::LostRace),
            20 => Ok(DropReason::BadTag),
            21 => Ok(DropReason::NotGranted),
            22 => Ok(DropReason::EnrolInClear),
            23 => Ok(DropReason::NoKey),
            24 => Ok(DropReason::NotServing),
            25 => Ok(DropReason::OverBudget),
            26 => Ok(DropReason::UnknownGroup),
            27 => Ok(DropReason::WrongPlace),
            28 => Ok(DropReason::BadValue),
            29 => Ok(DropReason::BadLane),
            30 => Ok(DropReason::NoServer),
            31 => Ok(DropReason::NotItsServer),
            32 => Ok(DropReason::NoQueue),
            _ => Err(Unknown(number)),
        }
    }
}

/// Precedes every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Which service's kinds these are.
    pub service: u8,
    /// The message.
    pub kind: u8,
    /// Lock entries or blocks that follow; 0 where there are none.
    pub count: u8,
    /// Header flags.
    pub flags: u16,
    /// Handle of the sender; of the agent in a switch's GRANT by join.
    pub source: u16,
    /// Handle of the receiver; 0 to the switch or the controller.
    pub destination: u16,
    /// Boot epoch of the switch (23 bits used); of a chain's packet: the group's.
    pub epoch: u32,
    /// Of ENROL and ENROLLED: fingerprint of the shards that names are divided among, and of the one that is asked; 0: there is one.
    pub shard_map: u32,
    /// Namespace of the slots.
    pub namespace: u16,
    /// Hops of a request; offset or total of waiters; page of a report; dead handle of a DOWN; owner's handle of a leased version; engine of an ENROLLED.
    pub position: u16,
    /// SipHash-2-4 over the packet with this field as 0; 0 while authentication is off.
    pub tag: u64,
}

impl Header {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub(crate) fn read_fields(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 32] = array(packet, at);
        Header {
            service: bytes[3],
            kind: bytes[4],
            count: bytes[5],
            flags: u16::from_be_bytes(*array(bytes, 6)),
            source: u16::from_be_bytes(*array(bytes, 8)),
            destination: u16::from_be_bytes(*array(bytes, 10)),
            epoch: u32::from_be_bytes(*array(bytes, 12)),
            shard_map: u32::from_be_bytes(*array(bytes, 16)),
            namespace: u16::from_be_bytes(*array(bytes, 20)),
            position: u16::from_be_bytes(*array(bytes, 22)),
            tag: u64::from_be_bytes(*array(bytes, 24)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub(crate) fn write_fields(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 32] = array_mut(packet, at);
        *array_mut(bytes, 0) = MAGIC.to_be_bytes();
        *array_mut(bytes, 2) = VERSION.to_be_bytes();
        *array_mut(bytes, 3) = self.service.to_be_bytes();
        *array_mut(bytes, 4) = self.kind.to_be_bytes();
        *array_mut(bytes, 5) = self.count.to_be_bytes();
        *array_mut(bytes, 6) = self.flags.to_be_bytes();
        *array_mut(bytes, 8) = self.source.to_be_bytes();
        *array_mut(bytes, 10) = self.destination.to_be_bytes();
        *array_mut(bytes, 12) = self.epoch.to_be_bytes();
        *array_mut(bytes, 16) = self.shard_map.to_be_bytes();
        *array_mut(bytes, 20) = self.namespace.to_be_bytes();
        *array_mut(bytes, 22) = self.position.to_be_bytes();
        *array_mut(bytes, 24) = self.tag.to_be_bytes();
    }
}

/// One request, grant, hold, waiter or change of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Name id; of a census of the whole switch: fingerprint of the names that are listed in a hybrid namespace.
    pub name: u64,
    /// Request id; nonce of a RETENURE or FREE; id of a census.
    pub request: u64,
    /// Slot within the namespace.
    pub slot: u32,
    /// Tenure of the slot (of the grant, of the condition); REJECT: for how long not to ask again, in microseconds.
    pub tenure: u32,
    /// Handle of the requester; the agent after a RETENURE.
    pub holder: u16,
    /// UDP port of the requester's thread, stamped by the switch; 0: its agent port.
    pub reply_port: u16,
    /// State (2 bits), transferred (1), tryable (1), joins or ordinal (12).
    pub slot_bits: u16,
    /// Entry flags.
    pub flags: u8,
    /// Agent's sequence of the token; ACQUIRE, and whoever waits: priority, xor 4 (low 3 bits), and how often it was overtaken (5 bits); of a census of the whole switch: the namespace's engine.
    pub sequence: u8,
}

impl Entry {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 32] = array(packet, at);
        Entry {
            name: u64::from_be_bytes(*array(bytes, 0)),
            request: u64::from_be_bytes(*array(bytes, 8)),
            slot: u32::from_be_bytes(*array(bytes, 16)),
            tenure: u32::from_be_bytes(*array(bytes, 20)),
            holder: u16::from_be_bytes(*array(bytes, 24)),
            reply_port: u16::from_be_bytes(*array(bytes, 26)),
            slot_bits: u16::from_be_bytes(*array(bytes, 28)),
            flags: bytes[30],
            sequence: bytes[31],
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 32] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.name.to_be_bytes();
        *array_mut(bytes, 8) = self.request.to_be_bytes();
        *array_mut(bytes, 16) = self.slot.to_be_bytes();
        *array_mut(bytes, 20) = self.tenure.to_be_bytes();
        *array_mut(bytes, 24) = self.holder.to_be_bytes();
        *array_mut(bytes, 26) = self.reply_port.to_be_bytes();
        *array_mut(bytes, 28) = self.slot_bits.to_be_bytes();
        *array_mut(bytes, 30) = self.flags.to_be_bytes();
        *array_mut(bytes, 31) = self.sequence.to_be_bytes();
    }
}

/// Body of ENROL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enrol {
    /// Of this attempt; a repeated one gets the same answer.
    pub nonce: u64,
    /// Process id, for people.
    pub pid: u32,
    /// Lease asked for; 0: the namespace's. In us.
    pub lease_us: u32,
    /// UTF-8, padded with zeros.
    pub namespace_name: [u8; 24],
    /// UTF-8, padded with zeros.
    pub host: [u8; 32],
}

impl Enrol {
    /// Its length.
    pub const BYTES: usize = 80;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 80] = array(packet, at);
        Enrol {
            nonce: u64::from_be_bytes(*array(bytes, 0)),
            pid: u32::from_be_bytes(*array(bytes, 8)),
            lease_us: u32::from_be_bytes(*array(bytes, 12)),
            namespace_name: *array(bytes, 16),
            host: *array(bytes, 40),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 80] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.nonce.to_be_bytes();
        *array_mut(bytes, 8) = self.pid.to_be_bytes();
        *array_mut(bytes, 12) = self.lease_us.to_be_bytes();
        *array_mut(bytes, 16) = self.namespace_name;
        *array_mut(bytes, 40) = self.host;
        *array_mut(bytes, 72) = [0; 8];
    }
}

/// Body of ENROLLED. The handle is the header's destination, the namespace's id in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enrolled {
    /// Of the ENROL.
    pub nonce: u64,
    /// Cluster-wide count of enrolments.
    pub incarnation: u64,
    /// Lease of the session. In us.
    pub lease_us: u32,
    /// What the controller adds to it. In us.
    pub grace_us: u32,
    /// Slots of the namespace.
    pub slots: u32,
    /// 0 fair, 1 read-preferring, 2 write-preferring.
    pub policy: u8,
    /// With REFUSED: why.
    pub reason: u8,
    /// Version that the switch speaks.
    pub version: u8,
    /// 1 + how often who waits is overtaken at most; 0: not said, 8.
    pub patience: u8,
    /// Secret that ties the local connection to this session.
    pub lifeline: u64,
}

impl Enrolled {
    /// Its length.
    pub const BYTES: usize = 40;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 40] = array(packet, at);
        Enrolled {
            nonce: u64::from_be_bytes(*array(bytes, 0)),
            incarnation: u64::from_be_bytes(*array(bytes, 8)),
            lease_us: u32::from_be_bytes(*array(bytes, 16)),
            grace_us: u32::from_be_bytes(*array(bytes, 20)),
            slots: u32::from_be_bytes(*array(bytes, 24)),
            policy: bytes[28],
            reason: bytes[29],
            version: bytes[30],
            patience: bytes[31],
            lifeline: u64::from_be_bytes(*array(bytes, 32)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 40] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.nonce.to_be_bytes();
        *array_mut(bytes, 8) = self.incarnation.to_be_bytes();
        *array_mut(bytes, 16) = self.lease_us.to_be_bytes();
        *array_mut(bytes, 20) = self.grace_us.to_be_bytes();
        *array_mut(bytes, 24) = self.slots.to_be_bytes();
        *array_mut(bytes, 28) = self.policy.to_be_bytes();
        *array_mut(bytes, 29) = self.reason.to_be_bytes();
        *array_mut(bytes, 30) = self.version.to_be_bytes();
        *array_mut(bytes, 31) = self.patience.to_be_bytes();
        *array_mut(bytes, 32) = self.lifeline.to_be_bytes();
    }
}

/// Which names of a hybrid namespace have their queue in the switch, for as long as its epoch lasts: four in each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of the ENROL.
    pub nonce: u64,
    /// Of all of them.
    pub fingerprint: u64,
    /// How many there are.
    pub listed: u16,
}

impl Names {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Names {
            nonce: u64::from_be_bytes(*array(bytes, 0)),
            fingerprint: u64::from_be_bytes(*array(bytes, 8)),
            listed: u16::from_be_bytes(*array(bytes, 16)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.nonce.to_be_bytes();
        *array_mut(bytes, 8) = self.fingerprint.to_be_bytes();
        *array_mut(bytes, 16) = self.listed.to_be_bytes();
        *array_mut(bytes, 18) = [0; 46];
    }
}

/// A block of NAMES: name ids, which rise. Those behind the last are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Name id.
    pub first: u64,
    /// Name id.
    pub second: u64,
    /// Name id.
    pub third: u64,
    /// Name id.
    pub fourth: u64,
}

impl Listed {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 32] = array(packet, at);
        Listed {
            first: u64::from_be_bytes(*array(bytes, 0)),
            second: u64::from_be_bytes(*array(bytes, 8)),
            third: u64::from_be_bytes(*array(bytes, 16)),
            fourth: u64::from_be_bytes(*array(bytes, 24)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 32] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.first.to_be_bytes();
        *array_mut(bytes, 8) = self.second.to_be_bytes();
        *array_mut(bytes, 16) = self.third.to_be_bytes();
        *array_mut(bytes, 24) = self.fourth.to_be_bytes();
    }
}

/// Body of HEARTBEAT, HEARTBEAT_ACK, LEAVE, LEFT, DOWN, DOWN_ACK, STALE, TURN, TURN_ACK, POLICY and POLICY_ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Of the heartbeat (56 bits), or of the DOWN; of a TURN: the turn, or 0; of a POLICY: the number of the change.
    pub sequence: u64,
    /// Oldest outstanding request id; of a DOWN: unused.
    pub oldest: u64,
    /// Sender's clock, given back by the acknowledgement. In us.
    pub sent_us: u64,
    /// Of the session meant.
    pub incarnation: u64,
}

impl Heartbeat {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 32] = array(packet, at);
        Heartbeat {
            sequence: u64::from_be_bytes(*array(bytes, 0)),
            oldest: u64::from_be_bytes(*array(bytes, 8)),
            sent_us: u64::from_be_bytes(*array(bytes, 16)),
            incarnation: u64::from_be_bytes(*array(bytes, 24)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 32] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.sequence.to_be_bytes();
        *array_mut(bytes, 8) = self.oldest.to_be_bytes();
        *array_mut(bytes, 16) = self.sent_us.to_be_bytes();
        *array_mut(bytes, 24) = self.incarnation.to_be_bytes();
    }
}

/// What a client asks of the chain of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// High half of the 128-bit hash of namespace and name.
    pub key_high: u64,
    /// Low half of it.
    pub key_low: u64,
    /// Request id: of a write, one effect per (client, request).
    pub request: u64,
    /// With a condition: sequence of the version expected, or the value's first eight bytes.
    pub expected: u64,
    /// Epoch of the version expected.
    pub expected_epoch: u32,
    /// Virtual group of the key.
    pub group: u16,
    /// Handle of the client.
    pub client: u16,
    /// UDP port of the client's thread, stamped by the switch; 0: its agent port.
    pub reply_port: u16,
    /// Bytes of the value, or of the name of an INSERT.
    pub length: u16,
    /// Which of the client's writes under way: one at a time in each.
    pub lane: u8,
    /// What must hold of the item.
    pub condition: u8,
    /// Value flags.
    pub flags: u16,
    /// 47 further bits of the hash: two names of one key differ here.
    pub check: u64,
    /// Of a write that was first sent under another epoch of its group: that one; otherwise 0.
    pub first_epoch: u32,
}

impl Operation {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Operation {
            key_high: u64::from_be_bytes(*array(bytes, 0)),
            key_low: u64::from_be_bytes(*array(bytes, 8)),
            request: u64::from_be_bytes(*array(bytes, 16)),
            expected: u64::from_be_bytes(*array(bytes, 24)),
            expected_epoch: u32::from_be_bytes(*array(bytes, 32)),
            group: u16::from_be_bytes(*array(bytes, 36)),
            client: u16::from_be_bytes(*array(bytes, 38)),
            reply_port: u16::from_be_bytes(*array(bytes, 40)),
            length: u16::from_be_bytes(*array(bytes, 42)),
            lane: bytes[44],
            condition: bytes[45],
            flags: u16::from_be_bytes(*array(bytes, 46)),
            check: u64::from_be_bytes(*array(bytes, 48)),
            first_epoch: u32::from_be_bytes(*array(bytes, 56)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.key_high.to_be_bytes();
        *array_mut(bytes, 8) = self.key_low.to_be_bytes();
        *array_mut(bytes, 16) = self.request.to_be_bytes();
        *array_mut(bytes, 24) = self.expected.to_be_bytes();
        *array_mut(bytes, 32) = self.expected_epoch.to_be_bytes();
        *array_mut(bytes, 36) = self.group.to_be_bytes();
        *array_mut(bytes, 38) = self.client.to_be_bytes();
        *array_mut(bytes, 40) = self.reply_port.to_be_bytes();
        *array_mut(bytes, 42) = self.length.to_be_bytes();
        *array_mut(bytes, 44) = self.lane.to_be_bytes();
        *array_mut(bytes, 45) = self.condition.to_be_bytes();
        *array_mut(bytes, 46) = self.flags.to_be_bytes();
        *array_mut(bytes, 48) = self.check.to_be_bytes();
        *array_mut(bytes, 56) = self.first_epoch.to_be_bytes();
        *array_mut(bytes, 60) = [0; 4];
    }
}

/// What became of an operation: from switch to switch, and to the client. The same fields at the same places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// High half of the 128-bit hash of namespace and name.
    pub key_high: u64,
    /// Low half of it.
    pub key_low: u64,
    /// Request id of the operation.
    pub request: u64,
    /// Of the item's version, which the value is of.
    pub sequence: u64,
    /// Of the item's version.
    pub epoch: u32,
    /// Virtual group of the key.
    pub group: u16,
    /// Handle of the client.
    pub client: u16,
    /// UDP port of the client's thread; 0: its agent port.
    pub reply_port: u16,
    /// Bytes of the value, or of the name of an INSTALL.
    pub length: u16,
    /// Which of the client's writes under way.
    pub lane: u8,
    /// What became of it.
    pub outcome: u8,
    /// Value flags.
    pub flags: u16,
    /// Of the version that this operation made, or met.
    pub own_sequence: u64,
    /// Of that version.
    pub own_epoch: u32,
    /// Of a leased version: low half of its owner's incarnation; the header's position has the handle.
    pub owner: u32,
}

impl Effect {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Effect {
            key_high: u64::from_be_bytes(*array(bytes, 0)),
            key_low: u64::from_be_bytes(*array(bytes, 8)),
            request: u64::from_be_bytes(*array(bytes, 16)),
            sequence: u64::from_be_bytes(*array(bytes, 24)),
            epoch: u32::from_be_bytes(*array(bytes, 32)),
            group: u16::from_be_bytes(*array(bytes, 36)),
            client: u16::from_be_bytes(*array(bytes, 38)),
            reply_port: u16::from_be_bytes(*array(bytes, 40)),
            length: u16::from_be_bytes(*array(bytes, 42)),
            lane: bytes[44],
            outcome: bytes[45],
            flags: u16::from_be_bytes(*array(bytes, 46)),
            own_sequence: u64::from_be_bytes(*array(bytes, 48)),
            own_epoch: u32::from_be_bytes(*array(bytes, 56)),
            owner: u32::from_be_bytes(*array(bytes, 60)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.key_high.to_be_bytes();
        *array_mut(bytes, 8) = self.key_low.to_be_bytes();
        *array_mut(bytes, 16) = self.request.to_be_bytes();
        *array_mut(bytes, 24) = self.sequence.to_be_bytes();
        *array_mut(bytes, 32) = self.epoch.to_be_bytes();
        *array_mut(bytes, 36) = self.group.to_be_bytes();
        *array_mut(bytes, 38) = self.client.to_be_bytes();
        *array_mut(bytes, 40) = self.reply_port.to_be_bytes();
        *array_mut(bytes, 42) = self.length.to_be_bytes();
        *array_mut(bytes, 44) = self.lane.to_be_bytes();
        *array_mut(bytes, 45) = self.outcome.to_be_bytes();
        *array_mut(bytes, 46) = self.flags.to_be_bytes();
        *array_mut(bytes, 48) = self.own_sequence.to_be_bytes();
        *array_mut(bytes, 56) = self.own_epoch.to_be_bytes();
        *array_mut(bytes, 60) = self.owner.to_be_bytes();
    }
}

/// Where the groups of a namespace are: a page, with a route in each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The page's first group, counted within the namespace.
    pub first: u16,
    /// Number of the namespace's first group.
    pub base: u16,
    /// Groups of the namespace.
    pub groups: u16,
}

impl Routes {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Routes {
            first: u16::from_be_bytes(*array(bytes, 0)),
            base: u16::from_be_bytes(*array(bytes, 2)),
            groups: u16::from_be_bytes(*array(bytes, 4)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.first.to_be_bytes();
        *array_mut(bytes, 2) = self.base.to_be_bytes();
        *array_mut(bytes, 4) = self.groups.to_be_bytes();
        *array_mut(bytes, 6) = [0; 58];
    }
}

/// Where a group is. All zeros: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Of the group's chain.
    pub epoch: u32,
    /// IPv4 address of the switch that takes writes.
    pub head_address: u32,
    /// IPv4 address of the switch that is read from.
    pub tail_address: u32,
    /// Its UDP port.
    pub head_port: u16,
    /// Its UDP port.
    pub tail_port: u16,
}

impl Route {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 32] = array(packet, at);
        Route {
            epoch: u32::from_be_bytes(*array(bytes, 0)),
            head_address: u32::from_be_bytes(*array(bytes, 4)),
            tail_address: u32::from_be_bytes(*array(bytes, 8)),
            head_port: u16::from_be_bytes(*array(bytes, 12)),
            tail_port: u16::from_be_bytes(*array(bytes, 14)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 32] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.epoch.to_be_bytes();
        *array_mut(bytes, 4) = self.head_address.to_be_bytes();
        *array_mut(bytes, 8) = self.tail_address.to_be_bytes();
        *array_mut(bytes, 12) = self.head_port.to_be_bytes();
        *array_mut(bytes, 14) = self.tail_port.to_be_bytes();
        *array_mut(bytes, 16) = [0; 16];
    }
}

/// What a client wants to hear of a group from a position on; given back with the position after what is told. Where an operation has the same, its fields are at the same places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// High half of the key's hash; of a prefix: zero.
    pub key_high: u64,
    /// Low half of it.
    pub key_low: u64,
    /// Request id of the question; given back.
    pub request: u64,
    /// Position within the history.
    pub number: u64,
    /// Of what the client wants to hear.
    pub scope: u8,
    /// EVENT: `done`, `reset` or `full`.
    pub outcome: u8,
    /// EVENT: changes in the blocks.
    pub changes: u16,
    /// Virtual group.
    pub group: u16,
    /// Handle of the client.
    pub client: u16,
    /// UDP port of the client's thread, stamped by the switch; 0: its agent port.
    pub reply_port: u16,
    /// WATCH: bytes of the prefix that the blocks begin with.
    pub length: u16,
    /// 47 further bits of the key's hash.
    pub check: u64,
    /// Which history the number is of; 0: of none yet, from now on.
    pub history: u64,
}

impl Watch {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Watch {
            key_high: u64::from_be_bytes(*array(bytes, 0)),
            key_low: u64::from_be_bytes(*array(bytes, 8)),
            request: u64::from_be_bytes(*array(bytes, 16)),
            number: u64::from_be_bytes(*array(bytes, 24)),
            scope: bytes[32],
            outcome: bytes[33],
            changes: u16::from_be_bytes(*array(bytes, 34)),
            group: u16::from_be_bytes(*array(bytes, 36)),
            client: u16::from_be_bytes(*array(bytes, 38)),
            reply_port: u16::from_be_bytes(*array(bytes, 40)),
            length: u16::from_be_bytes(*array(bytes, 42)),
            check: u64::from_be_bytes(*array(bytes, 48)),
            history: u64::from_be_bytes(*array(bytes, 56)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.key_high.to_be_bytes();
        *array_mut(bytes, 8) = self.key_low.to_be_bytes();
        *array_mut(bytes, 16) = self.request.to_be_bytes();
        *array_mut(bytes, 24) = self.number.to_be_bytes();
        *array_mut(bytes, 32) = self.scope.to_be_bytes();
        *array_mut(bytes, 33) = self.outcome.to_be_bytes();
        *array_mut(bytes, 34) = self.changes.to_be_bytes();
        *array_mut(bytes, 36) = self.group.to_be_bytes();
        *array_mut(bytes, 38) = self.client.to_be_bytes();
        *array_mut(bytes, 40) = self.reply_port.to_be_bytes();
        *array_mut(bytes, 42) = self.length.to_be_bytes();
        *array_mut(bytes, 44) = [0; 4];
        *array_mut(bytes, 48) = self.check.to_be_bytes();
        *array_mut(bytes, 56) = self.history.to_be_bytes();
    }
}

/// A version that a key has got. The name follows, padded to whole blocks, then the value likewise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Of the version.
    pub sequence: u64,
    /// Of the version that the key had before.
    pub before_sequence: u64,
    /// Of the version.
    pub epoch: u32,
    /// Of the version before.
    pub before_epoch: u32,
    /// Bytes of the value.
    pub length: u16,
    /// Bytes of the name; 0: of the key that is watched, or not known.
    pub name_length: u16,
    /// Value flags.
    pub flags: u16,
    /// `name`: the value follows in the next EVENT; `value`: the name is told, or has been.
    pub part: u8,
}

impl Change {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 32] = array(packet, at);
        Change {
            sequence: u64::from_be_bytes(*array(bytes, 0)),
            before_sequence: u64::from_be_bytes(*array(bytes, 8)),
            epoch: u32::from_be_bytes(*array(bytes, 16)),
            before_epoch: u32::from_be_bytes(*array(bytes, 20)),
            length: u16::from_be_bytes(*array(bytes, 24)),
            name_length: u16::from_be_bytes(*array(bytes, 26)),
            flags: u16::from_be_bytes(*array(bytes, 28)),
            part: bytes[30],
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 32] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.sequence.to_be_bytes();
        *array_mut(bytes, 8) = self.before_sequence.to_be_bytes();
        *array_mut(bytes, 16) = self.epoch.to_be_bytes();
        *array_mut(bytes, 20) = self.before_epoch.to_be_bytes();
        *array_mut(bytes, 24) = self.length.to_be_bytes();
        *array_mut(bytes, 26) = self.name_length.to_be_bytes();
        *array_mut(bytes, 28) = self.flags.to_be_bytes();
        *array_mut(bytes, 30) = self.part.to_be_bytes();
        *array_mut(bytes, 31) = [0; 1];
    }
}

/// A switch's place in a group, and where clients find the group. All of it is given back when it is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Of the switch meant: one that has begun anew since is another.
    pub boot: u64,
    /// Of a joiner: which copying this is; given back when it has all.
    pub pass: u64,
    /// Of the group's configuration.
    pub epoch: u32,
    /// Virtual group.
    pub group: u16,
    /// Handle of the switch before; 0: head.
    pub previous: u16,
    /// Handle of the switch after; 0: tail.
    pub next: u16,
    /// Of a joiner: whom to copy from.
    pub source: u16,
    /// What the switch is to the group.
    pub role: u8,
    /// Of the answer: 1, it cannot be.
    pub refused: u8,
    /// UDP port of the switch that takes writes.
    pub head_port: u16,
    /// Its IPv4 address.
    pub head_address: u32,
    /// IPv4 address of the switch that is read from.
    pub tail_address: u32,
    /// Its UDP port.
    pub tail_port: u16,
}

impl Placement {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Placement {
            boot: u64::from_be_bytes(*array(bytes, 0)),
            pass: u64::from_be_bytes(*array(bytes, 8)),
            epoch: u32::from_be_bytes(*array(bytes, 16)),
            group: u16::from_be_bytes(*array(bytes, 20)),
            previous: u16::from_be_bytes(*array(bytes, 22)),
            next: u16::from_be_bytes(*array(bytes, 24)),
            source: u16::from_be_bytes(*array(bytes, 26)),
            role: bytes[28],
            refused: bytes[29],
            head_port: u16::from_be_bytes(*array(bytes, 30)),
            head_address: u32::from_be_bytes(*array(bytes, 32)),
            tail_address: u32::from_be_bytes(*array(bytes, 36)),
            tail_port: u16::from_be_bytes(*array(bytes, 40)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.boot.to_be_bytes();
        *array_mut(bytes, 8) = self.pass.to_be_bytes();
        *array_mut(bytes, 16) = self.epoch.to_be_bytes();
        *array_mut(bytes, 20) = self.group.to_be_bytes();
        *array_mut(bytes, 22) = self.previous.to_be_bytes();
        *array_mut(bytes, 24) = self.next.to_be_bytes();
        *array_mut(bytes, 26) = self.source.to_be_bytes();
        *array_mut(bytes, 28) = self.role.to_be_bytes();
        *array_mut(bytes, 29) = self.refused.to_be_bytes();
        *array_mut(bytes, 30) = self.head_port.to_be_bytes();
        *array_mut(bytes, 32) = self.head_address.to_be_bytes();
        *array_mut(bytes, 36) = self.tail_address.to_be_bytes();
        *array_mut(bytes, 40) = self.tail_port.to_be_bytes();
        *array_mut(bytes, 42) = [0; 22];
    }
}

/// A switch's serving lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Of the switch: higher each time that it begins with an empty memory.
    pub boot: u64,
    /// The switch's clock when it asked, from which the lease runs; given back. In us.
    pub sent_us: u64,
    /// How long it lasts. In us.
    pub lease_us: u32,
    /// 0; for what may have to be said later.
    pub refused: u8,
}

impl Renewal {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Renewal {
            boot: u64::from_be_bytes(*array(bytes, 0)),
            sent_us: u64::from_be_bytes(*array(bytes, 8)),
            lease_us: u32::from_be_bytes(*array(bytes, 16)),
            refused: bytes[20],
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.boot.to_be_bytes();
        *array_mut(bytes, 8) = self.sent_us.to_be_bytes();
        *array_mut(bytes, 16) = self.lease_us.to_be_bytes();
        *array_mut(bytes, 20) = self.refused.to_be_bytes();
        *array_mut(bytes, 21) = [0; 43];
    }
}

/// A piece of a group's memory, or the question for what comes after a key; `length` 0: for the first. Also a key that goes, with the version at which it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// High half of the piece's key.
    pub key_high: u64,
    /// Low half of it.
    pub key_low: u64,
    /// Of the question; given back. REMOVE, REMOVED: the head's count when the key was marked; 0: it is not, and would it go everywhere?.
    pub nonce: u64,
    /// Of the value's version, or of the key's first.
    pub sequence: u64,
    /// Of that version.
    pub epoch: u32,
    /// Virtual group.
    pub group: u16,
    /// Bytes of the name or of the value.
    pub length: u16,
    /// Value flags.
    pub flags: u16,
    /// What the blocks have.
    pub part: u8,
    /// Of a leased version: its owner.
    pub owner: u64,
}

impl Copied {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Copied {
            key_high: u64::from_be_bytes(*array(bytes, 0)),
            key_low: u64::from_be_bytes(*array(bytes, 8)),
            nonce: u64::from_be_bytes(*array(bytes, 16)),
            sequence: u64::from_be_bytes(*array(bytes, 24)),
            epoch: u32::from_be_bytes(*array(bytes, 32)),
            group: u16::from_be_bytes(*array(bytes, 36)),
            length: u16::from_be_bytes(*array(bytes, 38)),
            flags: u16::from_be_bytes(*array(bytes, 40)),
            part: bytes[42],
            owner: u64::from_be_bytes(*array(bytes, 56)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.key_high.to_be_bytes();
        *array_mut(bytes, 8) = self.key_low.to_be_bytes();
        *array_mut(bytes, 16) = self.nonce.to_be_bytes();
        *array_mut(bytes, 24) = self.sequence.to_be_bytes();
        *array_mut(bytes, 32) = self.epoch.to_be_bytes();
        *array_mut(bytes, 36) = self.group.to_be_bytes();
        *array_mut(bytes, 38) = self.length.to_be_bytes();
        *array_mut(bytes, 40) = self.flags.to_be_bytes();
        *array_mut(bytes, 42) = self.part.to_be_bytes();
        *array_mut(bytes, 43) = [0; 13];
        *array_mut(bytes, 56) = self.owner.to_be_bytes();
    }
}

/// One request for a lock of the queue service, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Name id.
    pub name: u64,
    /// Request id; SERVE: what those of the session begin with, 0: not said.
    pub request: u64,
    /// The request's number in the lock's queue (40 bits), the low part of its token; 0: none, or not known; CEDED, YIELD, TAKEN: the first that is not used yet; SERVING: the term of the part, whoever has it.
    pub ticket: u64,
    /// RELEASED, and a GRANT that RELEASE or CANCEL has led to: the request that is over; SERVING: how long a lock server waits for who does not renew, in microseconds; ACQUIRE for a lock server that a lock was handed to: as ticket of YIELD; ASKED: length of its window, in microseconds.
    pub over: u64,
    /// PUSH: its own; SETTLE: of the latest push; of the switch: pushes taken so far; SERVING: the term, 0: another one is it; SERVE: what the node can, 1: take and cede locks, 2: have several parts; RECALL, CEDED: of the move; YIELD: pushes taken; ASKED: of its window.
    pub number: u64,
    /// ACQUIRE for a lock server: its own, 0: the lock is the server's; PUSH, SETTLE: up to which the server has no more; of the switch: given so far; GRANT and QUEUED of a lock server, SERVING: lease of a hold, in microseconds; YIELD: given so far, 0: nothing of it is left; ASKED: requests in its window; REJECT: for how long not to ask again, in microseconds.
    pub order: u64,
    /// Handle of the requester.
    pub holder: u16,
    /// UDP port of the requester's thread, stamped by the switch; 0: its agent port.
    pub reply_port: u16,
    /// Of the switch: free cells of the queue; ASKED: holders and waiters at a time, the most in its window; of a queue in the switch those who wait at the server; SERVING: number of the part.
    pub room: u16,
    /// Queue flags.
    pub flags: u8,
    /// GRANT of the switch: kind of the packet that has led to it; ACQUIRE, PUSH: priority, xor 4; SERVING: how many parts there are, 0: one.
    pub cause: u8,
    /// Of a holder's packet: its clock; of a lock server's: that of the holder's packet that it has answered, or had last. In us.
    pub sent_us: u64,
}

impl Attempt {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Attempt {
            name: u64::from_be_bytes(*array(bytes, 0)),
            request: u64::from_be_bytes(*array(bytes, 8)),
            ticket: u64::from_be_bytes(*array(bytes, 16)),
            over: u64::from_be_bytes(*array(bytes, 24)),
            number: u64::from_be_bytes(*array(bytes, 32)),
            order: u64::from_be_bytes(*array(bytes, 40)),
            holder: u16::from_be_bytes(*array(bytes, 48)),
            reply_port: u16::from_be_bytes(*array(bytes, 50)),
            room: u16::from_be_bytes(*array(bytes, 52)),
            flags: bytes[54],
            cause: bytes[55],
            sent_us: u64::from_be_bytes(*array(bytes, 56)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.name.to_be_bytes();
        *array_mut(bytes, 8) = self.request.to_be_bytes();
        *array_mut(bytes, 16) = self.ticket.to_be_bytes();
        *array_mut(bytes, 24) = self.over.to_be_bytes();
        *array_mut(bytes, 32) = self.number.to_be_bytes();
        *array_mut(bytes, 40) = self.order.to_be_bytes();
        *array_mut(bytes, 48) = self.holder.to_be_bytes();
        *array_mut(bytes, 50) = self.reply_port.to_be_bytes();
        *array_mut(bytes, 52) = self.room.to_be_bytes();
        *array_mut(bytes, 54) = self.flags.to_be_bytes();
        *array_mut(bytes, 55) = self.cause.to_be_bytes();
        *array_mut(bytes, 56) = self.sent_us.to_be_bytes();
    }
}

/// A request for a lock of the queue service that is granted by way of a third node, with data from there: what it asks that node for, or what it was answered, is in the blocks. Where an attempt has the same, its fields are at the same places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Name id.
    pub name: u64,
    /// Request id.
    pub request: u64,
    /// The request's number in the lock's queue (40 bits), the low part of its token; of a holder's: 0.
    pub ticket: u64,
    /// Of the third node's session that is meant; FETCHED: 0.
    pub incarnation: u64,
    /// Handle of the requester.
    pub holder: u16,
    /// UDP port of the requester's thread, stamped by the switch; 0: its agent port.
    pub reply_port: u16,
    /// Bytes that the blocks have.
    pub length: u16,
    /// Queue flags; of a FETCHED the switch's.
    pub flags: u8,
    /// Of a holder's FETCH: priority, xor 4; of the switch's: FETCH.
    pub cause: u8,
    /// Of a holder's FETCH: its clock; given back. In us.
    pub sent_us: u64,
}

impl Fetch {
    /// Its length.
    pub const BYTES: usize = 64;

    /// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.
    #[inline]
    pub fn read(packet: &[u8], at: usize) -> Self {
        let bytes: &[u8; 64] = array(packet, at);
        Fetch {
            name: u64::from_be_bytes(*array(bytes, 0)),
            request: u64::from_be_bytes(*array(bytes, 8)),
            ticket: u64::from_be_bytes(*array(bytes, 16)),
            incarnation: u64::from_be_bytes(*array(bytes, 24)),
            holder: u16::from_be_bytes(*array(bytes, 48)),
            reply_port: u16::from_be_bytes(*array(bytes, 50)),
            length: u16::from_be_bytes(*array(bytes, 52)),
            flags: bytes[54],
            cause: bytes[55],
            sent_us: u64::from_be_bytes(*array(bytes, 56)),
        }
    }

    /// Writes it at `at`, all of its bytes; reserved ones as zero.
    #[inline]
    pub fn write(&self, packet: &mut [u8], at: usize) {
        let bytes: &mut [u8; 64] = array_mut(packet, at);
        *array_mut(bytes, 0) = self.name.to_be_bytes();
        *array_mut(bytes, 8) = self.request.to_be_bytes();
        *array_mut(bytes, 16) = self.ticket.to_be_bytes();
        *array_mut(bytes, 24) = self.incarnation.to_be_bytes();
        *array_mut(bytes, 32) = [0; 16];
        *array_mut(bytes, 48) = self.holder.to_be_bytes();
        *array_mut(bytes, 50) = self.reply_port.to_be_bytes();
        *array_mut(bytes, 52) = self.length.to_be_bytes();
        *array_mut(bytes, 54) = self.flags.to_be_bytes();
        *array_mut(bytes, 55) = self.cause.to_be_bytes();
        *array_mut(bytes, 56) = self.sent_us.to_be_bytes();
    }
}

/// The slot as an entry shows it.
pub mod slot_bits {
    use super::{bits, with_bits};

    /// State of the slot.
    #[inline]
    pub const fn state(word: u16) -> u8 {
        bits(word as u64, 14, 2) as u8
    }

    /// The word with another state, of which it keeps the low 2 bits.
    #[inline]
    pub const fn with_state(word: u16, state: u8) -> u16 {
        with_bits(word as u64, 14, 2, state as u64) as u16
    }

    /// The agency was handed over.
    #[inline]
    pub const fn transferred(word: u16) -> u8 {
        bits(word as u64, 13, 1) as u8
    }

    /// The word with another transferred, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_transferred(word: u16, transferred: u8) -> u16 {
        with_bits(word as u64, 13, 1, transferred as u64) as u16
    }

    /// A try may be refused by the switch.
    #[inline]
    pub const fn tryable(word: u16) -> u8 {
        bits(word as u64, 12, 1) as u8
    }

    /// The word with another tryable, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_tryable(word: u16, tryable: u8) -> u16 {
        with_bits(word as u64, 12, 1, tryable as u64) as u16
    }

    /// Joins of the slot, or the ordinal of one.
    #[inline]
    pub const fn joins(word: u16) -> u16 {
        bits(word as u64, 0, 12) as u16
    }

    /// The word with another joins, of which it keeps the low 12 bits.
    #[inline]
    pub const fn with_joins(word: u16, joins: u16) -> u16 {
        with_bits(word as u64, 0, 12, joins as u64) as u16
    }
}

/// A slot's first word in the switch's memory: the one that decides.
pub mod slot_w0 {
    use super::{bits, with_bits};

    /// State of the slot.
    #[inline]
    pub const fn state(word: u64) -> u8 {
        bits(word, 62, 2) as u8
    }

    /// The word with another state, of which it keeps the low 2 bits.
    #[inline]
    pub const fn with_state(word: u64, state: u8) -> u64 {
        with_bits(word, 62, 2, state as u64)
    }

    /// The agency was handed over: a claim is not allowed.
    #[inline]
    pub const fn transferred(word: u64) -> u8 {
        bits(word, 61, 1) as u8
    }

    /// The word with another transferred, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_transferred(word: u64, transferred: u8) -> u64 {
        with_bits(word, 61, 1, transferred as u64)
    }

    /// Every hold is of the name in w1.
    #[inline]
    pub const fn tryable(word: u64) -> u8 {
        bits(word, 60, 1) as u8
    }

    /// The word with another tryable, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_tryable(word: u64, tryable: u8) -> u64 {
        with_bits(word, 60, 1, tryable as u64)
    }

    /// Handle of the agent's node, 0 when UNHELD.
    #[inline]
    pub const fn agent(word: u64) -> u16 {
        bits(word, 44, 16) as u16
    }

    /// The word with another agent, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_agent(word: u64, agent: u16) -> u64 {
        with_bits(word, 44, 16, agent as u64)
    }

    /// Joins of this tenure.
    #[inline]
    pub const fn joins(word: u64) -> u16 {
        bits(word, 32, 12) as u16
    }

    /// The word with another joins, of which it keeps the low 12 bits.
    #[inline]
    pub const fn with_joins(word: u64, joins: u16) -> u64 {
        with_bits(word, 32, 12, joins as u64)
    }

    /// Changes of the slot's agency.
    #[inline]
    pub const fn tenure(word: u64) -> u32 {
        bits(word, 0, 32) as u32
    }

    /// The word with another tenure, of which it keeps the low 32 bits.
    #[inline]
    pub const fn with_tenure(word: u64, tenure: u32) -> u64 {
        with_bits(word, 0, 32, tenure as u64)
    }
}

/// A slot's second word in the switch's memory: helps to answer BUSY.
pub mod slot_w1 {
    use super::{bits, with_bits};

    /// Low 20 bits of w0's tenure; otherwise a leftover.
    #[inline]
    pub const fn tenure(word: u64) -> u32 {
        bits(word, 44, 20) as u32
    }

    /// The word with another tenure, of which it keeps the low 20 bits.
    #[inline]
    pub const fn with_tenure(word: u64, tenure: u32) -> u64 {
        with_bits(word, 44, 20, tenure as u64)
    }

    /// Mix(name id) >> 20.
    #[inline]
    pub const fn name_hash(word: u64) -> u64 {
        bits(word, 0, 44)
    }

    /// The word with another name_hash, of which it keeps the low 44 bits.
    #[inline]
    pub const fn with_name_hash(word: u64, name_hash: u64) -> u64 {
        with_bits(word, 0, 44, name_hash)
    }
}

/// A node's word in the switch's memory.
pub mod node_word {
    use super::{bits, with_bits};

    /// State of the node.
    #[inline]
    pub const fn state(word: u64) -> u8 {
        bits(word, 56, 8) as u8
    }

    /// The word with another state, of which it keeps the low 8 bits.
    #[inline]
    pub const fn with_state(word: u64, state: u8) -> u64 {
        with_bits(word, 56, 8, state as u64)
    }

    /// Of its last heartbeat.
    #[inline]
    pub const fn sequence(word: u64) -> u64 {
        bits(word, 0, 56)
    }

    /// The word with another sequence, of which it keeps the low 56 bits.
    #[inline]
    pub const fn with_sequence(word: u64, sequence: u64) -> u64 {
        with_bits(word, 0, 56, sequence)
    }
}

/// A switch's place in the chain of a virtual group.
pub mod group_place {
    use super::{bits, with_bits};

    /// Of the group's configuration; 0: this switch has no part in it.
    #[inline]
    pub const fn epoch(word: u64) -> u32 {
        bits(word, 32, 32) as u32
    }

    /// The word with another epoch, of which it keeps the low 32 bits.
    #[inline]
    pub const fn with_epoch(word: u64, epoch: u32) -> u64 {
        with_bits(word, 32, 32, epoch as u64)
    }

    /// Handle of the switch before this one; 0: this is the head.
    #[inline]
    pub const fn previous(word: u64) -> u16 {
        bits(word, 16, 16) as u16
    }

    /// The word with another previous, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_previous(word: u64, previous: u16) -> u64 {
        with_bits(word, 16, 16, previous as u64)
    }

    /// Handle of the switch after it; 0: this is the tail.
    #[inline]
    pub const fn next(word: u64) -> u16 {
        bits(word, 0, 16) as u16
    }

    /// The word with another next, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_next(word: u64, next: u16) -> u64 {
        with_bits(word, 0, 16, next as u64)
    }
}

/// An item's lock in the switch's memory, and which of its two versions is the item's.
pub mod item_lock {
    use super::{bits, with_bits};

    /// 1 + lane of the counters of who writes; 0: nobody.
    #[inline]
    pub const fn owner(word: u64) -> u16 {
        bits(word, 48, 16) as u16
    }

    /// The word with another owner, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_owner(word: u64, owner: u16) -> u64 {
        with_bits(word, 48, 16, owner as u64)
    }

    /// Changes of the item, modulo 2^47: 4 years at a million a second.
    #[inline]
    pub const fn changes(word: u64) -> u64 {
        bits(word, 1, 47)
    }

    /// The word with another changes, of which it keeps the low 47 bits.
    #[inline]
    pub const fn with_changes(word: u64, changes: u64) -> u64 {
        with_bits(word, 1, 47, changes)
    }

    /// Which of the two versions is the item's.
    #[inline]
    pub const fn which(word: u64) -> u8 {
        bits(word, 0, 1) as u8
    }

    /// The word with another which, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_which(word: u64, which: u8) -> u64 {
        with_bits(word, 0, 1, which as u64)
    }
}

/// Whose a leased version is. All zeros: it is not leased.
pub mod lease_owner {
    use super::{bits, with_bits};

    /// Zero.
    #[inline]
    pub const fn zero(word: u64) -> u16 {
        bits(word, 48, 16) as u16
    }

    /// The word with another zero, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_zero(word: u64, zero: u16) -> u64 {
        with_bits(word, 48, 16, zero as u64)
    }

    /// Handle of the session.
    #[inline]
    pub const fn handle(word: u64) -> u16 {
        bits(word, 32, 16) as u16
    }

    /// The word with another handle, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_handle(word: u64, handle: u16) -> u64 {
        with_bits(word, 32, 16, handle as u64)
    }

    /// Low half of its incarnation.
    #[inline]
    pub const fn incarnation(word: u64) -> u32 {
        bits(word, 0, 32) as u32
    }

    /// The word with another incarnation, of which it keeps the low 32 bits.
    #[inline]
    pub const fn with_incarnation(word: u64, incarnation: u32) -> u64 {
        with_bits(word, 0, 32, incarnation as u64)
    }
}

/// Whose request a cell of a queue has.
pub mod cell_who {
    use super::{bits, with_bits};

    /// Handle of the requester.
    #[inline]
    pub const fn holder(word: u64) -> u16 {
        bits(word, 48, 16) as u16
    }

    /// The word with another holder, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_holder(word: u64, holder: u16) -> u64 {
        with_bits(word, 48, 16, holder as u64)
    }

    /// UDP port of its thread; 0: its agent port.
    #[inline]
    pub const fn reply_port(word: u64) -> u16 {
        bits(word, 32, 16) as u16
    }

    /// The word with another reply_port, of which it keeps the low 16 bits.
    #[inline]
    pub const fn with_reply_port(word: u64, reply_port: u16) -> u64 {
        with_bits(word, 32, 16, reply_port as u64)
    }

    /// Zero.
    #[inline]
    pub const fn zero(word: u64) -> u32 {
        bits(word, 2, 30) as u32
    }

    /// The word with another zero, of which it keeps the low 30 bits.
    #[inline]
    pub const fn with_zero(word: u64, zero: u32) -> u64 {
        with_bits(word, 2, 30, zero as u64)
    }

    /// Mode.
    #[inline]
    pub const fn exclusive(word: u64) -> u8 {
        bits(word, 1, 1) as u8
    }

    /// The word with another exclusive, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_exclusive(word: u64, exclusive: u8) -> u64 {
        with_bits(word, 1, 1, exclusive as u64)
    }

    /// The request is over.
    #[inline]
    pub const fn over(word: u64) -> u8 {
        bits(word, 0, 1) as u8
    }

    /// The word with another over, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_over(word: u64, over: u8) -> u64 {
        with_bits(word, 0, 1, over as u64)
    }
}

/// Who holds a queue's lock: counted from its cells.
pub mod queue_holding {
    use super::{bits, with_bits};

    /// Zero.
    #[inline]
    pub const fn zero(word: u64) -> u32 {
        bits(word, 33, 31) as u32
    }

    /// The word with another zero, of which it keeps the low 31 bits.
    #[inline]
    pub const fn with_zero(word: u64, zero: u32) -> u64 {
        with_bits(word, 33, 31, zero as u64)
    }

    /// The one holder is exclusive.
    #[inline]
    pub const fn exclusive(word: u64) -> u8 {
        bits(word, 32, 1) as u8
    }

    /// The word with another exclusive, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_exclusive(word: u64, exclusive: u8) -> u64 {
        with_bits(word, 32, 1, exclusive as u64)
    }

    /// Holders.
    #[inline]
    pub const fn holders(word: u64) -> u32 {
        bits(word, 0, 32) as u32
    }

    /// The word with another holders, of which it keeps the low 32 bits.
    #[inline]
    pub const fn with_holders(word: u64, holders: u32) -> u64 {
        with_bits(word, 0, 32, holders as u64)
    }
}

/// Fencing token of a grant, as users see it.
pub mod token {
    use super::{bits, with_bits};

    /// So that it fits a signed 64-bit column.
    #[inline]
    pub const fn zero(word: u64) -> u8 {
        bits(word, 63, 1) as u8
    }

    /// The word with another zero, of which it keeps the low 1 bits.
    #[inline]
    pub const fn with_zero(word: u64, zero: u8) -> u64 {
        with_bits(word, 63, 1, zero as u64)
    }

    /// Boot epoch of the switch.
    #[inline]
    pub const fn epoch(word: u64) -> u32 {
        bits(word, 40, 23) as u32
    }

    /// The word with another epoch, of which it keeps the low 23 bits.
    #[inline]
    pub const fn with_epoch(word: u64, epoch: u32) -> u64 {
        with_bits(word, 40, 23, epoch as u64)
    }

    /// Tenure of the slot.
    #[inline]
    pub const fn tenure(word: u64) -> u32 {
        bits(word, 8, 32) as u32
    }

    /// The word with another tenure, of which it keeps the low 32 bits.
    #[inline]
    pub const fn with_tenure(word: u64, tenure: u32) -> u64 {
        with_bits(word, 8, 32, tenure as u64)
    }

    /// Agent's sequence, 0 by the switch.
    #[inline]
    pub const fn sequence(word: u64) -> u8 {
        bits(word, 0, 8) as u8
    }

    /// The word with another sequence, of which it keeps the low 8 bits.
    #[inline]
    pub const fn with_sequence(word: u64, sequence: u8) -> u64 {
        with_bits(word, 0, 8, sequence as u64)
    }
}

/// Names one attempt of one node.
pub mod request_id {
    use super::{bits, with_bits};

    /// Of the node, modulo 2^24.
    #[inline]
    pub const fn incarnation(word: u64) -> u32 {
        bits(word, 40, 24) as u32
    }

    /// The word with another incarnation, of which it keeps the low 24 bits.
    #[inline]
    pub const fn with_incarnation(word: u64, incarnation: u32) -> u64 {
        with_bits(word, 40, 24, incarnation as u64)
    }

    /// Of the node's attempts: 12 days at a million a second.
    #[inline]
    pub const fn counter(word: u64) -> u64 {
        bits(word, 0, 40)
    }

    /// The word with another counter, of which it keeps the low 40 bits.
    #[inline]
    pub const fn with_counter(word: u64, counter: u64) -> u64 {
        with_bits(word, 0, 40, counter)
    }
}
