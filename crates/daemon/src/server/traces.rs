//! The switch's part of single requests, as spans for a collector of OpenTelemetry: what the core has followed
//! (`dataplane/trace.h`), by OTLP over HTTP. As JSON, which every collector takes at the same port: hyper and
//! serde_json are here anyway, and OpenTelemetry's own exporter would bring its SDK and protobuf's for a few lines.
//!
//! Invariant: nobody waits for a collector. What it does not take within its time is counted and given up.

use super::clock;
use super::namespaces::Namespaces;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::timeout;
use wayside_switch::{Action, Switch, Traced};
use wayside_wire::{DropReason, kind, mix, service};

/// Between two looks at what was followed: the core has room for 512.
const PERIOD: Duration = Duration::from_millis(100);
/// How long a collector is waited for; nobody looks meanwhile.
const ANSWER: Duration = Duration::from_secs(2);
/// Longest answer.
const LONGEST: usize = 64 << 10;
/// Between two complaints about it.
const COMPLAINT: Duration = Duration::from_secs(60);

/// What became of the spans, for the metrics.
#[derive(Debug, Default)]
pub struct Spans {
    pub sent: AtomicU64,
    /// Overwritten before the daemon looked.
    pub overwritten: AtomicU64,
    /// The collector did not take them.
    pub refused: AtomicU64,
}

/// Whoever tells a collector.
pub struct Teller {
    pub switch: Arc<Switch>,
    pub namespaces: Arc<Namespaces>,
    pub spans: Arc<Spans>,
    /// Its URL.
    pub collector: String,
    pub listen: SocketAddrV4,
    /// Where packets are decided.
    pub mode: String,
}

impl Teller {
    /// Until it is dropped. `one_in`: of so many requests one is followed from now on; 0: none.
    pub async fn run(self, mut one_in: watch::Receiver<u32>) {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let mut reader = self.switch.trace_reader();
        let mut next_complaint = Instant::now();
        // At the hook an earlier daemon's may go on, and what it was killed over.
        self.switch.set_trace_one_in(0);
        self.switch.set_trace_one_in(*one_in.borrow_and_update());
        loop {
            if let Ok(Err(_)) = timeout(PERIOD, one_in.changed()).await {
                return;
            }
            let is_off = *one_in.borrow_and_update() == 0;
            let mut traced = Vec::new();
            let lost = self.switch.read_traces(&mut reader, |one| traced.push(one));
            self.spans.overwritten.fetch_add(lost, Ordering::Relaxed);
            if !traced.is_empty() {
                let refused = self.tell(&client, &traced).await.unwrap_or_else(|why| {
                    if Instant::now() >= next_complaint {
                        next_complaint = Instant::now() + COMPLAINT;
                        tracing::warn!(collector = self.collector, why, "spans can't be told");
                    }
                    traced.len() as u64
                });
                self.spans.refused.fetch_add(refused, Ordering::Relaxed);
                self.spans.sent.fetch_add((traced.len() as u64).saturating_sub(refused), Ordering::Relaxed);
            } else if is_off {
                // What was begun before is over by the time that somebody switches it on again.
                reader = self.switch.trace_reader();
                if one_in.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// How many the collector refused, or why all of them.
    async fn tell(&self, client: &Client<HttpConnector, Full<Bytes>>, traced: &[Traced]) -> Result<u64, String> {
        let body = self.body(traced, wall_clock()).to_string();
        let request = Request::builder().method(Method::POST).uri(&self.collector);
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| error.to_string())?;
        let answer = timeout(ANSWER, async {
            let answer = client.request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status();
            // Read to its end, so that the connection is used again.
            let body = Limited::new(answer.into_body(), LONGEST).collect().await.map_err(|error| error.to_string())?;
            if status.is_success() { Ok(refused_of(&body.to_bytes())) } else { Err(format!("it answers {status}")) }
        });
        answer.await.unwrap_or_else(|_| Err("it does not answer in time".into()))
    }

    /// An ExportTraceServiceRequest. `began`: nanoseconds since 1970 when CLOCK_MONOTONIC was 0.
    fn body(&self, traced: &[Traced], began: u64) -> Value {
        let spans: Vec<Value> = traced.iter().map(|one| self.span(one, began)).collect();
        let resource = [
            attribute("service.name", "wayside-switch"),
            attribute("wayside.switch", &self.listen.to_string()),
            attribute("wayside.mode", &self.mode),
        ];
        let scope = json!({ "name": "wayside", "version": env!("CARGO_PKG_VERSION") });
        json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] })
    }

    /// Of the trace that the request's spans at the nodes are of, and with the same parent.
    fn span(&self, one: &Traced, began: u64) -> Value {
        let request = one.request.0;
        let mut attributes = vec![
            attribute("wayside.request", &format!("{request:016x}")),
            attribute("wayside.namespace", &self.namespaces.name_of(one.namespace)),
            attribute("wayside.outcome", outcome(one)),
        ];
        if let Action::ToNode { handle, .. } = one.action {
            attributes.push(json!({ "key": "wayside.to", "value": { "intValue": handle.to_string() } }));
        }
        if one.reason != DropReason::None {
            attributes.push(attribute("wayside.reason", one.reason.name()));
        }
        json!({
            "traceId": format!("{:016x}{request:016x}", mix(request)),
            "spanId": format!("{:016x}", mix(request ^ one.began_ns) | 1),
            "parentSpanId": format!("{request:016x}"),
            "flags": 1,
            "name": "wayside.switch",
            "kind": 2, // a server's
            "startTimeUnixNano": (began + one.began_ns).to_string(),
            "endTimeUnixNano": (began + one.ended_ns).to_string(),
            "attributes": attributes,
        })
    }
}

/// What an ExportTraceServiceResponse says of spans that were not taken; a number of 64 bits is a text in JSON.
fn refused_of(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let refused = &answer["partialSuccess"]["rejectedSpans"];
    refused.as_u64().or_else(|| refused.as_str()?.parse().ok()).unwrap_or(0)
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// What became of a request.
fn outcome(one: &Traced) -> &'static str {
    let is_forward = matches!(one.action, Action::ToNode { .. });
    match (one.service, one.kind) {
        _ if one.action == Action::Drop => "dropped",
        // An answer to one that came back from an agent goes to its holder by its handle.
        (service::LOCK, kind::lock::GRANT) => "granted",
        (service::LOCK, kind::lock::BUSY) | (service::QUEUE, kind::queue::BUSY) => "busy",
        (service::LOCK, kind::lock::RECOVERING) | (service::QUEUE, kind::queue::RECOVERING) => "recovering",
        (service::LOCK, kind::lock::REJECT) | (service::QUEUE, kind::queue::REJECT) => "rejected",
        (service::LOCK, kind::lock::ACQUIRE) | (service::QUEUE, kind::queue::ACQUIRE) if is_forward => "forwarded",
        // It has become the GRANT of whoever is next, or reminds the one who holds: who asked, asks again.
        (service::QUEUE, kind::queue::GRANT) if is_forward => "another one was told",
        (service::QUEUE, kind::queue::GRANT) => "granted",
        (service::QUEUE, kind::queue::FETCH) if is_forward => "granted by way of a third node",
        (service::QUEUE, kind::queue::QUEUED) => "queued",
        (service::QUEUE, kind::queue::RELEASED) => "over already",
        _ => "answered",
    }
}

/// Nanoseconds from 1970 to the moment when CLOCK_MONOTONIC began: it may be set meanwhile, so it is asked each time.
fn wall_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    now.saturating_sub(clock::monotonic_ns())
}
