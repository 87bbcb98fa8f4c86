//! The control connection: JSON lines over Unix sockets (this host) and TCP (others).
//!
//! Nodes greet on it and are then asked what they hold; commands query. A greeted connection on a Unix socket is its
//! node's lifeline: the kernel closes it when the last process that has it is gone, and the controller is told. Nothing
//! but its end is taken for that: the session's locks go to others at once.
//!
//! Every user of the host may connect. What they may write changes nothing of others: a greeting needs the session's
//! secret, which the controller gave to its node alone; and queries only read, but for those of root and the daemon's
//! user: `reload`, and where packets are signed what changes chains and shards.
//!
//! Against strangers: a first line within 10 s, lines of at most 4 KiB, at most 256 connections that have not greeted
//! of each user here and of all other hosts together, and of each session at most 16 that have here, and elsewhere. Of
//! these one is asked, and its answer alone may be long (`node_lines.rs`). Nobody is waited for: a peer that does not
//! read is dropped, or skipped if it is a lifeline.

use super::controller::Inbox;
use super::deadlocks::{self, Tally};
use super::divisions;
use super::etcd::fabric::MOST_SHARE;
use super::local::LocalSockets;
use super::metrics::{Connected, Numbers};
use super::node_lines::{NodeLines, Rooms, SHORT};
use super::plans;
use super::status::Facts;
use crate::answers::{Changed, Hold, Keeper, Lock, Locks, Query, Refused, Reloaded, Role, Session};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};
use wayside_client::control::{
    Abort, Divided, Greeting, Hello, LISTING_MOST, ListRequest, Listing, Proven, Welcome, veiled,
};
use wayside_protocol::controller::Order;

/// Connections that have not greeted: of each user of this host, and of other hosts.
pub const STRANGERS: usize = 256;
/// Connections of a session that have, here or elsewhere: `wayside lock` has two.
const CONNECTIONS: usize = 16;
/// To the first line, and between a command's lines.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// For a node to list what it holds.
const LISTING: Duration = Duration::from_secs(1);
/// For the controller to tell a scrape what it knows.
const NUMBERS: Duration = Duration::from_secs(1);
/// For a peer to read what it asked for.
const WRITE: Duration = Duration::from_secs(5);

/// What others hear who ask for a change.
const NOT_OBEYED: &str = "that is for root and the daemon's own user, on the switch's host";

/// What a stranger may write.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Greeting(Greeting),
    Hold { hold: Hold },
    Query(Query),
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// This host; trusted are root and the daemon's own user.
    Here {
        trusted: bool,
    },
    Elsewhere,
}

impl Where {
    fn is_trusted(self) -> bool {
        self == Where::Here { trusted: true }
    }
}

/// What a peer has shown to know: all of a session's secret, or, of another host, what is left of it under a veil.
#[derive(Clone, Copy)]
struct Shown {
    lifeline: u64,
    veiled: bool,
}

impl Shown {
    /// A line as this peer believes it.
    fn told(self, line: String) -> String {
        if self.veiled { json(&Proven::new(self.lifeline, line)) } else { line }
    }
}

/// What a node is to be told.
enum Ask {
    /// List your waits that have lasted so long, or everything; what room there is for the answer, and where it goes.
    List {
        waiting_us: Option<u64>,
        room: Arc<Semaphore>,
        answer: oneshot::Sender<Listing>,
    },
    Abort(Abort),
}

/// A connection whose greeting was accepted.
struct Peer {
    handle: u16,
    lifeline: u64,
    local: bool,
    /// None of a connection that only holds.
    asks: Option<mpsc::Sender<Ask>>,
}

/// What all connections share.
pub struct Control {
    inbox: Inbox,
    facts: Facts,
    /// In the order in which they came.
    peers: Mutex<BTreeMap<u64, Peer>>,
    rooms: Rooms,
    connections: AtomicU64,
    /// Places for connections that have not greeted: of each user here, none of whom can take those of another away.
    strangers_here: std::sync::Mutex<HashMap<u32, Arc<Semaphore>>>,
    strangers_elsewhere: Arc<Semaphore>,
    /// Connections closed for want of a place.
    refused: AtomicU64,
    /// Deadlocks found.
    pub deadlocks: Tally,
    /// The map of all shards, once there is one that is not the configuration's.
    divided: watch::Sender<Option<Divided>>,
}

impl Control {
    pub fn new(inbox: Inbox, facts: Facts) -> Arc<Control> {
        Arc::new(Control {
            inbox,
            facts,
            peers: Mutex::default(),
            rooms: Rooms::default(),
            connections: AtomicU64::new(0),
            strangers_here: std::sync::Mutex::default(),
            strangers_elsewhere: Arc::new(Semaphore::new(STRANGERS)),
            refused: AtomicU64::new(0),
            deadlocks: Tally::default(),
            divided: watch::Sender::new(None),
        })
    }

    /// Accepts this host's connections for ever; `admin.rs` has those of others.
    pub async fn serve(self: Arc<Self>, local: LocalSockets) {
        loop {
            match local.accept().await {
                Ok(stream) => self.start_here(stream),
                Err(error) => rest(&error).await,
            }
        }
    }

    /// Nodes that are connected are told of this map of all shards, and those that connect.
    pub fn announce(&self, divided: Divided) {
        self.divided.send_replace(Some(divided));
    }

    /// Where the controller is reached.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What a status and a scrape are made of.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What the controller knows now, if it says so in time.
    pub async fn numbers(&self) -> Option<Numbers> {
        timeout(NUMBERS, self.inbox.numbers()).await.ok().flatten()
    }

    /// What this switch is among those of its shard.
    pub fn role(&self) -> Role {
        self.inbox.role()
    }

    /// Packets that the controller was too busy for.
    pub fn overflowed(&self) -> u64 {
        self.inbox.overflowed()
    }

    /// Nodes that have greeted.
    pub async fn connected(&self) -> Connected {
        let peers = self.peers.lock().await;
        let here = peers.values().filter(|peer| peer.local).count();
        Connected { here: here as u64, elsewhere: (peers.len() - here) as u64 }
    }

    /// Connections that were closed for want of a place.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// JSON lines of another host.
    pub fn start_elsewhere(self: &Arc<Self>, stream: TcpStream) {
        self.start(stream.into_split(), Where::Elsewhere, &self.strangers_elsewhere);
    }

    fn start_here(self: &Arc<Self>, stream: UnixStream) {
        // A peer that is gone has no credentials, and no use for an answer.
        let Ok(peer) = stream.peer_cred() else { return };
        let places = {
            let mut strangers = self.strangers_here.lock().unwrap_or_else(PoisonError::into_inner);
            let places = strangers.entry(peer.uid()).or_insert_with(|| Arc::new(Semaphore::new(STRANGERS)));
            Arc::clone(places)
        };
        // SAFETY: geteuid has no preconditions and cannot fail.
        let trusted = [0, unsafe { libc::geteuid() }].contains(&peer.uid());
        self.start(stream.into_split(), Where::Here { trusted }, &places);
    }

    fn start<R, W>(self: &Arc<Self>, (read, write): (R, W), from: Where, places: &Arc<Semaphore>)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        // Without a permit the connection is closed at once, unheard.
        let Some(permit) = self.place(places) else { return };
        let lines = FramedRead::new(read, LinesCodec::new_with_max_length(SHORT));
        let sink = FramedWrite::new(write, LinesCodec::new());
        tokio::spawn(Arc::clone(self).stranger(lines, sink, from, permit));
    }

    fn place(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(places).try_acquire_owned().ok();
        if place.is_none() {
            let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
            // Said ever less often: a flood must not fill the log.
            if refused.is_power_of_two() {
                tracing::warn!(refused, "more than {STRANGERS} control connections without a greeting: closed");
            }
        }
        place
    }

    /// Answers queries until the peer greets, ends, or stops making sense.
    async fn stranger<R, W>(
        self: Arc<Self>,
        mut lines: FramedRead<R, LinesCodec>,
        mut sink: FramedWrite<W, LinesCodec>,
        from: Where,
        permit: OwnedSemaphorePermit,
    ) where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let local = from != Where::Elsewhere;
        while let Ok(Some(line)) = timeout(PATIENCE, lines.next()).await {
            let (answer, go_on) = match line.map(|line| serde_json::from_str(&line)) {
                Ok(Ok(Line::Greeting(Greeting { hello }))) => {
                    if let Some(shown) = self.verified(hello.handle, &hello.lifeline, local).await {
                        drop(permit);
                        return self.node(hello, shown, lines, sink, local).await;
                    }
                    (json(&Welcome { ok: false }), false)
                }
                Ok(Ok(Line::Hold { hold })) => {
                    if let Some(Shown { lifeline, .. }) = self.verified(hold.handle, &hold.lifeline, local).await {
                        drop(permit);
                        return self.hold(Peer { handle: hold.handle, lifeline, local, asks: None }, lines, sink).await;
                    }
                    (json(&Welcome { ok: false }), false)
                }
                Ok(Ok(Line::Query(query))) => (self.answer(query, from).await, true),
                Ok(Err(_)) => (refusal("this line is neither a greeting nor a query"), false),
                Err(LinesCodecError::MaxLineLengthExceeded) => (refusal("this line is longer than 4 KiB"), false),
                Err(LinesCodecError::Io(_)) => (refusal("this line is not UTF-8"), false),
            };
            if !matches!(timeout(WRITE, sink.send(answer)).await, Ok(Ok(()))) || !go_on {
                return;
            }
        }
    }

    /// What a peer has shown, if that and the handle belong to a live session, which has not too many connections. Here
    /// that is the secret itself: what anybody may have read on the network must not do to end the session.
    async fn verified(&self, handle: u16, shown: &str, local: bool) -> Option<Shown> {
        let shown = u64::from_str_radix(shown, 16).ok()?;
        let lifeline = self.inbox.lifeline(handle).await?;
        let is_veiled = shown != lifeline;
        if is_veiled && (local || shown != veiled(lifeline)) {
            return None;
        }
        // Whoever has a session's places elsewhere has none of those here.
        let is_own = |peer: &&Peer| peer.lifeline == lifeline && peer.local == local;
        let own = self.peers.lock().await.values().filter(is_own).count();
        (own < CONNECTIONS).then_some(Shown { lifeline, veiled: is_veiled })
    }

    /// Holds a node's connection until it ends, and asks it for its locks when someone wants to know.
    async fn node<R, W>(
        self: Arc<Self>,
        hello: Hello,
        shown: Shown,
        lines: FramedRead<R, LinesCodec>,
        mut sink: FramedWrite<W, LinesCodec>,
        local: bool,
    ) where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let come = lines.read_buffer().to_vec();
        let mut lines = NodeLines::new(lines.into_inner(), &come);
        let local = local && hello.local;
        let (asks, mut asked) = mpsc::channel(8);
        let id = self.enter(Peer { handle: hello.handle, lifeline: shown.lifeline, local, asks: Some(asks) }).await;

        let mut open: HashMap<u64, oneshot::Sender<Listing>> = HashMap::new();
        let mut given_up = Instant::now();
        let mut next = 0;
        let mut outgoing = Some(json(&Welcome { ok: true }));
        let mut divided = self.divided.subscribe();
        divided.mark_changed();
        loop {
            if let Some(line) = outgoing.take() {
                // A timeout leaves the rest in the sink's buffer; nothing more is written until that is gone.
                let _ = timeout(LISTING, sink.send(line)).await;
            }
            tokio::select! {
                line = lines.next() => match line {
                    None => break,
                    Some(Ok(listing)) => {
                        if let Some(answer) = open.remove(&listing.id) {
                            // Whoever asked may have given up.
                            let _ = answer.send(listing);
                        }
                    }
                    Some(Err(error)) => tracing::debug!(handle = hello.handle, %error, "node wrote an unknown line"),
                },
                () = sleep_until(given_up), if !open.is_empty() => open.clear(),
                Ok(()) = divided.changed() => {
                    let map = divided.borrow_and_update().clone();
                    // One that does not read now hears of it again.
                    if sink.write_buffer().is_empty() {
                        outgoing = map.map(|map| shown.told(json(&map)));
                    }
                },
                Some(ask) = asked.recv() => {
                    open.retain(|_, answer| !answer.is_closed());
                    if sink.write_buffer().is_empty() {
                        outgoing = Some(shown.told(match ask {
                            Ask::List { waiting_us, room, answer } => {
                                lines.lengthen(room);
                                given_up = Instant::now() + LISTING;
                                open.insert(next, answer);
                                next += 1;
                                json(&ListRequest { id: next - 1, list: true, waiting_us })
                            }
                            Ask::Abort(abort) => json(&abort),
                        }));
                    }
                },
            }
            if open.is_empty() {
                lines.shorten();
            }
        }
        self.leave(id).await;
    }

    /// Waits for the end of a connection that only holds a session.
    async fn hold<R, W>(&self, peer: Peer, lines: FramedRead<R, LinesCodec>, mut sink: FramedWrite<W, LinesCodec>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let id = self.enter(peer).await;
        let _ = timeout(WRITE, sink.send(json(&Welcome { ok: true }))).await;
        // It has nothing more to say.
        until_closed(lines.into_inner()).await;
        self.leave(id).await;
    }

    async fn enter(&self, peer: Peer) -> u64 {
        tracing::debug!(handle = peer.handle, local = peer.local, "node connected");
        let id = self.connections.fetch_add(1, Ordering::Relaxed);
        self.peers.lock().await.insert(id, peer);
        id
    }

    /// A connection ended: the session's end, if it was the last that holds it.
    async fn leave(&self, id: u64) {
        let mut peers = self.peers.lock().await;
        let Some(peer) = peers.remove(&id) else { return };
        let another = peers.values().any(|other| other.local && other.lifeline == peer.lifeline);
        tracing::debug!(handle = peer.handle, local = peer.local, another, "node disconnected");
        if peer.local && !another {
            self.inbox.closed(peer.handle, peer.lifeline);
        }
    }

    async fn answer(&self, query: Query, from: Where) -> String {
        match query {
            Query::Status => {
                let mut status = self.facts.status(self.inbox.role(), self.sessions().await, self.inbox.overflowed());
                if let Some(divided) = &*self.divided.borrow() {
                    divisions::put_into(&mut status.shards, &divided.shards);
                }
                json(&status)
            }
            Query::Locks => json(&self.locks().await),
            Query::Plan => match plans::plans(self, self.inbox.plans().await).await {
                Ok(plans) => json(&plans),
                Err(why) => refusal(&why),
            },
            Query::Deadlocks => json(&deadlocks::search(self).await.told()),
            Query::Listings => json(&deadlocks::listings_for_strangers(self).await),
            Query::Keys { namespace, prefix } => match self.inbox.keys(namespace.clone(), prefix).await {
                Some(keys) => json(&keys),
                None => refusal(&format!("there is no namespace {namespace:?}")),
            },
            Query::Chains => match self.inbox.chains().await {
                Some(chains) => json(&chains),
                None => json(&self.elsewhere()),
            },
            // What all nodes have changes by these: where packets are signed not everybody is to be obeyed.
            Query::Share { .. } | Query::Recover | Query::Divide { .. }
                if self.facts.enrols.is_some() && !from.is_trusted() =>
            {
                refusal(NOT_OBEYED)
            }
            Query::Reload if !from.is_trusted() => refusal(NOT_OBEYED),
            Query::Share { share, .. } if share > MOST_SHARE => {
                refusal(&format!("a share is at most {MOST_SHARE}, not {share}"))
            }
            Query::Share { switch, share } => match self.inbox.listed(switch.clone()).await {
                Some((shard, listed)) => match shard.set_share(&listed, share).await {
                    Ok(()) => json(&Changed { changed: 1 }),
                    Err(error) => refusal(&error.to_string()),
                },
                None if matches!(self.inbox.role(), Role::Alone) => json(&self.elsewhere()),
                None => refusal(&format!("the shard has no switch at {switch}; `wayside chain status` has them")),
            },
            Query::Recover => match self.inbox.recover_chains().await {
                Some(changed) => json(&Changed { changed }),
                None => json(&self.elsewhere()),
            },
            Query::Shards => match divisions::shards(self).await {
                Ok(shards) => json(&shards),
                Err(refused) => json(&refused),
            },
            Query::Divide { version, step, begins, above, map, former } => {
                let (map, former) = (map.into_bytes(), former.into_bytes());
                match divisions::divide(self, Order { version, step: step.into(), begins, above, map, former }).await {
                    Ok(()) => json(&Changed { changed: 1 }),
                    Err(refused) => json(&refused),
                }
            }
            Query::Reload => match self.facts.reload.reload().await {
                Ok(changes) => json(&Reloaded { changes }),
                Err(why) => refusal(&why),
            },
            Query::Node { handle } => {
                match self.sessions().await.into_iter().find(|session| session.handle == handle) {
                    Some(session) => json(&session),
                    None => refusal(&format!("no session has handle {handle}")),
                }
            }
        }
    }

    /// Why this switch knows nothing of chains.
    fn elsewhere(&self) -> Refused {
        let role = self.inbox.role();
        let elsewhere = matches!(role, Role::Standby { .. });
        let error = match role {
            Role::Alone => "this switch is alone: it is head and tail of all groups (a shard has --etcd)".into(),
            Role::Serving => "this switch has just begun to serve: ask again".into(),
            Role::Standby { serving: Some(at) } => format!("{at} knows: it serves the shard"),
            Role::Standby { serving: None } => "no switch of the shard serves".into(),
        };
        Refused { error, elsewhere }
    }

    async fn sessions(&self) -> Vec<Session> {
        let mut sessions = self.inbox.sessions().await;
        let peers = self.peers.lock().await;
        let alive: std::collections::HashSet<u16> =
            peers.values().filter(|peer| peer.local).map(|peer| peer.handle).collect();
        for session in &mut sessions {
            session.lifeline = alive.contains(&session.handle);
        }
        sessions
    }

    /// Asks every connected node at once for what it holds and awaits, or only for waits that have lasted so long, and
    /// waits for the slowest, at most a second. None of those that said nothing.
    pub async fn listings(&self, waiting_us: Option<u64>) -> Vec<(Session, Option<Listing>)> {
        let sessions = self.sessions().await;
        let latest = self.latest().await;
        let mut asked: HashMap<u16, oneshot::Receiver<Listing>> = HashMap::new();
        for session in &sessions {
            let Some(asks) = latest.get(&session.handle) else { continue };
            let (answer, listing) = oneshot::channel();
            let room = self.rooms.of(&session.namespace);
            if asks.try_send(Ask::List { waiting_us, room, answer }).is_ok() {
                asked.insert(session.handle, listing);
            }
        }
        let deadline = Instant::now() + LISTING;
        let mut listings = Vec::with_capacity(sessions.len());
        for session in sessions {
            let listing = match asked.remove(&session.handle) {
                Some(listing) => timeout_at(deadline, listing).await.ok().and_then(Result::ok),
                None => None,
            };
            listings.push((session, listing));
        }
        listings
    }

    /// Where each node is asked: a node that has come anew may have its connection of before still, so at the latest,
    /// and at one of this host, if there is any: those need the secret.
    async fn latest(&self) -> HashMap<u16, mpsc::Sender<Ask>> {
        let peers = self.peers.lock().await;
        let of = |local: bool| peers.values().filter(move |peer| peer.local == local);
        of(false).chain(of(true)).filter_map(|peer| Some((peer.handle, peer.asks.clone()?))).collect()
    }

    /// Has a node give a wait up. One that does not read at the moment is not told.
    pub async fn abort(&self, handle: u16, abort: Abort) {
        for peer in self.peers.lock().await.values().filter(|peer| peer.handle == handle) {
            if let Some(asks) = &peer.asks {
                let _ = asks.try_send(Ask::Abort(abort.clone()));
            }
        }
    }

    async fn locks(&self) -> Locks {
        let mut answer = Locks { locks: Vec::new(), silent: Vec::new(), partial: Vec::new(), keepers: Vec::new() };
        for (session, listing) in self.listings(None).await {
            let owner = session.owner();
            let Some(Listing { entries, kept, .. }) = listing else {
                answer.silent.push(owner);
                continue;
            };
            if entries.len() >= LISTING_MOST {
                answer.partial.push(owner.clone());
            }
            if kept > 0 {
                let namespace = session.namespace.clone();
                answer.keepers.push(Keeper { owner: owner.clone(), namespace, kept });
            }
            answer.locks.extend(entries.into_iter().map(|entry| Lock {
                name: entry.name,
                name_id: entry.name_id,
                namespace: session.namespace.clone(),
                slot: entry.slot,
                mode: entry.mode,
                state: entry.state,
                since_us: entry.since_us,
                token: entry.token,
                priority: entry.priority,
                owner: owner.clone(),
            }));
        }
        // Holders before waiters, those who have waited longest first.
        answer.locks.sort_by(|a, b| {
            (&a.namespace, &a.name, &a.state).cmp(&(&b.namespace, &b.name, &b.state)).then(b.since_us.cmp(&a.since_us))
        });
        answer
    }
}

/// After a connection could not be accepted: out of descriptors, or a peer that went away while it waited. The
/// listeners are as good as before.
pub async fn rest(error: &std::io::Error) {
    tracing::warn!(%error, "can't accept a control connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Whatever a peer writes, and be it nonsense, is no sign of its death.
async fn until_closed(mut read: impl AsyncRead + Unpin) {
    let mut bytes = [0; 1024];
    while let Ok(1..) = read.read(&mut bytes).await {}
}

fn json(answer: &impl serde::Serialize) -> String {
    serde_json::to_string(answer).expect("answers have string keys and finite numbers")
}

fn refusal(why: &str) -> String {
    json(&Refused { error: why.into(), elsewhere: false })
}
