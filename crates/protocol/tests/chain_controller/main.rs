//! The controller of chains (docs/chain.md), and who follows it. What it does for many groups is by what changes: here
//! looks at groups are counted, not time. What it says of a few is looked at packet by packet (`desk.rs`).

mod desk;
mod following;
mod joining;
mod ranking;
mod records;
mod silence;
mod stages;
mod store;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use wayside_protocol::chain::Sent;
use wayside_protocol::chain::controller::{Config, Controller, Fellow, State};
use wayside_protocol::controller::{Record, Store};
use wayside_protocol::{Handle, Time};
use wayside_wire::{BODY, Header, Placement, Renewal, Role, check, kind, service};

const GROUPS: u16 = 4096;
/// Microseconds.
const TICK: u64 = 20_000;
const LEASE: u64 = 600_000;
/// Records of a commit, but for one.
const RECORDS: usize = 99;
const NEVER: u64 = u64::MAX;
/// What switches say that they began with, until they begin again.
const BOOT: u64 = 7;
/// Groups that are copied at a time, where that takes long.
const LOADS: usize = 4;
/// Stages of a group's change, and some.
const LOOKS: u64 = 24;

#[derive(Clone, Default)]
struct Disk {
    records: Rc<RefCell<BTreeMap<u32, Vec<u8>>>>,
    /// It takes nothing, and gives nothing.
    is_away: Rc<Cell<bool>>,
    /// Keys of each commit, as they came.
    commits: Rc<RefCell<Vec<Vec<u32>>>>,
}

impl Store for Disk {
    type Error = String;

    fn load(&mut self) -> Result<Vec<Record>, String> {
        if self.is_away.get() {
            return Err("away".to_owned());
        }
        Ok(self.records.borrow().iter().map(|(key, value)| (*key, value.clone())).collect())
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), String> {
        assert!(batch.len() <= RECORDS + 1, "{} records at a time", batch.len());
        if self.is_away.get() {
            return Err("away".to_owned());
        }
        self.commits.borrow_mut().push(batch.iter().map(|(key, _)| *key).collect());
        self.records.borrow_mut().extend(batch.iter().cloned());
        Ok(())
    }
}

impl Disk {
    fn epoch(&self, group: u16) -> u32 {
        let records = self.records.borrow();
        let bytes = records.get(&group.into()).and_then(|value| value.first_chunk());
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}

/// A controller, and switches that do as they are told.
struct World {
    controller: Controller<Disk>,
    disk: Disk,
    now: u64,
    up: BTreeSet<Handle>,
    /// Those that have begun again: what they say now.
    boots: BTreeMap<Handle, u64>,
    /// Joiners have all that they copy so many microseconds after they were told to, or with [`NEVER`] never.
    copying: u64,
    /// What they say then.
    copied: Vec<(u64, Handle, Placement)>,
    /// Most groups that were being copied after a tick.
    copied_most: usize,
    /// Longest burst that a tick has said.
    burst: usize,
}

fn address(handle: Handle) -> std::net::SocketAddrV4 {
    format!("10.0.0.{handle}:7600").parse().expect("an address")
}

fn config(groups: impl IntoIterator<Item = u16>) -> Config {
    Config {
        own: 1,
        groups: groups.into_iter().collect(),
        length: 3,
        lease: LEASE,
        drift_ppm: 1000,
        patience: LEASE,
        retransmit: TICK,
        full_pause: 60_000_000,
        loads_least: LOADS,
        loads_most: 16 * LOADS,
        records_most: RECORDS,
        mutant: None,
    }
}

fn begun(disk: &Disk, up: &[Handle], now: u64) -> World {
    begun_as(config(0..GROUPS), disk, up, now)
}

fn begun_as(config: Config, disk: &Disk, up: &[Handle], now: u64) -> World {
    let fellows: Vec<Fellow> = up.iter().map(|&handle| fellow(handle)).collect();
    let mut controller = Controller::new(config, &fellows, disk.clone());
    controller.take_post(Time(now), Time(u64::MAX));
    World {
        controller,
        disk: disk.clone(),
        now,
        up: up.iter().copied().collect(),
        boots: BTreeMap::new(),
        copying: 0,
        copied: vec![],
        copied_most: 0,
        burst: 0,
    }
}

fn fellow(handle: Handle) -> Fellow {
    Fellow { handle, address: address(handle), weight: 1 }
}

impl World {
    fn say(&mut self, from: Handle, kind: u8, body: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; BODY + Placement::BYTES];
        let header = Header { service: service::CHAIN, kind, source: from, destination: 1, ..Header::default() };
        header.write(&mut packet);
        body(&mut packet);
        self.controller.on_packet(Time(self.now), &packet);
    }

    /// A tick, four of which renew a lease, and whatever is answered at once.
    fn tick(&mut self) {
        self.now += TICK;
        if self.now % (4 * TICK) < TICK {
            for handle in self.up.clone() {
                let boot = self.boots.get(&handle).copied().unwrap_or(BOOT);
                let renewal = Renewal { boot, sent_us: self.now, ..Renewal::default() };
                self.say(handle, kind::chain::RENEW, |packet| renewal.write(packet, BODY));
            }
        }
        loop {
            self.controller.on_tick(Time(self.now));
            let said: Vec<_> = std::iter::from_fn(|| self.controller.transmit()).collect();
            self.burst = self.burst.max(said.len());
            said.into_iter().for_each(|sent| self.answer(&sent));
            if self.controller.next_timer() > Time(self.now) {
                break;
            }
        }
        while self.controller.notice().is_some() {}
        let copied = self.copied.extract_if(.., |(due, ..)| *due <= self.now).collect::<Vec<_>>();
        copied.into_iter().for_each(|(_, joiner, told)| self.say_placed(joiner, &told));
        let is_copied = |state| matches!(state, State::Copying(_));
        let copied = self.controller.groups().filter(|group| is_copied(group.state)).count();
        self.copied_most = self.copied_most.max(copied);
    }

    fn say_placed(&mut self, from: Handle, told: &Placement) {
        self.say(from, kind::chain::PLACED, |packet| told.write(packet, BODY));
    }

    /// A switch does as it is told at once.
    fn answer(&mut self, sent: &Sent) {
        if !self.up.contains(&sent.to) || !check(&sent.packet).is_ok_and(|header| header.kind == kind::chain::PLACE) {
            return;
        }
        let told = Placement::read(&sent.packet, BODY);
        assert!(told.epoch <= self.disk.epoch(told.group), "an epoch is shown that is nowhere");
        if told.role != Role::Joiner as u8 || self.copying == 0 {
            self.say_placed(sent.to, &told);
        } else if self.copying != NEVER {
            self.copied.push((self.now + self.copying, sent.to, told));
        }
    }

    /// Ticks until all chains are as they should be. Looks that it took.
    fn settle(&mut self) -> u64 {
        let before = self.controller.looks();
        for _ in 0..10_000 {
            self.tick();
            if self.controller.is_settled(Time(self.now)) {
                return self.controller.looks() - before;
            }
        }
        panic!("it never settles");
    }

    fn chains_have(&self, handle: Handle) -> usize {
        self.controller.groups().filter(|group| group.chain.contains(&handle)).count()
    }
}

#[test]
fn work_is_by_what_changes_and_not_by_how_many_groups_there_are() {
    let disk = Disk::default();
    let mut world = begun(&disk, &[1, 2, 3], 0);
    let most = LOOKS * u64::from(GROUPS);
    let looks = world.settle();
    assert!(looks < most, "all chains begin: {looks}");
    assert!(world.controller.groups().all(|group| group.chain.len() == 3 && group.state == State::Serving));

    // Others have to hear where clients find a group; then there is nothing to do.
    (0..GROUPS / 64).for_each(|_| world.tick());
    let before = world.controller.looks();
    (0..200).for_each(|_| world.tick());
    assert_eq!(world.controller.looks(), before, "nothing has changed in four seconds");

    let epochs: Vec<u32> = world.controller.groups().map(|group| group.epoch).collect();
    let mut world = begun(&disk, &[1, 2, 3], world.now);
    let looks = world.settle();
    assert!(looks < most, "another post: {looks}");
    assert!(world.controller.groups().zip(epochs).all(|(group, before)| group.epoch == before), "as they were");

    world.controller.set_fellow(Time(world.now), fellow(4));
    world.up.insert(4);
    let before = world.controller.looks();
    // It is heard of.
    (0..8).for_each(|_| world.tick());
    world.settle();
    let looks = world.controller.looks() - before;
    assert!(looks < 2 * most, "a switch comes, copies, and others leave: {looks}");
    let has = world.chains_have(4);
    assert!(has > usize::from(GROUPS) / 2, "{has}");

    world.up.remove(&2);
    let silent = (0..1_000).find(|_| {
        world.tick();
        world.chains_have(2) == 0
    });
    assert!(silent.is_some(), "it is left out");
    let looks = world.settle();
    assert!(looks < 2 * most, "a switch is left out, and another copies what it had: {looks}");
    assert!(world.burst <= 4 * 128, "a tick says no more than queues take: {}", world.burst);
}

/// Chains of three of a few switches, and the records of them.
fn kept() -> (Disk, World) {
    let disk = Disk::default();
    let mut world = begun(&disk, &[1, 2, 3], 0);
    world.settle();
    (disk, world)
}

fn epochs(world: &World) -> BTreeMap<u16, u32> {
    world.controller.groups().map(|group| (group.number, group.epoch)).collect()
}

impl World {
    /// A switch comes that copies for ever. The groups that it is to join first.
    fn is_joined(&mut self) -> BTreeSet<u16> {
        self.controller.set_fellow(Time(self.now), fellow(4));
        self.up.insert(4);
        self.copying = NEVER;
        for _ in 0..100 {
            self.tick();
        }
        let copying = self.controller.groups().filter(|group| group.state == State::Copying(4));
        copying.map(|group| group.number).collect()
    }
}

#[test]
fn another_post_gives_new_epochs_to_those_alone_that_somebody_was_to_join() {
    let (disk, mut world) = kept();
    let joined = world.is_joined();
    assert_eq!(joined.len(), LOADS);
    let before = epochs(&world);
    let after = epochs(&begun(&disk, &[1, 2, 3, 4], world.now));
    for (number, epoch) in before {
        assert_eq!(after[&number] > epoch, joined.contains(&number), "group {number}");
    }
}

/// While a group is copied for the last time nobody writes there: what takes long is not for many at once.
#[test]
fn as_many_groups_are_copied_at_a_time_as_are_copied_soon() {
    for (copying, expected) in [(0, 2 * LOADS..=16 * LOADS), (10 * TICK, 1..=LOADS)] {
        let (_, mut world) = kept();
        world.copying = copying;
        world.controller.set_fellow(Time(world.now), fellow(4));
        world.up.insert(4);
        (0..50).for_each(|_| world.tick());
        assert!(expected.contains(&world.copied_most), "{} at a time, each {copying} us", world.copied_most);
        assert!(world.chains_have(4) > 0, "none was copied");
    }
}

/// It may still copy, and not have heard that nobody waits for it, when the next controller begins.
#[test]
fn a_group_whose_joiner_was_given_up_is_one_that_somebody_was_to_join() {
    let (disk, mut world) = kept();
    let joined = world.is_joined();
    world.up.remove(&4);
    for _ in 0..100 {
        world.tick();
    }
    assert!(world.controller.groups().all(|group| group.state == State::Serving), "it is given up");
    let (before, after) = (epochs(&world), epochs(&begun(&disk, &[1, 2, 3, 4], world.now)));
    assert!(joined.iter().all(|number| after[number] > before[number]));
}

/// Records of whoever does not know of `JOINED`, and changes of them by such a one.
#[test]
fn records_of_an_earlier_version_give_new_epochs_to_all() {
    for forgets in [true, false] {
        let (disk, world) = kept();
        let before = epochs(&world);
        if forgets {
            disk.records.borrow_mut().remove(&u32::from(u16::MAX)).expect("it is kept");
        } else {
            let mut records = disk.records.borrow_mut();
            let epoch = records.get_mut(&7).and_then(|value| value.get_mut(3)).expect("group 7 has an epoch");
            *epoch += 1;
        }
        let after = epochs(&begun(&disk, &[1, 2, 3], world.now));
        assert!(before.iter().all(|(number, epoch)| after[number] > *epoch), "forgets: {forgets}");
    }
}

/// A commit took long, or the processor was others': what was said meanwhile is read one after the other.
#[test]
fn nobody_was_silent_while_the_controller_did_not_listen() {
    let (_, mut world) = kept();
    let before = epochs(&world);
    for away in [LEASE / 2, LEASE, 5 * LEASE] {
        world.now += away;
        let renewal = Renewal { boot: 7, sent_us: world.now, ..Renewal::default() };
        // The first of them alone has been read.
        world.say(1, kind::chain::RENEW, |packet| renewal.write(packet, BODY));
        world.controller.on_tick(Time(world.now));
        (0..50).for_each(|_| world.tick());
        assert_eq!(epochs(&world), before, "away for {away} us");
    }
    // Who is dead is noticed all the same, however often the controller is away for a moment.
    world.up.remove(&2);
    world.now = world.now.next_multiple_of(4 * TICK);
    for _ in 0..100 {
        // Then comes a tick with renewals.
        world.now += 3 * TICK;
        world.tick();
    }
    world.settle();
    assert_eq!(world.chains_have(2), 0);
}

/// Each takes an etcd some milliseconds, in which nobody is heard and no lease of a post is renewed.
#[test]
fn many_groups_are_written_in_pieces_and_the_next_controller_goes_on_from_there() {
    let (disk, world) = kept();
    let before = epochs(&world);
    // As if somebody had been about to join anywhere: all of them have to change.
    disk.records.borrow_mut().remove(&u32::from(u16::MAX)).expect("it is kept");
    let mut second = begun(&disk, &[1, 2, 3], world.now);
    (0..10).for_each(|_| second.controller.on_tick(Time(second.now)));
    let between: BTreeMap<u16, u32> = (0..GROUPS).map(|number| (number, disk.epoch(number))).collect();
    let is_written = |number: &u16| between[number] > before[number];
    let written = (0..GROUPS).filter(is_written).count();
    assert!((RECORDS..=12 * RECORDS).contains(&written), "{written} are written");
    let mut third = begun(&disk, &[1, 2, 3], second.now);
    for (number, epoch) in epochs(&third) {
        assert_eq!(epoch > between[&number], !is_written(&number), "group {number}");
    }
    third.settle();
}
