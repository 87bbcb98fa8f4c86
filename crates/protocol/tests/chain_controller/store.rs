//! The post and the store: what is decided without them is said to nobody.

use super::desk::*;
use super::records::{JOINED, SWITCHES};
use super::*;
use Role::{Joiner, Member};
use wayside_protocol::chain::controller::Notice;

#[test]
fn nothing_is_said_or_heard_from_the_end_of_the_post_on() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    let (looks, until) = (world.controller.looks(), START + 3 * TICK);
    let renews = |world: &mut World| {
        let renewal = Renewal { boot: BOOT, sent_us: world.now, ..Renewal::default() };
        world.say(2, kind::chain::RENEW, |packet| renewal.write(packet, BODY));
    };
    world.controller.take_post(Time(START + TICK), Time(until));
    assert_eq!(world.controller.looks(), looks, "it has it longer: that is no reason to look at anything");
    assert_eq!(world.controller.next_timer(), Time(START + TICK));
    world.now = until - 1;
    assert!(world.is_active());
    world.controller.set_weight(2, 0);
    world.controller.on_tick(Time(world.now));
    renews(&mut world);
    assert_eq!((world.state(7).0, world.controller.next_timer()), (6, Time(0)));
    // What was not sent until then is not sent any more.
    world.now = until;
    assert!(!world.is_active());
    world.controller.on_tick(Time(world.now));
    assert_eq!((world.controller.transmit(), world.controller.next_timer()), (None, Time::NEVER));
    renews(&mut world);
    assert_eq!((world.controller.transmit(), world.controller.next_timer()), (None, Time::NEVER));
    world.now += TICK;
    renews(&mut world);
    assert_eq!((world.controller.transmit(), world.controller.next_timer()), (None, Time::NEVER));
}

#[test]
fn what_the_store_does_not_take_is_said_to_nobody_and_tried_again_after_a_pause() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.disk.is_away.set(true);
    assert_eq!(world.asks(2, BOOT + 1, 1), None);
    assert_eq!(world.notices(), [Notice::Excluded(7, 2), Notice::StoreFailed]);
    let failed = START;
    assert_eq!(world.places(), []);
    assert!(world.controller.next_timer() > Time(failed), "there is nothing to do until then");
    assert_eq!(world.asks(3, BOOT, 1), Some(Renewal { boot: BOOT, sent_us: 1, lease_us: LEASE as u32, refused: 0 }));
    assert_eq!(world.places_at(failed + TICK - 1), []);
    assert_eq!(world.notices(), []);
    assert_eq!(world.places_at(failed + TICK), []);
    assert_eq!(world.notices(), [Notice::StoreFailed]);
    world.disk.is_away.set(false);
    assert_eq!(world.places_at(failed + 2 * TICK - 1), []);
    assert_eq!(world.disk.epoch(7), 5);
    assert_eq!(world.places_at(failed + 2 * TICK), [place(7, 6, &[1, 3], 1, Member)]);
    assert_eq!((world.disk.epoch(7), world.notices()), (6, vec![]));
}

/// Each of its commits takes a while, in which the owner has other things to do.
#[test]
fn groups_are_told_of_as_soon_as_they_are_in_the_store() {
    let groups = 150;
    let disk = Disk::default();
    let mut world = begun_as(Config { length: 2, ..config(0..groups) }, &disk, &[1, 2], START);
    world.hear(&[1, 2]);
    disk.commits.borrow_mut().clear();
    for (written, is_wanted) in [(0..99, true), (99..groups, false)] {
        let told: Vec<u16> = world.places().iter().map(|(_, told)| told.group).collect();
        assert_eq!(told, written.clone().collect::<Vec<u16>>());
        let commit: Vec<u32> = written.map(u32::from).chain([JOINED]).collect();
        assert_eq!(disk.commits.borrow_mut().pop(), Some(commit));
        assert_eq!(world.controller.next_timer() == Time(0), is_wanted);
    }
}

/// What a controller decided and nobody has written is not so: another one may have had the post since.
#[test]
fn with_the_post_goes_what_was_not_written() {
    let mut world = kept_by(&[(7, 5, &[1, 2, 3], &[])], &[1, 2, 3], |config| config.records_most = 1);
    world.obey();
    world.disk.is_away.set(true);
    assert_eq!(world.asks(2, BOOT + 1, 1), None);
    assert_eq!(world.state(7).0, 6);
    // Notices come in the order of what happened.
    world.controller.leave_post();
    world.controller.take_post(Time(START + 1), Time::NEVER);
    let notices = [Notice::Active(7, 5), Notice::Excluded(7, 2), Notice::StoreFailed, Notice::StoreFailed];
    assert_eq!((world.notices(), world.is_active()), (notices.to_vec(), false));

    world.disk.is_away.set(false);
    world.disk.commits.borrow_mut().clear();
    world.controller.take_post(Time(START + 2), Time::NEVER);
    let filling = [1, 2].map(|handle| place(7, 5, &[1, 2, 3], handle, Member));
    for now in [START + 2, START + 2 + TICK, START + 2 + 2 * TICK] {
        assert_eq!(world.places_at(now), filling);
    }
    assert_eq!(*world.disk.commits.borrow(), [[0; 0]; 0]);
}

/// Nobody waits for chains without it, unless it has lost its memory since the post was taken.
#[test]
fn the_beginning_of_a_switch_that_is_new_is_written_before_groups() {
    let mut world = kept_by(&[(7, 5, &[1, 3], &[])], &[1, 2, 3], |config| {
        (config.length, config.records_most) = (2, 1);
    });
    world.controller.set_weight(2, 0);
    world.disk.is_away.set(true);
    assert_eq!(world.asks(2, BOOT + 1, 1), None, "it begins anew");
    world.controller.leave_post();
    world.disk.is_away.set(false);
    // As if it had never been heard of.
    world.disk.records.borrow_mut().remove(&(SWITCHES + 2)).expect("its beginning");
    world.now += 1;
    world.controller.take_post(Time(world.now), Time::NEVER);
    world.disk.is_away.set(true);
    world.controller.set_weight(3, 0);
    world.obey();
    assert_eq!((world.state(7).0, world.notices().last()), (6, Some(&Notice::StoreFailed)));
    world.disk.is_away.set(false);
    world.disk.commits.borrow_mut().clear();
    world.now += TICK;
    assert!(world.asks(2, BOOT + 1, 1).is_some());
    assert_eq!(*world.disk.commits.borrow(), [[SWITCHES + 2, JOINED]]);
}

/// The store that failed was asked before: now it is another's.
#[test]
fn a_post_that_was_taken_up_asks_the_store_at_once() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.disk.is_away.set(true);
    world.asks(2, BOOT + 1, 1);
    world.disk.is_away.set(false);
    world.controller.leave_post();
    world.now += 1;
    world.controller.take_post(Time(world.now), Time::NEVER);
    assert!(world.asks(2, BOOT + 1, 1).is_some());
    assert_eq!(world.disk.epoch(7), 6);
}

/// Others gave leases meanwhile, and heard who was there; and a switch may have another clock.
#[test]
fn who_gets_its_post_back_knows_nothing_of_leases_and_silence_before() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    assert!(world.asks(1, BOOT, START).is_some());
    world.controller.leave_post();
    let back = START + 10 * LEASE;
    world.now = back;
    world.controller.take_post(Time(back), Time::NEVER);
    let filling = [1, 2].map(|handle| place(7, 5, &[1, 2, 3], handle, Member));
    assert_eq!(world.places(), filling, "they are told again, of the same");
    assert!(world.asks(1, BOOT, 5).is_some());
    world.obey_all(&filling);
    assert_eq!(world.notices(), [Notice::Active(7, 5)]);
    world.listen(back + LEASE - 1, &[1, 3]);
    assert_eq!(world.places_at(back + LEASE - 1), []);
    assert_eq!(world.notices(), []);
    assert_eq!(world.places_at(back + LEASE), []);
    assert_eq!(world.notices(), [Notice::Excluded(7, 2)]);
    world.hear(&[1, 3]);
    assert_eq!(world.listen(back + LONGEST, &[1, 3]), []);
    assert_eq!(world.places_at(back + LONGEST - 1), []);
    let told = world.places_at(back + LONGEST + TICK);
    assert_eq!(told, [place(7, 6, &[1, 3], 1, Member)]);
}

#[test]
fn copyings_of_an_earlier_post_are_nobodys() {
    let groups: [Kept; 2] = [(7, 5, &[1], &[]), (8, 5, &[2], &[])];
    let mut world = kept_by(&groups, &[1, 2], |config| (config.length, config.loads_least) = (2, 1));
    assert_eq!(world.obey().len(), 1, "another group waits for that");
    world.controller.leave_post();
    // Whoever has it then has both groups copied.
    let copied = [(7, [1, 2]), (8, [2, 1])].map(|(number, chain)| (number, records::group(6, &chain, &[])));
    world.disk.records.borrow_mut().extend(copied);
    world.disk.records.borrow_mut().insert(JOINED, 12u64.to_be_bytes().to_vec());
    world.controller.take_post(Time(world.now), Time::NEVER);
    assert_eq!(world.obey(), []);
    assert!(world.controller.is_settled(Time(world.now)));
    world.controller.set_fellow(Time(world.now), Fellow { weight: 1000, ..fellow(3) });
    world.hear(&[3]);
    let joiners = world.obey();
    assert_eq!(joiners, [pass(START << 16 | 2, place(7, 6, &[1, 2], 3, Joiner))]);
}
