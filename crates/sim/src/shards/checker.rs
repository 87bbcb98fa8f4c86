//! Who holds what, whichever shard granted it.
//!
//! | S1 | conflicting holds of a name never overlap, of one shard or of several |
//! | S2 | an exclusive token exceeds every earlier token of its name, whichever shard gave it |
//! | M1 | no two shards have holders of one name, shared ones neither |

use std::collections::BTreeMap;

use wayside_protocol::{Mode, RequestId, Token};

/// A request of a client's process to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub client: usize,
    pub generation: u32,
    pub site: usize,
    pub request: RequestId,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: Owner,
    mode: Mode,
}

#[derive(Default)]
struct Lock {
    holds: Vec<Hold>,
    highest: Option<Token>,
    /// The site that granted it last, and those that had before.
    sites: Vec<usize>,
}

/// See the module's documentation.
#[derive(Default)]
pub struct Checker {
    locks: BTreeMap<u64, Lock>,
}

/// Where a name was granted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// By the same site, or by none.
    No,
    /// By another.
    Here,
    /// By another, and before that by this one.
    Back,
}

impl Checker {
    /// A request was granted, and its owner told. `believes`: whether an owner still takes its hold for good.
    pub fn granted(
        &mut self,
        owner: Owner,
        name: u64,
        mode: Mode,
        token: Token,
        believes: impl Fn(Owner) -> bool,
    ) -> Result<Moved, (&'static str, String)> {
        let lock = self.locks.entry(name).or_default();
        lock.holds.retain(|hold| believes(hold.owner));
        for hold in &lock.holds {
            let told = || format!("name {name} is granted to {owner:?} {mode:?}, and held by {hold:?}");
            if mode == Mode::Exclusive || hold.mode == Mode::Exclusive {
                return Err(("S1", told()));
            }
            if hold.owner.site != owner.site {
                return Err(("M1", told()));
            }
        }
        if mode == Mode::Exclusive && lock.highest.is_some_and(|highest| token <= highest) {
            let story = format!("name {name} is granted to {owner:?} under {token:?} after {:?}", lock.highest);
            return Err(("S2", story));
        }
        lock.highest = lock.highest.max(Some(token));
        lock.holds.push(Hold { owner, mode });
        if lock.sites.is_empty() {
            lock.sites.push(owner.site);
        }
        if lock.sites.last() == Some(&owner.site) {
            return Ok(Moved::No);
        }
        let moved = if lock.sites.contains(&owner.site) { Moved::Back } else { Moved::Here };
        lock.sites.push(owner.site);
        Ok(moved)
    }

    /// It is given back, or lost.
    pub fn released(&mut self, owner: Owner, name: u64) {
        if let Some(lock) = self.locks.get_mut(&name) {
            lock.holds.retain(|hold| hold.owner != owner);
        }
    }
}
