//! Several threads, each a node, on one slot and on a few: every tenure has one agent, every ordinal goes out once.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use support::{from, lock_packet, request};
use wayside_protocol::Time;
use wayside_protocol::memory::SwitchMemory;
use wayside_switch::{Action, Switch};
use wayside_wire::{Entry, Header, SlotBits, SlotState, entry_flag, header_flag, kind};

const THREADS: u16 = 4;
/// Tenures that every slot must go through. A thread goes on until then: whoever stops keeps its agencies for ever.
const TENURES: u32 = 20_000;
/// Steps between two turns of the others: with fewer cores than threads the agent must get its turn.
const TURN: u64 = 200;

/// What a thread saw, by slot and tenure.
#[derive(Default)]
struct Seen {
    agents: BTreeMap<(u32, u32), u16>,
    ordinals: BTreeMap<(u32, u32), BTreeSet<u16>>,
    /// Changes that applied in this tenure, with the joins they named; claims keep the joins.
    changes: BTreeMap<(u32, u32), (u16, bool)>,
}

/// xorshift64*: tests are to depend on their seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }
}

/// The agencies of each node: slot, tenure and the joins it believes in.
type Agencies = Vec<Mutex<BTreeMap<u32, (u32, u16)>>>;

fn play(switch: &Switch, me: u16, slots: u32, agencies: &Agencies) -> Seen {
    let mut seen = Seen::default();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(me));
    for step in 0.. {
        if step % TURN == 0 {
            if (0..slots).all(|slot| switch.load_slot(support::NAMESPACE, slot).tenure >= TENURES) {
                break;
            }
            std::thread::yield_now();
        }
        let slot = random.below(slots.into()) as u32;
        let mine = agencies[usize::from(me)].lock().unwrap().get(&slot).copied();
        match mine {
            Some((tenure, joins)) if random.below(3) == 0 => {
                change(switch, me, slot, (tenure, joins), &mut random, agencies, &mut seen);
            }
            _ => acquire(switch, me, slot, step, &mut random, agencies, &mut seen),
        }
    }
    seen
}

fn acquire(switch: &Switch, me: u16, slot: u32, step: u64, random: &mut Random, agencies: &Agencies, seen: &mut Seen) {
    // Mostly shared: an exclusive request closes the slot until its agent moves on.
    let flags = [0, 0, 0, entry_flag::EXCLUSIVE, entry_flag::TRY][random.below(5) as usize];
    let entry = Entry { name: slot.into(), request: request(me, step), slot, holder: me, flags, ..Entry::default() };
    let mut packet = lock_packet(kind::lock::ACQUIRE, me, &[entry]);
    let verdict = switch.process(Time(0), &mut packet, from(me));
    let header = Header::read(&packet).unwrap();
    let answer = Entry::read(&packet, 32);
    if header.kind != kind::lock::GRANT || verdict.action == Action::Drop {
        return;
    }
    assert_eq!(verdict.action, Action::ToSender);
    if answer.flags & entry_flag::AGENCY != 0 {
        assert_eq!(seen.agents.insert((slot, answer.tenure), me), None, "a second agency of one tenure");
        agencies[usize::from(me)].lock().unwrap().insert(slot, (answer.tenure, 0));
    } else {
        let ordinal = SlotBits::from_u16(answer.slot_bits).joins;
        assert_eq!(verdict.copy, Some(header.source), "every join is told its agent");
        let ordinals = seen.ordinals.entry((slot, answer.tenure)).or_default();
        assert!(ordinals.insert(ordinal), "ordinal {ordinal} twice");
    }
}

fn change(
    switch: &Switch,
    me: u16,
    slot: u32,
    (tenure, joins): (u32, u16),
    random: &mut Random,
    agencies: &Agencies,
    seen: &mut Seen,
) {
    let heir = 1 + random.below(THREADS.into()) as u16;
    let (state, agent, claims) = match random.below(5) {
        0 => (SlotState::Unheld, me, false),
        1 => (SlotState::Open, heir, false),
        2 => (SlotState::Managed, heir, false),
        3 => (SlotState::Open, me, false),
        _ => (SlotState::Managed, me, true),
    };
    let bits = SlotBits { state, transferred: false, tryable: random.below(2) == 0, joins };
    let request = request(agent, 1);
    let entry = Entry { slot, tenure, holder: agent, request, slot_bits: bits.to_u16(), ..Entry::default() };
    let mut packet = lock_packet(kind::lock::RETENURE, me, &[entry]);
    if claims {
        packet[6..8].copy_from_slice(&header_flag::CLAIM.to_be_bytes());
    }
    // Held throughout, so that a transfer back cannot arrive before we have let go.
    let mut own = agencies[usize::from(me)].lock().unwrap();
    let verdict = switch.process(Time(0), &mut packet, from(me));
    let header = Header::read(&packet).unwrap();
    let answer = Entry::read(&packet, 32);
    let after = SlotBits::from_u16(answer.slot_bits);
    if header.flags & header_flag::REFUSED != 0 {
        own.insert(slot, (tenure, after.joins));
        return;
    }
    if verdict.action == Action::Drop || (claims && header.flags & header_flag::STALE_TENURE != 0) {
        return; // Lost eight races, or the agency was handed over: it is still ours.
    }
    assert_eq!(header.flags & header_flag::STALE_TENURE, 0, "only the agent ends a tenure");
    assert_eq!(answer.tenure, tenure + 1);
    let claimed_joins = if claims { after.joins } else { joins };
    assert_eq!(seen.changes.insert((slot, tenure), (claimed_joins, claims)), None, "a tenure ends once");
    own.remove(&slot);
    if state == SlotState::Unheld {
        return;
    }
    seen.agents.insert((slot, tenure + 1), agent);
    if agent == me {
        own.insert(slot, (tenure + 1, after.joins));
    } else {
        assert!(matches!(verdict.action, Action::ToNode { handle, .. } if handle == agent));
        drop(own);
        agencies[usize::from(agent)].lock().unwrap().insert(slot, (tenure + 1, after.joins));
    }
}

fn hammer(slots: u32) {
    let switch = support::switch(slots, THREADS);
    let agencies: Agencies = (0..=THREADS).map(|_| Mutex::default()).collect();
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|me| {
                scope.spawn({
                    let (s, a) = (&switch, &agencies);
                    move || play(s, me, slots, a)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    let mut all = Seen::default();
    for one in seen {
        for (key, agent) in one.agents {
            assert_eq!(all.agents.insert(key, agent), None, "two agencies for {key:?}");
        }
        for (key, ordinals) in one.ordinals {
            let before = all.ordinals.entry(key).or_default();
            assert!(before.is_disjoint(&ordinals), "an ordinal of {key:?} went out twice");
            before.extend(ordinals);
        }
        for (key, change) in one.changes {
            assert_eq!(all.changes.insert(key, change), None, "two ends of {key:?}");
        }
    }
    for slot in 0..slots {
        let last = switch.load_slot(support::NAMESPACE, slot);
        for tenure in 0..last.tenure {
            let (joins, claimed) = all.changes[&(slot, tenure)];
            let granted = all.ordinals.get(&(slot, tenure)).map_or(0, BTreeSet::len);
            let kept = tenure.checked_sub(1).and_then(|before| all.changes.get(&(slot, before)));
            let kept = kept.filter(|change| change.1).map_or(0, |change| change.0);
            assert_eq!(
                usize::from(joins),
                granted + usize::from(kept),
                "slot {slot} tenure {tenure}, claimed {claimed}"
            );
        }
        let ordinals = all.ordinals.get(&(slot, last.tenure)).cloned().unwrap_or_default();
        assert_eq!(ordinals.iter().copied().collect::<Vec<_>>(), (1..=ordinals.len() as u16).collect::<Vec<_>>());
    }
    let joined: usize = all.ordinals.values().map(BTreeSet::len).sum();
    assert_eq!(switch.counter("joined"), joined as u64);
    assert!(joined > 1_000, "hardly any joins: {joined}");
}

#[test]
fn one_slot() {
    hammer(1);
}

#[test]
fn a_few_slots() {
    hammer(3);
}
