//! The controller's thread: the sans-I/O `Controller` with a clock, the state directory and the switch's socket.
//!
//! Packets come from the workers through a bounded channel, which they never wait for; what the control connections
//! ask comes through lists of its own, because a closed lifeline must not be lost. What the shard's other switches say
//! comes through a channel of its own: a burst of packets, some of which wait for etcd, would look like their
//! silence otherwise. All wake the thread.
//!
//! Invariant: between two things that may wait for etcd, or take long, the thread hears the post and the other
//! switches, and renews what is due ([`Desk::attend`]): or the same burst would look like the silence of this switch.

use super::clock;
use super::etcd::Shard;
use super::etcd::fabric::{Changes, Listed};
use super::keys::Keys;
use super::metrics::{Ledger, Numbers};
use super::namespaces::{Namespaces, Numbered, lay_out};
use super::questions::{Asker, Knows, Question, Questions, Wanted};
use super::records::Records;
use crate::admission::Admission;
use crate::answers::{Chains as ChainsAnswer, Keys as KeyList, Role, Session};
use std::collections::{HashSet, VecDeque};
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use wayside_protocol::Time;
use wayside_protocol::chain::FELLOWS;
use wayside_protocol::controller::{
    Answer, Applicant, Controller, Copying, Disobeyed, DivisionView, Inquiry, NotServing, Notice, Order, PlanView,
    Seat, SessionView, Unfit, is_enrol,
};
use wayside_protocol::seal::Enrolment;
use wayside_switch::Switch;
use wayside_wire::limits::MAX_PACKET_BYTES;
use wayside_wire::{Enrol, Policy, Refusal};

/// Packets that may wait for the controller: a burst of enrolments, at 1.1 KiB each. What is lost is sent again.
pub const BACKLOG: usize = 1024;

/// ENROLs that are heard together, and wait for one commit: what they write fits into one of etcd's transactions.
const TOGETHER: usize = super::etcd::BATCH / 2;

/// Between complaints about the store, in microseconds.
const COMPLAINT: u64 = 1_000_000;

/// Of these places a tenant may have so many at a time: what floods the controller with its packets delays those of
/// another by no more than this, and keeps none out.
pub const SHARE: u16 = (BACKLOG / 4) as u16;
/// Tenants are told apart by the namespace of the packet's source; who has no session yet is of none.
const TENANTS: usize = 1 << 16;

/// A packet for the controller, by value: the channel's memory is allocated once.
pub struct Packet {
    /// Whose place it has.
    tenant: usize,
    from: SocketAddrV4,
    length: u16,
    bytes: [u8; MAX_PACKET_BYTES],
}

impl Packet {
    fn of(tenant: usize, from: SocketAddrV4, packet: &[u8]) -> Packet {
        let mut bytes = [0; MAX_PACKET_BYTES];
        bytes[..packet.len()].copy_from_slice(packet);
        Packet { tenant, from, length: packet.len() as u16, bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

/// What wakes the thread: a packet, or (None) a request.
pub type Event = Option<Packet>;

/// What the control connections want of the controller.
enum Request {
    /// The secret of a live session, by its handle.
    Lifeline(u16, oneshot::Sender<Option<u64>>),
    Enrol {
        who: Applicant,
        shards: u32,
        body: Box<Enrol>,
        answer: oneshot::Sender<Result<Enrolment, Refusal>>,
    },
    /// What this shard has of the map of all shards; None: another switch of the shard serves.
    Division(oneshot::Sender<Option<DivisionView>>),
    /// What an operator says of it.
    Divide(Box<Order>, oneshot::Sender<Option<Result<(), Disobeyed>>>),
    /// The hosts that may enrol now.
    Admitted(HashSet<u64>),
    /// Of a namespace, and its patience.
    Policy(u16, Policy, u8),
    /// One more, and the lease of sessions in it that ask for none.
    AddNamespace(Box<Numbered>, Duration, oneshot::Sender<Result<(), String>>),
    /// What has changed at the other switches of the shard.
    Changes(Changes),
    /// Lets groups that are lost begin empty; answered by how many there were.
    RecoverChains(oneshot::Sender<Option<usize>>),
    /// A switch's entry in etcd, by its address.
    Listed(String, oneshot::Sender<Option<(Shard, Listed)>>),
    /// Makes room for a standby; answered once that is done.
    Drain(oneshot::Sender<()>),
    /// The steps of a hand-over: `hand_over.rs`.
    Prepare(oneshot::Sender<Result<Copying, NotServing>>),
    IsPrepared(oneshot::Sender<bool>),
    StopServing(oneshot::Sender<bool>),
    HandOver(Box<Copying>, UnboundedSender<Vec<u8>>, oneshot::Sender<bool>),
    /// Answered once the post is another's.
    IsSucceeded(oneshot::Sender<()>),
    /// A message of another switch that hands over.
    Receive(Vec<u8>, oneshot::Sender<Result<bool, Unfit>>),
    Stop,
}

/// Where the controller is reached by the other threads.
#[derive(Clone)]
pub struct Inbox {
    events: SyncSender<Event>,
    /// From other switches of the shard.
    fellows: SyncSender<Packet>,
    shared: Arc<Shared>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    /// The thread has been woken for what other switches say, and has not looked yet.
    is_called: AtomicBool,
    overflowed: AtomicU64,
    role: Mutex<Role>,
    /// Places that each tenant has.
    places: Box<[AtomicU16]>,
}

/// What other threads have left for the controller's.
#[derive(Default)]
struct Waiting {
    /// What the post says, and where the switch is that has it.
    post: Vec<(Inquiry, Answer, Option<SocketAddrV4>)>,
    /// Sessions, and their lifelines, which have closed. They stay while the lease of the post is over: nobody tells of
    /// them again.
    closed: Vec<(u16, u64)>,
    questions: Vec<Question>,
    /// One at a time.
    requests: VecDeque<Request>,
}

/// Who asks for a session over a secure connection: and where the answer goes.
type Asked = ((Applicant, u32, Enrol), oneshot::Sender<Result<Enrolment, Refusal>>);

impl Waiting {
    /// If that is what is next.
    fn next_enrol(&mut self) -> Option<Asked> {
        match self.requests.pop_front()? {
            Request::Enrol { who, shards, body, answer } => Some(((who, shards, *body), answer)),
            other => {
                self.requests.push_front(other);
                None
            }
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    /// An inbox, and the ends that the controller's thread reads: the second has what other switches say.
    pub fn with_channels() -> (Inbox, Receiver<Event>, Receiver<Packet>) {
        let (events, receiver) = sync_channel(BACKLOG);
        let (fellows, said) = sync_channel(BACKLOG);
        let shared = Shared {
            waiting: Mutex::default(),
            is_called: AtomicBool::new(false),
            overflowed: AtomicU64::new(0),
            role: Mutex::default(),
            places: (0..=TENANTS).map(|_| AtomicU16::new(0)).collect(),
        };
        (Inbox { events, fellows, shared: Arc::new(shared) }, receiver, said)
    }

    /// Hands a packet over, or drops and counts it where the controller is too far behind, or its tenant has its share
    /// of what waits there. `tenant`: the namespace of its source, as the switch knows it.
    pub fn packet(&self, from: SocketAddrV4, tenant: Option<u16>, packet: &[u8]) {
        if tenant == Some(FELLOWS) {
            return self.fellow(from, packet);
        }
        let tenant = tenant.map_or(TENANTS, usize::from);
        let places = &self.shared.places[tenant];
        let takes = |taken: u16| (taken < SHARE).then_some(taken + 1);
        if places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, takes).is_err() {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let packet = Packet::of(tenant, from, packet);
        if self.events.try_send(Some(packet)).is_err() {
            places.fetch_sub(1, Ordering::Relaxed);
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fellow(&self, from: SocketAddrV4, packet: &[u8]) {
        if self.fellows.try_send(Packet::of(usize::from(FELLOWS), from, packet)).is_err() {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
        } else if !self.shared.is_called.swap(true, Ordering::SeqCst) {
            // A full channel wakes the thread as well.
            let _ = self.events.try_send(None);
        }
    }

    /// From here on what other switches say wakes the thread again.
    pub fn listens(&self) {
        self.shared.is_called.store(false, Ordering::SeqCst);
    }

    /// A packet that was handed over has been taken: its place is free.
    pub fn took(&self, packet: &Packet) {
        self.shared.places[packet.tenant].fetch_sub(1, Ordering::Relaxed);
    }

    /// Packets that found the channel, or their tenant's share of it, full.
    pub fn overflowed(&self) -> u64 {
        self.shared.overflowed.load(Ordering::Relaxed)
    }

    /// What this switch is now.
    pub fn role(&self) -> Role {
        *self.shared.role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves no more, so that a standby may; returns when that one need not wait.
    pub async fn drain(&self) {
        let (done, drained) = oneshot::channel();
        self.request(Request::Drain(done));
        // The thread has ended.
        let _ = drained.await;
    }

    /// Begins to hand over.
    pub async fn prepare(&self) -> Result<Copying, String> {
        let (answer, copying) = oneshot::channel();
        self.request(Request::Prepare(answer));
        let copying = copying.await.map_err(|_| "the daemon is ending".to_owned())?;
        copying.map_err(|obstacle| obstacle.to_string())
    }

    /// Whether it may stop now, to hand over.
    pub async fn is_prepared(&self) -> bool {
        let (answer, prepared) = oneshot::channel();
        self.request(Request::IsPrepared(answer));
        prepared.await.unwrap_or(false)
    }

    /// Ends the serving lease, to hand over. False: it does not run.
    pub async fn stop_serving(&self) -> bool {
        let (answer, stopped) = oneshot::channel();
        self.request(Request::StopServing(answer));
        stopped.await.unwrap_or(false)
    }

    /// Nothing decides any more: sends the rest of the memory, which is nobody's from then on.
    pub async fn hand_over(&self, copying: Copying, messages: UnboundedSender<Vec<u8>>) -> bool {
        let (answer, handed) = oneshot::channel();
        self.request(Request::HandOver(Box::new(copying), messages, answer));
        handed.await.unwrap_or(false)
    }

    /// Returns when this switch does not have the post any more.
    pub async fn is_succeeded(&self) {
        let (answer, succeeded) = oneshot::channel();
        self.request(Request::IsSucceeded(answer));
        // The thread has ended.
        let _ = succeeded.await;
    }

    /// A message of another switch that hands over. True: that was all.
    pub async fn receive(&self, message: Vec<u8>) -> Result<bool, String> {
        let (answer, taken) = oneshot::channel();
        self.request(Request::Receive(message, answer));
        let taken = taken.await.map_err(|_| "the daemon is ending".to_owned())?;
        taken.map_err(|unfit| unfit.to_string())
    }

    /// The secret of a live session; None: there is none with this handle.
    pub async fn lifeline(&self, handle: u16) -> Option<u64> {
        let (answer, lifeline) = oneshot::channel();
        self.request(Request::Lifeline(handle, answer));
        lifeline.await.ok().flatten()
    }

    /// The lifeline of this session closed.
    pub fn closed(&self, handle: u16, lifeline: u64) {
        self.leave(|waiting| waiting.closed.push((handle, lifeline)));
    }

    /// The live sessions, by handle.
    pub async fn sessions(&self) -> Vec<Session> {
        self.ask(Question::Sessions).await.unwrap_or_default()
    }

    /// Keys of a namespace that begin so; None: there is no such namespace.
    pub async fn keys(&self, namespace: String, prefix: String) -> Option<KeyList> {
        self.ask(|asker| Question::Keys(Wanted { namespace, prefix }, asker)).await.flatten()
    }

    /// What has changed at the other switches.
    pub fn changes(&self, changes: Changes) {
        self.request(Request::Changes(changes));
    }

    /// Chains and switches; None: another switch knows, or there is none besides this one.
    pub async fn chains(&self) -> Option<ChainsAnswer> {
        self.ask(Question::Chains).await.flatten()
    }

    /// Lets groups that are lost begin empty. How many there were; None: another switch knows.
    pub async fn recover_chains(&self) -> Option<usize> {
        let (answer, recovered) = oneshot::channel();
        self.request(Request::RecoverChains(answer));
        recovered.await.ok().flatten()
    }

    /// A switch's entry in etcd, by its address.
    pub async fn listed(&self, address: String) -> Option<(Shard, Listed)> {
        let (answer, listed) = oneshot::channel();
        self.request(Request::Listed(address, answer));
        listed.await.ok().flatten()
    }

    /// Which locks have their queue in the switch, and why, of all namespaces whose locks are queues.
    pub async fn plans(&self) -> Vec<PlanView> {
        self.ask(Question::Plans).await.unwrap_or_default()
    }

    /// For a scrape; None once the thread has ended.
    pub async fn numbers(&self) -> Option<Numbers> {
        self.ask(Question::Numbers).await
    }

    /// Begins a session for a node whose host has shown who it is.
    ///
    /// # Errors
    /// The controller's reason.
    pub async fn enrol(&self, who: Applicant, shards: u32, body: Enrol) -> Result<Enrolment, Refusal> {
        let (answer, session) = oneshot::channel();
        self.request(Request::Enrol { who, shards, body: Box::new(body), answer });
        // The daemon is ending.
        session.await.unwrap_or(Err(Refusal::Recovering))
    }

    /// What this shard has of the map of all shards; None: another switch of the shard serves.
    pub async fn division(&self) -> Option<DivisionView> {
        let (answer, division) = oneshot::channel();
        self.request(Request::Division(answer));
        division.await.ok().flatten()
    }

    /// Does what an operator says of it; None: another switch of the shard serves.
    pub async fn divide(&self, order: Order) -> Option<Result<(), Disobeyed>> {
        let (answer, done) = oneshot::channel();
        self.request(Request::Divide(Box::new(order), answer));
        done.await.ok().flatten()
    }

    /// These hosts may enrol: sessions of others are cut off.
    pub fn admit_only(&self, hosts: HashSet<u64>) {
        self.request(Request::Admitted(hosts));
    }

    /// From now on a namespace's nodes decide so.
    pub fn set_policy(&self, namespace: u16, policy: Policy, patience: u8) {
        self.request(Request::Policy(namespace, policy, patience));
    }

    /// Takes in a namespace. `lease`: of sessions that ask for none.
    ///
    /// # Errors
    /// Why it can't be; nothing has changed then.
    pub async fn add_namespace(&self, namespace: Numbered, lease: Duration) -> Result<(), String> {
        let (answer, added) = oneshot::channel();
        self.request(Request::AddNamespace(Box::new(namespace), lease, answer));
        added.await.map_err(|_| "the daemon is ending".to_owned())?
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.request(Request::Stop);
    }

    /// None once the thread has ended.
    async fn ask<T: Clone>(&self, question: impl FnOnce(Asker<T>) -> Question) -> Option<T> {
        let (asker, answer) = oneshot::channel();
        let question = question(asker);
        self.leave(|waiting| waiting.questions.push(question));
        answer.await.ok().map(Arc::unwrap_or_clone)
    }

    fn request(&self, request: Request) {
        self.leave(|waiting| waiting.requests.push_back(request));
    }

    fn leave(&self, put: impl FnOnce(&mut Waiting)) {
        put(&mut self.shared.waiting());
        // A full channel wakes the thread as well.
        if let Err(TrySendError::Disconnected(_)) = self.events.try_send(None) {
            *self.shared.waiting() = Waiting::default();
        }
    }
}

/// Slots that were frozen and work again, since the last time that none was left to recover.
#[derive(Default)]
struct Recovered {
    adopted: u64,
    unheld: u64,
}

/// The thread's state.
pub struct Desk {
    seat: Seat<Arc<Switch>, Records>,
    /// The chain service.
    keys: Keys,
    /// Where the post is, unless the switch is alone.
    shard: Option<Shard>,
    /// Who waits for it to be given up.
    draining: Vec<oneshot::Sender<()>>,
    /// Which hosts are let in, where packets are signed.
    pub admission: Option<Admission>,
    inbox: Inbox,
    namespaces: Arc<Namespaces>,
    socket: Arc<UdpSocket>,
    events: Receiver<Event>,
    fellows: Receiver<Packet>,
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    questions: Questions,
    recovered: Recovered,
    /// When a failure of the store may be logged again: it is met at every tick.
    next_complaint: Time,
}

impl Desk {
    pub fn new(
        seat: Seat<Arc<Switch>, Records>,
        keys: Keys,
        shard: Option<Shard>,
        namespaces: Arc<Namespaces>,
        socket: Arc<UdpSocket>,
        ledger: Arc<Ledger>,
    ) -> (Desk, Inbox) {
        let (inbox, events, fellows) = Inbox::with_channels();
        let shared = Arc::clone(&inbox.shared);
        let desk = Desk {
            seat,
            keys,
            shard,
            draining: Vec::new(),
            admission: None,
            inbox: inbox.clone(),
            namespaces,
            socket,
            events,
            fellows,
            shared,
            ledger,
            questions: Questions::default(),
            recovered: Recovered::default(),
            next_complaint: Time(0),
        };
        desk.set_role(None);
        (desk, inbox)
    }

    /// Lets the controller do what is due and sends what it has to say.
    pub fn settle(&mut self) {
        self.ask_post();
        self.seat.on_tick(clock::now());
        self.end_closed(clock::now());
        while let Some((to, packet)) = self.seat.controller(clock::now()).and_then(Controller::transmit) {
            // Lost like any packet: the controller sends it again.
            if let Err(error) = self.socket.send_to(&packet, to) {
                tracing::debug!(%to, %error, "the controller's packet was not sent");
            }
        }
        self.note_role();
        self.keys.settle(clock::now(), self.seat.serves_until(), &self.socket);
        self.ledger.note_keys(self.keys.swept());
        while let Some(notice) = self.seat.notice() {
            if let Notice::Serving(epoch) = notice {
                self.keys.serve_under(epoch);
            }
            if let Notice::Rotated(handle) = notice {
                self.share_rotation(handle);
            }
            self.ledger.note(&notice);
            self.log(&notice);
        }
        self.sum_up();
    }

    /// Asks the post, if that is due: before anything that waits for etcd, which may last until it has answered.
    fn ask_post(&mut self) {
        if let Some(shard) = &self.shard
            && let Some(inquiry) = self.seat.ask(clock::now())
        {
            let inbox = self.inbox.clone();
            shard.ask(inquiry, move |inquiry, answer, holder| {
                inbox.leave(|waiting| waiting.post.push((inquiry, answer, holder)));
            });
        }
    }

    /// Takes in what the post has answered meanwhile.
    fn hear_post(&mut self) {
        let answers = std::mem::take(&mut self.shared.waiting().post);
        for (inquiry, answer, holder) in answers {
            if let Some(shard) = &self.shard {
                shard.heard(&inquiry, answer);
            }
            self.seat.on_answer(clock::now(), inquiry, answer);
            if answer != Answer::Unknown {
                self.set_role(holder);
            }
        }
    }

    /// Takes in what the shard's other switches have said meanwhile.
    fn hear_fellows(&mut self) {
        self.inbox.listens();
        while let Ok(packet) = self.fellows.try_recv() {
            self.keys.on_packet(clock::now(), packet.from, packet.bytes());
        }
    }

    /// What must not wait for what else there is to do: whoever would take this switch's silence for its end is heard
    /// and answered.
    fn attend(&mut self) {
        self.hear_post();
        self.hear_fellows();
        self.settle();
    }

    /// Who keeps the sessions' table: the controller, or the roster.
    fn note_role(&mut self) {
        if let Some(chains) = &mut self.keys.chains {
            chains.note_role(self.seat.records().is_some());
        }
    }

    /// The shard's other switches are to know a session's new keys.
    fn share_rotation(&self, handle: u16) {
        let Some(controller) = self.seat.records() else { return };
        if let Some(incarnation) = controller.incarnation_of(handle) {
            self.keys.note_rotation(handle, incarnation, controller.epoch());
        }
    }

    /// One line for all slots of a dead node, or of several.
    fn sum_up(&mut self) {
        let Recovered { adopted, unheld } = self.recovered;
        let none_left = || self.seat.records().is_none_or(|controller| controller.recovering() == (0, 0));
        if adopted + unheld > 0 && none_left() {
            self.recovered = Recovered::default();
            tracing::info!(adopted, unheld, "slots recovered");
        }
    }

    /// Runs until `Inbox::stop`.
    pub fn run(mut self) {
        loop {
            let event = self.events.recv_timeout(self.idle());
            self.hear_post();
            self.hear_fellows();
            match event {
                Ok(Some(packet)) if is_enrol(packet.bytes()) => self.hear_enrols(packet),
                Ok(Some(packet)) => self.hear(&packet),
                Ok(None) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.attend();
            let request = self.shared.waiting().requests.pop_front();
            match request {
                Some(Request::Stop) => return self.keys.leave(clock::now(), &self.socket),
                Some(request) => {
                    self.serve(request);
                    self.attend();
                }
                None => {}
            }
            self.answer();
        }
    }

    fn hear(&mut self, packet: &Packet) {
        self.inbox.took(packet);
        let (now, bytes) = (clock::now(), packet.bytes());
        // Of a standby nobody can want anything but about keys: whoever serves hears it when it is sent again.
        if !self.keys.on_packet(now, packet.from, bytes)
            && let Some(controller) = self.seat.controller(now)
        {
            controller.on_packet(now, packet.from, bytes);
        }
    }

    /// Takes the ENROLs behind the first one, too: where each waited for the store by itself, nodes that begin together
    /// gave up before it was their turn, asked anew, and those that were told of a session were gone.
    fn hear_enrols(&mut self, first: Packet) {
        let mut enrols = vec![first];
        let mut other = None;
        while enrols.len() < TOGETHER && other.is_none() {
            match self.events.try_recv() {
                Ok(Some(packet)) if is_enrol(packet.bytes()) => enrols.push(packet),
                Ok(event) => other = event,
                Err(_) => break,
            }
        }
        enrols.iter().for_each(|packet| self.inbox.took(packet));
        let now = clock::now();
        if let Some(controller) = self.seat.controller(now) {
            controller.on_enrols(now, enrols.iter().map(|packet| (packet.from, packet.bytes())));
        }
        if let Some(packet) = other {
            self.attend();
            self.hear(&packet);
        }
    }

    /// How long there may be nothing to do.
    fn idle(&self) -> Duration {
        if self.questions.are_open() || !self.shared.waiting().requests.is_empty() {
            return Duration::ZERO;
        }
        let now = clock::now();
        Duration::from_micros(self.seat.next_timer(now).min(self.keys.next_timer()).since(now))
    }

    /// Answers those who only want to know.
    fn answer(&mut self) {
        let asked = std::mem::take(&mut self.shared.waiting().questions);
        if asked.is_empty() && !self.questions.are_open() {
            return;
        }
        let mut questions = std::mem::take(&mut self.questions);
        for question in asked {
            questions.add(question);
        }
        questions.answer(self);
        self.questions = questions;
        self.attend();
    }

    fn serve(&mut self, request: Request) {
        let now = clock::now();
        match request {
            // Whoever asked may be gone.
            Request::Lifeline(handle, answer) => {
                let _ = answer.send(self.lifeline_of(handle));
            }
            Request::Enrol { who, shards, body, answer } => self.enrol(now, ((who, shards, *body), answer)),
            Request::Division(answer) => {
                let _ = answer.send(self.seat.controller(now).map(|controller| controller.division()));
            }
            Request::Divide(order, answer) => {
                let _ = answer.send(self.seat.controller(now).map(|controller| controller.redivide(&order)));
            }
            Request::Admitted(hosts) => self.admit_only(hosts),
            Request::Policy(namespace, policy, patience) => self.seat.set_policy(now, namespace, policy, patience),
            Request::AddNamespace(namespace, lease, answer) => {
                let _ = answer.send(self.add_namespace(now, &namespace, lease));
            }
            Request::Changes(changes) => self.keys.on_changes(now, changes),
            Request::RecoverChains(answer) => {
                let _ = answer.send(self.keys.chains.as_mut().and_then(|chains| chains.recover(now)));
            }
            Request::Listed(address, answer) => {
                let _ = answer.send(self.keys.chains.as_ref().and_then(|chains| chains.listed(&address)));
            }
            Request::Drain(done) => {
                // Without a post there is nobody to make room for.
                if self.seat.drain(now) {
                    self.draining.push(done);
                }
            }
            Request::Prepare(answer) => drop(answer.send(self.seat.prepare(now))),
            Request::IsPrepared(answer) => drop(answer.send(self.seat.is_prepared(now))),
            Request::StopServing(answer) => drop(answer.send(self.seat.stop(now))),
            Request::HandOver(copying, messages, answer) => {
                // The connection may be gone: nobody takes the post then.
                let handed = self.seat.hand_over(*copying, |message| drop(messages.send(message)));
                let _ = answer.send(handed);
            }
            Request::IsSucceeded(answer) => {
                if self.seat.records().is_some() {
                    self.draining.push(answer);
                }
            }
            Request::Receive(message, answer) => drop(answer.send(self.seat.receive(now, &message))),
            Request::Stop => unreachable!("it has ended the thread"),
        }
    }

    /// Takes those who ask behind the first one, too, for the same reason as [`Desk::hear_enrols`].
    fn enrol(&mut self, now: Time, first: Asked) {
        let more = std::iter::from_fn(|| self.shared.waiting().next_enrol());
        let (asked, answers): (Vec<_>, Vec<_>) = std::iter::once(first).chain(more).take(TOGETHER).unzip();
        let enrolments = match self.seat.controller(now) {
            Some(controller) => controller.enrol_all(now, &asked),
            None => asked.iter().map(|_| Err(Refusal::Recovering)).collect(),
        };
        for (answer, enrolment) in answers.into_iter().zip(enrolments) {
            // Whoever asked may be gone.
            let _ = answer.send(enrolment);
        }
    }

    fn add_namespace(&mut self, now: Time, new: &Numbered, lease: Duration) -> Result<(), String> {
        let controlled = new.settings.controlled(new.number, lease);
        let added = self.seat.add_namespace(now, &controlled, |switch| lay_out(switch, new.number, &new.settings));
        added.map_err(|why| why.to_string())
    }

    /// Ends the sessions whose lifelines have closed, all together, since each by itself would wait for etcd; once the
    /// lease of the post runs again, if it is over for a moment.
    fn end_closed(&mut self, now: Time) {
        let stays = self.seat.records().is_some() && self.seat.controller(now).is_none();
        if stays {
            return;
        }
        let closed = std::mem::take(&mut self.shared.waiting().closed);
        let sessions = closed.into_iter().filter(|(handle, lifeline)| self.lifeline_of(*handle) == Some(*lifeline));
        let handles: Vec<u16> = sessions.map(|(handle, _)| handle).collect();
        if let Some(controller) = self.seat.controller(now) {
            controller.closed_together(now, &handles);
        }
    }

    fn lifeline_of(&self, handle: u16) -> Option<u64> {
        self.seat.records().and_then(|controller| controller.lifeline_of(handle))
    }

    /// `holder`: where the switch is that has the post.
    fn set_role(&self, holder: Option<SocketAddrV4>) {
        let role = match (&self.shard, self.seat.records()) {
            (None, _) => Role::Alone,
            (Some(_), Some(_)) => Role::Serving,
            (Some(_), None) => Role::Standby { serving: holder },
        };
        *self.shared.role.lock().unwrap_or_else(PoisonError::into_inner) = role;
    }

    /// These hosts may enrol: sessions of others are cut off.
    pub fn admit_only(&mut self, hosts: HashSet<u64>) {
        self.seat.admit_only(clock::now(), hosts.into_iter().collect());
    }

    fn log(&mut self, notice: &Notice) {
        match notice {
            Notice::StoreFailed(why) => {
                let now = clock::now();
                if now >= self.next_complaint {
                    self.next_complaint = now + COMPLAINT;
                    tracing::error!(why, "the controller's records can't be written: nothing new begins");
                }
            }
            Notice::EpochRaised(epoch) => tracing::info!(epoch, "new boot epoch"),
            Notice::Serving(epoch) => tracing::info!(epoch, "serving"),
            Notice::TookOver(epoch, nodes) => tracing::info!(epoch, nodes, "goes on with what was handed over"),
            Notice::Promoted => {
                tracing::info!("serves from now on");
                // As etcd has them now: a host that has just joined may not be known here yet.
                if let (Some(shard), Some(admission)) = (&self.shard, self.admission.clone()) {
                    match shard.hosts() {
                        Ok(hosts) => {
                            if let Some(hosts) = with_own(&admission, hosts) {
                                self.admit_only(hosts);
                            }
                        }
                        Err(error) => {
                            tracing::warn!(%error, "can't look who was removed, and goes on trying");
                            let inbox = self.inbox.clone();
                            shard.spawn(shard.clone().await_hosts(move |hosts| {
                                if let Some(hosts) = with_own(&admission, hosts) {
                                    inbox.admit_only(hosts);
                                }
                            }));
                        }
                    }
                }
            }
            Notice::Demoted => {
                tracing::info!("is a standby from now on");
                for done in self.draining.drain(..) {
                    // Whoever asked may be gone.
                    let _ = done.send(());
                }
            }
            Notice::Enrolled(handle) => tracing::info!(handle, "session began"),
            Notice::Ended(handle, ending) => tracing::info!(handle, ?ending, "session ended"),
            Notice::CutOff(handle) => {
                tracing::warn!(handle, "its host was removed: session cut off, it ends with its lease")
            }
            Notice::Dismissed(handle) => {
                tracing::warn!(
                    handle,
                    "lives and does not answer what it is asked: heard no more, it ends with its lease"
                )
            }
            Notice::Rotated(handle) => tracing::debug!(handle, "new keys"),
            Notice::Moved(namespace, name, to_switch) => {
                tracing::debug!(namespace, name, to_switch, "lock moved")
            }
            Notice::Serves(namespace, part, handle) => {
                tracing::info!(namespace, part = part.number, parts = part.of, handle, "lock server");
            }
            Notice::Frozen(namespace, slot) => tracing::debug!(namespace, slot, "slot frozen for a census"),
            Notice::Recovered(namespace, slot, agent) => {
                match agent {
                    Some(_) => self.recovered.adopted += 1,
                    None => self.recovered.unheld += 1,
                }
                tracing::debug!(namespace, slot, agent, "slot recovered");
            }
        }
    }
}

/// The hosts that etcd has, with those that are here: one that has just joined here may not be there yet, nor any of
/// these where etcd has lost them. Who was removed elsewhere is not here for long (`mirror.rs`).
fn with_own(admission: &Admission, mut hosts: HashSet<u64>) -> Option<HashSet<u64>> {
    let own = admission.numbers().inspect_err(|error| tracing::error!(%error, "can't look who was removed"));
    hosts.extend(own.ok()?);
    Some(hosts)
}

impl Knows for Desk {
    fn sessions(&self) -> Vec<Session> {
        let all = self.seat.records().into_iter().flat_map(Controller::sessions);
        let living = all.filter(|view| view.seen.is_some());
        living
            .map(|view| Session {
                handle: view.handle,
                host: wayside_wire::text(&view.record.host).unwrap_or("?").to_owned(),
                pid: view.record.pid,
                namespace: self.namespaces.name_of(view.record.namespace),
                incarnation: view.record.incarnation,
                address: view.record.address.to_string(),
                signed: view.record.secret.is_some(),
                lease_us: view.record.lease.into(),
                lifeline: false,
            })
            .collect()
    }

    fn numbers(&self) -> Numbers {
        let all = || self.seat.records().into_iter().flat_map(Controller::sessions);
        let living = |number: u16| {
            let all = all().filter(|view| view.seen.is_some());
            all.filter(|view| view.record.namespace == number).count() as u64
        };
        let signed = |view: &SessionView<'_>| view.seen.is_some() && view.record.secret.is_some();
        Numbers {
            sessions: self
                .namespaces
                .all()
                .iter()
                .map(|each| (each.settings.name.clone(), living(each.number)))
                .collect(),
            signed: all().filter(signed).count() as u64,
            awaiting_census: self.seat.records().map_or(0, |controller| controller.recovering().1 as u64),
            keys: self.keys.numbers(),
        }
    }

    fn plans(&self) -> Vec<PlanView> {
        self.seat.records().map(|controller| controller.plans(clock::now())).unwrap_or_default()
    }

    fn chains(&self) -> Option<ChainsAnswer> {
        self.keys.view(|number| self.namespaces.name_of(number))
    }

    fn keys(&self, wanted: &Wanted) -> Option<KeyList> {
        self.namespaces.number_of(&wanted.namespace).map(|number| self.keys.list(number, wanted.prefix.as_bytes()))
    }
}
