//! Operators: each asks all sites what they have, begins a change or goes on with one, or takes it back, and may stop
//! at any moment. What they know of the sites is old when they act on it: another one may have been there since.

use std::collections::BTreeMap;

use wayside_protocol::Shards;
use wayside_protocol::controller::{DivisionView, Order, Step};
use wayside_protocol::redivision::{Next, Redivision};

use super::{Happening, SITES, World, site_name, site_of};
use crate::world::Phase;

/// One that is at it.
#[derive(Default)]
pub struct Operator {
    number: u32,
    /// What sites have said, and which is asked next.
    seen: BTreeMap<String, DivisionView>,
    asked: usize,
    /// What it wants.
    change: Option<Redivision>,
    /// What it has found: somebody else's change.
    goes_on: bool,
    takes_back: bool,
    /// An order on its way.
    order: Option<(usize, Order)>,
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
    /// It is gone; another one comes later.
    pub(super) fn end_operator(&mut self) {
        self.operator = None;
        self.operators += 1;
        let pause = match self.phase {
            Phase::Safety => self.dice.magnitude(100, 2 * self.setup.pause),
            _ => 5_000,
        };
        self.plan(self.now + pause, Happening::Operate(self.operators));
    }

    /// An operator's next step.
    pub(super) fn operate(&mut self, number: u32) {
        if number != self.operators {
            return;
        }
        let mut operator = self.operator.take().unwrap_or_else(|| Operator { number, ..Operator::default() });
        let goes_on = self.step(&mut operator);
        if !goes_on {
            return self.end_operator();
        }
        self.operator = Some(operator);
        let pause = if self.dice.percent(10) { 10_000 } else { 1_000 };
        let next = self.now + self.dice.magnitude(20, pause);
        self.plan(next, Happening::Operate(number));
    }

    /// False: it is done, or gives up.
    fn step(&mut self, operator: &mut Operator) -> bool {
        if let Some((site, order)) = operator.order.take() {
            let is_lost = self.phase == Phase::Safety && self.dice.percent(5);
            if !is_lost && !self.obey(site, &order) {
                self.count("operator refused");
                return false;
            }
            operator.asked = 0;
            return true;
        }
        if operator.asked < SITES {
            let view = self.sites[operator.asked].view();
            operator.seen.insert(site_name(operator.asked), view);
            operator.asked += 1;
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
            Next::Wait(_) => {
                self.count("somebody behind");
                operator.asked = 0;
                // Another one may take it back.
                self.phase != Phase::Safety || !self.dice.percent(3)
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
            Next::Open(name) => unreachable!("{name} begins no session before its time"),
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
            if self.phase != Phase::Safety {
                return false;
            }
            self.draw_change(latest.version + 1, &map)
        } else {
            operator.takes_back = self.dice.percent(40) && map != former;
            operator.goes_on = !operator.takes_back;
            let (version, next) =
                if operator.takes_back { (latest.version + 1, former.clone()) } else { (latest.version, map) };
            let maps = (map_of(&former), map_of(&next));
            Redivision::new(version, former, next, maps)
        };
        let Ok(mut change) = change else { return false };
        change.mutant = self.options.mutant;
        self.note(|_| format!("operator {}: {change:?}", operator.number));
        operator.change = Some(change);
        true
    }

    /// Some more shards, or some less.
    fn draw_change(
        &mut self,
        version: u32,
        shards: &Shards,
    ) -> Result<Redivision, wayside_protocol::redivision::Impossible> {
        let mut names = shards.names().to_vec();
        let can_drain = names.len() > 2;
        let count = 1 + usize::from(self.dice.percent(20));
        let adds = names.len() < SITES && (!can_drain || self.dice.percent(50));
        for _ in 0..count {
            if adds {
                let absent: Vec<_> = (0..SITES).map(site_name).filter(|name| !names.contains(name)).collect();
                if !absent.is_empty() {
                    names.push(absent[self.dice.below(absent.len() as u64) as usize].clone());
                }
            } else if names.len() > 2 {
                names.remove(self.dice.below(names.len() as u64) as usize);
            }
        }
        let next = Shards::new(names).expect("two to four names");
        let maps = (map_of(shards), map_of(&next));
        Redivision::new(version, shards.clone(), next, maps)
    }
}
