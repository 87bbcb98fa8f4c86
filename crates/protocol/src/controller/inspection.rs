//! INSPECT: who holds and who waits, for people. Changes nothing anywhere.

use super::recovery::Asked;
use super::{Controller, Store};
use crate::memory::SwitchMemory;
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use wayside_wire::{Entry, Header, header_flag, kind, limits};

/// An answer that takes longer is given without the silent nodes. Microseconds.
const PATIENCE: u64 = 1_000_000;

/// Names an inspection.
pub type InspectionId = u64;

/// What the nodes of a namespace hold and wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Holds (HELD) and waits; `holder` is the node, `slot` the age in milliseconds.
    pub entries: Vec<Entry>,
    /// Nodes that did not answer in time.
    pub silent: Vec<Handle>,
}

pub(super) struct Asking {
    asked: BTreeMap<Handle, Asked>,
    entries: Vec<Entry>,
    until: Time,
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Begins to ask the live nodes of a namespace; see [`Controller::inspection`].
    pub fn inspect(&mut self, now: Time, namespace: u16) -> InspectionId {
        let id = self.new_id();
        let nodes: Vec<Handle> = self.sessions.living_in(namespace).collect();
        let asked = nodes.iter().map(|&node| (node, Asked { page: 0, due: now })).collect();
        self.inspections.insert(id, Asking { asked, entries: Vec::new(), until: now + PATIENCE });
        self.tick_inspections(now);
        id
    }

    /// The answer, once, when it is complete or a second has passed.
    pub fn inspection(&mut self, now: Time, id: InspectionId) -> Option<Inspection> {
        let asking = self.inspections.get(&id)?;
        if !asking.asked.is_empty() && now < asking.until {
            return None;
        }
        let asking = self.inspections.remove(&id)?;
        Some(Inspection { entries: asking.entries, silent: asking.asked.into_keys().collect() })
    }

    pub(super) fn on_inspection(&mut self, now: Time, header: &Header, mut entries: impl Iterator<Item = Entry>) {
        let Some(Entry { request: id, .. }) = entries.next() else { return };
        let Some(asking) = self.inspections.get_mut(&id) else { return };
        let Some(asked) = asking.asked.get_mut(&header.source).filter(|asked| asked.page == header.position) else {
            return;
        };
        asking.entries.extend(entries.map(|entry| Entry { holder: header.source, ..entry }));
        if header.flags & header_flag::LAST != 0 || asked.page == u16::MAX {
            asking.asked.remove(&header.source);
        } else {
            *asked = Asked { page: asked.page + 1, due: now };
            self.tick_inspections(now);
        }
    }

    pub(super) fn inspect_without(&mut self, dead: &[Handle]) {
        for asking in self.inspections.values_mut() {
            asking.asked.retain(|handle, _| !dead.contains(handle));
        }
    }

    /// Asks for the pages that are due; forgets answers that nobody fetched.
    pub(super) fn tick_inspections(&mut self, now: Time) {
        let mut questions = Vec::new();
        self.inspections.retain(|_, asking| now < asking.until + PATIENCE);
        for (&id, asking) in &mut self.inspections {
            for (&handle, asked) in asking.asked.iter_mut().filter(|(_, asked)| now >= asked.due) {
                asked.due = now + self.config.retransmit;
                questions.push((id, handle, asked.page));
            }
        }
        for (id, handle, page) in questions {
            let header = Header { kind: kind::lock::INSPECT, position: page, ..Header::default() };
            let about = Entry { request: id, slot: limits::ALL_SLOTS, ..Entry::default() };
            self.send_entries(handle, header, core::iter::once(about));
        }
    }
}
