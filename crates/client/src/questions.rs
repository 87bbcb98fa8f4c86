//! What was asked of keys and is not answered yet, or is and nobody has looked.
//!
//! Invariant: a record is its asker's from [`Questions::enter`] until [`Questions::close`]; then it serves another one,
//! with the room that its lists have.

use crate::errands::Errands;
use crate::port::Place;
use std::task::Waker;
use wayside_protocol::RequestId;
use wayside_protocol::chain::Answer;
use wayside_protocol::map::IdMap;

/// How a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Waiting,
    Answered(Answer),
    TimedOut,
    Lost,
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) reply: Reply,
    /// The key's name: it is told once, if the key has never been made.
    pub(crate) name: Vec<u8>,
    /// Port of the thread that waits; None: a task does.
    pub(crate) waiter: Option<Place>,
    /// Tasks to call when there is a reply.
    pub(crate) listeners: Vec<Waker>,
}

#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: IdMap<u64, Question>,
    spare: Vec<Question>,
}

impl Questions {
    pub(crate) fn enter(&mut self, id: RequestId, name: &[u8], waiter: Option<Place>) {
        let spare = self.spare.pop();
        let mut question = spare.unwrap_or_else(|| Question {
            reply: Reply::Waiting,
            name: Vec::new(),
            waiter: None,
            listeners: Vec::new(),
        });
        question.reply = Reply::Waiting;
        question.name.clear();
        question.name.extend_from_slice(name);
        question.waiter = waiter;
        self.open.insert(id.0, question);
    }

    pub(crate) fn find(&mut self, id: RequestId) -> Option<&mut Question> {
        self.open.get_mut(&id.0)
    }

    /// There is a reply.
    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply, errands: &mut Errands) {
        let Some(question) = self.find(id) else { return };
        question.reply = reply;
        if let Some(waiter) = question.waiter {
            errands.tell(waiter);
        }
        if !question.listeners.is_empty() {
            errands.wake(&mut question.listeners);
        }
    }

    /// What came of it; None while it waits.
    pub(crate) fn look(&mut self, id: RequestId) -> Option<Reply> {
        self.find(id)
            .map_or(Some(Reply::Lost), |question| Some(question.reply).filter(|reply| *reply != Reply::Waiting))
    }

    /// As [`Questions::look`]; where it waits, the task is called when there is a reply.
    pub(crate) fn look_for_task(
        &mut self,
        id: RequestId,
        waker: &mut Option<Waker>,
        errands: &mut Errands,
    ) -> Option<Reply> {
        let reply = self.look(id);
        if let Some(question) = self.find(id) {
            match reply {
                None => {
                    let listeners = &mut question.listeners;
                    listeners.extend(waker.take_if(|new| !listeners.iter().any(|known| known.will_wake(new))));
                }
                Some(_) => errands.forget(&mut question.listeners),
            }
        }
        reply
    }

    /// Its asker has no more use for it. Whether it still waited.
    pub(crate) fn close(&mut self, id: RequestId, errands: &mut Errands) -> bool {
        let Some(mut question) = self.open.remove(&id.0) else { return false };
        errands.forget(&mut question.listeners);
        let waited = question.reply == Reply::Waiting;
        self.spare.push(question);
        waited
    }
}
