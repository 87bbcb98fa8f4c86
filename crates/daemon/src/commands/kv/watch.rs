//! `wayside kv watch`: a line for whatever keys get, as it happens. Where something may have been missed, it reads
//! again, and says so.

use super::{PATIENCE, connect, failure, listed};
use crate::cli::{KvWatch, Output};
use crate::commands::text::shown;
use crate::failure::{Failure, exit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};
use wayside_client::{Entry, Error, Event, Session, Version, Watch};

/// A line, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// `put`, `deleted`: it happened. `reread`: something may have been missed. `read`: so it is after that. `unnamed`:
    /// a key has got a version, and its switch does not know its name any more.
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// As text, if it is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    /// Otherwise in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
}

/// What has been written about, and where.
struct Teller<'a> {
    args: &'a KvWatch,
    session: &'a Session,
    is_prefix: bool,
    /// The latest version of each key that was told, and whether it had a value.
    known: BTreeMap<String, (Version, bool)>,
    left: u64,
}

/// The exit code, where it is no failure.
pub fn watch(args: &KvWatch) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("can't start", &error))?;
    let session = connect(&args.endpoint, &args.namespace, PATIENCE)?;
    let is_prefix = args.prefix || args.name.ends_with('/');
    let store = session.store().wait(PATIENCE);
    let watch = if is_prefix { store.watch_prefix(&args.name) } else { store.watch(&args.name) };
    let watch = watch.map_err(|error| failure(&error))?;
    let left = args.count.unwrap_or(u64::MAX);
    let teller = Teller { args, session: &session, is_prefix, known: BTreeMap::new(), left };
    runtime.block_on(teller.tell_until_the_end(watch))
}

impl Teller<'_> {
    /// Until it has told enough, its time is over, or it is interrupted.
    async fn tell_until_the_end(mut self, mut watch: Watch) -> Result<u8, Failure> {
        let no_signal = |error| Failure::system("can't wait for signals", &error);
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signal)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(no_signal)?;
        let (end, is_counted) =
            (self.args.wait.and_then(|wait| Instant::now().checked_add(wait)), self.args.count.is_some());
        let over = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        // From here on nothing is missed.
        eprintln!("watching {}{}", shown(&self.args.name), if self.is_prefix { "*" } else { "" });
        tokio::select! {
            told = self.tell_all(&mut watch) => told.map(|()| 0),
            () = over => Ok(if is_counted { exit::BUSY } else { 0 }),
            _ = interrupt.recv() => Ok(0),
            _ = terminate.recv() => Ok(0),
        }
    }

    async fn tell_all(&mut self, watch: &mut Watch) -> Result<(), Failure> {
        while self.left > 0 {
            let goes_on = match watch.next_async().await {
                Ok(event) => self.tell(event).await?,
                // No end here: nothing has happened for a while.
                Err(Error::TimedOut) => true,
                Err(error) => return Err(failure(&error)),
            };
            if !goes_on {
                // Whoever stops reading has read enough.
                break;
            }
        }
        Ok(())
    }

    /// False: nobody reads any more.
    async fn tell(&mut self, event: Event) -> Result<bool, Failure> {
        Ok(match event {
            Event::Put { name, value, version, .. } => self.tell_change(&name, version, Some(value.bytes())),
            Event::Deleted { name, version, .. } => self.tell_change(&name, version, None),
            Event::Unnamed { version } => self.write("unnamed", None, Some(version), None),
            Event::Reread => {
                eprintln!("something may have been missed: reading again");
                self.write("reread", None, None, None) && self.read_again().await?
            }
        })
    }

    fn tell_change(&mut self, name: &[u8], version: Version, value: Option<&[u8]>) -> bool {
        let name = String::from_utf8_lossy(name).into_owned();
        // It had been read already.
        if self.known.get(&name).is_some_and(|(known, _)| *known >= version) {
            return true;
        }
        self.known.insert(name.clone(), (version, value.is_some()));
        self.left -= 1;
        self.write(if value.is_some() { "put" } else { "deleted" }, Some(&name), Some(version), value)
    }

    /// Tells what the keys have now, where that is not what was told last.
    async fn read_again(&mut self) -> Result<bool, Failure> {
        let store = self.session.store().wait(PATIENCE);
        let mut names: Vec<String> = self.known.keys().cloned().collect();
        if self.is_prefix {
            let (keys, silent) = listed(&self.args.endpoint, &self.args.namespace, &self.args.name)?;
            if let Some(warning) = incomplete(keys.more, silent) {
                eprintln!("{warning}");
            }
            names.extend(keys.keys.into_iter().map(|key| key.name));
        } else {
            names.push(self.args.name.clone());
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            let entry = loop {
                match store.get_async(&name).await {
                    Ok(entry) => break entry,
                    // Its switch is being replaced.
                    Err(Error::TimedOut | Error::Lost) => {}
                    Err(error) => return Err(failure(&error)),
                }
            };
            if !self.tell_read(&name, entry) {
                return Ok(false);
            }
        }
        // Of keys that are no more nothing is to be told once more; and there may be ever more of them.
        self.known.retain(|_, (_, has_value)| *has_value);
        Ok(true)
    }

    fn tell_read(&mut self, name: &str, entry: Option<Entry>) -> bool {
        let known = self.known.get(name).copied();
        let is_told = match entry {
            Some(entry) => known == Some((entry.version, true)),
            None => known.is_none_or(|(_, has_value)| !has_value),
        };
        if is_told || self.left == 0 {
            return true;
        }
        if let Some(version) = entry.map(|entry| entry.version).or(known.map(|(version, _)| version)) {
            self.known.insert(name.to_owned(), (version, entry.is_some()));
        }
        self.left -= 1;
        self.write(
            "read",
            Some(name),
            entry.map(|entry| entry.version),
            entry.as_ref().map(|entry| entry.value.bytes()),
        )
    }

    fn write(&self, event: &'static str, name: Option<&str>, version: Option<Version>, value: Option<&[u8]>) -> bool {
        let version = version.map(|version| version.to_string());
        let line = match self.args.output {
            Output::Json => {
                let text = value.and_then(|bytes| std::str::from_utf8(bytes).ok());
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let value_hex = if text.is_none() { value.map(hex) } else { None };
                let line = Line { event, name, version, value: text, value_hex };
                serde_json::to_string(&line).expect("it has no keys but text")
            }
            Output::Text => {
                let value = value.map(|bytes| shown(&String::from_utf8_lossy(bytes)));
                let words = [Some(event.to_owned()), name.map(shown), version, value];
                words.into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
        };
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_ok()
    }
}

/// What is to be said of a list of keys that may lack some: `more` of a switch, and all of those that are silent.
fn incomplete(more: usize, silent: usize) -> Option<String> {
    let why = match (more, silent) {
        (0, 0) => return None,
        (0, silent) => format!("{silent} of the switches did not answer"),
        (more, 0) => format!("a switch has {more} more: watch a longer prefix"),
        (more, silent) => format!("a switch has {more} more, and {silent} of the switches did not answer"),
    };
    Some(format!("not all keys are read again: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_may_lack_keys_is_warned_of() {
        assert_eq!(incomplete(0, 0), None);
        assert!(incomplete(7, 0).is_some_and(|told| told.contains("7 more")));
        assert!(incomplete(0, 2).is_some_and(|told| told.contains("2 of the switches")));
        assert!(incomplete(7, 2).is_some_and(|told| told.contains("7 more") && told.contains("2 of")));
    }
}
