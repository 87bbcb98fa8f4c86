//! How a session begins: by a packet, or over a secure connection where this host has joined the switch.
//!
//! The connection is a thread's own, which ends with it: neither the background thread, which has timers to drive, nor
//! a caller who closes the session waits for a network.
//!
//! Invariants
//! * Where there are credentials for a switch, nothing but a secure connection begins a session with it: who can drop
//!   packets can't make us do without.
//! * At most one such thread at a time, and one for a pledge; what it brings is of use to the node that it asked for
//!   alone.
//!
//! A host's certificate is renewed by the same threads: when a session begins, and as long as one lives.

use crate::clock;
use crate::core::{Core, Phase};
use crate::credentials::{Credentials, may_replace};
use crate::engine::{Engine, node_config, system};
use crate::enrolment::{Enrol, NotEnrolled, NotJoined, PORTS_APART, Renewal, not_joined};
use crate::{Error, secure};
use parking_lot::Mutex;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use wayside_protocol::{NodeConfig, Time};
use wayside_wire::{Refusal, text};

/// Which way leads to a session at this switch.
pub(crate) enum Way {
    /// Its packets are not signed, as far as is known.
    Packets,
    Secure(PathBuf, Box<Credentials>),
    /// There are credentials that can't be used, and why.
    Closed(Error),
}

/// How it stands with enrolment, beyond what the node knows.
#[derive(Default)]
pub(crate) struct Admission {
    /// A thread is at it; and another one at a pledge, which keeps no session from being asked for.
    busy: Arc<AtomicBool>,
    pledging: Arc<AtomicBool>,
    /// And at looking up where the endpoints lead.
    pub(crate) looking: Arc<AtomicBool>,
    /// Nonce of the attempt whose answer is wanted.
    attempt: Mutex<u64>,
    /// Why this host gets no session, until somebody lets it in.
    denial: Mutex<Option<Error>>,
    /// When to ask how it stands with the certificate in this file.
    renewal: Mutex<Option<(Time, PathBuf)>>,
}

/// After an attempt that brought nothing.
const ANOTHER_ATTEMPT: Duration = Duration::from_secs(3_600);

/// What is to be done with what a thread has brought.
pub(crate) type Sequel = Box<dyn FnOnce(&Arc<Engine>)>;

/// Whatever a thread meets, it is over then.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Engine {
    pub(crate) fn way_to(&self, switch: SocketAddrV4) -> Way {
        match self.credentials_for(switch) {
            Ok(None) if self.config.placed.as_ref().is_some_and(|placed| placed.signs) => {
                let why = format!("this host has not joined the switch at {switch}, and those of other shards it has");
                Way::Closed(Error::NotJoined(why))
            }
            Ok(None) => Way::Packets,
            Ok(Some((path, credentials))) => Way::Secure(path, Box::new(credentials)),
            Err(why) => Way::Closed(Error::NotJoined(why)),
        }
    }

    /// Those for this switch, or for another endpoint's: switches of one shard have one authority, and standbys enrol
    /// at the same distance from their ports.
    fn credentials_for(&self, switch: SocketAddrV4) -> Result<Option<(PathBuf, Credentials)>, String> {
        let told = self.config.credentials.as_deref();
        if let Some(own) = Credentials::find(told, switch)? {
            return Ok(Some(own));
        }
        for other in self.known().into_iter().filter(|known| *known != switch) {
            let Some((path, credentials)) = Credentials::find(told, other)? else { continue };
            let distance = credentials.enrol.port().wrapping_sub(other.port());
            let enrol = SocketAddrV4::new(*switch.ip(), switch.port().wrapping_add(distance));
            return Ok(Some((path, Credentials { enrol, ..credentials })));
        }
        Ok(None)
    }

    /// Goes the first step. The node is new, and `core` the engine's.
    pub(crate) fn set_out(&self, core: &mut Core, now: Time, way: &Way) {
        if let Way::Packets = way {
            core.node.start(now);
        }
    }

    /// Goes the steps that can't be gone under the session's lock.
    pub(crate) fn go_on(self: &Arc<Engine>, way: Way) {
        match way {
            Way::Packets => {}
            Way::Closed(why) => self.deny(Some(why)),
            Way::Secure(path, credentials) => self.ask(path, *credentials),
        }
    }

    /// Whether an answer is still awaited from a secure connection.
    pub(crate) fn is_asking(&self) -> bool {
        self.admission.busy.load(SeqCst)
    }

    /// Why this host gets no session, if that is known.
    pub(crate) fn denial(&self) -> Option<Error> {
        self.admission.denial.lock().clone()
    }

    pub(crate) fn deny(&self, why: Option<Error>) {
        let is_denied = why.is_some();
        *self.admission.denial.lock() = why;
        if is_denied {
            self.wake_newcomers();
        }
    }

    fn ask(self: &Arc<Engine>, path: PathBuf, credentials: Credentials) {
        let node = node_config(&self.config);
        let question = question(&self.config.namespace, &node, self.agent().socket.number());
        *self.admission.attempt.lock() = node.seed;
        self.in_thread(move || match secure::enrol(&credentials, question) {
            Ok((asked, enrolment, renewal)) => Box::new(move |engine| {
                let again = replace(&path, credentials, renewal);
                *engine.admission.renewal.lock() = Some((clock::after(clock::now(), again), path));
                engine.deny(None);
                engine.visit(|core, now, _| {
                    if engine.still_wants(core, node.seed) {
                        core.node.begin(now, asked, &enrolment);
                    }
                });
                engine.entrust_timers();
            }),
            Err(NotEnrolled::Refused(Refusal::Recovering)) => {
                Box::new(move |engine| engine.complain(&"the switch begins no session now: it recovers, or stands by"))
            }
            Err(NotEnrolled::Refused(reason)) => Box::new(move |engine| {
                engine.visit(|core, _, errands| {
                    if engine.still_wants(core, node.seed) {
                        core.enter_phase(Phase::Refused(reason), errands);
                    }
                });
            }),
            Err(NotEnrolled::Denied(why)) => {
                let why = Error::NotJoined(format!("{why} (its credentials are in {})", path.display()));
                Box::new(move |engine| engine.deny(Some(why)))
            }
            Err(NotEnrolled::Failed(why)) => Box::new(move |engine| engine.complain(&why)),
        });
    }

    /// Tells the switch over a secure connection by which map of all shards the session asks it from now on. The same
    /// nonce as the session began with says which that is.
    pub(crate) fn pledge(self: &Arc<Engine>, pledge: u32) {
        let Way::Secure(_, credentials) = self.way_to(self.switch()) else { return };
        let node = NodeConfig { seed: *self.admission.attempt.lock(), shards: pledge, ..node_config(&self.config) };
        let question = question(&self.config.namespace, &node, self.agent().socket.number());
        self.in_thread_of(&self.admission.pledging, move || match secure::enrol(&credentials, question) {
            Ok((_, enrolment, _)) if enrolment.shards == pledge => {
                Box::new(move |engine| engine.visit(|core, _, _| core.node.on_followed(&enrolment)))
            }
            // It may have to be asked later.
            _ => Box::new(|_: &Arc<Engine>| ()),
        });
    }

    /// Asks for another certificate where it is time to. A session lives as long as it does without any; the next one
    /// would not begin.
    pub(crate) fn renew(self: &Arc<Engine>) {
        let mut due = self.admission.renewal.lock();
        let Some((at, path)) = &mut *due else { return };
        let now = clock::now();
        if now < *at || self.is_asking() {
            return;
        }
        *at = clock::after(now, ANOTHER_ATTEMPT);
        let path = path.clone();
        drop(due);
        self.in_thread(move || {
            let again = renew_in(&path).map_or(ANOTHER_ATTEMPT, |(again, _)| again);
            Box::new(move |engine| *engine.admission.renewal.lock() = Some((clock::after(clock::now(), again), path)))
        });
    }

    /// Whether the node that asked with this nonce is still the session's, and without an answer.
    fn still_wants(&self, core: &Core, nonce: u64) -> bool {
        core.phase == Phase::Enrolling && *self.admission.attempt.lock() == nonce
    }

    /// A switch has not answered a packet: does it take none from hosts that have not joined it?
    pub(crate) fn wonder_about(self: &Arc<Engine>, switch: SocketAddrV4) {
        let Some(port) = switch.port().checked_add(PORTS_APART) else { return };
        self.in_thread(move || {
            let enrols = secure::enrols_at(SocketAddrV4::new(*switch.ip(), port));
            Box::new(move |engine| {
                if enrols {
                    engine.deny(Some(not_joined(switch)));
                }
            })
        });
    }

    /// Does `work` in a thread of its own, then what follows from it, if there still is an engine.
    fn in_thread(self: &Arc<Engine>, work: impl FnOnce() -> Sequel + Send + 'static) {
        self.in_thread_of(&self.admission.busy, work);
    }

    /// The same, unless one is busy already.
    pub(crate) fn in_thread_of(
        self: &Arc<Engine>,
        busy: &Arc<AtomicBool>,
        work: impl FnOnce() -> Sequel + Send + 'static,
    ) {
        if busy.swap(true, SeqCst) {
            return;
        }
        let over = Over(busy.clone());
        let engine = Arc::downgrade(self);
        let run = move || {
            let follow = work();
            if let Some(engine) = engine.upgrade() {
                follow(&engine);
            }
            drop(over);
        };
        if let Err(error) = thread::Builder::new().name("wayside-enrol".into()).spawn(run) {
            self.complain(&system(error));
        }
    }
}

/// Asks how it stands with the certificate in this file, as it is now: another process may have renewed it. When to ask
/// again, and whether there is another one now.
pub(crate) fn renew_in(path: &Path) -> Result<(Duration, bool), NotJoined> {
    let failed = NotJoined::Failed;
    let credentials = Credentials::read(path).map_err(failed)?;
    let credentials = credentials.ok_or_else(|| failed(format!("{} is gone", path.display())))?;
    if !may_replace(path) {
        return Err(failed(format!("no permission to write {}", path.display())));
    }
    let Renewal { certificate, again_s } = secure::renew(&credentials)?;
    let is_new = certificate.is_some();
    if let Some(certificate) = certificate {
        let kept = secure::with_certificate(credentials, certificate).map_err(failed)?;
        kept.keep_in(path).map_err(|error| failed(format!("can't write {}: {error}", path.display())))?;
    }
    Ok((Duration::from_secs(again_s), is_new))
}

/// Puts what came with a session in its place, if this process may. When to ask for more.
fn replace(path: &Path, credentials: Credentials, renewal: Renewal) -> Duration {
    let again = Duration::from_secs(renewal.again_s);
    let Some(certificate) = renewal.certificate else { return again };
    // As they are there: these may have been used with another switch of the shard.
    let credentials = Credentials::read(path).ok().flatten().unwrap_or(credentials);
    let kept = secure::with_certificate(credentials, certificate).is_ok_and(|kept| kept.keep_in(path).is_ok());
    // Some other process of this host may be allowed to.
    if kept { again } else { ANOTHER_ATTEMPT }
}

/// Asks for another certificate for this host, as its processes do by themselves: when to ask again, and whether there
/// is another one now. `credentials`: the directory, if it is not where it is by default.
///
/// # Errors
/// [`NotJoined`].
pub fn renew(credentials: Option<&Path>, switch: SocketAddrV4) -> Result<(Duration, bool), NotJoined> {
    match Credentials::find(credentials, switch).map_err(NotJoined::Failed)? {
        Some((path, _)) => renew_in(&path),
        None => Err(NotJoined::Denied(format!("this host has not joined the switch at {switch}"))),
    }
}

fn question(namespace: &str, node: &NodeConfig, port: u16) -> Enrol {
    Enrol {
        nonce: format!("{:016x}", node.seed),
        pid: node.pid,
        lease_us: node.lease_us,
        namespace: namespace.into(),
        host: text(&node.host).unwrap_or("?").into(),
        port,
        shards: node.shards,
        packets: 0,
    }
}
