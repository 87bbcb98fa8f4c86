//! What runs on the hosts of a world: a service's applications, and the checkers that watch them. The world knows
//! nothing of locks, and a service nothing of who dies when.

use wayside_protocol::Event;

use crate::host::Process;
use crate::network::Flight;
use crate::report::Outcome;
use crate::world::World;

/// A service's workload and its checkers.
pub trait Service {
    /// The node of a host's process has something to say: a session has begun, a request was granted, ...
    fn told(&mut self, world: &mut World, host: usize, event: Event);

    /// The node of a host's process has nothing more to say for now.
    fn settled(&mut self, world: &mut World, host: usize);

    /// What [`World::set_alarm`] was set for, if the process still lives and is not stopped.
    fn woken(&mut self, world: &mut World, host: usize, task: usize, alarm: u64);

    /// A process is gone, or has no session any more: whatever it had or wanted.
    fn gone(&mut self, world: &mut World, process: Process);

    /// Lets a host's node have a packet, by [`World::hand`], and may look at what that does.
    fn deliver(&mut self, world: &mut World, host: usize, flight: &Flight);

    /// All is healed and nobody is to ask for anything new: whether everybody has been answered, and nothing is left.
    fn is_calm(&self, world: &World) -> bool;

    /// Operations so far: a run without any proves nothing.
    fn operations(&self) -> u64;

    /// The end: what must hold then, and what is to be counted.
    fn conclude(&mut self, world: &mut World, out: &mut Outcome);

    /// How long everybody together may need until all who wait have had their turn. Microseconds.
    fn patience(&self, world: &World) -> u64;
}
