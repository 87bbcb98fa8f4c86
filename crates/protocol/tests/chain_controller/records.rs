//! What another post finds in the store, and what it makes of it.

use super::*;
use wayside_protocol::chain::controller::Notice;

/// Above the keys of all groups, and what is kept of those that somebody was to join.
pub const SWITCHES: u32 = 1 << 16;
pub const JOINED: u32 = u16::MAX as u32;

/// A group's record.
pub fn group(epoch: u32, chain: &[Handle], owing: &[Handle]) -> Vec<u8> {
    let mut value = epoch.to_be_bytes().to_vec();
    value.push(chain.len() as u8);
    chain.iter().chain(owing).for_each(|handle| value.extend(handle.to_be_bytes()));
    value
}

impl Disk {
    fn copy(&self) -> Disk {
        Disk { records: Rc::new(RefCell::new(self.records.borrow().clone())), ..Disk::default() }
    }

    /// These alone, and the sum of their epochs.
    pub fn of(records: &[(u32, Vec<u8>)], epochs: u64) -> Disk {
        let disk = Disk::default();
        disk.records.borrow_mut().extend(records.iter().cloned());
        disk.records.borrow_mut().insert(JOINED, epochs.to_be_bytes().to_vec());
        disk
    }
}

impl World {
    pub fn is_active(&self) -> bool {
        self.controller.is_active(Time(self.now))
    }

    pub fn state(&self, number: u16) -> (u32, State) {
        let found = self.controller.groups().find(|group| group.number == number).expect("there is such a group");
        (found.epoch, found.state)
    }

    /// A switch asks for its lease, in this beginning. Whether it is answered.
    fn renews(&mut self, handle: Handle, boot: u64) -> bool {
        self.now += 1;
        self.boots.insert(handle, boot);
        let renewal = Renewal { boot, sent_us: self.now, ..Renewal::default() };
        self.say(handle, kind::chain::RENEW, |packet| renewal.write(packet, BODY));
        let said: Vec<Sent> = std::iter::from_fn(|| self.controller.transmit()).collect();
        let answers = |sent: &Sent| check(&sent.packet).is_ok_and(|header| header.kind == kind::chain::RENEWED);
        said.iter().any(|sent| sent.to == handle && answers(sent))
    }
}

/// It will be told of the switch: until then another chain could leave out who has everything.
#[test]
fn a_post_is_taken_up_only_when_every_switch_of_the_records_is_known() {
    let known = Disk::of(&[(7, group(5, &[1, 2], &[3])), (SWITCHES + 3, vec![7])], 5);
    let world = begun(&known, &[1, 2, 3], 0);
    assert!(world.is_active());
    assert_eq!(world.state(7).0, 5);
    for record in [
        (7, group(5, &[1, 9], &[])),
        (7, group(5, &[9, 1], &[])),
        (7, group(5, &[1, 2], &[9])),
        (7, group(5, &[1, 2], &[9, 3])),
        (SWITCHES + 9, vec![7]),
        // No switch has this one.
        (SWITCHES, vec![7]),
    ] {
        let told = format!("{record:?}");
        let mut world = begun(&Disk::of(&[record], 5), &[1, 2, 3], 0);
        assert!(!world.is_active(), "{told}");
        assert_eq!(world.controller.notice(), Some(Notice::StoreFailed));
    }
    // Of another version, or of a group that is not there any more.
    let strange = [(7, vec![]), (8, vec![0, 0, 0, 5]), (u32::from(GROUPS), group(5, &[9], &[]))];
    let world = begun(&Disk::of(&strange, 0), &[1, 2, 3], 0);
    assert!(world.is_active());
    assert_eq!([7, 8].map(|number| world.state(number)), [(0, State::Waiting); 2]);
}

#[test]
fn a_group_that_was_lost_is_so_for_the_next_post_until_it_is_begun_anew() {
    let disk = Disk::of(&[(7, group(5, &[], &[])), (8, group(6, &[1], &[]))], 11);
    let mut world = begun(&disk, &[1, 2, 3], 0);
    assert_eq!([7, 8].map(|number| world.state(number)), [(5, State::Lost), (6, State::Changing)]);
    for _ in 0..100 {
        world.tick();
    }
    assert_eq!(world.state(7), (5, State::Lost), "nobody has what it had");
    assert!(world.controller.begin_lost(Time(world.now), 7));
    world.settle();
    assert!(world.state(7).0 > 5);
}

/// Or a copy of what it said before it lost its memory would bring it back.
#[test]
fn the_latest_beginning_of_a_switch_is_in_the_store_and_nothing_earlier_is_heard() {
    let (disk, world) = kept();
    for handle in [1, 2, 3] {
        assert_eq!(disk.records.borrow()[&(SWITCHES + handle)], 7u64.to_be_bytes());
    }
    let before = epochs(&world);
    let mut world = begun(&disk, &[1, 2, 3], world.now);
    assert!(!world.renews(1, 6), "of before");
    assert!(world.renews(1, 7));
    assert_eq!(epochs(&world), before, "it is the same beginning");
    world.renews(1, 8);
    let after = epochs(&world);
    assert!(before.iter().all(|(number, epoch)| after[number] > *epoch), "it has nothing of what it had");
    world.settle();
    assert!(world.renews(1, 8));
    assert_eq!(disk.records.borrow()[&(SWITCHES + 1)], 8u64.to_be_bytes());
}

/// More groups change than are written at a time, and the controller may die in between: it knows the next one that the
/// switch has lost its memory, or that it has left the chains.
#[test]
fn a_switch_that_has_lost_its_memory_is_known_to_after_the_chains_without_it() {
    let (disk, mut world) = kept();
    world.up.remove(&1);
    assert!(!world.renews(1, 8), "not before its chains are written");
    let left = |disk: &Disk| {
        let records = disk.records.borrow();
        (0..GROUPS).filter(|number| !chain(&records[&u32::from(*number)]).contains(&1)).count()
    };
    let mut between = 0;
    while disk.records.borrow()[&(SWITCHES + 1)] == 7u64.to_be_bytes() {
        between += usize::from((1..usize::from(GROUPS)).contains(&left(&disk)));
        let copy = disk.copy();
        let mut next = begun(&copy, &[1, 2, 3], world.now);
        next.renews(1, 8);
        assert_eq!(next.chains_have(1), 0, "the next controller takes it for one that has what it had");
        world.now += 1;
        world.controller.on_tick(Time(world.now));
    }
    assert!(between > 1, "they are written in pieces");
    assert_eq!(left(&disk), usize::from(GROUPS));
}

/// The handles of a group's record that are its chain.
fn chain(record: &[u8]) -> Vec<Handle> {
    let handles = record[5..].chunks(2).map(|bytes| Handle::from_be_bytes([bytes[0], bytes[1]]));
    handles.take(record[4].into()).collect()
}

/// Another one may have had it in between.
#[test]
fn a_controller_that_gets_its_post_back_goes_on_from_the_store() {
    let (disk, mut world) = kept();
    let before = epochs(&world);
    let until = Time(u64::MAX);
    world.controller.take_post(Time(world.now), until);
    assert_eq!(epochs(&world), before, "it had it already");
    world.controller.leave_post();
    // Whoever had it meanwhile has begun this one again, and told of that.
    let mut other = begun(&disk, &[1, 2, 3], world.now);
    other.renews(1, 8);
    while other.controller.next_timer() <= Time(other.now) {
        other.controller.on_tick(Time(other.now));
    }
    other.settle();
    let between = epochs(&other);
    assert!(before.iter().all(|(number, epoch)| between[number] > *epoch));
    world.now = other.now;
    world.controller.take_post(Time(world.now), until);
    assert_eq!(world.controller.groups().count(), usize::from(GROUPS));
    assert_eq!(epochs(&world), between);
    assert!(!world.renews(1, 7), "it has begun anew since");
}
