//! Lock services, driven in virtual time.
//!
//! * `wayside.rs`: this repository's own nodes and the switch's own core, as fission, as queues, and as a lock server.
//!   `office.rs`: their controller, where the switch fails.
//! * `managers.rs`: lock managers on servers: SrvLock and ParLock. `memory.rs`: words of remote memory that clients
//!   change by themselves: DSLR and DrTM. `test_and_set.rs`: NetChain's locks. `redlock.rs`: Redis.

mod managers;
mod memory;
mod office;
mod redlock;
mod test_and_set;
mod wayside;

pub use managers::Managers;
pub use memory::{Drtm, Dslr};
pub use office::Outage;
pub use redlock::Redlock;
pub use test_and_set::TestAndSet;
pub use wayside::{Kind, Wayside};

use super::fabric::{Fabric, Place};
use crate::workloads::Request;

/// A lock service with all its clients' ends. It charges what it does to the fabric, and tells
/// [`Fabric::granted`] when a client has what it waits for: one lock at a time.
pub trait Engine {
    /// What is sent.
    type Message;

    /// Before the first client asks.
    fn start(&mut self, _: &mut Fabric<Self::Message>) {}
    /// A client asks, on its core.
    fn acquire(&mut self, fabric: &mut Fabric<Self::Message>, client: usize, wanted: Request);
    /// A client gives back, on its core. It does not wait for anything.
    fn release(&mut self, fabric: &mut Fabric<Self::Message>, client: usize, held: Request);
    /// A client does not wait any more. What is granted to it from now on must go back by itself.
    fn cancel(&mut self, fabric: &mut Fabric<Self::Message>, client: usize, wanted: Request);
    /// A message is decided on there.
    fn on_message(&mut self, fabric: &mut Fabric<Self::Message>, at: Place, message: Self::Message);
    /// A timer that it has set.
    fn on_timer(&mut self, _: &mut Fabric<Self::Message>, _who: usize, _number: u64) {}
    /// Shares that it has counted.
    fn notes(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Which cores and hosts do what. Half of the cores that clients have are theirs, the other half receives for them:
/// so do the programs of FissLock and of NetLock.
#[derive(Clone, Debug)]
pub struct Bed {
    /// Cores of each host.
    pub hosts: Vec<usize>,
    /// The core of each client.
    pub clients: Vec<usize>,
    /// And that which receives its packets.
    pub receivers: Vec<usize>,
    /// Of each host with clients, the cores that receive.
    pub receiving: Vec<Vec<usize>>,
    /// Of each host, the cores that keep locks' books; none where it has clients alone.
    pub managers: Vec<Vec<usize>>,
    /// The core of a controller, on the last host, where there is one.
    pub office: Option<usize>,
}

impl Bed {
    /// Clients in turn over hosts with so many cores for them each, each host's in turn over its cores; behind them as
    /// many that receive, and, where there are any, so many cores of managers on each of those hosts (`beside`), or
    /// on hosts of their own (`apart`).
    pub fn new(client_cores: &[usize], clients: usize, beside: usize, apart: &[usize]) -> Bed {
        let mut first = 0;
        let mut bed = Bed {
            hosts: Vec::new(),
            clients: Vec::new(),
            receivers: Vec::new(),
            receiving: Vec::new(),
            managers: Vec::new(),
            office: None,
        };
        let mut firsts = Vec::new();
        for &cores in client_cores {
            let managers = first + 2 * cores;
            firsts.push(first);
            bed.receiving.push((first + cores..managers).collect());
            bed.managers.push((managers..managers + beside).collect());
            bed.hosts.push(2 * cores + beside);
            first = managers + beside;
        }
        for &cores in apart {
            bed.managers.push((first..first + cores).collect());
            bed.hosts.push(cores);
            first += cores;
        }
        let hosts = client_cores.len();
        let core = |client: usize| firsts[client % hosts] + client / hosts % client_cores[client % hosts];
        bed.clients = (0..clients).map(core).collect();
        bed.receivers = (0..clients).map(|client| core(client) + client_cores[client % hosts]).collect();
        bed
    }

    /// With so many clients at the place of each: one for each of the locks that it asks for at once.
    pub fn with_lanes(mut self, lanes: usize) -> Bed {
        let each = |cores: &[usize]| cores.iter().flat_map(|&core| std::iter::repeat_n(core, lanes)).collect();
        (self.clients, self.receivers) = (each(&self.clients), each(&self.receivers));
        self
    }

    /// With one core more, on a host of its own, for a controller.
    pub fn with_office(mut self) -> Bed {
        self.office = Some(self.hosts.iter().sum());
        self.hosts.push(1);
        self.managers.push(Vec::new());
        self
    }

    /// With one host more, without cores: its manager is on the cores of the last one's.
    pub fn with_second_manager(mut self) -> Bed {
        let shared = self.managers.last().cloned().unwrap_or_default();
        self.hosts.push(0);
        self.managers.push(shared);
        self
    }

    /// Cores of all managers, and the hosts that have them.
    pub fn manager_hosts(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|&host| !self.managers[host].is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrated::costs::{Cost, Costs};
    use crate::calibrated::fabric::{Event, Job};
    use wayside_client::Mode;

    /// When the only client there is has its lock, and at which core.
    fn granted<E: Engine>(bed: &Bed, mut engine: E) -> (u64, Option<usize>) {
        let mut fabric = Fabric::new(Costs::of_sources(), &bed.hosts);
        engine.acquire(&mut fabric, 0, Request { lock: 1, mode: Mode::Exclusive });
        while let Some(event) = fabric.next() {
            fabric.outside();
            match event {
                Event::AtSwitch(message) => engine.on_message(&mut fabric, Place::Switch, message),
                Event::AtCore(core, nanos, job) => fabric.at_core(core, nanos, job),
                Event::AtNic(host, nanos, message) => fabric.at_nic(host, nanos, message),
                Event::NicDone(host, message) => engine.on_message(&mut fabric, Place::Nic(host), message),
                Event::Free(core) => fabric.free(core),
                Event::Done(core) => {
                    if let Some(Job::Message(message)) = fabric.take(core) {
                        engine.on_message(&mut fabric, Place::Core(core), message);
                    }
                    if let Some((_, at)) = fabric.grants.pop_front() {
                        return (fabric.now, at);
                    }
                    fabric.finish(core);
                }
                Event::Timer(..) | Event::Alarm(..) => panic!("nobody waits for anything"),
            }
        }
        panic!("it is never granted");
    }

    /// A client's cores are one half that sends and one that receives, whichever service it uses: an answer is received
    /// by the latter and handed to the former.
    #[test]
    fn every_services_answers_come_in_at_the_cores_that_receive() {
        let bed = Bed::new(&[1], 1, 0, &[1]);
        assert_ne!(bed.clients[0], bed.receivers[0]);
        let costs = Costs::of_sources();
        let of = |cost| costs.get(cost);
        // To a NIC and back: a packet leaves and one comes in.
        let way = 2 * (2 * of(Cost::Hop) + of(Cost::Pipeline)) + 2 * of(Cost::Packet);
        let by_memory = (way + of(Cost::Atomic) + of(Cost::Handover), Some(bed.clients[0]));
        assert_eq!(granted(&bed, Dslr::new(&bed)), by_memory);
        assert_eq!(granted(&bed, Drtm::new(&bed, 1)), by_memory);
        // To a core and back: it receives one and sends one, besides.
        let by_redis = way + 2 * of(Cost::Packet) + of(Cost::Command) + of(Cost::Handover);
        assert_eq!(granted(&bed, Redlock::new(&bed, 1)), (by_redis, Some(bed.clients[0])));
        // Of these the receiving core itself tells the world, which charges for the hand-over.
        assert_eq!(granted(&bed, TestAndSet::new(&bed, 1)).1, Some(bed.receivers[0]));
        assert_eq!(granted(&bed, Managers::new(&bed, 8)).1, Some(bed.receivers[0]));
    }
}
