//! docs/security.md: whoever has no key changes nothing, by whatever packet. Genuine packets go through, forged ones
//! among them do not: in the end the switch is what the genuine ones alone have made of another one. Nor does whoever
//! has recorded genuine ones and sends them again.

mod engine;

use engine::random::{self, Random};
use engine::{DROP, Engine, Globals, Keys, Native, Node, Region, State, counter_names};
use wayside_protocol::memory::{NodeWord, SlotWord};
use wayside_wire::{
    BODY, DropReason, Entry, Header, Heartbeat, NodeState, SlotBits, SlotState, entry_at, entry_flag, header_flag,
    kind, service,
};

const FORGED: u64 = 1_000_000;
/// Forged packets to one switch, which changes meanwhile by genuine ones.
const OF_A_SEED: u64 = 1_000;

const REPLAYED: u64 = 1_000_000;
/// Replays in a row, after which genuine packets change the switch again.
const IN_A_ROW: u64 = 1_000;
/// How often one switch goes through both.
const TURNS: u64 = 10;
/// What nodes do meanwhile, by a packet each or a few.
const STEPS: u64 = 40;
/// Of the switch whose packets are replayed.
const EPOCH: u32 = 7;
const NAMESPACE: u16 = 1;
const HANDLES: u16 = 8;
const LOCKS: u32 = 6;

/// A packet that the network's attacker makes of genuine ones: he has seen `seen`, and knows no node's key. He may know
/// one's former key.
fn forge(random: &mut Random, seen: &[Vec<u8>], state: &State) -> Vec<u8> {
    let mut packet = seen[random.below(seen.len() as u64) as usize].clone();
    let genuine = packet.clone();
    while packet == genuine {
        match random.below(7) {
            // One bit, anywhere.
            0 => flip(random, &mut packet, 0),
            // Several fields at once, under the old tag.
            1 => (0..1 + random.below(8)).for_each(|_| flip(random, &mut packet, 4)),
            // A packet of his own, under a tag of chance or none.
            2 => {
                packet = random::packet(random, state).0;
                packet.resize(packet.len().max(64), 0);
                let tag = if random.once_in(2) { random.next() } else { 0 };
                packet[24..32].copy_from_slice(&tag.to_be_bytes());
            }
            // Under another's key: of a node that he is, but not here, or of none.
            3 => {
                let stranger = 1_000 + random.below(100) as u16;
                Keys::of_handle(stranger).sign_up(random.below(2) as usize, &mut packet);
            }
            // What the switch itself signed, sent back to it.
            4 => Keys::of_handle(source_of(&packet)).sign_down(&mut packet),
            // Another tag, another packet's.
            5 => {
                let other = &seen[random.below(seen.len() as u64) as usize];
                packet[24..32].copy_from_slice(&other[24..32]);
            }
            // The same tag said to be the other key's.
            _ => {
                let flags = flags_of(&packet) ^ header_flag::KEY;
                packet[6..8].copy_from_slice(&flags.to_be_bytes());
            }
        }
    }
    packet
}

fn flip(random: &mut Random, packet: &mut [u8], from: usize) {
    let at = from + random.below((packet.len() - from) as u64) as usize;
    packet[at] ^= 1 << random.below(8);
}

fn source_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[8], packet[9]])
}

fn flags_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[6], packet[7]])
}

/// A packet that its source has signed, and so whole that nothing but its tag is looked at first.
fn genuine(random: &mut Random, state: &State) -> (Vec<u8>, u16) {
    loop {
        let (mut packet, port) = random::packet(random, state);
        if Header::read(&packet).is_ok_and(|header| wayside_wire::check(&packet) == Ok(header))
            && packet.len() % 32 == 0
        {
            Keys::of_handle(source_of(&packet)).sign_up(random.below(2) as usize, &mut packet);
            return (packet, port);
        }
    }
}

#[test]
fn a_million_forged_packets_change_nothing() {
    let (mut attacked, mut alone) = (Native::new(), Native::new());
    let mut changes = 0;
    for seed in 0..FORGED / OF_A_SEED {
        // Seeds whose switches have authentication on.
        let mut random = Random::new(seed);
        let mut state = random::state_of(seed * 8 + 4, &mut random);
        for (handle, keys) in state.keys.iter_mut().enumerate().skip(1) {
            *keys = Keys::of_handle(handle as u16);
        }
        attacked.set(&state);
        alone.set(&state);
        let mut seen = vec![];
        for _ in 0..OF_A_SEED {
            if random.once_in(4) || seen.is_empty() {
                let (packet, port) = genuine(&mut random, &state);
                let before = alone.get();
                assert_eq!(attacked.process(&packet, port, None), alone.process(&packet, port, None));
                changes += u64::from(before != alone.get());
                seen.push(packet);
            }
            let packet = forge(&mut random, &seen, &state);
            let (verdict, _) = attacked.process(&packet, 20_001, None);
            assert_eq!(verdict.action, DROP, "seed {seed}: {packet:02x?}");
            assert_ne!(verdict.reason, DropReason::None as u8);
            let after = attacked.get();
            assert_eq!(after, alone.get(), "seed {seed}: {packet:02x?}");
            state = after;
        }
    }
    assert!(changes > FORGED / 100, "hardly any genuine packet did anything: {changes}");
}

/// A packet that was recorded comes again, later, as it was: its tag is right. What it may change is what the protocol
/// lets any late copy change, and a heartbeat's sequence is over.
#[test]
fn a_recorded_heartbeat_is_over() {
    let mut random = Random::new(4);
    let mut state = random::state_of(4, &mut random);
    state.keys[1] = Keys::of_handle(1);
    state.globals = Globals { epoch: 7, serving: 1, authenticated: 1, ..state.globals };
    state.nodes[1] = Node { word: 1 << 56 | 5, incarnation: 101, oldest: 101 << 40, ..state.nodes[1] };
    let mut native = Native::new();
    native.set(&state);
    let mut packet = vec![0; 64];
    let header = Header { kind: kind::fabric::HEARTBEAT, source: 1, epoch: 7, ..Header::default() };
    header.write(&mut packet);
    let beat = Heartbeat { sequence: 6, incarnation: 101, oldest: 101 << 40, sent_us: 9 };
    beat.write(&mut packet, 32);
    Keys::of_handle(1).sign_up(0, &mut packet);
    assert_ne!(native.process(&packet, 1, None).0.action, DROP);
    let after = native.get();
    for _ in 0..1_000 {
        let (verdict, _) = native.process(&packet, 1, None);
        assert_eq!((verdict.action, verdict.reason), (DROP, DropReason::StaleHeartbeat as u8));
    }
    assert_eq!(native.get(), after);
}

/// A request that its node has not ended: it holds, or waits.
#[derive(Clone, Copy)]
struct Wish {
    slot: u32,
    request: u64,
    exclusive: bool,
}

/// What one node has said. It wants what one packet asked for, at most: whatever else it has asked for is over.
#[derive(Clone, Default)]
struct Member {
    requests: u64,
    beats: u64,
    wants: Vec<Wish>,
}

/// A switch, nodes that do nothing but what the protocol has them do, and all that it has taken from them.
struct World<'n> {
    native: &'n mut Native,
    /// The first has handle 1.
    members: Vec<Member>,
    /// With the UDP ports that they came from.
    taken: Vec<(Vec<u8>, u16)>,
}

fn incarnation(handle: u16) -> u64 {
    100 + u64::from(handle)
}

fn request(handle: u16, counter: u64) -> u64 {
    incarnation(handle) << 40 | counter
}

/// An entry about the one name of a slot.
fn about(slot: u32, holder: u16) -> Entry {
    Entry { name: u64::from(slot) + 1, slot, holder, ..Entry::default() }
}

fn lock_packet(kind: u8, flags: u16, source: u16, destination: u16, entries: &[Entry]) -> Vec<u8> {
    let header = Header {
        service: service::LOCK,
        kind,
        count: entries.len() as u8,
        flags,
        source,
        destination,
        epoch: EPOCH,
        namespace: NAMESPACE,
        ..Header::default()
    };
    let mut packet = vec![0; entry_at(entries.len())];
    header.write(&mut packet);
    for (place, entry) in entries.iter().enumerate() {
        entry.write(&mut packet, entry_at(place));
    }
    packet
}

fn session_packet(kind: u8, source: u16, body: &Heartbeat) -> Vec<u8> {
    let mut packet = vec![0; BODY + Heartbeat::BYTES];
    Header { kind, source, epoch: EPOCH, ..Header::default() }.write(&mut packet);
    body.write(&mut packet, BODY);
    packet
}

impl World<'_> {
    fn begin(native: &mut Native) -> World<'_> {
        let globals = Globals { epoch: EPOCH, serving: 1, authenticated: 1, ..Globals::default() };
        let mut state = State { globals, ..State::default() };
        state.regions[usize::from(NAMESPACE)] = Region { count: LOCKS, ..Region::default() };
        for handle in 1..=HANDLES {
            state.keys[usize::from(handle)] = Keys::of_handle(handle);
            state.nodes[usize::from(handle)] = Node {
                word: NodeWord { state: NodeState::Live, sequence: 0 }.pack(),
                oldest: request(handle, 0),
                incarnation: incarnation(handle),
                address: 0x0a00_0000 + u32::from(handle),
                agent_port: 10_000 + handle,
                namespace: NAMESPACE,
            };
        }
        native.set(&state);
        World { native, members: vec![Member::default(); HANDLES.into()], taken: vec![] }
    }

    fn member(&mut self, handle: u16) -> &mut Member {
        &mut self.members[usize::from(handle) - 1]
    }

    /// Says it, signed, and gives what the switch has made of it.
    fn say(&mut self, random: &mut Random, source: u16, mut packet: Vec<u8>) -> Vec<u8> {
        Keys::of_handle(source).sign_up(random.below(2) as usize, &mut packet);
        let port = 20_000 + source;
        let (verdict, answer) = self.native.process(&packet, port, None);
        assert_ne!(verdict.action, DROP, "{verdict:?}: {packet:02x?}");
        self.taken.push((packet, port));
        answer
    }

    /// Some node does something.
    fn step(&mut self, random: &mut Random) {
        let handle = 1 + random.below(HANDLES.into()) as u16;
        match random.below(10) {
            0 => self.beat(random, handle),
            1 => self.tell(random, handle),
            2..5 => self.change(random),
            _ if self.member(handle).wants.is_empty() => self.acquire(random, handle),
            _ => self.end(random, handle),
        }
    }

    fn beat(&mut self, random: &mut Random, handle: u16) {
        let member = self.member(handle);
        member.beats += 1;
        // Without a wish the next one is the oldest.
        let oldest = member.wants.first().map_or(request(handle, member.requests + 1), |wish| wish.request);
        let beat = Heartbeat { sequence: member.beats, oldest, sent_us: 9, incarnation: incarnation(handle) };
        self.say(random, handle, session_packet(kind::fabric::HEARTBEAT, handle, &beat));
    }

    /// One name or several, in either mode, patiently or not.
    fn acquire(&mut self, random: &mut Random, handle: u16) {
        const EXCLUSIVE: u8 = entry_flag::EXCLUSIVE;
        let flags = random.pick(&[0, EXCLUSIVE, entry_flag::TRY, EXCLUSIVE | entry_flag::TRY]);
        let count = if random.once_in(4) { 2 + random.below(3) } else { 1 };
        let first = random.below(LOCKS.into()) as u32;
        let member = self.member(handle);
        let entries: Vec<Entry> = (0..count as u32)
            .map(|place| {
                member.requests += 1;
                let request = request(handle, member.requests);
                Entry { request, flags, ..about((first + place) % LOCKS, handle) }
            })
            .collect();
        let answer = self.say(random, handle, lock_packet(kind::lock::ACQUIRE, 0, handle, 0, &entries));
        let is_refused = Header::read(&answer).unwrap().kind == kind::lock::BUSY;
        // Of several names the switch decides on those that nobody holds, and the others are asked for singly.
        let is_granted = |place| Entry::read(&answer, entry_at(place)).flags & entry_flag::AGENCY != 0;
        let wants = entries
            .iter()
            .enumerate()
            .filter(|(place, _)| if count == 1 { !is_refused } else { is_granted(*place) })
            .map(|(_, entry)| Wish { slot: entry.slot, request: entry.request, exclusive: flags & EXCLUSIVE != 0 })
            .collect();
        self.member(handle).wants = wants;
    }

    /// All that it wants, or has.
    fn end(&mut self, random: &mut Random, handle: u16) {
        for wish in std::mem::take(&mut self.member(handle).wants) {
            let entry = Entry { request: wish.request, ..about(wish.slot, handle) };
            if wish.exclusive && random.once_in(4) {
                self.say(random, handle, lock_packet(kind::lock::DOWNGRADE, 0, handle, 0, &[entry]));
            }
            let kind = random.pick(&[kind::lock::RELEASE, kind::lock::CANCEL]);
            self.say(random, handle, lock_packet(kind, 0, handle, 0, &[entry]));
        }
    }

    /// The agent of some lock frees it, hands it over, begins another tenure or claims it; or knows of one join less
    /// than there were.
    fn change(&mut self, random: &mut Random) {
        let slot = random.below(LOCKS.into()) as u32;
        let word = SlotWord::unpack(self.native.get().slots[slot as usize].w0);
        if !word.held() {
            return;
        }
        let (mut heirs, mut exclusive) = (vec![], false);
        for (handle, member) in (1..).zip(&self.members) {
            if let Some(wish) = member.wants.iter().find(|wish| wish.slot == slot) {
                heirs.push(handle);
                exclusive |= wish.exclusive;
            }
        }
        let state = if heirs.is_empty() {
            SlotState::Unheld
        } else if exclusive || random.once_in(2) {
            SlotState::Managed
        } else {
            SlotState::Open
        };
        let heir: u16 = if heirs.is_empty() || random.once_in(3) { word.agent } else { random.pick(&heirs) };
        let joins = word.joins.saturating_sub(random.once_in(6).into());
        let bits = SlotBits { state, transferred: false, tryable: random.once_in(2), joins };
        let entry =
            Entry { request: request(heir, 5), tenure: word.tenure, slot_bits: bits.to_u16(), ..about(slot, heir) };
        let flags = if !word.transferred && random.once_in(8) { header_flag::CLAIM } else { 0 };
        self.say(random, word.agent, lock_packet(kind::lock::RETENURE, flags, word.agent, 0, &[entry]));
    }

    /// What goes through the switch to another node, or to the controller.
    fn tell(&mut self, random: &mut Random, handle: u16) {
        use kind::lock::{ADOPTED, BUSY, GAP, GRANT, QUEUE, QUEUED, RELEASED, REPORT};
        if random.once_in(4) {
            let kind = random.pick(&[kind::fabric::DOWN_ACK, kind::fabric::TURN_ACK]);
            let body = Heartbeat { incarnation: incarnation(handle), ..Heartbeat::default() };
            self.say(random, handle, session_packet(kind, handle, &body));
            return;
        }
        let kind = random.pick(&[ADOPTED, BUSY, GAP, GRANT, QUEUE, QUEUED, RELEASED, REPORT]);
        let to = if [ADOPTED, GAP, REPORT].contains(&kind) { 0 } else { 1 + handle % HANDLES };
        let slot = random.below(LOCKS.into()) as u32;
        let entry = Entry { request: request(to, 1), reply_port: 20_000 + to, ..about(slot, to) };
        self.say(random, handle, lock_packet(kind, 0, handle, to, &[entry]));
    }

    /// Something that was taken comes again, from where it came or from elsewhere. `state` is what the switch is to be.
    fn replay(&mut self, random: &mut Random, state: &mut State) {
        let (packet, port) = &self.taken[random.below(self.taken.len() as u64) as usize];
        let port = if random.once_in(2) { *port } else { 40_000 };
        let (verdict, _) = self.native.process(packet, port, None);
        // A reader who holds or waits asks again: it is told again, under an ordinal more, and is the same reader.
        if verdict.copy != 0 {
            let entry = Entry::read(packet, BODY);
            let wants = &self.members[usize::from(entry.holder) - 1].wants;
            assert!(wants.iter().any(|wish| wish.request == entry.request && !wish.exclusive), "over: {entry:?}");
            let word = &mut state.slots[entry.slot as usize].w0;
            let open = SlotWord::unpack(*word);
            assert_eq!(open.state, SlotState::Open);
            *word = SlotWord { joins: open.joins + 1, ..open }.pack();
        }
        assert_eq!(self.native.get(), *state, "{packet:02x?}");
    }
}

/// docs/security.md, Replay. Every node has told meanwhile which of its requests is the oldest, as heartbeats do. Then
/// nothing becomes another's, no tenure and so no token rises, no word takes a heartbeat, by whatever comes again.
#[test]
fn a_million_replays_change_nothing_but_the_count_of_joins() {
    let mut native = Native::new();
    let names = counter_names();
    let mut counted = vec![0u64; names.len()];
    for seed in 0..REPLAYED / IN_A_ROW / TURNS {
        let mut random = Random::new(seed);
        let mut world = World::begin(&mut native);
        for _ in 0..TURNS {
            (0..STEPS).for_each(|_| world.step(&mut random));
            (1..=HANDLES).for_each(|handle| world.beat(&mut random, handle));
            let (before, mut state) = (world.native.counters(), world.native.get());
            (0..IN_A_ROW).for_each(|_| world.replay(&mut random, &mut state));
            let after = world.native.counters();
            counted.iter_mut().zip(after.iter().zip(&before)).for_each(|(sum, (after, before))| *sum += after - before);
        }
    }
    let count = |name: &str| counted[names.iter().position(|known| *known == name).expect(name)];
    for never in ["granted", "closed", "freed", "transferred", "renewed", "reopened", "claimed", "heartbeat", "gap"] {
        assert_eq!(count(never), 0, "{never}");
    }
    for often in ["stale_heartbeat", "stale_request", "forwarded", "relayed", "to_controller"] {
        assert!(count(often) > REPLAYED / 1_000, "hardly any was {often}: {}", count(often));
    }
    for rarely in ["joined", "released", "retenure_stale", "retenure_refused", "transfer_repeated", "claim_repeated"] {
        assert!(count(rarely) > 0, "none was {rarely}");
    }
}
