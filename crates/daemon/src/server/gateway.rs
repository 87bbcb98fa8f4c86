//! etcd's API as JSON over HTTP, which every etcd since 3.4 serves at its client port: the questions that are asked of it
//! here, and what it tells of changes. (Its gRPC would need protoc to build, and thirty crates more.)
//!
//! Invariant: any question may be asked twice. An endpoint that does not answer is left for the next one, whatever
//! became of the question there.

use crate::config::Sharing;
use crate::failure::Failure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Longest answer: a page of records is 1 MiB at most.
const LONGEST: usize = 16 << 20;

/// A connection to etcd, by any of its endpoints. Clones are the same.
#[derive(Clone)]
pub struct Gateway {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoints: Arc<[String]>,
    /// The endpoint that answered last.
    good: Arc<AtomicUsize>,
    /// How long each is waited for.
    attempt: Duration,
}

/// A key and what is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Entry {
    #[serde(with = "bytes")]
    pub key: Vec<u8>,
    #[serde(with = "bytes")]
    pub value: Vec<u8>,
    #[serde(with = "number")]
    pub mod_revision: u64,
}

/// What a range has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Range {
    pub header: Revision,
    pub kvs: Vec<Entry>,
    pub more: bool,
}

/// Which keys: one, or all from it to before another.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Keys {
    #[serde(with = "bytes")]
    pub key: Vec<u8>,
    #[serde(with = "bytes")]
    pub range_end: Vec<u8>,
    /// 0: all of them.
    pub limit: u32,
    /// Only those that were written at this revision or later.
    #[serde(with = "number")]
    pub min_mod_revision: u64,
    /// As they were then; 0: as they are.
    #[serde(with = "number")]
    pub revision: u64,
}

impl Keys {
    pub fn one(key: &str) -> Keys {
        Keys { key: key.into(), ..Keys::default() }
    }

    /// All that begin with it.
    pub fn beginning_with(prefix: &str) -> Keys {
        let mut range_end = prefix.as_bytes().to_vec();
        if let Some(last) = range_end.last_mut() {
            *last += 1;
        }
        Keys { key: prefix.into(), range_end, ..Keys::default() }
    }
}

/// A condition on one key.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target", rename_all = "UPPERCASE")]
pub enum Compare {
    /// Its value is this.
    Value {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "bytes")]
        value: Vec<u8>,
    },
    /// It was written last at this revision; 0: never.
    Mod {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "number")]
        mod_revision: u64,
    },
    /// It was written so often.
    Version {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "number")]
        version: u64,
    },
}

/// A key to write.
#[derive(Clone, Debug, Serialize)]
pub struct Put {
    #[serde(with = "bytes")]
    pub key: Vec<u8>,
    #[serde(with = "bytes")]
    pub value: Vec<u8>,
}

impl Put {
    pub fn new(key: &str, value: impl Into<Vec<u8>>) -> Put {
        Put { key: key.into(), value: value.into() }
    }
}

/// What became of a transaction.
pub enum Outcome {
    /// Done, at this revision.
    Done(u64),
    /// The condition did not hold; the key that was to be looked at then is this.
    Not(Range),
}

#[derive(Serialize)]
struct Transaction {
    compare: Vec<Compare>,
    success: Vec<Then>,
    failure: Vec<Then>,
}

#[derive(Serialize)]
enum Then {
    #[serde(rename = "request_put")]
    Put(Put),
    #[serde(rename = "request_range")]
    Look(Keys),
    #[serde(rename = "request_delete_range")]
    Delete(Keys),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Done {
    header: Revision,
    succeeded: bool,
    responses: Vec<Seen>,
}

/// How many changes etcd had seen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Revision {
    #[serde(with = "number")]
    pub revision: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Seen {
    response_range: Range,
}

/// A line of what is told.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    result: Happened,
    error: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Happened {
    canceled: bool,
    cancel_reason: String,
    #[serde(with = "number")]
    compact_revision: u64,
    events: Vec<Change>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Change {
    /// Missing: it was written.
    #[serde(rename = "type")]
    kind: String,
    kv: Entry,
}

/// What etcd tells of keys as they change, in order.
pub struct Watching {
    body: Incoming,
    /// What has come of the next line, or more.
    buffer: Vec<u8>,
    /// So much of it has no end of a line.
    scanned: usize,
}

impl Watching {
    /// The next keys that were written, each with what was written; none: something was deleted, or etcd had to say
    /// something else. Whoever gives up waiting loses nothing.
    ///
    /// # Errors
    /// If etcd tells no more: what changes from now on is not known, nor, maybe, what has changed.
    pub async fn next(&mut self) -> Result<Vec<Entry>, String> {
        loop {
            if let Some(end) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.scanned + end).collect();
                self.scanned = 0;
                return written(&line);
            }
            self.scanned = self.buffer.len();
            if self.scanned > LONGEST {
                return Err("etcd tells more at once than it may".into());
            }
            let frame = self.body.frame().await.ok_or("etcd tells no more")?.map_err(|error| reasons(&error))?;
            if let Ok(bytes) = frame.into_data() {
                self.buffer.extend_from_slice(&bytes);
            }
        }
    }
}

/// The keys that a line tells of.
fn written(line: &[u8]) -> Result<Vec<Entry>, String> {
    let told: Told = serde_json::from_slice(line).map_err(|error| format!("a line that is none of etcd's: {error}"))?;
    if let Some(error) = told.error {
        return Err(error.to_string());
    }
    let Happened { canceled, cancel_reason, compact_revision, events } = told.result;
    if canceled || compact_revision != 0 {
        return Err(format!("etcd has ended the watch: {cancel_reason} (forgotten before {compact_revision})"));
    }
    let is_write = |change: &Change| change.kind != "DELETE";
    Ok(events.into_iter().filter(is_write).map(|change| change.kv).collect())
}

impl Gateway {
    /// Asks nothing yet.
    ///
    /// # Errors
    /// If the files of certificates can't be used.
    pub fn new(sharing: &Sharing) -> Result<Gateway, Failure> {
        let tls = tls(sharing).map_err(|why| Failure::usage(format!("can't speak to etcd securely: {why}")))?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(sharing.serving_lease));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let endpoint = |text: &String| {
            let has_scheme = text.starts_with("http://") || text.starts_with("https://");
            let scheme = if has_scheme { "" } else { "http://" };
            format!("{scheme}{}", text.trim_end_matches('/'))
        };
        Ok(Gateway {
            client: Client::builder(TokioExecutor::new()).build(connector.wrap_connector(tcp)),
            endpoints: sharing.etcd.iter().map(endpoint).collect(),
            good: Arc::default(),
            // Of several, one that is silent leaves time for another.
            attempt: sharing.serving_lease / sharing.etcd.len().clamp(1, 2) as u32,
        })
    }

    /// What these keys are now, as a majority of etcd's members knows.
    ///
    /// # Errors
    /// What etcd says, or that it says nothing.
    pub async fn range(&self, keys: &Keys) -> Result<Range, String> {
        self.ask("range", keys).await
    }

    /// Writes all of `puts` if all conditions hold; otherwise tells how `look` is, if anything.
    ///
    /// # Errors
    /// As [`Gateway::range`]. It may have been done.
    pub async fn write_if(
        &self,
        conditions: Vec<Compare>,
        puts: Vec<Put>,
        look: Option<Keys>,
    ) -> Result<Outcome, String> {
        let transaction = Transaction {
            compare: conditions,
            success: puts.into_iter().map(Then::Put).collect(),
            failure: look.into_iter().map(Then::Look).collect(),
        };
        let done: Done = self.ask("txn", &transaction).await?;
        if done.succeeded {
            return Ok(Outcome::Done(done.header.revision));
        }
        Ok(Outcome::Not(done.responses.into_iter().next().unwrap_or_default().response_range))
    }

    /// Writes a key, or deletes it, whatever it is.
    ///
    /// # Errors
    /// As [`Gateway::write_if`].
    pub async fn write(&self, key: &str, value: Option<Vec<u8>>) -> Result<(), String> {
        let change = match value {
            Some(value) => Then::Put(Put::new(key, value)),
            None => Then::Delete(Keys::one(key)),
        };
        let transaction = Transaction { compare: Vec::new(), success: vec![change], failure: Vec::new() };
        self.ask::<Done>("txn", &transaction).await.map(|_| ())
    }

    /// Forgets what was overwritten before this revision.
    ///
    /// # Errors
    /// As [`Gateway::range`]; and if somebody has done so before.
    pub async fn compact(&self, revision: u64) -> Result<(), String> {
        let revision = serde_json::json!({ "revision": revision.to_string() });
        self.ask::<serde::de::IgnoredAny>("compaction", &revision).await.map(|_| ())
    }

    /// Has these keys' changes told from this revision on.
    ///
    /// # Errors
    /// As [`Gateway::range`].
    pub async fn watch(&self, keys: &Keys, from: u64) -> Result<Watching, String> {
        let (key, range_end) = (BASE64_STANDARD.encode(&keys.key), BASE64_STANDARD.encode(&keys.range_end));
        let asked = serde_json::json!({ "key": key, "range_end": range_end, "start_revision": from.to_string() });
        let question = Bytes::from(serde_json::json!({ "create_request": asked }).to_string());
        self.somewhere(|endpoint| {
            let question = question.clone();
            async move {
                let answer = self.post(format!("{endpoint}/v3/watch"), question).await?;
                let mut watching = Watching { body: answer.into_body(), buffer: Vec::new(), scanned: 0 };
                // It says first that it will.
                watching.next().await?;
                Ok(watching)
            }
        })
        .await
    }

    async fn ask<A: for<'a> Deserialize<'a>>(&self, what: &str, question: &impl Serialize) -> Result<A, String> {
        let question: Bytes = serde_json::to_vec(question).map_err(|error| error.to_string())?.into();
        self.somewhere(|endpoint| self.ask_at(endpoint, what, question.clone())).await
    }

    /// Asks one endpoint after the other, the one that answered last first.
    async fn somewhere<'a, A, F>(&'a self, ask: impl Fn(&'a str) -> F) -> Result<A, String>
    where
        F: Future<Output = Result<A, String>>,
    {
        let mut failure = String::new();
        let first = self.good.load(Ordering::Relaxed);
        for at in (first..first + self.endpoints.len()).map(|at| at % self.endpoints.len()) {
            let endpoint = &self.endpoints[at];
            match timeout(self.attempt, ask(endpoint)).await {
                Ok(Ok(answer)) => {
                    self.good.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(why)) => failure = format!("{endpoint}: {why}"),
                Err(_) => failure = format!("{endpoint}: no answer within {:?}", self.attempt),
            }
        }
        Err(failure)
    }

    async fn ask_at<A: for<'a> Deserialize<'a>>(
        &self,
        endpoint: &str,
        what: &str,
        question: Bytes,
    ) -> Result<A, String> {
        let answer = self.post(format!("{endpoint}/v3/kv/{what}"), question).await?;
        let body = whole(answer).await?;
        serde_json::from_slice(&body).map_err(|error| format!("an answer that is none of etcd's: {error}"))
    }

    /// What comes back begins well.
    async fn post(&self, uri: String, question: Bytes) -> Result<Response<Incoming>, String> {
        let request = Request::builder().method(Method::POST).uri(uri);
        let request = request.body(Full::new(question)).map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await.map_err(|error| reasons(&error))?;
        let status = answer.status();
        if !status.is_success() {
            let body = whole(answer).await?;
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(200)])));
        }
        Ok(answer)
    }
}

async fn whole(answer: Response<Incoming>) -> Result<Bytes, String> {
    let body = http_body_util::Limited::new(answer.into_body(), LONGEST);
    Ok(body.collect().await.map_err(|error| error.to_string())?.to_bytes())
}

/// An error with what is behind it: the outermost says no more than that there was one.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        text = format!("{text}: {error}");
        inner = error.source();
    }
    text
}

fn tls(sharing: &Sharing) -> Result<ClientConfig, String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: rustls::pki_types::pem::Error| format!("{path}: {error}")
    };
    let mut roots = RootCertStore::empty();
    if let Some(ca) = &sharing.ca {
        for certificate in CertificateDer::pem_file_iter(ca).map_err(failed(ca))? {
            roots.add(certificate.map_err(failed(ca))?).map_err(|error| format!("{}: {error}", ca.display()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    match (&sharing.certificate, &sharing.key) {
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_file_iter(certificate).map_err(failed(certificate))?.collect();
            let key = PrivateKeyDer::from_pem_file(key).map_err(failed(key))?;
            config.with_client_auth_cert(chain.map_err(failed(certificate))?, key).map_err(|error| error.to_string())
        }
        _ => Ok(config.with_no_client_auth()),
    }
}

/// Bytes as JSON has them there: base64.
mod bytes {
    use super::{BASE64_STANDARD, Engine};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// A 64-bit number as JSON has it there: a string, since JavaScript's numbers are not exact.
mod number {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u64, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_as_etcd_writes_them() {
        let condition = Compare::Mod { key: b"a".to_vec(), mod_revision: 7 };
        let transaction = Transaction {
            compare: vec![condition],
            success: vec![Then::Put(Put::new("a", "b"))],
            failure: vec![Then::Look(Keys::one("a"))],
        };
        let expected = serde_json::json!({
            "compare": [{ "target": "MOD", "key": "YQ==", "mod_revision": "7" }],
            "success": [{ "request_put": { "key": "YQ==", "value": "Yg==" } }],
            "failure": [{ "request_range": { "key": "YQ==", "range_end": "", "limit": 0, "min_mod_revision": "0",
                "revision": "0" } }],
        });
        assert_eq!(serde_json::to_value(&transaction).unwrap(), expected);
        let answer = r#"{"header":{"cluster_id":"1","revision":"9"},"responses":[{"response_range":
            {"header":{},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"8","version":"3","value":"Yg=="}],
            "count":"1"}}]}"#;
        let done: Done = serde_json::from_str(answer).unwrap();
        assert!(!done.succeeded && done.header.revision == 9);
        let entry = &done.responses[0].response_range.kvs[0];
        assert_eq!((&entry.key[..], &entry.value[..], entry.mod_revision), (&b"a"[..], &b"b"[..], 8));
    }

    #[test]
    fn lines_of_a_watch_are_as_etcd_writes_them() {
        let line = br#"{"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"YQ==","mod_revision":"8",
            "value":"Yg=="}},{"type":"DELETE","kv":{"key":"Yg==","mod_revision":"9"}}]}}"#;
        let all = written(line).unwrap();
        assert_eq!(all.len(), 1, "what is deleted is told to nobody");
        assert_eq!((&all[0].key[..], &all[0].value[..], all[0].mod_revision), (&b"a"[..], &b"b"[..], 8));
        assert!(written(br#"{"result":{"header":{"revision":"9"},"created":true}}"#).unwrap().is_empty());
        let forgotten = written(br#"{"result":{"canceled":true,"compact_revision":"7"}}"#).unwrap_err();
        assert!(forgotten.contains("before 7"), "{forgotten}");
        assert!(written(br#"{"error":{"grpc_code":14,"message":"no leader"}}"#).unwrap_err().contains("no leader"));
        assert!(written(b"{").is_err());
    }
}
