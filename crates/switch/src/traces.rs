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
/// Where it says so in `began`.
const LAP_SHIFT: u32 = 58;

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
        let one_in = &self.globals().trace_one_in;
        if one_in.load(SeqCst) == 0 {
            // Who was stopped, or killed, in between has left what it followed.
            self.counters.follow_nothing();
        }
        one_in.store(count, SeqCst);
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
        let mut lost = 0;
        if reader.next < oldest {
            lost = oldest - reader.next;
            *reader = TraceReader { next: oldest, waits: false };
        }
        while reader.next < begun {
            let trace = &ring.of[reader.next as usize % TRACES];
            let ended_ns = trace.ended_ns.load(Acquire);
            let [request, began, what] = [&trace.request, &trace.began, &trace.what].map(|word| word.load(Acquire));
            let lap = reader.next / TRACES as u64 % LAPS;
            let is_of_this_lap = (what >> 2) % LAPS == lap && began >> LAP_SHIFT == lap;
            let is_whole = ended_ns != 0 && is_of_this_lap && trace.ended_ns.load(SeqCst) == ended_ns;
            // Its place was begun again while it was read.
            let is_gone = ring.begun.load(SeqCst) > reader.next + TRACES as u64;
            if !is_whole && !is_gone && !std::mem::replace(&mut reader.waits, true) {
                return lost;
            }
            reader.waits = false;
            reader.next += 1;
            if is_whole && !is_gone {
                each(Traced::new(request, began & ((1 << LAP_SHIFT) - 1), ended_ns, what));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SwitchConfig;
    use crate::counters::LANE;
    use std::net::{Ipv4Addr, SocketAddrV4};
    use wayside_protocol::Time;

    /// A thread was stopped, or a daemon killed, while it decided on what it followed. The next packet of its lane, a
    /// stranger's, does not end that.
    #[test]
    fn nobody_ends_what_another_one_began() {
        let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 1 });
        let mut reader = switch.trace_reader();
        let ring = &switch.traces[0];
        ring.of[0].request.store(7, SeqCst);
        ring.begun.store(1, SeqCst);
        let (lane, ..) = switch.counters.lane();
        // SAFETY: the last word of this thread's lane.
        unsafe { &*lane.add(LANE - 1) }.store(0x8000, SeqCst);
        switch.set_trace_one_in(1);
        switch.process(Time(0), &mut [0; 64], SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
        let mut told = Vec::new();
        let lost: u64 = (0..2).map(|_| switch.read_traces(&mut reader, |one| told.push(one))).sum();
        assert_eq!((told, lost), (Vec::new(), 1), "it waits once, and is passed over");
    }
}
