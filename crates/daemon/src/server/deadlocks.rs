//! Looks for deadlocks from time to time, says so, and ends them if it is to (docs/deadlocks.md).
//!
//! A round begins with a question that costs nothing where all is well: whether any wait has lasted for a period. Only
//! then are all nodes asked for their locks, and only if that looks like a deadlock once more: what is not in both
//! listings was none.

use super::control::Control;
use crate::answers::Owner;
use crate::config::Deadlocks;
use crate::deadlocks::{Found, Picture, RequestKey, find, suspects};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wayside_client::control::{Abort, LISTING_MOST};

/// What a search has found.
pub struct Search {
    pub found: Vec<Found>,
    /// Cycles of the first listings that the second ones did not confirm.
    pub unconfirmed: usize,
    /// Who did not list, and who not everything, at either time.
    pub silent: Vec<Owner>,
    pub partial: Vec<Owner>,
}

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

/// Looks now, by two rounds of listings.
pub async fn search(control: &Control) -> Search {
    let mut search = Search { found: Vec::new(), unconfirmed: 0, silent: Vec::new(), partial: Vec::new() };
    let first = picture(control, &mut search).await;
    // This thread has connections to serve, whose ends others wait for.
    let (first, suspected) = aside(move || {
        let suspected = suspects(&first);
        (first, suspected)
    })
    .await;
    if suspected > 0 {
        search.silent.clear();
        search.partial.clear();
        let second = picture(control, &mut search).await;
        search.found = aside(move || find(&first, &second)).await;
        search.unconfirmed = suspected.saturating_sub(search.found.len());
    }
    search
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic, and nobody ends it")
}

async fn picture(control: &Control, search: &mut Search) -> Picture {
    let mut picture = Picture::default();
    for (session, listing) in control.listings(None).await {
        let owner = session.owner();
        let Some(listing) = listing else {
            search.silent.push(owner);
            continue;
        };
        if listing.entries.len() >= LISTING_MOST {
            search.partial.push(owner.clone());
        }
        picture.add(&session.namespace, &owner, listing);
    }
    picture
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
            if let Some((handle, request)) = victim {
                // Once more, if it was not heard the last time.
                control.abort(*handle, Abort { abort: request.clone(), cycle }).await;
            }
        }
        known = found.into_iter().map(|found| found.waits).collect();
    }
}
