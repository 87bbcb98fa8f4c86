//! Traces of single requests, as spans of OpenTelemetry: of an acquire, in the process that asks, and of its stay at
//! the agent, in the process that keeps the lock's books.
//!
//! Which requests are traced follows from their ids, which every packet carries and which no other request of the
//! cluster has: so all processes that trace one in as many trace the same ones, without a word in any packet. The id
//! makes the trace's id too, and thereby one trace of the spans of all processes.

use super::{Failure, word_of_mode, word_of_path};
use opentelemetry::trace::{
    Span, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue, global};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use wayside_protocol::{Mode, Path, RequestId, Token};
use wayside_wire::{Entry, Header, check, entries, kind, mix, service};

/// Requests that an agent is seen to keep at a time; beyond, the oldest is forgotten. One that waits for an hour is
/// worth no more memory than that.
const KEPT_MOST: usize = 1_024;

/// Of one session.
#[derive(Debug)]
pub(super) struct Traces {
    namespace: String,
    one_in: u64,
    /// Own requests that wait.
    own: Mutex<HashMap<u64, Vec<Step>>>,
    /// Others' requests, and own ones, that an agent here keeps waiting.
    kept: Mutex<HashMap<u64, Kept>>,
    /// What the background thread gives away.
    finished: Mutex<Vec<Finished>>,
}

/// What happened to a request on its way.
#[derive(Debug)]
struct Step {
    what: &'static str,
    at: SystemTime,
    /// Handle of the packet's sender; 0: the switch.
    source: u16,
}

#[derive(Debug)]
struct Kept {
    since: SystemTime,
    /// Came with the books of an earlier agent.
    inherited: bool,
    hops: u16,
}

#[derive(Debug)]
struct Finished {
    request: u64,
    kept: Kept,
    until: SystemTime,
    outcome: &'static str,
    entry: Entry,
    epoch: u32,
}

impl Traces {
    pub(super) fn new(namespace: &str, one_in: u64) -> Traces {
        let (own, kept, finished) = Default::default();
        Traces { namespace: namespace.into(), one_in, own, kept, finished }
    }

    fn is_traced(&self, request: u64) -> bool {
        mix(request).is_multiple_of(self.one_in)
    }

    /// The entries of a packet of locks that are about traced requests, and where in it they are.
    fn traced<'a>(&'a self, packet: &'a [u8]) -> Option<(Header, impl Iterator<Item = (usize, Entry)> + 'a)> {
        let header = check(packet).ok().filter(|header| header.service == service::LOCK)?;
        let traced = entries(packet).enumerate().filter(|(_, entry)| self.is_traced(entry.request));
        Some((header, traced))
    }

    pub(super) fn sent(&self, packet: &[u8]) {
        let Some((header, entries)) = self.traced(packet) else { return };
        for (index, entry) in entries {
            match (header.kind, index) {
                (kind::lock::ACQUIRE, _) => self.step(entry.request, "sent", 0),
                (kind::lock::GRANT, 0) => self.finish(&header, entry, "granted"),
                (kind::lock::RETENURE, 0) => self.finish(&header, entry, "transferred"),
                (kind::lock::BUSY, _) => self.finish(&header, entry, "refused"),
                (kind::lock::RETENURE | kind::lock::QUEUE, _) => self.finish(&header, entry, "moved"),
                _ => {}
            }
        }
    }

    pub(super) fn received(&self, packet: &[u8]) {
        let Some((header, entries)) = self.traced(packet) else { return };
        for (index, entry) in entries {
            match (header.kind, index) {
                (kind::lock::ACQUIRE, _) => self.keep(entry.request, false, header.position),
                (kind::lock::GRANT, 0) => self.step(entry.request, "granted", header.source),
                (kind::lock::GRANT | kind::lock::QUEUE, _) => self.keep(entry.request, true, 0),
                (kind::lock::BUSY, _) => self.step(entry.request, "busy", header.source),
                (kind::lock::RECOVERING, _) => self.step(entry.request, "recovering", 0),
                (kind::lock::REJECT, _) => self.step(entry.request, "over budget", 0),
                (kind::lock::RELEASE | kind::lock::CANCEL, _) => self.finish(&header, entry, "cancelled"),
                _ => {}
            }
        }
    }

    fn step(&self, request: u64, what: &'static str, source: u16) {
        if let Some(steps) = self.own.lock().get_mut(&request) {
            steps.push(Step { what, at: SystemTime::now(), source });
        }
    }

    fn keep(&self, request: u64, inherited: bool, hops: u16) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT_MOST && !kept.contains_key(&request) {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.since).map(|(request, _)| *request);
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        // A repeated ACQUIRE finds the first one waiting.
        kept.entry(request).or_insert_with(|| Kept { since: SystemTime::now(), inherited, hops });
    }

    fn finish(&self, header: &Header, entry: Entry, outcome: &'static str) {
        let Some(kept) = self.kept.lock().remove(&entry.request) else { return };
        let (request, until, epoch) = (entry.request, SystemTime::now(), header.epoch);
        self.finished.lock().push(Finished { request, kept, until, outcome, entry, epoch });
    }

    /// Spans of the agents' doings.
    pub(super) fn flush(&self) {
        let finished = std::mem::take(&mut *self.finished.lock());
        for Finished { request, kept, until, outcome, entry, epoch } in finished {
            let queued = until.duration_since(kept.since).unwrap_or_default();
            let attributes = [
                KeyValue::new("wayside.outcome", outcome),
                KeyValue::new("wayside.inherited", kept.inherited),
                KeyValue::new("wayside.hops", i64::from(kept.hops)),
                KeyValue::new("wayside.queued_us", queued.as_micros() as i64),
                KeyValue::new("wayside.slot", i64::from(entry.slot)),
                KeyValue::new("wayside.tenure", i64::from(entry.tenure)),
                KeyValue::new("wayside.epoch", i64::from(epoch)),
            ];
            let mut span = self.begin("wayside.agent", SpanKind::Server, request, kept.since, attributes.into());
            span.end_with_timestamp(until);
        }
    }

    fn begin(
        &self,
        name: &'static str,
        kind: SpanKind,
        request: u64,
        since: SystemTime,
        mut attributes: Vec<KeyValue>,
    ) -> global::BoxedSpan {
        attributes.push(KeyValue::new("wayside.request", format!("{request:016x}")));
        attributes.push(KeyValue::new("wayside.namespace", self.namespace.clone()));
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_start_time(since).with_attributes(attributes);
        let parent = Context::new().with_remote_span_context(context_of(request));
        // Not before: an application may install its provider after its sessions began.
        global::tracer("wayside").build_with_context(builder, &parent)
    }
}

/// What all spans of a request have as their parent: nobody's span, but the same in every process.
fn context_of(request: u64) -> SpanContext {
    let trace = TraceId::from(u128::from(mix(request)) << 64 | u128::from(request));
    SpanContext::new(trace, SpanId::from(request), TraceFlags::SAMPLED, true, TraceState::default())
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    traces: Arc<Traces>,
    mode: Mode,
    began: Instant,
    /// Of the application, where it has one at the time of the call.
    caller: SpanContext,
    request: Option<Asked>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    id: u64,
    slot: u32,
    name: u64,
}

impl Call {
    pub(super) fn new(traces: &Arc<Traces>, mode: Mode) -> Call {
        let caller = Context::map_current(|context| context.span().span_context().clone());
        Call { traces: Arc::clone(traces), mode, began: Instant::now(), caller, request: None }
    }

    /// Under the session's lock.
    pub(super) fn is(&mut self, RequestId(id): RequestId, slot: u32, name: u64) {
        if self.traces.is_traced(id) {
            self.request = Some(Asked { id, slot, name });
            self.traces.own.lock().insert(id, Vec::new());
        }
    }

    pub(super) fn granted(&mut self, path: Path, token: Token) {
        let stamp = token.stamp();
        let attributes = vec![
            KeyValue::new("wayside.result", "granted"),
            KeyValue::new("wayside.path", word_of_path(path)),
            KeyValue::new("wayside.forwarded", path == Path::Agent),
            KeyValue::new("wayside.tenure", i64::from(stamp.tenure)),
            KeyValue::new("wayside.epoch", i64::from(stamp.epoch)),
        ];
        self.end(attributes, Status::Unset);
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        let status = match failure {
            // Answers like any other.
            Failure::Busy | Failure::TimedOut | Failure::OverBudget | Failure::GivenUp => Status::Unset,
            Failure::Deadlock | Failure::Lost | Failure::Failed => Status::error(failure.word()),
        };
        self.end(vec![KeyValue::new("wayside.result", failure.word())], status);
    }

    fn end(&mut self, mut attributes: Vec<KeyValue>, status: Status) {
        let Some(Asked { id, slot, name }) = self.request.take() else { return };
        let steps = self.traces.own.lock().remove(&id).unwrap_or_default();
        let at = |what| move |step: &&Step| step.what == what;
        let sent = steps.iter().filter(at("sent")).count();
        attributes.extend([
            KeyValue::new("wayside.mode", word_of_mode(self.mode)),
            KeyValue::new("wayside.slot", i64::from(slot)),
            KeyValue::new("wayside.name_id", format!("{name:016x}")),
            KeyValue::new("wayside.retransmissions", sent.saturating_sub(1) as i64),
        ]);
        if let (Some(first), Some(granted)) = (steps.iter().find(at("sent")), steps.iter().find(at("granted"))) {
            let took = granted.at.duration_since(first.at).unwrap_or_default();
            attributes.push(KeyValue::new("wayside.send_to_grant_us", took.as_micros() as i64));
        }
        let now = SystemTime::now();
        let since = now.checked_sub(self.began.elapsed()).unwrap_or(now);
        let mut span = self.traces.begin("wayside.acquire", SpanKind::Client, id, since, attributes);
        for step in steps {
            let source = KeyValue::new("wayside.source", i64::from(step.source));
            span.add_event_with_timestamp(step.what, step.at, vec![source]);
        }
        if self.caller.is_valid() {
            span.add_link(self.caller.clone(), Vec::new());
        }
        span.set_status(status);
        span.end_with_timestamp(now);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.failed(Failure::GivenUp);
    }
}
