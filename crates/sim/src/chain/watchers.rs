//! Those who watch in a world of chains: each process has a few, of a key or of a prefix. They read what they watch
//! when they begin, and whenever they are told that something may be missing, as `docs/kv.md` asks of whoever watches.
//! Some look at once, others when they have time.

use wayside_protocol::RequestId;
use wayside_protocol::chain::memory::{Content, ItemMemory, JournalMemory};
use wayside_protocol::chain::{Ask, Change, Glance, Key, Place, Scope, Seen, Version, WatchId, Wish};
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_protocol::seal::Keys;
use wayside_switch::Switch;
use wayside_wire::{BODY, Header, Operation, Outcome, Watch, kind, limits, service};

use super::checker::Op;
use super::witness::Witness;
use super::{Happening, World};
use crate::dice::Dice;
use crate::host::{Host, Process};
use crate::schedule::Kind;
use crate::world::Phase;

/// Somebody who watches.
#[derive(Default)]
pub struct Watcher {
    /// None: it has not begun.
    id: Option<WatchId>,
    /// Numbers of the keys; more than one if it watches a prefix.
    keys: Vec<u64>,
    is_prefix: bool,
    /// It looks when it has time.
    is_lazy: bool,
    is_planned: bool,
    /// Nothing is missed any more.
    has_begun: bool,
    witness: Witness,
    /// Who has told it of each group last.
    tellers: std::collections::BTreeMap<u16, usize>,
}

/// Purpose of dice.
const WATCHES: u64 = 46;
/// Before a process's watch begins, and before a lazy one is looked at, at most, in microseconds.
const BEGINS: u64 = 100_000;
const LAZY: u64 = 50_000;
/// Percent of looks after which another watch is begun instead.
const ENDS: u64 = 2;
/// Writes until a journal has gone round.
const RECORDS: u64 = 4_096;
/// Whose writes these are: handle and namespace that no client has.
const FLOODER: (u16, u16) = (60, 2);
/// His only key.
const FLOODED: Key = Key { high: 1, low: 2, check: 3 };
/// Epoch of the key's group.
const EPOCH: u32 = 3;

impl World {
    /// A process has these watches, and begins them when it comes to it.
    pub(super) fn begin_watching(&mut self, client: usize) {
        self.crews[client].watchers = (0..self.setup.watches).map(|_| Watcher::default()).collect();
        for index in 0..self.setup.watches {
            self.plan_look(client, index, BEGINS);
        }
    }

    fn plan_look(&mut self, client: usize, index: usize, most: u64) {
        let watcher = &mut self.crews[client].watchers[index];
        if watcher.is_planned {
            return;
        }
        watcher.is_planned = true;
        self.starts += 1;
        let after = Dice::of(self.seed, &[WATCHES, self.starts]).below(most + 1);
        self.plan(self.now + after + 1, Happening::Watch(self.hosts[client].process(), index));
    }

    /// A watcher has time.
    pub(super) fn attend(&mut self, process: Process, index: usize) {
        let client = process.host;
        if self.hosts[client].process() != process || self.hosts[client].running.is_none() {
            return;
        }
        if let Some(until) = self.hosts[client].stopped_until {
            return self.plan(until + 1, Happening::Watch(process, index));
        }
        self.crews[client].watchers[index].is_planned = false;
        match self.crews[client].watchers[index].id {
            None if self.phase == Phase::Calm => {}
            None => self.begin_watch(client, index),
            Some(id) => self.look(client, index, id),
        }
        self.settle(client);
    }

    fn begin_watch(&mut self, client: usize, index: usize) {
        self.starts += 1;
        let mut dice = Dice::of(self.seed, &[WATCHES, self.starts]);
        let prefix = dice.percent(50).then(|| dice.pick(&["key ", "key 1", "key 2"]));
        let keys: Vec<u64> = match prefix {
            Some(prefix) => (0..self.setup.keys).filter(|key| World::name(*key).starts_with(prefix)).collect(),
            None => vec![dice.below(self.setup.keys)],
        };
        let scope = prefix.map_or_else(|| Scope::Key(World::key(keys[0])), |p| Scope::Prefix(p.as_bytes().into()));
        let now = self.now;
        let Some(running) = &mut self.hosts[client].running else { return };
        let time = running.time(now);
        let id = running.node.watch(time, scope);
        self.note(|_| format!(" c{client}: {id:?} of {}, as watcher {index}", prefix.unwrap_or("a key")));
        let is_lazy = dice.percent(50);
        self.crews[client].watchers[index] =
            Watcher { id: Some(id), keys, is_prefix: prefix.is_some(), is_lazy, ..Watcher::default() };
    }

    /// A node has something for one of its watchers.
    pub(super) fn told_watch(&mut self, client: usize, id: WatchId) {
        let Some(index) = self.crews[client].watchers.iter().position(|watcher| watcher.id == Some(id)) else { return };
        if self.crews[client].watchers[index].is_lazy && self.phase != Phase::Calm {
            return self.plan_look(client, index, LAZY);
        }
        self.look(client, index, id);
    }

    fn look(&mut self, client: usize, index: usize, id: WatchId) {
        let now = self.now;
        loop {
            let Some(running) = &mut self.hosts[client].running else { return };
            let time = running.time(now);
            if !self.crews[client].watchers[index].has_begun {
                if !running.node.is_watching(id) {
                    return;
                }
                self.outcomes.count("watch begun");
                self.crews[client].watchers[index].has_begun = true;
                self.read_all(client, index);
                continue;
            }
            match running.node.look_at_watch(time, id) {
                Glance::Seen(seen) => {
                    self.note(|_| format!(" c{client}: {id:?} has seen {seen:?}"));
                    match seen {
                        Seen::Change(change) => self.hear_change(client, index, &change),
                        Seen::Reread => {
                            self.outcomes.count("reread told");
                            self.read_all(client, index);
                        }
                    }
                }
                Glance::Refused => return self.fail("K6", format!("client {client} is refused {id:?}")),
                _ => break,
            }
        }
        self.starts += 1;
        if self.phase == Phase::Safety && Dice::of(self.seed, &[WATCHES, self.starts]).percent(ENDS as u32) {
            self.end_watch(client, index, id);
        }
    }

    fn end_watch(&mut self, client: usize, index: usize, id: WatchId) {
        self.note(|_| format!(" c{client}: {id:?} ends"));
        if let Some(running) = &mut self.hosts[client].running {
            running.node.unwatch(id);
        }
        let crew = &mut self.crews[client];
        crew.reads.retain(|_, (of, _)| *of != index);
        let is_planned = crew.watchers[index].is_planned;
        crew.watchers[index] = Watcher { is_planned, ..Watcher::default() };
        self.plan_look(client, index, BEGINS);
    }

    fn hear_change(&mut self, client: usize, index: usize, change: &Change) {
        self.outcomes.count("event told");
        let watcher = &self.crews[client].watchers[index];
        let named = |name: &[u8]| watcher.keys.iter().copied().find(|key| World::name(*key).as_bytes() == name);
        let found = match &change.name {
            Some(name) => named(name),
            None if watcher.is_prefix => None,
            None => Some(watcher.keys[0]),
        };
        let Some(number) = found else {
            return self.fail("K6", format!("client {client} is told {change:?}, which it does not watch"));
        };
        let key = World::key(number);
        let group = self.group_of(key);
        let verdict = self.crews[client].watchers[index].witness.hears((key, group), change, &mut self.checker);
        self.judge(verdict);
    }

    /// Whatever is watched is read.
    fn read_all(&mut self, client: usize, index: usize) {
        for at in 0..self.crews[client].watchers[index].keys.len() {
            self.read_watched(client, index, self.crews[client].watchers[index].keys[at]);
        }
    }

    fn read_watched(&mut self, client: usize, index: usize, number: u64) {
        let now = self.now;
        let key = World::key(number);
        let Some(running) = &mut self.hosts[client].running else { return };
        let time = running.time(now);
        let ask = Ask { key, wish: Wish::Read, deadline: None, port: 0 };
        let Ok(request) = running.node.ask_key(time, &ask) else { return };
        let op = Op { process: self.hosts[client].process(), request: request.0 };
        self.checker.asked(op, key, Wish::Read);
        let crew = &mut self.crews[client];
        crew.watchers[index].witness.asks(key, request);
        crew.reads.insert(request, (index, number));
    }

    /// What a watcher has read is there.
    pub(super) fn told_read(&mut self, client: usize, index: usize, number: u64, request: RequestId) {
        let Some(running) = &mut self.hosts[client].running else { return };
        let Some(answer) = running.node.take_answer(request) else { return self.read_watched(client, index, number) };
        let key = World::key(number);
        let group = self.group_of(key);
        self.note(|_| format!(" c{client}: watcher {index} reads {answer:?} of key {number}"));
        let op = Op { process: self.hosts[client].process(), request: request.0 };
        let verdict = self.checker.answered(op, group, &answer);
        self.judge(verdict);
        // Who finds no key has found that it was removed.
        let is_missing = answer.version == Version::default();
        let version = if is_missing { self.checker.removed_at(key) } else { answer.version };
        let witness = &mut self.crews[client].watchers[index].witness;
        let verdict = witness.reads((key, group), request, version, &self.checker);
        self.judge(verdict);
    }

    /// A watch hears of its group from one switch and then from another.
    pub(super) fn note_teller(&mut self, client: usize, seat: usize, packet: &[u8]) {
        let event = Watch::read(packet, BODY);
        if event.outcome == Outcome::Full as u8 {
            return;
        }
        let key = Key { high: event.key_high, low: event.key_low, check: event.check };
        for watcher in &mut self.crews[client].watchers {
            let is_its = if watcher.is_prefix { key == Key::default() } else { is_key(watcher, key) };
            if is_its && watcher.tellers.insert(event.group, seat).is_some_and(|before| before != seat) {
                self.outcomes.count("watch moved");
            }
        }
    }

    /// A watcher that does not know what it should by now.
    pub(super) fn behind(&self) -> Option<String> {
        for (client, crew) in self.crews.iter().enumerate() {
            for watcher in crew.watchers.iter().filter(|watcher| watcher.id.is_some()) {
                if !watcher.has_begun {
                    return Some(format!("{:?} of client {client} has not begun", watcher.id));
                }
                for key in watcher.keys.iter().map(|number| World::key(*number)) {
                    let group = self.group_of(key);
                    let has = self.chain_of(group).last().and_then(|seat| self.seats[*seat].version(group, key));
                    if has.is_some_and(|has| watcher.witness.is_behind((key, group), has, &self.checker)) {
                        return Some(format!("{:?} of client {client} was not told {has:?} of {key:?}", watcher.id));
                    }
                }
            }
        }
        None
    }

    // ---- a journal that goes round ----

    /// A group that no client has.
    fn flooded_group(&self) -> u16 {
        self.setup.base.checked_sub(1).unwrap_or(self.setup.groups)
    }

    fn flooder_keys(&self, seat: usize) -> Keys {
        self.secret(seat as u64, FLOODER.0.into()).keys(World::period(1))
    }

    /// A switch has another namespace's key, which is noted in its journal.
    pub(super) fn make_flooded(&self, seat: usize, switch: &Switch) {
        let group = self.flooded_group();
        let (handle, namespace) = FLOODER;
        let address = Host::socket(self.party(self.setup.switches), 0);
        switch.set_keys(handle, self.setup.authenticated.then_some(&self.flooder_keys(seat)));
        switch.set_node(handle, &NodeEntry { address, namespace, incarnation: 1 });
        switch.set_place(group, namespace, Place { epoch: EPOCH, previous: 0, next: 0 });
        switch.insert(group, FLOODED, Version { epoch: EPOCH, sequence: 0 }).expect("there is room for one more");
        let value = Content { length: Some(8), ..Content::nothing(Version { epoch: EPOCH, sequence: 1 }) };
        switch.raise(group, FLOODED, &value);
        switch.watch_groups(group..group + 1, true);
    }

    /// The journal of a switch goes round before its daemon has looked.
    pub(super) fn flood(&mut self, seat: usize) {
        self.faults.count(Kind::Flood.name());
        self.note(|_| format!(" s{seat}: its journal goes round"));
        let (handle, namespace) = FLOODER;
        let socket = Host::socket(self.party(self.setup.switches), 0);
        let now = self.seats[seat].clock.at(self.now);
        let keys = self.flooder_keys(seat);
        for _ in 0..=RECORDS {
            self.seats[seat].floods += 1;
            let header = Header {
                service: service::CHAIN,
                kind: kind::chain::WRITE,
                count: 1,
                source: handle,
                namespace,
                epoch: EPOCH,
                ..Header::default()
            };
            let operation = Operation {
                key_high: FLOODED.high,
                key_low: FLOODED.low,
                check: FLOODED.check,
                request: 1 << 40 | self.seats[seat].floods,
                group: self.flooded_group(),
                client: handle,
                length: 8,
                ..Operation::default()
            };
            let mut packet = vec![0; BODY + Operation::BYTES + limits::BLOCK_BYTES];
            header.write(&mut packet);
            operation.write(&mut packet, BODY);
            if self.setup.authenticated {
                keys.up.sign(0, &mut packet);
            }
            self.seats[seat].switch.process(now, &mut packet, socket);
        }
    }
}

fn is_key(watcher: &Watcher, key: Key) -> bool {
    watcher.keys.first().is_some_and(|number| World::key(*number) == key)
}
