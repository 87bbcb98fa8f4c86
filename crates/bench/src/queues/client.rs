//! A node's clients: tasks over one session, of a tenant.

use crate::Error;
use crate::contest::peers::{granted, settle};
use crate::contest::service::{Grant, LockService, Refusal};
use std::time::{Duration, Instant};
use wayside_client::{Guard, Mode, Path, Session, Wait};

/// Longer than a busy machine keeps a session's thread from running.
const LEASE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(10);

/// Who asks, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    pub(super) namespace: &'static str,
    /// 0 to 7.
    pub(super) priority: u8,
    /// After so long it asks for the first time.
    pub(super) joins: Duration,
}

/// Namespace of whoever has no other.
pub(super) const DEFAULT: &str = "default";
/// That of the second tenant, where each has its own.
pub(super) const SECOND: &str = "second";
/// The priority of whoever says none.
pub(super) const NORMAL: u8 = 4;

impl Tenant {
    /// One that nothing is said of.
    pub(super) const ANY: Tenant = Tenant { namespace: DEFAULT, priority: NORMAL, joins: Duration::ZERO };
}

pub(super) struct Clients {
    session: Session,
    priority: u8,
    begins: Instant,
}

impl Clients {
    /// From within a Tokio runtime, which reads for them.
    pub(super) fn connect(endpoint: &str, tenant: Tenant) -> Result<Clients, Error> {
        let session = Session::builder().endpoint(endpoint).namespace(tenant.namespace).wait(Wait::Block).lease(LEASE);
        let session = session.patience(PATIENCE).connect().map_err(|error| error.to_string())?;
        tokio::spawn(session.driver());
        Ok(Clients { session, priority: tenant.priority, begins: Instant::now() + tenant.joins })
    }
}

impl LockService for Clients {
    type Held = Guard;

    async fn acquire(&self, _: usize, lock: u64, mode: Mode, until: Instant) -> Result<Grant<Guard>, Refusal> {
        if Instant::now() < self.begins {
            tokio::time::sleep_until(self.begins.into()).await;
        }
        let request = self.session.lock(lock).priority(self.priority);
        let request = request.wait(until.saturating_duration_since(Instant::now()));
        let request = if mode == Mode::Shared { request.shared() } else { request };
        granted(request.acquire_async().await)
    }

    fn is_by_switch(&self, held: &Guard) -> bool {
        held.path() == Path::Switch
    }

    async fn release(&self, _: usize, guard: Guard) -> Result<(), Error> {
        guard.release().map_err(|error| error.to_string())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        settle(&self.session);
    }
}
