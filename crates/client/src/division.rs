//! A connection's part in the map of all shards: which shard it is with, and by which map it was asked for; and what
//! daemons tell of later maps.

use crate::control::Divided;
use crate::core::Phase;
use crate::daemon::connect_here;
use crate::engine::Engine;
use parking_lot::{Condvar, Mutex};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use wayside_protocol::{Domain, ShardMap};

/// For a daemon to say which shards there are.
const PATIENCE: Duration = Duration::from_millis(300);
/// An answer's length at most: the addresses of all shards, twice, and handles of sessions.
const LONGEST: u64 = 1 << 20;

/// Which shard a connection is with.
#[derive(Debug)]
pub(crate) struct Placed {
    own: String,
    /// By which the next session is asked for.
    map: Mutex<ShardMap>,
    news: Arc<News>,
    /// The switch's packets have to be signed, since those of other shards are.
    pub(crate) signs: bool,
}

impl Placed {
    pub(crate) fn new(own: String, map: ShardMap, news: Arc<News>, signs: bool) -> Placed {
        Placed { own, map: Mutex::new(map), news, signs }
    }

    /// What a node is made with.
    pub(crate) fn domain(&self) -> (u32, Domain) {
        let map = self.map.lock().clone();
        (map.begins(&self.own).unwrap_or(0), Domain::new(self.own.clone(), map))
    }

    /// The daemon of the shard has told which shards there are.
    pub(crate) fn told(&self, divided: Divided) {
        self.news.tell(self.own.clone(), divided);
    }
}

/// What daemons have told, for the thread that looks after the connections.
#[derive(Debug, Default)]
pub(crate) struct News {
    told: Mutex<(bool, Vec<(String, Divided)>)>,
    rung: Condvar,
}

impl News {
    pub(crate) fn tell(&self, shard: String, divided: Divided) {
        self.told.lock().1.push((shard, divided));
        self.ring();
    }

    /// Somebody waits, or is no more.
    pub(crate) fn ring(&self) {
        self.told.lock().0 = true;
        self.rung.notify_all();
    }

    /// What was told, at once if there is something, or after so long, and whether somebody waits. That is heard at
    /// once, too, unless `is_paced`: whoever waits rings again as soon as it was looked for him, and neither would ever
    /// rest.
    pub(crate) fn take(&self, most: Duration, is_paced: bool) -> (bool, Vec<(String, Divided)>) {
        let mut told = self.told.lock();
        let is_nothing = |(is_rung, told): &mut (bool, Vec<_>)| told.is_empty() && (is_paced || !*is_rung);
        self.rung.wait_while_for(&mut told, is_nothing, most);
        std::mem::take(&mut *told)
    }
}

/// The part of a daemon's answer that says which shards there are.
#[derive(Deserialize)]
struct Answer {
    version: u32,
    step: String,
    map: String,
    former: String,
}

/// Asks a shard which shards there are. None: it does not say, or knows none but its configuration's.
pub(crate) fn ask(switch: SocketAddrV4) -> Option<Divided> {
    fn converse(stream: impl Read + Write) -> Option<String> {
        let mut stream = BufReader::new(stream);
        stream.get_mut().write_all(b"{\"query\":\"shards\"}\n").ok()?;
        let mut line = String::new();
        stream.take(LONGEST).read_line(&mut line).ok()?;
        Some(line)
    }
    let line = match connect_here(switch) {
        Ok(daemon) => {
            daemon.stream.set_nonblocking(false).ok()?;
            daemon.stream.set_read_timeout(Some(PATIENCE)).ok()?;
            converse(daemon.stream)?
        }
        Err(_) => {
            let admin = SocketAddrV4::new(*switch.ip(), switch.port().checked_add(1)?);
            let stream = TcpStream::connect_timeout(&admin.into(), PATIENCE).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            converse(stream)?
        }
    };
    let Answer { version, step, map, former } = serde_json::from_str(&line).ok()?;
    let (settled, moved) = (step == "settled", step != "announced");
    (version > 0).then_some(Divided { shards: map, version, settled, former, moved })
}

impl Engine {
    /// The name of the shard, where there are several.
    pub(crate) fn shard(&self) -> String {
        self.config.placed.as_ref().map_or_else(String::new, |placed| placed.own.clone())
    }

    /// Whether this name may be asked for here, now.
    pub(crate) fn asks(&self, name: u64) -> bool {
        self.visit(|core, now, _| core.phase == Phase::Live && core.node.asks(now, name))
    }

    /// The version of the map that the shard counts the session under.
    pub(crate) fn map_version(&self) -> u32 {
        self.visit(|core, _, _| core.node.map_version().unwrap_or(0))
    }

    /// Whether the switch's packets are signed.
    pub(crate) fn signs(&self) -> bool {
        self.visit(|core, _, _| core.node.signs())
    }

    /// Asks the shard for nothing any more that a later map gives to others. Whether nothing of that is held or
    /// awaited.
    pub(crate) fn close_for(&self, map: &ShardMap) -> bool {
        self.visit(|core, _, _| {
            core.node.close_for(map);
            core.node.in_the_way().is_none()
        })
    }

    /// Tells the shard that nothing is asked of it any more but what this map leaves to it, if that is so.
    pub(crate) fn pledge_to(self: &Arc<Self>, map: &ShardMap) {
        if let Some(placed) = self.config.placed.as_ref().filter(|placed| map.shards.place(&placed.own).is_some()) {
            *placed.map.lock() = map.clone();
        }
        let (pledge, signs) = self.visit(|core, now, _| (core.node.follow(now), core.node.signs()));
        self.entrust_timers();
        if let Some(pledge) = pledge.filter(|_| signs) {
            self.pledge(pledge);
        }
    }

    /// Says at once what it has pledged and the shard has not answered.
    pub(crate) fn hurry(&self) {
        self.visit(|core, now, _| core.node.hurry(now));
        self.entrust_timers();
    }

    /// Asks again for what it was closed for, unless it has pledged not to.
    pub(crate) fn reopen(&self) {
        self.visit(|core, _, _| core.node.reopen());
    }

    /// Asks for the next session by another one of these maps, at once: the next one in turn that says something else.
    pub(crate) fn place_by_another(self: &Arc<Self>, maps: &[&ShardMap]) {
        let Some(placed) = &self.config.placed else { return };
        let asked = placed.map.lock().clone();
        let said = asked.begins(&placed.own);
        let next = maps.iter().position(|map| **map == asked).map_or(0, |place| place + 1);
        let turn = maps.iter().cycle().skip(next).take(maps.len());
        let other = turn.copied().find(|map| ![None, said].contains(&map.begins(&placed.own))).cloned();
        if let Some(other) = other {
            *placed.map.lock() = other;
            self.enrol_anew(false);
        }
    }
}
