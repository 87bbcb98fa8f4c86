//! What happens to a run, one happening at a time: faults, and what applications ask for. Every occasion for a kind of
//! happening has a number, and what becomes of it is drawn from the seed, the kind and that number alone. So a
//! happening has a name that lasts, `lost:1234`, and a run can be repeated without it, or with it and a few others
//! only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::dice::Dice;
use crate::small::Fault;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal)*) => {
        /// A kind of happening.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[$doc])* $kind),* }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// As it is written in a command and in a table.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name),* }
            }
        }
    };
}

kinds! {
    /// An application asks for a lock.
    Ask "ask"
    /// A packet, or one copy of it, is lost. Occasions: copies of packets on a link.
    Lost "lost"
    /// The one packet of a kind that this run has chosen is lost with all its copies. Occasions: packets of that kind.
    Chosen "chosen"
    /// Of a join's two packets, the agent's JOIN is lost. Occasions: joins.
    JoinLost "join-lost"
    /// A packet arrives twice.
    Duplicated "duplicated"
    /// A packet of any age, from any time of the run, arrives again.
    Replayed "replayed"
    /// A packet arrives truncated, padded or with a broken header. What UDP's checksum catches never arrives.
    Corrupted "corrupted"
    /// With authentication on: a packet arrives with some bits changed, anywhere.
    Flipped "flipped"
    /// With authentication on: an attacker without a key sends something.
    Forged "forged"
    /// A packet takes up to ten times every time-out longer.
    Late "late"
    /// One direction of a host's link, or both, stops. Occasions of this and the next: packets that arrive.
    Partition "partition"
    /// A process dies; another one starts in its place, at the same address.
    Crash "crash"
    /// A process stops and goes on, maybe after its lease.
    Pause "pause"
    /// A session leaves and comes back.
    Leave "leave"
    /// The controller dies and is started again from its store.
    Controller "controller"
    /// The switch restarts with an empty memory.
    Switch "switch"
    /// The controller's store fails for a while: sometimes it has written all the same.
    Store "store"
    /// A question to the register of the switches' post, or its answer, is lost or late. Occasions: questions.
    Register "register"
    /// A switch stops for a while, with its controller, and goes on.
    Stall "stall"
    /// A switch makes room for its standby.
    Drain "drain"
    /// The controller is told that other locks are to have their queue in the switch.
    Move "move"
    /// A second processor of the switch decides between two steps of the first. Occasions: packets at the switch.
    Overlap "overlap"
    /// A node of a namespace with a budget sends a request many times at once. Occasions: its ACQUIREs at the switch.
    /// Of chains: another namespace's keys are written until a switch's journal has gone round. Occasions: packets.
    Flood "flood"
    /// A host's heartbeats come, and nothing that it answers the controller: as where long packets are lost.
    Mute "mute"
    /// A switch hands its memory over to its standby, which goes on under its epoch.
    Hand "hand-over"
    /// A namespace's locks are to go to others first, and to overtake them more or less often.
    Policy "policy"
    /// Of shards: an operator adds or drains some. Occasions: operators who find no change under way.
    Change "change"
    /// Of shards: an operator is gone, though not what it has sent.
    Operator "operator"
    /// Of shards: an operator stops for longer than all others take. Occasions: steps of operators.
    Suspended "suspended"
    /// Of shards: an order never arrives. Occasions of this and the next: orders.
    OrderLost "order-lost"
    /// Of shards: an order arrives when its operator does not wait for it any more.
    OrderLate "order-late"
    /// Not a happening but a condition: packets take differently long, and overtake each other.
    Jitter "jitter"
    /// A condition: there is a standby switch.
    Standby "standby"
    /// A condition: clocks are wrong.
    Drift "drift"
    /// A condition: a namespace has a budget.
    Budget "budget"
    /// A condition: links carry so many packets a second, and queue so many.
    Queue "queue"
    /// A condition: counters begin just below their wrap.
    Aged "aged"
    /// A condition: handles are few and rest shortly.
    Handles "handles"
    /// A condition: agents and nodes have little room.
    Tight "tight"
    /// A condition: names of a slot are mistaken for each other.
    Collision "collision"
    /// A condition: names are divided among several shards, of which the world is one.
    Shards "shards"
}

impl Kind {
    /// Whether it holds for a run as a whole.
    pub fn is_condition(self) -> bool {
        self >= Kind::Jitter
    }

    /// Whether it happens in worlds of shards alone.
    pub fn is_of_shards(self) -> bool {
        (Kind::Change..=Kind::OrderLate).contains(&self)
    }

    fn of(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// A happening's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Its kind.
    pub kind: Kind,
    /// Which occasion of that kind, from 1.
    pub occasion: u64,
}

/// How often, in parts of 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(u32);

impl Rate {
    /// Never.
    pub const NEVER: Rate = Rate(0);
    /// Always, nearly.
    pub const ALWAYS: Rate = Rate(u32::MAX);

    /// So often in a million.
    pub fn millionths(count: u64) -> Rate {
        Rate(u32::try_from((count << 32) / 1_000_000).unwrap_or(u32::MAX))
    }

    /// Once in so many occasions on average; 0: never.
    pub fn once_in(occasions: u64) -> Rate {
        if occasions == 0 { Rate::NEVER } else { Rate::millionths(1_000_000 / occasions.clamp(1, 1_000_000)) }
    }

    /// Whether it may happen at all.
    pub fn is_possible(self) -> bool {
        self != Rate::NEVER
    }
}

/// Some happenings of each kind; `None`: all of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<Kind, Option<BTreeSet<u64>>>);

impl Marks {
    /// These.
    pub fn new(marks: impl IntoIterator<Item = Mark>) -> Marks {
        let mut all = Marks::default();
        for Mark { kind, occasion } in marks {
            if let Some(occasions) = all.0.entry(kind).or_insert_with(|| Some(BTreeSet::new())) {
                occasions.insert(occasion);
            }
        }
        all
    }

    /// And all of this kind.
    pub fn with_all(mut self, kind: Kind) -> Marks {
        self.0.insert(kind, None);
        self
    }

    /// Whether it is one of them.
    pub fn has(&self, mark: Mark) -> bool {
        self.0.get(&mark.kind).is_some_and(|some| some.as_ref().is_none_or(|some| some.contains(&mark.occasion)))
    }

    /// Whether all of a kind are.
    pub fn has_all(&self, kind: Kind) -> bool {
        self.0.get(&kind) == Some(&None)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reverse of its display: `crash:3,lost:2+17-40,late`.
    pub fn parse(text: &str) -> Result<Marks, String> {
        let mut all = Marks::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, ranges) = item.split_once(':').map_or((item, None), |(name, ranges)| (name, Some(ranges)));
            let kind = Kind::of(name).ok_or_else(|| {
                let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
                format!("{name:?} is no kind of happening; there are {}", names.join(", "))
            })?;
            let Some(ranges) = ranges else {
                all.0.insert(kind, None);
                continue;
            };
            let some = all.0.entry(kind).or_insert_with(|| Some(BTreeSet::new()));
            for range in ranges.split('+') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{item:?}: {text:?}: {error}"));
                let (first, last) = (number(first)?, number(last)?);
                // None of a kind would be written as all of it.
                if last < first {
                    return Err(format!("{item:?}: {last} comes before {first}"));
                }
                if last - first > 1_000_000 {
                    return Err(format!("{item:?}: more than a million"));
                }
                if let Some(some) = some {
                    some.extend(first..=last);
                }
            }
        }
        Ok(all)
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (kind, occasions) in &self.0 {
            write!(f, "{comma}{}", kind.name())?;
            comma = ",";
            let Some(occasions) = occasions else { continue };
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for &occasion in occasions {
                match ranges.last_mut() {
                    Some((_, last)) if *last + 1 == occasion => *last = occasion,
                    _ => ranges.push((occasion, occasion)),
                }
            }
            let mut before = ":";
            for (first, last) in ranges {
                write!(f, "{before}{first}")?;
                before = "+";
                if last > first {
                    write!(f, "-{last}")?;
                }
            }
        }
        Ok(())
    }
}

/// Which happenings a run may have. All, by default.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// If there are any: these alone. Conditions are not meant.
    pub only: Option<Marks>,
    /// None of these.
    pub without: Marks,
}

impl Filter {
    /// Whether a condition may hold.
    pub fn allows(&self, condition: Kind) -> bool {
        !self.without.has_all(condition)
    }

    fn passes(&self, mark: Mark) -> bool {
        !self.without.has(mark) && self.only.as_ref().is_none_or(|only| only.has(mark))
    }
}

struct Stream {
    dice: Dice,
    rate: Rate,
    occasions: u64,
}

/// Decides what happens.
pub struct Schedule {
    seed: u64,
    filter: Filter,
    streams: Vec<Stream>,
    /// What has happened, in order, and when.
    happened: Vec<(u64, Mark)>,
    /// Of `only`, those that have not happened yet; asks do not count.
    left: Option<usize>,
    latest_fault: u64,
    /// What is to happen without being drawn, and a bit for each kind of it.
    told: Vec<Fault>,
    told_kinds: u64,
}

impl Schedule {
    /// Nothing happens until there are rates.
    pub fn new(seed: u64, filter: Filter) -> Schedule {
        let stream =
            |kind: &Kind| Stream { dice: Dice::of(seed, &[STREAMS, *kind as u64]), rate: Rate::NEVER, occasions: 0 };
        let left = filter.only.as_ref().map(|only| {
            let faults = only.0.iter().filter(|(kind, _)| **kind != Kind::Ask);
            faults.filter_map(|(_, occasions)| occasions.as_ref()).map(BTreeSet::len).sum()
        });
        Schedule {
            seed,
            streams: Kind::ALL.iter().map(stream).collect(),
            filter,
            happened: Vec::new(),
            left,
            latest_fault: 0,
            told: Vec::new(),
            told_kinds: 0,
        }
    }

    /// How often a kind happens from now on.
    pub fn set_rate(&mut self, kind: Kind, rate: Rate) {
        self.streams[kind as usize].rate = rate;
    }

    /// Whether it may happen at all from now on.
    pub fn may_happen(&self, kind: Kind) -> bool {
        self.streams[kind as usize].rate.is_possible() || self.told_kinds & 1 << kind as u64 != 0
    }

    /// These happen, and nothing instead of them: none, once all is healed.
    pub fn tell(&mut self, faults: &[Fault]) {
        self.told = faults.to_vec();
        self.told_kinds = faults.iter().fold(0, |kinds, fault| kinds | 1 << fault.kind as u64);
    }

    /// An occasion: whether it happens, and then the dice for all that is to be drawn about it.
    #[inline]
    pub fn happens(&mut self, now: u64, kind: Kind) -> Option<Dice> {
        let stream = &mut self.streams[kind as usize];
        stream.occasions += 1;
        if self.told_kinds & 1 << kind as u64 != 0 {
            return self.happens_as_told(now, kind);
        }
        if !stream.rate.is_possible() || (stream.dice.any() >> 32) as u32 >= stream.rate.0 {
            return None;
        }
        self.happened(now, kind)
    }

    #[cold]
    fn happens_as_told(&mut self, now: u64, kind: Kind) -> Option<Dice> {
        let index = self.told.iter().position(|fault| fault.kind == kind && fault.at <= now)?;
        let fault = &mut self.told[index];
        fault.times -= 1;
        let Fault { times, choice, .. } = *fault;
        if times == 0 {
            self.told.swap_remove(index);
            if self.told.iter().all(|fault| fault.kind != kind) {
                self.told_kinds &= !(1 << kind as u64);
            }
        }
        self.happened(now, kind)?;
        Some(Dice::of(choice.into(), &[TOLD, kind as u64, times.into()]))
    }

    fn happened(&mut self, now: u64, kind: Kind) -> Option<Dice> {
        let stream = &mut self.streams[kind as usize];
        let mark = Mark { kind, occasion: stream.occasions };
        if !self.filter.passes(mark) {
            return None;
        }
        self.happened.push((now, mark));
        if kind != Kind::Ask {
            self.latest_fault = now;
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        Some(Dice::of(self.seed, &[OCCASIONS, kind as u64, mark.occasion]))
    }

    /// Of those that alone may happen, whether all faults have.
    pub fn is_spent(&self) -> bool {
        self.left == Some(0)
    }

    /// When the last fault happened. World time.
    pub fn latest_fault(&self) -> u64 {
        self.latest_fault
    }

    /// Whether only some happenings are allowed.
    pub fn is_chosen(&self) -> bool {
        self.left.is_some()
    }

    /// Whether a condition may hold.
    pub fn allows(&self, condition: Kind) -> bool {
        self.filter.allows(condition)
    }

    /// What has happened, and when: world time and name.
    pub fn into_happened(self) -> Vec<(u64, Mark)> {
        self.happened
    }
}

// Each has a bit.
const _: () = assert!(Kind::ALL.len() <= 64);

/// Purposes of dice.
const STREAMS: u64 = 1;
const OCCASIONS: u64 = 2;
const TOLD: u64 = 71;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        let text = "ask:1+3-5,lost:17,crash";
        assert_eq!(Marks::parse(text).map(|marks| marks.to_string()), Ok(text.to_string()));
        assert!(Marks::parse("loss:1").is_err_and(|error| error.contains("there are ask, lost")));
        assert!(Marks::parse("lost:x").is_err());
        assert!(Marks::parse("lost:2-1").is_err_and(|error| error.contains("1 comes before 2")));
    }

    #[test]
    fn a_happening_left_out_changes_no_other() {
        let run = |filter: Filter| {
            let mut schedule = Schedule::new(7, filter);
            schedule.set_rate(Kind::Lost, Rate::once_in(10));
            for now in 0..1_000 {
                let _ = schedule.happens(now, Kind::Lost);
            }
            schedule.into_happened()
        };
        let all = run(Filter::default());
        assert!((50..200).contains(&all.len()));
        let (_, left_out) = all[3];
        let without = run(Filter { without: Marks::new([left_out]), ..Filter::default() });
        assert_eq!(without, all.iter().copied().filter(|(_, mark)| *mark != left_out).collect::<Vec<_>>());
        let only = run(Filter { only: Some(Marks::new([left_out])), ..Filter::default() });
        assert_eq!(only, vec![all[3]]);
    }
}
