//! How a chain comes about and becomes another, stage by stage: who is told what, and when.

use super::desk::*;
use super::*;
use Role::{Member, None as Nothing};
use wayside_protocol::chain::controller::Notice;

#[test]
fn a_chain_comes_about_from_head_to_tail_and_everybody_is_told_his_own_part() {
    let disk = Disk::default();
    let mut world = begun_as(config([7]), &disk, &[1, 2, 3, 4], START);
    // The fourth has no share.
    world.controller.set_weight(4, 0);
    assert_eq!(world.controller.next_timer(), Time(START + TICK), "it has looked at once");
    assert_eq!(world.controller.looks(), 1);
    assert_eq!(world.state(7), (0, State::Waiting));
    for handle in [1, 2, 3] {
        assert_eq!(world.places(), [], "too few are there");
        world.hear(&[handle]);
        assert_eq!(world.controller.next_timer(), Time(0), "something has happened");
    }

    let before = world.controller.looks();
    let told = world.places();
    // Waiting, FENCE, FILL: in that it stays.
    assert_eq!(world.controller.looks() - before, 3);
    assert_eq!(world.state(7), (1, State::Changing));
    assert_eq!((disk.epoch(7), world.controller.chain(7)), (1, None));
    let chain = world.chain(7);
    let [head, middle, tail] = chain[..] else { panic!("{chain:?}") };
    let to_head = place(7, 1, &chain, head, Member);
    let to_middle = place(7, 1, &chain, middle, Member);
    assert_eq!(told, [to_head, to_middle], "the tail would acknowledge what they may not have");
    assert_eq!(world.controller.next_timer(), Time(START + TICK));

    // Another group's, another epoch's and another life's change nothing.
    let told = to_head.1;
    for other in [Placement { group: 8, ..told }, Placement { epoch: 2, ..told }, Placement { boot: BOOT - 1, ..told }]
    {
        world.say_placed(head, &other);
        world.say_placed(middle, &other);
    }
    assert_eq!(world.controller.next_timer(), Time(START + TICK));
    world.say_placed(head, &told);
    assert_eq!(world.controller.next_timer(), Time(0));
    assert_eq!(world.places_at(START + TICK - 1), [], "a pause comes before it is said again");
    assert_eq!(world.places_at(START + TICK), [to_middle]);
    assert_eq!(world.places_at(START + 2 * TICK), [to_middle]);
    world.say_placed(middle, &to_middle.1);
    assert_eq!(world.places_at(START + 2 * TICK + 1), [place(7, 1, &chain, tail, Member)], "at once");
    assert_eq!((world.notices(), world.controller.chain(7)), (vec![], None));

    // Who is not there yet is told when he comes.
    world.say_placed(tail, &place(7, 1, &chain, tail, Member).1);
    assert_eq!(world.places(), []);
    assert_eq!(world.notices(), [Notice::Active(7, 1)]);
    assert_eq!((world.state(7), world.controller.chain(7)), ((1, State::Serving), Some(&chain[..])));
    assert_eq!(world.controller.chain(8), None);
    assert!(world.controller.is_settled(Time(world.now)));
    world.hear(&[4]);
    let to_other = place(7, 1, &chain, 4, Nothing);
    assert_eq!(world.places(), [to_other], "where clients find the group");
    assert_eq!(world.places_at(START + 3 * TICK + 1), [to_other]);
    world.obey_all(&[to_other]);
    assert_eq!(world.places_at(START + 5 * TICK), []);
    let (looks, commits) = (world.controller.looks(), disk.commits.borrow().len());
    world.hear(&[1, 2, 3, 4]);
    assert_eq!(world.places_at(START + 6 * TICK), []);
    assert_eq!((world.controller.looks(), disk.commits.borrow().len()), (looks, commits), "nothing has changed");
}

/// A switch's clock may be slow, and the controller's fast.
#[test]
fn nobody_is_told_of_the_new_chain_before_the_leases_of_those_who_left_are_over() {
    for is_over in [false, true] {
        let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
        let heard = START + 7;
        world.now = heard;
        world.hear(&[1, 2, 3]);
        assert_eq!(world.listen(heard + LEASE - 1, &[1, 3]), []);
        assert_eq!(world.places_at(heard + LEASE - 1), [], "it may be late");
        assert_eq!(world.notices(), []);
        assert_eq!(world.places_at(heard + LEASE), []);
        assert_eq!(world.notices(), [Notice::Excluded(7, 2)]);
        assert_eq!((world.state(7), world.chain(7)), ((6, State::Changing), vec![1, 3]));
        world.hear(&[1, 3]);
        if is_over {
            assert_eq!(world.places_at(heard + LONGEST), [place(7, 6, &[1, 3], 1, Member)]);
            world.obey_all(&[place(7, 6, &[1, 3], 1, Member)]);
            assert_eq!(world.notices(), [Notice::Active(7, 6)]);
        } else {
            assert_eq!(world.places_at(heard + LONGEST - 1), []);
        }
        // It still owes its leaving, which is in the store.
        assert_eq!(world.disk.records.borrow()[&7], records::group(6, &[1, 3], &[2]));
    }
}

/// Then it may serve what it has joined since, and nobody has to wait for it.
#[test]
fn who_was_left_out_gets_no_lease_before_it_has_forgotten_what_it_left() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.now += 1;
    world.hear(&[2]);
    world.listen(START + 1 + LEASE, &[1, 3]);
    let returned = START + 1 + LEASE;
    assert_eq!(world.places_at(returned), []);
    let answer = world.asks(2, BOOT, returned);
    assert_eq!(answer, Some(Renewal { boot: BOOT, sent_us: returned, ..Renewal::default() }), "it gets no lease");
    let leaving = place(7, 6, &[1, 3], 2, Nothing);
    assert_eq!(world.places(), [leaving], "it is told to leave at once");
    assert_eq!(world.places_at(returned + TICK), [leaving]);
    world.say_placed(2, &leaving.1);
    let filling = place(7, 6, &[1, 3], 1, Member);
    assert_eq!(world.places_at(returned + TICK + 1), [filling], "nobody waits for its lease");
    assert_eq!(world.disk.records.borrow()[&7], records::group(6, &[1, 3], &[]));
    let lease = Renewal { boot: BOOT, sent_us: world.now, lease_us: LEASE as u32, refused: 0 };
    assert_eq!(world.asks(2, BOOT, world.now), Some(lease));
    // And it joins the group again.
    let joiners = world.obey_all(&[filling]);
    assert_eq!(joiners, [pass(world.now << 16 | 1, place(7, 6, &[1, 3], 2, Role::Joiner))]);
    assert_eq!(world.notices(), [Notice::Excluded(7, 2), Notice::Active(7, 6), Notice::Joining(7, 2)]);
}

/// What leaves is told at once, whatever was said a moment ago.
#[test]
fn a_switch_without_a_share_is_left_by_all_groups() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.controller.set_fellow(Time(world.now), fellow(4));
    world.controller.set_weight(4, 0);
    world.controller.set_weight(9, 0);
    world.now += TICK;
    world.hear(&[1, 2, 3, 4]);
    let said = world.now;
    assert_eq!(world.places(), [place(7, 5, &[1, 2, 3], 4, Nothing)]);
    world.controller.set_weight(2, 0);
    let shares: Vec<_> =
        world.controller.switches(Time(said)).map(|(of, is_up)| (of.handle, of.weight, is_up)).collect();
    assert_eq!(shares, [(1, 1, true), (2, 0, true), (3, 1, true), (4, 0, true)]);
    let leaving = place(7, 6, &[1, 3], 2, Nothing);
    assert_eq!(world.places_at(said + 1), [leaving]);
    world.say_placed(2, &leaving.1);
    let filling = place(7, 6, &[1, 3], 1, Member);
    assert_eq!(world.places_at(said + 2), [filling]);
    world.obey_all(&[filling]);
    // Two are left, and one of them is to go.
    world.controller.set_weight(3, 0);
    world.obey();
    assert_eq!((world.state(7), world.chain(7)), ((7, State::Serving), vec![1]));
    // Somebody has to have it.
    world.controller.set_weight(1, 0);
    world.obey();
    assert_eq!((world.state(7), world.chain(7)), ((7, State::Serving), vec![1]));
}

/// 128 groups in 20 ms are what sockets' queues take.
#[test]
fn groups_that_wait_are_told_of_in_turns() {
    let groups: Vec<Kept> = (0..300).map(|number| (number, 1, &[1, 2][..], &[][..])).collect();
    let mut world = kept_by(&groups, &[1, 2], |config| config.length = 2);
    let told = |world: &mut World, now: u64| -> Vec<u16> {
        let places = world.places_at(now);
        assert!(places.iter().all(|(to, told)| *to == 1 && told.role == Member as u8));
        places.iter().map(|(_, told)| told.group).collect()
    };
    let turns = [0..128, 0..128, 128..256, 256..300];
    let turn = |turn: usize| -> Vec<u16> { turns[turn].clone().collect() };
    assert_eq!(told(&mut world, START), turn(0));
    assert_eq!(told(&mut world, START + TICK - 1), []);
    assert_eq!(told(&mut world, START + TICK), turn(1), "those that are looked at next have had theirs");
    assert_eq!(told(&mut world, START + 2 * TICK), turn(2));
    let fourth = told(&mut world, START + 3 * TICK);
    assert_eq!(fourth, (0..84).chain(256..300).collect::<Vec<u16>>());
    assert_eq!(told(&mut world, START + 4 * TICK), (84..212).collect::<Vec<u16>>());
}
