//! How a key is made, and what daemons know of names.

use wayside_protocol::chain::memory::ItemMemory;
use wayside_wire::{Effect, Outcome, kind};

use crate::support::*;

const NAME: &[u8] = b"key/1";

#[test]
fn a_key_is_answered_to_be_made_by_the_tail_once_every_switch_has_it_with_one_first_version() {
    let mut world = World::new(3);
    let group = group_of(NAME);
    world.seats[0].switch.next_sequence(group);
    let asked = world.operation(2, NAME);
    world.ask(0, kind::chain::INSERT, &asked, NAME);
    assert!(world.step());
    for seat in 1..3 {
        let install = world.take_only(kind::chain::INSTALL);
        let (header, effect) = (install.header(), install.effect());
        assert_eq!((install.from, install.to, install.port), (switch(seat - 1), switch(seat), 0));
        assert_eq!((header.source, header.destination, header.epoch), (install.from, install.to, EPOCH));
        assert_eq!((header.namespace, install.blocks().starts_with(NAME)), (SPACE, true));
        assert_eq!((effect.request, effect.client, effect.reply_port), (asked.request, 2, address(2).port()));
        // The head's count when the packet went on, and the version that the key began with.
        assert_eq!((effect.sequence, own(&effect)), (2, version(EPOCH, 3)));
        let contents = world.contents(NAME);
        assert_eq!(contents[seat - 1], nothing(version(EPOCH, 3)));
        assert_eq!(contents[seat], None);
        world.deliver(install);
    }
    let answer = world.take_only(kind::chain::ANSWER);
    let (header, effect) = (answer.header(), answer.effect());
    assert_eq!((answer.from, answer.to, answer.port), (switch(2), 2, address(2).port()));
    assert_eq!((header.source, header.destination, header.count, header.epoch), (0, 2, 0, EPOCH));
    assert_eq!(
        effect,
        Effect {
            key_high: asked.key_high,
            key_low: asked.key_low,
            request: asked.request,
            sequence: 2,
            group,
            client: 2,
            reply_port: address(2).port(),
            outcome: Outcome::Done as u8,
            own_epoch: EPOCH,
            own_sequence: 3,
            ..Effect::default()
        }
    );
    assert_eq!(world.contents(NAME), vec![nothing(version(EPOCH, 3)); 3]);
    assert!(world.seats.iter().all(|seat| seat.member.is_named(group, key(NAME))));
}

#[test]
fn a_key_that_is_there_is_answered_with_the_version_that_it_began_with() {
    let mut world = World::new(2);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    let first = world.contents(NAME)[0].expect("it was made").version;
    assert!(world.write(1, NAME, b"x").is_some_and(|written| written > first));
    let asked = world.operation(3, NAME);
    world.ask(0, kind::chain::INSERT, &asked, NAME);
    world.settle();
    let answers = world.received(3);
    assert_eq!(kinds(&answers), [kind::chain::ANSWER]);
    assert_eq!((answers[0].effect().outcome, own(&answers[0].effect())), (Outcome::Done as u8, first));
    assert_eq!(world.values(NAME), vec![Some(b"x".to_vec()); 2]);
}
