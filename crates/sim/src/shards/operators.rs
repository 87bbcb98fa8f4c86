//! Operators, one to three at a time: each asks all sites what they have, begins a change or goes on with one, or takes
//! it back, and may stop at any moment, for ever or for longer than all others take. What they know of the sites is old
//! when they act on it: another one may have been there since. Their orders arrive, or never do, or long after
//! whoever gave them has gone on.

use std::collections::BTreeMap;

use wayside_protocol::Shards;
use wayside_protocol::controller::{DivisionView, Order, Step};
use wayside_protocol::redivision::{Impossible, Next, Redivision};

use super::{Happening, OPERATORS, SHARDS, SITES, World, site_name, site_of};
use crate::dice::Dice;
use crate::schedule::Kind;
use crate::world::Phase;

/// One that is at it.
pub struct Operator {
    /// What it wants, and when.
    dice: Dice,
    number: u32,
    /// What sites have said, and which are to be asked, the next one last.
    seen: BTreeMap<String, DivisionView>,
    unasked: Vec<usize>,
    /// What it wants.
    change: Option<Redivision>,
    /// What it has found: somebody else's change.
    goes_on: bool,
    takes_back: bool,
    /// An order on its way.
    order: Option<(usize, Order)>,
}

/// An order arrives after so long at most, and a suspended operator goes on.
const LATEST_ORDER: u64 = 300_000;
const SUSPENDED: u64 = 600_000;

impl Operator {
    /// The so-manieth in one of the seats.
    pub fn new(seed: u64, seat: usize, number: u32) -> Operator {
        Operator {
            dice: Dice::of(seed, &[SHARDS, OPERATORS, seat as u64, number.into()]),
            number,
            seen: BTreeMap::new(),
            unasked: (0..SITES).collect(),
            change: None,
            goes_on: false,
            takes_back: false,
            order: None,
        }
    }
}

/// The shards of a map as sites keep it; None of an empty one.
pub fn shards_of(map: &[u8]) -> Option<Shards> {
    let text = std::str::from_utf8(map).expect("names");
    if text.is_empty() { None } else { Some(Shards::new(text.split(',').map(str::to_owned)).expect("names of sites")) }
}

fn map_of(shards: &Shards) -> Vec<u8> {
    shards.names().join(",").into_bytes()
}

impl World {
    /// It is gone, though not what it has sent; another one comes later. Once nothing breaks any more there is one.
    pub(super) fn end_operator(&mut self, seat: usize) {
        let mut next = Operator::new(self.seed, seat, self.operators[seat].number + 1);
        let (number, pause) = (next.number, next.dice.magnitude(100, 2 * self.setup.pause));
        let mut gone = std::mem::replace(&mut self.operators[seat], next);
        if let Some((site, order)) = gone.order {
            self.send_late(site, order, &mut gone.dice);
        }
        let pause = match self.phase {
            Phase::Safety => pause,
            _ if seat > 0 => return,
            _ => 5_000,
        };
        self.plan(self.now + pause, Happening::Operate(seat, number));
    }

    /// An operator's next step.
    pub(super) fn operate(&mut self, seat: usize, number: u32) {
        if number != self.operators[seat].number {
            return;
        }
        let mut operator = std::mem::replace(&mut self.operators[seat], Operator::new(self.seed, seat, number));
        let goes_on = self.step(&mut operator);
        let usual = if operator.dice.percent(10) { 10_000 } else { 1_000 };
        let pause = operator.dice.magnitude(20, usual);
        self.operators[seat] = operator;
        if !goes_on {
            return self.end_operator(seat);
        }
        let suspended = self.happens(Kind::Suspended).map(|mut dice| dice.magnitude(20, SUSPENDED));
        let next = self.now + suspended.unwrap_or(pause);
        self.plan(next, Happening::Operate(seat, number));
    }

    fn send_late(&mut self, site: usize, order: Order, dice: &mut Dice) {
        let at = self.now + dice.magnitude(100, LATEST_ORDER);
        self.plan(at, Happening::Order(site, order));
    }

    pub(super) fn on_late_order(&mut self, site: usize, order: &Order) {
        let is_obeyed = self.obey(site, order);
        self.count(if is_obeyed { "late order obeyed" } else { "late order refused" });
    }

    /// False: it is done, or gives up.
    fn step(&mut self, operator: &mut Operator) -> bool {
        if let Some((site, order)) = operator.order.take() {
            operator.unasked = (0..SITES).collect();
            if self.happens(Kind::OrderLost).is_some() {
                return true;
            }
            if let Some(mut dice) = self.happens(Kind::OrderLate) {
                self.send_late(site, order, &mut dice);
            } else if !self.obey(site, &order) {
                self.count("operator refused");
                return false;
            }
            return true;
        }
        if let Some(site) = operator.unasked.pop() {
            let view = self.sites[site].view();
            operator.seen.insert(site_name(site), view);
            return true;
        }
        if operator.change.is_none() && !self.choose(operator) {
            return false;
        }
        let Some(change) = &operator.change else { return false };
        match change.next(&operator.seen) {
            Next::Tell(name, order) => {
                operator.order = Some((site_of(&name), order));
                true
            }
            Next::Wait(behind) => {
                self.count("somebody behind");
                // Of the others it knows what they said long ago.
                operator.unasked = behind.iter().map(|(name, _)| site_of(name)).collect();
                if self.phase != Phase::Safety || !operator.dice.percent(3) {
                    return true;
                }
                // It takes the change back, or leaves it to another one.
                let back = change.taken_back(&operator.seen).ok().filter(|_| operator.dice.percent(50));
                operator.takes_back = back.is_some();
                operator.change = back;
                operator.takes_back
            }
            Next::Done => {
                let adds = change.next.names().len() > change.former.names().len();
                self.count(match (operator.takes_back, adds) {
                    (true, _) => "change taken back",
                    (false, true) => "shards added",
                    (false, false) => "shards drained",
                });
                if operator.goes_on {
                    self.count("change gone on with by another");
                }
                self.note(|_| format!("operator {}: done", operator.number));
                false
            }
            Next::Open(name) => {
                self.count("open joiner refused");
                self.close_joiner(site_of(&name));
                false
            }
            Next::Overtaken(_) => {
                self.count("operator overtaken");
                false
            }
            Next::Unknown(name) => unreachable!("{name} was asked"),
        }
    }

    /// What to do, by what the sites have said.
    fn choose(&mut self, operator: &mut Operator) -> bool {
        let latest = operator.seen.values().map(|view| &view.division).max_by_key(|division| division.version);
        let latest = latest.expect("there are sites").clone();
        let (map, former) = (self.shards_or_first(&latest.map), self.shards_or_first(&latest.former));
        let has = |name: &String| {
            let division = &operator.seen[name].division;
            division.version == latest.version && division.step == Step::Settled
        };
        let is_settled = latest.version == 0 || map.names().iter().chain(former.names()).all(has);
        let change = if is_settled {
            // Once nothing breaks any more nothing is begun either.
            let Some(mut dice) = self.happens(Kind::Change) else { return false };
            draw_change(&mut dice, latest.version + 1, &map)
        } else {
            let maps = (map_of(&former), map_of(&map));
            self.resume(operator, Redivision::new(latest.version, former, map, maps))
        };
        let Ok(mut change) = change else { return false };
        change.mutant = self.options.mutant;
        self.note(|_| format!("operator {}: {change:?}", operator.number));
        operator.change = Some(change);
        true
    }

    /// Goes on with what another one began, or takes it back.
    fn resume(
        &mut self,
        operator: &mut Operator,
        change: Result<Redivision, Impossible>,
    ) -> Result<Redivision, Impossible> {
        let mut change = change?;
        change.mutant = self.options.mutant;
        operator.goes_on = true;
        if change.is_change() && operator.dice.percent(40) {
            match change.taken_back(&operator.seen) {
                Ok(back) => {
                    (operator.takes_back, operator.goes_on) = (true, false);
                    return Ok(back);
                }
                Err(_) => self.count("kept: it is decided"),
            }
        }
        Ok(change)
    }
}

/// Some more shards, or some less.
fn draw_change(dice: &mut Dice, version: u32, shards: &Shards) -> Result<Redivision, Impossible> {
    let mut names = shards.names().to_vec();
    let can_drain = names.len() > 2;
    let count = 1 + usize::from(dice.percent(20));
    let adds = names.len() < SITES && (!can_drain || dice.percent(50));
    for _ in 0..count {
        if adds {
            let absent: Vec<_> = (0..SITES).map(site_name).filter(|name| !names.contains(name)).collect();
            if !absent.is_empty() {
                names.push(absent[dice.below(absent.len() as u64) as usize].clone());
            }
        } else if names.len() > 2 {
            names.remove(dice.below(names.len() as u64) as usize);
        }
    }
    let next = Shards::new(names).expect("two to four names");
    let maps = (map_of(shards), map_of(&next));
    Redivision::new(version, shards.clone(), next, maps)
}
