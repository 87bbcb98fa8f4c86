//! A session with each of several shards, and which of them has a lock: by the latest map of the shards that any of
//! them has told of. Shards are added and drained while locks are held (docs/shards.md, "Adding and draining"); what
//! each connection may be asked for meanwhile, its node knows (`wayside_protocol::Domain`).
//!
//! Invariants
//! * Connections are in the order of the shards. In this order several locks are taken, everywhere, so that two callers
//!   never wait for each other in a circle. Where a name is no shard's at the moment, all are given back and asked for
//!   anew.
//! * There is no connection with shards that the session is not for: what they have is not asked for elsewhere.
//! * A session with a shard began under the fingerprint of all of them ([`Shards`]): whoever may grant a name is one.

use crate::control::Divided;
use crate::core::Phase;
use crate::division::{News, Placed};
use crate::endpoint::Endpoints;
use crate::fork::Origin;
use crate::name::Named;
use crate::observe::Observer;
use crate::session::{Config, Connection};
use crate::{Error, clock};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread;
use std::time::Duration;
use wayside_protocol::{ShardMap, Shards, Time};
use wayside_wire::Refusal;

/// Between looks after the connections while there is something to do, and else.
const LOOK: Duration = Duration::from_millis(2);
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// For so long a connection is asked for nothing that will be another shard's; then it is again for four times as long,
/// since who holds a lock there may have to take another one to end.
const CLOSED: Duration = Duration::from_millis(250);
/// Between two pledges that are not answered: at first, and at most. Each is a connection of its own where packets are
/// signed.
const PLEDGED: Duration = Duration::from_millis(20);
const PLEDGED_MOST: Duration = Duration::from_millis(500);
const PLEDGED_MOST_SIGNED: Duration = Duration::from_secs(1);
/// Whoever waits for a name to be some shard's looks again so often.
const PAUSE: Duration = Duration::from_millis(5);
/// Between questions to a shard that begins no session, which shards there are; and to one that says nothing at all: it
/// may be one that is being added.
const QUESTION: Duration = Duration::from_millis(250);
const SILENCE: Duration = Duration::from_secs(2);
/// Whoever waits for sessions looks again so often with which shards.
const GLANCE: Duration = Duration::from_millis(50);

pub(crate) struct Spread {
    state: RwLock<State>,
    news: Arc<News>,
    /// What connections are made with, but for what is each one's own.
    template: Config,
    one_in: u64,
    /// The one lock that the session is for.
    only: Option<u64>,
    turn: Mutex<()>,
    turned: Condvar,
    /// Tasks that wait for a name to be some shard's.
    wakers: Mutex<Vec<Waker>>,
    origin: Origin,
}

struct State {
    latest: Map,
    /// Those before, while shards may not have come to the latest: that of which its shards were made, and the one
    /// that was known here before.
    formers: Vec<Map>,
    /// Not all shards have the latest map, or not all connections follow it.
    is_changing: bool,
    /// Some shard begins no session by the map that it was asked by.
    is_refused: bool,
    /// Some shard says that not all have.
    is_unsettled: bool,
    /// By the shard's name.
    connections: BTreeMap<String, Arc<Connection>>,
}

/// One version of which shards there are, and where.
#[derive(Clone)]
struct Map {
    shards: ShardMap,
    endpoints: Endpoints,
}

impl Map {
    /// As a configuration has it. None: it is not of shards.
    fn untold(text: &str) -> Option<Map> {
        let endpoints = Endpoints::parse(text).ok()?;
        let shards = ShardMap { version: 0, shards: endpoints.shards()?.clone() };
        Some(Map { shards, endpoints })
    }
}

/// Names of one shard, and the connection with it.
pub(crate) type OfShard<'n> = (Arc<Connection>, Vec<Named<'n>>);

/// What the thread that looks after the connections knows of them.
#[derive(Default)]
struct Care {
    /// Since when nothing is asked for that will be another shard's; and from when on it may be so again.
    closed_since: Option<Time>,
    closes: Time,
    /// Shards to which the latest map was pledged, all at once; when it is again, and how long that took this time.
    pledged: Vec<String>,
    repeats: Time,
    pause: Duration,
    /// When to ask a shard which shards there are, or to say again what was pledged.
    again: BTreeMap<String, Time>,
    /// What shards have told last: a version, and whether they have moved to it.
    told: BTreeMap<String, (u32, bool)>,
    /// Those that have told something else since they were pledged to.
    news: BTreeSet<String>,
}

impl Care {
    fn again(&self, shard: &str) -> Time {
        self.again.get(shard).copied().unwrap_or_default()
    }

    /// Whether these have been pledged to, and are to be so again only later.
    fn waits(&self, behind: &[String]) -> bool {
        self.pledged == behind && clock::now() < self.repeats
    }

    /// These are pledged to, again if they were before.
    fn pledges(&mut self, behind: Vec<String>, most: Duration) {
        self.pause = if self.pledged == behind { most.min(2 * self.pause) } else { PLEDGED };
        self.repeats = clock::after(clock::now(), self.pause);
        self.pledged = behind;
    }

    /// A shard tells of a map: what is new of it is a reason to ask it at once.
    fn hears(&mut self, shard: &str, divided: &Divided) {
        let told = (divided.version, divided.moved);
        if self.told.insert(shard.to_owned(), told) != Some(told) {
            self.news.insert(shard.to_owned());
            self.pledged.clear();
        }
    }

    fn asked(&mut self, shard: &str, pause: Duration) {
        self.again.insert(shard.to_owned(), clock::after(clock::now(), pause));
    }
}

impl Spread {
    /// Begins a session with each shard, or with that alone which has the one lock.
    pub(crate) fn begin(
        template: Config,
        endpoints: &Endpoints,
        shards: &Shards,
        one_in: u64,
        only: Option<u64>,
    ) -> Result<Arc<Spread>, Error> {
        let latest = Map { shards: ShardMap { version: 0, shards: shards.clone() }, endpoints: endpoints.clone() };
        let state = State {
            latest,
            formers: Vec::new(),
            is_changing: false,
            is_refused: false,
            is_unsettled: false,
            connections: BTreeMap::new(),
        };
        let spread = Spread {
            state: RwLock::new(state),
            news: Arc::default(),
            template,
            one_in,
            only,
            turn: Mutex::new(()),
            turned: Condvar::new(),
            wakers: Mutex::default(),
            origin: Origin::here(),
        };
        spread.connect()?;
        let spread = Arc::new(spread);
        let (weak, news) = (Arc::downgrade(&spread), spread.news.clone());
        let run = move || look_after(&weak, &news);
        thread::Builder::new().name("wayside-shards".into()).spawn(run).map_err(crate::engine::system)?;
        Ok(spread)
    }

    /// With each shard that the session is for, in the order of their names.
    pub(crate) fn connections(&self) -> Vec<(String, Arc<Connection>)> {
        let state = self.state.read();
        state.connections.iter().map(|(name, connection)| (name.clone(), connection.clone())).collect()
    }

    /// Whether shards are being added or drained, as far as is known here.
    pub(crate) fn is_changing(&self) -> bool {
        let state = self.state.read();
        state.is_changing || state.is_refused
    }

    /// Why a connection did not get what it was asked for. [`Error::Elsewhere`], and it is to be asked for anew: the
    /// shard begins no session by the map that this one was asked by, or the connection has been left since.
    pub(crate) fn anew(&self, connection: &Arc<Connection>, error: &Error) -> Error {
        let is_elsewhere = match error {
            Error::Refused(_) => {
                let phase = connection.engine.session().0;
                !matches!(phase, Phase::Refused(reason) if reason != Refusal::Shards)
            }
            // That of a shard that was drained; not of a session that its owner has closed.
            Error::Closed => !self.state.read().connections.values().any(|known| Arc::ptr_eq(known, connection)),
            // That of a shard that is only being added, as was told meanwhile.
            Error::Unavailable { .. } => self.is_changing(),
            _ => false,
        };
        if is_elsewhere { Error::Elsewhere } else { error.clone() }
    }

    /// With the shard that has the lock of this name.
    ///
    /// # Errors
    /// [`Error::InvalidName`]: the session is not for that shard. [`Error::Elsewhere`]: it is none's at the moment.
    pub(crate) fn of(&self, name: u64) -> Result<Arc<Connection>, Error> {
        let state = self.state.read();
        if state.is_changing || state.is_refused {
            // No two have it: what one has pledged to another it is not asked for any more.
            let has = |connection: &&Arc<Connection>| connection.engine.asks(name);
            return state.connections.values().find(has).cloned().ok_or(Error::Elsewhere);
        }
        let shards = &state.latest.shards.shards;
        let owner = &shards.names()[shards.owner(name)];
        let elsewhere = || Error::InvalidName(format!("its lock is shard {owner}'s, which this session is not for"));
        state.connections.get(owner).cloned().ok_or_else(elsewhere)
    }

    /// Names by the shards that have their locks, in order; none of a shard that has none of them.
    ///
    /// # Errors
    /// As [`Spread::of`].
    pub(crate) fn divide<'n>(&self, names: &[Named<'n>]) -> Result<Vec<OfShard<'n>>, Error> {
        let mut of_each: BTreeMap<String, OfShard<'n>> = BTreeMap::new();
        for name in names {
            let connection = self.of(name.id)?;
            let shard = connection.engine.shard();
            of_each.entry(shard).or_insert_with(|| (connection, Vec::new())).1.push(*name);
        }
        Ok(of_each.into_values().collect())
    }

    /// Waits a moment for a name to be some shard's; until `deadline` at most, or as long as a change lasts.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub(crate) fn pause(&self, deadline: Option<Time>, since: Time) -> Result<(), Error> {
        self.check(deadline, since)?;
        self.news.ring();
        self.turned.wait_for(&mut self.turn.lock(), PAUSE);
        Ok(())
    }

    /// As [`Spread::pause`], for a task, which is called.
    pub(crate) fn park(&self, waker: &Waker, deadline: Option<Time>, since: Time) -> Result<(), Error> {
        self.check(deadline, since)?;
        self.wakers.lock().push(waker.clone());
        self.news.ring();
        Ok(())
    }

    fn check(&self, deadline: Option<Time>, since: Time) -> Result<(), Error> {
        let now = clock::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Error::TimedOut);
        }
        let patience = self.template.patience;
        // A shard that refuses may have another map to tell; a change that is under way comes to an end.
        let is_changing = self.state.read().is_changing;
        if !is_changing && now >= clock::after(since, patience) {
            return Err(self.connections().iter().find_map(|(_, one)| one.engine.reason()).unwrap_or_else(|| {
                let endpoint = self.state.read().latest.endpoints.to_string();
                Error::Unavailable { endpoint, waited: patience, detail: String::new() }
            }));
        }
        Ok(())
    }

    /// Waits for a session with each shard; not with those that are only being added, which begin none before their
    /// time.
    pub(crate) fn await_sessions(&self) -> Result<(), Error> {
        let end = clock::after(clock::now(), self.template.patience);
        let has_time = || clock::now() < end;
        'again: loop {
            for connection in self.awaited() {
                match connection.engine.await_session(Some(GLANCE)) {
                    Ok(()) => {}
                    Err(Error::TimedOut) if has_time() => continue 'again,
                    Err(Error::TimedOut) => return Err(connection.engine.lack(&connection.engine.core.lock())),
                    // Which shards there are may be told in a moment.
                    Err(error) if has_time() && self.anew(&connection, &error) == Error::Elsewhere => {
                        self.turned.wait_for(&mut self.turn.lock(), PAUSE);
                        continue 'again;
                    }
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
    }

    fn awaited(&self) -> Vec<Arc<Connection>> {
        let state = self.state.read();
        let former = state.formers.first().filter(|_| state.is_unsettled);
        let had = |name: &str| former.is_none_or(|former| former.shards.shards.place(name).is_some());
        state.connections.iter().filter(|(name, _)| had(name)).map(|(_, connection)| connection.clone()).collect()
    }

    // ---- the thread that looks after the connections ----

    /// Begins sessions with shards of the latest map that there are none with.
    fn connect(&self) -> Result<(), Error> {
        let (latest, known) = {
            let state = self.state.read();
            (state.latest.clone(), state.connections.keys().cloned().collect::<Vec<_>>())
        };
        let shards = &latest.shards.shards;
        let only = self.only.map(|name| shards.owner(name));
        for (place, name) in shards.names().iter().enumerate() {
            if known.contains(name) || only.is_some_and(|only| only != place) {
                continue;
            }
            // Who signs does not begin to believe what is not signed.
            let signs = self.connections().iter().any(|(_, connection)| connection.engine.signs());
            let placed = Placed::new(name.clone(), latest.shards.clone(), self.news.clone(), signs);
            let config = Config {
                // Requests are told apart by ids that those of another session may have as well.
                observer: Observer::new(&self.template.namespace, self.one_in),
                placed: Some(Arc::new(placed)),
                endpoints: latest.endpoints.of_each()[place].clone(),
                ..self.template.clone()
            };
            let connection = Connection::begin(config)?;
            self.state.write().connections.insert(name.clone(), connection);
        }
        Ok(())
    }

    /// A shard has told which shards there are.
    fn learn(&self, shard: &str, divided: &Divided, care: &mut Care) {
        let Ok(endpoints) = Endpoints::parse(&divided.shards) else { return };
        let Some(shards) = endpoints.shards().cloned() else { return };
        care.hears(shard, divided);
        let mut state = self.state.write();
        let known = state.latest.shards.version;
        if divided.version > known {
            let shards = ShardMap { version: divided.version, shards };
            let known = std::mem::replace(&mut state.latest, Map { shards, endpoints });
            state.formers = Map::untold(&divided.former).into_iter().chain([known]).collect();
            state.is_changing = true;
            state.is_unsettled = !divided.settled;
        } else if divided.version == known {
            state.is_unsettled = !divided.settled;
            state.is_changing |= !divided.settled;
            if !divided.settled {
                care.again.remove(shard);
            }
        }
    }

    /// Looks after all connections. Whether there is more to do soon.
    fn look(&self, care: &mut Care) -> bool {
        if let Err(error) = self.connect() {
            self.connections().iter().for_each(|(_, connection)| connection.engine.complain(&error));
        }
        let (latest, formers, is_unsettled) = {
            let state = self.state.read();
            (state.latest.clone(), state.formers.clone(), state.is_unsettled)
        };
        let connections = self.connections();
        let is_of_it = |name: &str| latest.shards.shards.place(name).is_some();
        let phase = |connection: &Connection| connection.engine.session().0;
        let is_behind = |connection: &Connection| connection.engine.map_version() < latest.shards.version;
        let live = |connection: &Connection| phase(connection) == Phase::Live;
        let behind: Vec<_> = connections.iter().filter(|(_, one)| live(one) && is_behind(one)).collect();
        self.follow(&behind, &latest, care);
        let mut is_refused = false;
        for (name, connection) in &connections {
            match phase(connection) {
                Phase::Live if is_unsettled && !is_behind(connection) && clock::now() >= care.again(name) => {
                    // The shard may have forgotten what it was told.
                    care.asked(name, IDLE_LOOK);
                    connection.engine.pledge_to(&latest.shards);
                }
                Phase::Live => {}
                _ if !is_of_it(name) => self.leave(name),
                Phase::Refused(Refusal::Shards) => {
                    is_refused = true;
                    if clock::now() >= care.again(name) {
                        care.asked(name, QUESTION);
                        let maps = [&latest].into_iter().chain(&formers).map(|map| &map.shards);
                        connection.engine.place_by_another(&maps.collect::<Vec<_>>());
                        self.question(name, connection);
                    }
                }
                // The first time it may be about to answer.
                Phase::Enrolling if !care.again.contains_key(name) => care.asked(name, QUESTION),
                Phase::Enrolling if clock::now() >= care.again(name) => {
                    care.asked(name, SILENCE);
                    self.question(name, connection);
                }
                _ => {}
            }
        }
        let is_changing = !behind.is_empty() || is_unsettled;
        {
            let mut state = self.state.write();
            (state.is_changing, state.is_refused) = (is_changing, is_refused);
        }
        let wakers = std::mem::take(&mut *self.wakers.lock());
        let waits = !wakers.is_empty();
        wakers.into_iter().for_each(Waker::wake);
        self.turned.notify_all();
        is_changing || is_refused || waits
    }

    /// Has connections follow the latest map, once none of them has anything that it gives to another shard: who holds
    /// a lock of one that moves may need another one's to come to an end.
    fn follow(&self, behind: &[&(String, Arc<Connection>)], latest: &Map, care: &mut Care) {
        let now = clock::now();
        let names: Vec<String> = behind.iter().map(|(name, _)| name.clone()).collect();
        if behind.is_empty() || now < care.closes || care.waits(&names) {
            return;
        }
        let is_idle = behind.iter().map(|(_, connection)| connection.engine.close_for(&latest.shards));
        if is_idle.collect::<Vec<_>>().into_iter().all(|is_idle| is_idle) {
            care.closed_since = None;
            // Asked until it is answered, by packets. Where they are signed, by a thread's own connection.
            let signs = behind.iter().any(|(_, connection)| connection.engine.signs());
            care.pledges(names, if signs { PLEDGED_MOST_SIGNED } else { PLEDGED_MOST });
            for (name, connection) in behind {
                connection.engine.pledge_to(&latest.shards);
                if care.news.remove(name) {
                    connection.engine.hurry();
                }
                if latest.shards.shards.place(name).is_none() {
                    self.leave(name);
                }
            }
        } else if now >= clock::after(*care.closed_since.get_or_insert(now), CLOSED) {
            behind.iter().for_each(|(_, connection)| connection.engine.reopen());
            care.closed_since = None;
            care.closes = clock::after(now, 4 * CLOSED);
        }
    }

    /// Asks a shard that begins no session which shards there are: it may have another map than all others, or all have
    /// another one than this process was told when it started.
    fn question(&self, name: &str, connection: &Connection) {
        if let Some(divided) = crate::division::ask(connection.engine.switch()) {
            self.news.tell(name.to_owned(), divided);
        }
    }

    /// A drained shard, of which nothing is wanted any more.
    fn leave(&self, name: &str) {
        let connection = self.state.write().connections.remove(name);
        if let Some(connection) = connection {
            connection.engine.close();
        }
    }
}

impl Drop for Spread {
    /// Its thread ends at once, not at its next look.
    fn drop(&mut self) {
        if self.origin.is_here() {
            self.news.ring();
        }
    }
}

fn look_after(spread: &Weak<Spread>, news: &News) {
    let mut care = Care::default();
    let mut is_busy = false;
    loop {
        let (is_rung, told) = news.take(if is_busy { LOOK } else { IDLE_LOOK }, is_busy);
        let Some(spread) = spread.upgrade() else { return };
        told.iter().for_each(|(shard, divided)| spread.learn(shard, divided, &mut care));
        is_busy = spread.look(&mut care) || is_rung;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise it and whoever waits would call each other without a pause.
    #[test]
    fn who_looks_soon_anyway_is_called_by_news_alone() {
        const LONG: Duration = Duration::from_secs(60);
        let (news, begun) = (News::default(), std::time::Instant::now());
        news.ring();
        let (is_rung, told) = news.take(LONG, false);
        assert!(is_rung && told.is_empty());
        let divided =
            Divided { shards: String::new(), version: 1, settled: false, former: String::new(), moved: false };
        news.tell("a".to_owned(), divided);
        assert_eq!(news.take(LONG, true).1.len(), 1);
        assert!(begun.elapsed() < LONG, "both at once");
        let begun = std::time::Instant::now();
        news.ring();
        assert!(news.take(20 * LOOK, true).0, "somebody waits still");
        assert!(begun.elapsed() >= 20 * LOOK);
        assert!(!news.take(LOOK, true).0);
    }

    #[test]
    fn pledges_that_are_not_answered_become_rarer_until_there_is_news() {
        let behind = || vec!["a".to_owned(), "b".to_owned()];
        let mut care = Care::default();
        assert!(!care.waits(&behind()));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            care.pledges(behind(), PLEDGED_MOST);
            pauses.push(care.pause);
        }
        assert_eq!((pauses[0], pauses[1], pauses[7]), (PLEDGED, 2 * PLEDGED, PLEDGED_MOST));
        assert!(care.waits(&behind()) && !care.waits(&behind()[..1]));
        let mut divided =
            Divided { shards: String::new(), version: 1, settled: false, former: String::new(), moved: false };
        for (moved, is_news) in [(false, true), (false, false), (true, true), (true, false)] {
            divided.moved = moved;
            care.pledges(behind(), PLEDGED_MOST);
            care.hears("b", &divided);
            assert_eq!((care.waits(&behind()), care.news.remove("b")), (!is_news, is_news));
        }
    }
}
