//! The admin port: for other hosts the control protocol's JSON lines, for those who watch over the daemon HTTP. The
//! first byte of a connection tells which: HTTP begins with the capital letter of a method, JSON never does.
//!
//! Against strangers: a connection says its first byte within 10 s, and at most 256 have not said it; one more ends the
//! one that has been silent longest, so connections that are only held open keep nobody out. From that byte on one with
//! JSON takes one of the places that `control.rs` has for other hosts. HTTP has 64 of its own, and one more ends the
//! oldest: whatever strangers hold open, a probe is answered, or a host that watches over the daemon would restart it.
//! It is one request of at most 8 KiB a connection, which is over after 10 s, whoever has not written or read by then.

use super::control::{Control, PATIENCE, STRANGERS, rest};
use super::metrics::{Ledger, Scrape};
use crate::answers::Role;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Connections with HTTP: an answer takes milliseconds, a second at most.
const WATCHERS: usize = 64;
/// The least that hyper reads into. A scrape's request has 300 bytes.
const REQUEST: usize = 8 << 10;
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What is at the admin port.
pub struct Admin {
    control: Arc<Control>,
    ledger: Arc<Ledger>,
    /// Connections that have not said anything.
    silent: Mutex<Crowd>,
    /// Those with HTTP.
    watchers: Mutex<Crowd>,
}

/// Connections, the oldest first, which makes room for one more than there may be: one whose sender is dropped ends.
struct Crowd {
    most: usize,
    next: u64,
    of: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Crowd {
    fn of(most: usize) -> Mutex<Crowd> {
        Mutex::new(Crowd { most, next: 0, of: BTreeMap::new() })
    }

    /// Its number, and what becomes ready when it has to make room.
    fn enter(&mut self) -> (u64, oneshot::Receiver<()>) {
        if self.of.len() >= self.most {
            self.of.pop_first();
        }
        let (stay, evicted) = oneshot::channel();
        self.next += 1;
        self.of.insert(self.next, stay);
        (self.next, evicted)
    }
}

fn locked(crowd: &Mutex<Crowd>) -> MutexGuard<'_, Crowd> {
    crowd.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admin {
    pub fn new(control: Arc<Control>, ledger: Arc<Ledger>) -> Arc<Admin> {
        Arc::new(Admin { control, ledger, silent: Crowd::of(STRANGERS), watchers: Crowd::of(WATCHERS) })
    }

    /// Accepts for ever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (number, evicted) = locked(&self.silent).enter();
                    tokio::spawn(Arc::clone(&self).hear(stream, number, evicted));
                }
                Err(error) => rest(&error).await,
            }
        }
    }

    async fn hear(self: Arc<Self>, stream: TcpStream, number: u64, evicted: oneshot::Receiver<()>) {
        let mut first = [0];
        let heard = tokio::select! {
            heard = timeout(PATIENCE, stream.peek(&mut first)) => heard,
            _ = evicted => return,
        };
        locked(&self.silent).of.remove(&number);
        match (heard, first) {
            (Ok(Ok(1..)), [b'A'..=b'Z']) => self.converse(stream).await,
            (Ok(Ok(1..)), _) => self.control.start_elsewhere(stream),
            _ => {}
        }
    }

    /// One request and its answer.
    async fn converse(&self, stream: TcpStream) {
        let (number, evicted) = locked(&self.watchers).enter();
        let service = service_fn(async |request| Ok::<_, Infallible>(self.answer(&request).await));
        let mut http = http1::Builder::new();
        http.keep_alive(false).max_buf_size(REQUEST).header_read_timeout(None);
        let over = tokio::select! {
            over = timeout(PATIENCE, http.serve_connection(TokioIo::new(stream), service)) => over,
            _ = evicted => return,
        };
        locked(&self.watchers).of.remove(&number);
        match over {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection ended"),
            Err(_) => tracing::debug!("an HTTP connection took too long"),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
            refusal.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("a constant"));
            return refusal;
        }
        let facts = self.control.facts();
        match request.uri().path() {
            "/metrics" => {
                let scrape = Scrape {
                    facts,
                    numbers: self.control.numbers().await,
                    backlog_full: self.control.overflowed(),
                    connected: self.control.connected().await,
                    refused: self.control.refused(),
                    deadlocks: self.control.deadlocks.counts(),
                };
                response(StatusCode::OK, super::metrics::FORMAT, scrape.text(&self.ledger))
            }
            "/livez" => response(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" => self.ready(request.uri().query() == Some("verbose")).await,
            "/version" => {
                let version = serde_json::json!({
                    "version": env!("CARGO_PKG_VERSION"),
                    "protocol": format!("{}.{}", wayside_wire::MAJOR, wayside_wire::MINOR),
                    "mode": facts.residence.mode,
                    "mode_reason": facts.residence.reason,
                    "ports": facts.residence.ports,
                });
                response(StatusCode::OK, JSON, format!("{version}\n"))
            }
            _ => {
                let there = "there are /metrics, /livez, /readyz and /version\n";
                response(StatusCode::NOT_FOUND, TEXT, there.into())
            }
        }
    }

    /// Whether a client that comes now gets its locks, and if not, why not.
    async fn ready(&self, verbose: bool) -> Response<Full<Bytes>> {
        let why = match self.control.role() {
            Role::Standby { .. } => "another switch of the shard does, or none",
            _ => "the locks of earlier sessions are being recovered",
        };
        let checks = [
            ("serving", self.control.facts().is_serving(), why),
            ("controller", self.control.numbers().await.is_some(), "it has not answered within a second"),
            ("store", self.ledger.commits.succeed(), "the controller's records can't be written; the log says why"),
        ];
        let ready = checks.iter().all(|(_, good, _)| *good);
        let mut text = String::new();
        for (name, good, why) in checks {
            // Writing to a string cannot fail.
            let _ = match good {
                true if verbose => writeln!(text, "[+] {name}: ok"),
                true => Ok(()),
                false => writeln!(text, "[-] {name}: {why}"),
            };
        }
        text.push_str(if ready { "ok\n" } else { "not ready\n" });
        response(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, TEXT, text)
    }
}

fn response(status: StatusCode, format: &'static str, body: String) -> Response<Full<Bytes>> {
    let head = Response::builder().status(status).header(CONTENT_TYPE, format).header(CACHE_CONTROL, "no-store");
    head.body(body.into()).expect("constant headers are valid")
}
