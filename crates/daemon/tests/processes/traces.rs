//! The switch's part of single requests, as a collector of OpenTelemetry is told it (docs/metrics.md): OTLP over
//! HTTP, to a collector in this process.

use crate::support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::{Daemon, PATIENCE, end, eventually};
use wayside_client::Session;
use wayside_wire::mix;

/// Takes what it is told until the process ends: each answer's status, then the spans.
fn collector(status: &'static str) -> (SocketAddr, Receiver<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut stream = BufReader::new(stream.expect("a connection"));
                // The connection is kept.
                while let Some(told) = read(&mut stream) {
                    let resource = &told["resourceSpans"][0];
                    assert_eq!(attribute(&resource["resource"], "service.name"), "wayside-switch", "{told}");
                    let spans = resource["scopeSpans"][0]["spans"].as_array().expect("a list");
                    // The test may be over.
                    let _ = sender.send(spans.clone());
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
                    stream.get_mut().write_all(answer.as_bytes()).expect("it waits for an answer");
                }
            });
        }
    });
    (address, receiver)
}

/// The body of a request; None: the connection has ended.
fn read(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_lowercase()),
        }
    }
    assert_eq!(lines[0], "post /v1/traces http/1.1");
    assert!(lines.iter().any(|line| line == "content-type: application/json"), "{lines:?}");
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("it is told")];
    stream.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).expect("JSON"))
}

fn attribute(of: &Value, key: &str) -> String {
    let found = of["attributes"].as_array().expect("a list").iter().find(|one| one["key"] == key);
    let value = &found.unwrap_or_else(|| panic!("no {key} in {of}"))["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).expect("a text or a number").into()
}

fn text<'v>(span: &'v Value, key: &str) -> &'v str {
    span[key].as_str().unwrap_or_else(|| panic!("no {key} in {span}"))
}

fn nanoseconds(span: &Value, key: &str) -> u64 {
    text(span, key).parse().expect("a number")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

/// The next span of such an outcome.
fn next(spans: &Receiver<Vec<Value>>, outcome: &str) -> Value {
    loop {
        let some = spans.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no span with {outcome}"));
        if let Some(found) = some.into_iter().find(|span| attribute(span, "wayside.outcome") == outcome) {
            return found;
        }
    }
}

fn flags(address: SocketAddr) -> [String; 4] {
    let url = format!("http://{address}/v1/traces");
    ["--trace-one-in".into(), "1".into(), "--trace-collector".into(), url]
}

/// Takes a lock, and has another session wait for it: what the switch did for each.
fn check_two_requests(sessions: [Session; 2], spans: &Receiver<Vec<Value>>, mode: &str) {
    let [holder, waiter] = sessions;
    let before = now();
    let held = holder.lock("orders/7").acquire().expect("nobody has it");
    let granted = next(spans, "granted");
    let after = now();
    let request = attribute(&granted, "wayside.request");
    let id = u64::from_str_radix(&request, 16).expect("a request's id");
    assert_eq!(text(&granted, "name"), "wayside.switch");
    assert_eq!(text(&granted, "traceId"), format!("{:016x}{request}", mix(id)), "as the nodes' spans have it");
    assert_eq!((text(&granted, "parentSpanId"), text(&granted, "spanId").len()), (request.as_str(), 16));
    let (start, stop) = (nanoseconds(&granted, "startTimeUnixNano"), nanoseconds(&granted, "endTimeUnixNano"));
    // The clocks are read one after the other.
    assert!(before.saturating_sub(10_000_000) <= start && start <= stop && stop <= after, "{mode}: {granted}");
    assert_eq!(attribute(&granted, "wayside.namespace"), "default");
    let waited = waiter.lock("orders/7").wait(Duration::from_millis(100)).acquire();
    assert!(waited.is_err(), "it is held");
    let other = next(spans, "forwarded");
    assert_eq!(attribute(&other, "wayside.to"), "1", "to the agent of the first session");
    assert_ne!(attribute(&other, "wayside.request"), request);
    held.release().expect("held all the while");
}

#[test]
fn a_collector_is_told_what_the_switch_did_for_a_request() {
    let (address, spans) = collector("200 OK");
    let told = flags(address);
    let daemon = Daemon::start(&told.each_ref().map(String::as_str));
    let session = || support::builder().endpoint(daemon.address.to_string()).connect().expect("a session");
    check_two_requests([session(), session()], &spans, "userspace");
    eventually("the metrics count them", || daemon.scrape().contains("wayside_spans_total{result=\"sent\"} "));
    let text = daemon.scrape();
    assert!(text.contains("wayside_spans_total{result=\"refused\"} 0"), "{text}");
}

/// Off unless it is asked for; and it may be while the switch runs.
#[test]
fn it_is_switched_on_and_off_by_a_reload() {
    let (address, spans) = collector("200 OK");
    let file = |one_in: u32| format!("trace_one_in = {one_in}\ntrace_collector = 'http://{address}/v1/traces'\n");
    let daemon = Daemon::configured(&file(0), &[]);
    let session = support::builder().endpoint(daemon.address.to_string()).connect().expect("a session");
    let turn = || session.lock("orders/7").acquire().and_then(|guard| guard.release()).expect("nobody has it");
    let reload = |one_in: u32, said: &str| {
        daemon.configure(&file(one_in));
        assert_eq!(end(daemon.command(&["reload"])).stdout, format!("traces: {said}\n"));
    };
    turn();
    reload(1, "of every request; it was of no request");
    turn();
    let first = next(&spans, "granted");
    reload(0, "of no request; it was of every request");
    // What was followed before it heard of that is told once more.
    eventually("nobody is followed", || {
        turn();
        spans.recv_timeout(Duration::from_millis(500)).is_err()
    });
    assert!(!daemon.scrape().contains("wayside_spans_total{result=\"overwritten\"} 1"), "{first}");
}

/// Who waits in a queue of the switch is not told as granted, however often it asks.
#[test]
fn who_waits_in_a_queue_is_told_as_waiting() {
    let (address, spans) = collector("200 OK");
    let traces = format!("trace_one_in = 1\ntrace_collector = 'http://{address}/v1/traces'\n");
    let daemon = Daemon::configured(
        &format!("{traces}[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['hot']\n"),
        &[],
    );
    let session = || support::builder().endpoint(daemon.address.to_string()).connect().expect("a session");
    let (holder, waiter) = (session(), session());
    let held = holder.lock("hot").acquire().expect("nobody has it");
    next(&spans, "granted");
    assert!(waiter.lock("hot").wait(Duration::from_millis(300)).acquire().is_err(), "it is held");
    let queued = attribute(&next(&spans, "queued"), "wayside.request");
    held.release().expect("held all the while");
    waiter.lock("hot").acquire().and_then(|guard| guard.release()).expect("nobody has it");
    let again = next(&spans, "granted");
    assert_ne!(attribute(&again, "wayside.request"), queued, "of the one that had waited nothing was granted");
}

/// Locks do not wait for it.
#[test]
fn a_collector_that_refuses_or_is_not_there_costs_spans_alone() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    for address in [collector("503 Service Unavailable").0, nobody] {
        let told = flags(address);
        let daemon = Daemon::start(&told.each_ref().map(String::as_str));
        let session = support::builder().endpoint(daemon.address.to_string()).connect().expect("a session");
        for name in 0..10u64 {
            session.lock(name).acquire().and_then(|guard| guard.release()).expect("nobody has it");
        }
        eventually("what was not taken is counted", || {
            let text = daemon.scrape();
            text.contains("wayside_spans_total{result=\"sent\"} 0")
                && !text.contains("wayside_spans_total{result=\"refused\"} 0")
        });
    }
}

/// Where the kernel decides, and no process sees the packet.
#[cfg(feature = "xdp")]
mod at_the_hook {
    use super::support::world::World;
    use super::*;

    #[test]
    fn what_the_program_did_is_told_by_the_daemon() {
        let Some(world) = World::or_skip(1) else { return };
        let (address, spans) = world.switch.within(|| collector("200 OK"));
        let told = flags(address);
        let (_daemon, line) = world.daemon_with("native", &told.each_ref().map(String::as_str));
        assert!(line.starts_with("switch: native XDP"), "{line}");
        let sessions = [world.session(0), world.session(1)];
        check_two_requests(sessions, &spans, "native XDP");
        assert_eq!(world.count("received"), 0, "nothing went by the daemon's socket");
    }
}
