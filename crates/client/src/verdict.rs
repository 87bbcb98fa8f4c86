//! Whether a session has begun, and why not: what the switch refuses, what it takes only from hosts that have joined,
//! or that nothing has answered.

use crate::Error;
use crate::core::{Core, Phase};
use crate::endpoint::ENDPOINTS_VARIABLE;
use crate::engine::Engine;
use wayside_protocol::SessionInfo;
use wayside_wire::Refusal;

impl Engine {
    /// The session, or why there will be none; None while that is not known.
    pub(crate) fn verdict(&self, core: &Core) -> Option<Result<SessionInfo, Error>> {
        match core.phase {
            Phase::Live => core.info().map(Ok),
            Phase::Enrolling | Phase::Lost => self.denial().map(Err),
            Phase::Refused(reason) => Some(Err(self.refusal(reason))),
            Phase::Closed => Some(Err(Error::Closed)),
        }
    }

    /// Why it has no session, if anybody said: a refusal counts although the switch is being asked again.
    pub(crate) fn reason(&self) -> Option<Error> {
        let core = self.core.lock();
        match self.verdict(&core) {
            Some(verdict) => verdict.err(),
            None => core.refused.map(|reason| self.refusal(reason)),
        }
    }

    /// Why there is no session after all the patience.
    pub(crate) fn lack(&self, core: &Core) -> Error {
        core.refused.map_or_else(|| self.unavailable(), |reason| self.refusal(reason))
    }

    fn unavailable(&self) -> Error {
        let endpoint: Vec<String> = self.config.endpoints.iter().map(ToString::to_string).collect();
        let detail = self.complaint.lock().as_ref().map_or_else(String::new, |said| format!(" ({said})"));
        Error::Unavailable { endpoint: endpoint.join(", "), waited: self.config.patience, detail }
    }

    fn refusal(&self, reason: Refusal) -> Error {
        Error::Refused(match reason {
            Refusal::Version => {
                let (major, minor) = (wayside_wire::MAJOR, wayside_wire::MINOR);
                format!("it speaks another version than {major}.{minor}, or needs a later one: update the older side")
            }
            Refusal::Namespace => format!("it has no namespace {:?}", self.config.namespace),
            Refusal::Full => "all its handles are in use: end some sessions".into(),
            Refusal::Shards => {
                let told = if self.config.placed.is_none() {
                    "no shards"
                } else {
                    "other ones, or this one's switch elsewhere"
                };
                format!(
                    "locks are divided among shards, and {ENDPOINTS_VARIABLE} names {told}: `wayside status` knows them"
                )
            }
            Refusal::None | Refusal::Recovering => "it gave no reason".into(),
        })
    }

    /// What went wrong, for whoever finds that nothing answers.
    pub(crate) fn complain(&self, error: &impl std::fmt::Display) {
        *self.complaint.lock() = Some(error.to_string());
    }
}
