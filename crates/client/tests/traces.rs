//! Traces of the client: spans of one request, from the process that asks and from the one that keeps the books, are
//! one trace. One test, for a process has one tracer provider.

mod support;

use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, Value, global};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::{TestSwitch, eventually};

/// Keeps every span that has ended.
#[derive(Clone, Debug, Default)]
struct Shelf(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for Shelf {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().unwrap().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Shelf {
    fn take(&self, name: &str) -> Vec<SpanData> {
        self.0.lock().unwrap().extract_if(.., |span| span.name == name).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().iter().any(|span| span.name == name)
    }
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    let value = found.unwrap_or_else(|| panic!("no {key} in {span:?}")).value.clone();
    if let Value::String(text) = value { text.to_string() } else { value.to_string() }
}

fn events(span: &SpanData) -> Vec<String> {
    span.events.iter().map(|event| event.name.to_string()).collect()
}

#[test]
fn a_request_is_one_trace_wherever_it_goes() {
    let shelf = Shelf::default();
    let provider = SdkTracerProvider::builder().with_span_processor(shelf.clone()).build();
    global::set_tracer_provider(provider.clone());
    let switch = TestSwitch::start();

    // Off by default.
    let quiet = switch.session();
    drop(quiet.lock(1u64).acquire().unwrap());
    quiet.close();
    assert!(shelf.0.lock().unwrap().is_empty());

    let (holder, waiter) = (switch.builder().trace_one_in(1), switch.builder().trace_one_in(1));
    let (holder, waiter) = (holder.connect().unwrap(), waiter.connect().unwrap());
    let guard = holder.lock(7u64).acquire().unwrap();
    let first = shelf.take("wayside.acquire").pop().expect("one request, one span");
    assert_eq!(events(&first), ["sent", "granted"]);
    assert_eq!(attribute(&first, "wayside.path"), "switch");
    assert_eq!(attribute(&first, "wayside.slot"), "7");
    assert_eq!(attribute(&first, "wayside.retransmissions"), "0");
    assert_eq!(attribute(&first, "wayside.tenure"), guard.token().stamp().tenure.to_string());
    assert_eq!(attribute(&first, "wayside.request"), format!("{:032x}", first.span_context.trace_id())[16..]);

    // Queued at the holder's agent, and handed over; within a span of the application's own.
    const WAITS: Duration = Duration::from_millis(50);
    let releasing = thread::spawn(move || {
        thread::sleep(WAITS);
        drop(guard);
    });
    let application = provider.tracer("application").start("order");
    let context = Context::current_with_value(()).with_span(application);
    let entered = context.clone().attach();
    let handed = waiter.lock(7u64).acquire().unwrap();
    drop(entered);
    releasing.join().unwrap();
    let asked = shelf.take("wayside.acquire").pop().expect("one request, one span");
    assert_eq!(events(&asked).last().map(String::as_str), Some("granted"));
    assert_eq!(asked.links.iter().map(|link| &link.span_context).collect::<Vec<_>>(), [context.span().span_context()]);
    eventually(|| shelf.has("wayside.agent"));
    let agent = shelf.take("wayside.agent").pop().unwrap();
    assert_eq!(agent.span_context.trace_id(), asked.span_context.trace_id());
    assert_eq!(agent.parent_span_id, asked.parent_span_id);
    assert_ne!(agent.span_context.trace_id(), first.span_context.trace_id());
    assert_eq!(attribute(&agent, "wayside.outcome"), "transferred");
    let queued: u64 = attribute(&agent, "wayside.queued_us").parse().unwrap();
    let waited: u64 = attribute(&asked, "wayside.send_to_grant_us").parse().unwrap();
    assert!(queued > 0 && queued <= waited, "{queued} us of {waited} us");
    assert!(agent.start_time >= asked.start_time && agent.end_time <= asked.end_time);
    drop(handed);

    // What is lost is sent again.
    switch.faults.mute.store(true, SeqCst);
    let lost = thread::spawn(move || waiter.lock(8u64).acquire().map(|_| waiter));
    thread::sleep(Duration::from_millis(30));
    switch.faults.mute.store(false, SeqCst);
    let waiter = lost.join().unwrap().unwrap();
    let again = shelf.take("wayside.acquire").pop().unwrap();
    let repeats: u64 = attribute(&again, "wayside.retransmissions").parse().unwrap();
    assert!(repeats >= 1);
    assert_eq!(events(&again).iter().filter(|event| *event == "sent").count() as u64, repeats + 1);

    // A refusal has its reason.
    let held = holder.lock(9u64).acquire().unwrap();
    shelf.take("wayside.acquire");
    waiter.lock(9u64).try_lock().unwrap_err();
    let refused = shelf.take("wayside.acquire").pop().unwrap();
    assert_eq!(attribute(&refused, "wayside.result"), "busy");
    drop(held);

    // One in four, by the request's id, whoever asks.
    let sampled = switch.builder().trace_one_in(4).connect().unwrap();
    (0..400u64).for_each(|name| drop(sampled.lock(1_000 + name).acquire().unwrap()));
    let spans = shelf.take("wayside.acquire");
    assert!((50..200).contains(&spans.len()), "{} of 400", spans.len());
    for span in spans {
        let request = u64::from_str_radix(&attribute(&span, "wayside.request"), 16).unwrap();
        assert!(wayside_wire::mix(request).is_multiple_of(4));
    }
}
