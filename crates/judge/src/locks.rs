//! The checker of locks. It knows nothing of slots, agents or packets: only who was told what, when, whose lease still
//! runs by its own clock, and, for S3, who has vanished from an agent's books and why. What applications do is decided
//! elsewhere.
//!
//! | id | checked |
//! | --- | --- |
//! | S1 | at every grant: nobody else believes to hold the name in a conflicting mode, nor was told before its session
//! |
//! | | was lost that it is safe for longer. Not where clocks are wild |
//! | S2 | at every grant: an exclusive token exceeds every earlier one of its name, a shared one below no exclusive |
//! | | one. Where clocks are wild, one whose session is over may believe in a lower one, which nobody takes; and one |
//! | | whom a lock server has forgotten, whose own lock it is |
//! | S3 | at every release: the process still has every other hold it was granted and did not give back; |
//! | | and an agent's books lose nobody but the one whom a release names, nor ever one who holds |
//! | L1 | at the end: nobody waits any more |
//! | M1 | at every grant: names are divided among shards, and this one has the name: so no two have (`mod.rs`) |
//!
//! P1 to P3, of agents' lines, are `lines.rs`.
//!
//! Of the world: A1, who is told something that nobody signed for him, or that was changed, does not notice; A2,
//! whatever the switch or its controller sends, the receiver's key signed; A3, no node is ever two rotations of its
//! keys behind; L2, at the end every slot is UNHELD.

use std::collections::BTreeMap;

use wayside_protocol::{Booked, Handle, Mode, Priority, RequestId, Token};

use crate::Process;

/// A name: of which namespace (by its place), and its id.
pub type NameOf = (usize, u64);

/// A request, anywhere and ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Whose.
    pub process: Process,
    /// Its id there.
    pub request: RequestId,
}

/// Nothing, or the invariant that broke and how.
pub type Verdict = Result<(), (&'static str, String)>;

/// Why an agent's books may have changed.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// RELEASE or CANCEL, as a packet or by the agent's own node.
    Release {
        /// Whose.
        holder: Handle,
        /// What it ends.
        request: RequestId,
        /// The grant that it gives back, where it knows one.
        token: Option<Token>,
    },
    /// A packet of another kind.
    Other(u8),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    owner: Owner,
    mode: Mode,
    token: Token,
    since: u64,
    /// Its session is lost; its application was told before to be safe until then.
    until: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    exclusive: Token,
    any: Token,
}

/// The oracle.
#[derive(Default)]
pub struct Checker {
    holds: BTreeMap<NameOf, Vec<Held>>,
    /// Of every hold: its name.
    names: BTreeMap<Owner, NameOf>,
    tokens: BTreeMap<NameOf, Tokens>,
    waits: BTreeMap<Owner, Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    name: NameOf,
    since: u64,
    priority: Priority,
}

impl Checker {
    /// A request was made; it has to be answered.
    pub fn asked(&mut self, now: u64, owner: Owner, name: NameOf, priority: Priority) {
        self.waits.insert(owner, Waiting { name, since: now, priority });
    }

    /// What a request that waits is for.
    pub fn asked_for(&self, owner: Owner) -> Option<NameOf> {
        self.waits.get(&owner).map(|waiting| waiting.name)
    }

    /// P3: somebody waits by an agent's books.
    pub fn booked(&self, owner: Owner, party: &Booked) -> Verdict {
        match self.waits.get(&owner) {
            Some(waiting) if waiting.priority != party.priority => Err((
                "P3",
                format!("{}: {owner:?} asked for {:?}, and waits as {party:?}", Named(waiting.name), waiting.priority),
            )),
            _ => Ok(()),
        }
    }

    /// A process was told that it holds. `believes`: whether a process's lease runs, by its own clock, which keeps its
    /// bound. `lives`: whether the controller lets the owner's session live, and the lock server the hold, if it is
    /// one's.
    pub fn granted(
        &mut self,
        now: u64,
        owner: Owner,
        mode: Mode,
        token: Token,
        believes: impl Fn(Process) -> bool,
        lives: impl Fn() -> bool,
    ) -> Verdict {
        let Some(Waiting { name, .. }) = self.waits.remove(&owner) else {
            return Err(("S3", format!("{owner:?} was granted, but does not wait")));
        };
        let holds = self.holds.entry(name).or_default();
        holds.retain(|held| held.until.is_none_or(|until| now < until));
        let counts = |held: &Held| held.until.is_some() || believes(held.owner.process);
        let conflicts = |held: &&Held| (mode == Mode::Exclusive || held.mode == Mode::Exclusive) && counts(held);
        let conflict = holds.iter().find(conflicts).copied().filter(|_| believes(owner.process));
        holds.push(Held { owner, mode, token, since: now, until: None });
        self.names.insert(owner, name);
        if let Some(held) = conflict {
            let (theirs, ours) = (Shown(held.owner, held.mode, held.token), Shown(owner, mode, token));
            let since = held.since as f64 / 1e6;
            let story = format!("{}: {ours} granted while {theirs} holds since {since:.6} s", Named(name));
            return Err(("S1", story));
        }
        self.check_token(owner, name, mode, token, believes(owner.process), lives)
    }

    fn check_token(
        &mut self,
        owner: Owner,
        name: NameOf,
        mode: Mode,
        token: Token,
        must: bool,
        lives: impl Fn() -> bool,
    ) -> Verdict {
        let earlier = self.tokens.entry(name).or_default();
        let (bound, above) = match mode {
            Mode::Exclusive => (earlier.any, token > earlier.any),
            Mode::Shared => (earlier.exclusive, token >= earlier.exclusive),
        };
        earlier.any = earlier.any.max(token);
        if mode == Mode::Exclusive {
            earlier.exclusive = earlier.exclusive.max(token);
        }
        if above || !(must || lives()) {
            return Ok(());
        }
        let ours = Shown(owner, mode, token);
        let bound = Readable(bound);
        Err(("S2", format!("{}: {ours} is not above {bound}, which was granted before", Named(name))))
    }

    /// An application gives its hold back, or stops waiting: from this call on it does not hold.
    pub fn gave_back(&mut self, owner: Owner) {
        self.waits.remove(&owner);
        if let Some(name) = self.names.remove(&owner) {
            self.forget(name, owner);
        }
    }

    /// Its session is lost. What it does until the end that it was told last is safe all the same.
    pub fn lost(&mut self, now: u64, owner: Owner, until: u64) {
        if until <= now || self.held(owner).is_none() {
            return self.gave_back(owner);
        }
        let holds = self.names.remove(&owner).and_then(|name| self.holds.get_mut(&name));
        for held in holds.into_iter().flatten().filter(|held| held.owner == owner) {
            held.until = Some(until);
        }
    }

    fn forget(&mut self, name: NameOf, owner: Owner) {
        if let Some(holds) = self.holds.get_mut(&name) {
            holds.retain(|held| held.owner != owner);
            if holds.is_empty() {
                self.holds.remove(&name);
            }
        }
    }

    fn held(&self, owner: Owner) -> Option<&Held> {
        self.holds.get(self.names.get(&owner)?)?.iter().find(|held| held.owner == owner)
    }

    /// An application makes its hold shared: from this call on it may not count on being alone.
    pub fn downgraded(&mut self, owner: Owner) {
        let holds = self.names.get(&owner).and_then(|name| self.holds.get_mut(name));
        for held in holds.into_iter().flatten().filter(|held| held.owner == owner) {
            held.mode = Mode::Shared;
        }
    }

    /// A request was refused, or its deadline came.
    pub fn answered(&mut self, owner: Owner) {
        self.waits.remove(&owner);
    }

    /// A process is gone, and whatever it held or wanted.
    pub fn died(&mut self, process: Process) {
        let waits: Vec<Owner> = of(&self.waits, process).map(|(owner, _)| owner).collect();
        for owner in waits {
            self.waits.remove(&owner);
        }
        let holds: Vec<Owner> = of(&self.names, process).map(|(owner, _)| owner).collect();
        holds.into_iter().for_each(|owner| self.gave_back(owner));
    }

    /// What a process holds by its own account must be what it was granted and did not give back.
    pub fn accounts(&self, process: Process, own: impl Iterator<Item = RequestId>) -> Verdict {
        let mut own: Vec<RequestId> = own.collect();
        own.sort_unstable();
        if of(&self.names, process).map(|(owner, _)| owner.request).eq(own.iter().copied()) {
            return Ok(());
        }
        let granted: Vec<RequestId> = of(&self.names, process).map(|(owner, _)| owner.request).collect();
        Err(("S3", format!("{process} was granted {granted:?}, and holds {own:?}")))
    }

    /// A party whose session lives was in the books of `agent` before `cause`, and is not any more.
    pub fn dropped(&self, agent: Process, owner: Owner, party: &Booked, cause: &Cause) -> Verdict {
        let account = self.held(owner).map(|held| held.token);
        let holds = account.is_some() && account == party.token;
        let waits = party.token.is_none() && !party.tries && self.waits.contains_key(&owner);
        let story = match *cause {
            Cause::Release { holder, request, .. } if (holder, request) == (party.holder, party.request) => {
                if !holds {
                    return Ok(());
                }
                "its own release, which it never sent".to_string()
            }
            // One who only tries is told that it is refused, and one who does not wait any more was not harmed.
            Cause::Release { holder, request: RequestId(id), token } if party.token.is_some() || waits => {
                format!("a release of node {holder}'s request {id:#x} (token {token:?})")
            }
            // An agent that was superseded without its knowledge loses its waiters, who ask again.
            Cause::Other(kind) if holds => format!("a packet of kind {kind}"),
            _ => return Ok(()),
        };
        let Owner { process, request: RequestId(id) } = owner;
        let whose = format!("{process}'s request {id:#x} ({:?})", party.token);
        Err(("S3", format!("the books of {agent} lost {whose} by {story}")))
    }

    /// All is healed, nobody wants anything new, and time enough has passed.
    pub fn nobody_waits(&self) -> Verdict {
        let Some((owner, waiting)) = self.waits.iter().next().map(|(o, w)| (*o, *w)) else { return Ok(()) };
        let Waiting { name, since, .. } = waiting;
        let Owner { process, request: RequestId(id) } = owner;
        let (all, since) = (self.waits.len(), since as f64 / 1e6);
        let story = format!("{process}'s request {id:#x} waits for {} since {since:.6} s ({all} in all)", Named(name));
        Err(("L1", story))
    }

    /// How many wait.
    pub fn waits(&self) -> usize {
        self.waits.len()
    }
}

/// What belongs to a process.
fn of<T>(all: &BTreeMap<Owner, T>, process: Process) -> impl Iterator<Item = (Owner, &T)> {
    let [first, last] = [0, u64::MAX].map(|id| Owner { process, request: RequestId(id) });
    all.range(first..=last).map(|(owner, of)| (*owner, of))
}

/// A token as people read it.
struct Readable(Token);

impl std::fmt::Display for Readable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}+{}", self.0.stamp(), self.0.sequence())
    }
}

struct Named(NameOf);

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Named((space, name)) = self;
        write!(f, "name {name} of space{}", space + 1)
    }
}

struct Shown(Owner, Mode, Token);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shown(Owner { process, request: RequestId(id) }, mode, token) = self;
        write!(f, "{process}'s request {id:#x} ({mode:?}, token {})", Readable(*token))
    }
}
