//! The namespaces of a switch that runs: those that it began with, as `wayside reload` has changed them, and those that
//! it has added. Whoever speaks of namespaces asks here.
//!
//! Invariants: a namespace's number stays, and it has its slots at the switch and is known to the controller before it
//! is here. None ever leaves.

use crate::config::{Config, Namespace};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use wayside_protocol::controller::Allocation;
use wayside_protocol::memory::Step;
use wayside_switch::Switch;

/// A namespace and its number in packets.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub number: u16,
    pub settings: Namespace,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Namespaces(RwLock<Arc<[Numbered]>>);

impl Namespaces {
    /// Those of a configuration, with their numbers.
    pub fn of(config: &Config, numbers: &[u16]) -> Arc<Namespaces> {
        let pairs = config.namespaces.iter().cloned().zip(numbers);
        let all = pairs.map(|(settings, &number)| Numbered { number, settings }).collect();
        Arc::new(Namespaces(RwLock::new(all)))
    }

    /// As a file with these names alone would have them.
    #[cfg(test)]
    pub fn named(all: &[(u16, &str)]) -> Arc<Namespaces> {
        let text: String = all.iter().map(|(_, name)| format!("[[namespace]]\nname = {name:?}\n")).collect();
        let config = crate::config::read(&text).expect("names alone are enough");
        let numbers: Vec<u16> = all.iter().map(|(number, _)| *number).collect();
        Namespaces::of(&config, &numbers)
    }

    /// As they are now: later ones follow those that were there before.
    pub fn all(&self) -> Arc<[Numbered]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// They are these from now on.
    pub fn replace(&self, all: Vec<Numbered>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all.into();
    }

    /// The name of one; its number, if there is none.
    pub fn name_of(&self, number: u16) -> String {
        let all = self.all();
        let found = all.iter().find(|namespace| namespace.number == number);
        found.map_or_else(|| number.to_string(), |namespace| namespace.settings.name.clone())
    }

    /// The number of one; None: there is no such namespace.
    pub fn number_of(&self, name: &str) -> Option<u16> {
        self.all().iter().find(|namespace| namespace.settings.name == name).map(|namespace| namespace.number)
    }
}

/// Gives a namespace that nobody can have a session in yet its slots and queues.
///
/// # Errors
/// Why it can't have them all; it has none of them then.
pub fn lay_out(switch: &Switch, number: u16, namespace: &Namespace) -> Result<(), String> {
    let queues: Vec<u64> = namespace.queue_ids().collect();
    for (at, &name) in queues.iter().enumerate() {
        // Above every ticket of this epoch: nobody was granted any in this namespace.
        if let Err(why) = switch.add_queue(number, name, namespace.cells, 1) {
            take_away(switch, number, &queues[..at]);
            return Err(why.to_string());
        }
    }
    switch.add_namespace(number, namespace.slots, namespace.policy).map_err(|why| {
        take_away(switch, number, &queues);
        why.to_string()
    })
}

/// Which namespaces have queues, and how: configurations that differ in that differ here, in whatever order they say
/// it. 0: none has. A memory that is of another one begins anew: who holds by the other engine, a name that has another
/// home now, or a lock server's lease that was longer, is not known from it. `lease`: of sessions that ask for none,
/// and so of a lock server's holds.
pub fn queue_shape<'a>(lease: Duration, namespaces: impl IntoIterator<Item = (u16, &'a Namespace)>) -> u64 {
    let mut queued: Vec<_> = namespaces.into_iter().filter(|(_, namespace)| namespace.engine.has_queues()).collect();
    if queued.is_empty() {
        return 0;
    }
    queued.sort_unstable_by_key(|(number, _)| *number);
    // FNV-1a: the same in every version, as the memory may be of an earlier one.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| {
        word.to_be_bytes().into_iter().for_each(|byte| hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    };
    add(lease.as_micros() as u64);
    for (number, namespace) in queued {
        let Namespace { engine, cells, allocation, room, servers, .. } = namespace;
        let kind = [number.into(), *engine as u64, (*cells).into(), *allocation as u64, (*servers).into()];
        kind.into_iter().for_each(&mut add);
        [room.cells, room.most, room.queues].map(u64::from).into_iter().for_each(&mut add);
        let mut names: Vec<u64> = namespace.queue_ids().collect();
        names.sort_unstable();
        names.into_iter().for_each(&mut add);
    }
    hash.max(1)
}

/// A lock that is to keep its queue may have none in a memory that an earlier daemon has left: it died when the lock
/// had gone to its lock server and was to come back. That is waited for again.
#[cfg_attr(not(any(feature = "xdp", test)), expect(dead_code, reason = "no other memory outlives its daemon"))]
pub fn await_missing(switch: &Switch, number: u16, namespace: &Namespace) {
    if namespace.allocation == Allocation::Fixed {
        for name in namespace.queue_ids() {
            // It has one, mostly.
            let _ = switch.move_queue(number, name, Step::Await { cells: namespace.cells });
        }
    }
}

fn take_away(switch: &Switch, number: u16, queues: &[u64]) {
    for &name in queues {
        for step in [Step::Drain, Step::Hand, Step::Remove] {
            switch.move_queue(number, name, step).expect("nobody holds it or waits for it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayside_protocol::memory::Stage;
    use wayside_switch::{QueueConfig, SwitchConfig};

    #[test]
    fn what_has_no_room_for_all_has_none_of_it() {
        let switch = Switch::new(SwitchConfig { slots: 8, max_handle: 1 });
        let switch = switch.with_queues(QueueConfig { queues: 2, cells: 8, seed: 5 });
        let try_out = |slots: u32, queues: &str| {
            let file =
                format!("[[namespace]]\nname = 'a'\nslots = {slots}\nengine = 'queue'\ncells = 4\nqueues = [{queues}]");
            let config = crate::config::read(&file).expect("it is one");
            lay_out(&switch, 1, &config.namespaces[0])
        };
        assert_eq!(try_out(8, "'x', 'y', 'z'"), Err("no run of free cells is that long".into()));
        assert!(switch.queues().is_empty() && switch.has_exactly(&[]));
        assert!(try_out(9, "'x', 'y'").is_err_and(|why| why.contains('9')));
        assert!(switch.queues().is_empty() && switch.has_exactly(&[]));
        assert_eq!(try_out(8, "'x', 'y'"), Ok(()));
        assert!(switch.queues().len() == 2 && switch.has_exactly(&[(1, 8)]));
    }

    /// It has gone to its lock server, and its way back ended with the daemon.
    #[test]
    fn a_lock_that_lost_its_queue_is_waited_for_where_it_is_to_have_one() {
        for (plan, is_awaited) in [("queues = ['x', 'y']\ncells = 4", true), ("plan = 'knapsack'", false)] {
            let file = format!("[[namespace]]\nname = 'a'\nslots = 8\nengine = 'queue'\n{plan}");
            let namespace = &crate::config::read(&file).expect("it is one").namespaces[0];
            let switch = Switch::new(SwitchConfig { slots: 8, max_handle: 1 });
            let switch = switch.with_queues(QueueConfig { queues: 2, cells: 8, seed: 5 });
            assert_eq!(lay_out(&switch, 1, namespace), Ok(()));
            let names: Vec<u64> = namespace.queue_ids().collect();
            take_away(&switch, 1, &names[..names.len().min(1)]);
            await_missing(&switch, 1, namespace);
            let stages: Vec<_> = names.iter().map(|&name| switch.queue(1, name).map(|queue| queue.stage)).collect();
            let awaited = vec![Some(Stage::Awaited), Some(Stage::Here)];
            assert_eq!(stages, if is_awaited { awaited } else { vec![] }, "{plan}");
        }
    }

    #[test]
    fn configurations_whose_queues_differ_have_other_shapes() {
        let shape = |text: &str| {
            let config = crate::config::read(text).expect("it is one");
            queue_shape(config.lease, (1..).zip(&config.namespaces))
        };
        let slots = "[[namespace]]\nname = 'a'\n";
        let queue = |rest: &str| format!("[[namespace]]\nname = 'a'\nengine = 'queue'\n{rest}");
        assert_eq!(shape(slots), 0);
        let all = [
            queue("queues = ['x']\ncells = 4"),
            queue("queues = ['x', 'y']\ncells = 4"),
            queue("queues = ['x']\ncells = 5"),
            queue("queues = ['x']\ncells = 4\nservers = 2"),
            queue("plan = 'knapsack'"),
            queue("plan = 'random'"),
            queue("plan = 'knapsack'\nroom = 100"),
            "[[namespace]]\nname = 'a'\nengine = 'hybrid'\nqueues = ['x']\ncells = 4".into(),
            format!("lease = '3s'\n{}", queue("queues = ['x']\ncells = 4")),
            format!("{slots}{}", queue("queues = ['x']\ncells = 4").replace("'a'", "'b'")),
        ];
        let shapes: std::collections::BTreeSet<u64> = all.iter().map(|text| shape(text)).collect();
        assert_eq!(shapes.len(), all.len());
        assert!(!shapes.contains(&0));
        assert_eq!(shape(&queue("queues = ['y', 'x']\ncells = 4")), shape(&all[1]), "an order of names is none");
        let others = queue("queues = ['x']\ncells = 4\nrate = 1_000_000\npolicy = 'fair'\nslots = 99");
        assert_eq!(shape(&others), shape(&all[0]), "what has to do with no queue changes nothing");
    }
}
