//! The enrolment port: TLS 1.3, by which hosts join with a token, and nodes enrol with what that gave to their host
//! (`wayside_client::enrolment` has the lines). It runs where packets are signed.
//!
//! Against strangers: a question within 5 s, of 8 KiB at most, on one of 256 connections. Nothing is done for a host
//! that is not let in but to look up its token, and the log tells of 20 denials in 10 s at most. For one that is, no
//! more than one certificate is signed and written down in a thirtieth of its time, however often it asks.

use super::authority::{Authority, Issued, key_of};
use super::controller::Inbox;
use super::metrics::{ACCEPTED, Asked, Tally};
use crate::admission::{Admission, Host, NotRedeemed};
use crate::config::Config;
use crate::failure::Failure;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wayside_client::enrolment::{
    Answer, Enrol, Enrolled, Join, Joined, LONGEST_LINE, Question, Renew, Renewal, hex, unhex,
};
use wayside_protocol::controller::Applicant;
use wayside_wire::{Refusal, padded};

/// From the connection to the answer.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 256;
/// Between looks at who was removed.
const LOOK: Duration = Duration::from_millis(100);
/// Denials that the log tells of, and in what time.
const TOLD_MOST: u32 = 20;
const TOLD_IN: Duration = Duration::from_secs(10);
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
    /// Its certificate has ended.
    Expired,
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
            Denial::Expired => "expired",
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
            Denial::Expired => {
                "this host's certificate has expired, for none of its processes has renewed it in time: `wayside node token` on \
                 the switch's host writes a token, with which it joins again"
            }
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
        Refusal::Shards => "other_shards",
        Refusal::Version => "earlier_version",
        Refusal::None => "refused",
    }
}

/// Of what can come of each question.
pub fn tally() -> Tally {
    let joins = [Denial::TokenUsed, Denial::TokenExpired, Denial::TokenUnknown].map(|denial| denial.word());
    let elsewhere = Denial::Namespace { asked: String::new(), allowed: Vec::new() };
    let hosts = [Denial::NoCertificate, Denial::Removed, Denial::Expired].map(|denial| denial.word());
    let enrolments = [&hosts[..], &[elsewhere.word()]].concat();
    let refusals =
        [Refusal::Namespace, Refusal::Full, Refusal::Recovering, Refusal::Shards, Refusal::Version].map(word_of);
    let both = [ACCEPTED, Denial::Malformed("").word(), Denial::Failed("").word()];
    let of = |asked, words: &[&'static str]| words.iter().map(|word| (asked, *word)).collect::<Vec<_>>();
    let joins = of(Asked::Join, &[&both[..], &joins].concat());
    let enrolments = of(Asked::Enrol, &[&both[..], &enrolments, &refusals].concat());
    let renewals = of(Asked::Renew, &[&both[..], &hosts].concat());
    Tally::new([joins, enrolments, renewals].concat())
}

/// Everything that answers.
pub struct Door {
    authority: Authority,
    admission: Admission,
    configuration: Arc<ServerConfig>,
    /// The switch's address for packets.
    switch: SocketAddrV4,
    /// How long hosts' certificates are good.
    lifetime: Duration,
    clock: Clock,
    /// The latest certificate of each host that has renewed its own lately, and when that was.
    renewed: Mutex<HashMap<u64, (SystemTime, String)>>,
    voice: Mutex<Voice>,
}

/// What the log was told of denials.
#[derive(Default)]
struct Voice {
    since: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Voice {
    /// Whether one more is told of: then of how many nothing was said before.
    fn speaks(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= TOLD_IN) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said == TOLD_MOST {
            self.unsaid += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// What time it is.
type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Of the time of a host's certificate, it is renewed in the last of so many parts, and
const RENEWED_IN_THE_LAST: u32 = 3;
/// asked for in every one of so many.
const ASKED_FOR_IN_EVERY: u32 = 30;

/// A host that has joined.
struct Known<'a> {
    number: u64,
    record: Host,
    certificate: &'a CertificateDer<'a>,
}

impl Door {
    /// For the switch at `switch`, which enrols at `address`.
    pub fn open(
        state_dir: &Path,
        switch: SocketAddrV4,
        address: SocketAddrV4,
        config: &Config,
    ) -> Result<Door, Failure> {
        Door::open_at(state_dir, switch, address, config, Arc::new(SystemTime::now))
    }

    fn open_at(
        state_dir: &Path,
        switch: SocketAddrV4,
        address: SocketAddrV4,
        config: &Config,
        clock: Clock,
    ) -> Result<Door, Failure> {
        let admission = Admission::of(state_dir);
        let authority = Authority::open(&admission, clock())?;
        let namespaces = config.namespaces.iter().map(|namespace| namespace.name.clone()).collect();
        admission
            .publish(address, &authority.certificate, namespaces)
            .map_err(|error| Failure::system("can't write the state directory", &error))?;
        let configuration = authority.configuration()?;
        let lifetime = config.certificate_lifetime;
        let (renewed, voice) = Default::default();
        Ok(Door { configuration, authority, admission, switch, lifetime, clock, renewed, voice })
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
            Ok(Question::Join(join)) => self.counted(tally, Asked::Join, from, self.on_join(&join, from)),
            Ok(Question::Enrol(enrol)) => {
                let answer = self.on_enrol(&enrol, certificate.as_ref(), from, inbox).await;
                self.counted(tally, Asked::Enrol, from, answer)
            }
            Ok(Question::Renew(Renew {})) => {
                let renewal = self.admitted(certificate.as_ref()).map(|host| Answer::Renewed(self.renewal(&host)));
                self.counted(tally, Asked::Renew, from, renewal)
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
        let host = self.admitted(certificate)?;
        if !host.record.may_enrol_in(&enrol.namespace) {
            return Err(Denial::Namespace { asked: enrol.namespace.clone(), allowed: host.record.namespaces });
        }
        let answer = begin_session(enrol, host.number, self.renewal(&host), from, inbox).await;
        if let Err(denial) = self.admitted(certificate) {
            // Removed meanwhile: whoever looks for that may have looked before the session was there.
            inbox.admit_only(self.admission.numbers().map_err(|_| Denial::Failed(UNREADABLE))?);
            return Err(denial);
        }
        answer
    }

    /// The host that shows this certificate.
    fn admitted<'a>(&self, certificate: Option<&'a CertificateDer<'a>>) -> Result<Known<'a>, Denial> {
        let certificate = certificate.ok_or(Denial::NoCertificate)?;
        let key = key_of(certificate).ok_or(Denial::NoCertificate)?;
        let found = self.admission.host(&key).map_err(|error| {
            tracing::error!(%error, "a host can't be looked up");
            Denial::Failed(UNREADABLE)
        })?;
        let (number, record) = found.ok_or(Denial::Removed)?;
        let is_good = self.authority.is_good(certificate, (self.clock)());
        if is_good { Ok(Known { number, record, certificate }) } else { Err(Denial::Expired) }
    }

    /// How it stands with a host's certificate; the next one in the last part of its time.
    fn renewal(&self, host: &Known<'_>) -> Renewal {
        let now = (self.clock)();
        let again_s = (self.lifetime / ASKED_FOR_IN_EVERY).as_secs().max(1);
        if self.authority.is_good(host.certificate, now + self.lifetime / RENEWED_IN_THE_LAST) {
            return Renewal { certificate: None, again_s };
        }
        let is_recent = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age.as_secs() < again_s);
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.retain(|_, (at, _)| is_recent(at));
        if let Some((_, certificate)) = renewed.get(&host.number) {
            return Renewal { certificate: Some(certificate.clone()), again_s };
        }
        let Some(issued) = self.authority.renewed(host.certificate, &host.record.host, now, self.lifetime) else {
            tracing::error!(host = host.record.host, "another certificate can't be signed");
            return Renewal { certificate: None, again_s };
        };
        let id = format!("{:016x}", host.number);
        tracing::info!(host = host.record.host, id, "another certificate");
        // It is for people alone.
        if let Err(error) = self.admission.note_end(&id, issued.expires) {
            tracing::error!(%error, "the end of a certificate can't be written down");
        }
        let certificate = hex(&issued.certificate);
        renewed.insert(host.number, (now, certificate.clone()));
        Renewal { certificate: Some(certificate), again_s }
    }

    /// The answer as the host gets it, counted.
    fn counted(&self, tally: &Tally, asked: Asked, from: SocketAddrV4, answer: Result<Answer, Denial>) -> Answer {
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
                let mut voice = self.voice.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(unsaid) = voice.speaks(Instant::now()) {
                    tracing::warn!(%from, question = asked.word(), why, unsaid, "a host was told no");
                }
                Answer::Denied(why)
            }
        }
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
        // For who has none nothing is signed.
        self.admission.look_up(&secret).map_err(denied)?;
        // Before the token is spent.
        let issued = self.authority.certificate_for(&key, &host, (self.clock)(), self.lifetime);
        let Some((Issued { certificate, expires }, key)) = issued.and_then(|one| {
            let key = key_of(&one.certificate)?;
            Some((one, key))
        }) else {
            return Err(Denial::Malformed("the host's key is no point of P-256"));
        };
        let namespaces = self.admission.redeem(&secret).map_err(denied)?;
        match self.admission.admit(&key, &host, from, namespaces, expires) {
            Ok(known) => tracing::info!(%from, host, id = known.id, "a host has joined"),
            Err(error) => {
                tracing::error!(%error, "a host can't be written down");
                return Err(Denial::Failed("the switch can't write the host down: see its log"));
            }
        }
        Ok(Answer::Joined(Joined { switch: self.switch, certificate: hex(&certificate) }))
    }
}

fn denied(error: NotRedeemed) -> Denial {
    match error {
        NotRedeemed::Used => Denial::TokenUsed,
        NotRedeemed::Expired => Denial::TokenExpired,
        NotRedeemed::Unknown => Denial::TokenUnknown,
        NotRedeemed::Failed(error) => {
            tracing::error!(%error, "a token can't be redeemed");
            Denial::Failed("the switch can't look up the token: see its log")
        }
    }
}

/// The agent port is on the host that the connection comes from.
async fn begin_session(
    enrol: &Enrol,
    host_number: u64,
    renewal: Renewal,
    from: SocketAddrV4,
    inbox: &Inbox,
) -> Result<Answer, Denial> {
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
    let address = SocketAddrV4::new(*from.ip(), enrol.port);
    let who = Applicant { address, admission: host_number, version: enrol.packets };
    let session = inbox.enrol(who, enrol.shards, body).await;
    Ok(match session.map(|session| Enrolled::of(&session, renewal)) {
        Ok(Some(enrolled)) => Answer::Enrolled(enrolled),
        // The controller is told to sign where this port is open.
        Ok(None) => Answer::Refused(Refusal::None as u8),
        Err(refusal) => Answer::Refused(refusal as u8),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::UNIX_EPOCH;
    use wayside_client::enrolment::{NotJoined, Token};
    use wayside_client::{join, renew};

    const DAY: u64 = 24 * 3_600;
    const BEGUN: u64 = 1_800_000_000;

    /// A door whose clock is the test's.
    struct Bench {
        directory: tempfile::TempDir,
        day: Arc<AtomicU64>,
        door: Door,
    }

    impl Bench {
        fn new(address: SocketAddrV4) -> Bench {
            let directory = tempfile::tempdir().unwrap();
            let day: Arc<AtomicU64> = Arc::default();
            let days = day.clone();
            let clock = move || UNIX_EPOCH + Duration::from_secs(BEGUN + days.load(Ordering::Relaxed) * DAY);
            let config = Settings::default().over(Settings::default(), None).unwrap();
            let switch = SocketAddrV4::new(*address.ip(), 7600);
            let door = Door::open_at(directory.path(), switch, address, &config, Arc::new(clock)).unwrap();
            Bench { directory, day, door }
        }

        fn at(&self, day: u64) {
            self.day.store(day, Ordering::Relaxed);
        }

        fn token(&self) -> Token {
            self.door.admission.token(Duration::from_secs(3_600), &[]).unwrap()
        }
    }

    fn local() -> SocketAddrV4 {
        SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1)
    }

    /// The certificate of a host that joins.
    fn join_at(bench: &Bench) -> CertificateDer<'static> {
        let key = rcgen::KeyPair::generate().unwrap();
        let secret = hex(&bench.token().secret);
        let question = Join { secret, key: hex(key.public_key_raw()), host: "a".into() };
        let Ok(Answer::Joined(Joined { certificate, .. })) = bench.door.on_join(&question, local()) else {
            panic!("it has a token");
        };
        CertificateDer::from(unhex(&certificate).unwrap())
    }

    #[test]
    fn a_certificate_lasts_ninety_days_and_is_renewed_in_the_last_thirty() {
        let bench = Bench::new(local());
        let first = join_at(&bench);
        let known =
            |certificate| bench.door.admitted(Some(certificate)).map(|known| (known.number, known.record.expires));
        let (number, expires) = known(&first).unwrap();
        assert_eq!(expires, BEGUN + 90 * DAY);
        let renewal = || bench.door.renewal(&bench.door.admitted(Some(&first)).unwrap());
        for (day, is_due) in [(0, false), (59, false), (61, true), (89, true)] {
            bench.at(day);
            assert_eq!(renewal().certificate.is_some(), is_due, "on day {day}");
            assert_eq!(renewal().again_s, 3 * DAY);
        }
        let second = CertificateDer::from(unhex(&renewal().certificate.unwrap()).unwrap());
        bench.at(91);
        assert_eq!(known(&first), Err(Denial::Expired));
        assert!(Denial::Expired.why().contains("`wayside node token`"));
        // The same host, and what was written of it.
        assert_eq!(known(&second), Ok((number, BEGUN + (89 + 90) * DAY)));
        bench.at(180);
        assert_eq!(known(&second), Err(Denial::Expired));
        // A clock that goes back makes nobody expire.
        bench.at(0);
        assert!(known(&first).is_ok() && known(&second).is_ok());
        assert!(bench.door.admission.remove(&format!("{number:016x}")).unwrap());
        assert_eq!(known(&second), Err(Denial::Removed));
    }

    #[test]
    fn whoever_asks_again_soon_gets_the_certificate_that_was_signed() {
        let bench = Bench::new(local());
        let certificate = join_at(&bench);
        let renewal = || bench.door.renewal(&bench.door.admitted(Some(&certificate)).unwrap()).certificate.unwrap();
        bench.at(61);
        let first = renewal();
        bench.at(63);
        assert_eq!(renewal(), first);
        bench.at(64);
        assert_ne!(renewal(), first, "a thirtieth of its time is over");
    }

    #[test]
    fn for_who_has_no_token_nothing_is_signed_and_no_key_spends_one() {
        let bench = Bench::new(local());
        let token = hex(&bench.token().secret);
        let join = |secret: &str| {
            let question = Join { secret: secret.into(), key: "00".into(), host: "a".into() };
            bench.door.on_join(&question, local()).map(|_| ())
        };
        assert_eq!(join("00"), Err(Denial::TokenUnknown), "its key is not looked at");
        for _ in 0..2 {
            assert!(matches!(join(&token), Err(Denial::Malformed(_))));
        }
    }

    #[test]
    fn the_log_tells_of_some_denials_and_of_how_many_it_has_not() {
        let (mut voice, now) = (Voice::default(), Instant::now());
        let said = (0..100).filter(|_| voice.speaks(now) == Some(0)).count();
        assert_eq!(said, TOLD_MOST as usize);
        assert_eq!(voice.speaks(now + TOLD_IN), Some(100 - u64::from(TOLD_MOST)));
        assert_eq!(voice.speaks(now + TOLD_IN), Some(0));
    }

    #[test]
    fn a_host_renews_over_the_connection_that_its_certificate_opens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("it is one") };
        let Bench { directory, day, door } = Bench::new(address);
        let token = door.admission.token(Duration::from_secs(3_600), &[]).unwrap();
        let tally = Arc::new(tally());
        let counts = tally.clone();
        // Until the process ends.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                door.serve(listener, Inbox::with_channels().0, counts).await;
            });
        });

        let credentials = directory.path().join("credentials");
        let (switch, joined) = join(&token, "a").unwrap();
        let file = joined.keep(Some(&credentials), switch).unwrap();
        let text = || std::fs::read_to_string(&file).unwrap();
        let first = text();
        // As their owner may have it, for a group.
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        let again = Duration::from_secs(3 * DAY);
        assert_eq!(renew(Some(&credentials), switch), Ok((again, false)));
        assert_eq!(text(), first);
        day.store(61, Ordering::Relaxed);
        assert_eq!(renew(Some(&credentials), switch), Ok((again, true)));
        assert_ne!(text(), first);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        // By what it has now; the first would be over.
        day.store(100, Ordering::Relaxed);
        assert_eq!(renew(Some(&credentials), switch), Ok((again, false)));
        day.store(152, Ordering::Relaxed);
        let Err(NotJoined::Denied(why)) = renew(Some(&credentials), switch) else { panic!("it has expired") };
        assert!(why.starts_with("this host's certificate has expired"), "{why}");
        let count =
            |result| tally.all().iter().find(|(asked, of, _)| (*asked, *of) == (Asked::Renew, result)).unwrap().2;
        assert_eq!((count(ACCEPTED), count("expired")), (3, 1));
    }
}
