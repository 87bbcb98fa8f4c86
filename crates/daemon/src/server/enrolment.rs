//! The enrolment port: TLS 1.3, by which hosts join with a token, and nodes enrol with what that gave to their host
//! (`wayside_client::enrolment` has the lines). It runs where packets are signed.
//!
//! Against strangers: a question within 5 s, of 8 KiB at most, on one of 256 connections. Nothing is done for a host that
//! is not let in but to look up its token.

use super::authority::Authority;
use super::controller::Inbox;
use super::metrics::{ACCEPTED, Asked, Tally};
use crate::admission::{Admission, Host, NotRedeemed};
use crate::failure::Failure;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::collections::HashSet;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wayside_client::enrolment::{Answer, Enrol, Enrolled, Join, Joined, LONGEST_LINE, Question, hex, unhex};
use wayside_wire::{Refusal, padded};

/// From the connection to the answer.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 256;
/// Between looks at who was removed.
const LOOK: Duration = Duration::from_millis(100);
const UNREADABLE: &str = "the switch can't look up its hosts: see its log";
/// As long as a packet has room for.
const LONGEST_HOST: usize = wayside_wire::limits::MAX_HOST_BYTES;

/// Why a host is told no.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Denial {
    /// What it says is no question, or no key.
    Malformed(&'static str),
    TokenUsed,
    TokenExpired,
    TokenUnknown,
    /// The state directory can't be read or written.
    Failed(&'static str),
    NoCertificate,
    Removed,
    /// Its token was for others.
    Namespace {
        asked: String,
        allowed: Vec<String>,
    },
}

impl Denial {
    /// For counters.
    fn word(&self) -> &'static str {
        match self {
            Denial::Malformed(_) => "malformed",
            Denial::TokenUsed => "token_used",
            Denial::TokenExpired => "token_expired",
            Denial::TokenUnknown => "token_unknown",
            Denial::Failed(_) => "failed",
            Denial::NoCertificate => "no_certificate",
            Denial::Removed => "removed",
            Denial::Namespace { .. } => "namespace",
        }
    }

    /// For the host.
    fn why(&self) -> String {
        match self {
            Denial::Namespace { asked, allowed } => {
                return format!(
                    "this host may begin sessions in namespace {} alone, not in {asked:?}: `wayside node token --namespace \
                     ...` writes a token for others, with which it joins again",
                    allowed.join(", ")
                );
            }
            Denial::Malformed(why) | Denial::Failed(why) => why,
            Denial::TokenUsed => "this token was used already: each lets one host in, once",
            Denial::TokenExpired => "this token has expired; `wayside node token` writes another",
            Denial::TokenUnknown => "the switch knows no such token",
            Denial::NoCertificate => "this host has not joined: it shows no certificate",
            Denial::Removed => "this host was removed from those that may enrol: join again",
        }
        .into()
    }
}

fn word_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Namespace => "no_such_namespace",
        Refusal::Full => "full",
        Refusal::Recovering => "recovering",
        Refusal::Version | Refusal::None => "refused",
    }
}

/// Of what can come of each question.
pub fn tally() -> Tally {
    let joins = [Denial::TokenUsed, Denial::TokenExpired, Denial::TokenUnknown].map(|denial| denial.word());
    let elsewhere = Denial::Namespace { asked: String::new(), allowed: Vec::new() };
    let enrolments = [Denial::NoCertificate, Denial::Removed, elsewhere].map(|denial| denial.word());
    let refusals = [Refusal::Namespace, Refusal::Full, Refusal::Recovering].map(word_of);
    let both = [ACCEPTED, Denial::Malformed("").word(), Denial::Failed("").word()];
    let of = |asked, words: &[&'static str]| words.iter().map(|word| (asked, *word)).collect::<Vec<_>>();
    let joins = of(Asked::Join, &[&both[..], &joins].concat());
    Tally::new(joins.into_iter().chain(of(Asked::Enrol, &[&both[..], &enrolments, &refusals].concat())))
}

/// Everything that answers.
pub struct Door {
    authority: Authority,
    admission: Admission,
    configuration: Arc<ServerConfig>,
    /// The switch's address for packets.
    switch: SocketAddrV4,
}

impl Door {
    /// For the switch at `switch`, which enrols at `address`.
    pub fn open(
        state_dir: &Path,
        switch: SocketAddrV4,
        address: SocketAddrV4,
        namespaces: Vec<String>,
    ) -> Result<Door, Failure> {
        let admission = Admission::of(state_dir);
        let authority = Authority::open(&admission)?;
        admission
            .publish(address, &authority.certificate, namespaces)
            .map_err(|error| Failure::system("can't write the state directory", &error))?;
        Ok(Door { configuration: authority.configuration()?, authority, admission, switch })
    }

    /// Accepts for ever.
    pub async fn serve(self, listener: TcpListener, inbox: Inbox, tally: Arc<Tally>) {
        let door = Arc::new(self);
        let acceptor = TlsAcceptor::from(door.configuration.clone());
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let (stream, from) = match listener.accept().await {
                Ok((stream, SocketAddr::V4(from))) => (stream, from),
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "can't accept an enrolment");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            // Without a place the connection is closed at once, unheard.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let (door, acceptor, inbox, tally) = (door.clone(), acceptor.clone(), inbox.clone(), tally.clone());
            tokio::spawn(async move {
                let _place = place;
                match timeout(PATIENCE, door.converse(acceptor, stream, from, &inbox, &tally)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%from, %error, "an enrolment broke off"),
                    Err(_) => tracing::debug!(%from, "an enrolment took too long"),
                }
            });
        }
    }

    async fn converse(
        &self,
        acceptor: TlsAcceptor,
        stream: TcpStream,
        from: SocketAddrV4,
        inbox: &Inbox,
        tally: &Tally,
    ) -> std::io::Result<()> {
        let mut stream = acceptor.accept(stream).await?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
        let mut line = String::new();
        BufReader::new((&mut stream).take(LONGEST_LINE as u64)).read_line(&mut line).await?;
        let answer = match serde_json::from_str(&line) {
            Ok(Question::Join(join)) => counted(tally, Asked::Join, from, self.on_join(&join, from)),
            Ok(Question::Enrol(enrol)) => {
                let answer = self.on_enrol(&enrol, certificate.as_ref(), from, inbox).await;
                counted(tally, Asked::Enrol, from, answer)
            }
            Err(_) => Answer::Denied("this line is no question of enrolment".into()),
        };
        let mut text = serde_json::to_vec(&answer).expect("answers have string keys");
        text.push(b'\n');
        stream.write_all(&text).await?;
        stream.shutdown().await
    }

    /// A session for a node of a host that has joined.
    async fn on_enrol(
        &self,
        enrol: &Enrol,
        certificate: Option<&CertificateDer<'_>>,
        from: SocketAddrV4,
        inbox: &Inbox,
    ) -> Result<Answer, Denial> {
        let (number, host) = self.admitted(certificate)?;
        if !host.may_enrol_in(&enrol.namespace) {
            return Err(Denial::Namespace { asked: enrol.namespace.clone(), allowed: host.namespaces });
        }
        let answer = begin_session(enrol, number, from, inbox).await;
        if self.admitted(certificate).is_err() {
            // Removed meanwhile: whoever looks for that may have looked before the session was there.
            inbox.admit_only(self.admission.numbers().map_err(|_| Denial::Failed(UNREADABLE))?);
            return Err(Denial::Removed);
        }
        answer
    }

    /// The host with this certificate, and its number.
    fn admitted(&self, certificate: Option<&CertificateDer<'_>>) -> Result<(u64, Host), Denial> {
        let certificate = certificate.ok_or(Denial::NoCertificate)?;
        self.admission.host(certificate).ok_or(Denial::Removed)
    }

    /// Sees to it for ever that sessions of hosts that were removed, by whichever process, are cut off. `before`: those
    /// that could enrol when that was seen to last.
    pub async fn watch(admission: Admission, mut before: HashSet<u64>, inbox: Inbox) {
        loop {
            match admission.numbers() {
                Ok(now) => {
                    if !before.is_subset(&now) {
                        inbox.admit_only(now.clone());
                    }
                    before = now;
                }
                Err(error) => tracing::error!(%error, "can't look who was removed"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn on_join(&self, join: &Join, from: SocketAddrV4) -> Result<Answer, Denial> {
        let host: String = join.host.chars().filter(|c| !c.is_control()).take(LONGEST_HOST).collect();
        let (Some(secret), Some(key)) = (unhex(&join.secret), unhex(&join.key)) else {
            return Err(Denial::Malformed("the token or the key is not hexadecimal"));
        };
        // Before the token is spent.
        let Some(certificate) = self.authority.certificate_for(&key, &host) else {
            return Err(Denial::Malformed("the host's key is no point of P-256"));
        };
        let namespaces = match self.admission.redeem(&secret) {
            Ok(namespaces) => namespaces,
            Err(NotRedeemed::Used) => return Err(Denial::TokenUsed),
            Err(NotRedeemed::Expired) => return Err(Denial::TokenExpired),
            Err(NotRedeemed::Unknown) => return Err(Denial::TokenUnknown),
            Err(NotRedeemed::Failed(error)) => {
                tracing::error!(%error, "a token can't be redeemed");
                return Err(Denial::Failed("the switch can't look up the token: see its log"));
            }
        };
        match self.admission.admit(&certificate, &host, from, namespaces) {
            Ok(known) => tracing::info!(%from, host, id = known.id, "a host has joined"),
            Err(error) => {
                tracing::error!(%error, "a host can't be written down");
                return Err(Denial::Failed("the switch can't write the host down: see its log"));
            }
        }
        Ok(Answer::Joined(Joined { switch: self.switch, certificate: hex(&certificate) }))
    }
}

/// The agent port is on the host that the connection comes from.
async fn begin_session(enrol: &Enrol, host_number: u64, from: SocketAddrV4, inbox: &Inbox) -> Result<Answer, Denial> {
    let wrong = || Err(Denial::Malformed("this enrolment makes no sense"));
    let mut bytes = 0;
    let fits = |c: &char| {
        bytes += c.len_utf8();
        bytes <= LONGEST_HOST
    };
    let cut: String = enrol.host.chars().take_while(fits).collect();
    let Ok(nonce) = u64::from_str_radix(&enrol.nonce, 16) else { return wrong() };
    let (Some(namespace_name), Some(host)) = (padded(&enrol.namespace), padded(&cut)) else { return wrong() };
    if enrol.port == 0 {
        return wrong();
    }
    let body = wayside_wire::Enrol { nonce, pid: enrol.pid, lease_us: enrol.lease_us, namespace_name, host };
    let session = inbox.enrol(SocketAddrV4::new(*from.ip(), enrol.port), host_number, body).await;
    Ok(match session.map(|session| Enrolled::of(&session)) {
        Ok(Some(enrolled)) => Answer::Enrolled(enrolled),
        // The controller is told to sign where this port is open.
        Ok(None) => Answer::Refused(Refusal::None as u8),
        Err(refusal) => Answer::Refused(refusal as u8),
    })
}

/// The answer as the host gets it, counted.
fn counted(tally: &Tally, asked: Asked, from: SocketAddrV4, answer: Result<Answer, Denial>) -> Answer {
    match answer {
        Ok(Answer::Refused(reason)) => {
            tally.count(asked, word_of(Refusal::try_from(reason).unwrap_or(Refusal::None)));
            Answer::Refused(reason)
        }
        Ok(answer) => {
            tally.count(asked, ACCEPTED);
            answer
        }
        Err(denial) => {
            tally.count(asked, denial.word());
            let why = denial.why();
            tracing::warn!(%from, question = asked.word(), why, "a host was told no");
            Answer::Denied(why)
        }
    }
}
