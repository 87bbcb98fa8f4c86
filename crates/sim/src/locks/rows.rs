//! What locks protect, where there are queues: of every name a row, which whoever held it alone has written when he
//! gives it back, and which every host that has a session serves: a grant may come by way of one, with its row.
//!
//! | id | checked |
//! | --- | --- |
//! | F1 | what comes with a grant was answered to the question that this very request has asked |
//! | F2 | it is what the row has: it was read under the lock that the request holds now |

use std::collections::BTreeMap;

use wayside_protocol::{Fetch, Mode, NotFetched, Third};

use super::Locks;
use super::checker::Owner;
use crate::dice::Dice;
use crate::host::Process;
use crate::world::World;

/// Namespace and name.
type Row = (usize, u64);

/// A question: no two are alike.
pub(super) type Question = [u8; 16];

/// Rows, and who asks whom for them.
#[derive(Default)]
pub struct Rows {
    /// The token of the latest who held it alone.
    written: BTreeMap<Row, u64>,
    asked: BTreeMap<Owner, (Row, Question)>,
    /// What hosts were asked, and will answer when the alarm of that number rings.
    pending: BTreeMap<u64, (Process, Fetch)>,
    questions: u64,
    /// Sessions that have begun, by namespace: the latest last.
    sessions: Vec<(usize, Third)>,
}

/// Requests that may come by way of somebody, in hundredths.
const FETCHES: u32 = 40;
/// Sessions that may be asked: some are over.
const KNOWN: usize = 8;
/// Longest answer: longer than anybody waits.
const LATE: u64 = 50_000;
/// Number of the task that answers: that of no thread of an application.
pub const ANSWERER: usize = usize::MAX;

impl Locks {
    /// A session has begun: it serves rows, or, sometimes, does not.
    pub(super) fn serve_rows(&mut self, world: &mut World, host: usize) {
        if !world.options.service.has_queues() {
            return;
        }
        let place = &mut world.hosts[host];
        let (space, generation) = (place.namespace, place.generation);
        let Some(running) = &mut place.running else { return };
        let Some(session) = running.node.session() else { return };
        let mut dice = Dice::of(world.seed, &[ROWS, host as u64, generation.into()]);
        running.node.serve_fetches(dice.percent(90));
        self.rows.sessions.push((space, Third { handle: session.handle, incarnation: session.incarnation }));
    }

    /// By way of whom a request for one lock is to be granted, if by way of anybody, and what that is asked.
    pub(super) fn draw_question(&mut self, world: &World, host: usize, name: u64) -> Option<(Third, Question)> {
        if !world.options.service.has_queues() {
            return None;
        }
        self.rows.questions += 1;
        let number = self.rows.questions;
        let mut dice = Dice::of(world.seed, &[ROWS, QUESTION, number]);
        let space = world.hosts[host].namespace;
        let known = self.rows.sessions.iter().rev().filter(|(of, _)| *of == space);
        let known: Vec<Third> = known.take(KNOWN).map(|(_, third)| *third).collect();
        if known.is_empty() || !dice.percent(FETCHES) {
            return None;
        }
        let mut question = Question::default();
        question[..8].copy_from_slice(&number.to_be_bytes());
        question[8..].copy_from_slice(&name.to_be_bytes());
        Some((dice.pick(&known), question))
    }

    /// It was asked.
    pub(super) fn asked_for_row(&mut self, world: &World, owner: Owner, name: u64, question: Question) {
        let space = world.hosts[owner.process.host].namespace;
        self.rows.asked.insert(owner, ((space, name), question));
    }

    /// A host's node has questions for its application: it answers at once, later, or never.
    pub(super) fn take_questions(&mut self, world: &mut World, host: usize) {
        let now = world.now;
        while let Some(fetch) = world.hosts[host].running.as_mut().and_then(|running| running.node.fetch()) {
            self.rows.questions += 1;
            let number = self.rows.questions;
            let mut dice = Dice::of(world.seed, &[ROWS, ANSWER, number]);
            match dice.below(10) {
                0..6 => self.answer(world, host, &fetch),
                6..9 => {
                    self.rows.pending.insert(number, (world.hosts[host].process(), fetch));
                    world.set_alarm(host, ANSWERER, number, dice.magnitude(10, LATE));
                }
                _ if dice.percent(50) => {
                    let Some(running) = &mut world.hosts[host].running else { return };
                    let time = running.time(now);
                    running.node.answer(time, &fetch, None);
                }
                _ => {}
            }
        }
    }

    /// The alarm of a question rings.
    pub(super) fn answer_late(&mut self, world: &mut World, host: usize, number: u64) {
        if let Some((process, fetch)) = self.rows.pending.remove(&number)
            && process == world.hosts[host].process()
        {
            self.answer(world, host, &fetch);
        }
    }

    /// With the row as it is now.
    fn answer(&mut self, world: &mut World, host: usize, fetch: &Fetch) {
        let now = world.now;
        let written = self.rows.written.get(&(world.hosts[host].namespace, fetch.name)).copied().unwrap_or(0);
        let Some(running) = &mut world.hosts[host].running else { return };
        let time = running.time(now);
        running.node.answer(time, fetch, Some(&[&fetch.ask[..], &written.to_be_bytes()].concat()));
    }

    /// F1 and F2, of a request that was granted.
    pub(super) fn check_row(&mut self, world: &mut World, host: usize, owner: Owner) {
        let Some((row, question)) = self.rows.asked.remove(&owner) else { return };
        let now = world.now;
        let Some(running) = &mut world.hosts[host].running else { return };
        let believes = running.believes(now);
        let data = match running.node.take_fetched(owner.request) {
            Ok(data) => data,
            Err(why) => {
                return world.count(match why {
                    NotFetched::Direct => "granted alone",
                    NotFetched::Unknown => "granted alone: nobody there",
                    NotFetched::Refused => "granted alone: refused",
                    NotFetched::Silent => "granted alone: no answer in time",
                });
            }
        };
        world.count("granted with a row");
        let (answered, read) = data.split_at_checked(question.len()).unwrap_or_default();
        let written = self.rows.written.get(&row).copied().unwrap_or(0);
        let story = |what: &str| format!("{owner:?} of name {} was granted with {what}", row.1);
        if answered != question {
            world.fail("F1", story("an answer to another question"));
        } else if believes && world.clocks_are_good() && read != written.to_be_bytes() {
            world.fail("F2", story(&format!("{read:?}, and the row has {written:#x}")));
        }
    }

    /// An application gives back what it has held alone, or waits no more.
    pub(super) fn write_row(&mut self, world: &World, host: usize, owner: Owner) {
        self.rows.asked.remove(&owner);
        let place = &world.hosts[host];
        let Some(running) = place.running.as_ref().filter(|running| running.believes(world.now)) else { return };
        let hold = running.node.holds().find(|hold| hold.request == owner.request && hold.mode == Mode::Exclusive);
        if let Some(hold) = hold {
            // As a store that refuses old tokens.
            let written = self.rows.written.entry((place.namespace, hold.name)).or_default();
            *written = (*written).max(hold.token.0);
        }
    }
}

/// Purposes of dice.
const ROWS: u64 = 43;
const QUESTION: u64 = 1 << 32;
const ANSWER: u64 = 2 << 32;
