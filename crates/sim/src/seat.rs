//! A switch of a world, the controller beside it, the clock of their host, and the disk of their records. A world may
//! have several.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use wayside_protocol::controller::{self, Answer, Controller, Counters, Post, Question, Record, SessionRecord, Store};
use wayside_protocol::memory::{
    Line, LockServer, Moment, NodeEntry, NodeMemory, NodeWord, Part, QueuesMemory, SlotWord, Step, SwitchMemory,
};
use wayside_protocol::seal::Keys;
use wayside_protocol::{Handle, Names, Time};
use wayside_switch::{Budget, QueueConfig, Switch, SwitchConfig};
use wayside_wire::Policy;

use crate::clock::Clock;
use crate::dice::Dice;
use crate::network::Flight;
use crate::report::Counts;
use crate::setup::{SPARE_CELLS, names_of};

/// Slots with rules of their own.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its number in packets.
    pub id: u16,
    /// Its slots.
    pub slots: u32,
    /// Who goes first.
    pub policy: Policy,
    /// How often who waits is overtaken at most.
    pub patience: u8,
    /// What is decided of it at most.
    pub budget: Option<Budget>,
}

/// See the module's documentation.
pub struct Seat {
    /// Decides.
    pub switch: SharedSwitch,
    /// Survives.
    pub disk: Disk,
    /// Enrols and recovers, while it runs and has the post.
    pub office: Option<Office>,
    /// Processes of it before this one.
    pub generation: u32,
    /// What switch and controller read as the time.
    pub clock: Clock,
    /// It does not reach the register until then.
    pub register_cut_until: u64,
    /// Both are stopped until then.
    pub stopped_until: Option<u64>,
    /// What arrived meanwhile.
    pub inbox: Vec<Flight>,
    /// World time at which the controller's timer rings.
    pub timer: Option<u64>,
    /// What another processor of the switch has in hand.
    pub in_hand: Option<InHand>,
    /// The next request is to be in hand when it stops, to hand over.
    pub awaits_last: bool,
}

/// A controller and, where there are several switches, its part of the post.
pub type Office = controller::Seat<SharedSwitch, Disk>;

/// A packet whose decision has begun.
pub struct InHand {
    /// Of this decision.
    pub number: u64,
    /// The packet.
    pub flight: Flight,
    /// At which of its steps somebody else comes in between.
    pub step: u32,
    /// Its sender dies then.
    pub doomed: bool,
    /// The switch is to stop first: nobody else comes in between.
    pub last: bool,
    /// When its decision began, by the switch's clock.
    pub begun: Time,
}

/// The register that says which switch serves.
#[derive(Clone, Default)]
pub struct Register(Rc<Cell<Post>>);

impl Register {
    /// What it answers to whom.
    pub fn answer(&self, own: u64, question: Question) -> Answer {
        let post = self.0.get();
        let holder = match question {
            Question::Take(revision) if revision == post.revision => own,
            Question::Renew if post.holder == own => own,
            Question::Resign(revision) if revision == post.revision => 0,
            Question::Look | Question::Take(_) | Question::Renew | Question::Resign(_) => return Answer::Is(post),
        };
        self.0.set(Post { holder, revision: post.revision + 1 });
        Answer::Done(self.0.get())
    }
}

impl Seat {
    /// An empty switch, and no controller yet.
    pub fn new(switch: SharedSwitch, disk: Disk, clock: Clock) -> Seat {
        Seat {
            switch,
            disk,
            office: None,
            generation: 0,
            clock,
            register_cut_until: 0,
            stopped_until: None,
            inbox: Vec::new(),
            timer: None,
            in_hand: None,
            awaits_last: false,
        }
    }

    /// The controller, if this switch serves at this moment of the world.
    pub fn controller(&mut self, now: u64) -> Option<&mut Controller<SharedSwitch, Disk>> {
        let time = self.clock.at(now);
        self.office.as_mut().and_then(|office| office.controller(time))
    }

    /// What the controller knows, whether it may act or not.
    pub fn records(&self) -> Option<&Controller<SharedSwitch, Disk>> {
        self.office.as_ref().and_then(Office::records)
    }
}

/// The real core over memory that can be lost.
#[derive(Clone)]
pub struct SharedSwitch {
    namespaces: Rc<[Namespace]>,
    queues: Rc<RefCell<Vec<(u16, u64, u32)>>>,
    /// Namespaces whose policy is another one by now.
    policies: Rc<RefCell<BTreeMap<u16, Policy>>>,
    max_handle: u16,
    authenticated: bool,
    switch: Rc<RefCell<Rc<Switch>>>,
    /// It goes on when its serving lease is over.
    #[cfg(feature = "mutants")]
    pub overstays: bool,
    /// Queues, and 16 times as many cells, that have no name at first.
    spare: u32,
    /// Steps of moves that were taken.
    steps: Rc<RefCell<Counts>>,
    /// It hands over locks that somebody holds.
    #[cfg(feature = "mutants")]
    pub hands_held: bool,
    /// It gives away the region of a queue that drains.
    #[cfg(feature = "mutants")]
    pub reuses_regions: bool,
}

impl SharedSwitch {
    /// An empty one.
    pub fn new(
        namespaces: &[Namespace],
        queues: &[(u16, u64, u32)],
        max_handle: u16,
        authenticated: bool,
        spare: u32,
    ) -> SharedSwitch {
        let switch = Rc::new(RefCell::new(Rc::new(fresh(namespaces, queues, max_handle, authenticated, spare))));
        SharedSwitch {
            namespaces: namespaces.into(),
            queues: Rc::new(RefCell::new(queues.to_vec())),
            policies: Rc::default(),
            max_handle,
            authenticated,
            switch,
            spare,
            steps: Rc::default(),
            #[cfg(feature = "mutants")]
            overstays: false,
            #[cfg(feature = "mutants")]
            hands_held: false,
            #[cfg(feature = "mutants")]
            reuses_regions: false,
        }
    }

    /// Restarts with an empty memory. The counters of its life go to `counts`.
    pub fn restart(&self, counts: &mut Counts) {
        self.collect(counts);
        *self.switch.borrow_mut() =
            Rc::new(fresh(&self.namespaces, &self.queues.borrow(), self.max_handle, self.authenticated, self.spare));
        self.policies.borrow().iter().for_each(|(namespace, policy)| self.now().set_policy(*namespace, *policy));
    }

    /// Who goes first in a namespace, now and after every restart.
    pub fn set_policy(&self, namespace: u16, policy: Policy) {
        self.policies.borrow_mut().insert(namespace, policy);
        self.now().set_policy(namespace, policy);
    }

    /// From the next restart on it has these queues.
    pub fn relist(&self, queues: &[(u16, u64, u32)]) {
        *self.queues.borrow_mut() = queues.to_vec();
    }

    /// Which names of a namespace have a queue when it starts.
    pub fn listed(&self, namespace: u16) -> Names {
        names_of(&self.queues.borrow(), namespace).unwrap_or_default()
    }

    /// Adds its counters.
    pub fn collect(&self, counts: &mut Counts) {
        for (name, count) in self.now().counters() {
            *counts.entry(name).or_default() += count;
        }
        for (name, count) in std::mem::take(&mut *self.steps.borrow_mut()) {
            *counts.entry(name).or_default() += count;
        }
    }

    /// The switch as it is: what decides on it may go on when it has been restarted, and changes nothing then.
    pub fn now(&self) -> Rc<Switch> {
        self.switch.borrow().clone()
    }

    /// The namespaces and their slots.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    fn with<R>(&self, work: impl FnOnce(&Switch) -> R) -> R {
        work(&self.switch.borrow())
    }
}

/// As a daemon makes it: it knows whether there are tags before anybody can send it a packet.
fn fresh(
    namespaces: &[Namespace],
    queues: &[(u16, u64, u32)],
    max_handle: u16,
    authenticated: bool,
    spare: u32,
) -> Switch {
    let slots = namespaces.iter().map(|namespace| namespace.slots).sum();
    let cells = queues.iter().map(|(_, _, cells)| cells).sum::<u32>() + SPARE_CELLS * spare;
    let config = QueueConfig { queues: queues.len() as u32 + spare, cells, seed: 1 };
    let switch = Switch::new(SwitchConfig { slots, max_handle }).with_queues(config);
    switch.set_authenticated(authenticated);
    for &Namespace { id, slots, policy, budget, .. } in namespaces {
        switch.add_namespace(id, slots, policy).expect("the switch is as large as its namespaces");
        switch.set_budget(id, budget);
    }
    let mut shape = 1;
    for &(namespace, name, cells) in queues {
        switch.add_queue(namespace, name, cells, 1).expect("there is room for all of them");
        shape = Dice::of(shape, &[name, namespace.into(), cells.into()]).any();
    }
    switch.set_queue_shape(shape);
    switch
}

impl SwitchMemory for SharedSwitch {
    fn epoch(&self) -> u32 {
        self.with(SwitchMemory::epoch)
    }
    fn set_epoch(&self, epoch: u32) {
        self.with(|switch| switch.set_epoch(epoch));
    }
    fn is_new(&self) -> bool {
        self.with(SwitchMemory::is_new)
    }
    fn await_decisions(&self) {
        self.with(SwitchMemory::await_decisions);
    }
    fn serving(&self) -> bool {
        self.with(SwitchMemory::serving)
    }
    fn set_serving(&self, serving: bool) {
        self.with(|switch| switch.set_serving(serving));
    }
    fn moment(&self, now: Time) -> Moment {
        self.with(|switch| switch.moment(now))
    }
    fn serve_for(&self, since: Moment, lease: u64) {
        #[cfg(feature = "mutants")]
        if self.overstays && lease > 0 {
            return self.serve_without_end();
        }
        self.with(|switch| switch.serve_for(since, lease));
    }
    fn serve_without_end(&self) {
        self.with(SwitchMemory::serve_without_end);
    }
    fn slot_count(&self, namespace: u16) -> u32 {
        self.with(|switch| switch.slot_count(namespace))
    }
    fn load_slot(&self, namespace: u16, slot: u32) -> SlotWord {
        self.with(|switch| switch.load_slot(namespace, slot))
    }
    fn next_busy(&self, namespace: u16, from: u32, end: u32) -> u32 {
        self.with(|switch| switch.next_busy(namespace, from, end))
    }
    fn cas_slot(&self, namespace: u16, slot: u32, expected: SlotWord, new: SlotWord) -> bool {
        self.with(|switch| switch.cas_slot(namespace, slot, expected, new))
    }
    fn read_slots(&self, namespace: u16, from: u32, into: &mut [[u64; 2]]) {
        self.with(|switch| switch.read_slots(namespace, from, into));
    }
    fn write_slots(&self, namespace: u16, from: u32, words: &[[u64; 2]]) {
        self.with(|switch| switch.write_slots(namespace, from, words));
    }
    fn max_handle(&self) -> u16 {
        self.max_handle
    }
    fn node_word(&self, handle: u16) -> NodeWord {
        self.with(|switch| switch.node_word(handle))
    }
    fn cas_node_word(&self, handle: u16, expected: NodeWord, new: NodeWord) -> bool {
        self.with(|switch| switch.cas_node_word(handle, expected, new))
    }
    fn set_node(&self, handle: u16, entry: &NodeEntry) {
        self.with(|switch| switch.set_node(handle, entry));
    }
    fn node(&self, handle: u16) -> Option<NodeMemory> {
        self.with(|switch| switch.node(handle))
    }
    fn take_up_node(&self, handle: u16, node: &NodeMemory) {
        self.with(|switch| switch.take_up_node(handle, node));
    }
    fn lock_server(&self, namespace: u16, part: u16) -> LockServer {
        self.with(|switch| switch.lock_server(namespace, part))
    }
    fn set_lock_server(&self, namespace: u16, part: Part, handle: u16) {
        self.with(|switch| switch.set_lock_server(namespace, part, handle));
    }
    fn read_lines(&self, namespace: u16, into: &mut Vec<Line>) {
        self.with(|switch| switch.read_lines(namespace, into));
    }
    fn line(&self, namespace: u16, name: u64) -> Option<Line> {
        self.with(|switch| switch.line(namespace, name))
    }
    fn step(&self, namespace: u16, name: u64, step: Step) -> bool {
        #[cfg(feature = "mutants")]
        if self.hands_held && step == Step::Hand {
            self.with(|switch| switch.empty_queue(namespace, name));
        }
        let is_taken = self.with(|switch| switch.step(namespace, name, step));
        #[cfg(feature = "mutants")]
        if self.reuses_regions && step == Step::Drain && is_taken {
            self.with(|switch| switch.lose_region(namespace, name));
        }
        let counted = match step {
            Step::Open { .. } => "lock moved to the switch",
            Step::Remove => "lock moved to its server",
            Step::Stay => "queue drained in vain",
            _ => return is_taken,
        };
        *self.steps.borrow_mut().entry(counted).or_default() += u64::from(is_taken);
        is_taken
    }
    fn queue_shape(&self) -> u64 {
        self.with(SwitchMemory::queue_shape)
    }
    fn queue_room(&self) -> [u32; 2] {
        self.with(SwitchMemory::queue_room)
    }
    fn queues_memory(&self, namespace: u16) -> QueuesMemory {
        self.with(|switch| switch.queues_memory(namespace))
    }
    fn take_up_queues(&self, all: &BTreeMap<u16, QueuesMemory>) -> bool {
        self.with(|switch| switch.take_up_queues(all))
    }
    fn session_over(&self, handle: u16, incarnation: Option<u64>) {
        self.with(|switch| switch.session_over(handle, incarnation));
    }
    fn authenticated(&self) -> bool {
        self.with(SwitchMemory::authenticated)
    }
    fn set_authenticated(&self, authenticated: bool) {
        self.with(|switch| switch.set_authenticated(authenticated));
    }
    fn set_keys(&self, handle: u16, first: Option<&Keys>) {
        self.with(|switch| switch.set_keys(handle, first));
    }
    fn rotation(&self, handle: u16) -> u32 {
        self.with(|switch| switch.rotation(handle))
    }
    fn has_followed(&self, handle: u16) -> bool {
        self.with(|switch| switch.has_followed(handle))
    }
    fn rotate(&self, handle: u16, next: &Keys) {
        self.with(|switch| switch.rotate(handle, next));
    }
    fn take_up_keys(&self, handle: u16, rotation: u32, latest: &Keys, former: Option<&Keys>) {
        self.with(|switch| switch.take_up_keys(handle, rotation, latest, former));
    }
}

/// What a disk does with a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Writes it.
    #[default]
    None,
    /// Fails, and writes nothing.
    Fails,
    /// Fails after it has written all.
    FailsLate,
}

/// A disk that survives its controllers, or what several of them share and only he may write who has the post.
#[derive(Clone, Default)]
pub struct Disk {
    records: Rc<RefCell<BTreeMap<u32, Vec<u8>>>>,
    trouble: Rc<Cell<Trouble>>,
    post: Option<(u64, Register)>,
}

impl Disk {
    /// With these records on it.
    pub fn new(records: Option<Counters>) -> Disk {
        let disk = Disk::default();
        disk.records.borrow_mut().extend(records.map(|counters| counters.encode()));
        disk
    }

    /// The same records, for one of those who share them.
    pub fn shared(&self, own: u64, register: &Register) -> Disk {
        Disk { trouble: Rc::default(), post: Some((own, register.clone())), ..self.clone() }
    }

    /// What the controller has written down of a handle's session.
    pub fn session(&self, handle: Handle) -> Option<SessionRecord> {
        SessionRecord::decode(self.records.borrow().get(&handle.into())?)
    }

    /// From now on it works like this.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.trouble.set(trouble);
    }
}

impl Store for Disk {
    type Error = &'static str;
    fn load(&mut self) -> Result<Vec<Record>, Self::Error> {
        Ok(self.records.borrow().iter().map(|(key, value)| (*key, value.clone())).collect())
    }
    fn commit(&mut self, batch: &[Record]) -> Result<(), Self::Error> {
        let Disk { trouble, post, .. } = self;
        if post.as_ref().is_some_and(|(own, Register(post))| post.get().holder != *own) {
            return Err("the post is another's");
        }
        let trouble = trouble.get();
        if trouble != Trouble::Fails {
            self.records.borrow_mut().extend(batch.iter().cloned());
        }
        if trouble == Trouble::None { Ok(()) } else { Err("the disk is in trouble") }
    }
}
