//! The session of a node: enrolment, heartbeats, lease, leaving. Nothing here knows of locks.
//!
//! Invariants: `lease_end` is the *send* time of an acknowledged heartbeat (or of the answered ENROL) plus the lease,
//! so it comes before the moment at which the controller may expire the session; it never moves back. Heartbeat
//! sequences rise, across epochs too. Every heartbeat of the last lease is remembered, until its acknowledgement came
//! or is of no use.

use crate::line::patience_from_byte;
use crate::mutant::Mutant;
use crate::node::NodeConfig;
use crate::outbox::Outbox;
use crate::seal::Enrolment;
use crate::{Handle, Names, Time};
use wayside_wire::{Engine, Enrolled, FabricKind, Header, Heartbeat, Policy, Refusal, header_flag, kind, service};

/// A session as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Name of the node at the switch.
    pub handle: Handle,
    /// Cluster-wide count of enrolments: with the handle, a name that is never given again.
    pub incarnation: u64,
    /// Boot epoch of the switch.
    pub epoch: u32,
    /// Id of the namespace.
    pub namespace: u16,
    /// Slots of the namespace.
    pub slots: u32,
    /// Who keeps the namespace's locks.
    pub engine: Engine,
    /// Who goes first there.
    pub policy: Policy,
    /// How often who waits is overtaken there at most: 0 to [`crate::LONGEST_PATIENCE`].
    pub patience: u8,
    /// Lease in microseconds.
    pub lease: u64,
    /// What the controller adds to the lease, in microseconds.
    pub grace: u64,
    /// When every hold is lost unless a heartbeat is acknowledged before.
    pub lease_end: Time,
    /// Secret that ties a local connection to this session.
    pub lifeline: u64,
    /// Its packets are signed: it began over a secure connection.
    pub signed: bool,
    /// Version of the packets that its switch speaks, as ENROLLED and then answers to heartbeats tell it; 0: not known
    /// yet.
    pub version: u8,
}

/// What became of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has begun.
    Enrolled,
    /// There will be none, and why.
    Refused(Refusal),
    /// It is over: the lease ended, or the switch says so.
    Lost,
    /// The controller counts it under the shards that were pledged so.
    Followed(u32),
    /// The controller has confirmed that it ended as asked, or does not answer.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Enrolling,
    Live,
    Leaving { clean: bool, attempts: u32 },
    Over,
}

/// A heartbeat whose acknowledgement may still come.
#[derive(Clone, Copy, Default)]
struct Beat {
    sequence: u64,
    sent: Time,
}

/// First pause before an unanswered ENROL or LEAVE is sent again, doubled up to [`PAUSE_MOST`]. Microseconds.
const PAUSE_FIRST: u64 = 5_000;
const PAUSE_MOST: u64 = 500_000;
/// Heartbeats in a lease, as long as they are acknowledged.
const BEATS_PER_LEASE: u64 = 8;
/// The same once half of the lease has passed without: a switch that serves for moments only is to be met in one of
/// them. With a third of them lost each way, one lease in 20,000 passes without an acknowledgement.
const URGENT_BEATS_PER_LEASE: u64 = 32;
/// LEAVEs that go unanswered before the node gives up; the lease ends the session then.
const LEAVE_ATTEMPTS: u32 = 6;

/// A question that is asked until the controller says that it counts the session under other shards.
struct Following {
    pledge: u32,
    due: Time,
    pause: u64,
}

pub struct Session {
    config: NodeConfig,
    phase: Phase,
    info: Option<SessionInfo>,
    /// Where the engine is hybrid: which names have their queue in the switch, in all epochs that the session has seen.
    names: Names,
    /// What the answer to this attempt will need, and of which epoch that is.
    told: Option<(u32, Names)>,
    nonce: u64,
    first_sent: Time,
    pause: u64,
    due: Time,
    beats: [Beat; URGENT_BEATS_PER_LEASE as usize],
    sequence: u64,
    following: Option<Following>,
}

impl Session {
    pub fn new(config: NodeConfig) -> Session {
        Session {
            nonce: config.seed,
            sequence: config.first_beat - 1,
            config,
            phase: Phase::Idle,
            info: None,
            names: Names::default(),
            told: None,
            first_sent: Time(0),
            pause: PAUSE_FIRST,
            due: Time(u64::MAX),
            beats: [Beat::default(); URGENT_BEATS_PER_LEASE as usize],
            following: None,
        }
    }

    /// The session, until it ends or asks to end.
    pub fn info(&self) -> Option<&SessionInfo> {
        self.info.as_ref().filter(|_| self.phase == Phase::Live)
    }

    /// The namespace has another one now.
    pub fn set_policy(&mut self, policy: Policy, patience: u8) {
        if let Some(info) = &mut self.info {
            (info.policy, info.patience) = (policy, patience);
        }
    }

    /// The session, if it goes on at this time.
    #[inline]
    pub fn info_at(&self, now: Time) -> Option<&SessionInfo> {
        self.info().filter(|_| !self.lease_is_over(now))
    }

    /// Where the engine is hybrid: which names have their queue in the switch.
    #[inline]
    pub fn names(&self) -> &Names {
        &self.names
    }

    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live | Phase::Leaving { .. })
    }

    /// When [`Session::on_tick`] wants to be called.
    #[inline]
    pub fn due(&self) -> Time {
        let following = self.following.as_ref().filter(|_| self.phase == Phase::Live);
        following.map_or(self.due, |following| self.due.min(following.due))
    }

    /// Header of a packet to `destination` under this session.
    #[inline]
    pub fn header(&self, service: u8, kind: u8, destination: Handle) -> Header {
        let (source, epoch, namespace) = self.info.as_ref().map_or((0, 0, 0), |i| (i.handle, i.epoch, i.namespace));
        Header { service, kind, destination, source, epoch, namespace, ..Header::default() }
    }

    pub fn start(&mut self, now: Time, out: &mut Outbox) {
        self.phase = Phase::Enrolling;
        self.first_sent = now;
        self.send_enrol(now, out);
    }

    /// Asks for the end of the session; `clean` says that nothing is left to sweep.
    pub fn leave(&mut self, now: Time, clean: bool, out: &mut Outbox) -> Option<Change> {
        if self.phase != Phase::Live {
            self.phase = Phase::Over;
            self.due = Time(u64::MAX);
            return Some(Change::Left);
        }
        self.phase = Phase::Leaving { clean, attempts: 0 };
        self.pause = PAUSE_FIRST;
        // Now, not when the next heartbeat would have been due.
        self.due = now;
        self.on_tick(now, 0, out)
    }

    /// Nothing is sent any more: the lease ends at the controller after it has ended here.
    pub fn fall_silent(&mut self) -> Change {
        self.phase = Phase::Over;
        self.due = Time(u64::MAX);
        Change::Lost
    }

    /// A census of all slots came under a later epoch: the switch has restarted, or another has taken its place, and
    /// knows this session. What was sent since the former one died was acknowledged by nobody: the next heartbeat goes
    /// at once.
    pub fn raise_epoch(&mut self, now: Time, epoch: u32) {
        let Some(info) = self.info.as_mut().filter(|info| info.epoch < epoch) else { return };
        info.epoch = epoch;
        self.beat_at_once(now);
    }

    /// The switch is another one, which is to hear of this session.
    pub fn beat_at_once(&mut self, now: Time) {
        if self.phase == Phase::Live {
            self.due = self.due.min(now);
        }
    }

    /// Says by ENROL, under the session's own nonce, that it divides names among other shards from now on: again and
    /// again, for a shard may not do so yet. Whoever wants the same again has it said no sooner.
    pub fn follow(&mut self, now: Time, pledge: u32) {
        if self.following.as_ref().is_none_or(|following| following.pledge != pledge) {
            self.following = Some(Following { pledge, due: now, pause: PAUSE_FIRST });
        }
    }

    /// Says at once what it is saying so: the shard may do so now.
    pub fn hurry(&mut self, now: Time) {
        if let Some(following) = &mut self.following {
            (following.due, following.pause) = (now, PAUSE_FIRST);
        }
    }

    /// Whether the session has come to this epoch of the switch: what it takes for its own until then, it would grant
    /// under tokens of the one before.
    pub fn is_under(&self, epoch: u32) -> bool {
        self.config.is_broken(Mutant::FollowBelow) || self.info.is_some_and(|info| info.epoch >= epoch)
    }

    fn on_followed(&mut self, header: &Header, body: &Enrolled) -> Option<Change> {
        let is_answer = body.nonce == self.nonce && header.flags & header_flag::REFUSED == 0;
        let is_answer = is_answer && self.is_under(header.epoch);
        let following = self.following.take_if(|following| is_answer && following.pledge == header.shard_map)?;
        Some(Change::Followed(following.pledge))
    }

    /// NAMES: comes before each ENROLLED of a hybrid namespace.
    pub fn on_names(&mut self, epoch: u32, nonce: u64, names: Option<Names>) {
        if self.phase == Phase::Enrolling && nonce == self.nonce {
            self.told = names.map(|names| (epoch, names));
        }
    }

    /// The list that a session of this engine and epoch goes by. None: it has not come. Both are asked for again.
    fn names_of(&self, engine: Engine, epoch: u32) -> Option<Names> {
        if engine != Engine::Hybrid {
            return Some(Names::default());
        }
        let is_its = |of: u32| of == epoch || self.config.is_broken(Mutant::AnyNames);
        self.told.as_ref().filter(|(of, _)| is_its(*of)).map(|(_, names)| names.clone())
    }

    pub fn on_enrolled(&mut self, now: Time, header: &Header, body: &Enrolled) -> Option<Change> {
        if self.phase == Phase::Live {
            return self.on_followed(header, body);
        }
        if self.phase != Phase::Enrolling || body.nonce != self.nonce {
            return None;
        }
        if header.flags & header_flag::REFUSED != 0 {
            let refusal = Refusal::try_from(body.reason).unwrap_or(Refusal::None);
            if refusal == Refusal::Recovering {
                return None;
            }
            self.phase = Phase::Over;
            self.due = Time(u64::MAX);
            return Some(Change::Refused(refusal));
        }
        let engine = Engine::try_from(u8::try_from(header.position).ok()?).ok()?;
        let enrolment = Enrolment {
            names: self.names_of(engine, header.epoch)?,
            engine,
            handle: header.destination,
            incarnation: body.incarnation,
            epoch: header.epoch,
            namespace: header.namespace,
            slots: body.slots,
            policy: Policy::try_from(body.policy).unwrap_or(Policy::Fair),
            patience: patience_from_byte(body.patience),
            lease: body.lease_us,
            grace: body.grace_us,
            lifeline: body.lifeline,
            shards: header.shard_map,
            secret: None,
            version: body.version,
        };
        self.begin(now, self.first_sent, &enrolment)
    }

    /// A session, whichever way it was agreed on. Its lease runs from `asked`, when the first question for it went.
    pub fn begin(&mut self, now: Time, asked: Time, enrolment: &Enrolment) -> Option<Change> {
        if !matches!(self.phase, Phase::Idle | Phase::Enrolling) || enrolment.handle == 0 || enrolment.slots == 0 {
            return None;
        }
        // A switch of before 1.9 does not look at what it is asked for.
        if enrolment.shards != self.config.shards && !self.config.is_broken(Mutant::AnyShards) {
            self.phase = Phase::Over;
            self.due = Time(u64::MAX);
            return Some(Change::Refused(Refusal::Shards));
        }
        let lease = u64::from(enrolment.lease);
        self.names = enrolment.names.clone();
        self.told = None;
        self.info = Some(SessionInfo {
            handle: enrolment.handle,
            incarnation: enrolment.incarnation,
            epoch: enrolment.epoch,
            namespace: enrolment.namespace,
            slots: enrolment.slots,
            engine: enrolment.engine,
            policy: enrolment.policy,
            patience: enrolment.patience,
            lease,
            grace: u64::from(enrolment.grace),
            lease_end: asked + lease,
            lifeline: enrolment.lifeline,
            signed: enrolment.secret.is_some(),
            version: enrolment.version,
        });
        self.phase = Phase::Live;
        self.due = now;
        Some(Change::Enrolled)
    }

    /// HEARTBEAT_ACK. `version`: its header's, the one of the switch that serves now. A session that began over a
    /// secure connection was not told any, and a standby may speak another one.
    pub fn on_heartbeat_ack(&mut self, now: Time, version: u8, header: &Header, body: &Heartbeat) -> Option<Change> {
        let info = self.info.as_mut().filter(|i| i.incarnation == body.incarnation)?;
        if header.flags & header_flag::EXPIRED != 0 {
            self.phase = Phase::Over;
            self.due = Time(u64::MAX);
            return Some(Change::Lost);
        }
        let beat = self.beats.iter().find(|beat| beat.sequence == body.sequence && beat.sequence > 0)?;
        let from = if self.config.is_broken(Mutant::LeaseFromAck) { now } else { beat.sent };
        info.lease_end = info.lease_end.max(from + info.lease);
        info.version = version;
        None
    }

    pub fn on_left(&mut self, body: &Heartbeat) -> Option<Change> {
        let ours = self.info.is_some_and(|i| i.incarnation == body.incarnation);
        if !ours || !matches!(self.phase, Phase::Leaving { .. }) {
            return None;
        }
        self.phase = Phase::Over;
        self.due = Time(u64::MAX);
        Some(Change::Left)
    }

    /// Sends what is due. `oldest`: the oldest outstanding request id.
    pub fn on_tick(&mut self, now: Time, oldest: u64, out: &mut Outbox) -> Option<Change> {
        if self.is_live() && self.lease_is_over(now) {
            self.phase = Phase::Over;
            self.due = Time(u64::MAX);
            return Some(Change::Lost);
        }
        if self.phase == Phase::Live {
            self.send_follow(now, out);
        }
        if now < self.due {
            return None;
        }
        match self.phase {
            Phase::Idle | Phase::Over => self.due = Time(u64::MAX),
            Phase::Enrolling => self.send_enrol(now, out),
            Phase::Live => self.send_heartbeat(now, oldest, out),
            Phase::Leaving { clean, attempts } => return self.send_leave(now, clean, attempts, out),
        }
        None
    }

    pub fn lease_is_over(&self, now: Time) -> bool {
        self.info.is_some_and(|i| now >= i.lease_end) && !self.config.is_broken(Mutant::IgnoreLease)
    }

    /// An answer to this very ENROL must come within the lease it may start: each attempt has its own nonce once the
    /// first has gone unanswered for so long that its session would be half over.
    fn send_enrol(&mut self, now: Time, out: &mut Outbox) {
        if now.since(self.first_sent) > 4 * PAUSE_MOST {
            self.nonce = wayside_wire::mix(self.nonce.wrapping_add(1));
            self.first_sent = now;
            self.pause = PAUSE_FIRST;
            self.told = None;
        }
        self.send_question(self.config.shards, out);
        self.back_off(now);
    }

    fn send_question(&self, shard_map: u32, out: &mut Outbox) {
        let body = self.config.question(self.nonce);
        let header = Header { service: service::FABRIC, kind: kind::fabric::ENROL, shard_map, ..Header::default() };
        out.body(0, header, FabricKind::Enrol.body().bytes(0), |packet, at| body.write(packet, at));
    }

    fn send_follow(&mut self, now: Time, out: &mut Outbox) {
        let Some(following) = self.following.as_mut().filter(|following| now >= following.due) else { return };
        following.due = now + following.pause;
        following.pause = (following.pause * 2).min(PAUSE_MOST);
        let pledge = following.pledge;
        self.send_question(pledge, out);
    }

    fn send_heartbeat(&mut self, now: Time, oldest: u64, out: &mut Outbox) {
        let Some(info) = self.info else { return };
        self.sequence += 1;
        self.beats[(self.sequence % URGENT_BEATS_PER_LEASE) as usize] = Beat { sequence: self.sequence, sent: now };
        self.send_beat(now, kind::fabric::HEARTBEAT, 0, oldest, &info, out);
        let is_urgent = info.lease_end.since(now) < info.lease / 2;
        let next = now + info.lease / if is_urgent { URGENT_BEATS_PER_LEASE } else { BEATS_PER_LEASE };
        self.due = if self.config.is_broken(Mutant::IgnoreLease) { next } else { next.min(info.lease_end) };
    }

    fn send_leave(&mut self, now: Time, clean: bool, attempts: u32, out: &mut Outbox) -> Option<Change> {
        let Some(info) = self.info.filter(|_| attempts < LEAVE_ATTEMPTS) else {
            self.phase = Phase::Over;
            self.due = Time(u64::MAX);
            return Some(Change::Left);
        };
        self.phase = Phase::Leaving { clean, attempts: attempts + 1 };
        let flags = if clean { header_flag::CLEAN } else { 0 };
        self.send_beat(now, kind::fabric::LEAVE, flags, 0, &info, out);
        self.back_off(now);
        None
    }

    fn send_beat(&self, now: Time, kind: u8, flags: u16, oldest: u64, info: &SessionInfo, out: &mut Outbox) {
        let oldest = if self.config.is_broken(Mutant::KeepOldest) { 0 } else { oldest };
        let body = Heartbeat { sequence: self.sequence, oldest, sent_us: now.0, incarnation: info.incarnation };
        let header = Header { flags, ..self.header(service::FABRIC, kind, 0) };
        out.body(0, header, FabricKind::Heartbeat.body().bytes(0), |packet, at| body.write(packet, at));
    }

    fn back_off(&mut self, now: Time) {
        self.due = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MOST);
    }
}

#[cfg(test)]
mod tests;
