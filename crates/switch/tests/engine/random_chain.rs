//! Random chains, keys and packets of the chain service: mostly plausible, as in `random`.

use wayside_protocol::chain::{Key, Place};
use wayside_wire::{BODY, Condition, Effect, Header, Operation, Outcome, blocks, kind, limits, service, value_flag};

use super::chain::{lane_index, padded};
use super::random::{Random, handle, header, live};
use super::{ALL_RECORDS, BUCKETS, GROUPS, ITEMS, RECORDS, State, Store};

const LENGTHS: [usize; 9] = [0, 1, 5, 8, 31, 32, 33, 64, limits::MAX_VALUE_BYTES];
/// Clients whose lanes are set, and lanes of each.
const CLIENTS: u64 = 8;
const LANES: u64 = 3;

/// The key of an item, as a rule.
fn key_of(number: usize) -> Key {
    Key { high: number as u64, low: !(number as u64), check: 7 * number as u64 }
}

fn value(random: &mut Random) -> Vec<u8> {
    let byte = random.next() as u8;
    vec![byte; random.pick(&LENGTHS)]
}

/// Places in chains, keys and lanes of a new switch.
pub fn begin(random: &mut Random, state: &mut State) {
    state.store = Store { seed: random.next() | 1, bucket_mask: BUCKETS as u32 - 1, handle: 9, ..Store::default() };
    for group in 0..GROUPS {
        change_group(random, state, group);
    }
    for number in 1..ITEMS {
        change_item(random, state, number);
    }
    for _ in 0..CLIENTS {
        change_lane(random, state);
    }
    make_possible(state);
}

/// What a daemon or another switch may have done.
pub fn disturb(random: &mut Random, state: &mut State) {
    match random.below(8) {
        0..2 => {
            let group = random.below(GROUPS as u64) as usize;
            change_group(random, state, group);
        }
        2..5 => {
            let number = 1 + random.below(ITEMS as u64 - 1) as usize;
            change_item(random, state, number);
        }
        _ => change_lane(random, state),
    }
    make_possible(state);
}

fn change_group(random: &mut Random, state: &mut State, number: usize) {
    let group = &mut state.groups[number];
    let switch = |random: &mut Random| if random.once_in(2) { 0 } else { 1 + random.below(8) as u16 };
    let (previous, next) = (switch(random), switch(random));
    let epoch = if random.once_in(10) { 0 } else { 10 + random.below(2) as u32 };
    group.place = Place { epoch, previous, next }.pack();
    group.namespace = random.pick(&[1, 1, 1, 1, 1, 1, 1, 2]);
    group.watched = random.pick(&[0, 1]);
    change_journal(random, state);
}

/// The next number is one of the first records', which others may have, or are past.
fn change_journal(random: &mut Random, state: &mut State) {
    let round = random.below(3) * ALL_RECORDS as u64;
    state.store.drawn = round + random.below(RECORDS as u64);
    state.store.torn = random.below(3);
    for (index, record) in (0u64..).zip(&mut state.journal) {
        record.lock = random.below(4) * ALL_RECORDS as u64 + index;
        if random.once_in(6) {
            record.lock |= 5 << 48;
        }
    }
}

fn change_item(random: &mut Random, state: &mut State, number: usize) {
    let group = random.below(GROUPS as u64) as u16;
    let mut key = key_of(number);
    if random.once_in(10) {
        key.check += 1;
    }
    state.put_key(number, group, key);
    let epoch = Place::unpack(state.groups[usize::from(group)].place).epoch.max(1) - u32::from(random.once_in(4));
    let value = (!random.once_in(4)).then(|| value(random));
    state.write_item(number, (epoch, 1 + random.below(60)), value.as_deref());
    if random.once_in(3) {
        state.lease_item(number, handle(random), random.next() as u32);
    }
    let item = &mut state.items[number];
    if random.once_in(10) {
        item.versions[(item.lock & 1) as usize].shape |= u64::from(value_flag::LEAVING);
    }
    item.lock &= !(0xffff << 48);
    if random.once_in(25) {
        item.lock |= 5 << 48;
    }
    if random.once_in(25) {
        item.name = 0;
    }
}

fn change_lane(random: &mut Random, state: &mut State) {
    let client = 1 + random.below(CLIENTS) as u16;
    let request = state.nodes[usize::from(client)].oldest + random.below(4);
    let lane = &mut state.lanes[lane_index(client, random.below(LANES) as u8)];
    lane.request = if random.once_in(4) { random.pick(&[0, u64::MAX, 1 << 63]) } else { request };
    lane.own_epoch = 10;
    lane.own_sequence = random.below(60);
    lane.outcome = random.pick(&[Outcome::Done, Outcome::Unmet]) as u32;
    lane.lock = if random.once_in(25) { 5 << 48 } else { 0 };
}

/// No switch has versions of a later epoch than its group's, or sequences that its head has not counted.
fn make_possible(state: &mut State) {
    for item in &mut state.items {
        let Some(group) = (item.name & 0x1_ffff).checked_sub(1) else { continue };
        let group = &mut state.groups[group as usize];
        let epoch = Place::unpack(group.place).epoch;
        for version in &mut item.versions {
            if version.shape >> 32 > u64::from(epoch) {
                version.shape = u64::from(epoch) << 32 | version.shape & 0xffff_ffff;
            }
            if version.sequence > 1 << 40 {
                version.sequence = 60;
            }
            group.sequence = group.sequence.max(version.sequence);
        }
    }
}

/// A packet for one of the keys, as a rule.
pub fn packet(random: &mut Random, state: &State) -> Vec<u8> {
    use kind::chain::{APPLY, DELETE, INSERT, INSTALL, MAP, READ, WATCH, WRITE};
    let kinds =
        [READ, READ, READ, WRITE, WRITE, WRITE, WRITE, WRITE, DELETE, APPLY, APPLY, APPLY, INSERT, INSTALL, MAP, WATCH];
    let kind = if random.once_in(25) { random.below(20) as u8 } else { random.pick(&kinds) };
    let number = 1 + random.below(ITEMS as u64 - 1) as usize;
    let its_group = (state.items[number].name & 0x1_ffff).saturating_sub(1) as u16;
    let group = if random.once_in(20) { random.below(GROUPS as u64 + 2) as u16 } else { its_group };
    let place = state.groups.get(usize::from(group)).map_or(Place::default(), |group| Place::unpack(group.place));
    let by_switch = matches!(kind, APPLY | INSTALL);
    let source =
        if by_switch && place.previous != 0 && !random.once_in(12) { place.previous } else { live(random, state) };
    let mut header = header(random, state, kind, source);
    header.service = service::CHAIN;
    header.epoch = if random.once_in(20) { place.epoch.wrapping_add(random.pick(&[1, u32::MAX])) } else { place.epoch };
    if !random.once_in(20) {
        header.namespace = state.groups.get(usize::from(group)).map_or(1, |group| group.namespace as u16);
    }
    let client = if by_switch { handle(random) } else { source };
    let value = value(random);
    let mut room = padded(&value);
    if random.once_in(3) || kind == READ {
        room.resize(limits::MAX_VALUE_BYTES, 0x5a);
    }
    if random.once_in(30) {
        room.resize(random.below(limits::MAX_BLOCKS as u64) as usize * limits::BLOCK_BYTES, 0x5a);
    }
    let asked = Asked { number, group, client, length: value.len() as u16 };
    let body = body(random, state, by_switch, &asked);
    assemble(header, &body, &room)
}

struct Asked {
    number: usize,
    group: u16,
    client: u16,
    length: u16,
}

/// An operation or an effect on an item's key.
fn body(random: &mut Random, state: &State, by_switch: bool, asked: &Asked) -> [u8; Operation::BYTES] {
    let item = &state.items[asked.number];
    let key = if random.once_in(20) { key_of(random.below(9) as usize) } else { key_of(asked.number) };
    let lane = if random.once_in(25) { random.next() as u8 } else { random.below(LANES) as u8 };
    let remembered = state.lanes.get(lane_index(asked.client, lane)).map_or(0, |lane| lane.request);
    let request = match random.below(8) {
        0 => random.next(),
        1 => remembered.wrapping_sub(1),
        2 | 3 => remembered,
        _ => remembered.wrapping_add(1),
    };
    let length = if random.once_in(25) { random.next() as u16 } else { asked.length };
    let version = item.versions[(item.lock & 1) as usize];
    let epoch = (version.shape >> 32) as u32;
    let mut body = [0; Operation::BYTES];
    let mut operation = Operation {
        key_high: key.high,
        key_low: key.low,
        request,
        expected: version.sequence,
        expected_epoch: epoch,
        group: asked.group,
        client: if random.once_in(25) { handle(random) } else { asked.client },
        reply_port: 20_001,
        length,
        lane,
        condition: 0,
        flags: if asked.length > 0 { value_flag::PRESENT } else { random.next() as u16 & value_flag::PRESENT }
            | if random.once_in(4) { value_flag::LEASED } else { 0 },
        check: item.name >> 17,
        first_epoch: 0,
    };
    if by_switch {
        operation.write(&mut body, 0);
        let newer = Effect {
            sequence: version.sequence.wrapping_add(random.below(4)).wrapping_sub(1),
            epoch: epoch + u32::from(random.once_in(20)),
            own_sequence: random.below(60),
            own_epoch: epoch,
            outcome: random.pick(&[Outcome::Done, Outcome::Unmet]) as u8,
            owner: random.next() as u32,
            ..Effect::read(&body, 0)
        };
        newer.write(&mut body, 0);
        return body;
    }
    if random.once_in(12) {
        operation.check ^= 1;
    }
    operation.condition = random.pick(&Condition::ALL) as u8;
    if operation.condition == Condition::Word as u8 {
        operation.expected = item.values[(item.lock & 1) as usize][0];
    }
    if random.once_in(6) {
        operation.expected ^= 1;
    }
    if random.once_in(25) {
        operation.condition = random.next() as u8;
    }
    operation.write(&mut body, 0);
    body
}

fn assemble(mut header: Header, body: &[u8], room: &[u8]) -> Vec<u8> {
    header.count = (room.len() / limits::BLOCK_BYTES) as u8;
    let mut packet = vec![0; BODY];
    header.write(&mut packet);
    packet.extend(body);
    packet.extend(room);
    assert_eq!(blocks(&packet).len() % limits::BLOCK_BYTES, 0);
    packet
}
