//! The lines that a daemon and its nodes exchange over the local control connection, one JSON object each.
//!
//! The connection is the node's lifeline: the kernel closes it when the last process that has it is gone, and the
//! daemon then ends the session at once instead of a lease later. Over it the daemon also asks for the names of locks,
//! which live at the clients alone; packets carry ids.

use serde::{Deserialize, Serialize};

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
    /// The secret of its ENROLLED, as 16 hexadecimal digits.
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

/// Daemon to node: list your holds and waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// Given back by the answer.
    pub id: u64,
    /// True.
    pub list: bool,
}

/// Entries that a listing has at most: nobody reads more, and the thread that writes it has agents to run.
pub const LISTING_MOST: usize = 1_000;

/// Node to daemon: the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Of the request.
    pub id: u64,
    /// Holds and waits, in no particular order, the first [`LISTING_MOST`].
    pub entries: Vec<Listed>,
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
}
