//! What `wayside status` says of the switch.

use super::home::Residence;
use super::metrics::{Ledger, Tally};
use super::namespaces::{Namespaces, Numbered};
use super::relays::Relays;
use super::reload::Reload;
use super::traces::Spans;
use super::worker::Traffic;
use crate::admission::Admission;
use crate::answers::{Authentication, KeyRoom, Namespace, Queue, Relay, Role, Session, Status};
use crate::config::{Config, Division};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::memory::SwitchMemory;
use wayside_switch::Switch;
use wayside_wire::{DropReason, NodeState};

/// Everything that a status is made of, but for what the controller knows.
pub struct Facts {
    /// As it was when the switch started: of namespaces that is not asked.
    pub config: Config,
    pub reload: Arc<Reload>,
    /// As they are now.
    pub namespaces: Arc<Namespaces>,
    /// As bound.
    pub listen: SocketAddrV4,
    pub admin_listen: SocketAddrV4,
    /// Where hosts join and enrol, as bound; None: packets are not signed.
    pub enrols: Option<SocketAddrV4>,
    /// Who may.
    pub admission: Admission,
    pub tally: Arc<Tally>,
    pub ledger: Arc<Ledger>,
    pub started: Instant,
    pub residence: Residence,
    pub switch: Arc<Switch>,
    pub traffic: Arc<Traffic>,
    pub relays: Arc<Relays>,
    pub spans: Arc<Spans>,
}

/// That of the first part, which is the only one unless the configuration says otherwise.
pub fn first_of(lock_servers: &[u16]) -> u16 {
    lock_servers.first().copied().unwrap_or(0)
}

type Counts = BTreeMap<String, u64>;

impl Facts {
    /// The status now. `overflowed`: packets that the controller was too busy for.
    pub fn status(&self, role: Role, sessions: Vec<Session>, overflowed: u64) -> Status {
        let (drops, mut packets) = self.counters();
        let traffic = &self.traffic;
        packets.extend(
            [
                ("received", traffic.received.load(Ordering::Relaxed)),
                ("sent", traffic.sent.load(Ordering::Relaxed)),
                ("unsent", traffic.unsent.load(Ordering::Relaxed)),
                ("controller_backlog_full", overflowed),
            ]
            .map(|(name, count)| (name.to_owned(), count)),
        );
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            listen: self.listen.to_string(),
            admin_listen: self.admin_listen.to_string(),
            mode: self.residence.mode.clone(),
            ports: self.residence.ports.clone(),
            mode_reason: self.residence.reason.clone(),
            authentication: self.authentication(),
            threads: self.config.threads,
            wait: self.config.wait.to_string(),
            uptime_us: self.started.elapsed().as_micros() as u64,
            epoch: self.switch.epoch(),
            serving: self.is_serving(),
            role,
            shards: self.config.division.as_ref().map_or_else(Vec::new, Division::own_first),
            namespaces: self.shown_namespaces(),
            keys: self.keys(),
            relays: self.relays(),
            sessions,
            packets,
            drops,
        }
    }

    /// Whether requests are decided.
    pub fn is_serving(&self) -> bool {
        self.switch.serving()
    }

    fn authentication(&self) -> Authentication {
        let mut answers: BTreeMap<String, Counts> = BTreeMap::new();
        for (asked, result, count) in self.tally.all() {
            answers.entry(asked.word().into()).or_default().insert(result.into(), count);
        }
        Authentication {
            on: self.enrols.is_some(),
            reason: self.config.authentication_reason.into(),
            enrols: self.enrols.map(|address| address.to_string()),
            hosts: self.hosts(),
            key_rotations: self.ledger.rotations(),
            answers,
        }
    }

    /// How many hosts have joined, where packets are signed.
    pub fn hosts(&self) -> Option<u64> {
        self.enrols?;
        let hosts = self.admission.numbers().inspect_err(|error| tracing::warn!(%error, "can't list the hosts"));
        hosts.ok().map(|hosts| hosts.len() as u64)
    }

    fn shown_namespaces(&self) -> Vec<Namespace> {
        let all = self.namespaces.all();
        let shown = |&Numbered { number, settings: ref namespace }: &Numbered| {
            let lock_servers = self.lock_servers(namespace, number);
            Namespace {
                name: namespace.name.clone(),
                slots: namespace.slots,
                policy: namespace.policy_word().into(),
                patience: namespace.patience,
                engine: namespace.engine_word().into(),
                plan: if namespace.engine.has_queues() { namespace.plan_word() } else { "" }.into(),
                in_switch: self.switch.lines(number).len(),
                queues: self.queues(namespace, number),
                lock_server: first_of(&lock_servers),
                lock_servers,
                rate: namespace.budget.map(|budget| budget.rate),
                burst: namespace.budget.map(|budget| budget.burst),
                over_budget: self.switch.over_budget(number),
            }
        };
        all.iter().map(shown).collect()
    }

    /// Locks that have their queue here.
    fn queues(&self, namespace: &crate::config::Namespace, number: u16) -> Vec<Queue> {
        let queues = namespace.queues.iter().zip(namespace.queue_ids());
        let shown = |(name, id): (&String, u64)| {
            let state = self.switch.queue(number, id)?;
            let queued = self.switch.queued(number, id);
            let holders = queued.iter().filter(|queued| queued.holds).count() as u32;
            Some(Queue {
                name: name.clone(),
                cells: state.size,
                holders,
                waiters: queued.len() as u32 - holders,
                has_more: state.given != state.settled,
                // A queue that is still awaited has no ticket yet.
                asked: state.tail.saturating_sub(1),
            })
        };
        queues.filter_map(shown).collect()
    }

    /// Of each part of a namespace; 0: it has none that lives.
    pub fn lock_servers(&self, namespace: &crate::config::Namespace, number: u16) -> Vec<u16> {
        let parts = if namespace.engine.has_queues() { namespace.servers } else { 0 };
        let living = |handle| if self.switch.node_word(handle).state == NodeState::Live { handle } else { 0 };
        (0..parts).map(|part| living(self.switch.lock_server(number, part).handle)).collect()
    }

    /// Keys of the store.
    pub fn keys(&self) -> KeyRoom {
        let (kept, room) = self.switch.keys();
        KeyRoom { kept, room }
    }

    fn relays(&self) -> Vec<Relay> {
        let shown = |count: super::relays::Count| Relay {
            port: count.place.port,
            to: count.place.to,
            passed_on: count.passed_on,
            passed_back: count.passed_back,
            dropped: count.dropped.iter().map(|(why, count)| ((*why).into(), *count)).collect(),
            connections: count.connections,
        };
        self.relays.counts().map(shown).collect()
    }

    /// Packets that each namespace's budget has refused, by its name.
    pub fn over_budget(&self) -> Vec<(String, u64)> {
        let count = |each: &Numbered| (each.settings.name.clone(), self.switch.over_budget(each.number));
        self.namespaces.all().iter().map(count).collect()
    }

    /// The switch's counters: drops that occurred, by reason, and everything else.
    fn counters(&self) -> (Counts, Counts) {
        let counters = self.switch.counters().map(|(name, count)| (name.to_owned(), count));
        let (drops, packets): (Counts, Counts) =
            counters.partition(|(name, _)| DropReason::ALL.iter().any(|reason| reason.name() == name));
        (drops.into_iter().filter(|(_, count)| *count > 0).collect(), packets)
    }
}
