//! Who is served before whom: what an agent did with the line of a name while it was told one thing.
//!
//! | id | checked, of an agent that acts before and after |
//! | --- | --- |
//! | P1 | who stays in the line keeps its place among the others; a newcomer is before those alone that it may |
//! | | overtake, and before all of them; who is granted was before all who still wait, or joined where readers may |
//! | P2 | nobody is overtaken more often than is borne, and each time counts |
//! | P3 | who waits has the priority that its application asked for, whichever agent keeps the line, and a new agent |
//! | | knows how often it was overtaken |

use wayside_protocol::{Booked, Handle, Mode, RequestId};
use wayside_wire::{BODY, Entry, Header, Policy, entry_flag, kind};

use super::checker::Verdict;

/// Bits of an entry's byte of rank below the count.
const PRIORITY_BITS: u32 = 3;

/// The books of one slot, in the order in which they are served.
pub struct Lines<'a> {
    pub before: &'a [Booked],
    pub after: &'a [Booked],
    /// What the agent was told.
    pub kind: u8,
    /// How often a waiter is overtaken at most.
    pub most: u8,
    /// Who goes first. That readers do is the switch's to know of agents' lines, which are checked as fair ones.
    pub policy: Policy,
}

/// What is worth counting.
#[derive(Default)]
pub struct Seen {
    /// A newcomer came before somebody,
    pub overtook: bool,
    /// or did not, though it is more urgent: he has borne enough.
    pub was_stopped: bool,
    /// A newcomer went past somebody to those who share.
    pub joined: bool,
}

fn key(party: &Booked) -> (Handle, RequestId) {
    (party.holder, party.request)
}

/// Whether it has its place in the line.
fn stands(party: &Booked) -> bool {
    party.token.is_none() && !party.tries && !party.is_late
}

fn find<'a>(books: &'a [Booked], party: &Booked) -> Option<&'a Booked> {
    books.iter().find(|other| key(other) == key(party))
}

impl Lines<'_> {
    pub fn check(&self) -> Result<Seen, (&'static str, String)> {
        let mut names: Vec<u64> = self.before.iter().filter(|party| stands(party)).map(|party| party.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut seen = Seen::default();
        for name in names {
            self.check_name(name, &mut seen)?;
        }
        Ok(seen)
    }

    fn check_name(&self, name: u64, seen: &mut Seen) -> Verdict {
        let line = |books: &[Booked]| -> Vec<Booked> {
            books.iter().filter(|party| party.name == name && stands(party)).copied().collect()
        };
        let (before, after) = (line(self.before), line(self.after));
        let stays = |party: &Booked| find(&before, party).is_some();
        let in_order = before.iter().filter(|party| find(&after, party).is_some()).map(key);
        if !after.iter().filter(|party| stays(party)).map(key).eq(in_order) {
            return Err(("P1", format!("the line of name {name} was {before:?}, and is {after:?}")));
        }
        for (place, newcomer) in after.iter().enumerate().filter(|(_, party)| !stays(party)) {
            let others = after[place + 1..].iter().filter(|party| stays(party));
            for other in others.filter_map(|other| find(&before, other)) {
                self.may_overtake(newcomer, other)?;
                seen.overtook = true;
            }
            // Of several newcomers it is not known who came first, nor who stood before one and is gone.
            if self.kind != kind::lock::ACQUIRE || before.iter().any(|party| find(&after, party).is_none()) {
                continue;
            }
            let Some(other) = place.checked_sub(1).map(|place| &after[place]).filter(|party| stays(party)) else {
                continue;
            };
            if self.goes_before(newcomer, other) {
                if other.overtaken < self.most {
                    return Err(("P1", format!("{newcomer:?} stands behind {other:?}, which it may overtake")));
                }
                seen.was_stopped = true;
            }
        }
        self.check_grants(&before, &after, seen)?;
        self.check_counts(&before, &after)
    }

    fn goes_before(&self, newcomer: &Booked, other: &Booked) -> bool {
        let writes =
            self.policy == Policy::WritePreferring && (newcomer.mode, other.mode) == (Mode::Exclusive, Mode::Shared);
        newcomer.priority > other.priority || writes && newcomer.priority == other.priority
    }

    /// Whether who comes may go past who waits to those who share already, and nobody has to bear it.
    fn may_join(&self, newcomer: &Booked, other: &Booked) -> bool {
        let shares = self.policy == Policy::ReadPreferring && newcomer.mode == Mode::Shared;
        let joins = |party: &Booked| party.token.is_some() && party.name == newcomer.name && party.mode == Mode::Shared;
        shares && newcomer.priority >= other.priority && self.before.iter().any(joins)
    }

    fn may_overtake(&self, newcomer: &Booked, other: &Booked) -> Verdict {
        if self.goes_before(newcomer, other) && other.overtaken < self.most {
            return Ok(());
        }
        Err(("P1", format!("{newcomer:?} came before {other:?}, which waited")))
    }

    /// Grants by the agent; a join is the switch's.
    fn granted(&self) -> impl Iterator<Item = &Booked> {
        let knows = matches!(self.kind, kind::lock::ACQUIRE | kind::lock::RELEASE | kind::lock::CANCEL);
        let held = |party: &&Booked| find(self.before, party).is_some_and(|known| known.token.is_some());
        self.after.iter().filter(move |party| knows && party.token.is_some() && !held(party))
    }

    fn check_grants(&self, before: &[Booked], after: &[Booked], seen: &mut Seen) -> Verdict {
        // Who does not stay has a place, too, while the agent may not act: it may have been there for long.
        let place = |party: &Booked| self.before.iter().position(|known| key(known) == key(party) && !known.is_late);
        for waiter in before.iter().filter(|party| find(after, party).is_some()) {
            for granted in self.granted().filter(|party| party.name == waiter.name) {
                match place(granted) {
                    earlier @ Some(_) if earlier < place(waiter) => {}
                    Some(_) => {
                        return Err(("P1", format!("{granted:?} was granted before {waiter:?}, behind whom it was")));
                    }
                    None if self.may_join(granted, waiter) => seen.joined = true,
                    None if self.kind == kind::lock::ACQUIRE => {
                        self.may_overtake(granted, waiter)?;
                        seen.overtook = true;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn check_counts(&self, before: &[Booked], after: &[Booked]) -> Verdict {
        for (place, waiter) in after.iter().enumerate() {
            let Some(known) = find(before, waiter) else { continue };
            let ahead = after[..place].iter().filter(|party| find(before, party).is_none()).count();
            let is_new = |party: &&Booked| {
                party.name == waiter.name && find(self.before, party).is_none() && !self.may_join(party, known)
            };
            let granted = if self.kind == kind::lock::ACQUIRE { self.granted().filter(is_new).count() } else { 0 };
            // It may have been overtaken more often when more was borne.
            if waiter.overtaken > self.most.max(known.overtaken)
                || usize::from(waiter.overtaken) < usize::from(known.overtaken) + ahead + granted
            {
                let story = format!("{ahead} + {granted} came before {known:?}, which is {waiter:?} now");
                return Err(("P2", story));
            }
        }
        Ok(())
    }
}

/// P3, of waiters that a packet has brought to their next agent: a late copy brings nobody. Nor is it of those who wait
/// no more: what such a one had cancelled is taken out, and a late copy of its ACQUIRE lets it in as anybody. Whether
/// any of them had been overtaken.
pub fn check_handed_over(
    packet: &[u8],
    header: &Header,
    before: &[Booked],
    after: &[Booked],
    waits: impl Fn(&Booked) -> bool,
) -> Result<bool, (&'static str, String)> {
    let handed = match header.kind {
        kind::lock::QUEUE => 0,
        kind::lock::GRANT if Entry::read(packet, BODY).flags & entry_flag::AGENCY != 0 => 1,
        _ => return Ok(false),
    };
    let mut seen = false;
    for place in handed..usize::from(header.count) {
        let entry = Entry::read(packet, wayside_wire::entry_at(place));
        let waiter = after.iter().find(|party| key(party) == (entry.holder, RequestId(entry.request)));
        let Some(waiter) = waiter.filter(|party| stands(party) && find(before, party).is_none() && waits(party)) else {
            continue;
        };
        let told = entry.sequence >> PRIORITY_BITS;
        seen |= told > 0;
        if waiter.overtaken < told {
            return Err(("P3", format!("{waiter:?} had been overtaken {told} times when it was handed over")));
        }
    }
    Ok(seen)
}
