//! Puts histories before the judge that the simulator has: S1 (conflicting holds of a name never overlap) and S2
//! (exclusive tokens of a name rise). The same holds again as operations for Porcupine, which knows nothing of this
//! file's idea of time.
//!
//! A hold lasts from when its grant was seen to when it was given back, as far as its owner knew it to be held then. Of
//! who was killed nothing is known after the grant: its hold lasts no time.

use super::history::Event;
use crate::history::{self, Line};
use crate::verdict::Verdict;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use wayside_judge::Process;
use wayside_judge::locks::{self, Checker, Owner};
use wayside_protocol::{Mode, Priority, RequestId, Token};

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
    let mut latest = None;
    let mut open: Vec<Hold> = Vec::new();
    let close = |open: &mut Vec<Hold>, holds: &mut Vec<Hold>, to: u64, ended: bool| {
        holds.extend(open.drain(..).map(|hold| Hold { to: to.max(hold.from), ended, ..hold }));
    };
    for Line { at, operation, event } in lines {
        match event {
            Event::Ask { names: wanted, exclusive } => {
                // Once more, in the order in which they were taken, it is the same one.
                verdict.operations += u64::from(latest.replace(*operation) != Some(*operation));
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

/// Puts all holds before the simulator's judge, in the order of time.
fn look_at(holds: &[Hold], verdict: &mut Verdict) {
    let mut checker = Checker::default();
    for moment in moments(holds) {
        let hold = &holds[moment.hold];
        let owner = Owner { process: process(hold), request: RequestId(moment.hold as u64) };
        if moment.ends {
            checker.gave_back(owner);
        } else if let Err((rule, story)) = granted(&mut checker, owner, hold) {
            verdict.complain(format!("{rule}: {story}: {hold:?}"));
        }
    }
}

/// A hold begins, or ends.
struct Moment {
    at: u64,
    ends: bool,
    hold: usize,
}

/// What ends at the same moment ends first. Of what lasts no time there is no end: `granted` sees to that.
fn moments(holds: &[Hold]) -> Vec<Moment> {
    let begin = |(hold, of): (usize, &Hold)| Moment { at: of.from, ends: false, hold };
    let end = |(hold, of): (usize, &Hold)| Moment { at: of.to, ends: true, hold };
    let lasting = holds.iter().enumerate().filter(|(_, hold)| lasts(hold));
    let mut moments: Vec<Moment> = holds.iter().enumerate().map(begin).chain(lasting.map(end)).collect();
    moments.sort_by_key(|moment| (moment.at, !moment.ends, holds[moment.hold].token));
    moments
}

/// Somebody believed to hold for a while.
fn lasts(hold: &Hold) -> bool {
    hold.to > hold.from
}

fn process(hold: &Hold) -> Process {
    Process { host: hold.who, generation: 0 }
}

fn granted(checker: &mut Checker, owner: Owner, hold: &Hold) -> locks::Verdict {
    let mode = if hold.exclusive { Mode::Exclusive } else { Mode::Shared };
    // Who learned of a grant when it was over, or died at once, believed in nothing.
    let believes = |process| lasts(hold) || process != owner.process;
    checker.asked(hold.asked, owner, (0, hold.name), Priority::default());
    let said = checker.granted(hold.from, owner, mode, Token(hold.token), believes, || lasts(hold));
    if !lasts(hold) {
        checker.gave_back(owner);
    }
    said
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
    fn a_grant_that_nobody_believed_in_harms_nobody() {
        let killed = hold(1, true, 2, 5, 5);
        assert_eq!(violations(&[hold(1, true, 1, 0, 10), killed.clone()]), [""; 0]);
        assert_eq!(violations(&[hold(1, true, 3, 0, 4), killed.clone()]), [""; 0], "its session was over");
        assert_eq!(violations(&[killed, hold(1, true, 1, 6, 7)]), ["S2"], "what it had was granted all the same");
    }

    #[test]
    fn a_history_tells_of_holds_downgrades_and_losses() {
        let line = |at, operation, event| Line { at, operation, event };
        let ask = |names: &[u64]| Event::Ask { names: names.to_vec(), exclusive: true };
        let lines = [
            line(1, 1, ask(&[8, 7])),
            line(2, 1, ask(&[7, 8])),
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
