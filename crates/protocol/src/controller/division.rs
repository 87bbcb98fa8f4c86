//! What one shard keeps of the map of all shards, while shards are added and drained: docs/shards.md, "Adding and
//! draining". Who tells it what when is `redivision.rs`.
//!
//! ```text
//!   SETTLED ──the next map──► ANNOUNCED ──► MOVED ──► DECIDED ──► SETTLED
//!                              ▲   another one: the change is taken back   │ not from DECIDED
//! ```
//!
//! Invariants
//! * Sessions begin, and are counted, under one map at a time: until MOVED under the one before, from then on under the
//!   record's own. Both are durable before anybody hears of them.
//! * `behind` counts every session that may hold what the shard gave away: those that began before MOVED, whatever has
//!   died since, less those that have said under this very map that they do not.
//! * A shard begins no session by a map under an epoch at or below `above`.

use super::store::Fields;
use super::{Controller, Record, Store};
use crate::memory::SwitchMemory;
use crate::shards::pledge_of;
use crate::{Handle, Mutant, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use wayside_wire::limits;

/// Key of its record: above those of all handles.
pub const DIVISION_KEY: u32 = 1 << 16;
/// First byte of the record.
const LAYOUT: u8 = 1;

/// Changes of the map that a shard may have missed: it has a part in none of them until it is added.
const FAR: u32 = 1 << 16;

/// How far a shard has come with its map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Step {
    /// Clients hear of it. Sessions begin by the one before.
    Announced = 0,
    /// Sessions begin by it.
    Moved = 1,
    /// So will those of all other shards: it is not taken back.
    Decided = 2,
    /// All shards have it.
    #[default]
    Settled = 3,
}

impl Step {
    fn decode(byte: u8) -> Option<Step> {
        [Step::Announced, Step::Moved, Step::Decided, Step::Settled].into_iter().find(|step| *step as u8 == byte)
    }
}

/// What an operator tells a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Of the map.
    pub version: u32,
    /// How far to go with it.
    pub step: Step,
    /// What sessions of this shard say by this map that begin; None: it is none of its shards.
    pub begins: Option<u32>,
    /// Who had names before that this shard has by this map had no higher epoch.
    pub above: u32,
    /// The map as clients read it.
    pub map: Vec<u8>,
    /// The one before, to which it is taken back.
    pub former: Vec<u8>,
}

/// Why an order is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disobeyed {
    /// A later map is known: this one.
    Older(u32),
    /// Another map has this version.
    Taken(u32),
    /// The change to this version is decided, and not taken back; nor does another one begin before it is settled.
    Decided(u32),
    /// This version's map is not what the change begins with: it was planned before that was settled, or taken back.
    Overtaken(u32),
    /// The versions in between would be lost for ever: this one is known.
    Far(u32),
    /// Too few epochs would be left above that one.
    High(u32),
    /// It could not be written down.
    Store,
}

impl fmt::Display for Disobeyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disobeyed::Older(version) => write!(f, "version {version} of the map is known"),
            Disobeyed::Taken(version) => write!(f, "another change has version {version} of the map"),
            Disobeyed::Decided(version) => write!(f, "the change to version {version} is decided: it has to be ended"),
            Disobeyed::Overtaken(version) => {
                write!(f, "version {version} of the map came after this change was begun: look again")
            }
            Disobeyed::Far(version) => {
                write!(f, "version {version} of the map is known, and none that is more than {FAR} later follows")
            }
            Disobeyed::High(above) => write!(f, "too few epochs would be left above {above}"),
            Disobeyed::Store => write!(f, "it could not be written down"),
        }
    }
}

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Of the map; 0: that of the configuration.
    pub version: u32,
    /// How far this shard has come with it.
    pub step: Step,
    /// What sessions say that begin now, by this map or until [`Step::Moved`] by the one before. None: none begins.
    pub begins: Option<u32>,
    /// Sessions up to this incarnation began by a map before, or before anybody spoke of maps.
    pub since: u64,
    /// The shard's epoch is above it.
    pub above: u32,
    /// The map as clients read it; empty: that of the configuration.
    pub map: Vec<u8>,
    /// The one before, that all had; a change that takes another one back has it twice.
    pub former: Vec<u8>,
}

impl Division {
    const FIXED: usize = 1 + 4 + 1 + 5 + 8 + 4 + 4;

    /// Whether the map that comes next is one that was planned by who knew how far this one is: of one that all have a
    /// change, of another one what takes it back. The first of the shards has each version, and so refuses for all;
    /// whoever has missed some can't say.
    fn is_followed_by(&self, order: &Order) -> bool {
        let is_next = self.version > 0 && order.version == self.version + 1;
        match self.step {
            Step::Settled => !is_next || order.former == self.map,
            _ => !is_next || (&order.former, &order.map) == (&self.former, &self.former),
        }
    }

    fn encode(&self) -> Record {
        let mut bytes = Vec::with_capacity(Self::FIXED + self.map.len() + self.former.len());
        bytes.push(LAYOUT);
        bytes.extend(self.version.to_be_bytes());
        bytes.push(self.step as u8);
        bytes.push(self.begins.is_some().into());
        bytes.extend(self.begins.unwrap_or(0).to_be_bytes());
        bytes.extend(self.since.to_be_bytes());
        bytes.extend(self.above.to_be_bytes());
        bytes.extend((self.map.len() as u32).to_be_bytes());
        bytes.extend(&self.map);
        bytes.extend(&self.former);
        (DIVISION_KEY, bytes)
    }

    /// The reverse of what is written under [`DIVISION_KEY`].
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Division> {
        let (fixed, maps) = bytes.split_at_checked(Self::FIXED)?;
        let (layout, fixed) = fixed.split_first()?;
        if *layout != LAYOUT {
            return None;
        }
        let mut fields = Fields::rest(fixed);
        let version = u32::from_be_bytes(fields.take());
        let step = Step::decode(fields.take::<1>()[0])?;
        let is_open = fields.take::<1>()[0] != 0;
        let begins = u32::from_be_bytes(fields.take());
        let since = u64::from_be_bytes(fields.take());
        let above = u32::from_be_bytes(fields.take());
        let length = u32::from_be_bytes(fields.take());
        let (map, former) = maps.split_at_checked(usize::try_from(length).ok()?)?;
        let begins = is_open.then_some(begins);
        Some(Division { version, step, begins, since, above, map: map.into(), former: former.into() })
    }
}

/// What a shard says of itself to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DivisionView {
    /// What is written down.
    pub division: Division,
    /// Sessions that may hold what it had by maps before.
    pub behind: Vec<Handle>,
    /// Of its switch.
    pub epoch: u32,
}

/// The record, and who has followed it.
#[derive(Default)]
pub(super) struct Follow {
    pub division: Division,
    /// By handle, the incarnation of the session that has pledged itself to this map.
    followed: BTreeMap<Handle, u64>,
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// What this shard has of the map, and who is behind.
    pub fn division(&self) -> DivisionView {
        let Follow { division, followed } = &self.follow;
        let is_behind = |handle: &Handle, incarnation: u64| {
            incarnation <= division.since && followed.get(handle) != Some(&incarnation)
        };
        let living = self.sessions.living().map(|(handle, session)| (handle, session.record.incarnation));
        let behind = living.filter(|(handle, incarnation)| is_behind(handle, *incarnation));
        DivisionView {
            behind: behind.map(|(handle, _)| handle).collect(),
            division: division.clone(),
            epoch: self.counters.epoch,
        }
    }

    /// Does what an operator says. The same order may come any number of times.
    ///
    /// # Errors
    /// [`Disobeyed`].
    pub fn redivide(&mut self, order: &Order) -> Result<(), Disobeyed> {
        let now = &self.follow.division;
        if order.version < now.version {
            return Err(Disobeyed::Older(now.version));
        }
        if order.version - now.version > FAR {
            return Err(Disobeyed::Far(now.version));
        }
        // Epochs only rise, and no slip may use up those that are left. Others' are minutes of their making, too.
        let epoch = self.counters.epoch;
        if order.above > epoch.saturating_add(limits::MAX_EPOCH.saturating_sub(epoch) / 2) {
            return Err(Disobeyed::High(order.above));
        }
        let mut next = now.clone();
        if order.version == now.version {
            if (&order.map, &order.former) != (&now.map, &now.former) {
                return Err(Disobeyed::Taken(now.version));
            }
            if order.step <= now.step {
                return Ok(());
            }
        } else {
            if now.step == Step::Decided && !self.config.is_broken(Mutant::UndoDecided) {
                return Err(Disobeyed::Decided(now.version));
            }
            if !now.is_followed_by(order) && !self.config.is_broken(Mutant::AnyFormer) {
                return Err(Disobeyed::Overtaken(now.version));
            }
            (next.version, next.step) = (order.version, Step::Announced);
            (next.map, next.former) = (order.map.clone(), order.former.clone());
        }
        let moves = next.step < Step::Moved && order.step >= Step::Moved;
        next.step = order.step;
        if moves {
            next.begins = order.begins;
            next.since = self.counters.incarnation;
            if !self.config.is_broken(Mutant::KeepEpochAtMove) {
                next.above = next.above.max(order.above);
            }
        }
        if !self.commit(&[next.encode()]) {
            return Err(Disobeyed::Store);
        }
        if moves || next.version != self.follow.division.version {
            self.follow.followed.clear();
        }
        self.follow.division = next;
        // The next tick raises the epoch, if it has to be.
        self.next_tick = Time(0);
        Ok(())
    }

    /// Takes up what was written down; without that, what the configuration says.
    pub(super) fn take_up_division(&mut self, record: Option<Division>) {
        let begins = (!self.config.joins).then_some(self.config.shards);
        let mut division = record.unwrap_or(Division { begins, ..Division::default() });
        if self.config.is_broken(Mutant::ForgetBoundary) {
            division.since = 0;
        }
        self.follow = Follow { division, followed: BTreeMap::new() };
    }

    /// Whether the epoch is one under which this shard may grant what it was given.
    pub(super) fn is_above(&self) -> bool {
        let above = self.follow.division.above;
        above == 0 || self.counters.epoch > above
    }

    /// Whether a session that lives follows the map by saying this.
    pub(super) fn is_pledge(&self, said: u32) -> bool {
        let division = &self.follow.division;
        let Some(print) = division.begins.filter(|_| division.step >= Step::Moved) else { return false };
        let earlier = if self.config.is_broken(Mutant::AnyPledge) { division.version } else { 0 };
        said == pledge_of(print, division.version) || (0..earlier).any(|then| said == pledge_of(print, then))
    }

    /// This session has pledged itself.
    pub(super) fn follows(&mut self, handle: Handle, incarnation: u64) {
        self.follow.followed.insert(handle, incarnation);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::tests::{Disk, Memory, config};
    use super::*;
    use alloc::rc::Rc;
    use alloc::string::ToString;
    use core::net::{Ipv4Addr, SocketAddrV4};
    use wayside_wire::{Enrol, Refusal, padded};

    type Tested = Controller<Rc<Memory>, Disk>;
    const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7600);

    fn controller(config: Config) -> Tested {
        let mut controller = Controller::new(config, Rc::new(Memory::default()), Disk::default()).expect("no records");
        controller.on_tick(Time(0));
        controller
    }

    fn enrol(controller: &mut Tested, nonce: u64, shards: u32) -> Result<u32, Refusal> {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        let who = super::super::Applicant { address: ADDRESS, admission: 0, version: wayside_wire::VERSION };
        controller.enrol(Time(0), who, shards, &body).map(|enrolment| enrolment.shards)
    }

    fn order(version: u32, step: Step, begins: Option<u32>) -> Order {
        let (map, former) = (version.to_string().into_bytes(), (version - 1).to_string().into_bytes());
        Order { version, step, begins, above: 0, map, former }
    }

    #[test]
    fn sessions_begin_by_one_map_at_a_time_and_are_behind_until_they_follow() {
        let mut controller = controller(Config { shards: 7, ..config() });
        assert_eq!(enrol(&mut controller, 1, 7), Ok(7));
        assert_eq!(controller.redivide(&order(1, Step::Announced, Some(8))), Ok(()));
        assert_eq!(enrol(&mut controller, 2, 8), Err(Refusal::Shards), "it has only been announced");
        assert_eq!(enrol(&mut controller, 1, pledge_of(8, 1)), Err(Refusal::Shards));
        assert_eq!(controller.redivide(&order(1, Step::Moved, Some(8))), Ok(()));
        assert_eq!(controller.division().behind.len(), 1);
        assert_eq!(enrol(&mut controller, 2, 7), Err(Refusal::Shards));
        assert_eq!(enrol(&mut controller, 2, 8), Ok(8));
        assert_eq!(controller.division().behind.len(), 1, "who begins by it is not behind");
        assert_eq!(enrol(&mut controller, 1, pledge_of(8, 2)), Err(Refusal::Shards));
        assert_eq!(enrol(&mut controller, 1, pledge_of(8, 1)), Ok(pledge_of(8, 1)));
        assert_eq!(controller.division().behind.len(), 0);
    }

    #[test]
    fn another_map_of_a_version_an_older_one_and_one_after_a_decision_are_refused() {
        let mut controller = controller(Config { shards: 7, ..config() });
        assert_eq!(controller.redivide(&order(2, Step::Moved, Some(8))), Ok(()));
        assert_eq!(controller.redivide(&order(2, Step::Announced, Some(8))), Ok(()), "it has gone further");
        assert_eq!(controller.division().division.step, Step::Moved);
        let other = Order { map: b"other".to_vec(), ..order(2, Step::Decided, Some(9)) };
        assert_eq!(controller.redivide(&other), Err(Disobeyed::Taken(2)));
        assert_eq!(controller.redivide(&order(1, Step::Moved, Some(9))), Err(Disobeyed::Older(2)));
        assert_eq!(controller.redivide(&order(2, Step::Decided, Some(8))), Ok(()));
        assert_eq!(controller.redivide(&order(3, Step::Announced, Some(7))), Err(Disobeyed::Decided(2)));
        assert_eq!(controller.redivide(&order(2, Step::Settled, Some(8))), Ok(()));
        assert_eq!(controller.redivide(&order(3, Step::Announced, Some(7))), Ok(()));
    }

    #[test]
    fn who_joins_begins_no_session_before_its_time_and_none_under_a_low_epoch() {
        let mut controller = controller(Config { shards: 7, joins: true, ..config() });
        assert_eq!(enrol(&mut controller, 1, 7), Err(Refusal::Recovering));
        let before = controller.epoch();
        let above = before + 10;
        assert_eq!(controller.redivide(&Order { above, ..order(1, Step::Moved, Some(8)) }), Ok(()));
        controller.on_tick(Time(0));
        assert_eq!(controller.epoch(), above + 1);
        assert_eq!(enrol(&mut controller, 1, 8), Ok(8));
        assert_eq!(controller.redivide(&order(1, Step::Settled, Some(8))), Ok(()));
        // Drained.
        assert_eq!(controller.redivide(&order(2, Step::Moved, None)), Ok(()));
        assert_eq!(enrol(&mut controller, 2, 8), Err(Refusal::Shards));
        assert_eq!(controller.division().behind.len(), 1);
    }

    /// Whoever planned it was suspended while another one came to the end, or took back, what it knew of.
    #[test]
    fn what_was_planned_on_another_map_is_refused() {
        let back = |version: u32, map: &[u8]| Order {
            map: map.to_vec(),
            former: map.to_vec(),
            ..order(version, Step::Announced, Some(7))
        };
        let mut controller = controller(Config { shards: 7, ..config() });
        assert_eq!(controller.redivide(&order(1, Step::Moved, Some(8))), Ok(()));
        assert_eq!(controller.redivide(&order(2, Step::Announced, Some(9))), Err(Disobeyed::Overtaken(1)));
        assert_eq!(controller.redivide(&order(1, Step::Settled, Some(8))), Ok(()));
        assert_eq!(controller.redivide(&back(2, b"0")), Err(Disobeyed::Overtaken(1)), "all have it by now");
        assert_eq!(controller.redivide(&order(2, Step::Moved, Some(9))), Ok(()));
        assert_eq!(controller.redivide(&back(3, b"1")), Ok(()));
        assert_eq!(controller.redivide(&back(4, b"1")), Ok(()), "and what takes back may be begun anew");
        let other = Order { former: b"2".to_vec(), ..order(5, Step::Announced, Some(9)) };
        assert_eq!(controller.redivide(&other), Err(Disobeyed::Overtaken(4)));
        assert_eq!(controller.redivide(&order(9, Step::Announced, Some(9))), Ok(()), "it was none of these shards");
    }

    #[test]
    fn no_order_uses_up_the_versions_or_the_epochs() {
        let mut controller = controller(Config { shards: 7, ..config() });
        assert_eq!(controller.redivide(&order(u32::MAX, Step::Moved, Some(8))), Err(Disobeyed::Far(0)));
        for above in [limits::MAX_EPOCH - 1, u32::MAX] {
            let order = Order { above, ..order(1, Step::Moved, Some(8)) };
            assert_eq!(controller.redivide(&order), Err(Disobeyed::High(above)));
        }
        assert_eq!(controller.division().division, Division { begins: Some(7), ..Division::default() });
        assert_eq!(enrol(&mut controller, 1, 7), Ok(7));
        assert_eq!(controller.redivide(&order(FAR, Step::Moved, Some(8))), Ok(()));
    }

    #[test]
    fn versions_rise_by_no_more_than_so_many_at_a_time() {
        let mut controller = controller(Config { shards: 7, ..config() });
        assert_eq!(controller.redivide(&order(FAR, Step::Moved, Some(8))), Ok(()));
        assert_eq!(controller.redivide(&order(2 * FAR + 1, Step::Announced, Some(8))), Err(Disobeyed::Far(FAR)));
        assert_eq!(controller.redivide(&order(2 * FAR, Step::Announced, Some(8))), Ok(()));
    }

    #[test]
    fn an_order_is_carried_out_at_once_and_not_when_something_is_due() {
        let mut controller = controller(Config { shards: 7, ..config() });
        while controller.next_timer() == Time(0) {
            controller.on_tick(Time(0));
        }
        let above = controller.epoch() + 10;
        assert_eq!(controller.redivide(&Order { above, ..order(1, Step::Moved, Some(8)) }), Ok(()));
        controller.on_tick(Time(1));
        assert_eq!(controller.epoch(), above + 1);
    }

    #[test]
    fn a_record_of_another_layout_is_none() {
        let (_, bytes) = Division { map: b"map".to_vec(), ..Division::default() }.encode();
        assert!(Division::decode(&bytes).is_some_and(|division| division.map == b"map"));
        assert_eq!(Division::decode(&[&[LAYOUT + 1], &bytes[1..]].concat()), None);
    }

    #[test]
    fn the_record_survives_a_restart_and_who_followed_is_behind_again() {
        let mut first = controller(Config { shards: 7, ..config() });
        assert_eq!(enrol(&mut first, 1, 7), Ok(7));
        assert_eq!(first.redivide(&order(1, Step::Moved, Some(8))), Ok(()));
        assert_eq!(enrol(&mut first, 1, pledge_of(8, 1)), Ok(pledge_of(8, 1)));
        let kept = first.division().division;
        let memory = Rc::new(Memory::default());
        let mut next = Controller::new(Config { shards: 7, ..config() }, memory, first.into_store()).expect("records");
        next.on_tick(Time(0));
        assert_eq!((next.division().division, next.division().behind.len()), (kept, 1));
        assert_eq!(Division::decode(&[LAYOUT; 26]), None);
        assert_eq!(Division::decode(&[LAYOUT + 1; 27]), None);
    }
}
