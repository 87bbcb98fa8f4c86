//! Locality: an agent that stays where its locks are used, though nobody holds or waits.
//!
//! ```text
//!   nobody left, and it is at home here -> (renew: MANAGED, not tryable) -> rests --own request--> holds, no packet
//!                                                                            |--another's--> lends, or goes with it
//!                                                                            '--no place among the kept--> free
//! ```
//!
//! An agent that rests is one that has not asked for *free*: nothing else about it is different, for the switch and for
//! other nodes neither. So nothing here can harm anybody; it only decides how many packets whose requests cost.
//!
//! Whether a slot is at home is counted, not configured: its own node's grants less others' since. Applications need
//! not say which node has which names, and names whose use moves take their agents along.
//!
//! Invariant: while it rests the slot is MANAGED, or the switch would grant shared requests of which it has to be told;
//! and not tryable, or the switch would refuse others' tries though nobody holds.

use super::{Agent, Change, Desk, Duty, Sole};
use crate::kept::Kept;
use crate::{Handle, Mode};

/// Uses that are remembered. With two the agency goes to whoever asks twice while its own node does not; with a dozen
/// it would stay for long where nobody needs it any more. Four bear three requests of others in a row, which one in
/// ten of all hardly ever are.
const USES_MOST: u8 = 4;
/// With fewer the agency goes along with the lock: it is not known yet to be used here again and again.
const USES_LENT: u8 = 2;

/// How much a slot is at home with its agent's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// Grants to its own node, less those to others since.
    uses: u8,
    /// It has a place among those that are kept.
    pub is_kept: bool,
    /// Its own node has used it since its place was looked at.
    pub is_used: bool,
}

impl Home {
    /// The switch has granted the slot to this node, when nobody had it.
    pub const NEW: Home = Home { uses: 1, is_kept: false, is_used: true };

    /// Its own node is granted a lock.
    #[inline]
    pub fn use_it(&mut self) {
        self.uses = (self.uses + 1).min(USES_MOST);
        self.is_used = true;
    }

    fn lend(&mut self) {
        self.uses = self.uses.saturating_sub(1);
    }

    /// Whether it is worth keeping when nobody holds or waits.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.uses > 0
    }
}

impl Agent {
    pub(super) fn count_use(&mut self, holder: Handle, desk: &Desk) {
        if !desk.kept.is_on() {
            return;
        }
        if holder == desk.me {
            self.home.use_it();
        } else {
            self.home.lend();
        }
    }

    /// Whether it grants others what they ask for, and stays, where it could go along.
    pub(super) fn lends(&self, kept: &Kept) -> bool {
        kept.is_on() && self.home.uses >= USES_LENT
    }

    /// Nobody else has to do with the slot, and its own node will want it again.
    pub(super) fn stays(&self, desk: &Desk) -> bool {
        desk.kept.is_on() && self.home.is_here() && self.holders.iter().all(|party| party.holder == desk.me)
    }

    /// Nobody holds or waits. False: there is no place for it.
    pub(super) fn come_to_rest(&mut self, desk: &mut Desk) -> bool {
        self.home.is_kept = self.home.is_kept || desk.kept.enter(self.slot);
        if self.home.is_kept && (self.open || self.tryable) {
            self.start(Change::Renew { tryable: false }, desk);
        }
        self.home.is_kept
    }

    /// Whether it could be let go.
    pub fn rests(&self) -> bool {
        let acts = self.home.is_kept && self.is_usable() && !self.open && !self.tryable;
        acts && self.holders.is_empty() && !self.has_waiters() && self.heir_is_complete() && self.joins.complete()
    }

    /// It gives up its place: free, once nobody holds or waits.
    pub fn leave_home(&mut self, desk: &mut Desk) {
        self.home = Home::default();
        self.serve(desk);
    }

    /// In few words, where nobody else has had to do with this tenure.
    pub fn at_rest(&self, me: Handle) -> Option<Sole> {
        let is_plain = self.joins.expected == 0 && self.retired.is_empty() && self.heir.is_none();
        (is_plain && self.rests() && self.adopting.is_none()).then_some(Sole {
            stamp: self.stamp,
            name: self.name,
            holder: me,
            port: 0,
            mode: Mode::Exclusive,
            tryable: false,
            open: false,
            suspended: false,
            confirmed: true,
            sequence: self.sequence,
            home: self.home,
            duty: Duty::Rest,
        })
    }
}
