//! `wayside shard`: the shards that locks are divided among, and changes of them while locks are held.
//!
//! Nothing is kept here: every step is told to a shard, which writes it down, and the next one follows from what all
//! shards say then. So the command may die at any moment, and `resume` or `undo` goes on.

use super::query::{Unanswered, ask, ask_who_knows, find_who_knows, of_shard};
use super::text::{lasted, say};
use crate::answers::{Changed, Lock, Locks, Query, ShardStep, ShardsAnswer};
use crate::cli::{Output, QueryArgs, ShardAddArgs, ShardChangeArgs, ShardCommand, ShardDrainArgs};
use crate::failure::{Failure, exit};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Endpoint, Endpoints, Shards};
use wayside_protocol::controller::{Division, DivisionView, Order, Step};
use wayside_protocol::redivision::{Impossible, Kept, Next, Redivision};

/// Between two looks at what stands in the way.
const LOOK: Duration = Duration::from_millis(20);
/// Locks in the way that are shown.
const SHOWN: usize = 20;

pub fn shard(command: &ShardCommand) -> Result<(), Failure> {
    match command {
        ShardCommand::Status(args) => status(args),
        ShardCommand::Add(ShardAddArgs { shard, change }) => add(shard, change),
        ShardCommand::Drain(ShardDrainArgs { shard, change }) => drain(shard, change),
        ShardCommand::Resume(change) => {
            let fabric = Fabric::find(&change.endpoint.endpoints, None)?;
            match fabric.under_way()? {
                None => settled(&fabric.map),
                Some(former) => fabric.change(fabric.version, former, &fabric.map)?.carry_out(change),
            }
        }
        ShardCommand::Undo(change) => {
            let fabric = Fabric::find(&change.endpoint.endpoints, None)?;
            match fabric.under_way()? {
                None => settled(&fabric.map),
                Some(former) => {
                    let undone = fabric.change(fabric.version, former, &fabric.map)?;
                    let plan = undone.plan.taken_back(&fabric.seen).map_err(|why| kept(&why))?;
                    Change { fabric: &fabric, plan, next: former.clone() }.carry_out(change)
                }
            }
        }
    }
}

/// Of all shards that any of them names: of one that is being added too, and of one that was drained.
fn status(args: &QueryArgs) -> Result<(), Failure> {
    let fabric = Fabric::find(&args.endpoint.endpoints, None)?;
    for (name, Said { line, answer, .. }) in &fabric.said {
        match args.output {
            Output::Json => say(line),
            Output::Text => say(&format!("shard {name}\n{}", text(answer))),
        }
    }
    fabric.missing().map_or(Ok(()), Err)
}

fn settled(map: &Endpoints) -> Result<(), Failure> {
    say(&format!("no change is under way; WAYSIDE_ENDPOINTS='{map}'"));
    Ok(())
}

fn add(shard: &str, change: &ShardChangeArgs) -> Result<(), Failure> {
    let added = shard.split_once('=').ok_or_else(|| Failure::usage(format!("{shard:?}: write NAME=HOST:PORT")))?;
    let fabric = Fabric::find(&change.endpoint.endpoints, Some(shard))?;
    let next = if fabric.shards(&fabric.map)?.place(added.0).is_some() {
        fabric.map.clone()
    } else {
        Endpoints::parse(&format!("{};{shard}", fabric.map)).map_err(|error| Failure::usage(error.to_string()))?
    };
    if fabric.shards(&next)?.names()[0] == added.0 && next != fabric.map {
        let first = fabric.shards(&fabric.map)?.names()[0].clone();
        return Err(Failure::usage(format!(
            "{} would be the first shard by name, which has the keys, and keys do not move: choose a name after {first}",
            added.0
        )));
    }
    fabric.begin_or_go_on(&next, change)
}

fn drain(shard: &str, change: &ShardChangeArgs) -> Result<(), Failure> {
    let fabric = Fabric::find(&change.endpoint.endpoints, None)?;
    let shards = fabric.shards(&fabric.map)?;
    if shards.place(shard) == Some(0) {
        return Err(Failure::usage(format!(
            "{shard} is the first shard by name, which has the keys, and keys do not move"
        )));
    }
    if shards.place(shard).is_none() && !fabric.at.contains_key(shard) {
        return Err(Failure::usage(format!("there is no shard of this name: {shard}")));
    }
    let rest: Vec<String> =
        fabric.map.to_string().split(';').filter(|part| !is_of(part, shard)).map(String::from).collect();
    if rest.len() < 2 {
        return Err(Failure::usage("two shards are the fewest that locks are divided among"));
    }
    let next = Endpoints::parse(&rest.join(";")).map_err(|error| Failure::usage(error.to_string()))?;
    fabric.begin_or_go_on(&next, change)
}

fn is_of(part: &str, shard: &str) -> bool {
    part.split_once('=').is_some_and(|(name, _)| name == shard)
}

/// What a shard said last, and where.
#[derive(Clone)]
struct Said {
    line: String,
    answer: ShardsAnswer,
    endpoint: Endpoint,
}

/// All shards, as they say they are.
#[derive(Clone)]
struct Fabric {
    version: u32,
    map: Endpoints,
    /// The one before; None: that is the same.
    former: Option<Endpoints>,
    /// Where each is.
    at: BTreeMap<String, Endpoints>,
    seen: BTreeMap<String, DivisionView>,
    said: BTreeMap<String, Said>,
    /// Why there is no word of the others.
    absent: BTreeMap<String, Failure>,
}

impl Fabric {
    /// Asks those of `known`, `more`, and whoever else they name.
    fn find(known: &Endpoints, more: Option<&str>) -> Result<Fabric, Failure> {
        if known.shards().is_none() {
            return Err(Failure::usage(
                "name the shards, as in --endpoint 'east=10.0.0.1;west=10.0.1.1': a switch that has all locks is not divided",
            ));
        }
        let mut fabric = Fabric {
            version: 0,
            map: known.clone(),
            former: None,
            at: BTreeMap::new(),
            seen: BTreeMap::new(),
            said: BTreeMap::new(),
            absent: BTreeMap::new(),
        };
        fabric.learn(&known.to_string())?;
        more.map_or(Ok(()), |more| fabric.learn(more))?;
        while let Some(name) = fabric.unasked() {
            let answer = match fabric.ask(&name) {
                Ok(answer) => answer,
                Err(why) => {
                    fabric.absent.insert(name, why);
                    continue;
                }
            };
            fabric.learn(&answer.map)?;
            fabric.learn(&answer.former)?;
            if answer.version > fabric.version {
                fabric.version = answer.version;
                fabric.map = parsed(&answer.map)?;
                fabric.former = Some(parsed(&answer.former)?).filter(|former| *former != fabric.map);
            }
        }
        // One that was drained long ago may be gone. Whoever is needed is asked again.
        match fabric.absent.values().next().filter(|_| fabric.seen.is_empty()) {
            Some(why) => Err(why.clone()),
            None => Ok(fabric),
        }
    }

    fn unasked(&self) -> Option<String> {
        let is_asked = |name: &&String| self.seen.contains_key(*name) || self.absent.contains_key(*name);
        self.at.keys().find(|name| !is_asked(name)).cloned()
    }

    fn learn(&mut self, map: &str) -> Result<(), Failure> {
        for part in map.split(';').filter(|part| !part.is_empty()) {
            let (name, list) =
                part.split_once('=').ok_or_else(|| Failure::usage(format!("{part:?}: write NAME=HOST:PORT")))?;
            let list = Endpoints::parse(list).map_err(|error| Failure::usage(error.to_string()))?;
            self.at.entry(name.trim().to_owned()).or_insert(list);
        }
        Ok(())
    }

    fn ask(&mut self, name: &str) -> Result<ShardsAnswer, Failure> {
        let (endpoint, line, answer) = find_who_knows::<ShardsAnswer>(self.at[name].of_keys(), &Query::Shards)
            .map_err(|why| of_shard(name, why))?;
        if answer.shard != name {
            return Err(Failure::usage(format!(
                "the switch at {} is of shard {}, not {name}",
                self.at[name], answer.shard
            )));
        }
        let said = Said { line, answer: answer.clone(), endpoint: endpoint.clone() };
        let division = Division {
            version: answer.version,
            step: answer.step.into(),
            map: answer.map.clone().into_bytes(),
            former: answer.former.clone().into_bytes(),
            // By what they say is its own business.
            begins: answer.open.then_some(0),
            ..Division::default()
        };
        let view = DivisionView { division, behind: answer.behind.clone(), epoch: answer.epoch };
        self.seen.insert(name.to_owned(), view);
        self.said.insert(name.to_owned(), said);
        Ok(answer)
    }

    fn shards(&self, map: &Endpoints) -> Result<Shards, Failure> {
        map.shards().cloned().ok_or_else(|| Failure::usage(format!("{map}: those are no shards")))
    }

    /// The map before, if there are shards of the latest that have not come to the end of the change since.
    ///
    /// # Errors
    /// If nobody says that there are, and not all have said how far they have come.
    fn under_way(&self) -> Result<Option<&Endpoints>, Failure> {
        let is_under_way = |view: &DivisionView| {
            self.version > 0 && (view.division.version != self.version || view.division.step != Step::Settled)
        };
        let mut seen = self.map.shards().into_iter().flat_map(Shards::names).filter_map(|name| self.seen.get(name));
        if seen.any(is_under_way) {
            return Ok(Some(self.former.as_ref().unwrap_or(&self.map)));
        }
        self.missing().map_or(Ok(None), Err)
    }

    /// Why a shard of the latest map gives no answer.
    fn missing(&self) -> Option<Failure> {
        let names = self.map.shards().into_iter().flat_map(Shards::names);
        names.filter_map(|name| self.absent.get(name)).next().cloned()
    }

    fn begin_or_go_on(&self, next: &Endpoints, change: &ShardChangeArgs) -> Result<(), Failure> {
        match self.under_way()? {
            None if *next == self.map => settled(next),
            None => {
                let version = self.version.checked_add(1).ok_or_else(|| kept(&Kept::Last))?;
                self.change(version, &self.map, next)?.carry_out(change)
            }
            Some(former) if *next == self.map => self.change(self.version, former, next)?.carry_out(change),
            Some(_) => Err(Failure::unavailable(format!(
                "a change to {} is under way: `wayside shard resume` ends it, `wayside shard undo` takes it back",
                self.map
            ))),
        }
    }

    fn change(&self, version: u32, former: &Endpoints, next: &Endpoints) -> Result<Change<'_>, Failure> {
        let maps = (former.to_string().into_bytes(), next.to_string().into_bytes());
        let plan = Redivision::new(version, self.shards(former)?, self.shards(next)?, maps);
        let plan =
            plan.map_err(|Impossible::Both| Failure::usage("shards are added and drained one after the other"))?;
        Ok(Change { fabric: self, plan, next: next.clone() })
    }
}

fn parsed(map: &str) -> Result<Endpoints, Failure> {
    Endpoints::parse(map).map_err(|error| Failure::unavailable(format!("a shard names others that are none: {error}")))
}

/// A change that is carried out.
struct Change<'f> {
    fabric: &'f Fabric,
    plan: Redivision,
    next: Endpoints,
}

impl Change<'_> {
    fn carry_out(self, change: &ShardChangeArgs) -> Result<(), Failure> {
        let began = Instant::now();
        let until = began + change.within;
        let mut fabric = self.fabric.clone();
        let (mut is_told, mut is_announced) = (false, false);
        loop {
            match self.plan.next(&fabric.seen) {
                Next::Done => break,
                Next::Unknown(name) => self.look(&mut fabric, [&name], until)?,
                Next::Open(name) => {
                    return Err(Failure::unavailable(format!(
                        "{name} begins sessions already, and may grant what other shards have: start it with --shard-joins \
                         and an empty --state-dir (a change that others have heard of by then is taken back by `wayside \
                         shard undo`)"
                    )));
                }
                Next::Overtaken(version) => {
                    return Err(Failure::unavailable(format!(
                        "version {version} of the map came after this change: `wayside shard status`"
                    )));
                }
                Next::Tell(name, order) => {
                    if self.plan.is_change() && order.step > Step::Announced && !is_announced {
                        is_announced = true;
                        // Who starts from now on finds all of them by it, however long the change takes.
                        eprintln!("all have been told: WAYSIDE_ENDPOINTS='{}'", text_of(&self.plan.maps.1));
                    }
                    self.tell(&fabric, &name, &order, until)?;
                    self.look(&mut fabric, self.plan.all(), until)?;
                }
                Next::Wait(behind) => {
                    if Instant::now() >= until {
                        let way = in_the_way(&fabric, &self.plan, &behind);
                        let within = lasted(change.within);
                        let plan = self.plan.taken_back(&fabric.seen).map_err(|why| {
                            let why = kept(&why);
                            let why = format!("left after {within}, not taken back: {}\n{way}", why.reason());
                            Failure::new(exit::BUSY, why)
                        })?;
                        Change { fabric: &fabric, plan, next: self.next }.carry_out(change)?;
                        let why = format!("taken back after {within}: the names that were to move are held\n{way}");
                        return Err(Failure::new(exit::BUSY, why));
                    }
                    if !is_told && began.elapsed() >= Duration::from_secs(1) {
                        is_told = true;
                        eprintln!("waiting for\n{}", in_the_way(&fabric, &self.plan, &behind));
                    }
                    thread::sleep(LOOK);
                    self.look(&mut fabric, behind.iter().map(|(name, _)| name), until)?;
                }
            }
        }
        if self.plan.is_change() {
            say(&format!("locks are divided among {}", self.plan.next.names().join(", ")));
        } else {
            say(&format!("taken back: locks are divided among {}", self.plan.former.names().join(", ")));
        }
        say(&format!("WAYSIDE_ENDPOINTS='{}'", text_of(&self.plan.maps.1)));
        Ok(())
    }

    /// Asks these how far they have come. One that has heard of the change is waited for: it may be starting anew, or a
    /// standby may be about to take its place.
    fn look<'n>(
        &self,
        fabric: &mut Fabric,
        names: impl IntoIterator<Item = &'n String>,
        until: Instant,
    ) -> Result<(), Failure> {
        for name in names {
            while let Err(why) = fabric.ask(name) {
                if why.code != exit::UNAVAILABLE || !self.is_begun(fabric) || Instant::now() >= until {
                    return Err(self.left(fabric, name, why));
                }
                thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Tells one of them. Once others have heard of the change, one that hangs is told again: it takes an order once,
    /// however late.
    fn tell(&self, fabric: &Fabric, name: &str, order: &Order, until: Instant) -> Result<(), Failure> {
        while let Err(why) = tell(fabric, name, order) {
            if why.hangs.is_none() || !self.is_begun(fabric) || Instant::now() >= until {
                return Err(self.left(fabric, name, of_shard(name, why)));
            }
        }
        Ok(())
    }

    fn is_begun(&self, fabric: &Fabric) -> bool {
        fabric.seen.values().any(|view| view.division.version == self.plan.version)
    }

    /// What an operator can do where a shard has not answered.
    fn left(&self, fabric: &Fabric, name: &str, why: Failure) -> Failure {
        if !self.is_begun(fabric) {
            return why;
        }
        let undo = match self.plan.taken_back(&fabric.seen) {
            Ok(_) if self.plan.is_change() => ", or `wayside shard undo` takes it back",
            Err(Kept::Decided(_)) => "; it is decided, and can't be taken back",
            _ => "",
        };
        Failure::new(
            why.code,
            format!(
                "{}\nthe change is not over, and names that it moves can't be locked until it is: `wayside shard resume` \
                 goes on once shard {name} answers{undo}",
                why.reason()
            ),
        )
    }
}

/// Why a change is not taken back.
fn kept(why: &Kept) -> Failure {
    match why {
        Kept::Decided(shard) => Failure::unavailable(format!(
            "the change is decided, as shard {shard} shows: `wayside shard resume` goes on with it"
        )),
        Kept::Unknown(shard) => Failure::unavailable(format!(
            "shard {shard} does not say how far it has come, and the change may be decided: `wayside shard status`"
        )),
        Kept::Last => Failure::unavailable("no map has a higher version"),
    }
}

fn text_of(map: &[u8]) -> String {
    String::from_utf8_lossy(map).into_owned()
}

fn tell(fabric: &Fabric, name: &str, order: &Order) -> Result<(), Unanswered> {
    let Order { version, step, begins, above, ref map, ref former } = *order;
    let (map, former) = (text_of(map), text_of(former));
    let query = Query::Divide { version, step: step.into(), begins, above, map, former };
    ask_who_knows::<Changed>(fabric.at[name].of_keys(), &query).map(drop)
}

/// Which locks of names that change hands are held, and which sessions have not said that they hold none.
fn in_the_way(fabric: &Fabric, plan: &Redivision, behind: &[(String, Vec<u16>)]) -> String {
    let mut lines = Vec::new();
    for (name, handles) in behind {
        // A standby has no nodes that it could ask.
        let serving = std::slice::from_ref(&fabric.said[name].endpoint);
        let locks = ask::<Locks>(serving, &Query::Locks).map(|(_, locks)| locks.locks);
        let moves = |lock: &&Lock| {
            let id = u64::from_str_radix(&lock.name_id, 16).ok();
            handles.contains(&lock.owner.handle) && id.is_some_and(|id| !plan.next.has(name, id))
        };
        for lock in locks.iter().flatten().filter(moves).take(SHOWN) {
            let since = lasted(Duration::from_micros(lock.since_us));
            let (lock, state, owner) = (&lock.name, &lock.state, &lock.owner);
            lines
                .push(format!("  shard {name}: {lock} {state} for {since} by process {} on {}", owner.pid, owner.host));
        }
        let handles: Vec<String> = handles.iter().map(u16::to_string).collect();
        lines.push(format!("  shard {name}: sessions {}", handles.join(", ")));
    }
    lines.join("\n")
}

fn text(answer: &ShardsAnswer) -> String {
    let ShardsAnswer { version, step, open, map, behind, epoch, .. } = answer;
    let map = if map.is_empty() { "as configured" } else { map.as_str() };
    let step = match step {
        ShardStep::Announced => "announced",
        ShardStep::Moved => "moved",
        ShardStep::Decided => "decided",
        ShardStep::Settled => "settled",
    };
    let open = if *open { "begins sessions" } else { "begins no session" };
    format!("map {version}, {step}: {map}\n{open}, {} sessions behind, epoch {epoch}\n", behind.len())
}
