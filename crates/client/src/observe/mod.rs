//! What an application can watch of its locks: metrics, with the feature `metrics`, and traces of some requests, with
//! the feature `otel` (docs/metrics.md). Without these features an [`Observer`] and a [`Watch`] have no size, and
//! everything here is nothing.
//!
//! Invariants: nothing here waits for anybody, and of what it is told under the session's lock it writes down at most a
//! few words; spans are given to the application's exporter by the threads that called and by the background thread,
//! without that lock. Metrics have their handles from the session's beginning, so that observing a value allocates
//! nothing.

#[cfg(feature = "metrics")]
mod meters;
#[cfg(feature = "otel")]
mod traces;

use crate::Error;
use crate::core::Core;
use crate::guard::Guard;
use crate::request::Begun;
use wayside_protocol::Mode;

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// With its session: no heartbeat was acknowledged for a lease, or this process has ended it.
    Session,
    /// Its own time was over.
    Ttl,
}

/// What a session tells whoever watches it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observer {
    #[cfg(feature = "metrics")]
    meters: Option<std::sync::Arc<meters::Meters>>,
    #[cfg(feature = "otel")]
    traces: Option<std::sync::Arc<traces::Traces>>,
}

/// One call that acquires, from its beginning to its end. Dropped before: it was given up.
#[derive(Debug)]
pub(crate) struct Watch {
    #[cfg(feature = "metrics")]
    meter: Option<meters::Call>,
    #[cfg(feature = "otel")]
    trace: Option<traces::Call>,
}

#[cfg_attr(
    not(all(feature = "metrics", feature = "otel")),
    allow(unused_variables, reason = "for what is not built in")
)]
impl Observer {
    /// Of a session in this namespace, of whose acquires one in `one_in` is traced; 0: none.
    pub(crate) fn new(namespace: &str, one_in: u64) -> Observer {
        Observer {
            #[cfg(feature = "metrics")]
            meters: Some(std::sync::Arc::new(meters::Meters::new(namespace))),
            #[cfg(feature = "otel")]
            traces: (one_in > 0).then(|| std::sync::Arc::new(traces::Traces::new(namespace, one_in))),
        }
    }

    /// An acquire begins.
    #[inline]
    pub(crate) fn watch(&self, mode: Mode) -> Watch {
        Watch {
            #[cfg(feature = "metrics")]
            meter: self.meters.as_ref().map(|meters| meters::Call::new(meters, mode)),
            #[cfg(feature = "otel")]
            trace: self.traces.as_ref().map(|traces| traces::Call::new(traces, mode)),
        }
    }

    /// A guard was given back, or dropped.
    #[inline]
    pub(crate) fn gave_back(&self) {
        #[cfg(feature = "metrics")]
        if let Some(meters) = &self.meters {
            meters.gave_back();
        }
    }

    /// A hold is over, and its owner has not given it back.
    #[inline]
    pub(crate) fn lost(&self, loss: Loss) {
        #[cfg(feature = "metrics")]
        if let Some(meters) = &self.meters {
            meters.lost(loss);
        }
    }

    /// This process ends the session.
    pub(crate) fn closes(&self) {
        #[cfg(feature = "metrics")]
        if let Some(meters) = &self.meters {
            meters.closes();
        }
    }

    /// A packet leaves.
    #[inline]
    pub(crate) fn sent(&self, packet: &[u8]) {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            traces.sent(packet);
        }
    }

    /// A packet has come.
    #[inline]
    pub(crate) fn received(&self, packet: &[u8]) {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            traces.received(packet);
        }
    }

    /// Gives away what agents have finished. Not under the session's lock.
    #[inline]
    pub(crate) fn flush(&self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            traces.flush();
        }
    }
}

#[cfg_attr(
    not(all(feature = "metrics", feature = "otel")),
    allow(unused_variables, reason = "for what is not built in")
)]
impl Watch {
    /// The request that it became; nothing has been sent of it.
    #[inline]
    pub(crate) fn is(&mut self, begun: Begun, name: u64, core: &Core) {
        #[cfg(feature = "otel")]
        if let (Some(call), Some(info)) = (&mut self.trace, core.info()) {
            call.is(begun.id, wayside_wire::slot_of(name, info.slots), name);
        }
    }

    /// It has its guard, or none.
    #[inline]
    pub(crate) fn ends(&mut self, acquired: &Result<Guard, Error>) {
        self.ends_with(acquired.as_ref().map(std::slice::from_ref));
    }

    /// It has its guards, or none.
    #[inline]
    pub(crate) fn ends_with(&mut self, acquired: Result<&[Guard], &Error>) {
        #[cfg(feature = "metrics")]
        if let Some(call) = &mut self.meter {
            match acquired {
                Ok(guards) => guards.iter().for_each(|guard| call.granted(guard.path())),
                Err(error) => call.failed(Failure::of(error)),
            }
        }
        #[cfg(feature = "otel")]
        if let Some(call) = &mut self.trace {
            match acquired {
                Ok([guard]) => call.granted(guard.path(), guard.token()),
                Ok(_) => {}
                Err(error) => call.failed(Failure::of(error)),
            }
        }
    }
}

/// Why there is no guard.
#[cfg(any(feature = "metrics", feature = "otel"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Busy,
    TimedOut,
    OverBudget,
    Deadlock,
    Lost,
    /// The future was dropped.
    GivenUp,
    /// No session, no socket, no such name.
    Failed,
}

#[cfg(any(feature = "metrics", feature = "otel"))]
impl Failure {
    #[cfg(feature = "metrics")]
    const ALL: [Failure; 7] = [
        Failure::Busy,
        Failure::TimedOut,
        Failure::OverBudget,
        Failure::Deadlock,
        Failure::Lost,
        Failure::GivenUp,
        Failure::Failed,
    ];

    fn of(error: &Error) -> Failure {
        match error {
            Error::Busy { .. } => Failure::Busy,
            Error::TimedOut => Failure::TimedOut,
            Error::OverBudget => Failure::OverBudget,
            Error::Deadlock { .. } => Failure::Deadlock,
            Error::Lost => Failure::Lost,
            _ => Failure::Failed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Failure::Busy => "busy",
            Failure::TimedOut => "timed_out",
            Failure::OverBudget => "over_budget",
            Failure::Deadlock => "deadlock",
            Failure::Lost => "lost",
            Failure::GivenUp => "given_up",
            Failure::Failed => "failed",
        }
    }
}

#[cfg(any(feature = "metrics", feature = "otel"))]
fn word_of_path(path: wayside_protocol::Path) -> &'static str {
    use wayside_protocol::Path;
    match path {
        Path::Switch => "switch",
        Path::Agent => "agent",
        Path::Local => "local",
    }
}

#[cfg(any(feature = "metrics", feature = "otel"))]
fn word_of_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}
