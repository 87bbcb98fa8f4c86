//! The controller beside the switch, in runs in which the switch stops and begins again with an empty memory.
//!
//! ```text
//!   serves ──outage begins: nothing is decided, no controller runs──► away ──a new memory, and a controller that
//!      ▲                                                                │     knows what was written down──► rebuilt
//!      └────────────────────every living node has told what it holds────┴───────────────────────────────────────┘
//! ```
//!
//! It runs on a core of its own, and what it decides on a message costs as much as a lock manager's decision. That it
//! looks at slots and nodes takes no time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Arc;

use wayside_protocol::Time;
use wayside_protocol::controller::{Allocation, Config, Controller, LONGEST_LEASE, Namespace, Record, Room, Store};
use wayside_switch::Switch;
use wayside_wire::{Engine, Policy};

use crate::Error;

/// When the switch is away, in virtual nanoseconds, and for how long sessions live without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outage {
    /// From then on.
    pub from: u64,
    /// So long.
    pub lasts: u64,
    /// Of every session. Microseconds.
    pub lease: u32,
}

impl Outage {
    /// When the switch is there again, with nothing in its memory.
    pub fn end(self) -> u64 {
        self.from + self.lasts
    }
}

/// What the controllers write down.
#[derive(Clone, Default)]
struct Disk(Rc<RefCell<BTreeMap<u32, Vec<u8>>>>);

impl Store for Disk {
    type Error = Infallible;

    fn load(&mut self) -> Result<Vec<Record>, Infallible> {
        Ok(self.0.borrow().iter().map(|(key, value)| (*key, value.clone())).collect())
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), Infallible> {
        self.0.borrow_mut().extend(batch.iter().cloned());
        Ok(())
    }
}

/// See the module's documentation.
pub struct Office {
    pub outage: Outage,
    /// Of the controller alone.
    pub core: usize,
    /// When it is woken.
    pub due: u64,
    config: Config,
    disk: Disk,
    controller: Option<Controller<Arc<Switch>, Disk>>,
}

/// The name that nodes ask for.
const NAME: &str = "default";

impl Office {
    /// For a switch with one namespace, of this number.
    pub fn new(outage: Outage, core: usize, namespace: u16, policy: Policy, engine: Engine) -> Office {
        let namespace = Namespace {
            id: namespace,
            name: NAME.into(),
            policy,
            patience: wayside_protocol::OVERTAKEN_MOST,
            names: wayside_protocol::Names::default(),
            engine,
            servers: 1,
            allocation: Allocation::Fixed,
            room: Room::default(),
            lease: outage.lease,
            longest_lease: LONGEST_LEASE,
        };
        let config = Config { namespaces: vec![namespace], ..Config::default() };
        Office { outage, core, due: u64::MAX, config, disk: Disk::default(), controller: None }
    }

    /// A controller takes up what was written down, for a switch that knows nothing.
    pub fn open(&mut self, switch: &Arc<Switch>) -> Result<(), Error> {
        let controller = Controller::new(self.config.clone(), switch.clone(), self.disk.clone());
        self.controller = Some(controller.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// It ends with its switch.
    pub fn close(&mut self) {
        self.controller = None;
        self.due = u64::MAX;
    }

    pub fn is_open(&self) -> bool {
        self.controller.is_some()
    }

    /// A packet that the switch has handed over.
    pub fn on_packet(&mut self, now: Time, from: SocketAddrV4, packet: &[u8]) {
        if let Some(controller) = &mut self.controller {
            controller.on_packet(now, from, packet);
        }
    }

    pub fn on_tick(&mut self, now: Time) {
        if let Some(controller) = &mut self.controller {
            controller.on_tick(now);
        }
    }

    pub fn transmit(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.controller.as_mut()?.transmit()
    }

    /// When it wants to be woken, if that is earlier than it is to be.
    pub fn alarm(&mut self) -> Option<u64> {
        let at = self.controller.as_ref()?.next_timer().0.saturating_mul(1_000);
        (at < self.due).then(|| {
            self.due = at;
            at
        })
    }
}
