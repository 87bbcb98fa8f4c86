//! Sessions: a process's standing with the switch, from enrolment to the end.

use crate::background;
use crate::core::Grants;
use crate::division::Placed;
#[cfg(feature = "tokio")]
use crate::driver::Driver;
use crate::endpoint::{ENDPOINTS_VARIABLE, Endpoint, Endpoints};
use crate::engine::{Engine, system};
use crate::leases::Leases;
use crate::lock::LockRequest;
use crate::many::ManyRequest;
use crate::observe::Observer;
use crate::recipes::{Barrier, Election, Group, Semaphore};
use crate::spread::Spread;
use crate::store::Store;
use crate::transport::{TRANSPORT_VARIABLE, Transport, TransportReport};
use crate::{Error, Name, Wait, clock, task};
use parking_lot::Mutex;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};
use wayside_protocol::SessionInfo;
use wayside_wire::limits::MAX_NAMESPACE_BYTES;

/// Names the namespace for every session that is not told otherwise.
pub const NAMESPACE_VARIABLE: &str = "WAYSIDE_NAMESPACE";
const NAMESPACE: &str = "default";
/// How many locks a session keeps that is not told otherwise.
pub const KEEP_VARIABLE: &str = "WAYSIDE_KEEP";
/// A million, which is what a session may hold.
const KEEP_MOST: usize = 1_000_000;
/// Of how many acquires one is traced, for every session that is not told otherwise.
#[cfg(feature = "otel")]
pub const TRACE_VARIABLE: &str = "WAYSIDE_TRACE_ONE_IN";
/// Where `wayside dev` answers.
const ENDPOINT: &str = "127.0.0.1:7600";
/// For an answer to an enrolment, with room for a switch that is being restarted.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a session is made with.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) endpoints: Vec<Endpoint>,
    /// Which of several shards this is about.
    pub(crate) placed: Option<Arc<Placed>>,
    pub(crate) namespace: String,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Wait,
    pub(crate) transport: Transport,
    pub(crate) patience: Duration,
    /// Directory of credentials; None: where they usually are.
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) lock_server: bool,
    /// Locks that it keeps though nobody holds or awaits them, at most.
    pub(crate) keep: usize,
    pub(crate) observer: Observer,
}

/// Makes a [`Session`] otherwise than [`Session::connect`] does.
///
/// ```no_run
/// use std::time::Duration;
/// use wayside_client::{Session, Wait};
///
/// let session = Session::builder()
///     .endpoint("switch.example:7600")
///     .lease(Duration::from_secs(2))
///     .wait(Wait::Spin)
///     .connect()?;
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `connect`"]
pub struct Builder {
    endpoints: Option<String>,
    namespace: Option<String>,
    lease: Option<Duration>,
    wait: Wait,
    transport: Option<Transport>,
    patience: Duration,
    credentials: Option<PathBuf>,
    lock_server: bool,
    keep: Option<usize>,
    /// The one lock that it is for, or why that is no name.
    only: Option<Result<u64, Error>>,
    #[cfg(feature = "otel")]
    trace_one_in: Option<u64>,
}

impl Builder {
    /// Traces one in so many acquires; 0: none. Without it, `WAYSIDE_TRACE_ONE_IN`, else none. Which ones follows from
    /// their ids, so processes with the same number trace the same requests.
    #[cfg(feature = "otel")]
    pub fn trace_one_in(mut self, acquires: u64) -> Self {
        self.trace_one_in = Some(acquires);
        self
    }

    /// Where the switch is: `host[:port]`, several separated by commas: ways to it, and its standbys. Where locks are
    /// divided among shards, `name=` and those of each, separated by semicolons. Without it, `WAYSIDE_ENDPOINTS`, else
    /// `127.0.0.1:7600`.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoints = Some(endpoint.into());
        self
    }

    /// The namespace of the locks, 1 to 24 bytes. Without it, `WAYSIDE_NAMESPACE`, else `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// How long the session outlives its last heartbeat; the namespace's own lease without it. A short one frees the
    /// locks of a dead host sooner, and loses those of a slow one sooner. From 1 ms to 71 minutes; the switch may
    /// narrow that down.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How threads wait for answers.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// By which way threads reach the switch. Without it, `WAYSIDE_TRANSPORT`, else UDP.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = Some(transport);
        self
    }

    /// How long [`Builder::connect`], and every acquire while there is no session, waits for the switch; 3 s without
    /// it.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Directory with this host's credentials for switches that it has joined. Without it, `WAYSIDE_CREDENTIALS`, else
    /// the user's own (`wayside/node` in `XDG_CONFIG_HOME` or `~/.config`), then `/etc/wayside/node`.
    pub fn credentials(mut self, directory: impl Into<PathBuf>) -> Self {
        self.credentials = Some(directory.into());
        self
    }

    /// Where the namespace's locks are queues: offers this process as their lock server, or, where the names are
    /// divided among several, as that of some of them. As long as the session lives
    /// it keeps, or stands by to keep, the locks that have no queue in the switch and the waiters that do not fit
    /// into one. It answers from the background: let the process do nothing that keeps the machine from it.
    pub fn lock_server(mut self) -> Self {
        self.lock_server = true;
        self
    }

    /// Keeps so many locks, at most, of those that this process has used, though nobody holds or awaits them: to take
    /// one of them again, and to give it back, costs no packet. For processes that have locks of their own, which
    /// others want now and then: those ask by the switch, and wait for two hops more. A lock that others ask for more
    /// often goes to them. What a process kept that dies, others have when its lease is over, as if it had held it. 0,
    /// which keeps none, to 1,000,000; without it, `WAYSIDE_KEEP`, else 0.
    pub fn keep(mut self, locks: usize) -> Self {
        self.keep = Some(locks);
        self
    }

    /// A session for this one lock: where locks are divided among shards, with that shard alone that has it. Nothing
    /// else is to be asked of it.
    #[doc(hidden)]
    pub fn only<'a>(mut self, lock: impl Into<Name<'a>>) -> Self {
        self.only = Some(lock.into().id());
        self
    }

    /// Enrols, and waits for it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no switch answers in time, [`Error::Refused`] if it will not have the session,
    /// [`Error::NotJoined`] if it takes only hosts that have joined it,
    /// [`Error::InvalidEndpoint`], [`Error::InvalidNamespace`], [`Error::InvalidKeep`], [`Error::Transport`] where
    /// AF_XDP cannot be had, and [`Error::System`] without sockets or threads.
    pub fn connect(self) -> Result<Session, Error> {
        let session = self.begin()?;
        session.await_beginning()?;
        Ok(session)
    }

    /// Enrols without waiting: acquires wait for it. For tasks, which must not block.
    ///
    /// # Errors
    /// As [`Builder::connect`], but for those that only an answer brings.
    pub fn begin(self) -> Result<Session, Error> {
        task::prepare();
        let only = self.only.clone().transpose()?;
        let (config, endpoints, one_in) = self.config()?;
        let Some(shards) = endpoints.shards() else {
            return Ok(Session { connection: Connection::begin(config)?, spread: None });
        };
        let spread = Spread::begin(config, &endpoints, shards, one_in, only)?;
        let first = spread.connections().into_iter().next();
        let (_, connection) = first.expect("there are several shards, and each name has an owner");
        Ok(Session { connection, spread: Some(spread) })
    }

    /// That of a session with the first shard; where all are; and of how many acquires one is traced.
    fn config(self) -> Result<(Config, Endpoints, u64), Error> {
        let from = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
        let endpoints = self.endpoints.or_else(|| from(ENDPOINTS_VARIABLE)).unwrap_or_else(|| ENDPOINT.into());
        let namespace = self.namespace.or_else(|| from(NAMESPACE_VARIABLE)).unwrap_or_else(|| NAMESPACE.into());
        if namespace.is_empty() || namespace.len() > MAX_NAMESPACE_BYTES || namespace.contains('\0') {
            let why = format!("{namespace:?}: write 1 to {MAX_NAMESPACE_BYTES} bytes");
            return Err(Error::InvalidNamespace(why));
        }
        let transport = match self.transport {
            Some(transport) => transport,
            None => from(TRANSPORT_VARIABLE).map_or(Ok(Transport::Udp), |text| Transport::parse(&text))?,
        };
        let keep = match self.keep {
            Some(locks) => locks.to_string(),
            None => from(KEEP_VARIABLE).unwrap_or_else(|| "0".into()),
        };
        let keep = keep.parse().ok().filter(|locks| *locks <= KEEP_MOST).ok_or(Error::InvalidKeep(keep))?;
        #[cfg(feature = "otel")]
        let one_in = self.trace_one_in.or_else(|| from(TRACE_VARIABLE)?.parse().ok()).unwrap_or(0);
        #[cfg(not(feature = "otel"))]
        let one_in = 0;
        let endpoints = Endpoints::parse(&endpoints)?;
        let config = Config {
            observer: Observer::new(&namespace, one_in),
            endpoints: endpoints.of_keys().to_vec(),
            placed: None,
            transport,
            namespace,
            lease: self.lease,
            wait: self.wait,
            patience: self.patience,
            credentials: self.credentials,
            lock_server: self.lock_server,
            keep,
        };
        Ok((config, endpoints, one_in))
    }
}

/// A process's standing with the switch. Cheap to clone; any number of threads and tasks may use it at once.
///
/// It lives as long as a clone of it, a guard or a pending acquire does; then it leaves, which takes at most a few
/// tenths of a second. All its locks are kept by one heartbeat. If it is lost (the network was away for a lease, or
/// the process paused), every guard is lost with it, and the session enrols anew by itself.
///
/// It is one process's. Another that this one forks, and that calls no exec, has none of it: there every guard is lost,
/// every call ends with [`Error::Closed`], and what is dropped or closed gives nothing back. Begin a session there.
///
/// Where locks are divided among shards it is a session with each of them: whoever is cut off from one shard loses the
/// locks of that one alone. Keys, and what this type tells of one switch, are the first one's.
///
/// ```no_run
/// use wayside_client::Session;
///
/// let session = Session::connect("127.0.0.1:7600")?;
/// let guard = session.lock("orders/42").acquire()?;
/// println!("fencing token {}", guard.token());
/// drop(guard);
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Session {
    /// With the switch that has the keys, and the locks if there is one shard.
    pub(crate) connection: Arc<Connection>,
    /// Where locks are divided among several.
    pub(crate) spread: Option<Arc<Spread>>,
}

impl Session {
    /// Enrols with the switch at `endpoint`: `host` or `host:port`.
    ///
    /// # Errors
    /// Those of [`Builder::connect`].
    pub fn connect(endpoint: impl Into<String>) -> Result<Session, Error> {
        Session::builder().endpoint(endpoint).connect()
    }

    /// For everything that [`Session::connect`] leaves at its default.
    pub fn builder() -> Builder {
        Builder {
            endpoints: None,
            namespace: None,
            lease: None,
            wait: Wait::default(),
            transport: None,
            patience: PATIENCE,
            credentials: None,
            lock_server: false,
            keep: None,
            only: None,
            #[cfg(feature = "otel")]
            trace_one_in: None,
        }
    }

    /// Waits for what [`Builder::begin`] has begun, as [`Builder::connect`] does.
    ///
    /// # Errors
    /// Those of [`Builder::connect`] that an answer brings, or that there is none.
    pub fn await_beginning(&self) -> Result<(), Error> {
        match &self.spread {
            None => self.connection.engine.await_session(None),
            Some(spread) => spread.await_sessions(),
        }
    }

    /// Asks for a lock: exclusive, however long it takes, unless the result is told otherwise.
    pub fn lock<'a>(&self, name: impl Into<Name<'a>>) -> LockRequest<'_, 'a> {
        LockRequest::new(self, name.into())
    }

    /// Asks for several locks, all or none. They are taken in one order everywhere, so that two callers who want
    /// some of the same locks never wait for each other in a circle. A name that occurs twice is taken once.
    pub fn lock_many<'a, N: Into<Name<'a>>>(&self, names: impl IntoIterator<Item = N>) -> ManyRequest<'_, 'a> {
        ManyRequest::new(self, names.into_iter().map(Into::into))
    }

    /// Reads what is answered to this session's tasks on the Tokio runtime that polls it, instead of on a thread of the
    /// session's own, and sends together what several tasks ask and give back: fewer wake-ups and system calls for each
    /// lock (docs/endpoints.md#tasks).
    ///
    /// It ends with the session, and does not keep it; there is one of a session, and another one ends at once. Dropped
    /// before, or with its runtime, the session's own thread reads again.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), wayside_client::Error> {
    /// # use wayside_client::Session;
    /// let session = Session::builder().endpoint("switch.example:7600").begin()?;
    /// tokio::spawn(session.driver());
    /// let guard = session.lock("orders/42").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Polled outside of a Tokio runtime whose IO is enabled.
    #[cfg(feature = "tokio")]
    pub fn driver(&self) -> Driver {
        Driver::new(self.connections().into_iter().map(|connection| connection.engine.clone()))
    }

    /// The namespace's keys and values.
    #[must_use]
    pub fn store(&self) -> Store<'_> {
        Store::new(self)
    }

    /// So many at a time: a counting semaphore of this name.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a number of permits that is none: there may be 1 to 1,024.
    pub fn semaphore(&self, name: &str, permits: u32) -> Result<Semaphore, Error> {
        Semaphore::new(self, name, permits)
    }

    /// Who is there: a group of this name.
    ///
    /// # Errors
    /// None for a group of 64; see [`Group::room`].
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        Group::new(self, name)
    }

    /// Who leads: an election of this name, which is that of a lock and of a key.
    #[must_use]
    pub fn election(&self, name: &str) -> Election {
        Election::new(self, name)
    }

    /// Nobody goes on before so many are there: a barrier of this name.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a number of parties that is none: there may be 1 to 1,024.
    pub fn barrier(&self, name: &str, parties: u32) -> Result<Barrier, Error> {
        Barrier::new(self, name, parties)
    }

    /// With each shard.
    fn connections(&self) -> Vec<Arc<Connection>> {
        match &self.spread {
            None => vec![self.connection.clone()],
            Some(spread) => spread.connections().into_iter().map(|(_, connection)| connection).collect(),
        }
    }

    /// Handle, incarnation, epoch and lease of the session; None while there is none.
    #[must_use]
    pub fn info(&self) -> Option<SessionInfo> {
        self.connection.engine.session().1
    }

    /// [`Session::info`] of the session with each shard, and its switch's address.
    #[doc(hidden)]
    #[must_use]
    pub fn infos(&self) -> Vec<(SessionInfo, SocketAddrV4)> {
        let info = |connection: &Arc<Connection>| Some((connection.engine.session().1?, connection.engine.switch()));
        self.connections().iter().filter_map(info).collect()
    }

    /// Address of the switch.
    #[must_use]
    pub fn switch(&self) -> SocketAddrV4 {
        self.connection.engine.switch()
    }

    /// What its threads really use to reach the switch.
    #[must_use]
    pub fn transport(&self) -> TransportReport {
        let mut report = self.connection.engine.transport();
        let others = self.connections().into_iter().skip(1);
        report.ports.extend(others.flat_map(|connection| connection.engine.transport().ports));
        report
    }

    /// The shards that locks are divided among, and the address of each one's switch; none where there is one.
    #[must_use]
    pub fn shards(&self) -> Vec<(String, SocketAddrV4)> {
        let each = self.spread.iter().flat_map(|spread| spread.connections());
        each.map(|(name, connection)| (name, connection.engine.switch())).collect()
    }

    /// Until when the locks of this session are safe unless another heartbeat is acknowledged, of whichever shard; None
    /// if there is one without a session.
    #[must_use]
    pub fn lease_end(&self) -> Option<Instant> {
        let connections = self.connections();
        let ends = connections.iter().map(|connection| Some(connection.engine.session().1?.lease_end));
        clock::instant(ends.collect::<Option<Vec<_>>>()?.into_iter().min()?)
    }

    /// Whether the switch's daemon, on this host, is connected to this session: then the end of this process, however
    /// it ends, is noticed at once. Without it, which is so on every other host and for a millisecond after the session
    /// began, it is noticed a lease and its grace later. `wayside doctor` says what is in the way.
    #[must_use]
    pub fn has_lifeline(&self) -> bool {
        self.connections().iter().all(|connection| connection.lifeline.load(Relaxed))
    }

    /// Grants so far, by who decided.
    #[must_use]
    pub fn grants(&self) -> Grants {
        let connections = self.connections();
        let each = connections.iter().map(|connection| connection.engine.grants());
        each.fold(Grants::default(), |all, one| Grants {
            switch: all.switch + one.switch,
            agent: all.agent + one.agent,
            local: all.local + one.local,
        })
    }

    /// Locks that this process keeps at the moment though nobody holds or awaits them: [`Builder::keep`]. Two that
    /// share a slot count once.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.connections().iter().map(|connection| connection.engine.kept()).sum()
    }

    /// Whether nothing is held, awaited, or given back and not yet confirmed, and no agent of a slot is here, nor
    /// any lock that is kept: a good moment to end the process.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connections().iter().all(|connection| connection.engine.is_idle())
    }

    /// Ends the session now, for all its clones: what is held is lost. What was given back just before is taken over
    /// first by whoever waits for it, so that lines keep their order. Takes at most a few tenths of a second.
    pub fn close(self) {
        if !self.connection.engine.is_here() {
            // A thread that is not here may have had the list of shards when its process was forked.
            return;
        }
        // Asked of all before any is waited for.
        let connections = self.connections();
        connections.iter().for_each(|connection| connection.engine.close());
        connections.iter().for_each(|connection| connection.join());
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut session = f.debug_struct("Session");
        session.field("switch", &self.switch()).field("info", &self.info());
        session.field("has_lifeline", &self.has_lifeline()).finish()
    }
}

/// What sessions, guards and pending acquires share; the last of them to go ends the session.
pub(crate) struct Connection {
    pub(crate) engine: Arc<Engine>,
    pub(crate) leases: Arc<Leases>,
    lifeline: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    thread_id: ThreadId,
}

impl Connection {
    /// Enrols without waiting.
    pub(crate) fn begin(config: Config) -> Result<Arc<Connection>, Error> {
        let engine = Arc::new(Engine::new(config)?);
        engine.start();
        let (lifeline, leases) = (Arc::new(AtomicBool::new(false)), Arc::<Leases>::default());
        let run = {
            let (engine, lifeline, leases) = (engine.clone(), lifeline.clone(), leases.clone());
            move || background::run(&engine, lifeline, &leases)
        };
        let thread = thread::Builder::new().name("wayside".into()).spawn(run).map_err(system)?;
        let (thread_id, thread) = (thread.thread().id(), Mutex::new(Some(thread)));
        let connection = Arc::new(Connection { engine, leases, lifeline, thread, thread_id });
        connection.leases.are_of(&connection);
        Ok(connection)
    }

    fn close(&self) {
        self.engine.close();
        self.join();
    }

    /// Waits until the session is over.
    fn join(&self) {
        // What it calls may end the session, too, and must not wait for who waits for it.
        if !self.engine.is_here() || self.thread_id == thread::current().id() {
            return;
        }
        // With the lock: others wait here as long.
        if let Some(thread) = self.thread.lock().take() {
            // It has logged its panic, if it ended by one.
            let _ = thread.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.engine.is_here() {
            // There is no such thread here.
            return std::mem::forget(self.thread.get_mut().take());
        }
        self.close();
    }
}
