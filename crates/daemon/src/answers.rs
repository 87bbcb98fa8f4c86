//! What the daemon answers to a command's query: one JSON line each, printed as they are by `-o json`.

use crate::commands::text::shown;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use wayside_client::control::Listing;
use wayside_protocol::OVERTAKEN_MOST;

/// A command's question, as a JSON line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "query", rename_all = "lowercase", deny_unknown_fields)]
pub enum Query {
    /// Answered by [`Status`].
    Status,
    /// Answered by [`Locks`].
    Locks,
    /// Answered by [`Plans`].
    Plan,
    /// Answered by [`Deadlocks`].
    Deadlocks,
    /// Answered by [`Listings`].
    Listings,
    /// Answered by [`Keys`], or by [`Refused`] if there is no such namespace.
    Keys { namespace: String, prefix: String },
    /// Answered by [`Chains`], or by [`Refused`] where another switch knows.
    Chains,
    /// A switch is to have so large a share of the groups: 0, and it is left by all. Answered by [`Changed`].
    Share { switch: String, share: u32 },
    /// Groups whose last switch has lost its memory begin anew, empty. Answered by [`Changed`].
    Recover,
    /// Which shards there are, as this one has them. Answered by [`ShardsAnswer`], or by [`Refused`] where another
    /// switch of the shard knows, or there is one shard.
    Shards,
    /// What an operator tells a shard of a change of the shards. Answered by [`Changed`], or by [`Refused`].
    Divide { version: u32, step: ShardStep, begins: Option<u32>, above: u32, map: String, former: String },
    /// The configuration's file is read again. Answered by [`Reloaded`], or by [`Refused`], which tells what has
    /// changed nevertheless.
    Reload,
    /// Answered by [`Session`], or by [`Refused`] if that handle is vacant.
    Node { handle: u16 },
}

/// The switches of a shard and their chains, as the controller of chains has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chains {
    pub switches: Vec<ChainSwitch>,
    pub groups: Vec<ChainGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainSwitch {
    pub address: String,
    /// 0: it is to have no groups.
    pub share: u32,
    /// It was heard of lately.
    pub up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainGroup {
    pub namespace: String,
    /// Within the namespace.
    pub group: u16,
    pub epoch: u32,
    /// `waiting`, `changing`, `serving`, `copying`, `joining` or `lost`.
    pub state: String,
    /// Head first.
    pub chain: Vec<String>,
    /// Who copies it.
    pub joiner: Option<String>,
}

/// How far a shard has come with a map: [`wayside_protocol::controller::Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardStep {
    Announced,
    Moved,
    Decided,
    Settled,
}

/// What a shard has of the map of all shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardsAnswer {
    /// Its name.
    pub shard: String,
    /// Of the map; 0: that of the configuration.
    pub version: u32,
    pub step: ShardStep,
    /// Whether sessions begin.
    pub open: bool,
    /// Names and addresses of all shards, as WAYSIDE_ENDPOINTS has them; empty with version 0.
    pub map: String,
    /// The same of the map before.
    pub former: String,
    /// Handles of sessions that may hold what it had by maps before and has no more.
    pub behind: Vec<u16>,
    pub epoch: u32,
}

/// What a running switch has taken over from its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// For people; empty: nothing differs.
    pub changes: Vec<String>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Groups or switches that were changed.
    pub changed: usize,
}

/// Keys that the switch keeps, those without a value too, and how many it has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRoom {
    pub kept: u32,
    pub room: u32,
}

/// Keys whose names begin as was asked for, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    pub keys: Vec<KeyLine>,
    /// As many more there are.
    pub more: usize,
    /// Keys of the switch, of whatever namespace, whose names it does not know.
    #[serde(default)]
    pub unnamed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLine {
    /// What of it is no text is shown as U+FFFD.
    pub name: String,
    pub version: String,
    /// Length of its value; none: it has no value.
    pub bytes: Option<u16>,
}

/// From a process that has a node's session in its care, such as the command under `wayside lock`: `{"hold": ...}`.
/// As long as the connection lives, the end of the node's own is not taken for the end of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub handle: u16,
    /// The session's secret, as 16 hexadecimal digits.
    pub lifeline: String,
}

/// The answer to a line that makes no sense or can't be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub error: String,
    /// Another switch of the shard may know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// The switch, its sessions, its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub listen: String,
    /// Where the admin port is: control connections of other hosts, and HTTP.
    #[serde(default)]
    pub admin_listen: String,
    /// `native XDP`, `generic XDP` or `userspace`.
    pub mode: String,
    /// The interfaces whose packets are decided by XDP.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Why it is not XDP, or not native; or what is lost because it is.
    #[serde(default)]
    pub mode_reason: Option<String>,
    pub authentication: Authentication,
    pub threads: usize,
    pub wait: String,
    pub uptime_us: u64,
    pub epoch: u32,
    /// False while the switch recovers, or is a standby.
    pub serving: bool,
    /// What it is among the switches of its shard.
    #[serde(default)]
    pub role: Role,
    /// Where locks are divided among shards: its own, then the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<String>,
    pub namespaces: Vec<Namespace>,
    /// Of all namespaces together.
    #[serde(default)]
    pub keys: KeyRoom,
    /// Ports that stand for other switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<Relay>,
    pub sessions: Vec<Session>,
    /// Packets by what was decided, those of the daemon's own sockets included.
    pub packets: BTreeMap<String, u64>,
    /// Dropped packets by reason; reasons that never occurred are left out.
    pub drops: BTreeMap<String, u64>,
}

/// A port that stands for another switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    pub port: u16,
    pub to: SocketAddrV4,
    /// Packets of clients.
    pub passed_on: u64,
    /// Packets of the switch.
    pub passed_back: u64,
    /// Packets, by why.
    pub dropped: BTreeMap<String, u64>,
    /// That it carries now.
    pub connections: u64,
}

/// What a switch is among those of its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// There are no others.
    #[default]
    Alone,
    /// It serves, while others stand by.
    Serving,
    /// Another one serves, at this address, or (none) nobody does, as far as is known.
    Standby { serving: Option<SocketAddrV4> },
}

/// How it stands with authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// Whether packets are signed.
    pub on: bool,
    /// Why they are, or are not.
    pub reason: String,
    /// Where hosts join and enrol, if they are.
    pub enrols: Option<String>,
    /// How many hosts have joined; None also where that can't be read.
    pub hosts: Option<u64>,
    /// Changes of sessions' keys, since the daemon started.
    pub key_rotations: u64,
    /// What became of the questions at the enrolment port, by question and result, likewise.
    pub answers: BTreeMap<String, BTreeMap<String, u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub name: String,
    pub slots: u32,
    pub policy: String,
    /// How often who waits is overtaken at most; 8 from an earlier daemon.
    #[serde(default = "usual_patience")]
    pub patience: u8,
    /// Who keeps its locks; empty from a daemon that knows but one engine.
    #[serde(default)]
    pub engine: String,
    /// Who decides which locks have their queue in the switch; empty from an earlier daemon.
    #[serde(default)]
    pub plan: String,
    /// How many have.
    #[serde(default)]
    pub in_switch: usize,
    /// Of these, those that the configuration names.
    #[serde(default)]
    pub queues: Vec<Queue>,
    /// Handle of the node that is the lock server, of several that of the first part; 0: none.
    #[serde(default)]
    pub lock_server: u16,
    /// Those of all parts, in order. Earlier daemons, which have one, do not say.
    #[serde(default)]
    pub lock_servers: Vec<u16>,
    /// Its budget, if it has one: requests a second, and at once.
    pub rate: Option<u32>,
    pub burst: Option<u32>,
    /// Packets that it refused.
    #[serde(default)]
    pub over_budget: u64,
}

fn usual_patience() -> u8 {
    OVERTAKEN_MOST
}

/// The lock servers of a namespace, for people: of each part of several.
pub fn servers_text(only: u16, parts: &[u16]) -> String {
    let name = |handle: u16| if handle == 0 { "none".into() } else { handle.to_string() };
    match (parts, only) {
        ([_, _, ..], _) => {
            let servers: Vec<String> = parts.iter().map(|handle| name(*handle)).collect();
            format!("lock servers of {} parts: {}", parts.len(), servers.join(" "))
        }
        (_, 0) => "no lock server".into(),
        (_, server) => format!("lock server {server}"),
    }
}

/// A lock's queue in the switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub name: String,
    pub cells: u32,
    /// Who has the lock, and who waits for it here.
    pub holders: u32,
    pub waiters: u32,
    /// Whether others wait at the lock server, as far as the switch knows. Earlier daemons do not say.
    #[serde(default)]
    pub has_more: bool,
    /// Requests that were given a cell so far.
    pub asked: u64,
}

impl Namespace {
    /// Its engine, for people.
    pub fn engine(&self) -> String {
        let queues = self.in_switch.max(self.queues.len());
        let plan = if matches!(self.plan.as_str(), "" | "fixed") { String::new() } else { format!(" ({})", self.plan) };
        if !matches!(self.engine.as_str(), "queue" | "hybrid") {
            return String::new();
        }
        let hybrid = if self.engine == "hybrid" { ", hybrid" } else { "" };
        format!("{hybrid}, {queues} queues{plan}, {}", servers_text(self.lock_server, &self.lock_servers))
    }

    /// Its budget, for people.
    pub fn budget(&self) -> String {
        match (self.rate, self.burst) {
            (Some(rate), Some(burst)) => {
                format!(", {rate} requests a second, {burst} at once: {} packets were over it", self.over_budget)
            }
            _ => String::new(),
        }
    }
}

/// A node's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub handle: u16,
    pub host: String,
    pub pid: u32,
    pub namespace: String,
    pub incarnation: u64,
    pub address: String,
    /// Whether its packets are.
    pub signed: bool,
    pub lease_us: u64,
    /// Whether its process is connected to this daemon on the same host, so that its death is noticed at once.
    pub lifeline: bool,
}

/// Who holds and awaits what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locks {
    pub locks: Vec<Lock>,
    /// Sessions that did not say what they hold: not connected to this daemon, or too slow.
    pub silent: Vec<Owner>,
    /// Sessions that hold or await more than is listed.
    pub partial: Vec<Owner>,
    /// Sessions that keep locks though nobody holds or awaits them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keepers: Vec<Keeper>,
}

/// A session that keeps locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeper {
    pub owner: Owner,
    pub namespace: String,
    /// How many slots.
    pub kept: usize,
}

/// A hold or a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    pub name_id: String,
    pub namespace: String,
    pub slot: u32,
    /// `exclusive` or `shared`.
    pub mode: String,
    /// `held` or `waiting`.
    pub state: String,
    pub since_us: u64,
    /// Fencing token of a hold, empty for a wait.
    pub token: String,
    /// Of a wait, where its node says it: 0 to 7, and the higher is served earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    pub owner: Owner,
}

/// Of the namespaces whose locks are queues: which have theirs in the switch, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plans {
    pub namespaces: Vec<Plan>,
    /// Of the others, whose requests nobody counts: locks that somebody awaits now, first those that most await.
    /// Earlier daemons do not say.
    #[serde(default)]
    pub awaited: Vec<AwaitedLock>,
}

/// A lock and who is at it, as far as processes say that are connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedLock {
    pub name: String,
    pub name_id: String,
    pub namespace: String,
    pub holders: u32,
    pub waiters: u32,
}

/// Of one namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub namespace: String,
    /// `fixed`, `knapsack` or `random`.
    pub plan: String,
    /// Cells of its queues in the switch: that there are to give, and that are given.
    pub room: u32,
    pub used: u32,
    /// Handle of the node that is the lock server, of several that of the first part; 0: none.
    pub lock_server: u16,
    /// Those of all parts, in order. Earlier daemons, which have one, do not say.
    #[serde(default)]
    pub lock_servers: Vec<u16>,
    /// Those in the switch and those that are known to be asked for, first the ones that are asked for most.
    pub locks: Vec<PlannedLock>,
}

/// A lock, where it lies, what was measured of it, and what follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedLock {
    /// Empty where nobody who is connected holds or awaits it, and no configuration names it.
    pub name: String,
    pub name_id: String,
    /// `switch` or `server`.
    pub place: String,
    /// Requests a second.
    pub rate: f64,
    /// Holders and waiters at a time.
    pub concurrency: u32,
    /// Of its queue in the switch; 0: it has none.
    pub cells: u32,
    /// Requests a second for each cell that it needs.
    pub density: f64,
    /// What is going to change: `to switch`, `to server`, `resize`, or nothing.
    pub moves: String,
    /// Why it is to be where it is to be.
    pub why: String,
}

/// What each session's node lists: who looks for deadlocks over several shards asks all of them for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listings {
    pub nodes: Vec<NodeListing>,
}

/// Of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeListing {
    pub owner: Owner,
    pub namespace: String,
    /// None: it did not say what it holds.
    pub listing: Option<Listing>,
}

/// Tasks that wait for each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlocks {
    pub deadlocks: Vec<Deadlock>,
    /// Cycles in the nodes' first listings that the second ones did not confirm: of locks that changed hands meanwhile.
    pub unconfirmed: usize,
    /// As in [`Locks`]: what they are part of is not known.
    pub silent: Vec<Owner>,
    pub partial: Vec<Owner>,
}

/// A circle: each waits for the next one, the last for the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlock {
    pub cycle: Vec<Step>,
}

/// Who waits, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub owner: Owner,
    /// `thread/` and its id, `task/` and 16 hexadecimal digits; empty where it is not known.
    pub task: String,
    /// The lock that it waits for; empty where it waits for its command.
    pub name: String,
    pub namespace: String,
    pub mode: String,
    /// For how long.
    pub since_us: u64,
    /// Why for the next one: `held` by that one, `queued` behind that one, or that one is the `command` that it runs.
    pub because: String,
    /// Of the next one's hold, if that is it.
    pub token: String,
}

/// A process with a session, as people know it: `host/pid`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Where a deadlock is looked for over several shards: whose handle it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shard: String,
    pub handle: u16,
    pub host: String,
    pub pid: u32,
}

impl Session {
    pub fn owner(&self) -> Owner {
        Owner { shard: String::new(), handle: self.handle, host: self.host.clone(), pid: self.pid }
    }
}

/// Steps of a circle that are written out: with the longest names of hosts and locks they fit in a line of the control
/// connection, whatever JSON makes of their characters.
const STEPS_SHOWN: usize = 5;
const NAME_SHOWN: usize = 40;

/// In one line, for a log and for the error of who gives up.
impl std::fmt::Display for Deadlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, step) in self.cycle.iter().enumerate() {
            let next = &self.cycle[(place + 1) % self.cycle.len()];
            if place == STEPS_SHOWN {
                return write!(f, ", and so on, {} in all", self.cycle.len());
            }
            match place {
                0 => write!(f, "{} waits for ", step.party())?,
                _ => f.write_str(", which waits for ")?,
            }
            match step.because.as_str() {
                "command" => write!(f, "its command {}", next.party())?,
                because => {
                    let name: String = shown(&step.name).chars().take(NAME_SHOWN).collect();
                    let how = if because == "held" { "held by" } else { "behind" };
                    write!(f, "{name} ({}) {how} {}", step.mode, next.party())?;
                }
            }
        }
        Ok(())
    }
}

impl Step {
    fn party(&self) -> String {
        match self.task.strip_prefix("thread/") {
            Some(thread) => format!("{}/{thread}", self.owner),
            None => self.owner.to_string(),
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.host, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_the_documented_lines() {
        for (query, line) in [
            (Query::Status, r#"{"query":"status"}"#),
            (Query::Locks, r#"{"query":"locks"}"#),
            (Query::Plan, r#"{"query":"plan"}"#),
            (Query::Deadlocks, r#"{"query":"deadlocks"}"#),
            (Query::Listings, r#"{"query":"listings"}"#),
            (Query::Node { handle: 7 }, r#"{"query":"node","handle":7}"#),
        ] {
            assert_eq!(serde_json::to_string(&query).unwrap(), line);
            assert_eq!(serde_json::from_str::<Query>(line).unwrap(), query);
        }
    }
}
