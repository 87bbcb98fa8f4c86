//! Which of a shard's switches serves: a lease on a *post*, one register that all of them share and that only changes
//! by compare-and-swap (etcd, in the daemon). Nobody is elected here: whoever finds the post silent for long enough
//! takes it.
//!
//! ```text
//!              post silent for lease + margin, or vacant
//!   WATCHING ────────────────────────────────────────────► TAKING ──taken──► SERVING: renews every lease / 4
//!      ▲ └──the post is its own already: renews it──────────────────────────────▲ │
//!      ├───────────────another took it, or it has resigned────────────────────────┤
//!      └──another took it── HANDING: has stopped; resigns if nobody took it ──────┘
//! ```
//!
//! Invariants
//! * The lease runs from before its renewal was sent: what a successor waits for begins later, when it first sees
//!   what that renewal wrote, and it takes the post only if nothing else was written since.
//! * Who resigns has stopped before: the post is vacated only after the switch's lease was ended.
//! * Who hands over has stopped before, and does not renew any more: a successor that takes the post at the revision
//!   that it was told is the next to serve.
//! * A question that went unanswered may yet be done: each is conditional on what was last seen of the post, or changes
//!   nothing but its revision, so that it does no harm whenever that is.

use crate::memory::Moment;
use crate::{Mutant, Time};

/// The register, as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Post {
    /// Who serves; 0: nobody.
    pub holder: u64,
    /// Another one after every write.
    pub revision: u64,
}

/// What is asked of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// How is it?
    Look,
    /// If the revision is still this: mine.
    Take(u64),
    /// If it is mine: the same again, as another revision.
    Renew,
    /// If the revision is still this: nobody's.
    Resign(u64),
}

/// A question, and when it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// What to ask.
    pub question: Question,
    /// From here on a lease counts that its answer gives.
    pub since: Moment,
}

/// What the register says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done: the post is this now.
    Done(Post),
    /// Not done, since the post is this. To a look, too.
    Is(Post),
    /// Nothing is known: no answer, or an error.
    Unknown,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The post is this switch's until so long after that moment; it was not before.
    Begin(Moment, u64),
    /// It still is.
    Renewed(Moment, u64),
    /// It is another's, or nobody's.
    End,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct ServingConfig {
    /// Who asks: never 0, never another process's that runs at the same time. Kept over restarts, so that one's own
    /// post can be taken up again at once.
    pub own: u64,
    /// How long a switch serves after it has renewed. All switches of a shard have the same.
    pub lease: u64,
    /// As [`Config::drift_ppm`](super::Config).
    pub drift_ppm: u32,
}

/// A standby looks so often, however long the lease is: a post may be vacated at any time. A read costs etcd 0.3 ms.
const LOOK: u64 = 20_000;
/// Who has left its post to a successor looks so often whether that has it: then it ends.
const HANDING_LOOK: u64 = 5_000;
/// The kernel's ticks, by which the core at its hook counts, are up to 10 ms long, and may be told late by one.
const MARGIN: u64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Watching,
    Serving,
    Resigning,
    /// Until then its successor may take the post.
    Handing(Time),
}

/// See the module's documentation.
pub struct Serving {
    config: ServingConfig,
    phase: Phase,
    /// The post as last seen, and since when it has been so.
    seen: Option<(Post, Time)>,
    /// Until when this switch may serve.
    until: Time,
    /// Nothing is asked before.
    due: Time,
    /// It has resigned, and does not want the post back.
    abstains: bool,
    /// The revision that a successor was told.
    told: Option<u64>,
    /// The revision at which another switch has left the post to this one.
    left_at: Option<u64>,
    /// When a question went that is not answered yet.
    asked: Option<Time>,
    mutant: Option<Mutant>,
}

impl Serving {
    /// Asks at once how the post is.
    pub fn new(config: ServingConfig, mutant: Option<Mutant>) -> Serving {
        Serving {
            config,
            phase: Phase::Watching,
            seen: None,
            until: Time(0),
            due: Time(0),
            abstains: false,
            told: None,
            left_at: None,
            asked: None,
            mutant,
        }
    }

    /// Whether this switch may serve at this time.
    pub fn runs(&self, now: Time) -> bool {
        now < self.until()
    }

    /// When the lease is over, by this switch's clock; long ago without the post.
    pub fn until(&self) -> Time {
        self.until
    }

    /// The post as last seen.
    pub fn post(&self) -> Option<Post> {
        self.seen.map(|(post, _)| post)
    }

    /// When [`Serving::ask`] wants to be called.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Gives the post up. The switch has stopped by now; the answer makes room for another.
    pub fn resign(&mut self, now: Time) {
        self.until = Time(0);
        self.abstains = true;
        if matches!(self.phase, Phase::Serving | Phase::Handing(_)) {
            self.phase = Phase::Resigning;
            self.due = now;
        }
    }

    /// Whether it has something to resign.
    pub fn may_resign(&self, now: Time) -> bool {
        self.runs(now) || matches!(self.phase, Phase::Handing(_))
    }

    /// Puts the next renewal off for a while, in which [`Serving::hand_over`] is to be called. False: the last one is
    /// still under way, and what it writes would be another revision than the one that a successor is told.
    pub fn hold_still(&mut self, now: Time) -> bool {
        let is_asking = self.asked.is_some_and(|asked| now.since(asked) < self.config.lease);
        if self.phase == Phase::Serving && !is_asking {
            self.due = self.due.max(now + self.config.lease / 8);
        }
        self.phase == Phase::Serving && !is_asking
    }

    /// Leaves the post to a successor, for a lease at most. The switch has stopped by now.
    pub fn hand_over(&mut self, now: Time) {
        self.until = Time(0);
        self.abstains = true;
        if self.phase == Phase::Serving {
            self.phase = Phase::Handing(now + self.config.lease);
            self.due = now + LOOK.min(self.config.lease / 8);
        }
    }

    /// The revision at which a successor may take the post. None: it was not left to anybody.
    pub fn left_to(&mut self) -> Option<u64> {
        let post = self.post().filter(|post| post.holder == self.config.own)?;
        self.told = matches!(self.phase, Phase::Handing(_)).then_some(post.revision);
        self.told
    }

    /// Another switch has left its post to this one, at that revision. False: this one takes none.
    pub fn take_over(&mut self, now: Time, revision: u64) -> bool {
        let may = self.phase == Phase::Watching && !self.abstains;
        if may {
            self.left_at = Some(revision);
            self.due = now;
        }
        may
    }

    /// Whether it takes the post of another one if it can.
    pub fn stands_by(&self) -> bool {
        self.phase == Phase::Watching && !self.abstains
    }

    /// Whether another one had it when it was last seen.
    pub fn is_anothers(&self) -> bool {
        self.post().is_some_and(|post| post.holder != 0 && post.holder != self.config.own)
    }

    /// Takes part again after it has resigned.
    pub fn stand(&mut self) {
        self.abstains = false;
    }

    /// The next question, if it is time for one. `moment` is now.
    pub fn ask(&mut self, moment: Moment) -> Option<Inquiry> {
        let now = moment.time;
        if now < self.due {
            return None;
        }
        // Of a question that went unanswered nothing is known; the next one is as good.
        self.due =
            now + if self.phase == Phase::Watching { LOOK.min(self.config.lease / 8) } else { self.config.lease / 4 };
        self.asked = Some(now);
        if let Phase::Handing(until) = self.phase {
            self.due = now + HANDING_LOOK.min(self.config.lease / 8);
            if now >= until {
                self.phase = Phase::Resigning;
            }
        }
        let left_at = self.left_at.take().filter(|_| self.stands_by());
        let question = match (self.phase, self.seen) {
            _ if let Some(revision) = left_at => {
                // Nothing else is asked meanwhile, whose answer could come first.
                self.due = now + self.config.lease / 4;
                Question::Take(revision)
            }
            (Phase::Serving, _) => Question::Renew,
            (Phase::Resigning, Some((post, _))) => Question::Resign(post.revision),
            (Phase::Watching, Some((post, since))) if !self.abstains => self.watched(now, post, since),
            _ => Question::Look,
        };
        Some(Inquiry { question, since: moment })
    }

    fn watched(&self, now: Time, post: Post, since: Time) -> Question {
        if post.holder == self.config.own {
            Question::Renew
        } else if post.holder == 0 || now.since(since) >= self.patience() {
            Question::Take(post.revision)
        } else {
            Question::Look
        }
    }

    /// For so long a post must have been silent before it is taken from its holder.
    fn patience(&self) -> u64 {
        if cfg!(feature = "mutants") && self.mutant == Some(Mutant::HastySuccessor) {
            return self.config.lease / 8;
        }
        self.config.lease + self.config.lease * 2 * u64::from(self.config.drift_ppm) / 1_000_000 + MARGIN
    }

    /// The answer to an inquiry, however late.
    pub fn on_answer(&mut self, now: Time, inquiry: Inquiry, answer: Answer) -> Option<Change> {
        self.asked = None;
        let post = match answer {
            Answer::Unknown => return None,
            Answer::Done(post) | Answer::Is(post) => post,
        };
        // Revisions rise: an answer that was overtaken by another tells nothing new.
        match self.seen {
            Some((seen, _)) if seen.revision >= post.revision => {}
            _ => self.seen = Some((post, now)),
        }
        let own = self.seen.is_some_and(|(seen, _)| seen.holder == self.config.own);
        if !own {
            return self.lose(now);
        }
        match inquiry.question {
            Question::Take(_) | Question::Renew
                if matches!(answer, Answer::Done(_)) && !matches!(self.phase, Phase::Handing(_)) =>
            {
                self.hold(inquiry.since)
            }
            // Its own already, from before a restart or by a question that seemed lost.
            _ if self.phase == Phase::Watching && !self.abstains => {
                self.due = now;
                None
            }
            // A renewal came late: its successor was told of another revision, and waits in vain.
            _ if matches!(self.phase, Phase::Handing(_)) && self.told.is_some_and(|told| told != self.revision()) => {
                self.phase = Phase::Resigning;
                self.due = now;
                None
            }
            // A renewal came in between.
            Question::Resign(_) => {
                self.due = now;
                None
            }
            _ => None,
        }
    }

    fn revision(&self) -> u64 {
        self.post().map_or(0, |post| post.revision)
    }

    fn hold(&mut self, since: Moment) -> Option<Change> {
        match self.phase {
            Phase::Resigning => return None,
            // Taken by a question of before it resigned: given back.
            Phase::Watching if self.abstains => {
                self.phase = Phase::Resigning;
                self.due = since.time;
                return None;
            }
            _ => {}
        }
        let until = since.time + self.config.lease;
        let is_later = until > self.until;
        self.until = self.until.max(until);
        if self.phase == Phase::Serving {
            // An answer that another one has overtaken shortens nothing.
            return is_later.then_some(Change::Renewed(since, self.config.lease));
        }
        self.phase = Phase::Serving;
        self.due = since.time + self.config.lease / 4;
        Some(Change::Begin(since, self.config.lease))
    }

    fn lose(&mut self, now: Time) -> Option<Change> {
        let was = self.phase;
        self.phase = Phase::Watching;
        self.until = Time(0);
        if self.seen.is_some_and(|(post, _)| post.holder == 0) && !self.abstains {
            // Whoever comes first.
            self.due = now;
        }
        (was != Phase::Watching).then_some(Change::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const LEASE: u64 = 300_000;
    const CONFIG: ServingConfig = ServingConfig { own: 1, lease: LEASE, drift_ppm: 1_000 };

    fn at(us: u64) -> Moment {
        Moment { time: Time(us), tick: us / 4_000 }
    }

    /// The register.
    #[derive(Default)]
    struct Register(Post);

    impl Register {
        fn answer(&mut self, own: u64, question: Question) -> Answer {
            let (applies, holder) = match question {
                Question::Look => (false, 0),
                Question::Take(seen) => (seen == self.0.revision, own),
                Question::Renew => (self.0.holder == own, own),
                Question::Resign(seen) => (seen == self.0.revision, 0),
            };
            if !applies {
                return Answer::Is(self.0);
            }
            self.0 = Post { holder, revision: self.0.revision + 1 };
            Answer::Done(self.0)
        }
    }

    /// Asks whenever it is due until `end`, each answer at once; what changed, and when.
    fn run(serving: &mut Serving, register: &mut Register, from: u64, end: u64) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        let mut now = from.max(serving.due().0);
        while now < end {
            if let Some(inquiry) = serving.ask(at(now)) {
                let answer = register.answer(serving.config.own, inquiry.question);
                changes.extend(serving.on_answer(Time(now), inquiry, answer).map(|change| (now, change)));
            }
            now = serving.due().0.max(now);
        }
        changes
    }

    #[test]
    fn a_vacant_post_is_taken_at_once_and_renewed() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        let changes = run(&mut serving, &mut register, 0, LEASE);
        assert_eq!(changes[0], (0, Change::Begin(at(0), LEASE)));
        let renewed = |(_, change): &(u64, Change)| matches!(change, Change::Renewed(..));
        assert_eq!(changes.iter().filter(|change| renewed(change)).count(), 3, "{changes:?}");
        assert!(serving.runs(Time(LEASE)));
    }

    /// Where the lease is short, so is the time in which its successor is waited for.
    #[test]
    fn who_hands_over_looks_soon_whether_its_post_was_taken() {
        for (lease, first, next) in [(LEASE, LOOK, HANDING_LOOK), (8_000, 1_000, 1_000)] {
            let mut serving = Serving::new(ServingConfig { lease, ..CONFIG }, None);
            run(&mut serving, &mut Register::default(), 0, 10);
            serving.hand_over(Time(20));
            assert_eq!(serving.due(), Time(20 + first));
            assert!(serving.ask(at(20 + first)).is_some());
            assert_eq!(serving.due(), Time(20 + first + next));
        }
    }

    /// Whose memory at the hook it is that an earlier daemon has left depends on it.
    #[test]
    fn a_vacant_post_is_nobodys() {
        let mut serving = Serving::new(CONFIG, None);
        assert!(!serving.is_anothers(), "it has not asked");
        for (holder, is_anothers) in [(0, false), (CONFIG.own, false), (2, true)] {
            serving.seen = Some((Post { holder, revision: 7 }, Time(0)));
            assert_eq!(serving.is_anothers(), is_anothers, "{holder}");
        }
    }

    #[test]
    fn another_ones_post_is_taken_only_once_it_was_silent_for_longer_than_its_lease() {
        let mut register = Register(Post { holder: 2, revision: 7 });
        let mut serving = Serving::new(CONFIG, None);
        assert_eq!(run(&mut serving, &mut register, 0, LEASE), []);
        // Its holder renews: all is counted anew.
        register.answer(2, Question::Renew);
        let seen = serving.due().0;
        assert_eq!(run(&mut serving, &mut register, seen, seen + LEASE + MARGIN), []);
        let changes = run(&mut serving, &mut register, seen, seen + 2 * LEASE);
        assert!(matches!(changes[0], (when, Change::Begin(..)) if when >= seen + LEASE + MARGIN), "{changes:?}");
        // And who had it finds out.
        let mut former = Serving { phase: Phase::Serving, ..Serving::new(ServingConfig { own: 2, ..CONFIG }, None) };
        assert_eq!(run(&mut former, &mut register, seen + 2 * LEASE, seen + 2 * LEASE + 1).len(), 1);
        assert!(!former.runs(Time(seen + 2 * LEASE)));
    }

    #[test]
    fn one_that_renews_between_the_look_and_the_taking_keeps_it() {
        let mut register = Register(Post { holder: 2, revision: 7 });
        let mut serving = Serving::new(CONFIG, None);
        run(&mut serving, &mut register, 0, 1);
        let inquiry = serving.ask(at(2 * LEASE)).unwrap();
        assert_eq!(inquiry.question, Question::Take(7));
        register.answer(2, Question::Renew);
        let answer = register.answer(1, inquiry.question);
        assert_eq!(serving.on_answer(Time(2 * LEASE), inquiry, answer), None);
        assert!(!serving.runs(Time(2 * LEASE)));
    }

    #[test]
    fn the_lease_runs_from_before_the_question() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        let inquiry = serving.ask(at(100_000)).unwrap();
        let answer = register.answer(1, inquiry.question);
        let change = serving.on_answer(Time(250_000), inquiry, answer);
        assert_eq!(change, Some(Change::Renewed(at(100_000), LEASE)));
        assert!(serving.runs(Time(399_999)) && !serving.runs(Time(400_000)));
    }

    #[test]
    fn an_answer_that_was_overtaken_does_not_shorten_the_lease() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        let [first, second] = [100_000, 200_000].map(|now| serving.ask(at(now)).unwrap());
        let [of_first, of_second] = [first, second].map(|inquiry| register.answer(1, inquiry.question));
        let now = Time(210_000);
        assert_eq!(serving.on_answer(now, second, of_second), Some(Change::Renewed(at(200_000), LEASE)));
        assert_eq!(serving.on_answer(now, first, of_first), None);
        assert!(serving.runs(Time(499_999)));
    }

    #[test]
    fn without_answers_it_ends_by_itself_and_goes_on_if_nobody_came() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        for round in 1..20 {
            let now = round * LEASE / 4;
            let inquiry = serving.ask(at(now)).unwrap();
            assert_eq!(serving.on_answer(Time(now), inquiry, Answer::Unknown), None);
            assert_eq!(serving.runs(Time(now)), now < LEASE);
        }
        let changes = run(&mut serving, &mut register, 5 * LEASE, 5 * LEASE + 1);
        assert_eq!(changes, [(5 * LEASE, Change::Renewed(at(5 * LEASE), LEASE))]);
    }

    #[test]
    fn after_a_restart_its_own_post_is_its_own() {
        let mut register = Register(Post { holder: 1, revision: 7 });
        let mut serving = Serving::new(CONFIG, None);
        let changes = run(&mut serving, &mut register, 0, 2);
        assert!(matches!(changes[..], [(_, Change::Begin(..))]), "{changes:?}");
    }

    #[test]
    fn who_resigns_makes_room_and_stays_away() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        serving.resign(Time(10));
        assert!(!serving.runs(Time(10)));
        assert_eq!(run(&mut serving, &mut register, 10, 11), [(10, Change::End)]);
        assert_eq!(register.0.holder, 0);
        assert_eq!(run(&mut serving, &mut register, 11, 3 * LEASE), [], "it has had enough");
        let mut other = Serving::new(ServingConfig { own: 2, ..CONFIG }, None);
        assert!(matches!(run(&mut other, &mut register, 12, 13)[..], [(12, Change::Begin(..))]));
        serving.stand();
        assert_eq!(run(&mut serving, &mut register, 3 * LEASE, 3 * LEASE + 1), []);
    }

    /// One that serves and one that looks, at the same register.
    fn pair() -> (Serving, Serving, Register) {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        let mut other = Serving::new(ServingConfig { own: 2, ..CONFIG }, None);
        run(&mut other, &mut register, 1, 2);
        (serving, other, register)
    }

    #[test]
    fn who_is_left_the_post_takes_it_at_the_revision_that_it_was_told_and_at_no_other() {
        let (mut serving, mut other, mut register) = pair();
        assert!(serving.hold_still(Time(10)));
        serving.hand_over(Time(10));
        assert!(!serving.runs(Time(10)));
        let revision = serving.left_to().expect("its own");
        assert!(other.take_over(Time(11), revision));
        let inquiry = other.ask(at(11)).expect("at once");
        assert_eq!(inquiry.question, Question::Take(revision));
        let answer = register.answer(2, inquiry.question);
        assert!(matches!(other.on_answer(Time(11), inquiry, answer), Some(Change::Begin(..))));
        assert_eq!(run(&mut serving, &mut register, 12, 2 * LEASE).len(), 1, "it finds out, and stays away");
        assert_eq!(register.0.holder, 2);

        // A renewal of before comes late: its revision is another one.
        let (mut serving, mut other, mut register) = pair();
        let late = serving.ask(at(LEASE / 4 + 1)).expect("a renewal is due");
        assert!(!serving.hold_still(Time(LEASE / 4 + 2)), "it is not answered yet");
        serving.hand_over(Time(LEASE / 4 + 2));
        let revision = serving.left_to().expect("its own");
        let answer = register.answer(1, late.question);
        other.take_over(Time(LEASE / 4 + 3), revision);
        let inquiry = other.ask(at(LEASE / 4 + 3)).expect("at once");
        let refused = register.answer(2, inquiry.question);
        assert_eq!(other.on_answer(Time(LEASE / 4 + 3), inquiry, refused), None);
        assert_eq!(serving.on_answer(Time(LEASE / 4 + 4), late, answer), None, "it serves no more");
        assert_eq!(serving.ask(at(LEASE / 4 + 4)).map(|asked| asked.question), Some(Question::Resign(revision + 1)));
    }

    /// A successor is told the revision of the last renewal: there is to be no other.
    #[test]
    fn who_is_to_hand_over_renews_no_sooner_than_an_eighth_of_a_lease_later_unless_it_is_asking() {
        let (mut serving, _, mut register) = pair();
        for (now, due) in [(10, LEASE / 4), (LEASE / 4 - 10, LEASE / 4 - 10 + LEASE / 8)] {
            assert!(serving.hold_still(Time(now)));
            assert_eq!(serving.due(), Time(due));
        }
        let late = serving.ask(at(LEASE / 2)).expect("a renewal is due");
        let due = serving.due();
        assert!(!serving.hold_still(Time(3 * LEASE / 4)));
        assert_eq!(serving.due(), due);
        assert!(serving.hold_still(Time(2 * LEASE)), "it goes unanswered");
        let answer = register.answer(1, late.question);
        serving.on_answer(Time(2 * LEASE), late, answer);
        assert!(serving.hold_still(Time(2 * LEASE)));
        let mut standby = Serving::new(CONFIG, None);
        assert!(!standby.hold_still(Time(10)) && standby.due() == Time(0), "it has nothing to hand over");
    }

    #[test]
    fn who_has_left_its_post_looks_soon_and_often_whether_its_successor_has_it_and_does_not_resign_before() {
        let (mut serving, _, mut register) = pair();
        serving.hand_over(Time(10));
        assert_eq!(serving.due(), Time(10 + LOOK));
        assert!(serving.left_to().is_some());
        for look in 0..3 {
            let now = 10 + LOOK + look * HANDING_LOOK;
            let inquiry = serving.ask(at(now)).expect("it is due");
            assert_eq!((inquiry.question, serving.due()), (Question::Look, Time(now + HANDING_LOOK)));
            let answer = register.answer(1, inquiry.question);
            assert_eq!(serving.on_answer(Time(now), inquiry, answer), None);
        }
    }

    #[test]
    fn who_does_not_serve_leaves_its_post_to_nobody() {
        let mut standby = Serving::new(CONFIG, None);
        standby.hand_over(Time(10));
        assert_eq!((standby.left_to(), standby.may_resign(Time(10))), (None, false));
    }

    #[test]
    fn a_post_is_left_to_who_stands_by_for_it_and_to_nobody_else() {
        let (mut serving, mut other, _) = pair();
        assert!(other.stands_by() && !serving.stands_by());
        let due = serving.due();
        assert!(!serving.take_over(Time(10), 1) && serving.due() == due, "it has it");
        assert!(other.take_over(Time(10), 1));
        assert_eq!(other.ask(at(10)).map(|inquiry| inquiry.question), Some(Question::Take(1)));
        assert_eq!(other.due(), Time(10 + LEASE / 4), "nothing else is asked meanwhile");
        let mut drained = Serving::new(CONFIG, None);
        drained.resign(Time(10));
        assert!(!drained.stands_by() && !drained.take_over(Time(10), 1));
        drained.stand();
        assert!(drained.stands_by());
    }

    #[test]
    fn who_waits_for_a_successor_in_vain_resigns() {
        let (mut serving, _, mut register) = pair();
        serving.hand_over(Time(10));
        let changes = run(&mut serving, &mut register, 10, 2 * LEASE);
        assert!(matches!(changes[..], [(when, Change::End)] if when >= LEASE), "{changes:?}");
        assert_eq!(register.0.holder, 0);
    }

    #[test]
    fn a_late_copy_of_a_resignation_does_no_harm() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        serving.resign(Time(10));
        let late = serving.ask(at(10)).unwrap();
        let answer = register.answer(1, late.question);
        serving.on_answer(Time(10), late, answer);
        serving.stand();
        assert!(!run(&mut serving, &mut register, LEASE, LEASE + 50_000).is_empty());
        assert!(matches!(register.answer(1, late.question), Answer::Is(Post { holder: 1, .. })));
    }

    #[test]
    fn a_standby_looks_often_and_takes_a_silent_post_as_soon_as_it_may() {
        let asked = |config: ServingConfig, now: u64| {
            let mut serving = Serving::new(config, None);
            run(&mut serving, &mut Register(Post { holder: 2, revision: 7 }), 0, 1);
            (serving.due(), serving.ask(at(now)).map(|inquiry| inquiry.question))
        };
        assert_eq!(asked(CONFIG, LOOK - 1), (Time(LOOK), None));
        assert_eq!(asked(ServingConfig { lease: 80_000, ..CONFIG }, 0), (Time(10_000), None));
        // Its clock may be slow, and that of whoever had the post fast.
        let patience = LEASE + LEASE / 500 + MARGIN;
        assert_eq!(asked(CONFIG, patience - 1).1, Some(Question::Look));
        assert_eq!(asked(CONFIG, patience).1, Some(Question::Take(7)));
    }

    #[test]
    fn whoever_hears_that_the_post_is_anothers_serves_no_longer() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        let asked = serving.ask(at(LEASE / 4)).unwrap();
        let now = Time(LEASE / 4);
        assert_eq!(serving.on_answer(now, asked, Answer::Is(Post { holder: 2, revision: 9 })), Some(Change::End));
        assert!(!serving.runs(now));
    }

    /// A lease runs from a question that has written something: whoever waits for it has seen that.
    #[test]
    fn a_post_that_was_taken_without_an_answer_is_renewed_before_it_serves() {
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        let mut ask = |serving: &mut Serving, now: u64| {
            let inquiry = serving.ask(at(now)).unwrap();
            (inquiry, register.answer(1, inquiry.question))
        };
        let (looked, answer) = ask(&mut serving, 0);
        serving.on_answer(Time(0), looked, answer);
        let (taken, _) = ask(&mut serving, 0);
        assert_eq!(serving.on_answer(Time(0), taken, Answer::Unknown), None);
        let (again, answer) = ask(&mut serving, LOOK);
        assert_eq!((again.question, matches!(answer, Answer::Is(Post { holder: 1, .. }))), (Question::Take(0), true));
        assert_eq!(serving.on_answer(Time(LOOK), again, answer), None);
        assert!(!serving.runs(Time(LOOK)));
        let (renewed, answer) = ask(&mut serving, LOOK);
        assert_eq!(renewed.question, Question::Renew);
        assert_eq!(serving.on_answer(Time(LOOK), renewed, answer), Some(Change::Begin(at(LOOK), LEASE)));
    }

    #[test]
    fn who_has_resigned_serves_by_no_late_answer_and_gives_back_what_it_got() {
        // A renewal.
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        run(&mut serving, &mut register, 0, 1);
        let now = LEASE / 4;
        let renewed = serving.ask(at(now)).unwrap();
        serving.resign(Time(now));
        let resigned = serving.ask(at(now)).unwrap();
        let [of_renewed, of_resigned] = [renewed, resigned].map(|inquiry| register.answer(1, inquiry.question));
        assert_eq!(serving.on_answer(Time(now), renewed, of_renewed), None);
        assert!(!serving.runs(Time(now)));
        // The renewal was first: said again at once.
        assert_eq!(serving.on_answer(Time(now + 5), resigned, of_resigned), None);
        assert_eq!(run(&mut serving, &mut register, now + 5, now + 6), [(now + 5, Change::End)]);
        assert_eq!(register.0.holder, 0);
        // The post itself.
        let (mut serving, mut register) = (Serving::new(CONFIG, None), Register::default());
        let looked = serving.ask(at(0)).unwrap();
        serving.on_answer(Time(0), looked, Answer::Is(register.0));
        let taken = serving.ask(at(0)).unwrap();
        serving.resign(Time(1));
        let answer = register.answer(1, taken.question);
        assert_eq!(serving.on_answer(Time(2), taken, answer), None);
        assert!(!serving.runs(Time(2)));
        assert_eq!(run(&mut serving, &mut register, 2, 3), [(2, Change::End)]);
        assert_eq!(register.0.holder, 0);
    }

    #[test]
    fn a_standby_that_wants_no_post_leaves_it_whosever_it_is() {
        for holder in [1, 2] {
            let mut serving = Serving::new(CONFIG, None);
            serving.resign(Time(0));
            let answer = Answer::Is(Post { holder, revision: 7 });
            for now in [0, LOOK, 2 * LOOK] {
                let inquiry = serving.ask(at(now)).unwrap();
                assert_eq!(inquiry.question, Question::Look);
                assert_eq!(serving.on_answer(Time(now), inquiry, answer), None);
                assert_eq!(serving.due(), Time(now + LOOK), "nor does it ask without end");
            }
        }
    }
}
