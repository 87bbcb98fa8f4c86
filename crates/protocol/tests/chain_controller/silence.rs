//! Who is heard, who is silent, and who has begun anew.

use super::desk::*;
use super::records::{JOINED, SWITCHES};
use super::*;
use Role::None as Nothing;
use wayside_protocol::chain::controller::Notice;
use wayside_wire::packet_bytes;

#[test]
fn silence_is_counted_while_the_controller_listens_and_no_longer() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.now = START + 1;
    world.hear(&[1, 2, 3]);
    world.listen(START + LEASE * 4 / 5, &[1, 3]);
    // It has been away, and hears nobody before it looks.
    let away = LEASE / 2;
    world.now += away;
    assert_eq!(world.places(), []);
    let silent = START + 1 + LEASE + away;
    world.hear(&[1, 3]);
    world.listen(silent - 1, &[1, 3]);
    assert_eq!(world.places_at(silent - 1), []);
    assert_eq!(world.notices(), []);
    world.places_at(silent);
    assert_eq!(world.notices(), [Notice::Excluded(7, 2)]);

    // If all but one are silent, all of these are left out.
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.listen(START + LEASE, &[1]);
    world.places_at(START + LEASE);
    assert_eq!((world.notices(), world.chain(7)), (vec![Notice::Excluded(7, 2), Notice::Excluded(7, 3)], vec![1]));

    // What others say is listening, too.
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    while world.now < START + LEASE {
        for _ in 0..2 {
            world.now += 3 * TICK;
            world.hear(&[1, 3]);
        }
        world.places();
    }
    assert_eq!(world.notices(), [Notice::Excluded(7, 2)]);
}

/// They may be of an earlier life, or late: the lease would run on.
#[test]
fn what_a_switch_asked_before_it_asked_last_is_not_answered() {
    let mut world = kept_by(&[(7, 5, &[1, 2, 3], &[])], &[1, 2, 3], |_| {});
    world.controller.set_fellow(Time(START), fellow(4));
    let is_up = |world: &World, handle: Handle| {
        world.controller.switches(Time(world.now)).any(|(of, is_up)| of.handle == handle && is_up)
    };
    assert_eq!(world.asks(4, 0, 5), None, "it follows nobody");
    assert!(!is_up(&world, 4));
    assert_eq!(world.asks(9, BOOT, 5), None, "nobody knows it");
    let lease = |boot, sent_us| Some(Renewal { boot, sent_us, lease_us: LEASE as u32, refused: 0 });
    for (boot, sent_us, is_answered) in [
        (BOOT, 5, true),
        (BOOT, 5, false),
        (BOOT, 4, false),
        (BOOT, 6, true),
        (BOOT - 1, 7, false),
        (BOOT + 1, 3, true),
        (BOOT, 8, false),
        (BOOT + 1, 3, false),
        (BOOT + 1, 4, true),
    ] {
        let expected = lease(boot, sent_us).filter(|_| is_answered);
        assert_eq!(world.asks(4, boot, sent_us), expected, "{boot}, {sent_us}");
        assert!(is_up(&world, 4));
    }
}

/// A lease is for all of a switch's groups.
#[test]
fn who_owes_one_group_its_leaving_gets_no_lease() {
    let groups: [Kept; 2] = [(7, 5, &[1, 3], &[2]), (8, 5, &[1, 2], &[])];
    let mut world = kept_by(&groups, &[1, 2, 3], |config| config.length = 2);
    let answer = |world: &mut World, handle| world.asks(handle, BOOT, world.now).map(|answer| answer.lease_us);
    assert_eq!(answer(&mut world, 2), Some(0));
    assert_eq!(answer(&mut world, 1), Some(LEASE as u32));
}

/// It has nothing of what it had; and the store hears of the beginning after the chains without it.
#[test]
fn who_begins_anew_has_left_its_chains_and_owes_nothing_and_other_groups_do_not_notice() {
    let groups: [Kept; 4] = [(7, 5, &[1, 2], &[]), (8, 5, &[1, 3], &[2]), (9, 5, &[1, 3], &[]), (10, 5, &[2, 3], &[])];
    let mut world = kept_by(&groups, &[1, 2, 3], |_| {});
    world.disk.commits.borrow_mut().clear();
    let answer = world.asks(2, BOOT + 1, 1);
    assert_eq!(answer, Some(Renewal { boot: BOOT + 1, sent_us: 1, lease_us: LEASE as u32, refused: 0 }));
    assert_eq!(*world.disk.commits.borrow(), [[7, 8, 10, SWITCHES + 2, JOINED]]);
    let records = world.disk.records.borrow().clone();
    let kept = [(6, &[1][..]), (5, &[1, 3]), (5, &[1, 3]), (6, &[3])];
    for (number, (epoch, chain)) in (7..).zip(kept) {
        assert_eq!(records[&number], records::group(epoch, chain, &[]), "group {number}");
    }
    assert_eq!(world.notices(), [Notice::Excluded(7, 2), Notice::Excluded(10, 2)]);
}

/// It has forgotten where clients find groups.
#[test]
fn who_begins_anew_is_told_again_of_groups_that_it_has_no_part_in() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.controller.set_fellow(Time(START), Fellow { weight: 0, ..fellow(4) });
    world.hear(&[4]);
    let (to, told) = place(7, 5, &[1, 2, 3], 4, Nothing);
    let places = world.places();
    assert_eq!(places, [(to, told)]);
    world.obey_all(&places);
    world.boots.insert(4, BOOT + 1);
    world.hear(&[4]);
    assert_eq!(world.places_at(START + TICK), [(4, Placement { boot: BOOT + 1, ..told })]);
    assert_eq!(world.notices(), []);
}

#[test]
fn only_packets_of_its_own_service_say_anything_to_it() {
    let mut world = kept_by(&[(7, 5, &[1, 2, 3], &[])], &[1, 2, 3], |_| {});
    world.places();
    // Of the same number, and as long.
    let count = (1..).find(|count| {
        packet_bytes(service::LOCK, kind::lock::QUEUE, *count).is_ok_and(|bytes| bytes >= BODY + Renewal::BYTES)
    });
    let count = count.expect("many entries");
    let mut packet = vec![0; packet_bytes(service::LOCK, kind::lock::QUEUE, count).expect("a length")];
    let kind = kind::lock::QUEUE;
    assert_eq!(kind, kind::chain::RENEW);
    let header = Header { service: service::LOCK, kind, source: 2, destination: 1, count, ..Header::default() };
    header.write(&mut packet);
    Renewal { boot: BOOT, sent_us: 5, ..Renewal::default() }.write(&mut packet, BODY);
    assert_eq!(check(&packet).map(|header| header.kind), Ok(kind));
    world.controller.on_packet(Time(world.now), &packet);
    assert_eq!(world.controller.transmit(), None);
}
