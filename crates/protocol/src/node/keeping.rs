//! Slots that this node keeps though nobody holds or waits there (`agent/home.rs`), and how it lets them go.

use super::{Event, Node};
use crate::agent::Duty;
use crate::books::{Book, Place};
use crate::kept::{LET_GO_AT_ONCE, LOOKED_AT};
use crate::lock::{Path, State};
use crate::mutant::Mutant;
use crate::{Mode, RequestId, Time, Token};
use wayside_wire::limits;

impl Node {
    /// Of a slot that rests here: the request holds at once, and nobody is told. False, where anybody else may have to
    /// do with it.
    #[inline]
    pub(super) fn hold_at_home(&mut self, now: Time, id: u64) -> bool {
        let Some(request) = self.requests.get_mut(id) else { return false };
        let book = self.agency.books.at_mut(request.book);
        let Some(sole) = book.sole.as_mut().filter(|sole| sole.rests()) else { return false };
        let is_exclusive = request.mode == Mode::Exclusive;
        if book.waits != 1 || is_exclusive && sole.sequence == limits::MAX_SEQUENCE {
            return false;
        }
        if is_exclusive && !self.config.is_broken(Mutant::SameSequence) {
            sole.sequence += 1;
        }
        let token = Token::new(sole.stamp, sole.sequence);
        (sole.name, sole.port, sole.mode) = (request.name, request.port, request.mode);
        sole.duty = Duty::Keep { request: id };
        sole.home.use_it();
        book.waits = 0;
        request.state = State::Held { token, agent: sole.holder, ordinal: None, downgrading: false };
        request.since = now;
        request.due = Time::NEVER;
        let (slot, mode, next) = (request.slot, request.mode, request.next);
        self.held.note(slot, id);
        self.events.push(Event::Granted { request: RequestId(id), token, mode, path: Path::Local });
        self.call(now, next);
        true
    }

    /// Keeps no slot any more that nobody holds or awaits: before a session ends that needs not be swept then.
    pub fn keep_no_more(&mut self, now: Time) {
        if self.kept.is_on() {
            self.kept.close(now);
        }
    }

    /// Whether this node keeps a slot that nobody holds or awaits.
    pub fn keeps(&self, slot: u32) -> bool {
        self.agency.books.get(slot).is_some_and(Book::rests)
    }

    /// Slots that are kept and that nobody holds or awaits.
    pub fn kept(&self) -> usize {
        let rests = |(_, book): &(u32, &Book)| book.rests();
        self.agency.books.iter().filter(rests).count()
    }

    /// Those that were kept are let go, some at a time: all at once would drown the heartbeats.
    pub(super) fn on_kept_tick(&mut self, now: Time) {
        for _ in 0..LET_GO_AT_ONCE {
            let Some(slot) = self.kept.leave() else { break };
            self.let_go(now, slot);
        }
        self.kept.go_on(now);
    }

    /// An agent that rests needs few words, until somebody else asks for its slot.
    pub(super) fn lay_to_rest(&mut self, place: Place) {
        let me = self.handle();
        if let Some(mut sole) = self.agency.books.at(place).at_rest(me) {
            if self.config.is_broken(Mutant::ForgetSequence) {
                sole.sequence = 0;
            }
            self.agency.empty(place);
            self.agency.books.at_mut(place).sole = Some(sole);
        }
    }

    /// There is no place for another one: the first in line that was not used since it was looked at gives up its own.
    pub(super) fn make_room(&mut self, now: Time) {
        for _ in 0..LOOKED_AT {
            let Some(slot) = self.kept.leave() else { return };
            let Some(place) = self.agency.books.find(slot) else { return };
            let book = self.agency.books.at_mut(place);
            match (book.is_kept(), book.rests() && book.is_unused()) {
                (false, _) => return,
                (true, true) => return self.let_go(now, slot),
                (true, false) => self.kept.stay(slot),
            }
        }
    }

    /// Free, once nobody holds or waits: at once, mostly.
    fn let_go(&mut self, now: Time, slot: u32) {
        if self.agency.books.get(slot).is_some_and(Book::is_kept) {
            self.with_agent(now, slot, 0, |agent, desk| agent.leave_home(desk));
        }
    }
}
