//! The switch of a world, which the controller shares and which can lose its memory; and the controller's disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;

use wayside_protocol::{Handle, Time};
use wayside_protocol::controller::{Record, SessionRecord, Store};
use wayside_protocol::memory::{Moment, NodeEntry, NodeWord, SlotWord, SwitchMemory};
use wayside_protocol::seal::Keys;
use wayside_switch::{Switch, SwitchConfig};
use wayside_wire::Policy;

use crate::report::Counts;

/// The world's only namespace.
pub const NAMESPACE: u16 = 1;

/// The real core over memory that can be lost.
#[derive(Clone)]
pub struct SharedSwitch {
    slots: u32,
    max_handle: u16,
    authenticated: bool,
    switch: Rc<RefCell<Switch>>,
}

impl SharedSwitch {
    /// An empty switch with a region for the namespace.
    pub fn new(slots: u32, max_handle: u16, authenticated: bool) -> SharedSwitch {
        let switch = Rc::new(RefCell::new(fresh(slots, max_handle, authenticated)));
        SharedSwitch { slots, max_handle, authenticated, switch }
    }

    /// Restarts with an empty memory. The counters of its life go to `counts`.
    pub fn restart(&self, counts: &mut Counts) {
        self.collect(counts);
        *self.switch.borrow_mut() = fresh(self.slots, self.max_handle, self.authenticated);
    }

    /// Adds its counters.
    pub fn collect(&self, counts: &mut Counts) {
        for (name, count) in self.switch.borrow().counters() {
            *counts.entry(name).or_default() += count;
        }
    }

    /// The switch, for a packet.
    pub fn with<R>(&self, work: impl FnOnce(&Switch) -> R) -> R {
        work(&self.switch.borrow())
    }

    /// Slots of the namespace.
    pub fn slots(&self) -> u32 {
        self.slots
    }
}

/// As a daemon makes it: it knows whether there are tags before anybody can send it a packet.
fn fresh(slots: u32, max_handle: u16, authenticated: bool) -> Switch {
    let switch = Switch::new(SwitchConfig { slots, max_handle });
    switch.set_authenticated(authenticated);
    switch.add_namespace(NAMESPACE, slots, Policy::Fair).expect("the switch is as large as its one namespace");
    switch
}

impl SwitchMemory for SharedSwitch {
    fn epoch(&self) -> u32 {
        self.with(SwitchMemory::epoch)
    }
    fn set_epoch(&self, epoch: u32) {
        self.with(|switch| switch.set_epoch(epoch));
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
    fn cas_slot(&self, namespace: u16, slot: u32, expected: SlotWord, new: SlotWord) -> bool {
        self.with(|switch| switch.cas_slot(namespace, slot, expected, new))
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
}

impl Disk {
    /// What the controller has written down of a handle's session.
    pub fn session(&self, handle: Handle) -> Option<SessionRecord> {
        SessionRecord::decode(self.0.borrow().get(&handle.into())?)
    }
}

/// A disk that survives its controllers.
#[derive(Clone, Default)]
pub struct Disk(Rc<RefCell<BTreeMap<u32, Vec<u8>>>>);

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
