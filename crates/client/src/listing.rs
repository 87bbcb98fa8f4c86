//! What the daemon asks of a node's requests: a list of them, and that one is given up.

use crate::control::{Abort, LISTING_MOST, ListRequest, Listed, Listing, Queued, request_text};
use crate::engine::Engine;
use crate::request::{Request, Standing};
use crate::task;
use wayside_protocol::{Mode, RequestId};
use wayside_wire::slot_of;

/// Holds and waits with their names, for people and for the search for deadlocks.
pub(crate) fn listing(engine: &Engine, asked: &ListRequest) -> Listing {
    engine.visit(|core, now, _| {
        let slots = core.info().map_or(1, |info| info.slots);
        let wanted = |request: &&Request| {
            asked
                .waiting_us
                .is_none_or(|least| request.standing == Standing::Waiting && now.since(request.since) >= least)
        };
        let listed = |request: &Request| {
            let held = request.standing == Standing::Held;
            // Who tries will go on, whatever the others do.
            let stands = held || !request.tries;
            let (task, parent) = task::shown(if stands { request.task } else { 0 });
            Listed {
                name: request.label(),
                name_id: format!("{:016x}", request.name),
                slot: slot_of(request.name, slots),
                mode: if request.mode == Mode::Shared { "shared" } else { "exclusive" }.into(),
                state: if held { "held" } else { "waiting" }.into(),
                since_us: now.since(request.since),
                token: if held { request.grant.token.to_string() } else { String::new() },
                request: request_text(request.id.0),
                task,
                parent,
            }
        };
        let entries = core.book.iter().filter(wanted).take(LISTING_MOST).map(listed).collect();
        let mut queues: Vec<Vec<Queued>> = Vec::new();
        if asked.waiting_us.is_none() {
            let mut slot = None;
            for (of, waiter) in core.node.queues().take(LISTING_MOST) {
                if slot.replace(of) != Some(of) {
                    queues.push(Vec::new());
                }
                let queued = Queued { handle: waiter.holder, request: request_text(waiter.request.0) };
                queues.last_mut().expect("pushed above").push(queued);
            }
        }
        Listing { id: asked.id, entries, queues }
    })
}

/// Gives a wait up that the daemon has found in a deadlock.
pub(crate) fn abort(engine: &Engine, order: Abort) {
    if let Ok(id) = u64::from_str_radix(&order.abort, 16) {
        engine.visit(|core, now, errands| core.abort(now, RequestId(id), order.cycle, errands));
    }
}
