//! A switch's controller, while that switch serves: alone for ever, or as long as a post is its own that it shares with
//! its standbys (`serving.rs`).
//!
//! Invariants
//! * There is a controller from the moment the post was taken until another has it, and none else. It is reached only
//!   while the lease runs: what it would decide later, its successor may have decided otherwise.
//! * The lease of the switch ([`SwitchMemory::serve_for`]) is never longer than that of the post.
//! * A switch that has no post has epoch 0: it decides on nothing, whatever its memory holds. What it held before is
//!   overwritten when it is promoted.
//! * What another switch has handed over is gone on with by whom that one has left the post to: who took it at that
//!   very revision. Otherwise it is overwritten too.

use super::hand_over::{Came, Copying, Handed, NamespaceShape, Obstacle, Reception, Shape, Unfit};
use super::serving::{Answer, Change, Inquiry, Post, Question, Serving, ServingConfig};
use super::{Config, Controller, Namespace, Notice, Store, StoreError};
use crate::memory::SwitchMemory;
use crate::{Mutant, Time};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::ToString;
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
        let shared = Some(Shared { config, store, serving, begins: None, reception: None, handed: None });
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
                shared.begins = Some(now);
                self.notices.push_back(Notice::Promoted);
                self.on_tick(now);
            }
            Some(Change::Renewed(since, lease)) => {
                self.memory.serve_for(since, lease);
                self.cut_off(now);
            }
            Some(Change::End) => {
                self.memory.serve_for(self.memory.moment(now), 0);
                self.memory.set_serving(false);
                self.memory.set_epoch(0);
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
    pub fn prepare(&mut self, now: Time) -> Result<Copying, Obstacle> {
        let shape = self.shape().ok_or(Obstacle::NotServing)?;
        let post = self.post().ok_or(Obstacle::NotServing)?;
        let controller = self.controller(now).ok_or(Obstacle::NotServing)?;
        controller.may_hand_over()?;
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
        if self.controller(now).is_none_or(|controller| controller.may_hand_over().is_err()) {
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
        let revision = self.shared.as_mut().and_then(|shared| shared.serving.left_to());
        let (Some(revision), Some(controller)) = (revision, &mut self.controller) else { return false };
        if controller.may_hand_over().is_err() {
            return false;
        }
        copying.send(&self.memory, &mut out);
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
        let config = &self.shared.as_ref()?.config;
        let shape = |&Namespace { id, engine, .. }: &Namespace| NamespaceShape {
            id,
            slots: self.memory.slot_count(id),
            engine,
        };
        Some(Shape { namespaces: config.namespaces.iter().map(shape).collect(), signed: config.root.is_some() })
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

#[cfg(test)]
mod tests {
    use super::super::Post;
    use super::super::enrolment::tests::applicant;
    use super::super::hand_over::Copying;
    use super::super::tests::{Disk, Memory, config};
    use super::*;
    use crate::memory::{NodeEntry, NodeMemory, NodeWord, SlotWord};
    use alloc::rc::Rc;
    use alloc::vec::Vec;
    use wayside_wire::{BODY, Enrol, Header, Heartbeat, NodeState, SlotState, kind, padded};

    const LEASE: u64 = 300_000;
    const LEASE_OF_SESSIONS: u32 = 100_000;
    const SERVING: ServingConfig = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };

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

    type Switch = (Seat<Rc<Memory>, Disk>, Rc<Memory>);

    /// Two seats of one shard, the first of which serves with a session and a lock that it holds.
    fn two() -> [Switch; 2] {
        two_with(config())
    }

    fn two_with(config: Config) -> [Switch; 2] {
        let disk = Disk::default();
        let mut seats = [1, 2].map(|own| {
            let memory = Rc::new(Memory::default());
            let serving = ServingConfig { own, ..SERVING };
            (Seat::sharing(Time(0), config.clone(), memory.clone(), disk.clone(), serving), memory)
        });
        promoted(&mut seats[0].0, Time(1));
        let body = Enrol { nonce: 7, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        let controller = seats[0].0.controller(Time(2)).expect("it serves");
        assert!(controller.enrol(Time(2), applicant(0), 0, &body).is_ok());
        let word = SlotWord { state: SlotState::Managed, agent: 1, ..SlotWord::unheld(4) };
        seats[0].1.write_slots(1, 9, &[[word.pack(), 5]]);
        seats
    }

    /// Carries what the first has over to the second; the revision that it is left the post at.
    fn carried([(first, former), (second, _)]: &mut [Switch; 2]) -> Inquiry {
        let look = second.ask(Time(3)).expect("at once");
        second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
        let copying = first.prepare(Time(4)).expect("nothing is in its way");
        let opening = copying.opening();
        let asked: Vec<Vec<u8>> =
            core::iter::from_fn(|| first.controller(Time(4))?.transmit()).map(|(_, it)| it).collect();
        let is_turn = |packet: &Vec<u8>| Header::read(packet).unwrap().kind == kind::fabric::TURN;
        assert_eq!(asked.iter().filter(|packet| is_turn(packet)).count(), 1, "whether it would follow");
        assert!(!first.is_prepared(Time(5)), "a node has not said that it would follow");
        assert!(first.is_prepared(Time(5 + u64::from(LEASE_OF_SESSIONS) / 4)), "it is silent");
        assert!(first.stop(Time(6)) && first.controller(Time(6)).is_none());
        assert_eq!(former.lease_end.get(), Some(Time(6)), "nothing is decided on any more");
        let mut messages = alloc::vec![opening];
        assert!(first.hand_over(copying, |message| messages.push(message)));
        let last = messages.len() - 1;
        for (index, message) in messages.iter().enumerate() {
            assert_eq!(second.receive(Time(7), message), Ok(index == last));
        }
        second.ask(Time(7)).expect("it is told to take it")
    }

    #[test]
    fn what_is_handed_over_goes_on_under_its_epoch_and_is_nobodys_any_more_where_it_was() {
        let mut seats = two();
        let taken = carried(&mut seats);
        let [(_, former), (second, memory)] = &mut seats;
        assert_eq!((former.epoch(), former.serving()), (0, false), "before anybody can have taken it");
        assert_eq!((taken.question, memory.epoch()), (Question::Take(1), 0), "nor is it decided on before");
        second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
        assert_eq!((memory.epoch(), memory.serving()), (1, true));
        assert_eq!(memory.load_slot(1, 9).tenure, 4);
        assert_eq!(memory.node_word(1).state, NodeState::Live);
        let told: Vec<Vec<u8>> =
            core::iter::from_fn(|| second.controller(Time(8))?.transmit()).map(|(_, it)| it).collect();
        let [turn, policy] = &told[..] else { panic!("{told:?}") };
        assert_eq!(Header::read(policy).unwrap().kind, kind::fabric::POLICY);
        assert_eq!((Header::read(turn).unwrap().kind, Heartbeat::read(turn, BODY).sequence), (kind::fabric::TURN, 2));
    }

    #[test]
    fn what_is_taken_up_is_told_of_and_goes_on_under_its_keys() {
        let root = Some(crate::seal::Secret([42; 32]));
        let mut seats = two_with(Config { root, rotation_period: 5, ..config() });
        let memory = seats[0].1.clone();
        let former = memory.keys_of(1).expect("it has keys");
        memory.follow(1);
        seats[0].0.controller(Time(3)).expect("it serves").rotate_keys(Time(7));
        let again = memory.keys_of(1).expect("it has keys");
        assert_ne!(again, former);
        let taken = carried(&mut seats);
        let (second, memory) = &mut seats[1];
        assert!(!memory.authenticated());
        second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
        assert!(memory.authenticated());
        assert_eq!((memory.keys_of(1), memory.rotation(1)), (Some(again), 1));
        assert!(told(second).contains(&Notice::TookOver(1, 1)));
    }

    /// What was taken over is of before it.
    #[test]
    fn what_is_handed_over_is_not_gone_on_with_where_another_epoch_has_begun() {
        let mut seats = two();
        let taken = carried(&mut seats);
        let disk = seats[0].0.shared.as_ref().expect("it shares").store.clone();
        let mut third = Controller::new(config(), Rc::new(Memory::default()), disk).expect("it loads");
        third.on_tick(Time(8));
        assert_eq!(third.epoch(), 2);
        let (second, memory) = &mut seats[1];
        second.on_answer(Time(9), taken, Answer::Done(Post { holder: 2, revision: 2 }));
        assert_eq!(memory.epoch(), 3);
    }

    /// Whoever forges them, or has a larger table.
    #[test]
    fn nodes_that_the_successor_has_no_room_for_are_not_taken_up() {
        let mut seats = two();
        let (second, memory) = &mut seats[1];
        let look = second.ask(Time(3)).expect("at once");
        second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
        let entry = NodeEntry { address: "10.0.0.1:7600".parse().unwrap(), namespace: 1, incarnation: 1 };
        let word = NodeWord { state: NodeState::Live, sequence: 4 };
        let node = NodeMemory { entry, word, oldest: 0, rotation: 0 };
        let copying = Copying::new(second.shape().expect("it shares"), 1, Time(4));
        assert_eq!(second.receive(Time(5), &copying.opening()), Ok(false));
        let nodes = alloc::vec![(0, node), (1, node), (4, node)];
        assert_eq!(second.receive(Time(5), &copying.closing(1, 1, nodes)), Ok(true));
        let taken = second.ask(Time(7)).expect("it is told to take it");
        second.on_answer(Time(8), taken, Answer::Done(Post { holder: 2, revision: 2 }));
        assert_eq!([0, 1, 4].map(|handle| memory.node(handle).is_some()), [false, true, false]);
    }

    #[test]
    fn who_does_not_decide_on_locks_alone_has_nothing_to_hand_over() {
        let [(mut first, memory), (mut second, _)] = two();
        assert!(matches!(second.prepare(Time(3)), Err(Obstacle::NotServing)) && !second.stop(Time(3)), "a standby");
        memory.set_serving(false);
        assert!(matches!(first.prepare(Time(3)), Err(Obstacle::NotServing)), "it recovers");
        memory.set_serving(true);
        let copying = first.prepare(Time(3)).expect("nothing is in its way");
        assert!(!first.hand_over(copying, |_| panic!("it has not stopped")));
        let copying = first.prepare(Time(3)).expect("nothing is in its way");
        assert!(first.stop(Time(4)));
        memory.set_epoch(0);
        assert!(!first.hand_over(copying, |_| panic!("its memory is lost")));

        let queued = Namespace { id: 2, engine: wayside_wire::Engine::Queue, ..config().namespaces[0].clone() };
        let more = Config { namespaces: [config().namespaces, alloc::vec![queued]].concat(), ..config() };
        let [(mut first, memory), _] = two_with(more);
        memory.set_serving(true);
        assert!(matches!(first.prepare(Time(3)), Err(Obstacle::Queues)));
    }

    #[test]
    fn who_serves_or_begins_to_or_wants_no_post_takes_nothing_over() {
        let opening = |seat: &Seat<Rc<Memory>, Disk>| Copying::new(seat.shape().unwrap(), 1, Time(1)).opening();
        let [(mut first, _), (mut second, memory)] = two();
        assert_eq!(first.receive(Time(3), &opening(&first)), Err(Unfit::Serves));
        memory.set_epoch(1);
        assert_eq!(second.receive(Time(3), &opening(&second)), Err(Unfit::Serves), "its memory is decided on");
        memory.set_epoch(0);
        let by_hand = Shape { namespaces: second.shape().unwrap().namespaces, signed: false };
        assert_eq!(second.receive(Time(3), &Copying::new(by_hand, 1, Time(1)).opening()), Ok(false));
        second.shared.as_mut().expect("it shares").serving.resign(Time(4));
        assert_eq!(second.receive(Time(5), &opening(&second)), Err(Unfit::Serves), "it has resigned");
        // It has the post, and can't read its records.
        let (mut third, _) = seat();
        third.shared.as_ref().expect("it shares").store.full.set(true);
        promoted(&mut third, Time(1));
        third.shared.as_mut().expect("it shares").serving = Serving::new(SERVING, None);
        assert!(third.records().is_none());
        assert_eq!(third.receive(Time(2), &opening(&third)), Err(Unfit::Serves));
    }

    /// It would grant from its queues what nodes still hold by slots, since nobody would ask them.
    #[test]
    fn a_successor_whose_locks_are_by_another_engine_takes_nothing() {
        let [(mut first, _), (mut second, _)] = two();
        second.shared.as_mut().expect("a standby").config.namespaces[0].engine = wayside_wire::Engine::Queue;
        let look = second.ask(Time(3)).expect("at once");
        second.on_answer(Time(3), look, Answer::Is(Post { holder: 1, revision: 1 }));
        let copying = first.prepare(Time(4)).expect("nothing is in its way");
        assert_eq!(second.receive(Time(7), &copying.opening()), Err(Unfit::Unlike));
    }

    #[test]
    fn who_takes_the_post_in_another_way_asks_everybody() {
        let mut seats = two();
        let taken = carried(&mut seats);
        let (second, memory) = &mut seats[1];
        second.on_answer(Time(8), taken, Answer::Is(Post { holder: 0, revision: 2 }));
        let again = second.ask(Time(LEASE)).expect("it is vacant");
        second.on_answer(Time(LEASE), again, Answer::Done(Post { holder: 2, revision: 3 }));
        assert_eq!((memory.epoch(), memory.serving()), (2, false), "a census is under way");
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

    /// Nobody tells of a host's removal twice.
    #[test]
    fn a_host_that_is_removed_while_the_lease_is_over_is_cut_off_once_it_runs_again() {
        for goes_on in [true, false] {
            let memory = Rc::new(Memory::default());
            let serving = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };
            let config = Config { root: Some(crate::seal::Secret([42; 32])), ..config() };
            let mut seat = Seat::sharing(Time(0), config, memory.clone(), Disk::default(), serving);
            seat.admit_only(Time(0), BTreeSet::new());
            promoted(&mut seat, Time(1));
            let body = Enrol { nonce: 7, namespace_name: padded("default").expect("short"), ..Enrol::default() };
            let enrolled = seat.controller(Time(2)).expect("it serves").enrol(Time(2), applicant(3), 0, &body);
            assert!(enrolled.is_ok() && memory.keys_of(1).is_some(), "what a standby heard is of another time");
            let late = Time(2 * LEASE);
            let asked = seat.ask(late).expect("a renewal is due");
            seat.admit_only(late, BTreeSet::from([4]));
            assert!(memory.keys_of(1).is_some(), "another switch may serve");
            let holder = if goes_on { 1 } else { 2 };
            let post = Post { holder, revision: 2 };
            seat.on_answer(late, asked, if goes_on { Answer::Done(post) } else { Answer::Is(post) });
            assert_eq!((memory.keys_of(1).is_none(), seat.admitted.is_none()), (goes_on, true));
        }
    }

    /// At once where there is a controller, and else with it; sessions of before hosts were written down stay.
    #[test]
    fn a_host_that_is_removed_is_cut_off_as_soon_as_there_is_somebody_to_do_it() {
        let config = Config { root: Some(crate::seal::Secret([42; 32])), ..config() };
        let disk = Disk::default();
        let begun = |own| {
            let memory = Rc::new(Memory::default());
            let serving = ServingConfig { own, ..SERVING };
            (Seat::sharing(Time(0), config.clone(), memory.clone(), disk.clone(), serving), memory)
        };
        let (mut seat, memory) = begun(1);
        promoted(&mut seat, Time(1));
        for (nonce, host) in [(7, 3), (8, 0), (9, 5)] {
            let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
            let controller = seat.controller(Time(2)).expect("it serves");
            controller.enrol(Time(2), applicant(host), 0, &body).expect("there is room");
        }
        let kept = |memory: &Memory| [1, 2, 3].map(|handle| memory.keys_of(handle).is_some());
        seat.admit_only(Time(3), BTreeSet::from([3]));
        assert_eq!(kept(&memory), [true, true, false]);
        let (mut next, memory) = begun(1);
        disk.full.set(true);
        promoted(&mut next, Time(10));
        next.admit_only(Time(11), BTreeSet::from([4]));
        disk.full.set(false);
        next.on_tick(Time(10 + ATTEMPT));
        assert_eq!(kept(&memory), [false, true, false]);
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
