//! What one processor decides while another changes the same words: the moments between the steps of a decision.

mod support;

use support::queue::packet as queue_packet;
use support::{EPOCH, NAMESPACE, expire, from, heartbeat, lock_packet, request, switch};
use wayside_protocol::Time;
use wayside_protocol::memory::{NodeWord, Part, SlotWord, Step, SwitchMemory};
use wayside_switch::{Action, QueueConfig, Switch, Verdict};
use wayside_wire::{Attempt, DropReason, Entry, Header, SlotBits, SlotState, entry_at, entry_flag, kind, limits};

const HOLDER: u16 = 1;
const OTHER: u16 = 2;
const AGENT: u16 = 3;

/// Compare-and-swaps before a packet is dropped as lost_race (docs/packets.md); each is two steps.
const TRIES: u32 = 8;

fn entry(slot: u32, counter: u64, flags: u8) -> Entry {
    Entry { slot, holder: HOLDER, request: request(HOLDER, counter), name: 0xaa, flags, ..Entry::default() }
}

fn decide(switch: &Switch, packet: &mut [u8], from_handle: u16, mut meanwhile: impl FnMut(u32)) -> Verdict {
    switch.process_meanwhile(Time(0), packet, from(from_handle), false, &mut meanwhile)
}

fn put(switch: &Switch, slot: u32, word: SlotWord) {
    assert!(switch.cas_slot(NAMESPACE, slot, switch.load_slot(NAMESPACE, slot), word));
}

/// How many steps a packet takes that loses every race for slot 0, which `change` makes another one before each.
fn steps_lost(switch: &Switch, packet: &mut [u8], sender: u16, change: impl Fn(SlotWord) -> SlotWord) -> u32 {
    let mut steps = 0;
    let verdict = decide(switch, packet, sender, |step| {
        steps += 1;
        if step % 2 == 0 {
            put(switch, 0, change(switch.load_slot(NAMESPACE, 0)));
        }
    });
    assert_eq!((verdict.action, verdict.reason), (Action::Drop, DropReason::LostRace));
    steps
}

#[test]
fn a_request_that_loses_every_race_tries_eight_times() {
    let switch = switch(4, 3);
    let acquire = || lock_packet(kind::lock::ACQUIRE, HOLDER, &[entry(0, 1, 0)]);
    let next = |word: SlotWord| SlotWord { tenure: word.tenure + 1, ..word };
    assert_eq!(steps_lost(&switch, &mut acquire(), HOLDER, next), 2 * TRIES);
    put(&switch, 0, SlotWord { state: SlotState::Open, agent: AGENT, ..SlotWord::unheld(9) });
    let join = |word: SlotWord| SlotWord { joins: word.joins + 1, ..word };
    assert_eq!(steps_lost(&switch, &mut acquire(), HOLDER, join), 2 * TRIES);
    let mut closing = lock_packet(kind::lock::ACQUIRE, HOLDER, &[entry(0, 2, entry_flag::EXCLUSIVE)]);
    assert_eq!(steps_lost(&switch, &mut closing, HOLDER, join), 2 * TRIES);
}

#[test]
fn a_change_that_loses_every_race_is_tried_eight_times() {
    let switch = switch(4, 3);
    put(&switch, 0, SlotWord { state: SlotState::Managed, agent: AGENT, ..SlotWord::unheld(9) });
    let asked = Entry { tenure: 9, holder: AGENT, request: 55, ..Entry::default() };
    let mut free = lock_packet(kind::lock::RETENURE, AGENT, &[asked]);
    let other = |word: SlotWord| SlotWord { tryable: !word.tryable, ..word };
    assert_eq!(steps_lost(&switch, &mut free, AGENT, other), 2 * TRIES);
}

#[test]
fn a_heartbeat_that_loses_every_race_is_tried_eight_times() {
    let switch = switch(4, 3);
    let mut steps = 0;
    let verdict = decide(&switch, &mut heartbeat(HOLDER, 1_000), HOLDER, |step| {
        steps += 1;
        let word = switch.node_word(HOLDER);
        if step % 2 == 0 {
            assert!(switch.cas_node_word(HOLDER, word, NodeWord { sequence: word.sequence + 1, ..word }));
        }
    });
    assert_eq!((verdict.reason, steps), (DropReason::LostRace, 2 * TRIES));
}

#[test]
fn a_batch_stops_where_somebody_else_was_faster() {
    let switch = switch(4, 3);
    let entries = [entry(0, 1, 0), entry(1, 2, 0), entry(2, 3, 0)];
    let mut batch = lock_packet(kind::lock::ACQUIRE, HOLDER, &entries);
    let theirs = Entry { slot: 1, holder: OTHER, request: request(OTHER, 1), ..Entry::default() };
    let verdict = decide(&switch, &mut batch, HOLDER, |step| {
        if step == 2 {
            let mut packet = lock_packet(kind::lock::ACQUIRE, OTHER, &[theirs]);
            assert_eq!(switch.process(Time(0), &mut packet, from(OTHER)).action, Action::ToSender);
        }
    });
    assert_eq!(verdict.action, Action::ToSender);
    let flags = [0, 1, 2].map(|index| Entry::read(&batch, entry_at(index)).flags);
    assert_eq!(flags, [entry_flag::AGENCY, 0, 0]);
    let agents = [0, 1, 2].map(|slot| switch.load_slot(NAMESPACE, slot).agent);
    assert_eq!(agents, [HOLDER, OTHER, 0], "what comes after it is not decided on");
}

/// Its successor has asked what was pushed: what it pushes next must be taken for that, and nothing else.
#[test]
fn a_push_of_whoever_was_the_lock_server_is_not_taken_once_another_one_is() {
    const BEFORE: u16 = 2;
    const AFTER: u16 = 3;
    let switch = switch(1, 3).with_queues(QueueConfig { queues: 1, cells: 4, seed: 5 });
    switch.add_queue(NAMESPACE, 0xaa, 4, 1).unwrap();
    switch.set_lock_server(NAMESPACE, Part::WHOLE, BEFORE);
    let push = |given_away_at: Option<u32>| {
        let number = switch.queue(NAMESPACE, 0xaa).expect("it has one").pushed + 1;
        let attempt = Attempt { name: 0xaa, request: request(HOLDER, 1), holder: HOLDER, number, ..Attempt::default() };
        let mut packet = queue_packet(kind::queue::PUSH, BEFORE, 0, &attempt);
        let mut steps = 0;
        let verdict = decide(&switch, &mut packet, BEFORE, |step| {
            steps = step;
            if given_away_at == Some(step) {
                switch.set_lock_server(NAMESPACE, Part::WHOLE, AFTER);
            }
        });
        (verdict.reason, steps)
    };
    let (reason, steps) = push(None);
    assert!(reason == DropReason::None && steps > 0);
    assert_eq!(push(Some(1)).0, DropReason::NotItsServer, "it was the lock server when the packet came");
    assert_eq!(switch.queue(NAMESPACE, 0xaa).expect("it has one").pushed, 1);
}

/// Its place may have another lock's queue by now.
#[test]
fn who_asks_for_a_lock_whose_queue_leaves_gets_nothing_of_the_one_that_comes_in_its_place() {
    let switch = switch(1, 3).with_queues(QueueConfig { queues: 1, cells: 4, seed: 5 });
    switch.add_queue(NAMESPACE, 0xaa, 4, 1).unwrap();
    let attempt = Attempt { name: 0xaa, request: request(HOLDER, 1), holder: HOLDER, ..Attempt::default() };
    let mut packet = queue_packet(kind::queue::ACQUIRE, HOLDER, 0, &attempt);
    let verdict = decide(&switch, &mut packet, HOLDER, |step| {
        if step == 0 {
            for step in [Step::Drain, Step::Hand, Step::Remove] {
                switch.move_queue(NAMESPACE, 0xaa, step).unwrap();
            }
            switch.add_queue(NAMESPACE, 0xbb, 4, 1).unwrap();
        }
    });
    assert_eq!((verdict.action, verdict.reason), (Action::Drop, DropReason::LostRace));
    assert_eq!(switch.queued(NAMESPACE, 0xbb).len(), 0);
}

/// The GAP is about the slot that is stuck, not about the first of the batch.
#[test]
fn a_batch_that_is_stuck_tells_the_controller_where() {
    let switch = switch(4, 3);
    let second = Entry { name: 0xbb, ..entry(1, 2, 0) };
    let mut batch = lock_packet(kind::lock::ACQUIRE, HOLDER, &[entry(0, 1, 0), second]);
    let theirs = Entry { slot: 1, holder: OTHER, request: request(OTHER, 1), name: 0xbb, ..Entry::default() };
    let verdict = decide(&switch, &mut batch, HOLDER, |step| {
        if step == 3 {
            let mut join = lock_packet(kind::lock::ACQUIRE, OTHER, &[theirs]);
            assert!(switch.process(Time(0), &mut join, from(OTHER)).copy.is_some());
            expire(&switch, HOLDER);
        }
    });
    assert_eq!((verdict.action, verdict.length), (Action::ToController, entry_at(1)));
    let header = Header::read(&batch).expect("a packet");
    let gap = Entry::read(&batch, entry_at(0));
    assert_eq!((header.kind, header.count, header.epoch), (kind::lock::GAP, 1, EPOCH));
    assert_eq!((gap.slot, gap.name, gap.request), (1, 0xbb, request(HOLDER, 2)));
    assert_eq!((gap.holder, SlotBits::from_u16(gap.slot_bits).state), (HOLDER, SlotState::Open));
}

/// An answer's flags are the switch's own, also in entries that it did not decide on: who puts AGENCY there is not
/// believed.
#[test]
fn every_entry_of_the_longest_batch_is_looked_at() {
    let switch = switch(limits::MAX_ENTRIES as u32, 1);
    let entries: Vec<Entry> = (0..limits::MAX_ENTRIES as u32).map(|slot| entry(slot, 1 + u64::from(slot), 0)).collect();
    let mut batch = lock_packet(kind::lock::ACQUIRE, HOLDER, &entries);
    assert_eq!(switch.process(Time(0), &mut batch, from(HOLDER)).action, Action::ToSender);
    for index in 0..limits::MAX_ENTRIES {
        let granted = Entry::read(&batch, entry_at(index));
        assert_eq!((granted.flags, granted.reply_port), (entry_flag::AGENCY, from(HOLDER).port()), "entry {index}");
        assert_eq!(switch.load_slot(NAMESPACE, index as u32).agent, HOLDER);
    }
    let forged: Vec<Entry> = entries.iter().map(|entry| Entry { flags: entry_flag::AGENCY, ..*entry }).collect();
    let mut again = lock_packet(kind::lock::ACQUIRE, HOLDER, &forged);
    assert_eq!(switch.process(Time(0), &mut again, from(HOLDER)).action, Action::ToSender);
    assert!((0..limits::MAX_ENTRIES).all(|index| Entry::read(&again, entry_at(index)).flags == 0), "all are held");
}

#[test]
fn a_longest_batch_is_refused_for_its_last_entry() {
    let switch = switch(limits::MAX_ENTRIES as u32, 2);
    let mut entries: Vec<Entry> =
        (0..limits::MAX_ENTRIES as u32).map(|slot| entry(slot, 1 + u64::from(slot), 0)).collect();
    entries[limits::MAX_ENTRIES - 1].holder = OTHER;
    let mut batch = lock_packet(kind::lock::ACQUIRE, HOLDER, &entries);
    let verdict = switch.process(Time(0), &mut batch, from(HOLDER));
    assert_eq!((verdict.action, verdict.reason), (Action::Drop, DropReason::ForeignHolder));
    assert_eq!(switch.load_slot(NAMESPACE, 0), SlotWord::unheld(0), "nothing was decided");
}
