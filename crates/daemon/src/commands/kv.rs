//! `wayside kv`: keys and values from the shell.

mod watch;

use super::lock::{Keeper, Outcome};
use super::query::ask_each;
use super::text::{say, shown, table};
use crate::answers::{KeyLine, Keys, Query};
use crate::cli::{ConditionArgs, EndpointArgs, Kv, KvArgs, KvCas, KvDelete, KvGet, KvList, KvPut, Output};
use crate::failure::{Failure, exit};
use serde::Serialize;
use std::io::{Read, Write};
use std::time::Duration;
use wayside_client::{Builder, Condition, Entry, Error, Session, Store, Version, Written};

/// Without --wait: for a switch to be found, and for it to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The exit code, where it is no failure.
pub fn kv(command: &Kv) -> Result<u8, Failure> {
    match command {
        Kv::Get(args) => get(args),
        Kv::Put(args) => put(args),
        Kv::Cas(args) => cas(args),
        Kv::Del(args) => delete(args),
        Kv::Ls(args) => list(args).map(|()| 0),
        Kv::Watch(args) => watch::watch(args),
    }
}

/// What a key has, or what became of a write, as JSON.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// As text, if it is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    /// Otherwise in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<bool>,
}

fn get(args: &KvGet) -> Result<u8, Failure> {
    let session = begin(&args.to)?;
    let store = session.store().wait(patience(&args.to));
    let [name] = args.names.as_slice() else { return get_several(args, &store) };
    let entry = store.get(name).map_err(|error| failure(&error))?;
    match (&entry, args.to.output) {
        (_, Output::Json) => say(&json(name, entry.as_ref(), None)),
        (Some(entry), Output::Text) => {
            let mut stdout = std::io::stdout().lock();
            // Whoever stops reading has read enough.
            let _ = stdout.write_all(entry.value.bytes()).and_then(|()| stdout.write_all(b"\n"));
        }
        (None, Output::Text) => {}
    }
    match entry {
        Some(_) => Ok(0),
        None if args.to.output == Output::Json => Ok(exit::ABSENT),
        None => Err(Failure::plain(exit::ABSENT, format!("{} has no value", shown(name)))),
    }
}

/// What several keys had at one instant; [`exit::ABSENT`] if one had no value.
fn get_several(args: &KvGet, store: &Store<'_>) -> Result<u8, Failure> {
    let entries = store.snapshot(&args.names).map_err(|error| failure(&error))?;
    let found = args.names.iter().zip(&entries);
    match args.to.output {
        Output::Json => {
            let told: Vec<String> = found.map(|(name, entry)| json(name, entry.as_ref(), None)).collect();
            say(&format!("[{}]", told.join(",")));
        }
        Output::Text => {
            let lines = found.map(|(name, entry)| {
                let value = entry.as_ref().map(|entry| format!("{:?}", String::from_utf8_lossy(entry.value.bytes())));
                vec![shown(name), value.unwrap_or_else(|| "no value".into())]
            });
            let heading = ["NAME", "VALUE"].map(String::from).to_vec();
            say(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
        }
    }
    Ok(if entries.contains(&None) { exit::ABSENT } else { 0 })
}

fn put(args: &KvPut) -> Result<u8, Failure> {
    let value = match &args.value {
        Some(value) => value.clone().into_bytes(),
        None => read_stdin()?,
    };
    if !args.command.is_empty() {
        return put_while(args, &value);
    }
    let session = begin(&args.to)?;
    let written = session.store().wait(patience(&args.to)).put_if(&args.name, value, condition(&args.condition));
    tell(&args.to, &args.name, written)
}

/// The key has the value while COMMAND runs.
fn put_while(args: &KvPut, value: &[u8]) -> Result<u8, Failure> {
    let keeper = Keeper::start()?;
    // The session's thread is to have the signals blocked; this one, which waits for it, must hear Ctrl-C.
    let session = builder(&args.to.endpoint, &args.to.namespace, patience(&args.to)).begin();
    let session = session.map_err(|error| failure(&error))?;
    keeper.signals.unblocked(|| session.await_beginning()).map_err(|error| failure(&error))?;
    let store = session.store().wait(patience(&args.to));
    let held = keeper.signals.unblocked(|| store.hold(&args.name, value, condition(&args.condition)));
    let key = match held.map_err(|error| failure_of_write(&error))? {
        Ok(key) => key,
        Err(found) => return tell(&args.to, &args.name, Ok(Written::Unmet(found))),
    };
    let told = ("WAYSIDE_KEY_VERSION", text_of(key.version()));
    let (outcome, _) = keeper.run(&session, &key, &args.command, told, None)?;
    let lost = key.is_lost();
    // Somebody may have written it meanwhile, and then it is theirs.
    drop(key);
    session.close();
    match outcome {
        Outcome::Exited(code) if !lost => Ok(code),
        outcome => {
            let what = format!("lost {} while the command ran: the command {}", shown(&args.name), outcome.fate());
            Err(Failure::new(exit::LOST, what))
        }
    }
}

fn delete(args: &KvDelete) -> Result<u8, Failure> {
    let session = begin(&args.to)?;
    let written = session.store().wait(patience(&args.to)).delete_if(&args.name, condition(&args.condition));
    tell(&args.to, &args.name, written)
}

/// Compares whole values: reads, and writes if the version is still the one that was read.
fn cas(args: &KvCas) -> Result<u8, Failure> {
    let session = begin(&args.to)?;
    let store = session.store().wait(patience(&args.to));
    loop {
        let found = store.get(&args.name).map_err(|error| failure(&error))?;
        let Some(same) = found.filter(|entry| entry.value.bytes() == args.expected.as_bytes()) else {
            return tell(&args.to, &args.name, Ok(Written::Unmet(Ok(found))));
        };
        let written = store.put_if(&args.name, &args.value, Condition::Version(same.version));
        // Written meanwhile: perhaps by the same value.
        if !matches!(written, Ok(Written::Unmet(_))) {
            return tell(&args.to, &args.name, written);
        }
    }
}

fn list(args: &KvList) -> Result<(), Failure> {
    let (keys, silent) = listed(&args.endpoint, &args.namespace, args.prefix.as_deref().unwrap_or_default())?;
    if silent > 0 {
        eprintln!("warning: {silent} of the switches did not answer: keys may be missing");
    }
    match args.output {
        Output::Json => say(&serde_json::to_string(&keys).unwrap_or_default()),
        Output::Text => say(&list_text(&keys)),
    }
    Ok(())
}

/// The keys of a namespace whose names begin so, and how many switches have not answered.
fn listed(endpoint: &EndpointArgs, namespace: &str, prefix: &str) -> Result<(Keys, usize), Failure> {
    let query = Query::Keys { namespace: namespace.to_owned(), prefix: prefix.to_owned() };
    let answers = ask_each::<Keys>(endpoint.of_keys(), &query)?;
    let silent = endpoint.of_keys().len() - answers.len();
    Ok((merged(answers), silent))
}

/// Each switch knows the keys of its own groups. Of a key that several have, the latest version.
fn merged(answers: Vec<Keys>) -> Keys {
    let more = answers.iter().map(|keys| keys.more).max().unwrap_or(0);
    let unnamed = answers.iter().map(|keys| keys.unnamed).sum();
    let version = |line: &KeyLine| line.version.parse::<Version>().ok();
    let mut keys: Vec<KeyLine> = answers.into_iter().flat_map(|keys| keys.keys).collect();
    keys.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| version(b).cmp(&version(a))));
    keys.dedup_by(|later, first| later.name == first.name);
    Keys { keys, more, unnamed }
}

fn list_text(answer: &Keys) -> String {
    let unnamed = match answer.unnamed {
        0 => String::new(),
        count => format!("the names of {count} keys are not known: they were lost in a restart\n"),
    };
    if answer.keys.is_empty() {
        return "no such key\n".to_owned() + &unnamed;
    }
    let heading = ["NAME", "VERSION", "BYTES"].map(String::from).to_vec();
    let lines = answer.keys.iter().map(|key| {
        let bytes = key.bytes.map_or_else(|| "no value".into(), |bytes| bytes.to_string());
        vec![shown(&key.name), key.version.clone(), bytes]
    });
    let mut text = table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>());
    if answer.more > 0 {
        text.push_str(&format!("and {} more: name a longer prefix\n", answer.more));
    }
    text + &unnamed
}

/// Says what became of a write.
fn tell(args: &KvArgs, name: &str, written: Result<Written, Error>) -> Result<u8, Failure> {
    let unmet = |what: String| Err(Failure::plain(exit::BUSY, format!("{}: {what}, not written", shown(name))));
    match (written.map_err(|error| failure_of_write(&error))?, args.output) {
        (Written::Done(version), Output::Json) => say(&json_of(name, Some(version), None, Some(true))),
        (Written::Done(version), Output::Text) => say(&text_of(version)),
        (Written::Unmet(found), Output::Json) => {
            say(&json(name, found.ok().flatten().as_ref(), Some(false)));
            return Ok(exit::BUSY);
        }
        (Written::Unmet(Ok(Some(entry))), Output::Text) => {
            let value = String::from_utf8_lossy(entry.value.bytes()).into_owned();
            return unmet(format!("it has {:?}, version {}", shown(&value), text_of(entry.version)));
        }
        (Written::Unmet(Ok(None)), Output::Text) => return unmet("it has no value".into()),
        (Written::Unmet(Err(_)), Output::Text) => return unmet("it had another value".into()),
    }
    Ok(0)
}

fn json(name: &str, entry: Option<&Entry>, written: Option<bool>) -> String {
    json_of(name, entry.map(|entry| entry.version), entry.map(|entry| entry.value.bytes()), written)
}

fn json_of(name: &str, version: Option<Version>, value: Option<&[u8]>, written: Option<bool>) -> String {
    let text = value.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let told = Told {
        name,
        version: version.map(text_of),
        value: text,
        value_hex: if text.is_none() { value.map(hex) } else { None },
        written,
    };
    serde_json::to_string(&told).expect("it has no keys but text")
}

fn text_of(version: Version) -> String {
    version.to_string()
}

fn condition(args: &ConditionArgs) -> Condition {
    match (args.if_absent, args.if_version) {
        (true, _) => Condition::Absent,
        (false, Some(version)) => Condition::Version(version),
        (false, None) => Condition::Always,
    }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    // One byte more than can be kept is enough to know.
    let most = wayside_wire::limits::MAX_VALUE_BYTES as u64 + 1;
    let read = std::io::stdin().lock().take(most).read_to_end(&mut value);
    read.map_err(|error| Failure::system("can't read the value from standard input", &error))?;
    Ok(value)
}

fn patience(args: &KvArgs) -> Duration {
    args.wait.unwrap_or(PATIENCE)
}

fn begin(args: &KvArgs) -> Result<Session, Failure> {
    connect(&args.endpoint, &args.namespace, patience(args))
}

fn connect(endpoint: &EndpointArgs, namespace: &str, patience: Duration) -> Result<Session, Failure> {
    builder(endpoint, namespace, patience).connect().map_err(|error| failure(&error))
}

fn builder(endpoint: &EndpointArgs, namespace: &str, patience: Duration) -> Builder {
    Session::builder().endpoint(endpoint.endpoints.to_string()).namespace(namespace).patience(patience)
}

/// Of what writes nothing.
fn failure(error: &Error) -> Failure {
    let code = Failure::of(error).code;
    match error {
        Error::TimedOut => Failure::new(code, "timed out: no answer"),
        Error::Lost => Failure::new(code, "the session was lost"),
        _ => Failure::of(error),
    }
}

fn failure_of_write(error: &Error) -> Failure {
    let what = failure(error);
    match error {
        Error::TimedOut | Error::Lost => {
            Failure::new(what.code, format!("{}; what was to be written may have been, or will be", what.reason()))
        }
        _ => what,
    }
}
