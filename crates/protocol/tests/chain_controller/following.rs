//! A switch's daemon as its controllers see it: what it asks them, and what it makes of what they tell.

use std::sync::Arc;

use super::*;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{Following, GroupRoute, Groups, Key, Lease, Member, Place, Sweeping};
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_switch::{StoreConfig, Switch, SwitchConfig};
use wayside_wire::{Copied, Effect, Part, Scope, Watch, limits};

const OWN: Handle = 3;
const CONTROLLERS: [Handle; 2] = [8, 9];
const SPACE: u16 = 5;
const SPACE_NAME: &[u8] = b"space";
/// The only group of its namespace.
const GROUP: u16 = 7;
const NOW: Time = Time(1_000_000);
const RENEWAL: u64 = 150_000;
const RETRANSMIT: u64 = 20_000;
const LOOK_AGAIN: u64 = 1_000_000;

struct Daemon {
    member: Member<Arc<Switch>>,
    switch: Arc<Switch>,
}

/// One that has begun so often.
fn daemon(boot: u64) -> Daemon {
    daemon_with(boot, LOOK_AGAIN)
}

fn daemon_with(boot: u64, look_again: u64) -> Daemon {
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 20 }).with_store(StoreConfig { keys: 16, seed: 7 });
    let switch = Arc::new(switch);
    let controllers = CONTROLLERS.to_vec();
    let following = Following { boot, controllers, renewal: RENEWAL, retransmit: RETRANSMIT, window: 4, mutant: None };
    let sweeping = Sweeping { collect_after: 0, look_again, ..Sweeping::default() };
    let space = Groups { namespace: SPACE, name: SPACE_NAME.into(), base: GROUP, count: 1 };
    let other = Groups { namespace: SPACE + 1, name: b"other".as_slice().into(), base: GROUP + 1, count: 1 };
    let member = Member::new(Arc::clone(&switch), OWN, vec![space, other]).following(following).sweeping(sweeping);
    Daemon { member, switch }
}

/// A packet of the chain service, for the switch.
fn packet(header: Header, body: impl FnOnce(&mut [u8]), content: &[u8]) -> Vec<u8> {
    let count = content.len().div_ceil(limits::BLOCK_BYTES);
    let header = Header { service: service::CHAIN, namespace: SPACE, destination: OWN, count: count as u8, ..header };
    let mut packet = vec![0; BODY + Copied::BYTES + count * limits::BLOCK_BYTES];
    header.write(&mut packet);
    body(&mut packet);
    packet[BODY + Copied::BYTES..][..content.len()].copy_from_slice(content);
    check(&packet).expect("a packet");
    packet
}

fn placement(role: Role, epoch: u32) -> Placement {
    Placement { boot: BOOT, epoch, group: GROUP, role: role as u8, ..Placement::default() }
}

fn joiner(epoch: u32, pass: u64) -> Placement {
    Placement { source: 1, pass, ..placement(Role::Joiner, epoch) }
}

/// What a daemon says: the receiver, the header's epoch, and what it is.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Renew(Handle, Renewal),
    Placed(Handle, Placement),
    Fetch(Handle, Copied),
    Removed(Handle, Copied),
}

impl Daemon {
    fn said(&mut self) -> Vec<Said> {
        let said = std::iter::from_fn(|| self.member.transmit()).map(|sent| {
            let (header, packet) = (check(&sent.packet).expect("a packet"), &sent.packet);
            assert_eq!((header.source, header.destination, sent.port), (OWN, sent.to, 0));
            match header.kind {
                kind::chain::RENEW => Said::Renew(sent.to, Renewal::read(packet, BODY)),
                kind::chain::PLACED => {
                    let told = Placement::read(packet, BODY);
                    assert_eq!(header.epoch, told.epoch);
                    Said::Placed(sent.to, told)
                }
                kind::chain::FETCH => Said::Fetch(sent.to, Copied::read(packet, BODY)),
                kind::chain::REMOVED => Said::Removed(sent.to, Copied::read(packet, BODY)),
                other => panic!("it says {other}"),
            }
        });
        said.collect()
    }

    fn tick(&mut self, now: Time) -> Vec<Said> {
        self.member.on_tick(now);
        self.said()
    }

    /// A controller tells of a place. What is answered.
    fn told(&mut self, told: Placement) -> Vec<Said> {
        let header =
            Header { kind: kind::chain::PLACE, source: CONTROLLERS[1], epoch: told.epoch, ..Header::default() };
        self.member.on_fellow(NOW, &packet(header, |packet| told.write(packet, BODY), &[]));
        self.said()
    }

    fn renewed(&mut self, boot: u64, sent_us: u64, lease_us: u32) {
        let header = Header { kind: kind::chain::RENEWED, source: CONTROLLERS[0], ..Header::default() };
        let told = Renewal { boot, sent_us, lease_us, refused: 0 };
        self.member.on_fellow(NOW, &packet(header, |packet| told.write(packet, BODY), &[]));
    }

    /// Its source answers what a part of a group asked for.
    fn copied(&mut self, piece: Copied, content: &[u8]) -> Vec<Said> {
        let header = Header { kind: kind::chain::COPY, source: 1, ..Header::default() };
        self.member.on_fellow(NOW, &packet(header, |packet| piece.write(packet, BODY), content));
        self.said()
    }

    /// What answers a question for a key with both pieces of this one, which has no value.
    fn copies(&mut self, nonce: u64, name: &[u8]) -> Vec<Said> {
        let key = Key::of(SPACE_NAME, name).expect("a name");
        let piece =
            Copied { key_high: key.high, key_low: key.low, nonce, sequence: 1, epoch: 5, group: GROUP, ..nothing() };
        let first = self.copied(Copied { part: Part::Name as u8, length: name.len() as u16, ..piece }, name);
        assert_eq!(first, []);
        self.copied(Copied { part: Part::Value as u8, ..piece }, &[])
    }

    fn has(&self, name: &[u8]) -> bool {
        let key = Key::of(SPACE_NAME, name).expect("a name");
        let has = self.switch.content(GROUP, key).is_some();
        assert_eq!(self.member.is_named(GROUP, key), has, "whatever key the memory has, its name is here");
        has
    }

    fn place(&self) -> Place {
        self.switch.place(GROUP)
    }
}

fn nothing() -> Copied {
    Copied { group: GROUP, ..Copied::default() }
}

/// The first question of a switch that copies.
fn first_question(boot: u64) -> Said {
    Said::Fetch(1, Copied { nonce: (boot << 20) + 1, ..nothing() })
}

fn placed(told: Placement) -> [Said; 1] {
    [Said::Placed(CONTROLLERS[1], told)]
}

#[test]
fn a_switch_asks_all_who_may_be_its_controller_for_its_lease_and_again_after_a_pause() {
    let mut daemon = daemon(BOOT);
    assert_eq!(daemon.member.next_timer(), Time(0));
    let asks = |now: Time| {
        CONTROLLERS
            .map(|controller| Said::Renew(controller, Renewal { boot: BOOT, sent_us: now.0, ..Renewal::default() }))
    };
    assert_eq!(daemon.tick(NOW), asks(NOW));
    assert_eq!(daemon.member.next_timer(), NOW + RENEWAL);
    assert_eq!(daemon.tick(Time(NOW.0 + RENEWAL - 1)), []);
    assert_eq!(daemon.tick(NOW + RENEWAL), asks(NOW + RENEWAL));
    daemon.member.follow(vec![CONTROLLERS[1]]);
    let now = NOW + 2 * RENEWAL;
    assert_eq!(daemon.tick(now), asks(now)[1..]);
}

#[test]
fn a_switch_that_follows_nobody_asks_for_no_lease_and_looks_after_its_keys_all_the_same() {
    let mut daemon = daemon(0);
    assert_eq!(daemon.tick(NOW), []);
    assert_eq!(daemon.member.next_timer(), NOW + LOOK_AGAIN);
}

#[test]
fn a_daemon_is_wanted_again_when_the_first_of_what_it_does_is_due() {
    let mut daemon = daemon_with(BOOT, RENEWAL / 2);
    daemon.tick(NOW);
    assert_eq!(daemon.member.next_timer(), NOW + RENEWAL / 2, "it looks at its keys");
}

#[test]
fn a_lease_runs_from_when_it_was_asked_for_and_only_in_the_life_that_asked() {
    let mut daemon = daemon(BOOT);
    daemon.renewed(BOOT - 1, 5, 600);
    daemon.renewed(BOOT, 5, 0);
    assert_eq!(daemon.member.lease(), None);
    daemon.renewed(BOOT, 5, 1);
    assert_eq!(daemon.member.lease(), Some(Lease { since: Time(5), lasts: 1 }));
    assert_eq!(daemon.member.lease(), None);
}

#[test]
fn a_place_is_taken_once_an_epoch_and_acknowledged_whenever_it_is_told() {
    let mut daemon = daemon(BOOT);
    let member = Placement { previous: 1, next: 4, ..placement(Role::Member, 5) };
    assert_eq!(daemon.told(member), placed(member));
    let place = Place { epoch: 5, previous: 1, next: 4 };
    assert_eq!((daemon.place(), daemon.member.places_changed()), (place, 1));
    assert_eq!(daemon.told(member), placed(member));
    assert_eq!((daemon.place(), daemon.member.places_changed()), (place, 1));
    // Of an earlier life, of before, of a group that is not there, and of a role that nobody knows.
    for other in [
        Placement { boot: BOOT - 1, epoch: 6, ..member },
        Placement { epoch: 4, ..member },
        Placement { group: GROUP + 2, epoch: 6, ..member },
        Placement { role: 9, epoch: 6, ..member },
    ] {
        assert_eq!(daemon.told(other), [], "{other:?}");
        assert_eq!(daemon.place(), place);
    }
    // The tail that takes nothing new: nobody comes before it but itself.
    let quiet = Placement { previous: 1, next: 4, ..placement(Role::Quiet, 6) };
    assert_eq!(daemon.told(quiet), placed(quiet));
    assert_eq!(daemon.place(), Place { epoch: 6, previous: OWN, next: 0 });
    let gone = placement(Role::None, 7);
    assert_eq!(daemon.told(gone), placed(gone));
    assert_eq!((daemon.place(), daemon.member.places_changed()), (Place::default(), 3));
}

#[test]
fn who_leaves_a_group_forgets_its_keys_before_he_says_so() {
    let mut daemon = daemon(BOOT);
    let head = placement(Role::Member, 5);
    daemon.told(head);
    let key = Key::of(SPACE_NAME, b"key").expect("a name");
    let effect =
        Effect { key_high: key.high, key_low: key.low, group: GROUP, length: 3, own_epoch: 5, ..Effect::default() };
    let header = Header { kind: kind::chain::INSTALL, epoch: 5, source: 1, ..Header::default() };
    daemon.member.on_packet(NOW, 0, &packet(header, |packet| effect.write(packet, BODY), b"key"));
    // That it is made.
    assert!(daemon.member.transmit().is_some());
    for kept in [head, Placement { epoch: 6, ..head }, placement(Role::Quiet, 7)] {
        assert_eq!(daemon.told(kept), placed(kept));
        assert!(daemon.has(b"key"), "{kept:?}");
    }
    let gone = placement(Role::None, 8);
    assert_eq!(daemon.told(gone), placed(gone));
    assert!(!daemon.has(b"key"));
}

/// From its joiner's role on it has heard of the epoch: that it had no part in it before may come late.
#[test]
fn a_joiner_forgets_what_it_copies_only_when_it_is_told_of_this_copying_or_a_later_one() {
    for (pass, is_over) in [(8, false), (9, true), (10, true)] {
        let mut daemon = daemon(BOOT);
        assert_eq!(daemon.told(joiner(6, 9)), [first_question(BOOT)], "it says nothing before it has all");
        assert!(matches!(daemon.copies((BOOT << 20) + 1, b"key")[..], [Said::Fetch(..)]));
        assert!(daemon.has(b"key"));
        let late = Placement { pass, ..placement(Role::None, 6) };
        assert_eq!(daemon.told(late), placed(late));
        assert_eq!((daemon.member.copying(), daemon.has(b"key")), ((u64::from(!is_over), 1), !is_over), "{pass}");
        let questions = daemon.tick(NOW + RETRANSMIT).into_iter().filter(|said| matches!(said, Said::Fetch(..)));
        assert_eq!(questions.count(), usize::from(!is_over), "{pass}");
    }
    // A place of the same epoch or an earlier one is not taken meanwhile; one of a later epoch ends the copying.
    let mut daemon = daemon(BOOT);
    daemon.told(joiner(6, 9));
    daemon.copies((BOOT << 20) + 1, b"key");
    assert_eq!(daemon.told(placement(Role::None, 5)), []);
    assert_eq!((daemon.member.copying().0, daemon.place()), (1, Place::default()));
    let tail = Placement { previous: 1, ..placement(Role::Member, 7) };
    assert_eq!(daemon.told(tail), placed(tail));
    assert_eq!((daemon.member.copying().0, daemon.has(b"key")), (0, true));
    assert_eq!(daemon.place(), Place { epoch: 7, previous: 1, next: 0 });
    // And it is none that is given up: what this switch has is the group's.
    assert_eq!(daemon.told(tail), placed(tail));
    assert!(daemon.has(b"key"));
    assert_eq!(daemon.told(joiner(6, 9)), []);
}

#[test]
fn a_question_is_asked_again_after_a_pause_and_no_sooner() {
    let mut daemon = daemon(BOOT);
    daemon.tick(NOW);
    assert_eq!(daemon.told(joiner(6, 9)), [first_question(BOOT)]);
    assert_eq!(daemon.member.next_timer(), NOW + RETRANSMIT, "before the next question for a lease");
    assert_eq!(daemon.tick(Time(NOW.0 + RETRANSMIT - 1)), []);
    let again = Copied { nonce: (BOOT << 20) + 2, ..nothing() };
    assert_eq!(daemon.tick(NOW + RETRANSMIT), [Said::Fetch(1, again)]);
    // The pause is twice as long then, and the first to be due is another group's.
    assert_eq!(daemon.member.next_timer(), NOW + 3 * RETRANSMIT);
    let other = Placement { group: GROUP + 1, ..joiner(6, 9) };
    let question = Copied { nonce: (BOOT << 20) + 3, group: GROUP + 1, ..nothing() };
    assert_eq!(daemon.told(other), [Said::Fetch(1, question)]);
    assert_eq!(daemon.member.next_timer(), NOW + RETRANSMIT);
}

/// Or it would say that it has what it has lost.
#[test]
fn what_was_said_to_an_earlier_life_answers_none_of_its_questions() {
    let end = |nonce| Copied { nonce, part: Part::End as u8, ..nothing() };
    let mut later = daemon(BOOT + 1);
    let told = Placement { boot: BOOT + 1, ..joiner(6, 9) };
    assert_eq!(later.told(told), [first_question(BOOT + 1)]);
    assert_eq!(later.copied(end((BOOT << 20) + 1), &[]), []);
    assert_eq!(later.copied(end(((BOOT + 1) << 20) + 1), &[]), placed(told));
}

/// Questions about keys that leave come from the switch before, and answers from the one behind.
#[test]
fn what_other_switches_say_of_keys_that_leave_is_heard() {
    let key = Key::of(SPACE_NAME, b"key").expect("a name");
    let told = Copied { key_high: key.high, key_low: key.low, nonce: 5, sequence: 1, epoch: 5, ..nothing() };
    for (kind, source) in [(kind::chain::REMOVE, 1), (kind::chain::REMOVED, 4)] {
        let mut daemon = daemon(BOOT);
        daemon.told(joiner(5, 9));
        daemon.copies((BOOT << 20) + 1, b"key");
        let next = if kind == kind::chain::REMOVE { 0 } else { 4 };
        daemon.told(Placement { previous: 1, next, ..placement(Role::Member, 6) });
        let header = Header { kind, source, epoch: 6, ..Header::default() };
        daemon.member.on_fellow(NOW, &packet(header, |packet| told.write(packet, BODY), &[]));
        let said = daemon.said();
        assert!(matches!(said[..], [Said::Removed(1, Copied { nonce: 5, .. })]), "{said:?}");
        assert!(!daemon.has(b"key"));
    }
}

/// Who is called at the very time that it wants is not called again at once.
#[test]
fn the_journal_is_looked_into_each_millisecond_while_somebody_watches() {
    let mut daemon = daemon(0);
    let client = 12;
    let entry = NodeEntry { address: address(client), namespace: SPACE, incarnation: 3 };
    daemon.switch.set_node(client, &entry);
    daemon.switch.serve_places_without_end();
    let route = GroupRoute { epoch: 5, head: address(OWN), tail: address(OWN) };
    daemon.member.take_place(GROUP, Place { epoch: 5, previous: 0, next: 0 }, route);
    let watch = Watch { request: 1, scope: Scope::Key as u8, group: GROUP, client, ..Watch::default() };
    let header = Header { kind: kind::chain::WATCH, epoch: 5, source: client, ..Header::default() };
    daemon.member.on_packet(NOW, 0, &packet(header, |packet| watch.write(packet, BODY), &[]));
    assert!(daemon.member.transmit().is_some(), "it may read from here on");
    let look = 1_000;
    for (now, next) in [(0, look), (look - 1, look), (look, 2 * look)] {
        assert_eq!(daemon.tick(NOW + now), []);
        assert_eq!(daemon.member.next_timer(), NOW + next);
    }
}
