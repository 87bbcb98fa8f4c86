//! Traces end to end: spans of acquires go through the exporter that applications use, in batches, over OTLP/HTTP, to a
//! collector in this process. One test, for a process has one tracer provider.

mod support;

use opentelemetry::global;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use support::TestSwitch;

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// HTTP/1.1 for one request a connection: the exporter's own clients would be most of what this crate's tests compile.
#[derive(Debug)]
struct Plain;

impl HttpClient for Plain {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { post(&request) })
    }
}

fn post(request: &Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let authority = request.uri().authority().ok_or("no host")?;
    let mut stream = TcpStream::connect(authority.as_str())?;
    let mut head = format!("{} {} HTTP/1.1\r\nhost: {authority}\r\n", request.method(), request.uri().path());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str()?));
    }
    head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", request.body().len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(request.body())?;
    let (status, _, body) = read(stream)?;
    let code: u16 = status.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok(Response::builder().status(code).body(body.into())?)
}

/// The first line, the other ones, and the body.
fn read(stream: impl Read) -> std::io::Result<(String, Vec<String>, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_lowercase()),
        }
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
    Ok((first, lines, body))
}

/// What a collector is sent: who says it, and the spans.
type Batch = (String, Vec<Span>);

/// Takes batches until the process ends.
fn collector() -> (SocketAddr, Receiver<Batch>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (first, lines, body) = read(&stream).expect("a request");
            assert_eq!(first, "post /v1/traces http/1.1");
            assert!(lines.iter().any(|line| line == "content-type: application/x-protobuf"), "{lines:?}");
            for resource in ExportTraceServiceRequest::decode(&body[..]).expect("OTLP").resource_spans {
                let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
                let service =
                    attributes.into_iter().find(|one| one.key == "service.name").expect("the exporter says it");
                let spans = resource.scope_spans.into_iter().flat_map(|scope| {
                    assert_eq!(scope.scope.expect("a scope").name, "wayside");
                    scope.spans
                });
                // The test may be over.
                let _ = sender.send((text(service.value.and_then(|value| value.value)), spans.collect()));
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("it waits for an answer");
        }
    });
    (address, receiver)
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("no attribute of ours: {other:?}"),
    }
}

fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    text(found.unwrap_or_else(|| panic!("no {key} in {span:?}")).value.clone().and_then(|value| value.value))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn spans_of_sampled_acquires_reach_a_collector() {
    let (address, batches) = collector();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("http://{address}/v1/traces"))
        .with_http_client(Plain)
        .build()
        .expect("an exporter");
    let resource = Resource::builder().with_service_name("orders").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    global::set_tracer_provider(provider.clone());

    let switch = TestSwitch::start();
    let session = switch.builder().trace_one_in(4).connect().expect("a session");
    let mut stamps = Vec::new();
    for name in 0..100u64 {
        let guard = session.lock(name).acquire().expect("a free lock");
        stamps.push((name, guard.token().stamp()));
    }
    provider.force_flush().expect("the collector answers");
    // A flush is over once the collector has answered.
    let mut spans = Vec::new();
    while let Ok((service, more)) = batches.recv_timeout(if spans.is_empty() { PATIENCE } else { Duration::ZERO }) {
        assert_eq!(service, "orders");
        spans.extend(more);
    }
    assert!((5..60).contains(&spans.len()), "one in four of 100 is not {}", spans.len());
    for span in &spans {
        assert_eq!(span.name, "wayside.acquire");
        assert_eq!(hex(&span.trace_id)[16..], attribute(span, "wayside.request"));
        // The switch's part, as its answer tells it: it granted, in one round trip, in this epoch and tenure of the
        // slot.
        assert_eq!(attribute(span, "wayside.path"), "switch");
        let slot: u64 = attribute(span, "wayside.slot").parse().expect("a number");
        let (_, stamp) = stamps.iter().find(|(name, _)| *name == slot).expect("numbers are their own slots");
        assert_eq!(attribute(span, "wayside.epoch"), stamp.epoch.to_string());
        assert_eq!(attribute(span, "wayside.tenure"), stamp.tenure.to_string());
        let events: Vec<&str> = span.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!((events.first(), events.last()), (Some(&"sent"), Some(&"granted")));
        let granted = span.events.last().expect("a line above");
        assert_eq!(text(granted.attributes[0].value.clone().and_then(|value| value.value)), "0", "by the switch");
        assert!(
            granted.time_unix_nano >= span.start_time_unix_nano && granted.time_unix_nano <= span.end_time_unix_nano
        );
    }
    session.close();

    // What the switch is not asked about is told, too.
    let session = switch.builder().trace_one_in(1).connect().expect("a session");
    let shared = || session.lock(200u64).shared().acquire().expect("nobody else wants it");
    let guards = [shared(), shared()];
    provider.force_flush().expect("the collector answers");
    let spans: Vec<Span> = batches.recv_timeout(PATIENCE).expect("both in one batch").1;
    let told =
        |span: &Span| (attribute(span, "wayside.path"), span.events.iter().filter(|one| one.name == "sent").count());
    assert_eq!(spans.iter().map(told).collect::<Vec<_>>(), [("switch".into(), 1), ("local".into(), 0)]);
    drop(guards);
    provider.shutdown().expect("it has nothing left");
}
