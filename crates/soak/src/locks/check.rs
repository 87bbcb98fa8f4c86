//! Judges histories: S1 (conflicting holds of a name never overlap), S2 (exclusive tokens of a name rise), and that
//! nobody was forgotten. The same holds again as operations for Porcupine, which knows nothing of this file's idea of
//! time.
//!
//! A hold lasts from when its grant was seen to when it was given back, as far as its owner knew it to be held then. Of
//! who was killed nothing is known after the grant: its hold lasts no time.

use super::history::Event;
use crate::history::{self, Line};
use crate::verdict::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

/// One name, held once.
#[derive(Clone, Debug, Serialize)]
pub struct Hold {
    /// Which history, by its place among them.
    pub who: usize,
    pub operation: u64,
    pub name: u64,
    pub exclusive: bool,
    pub token: u64,
    pub asked: u64,
    pub from: u64,
    pub to: u64,
    /// Given back; otherwise lost, or nobody knows.
    pub ended: bool,
}

/// The holds of all histories, and what else there is to say of them.
fn holds(paths: &[PathBuf], verdict: &mut Verdict) -> io::Result<Vec<Hold>> {
    let mut holds = Vec::new();
    for (who, path) in paths.iter().enumerate() {
        collect(who, &history::read(path)?, &mut holds, verdict);
    }
    Ok(holds)
}

fn collect(who: usize, lines: &[Line<Event>], holds: &mut Vec<Hold>, verdict: &mut Verdict) {
    let (mut names, mut is_exclusive, mut asked) = (Vec::new(), false, 0);
    let mut open: Vec<Hold> = Vec::new();
    let close = |open: &mut Vec<Hold>, holds: &mut Vec<Hold>, to: u64, ended: bool| {
        holds.extend(open.drain(..).map(|hold| Hold { to: to.max(hold.from), ended, ..hold }));
    };
    for Line { at, operation, event } in lines {
        match event {
            Event::Ask { names: wanted, exclusive } => {
                verdict.operations += 1;
                (names, is_exclusive, asked) = (wanted.clone(), *exclusive, *at);
            }
            Event::Held { tokens, .. } => {
                verdict.answered += 1;
                let (from, operation) = (*at, *operation);
                open.extend(names.iter().zip(tokens).map(|(&name, &token)| Hold {
                    who,
                    operation,
                    name,
                    exclusive: is_exclusive,
                    token,
                    asked,
                    from,
                    to: from,
                    ended: false,
                }));
            }
            Event::Downgrade => {
                let shared: Vec<Hold> =
                    open.iter().map(|hold| Hold { exclusive: false, from: *at, ..hold.clone() }).collect();
                close(&mut open, holds, *at, true);
                open = shared;
            }
            Event::GiveBack => close(&mut open, holds, *at, true),
            Event::Lost { until } => {
                verdict.lost += 1;
                close(&mut open, holds, *until, false);
            }
            Event::Denied { why } => *verdict.denied.entry(why.clone()).or_default() += 1,
        }
    }
    if !open.is_empty() {
        verdict.unfinished += 1;
        holds.append(&mut open);
    }
}

/// The holds of all histories, after they were looked at for S1 and S2.
pub fn judge(paths: &[PathBuf], verdict: &mut Verdict) -> io::Result<Vec<Hold>> {
    let holds = holds(paths, verdict)?;
    look_at(&holds, verdict);
    Ok(holds)
}

fn look_at(holds: &[Hold], verdict: &mut Verdict) {
    let mut by_name: BTreeMap<u64, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        by_name.entry(hold.name).or_default().push(hold);
    }
    for holds in by_name.values_mut() {
        holds.sort_by_key(|hold| (hold.from, hold.to));
        overlaps(holds, verdict);
        falls(holds, verdict);
    }
}

/// In the order of their beginnings.
fn overlaps(holds: &[&Hold], verdict: &mut Verdict) {
    // Those that end last, of each mode: whoever begins before that conflicts.
    let (mut exclusive, mut any): (Option<&Hold>, Option<&Hold>) = (None, None);
    for hold in holds {
        let before = if hold.exclusive { any } else { exclusive };
        if let Some(other) = before.filter(|other| other.to > hold.from && hold.to > hold.from) {
            verdict.complain(format!("S1: {hold:?} while {other:?}"));
        }
        let later = |former: Option<&Hold>| former.is_none_or(|former| former.to < hold.to);
        if later(any) {
            any = Some(hold);
        }
        if hold.exclusive && later(exclusive) {
            exclusive = Some(hold);
        }
    }
}

fn falls(holds: &[&Hold], verdict: &mut Verdict) {
    let (mut exclusive, mut any) = (0, 0);
    // What a downgrade left has the token of before.
    for hold in holds {
        let good = if hold.exclusive { hold.token > any } else { hold.token >= exclusive };
        if !good {
            verdict.complain(format!("S2: {hold:?} after tokens {exclusive} (exclusive) and {any}"));
        }
        any = any.max(hold.token);
        if hold.exclusive {
            exclusive = exclusive.max(hold.token);
        }
    }
}

/// Operations for Porcupine, a line of JSON each: `name client exclusive token call return release`. An end that nobody
/// knows comes at any time after the last that is known.
pub fn export(holds: &[Hold], to: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Operation {
        name: u64,
        hold: usize,
        exclusive: bool,
        token: u64,
        asked: u64,
        held: u64,
        given_back: u64,
        is_over: bool,
    }
    for (hold, of) in holds.iter().enumerate() {
        let operation = Operation {
            name: of.name,
            hold,
            exclusive: of.exclusive,
            token: of.token,
            asked: of.asked,
            held: of.from,
            given_back: of.to,
            is_over: of.ended,
        };
        serde_json::to_writer(&mut *to, &operation)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(name: u64, exclusive: bool, token: u64, from: u64, to: u64) -> Hold {
        Hold { who: 0, operation: 0, name, exclusive, token, asked: from, from, to, ended: true }
    }

    fn violations(holds: &[Hold]) -> Vec<String> {
        let mut verdict = Verdict::default();
        look_at(holds, &mut verdict);
        verdict.violations.iter().map(|text| text[..2].to_owned()).collect()
    }

    #[test]
    fn two_exclusive_holds_overlap() {
        assert_eq!(violations(&[hold(1, true, 1, 0, 10), hold(1, true, 2, 9, 20)]), ["S1"]);
        assert_eq!(violations(&[hold(1, true, 1, 0, 10), hold(1, true, 2, 10, 20)]), [""; 0]);
        assert_eq!(violations(&[hold(1, true, 1, 0, 10), hold(2, true, 2, 9, 20)]), [""; 0], "another name");
    }

    #[test]
    fn readers_share_and_a_writer_does_not() {
        let readers = [hold(1, false, 1, 0, 30), hold(1, false, 1, 5, 10)];
        assert_eq!(violations(&readers), [""; 0]);
        // The first reader is still there, though another one came and went since.
        assert_eq!(violations(&[&readers[..], &[hold(1, true, 2, 20, 40)]].concat()), ["S1"]);
        assert_eq!(violations(&[hold(1, true, 1, 0, 30), hold(1, false, 2, 20, 40)]), ["S1"]);
    }

    #[test]
    fn tokens_rise() {
        assert_eq!(violations(&[hold(1, true, 2, 0, 1), hold(1, true, 2, 1, 2)]), ["S2"]);
        assert_eq!(violations(&[hold(1, true, 2, 0, 1), hold(1, false, 1, 1, 2)]), ["S2"]);
        assert_eq!(violations(&[hold(1, true, 2, 0, 1), hold(1, false, 2, 1, 2), hold(1, true, 3, 2, 3)]), [""; 0]);
    }

    #[test]
    fn a_history_tells_of_holds_downgrades_and_losses() {
        let line = |at, operation, event| Line { at, operation, event };
        let ask = |names: &[u64]| Event::Ask { names: names.to_vec(), exclusive: true };
        let lines = [
            line(1, 1, ask(&[7, 8])),
            line(2, 1, Event::Held { tokens: vec![5, 6], until: 9 }),
            line(3, 1, Event::Downgrade),
            line(4, 1, Event::GiveBack),
            line(5, 2, ask(&[7])),
            line(6, 2, Event::Denied { why: "busy".into() }),
            line(7, 3, ask(&[7])),
            line(8, 3, Event::Held { tokens: vec![9], until: 20 }),
            line(30, 3, Event::Lost { until: 20 }),
            line(31, 4, ask(&[7])),
            line(32, 4, Event::Held { tokens: vec![10], until: 40 }),
        ];
        let (mut holds, mut verdict) = (Vec::new(), Verdict::default());
        collect(0, &lines, &mut holds, &mut verdict);
        let told: Vec<_> = holds.iter().map(|h| (h.name, h.exclusive, h.from, h.to, h.ended)).collect();
        assert_eq!(
            told,
            [
                (7, true, 2, 3, true),
                (8, true, 2, 3, true),
                (7, false, 3, 4, true),
                (8, false, 3, 4, true),
                (7, true, 8, 20, false),
                (7, true, 32, 32, false),
            ]
        );
        assert_eq!((verdict.operations, verdict.answered, verdict.lost, verdict.unfinished), (4, 3, 1, 1));
    }
}
