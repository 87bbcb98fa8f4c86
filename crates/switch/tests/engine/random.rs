//! Random switches and packets for them, from a seed: mostly plausible, so that they get far, and sometimes broken.

use wayside_protocol::memory::{NodeWord, SlotWord};
use wayside_wire::{
    Entry, Header, Heartbeat, NodeState, SlotBits, SlotState, entry_at, entry_flag, header_flag, kind, limits,
    name_hash, service,
};

use super::{GROUPS, ITEMS, Keys, Lease, Meter, NODES, Race, SLOTS, State, Strike, random_chain, random_queue};

/// xorshift64*: a failure depends on its seed alone.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        // Seeds are small numbers: spread their bits, and 0 is the one state it never leaves.
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

const NAMES: [u64; 4] = [1, 2, 0x8000_0000_0000_0003, u64::MAX];
const TENURES: [u32; 8] = [0, 1, 2, 3, 0x000f_ffff, 0x0010_0000, u32::MAX - 1, u32::MAX];
const JOINS: [u16; 6] = [0, 0, 1, 2, 4094, 4095];
const PORTS: [u16; 3] = [0, 20_001, u16::MAX];

/// A switch with nodes, most of them LIVE, and slots in any state.
fn state(random: &mut Random) -> State {
    let mut state = State::default();
    for handle in 1..NODES {
        change_node(random, &mut state, handle);
    }
    for slot in 0..SLOTS {
        change_slot(random, &mut state, slot);
    }
    for namespace in 0..state.regions.len() {
        change_region(random, &mut state, namespace);
    }
    change_globals(random, &mut state);
    random_chain::begin(random, &mut state);
    random_queue::begin(random, &mut state);
    state
}

/// Of every other run of four seeds the switch has authentication on: its nodes have keys, most of them both.
pub fn state_of(seed: u64, random: &mut Random) -> State {
    let mut state = state(random);
    if seed / 4 % 2 == 1 {
        state.globals.authenticated = 1;
        for handle in 1..NODES {
            change_keys(random, &mut state, handle);
        }
    }
    state
}

/// One thing about the switch becomes another, as by a controller, time, or chance.
pub fn disturb(random: &mut Random, state: &mut State) {
    match random.below(80) {
        60..80 => random_queue::disturb(random, state),
        40..60 => random_chain::disturb(random, state),
        0..16 => {
            let slot = random.below(SLOTS as u64) as usize;
            change_slot(random, state, slot);
        }
        16..36 => {
            let handle = 1 + random.below(NODES as u64 - 1) as usize; // 0 is the controller, and no node
            change_node(random, state, handle);
            if state.globals.authenticated != 0 {
                change_keys(random, state, handle);
            }
        }
        36 | 37 => {
            let namespace = random.below(state.regions.len() as u64) as usize;
            change_region(random, state, namespace);
        }
        _ => change_globals(random, state),
    }
}

fn change_slot(random: &mut Random, state: &mut State, index: usize) {
    use SlotState::{Frozen, Managed, Open, Unheld};
    let now = random.pick(&[Unheld, Unheld, Unheld, Open, Open, Open, Managed, Managed, Frozen]);
    let held = matches!(now, Open | Managed);
    let tenure = if random.once_in(3) { random.next() as u32 } else { random.pick(&TENURES) };
    let word = SlotWord {
        state: now,
        transferred: random.once_in(2),
        tryable: random.once_in(2),
        agent: if held || random.once_in(20) { handle(random) } else { 0 },
        joins: if held || random.once_in(20) { random.pick(&JOINS) } else { 0 },
        tenure,
    };
    let hinted = if random.once_in(4) { random.pick(&TENURES) } else { tenure };
    let slot = &mut state.slots[index];
    slot.w0 = word.pack();
    slot.w1 = u64::from(hinted) << 44 | name_hash(random.pick(&NAMES));
}

fn change_node(random: &mut Random, state: &mut State, index: usize) {
    use NodeState::{Dismissed, Expired, Live, Vacant};
    let node = &mut state.nodes[index];
    let now = random.pick(&[Live, Live, Live, Live, Live, Live, Live, Expired, Dismissed, Vacant]);
    let sequence = if random.once_in(20) { (1 << 56) - 2 } else { random.below(5) };
    node.word = NodeWord { state: now, sequence }.pack();
    node.incarnation = 100 + index as u64 + random.below(2) * (1 << 24);
    node.oldest = node.incarnation << 40 | random.below(4);
    node.address = 0x0a00_0000 + index as u32;
    node.agent_port = 10_000 + index as u16;
    node.namespace = random.pick(&[1, 1, 1, 1, 2, 3]);
}

fn change_keys(random: &mut Random, state: &mut State, index: usize) {
    let written = |random: &mut Random| if random.once_in(12) { random.pick(&[0, 1, 3]) } else { 2 };
    state.keys[index] = Keys {
        written: [written(random), written(random)],
        rotation: random.below(3) as u32,
        heard: random.below(3) as u32,
        ..Keys::of_handle(index as u16)
    };
}

fn change_region(random: &mut Random, state: &mut State, namespace: usize) {
    let region = &mut state.regions[namespace];
    // Rarely beyond the memory, or around its end.
    region.base = if random.once_in(10) { random.pick(&[14, u32::MAX - 1]) } else { random.pick(&[0, 4]) };
    region.count = if random.once_in(10) { random.pick(&[0, u32::MAX]) } else { 12 };
    region.policy = random.below(4) as u32;
    // No budget; one with room; one that is spent. Clocks differ by engine: neither moment is near.
    region.burst = if random.once_in(3) { 1 << 22 } else { 0 };
    let due = if random.once_in(2) { 1 << 60 } else { u64::MAX / 2 };
    region.own = Meter { due, cost: 1 << 40 };
    // What is told of a pause is by the first meter, whosever that is.
    region.other = region.own;
    // Told of this state already, or of another one.
    region.told = random.pick(&[0, (due ^ due >> 32) as u32]);
}

fn change_globals(random: &mut Random, state: &mut State) {
    state.globals.epoch = if random.once_in(12) { random.below(3) as u32 * 4 } else { 7 };
    state.globals.serving = u32::from(!random.once_in(8));
    state.globals.shard_map = random.below(3) as u32;
    // None, over, or for ever.
    state.globals.lease = Lease::until([0, 0, 0, 1, u64::MAX][random.below(5) as usize]);
    state.store.lease = Lease::until([0, 0, 0, 1, u64::MAX][random.below(5) as usize]);
}

pub(super) fn handle(random: &mut Random) -> u16 {
    if random.once_in(30) { random.next() as u16 } else { 1 + random.below(8) as u16 }
}

/// A packet for this switch, and the UDP port that it comes from.
pub fn packet(random: &mut Random, state: &State) -> (Vec<u8>, u16) {
    let mut packet = match random.below(40) {
        30..40 => random_queue::packet(random, state),
        20..30 => random_chain::packet(random, state),
        0..9 => request_packet(random, state, kind::lock::ACQUIRE),
        9..12 => {
            let kinds = [kind::lock::RELEASE, kind::lock::CANCEL, kind::lock::DOWNGRADE];
            let kind = random.pick(&kinds);
            request_packet(random, state, kind)
        }
        12..15 => retenure_packet(random, state),
        15 => free_packet(random, state),
        16 | 17 => session_packet(random, state),
        _ => any_packet(random, state),
    };
    if state.globals.authenticated != 0 {
        sign(random, &mut packet);
    }
    if random.once_in(12) {
        spoil(random, &mut packet);
    }
    (packet, random.pick(&PORTS))
}

/// By its source, as a rule; or by somebody else, or not at all.
fn sign(random: &mut Random, packet: &mut [u8]) {
    let source = u16::from_be_bytes([packet[8], packet[9]]);
    match random.below(20) {
        0 => {}
        1 => Keys::of_handle(handle(random)).sign_up(0, packet),
        _ => Keys::of_handle(source).sign_up(random.below(2) as usize, packet),
    }
}

/// A node of the table that is likely to be LIVE.
pub(super) fn live(random: &mut Random, state: &State) -> u16 {
    let one = handle(random);
    let other = handle(random);
    let lives = |handle: u16| state.nodes.get(usize::from(handle)).is_some_and(|node| node.word >> 56 == 1);
    if lives(one) { one } else { other }
}

pub(super) fn header(random: &mut Random, state: &State, kind: u8, source: u16) -> Header {
    let namespace = state.nodes.get(usize::from(source)).map_or(1, |node| node.namespace);
    Header {
        service: service::LOCK,
        kind,
        count: 1,
        flags: if random.once_in(8) { random.next() as u16 } else { 0 },
        source,
        destination: if random.once_in(8) { handle(random) } else { 0 },
        epoch: if random.once_in(25) { random.below(9) as u32 } else { state.globals.epoch },
        shard_map: random.below(3) as u32,
        namespace: if random.once_in(25) { random.below(6) as u16 } else { namespace },
        position: if random.once_in(4) { random.below(11) as u16 } else { 0 },
        tag: if random.once_in(8) { random.next() } else { 0 },
    }
}

fn entry(random: &mut Random, state: &State, holder: u16) -> Entry {
    let oldest = state.nodes.get(usize::from(holder)).map_or(0, |node| node.oldest);
    let request = match random.below(20) {
        0 => oldest.wrapping_sub(1 + random.below(2)),
        1 => oldest.wrapping_add(1 << 40),
        2 => random.next(),
        _ => oldest.wrapping_add(random.below(3)),
    };
    let noise = if random.once_in(8) { random.next() as u8 } else { 0 };
    Entry {
        name: random.pick(&NAMES),
        request,
        slot: if random.once_in(25) { random.next() as u32 } else { random.below(12) as u32 },
        tenure: random.pick(&TENURES),
        holder,
        reply_port: random.pick(&PORTS),
        slot_bits: random.next() as u16,
        flags: random.pick(&[0, entry_flag::EXCLUSIVE, entry_flag::TRY, entry_flag::EXCLUSIVE | entry_flag::TRY])
            | noise,
        sequence: random.next() as u8,
    }
}

fn assemble(mut header: Header, entries: &[Entry]) -> Vec<u8> {
    header.count = entries.len() as u8;
    let mut packet = vec![0; entry_at(entries.len())];
    header.write(&mut packet);
    for (index, entry) in entries.iter().enumerate() {
        entry.write(&mut packet, entry_at(index));
    }
    packet
}

fn request_packet(random: &mut Random, state: &State, kind: u8) -> Vec<u8> {
    let source = live(random, state);
    let mut header = header(random, state, kind, source);
    let bounced = random.once_in(5);
    let holder = if bounced { live(random, state) } else { source };
    if bounced {
        header.position = 1 + random.below(8) as u16;
    }
    let batch = if random.once_in(6) { 2 + random.below(31) } else { 1 };
    let entries: Vec<Entry> = (0..batch).map(|_| entry(random, state, holder)).collect();
    let mut entries = entries;
    if batch > 1 && !random.once_in(4) {
        // Chance would spoil one entry of almost every batch.
        for (index, entry) in entries.iter_mut().enumerate() {
            entry.slot = (index % 8) as u32;
            entry.request = state.nodes.get(usize::from(holder)).map_or(0, |node| node.oldest) + index as u64;
        }
    }
    assemble(header, &entries)
}

/// Slots of which their agent is rid, or others.
fn free_packet(random: &mut Random, state: &State) -> Vec<u8> {
    let word = |namespace: u16, slot: u64| {
        let base = state.regions.get(usize::from(namespace)).map_or(0, |region| u64::from(region.base));
        SlotWord::unpack(state.slots.get((base + slot) as usize).map_or(0, |slot| slot.w0))
    };
    let asker = live(random, state);
    let namespace = state.nodes.get(usize::from(asker)).map_or(0, |node| node.namespace);
    let agent = word(namespace, random.below(8)).agent;
    let source = if random.once_in(6) || agent == 0 { asker } else { agent };
    let mut header = header(random, state, kind::lock::FREE, source);
    if random.once_in(2) {
        header.flags |= header_flag::QUIET;
    }
    let count = if random.once_in(2) { 1 } else { 2 + random.below(31) };
    let entries: Vec<Entry> = (0..count)
        .map(|_| {
            let slot = random.below(8);
            let word = word(header.namespace, slot);
            let bits = SlotBits { joins: word.joins, ..SlotBits::from_u16(0) };
            let holder = if random.once_in(100) { asker } else { source };
            let one = entry(random, state, holder);
            // Chance would spoil one entry of almost every packet.
            let slot = if random.once_in(100) { one.slot } else { slot as u32 };
            if random.once_in(6) {
                Entry { slot, ..one }
            } else {
                Entry { slot, tenure: word.tenure, slot_bits: bits.to_u16(), ..one }
            }
        })
        .collect();
    assemble(header, &entries)
}

/// What the agent of some slot asks for, or somebody who is not.
fn retenure_packet(random: &mut Random, state: &State) -> Vec<u8> {
    let slot = random.below(8) as usize;
    let source = live(random, state);
    let region = state.nodes.get(usize::from(source)).map_or(0, |node| usize::from(node.namespace));
    let base = state.regions.get(region).map_or(0, |region| region.base as usize);
    let word = SlotWord::unpack(state.slots.get(base + slot).map_or(0, |slot| slot.w0));
    let source = if random.once_in(6) || word.agent == 0 { source } else { word.agent };
    let mut header = header(random, state, kind::lock::RETENURE, source);
    header.flags = if random.once_in(5) { header_flag::CLAIM } else { header.flags };
    let heir = match random.below(5) {
        0 => source,
        1 => word.agent,
        2 if random.once_in(3) => 0,
        _ => live(random, state),
    };
    let mut first = entry(random, state, heir);
    let bits = SlotBits {
        state: if random.once_in(10) {
            SlotState::Frozen
        } else {
            random.pick(&[SlotState::Unheld, SlotState::Open, SlotState::Managed])
        },
        transferred: random.once_in(4),
        tryable: random.once_in(2),
        joins: if random.once_in(6) { random.pick(&JOINS) } else { word.joins },
    };
    first.slot = slot as u32;
    first.slot_bits = bits.to_u16();
    first.tenure = word.tenure.wrapping_sub(random.pick(&[0, 0, 0, 1, 2]));
    let waiters = if random.once_in(4) { random.below(32) } else { 0 };
    let entries: Vec<Entry> = std::iter::once(first).chain((0..waiters).map(|_| entry(random, state, heir))).collect();
    assemble(header, &entries)
}

fn session_packet(random: &mut Random, state: &State) -> Vec<u8> {
    let source = live(random, state);
    let kinds = [kind::fabric::HEARTBEAT, kind::fabric::HEARTBEAT, kind::fabric::HEARTBEAT, random.below(12) as u8];
    let mut header = header(random, state, 0, source);
    header.service = service::FABRIC;
    header.kind = random.pick(&kinds);
    header.count = 0;
    let node = state.nodes.get(usize::from(source)).copied().unwrap_or_default();
    let sequence = (node.word & 0x00ff_ffff_ffff_ffff).wrapping_add(random.below(4)).wrapping_sub(1);
    let enrols = header.kind == kind::fabric::ENROL && !random.once_in(4);
    let mut packet = vec![0; if enrols { 112 } else { 64 }];
    header.write(&mut packet);
    Heartbeat {
        sequence: if random.once_in(20) { random.next() } else { sequence },
        oldest: node.oldest.wrapping_add(random.below(4)).wrapping_sub(1),
        sent_us: random.next(),
        incarnation: node.incarnation + u64::from(random.once_in(10)),
    }
    .write(&mut packet, 32);
    packet
}

/// Any kind at all, known or not, with any number of entries.
fn any_packet(random: &mut Random, state: &State) -> Vec<u8> {
    let source = live(random, state);
    let kind = random.below(24) as u8;
    let mut header = header(random, state, kind, source);
    if !random.once_in(4) {
        header.destination = live(random, state);
    }
    let count = if random.once_in(3) { random.below(33) } else { 1 };
    let entries: Vec<Entry> = (0..count).map(|_| entry(random, state, source)).collect();
    assemble(header, &entries)
}

/// Corruption, truncation, more than there should be.
fn spoil(random: &mut Random, packet: &mut Vec<u8>) {
    match random.below(4) {
        0 => packet.truncate(random.below(packet.len() as u64 + 1) as usize),
        1 => packet.resize(packet.len() + random.below(100) as usize, 0x5a),
        _ => {
            let last = if random.once_in(2) { packet.len() } else { packet.len().min(limits::HEADER_BYTES) };
            let at = random.below(last as u64) as usize;
            packet[at] ^= 1 << random.below(8);
        }
    }
}

/// Perhaps the holder, or the new agent, expires on the way, or the packet is always too late; or a chain, an item or
/// the lease is not what it was.
pub fn race(random: &mut Random) -> Race {
    let strike = match random.below(12) {
        0..2 => Some((Strike::Moves, random.below(GROUPS as u64) as u16)),
        2 => Some((Strike::Goes, random.below(ITEMS as u64) as u16)),
        3..6 => Some((Strike::Turns, random.below(ITEMS as u64) as u16)),
        6 => Some((Strike::EndsLease, 0)),
        _ => None,
    };
    Race {
        expires: if random.once_in(3) { 0 } else { handle(random) },
        joined: random.once_in(3),
        loses: random.once_in(8),
        strike,
    }
}
