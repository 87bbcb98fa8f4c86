//! What the daemon asks of a node's requests: a list of them, and that one is given up.

use crate::control::{Abort, LISTING_MOST, ListRequest, Listed, Listing, Queued, request_text};
use crate::engine::Engine;
use crate::request::{Request, Standing};
use crate::task::{self, Task};
use wayside_protocol::{Mode, Priority, RequestId, Time, Token};
use wayside_wire::slot_of;

/// What is copied of a request while the session's lock is held; the texts are made afterwards.
struct Seen {
    id: RequestId,
    label: String,
    name: u64,
    mode: Mode,
    since: Time,
    /// Of a hold.
    token: Option<Token>,
    priority: Priority,
    task: u64,
}

impl Seen {
    fn of(request: &Request) -> Seen {
        let held = request.standing == Standing::Held;
        Seen {
            id: request.id,
            label: request.label(),
            name: request.name,
            mode: request.mode,
            since: request.since,
            token: held.then_some(request.grant.token),
            priority: request.priority,
            // Who tries will go on, whatever the others do.
            task: if held || !request.tries { request.task } else { 0 },
        }
    }

    fn listed(self, now: Time, slots: u32) -> Listed {
        let (task, parent) = task::shown(self.task);
        Listed {
            name: self.label,
            name_id: format!("{:016x}", self.name),
            slot: slot_of(self.name, slots),
            mode: if self.mode == Mode::Shared { "shared" } else { "exclusive" }.into(),
            state: if self.token.is_some() { "held" } else { "waiting" }.into(),
            since_us: now.since(self.since),
            token: self.token.map_or_else(String::new, |token| token.to_string()),
            request: request_text(self.id.0),
            priority: self.token.is_none().then_some(self.priority.level()),
            task,
            parent,
        }
    }
}

/// Holds and waits with their names, for people and for the search for deadlocks.
pub(crate) fn listing(engine: &Engine, asked: &ListRequest) -> Listing {
    let (now, slots, seen, waiters, kept) = engine.visit(|core, now, _| {
        let wanted = |request: &&Request| {
            let old = |least| request.standing == Standing::Waiting && now.since(request.since) >= least;
            asked.waiting_us.is_none_or(old)
        };
        let seen: Vec<Seen> = core.book.iter().filter(wanted).take(LISTING_MOST).map(Seen::of).collect();
        let queues = core.node.queues().take(if asked.waiting_us.is_none() { LISTING_MOST } else { 0 });
        let waiters: Vec<_> = queues.map(|(slot, waiter)| (slot, waiter.holder, waiter.request)).collect();
        let kept = if asked.waiting_us.is_none() { core.node.kept() } else { 0 };
        (now, core.info().map_or(1, |info| info.slots), seen, waiters, kept)
    });
    let queued = |&(_, handle, request): &(u32, u16, RequestId)| Queued { handle, request: request_text(request.0) };
    let queues = waiters.chunk_by(|one, next| one.0 == next.0).map(|queue| queue.iter().map(queued).collect());
    Listing {
        id: asked.id,
        process: Task::of_main_thread().to_string(),
        entries: seen.into_iter().map(|seen| seen.listed(now, slots)).collect(),
        queues: queues.collect(),
        kept,
    }
}

/// Gives a wait up that the daemon has found in a deadlock.
pub(crate) fn abort(engine: &Engine, order: Abort) {
    if let Ok(id) = u64::from_str_radix(&order.abort, 16) {
        engine.visit(|core, now, errands| core.abort(now, RequestId(id), order.cycle, errands));
    }
}
