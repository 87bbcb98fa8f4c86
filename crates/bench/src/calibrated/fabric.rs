//! Cores, NICs and the switch as queues in virtual time, and the packets between them.
//!
//! A core does one job at a time. Packets come before its clients' own work, as in a loop that polls; among either,
//! first
//! come, first served. What a job sends leaves one packet after the other when the job's own time is over, and the core
//! goes on when the last of them is out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::costs::{Cost, Costs};

/// Where a message is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Switch,
    /// By number, over all hosts.
    Core(usize),
    /// A host's NIC, by itself: remote memory.
    Nic(usize),
}

impl Place {
    /// Where a client goes on with an answer, if not here: half of the cores only receive, and hand over.
    pub fn hands_to(self, client: usize) -> Option<usize> {
        (self != Place::Core(client)).then_some(client)
    }
}

/// What a core does.
#[derive(Debug)]
pub enum Job<M> {
    Message(M),
    /// A client goes on with its own work.
    Client(usize),
    /// A client hears from another core that it has what it waits for: its so-many-th request.
    Granted(usize, u64),
    /// The store has done what a client's transaction is for: its alarm of this number.
    Stored(usize, u64),
}

#[derive(Debug)]
pub enum Event<M> {
    /// A message is through the switch's pipeline.
    AtSwitch(M),
    AtCore(usize, u64, Job<M>),
    AtNic(usize, u64, M),
    NicDone(usize, M),
    /// A core has done the job in its hands.
    Done(usize),
    /// A core's last packet is out.
    Free(usize),
    /// Of a client: its work of so many transactions ago, or now, is due.
    Alarm(usize, u64),
    /// Of an engine.
    Timer(usize, u64),
}

struct Core<M> {
    messages: VecDeque<(u64, Job<M>)>,
    work: VecDeque<(u64, Job<M>)>,
    hands: Option<Job<M>>,
    busy: bool,
    worked: u64,
}

/// Everything that takes time.
pub struct Fabric<M> {
    pub now: u64,
    pub costs: Costs,
    /// Which host each core is of.
    hosts: Vec<usize>,
    cores: Vec<Core<M>>,
    nics: Vec<u64>,
    agenda: BinaryHeap<Reverse<(u64, u64, u32)>>,
    plans: Vec<Option<Event<M>>>,
    vacant: Vec<u32>,
    planned: u64,
    /// What the job under way has taken besides its cost.
    spent: u64,
    /// The core that does it.
    at: Option<usize>,
    /// Clients that were granted what they wait for, and at which core.
    pub grants: VecDeque<(usize, Option<usize>)>,
    /// Holds that were over before they were given back: client and lock.
    pub expired: Vec<(usize, u64)>,
    /// Packets that were sent.
    pub packets: u64,
}

impl<M> Fabric<M> {
    /// Hosts with so many cores each.
    pub fn new(costs: Costs, cores: &[usize]) -> Fabric<M> {
        let hosts: Vec<usize> = cores.iter().enumerate().flat_map(|(host, &count)| vec![host; count]).collect();
        let core = || Core { messages: VecDeque::new(), work: VecDeque::new(), hands: None, busy: false, worked: 0 };
        Fabric {
            now: 0,
            costs,
            cores: hosts.iter().map(|_| core()).collect(),
            nics: vec![0; cores.len()],
            hosts,
            agenda: BinaryHeap::new(),
            plans: Vec::new(),
            vacant: Vec::new(),
            planned: 0,
            spent: 0,
            at: None,
            grants: VecDeque::new(),
            expired: Vec::new(),
            packets: 0,
        }
    }

    fn cost(&self, cost: Cost) -> u64 {
        self.costs.get(cost)
    }

    fn plan(&mut self, at: u64, event: Event<M>) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.plans.push(None);
            (self.plans.len() - 1) as u32
        });
        self.plans[place as usize] = Some(event);
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, place)));
    }

    pub fn next(&mut self) -> Option<Event<M>> {
        let Reverse((at, _, place)) = self.agenda.pop()?;
        self.now = at;
        self.vacant.push(place);
        self.plans[place as usize].take()
    }

    /// The core in whose job this is takes so much longer.
    pub fn work(&mut self, nanos: u64) {
        self.spent += nanos;
    }

    /// A packet from the core in whose job this is, from the switch, or from a NIC.
    pub fn send(&mut self, from: Place, to: Place, message: M) {
        self.packets += 1;
        let (hop, pipeline, packet) = (self.cost(Cost::Hop), self.cost(Cost::Pipeline), self.cost(Cost::Packet));
        let mut at = self.now;
        if let Place::Core(_) = from {
            self.spent += packet;
            at += self.spent;
        }
        if from != Place::Switch {
            at += hop + pipeline;
        }
        match to {
            Place::Switch => self.plan(at, Event::AtSwitch(message)),
            Place::Core(core) => self.plan(at + hop, Event::AtCore(core, packet, Job::Message(message))),
            Place::Nic(host) => self.plan(at + hop, Event::AtNic(host, 0, message)),
        }
    }

    /// An operation on remote memory: a packet to a NIC that takes so long there.
    pub fn send_to_memory(&mut self, host: usize, nanos: u64, message: M) {
        self.packets += 1;
        self.spent += self.cost(Cost::Packet);
        let at = self.now + self.spent + 2 * self.cost(Cost::Hop) + self.cost(Cost::Pipeline);
        self.plan(at, Event::AtNic(host, nanos, message));
    }

    /// To another core of the same host, by shared memory.
    pub fn hand(&mut self, core: usize, message: M) {
        let at = self.now + self.spent + self.cost(Cost::Handover);
        self.plan(at, Event::AtCore(core, 0, Job::Message(message)));
    }

    /// What the client waits for is its own.
    pub fn granted(&mut self, client: usize) {
        self.grants.push_back((client, self.at));
    }

    /// A client's core learns of a grant from another core.
    pub fn tell(&mut self, core: usize, client: usize, ask: u64) {
        let at = self.now + self.spent + self.cost(Cost::Handover);
        self.plan(at, Event::AtCore(core, 0, Job::Granted(client, ask)));
    }

    /// Its core is to do some of a client's own work.
    pub fn client_work(&mut self, core: usize, nanos: u64, client: usize) {
        self.cores[core].work.push_back((nanos, Job::Client(client)));
        self.begin(core);
    }

    pub fn alarm(&mut self, at: u64, client: usize, number: u64) {
        self.plan(at, Event::Alarm(client, number));
    }

    /// A client's packet to a store that takes so long there, with whatever comes together with it.
    pub fn ask_store(&mut self, core: usize, nanos: u64, client: usize, number: u64) {
        self.spent += self.cost(Cost::Packet);
        let at = self.now + self.spent + 2 * self.cost(Cost::Hop) + self.cost(Cost::Pipeline);
        self.plan(at, Event::AtCore(core, nanos, Job::Stored(client, number)));
    }

    /// The store's answer is at its client.
    pub fn answer_of_store(&mut self, client: usize, number: u64) {
        let at = self.now + 2 * self.cost(Cost::Hop) + self.cost(Cost::Pipeline);
        self.alarm(at, client, number);
    }

    pub fn timer(&mut self, at: u64, who: usize, number: u64) {
        self.plan(at.max(self.now), Event::Timer(who, number));
    }

    pub fn at_core(&mut self, core: usize, nanos: u64, job: Job<M>) {
        self.cores[core].messages.push_back((nanos, job));
        self.begin(core);
    }

    pub fn at_nic(&mut self, host: usize, nanos: u64, message: M) {
        let done = self.nics[host].max(self.now) + nanos;
        self.nics[host] = done;
        self.plan(done, Event::NicDone(host, message));
    }

    fn begin(&mut self, core: usize) {
        let one = &mut self.cores[core];
        if one.busy {
            return;
        }
        let Some((nanos, job)) = one.messages.pop_front().or_else(|| one.work.pop_front()) else { return };
        one.busy = true;
        one.hands = Some(job);
        one.worked += nanos;
        self.plan(self.now + nanos, Event::Done(core));
    }

    /// The job that a core has done. What follows from it is between this and [`Fabric::finish`].
    pub fn take(&mut self, core: usize) -> Option<Job<M>> {
        self.spent = 0;
        self.at = Some(core);
        self.cores[core].hands.take()
    }

    pub fn finish(&mut self, core: usize) {
        let spent = std::mem::take(&mut self.spent);
        self.at = None;
        self.cores[core].worked += spent;
        self.plan(self.now + spent, Event::Free(core));
    }

    /// Something outside of a core's job follows, or has followed.
    pub fn outside(&mut self) {
        self.spent = 0;
        self.at = None;
    }

    pub fn free(&mut self, core: usize) {
        self.cores[core].busy = false;
        self.begin(core);
    }

    pub fn host_of(&self, core: usize) -> usize {
        self.hosts[core]
    }

    /// What the busiest core has worked, of all the time.
    pub fn busiest(&self) -> f64 {
        self.cores.iter().map(|core| core.worked).max().unwrap_or(0) as f64 / self.now.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packets to one core at once: the second waits for the first; what answers leave takes the core's time.
    #[test]
    fn a_core_does_one_job_at_a_time() {
        let costs = Costs::of_sources();
        let (hop, pipeline, packet) = (costs.get(Cost::Hop), costs.get(Cost::Pipeline), costs.get(Cost::Packet));
        let mut fabric: Fabric<u8> = Fabric::new(costs, &[1, 1]);
        fabric.send(Place::Switch, Place::Core(0), 1);
        fabric.send(Place::Switch, Place::Core(0), 2);
        let mut answered = Vec::new();
        while let Some(event) = fabric.next() {
            match event {
                Event::AtCore(core, nanos, job) => fabric.at_core(core, nanos, job),
                Event::Done(core) => {
                    let Some(Job::Message(message)) = fabric.take(core) else { panic!("only messages") };
                    fabric.work(1_000);
                    fabric.send(Place::Core(core), Place::Switch, message);
                    fabric.finish(core);
                }
                Event::Free(core) => fabric.free(core),
                Event::AtSwitch(message) => answered.push((message, fabric.now)),
                other => panic!("{other:?}"),
            }
        }
        let first = hop + packet + 1_000 + packet + hop + pipeline;
        assert_eq!(answered, [(1, first), (2, first + packet + 1_000 + packet)]);
        assert_eq!((fabric.cores[0].worked, fabric.cores[1].worked), (2 * (2 * packet + 1_000), 0));
    }
}
