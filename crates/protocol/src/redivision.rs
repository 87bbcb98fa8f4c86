//! Shards are added or drained while locks are held: what an operator tells which shard next. docs/shards.md, "Adding
//! and draining", has why that is safe.
//!
//! ```text
//!   announce to all ──► move those that give ──► nobody is behind there ──► decide ──► move the others ──► settle all
//!         ▲                                   └──► take back: announce the former map as the next one, move all
//! ```
//!
//! Nothing of it is kept but at the shards: whoever asks them all what they have goes on where another one stopped, or
//! takes the change back, as long as the first shard has not decided.
//!
//! Invariants
//! * A shard that gets names is moved once no session of one that gives them is behind, and under an epoch above
//!   theirs.
//! * Who is to be added has begun no session before it is moved: nobody is told anything of a change to one that has.
//! * The first of the former shards decides, and hears of every change first: of two changes, or of a change and its
//!   taking back, one is refused there before anybody else has heard of it. If its records were lost, what was decided
//!   is seen at the others, each of which was told later.
//! * How far a shard has come with another map says nothing of this one: who sees a later one anywhere tells nobody
//!   anything any more.

use crate::controller::{Division, DivisionView, Order, Step};
use crate::shards::{ShardMap, Shards};
use crate::{Handle, Mutant};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// A change of the map, and the shards as they were and will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redivision {
    /// Of the map that comes.
    pub version: u32,
    /// Who has names before: of the last version that was settled.
    pub former: Shards,
    /// Who has them then.
    pub next: Shards,
    /// Both maps as clients read them.
    pub maps: (Vec<u8>, Vec<u8>),
    /// A rule to break, for the simulator's own tests.
    pub mutant: Option<Mutant>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Tell this shard that, then ask all again.
    Tell(String, Order),
    /// Sessions of these shards stand in the way, each with its handles.
    Wait(Vec<(String, Vec<Handle>)>),
    /// All shards have the map.
    Done,
    /// This shard has not said what it has.
    Unknown(String),
    /// This shard is to get names and begins sessions already, by no map that this change knows of.
    Open(String),
    /// Some shard has another map, of this version, that came after this change: nothing of it is to be told any more.
    Overtaken(u32),
}

/// Why a change is not taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is decided: this shard has come further than any does before.
    Decided(String),
    /// This shard has not said what it has, and it may be decided.
    Unknown(String),
    /// No map has a higher version.
    Last,
}

/// Why there is no such change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// Some are added and some drained: one after the other.
    Both,
}

impl Redivision {
    /// One that takes names from some shards and gives them to others, or, if `next` is `former`, back.
    ///
    /// # Errors
    /// [`Impossible`].
    pub fn new(version: u32, former: Shards, next: Shards, maps: (Vec<u8>, Vec<u8>)) -> Result<Redivision, Impossible> {
        let stays = |name: &String| next.place(name).is_some();
        let drains = !former.names().iter().all(stays);
        let adds = !next.names().iter().all(|name| former.place(name).is_some());
        if drains && adds {
            return Err(Impossible::Both);
        }
        Ok(Redivision { version, former, next, maps, mutant: None })
    }

    /// The change that takes this one back.
    ///
    /// # Errors
    /// [`Kept`].
    pub fn taken_back(&self, shards: &BTreeMap<String, DivisionView>) -> Result<Redivision, Kept> {
        if let Some(proof) = self.decided(shards) {
            return Err(Kept::Decided(proof.clone()));
        }
        // It was told first. If it knows of nothing, its records may have been lost: then the others know.
        let first = shards.get(&self.former.names()[0]);
        let knows = first.is_some_and(|view| self.is_of_this(&view.division));
        let witnesses = if knows { 1 } else { usize::MAX };
        if let Some(unknown) = self.all().take(witnesses).find(|name| !shards.contains_key(*name)) {
            return Err(Kept::Unknown(unknown.clone()));
        }
        let version = self.version.checked_add(1).ok_or(Kept::Last)?;
        let (former, map, mutant) = (self.former.clone(), self.maps.0.clone(), self.mutant);
        Ok(Redivision { version, former: former.clone(), next: former, maps: (map.clone(), map), mutant })
    }

    /// A shard that shows that this is decided: whoever gets names is moved after that, and all settle after it.
    fn decided(&self, shards: &BTreeMap<String, DivisionView>) -> Option<&String> {
        let step = |name: &String| shards.get(name).and_then(|view| self.step_of(&view.division));
        let is_proof =
            |name: &&String| step(name) >= Some(Step::Decided) || self.gets(name) && step(name) >= Some(Step::Moved);
        self.all().find(is_proof)
    }

    /// Whether any name changes hands.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.former != self.next
    }

    /// Whether this one of the shards has names then that others have had; otherwise it has had some of theirs.
    fn gets(&self, name: &str) -> bool {
        let is_drained = |former: &String| self.next.place(former).is_none();
        let drains = self.former.names().iter().any(is_drained);
        self.is_change() && if drains { self.next.place(name).is_some() } else { self.former.place(name).is_none() }
    }

    /// All that have to do with it: the former ones in order, then those that come.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        let added = self.next.names().iter().filter(|name| self.former.place(name).is_none());
        self.former.names().iter().chain(added)
    }

    /// What to do next, by what the shards say.
    #[must_use]
    pub fn next(&self, shards: &BTreeMap<String, DivisionView>) -> Next {
        if let Some(version) = self.overtaken(shards) {
            return Next::Overtaken(version);
        }
        if let Some(unknown) = self.all().find(|name| !shards.contains_key(*name)) {
            return Next::Unknown(unknown.clone());
        }
        if let Some(open) = self.all().find(|name| self.is_open_early(name, &shards[*name].division)) {
            return Next::Open(open.clone());
        }
        let step = |name: &String| self.step_of(&shards[name].division);
        let first = &self.former.names()[0];
        let givers = || self.former.names().iter().filter(|name| self.is_change() && !self.gets(name));
        let order = |name: &String, step| Next::Tell(name.clone(), self.order(name, step, shards));

        // The first one decided that, and has lost its records since: nobody may take it back meanwhile.
        if step(first) < Some(Step::Decided) && self.decided(shards).is_some() {
            return order(first, Step::Decided);
        }
        if let Some(name) = self.all().find(|name| step(name).is_none()) {
            return order(name, Step::Announced);
        }
        if let Some(name) = givers().find(|name| step(name) < Some(Step::Moved)) {
            return order(name, Step::Moved);
        }
        if step(first) < Some(Step::Decided) {
            let behind = givers().map(|name| (name.clone(), shards[name].behind.clone()));
            let behind: Vec<_> = behind.filter(|(_, handles)| !handles.is_empty()).collect();
            return if behind.is_empty() || self.is_broken(Mutant::HastyMove) {
                order(first, Step::Decided)
            } else {
                Next::Wait(behind)
            };
        }
        if let Some(name) = self.all().find(|name| step(name) < Some(Step::Moved)) {
            return order(name, Step::Moved);
        }
        // The first one last: until then nobody begins another change.
        let unsettled = |name: &&String| step(name) < Some(Step::Settled);
        match self.all().skip(1).find(unsettled).or(Some(first).filter(unsettled)) {
            Some(name) => order(name, Step::Settled),
            None => Next::Done,
        }
    }

    /// None: it has not heard of this change.
    fn step_of(&self, division: &Division) -> Option<Step> {
        self.is_of_this(division).then_some(division.step)
    }

    /// One that is to be added, and whoever has a session there may have been granted what others still have.
    fn is_open_early(&self, name: &str, division: &Division) -> bool {
        let is_added = self.former.place(name).is_none();
        let is_open = division.begins.is_some() && !self.is_broken(Mutant::OpenJoiner);
        is_added && is_open && self.step_of(division) < Some(Step::Moved)
    }

    fn is_broken(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }

    /// Two changes that began at once have the same version.
    fn is_of_this(&self, division: &Division) -> bool {
        let (former, next) = &self.maps;
        if self.is_broken(Mutant::LaterStep) {
            return division.version >= self.version;
        }
        division.version == self.version && (&division.former, &division.map) == (former, next)
    }

    /// The version of a map that came after this change, or instead of it.
    fn overtaken(&self, shards: &BTreeMap<String, DivisionView>) -> Option<u32> {
        let is_other = |division: &&Division| division.version >= self.version && !self.is_of_this(division);
        let known = self.all().filter_map(|name| shards.get(name)).map(|view| &view.division);
        known.filter(is_other).map(|division| division.version).max()
    }

    fn order(&self, name: &str, step: Step, shards: &BTreeMap<String, DivisionView>) -> Order {
        let map = ShardMap { version: self.version, shards: self.next.clone() };
        let gives = |other: &&String| self.former.place(other).is_some() && !self.gets(other);
        let above = self.all().filter(gives).map(|other| shards[other].epoch).max().unwrap_or(0);
        let above = if self.is_change() && self.gets(name) { above } else { 0 };
        let (former, next) = self.maps.clone();
        Order { version: self.version, step, begins: map.begins(name), above, map: next, former }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    fn shards(names: &[&str]) -> Shards {
        Shards::new(names.iter().map(|name| name.to_string())).unwrap()
    }

    fn redivision(version: u32, former: &[&str], next: &[&str]) -> Redivision {
        let maps = (former.join(",").into_bytes(), next.join(",").into_bytes());
        Redivision::new(version, shards(former), shards(next), maps).unwrap()
    }

    fn tell(view: &mut DivisionView, order: &Order) {
        assert!(order.version >= view.division.version);
        (view.division.version, view.division.step) = (order.version, order.step);
        (view.division.map, view.division.former) = (order.map.clone(), order.former.clone());
        if order.step >= Step::Moved {
            view.division.begins = order.begins;
        }
        view.epoch = view.epoch.max(order.above + 1);
    }

    /// Carries a change out as far as it goes. What was told whom, in order.
    fn carry_out(change: &Redivision, seen: &mut BTreeMap<String, DivisionView>) -> Vec<(String, Step)> {
        let mut told = Vec::new();
        while let Next::Tell(name, order) = change.next(seen) {
            tell(seen.get_mut(&name).unwrap(), &order);
            told.push((name, order.step));
        }
        told
    }

    fn fresh(names: &[&str]) -> BTreeMap<String, DivisionView> {
        let view = |epoch| DivisionView { division: Division::default(), behind: vec![], epoch };
        names.iter().enumerate().map(|(place, name)| (name.to_string(), view(place as u32 + 1))).collect()
    }

    #[test]
    fn who_is_added_is_moved_once_nobody_is_behind_and_above_all_others() {
        let change = redivision(1, &["a", "b"], &["a", "b", "c"]);
        let mut seen = fresh(&["a", "b"]);
        assert_eq!(change.next(&seen), Next::Unknown("c".into()));
        seen.extend(fresh(&["c"]));
        seen.get_mut("b").unwrap().behind = vec![4];
        let told = carry_out(&change, &mut seen);
        assert!(told.iter().all(|(name, step)| *step == Step::Announced || name != "c"), "{told:?}");
        assert_eq!(told[0], ("a".into(), Step::Announced));
        assert_eq!(change.next(&seen), Next::Wait(vec![("b".into(), vec![4])]));
        seen.get_mut("b").unwrap().behind.clear();
        let told = carry_out(&change, &mut seen);
        assert_eq!(told[0], ("a".into(), Step::Decided));
        assert_eq!(change.next(&seen), Next::Done);
        assert_eq!(told.last(), Some(&("a".into(), Step::Settled)));
        assert!(seen["c"].epoch > seen["a"].epoch.max(seen["b"].epoch));
    }

    #[test]
    fn who_is_drained_moves_first_and_begins_no_session() {
        let change = redivision(3, &["a", "b", "c"], &["a", "c"]);
        let mut seen = fresh(&["a", "b", "c"]);
        seen.get_mut("b").unwrap().division.begins = Some(1);
        let told = carry_out(&change, &mut seen);
        let moved: Vec<_> = told.iter().filter(|(_, step)| *step > Step::Announced).collect();
        assert_eq!(moved[0], &("b".into(), Step::Moved));
        assert_eq!(seen["b"].division.begins, None);
        assert_eq!((seen["a"].epoch, seen["c"].epoch), (3, 3), "above the one that gives, whatever the others have");
    }

    #[test]
    fn what_is_taken_back_waits_for_nobody_and_leaves_out_who_was_to_be_added() {
        let change = redivision(2, &["a", "b"], &["a", "b"]);
        let mut seen = fresh(&["a", "b"]);
        seen.values_mut().for_each(|view| view.behind = vec![1]);
        let told = carry_out(&change, &mut seen);
        assert_eq!(change.next(&seen), Next::Done);
        assert!(told.iter().any(|(name, step)| name == "b" && *step == Step::Moved));
    }

    /// An operator who was suspended while another one took the change back, or who raced with one that did.
    #[test]
    fn a_step_of_another_map_is_none_of_this_change() {
        let (change, back) = (redivision(1, &["a", "b"], &["a", "b", "c"]), redivision(2, &["a", "b"], &["a", "b"]));
        let mut seen = fresh(&["a", "b", "c"]);
        seen.values_mut().for_each(|view| view.behind = vec![1]);
        carry_out(&change, &mut seen);
        let mut wait = seen.clone();
        assert!(carry_out(&back, &mut seen).contains(&("a".into(), Step::Settled)));
        assert_eq!((seen["c"].division.version, seen["c"].division.step), (1, Step::Announced));
        assert_eq!(change.next(&seen), Next::Overtaken(2));
        // It has looked at one that was in the way, and at no other.
        wait.insert("b".into(), seen["b"].clone());
        assert_eq!(change.next(&wait), Next::Overtaken(2));
        let third = redivision(3, &["a", "b"], &["a", "b"]);
        carry_out(&third, &mut seen);
        wait.insert("a".into(), seen["a"].clone());
        assert_eq!(change.next(&wait), Next::Overtaken(3), "the latest that is known");
        let other = redivision(1, &["a", "b"], &["a", "b", "d"]);
        wait = fresh(&["a", "b", "d"]);
        carry_out(&other, &mut wait);
        wait.extend(fresh(&["c"]));
        assert_eq!(change.next(&wait), Next::Overtaken(1), "another change has its version");
    }

    #[test]
    fn nobody_is_told_of_a_change_to_one_that_begins_sessions_already() {
        let change = redivision(1, &["a", "b"], &["a", "b", "c"]);
        let mut seen = fresh(&["a", "b", "c"]);
        seen.get_mut("a").unwrap().division.begins = Some(1);
        seen.get_mut("c").unwrap().division.begins = Some(7);
        assert_eq!(change.next(&seen), Next::Open("c".into()));
        // It was closed when the others were told, and open by when it was to be.
        seen.get_mut("c").unwrap().division.begins = None;
        for name in ["a", "b"] {
            let view = seen.get_mut(name).unwrap();
            view.division = Division { version: 1, step: Step::Announced, begins: Some(1), ..Division::default() };
            (view.division.former, view.division.map) = change.maps.clone();
        }
        seen.get_mut("c").unwrap().division.begins = Some(7);
        assert_eq!(change.next(&seen), Next::Open("c".into()));
        // By this very change it is no obstacle.
        seen.get_mut("c").unwrap().division.begins = None;
        carry_out(&change, &mut seen);
        assert!(seen["c"].division.begins.is_some());
        assert_eq!(change.next(&seen), Next::Done);
    }

    /// After each order: what was told until then is taken back or not, whether the first has its records or not.
    #[test]
    fn what_is_decided_is_not_taken_back_even_if_who_decided_it_has_forgotten() {
        for (former, next) in [(&["a", "b"][..], &["a", "b", "c"][..]), (&["a", "b", "c"][..], &["a", "c"][..])] {
            let change = redivision(1, former, next);
            let mut seen = fresh(&["a", "b", "c"]);
            let (mut is_decided, mut is_opened) = (false, false);
            while let Next::Tell(name, order) = change.next(&seen) {
                tell(seen.get_mut(&name).unwrap(), &order);
                is_opened |= is_decided && name != "a";
                is_decided |= order.step == Step::Decided;
                let at = format!("{name} {:?}", order.step);
                assert_eq!(change.taken_back(&seen).is_err(), is_decided, "{at}");
                let mut forgotten = seen.clone();
                forgotten.extend(fresh(&["a"]));
                assert_eq!(change.taken_back(&forgotten).is_err(), is_opened, "{at}");
                match change.next(&forgotten) {
                    Next::Tell(name, order) if is_opened => assert_eq!((name, order.step), ("a".into(), Step::Decided)),
                    next => assert!(!is_opened, "{at}: {next:?}"),
                }
                forgotten.remove("c");
                assert!(change.taken_back(&forgotten).is_err(), "{at}: c may have been opened");
                forgotten = seen.clone();
                forgotten.remove("a");
                assert!(change.taken_back(&forgotten).is_err(), "{at}: it may be decided");
                forgotten = seen.clone();
                forgotten.remove("c");
                assert_eq!(change.taken_back(&forgotten).is_err(), is_decided, "{at}: the first one knows");
            }
            assert!(is_opened);
        }
    }

    #[test]
    fn some_are_not_added_while_others_are_drained() {
        let both = Redivision::new(1, shards(&["a", "b"]), shards(&["a", "c"]), Default::default());
        assert_eq!(both, Err(Impossible::Both));
    }
}
