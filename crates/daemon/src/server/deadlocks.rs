//! Looks for deadlocks from time to time, says so, and ends them if it is to (docs/deadlocks.md).
//!
//! A round begins with a question that costs nothing where all is well: whether any wait has lasted for a period. Only
//! then are all nodes asked for their locks, and only if that looks like a deadlock once more: what is not in both
//! listings was none.

use super::control::Control;
use crate::answers::{Listings, NodeListing, Session};
use crate::config::Deadlocks;
use crate::deadlocks::{RequestKey, Round, Search};
use ring::digest::{SHA256, digest};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wayside_client::control::{Abort, Listing};

/// Deadlocks found by themselves since the daemon started.
#[derive(Debug, Default)]
pub struct Tally {
    reported: AtomicU64,
    aborted: AtomicU64,
}

impl Tally {
    /// Those that were only reported, and those in which a wait was given up.
    pub fn counts(&self) -> [u64; 2] {
        [&self.reported, &self.aborted].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Looks now, at this shard, by two rounds of listings.
pub async fn search(control: &Control) -> Search {
    let first = round(control).await;
    // This thread has connections to serve, whose ends others wait for.
    let (first, suspected) = aside(move || {
        let suspected = first.suspects() > 0;
        (first, suspected)
    })
    .await;
    if !suspected {
        return Search::of_one(first);
    }
    let second = round(control).await;
    aside(move || Search::of_two(&first, second)).await
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic, and nobody ends it")
}

async fn round(control: &Control) -> Round {
    let mut round = Round::default();
    round.add("", listings(control).await);
    round
}

/// What all nodes list now.
pub async fn listings(control: &Control) -> Listings {
    let of_node = |(session, listing): (Session, Option<Listing>)| NodeListing {
        owner: session.owner(),
        namespace: session.namespace,
        listing,
    };
    Listings { nodes: control.listings(None).await.into_iter().map(of_node).collect() }
}

/// The same for whoever asks. The names of processes and tasks are known to these alone, and who knows one could claim
/// in a listing to be it, in another namespace too: what stands for them here is the same wherever they are told, and
/// tells nobody what they are.
pub async fn listings_for_strangers(control: &Control) -> Listings {
    let mut all = listings(control).await;
    for listing in all.nodes.iter_mut().filter_map(|node| node.listing.as_mut()) {
        listing.process = veiled(&listing.process);
        for listed in &mut listing.entries {
            for task in [&mut listed.task, &mut listed.parent] {
                if let Some(id) = task.strip_prefix("task/") {
                    *task = format!("task/{}", veiled(id));
                }
            }
        }
    }
    all
}

fn veiled(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Looks for ever.
pub async fn watch(control: Arc<Control>, policy: Deadlocks, period: Duration) {
    let least = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
    let mut known: HashSet<Vec<RequestKey>> = HashSet::new();
    loop {
        tokio::time::sleep(period).await;
        let waits = control.listings(Some(least)).await;
        let is_old = |listed: &wayside_client::control::Listed| listed.state == "waiting" && listed.since_us >= least;
        if !waits.iter().filter_map(|(_, listing)| listing.as_ref()).any(|listing| listing.entries.iter().any(is_old)) {
            known.clear();
            continue;
        }
        let found = search(&control).await.found;
        for found in &found {
            let cycle = found.deadlock.to_string();
            let victim = found.youngest.as_ref().filter(|_| policy == Deadlocks::AbortYoungest);
            if !known.contains(&found.waits) {
                let tally = &control.deadlocks;
                let count = if victim.is_some() { &tally.aborted } else { &tally.reported };
                count.fetch_add(1, Ordering::Relaxed);
                let what = if victim.is_some() { "deadlock: its youngest wait is given up" } else { "deadlock" };
                tracing::warn!(cycle, "{what}");
            }
            if let Some(RequestKey { handle, request, .. }) = victim {
                // Once more, if it was not heard the last time.
                control.abort(*handle, Abort { abort: request.clone(), cycle }).await;
            }
        }
        known = found.into_iter().map(|found| found.waits).collect();
    }
}
