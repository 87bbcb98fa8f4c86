//! One request and, once granted, one hold: what the session's lock guards of it.

use crate::Error;
use crate::errands::Errands;
use crate::port::Place;
use std::task::Waker;
use wayside_protocol::{Mode, Path, Priority, RequestId, Time, Token};

/// Where a request stands: Waiting -> Held -> over, or Waiting -> over, never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    Held,
    /// A try that was refused; [`Request::refuser`] says by whom.
    Busy,
    TimedOut,
    /// The same, and the namespace's budget had refused it meanwhile.
    OverBudget,
    /// Given up to end a deadlock; [`Request::cycle`] says which.
    Deadlock,
    Lost,
    /// Nobody's: for the next request.
    Spare,
}

/// Which request it is, and where its record is as long as its owner has not given it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) id: RequestId,
    pub(crate) record: u32,
}

/// What a grant brings: all that a guard needs without the session's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) path: Path,
    /// End of the hold's own time; the end of time where it has none.
    pub(crate) until: Time,
}

/// What comes of a request.
pub(crate) type Outcome = Result<Grant, Refused>;

/// Why there is no grant. As the error that it becomes, but small enough to be handed around for nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    Busy { holder: u16 },
    TimedOut,
    OverBudget,
    Deadlock,
    Lost,
}

pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) standing: Standing,
    pub(crate) mode: Mode,
    /// Node whose agent refused a try.
    pub(crate) refuser: u16,
    /// Id of the name.
    pub(crate) name: u64,
    /// The name as the caller wrote it, for people; empty where the id itself is the name. Keeps its room.
    pub(crate) text: String,
    /// When it began to wait; a grant sets it to when it began to hold.
    pub(crate) since: Time,
    pub(crate) grant: Grant,
    /// Longest hold, in microseconds from the grant.
    pub(crate) longest: Option<u64>,
    /// Does not wait, but for an answer.
    pub(crate) tries: bool,
    pub(crate) priority: Priority,
    /// Who asked, as `task.rs` has it.
    pub(crate) task: u64,
    /// The deadlock that it was given up for.
    pub(crate) cycle: String,
    /// The first of those that a task waits for with it.
    pub(crate) gathered_by: Option<RequestId>,
    /// Port of the thread that waits for it; None: a task does.
    pub(crate) waiter: Option<Place>,
    /// Tasks to call when it changes.
    pub(crate) listeners: Vec<Waker>,
    /// Tasks that wait for the end of the hold, each by the number of its future.
    watchers: Vec<(u64, Waker)>,
}

impl Request {
    pub(crate) fn spare() -> Request {
        Request {
            id: RequestId(0),
            standing: Standing::Spare,
            mode: Mode::Exclusive,
            refuser: 0,
            name: 0,
            text: String::new(),
            since: Time(0),
            grant: Grant { token: Token(0), path: Path::Switch, until: Time(u64::MAX) },
            longest: None,
            tries: false,
            priority: Priority::NORMAL,
            task: 0,
            cycle: String::new(),
            gathered_by: None,
            waiter: None,
            listeners: Vec::new(),
            watchers: Vec::new(),
        }
    }

    /// The name, for people.
    pub(crate) fn label(&self) -> String {
        if self.text.is_empty() { self.name.to_string() } else { self.text.clone() }
    }

    /// Not over.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Waiting | Standing::Held)
    }

    /// What came of it; None while it waits.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.standing {
            Standing::Waiting => None,
            Standing::Held => Some(Ok(self.grant)),
            Standing::Busy => Some(Err(Refused::Busy { holder: self.refuser })),
            Standing::TimedOut => Some(Err(Refused::TimedOut)),
            Standing::OverBudget => Some(Err(Refused::OverBudget)),
            Standing::Deadlock => Some(Err(Refused::Deadlock)),
            Standing::Lost | Standing::Spare => Some(Err(Refused::Lost)),
        }
    }

    /// The error that a refusal becomes.
    #[cold]
    pub(crate) fn error(&mut self, refused: Refused) -> Error {
        match refused {
            Refused::Busy { holder } => Error::Busy { holder },
            Refused::TimedOut => Error::TimedOut,
            Refused::OverBudget => Error::OverBudget,
            Refused::Deadlock => Error::Deadlock { cycle: std::mem::take(&mut self.cycle) },
            Refused::Lost => Error::Lost,
        }
    }

    /// Has the task called when the request changes. What is left of `waker` is for the caller to drop, without the
    /// session's lock.
    pub(crate) fn listen(&mut self, waker: &mut Option<Waker>) {
        if let Some(new) = waker.take_if(|new| !self.listeners.iter().any(|known| known.will_wake(new))) {
            self.listeners.push(new);
        }
    }

    /// Has the task called when the request changes, in place of what this future has said before; without a waker, no
    /// more. What it said before is for the caller to drop, without the session's lock.
    pub(crate) fn watch(&mut self, number: u64, waker: Option<Waker>) -> Option<Waker> {
        let place = self.watchers.iter().position(|(known, _)| *known == number);
        match (place, waker) {
            (Some(place), Some(waker)) => Some(std::mem::replace(&mut self.watchers[place].1, waker)),
            (Some(place), None) => Some(self.watchers.swap_remove(place).1),
            (None, waker) => {
                self.watchers.extend(waker.map(|waker| (number, waker)));
                None
            }
        }
    }

    /// After a change: has all called who want to hear of it.
    #[inline]
    pub(crate) fn tell(&mut self, errands: &mut Errands) {
        if let Some(waiter) = self.waiter {
            errands.tell(waiter);
        }
        if !self.listeners.is_empty() {
            errands.wake(&mut self.listeners);
        }
        if !self.watchers.is_empty() {
            errands.wake_all(self.watchers.drain(..).map(|(_, waker)| waker));
        }
    }
}
