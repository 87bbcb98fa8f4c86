//! The checkers. They know nothing of slots, agents or packets: only who was told what, when, whose lease still runs by
//! its own clock, and, for S3, who has vanished from an agent's books and why. What applications do is decided
//! elsewhere.
//!
//! | id | checked |
//! | --- | --- |
//! | S1 | at every grant: nobody else believes to hold the name in a conflicting mode |
//! | S2 | at every grant: an exclusive token exceeds every earlier one of its name, a shared one is below no exclusive
//! |
//! | S3 | at every release: the process still has every other hold it was granted and did not give back; |
//! | | and an agent's books lose nobody but the one whom a release names, nor ever one who holds |
//! | A1 | with authentication on: who is told something that nobody signed for him, or that was changed, does not
//! notice |
//! | A2 | whatever the switch or its controller sends, the receiver's key signed |
//! | A3 | no node is ever two rotations of its keys behind |
//! | L1 | at the end: nobody waits any more |
//! | L2 | at the end: every slot is UNHELD (the world looks, the checker is told) |

use std::collections::BTreeMap;

use wayside_protocol::{Booked, Handle, Mode, RequestId, Token};

use crate::report::Failure;

/// One process of a host: what crashes and is started again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its host.
    pub host: usize,
    /// Processes that the host had before.
    pub generation: u32,
}

/// A request, anywhere and ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Whose.
    pub process: Process,
    /// Its id there.
    pub request: RequestId,
}

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
}

#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    exclusive: Token,
    any: Token,
}

/// The oracle.
#[derive(Default)]
pub struct Checker {
    holds: BTreeMap<u64, Vec<Held>>,
    tokens: BTreeMap<u64, Tokens>,
    waits: BTreeMap<Owner, (u64, u64)>,
    failure: Option<Failure>,
}

impl Checker {
    /// A request was made; it has to be answered.
    pub fn asked(&mut self, now: u64, owner: Owner, name: u64) {
        self.waits.insert(owner, (name, now));
    }

    /// A process was told that it holds. `believes`: whether a process's lease runs, by its own clock.
    pub fn granted(&mut self, now: u64, owner: Owner, mode: Mode, token: Token, believes: impl Fn(Process) -> bool) {
        let Some((name, _)) = self.waits.remove(&owner) else {
            return self.fail("S3", now, format!("{owner:?} was granted, but does not wait"));
        };
        let holds = self.holds.entry(name).or_default();
        holds.retain(|held| believes(held.owner.process));
        let conflict = holds.iter().find(|held| mode == Mode::Exclusive || held.mode == Mode::Exclusive).copied();
        holds.push(Held { owner, mode, token, since: now });
        if let Some(held) = conflict.filter(|_| believes(owner.process)) {
            let (theirs, ours) = (Shown(held.owner, held.mode, held.token), Shown(owner, mode, token));
            let since = held.since as f64 / 1e6;
            self.fail("S1", now, format!("name {name}: {ours} granted while {theirs} holds since {since:.6} s"));
        }
        self.check_token(now, owner, name, mode, token);
    }

    fn check_token(&mut self, now: u64, owner: Owner, name: u64, mode: Mode, token: Token) {
        let earlier = self.tokens.entry(name).or_default();
        let (bound, above) = match mode {
            Mode::Exclusive => (earlier.any, token > earlier.any),
            Mode::Shared => (earlier.exclusive, token >= earlier.exclusive),
        };
        earlier.any = earlier.any.max(token);
        if mode == Mode::Exclusive {
            earlier.exclusive = earlier.exclusive.max(token);
        }
        if !above {
            let ours = Shown(owner, mode, token);
            let bound = Readable(bound);
            self.fail("S2", now, format!("name {name}: {ours} is not above {bound}, which was granted before"));
        }
    }

    /// An application gives its hold back, or stops waiting: from this call on it does not hold.
    pub fn gave_back(&mut self, owner: Owner) {
        self.waits.remove(&owner);
        for holds in self.holds.values_mut() {
            holds.retain(|held| held.owner != owner);
        }
    }

    /// An application makes its hold shared: from this call on it may not count on being alone.
    pub fn downgraded(&mut self, owner: Owner) {
        for held in self.holds.values_mut().flatten().filter(|held| held.owner == owner) {
            held.mode = Mode::Shared;
        }
    }

    /// A request was refused, or its deadline came.
    pub fn answered(&mut self, owner: Owner) {
        self.waits.remove(&owner);
    }

    /// A process is gone, and whatever it held or wanted.
    pub fn died(&mut self, process: Process) {
        self.waits.retain(|owner, _| owner.process != process);
        for holds in self.holds.values_mut() {
            holds.retain(|held| held.owner.process != process);
        }
    }

    /// What a process holds by its own account must be what it was granted and did not give back.
    pub fn accounts(&mut self, now: u64, process: Process, mut own: Vec<RequestId>) {
        let all = self.holds.values().flatten().filter(|held| held.owner.process == process);
        let mut granted: Vec<RequestId> = all.map(|held| held.owner.request).collect();
        granted.sort_unstable();
        own.sort_unstable();
        if own != granted {
            self.fail("S3", now, format!("{process:?} was granted {granted:?}, and holds {own:?}"));
        }
    }

    /// A party whose session lives was in the books of `agent` before `cause`, and is not any more.
    pub fn dropped(&mut self, now: u64, agent: Process, owner: Owner, party: &Booked, cause: &Cause) {
        let account = self.holds.values().flatten().find(|held| held.owner == owner).map(|held| held.token);
        let holds = account.is_some() && account == party.token;
        let waits = party.token.is_none() && !party.tries && self.waits.contains_key(&owner);
        let story = match *cause {
            Cause::Release { holder, request, .. } if (holder, request) == (party.holder, party.request) => {
                if !holds {
                    return;
                }
                "its own release, which it never sent".to_string()
            }
            // One who only tries is told that it is refused, and one who does not wait any more was not harmed.
            Cause::Release { holder, request: RequestId(id), token } if party.token.is_some() || waits => {
                format!("a release of node {holder}'s request {id:#x} (token {token:?})")
            }
            // An agent that was superseded without its knowledge loses its waiters, who ask again.
            Cause::Other(kind) if holds => format!("a packet of kind {kind}"),
            _ => return,
        };
        let Owner { process, request: RequestId(id) } = owner;
        let whose = format!("host {}.{}'s request {id:#x} ({:?})", process.host, process.generation, party.token);
        self.fail("S3", now, format!("the books of {agent:?} lost {whose} by {story}"));
    }

    /// A process believed its lease to be over, and believes otherwise now.
    pub fn resurrected(&mut self, now: u64, process: Process) {
        self.fail("S1", now, format!("{process:?} goes on after the end of its lease"));
    }

    /// All is healed, nobody wants anything new, and time enough has passed.
    pub fn nobody_waits(&mut self, now: u64) {
        if let Some((owner, (name, since))) = self.waits.iter().next().map(|(o, w)| (*o, *w)) {
            let all = self.waits.len();
            let since = since as f64 / 1e6;
            self.fail("L1", now, format!("{owner:?} waits for name {name} since {since:.6} s ({all} wait in all)"));
        }
    }

    /// Whether somebody waits.
    pub fn waits(&self) -> usize {
        self.waits.len()
    }

    /// Keeps the first failure.
    pub fn fail(&mut self, invariant: &'static str, at: u64, story: String) {
        self.failure.get_or_insert(Failure { invariant, story, at });
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }
}

/// A token as people read it.
pub struct Readable(pub Token);

impl std::fmt::Display for Readable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}+{}", self.0.stamp(), self.0.sequence())
    }
}

struct Shown(Owner, Mode, Token);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shown(Owner { process, request: RequestId(id) }, mode, token) = self;
        let (host, generation) = (process.host, process.generation);
        write!(f, "host {host}.{generation}'s request {id:#x} ({mode:?}, token {})", Readable(*token))
    }
}
