//! Takes over what may change while the switch runs (`config/changes.rs`), when its file is read again: all of it, or
//! nothing where anything in the file is wrong or needs another start.

use crate::config::{Config, Namespace};
use crate::failure::Failure;
use crate::server::controller::Inbox;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayside_switch::Switch;

/// Reads the configuration as it was read when the daemon was started, flags and environment included.
pub type Reread = Box<dyn Fn() -> Result<Config, Failure> + Send + Sync>;

pub struct Reload {
    /// None: there is no file.
    read: Option<Reread>,
    running: Mutex<Config>,
    switch: Arc<Switch>,
    inbox: Inbox,
    /// Of its namespaces in packets.
    numbers: Vec<u16>,
}

impl Reload {
    pub fn new(read: Option<Reread>, config: &Config, switch: &Arc<Switch>, inbox: Inbox, numbers: &[u16]) -> Reload {
        let (running, switch) = (Mutex::new(config.clone()), Arc::clone(switch));
        Reload { read, running, switch, inbox, numbers: numbers.to_vec() }
    }

    fn running(&self) -> MutexGuard<'_, Config> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a file to read again.
    pub fn has_file(&self) -> bool {
        self.read.is_some()
    }

    /// As they are now.
    pub fn namespaces(&self) -> Vec<Namespace> {
        self.running().namespaces.clone()
    }

    /// What has changed, for people, or why nothing has.
    pub fn reload(&self) -> Result<Vec<String>, String> {
        let read =
            self.read.as_ref().ok_or("the switch was started without --config: there is no file to read again")?;
        let mut running = self.running();
        let config = read().map_err(|failure| format!("nothing has changed: {failure}"))?;
        if let Some(what) = config.needs_restart(&running) {
            return Err(format!("nothing has changed: {what} differs, which needs another start of the switch"));
        }
        let pairs = running.namespaces.iter().zip(&config.namespaces).zip(&self.numbers);
        let changes: Vec<String> = pairs.flat_map(|((was, is), &number)| self.change(number, was, is)).collect();
        *running = config;
        Ok(changes)
    }

    /// A namespace has other settings now; what they are, for people.
    fn change(&self, number: u16, was: &Namespace, is: &Namespace) -> Vec<String> {
        let mut changes = Vec::new();
        if was.budget != is.budget {
            self.switch.set_budget(number, is.budget);
            changes.push((is.budget_text(), was.budget_text()));
        }
        if (was.policy, was.patience) != (is.policy, is.patience) {
            self.switch.set_policy(number, is.policy);
            self.inbox.set_policy(number, is.policy, is.patience);
            changes.push((is.order_text(), was.order_text()));
        }
        let told = |(is_now, before)| format!("namespace {}: {is_now}; it was {before}", is.name);
        changes.into_iter().map(told).collect()
    }
}
