//! Judges histories of keys: that versions fit values and times, here; that every key is linearizable (K1), has each
//! write once (K2) and loses none that was answered (K4), by Porcupine, for which the operations are exported.

use super::history::{Entry, Event, Only};
use crate::history::{self, Line};
use crate::verdict::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use wayside_client::Version;

/// One operation, from question to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Which history, by its place among them.
    pub who: usize,
    pub key: u64,
    pub does: Does,
    pub asked: u64,
    /// `None`: at no time that is known.
    pub answered: Option<u64>,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    Read,
    Write { value: Option<u64>, only: Only },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A read, or a condition that did not hold: it had this.
    Found {
        value: Option<u64>,
    },
    /// A condition did not hold.
    Unmet,
    Done,
    Unknown,
}

/// A version as an operation was told it: nobody knew it before `asked`, and somebody did at `answered`.
struct Seen {
    version: Version,
    value: Option<u64>,
    makes: bool,
    asked: u64,
    answered: u64,
    text: String,
}

/// The operations of all histories, after they were looked at for what no order of them would explain.
pub fn judge(paths: &[PathBuf], verdict: &mut Verdict) -> io::Result<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut seen: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    for (who, path) in paths.iter().enumerate() {
        collect(who, &history::read(path)?, &mut operations, &mut seen, verdict);
    }
    for (key, seen) in &mut seen {
        versions_have_one_value(*key, seen, verdict);
        versions_rise(*key, seen, verdict);
    }
    Ok(operations)
}

fn collect(
    who: usize,
    lines: &[Line<Event>],
    operations: &mut Vec<Operation>,
    seen: &mut BTreeMap<u64, Vec<Seen>>,
    verdict: &mut Verdict,
) {
    let mut open: Option<(u64, u64, Does)> = None;
    for Line { at, event, .. } in lines {
        match event {
            Event::Read { key } => open = Some((*key, *at, Does::Read)),
            Event::Write { key, value, only } => {
                open = Some((*key, *at, Does::Write { value: *value, only: *only }));
            }
            answer => {
                let Some((key, asked, does)) = open.take() else { continue };
                verdict.operations += 1;
                let outcome = match answer {
                    Event::Found { entry } => Outcome::Found { value: entry.as_ref().map(|entry| entry.value) },
                    Event::Done { .. } => Outcome::Done,
                    Event::Overwritten => Outcome::Unmet,
                    Event::Unknown { why } => {
                        *verdict.denied.entry(why.clone()).or_default() += 1;
                        Outcome::Unknown
                    }
                    Event::Read { .. } | Event::Write { .. } => continue,
                };
                if let Some(found) = seen_in(does, answer, asked, *at) {
                    seen.entry(key).or_default().push(found);
                }
                let answered = (outcome != Outcome::Unknown).then_some(*at);
                verdict.answered += u64::from(answered.is_some());
                operations.push(Operation { who, key, does, asked, answered, outcome });
            }
        }
    }
    // Whoever was killed had asked, perhaps.
    if let Some((key, asked, does)) = open {
        verdict.unfinished += 1;
        operations.push(Operation { who, key, does, asked, answered: None, outcome: Outcome::Unknown });
    }
}

fn seen_in(does: Does, answer: &Event, asked: u64, answered: u64) -> Option<Seen> {
    let (text, value, makes) = match (answer, does) {
        (Event::Found { entry: Some(Entry { value, version }) }, _) => (version, Some(*value), false),
        (Event::Done { version }, Does::Write { value, .. }) => (version, value, true),
        _ => return None,
    };
    // One that is none is later than all.
    let version = text.parse().unwrap_or(Version { epoch: u32::MAX, sequence: u64::MAX });
    Some(Seen { version, value, makes, asked, answered, text: text.clone() })
}

fn versions_have_one_value(key: u64, seen: &[Seen], verdict: &mut Verdict) {
    let mut values = BTreeMap::new();
    for Seen { version, value, text, .. } in seen {
        if *value == Some(u64::MAX) {
            verdict.complain(format!("K1: key {key}, version {text}: a value that nobody wrote"));
        }
        let first = *values.entry(*version).or_insert(*value);
        if first != *value {
            verdict.complain(format!("K1: key {key}, version {text}: {first:?} and {value:?}"));
        }
    }
}

/// Who asked after another had been answered knows no earlier version, and makes none but a later one.
fn versions_rise(key: u64, seen: &mut [Seen], verdict: &mut Verdict) {
    let mut answers: Vec<(u64, Version)> = seen.iter().map(|seen| (seen.answered, seen.version)).collect();
    answers.sort_unstable();
    seen.sort_unstable_by_key(|seen| seen.asked);
    let (mut answers, mut latest) = (answers.into_iter().peekable(), Version::default());
    for Seen { version, makes, asked, text, .. } in seen {
        while let Some((_, before)) = answers.next_if(|(answered, _)| answered < asked) {
            latest = latest.max(before);
        }
        if *version < latest || (*makes && *version == latest) {
            verdict.complain(format!("K1: key {key}: version {text} at {asked}, after {latest} had been answered"));
        }
    }
}

/// Operations for Porcupine, a line of JSON each.
pub fn export(operations: &[Operation], to: &mut impl Write) -> io::Result<()> {
    for operation in operations {
        // Nobody has learned anything from it.
        if operation.outcome == Outcome::Unknown && operation.does == Does::Read {
            continue;
        }
        serde_json::to_writer(&mut *to, operation)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(histories: &[&[(u64, Event)]]) -> (Vec<Operation>, Vec<String>) {
        let (mut operations, mut seen, mut verdict) = (Vec::new(), BTreeMap::new(), Verdict::default());
        for (who, events) in histories.iter().enumerate() {
            let lines: Vec<Line<Event>> =
                events.iter().map(|(at, event)| Line { at: *at, operation: 0, event: event.clone() }).collect();
            collect(who, &lines, &mut operations, &mut seen, &mut verdict);
        }
        for (key, seen) in &mut seen {
            versions_have_one_value(*key, seen, &mut verdict);
            versions_rise(*key, seen, &mut verdict);
        }
        (operations, verdict.violations)
    }

    fn write(value: u64) -> Event {
        Event::Write { key: 1, value: Some(value), only: Only::Always }
    }

    fn done(version: &str) -> Event {
        Event::Done { version: version.into() }
    }

    fn found(value: u64, version: &str) -> Event {
        Event::Found { entry: Some(Entry { value, version: version.into() }) }
    }

    const READ: Event = Event::Read { key: 1 };

    #[test]
    fn operations_are_from_question_to_answer() {
        let unknown = Event::Unknown { why: "timed out".into() };
        let (operations, violations) = judged(&[
            &[(1, write(7)), (3, done("5.1")), (4, READ), (6, found(7, "5.1"))],
            &[(2, write(8)), (9, unknown), (10, write(9))],
        ]);
        assert_eq!(violations, [""; 0]);
        let told: Vec<_> = operations.iter().map(|o| (o.asked, o.answered, o.outcome.clone())).collect();
        assert_eq!(
            told,
            [
                (1, Some(3), Outcome::Done),
                (4, Some(6), Outcome::Found { value: Some(7) }),
                (2, None, Outcome::Unknown),
                (10, None, Outcome::Unknown),
            ]
        );
    }

    #[test]
    fn a_version_of_two_values_and_one_that_comes_again_are_noticed() {
        let twice = judged(&[&[(1, write(7)), (3, done("5.1")), (4, READ), (6, found(8, "5.1"))]]).1;
        assert!(twice.len() == 1 && twice[0].contains("Some(7) and Some(8)"), "{twice:?}");
        let back = judged(&[&[(1, write(7)), (3, done("5.2")), (4, READ), (6, found(8, "5.1"))]]).1;
        assert!(back.len() == 1 && back[0].contains("after 5.2"), "{back:?}");
        let same = judged(&[&[(1, READ), (3, found(7, "5.2")), (4, write(7)), (6, done("5.2"))]]).1;
        assert_eq!(same.len(), 1, "{same:?}");
        // At the same time either may be first.
        let beside = judged(&[&[(1, write(7)), (9, done("5.2"))], &[(2, READ), (3, found(8, "5.1"))]]).1;
        assert_eq!(beside, [""; 0]);
        let nobody = judged(&[&[(1, READ), (3, found(u64::MAX, "5.1"))]]).1;
        assert!(nobody[0].contains("nobody wrote"), "{nobody:?}");
    }
}
