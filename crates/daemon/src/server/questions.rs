//! What people and scrapes ask the controller's thread. Such questions are put aside while it serves who cannot wait,
//! and answered then, once for all who ask the same: however many ask, and however often, each costs the thread one
//! look at things as they are, and of lists of keys, which are long work, there is one at a time.

use super::metrics::Numbers;
use crate::answers::{Chains, Keys, Session};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;
use wayside_protocol::controller::PlanView;

/// Where an answer goes that others may get as well: whoever wants one of its own makes it, on its own thread.
pub type Asker<T> = oneshot::Sender<Arc<T>>;

pub enum Question {
    /// The live sessions, by handle.
    Sessions(Asker<Vec<Session>>),
    /// For a scrape.
    Numbers(Asker<Numbers>),
    /// Which locks have their queue in the switch. Answered by nothing if another switch serves.
    Plans(Asker<Vec<PlanView>>),
    /// Answered by None if another switch knows.
    Chains(Asker<Option<Chains>>),
    Keys(Wanted, Asker<Option<Keys>>),
}

/// Keys of a namespace, by its name, that begin so. Answered by None if there is no such namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub namespace: String,
    pub prefix: String,
}

/// Those that wait for an answer.
#[derive(Default)]
pub struct Questions {
    sessions: Vec<Asker<Vec<Session>>>,
    numbers: Vec<Asker<Numbers>>,
    plans: Vec<Asker<Vec<PlanView>>>,
    chains: Vec<Asker<Option<Chains>>>,
    keys: VecDeque<(Wanted, Asker<Option<Keys>>)>,
}

/// Who knows the answers.
pub trait Knows {
    fn sessions(&self) -> Vec<Session>;
    fn numbers(&self) -> Numbers;
    fn plans(&self) -> Vec<PlanView>;
    fn chains(&self) -> Option<Chains>;
    fn keys(&self, wanted: &Wanted) -> Option<Keys>;
}

impl Questions {
    pub fn add(&mut self, question: Question) {
        match question {
            Question::Sessions(asker) => self.sessions.push(asker),
            Question::Numbers(asker) => self.numbers.push(asker),
            Question::Plans(asker) => self.plans.push(asker),
            Question::Chains(asker) => self.chains.push(asker),
            Question::Keys(wanted, asker) => self.keys.push_back((wanted, asker)),
        }
    }

    /// Answers all, but of lists of keys one.
    pub fn answer(&mut self, knows: &impl Knows) {
        tell(self.sessions.drain(..), || knows.sessions());
        tell(self.numbers.drain(..), || knows.numbers());
        tell(self.plans.drain(..), || knows.plans());
        tell(self.chains.drain(..), || knows.chains());
        // Whoever has given up wants none.
        self.keys.retain(|(_, asker)| !asker.is_closed());
        if let Some((wanted, _)) = self.keys.front() {
            let wanted = wanted.clone();
            let (same, others): (VecDeque<_>, _) = self.keys.drain(..).partition(|(other, _)| *other == wanted);
            self.keys = others;
            tell(same.into_iter().map(|(_, asker)| asker), || knows.keys(&wanted));
        }
    }

    /// Whether somebody still waits.
    pub fn are_open(&self) -> bool {
        !self.keys.is_empty()
    }
}

fn tell<T>(askers: impl ExactSizeIterator<Item = Asker<T>>, answer: impl FnOnce() -> T) {
    if askers.len() == 0 {
        return;
    }
    let answer = Arc::new(answer());
    for asker in askers {
        // Whoever asked may be gone.
        let _ = asker.send(Arc::clone(&answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// Counts what it is asked.
    #[derive(Default)]
    struct Counts {
        sessions: Cell<u32>,
        listed: RefCell<Vec<String>>,
    }

    impl Knows for Counts {
        fn sessions(&self) -> Vec<Session> {
            self.sessions.set(self.sessions.get() + 1);
            Vec::new()
        }

        fn numbers(&self) -> Numbers {
            unreachable!("nobody asks for it")
        }

        fn plans(&self) -> Vec<PlanView> {
            unreachable!("nobody asks for it")
        }

        fn chains(&self) -> Option<Chains> {
            None
        }

        fn keys(&self, wanted: &Wanted) -> Option<Keys> {
            self.listed.borrow_mut().push(wanted.prefix.clone());
            None
        }
    }

    fn wanted(prefix: &str) -> Wanted {
        Wanted { namespace: "default".into(), prefix: prefix.into() }
    }

    #[test]
    fn what_many_ask_is_looked_up_once() {
        let (knows, mut questions) = (Counts::default(), Questions::default());
        questions.answer(&knows);
        assert_eq!(knows.sessions.get(), 0, "nobody has asked");
        let mut answers: Vec<_> = (0..100)
            .map(|_| {
                let (asker, answer) = oneshot::channel();
                questions.add(Question::Sessions(asker));
                answer
            })
            .collect();
        questions.answer(&knows);
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()));
        assert_eq!(knows.sessions.get(), 1);
    }

    #[test]
    fn keys_are_listed_once_at_a_time_and_for_nobody_who_is_gone() {
        let (knows, mut questions) = (Counts::default(), Questions::default());
        let mut ask = |prefix| {
            let (asker, answer) = oneshot::channel();
            questions.add(Question::Keys(wanted(prefix), asker));
            answer
        };
        let mut answers = ["a", "b", "a", "c"].map(&mut ask);
        drop(ask("d"));
        let mut told = Vec::new();
        while questions.are_open() {
            questions.answer(&knows);
            told.push(answers.iter_mut().filter_map(|answer| answer.try_recv().ok()).count());
        }
        assert_eq!((told, &knows.listed.borrow()[..]), (vec![2, 1, 1], &["a", "b", "c"].map(String::from)[..]));
    }
}
