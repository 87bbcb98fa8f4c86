//! A switch's memory of whose journal a test says what is in it, and when: what the data plane has in hand only for a
//! moment. Its keys, values and places are a real switch's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use wayside_protocol::chain::memory::{
    Content, ItemMemory, JournalMemory, Lane, Owner, Record, Recorded, Seen as Item, Unmade,
};
use wayside_protocol::chain::{Key, Place, Version};
use wayside_protocol::memory::Moment;
use wayside_protocol::{Handle, Time};
use wayside_switch::{StoreConfig, Switch, SwitchConfig};

/// What is in the journal, and what else a history depends on.
pub struct Script {
    /// The latest number.
    pub drawn: u64,
    /// Those that can be read.
    pub records: BTreeMap<u64, Record>,
    /// Up to here others have their places.
    pub overwritten: u64,
    pub torn: u64,
    /// The lease of the switch's places runs.
    pub serves: bool,
    /// Sessions that live: namespace and incarnation.
    pub sessions: BTreeMap<Handle, (u16, u64)>,
    /// What was noted from then on, or not any more.
    pub watched: Vec<(Range<u16>, bool)>,
    /// Happens when groups come to be watched.
    pub meanwhile: Option<Meanwhile>,
}

type Meanwhile = Box<dyn FnOnce(&mut Script, &Switch)>;

impl Script {
    /// Somebody takes a version, and the journal has it.
    pub fn take(&mut self, record: Record) {
        self.drawn += 1;
        self.records.insert(self.drawn, record);
    }
}

pub struct Paper {
    switch: Switch,
    script: Rc<RefCell<Script>>,
}

impl Paper {
    pub fn new(keys: u32) -> (Paper, Rc<RefCell<Script>>) {
        let script = Script {
            drawn: 0,
            records: BTreeMap::new(),
            overwritten: 0,
            torn: 0,
            serves: true,
            sessions: BTreeMap::new(),
            watched: Vec::new(),
            meanwhile: None,
        };
        let script = Rc::new(RefCell::new(script));
        let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 64 }).with_store(StoreConfig { keys, seed: 7 });
        (Paper { switch, script: Rc::clone(&script) }, script)
    }
}

impl JournalMemory for Paper {
    fn watch_groups(&self, groups: Range<u16>, watched: bool) {
        let mut script = self.script.borrow_mut();
        script.watched.push((groups, watched));
        if let Some(meanwhile) = script.meanwhile.take_if(|_| watched) {
            meanwhile(&mut script, &self.switch);
        }
    }

    fn drawn(&self) -> u64 {
        self.script.borrow().drawn
    }

    fn torn(&self) -> u64 {
        self.script.borrow().torn
    }

    fn record(&self, number: u64) -> Recorded {
        let script = self.script.borrow();
        assert!((1..=script.drawn).contains(&number), "nobody has drawn {number}");
        match script.records.get(&number) {
            _ if number <= script.overwritten => Recorded::Overwritten,
            Some(&record) => Recorded::Record(record),
            None => Recorded::Awaited,
        }
    }

    fn serves_places_at(&self, _: Time) -> bool {
        self.script.borrow().serves
    }

    fn live_session(&self, handle: Handle) -> Option<(u16, u64)> {
        self.script.borrow().sessions.get(&handle).copied()
    }
}

impl ItemMemory for Paper {
    fn set_own_handle(&self, handle: Handle) {
        self.switch.set_own_handle(handle);
    }

    fn serve_places_for(&self, since: Moment, lease: u64) {
        self.switch.serve_places_for(since, lease);
    }

    fn serve_places_without_end(&self) {
        self.switch.serve_places_without_end();
    }

    fn place(&self, group: u16) -> Place {
        self.switch.place(group)
    }

    fn set_place(&self, group: u16, namespace: u16, place: Place) {
        self.switch.set_place(group, namespace, place);
    }

    fn next_sequence(&self, group: u16) -> u64 {
        self.switch.next_sequence(group)
    }

    fn insert(&self, group: u16, key: Key, version: Version) -> Result<bool, Unmade> {
        self.switch.insert(group, key, version)
    }

    fn remove(&self, group: u16, key: Key) -> bool {
        self.switch.remove(group, key)
    }

    fn content(&self, group: u16, key: Key) -> Option<Content> {
        self.switch.content(group, key)
    }

    fn raise(&self, group: u16, key: Key, content: &Content) -> bool {
        self.switch.raise(group, key, content)
    }

    fn lane(&self, client: Handle, lane: u8) -> Lane {
        self.switch.lane(client, lane)
    }

    fn raise_lane(&self, client: Handle, lane: u8, content: &Lane) {
        self.switch.raise_lane(client, lane, content);
    }

    fn keys(&self) -> (u32, u32) {
        self.switch.keys()
    }

    fn look(&self, from: u32, most: u32, show: &mut dyn FnMut(Item)) -> Option<u32> {
        self.switch.look(from, most, show)
    }

    fn end_lease(&self, group: u16, key: Key, leased: Version, epoch: u32) -> Option<Content> {
        self.switch.end_lease(group, key, leased, epoch)
    }

    fn leave(&self, group: u16, key: Key, at: Version) -> bool {
        self.switch.leave(group, key, at)
    }

    fn stay(&self, group: u16, key: Key) {
        self.switch.stay(group, key);
    }

    fn remove_at(&self, group: u16, key: Key, at: Version) -> bool {
        self.switch.remove_at(group, key, at)
    }

    fn is_over(&self, owner: Owner) -> bool {
        self.switch.is_over(owner)
    }

    fn ends(&self) -> u64 {
        self.switch.ends()
    }
}
