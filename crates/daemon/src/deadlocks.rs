//! Deadlocks: cycles of tasks that wait for each other, found in what the nodes list (docs/deadlocks.md).
//!
//! Invariants
//! * A *reason* is why one task can't go on before another one does: it waits for what that one holds, or behind that
//!   one in a queue, or it has run a command and that one is it. It names the requests that it is made of.
//! * A deadlock is a cycle of reasons each of which is in both of two [`Picture`]s, the second of which was begun when
//!   the first was complete. A request waits, then holds, then is over, and its id is never another's: so all of them
//!   held at once at the moment between the two.
//! * Where locks are divided among shards a process has a session in each. Handles are a shard's own; tasks, processes
//!   and names are the same in all of them.

use crate::answers::{Deadlock, Deadlocks, Listings, Owner, Step};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use wayside_client::control::{LISTING_MOST, Listed, Listing, Queued};

/// A request: shard (where there are several) and handle of its node, and its id there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    shard: Arc<str>,
    pub handle: u16,
    pub request: String,
}

/// Who can wait: a task, or a request of which no task is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Party {
    /// A task of this name; of a thread, in this process.
    Task(Arc<str>, String),
    Request(RequestKey),
}

/// One entry of a listing, and whose it is.
#[derive(Clone, Debug)]
struct Entry {
    shard: Arc<str>,
    namespace: Arc<str>,
    owner: Owner,
    party: Party,
    listed: Listed,
}

impl Entry {
    fn key(&self) -> RequestKey {
        let Entry { shard, owner, listed, .. } = self;
        RequestKey { shard: Arc::clone(shard), handle: owner.handle, request: listed.request.clone() }
    }

    fn waits(&self) -> bool {
        self.listed.state == "waiting"
    }

    fn conflicts(&self, other: &Entry) -> bool {
        self.listed.mode != "shared" || other.listed.mode != "shared"
    }
}

/// What all nodes listed, each at a moment of its own.
#[derive(Debug, Default)]
struct Picture {
    entries: Vec<Entry>,
    queues: Vec<Vec<RequestKey>>,
}

/// Why a party can't go on before another one does, in terms of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reason {
    /// The first waits for what the second holds.
    Held(RequestKey, RequestKey),
    /// The first waits behind the second.
    Queued(RequestKey, RequestKey),
    /// The first is held for as long as the command runs that waits by the second.
    Runs(RequestKey, RequestKey),
}

impl Reason {
    fn requests(&self) -> (&RequestKey, &RequestKey) {
        match self {
            Reason::Held(one, another) | Reason::Queued(one, another) | Reason::Runs(one, another) => (one, another),
        }
    }
}

type Edge = (Party, Party, Reason);

impl Picture {
    /// What one node listed.
    fn add(&mut self, namespace: &str, owner: &Owner, listing: Listing) {
        let (shard, namespace): (Arc<str>, Arc<str>) = (owner.shard.as_str().into(), namespace.into());
        let process: Arc<str> = listing.process.into();
        let key = |handle, request| RequestKey { shard: Arc::clone(&shard), handle, request };
        // Nodes of before this search do not say which request is which: all of such a node's would be one party.
        let named = listing.entries.into_iter().filter(|listed| !listed.request.is_empty());
        self.entries.extend(named.map(|listed| {
            let party = match listed.task.as_str() {
                "" => Party::Request(key(owner.handle, listed.request.clone())),
                // One name in all processes; that of a thread means another one in each.
                task if task.starts_with("task/") => Party::Task("".into(), task.into()),
                thread => Party::Task(Arc::clone(&process), thread.into()),
            };
            let (shard, namespace) = (Arc::clone(&shard), Arc::clone(&namespace));
            Entry { shard, namespace, owner: owner.clone(), party, listed }
        }));
        let keys = |queue: Vec<Queued>| queue.into_iter().map(|queued| key(queued.handle, queued.request)).collect();
        self.queues.extend(listing.queues.into_iter().map(keys));
    }

    /// The reasons why anybody here can't go on.
    fn edges(&self) -> HashSet<Edge> {
        let of_key: HashMap<RequestKey, &Entry> = self.entries.iter().map(|entry| (entry.key(), entry)).collect();
        let mut edges = HashSet::new();
        let parents = self.add_commands(&mut edges);
        self.add_holders(&parents, &mut edges);
        for queue in &self.queues {
            let waiters = queue.iter().filter_map(|key| of_key.get(key).copied()).filter(|entry| entry.waits());
            add_queue(&waiters.collect::<Vec<_>>(), &mut edges);
        }
        edges
    }

    /// Who runs a command that waits can't go on before it. All such parties.
    fn add_commands(&self, edges: &mut HashSet<Edge>) -> HashSet<Party> {
        let mut commands: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.waits() && !entry.listed.parent.is_empty()) {
            commands.entry(&entry.listed.parent).or_default().push(entry);
        }
        let mut parents = HashSet::new();
        for holder in self.entries.iter().filter(|entry| !entry.waits() && !entry.listed.task.is_empty()) {
            for waiter in commands.get(holder.listed.task.as_str()).into_iter().flatten() {
                parents.insert(holder.party.clone());
                let reason = Reason::Runs(holder.key(), waiter.key());
                edges.insert((holder.party.clone(), waiter.party.clone(), reason));
            }
        }
        parents
    }

    /// Who waits can't go on before those who hold, as far as these themselves can't.
    fn add_holders(&self, parents: &HashSet<Party>, edges: &mut HashSet<Edge>) {
        let mut stuck: HashSet<&Party> = self.entries.iter().filter(|entry| entry.waits()).map(|e| &e.party).collect();
        stuck.extend(parents);
        let mut holders: HashMap<(&str, &str), Vec<&Entry>> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| !entry.waits() && stuck.contains(&entry.party)) {
            holders.entry((&entry.namespace, &entry.listed.name_id)).or_default().push(entry);
        }
        for waiter in self.entries.iter().filter(|entry| entry.waits()) {
            for holder in holders.get(&(&*waiter.namespace, &*waiter.listed.name_id)).into_iter().flatten() {
                if waiter.conflicts(holder) {
                    let reason = Reason::Held(waiter.key(), holder.key());
                    edges.insert((waiter.party.clone(), holder.party.clone(), reason));
                }
            }
        }
    }
}

/// The waiters of one slot in their order: each name's are served first come, first served. Whom somebody waits behind
/// waits behind others in turn, so it is enough to go back to the first one that is exclusive.
fn add_queue(waiters: &[&Entry], edges: &mut HashSet<Edge>) {
    for (place, waiter) in waiters.iter().enumerate() {
        let same =
            |ahead: &&&Entry| ahead.namespace == waiter.namespace && ahead.listed.name_id == waiter.listed.name_id;
        for ahead in waiters[..place].iter().rev().filter(same) {
            if waiter.conflicts(ahead) {
                let reason = Reason::Queued(waiter.key(), ahead.key());
                edges.insert((waiter.party.clone(), ahead.party.clone(), reason));
            }
            if ahead.listed.mode != "shared" {
                break;
            }
        }
    }
}

/// A round of listings: of all nodes of all shards.
#[derive(Debug, Default)]
pub struct Round {
    picture: Picture,
    /// Who did not list, and who not everything.
    silent: Vec<Owner>,
    partial: Vec<Owner>,
}

impl Round {
    /// What a shard's daemon was told; its name is empty where there is no other.
    pub fn add(&mut self, shard: &str, listings: Listings) {
        for of_node in listings.nodes {
            let owner = Owner { shard: shard.into(), ..of_node.owner };
            let Some(listing) = of_node.listing else {
                self.silent.push(owner);
                continue;
            };
            if listing.entries.len() >= LISTING_MOST {
                self.partial.push(owner.clone());
            }
            self.picture.add(&of_node.namespace, &owner, listing);
        }
    }

    /// Cycles of this round alone: only where there are some a second one is needed.
    pub fn suspects(&self) -> usize {
        cycles(&self.picture.edges()).len()
    }
}

/// What a search has found.
#[derive(Debug, Default)]
pub struct Search {
    pub found: Vec<Found>,
    /// Cycles of the first round that the second one did not confirm.
    unconfirmed: usize,
    /// Of the last round.
    silent: Vec<Owner>,
    partial: Vec<Owner>,
}

impl Search {
    /// Where nobody is suspected.
    pub fn of_one(round: Round) -> Search {
        Search { silent: round.silent, partial: round.partial, ..Search::default() }
    }

    /// Of two rounds, the second of which was begun when the first was complete.
    pub fn of_two(first: &Round, second: Round) -> Search {
        let found = find(&first.picture, &second.picture);
        let unconfirmed = first.suspects().saturating_sub(found.len());
        Search { found, unconfirmed, silent: second.silent, partial: second.partial }
    }

    /// For people and programs.
    pub fn told(self) -> Deadlocks {
        let Search { found, unconfirmed, silent, partial } = self;
        Deadlocks { deadlocks: found.into_iter().map(|found| found.deadlock).collect(), unconfirmed, silent, partial }
    }
}

/// A deadlock, and what tells it from others.
#[derive(Clone, Debug)]
pub struct Found {
    pub deadlock: Deadlock,
    /// The waits in it, in the order of their keys.
    pub waits: Vec<RequestKey>,
    /// That of them which has lasted the shortest time.
    pub youngest: Option<RequestKey>,
}

/// The deadlocks of two pictures of which the second was begun after the first was complete, no task in two of them.
fn find(first: &Picture, second: &Picture) -> Vec<Found> {
    let both = first.edges().intersection(&second.edges()).cloned().collect();
    let entries: HashMap<RequestKey, &Entry> = second.entries.iter().map(|entry| (entry.key(), entry)).collect();
    cycles(&both).iter().map(|cycle| described(cycle, &entries)).collect()
}

fn described(cycle: &[Reason], entries: &HashMap<RequestKey, &Entry>) -> Found {
    let entry = |key: &RequestKey| entries[key];
    let steps = cycle.iter().map(|reason| {
        let (of, other) = reason.requests();
        let (of, other) = (entry(of), entry(other));
        let because = match reason {
            Reason::Held(..) => "held",
            Reason::Queued(..) => "queued",
            Reason::Runs(..) => "command",
        };
        let waits = of.waits();
        Step {
            owner: of.owner.clone(),
            task: of.listed.task.clone(),
            name: if waits { of.listed.name.clone() } else { String::new() },
            namespace: of.namespace.to_string(),
            mode: if waits { of.listed.mode.clone() } else { String::new() },
            since_us: if waits { of.listed.since_us } else { other.listed.since_us },
            because: because.into(),
            token: if matches!(reason, Reason::Held(..)) { other.listed.token.clone() } else { String::new() },
        }
    });
    let steps = steps.collect();
    let mut waits: Vec<RequestKey> =
        cycle.iter().map(|reason| reason.requests().0.clone()).filter(|key| entry(key).waits()).collect();
    waits.sort();
    let youngest = waits.iter().min_by_key(|key| (entry(key).listed.since_us, std::cmp::Reverse((*key).clone())));
    Found { deadlock: Deadlock { cycle: steps }, youngest: youngest.cloned(), waits }
}

/// Shortest cycles, no party in two of them, always in the same order.
fn cycles(edges: &HashSet<Edge>) -> Vec<Vec<Reason>> {
    // One reason for each pair.
    let mut reasons: BTreeMap<(&Party, &Party), &Reason> = BTreeMap::new();
    for (from, to, reason) in edges {
        let known = reasons.entry((from, to)).or_insert(reason);
        *known = reason.min(known);
    }
    let parties: BTreeSet<&Party> = reasons.keys().flat_map(|(from, to)| [*from, *to]).collect();
    let number: HashMap<&Party, usize> = parties.into_iter().zip(0..).collect();
    let mut graph = Graph { out: vec![Vec::new(); number.len()], into: vec![Vec::new(); number.len()] };
    for ((from, to), reason) in reasons {
        graph.out[number[from]].push((number[to], reason));
        graph.into[number[to]].push(number[from]);
    }
    let mut left = graph.in_cycles();
    let mut found = Vec::new();
    for start in 0..left.len() {
        if let Some(cycle) = graph.shortest(start, &left) {
            cycle.iter().for_each(|&(party, _)| left[party] = false);
            found.push(cycle.into_iter().map(|(_, reason)| reason.clone()).collect());
        }
    }
    found
}

/// Parties by number, and who waits for whom.
struct Graph<'a> {
    out: Vec<Vec<(usize, &'a Reason)>>,
    into: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    /// Without those who can go on once all go on that can, and those whom nobody waits for, again and again: what is
    /// left is in cycles, or between two. As many steps as there are reasons.
    fn in_cycles(&self) -> Vec<bool> {
        let mut left = vec![true; self.out.len()];
        let mut waits: Vec<usize> = self.out.iter().map(Vec::len).collect();
        let mut awaited: Vec<usize> = self.into.iter().map(Vec::len).collect();
        let mut over: Vec<usize> = (0..left.len()).filter(|&party| waits[party] == 0 || awaited[party] == 0).collect();
        while let Some(party) = over.pop() {
            if !std::mem::replace(&mut left[party], false) {
                continue;
            }
            for &before in &self.into[party] {
                waits[before] -= 1;
                over.extend((waits[before] == 0).then_some(before));
            }
            for &(after, _) in &self.out[party] {
                awaited[after] -= 1;
                over.extend((awaited[after] == 0).then_some(after));
            }
        }
        left
    }

    /// The shortest way from a party back to itself by those that are left: each with its reason.
    fn shortest(&self, start: usize, left: &[bool]) -> Option<Vec<(usize, &'a Reason)>> {
        let mut from: HashMap<usize, (usize, &Reason)> = HashMap::new();
        let mut next = VecDeque::from_iter(left[start].then_some(start));
        while let Some(party) = next.pop_front() {
            for &(to, reason) in self.out[party].iter().filter(|(to, _)| left[*to]) {
                if from.contains_key(&to) {
                    continue;
                }
                from.insert(to, (party, reason));
                if to == start {
                    let mut steps = vec![(party, reason)];
                    while steps[steps.len() - 1].0 != start {
                        steps.push(from[&steps[steps.len() - 1].0]);
                    }
                    steps.reverse();
                    return Some(steps);
                }
                next.push_back(to);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
