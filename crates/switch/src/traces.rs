//! Decisions that are followed, as `dataplane/trace.h` writes them down: of one request in so many, when the core began
//! to decide, when it had, and what became of it. Allocated here or shared with the core at the hook.
//!
//! Invariant: what is read was written whole, and by one decision: its place was not begun again meanwhile.

use std::sync::atomic::Ordering::{Acquire, SeqCst};

use wayside_protocol::RequestId;
use wayside_wire::DropReason;

use crate::layout::{RawVerdict, TRACES, Traces};
use crate::verdict::{Action, Verdict};
use crate::zeroed::Zeroed;
use crate::{Switch, memory};

/// A decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Of which request.
    pub request: RequestId,
    /// When it began, in nanoseconds of CLOCK_MONOTONIC,
    pub began_ns: u64,
    /// and ended.
    pub ended_ns: u64,
    /// The namespace of the packet,
    pub namespace: u16,
    /// its service,
    pub service: u8,
    /// and the kind that it has become, or stayed.
    pub kind: u8,
    /// Where it goes.
    pub action: Action,
    /// Why it was dropped or refused; otherwise [`DropReason::None`].
    pub reason: DropReason,
}

impl Traced {
    /// `what`: as `struct ws_trace` has it.
    fn new(request: u64, began_ns: u64, ended_ns: u64, what: u64) -> Traced {
        let raw = RawVerdict {
            action: what as u8 & 3,
            // Of a place that is written at this moment it may be anything.
            reason: (what >> 8) as u8 % DropReason::ALL.len() as u8,
            handle: (what >> 16) as u16,
            port: 0,
            length: 0,
            copy: 0,
            reserved: 0,
        };
        let Verdict { action, reason, .. } = Verdict::from(raw);
        let (kind, service, namespace) = ((what >> 32) as u8, (what >> 40) as u8, (what >> 48) as u16);
        Traced { request: RequestId(request), began_ns, ended_ns, namespace, service, kind, action, reason }
    }
}

/// A place says of which lap it was written, modulo this.
const LAPS: u64 = 64;

/// Where a reader is.
#[derive(Clone, Copy, Debug)]
pub struct TraceReader {
    next: u64,
    /// The next one was not whole when it was looked at: once more, and it is passed over.
    waits: bool,
}

/// A table of one ring.
pub(crate) fn ring() -> Zeroed<Traces> {
    Zeroed::new(1)
}

impl Switch {
    /// Of so many requests one is followed; 0: none. Which ones follows from their ids, as
    /// [`mix`](wayside_wire::mix) has them: wherever it is the same number, they are the same requests.
    pub fn set_trace_one_in(&self, count: u32) {
        self.globals().trace_one_in.store(count, SeqCst);
    }

    /// From the next one that is followed.
    pub fn trace_reader(&self) -> TraceReader {
        TraceReader { next: self.traces[0].begun.load(Acquire), waits: false }
    }

    /// Those that have been followed since the reader looked last. Returns how many of them are lost: overwritten, for
    /// there is room for 512.
    pub fn read_traces(&self, reader: &mut TraceReader, mut each: impl FnMut(Traced)) -> u64 {
        let ring = &self.traces[0];
        let begun = ring.begun.load(Acquire);
        let oldest = begun.saturating_sub(TRACES as u64);
        let mut lost = oldest.saturating_sub(reader.next);
        reader.next = reader.next.max(oldest);
        while reader.next < begun {
            let trace = &ring.of[reader.next as usize % TRACES];
            let ended_ns = trace.ended_ns.load(Acquire);
            let [request, began_ns, what] =
                [&trace.request, &trace.began_ns, &trace.what].map(|word| word.load(Acquire));
            let is_of_this_lap = (what >> 2) % LAPS == reader.next / TRACES as u64 % LAPS;
            let is_whole = ended_ns != 0 && is_of_this_lap && trace.ended_ns.load(SeqCst) == ended_ns;
            // Its place was begun again while it was read.
            let is_gone = ring.begun.load(SeqCst) > reader.next + TRACES as u64;
            if !is_whole && !is_gone && !std::mem::replace(&mut reader.waits, true) {
                return lost;
            }
            reader.waits = false;
            reader.next += 1;
            if is_whole && !is_gone {
                each(Traced::new(request, began_ns, ended_ns, what));
            } else {
                lost += 1;
            }
        }
        lost
    }

    fn globals(&self) -> &crate::layout::Globals {
        let memory::Memory { globals, .. } = &self.memory;
        &globals[0]
    }
}
