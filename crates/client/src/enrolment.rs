//! Enrolment over a secure connection: what is asked and answered, and what a host is let in with.
//!
//! ```text
//!   host                                       switch's daemon, TCP, TLS 1.3
//!   join:  {"join": secret of a token, key} ──► a token is good once ──► {"joined": certificate}
//!   enrol: with that certificate, {"enrol"} ──► Controller::enrol    ──► {"enrolled": session, its secret}
//! ```
//!
//! One JSON object a line, one question a connection.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddrV4;
use std::str::FromStr;
use wayside_protocol::seal::{Enrolment, Secret};
use wayside_protocol::{LONGEST_PATIENCE, Names, OVERTAKEN_MOST};
use wayside_wire::{Engine, Policy};

/// The protocol's name in the handshake: another version of it is told apart before anything is said.
pub const PROTOCOL: &[u8] = b"wayside-enrolment/1";
/// The name in the switch's certificate. Which switch it is says the authority, which has signed for no other.
pub const SWITCH_NAME: &str = "wayside-switch";
/// A line is shorter.
pub const LONGEST_LINE: usize = 8 << 10;
/// From the switch's UDP port to its enrolment port, unless configured otherwise: the admin port is between them.
pub const PORTS_APART: u16 = 2;

/// Host to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Question {
    /// Let this host in. Needs no certificate.
    Join(Join),
    /// Begin a session. Needs a certificate.
    Enrol(Enrol),
    /// Another certificate for the same key, where this one is near its end. Needs that one.
    Renew(Renew),
}

/// A host asks to be let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Of the token, hexadecimal.
    pub secret: String,
    /// Public key of the host, an uncompressed point of P-256, hexadecimal.
    pub key: String,
    /// The host's name, for people.
    pub host: String,
}

/// A host asks for its next certificate: what it shows says everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {}

/// A node asks for a session: ENROL, and where its agent port is. Its address is the connection's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrol {
    /// Of this attempt, hexadecimal.
    pub nonce: String,
    /// Process id.
    pub pid: u32,
    /// Wanted lease in microseconds; 0: the namespace's.
    pub lease_us: u32,
    /// Name of the namespace.
    pub namespace: String,
    /// Name of the host, for people.
    pub host: String,
    /// UDP port of the agent.
    pub port: u16,
    /// As in `wire/messages.toml`. Left out where there is one shard, of which earlier versions know nothing else.
    #[serde(default, skip_serializing_if = "is_none")]
    pub shards: u32,
    /// The version of the packets that the node knows, as their header has it. Left out at first, for earlier daemons
    /// know nothing of it: who is refused for his version asks again with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub packets: u8,
}

/// Daemon to host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Answer {
    /// The host is let in.
    Joined(Joined),
    /// The session has begun.
    Enrolled(Enrolled),
    /// How it stands with the certificate.
    Renewed(Renewal),
    /// There is no session, for the reason with this number in `wire/messages.toml`.
    Refused(u8),
    /// The question makes no sense, or may not be asked: why, for people.
    Denied(String),
}

/// What a host that was let in keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    /// The switch's address for packets.
    pub switch: SocketAddrV4,
    /// The host's certificate, DER, hexadecimal.
    pub certificate: String,
}

/// How it stands with a host's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The next one, DER, hexadecimal; none as long as more than a third of this one's time is left.
    pub certificate: Option<String>,
    /// When to ask again, in seconds: the switch's clock counts, for the host's may be wrong.
    pub again_s: u64,
}

/// A session. Earlier nodes take no field that they do not know: whatever is added is left out unless the session has
/// something that they would not take either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolled {
    /// Name of the node at the switch.
    pub handle: u16,
    /// Count of enrolments.
    pub incarnation: u64,
    /// Boot epoch of the switch.
    pub epoch: u32,
    /// Id of the namespace.
    pub namespace: u16,
    /// Slots of the namespace.
    pub slots: u32,
    /// Who keeps the namespace's locks, by the number in `wire/messages.toml`. Left out for the first engine, of which
    /// earlier versions know nothing else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub engine: u8,
    /// Of the hybrid engine: ids of the names that have their queue in the switch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<u64>,
    /// Who goes first in the namespace, by the number in `wire/messages.toml`. Left out where nobody does, of which
    /// earlier versions know nothing else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub policy: u8,
    /// How often who waits is overtaken at most. Left out where it is as often as earlier versions have it, which know
    /// nothing of it.
    #[serde(default = "usual_patience", skip_serializing_if = "is_usual")]
    pub patience: u8,
    /// As in the question.
    #[serde(default, skip_serializing_if = "is_none")]
    pub shards: u32,
    /// Lease in microseconds.
    pub lease_us: u32,
    /// What the controller adds, in microseconds.
    pub grace_us: u32,
    /// Ties a local connection to the session, hexadecimal.
    pub lifeline: String,
    /// Where the session's keys come from, hexadecimal.
    pub secret: String,
    /// Of the certificate that was shown.
    pub renewal: Renewal,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

fn usual_patience() -> u8 {
    OVERTAKEN_MOST
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_usual(patience: &u8) -> bool {
    *patience == OVERTAKEN_MOST
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_none(shards: &u32) -> bool {
    *shards == 0
}

impl Enrolled {
    /// As the controller gave it. None: its packets are not signed, so it needs no secure connection.
    #[must_use]
    pub fn of(enrolment: &Enrolment, renewal: Renewal) -> Option<Enrolled> {
        let secret = enrolment.secret?;
        // Of slots that readers go first is the switch's to know; of queues it is their lock server's too.
        let is_told = enrolment.policy == Policy::WritePreferring || enrolment.engine.has_queues();
        Some(Enrolled {
            handle: enrolment.handle,
            incarnation: enrolment.incarnation,
            epoch: enrolment.epoch,
            namespace: enrolment.namespace,
            slots: enrolment.slots,
            engine: enrolment.engine as u8,
            names: enrolment.names.iter().collect(),
            policy: if is_told { enrolment.policy as u8 } else { 0 },
            patience: enrolment.patience,
            shards: enrolment.shards,
            lease_us: enrolment.lease,
            grace_us: enrolment.grace,
            lifeline: format!("{:016x}", enrolment.lifeline),
            secret: hex(&secret.0),
            renewal,
        })
    }

    /// For the node; None if it makes no sense.
    #[must_use]
    pub fn enrolment(&self) -> Option<Enrolment> {
        let engine = Engine::try_from(self.engine).ok()?;
        let names = Names::new(self.names.iter().copied())?;
        // Without its list a session would ask for all names at slots.
        if (engine == Engine::Hybrid) == names.is_empty() {
            return None;
        }
        Some(Enrolment {
            handle: self.handle,
            incarnation: self.incarnation,
            epoch: self.epoch,
            namespace: self.namespace,
            slots: self.slots,
            engine,
            names,
            lease: self.lease_us,
            grace: self.grace_us,
            lifeline: u64::from_str_radix(&self.lifeline, 16).ok()?,
            shards: self.shards,
            policy: Policy::try_from(self.policy).unwrap_or(Policy::Fair),
            patience: self.patience.min(LONGEST_PATIENCE),
            secret: Some(Secret(unhex(&self.secret)?.try_into().ok()?)),
            // Earlier nodes would not take a field that they do not know: answers to heartbeats tell it.
            version: 0,
        })
    }
}

/// What lets one host in, once: written by `wayside node token`, read by `wayside node join`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Where the switch enrols.
    pub address: SocketAddrV4,
    /// SHA-256 of the authority's certificate: by it the host knows the switch.
    pub pin: [u8; 32],
    /// By it the switch knows the host.
    pub secret: [u8; 16],
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.address, hex(&self.pin), hex(&self.secret))
    }
}

/// Shows where it leads, and not the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}/..)", self.address)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Token, String> {
        let read = || {
            let mut parts = text.trim().split('/');
            let token = Token {
                address: parts.next()?.parse().ok()?,
                pin: unhex(parts.next()?)?.try_into().ok()?,
                secret: unhex(parts.next()?)?.try_into().ok()?,
            };
            parts.next().is_none().then_some(token)
        };
        // The text itself is not repeated: it may be a secret with a letter missing.
        read().ok_or_else(|| "this is no token; `wayside node token` on the switch's host writes one".into())
    }
}

/// Why a host was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotJoined {
    /// The switch says no.
    Denied(String),
    /// It can't be reached, or is another than the token's.
    Failed(String),
}

/// Why an attempt brought no session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "without it, the one reason is that there is none"))]
pub(crate) enum NotEnrolled {
    /// The controller's reason.
    Refused(wayside_wire::Refusal),
    /// The host is not let in, or not any more.
    Denied(String),
    /// Anything that another attempt may mend.
    Failed(String),
}

/// What a session says to a caller whose host is not let in.
pub(crate) fn not_joined(switch: SocketAddrV4) -> Error {
    Error::NotJoined(format!(
        "the switch at {switch} takes enrolled hosts only: run `wayside node token` on its host, then \
         `wayside node join TOKEN` here"
    ))
}

/// Bytes as text.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text that [`hex`] wrote.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_shows_no_secret() {
        let token = Token { address: "10.0.0.1:7602".parse().unwrap(), pin: [0xab; 32], secret: [0x1f; 16] };
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("1f1f"));
        let text = token.to_string();
        for wrong in
            ["", "10.0.0.1:7602", &text[..text.len() - 1], &text[..text.len() - 2], &format!("{text}/00"), "é/é/é"]
        {
            let error = wrong.parse::<Token>().unwrap_err();
            assert!(error.starts_with("this is no token"), "{wrong}");
        }
    }

    /// A session in which nothing is out of the ordinary.
    fn usual() -> Enrolment {
        Enrolment {
            handle: 7,
            incarnation: 1 << 40,
            epoch: 3,
            namespace: 1,
            slots: 65_536,
            engine: Engine::Fission,
            names: Names::default(),
            lease: 2_000_000,
            grace: 28_000,
            lifeline: 1,
            shards: 0,
            policy: Policy::Fair,
            patience: OVERTAKEN_MOST,
            secret: Some(Secret([9; 32])),
            version: wayside_wire::VERSION,
        }
    }

    #[test]
    fn a_session_reads_back() {
        let enrolment = Enrolment {
            lifeline: u64::MAX - 1,
            shards: 77,
            policy: Policy::WritePreferring,
            patience: 3,
            version: 0,
            ..usual()
        };
        let renewal = Renewal { certificate: None, again_s: 9 };
        let enrolled = Enrolled::of(&enrolment, renewal.clone()).unwrap();
        assert_eq!(enrolled.enrolment(), Some(enrolment.clone()));
        let names = Names::new([7, u64::MAX]).expect("few");
        let hybrid = Enrolment { engine: Engine::Hybrid, names, ..enrolment.clone() };
        let told = serde_json::to_string(&Enrolled::of(&hybrid, renewal.clone()).unwrap()).unwrap();
        let read: Enrolled = serde_json::from_str(&told).unwrap();
        assert_eq!(read.enrolment(), Some(hybrid));
        assert_eq!(Enrolled { names: Vec::new(), ..read.clone() }.enrolment(), None, "without its list");
        assert_eq!(Enrolled { engine: 0, ..read.clone() }.enrolment(), None, "a list of nothing");
        assert_eq!(Enrolled { names: (0..121).collect(), ..read }.enrolment(), None, "more than there can be");
        let queues = Enrolment { engine: Engine::Queue, policy: Policy::ReadPreferring, ..enrolment.clone() };
        assert_eq!(
            Enrolled::of(&queues, renewal.clone()).unwrap().enrolment(),
            Some(queues),
            "its lock server is told"
        );
        for policy in [Policy::Fair, Policy::ReadPreferring] {
            let enrolled = Enrolled::of(&Enrolment { policy, ..enrolment.clone() }, renewal.clone()).unwrap();
            let told = serde_json::to_string(&enrolled).unwrap();
            assert!(!told.contains("policy"), "a node of before does not know it: {told}");
        }
        let usual =
            Enrolled::of(&Enrolment { patience: OVERTAKEN_MOST, ..enrolment.clone() }, renewal.clone()).unwrap();
        let told = serde_json::to_string(&usual).unwrap();
        assert!(!told.contains("patience"), "nor this: {told}");
        assert_eq!(serde_json::from_str::<Enrolled>(&told).unwrap().patience, OVERTAKEN_MOST);
        assert_eq!(Enrolled { secret: "00".into(), ..enrolled }.enrolment(), None);
        assert_eq!(Enrolled::of(&Enrolment { secret: None, ..enrolment }, renewal), None, "nothing to keep secret");
    }

    /// Nor would they take it with one field more.
    #[test]
    fn of_a_usual_session_nodes_of_any_version_know_every_field() {
        let enrolled = Enrolled::of(&usual(), Renewal { certificate: None, again_s: 9 }).unwrap();
        let told = serde_json::to_value(Answer::Enrolled(enrolled)).unwrap();
        let fields = |of: &serde_json::Value| {
            let mut fields: Vec<String> = of.as_object().unwrap().keys().cloned().collect();
            fields.sort();
            fields.join(" ")
        };
        let known = "epoch grace_us handle incarnation lease_us lifeline namespace renewal secret slots";
        assert_eq!(fields(&told["enrolled"]), known);
        assert_eq!(fields(&told["enrolled"]["renewal"]), "again_s certificate");
    }

    #[test]
    fn questions_are_the_documented_lines() {
        let join = Question::Join(Join { secret: "0f".into(), key: "04".into(), host: "a".into() });
        assert_eq!(serde_json::to_string(&join).unwrap(), r#"{"join":{"secret":"0f","key":"04","host":"a"}}"#);
        assert_eq!(serde_json::to_string(&Question::Renew(Renew {})).unwrap(), r#"{"renew":{}}"#);
        let renewed = Answer::Renewed(Renewal { certificate: None, again_s: 9 });
        assert_eq!(serde_json::to_string(&renewed).unwrap(), r#"{"renewed":{"certificate":null,"again_s":9}}"#);
        assert_eq!(serde_json::to_string(&Answer::Refused(2)).unwrap(), r#"{"refused":2}"#);
    }
}
