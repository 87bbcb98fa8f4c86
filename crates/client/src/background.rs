//! The background thread of a session: it answers for the agents, reads for the tasks, drives the timers that nobody
//! else does, keeps the lifeline, and begins a new session after one is lost.

use crate::clock;
use crate::core::Phase;
use crate::ears::Ears;
use crate::engine::Engine;
use crate::errands;
use crate::leases::Leases;
use crate::lifeline::Lifeline;
use crate::listing::{abort, listing};
use crate::socket::poll;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wayside_protocol::Time;

/// Packets read from one socket before the other one and the timers have their turn.
const TURN: u32 = 64;
/// Without an answer for so long, the endpoint is asked anew, and its name resolved anew.
const ENDPOINT_PATIENCE: Duration = Duration::from_secs(1);
/// Or another one: a standby says nothing.
const NEXT_ENDPOINT: Duration = Duration::from_millis(250);
/// Without a session it looks so often; and lets the tasks that wait for one look at their deadlines, so that no
/// timer of a runtime is asked for.
const LOOK: Duration = Duration::from_millis(100);

/// A session that is being closed looks so often whether what it gave back has been taken over.
const LINGERING_LOOK: Duration = Duration::from_micros(500);

/// Runs until the session is closed. `lifeline` is told whether the session has one, `leases` when its switch may have
/// lost what they know of.
pub(crate) fn run(engine: &Arc<Engine>, lifeline: Arc<AtomicBool>, leases: &Arc<Leases>) {
    errands::prepare();
    let (lifeline, phase_since) = (Lifeline::new(lifeline), clock::now());
    let mut background = Background { engine, leases, lifeline, phase: Phase::Enrolling, phase_since, epoch: 0 };
    let over = Over(engine);
    while background.turn() {}
    // The guards first: the end of the lifeline gives their locks to others.
    drop(over);
    background.lifeline.end();
}

/// Dropped before the lifeline is, even where a waker or an observer of the application's panics in this thread: then
/// nobody looks after the session any more, and no guard may think so.
struct Over<'a>(&'a Engine);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.visit(|core, _, errands| core.lose(Phase::Closed, errands));
        // It may have the session itself, which would never go.
        drop(self.0.visit(|core, _, _| core.serve_no_more()));
    }
}

struct Background<'a> {
    engine: &'a Arc<Engine>,
    leases: &'a Arc<Leases>,
    lifeline: Lifeline,
    phase: Phase,
    phase_since: Time,
    /// Of the session's switch, when it was looked at last.
    epoch: u32,
}

impl Background<'_> {
    /// Sleeps until there is something to do, and does it. False: the session is closed.
    fn turn(&mut self) -> bool {
        let next = self.engine.next_wake_up().min(self.lifeline.due()).min(self.looks_again());
        let [answers, others] = self.reactor();
        let [pulse, agent, reactor, overheard, rung, line, heard] = poll(
            [
                self.engine.pulse().socket.descriptor(),
                self.engine.agent().socket.descriptor(),
                answers,
                others,
                self.engine.agent().alarm.descriptor(),
                self.lifeline.descriptor(),
                self.engine.agent().ears().map_or(-1, Ears::descriptor),
            ],
            clock::until(next),
        );
        self.engine.is_up();
        // Whatever is due: a thread that spins sees to the timers before this one has woken for them.
        self.engine.look_for_the_way();
        self.engine.config.observer.flush();
        if rung {
            self.engine.agent().alarm.silence();
        }
        if heard {
            self.engine.listen_at(self.engine.agent(), TURN);
        }
        if pulse {
            self.engine.drain(&self.engine.pulse().socket, TURN);
        }
        if agent {
            self.engine.drain(&self.engine.agent().socket, TURN);
        }
        if reactor {
            self.engine.drain(&self.engine.reactor().socket, TURN);
        }
        if overheard {
            self.engine.listen_at(self.engine.reactor(), TURN);
        }
        if self.engine.timers_are_due() {
            // What lies unread in a reply port may be the very answer that is about to be asked for again.
            self.engine.sweep();
            self.engine.tick();
        }
        if self.engine.lingers() {
            self.engine.leave_once_settled();
        }
        if line {
            self.lifeline.on_readable(
                |asked| listing(self.engine, asked),
                |order| abort(self.engine, order),
                |divided| {
                    if let Some(placed) = &self.engine.config.placed {
                        placed.told(divided);
                    }
                },
            );
        }
        self.look_after_session()
    }

    fn look_after_session(&mut self) -> bool {
        let now = clock::now();
        self.lifeline.close_former(now);
        let (phase, session) = self.engine.session();
        if phase != self.phase {
            self.phase = phase;
            self.phase_since = now;
        }
        match phase {
            Phase::Live => {
                self.lifeline.keep(session, self.engine.switch());
                self.engine.renew();
                if let Some(session) = session.filter(|session| session.epoch != self.epoch) {
                    self.epoch = session.epoch;
                    self.leases.look_again(session.epoch);
                }
            }
            Phase::Enrolling if now >= clock::after(self.phase_since, self.patience()) && !self.engine.is_asking() => {
                self.phase_since = now;
                self.engine.enrol_anew(true);
            }
            Phase::Enrolling => self.engine.call_newcomers(),
            Phase::Lost => {
                self.lifeline.let_go(self.engine.promised());
                // Where the switch is may take long to look up.
                self.engine.call_newcomers();
                self.engine.enrol_anew(false);
            }
            // A namespace may be made and handles may be freed: ask again from time to time.
            Phase::Refused(_) if now >= clock::after(self.phase_since, ENDPOINT_PATIENCE) => {
                self.engine.enrol_anew(false)
            }
            Phase::Refused(_) => {}
            Phase::Closed => return false,
        }
        now < self.engine.closes_at()
    }

    /// What is answered to tasks, by the session's switch and by others, unless somebody else reads that.
    fn reactor(&self) -> [RawFd; 2] {
        let reactor = self.engine.reactor();
        let ears = || reactor.ears().map_or(-1, Ears::descriptor);
        if self.engine.seat().is_taken() { [-1; 2] } else { [reactor.socket.descriptor(), ears()] }
    }

    fn patience(&self) -> Duration {
        if self.engine.has_choice() { NEXT_ENDPOINT } else { ENDPOINT_PATIENCE }
    }

    /// When the session needs a look although no timer of the protocol is due.
    fn looks_again(&self) -> Time {
        let look = match self.phase {
            Phase::Live if self.engine.lingers() => clock::after(clock::now(), LINGERING_LOOK),
            Phase::Live | Phase::Closed => Time(u64::MAX),
            Phase::Enrolling | Phase::Lost | Phase::Refused(_) => clock::after(clock::now(), LOOK),
        };
        look.min(self.engine.closes_at())
    }
}
