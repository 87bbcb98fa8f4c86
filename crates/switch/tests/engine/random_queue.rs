//! Random queues and packets of the queue service: mostly plausible, as in `random`.

use wayside_wire::{Attempt, BODY, Fetch, Header, cell_who, kind, limits, queue_flag, service};

use super::queue::who;
use super::random::{Random, handle, header, live};
use super::{Cell, Directory, NAMES, QUEUES, Queue, State};

/// Where queues lie: they do not overlap, and one has a single cell.
const REGIONS: [(u32, u32); QUEUES] = [(0, 0), (0, 4), (4, 1), (5, 3), (8, 8)];
const LAST_TICKET: u64 = (1 << 40) - 1;

fn name_of(number: usize) -> u64 {
    1_000 + number as u64
}

/// Queues, and lock servers, of a new switch.
pub fn begin(random: &mut Random, state: &mut State) {
    state.directory = Directory { seed: random.next() | 1, bucket_mask: NAMES as u32 - 1, ..Directory::default() };
    for namespace in 0..state.servers.len() {
        change_servers(random, state, namespace);
    }
    for number in 1..QUEUES {
        change_queue(random, state, number);
    }
}

/// What a daemon, or others' packets, may have done.
pub fn disturb(random: &mut Random, state: &mut State) {
    if random.once_in(6) {
        let namespace = random.below(state.servers.len() as u64) as usize;
        change_servers(random, state, namespace);
    } else {
        let number = 1 + random.below(QUEUES as u64 - 1) as usize;
        change_queue(random, state, number);
    }
}

fn change_servers(random: &mut Random, state: &mut State, namespace: usize) {
    let servers = &mut state.servers[namespace];
    servers.count = if random.once_in(8) { random.pick(&[0, 14, 15, u16::MAX]) } else { 1 + random.below(2) as u16 };
    servers.of.iter_mut().for_each(|server| *server = 1 + random.below(8) as u16);
}

fn cell(random: &mut Random, state: &State, exclusive: bool) -> Cell {
    let holder = 1 + random.below(8) as u16;
    let request = state.nodes[usize::from(holder)].oldest + random.below(4);
    Cell { request, who: who(holder, random.pick(&[0, 20_001, u16::MAX]), exclusive) }
}

fn change_queue(random: &mut Random, state: &mut State, number: usize) {
    let (left, size) = REGIONS[number];
    let first = if random.once_in(8) { LAST_TICKET - random.below(u64::from(size) + 2) } else { 1 + random.below(100) };
    let mut queue = Queue { name: name_of(number), left, size, ..Queue::default() };
    queue.namespace = if random.once_in(12) { random.below(3) as u32 } else { 1 };
    queue.epoch = if random.once_in(25) { 6 } else { state.globals.epoch };
    (queue.head, queue.granted, queue.tail) = (first, first, first);
    queue.given = random.below(6);
    queue.settled = if random.once_in(3) { queue.given.saturating_sub(random.below(3)) } else { queue.given };
    queue.pushed = random.below(4);
    queue.stage = if random.once_in(6) { random.below(4) as u32 } else { 0 };
    state.put_queue(number, queue);
    let exclusive = random.once_in(2);
    for _ in 0..random.below(u64::from(size) + 1) {
        let held = state.queues[number];
        // One exclusive holder, or several shared ones; then any waiters.
        let grants = held.granted == held.tail && (held.holding == 0 || !exclusive) && !random.once_in(3);
        let mode = if grants { exclusive } else { random.once_in(2) };
        let cell = cell(random, state, mode);
        state.line_up(number, cell);
        if grants {
            state.grant_next(number);
        }
        if random.once_in(6) {
            state.end(number, held.tail);
        }
    }
    let queue = &mut state.queues[number];
    queue.lock = if random.once_in(25) { 5 << 48 } else { 0 };
    if random.once_in(25) {
        queue.size = 0;
    }
}

/// A packet about one of the queues, as a rule.
pub fn packet(random: &mut Random, state: &State) -> Vec<u8> {
    use kind::queue::{ACQUIRE, CANCEL, FETCH, FETCHED, GRANT, NEXT, PUSH, RELEASE, SETTLE};
    let of_queues = [ACQUIRE, ACQUIRE, ACQUIRE, RELEASE, RELEASE, RELEASE, CANCEL, NEXT, PUSH, PUSH, SETTLE];
    let kinds = [&of_queues[..], &[FETCH, FETCH, FETCHED, FETCHED]].concat();
    let kind = match random.below(12) {
        0 => random.below(25) as u8,
        1 => GRANT,
        _ => random.pick(&kinds),
    };
    let number = 1 + random.below(QUEUES as u64 - 1) as usize;
    let queue = state.queues[number];
    let by_server = matches!(kind, PUSH | SETTLE | GRANT);
    let known = by_server || random.once_in(2);
    let used = queue.tail - queue.head;
    // Somebody in the queue, or somebody new.
    let (ticket, cell) = if !known || used == 0 || queue.size == 0 {
        (0, None)
    } else {
        let ticket = queue.head + random.below(used);
        (ticket, Some(state.cells[queue.left as usize + (ticket % u64::from(queue.size)) as usize]))
    };
    let holder = cell.map_or_else(|| live(random, state), |cell| cell_who::holder(cell.who));
    let source = match kind {
        FETCHED => live(random, state),
        _ if by_server => server_of(random, state, queue),
        _ => holder,
    };
    let oldest = state.nodes.get(usize::from(holder)).map_or(0, |node| node.oldest);
    let request = match random.below(16) {
        0 => random.next(),
        1 => oldest.wrapping_sub(1),
        _ => cell.map_or(oldest + random.below(4), |cell| cell.request),
    };
    let mut header = header(random, state, kind, source);
    (header.service, header.count) = (service::QUEUE, 0);
    if !random.once_in(20) {
        header.namespace = queue.namespace.max(1) as u16;
    }
    if kind == GRANT {
        header.destination = live(random, state);
    }
    let noise = random.next() as u8;
    let flags = random.pick(&[0, queue_flag::EXCLUSIVE, queue_flag::EXCLUSIVE | queue_flag::TRY, noise]);
    let attempt = Attempt {
        name: if random.once_in(12) { name_of(random.below(9) as usize) } else { queue.name },
        request,
        ticket: if random.once_in(3) { random.below(104) } else { ticket },
        over: random.next(),
        number: if by_server { queue.pushed.wrapping_add(random.pick(&[0, 1, 1, 1, 2])) } else { random.next() },
        order: if by_server { queue.given.wrapping_add(random.pick(&[0, 0, 1, u64::MAX])) } else { random.next() },
        holder: if random.once_in(25) { handle(random) } else { holder },
        reply_port: 20_002,
        room: random.next() as u16,
        flags,
        cause: if random.once_in(2) { 0 } else { random.next() as u8 },
        sent_us: random.next(),
    };
    if matches!(kind, FETCH | FETCHED) {
        return fetch(random, state, header, &attempt);
    }
    assemble(header, &attempt)
}

/// With blocks, by way of somebody who is there, as a rule.
fn fetch(random: &mut Random, state: &State, mut header: Header, attempt: &Attempt) -> Vec<u8> {
    let third = live(random, state);
    header.count = random.pick(&[0, 1, 2, 30]);
    let blocks = usize::from(header.count) * limits::BLOCK_BYTES;
    if header.kind == kind::queue::FETCH {
        header.destination = third;
    }
    let incarnation = state.nodes.get(usize::from(third)).map_or(0, |node| node.incarnation);
    let length = (blocks as u64 - random.below(33).min(blocks as u64)) as u16;
    let fetch = Fetch {
        name: attempt.name,
        request: attempt.request,
        ticket: attempt.ticket,
        incarnation: if random.once_in(8) { random.next() } else { incarnation },
        holder: attempt.holder,
        reply_port: attempt.reply_port,
        length: if random.once_in(12) { random.next() as u16 } else { length },
        flags: attempt.flags,
        cause: attempt.cause,
        sent_us: attempt.sent_us,
    };
    let mut packet = vec![0xdd; BODY + Fetch::BYTES + blocks];
    header.write(&mut packet);
    fetch.write(&mut packet, BODY);
    packet
}

/// The server of a name, as a rule.
fn server_of(random: &mut Random, state: &State, queue: Queue) -> u16 {
    let servers = state.servers.get(queue.namespace as usize).copied().unwrap_or_default();
    let at = wayside_wire::name_hash(queue.name).checked_rem(u64::from(servers.count));
    let server = at.and_then(|at| servers.of.get(at as usize)).copied();
    server.filter(|_| !random.once_in(8)).unwrap_or_else(|| live(random, state))
}

fn assemble(header: Header, attempt: &Attempt) -> Vec<u8> {
    let mut packet = vec![0; BODY + Attempt::BYTES];
    header.write(&mut packet);
    attempt.write(&mut packet, BODY);
    packet
}
