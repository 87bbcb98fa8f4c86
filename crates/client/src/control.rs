//! The lines that a daemon and its nodes exchange over the local control connection, one JSON object each.
//!
//! The connection is the node's lifeline: the kernel closes it when the last process that has it is gone, and the
//! daemon then ends the session at once instead of a lease later. Over it the daemon also asks for the names of locks,
//! which live at the clients alone; packets carry ids.

use serde::{Deserialize, Serialize};
use wayside_protocol::seal::under_lifeline;

/// Node to daemon, the first line. Answered by [`Welcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Who greets.
    pub hello: Hello,
}

/// Which session the connection belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Handle of the session.
    pub handle: u16,
    /// The secret of its ENROLLED, as 16 hexadecimal digits; [`veiled`] where packets are signed and the daemon is on
    /// another host.
    pub lifeline: String,
    /// Process id.
    pub pid: u32,
    /// Whether the connection is local to the host, so that its end means the end of the process.
    pub local: bool,
    /// Version of the client.
    pub version: String,
}

/// Daemon to node: whether the greeting is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// False: handle and lifeline do not belong together, or the session is over.
    pub ok: bool,
}

/// Daemon to a node that greeted with its lifeline [`veiled`]: anything but [`Welcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// The line, as any other node is told it.
    pub told: String,
    /// What only who knows the lifeline can make of it, as 16 hexadecimal digits. A line that is repeated does no harm.
    pub proof: String,
}

impl Proven {
    /// A line for the node with this lifeline.
    #[must_use]
    pub fn new(lifeline: u64, told: String) -> Proven {
        let proof = proof(lifeline, &told);
        Proven { told, proof }
    }

    /// The line, if whoever wrote it knows the lifeline.
    #[must_use]
    pub fn line(self, lifeline: u64) -> Option<String> {
        (proof(lifeline, &self.told) == self.proof).then_some(self.told)
    }
}

fn proof(lifeline: u64, told: &str) -> String {
    lifeline_text(under_lifeline(lifeline, &[b"wayside told", told.as_bytes()]))
}

/// What a node shows of its lifeline to another host's port, behind which may be anybody, and which others may read on
/// its way: with it nobody can hold or end a session, nor tell its node anything.
#[must_use]
pub fn veiled(lifeline: u64) -> u64 {
    under_lifeline(lifeline, &[b"wayside elsewhere"])
}

/// Daemon to node: list your holds and waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// Given back by the answer.
    pub id: u64,
    /// True.
    pub list: bool,
    /// Only waits that have lasted so long, and no holds: what costs nothing where nobody waits for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_us: Option<u64>,
}

/// Daemon to node: give this wait up, for it is part of a deadlock. There is no answer; the next listing shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// Id of the request, as [`Listed::request`] has it.
    pub abort: String,
    /// Who waits for whom, for people.
    pub cycle: String,
}

/// Daemon to node: which shards there are. The node follows (docs/shards.md, "Adding and draining"); there is no answer
/// here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divided {
    /// Their names and addresses, as `WAYSIDE_ENDPOINTS` has them.
    pub shards: String,
    /// Rises with every change.
    pub version: u32,
    /// All shards have it.
    pub settled: bool,
    /// The same of the map before, as long as not all have the latest; empty: it is not told.
    #[serde(default)]
    pub former: String,
    /// This shard begins sessions by it.
    #[serde(default)]
    pub moved: bool,
}

/// Longest line that a node reads: of a daemon, and so of [`Abort`].
pub const DAEMON_LINE: usize = 4 << 10;
/// The same as [`Proven`], where every quote of it has a backslash more.
pub const PROVEN_LINE: usize = 2 * DAEMON_LINE + 64;

/// Entries that a listing has at most: nobody reads more, and the thread that writes it has agents to run.
pub const LISTING_MOST: usize = 1_000;

/// Node to daemon: the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Of the request.
    pub id: u64,
    /// Which process this is: one text in all its sessions, and in no other process's.
    #[serde(default)]
    pub process: String,
    /// Holds and waits, in no particular order, the first [`LISTING_MOST`].
    pub entries: Vec<Listed>,
    /// Who waits at this node's agents: each slot's in the order in which they are served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Vec<Queued>>,
    /// Slots that this node keeps though nobody holds or awaits anything there.
    #[serde(default, skip_serializing_if = "is_none")]
    pub kept: usize,
}

fn is_none(kept: &usize) -> bool {
    *kept == 0
}

/// A wait in an agent's books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Of the node that waits.
    pub handle: u16,
    /// As [`Listed::request`] there.
    pub request: String,
}

/// A hold or a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The name as the application wrote it.
    pub name: String,
    /// Its id, as 16 hexadecimal digits.
    pub name_id: String,
    /// Slot within the namespace.
    pub slot: u32,
    /// `exclusive` or `shared`.
    pub mode: String,
    /// `held` or `waiting`.
    pub state: String,
    /// For how long, in microseconds.
    pub since_us: u64,
    /// Fencing token of a hold, in decimal; empty for a wait.
    pub token: String,
    /// Id of the request, as 16 hexadecimal digits: the session never has another one of that id.
    #[serde(default)]
    pub request: String,
    /// Of a wait, 0 to 7. Earlier nodes do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Who holds or waits: `thread/` and its id in the process, `task/` and 16 hexadecimal digits for a task that has
    /// one name in all processes; empty where that is not known.
    #[serde(default)]
    pub task: String,
    /// The task that waits for this one as for its command; mostly empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent: String,
}

/// A request's id as [`Listed::request`] has it.
#[must_use]
pub fn request_text(request: u64) -> String {
    format!("{request:016x}")
}

/// A lifeline as [`Hello::lifeline`] writes it.
#[must_use]
pub fn lifeline_text(lifeline: u64) -> String {
    format!("{lifeline:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_is_the_documented_line() {
        let hello = Hello {
            handle: 7,
            lifeline: lifeline_text(0x0123_4567_89ab_cdef),
            pid: 4711,
            local: true,
            version: "0.1.0".into(),
        };
        assert_eq!(
            serde_json::to_string(&Greeting { hello }).unwrap(),
            r#"{"hello":{"handle":7,"lifeline":"0123456789abcdef","pid":4711,"local":true,"version":"0.1.0"}}"#
        );
    }

    #[test]
    fn what_a_node_is_asked_and_told_are_the_documented_lines() {
        let list = |waiting_us| serde_json::to_string(&ListRequest { id: 3, list: true, waiting_us }).unwrap();
        assert_eq!(list(None), r#"{"id":3,"list":true}"#);
        assert_eq!(list(Some(10_000_000)), r#"{"id":3,"list":true,"waiting_us":10000000}"#);
        let abort = Abort { abort: request_text(0x1_0000_0001), cycle: "a waits for b".into() };
        let line = r#"{"abort":"0000000100000001","cycle":"a waits for b"}"#;
        assert_eq!(serde_json::to_string(&abort).unwrap(), line);
        assert!(serde_json::from_str::<ListRequest>(line).is_err() && serde_json::from_str::<Welcome>(line).is_err());
    }

    #[test]
    fn what_is_told_elsewhere_is_believed_of_who_knows_the_lifeline() {
        let proven = Proven::new(7, r#"{"id":3}"#.into());
        let line = r#"{"told":"{\"id\":3}","proof":"18eb08bf1cdeb468"}"#;
        assert_eq!(serde_json::to_string(&proven).unwrap(), line);
        assert_eq!(proven.clone().line(7).as_deref(), Some(r#"{"id":3}"#));
        let by_what_is_shown = Proven::new(veiled(7), r#"{"id":3}"#.into());
        for (forged, lifeline) in [
            (proven.clone(), 8),
            (Proven { told: r#"{"id":4}"#.into(), ..proven }, 7),
            (by_what_is_shown, 7),
            (Proven { told: String::new(), proof: lifeline_text(veiled(7)) }, 7),
        ] {
            assert_eq!(forged.line(lifeline), None);
        }
        let longest = Proven::new(7, "\"".repeat(DAEMON_LINE));
        assert!(serde_json::to_string(&longest).unwrap().len() <= PROVEN_LINE);
    }
}
