//! What a queue in the switch had no room for: q2 of one lock, at its lock server.
//!
//! ```text
//!   ACQUIRE, with its order ──► waiting ──lowest first──► PUSH, with its number ──► unacknowledged ──PUSHED──► gone
//! ```
//!
//! Invariants
//! * Every order up to `floor` has come, or was given up. What is above waits for what is below: pushes are in the
//!   order in which the switch took the requests.
//! * Numbers follow each other, and what has one keeps it. `unacknowledged` has the last of them, in sequence.
//! * With a PUSH goes the order up to which nothing is left here, that push taken: all that waits is above it.
//! * Nothing is pushed before the switch has told how many pushes it has taken: who was here before is not known.
//! * Of a lock that was ceded to the switch who waited has the first orders, up to `ceded`: no other has any of these.
//! * While somebody who waits says a priority, nobody is pushed behind others: whoever has a cell keeps its place, and
//!   the lock is to become this server's, which serves by priority.

use super::{Link, is_ranked};
use crate::mutant::Mutant;
use crate::{Handle, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use wayside_wire::{Attempt, kind};

/// Orders that who waits for a lock when it is ceded has, and whoever is on its way.
pub(crate) const CEDED_ORDERS: u64 = 1 << 16;

/// The number, and order, that a queue with this first ticket begins behind: above all that earlier queues of its name
/// have had, as long as each had fewer than 2^24 for every ticket.
pub(crate) fn first_number(first: u64) -> u64 {
    first << 24
}

/// SETTLE is said so often: if all are lost the next order settles what it was to, or a ROOM has it said again.
const SETTLES: u32 = 3;

/// So many of the longest pauses a push waits for a queue without anybody in it. By then nobody has moved the lock,
/// and a ROOM may have been lost.
const WITHHELD: u64 = 4;

/// See the module's documentation.
pub(super) struct Overflow {
    name: u64,
    waiting: BTreeMap<u64, Attempt>,
    /// How many of them say a priority.
    ranked: usize,
    /// Since then, or since the latest push was taken, nobody was pushed for that.
    withheld: Option<Time>,
    /// The pushes that the switch had taken, and the orders that it had given, when it said last that nobody was in the
    /// queue.
    emptied: (u64, u64),
    /// Orders above the floor under which nobody waits.
    idle: BTreeSet<u64>,
    floor: u64,
    /// The highest order that is known of.
    given: u64,
    /// While some below it are missing: since when up to which order.
    gap: Option<(Time, u64)>,
    unacknowledged: VecDeque<Attempt>,
    /// Pushes that the switch has not answered yet, as far as is known, and when the latest went.
    under_way: usize,
    went: Time,
    /// There was room since what is not acknowledged went last: of what was refused for want of it.
    was_room: bool,
    /// The latest number.
    pushed: u64,
    /// What the switch had free cells for when it said so last.
    room: usize,
    is_known: bool,
    /// The order that the switch was told last to be settled, and how often.
    settled: u64,
    settles: u32,
    /// The last order that is not the switch's to give.
    ceded: u64,
    due: Time,
    pause: u64,
    pauses: (u64, u64),
    mutant: Option<Mutant>,
}

impl Overflow {
    pub fn new(name: u64, pauses: (u64, u64), mutant: Option<Mutant>) -> Overflow {
        Overflow {
            name,
            waiting: BTreeMap::new(),
            ranked: 0,
            withheld: None,
            emptied: (0, 0),
            idle: BTreeSet::new(),
            floor: 0,
            given: 0,
            gap: None,
            unacknowledged: VecDeque::new(),
            under_way: 0,
            went: Time(0),
            was_room: false,
            pushed: 0,
            room: 1,
            is_known: false,
            settled: 0,
            settles: 0,
            ceded: 0,
            due: Time::NEVER,
            pause: pauses.0,
            pauses,
            mutant,
        }
    }

    /// Of a lock that was ceded with this first ticket, and who waited for it, in order. The switch is asked soon.
    pub fn ceded(mut self, now: Time, first: u64, waiters: impl Iterator<Item = Attempt>) -> Overflow {
        self.due = now + self.pauses.0;
        let base = first_number(first);
        (self.floor, self.pushed, self.settled) = (base, base, base);
        self.ceded = base + CEDED_ORDERS;
        self.emptied = (base, self.ceded);
        for attempt in waiters.take(CEDED_ORDERS as usize) {
            self.floor += 1;
            self.enter(self.floor, attempt);
        }
        if self.is_broken(Mutant::CedeBackwards) {
            let orders = self.waiting.keys().rev().copied();
            self.waiting = orders.zip(self.waiting.values().copied()).collect();
        }
        self
    }

    pub fn due(&self) -> Time {
        self.gap.map_or(Time::NEVER, |(since, _)| since + self.pauses.0).min(self.due)
    }

    /// The highest order that is known of.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Who waits here.
    pub fn waiting(&self) -> impl Iterator<Item = &Attempt> {
        self.unacknowledged.iter().filter(|attempt| attempt.holder != 0).chain(self.waiting.values())
    }

    fn is_broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn enter(&mut self, order: u64, attempt: Attempt) {
        self.ranked += usize::from(is_ranked(&attempt));
        self.waiting.insert(order, attempt);
    }

    fn leave(&mut self, order: u64) -> Option<Attempt> {
        let attempt = self.waiting.remove(&order)?;
        self.ranked -= usize::from(is_ranked(&attempt));
        Some(attempt)
    }

    // ---- what comes ----

    /// ACQUIRE with an order. Whether it waits here now.
    pub fn on_acquire(&mut self, link: &mut Link<'_>, attempt: &Attempt) -> bool {
        let waits = self.take(attempt);
        self.go_on(link);
        waits
    }

    /// ACQUIRE without one, which was on its way when the lock was ceded. Whether it waits here now.
    pub fn on_late(&mut self, link: &mut Link<'_>, attempt: &Attempt) -> bool {
        let order = self.floor + 1;
        order <= self.ceded && self.on_acquire(link, &Attempt { order, ..*attempt })
    }

    /// The same, and nothing is pushed.
    pub fn take(&mut self, attempt: &Attempt) -> bool {
        let order = attempt.order;
        self.given = self.given.max(order);
        let is_known = self.hear(attempt);
        if order > self.floor {
            if is_known {
                self.idle.insert(order);
            } else if !self.idle.contains(&order) && !self.waiting.contains_key(&order) {
                self.enter(order, *attempt);
            }
        }
        let waits = is_known || order > self.floor;
        self.raise_floor();
        waits
    }

    /// Whether it waits here. If it is moved to this server's own locks, its hold lasts from when it was sent last.
    fn hear(&mut self, attempt: &Attempt) -> bool {
        let latest = if self.is_broken(Mutant::LeaseFromFirst) { 0 } else { attempt.sent_us };
        let pushed = self.unacknowledged.iter_mut().filter(|known| known.holder != 0);
        let is_it = |known: &&mut Attempt| (known.holder, known.request) == (attempt.holder, attempt.request);
        let Some(known) = pushed.chain(self.waiting.values_mut()).find(is_it) else { return false };
        known.sent_us = known.sent_us.max(latest);
        known.reply_port = attempt.reply_port;
        true
    }

    /// The lock is this server's from now on: what the switch has taken is over, and so much it has given.
    pub fn close(&mut self, given: u64, pushed: u64) {
        self.given = self.given.max(given);
        self.acknowledge(pushed);
    }

    /// The switch has taken so many pushes. Of how many that is news, and how many were known to be before.
    fn acknowledge(&mut self, pushed: u64) -> (u64, u64) {
        let first = self.pushed - self.unacknowledged.len() as u64;
        let taken = pushed.saturating_sub(first).min(self.unacknowledged.len() as u64);
        self.unacknowledged.drain(..taken as usize);
        (taken, first)
    }

    /// Nothing is missing of what was given.
    pub fn is_whole(&self) -> bool {
        self.floor >= self.given
    }

    /// The switch has given so much, of which nothing has come here: it is asked what it has taken.
    pub fn on_news(&mut self, link: &mut Link<'_>, given: u64) {
        self.given = self.given.max(given);
        self.go_on(link);
    }

    /// CANCEL. Of a lock that is being taken nothing is pushed.
    pub fn on_cancel(&mut self, link: &mut Link<'_>, holder: Handle, request: u64, pushes: bool) {
        self.take_out(|known| (known.holder, known.request) == (holder, request));
        if pushes {
            self.go_on(link);
        }
    }

    /// A session is over: its requests are as cancelled.
    pub fn on_down(&mut self, link: &mut Link<'_>, dead: Handle, is_its: impl Fn(u64) -> bool, pushes: bool) {
        self.take_out(|known| known.holder == dead && is_its(known.request));
        if pushes {
            self.go_on(link);
        }
    }

    /// What has its number keeps it, and is nobody's.
    fn take_out(&mut self, is_it: impl Fn(&Attempt) -> bool) {
        let orders = self.waiting.iter().filter(|(_, known)| is_it(known)).map(|(order, _)| *order);
        for order in orders.collect::<alloc::vec::Vec<u64>>() {
            self.leave(order);
            if order > self.floor {
                self.idle.insert(order);
            }
        }
        if self.is_broken(Mutant::ForgetNumbers) {
            self.unacknowledged.retain(|known| !is_it(known));
        }
        self.unacknowledged.iter_mut().filter(|known| is_it(known)).for_each(|known| known.holder = 0);
    }

    /// PUSHED, ROOM: what the switch has taken, has given, and has room for.
    pub fn on_counters(&mut self, link: &mut Link<'_>, attempt: &Attempt, is_asked: bool) {
        let Attempt { number, order, room, .. } = *attempt;
        self.given = self.given.max(order);
        if !self.is_known {
            if number < self.pushed {
                return; // Of an earlier queue of this name.
            }
            // What is not here may be on its way: a gap, as any other.
            (self.is_known, self.pushed) = (true, number);
        }
        self.under_way = self.under_way.saturating_sub(usize::from(is_asked));
        let (taken, first) = self.acknowledge(number);
        if number < first {
            return;
        }
        if self.unacknowledged.is_empty() {
            // What made this known may have been a copy of long ago, and below that no push is taken.
            self.pushed = self.pushed.max(number);
        }
        self.room = room.into();
        self.was_room |= taken > 0 || !is_asked;
        if !is_asked {
            self.emptied = self.emptied.max((number, order));
            if order <= self.nothing_up_to() {
                // All that told it so were lost, and as long as everybody only tries nobody gets an order.
                self.settles = self.settles.max(1);
            }
        }
        if taken > 0 {
            self.withheld = None;
        }
        if taken > 0 || !is_asked {
            self.pause = self.pauses.0;
            // While pushes are taken none is overdue.
            let before = if taken > 0 { Time::NEVER } else { self.due };
            self.due = before.min(link.now + self.pause);
        }
        if self.was_refused(link.now) {
            self.push_again(link);
        }
        self.go_on(link);
    }

    /// Whether the switch has no more than refused what it has not taken, and now may have room for it. What is still
    /// under way is not sent again: while pushes go in one after the other their queue is empty again and again, each
    /// time the switch says so, and each copy of a push would be answered.
    fn was_refused(&self, now: Time) -> bool {
        let are_answered = self.under_way == 0 || self.is_quiet(now);
        self.was_room && self.room > 0 && are_answered && !self.unacknowledged.is_empty()
    }

    /// Whether nothing has gone for so long that what was not answered by now is lost.
    fn is_quiet(&self, now: Time) -> bool {
        now >= self.went + self.pauses.0
    }

    /// So many pushes, for the first time or again.
    fn note_pushes(&mut self, now: Time, count: usize) {
        self.under_way = count + if self.is_quiet(now) { 0 } else { self.under_way };
        self.went = now;
    }

    // ---- what goes ----

    fn raise_floor(&mut self) {
        while self.waiting.contains_key(&(self.floor + 1)) || self.idle.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
    }

    /// What is missing up to this order since then will not come any more.
    fn give_up(&mut self, since: Time, order: u64) {
        if self.is_broken(Mutant::WaitForGaps) {
            self.gap = Some((since + self.pauses.1, order));
            return;
        }
        self.floor = self.floor.max(order);
        self.idle = self.idle.split_off(&(self.floor + 1));
        self.raise_floor();
    }

    /// Up to which order nothing is left here.
    fn nothing_up_to(&self) -> u64 {
        if self.is_broken(Mutant::SettleEarly) {
            return self.given;
        }
        self.waiting.first_key_value().map_or(self.floor, |(order, _)| self.floor.min(order - 1))
    }

    /// How many pushes may be under way.
    fn window(&self, now: Time) -> usize {
        if self.ranked == 0 || self.is_broken(Mutant::PushRanked) {
            return self.room.max(1);
        }
        let patience = WITHHELD * self.pauses.1;
        usize::from(self.is_empty() || self.withheld.is_some_and(|since| now.since(since) > patience))
    }

    /// Whether nobody is in the queue. Who waits here had been given an order by when the switch said so: since then
    /// nobody else has got a cell.
    fn is_empty(&self) -> bool {
        let first = self.waiting.first_key_value().map_or(u64::MAX, |(order, _)| *order);
        self.emptied.0 == self.pushed && first <= self.emptied.1
    }

    /// Pushes what may be pushed now, and sees to it that what is left undone is done in time.
    fn go_on(&mut self, link: &mut Link<'_>) {
        if !self.is_known {
            if self.due == Time::NEVER {
                self.ask(link);
            }
            return;
        }
        while self.unacknowledged.len() < self.window(link.now) && !link.out.is_full() {
            let next = if self.is_broken(Mutant::LatestFirst) {
                self.waiting.last_key_value()
            } else {
                self.waiting.first_key_value()
            };
            let Some(order) = next.map(|(order, _)| *order) else { break };
            let may_be_late = self.is_broken(Mutant::LatestFirst) || self.is_broken(Mutant::OverGaps);
            if order > self.floor && !may_be_late {
                break;
            }
            let Some(mut attempt) = self.leave(order) else { break };
            self.pushed += 1;
            self.settled = self.nothing_up_to();
            self.settles = SETTLES;
            (attempt.number, attempt.order) = (self.pushed, self.settled);
            (attempt.ticket, attempt.sent_us) = (0, 0);
            link.send(0, kind::queue::PUSH, 0, &attempt);
            self.note_pushes(link.now, 1);
            self.unacknowledged.push_back(attempt);
        }
        self.set_timer(link.now);
    }

    /// Of what is known.
    fn is_done(&self) -> bool {
        let is_settled = self.nothing_up_to() == self.settled && self.settles == 0;
        self.unacknowledged.is_empty() && is_settled
    }

    fn set_timer(&mut self, now: Time) {
        if self.nothing_up_to() > self.settled {
            self.settled = self.nothing_up_to();
            self.settles = SETTLES;
        }
        self.withheld = (self.ranked > 0).then(|| self.withheld.unwrap_or(now));
        self.gap = self.gap.filter(|(_, top)| self.floor < *top);
        if self.floor < self.given {
            self.gap.get_or_insert((now, self.given));
        }
        if self.is_done() && self.waiting.is_empty() {
            (self.due, self.pause) = (Time::NEVER, self.pauses.0);
        } else if self.due == Time::NEVER {
            self.due = now + self.pause;
        }
    }

    /// SETTLE, number 0: what has the switch taken?
    fn ask(&mut self, link: &mut Link<'_>) {
        let attempt = Attempt { name: self.name, ..Attempt::default() };
        link.send(0, kind::queue::SETTLE, 0, &attempt);
        self.due = link.now + self.pause;
    }

    fn push_again(&mut self, link: &mut Link<'_>) {
        let count = self.room.max(1);
        if self.is_broken(Mutant::NumberAgain) {
            let first = self.pushed - self.unacknowledged.len() as u64;
            let again = (first + 2..).zip(self.unacknowledged.iter_mut());
            again.for_each(|(number, attempt)| attempt.number = number);
        }
        for attempt in self.unacknowledged.iter().take(count) {
            link.send(0, kind::queue::PUSH, 0, attempt);
        }
        self.note_pushes(link.now, count.min(self.unacknowledged.len()));
        self.was_room = false;
    }

    /// Gaps are given up, what is not acknowledged is sent again, and the switch hears what is settled.
    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        if let Some((since, top)) = self.gap.filter(|(since, _)| *since + self.pauses.0 <= link.now) {
            self.give_up(since, top);
            self.go_on(link);
            // What has just gone is not repeated at once.
            self.due = self.due.max(link.now + self.pause);
        }
        if self.due > link.now {
            return;
        }
        self.pause = (self.pause * 2).min(self.pauses.1);
        if !self.is_known {
            return self.ask(link);
        }
        self.due = link.now + self.pause;
        self.push_again(link);
        self.go_on(link);
        if self.unacknowledged.is_empty() && self.settles > 0 {
            self.settles -= 1;
            let attempt = Attempt { name: self.name, number: self.pushed, order: self.settled, ..Attempt::default() };
            link.send(0, kind::queue::SETTLE, 0, &attempt);
        }
    }
}
