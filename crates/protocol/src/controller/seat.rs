//! A switch's controller, while that switch serves: alone for ever, or as long as a post is its own that it shares with
//! its standbys (`serving.rs`).
//!
//! Invariants
//! * There is a controller from the moment the post was taken until another has it, and none else. It is reached only
//!   while the lease runs: what it would decide later, its successor may have decided otherwise.
//! * The lease of the switch ([`SwitchMemory::serve_for`]) is never longer than that of the post, though its memory was
//!   emptied, which then says that it has no end.
//! * A switch that has no post has epoch 0: it decides on nothing, whatever its memory holds. What it held before is
//!   overwritten when it is promoted.
//! * What another switch has handed over is gone on with by whom that one has left the post to: who took it at that
//!   very revision. Otherwise it is overwritten too.

use super::hand_over::{Came, Copying, Handed, NotServing, Reception, Shape, Unfit};
use super::serving::{Answer, Change, Inquiry, Post, Question, Serving, ServingConfig};
use super::{Config, Controller, Namespace, Notice, Store, StoreError, Unaddable};
use crate::memory::{Moment, SwitchMemory};
use crate::{Mutant, Time};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use wayside_wire::Policy;

/// Between attempts to begin, while the store fails. Microseconds.
const ATTEMPT: u64 = 20_000;

/// See the module's documentation. `M`: the switch's memory, `S`: the store, which standbys share.
pub struct Seat<M, S> {
    memory: M,
    controller: Option<Controller<M, S>>,
    shared: Option<Shared<S>>,
    /// The hosts that may enrol, while sessions of others have yet to be cut off.
    admitted: Option<BTreeSet<u64>>,
    notices: VecDeque<Notice>,
}

/// What a seat has that is not alone.
struct Shared<S> {
    config: Config,
    store: S,
    serving: Serving,
    /// The latest of the switch.
    lease: Option<(Moment, u64)>,
    /// The post is this switch's, and there is no controller yet: not before this time.
    begins: Option<Time>,
    /// What another switch hands over, as far as it has come.
    reception: Option<Reception>,
    /// All of it.
    handed: Option<Handed>,
}

impl<M: SwitchMemory + Clone, S: Store + Clone> Seat<M, S> {
    /// Of a switch that has no standby.
    ///
    /// # Errors
    /// Those of [`Controller::new`].
    pub fn alone(config: Config, memory: M, store: S) -> Result<Seat<M, S>, StoreError> {
        memory.serve_without_end();
        let controller = Some(Controller::new(config, memory.clone(), store)?);
        Ok(Seat { memory, controller, shared: None, admitted: None, notices: VecDeque::new() })
    }

    /// Of one of several switches, each of which can serve the shard. It is a standby until it finds the post free.
    pub fn sharing(now: Time, config: Config, memory: M, store: S, serving: ServingConfig) -> Seat<M, S> {
        // Of an earlier life: it is renewed when the post turns out to be its own still.
        memory.serve_for(memory.moment(now), 0);
        let serving = Serving::new(serving, config.mutant);
        let shared = Some(Shared { config, store, serving, lease: None, begins: None, reception: None, handed: None });
        Seat { memory, controller: None, shared, admitted: None, notices: VecDeque::new() }
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
        self.cut_off(now);
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
                shared.reception = None;
                let late = shared.config.is_broken(Mutant::TakeLate);
                shared.handed.take_if(|handed| inquiry.question != Question::Take(handed.revision) && !late);
                self.memory.serve_for(since, lease);
                shared.lease = Some((since, lease));
                shared.begins = Some(now);
                self.notices.push_back(Notice::Promoted);
                self.on_tick(now);
            }
            Some(Change::Renewed(since, lease)) => {
                shared.lease = Some((since, lease));
                match &mut self.controller {
                    Some(controller) => controller.serve_for(since, lease),
                    None => self.memory.serve_for(since, lease),
                }
                self.cut_off(now);
            }
            Some(Change::End) => {
                let_go(&self.memory, now);
                self.controller = None;
                self.admitted = None;
                shared.begins = None;
                shared.handed = None;
                self.notices.push_back(Notice::Demoted);
            }
        }
    }

    /// These hosts may enrol: sessions of others are cut off, at once or as soon as the lease of the post runs again.
    /// Who has no post knows them too late: another may let in more, and whoever is promoted is to be told anew.
    pub fn admit_only(&mut self, now: Time, hosts: BTreeSet<u64>) {
        let begins = self.shared.as_ref().is_some_and(|shared| shared.begins.is_some());
        self.admitted = (self.controller.is_some() || begins).then_some(hosts);
        self.cut_off(now);
    }

    /// From now on the nodes of this namespace decide so, also where this switch serves later.
    pub fn set_policy(&mut self, now: Time, namespace: u16, policy: Policy, patience: u8) {
        if let Some(shared) = &mut self.shared {
            shared.config.set_policy(namespace, policy, patience);
        }
        if let Some(controller) = &mut self.controller {
            controller.set_policy(now, namespace, policy, patience);
        }
    }

    /// Takes in another namespace, also for where this switch serves later. `make_room` gives it its slots, all unheld,
    /// or says why not; it is called if nothing else is in the way.
    ///
    /// # Errors
    /// Why it cannot. Nothing has changed then.
    pub fn add_namespace(
        &mut self,
        now: Time,
        namespace: &Namespace,
        make_room: impl FnOnce(&M) -> Result<(), String>,
    ) -> Result<(), Unaddable> {
        let serves = self.controller.is_some();
        let runs = self.controller(now).is_some_and(|controller| controller.memory.serving());
        if serves && !runs {
            return Err(Unaddable::NotServing);
        }
        // What comes with no epoch of its own is asked of nobody.
        if self.shared.as_ref().is_some_and(|shared| shared.reception.is_some() || shared.handed.is_some()) {
            return Err(Unaddable::TakesOver);
        }
        let known = self.controller.as_ref().map(|controller| &controller.config);
        let known = known.or(self.shared.as_ref().map(|shared| &shared.config)).expect("one or the other");
        let with = known.with(namespace);
        with.check().map_err(Unaddable::Config)?;
        if self.controller.as_ref().is_some_and(|controller| controller.has_sessions_of(now, namespace.id)) {
            return Err(Unaddable::HasSessions);
        }
        make_room(&self.memory).map_err(Unaddable::NoRoom)?;
        if let Some(controller) = &mut self.controller {
            controller.config = with.clone();
        }
        if let Some(shared) = &mut self.shared {
            shared.config = with;
        }
        Ok(())
    }

    fn cut_off(&mut self, now: Time) {
        let Some(hosts) = self.admitted.take() else { return };
        match self.controller(now) {
            // 0: a session of before hosts were written down with it.
            Some(controller) => controller.cut_off(now, |host| host == 0 || hosts.contains(&host)),
            None => self.admitted = Some(hosts),
        }
    }

    /// Stops, then makes room for a standby: the planned end. False: there is none, or this switch does not serve.
    pub fn drain(&mut self, now: Time) -> bool {
        let Some(shared) = self.shared.as_mut().filter(|shared| shared.serving.may_resign(now)) else { return false };
        self.memory.serve_for(self.memory.moment(now), 0);
        shared.serving.resign(now);
        true
    }

    // ---- a planned end whose successor asks nobody: hand_over.rs ----

    /// Begins to hand over: asks all nodes whether they would follow, and tells what the memory is like. Nothing has
    /// changed yet.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn prepare(&mut self, now: Time) -> Result<Copying, NotServing> {
        let shape = self.shape().ok_or(NotServing)?;
        let post = self.post().ok_or(NotServing)?;
        let controller = self.controller(now).filter(|controller| controller.decides()).ok_or(NotServing)?;
        controller.ask_for_turns(now);
        let held_alone = controller.config.is_broken(Mutant::HandHeldAlone);
        let mut copying = Copying::new(shape, post.revision, now);
        copying.held_alone = held_alone;
        Ok(copying)
    }

    /// Whether it may stop now: every node would follow, and no renewal of the post is under way. It is not renewed for
    /// a while then.
    pub fn is_prepared(&mut self, now: Time) -> bool {
        let follow = self.controller(now).is_some_and(|controller| controller.all_know_turns(now));
        follow && self.shared.as_mut().is_some_and(|shared| shared.serving.hold_still(now))
    }

    /// Ends the lease. What decides on packets is to be ended next: it may have looked at the lease before. False: this
    /// switch does not serve any more.
    pub fn stop(&mut self, now: Time) -> bool {
        if !self.controller(now).is_some_and(|controller| controller.decides()) {
            return false;
        }
        let Some(shared) = &mut self.shared else { return false };
        if !shared.config.is_broken(Mutant::ServeOn) {
            self.memory.serve_for(self.memory.moment(now), 0);
        }
        shared.serving.hand_over(now);
        true
    }

    /// Nothing decides on packets any more: sends the rest. False: it has not [stopped](Seat::stop), or its memory is
    /// lost.
    pub fn hand_over(&mut self, mut copying: Copying, mut out: impl FnMut(Vec<u8>)) -> bool {
        let shape = self.shape();
        let revision = self.shared.as_mut().and_then(|shared| shared.serving.left_to());
        let (Some(revision), Some(controller)) = (revision, &mut self.controller) else { return false };
        // A namespace has come meanwhile, of which the successor has not been told.
        if !controller.decides() || shape.is_none_or(|shape| !copying.is_of(&shape)) {
            return false;
        }
        copying.send(&self.memory, &mut out);
        copying.send_queues(&self.memory, &mut out);
        let nodes = controller.give_up();
        out(copying.closing(controller.epoch(), revision, nodes));
        true
    }

    /// A message of a switch that hands over. True: that was all, and the post is to be asked.
    ///
    /// # Errors
    /// Why this switch is not its successor.
    pub fn receive(&mut self, now: Time, message: &[u8]) -> Result<bool, Unfit> {
        let shape = self.shape().ok_or(Unfit::Serves)?;
        let Some(shared) = &mut self.shared else { return Err(Unfit::Serves) };
        // At the hook a memory outlives its daemon: this one's is of a life before another switch had the post.
        if self.memory.epoch() != 0 && self.controller.is_none() && shared.serving.is_anothers() {
            let_go(&self.memory, now);
        }
        let serves = self.controller.is_some() || shared.begins.is_some() || self.memory.epoch() != 0;
        if serves || !shared.serving.stands_by() {
            return Err(Unfit::Serves);
        }
        shared.handed = None;
        let torn = shared.config.is_broken(Mutant::TakeTorn);
        match Reception::take(shared.reception.take(), &self.memory, &shape, message, torn)? {
            Came::More(reception) => shared.reception = Some(reception),
            Came::All(handed) => {
                let may = shared.serving.take_over(now, handed.revision);
                shared.handed = Some(handed);
                return if may { Ok(true) } else { Err(Unfit::Serves) };
            }
        }
        Ok(false)
    }

    fn shape(&self) -> Option<Shape> {
        Some(Shape::new(&self.memory, &self.shared.as_ref()?.config))
    }

    /// What happened since the last call.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front().or_else(|| self.controller.as_mut().and_then(Controller::notice))
    }

    fn begin(&mut self, now: Time) {
        let Some(shared) = &mut self.shared else { return };
        match Controller::new(shared.config.clone(), self.memory.clone(), shared.store.clone()) {
            Ok(mut controller) => {
                shared.begins = None;
                controller.lease = shared.lease;
                controller.has_turn(shared.serving.post().map_or(0, |post| post.revision));
                if let Some(handed) = shared.handed.take() {
                    controller.take_up(&handed);
                }
                self.controller = Some(controller);
            }
            Err(error) => {
                shared.begins = Some(now + ATTEMPT);
                self.notices.push_back(Notice::StoreFailed(error.to_string()));
            }
        }
    }
}

/// Another switch has the post, or nobody: this memory is nobody's any more.
fn let_go<M: SwitchMemory>(memory: &M, now: Time) {
    memory.serve_for(memory.moment(now), 0);
    memory.set_serving(false);
    memory.set_epoch(0);
    // What another hands over next may have a slot as it was here.
    memory.await_decisions();
}

#[cfg(test)]
mod tests;
