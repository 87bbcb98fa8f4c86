//! The switches of a world of chains: what arrives, what is decided, what their daemons say, and what must hold of
//! their memories after every decision (K3).

use std::sync::Arc;

use wayside_protocol::chain::memory::{ItemMemory, Owner};
use wayside_protocol::chain::{FELLOWS, GroupRoute, Groups, Key, Member, Place, Version, is_between_switches};
use wayside_protocol::memory::{Moment, NodeEntry, SwitchMemory};
use wayside_protocol::seal::Keys;
use wayside_protocol::{Handle, Time};
use wayside_switch::{Action, StoreConfig, Switch, SwitchConfig, Verdict};
use wayside_wire::{BODY, Effect, Operation, Outcome, Policy, check, kind, service};

use super::checker::Op;
use super::lines::Asked;
use super::{BOOT, Happening, SPACE, World};
use crate::clock::Clock;
use crate::host::{Host, Process};
use crate::network::Flight;
use crate::report::Counts;
use crate::schedule::Kind;

/// A switch with its daemon.
pub struct Seat {
    pub(super) switch: Arc<Switch>,
    pub(super) member: Member<Arc<Switch>>,
    pub(super) clock: Clock,
    /// Times that it has begun with an empty memory.
    pub(super) boot: u64,
    /// World time at which its daemon has something to do.
    pub(super) timer: Option<u64>,
    /// Stopped until then.
    pub(super) stopped_until: Option<u64>,
    pub(super) inbox: Vec<Flight>,
    in_hand: Option<InHand>,
    /// Writes of the key that is no client's.
    pub(super) floods: u64,
    /// Times that its journal has gone round.
    overruns: u64,
}

/// A packet that another processor of the switch has in hand.
struct InHand {
    number: u64,
    flight: Flight,
    /// The step of its decision at which somebody else gets a turn.
    step: u32,
    begun: Time,
}

/// Steps of a decision at which somebody else may get a turn: an item's lock and a lane's, before and after.
const TURNS: u64 = 5;
/// Packets that a stopped switch's card keeps.
const QUEUE: usize = 1_024;
/// Epoch of every group's first chain.
const FIRST: u32 = 7;
/// Handles that a switch can have.
const HANDLES: u16 = 64;

impl Seat {
    pub(super) fn version(&self, group: u16, key: Key) -> Option<Version> {
        self.switch.content(group, key).map(|content| content.version)
    }

    pub(super) fn collect(&self, counts: &mut Counts) {
        for (name, count) in self.switch.counters() {
            *counts.entry(name).or_default() += count;
        }
    }
}

impl World {
    pub(super) fn make_switches(&mut self) {
        for seat in 0..self.setup.switches {
            let fresh = self.fresh(seat);
            self.seats.push(fresh);
        }
        for seat in 0..self.setup.switches {
            self.introduce(seat);
            self.introduce_controllers(seat);
        }
        if self.setup.keeping.is_none() {
            self.place_groups();
            self.use_up_keys();
        }
        (0..self.setup.switches).for_each(|seat| self.obey(seat));
    }

    /// A switch with an empty memory.
    fn fresh(&mut self, seat: usize) -> Seat {
        let clock = self.new_clock();
        let store = StoreConfig { keys: self.setup.room + 1, seed: self.seed ^ seat as u64 };
        let switch = Switch::new(SwitchConfig { slots: 1, max_handle: HANDLES }).with_store(store);
        switch.set_authenticated(self.setup.authenticated);
        switch.add_namespace(SPACE.0, 1, Policy::Fair).expect("there is a slot");
        switch.set_epoch(BOOT);
        switch.set_serving(true);
        let following = self.follow(seat);
        if following.boot == 0 {
            switch.serve_places_without_end();
        } else {
            let time = clock.at(self.now);
            switch.serve_places_for(Moment { time, tick: 0 }, 0);
        }
        let switch = Arc::new(switch);
        let groups = Groups {
            namespace: SPACE.0,
            name: SPACE.1.as_bytes().into(),
            base: self.setup.base,
            count: self.setup.groups,
        };
        self.make_flooded(seat, &switch);
        let boot = following.boot;
        let member = Member::new(switch.clone(), World::handle_of_seat(seat), vec![groups]).following(following);
        // Each life's histories are others.
        let member = member.seeded(World::handle_of_seat(seat) as u64 | boot << 16);
        let member = member.sweeping(self.setup.sweeping);
        Seat {
            switch,
            member,
            clock,
            boot,
            timer: None,
            stopped_until: None,
            inbox: Vec::new(),
            in_hand: None,
            floods: 0,
            overruns: 0,
        }
    }

    /// A switch loses its memory, and whatever it had in hand.
    pub(super) fn begin_anew(&mut self, seat: usize) {
        self.note(|_| format!(" s{seat}: begins anew"));
        let mut counters = std::mem::take(&mut self.counters);
        self.seats[seat].collect(&mut counters);
        self.counters = counters;
        self.seats[seat] = self.fresh(seat);
        self.introduce(seat);
        self.introduce_controllers(seat);
        for client in 0..self.setup.clients {
            if self.hosts[client].generation > 0 {
                self.install_session_at(seat, client);
            }
        }
        self.obey(seat);
    }

    /// Switches are nodes to each other.
    fn introduce(&mut self, seat: usize) {
        for other in (0..self.setup.switches).filter(|other| *other != seat) {
            let handle = World::handle_of_seat(other);
            let keys = self.secret(seat.min(other) as u64, seat.max(other) as u64).keys(World::period(0));
            // Of two, the one with the lower number is the node.
            let keys = if other < seat { keys } else { Keys { up: keys.down, down: keys.up } };
            let switch = &self.seats[seat].switch;
            switch.set_keys(handle, self.setup.authenticated.then_some(&keys));
            let address = Host::socket(self.party(other), 0);
            switch.set_node(handle, &NodeEntry { address, namespace: FELLOWS, incarnation: 1 });
        }
    }

    /// What signs packets from a handle to a switch.
    #[cfg(feature = "mutants")]
    pub(super) fn up_key(&self, seat: usize, source: Handle) -> Option<wayside_protocol::seal::Key> {
        if let Some(client) = self.client_of(source) {
            let incarnation = self.setup.incarnation + u64::from(self.hosts[client].generation) - 1;
            return Some(self.session_secret(client, incarnation).keys(World::period(incarnation)).up);
        }
        let other = usize::from(source).checked_sub(1).filter(|other| *other != seat)?;
        let keys = self.secret(seat.min(other) as u64, seat.max(other) as u64).keys(World::period(0));
        Some(if other < seat { keys.up } else { keys.down })
    }

    fn place_groups(&mut self) {
        for group in 0..self.setup.groups {
            let chain = self.setup.first_chain(group);
            let address = |seat: usize| Host::socket(self.party(seat), 0);
            let route = GroupRoute { epoch: FIRST, head: address(chain[0]), tail: address(chain[chain.len() - 1]) };
            for (at, &seat) in chain.iter().enumerate() {
                let handle = |at: usize| chain.get(at).map_or(0, |seat| World::handle_of_seat(*seat));
                let previous = at.checked_sub(1).map_or(0, handle);
                let place = Place { epoch: FIRST, previous, next: handle(at + 1) };
                self.seats[seat].member.take_place(self.setup.base + group, place, route);
            }
            for _ in 0..self.setup.versions {
                self.seats[chain[0]].switch.next_sequence(self.setup.base + group);
            }
            for seat in (0..self.setup.switches).filter(|seat| !chain.contains(seat)) {
                self.seats[seat].member.learn_route(self.setup.base + group, route);
            }
        }
    }

    /// Some keys are another name's already.
    fn use_up_keys(&mut self) {
        if self.setup.collides == 0 {
            return;
        }
        for index in (0..self.setup.keys).filter(|index| index.is_multiple_of(self.setup.collides)) {
            let key = World::key(index);
            let group = self.group_of(key);
            let version = Version { epoch: FIRST, sequence: 0 };
            // Where there is no room for it, nobody after that one has it either (K3).
            let other = Key { check: key.check ^ 1, ..key };
            let has_room = |seat: usize| self.seats[seat].switch.insert(group, other, version).is_ok();
            let _ = self.chain_of(group).into_iter().all(has_room);
        }
    }

    pub(super) fn group_of(&self, key: Key) -> u16 {
        self.setup.base + key.group(self.setup.groups)
    }

    /// The switches of a group's chain, head first: as the switches themselves say, of the latest epoch.
    pub(super) fn chain_of(&self, group: u16) -> Vec<usize> {
        let place = |seat: usize| self.seats[seat].switch.place(group);
        let seats = 0..self.seats.len();
        let epoch = seats.clone().map(|seat| place(seat).epoch).max().unwrap_or(0);
        let mut chain = Vec::new();
        let mut at = seats.clone().find(|seat| epoch > 0 && place(*seat).epoch == epoch && place(*seat).previous == 0);
        while let Some(seat) = at.filter(|_| chain.len() < self.seats.len()) {
            chain.push(seat);
            let next = place(seat).next;
            at = seats.clone().find(|seat| World::handle_of_seat(*seat) == next && place(*seat).epoch == epoch);
        }
        chain
    }

    // ---- packets ----

    /// A packet arrives at a switch. Sometimes another processor has one in hand, of which the decision has begun.
    pub(super) fn at_switch(&mut self, flight: Flight) {
        self.note(|world| world.tell(&flight));
        let seat = flight.seat;
        if self.seats[seat].stopped_until.is_some() {
            if self.seats[seat].inbox.len() < QUEUE {
                self.seats[seat].inbox.push(flight);
            }
            return;
        }
        // What daemons do waits for locks: only before the first is taken may it come in between.
        let is_daemons = !is_of_chain(&flight.packet);
        let is_free = |held: &mut InHand| !is_daemons || held.step == 0;
        if let Some(first) = self.seats[seat].in_hand.take_if(is_free) {
            let within = first.step > 0;
            return self.decide_while(seat, first, |world| world.decide(flight, within));
        }
        if is_of_chain(&flight.packet)
            && let Some(mut dice) = self.schedule.happens(self.now, Kind::Overlap)
        {
            self.faults.count(Kind::Overlap.name());
            let (number, step) = (dice.any(), dice.below(TURNS) as u32);
            let most = 2 * self.setup.mix.delay + self.setup.mix.jitter + 50;
            self.plan(self.now + 1 + dice.below(most), Happening::Decide(seat, number));
            let begun = self.seats[seat].clock.at(self.now);
            self.seats[seat].in_hand = Some(InHand { number, flight, step, begun });
            return;
        }
        self.decide(flight, false);
    }

    /// Nobody else came in between.
    pub(super) fn decide_alone(&mut self, seat: usize, number: u64) {
        if let Some(held) = self.seats[seat].in_hand.take_if(|held| held.number == number) {
            self.decide_while(seat, held, |_| ());
        }
    }

    /// One processor decides on what it has in hand, and another does `other` between two of its steps.
    fn decide_while(&mut self, seat: usize, held: InHand, other: impl FnOnce(&mut World)) {
        let InHand { mut flight, step: at, begun, .. } = held;
        let asked = self.asked(&mut flight, false);
        let switch = self.seats[seat].switch.clone();
        let mut other = Some(other);
        let socket = flight.socket;
        let now = self.judged_at(begun);
        let verdict = switch.process_meanwhile(now, &mut flight.packet, socket, false, &mut |step| {
            if step == at
                && let Some(other) = other.take()
            {
                self.outcomes.count("decided between two steps");
                other(self);
            }
        });
        self.pass_on(flight, &asked, verdict);
        if let Some(other) = other {
            other(self);
        }
        self.check_chain(&asked);
    }

    /// `within`: somebody else has not ended his decision, and may have a lock.
    fn decide(&mut self, flight: Flight, within: bool) {
        let mut flight = flight;
        let asked = self.asked(&mut flight, within);
        #[cfg(feature = "mutants")]
        let another = self.at_another_place(&flight, within);
        let seat = &self.seats[flight.seat];
        let now = self.judged_at(seat.clock.at(self.now));
        #[cfg(feature = "mutants")]
        if let Some((group, place)) = another {
            seat.switch.set_place(group, SPACE.0, Place { next: 0, ..place });
        }
        let verdict = seat.switch.process(now, &mut flight.packet, flight.socket);
        #[cfg(feature = "mutants")]
        if let Some((group, place)) = another {
            seat.switch.set_place(group, SPACE.0, place);
        }
        self.pass_on(flight, &asked, verdict);
        if !within {
            self.check_chain(&asked);
        }
    }

    fn judged_at(&self, now: Time) -> Time {
        #[cfg(feature = "mutants")]
        if self.options.core == Some(crate::CoreMutant::NoChainLease) {
            return Time(0);
        }
        now
    }

    #[cfg_attr(not(feature = "mutants"), expect(clippy::needless_pass_by_ref_mut, unused_variables))]
    fn asked(&mut self, flight: &mut Flight, within: bool) -> Asked {
        #[cfg(feature = "mutants")]
        self.tamper(flight, within);
        Asked::of(&flight.packet)
    }

    fn pass_on(&mut self, flight: Flight, asked: &Asked, verdict: Verdict) {
        let Flight { seat, socket, mut packet, is_tampered, .. } = flight;
        packet.truncate(verdict.length);
        self.lines.note(asked, &verdict, &packet);
        if verdict.action == Action::Drop {
            return self.note(|_| format!(" s{seat}: dropped: {}", verdict.reason.name()));
        }
        if is_tampered && self.setup.authenticated {
            self.fail("A1", format!("switch {seat} believes what became {}", crate::story::packet(&packet)));
        }
        #[cfg(feature = "mutants")]
        let verdict = self.spoil(seat, verdict, &mut packet);
        self.hear_decision(&packet);
        let from = (self.party(seat), 0);
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => self.send(from, socket, packet),
            Action::ToNode { handle, port } => {
                if let Some(address) = self.seats[seat].switch.address(handle, port) {
                    self.send(from, address, packet);
                }
            }
            Action::ToController => {
                let now = self.seats[seat].clock.at(self.now);
                let is_fellows = asked.kind.is_some_and(is_between_switches);
                let member = &mut self.seats[seat].member;
                if is_fellows {
                    member.on_fellow(now, &packet)
                } else {
                    member.on_packet(now, socket.port(), &packet)
                }
                self.settle_member(seat);
            }
        }
    }

    /// Sends what a daemon has to say.
    pub(super) fn settle_member(&mut self, seat: usize) {
        self.hear_sweeps(seat);
        self.hear_overruns(seat);
        while let Some(mut sent) = self.seats[seat].member.transmit() {
            let switch = self.seats[seat].switch.clone();
            if let Ok(header) = check(&sent.packet)
                && header.kind == kind::chain::ANSWER
            {
                self.outcomes.count(match Effect::read(&sent.packet, BODY).outcome {
                    outcome if outcome == Outcome::Full as u8 => "full",
                    outcome if outcome == Outcome::Collision as u8 => "collision",
                    _ => "key made",
                });
            }
            if switch.seal(sent.to, &mut sent.packet)
                && let Some(address) = switch.address(sent.to, sent.port)
            {
                self.send((self.party(seat), 0), address, sent.packet);
            }
        }
        self.obey(seat);
    }

    fn hear_overruns(&mut self, seat: usize) {
        let overruns = self.seats[seat].member.watched().overruns;
        if overruns > self.seats[seat].overruns {
            self.seats[seat].overruns = overruns;
            self.outcomes.count("journal overrun");
        }
    }

    /// The checker hears what a daemon has done of itself.
    fn hear_sweeps(&mut self, seat: usize) {
        while let Some(lease) = self.seats[seat].member.ended() {
            self.outcomes.count("lease ended");
            self.note(|_| format!(" s{seat}: ends {lease:?}"));
            self.checker.ended(Key { check: lease.key.check, ..lease.key }, lease.version);
            if self.lives(lease.owner) {
                self.fail("K5", format!("switch {seat} ends the lease of a session that lives: {lease:?}"));
            }
        }
        while let Some(gone) = self.seats[seat].member.removed() {
            self.note(|_| format!(" s{seat}: removes {gone:?}"));
            self.outcomes.count(if gone.by_head { "key removed" } else { "key removed behind the head" });
            let named = (0..self.setup.keys).map(World::key);
            let is_it = |key: &Key| (key.high, key.low) == (gone.key.high, gone.key.low);
            if let Some(key) = named.into_iter().find(is_it) {
                self.checker.removed(key, gone.at);
            }
        }
    }

    /// Whether a session is the latest of its client.
    pub(super) fn lives(&self, owner: Owner) -> bool {
        self.client_of(owner.handle).is_some_and(|client| {
            let latest = self.setup.incarnation + u64::from(self.hosts[client].generation) - 1;
            owner.incarnation == latest as u32
        })
    }

    /// Whether another name has a key.
    pub(super) fn is_taken(&self, key: Key) -> bool {
        let is_it = |index: &u64| World::key(*index) == key;
        self.setup.collides > 0
            && (0..self.setup.keys).find(is_it).is_some_and(|i| i.is_multiple_of(self.setup.collides))
    }

    // ---- what must hold ----

    /// The checker hears what a head has decided, from what goes on from it.
    fn hear_decision(&mut self, packet: &[u8]) {
        let Ok(header) = check(packet) else { return };
        if header.service != service::CHAIN || !matches!(header.kind, kind::chain::APPLY | kind::chain::ANSWER) {
            return;
        }
        let effect = Effect::read(packet, BODY);
        let own = Version { epoch: effect.own_epoch, sequence: effect.own_sequence };
        let shown = Version { epoch: effect.epoch, sequence: effect.sequence };
        // Whatever else it is, the version that it has made is not the item's any more.
        if effect.outcome != Outcome::Done as u8 || own != shown || own == Version::default() {
            return;
        }
        if let Some(op) = self.op_of(effect.client, effect.request)
            && self.crews[op.process.host].writes(op)
        {
            let verdict = self.checker.decided(effect.group, own, op);
            self.judge(verdict);
        }
    }

    /// Whose request it is.
    pub(super) fn op_of(&self, handle: Handle, request: u64) -> Option<Op> {
        let host = self.client_of(handle)?;
        let generations = (request >> 40).wrapping_sub(self.setup.incarnation) & 0xff_ffff;
        Some(Op { process: Process { host, generation: generations as u32 + 1 }, request })
    }

    /// K3: of the key in question no switch is behind the one after it. What the last one has can be read.
    fn check_chain(&mut self, asked: &Asked) {
        let Some((group, key)) = asked.key else { return };
        for seat in 0..self.seats.len() {
            let place = self.seats[seat].switch.place(group);
            if place.epoch > 0
                && place.next == 0
                && let Some(version) = self.seats[seat].version(group, key)
            {
                self.checker.taken(key, version);
            }
            let Some(next) = usize::from(place.next).checked_sub(1).filter(|_| place.epoch > 0) else { continue };
            let after = self.seats[next].switch.place(group);
            if after.epoch != place.epoch {
                continue;
            }
            let (before, behind) = (self.seats[seat].version(group, key), self.seats[next].version(group, key));
            if before < behind {
                let story = format!("switch {seat} has {before:?} of {key:?}, and {next} after it {behind:?}");
                return self.fail("K3", story);
            }
        }
    }
}

/// Whether it is about a key.
fn is_of_chain(packet: &[u8]) -> bool {
    check(packet).is_ok_and(|header| header.service == service::CHAIN && header.kind <= kind::chain::APPLY)
}

impl Asked {
    /// A packet that is to be decided on.
    pub(super) fn of(packet: &[u8]) -> Asked {
        let header = check(packet).ok().filter(|header| header.service == service::CHAIN);
        // A removal's fields are where an operation's are.
        let is_keyed = |kind: u8| kind <= kind::chain::INSTALL || kind >= kind::chain::REMOVE;
        let key = header.filter(|header| is_keyed(header.kind)).map(|_| {
            let operation = Operation::read(packet, BODY);
            // Keys are told apart by their check in no memory.
            (operation.group, Key { high: operation.key_high, low: operation.key_low, check: 0 })
        });
        Asked { kind: header.map(|header| header.kind), key }
    }
}
