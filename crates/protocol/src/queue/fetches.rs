//! Grants by way of this node: the switch has sent a grant here first, with what its holder wants to know, and the
//! holder is waiting for both.
//!
//! Invariants
//! * An answer names request and ticket of its own FETCH: the switch lets it through while that ticket holds, and to
//!   nobody else.
//! * What is asked of an earlier session of this node, or of its handle, is not answered.
//! * Who does not serve says so at once, so that nobody waits for it; and so does who has as many questions of its
//!   session to answer as there may be.

use super::{Link, is_exclusive};
use crate::mutant::Mutant;
use crate::{Handle, Mode, RequestId, Token};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wayside_wire::{Fetch as Body, Header, header_flag, kind};

/// What a holder wants to know of this node, with the grant that it will get by the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Name id of the lock.
    pub name: u64,
    /// How it is held.
    pub mode: Mode,
    /// Token of the hold: a resource refuses tokens below the highest that it has seen.
    pub token: Token,
    /// Handle of the holder's node.
    pub holder: Handle,
    /// Which of its requests.
    pub request: RequestId,
    /// What it asks.
    pub ask: Vec<u8>,
    pub(super) ticket: u64,
    pub(super) epoch: u32,
    /// Of the session that was asked.
    pub(super) incarnation: u64,
    pub(super) sent_us: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Fetches {
    /// Somebody here answers them.
    serves: bool,
    /// Nobody has taken them yet.
    waiting: VecDeque<Fetch>,
    /// Of this session, taken, and not answered.
    taken: usize,
    /// The latest, for a broken rule.
    latest: Option<(u64, RequestId)>,
}

/// Questions without an answer.
const OPEN_MOST: usize = 1_024;

impl Fetches {
    /// From now on somebody here answers them, or nobody does.
    pub fn serve(&mut self, serves: bool) {
        self.serves = serves;
    }

    /// FETCH: granted, and asked. `incarnation`: of this node's session.
    pub fn on_fetch(&mut self, link: &mut Link<'_>, header: &Header, incarnation: u64, body: &Body, ask: &[u8]) {
        // The switch alone says that something is granted.
        if header.source != 0 || body.ticket == 0 || body.incarnation != incarnation {
            return;
        }
        let fetch = Fetch {
            name: body.name,
            mode: if is_exclusive(body.flags) { Mode::Exclusive } else { Mode::Shared },
            token: Token::of_ticket(header.epoch, body.ticket),
            holder: body.holder,
            request: RequestId(body.request),
            ask: ask.into(),
            ticket: body.ticket,
            epoch: header.epoch,
            incarnation,
            sent_us: body.sent_us,
        };
        if !self.serves || self.waiting.len() + self.taken >= OPEN_MOST {
            return send(link, &fetch, (fetch.ticket, fetch.request), None);
        }
        self.latest = Some((fetch.ticket, fetch.request));
        self.waiting.push_back(fetch);
    }

    /// The next one that nobody has taken.
    pub fn take(&mut self) -> Option<Fetch> {
        let fetch = self.waiting.pop_front()?;
        self.taken += 1;
        Some(fetch)
    }

    /// Once for each that was taken, to the holder: its grant, and what it asked for, or that there is no answer.
    /// Nothing, where the session that was asked is over, or the epoch of the grant.
    pub fn answer(
        &mut self,
        link: &mut Link<'_>,
        incarnation: u64,
        fetch: &Fetch,
        data: Option<&[u8]>,
        mutant: Option<Mutant>,
    ) {
        if fetch.incarnation != incarnation {
            return;
        }
        self.taken = self.taken.saturating_sub(1);
        if fetch.epoch != link.header.epoch {
            return;
        }
        let mut of = (fetch.ticket, fetch.request);
        if mutant == Some(Mutant::AnswerLatest) {
            of = self.latest.unwrap_or(of);
        }
        send(link, fetch, of, data);
    }

    /// The session is over.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.taken = 0;
    }
}

/// FETCHED, by ticket and request.
fn send(link: &mut Link<'_>, fetch: &Fetch, of: (u64, RequestId), data: Option<&[u8]>) {
    let flags = if data.is_some() { 0 } else { header_flag::REFUSED };
    let header = Header { kind: kind::queue::FETCHED, destination: fetch.holder, flags, ..link.header };
    let body = Body {
        name: fetch.name,
        request: of.1.0,
        ticket: of.0,
        holder: fetch.holder,
        sent_us: fetch.sent_us,
        ..Body::default()
    };
    link.send_blocks(0, header, &body, data.unwrap_or_default());
}
