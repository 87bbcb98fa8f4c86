//! A switch's controller, while that switch serves: alone for ever, or as long as a post is its own that it shares with
//! its standbys (`serving.rs`).
//!
//! Invariants
//! * There is a controller from the moment the post was taken until another has it, and none else. It is reached only
//!   while the lease runs: what it would decide later, its successor may have decided otherwise.
//! * The lease of the switch ([`SwitchMemory::serve_for`]) is never longer than that of the post.
//! * A switch that has no post has epoch 0: it decides on nothing, whatever its memory holds. What it held before is
//!   overwritten when it is promoted.

use super::serving::{Answer, Change, Inquiry, Post, Serving, ServingConfig};
use super::{Config, Controller, Notice, Store, StoreError};
use crate::Time;
use crate::memory::SwitchMemory;
use alloc::collections::VecDeque;
use alloc::string::ToString;

/// Between attempts to begin, while the store fails. Microseconds.
const ATTEMPT: u64 = 20_000;

/// See the module's documentation. `M`: the switch's memory, `S`: the store, which standbys share.
pub struct Seat<M, S> {
    memory: M,
    controller: Option<Controller<M, S>>,
    shared: Option<Shared<S>>,
    notices: VecDeque<Notice>,
}

/// What a seat has that is not alone.
struct Shared<S> {
    config: Config,
    store: S,
    serving: Serving,
    /// The post is this switch's, and there is no controller yet: not before this time.
    begins: Option<Time>,
}

impl<M: SwitchMemory + Clone, S: Store + Clone> Seat<M, S> {
    /// Of a switch that has no standby.
    ///
    /// # Errors
    /// Those of [`Controller::new`].
    pub fn alone(config: Config, memory: M, store: S) -> Result<Seat<M, S>, StoreError> {
        memory.serve_without_end();
        let controller = Controller::new(config, memory.clone(), store)?;
        Ok(Seat { memory, controller: Some(controller), shared: None, notices: VecDeque::new() })
    }

    /// Of one of several switches, each of which can serve the shard. It is a standby until it finds the post free.
    pub fn sharing(now: Time, config: Config, memory: M, store: S, serving: ServingConfig) -> Seat<M, S> {
        // Of an earlier life: it is renewed when the post turns out to be its own still.
        memory.serve_for(memory.moment(now), 0);
        let serving = Serving::new(serving, config.mutant);
        let shared = Some(Shared { config, store, serving, begins: None });
        Seat { memory, controller: None, shared, notices: VecDeque::new() }
    }

    /// The controller, if this switch serves at this time.
    pub fn controller(&mut self, now: Time) -> Option<&mut Controller<M, S>> {
        self.controller.as_mut().filter(|_| self.shared.as_ref().is_none_or(|shared| shared.serving.runs(now)))
    }

    /// What the controller keeps, whether or not the switch serves at this moment. None of a standby.
    pub fn records(&self) -> Option<&Controller<M, S>> {
        self.controller.as_ref()
    }

    /// The post as last seen; none of a switch that is alone, or has not seen it yet.
    pub fn post(&self) -> Option<Post> {
        self.shared.as_ref().and_then(|shared| shared.serving.post())
    }

    /// Until when this switch serves by what it knows now; long ago if it does not, and never over if it is alone.
    pub fn serves_until(&self) -> Time {
        match (&self.shared, &self.controller) {
            (None, _) => Time::NEVER,
            (Some(shared), Some(_)) => shared.serving.until(),
            (Some(_), None) => Time(0),
        }
    }

    /// Does what is due.
    pub fn on_tick(&mut self, now: Time) {
        if self.shared.as_ref().and_then(|shared| shared.begins).is_some_and(|at| now >= at) {
            self.begin(now);
        }
        if let Some(controller) = self.controller(now) {
            controller.on_tick(now);
        }
    }

    /// When [`Seat::on_tick`] and [`Seat::ask`] want to be called, as it is now.
    pub fn next_timer(&self, now: Time) -> Time {
        let Some(shared) = &self.shared else {
            return self.controller.as_ref().map_or(Time::NEVER, Controller::next_timer);
        };
        let next = shared.serving.due().min(shared.begins.unwrap_or(Time::NEVER));
        // A lease that is over lets nothing happen before it is renewed: what has been due since then waits for that.
        match self.controller.as_ref().map(Controller::next_timer) {
            Some(at) if shared.serving.runs(now) => next.min(at),
            _ => next,
        }
    }

    /// What the register of the post is to be asked now, if anything.
    pub fn ask(&mut self, now: Time) -> Option<Inquiry> {
        let shared = self.shared.as_mut().filter(|shared| now >= shared.serving.due())?;
        shared.serving.ask(self.memory.moment(now))
    }

    /// What the register answers.
    pub fn on_answer(&mut self, now: Time, inquiry: Inquiry, answer: Answer) {
        let Some(shared) = &mut self.shared else { return };
        match shared.serving.on_answer(now, inquiry, answer) {
            None => {}
            Some(Change::Begin(since, lease)) => {
                self.memory.serve_for(since, lease);
                shared.begins = Some(now);
                self.notices.push_back(Notice::Promoted);
                self.on_tick(now);
            }
            Some(Change::Renewed(since, lease)) => self.memory.serve_for(since, lease),
            Some(Change::End) => {
                self.memory.serve_for(self.memory.moment(now), 0);
                self.memory.set_serving(false);
                self.memory.set_epoch(0);
                self.controller = None;
                shared.begins = None;
                self.notices.push_back(Notice::Demoted);
            }
        }
    }

    /// Stops, then makes room for a standby: the planned end. False: there is none, or this switch does not serve.
    pub fn drain(&mut self, now: Time) -> bool {
        let Some(shared) = self.shared.as_mut().filter(|shared| shared.serving.runs(now)) else { return false };
        self.memory.serve_for(self.memory.moment(now), 0);
        shared.serving.resign(now);
        true
    }

    /// What happened since the last call.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front().or_else(|| self.controller.as_mut().and_then(Controller::notice))
    }

    fn begin(&mut self, now: Time) {
        let Some(shared) = &mut self.shared else { return };
        match Controller::new(shared.config.clone(), self.memory.clone(), shared.store.clone()) {
            Ok(controller) => {
                shared.begins = None;
                self.controller = Some(controller);
            }
            Err(error) => {
                shared.begins = Some(now + ATTEMPT);
                self.notices.push_back(Notice::StoreFailed(error.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Disk, Memory, config};
    use super::super::{Post, Question};
    use super::*;
    use alloc::rc::Rc;
    use alloc::vec::Vec;

    const LEASE: u64 = 300_000;

    fn seat() -> (Seat<Rc<Memory>, Disk>, Rc<Memory>) {
        let memory = Rc::new(Memory::default());
        let serving = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };
        (Seat::sharing(Time(0), config(), memory.clone(), Disk::default(), serving), memory)
    }

    fn promoted(seat: &mut Seat<Rc<Memory>, Disk>, at: Time) {
        let looked = seat.ask(at).expect("at once");
        seat.on_answer(at, looked, Answer::Is(Post::default()));
        let taken = seat.ask(at).expect("it is vacant");
        assert_eq!(taken.question, Question::Take(0));
        seat.on_answer(at, taken, Answer::Done(Post { holder: 1, revision: 1 }));
    }

    #[test]
    fn a_standby_has_no_controller_and_one_that_serves_has() {
        let (mut seat, memory) = seat();
        assert!(seat.controller(Time(0)).is_none());
        promoted(&mut seat, Time(1));
        assert!(seat.controller(Time(2)).is_some() && memory.epoch() == 1);
        assert!(seat.controller(Time(1 + LEASE)).is_none(), "not once its lease is over");
    }

    /// What was due when the lease ended would be due at once for ever, and never done.
    #[test]
    fn a_lease_that_is_over_wakes_nobody_in_vain() {
        let (mut seat, _) = seat();
        promoted(&mut seat, Time(1));
        let late = Time(2 * LEASE);
        let asked = seat.ask(late).expect("a renewal is due");
        seat.on_tick(late);
        assert!(seat.next_timer(late) > late);
        seat.on_answer(late, asked, Answer::Done(Post { holder: 1, revision: 2 }));
        assert!(seat.next_timer(late) <= late, "now it may go on");
    }

    #[test]
    fn another_ones_post_takes_controller_and_epoch_away() {
        let (mut seat, memory) = seat();
        promoted(&mut seat, Time(1));
        let asked = seat.ask(Time(LEASE / 4 + 1)).expect("a renewal is due");
        seat.on_answer(Time(LEASE), asked, Answer::Is(Post { holder: 2, revision: 2 }));
        assert!(seat.records().is_none() && seat.post() == Some(Post { holder: 2, revision: 2 }));
        assert_eq!((memory.epoch(), memory.serving()), (0, false));
    }

    fn told(seat: &mut Seat<Rc<Memory>, Disk>) -> Vec<Notice> {
        core::iter::from_fn(|| seat.notice()).collect()
    }

    #[test]
    fn the_lease_of_the_switch_is_that_of_the_post_and_ends_with_it() {
        let (mut seat, memory) = seat();
        let leases = |seat: &Seat<Rc<Memory>, Disk>| (memory.lease_end.get(), seat.serves_until());
        assert_eq!(leases(&seat), (Some(Time(0)), Time(0)));
        promoted(&mut seat, Time(1));
        assert_eq!(leases(&seat), (Some(Time(1 + LEASE)), Time(1 + LEASE)));
        let renewed = Time(1 + LEASE / 4);
        let asked = seat.ask(renewed).expect("a renewal is due");
        let heard = Time(2 * LEASE / 3);
        seat.on_answer(heard, asked, Answer::Done(Post { holder: 1, revision: 2 }));
        assert_eq!(leases(&seat), (Some(renewed + LEASE), renewed + LEASE));
        let asked = seat.ask(heard).expect("a renewal is due");
        seat.on_answer(Time(LEASE), asked, Answer::Is(Post { holder: 2, revision: 3 }));
        assert_eq!(leases(&seat), (Some(Time(LEASE)), Time(0)), "nothing more is decided on");
        assert_eq!(told(&mut seat), [Notice::Promoted, Notice::Demoted]);
    }

    #[test]
    fn a_switch_that_drains_has_stopped_before_it_makes_room() {
        let (mut seat, memory) = seat();
        assert!(!seat.drain(Time(0)), "it does not serve");
        promoted(&mut seat, Time(1));
        assert!(seat.drain(Time(50)));
        assert_eq!(memory.lease_end.get(), Some(Time(50)));
        assert!(seat.controller(Time(50)).is_none());
        assert_eq!(seat.ask(Time(50)).expect("at once").question, Question::Resign(1));
    }

    #[test]
    fn a_switch_that_is_alone_serves_without_end() {
        let memory = Rc::new(Memory::default());
        memory.serve_for(memory.moment(Time(0)), 0);
        let mut seat = Seat::alone(config(), memory.clone(), Disk::default()).expect("an empty store");
        assert_eq!((memory.lease_end.get(), seat.serves_until()), (None, Time::NEVER));
        assert!(!seat.drain(Time(5)), "to whom?");
    }

    #[test]
    fn who_has_the_post_and_cannot_read_the_records_tries_again_soon_and_only_while_it_has_it() {
        for keeps in [true, false] {
            let (mut seat, _) = seat();
            let disk = seat.shared.as_ref().expect("it shares").store.clone();
            disk.full.set(true);
            promoted(&mut seat, Time(1));
            assert!(matches!(told(&mut seat)[..], [Notice::Promoted, Notice::StoreFailed(_)]));
            assert_eq!(seat.next_timer(Time(1)), Time(1 + ATTEMPT));
            disk.full.set(false);
            if !keeps {
                let asked = seat.ask(Time(1 + LEASE / 4)).expect("a renewal is due");
                seat.on_answer(Time(1 + LEASE / 4), asked, Answer::Is(Post { holder: 2, revision: 2 }));
            }
            seat.on_tick(Time(ATTEMPT));
            assert!(seat.records().is_none());
            seat.on_tick(Time(1 + ATTEMPT));
            assert_eq!(seat.records().is_some(), keeps);
        }
    }
}
