//! The configuration's `[[namespace]]` entries: what tenants have to themselves.

use super::{LONGEST_LEASE, Layers, value_of, word_of};
use crate::failure::Failure;
use serde::Deserialize;
use std::collections::HashSet;
use std::time::Duration;
use wayside_client::Name;
use wayside_protocol::controller::{self, Allocation, Room};
use wayside_protocol::memory::Part;
use wayside_protocol::{LONGEST_PATIENCE, Names, OVERTAKEN_MOST};
use wayside_switch::Budget;
use wayside_wire::limits::MAX_NAMESPACE_BYTES;
use wayside_wire::{Engine, Policy};

/// 2^26 slots are 1 GiB.
const MAX_SLOTS: i64 = 1 << 26;
const DEFAULT_SLOTS: u32 = 1 << 16;
/// A switch has room for as many, or a multiple of it: 4 MiB.
const SLOTS_AT_ONCE: i64 = 1 << 18;

/// 2^24 keys are 5.5 GiB.
const MAX_KEYS: i64 = 1 << 24;
/// 6 MiB.
const DEFAULT_KEYS: u32 = 1 << 14;
/// Groups of all namespaces together: their numbers have 16 bits.
const MAX_GROUPS: i64 = 1 << 16;
/// Chains change group by group: with 16, a sixteenth of the keys waits for each.
const DEFAULT_GROUPS: u16 = 16;

const POLICIES: [(&str, Policy); 3] = [
    ("fair", Policy::Fair),
    ("read-preferring", Policy::ReadPreferring),
    ("write-preferring", Policy::WritePreferring),
];

const ENGINES: [(&str, Engine); 3] =
    [("fission", Engine::Fission), ("queue", Engine::Queue), ("hybrid", Engine::Hybrid)];
const ALLOCATIONS: [(&str, Allocation); 3] =
    [("fixed", Allocation::Fixed), ("knapsack", Allocation::Knapsack), ("random", Allocation::Random)];
/// Cells of a namespace whose queues are planned: 64 KiB, and as much again for the queues.
const DEFAULT_ROOM: i64 = 4_096;
const MOST_ROOM: i64 = 1 << 16;
/// Queues of such a namespace: the controller looks at all of them 100 times a second.
const MOST_QUEUES: u32 = 4_096;
/// Cells of all queues together: 16 MiB.
const MAX_CELLS: i64 = 1 << 20;
/// A switch has room for as many cells and as many queues, or a multiple of it: 256 KiB and, with their index, 1.7 MiB.
const CELLS_AT_ONCE: u32 = 1 << 14;
/// Holders and waiters of a lock at a time; more are at the lock server.
const DEFAULT_CELLS: i64 = 64;

/// After a restart of the switch everybody waits for a silent session until its lease is over: no tenant's choice alone
/// is to make that an hour.
const DEFAULT_LONGEST_LEASE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSettings {
    name: String,
    slots: Option<i64>,
    policy: Option<String>,
    patience: Option<i64>,
    engine: Option<String>,
    queues: Option<Vec<String>>,
    cells: Option<i64>,
    plan: Option<String>,
    room: Option<i64>,
    servers: Option<i64>,
    longest_lease: Option<String>,
    keys: Option<i64>,
    groups: Option<i64>,
    rate: Option<i64>,
    burst: Option<i64>,
}

/// A namespace: names apart from those of others, with slots and keys of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub slots: u32,
    pub policy: Policy,
    /// How often who waits is overtaken at most.
    pub patience: u8,
    /// Who keeps its locks.
    pub engine: Engine,
    /// Of engines with queues: locks that have their queue in the switch when it begins.
    pub queues: Vec<String>,
    /// Cells of each of these.
    pub cells: u32,
    /// Who decides which locks have one,
    pub allocation: Allocation,
    /// and how much of the switch's memory is theirs.
    pub room: Room,
    /// Parts of its names, each of which has a lock server.
    pub servers: u16,
    /// Of the leases that its sessions may ask for.
    pub longest_lease: Duration,
    /// Keys of the store that the switch has room for; those of all namespaces share it. 0: there is none.
    pub keys: u32,
    /// Virtual groups that its keys are spread over.
    pub groups: u16,
    /// What is decided of its requests at most.
    pub budget: Option<Budget>,
}

impl Namespace {
    /// As the controller has it. `lease`: of sessions that ask for none.
    pub fn controlled(&self, number: u16, lease: Duration) -> controller::Namespace {
        controller::Namespace {
            id: number,
            name: self.name.clone(),
            policy: self.policy,
            patience: self.patience,
            engine: self.engine,
            names: self.listed(),
            allocation: self.allocation,
            room: self.room,
            servers: self.servers,
            lease: lease.as_micros() as u32,
            longest_lease: self.longest_lease.as_micros() as u32,
        }
    }

    /// Its budget, for people.
    pub fn budget_text(&self) -> String {
        let limit = |budget: Budget| format!("{} requests a second, {} at once", budget.rate, budget.burst);
        self.budget.map_or_else(|| "no limit".into(), limit)
    }

    /// What its locks have of the switch's memory, for people.
    pub fn room_text(&self) -> String {
        let slots = format!("{} slots", self.slots);
        let Room { cells, queues, .. } = self.room;
        match (self.engine.has_queues(), self.allocation) {
            (false, _) => slots,
            (true, Allocation::Fixed) => format!("{slots}, {queues} queues of {} cells", self.cells),
            (true, _) => format!("{slots}, {cells} cells for queues"),
        }
    }

    /// What a file has for the policy.
    pub fn policy_word(&self) -> &'static str {
        word_of(&POLICIES, self.policy)
    }

    /// The same for people.
    pub fn order_text(&self) -> String {
        Namespace::policy_text(self.policy_word(), self.patience)
    }

    /// A policy, for people; and the patience where it is not the usual one.
    pub fn policy_text(policy: &str, patience: u8) -> String {
        if patience == OVERTAKEN_MOST { policy.into() } else { format!("{policy}, overtaken {patience} times at most") }
    }

    /// What a file has for the engine.
    pub fn engine_word(&self) -> &'static str {
        word_of(&ENGINES, self.engine)
    }

    /// What a file has for who decides which locks have a queue in the switch.
    pub fn plan_word(&self) -> &'static str {
        word_of(&ALLOCATIONS, self.allocation)
    }

    /// Of the hybrid engine: what nodes are told, which is what has its queue in the switch.
    pub fn listed(&self) -> Names {
        let ids = self.queue_ids().filter(|_| self.engine == Engine::Hybrid);
        Names::new(ids).expect("their number was checked")
    }

    /// Name ids of the locks that have their queue in the switch.
    pub fn queue_ids(&self) -> impl Iterator<Item = u64> {
        self.queues.iter().filter_map(|name| Name::from(name).id().ok())
    }
}

/// Room for so many queues or cells, and for those that come later.
pub(super) fn at_once(count: u32) -> u32 {
    count.max(1).next_multiple_of(CELLS_AT_ONCE)
}

impl Layers<'_> {
    /// `lease`: of sessions that ask for none.
    pub(super) fn namespaces(&self, lease: Duration) -> Result<Vec<Namespace>, Failure> {
        let Some((settings, _)) = self.pick(|s| s.namespaces.as_ref()) else {
            return Ok(vec![Namespace {
                name: "default".into(),
                slots: DEFAULT_SLOTS,
                policy: Policy::Fair,
                patience: OVERTAKEN_MOST,
                engine: Engine::Fission,
                queues: Vec::new(),
                cells: 0,
                allocation: Allocation::Fixed,
                room: Room::default(),
                servers: 1,
                longest_lease: lease.max(DEFAULT_LONGEST_LEASE),
                keys: DEFAULT_KEYS,
                groups: DEFAULT_GROUPS,
                budget: None,
            }]);
        };
        let mut names = HashSet::new();
        let mut namespaces = Vec::new();
        for settings in settings {
            let NamespaceSettings { name, slots, policy, keys, groups, rate, burst, .. } = settings;
            if name.is_empty() || name.len() > MAX_NAMESPACE_BYTES || name.contains('\0') {
                let rule = format!("must have 1 to {MAX_NAMESPACE_BYTES} bytes, none of them zero");
                return Err(self.wrong("namespace.name", &format_args!("{name:?}"), false, &rule));
            }
            if !names.insert(name) {
                return Err(self.wrong("namespace.name", &format_args!("{name:?}"), false, "is there twice"));
            }
            let slots =
                self.number("namespace.slots", slots.unwrap_or(DEFAULT_SLOTS.into()), false, 1, MAX_SLOTS)? as u32;
            let policy = policy.as_deref().unwrap_or("fair");
            let policy = value_of(&POLICIES, policy)
                .map_err(|rule| self.wrong("namespace.policy", &format_args!("{policy:?}"), false, &rule))?;
            let patience = self.patience(settings, policy)?;
            let keys = keys.unwrap_or(DEFAULT_KEYS.into());
            let keys = self.number("namespace.keys", keys, false, 0, MAX_KEYS)? as u32;
            let groups = groups.unwrap_or(DEFAULT_GROUPS.into());
            let groups = self.number("namespace.groups", groups, false, 1, 4_096)? as u16;
            let budget = self.budget(*rate, *burst)?;
            let (engine, queues, cells) = self.engine(settings)?;
            let (allocation, room) = self.plan(settings, engine, queues.len() as u32, cells)?;
            let servers = self.servers(settings, engine)?;
            let longest_lease = match &settings.longest_lease {
                Some(text) => self.duration("namespace.longest_lease", text, false, lease, LONGEST_LEASE)?,
                None => lease.max(DEFAULT_LONGEST_LEASE),
            };
            namespaces.push(Namespace {
                name: name.clone(),
                slots,
                policy,
                patience,
                engine,
                queues,
                cells,
                allocation,
                room,
                servers,
                longest_lease,
                keys,
                groups,
                budget,
            });
        }
        if namespaces.is_empty() {
            return Err(self.wrong("namespace", &"[]", false, "must have at least one entry"));
        }
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.slots)).sum();
        self.number("namespace.slots of all namespaces", total, false, 1, MAX_SLOTS)?;
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.keys)).sum();
        self.number("namespace.keys of all namespaces", total, false, 0, MAX_KEYS)?;
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.groups)).sum();
        self.number("namespace.groups of all namespaces", total, false, 1, MAX_GROUPS)?;
        let total = namespaces.iter().map(|namespace| i64::from(namespace.room.cells)).sum();
        self.number("namespace.cells of all queues", total, false, 0, MAX_CELLS)?;
        Ok(namespaces)
    }

    /// Of all namespaces, and of those that come later.
    pub(super) fn slots(&self, namespaces: &[Namespace]) -> Result<u32, Failure> {
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.slots)).sum();
        let Some((&slots, flag)) = self.pick(|s| s.slots.as_ref()) else {
            return Ok((total as u64).next_multiple_of(SLOTS_AT_ONCE as u64) as u32);
        };
        if slots < total {
            let rule = format!("is less than the {total} that the namespaces have");
            return Err(self.wrong("slots", &slots, flag, &rule));
        }
        Ok(self.number("slots", slots, flag, 1, MAX_SLOTS)? as u32)
    }

    /// Of the queues of all namespaces, and of those that come later.
    pub(super) fn cells(&self, namespaces: &[Namespace]) -> Result<u32, Failure> {
        let total: u32 = namespaces.iter().map(|namespace| namespace.room.cells).sum();
        let Some((&cells, flag)) = self.pick(|s| s.cells.as_ref()) else {
            return Ok(at_once(total));
        };
        if cells < total.into() {
            let rule = format!("is less than the {total} that the namespaces' queues have");
            return Err(self.wrong("cells", &cells, flag, &rule));
        }
        Ok(self.number("cells", cells, flag, 0, MAX_CELLS)? as u32)
    }

    /// The engine, the locks that have their queue in the switch, and cells of each.
    fn engine(&self, settings: &NamespaceSettings) -> Result<(Engine, Vec<String>, u32), Failure> {
        let NamespaceSettings { engine, queues, cells, .. } = settings;
        let engine = engine.as_deref().unwrap_or("fission");
        let engine = value_of(&ENGINES, engine)
            .map_err(|rule| self.wrong("namespace.engine", &format_args!("{engine:?}"), false, &rule))?;
        let queues = queues.clone().unwrap_or_default();
        let says_some = !queues.is_empty() || cells.is_some();
        if says_some && !engine.has_queues() {
            let rule = "goes with engine = \"queue\" or \"hybrid\"";
            return Err(self.wrong("namespace.queues", &format_args!("{queues:?}"), false, rule));
        }
        let mut ids = HashSet::new();
        for name in &queues {
            let id = Name::from(name).id();
            let id = id.map_err(|error| {
                self.wrong("namespace.queues", &format_args!("{name:?}"), false, &error.to_string())
            })?;
            if !ids.insert(id) {
                return Err(self.wrong("namespace.queues", &format_args!("{name:?}"), false, "is there twice"));
            }
        }
        if engine == Engine::Hybrid {
            self.check_list(&queues)?;
        }
        let cells = self.number("namespace.cells", cells.unwrap_or(DEFAULT_CELLS), false, 1, 1_024)? as u32;
        Ok((engine, queues, cells))
    }

    /// What is listed of a hybrid namespace: each of its nodes is told all of it, in one packet.
    fn check_list(&self, queues: &[String]) -> Result<(), Failure> {
        let rule = match queues.len() {
            0 => "must name the locks that are queues: with engine = \"fission\" none is".to_string(),
            1..=Names::MOST => return Ok(()),
            many => format!("has {many} names: with engine = \"hybrid\" {} are listed at most", Names::MOST),
        };
        Err(self.wrong(
            "namespace.queues",
            &format_args!("{:?}", queues.first().into_iter().collect::<Vec<_>>()),
            false,
            &rule,
        ))
    }

    /// Who decides what is in the switch, and how much that may be: what the configuration puts there, or what it
    /// leaves to a plan.
    fn plan(
        &self,
        settings: &NamespaceSettings,
        engine: Engine,
        queues: u32,
        cells: u32,
    ) -> Result<(Allocation, Room), Failure> {
        let plan = settings.plan.as_deref().unwrap_or("fixed");
        let wrong = |rule: &str| self.wrong("namespace.plan", &format_args!("{plan:?}"), false, rule);
        let allocation = value_of(&ALLOCATIONS, plan).map_err(|rule| wrong(&rule))?;
        if settings.plan.is_some() && !engine.has_queues() {
            return Err(wrong("goes with engine = \"queue\""));
        }
        if engine == Engine::Hybrid && allocation != Allocation::Fixed {
            return Err(wrong("goes with engine = \"queue\": what is listed with \"hybrid\" stays so"));
        }
        let fixed = if engine.has_queues() { i64::from(queues) * i64::from(cells) } else { 0 };
        self.number("namespace.cells of all queues", fixed, false, 0, MAX_CELLS)?;
        if allocation == Allocation::Fixed {
            let lonely = settings.room.map(|room| {
                let rule = "goes with plan = \"knapsack\" or \"random\": otherwise `queues` and `cells` say it";
                self.wrong("namespace.room", &room, false, rule)
            });
            let room = Room { cells: fixed as u32, most: cells, queues };
            return lonely.map_or(Ok((allocation, room)), Err);
        }
        let least = fixed.max(cells.into());
        let room = settings.room.unwrap_or(DEFAULT_ROOM.max(least));
        if room < least {
            let rule = format!("must be at least {least}: `cells`, for each of the `queues`");
            return Err(self.wrong("namespace.room", &room, false, &rule));
        }
        let room = self.number("namespace.room", room, false, 1, MOST_ROOM)? as u32;
        Ok((allocation, Room { cells: room, most: cells, queues: room.min(MOST_QUEUES) }))
    }

    /// How many lock servers there are at a time, each with its part of the names.
    fn servers(&self, settings: &NamespaceSettings, engine: Engine) -> Result<u16, Failure> {
        let Some(servers) = settings.servers else { return Ok(1) };
        if !engine.has_queues() {
            return Err(self.wrong("namespace.servers", &servers, false, "goes with engine = \"queue\""));
        }
        Ok(self.number("namespace.servers", servers, false, 1, Part::MOST.into())? as u16)
    }

    /// How often who waits is overtaken at most by those who go before it.
    fn patience(&self, settings: &NamespaceSettings, policy: Policy) -> Result<u8, Failure> {
        let Some(patience) = settings.patience else { return Ok(OVERTAKEN_MOST) };
        if patience == 0 && policy == Policy::WritePreferring {
            let rule = "must be at least 1 with policy = \"write-preferring\": with 0 nobody ever goes before another";
            return Err(self.wrong("namespace.patience", &patience, false, rule));
        }
        Ok(self.number("namespace.patience", patience, false, 0, LONGEST_PATIENCE.into())? as u8)
    }

    fn budget(&self, rate: Option<i64>, burst: Option<i64>) -> Result<Option<Budget>, Failure> {
        let Some(rate) = rate else {
            let lonely =
                burst.map(|burst| self.wrong("namespace.burst", &burst, false, "goes with a rate: name that too"));
            return lonely.map_or(Ok(None), Err);
        };
        let most = i64::from(Budget::MAX_RATE);
        if !(1..=most).contains(&rate) {
            let rule = format!("must be 1 to {most} requests a second; leave it out for no limit");
            return Err(self.wrong("namespace.rate", &rate, false, &rule));
        }
        let rate = rate as u32;
        let (least, most) = (Budget::least_burst(rate), Budget::MAX_BURST);
        let burst = burst.unwrap_or(least.into());
        if !(i64::from(least)..=most.into()).contains(&burst) {
            let rule = format!(
                "must be {least} to {most}: a packet has up to 32 requests, and a rate of {rate} has {} in a tick of 10 ms",
                rate.div_ceil(100)
            );
            return Err(self.wrong("namespace.burst", &burst, false, &rule));
        }
        Ok(Some(Budget { rate, burst: burst as u32 }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    /// Whoever asks for no lease has to get the configured one.
    #[test]
    fn the_longest_lease_is_a_minute_unless_the_configured_one_is_longer() {
        let longest = |text: &str| {
            let config = Settings::default().over(toml::from_str(text).unwrap(), None);
            config.unwrap().namespaces[0].longest_lease
        };
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!(["", "lease = '10m'"].map(longest), [minutes(1), minutes(10)]);
        assert_eq!(longest("lease = '10m'\n[[namespace]]\nname = 'a'"), minutes(10));
        assert_eq!(longest("lease = '10m'\n[[namespace]]\nname = 'a'\nlongest_lease = '20m'"), minutes(20));
    }
}
