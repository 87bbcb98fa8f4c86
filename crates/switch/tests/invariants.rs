//! What holds for every packet whatsoever (`dataplane/fission.h`, `session.h`, `packet.h`: Invariants), on random
//! switches.

mod engine;

use engine::random::{self, Random};
use engine::{
    ACTIONS, ALL_RECORDS, Cell, DROP, Engine, Item, Keys, Lane, Meter, Native, Queue, RECORDS, Record, Region, State,
    Store, TO_NODE, Verdict,
};
use wayside_protocol::chain::Place;
use wayside_protocol::memory::{NodeWord, SlotWord};
use wayside_wire::{
    Attempt, BODY, DropReason, NodeState, SlotState, cell_who, header_flag, kind, limits, queue_holding, service,
};

/// Of a header's flags, which are two bytes, in the first.
const QUIET_BYTE: u8 = (header_flag::QUIET >> 8) as u8;
const SEEDS: u64 = 300;
const PACKETS_OF_A_SEED: u64 = 1_000;

/// I4: a bad, foreign, stale or forged packet leaves the state as it was. The drops that may follow a change are
/// NOT_GRANTED, which undoes it, and which needs a race, and NO_KEY, of an answer; and of the chain service one whose
/// next switch or client is not there.
fn check_verdict(verdict: &Verdict, before: &State, after: &State, packet: &[u8]) {
    let length = packet.len();
    let is_lost = packet.get(3) == Some(&service::CHAIN) && verdict.reason == DropReason::DestinationNotLive as u8;
    let may_follow = is_lost || verdict.reason == DropReason::NoKey as u8;
    let is_quiet = packet.get(3..5) == Some(&[service::LOCK, kind::lock::FREE]);
    let is_quiet = is_quiet && packet.get(6).is_some_and(|flags| flags & QUIET_BYTE != 0);
    assert!(is_quiet || verdict.action != DROP || verdict.reason != 0, "a drop without a reason");
    if !may_follow && verdict.reason != 0 {
        assert_ne!(verdict.reason, DropReason::NotGranted as u8, "nobody expires here");
        // What is charged for has been found good; that its agent is dead is seen later. `check_region` has the rest.
        let charged =
            [DropReason::OverBudget, DropReason::DestinationNotLive, DropReason::NoServer, DropReason::LostRace];
        let charged = charged.map(|reason| reason as u8);
        let regions = if charged.contains(&verdict.reason) { after.regions } else { before.regions };
        assert_eq!(&State { regions, ..before.clone() }, after);
    }
    assert!(usize::from(verdict.length) <= length, "an answer longer than what was asked");
    assert!(verdict.action != TO_NODE || verdict.handle != 0, "the controller is no node");
}

fn check_slot(before: SlotWord, after: SlotWord) {
    if before == after {
        return;
    }
    assert_ne!(before.state, SlotState::Frozen, "a frozen slot is the controller's");
    assert_ne!(after.state, SlotState::Frozen, "freezing is, too");
    assert_ne!(before.tenure, u32::MAX, "there is no tenure after the last");
    if after.tenure == before.tenure {
        let seized = before.state == SlotState::Unheld && after.agent != 0 && after.joins == 0;
        let same = before.agent == after.agent && before.transferred == after.transferred;
        let open = before.state == SlotState::Open;
        let joined = open && same && after.state == SlotState::Open && after.joins == before.joins + 1;
        let closed = open && same && after.state == SlotState::Managed && after.joins == before.joins;
        assert!(seized || joined || closed, "within a tenure");
        assert!(seized || before.tryable || !after.tryable, "tryable comes back with a new tenure only");
    } else {
        assert_eq!(after.tenure, before.tenure + 1, "tenures follow each other");
        assert_ne!(before.state, SlotState::Unheld, "nobody is the agent of an unheld slot");
        let claimed = after.state == SlotState::Managed && after.transferred && after.agent == before.agent;
        assert!(after.joins == 0 || (claimed && after.joins == before.joins), "joins of a new tenure");
    }
    assert_eq!(after.agent == 0, after.state == SlotState::Unheld, "an agent exactly if held");
}

fn check_node(before: NodeWord, after: NodeWord) {
    if before != after {
        assert_eq!((before.state, after.state), (NodeState::Live, NodeState::Live), "states are the controller's");
        assert!(after.sequence > before.sequence, "heartbeats count up");
    }
}

/// A packet asks for so many requests, of which none is charged for if it is refused: what asks for none changes
/// nothing.
fn check_region(before: &Region, after: &Region, requests: u64, refused: u64) {
    let due = after.own.due - before.own.due;
    assert!(due == 0 || refused == 0 && due == requests * before.own.cost, "{due} for {requests} requests");
    assert!(before.burst != 0 || due == 0, "there is no budget");
    let refusals = after.over_budget - before.over_budget;
    assert!(refusals <= refused && requests != 0 || refusals == 0);
    let own = Meter { due: after.own.due, ..before.own };
    assert!(after.told == before.told || refusals == 1, "who is told has been refused");
    let same = Region { own, over_budget: after.over_budget, told: after.told, ..*before };
    assert_eq!(same, *after, "regions are the daemon's");
}

/// A packet changes one item and one lane at most, and nothing else but what the head counts, and what the journal is
/// told; locks are given back.
fn check_chain(before: &State, after: &State, packet: &[u8]) {
    let store = Store { drawn: before.store.drawn, torn: before.store.torn, ..after.store };
    assert_eq!((&before.buckets, before.store), (&after.buckets, store), "keys are the daemon's");
    check_journal(before, after);
    let kind = match packet.get(3..5) {
        Some(&[service::CHAIN, kind]) => kind,
        _ => 0,
    };
    let writes = matches!(kind, kind::chain::WRITE | kind::chain::DELETE);
    let changed: Vec<_> = before.items.iter().zip(&after.items).filter(|(one, other)| one != other).collect();
    assert!(changed.len() <= 1 && (changed.is_empty() || writes || kind == kind::chain::APPLY), "{kind}: {changed:?}");
    changed.iter().for_each(|(one, other)| check_item(one, other));
    for (one, other) in before.groups.iter().zip(&after.groups).filter(|(one, other)| one != other) {
        assert!(writes && Place::unpack(one.place).previous == 0, "heads count, and nobody else");
        assert_eq!((one.place, one.sequence + 1, one.namespace), (other.place, other.sequence, other.namespace));
        let version = |item: &Item| item.versions[(item.lock & 1) as usize];
        assert_eq!(version(changed[0].1).sequence, other.sequence, "what is counted is written");
    }
    let lanes: Vec<_> = before.lanes.iter().zip(&after.lanes).filter(|(one, other)| one != other).collect();
    assert!(lanes.len() <= 1 && (lanes.is_empty() || writes || kind == kind::chain::APPLY), "{kind}: {lanes:?}");
    lanes.iter().for_each(|(one, other)| check_lane(one, other));
    assert!(!writes || changed.is_empty() || !lanes.is_empty(), "a write without its lane");
}

/// What an item takes in a group that is watched draws a number, and nothing else does; its record has it, or is
/// counted as missing.
fn check_journal(before: &State, after: &State) {
    let taken = before.items.iter().zip(&after.items).find(|(one, other)| one != other);
    let group = |item: &Item| ((item.name & 0x1_ffff) - 1) as usize;
    let noted = taken.filter(|(item, _)| before.groups[group(item)].watched != 0);
    assert_eq!(
        after.store.drawn,
        before.store.drawn + u64::from(noted.is_some()),
        "numbers are drawn for what is taken"
    );
    let index = after.store.drawn as usize % ALL_RECORDS;
    let changed = (0..RECORDS).filter(|&number| before.journal[number] != after.journal[number]).collect::<Vec<_>>();
    let Some((was, is)) = noted.filter(|_| index < RECORDS) else { return assert_eq!(changed, []) };
    if after.store.torn != before.store.torn {
        assert_eq!((after.store.torn, changed), (before.store.torn + 1, vec![]));
        let lock = before.journal[index].lock;
        return assert!(lock >> 48 != 0 || lock >= after.store.drawn, "the record was nobody's");
    }
    let (old, new) = ((was.lock & 1) as usize, (is.lock & 1) as usize);
    let record = Record {
        lock: after.store.drawn,
        key_high: is.key_high,
        key_low: is.key_low,
        name: is.name,
        before_sequence: was.versions[old].sequence,
        before_shape: was.versions[old].shape,
        sequence: is.versions[new].sequence,
        shape: is.versions[new].shape,
        value: is.values[new],
    };
    assert_eq!((changed, after.journal[index]), (vec![index], record), "what was taken");
}

fn check_item(before: &Item, after: &Item) {
    let (was, is) = ((before.lock & 1) as usize, (after.lock & 1) as usize);
    assert_eq!(after.lock, (before.lock + 2) ^ 1, "one change, and the lock given back");
    assert_eq!((before.versions[was], before.values[was]), (after.versions[was], after.values[was]), "what was");
    let order = |item: &Item, which: usize| (item.versions[which].shape >> 32, item.versions[which].sequence);
    assert!(order(after, is) > order(before, was), "versions never fall");
    let same = Item { lock: after.lock, versions: after.versions, values: after.values, ..*before };
    assert_eq!(same, *after, "keys are the daemon's");
}

fn check_lane(before: &Lane, after: &Lane) {
    assert_eq!(before.lock, after.lock, "given back");
    let later = after.request.wrapping_sub(before.request).wrapping_sub(1) < 1 << 63;
    assert!(after.request != 0 && (before.request == 0 || later), "requests of a lane rise");
}

/// docs/queue.md, Invariants: one queue changes at most, by what a packet of its kind may do to it.
fn check_queues(before: &State, after: &State, packet: &[u8]) {
    assert_eq!((&before.names, &before.servers), (&after.names, &after.servers), "where queues are is the daemon's");
    assert_eq!(before.directory, after.directory);
    let (mut touched, mut granted) = (0, 0);
    for number in 1..before.queues.len() {
        let (was, is) = (before.queues[number], after.queues[number]);
        let cells = is.left as usize..(is.left + is.size) as usize;
        if was == is && before.cells[cells.clone()] == after.cells[cells] {
            continue;
        }
        touched += 1;
        granted += check_queue(&was, &is, before, after, packet);
    }
    assert!(touched <= 1 && granted <= 1, "{touched} queues, {granted} grants");
}

/// How many it has granted.
fn check_queue(was: &Queue, is: &Queue, before: &State, after: &State, packet: &[u8]) -> u64 {
    let Attempt { request, holder, ticket, number, cause, .. } = Attempt::read(packet, BODY);
    assert_eq!(packet[3], service::QUEUE);
    // The same to a queue, whichever way its grant goes.
    let kind = if packet[4] == kind::queue::FETCH { kind::queue::ACQUIRE } else { packet[4] };
    assert_ne!(kind, kind::queue::FETCHED, "what a third node says changes nothing");
    let counters = |queue: &Queue| [queue.head, queue.granted, queue.tail, queue.given, queue.settled, queue.pushed];
    assert!(counters(was).iter().zip(counters(is)).all(|(one, other)| *one <= other), "a counter fell");
    assert!(is.head <= is.granted && is.granted <= is.tail && is.tail <= is.head + u64::from(is.size), "Q1");
    assert!(is.tail <= was.tail + 1 && is.given <= was.given + 1 && is.settled <= is.given);
    assert!(is.pushed == was.pushed || kind == kind::queue::PUSH && is.pushed == was.pushed + 1 && number == is.pushed);
    let lined_up = is.tail > was.tail;
    assert!(!lined_up || kind == kind::queue::PUSH && is.pushed > was.pushed || kind == kind::queue::ACQUIRE);
    let is_settled = was.given == was.settled || !has_live_server(before, was);
    assert!(!lined_up || kind == kind::queue::PUSH || is_settled, "Q5: others wait at the lock server");
    let settles = [kind::queue::PUSH, kind::queue::SETTLE].contains(&kind) || !has_live_server(before, was);
    assert!(settles || is.settled == was.settled, "the lock server alone knows that it has nothing");
    let cell = |state: &State, ticket: u64| state.cells[is.left as usize + (ticket % u64::from(is.size)) as usize];
    let over = |cell: Cell| cell_who::over(cell.who) != 0;
    // Whoever was in the queue is there still, or over by a right of its own.
    for ticket_of in was.head..was.tail {
        let (one, other) = (cell(before, ticket_of), cell(after, ticket_of));
        if ticket_of < is.head && lined_up && is.tail > ticket_of + u64::from(is.size) {
            continue; // Its cell is another's by now.
        }
        assert_eq!(one.request, other.request, "requests stay");
        if over(one) == over(other) {
            continue;
        }
        let owner = cell_who::holder(one.who);
        let node = before.nodes[usize::from(owner)];
        let is_own = matches!(kind, kind::queue::RELEASE | kind::queue::CANCEL)
            && (one.request, owner) == (request, holder)
            && (ticket == ticket_of || kind == kind::queue::CANCEL && ticket == 0);
        let is_dead = match NodeWord::unpack(node.word).state {
            NodeState::Live => false,
            NodeState::Dismissed => ticket_of >= was.granted,
            NodeState::Expired | NodeState::Vacant => true,
        };
        let is_no_more = one.request.wrapping_sub(node.oldest) >= 1 << 40;
        assert!(!over(one) && (is_own || is_dead || is_no_more), "Q4: ticket {ticket_of} is over by nobody's right");
    }
    let holders: Vec<Cell> =
        (is.head..is.granted).map(|ticket| cell(after, ticket)).filter(|cell| !over(*cell)).collect();
    let exclusive = holders.iter().filter(|cell| cell_who::exclusive(cell.who) != 0).count();
    assert!(exclusive == 0 || holders.len() == 1, "Q2: {holders:x?}");
    let counted = queue_holding::with_holders(0, holders.len() as u32);
    assert_eq!(is.holding, queue_holding::with_exclusive(counted, exclusive as u8), "what the cells say");
    assert_eq!(was.lock, is.lock, "given back");
    let kept = Queue { lock: is.lock, holding: is.holding, ..*was };
    let kept = Queue { head: is.head, granted: is.granted, tail: is.tail, ..kept };
    let kept = Queue { given: is.given, settled: is.settled, pushed: is.pushed, ..kept };
    assert_eq!(Queue { ranked: is.ranked, ..kept }, *is, "the daemon's");
    let is_ranked = kind == kind::queue::ACQUIRE && cause & limits::MAX_PRIORITY != 0;
    assert_eq!(is.ranked - was.ranked, u32::from(is_ranked && is.given > was.given), "Q10");
    // A packet that has granted somebody else leaves whoever is next to another one.
    let waits = lined_up && is.granted < is.tail && is.granted == was.granted;
    assert!(!(is_ranked && waits && has_live_server(before, was)), "Q10");
    (was.granted.max(is.head)..is.granted).filter(|ticket| !over(cell(after, *ticket))).count() as u64
}

fn has_live_server(state: &State, queue: &Queue) -> bool {
    let servers = &state.servers[queue.namespace as usize];
    let at = (wayside_wire::mix(queue.name) >> 20).checked_rem(servers.count.into());
    let server = at.and_then(|at| servers.of.get(at as usize)).copied().unwrap_or_default();
    server != 0 && NodeWord::unpack(state.nodes[usize::from(server)].word).state == NodeState::Live
}

/// Says more when an assertion fails.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

#[test]
fn of_every_packet() {
    let mut native = Native::new();
    let names = engine::counter_names();
    let is_verdict = |name: &&str| ACTIONS.contains(name) || *name == "to_nobody";
    let of_a_packet: Vec<bool> = names
        .iter()
        .map(|name| is_verdict(name) || DropReason::ALL.iter().any(|reason| reason.name() == *name))
        .collect();
    let counted = |native: &Native| -> u64 {
        native.counters().iter().zip(&of_a_packet).filter(|(_, counts)| **counts).map(|(count, _)| count).sum()
    };
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let mut before = random::state_of(seed, &mut random);
        for index in 0..PACKETS_OF_A_SEED {
            if random.once_in(4) {
                random::disturb(&mut random, &mut before);
            }
            let (packet, from_port) = random::packet(&mut random, &before);
            native.set(&before);
            let counted_before = counted(&native);
            let verdict = native.process(&packet, from_port, None).0;
            let after = native.get();
            let context =
                OnPanic(|| eprintln!("seed {seed}, packet {index}: {packet:02x?}\n{verdict:?} of {before:?}"));
            // One verdict or, dropped, one reason; one that is refused in an answer counts both. What has no key is
            // dropped as an answer.
            let counts = match verdict.action {
                DROP if verdict.reason == DropReason::NoKey as u8 => 2..=3,
                DROP => 1..=1,
                _ => 1 + u64::from(verdict.reason != 0)..=1 + u64::from(verdict.reason != 0),
            };
            assert!(counts.contains(&(counted(&native) - counted_before)), "counted otherwise than {counts:?}");
            check_verdict(&verdict, &before, &after, &packet);
            check_chain(&before, &after, &packet);
            check_queues(&before, &after, &packet);
            for (one, other) in before.slots.iter().zip(&after.slots) {
                check_slot(SlotWord::unpack(one.w0), SlotWord::unpack(other.w0));
            }
            for (one, other) in before.nodes.iter().zip(&after.nodes) {
                check_node(NodeWord::unpack(one.word), NodeWord::unpack(other.word));
                assert!(other.oldest.wrapping_sub(one.oldest) < 1 << 40, "the oldest request never falls");
            }
            assert_eq!(before.globals, after.globals);
            let requests = match packet.get(3..6) {
                Some(&[service::QUEUE, kind::queue::ACQUIRE | kind::queue::FETCH, _]) => 1,
                Some(&[_, kind::lock::ACQUIRE, count]) => count.into(),
                _ => 0,
            };
            // A refusal that was to be told, to a node without a key, is dropped for that.
            let untold = verdict.reason == DropReason::NoKey as u8 && after.regions != before.regions;
            let untold = untold && before.regions.map(|region| region.own) == after.regions.map(|region| region.own);
            let refused = u64::from(untold || verdict.reason == DropReason::OverBudget as u8);
            for (one, other) in before.regions.iter().zip(&after.regions) {
                check_region(one, other, requests, refused);
            }
            for (one, other) in before.keys.iter().zip(&after.keys) {
                assert_eq!(Keys { heard: other.heard, ..*one }, *other, "keys are the controller's");
            }
            drop(context);
            before = after;
        }
    }
    let verdicts = names.iter().zip(native.counters()).filter(|(name, _)| is_verdict(name)).map(|(_, count)| count);
    let verdicts: u64 = verdicts.sum();
    assert!(verdicts > SEEDS * PACKETS_OF_A_SEED / 4, "hardly any packet got anywhere: {verdicts}");
}
