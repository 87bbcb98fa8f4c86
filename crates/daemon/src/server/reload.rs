//! Takes over what may change while the switch runs (`config/changes.rs`), when its file is read again: all of it, or
//! nothing where anything in the file is wrong or needs another start.

use crate::config::{Config, Namespace};
use crate::failure::Failure;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayside_switch::{Budget, Switch};

/// Reads the configuration as it was read when the daemon was started, flags and environment included.
pub type Reread = Box<dyn Fn() -> Result<Config, Failure> + Send + Sync>;

pub struct Reload {
    /// None: there is no file.
    read: Option<Reread>,
    running: Mutex<Config>,
    switch: Arc<Switch>,
    /// Of its namespaces in packets.
    numbers: Vec<u16>,
}

impl Reload {
    pub fn new(read: Option<Reread>, config: &Config, switch: &Arc<Switch>, numbers: &[u16]) -> Reload {
        Reload { read, running: Mutex::new(config.clone()), switch: Arc::clone(switch), numbers: numbers.to_vec() }
    }

    fn running(&self) -> MutexGuard<'_, Config> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a file to read again.
    pub fn has_file(&self) -> bool {
        self.read.is_some()
    }

    /// As they are now, in the order of the namespaces.
    pub fn budgets(&self) -> Vec<Option<Budget>> {
        self.running().namespaces.iter().map(|namespace| namespace.budget).collect()
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
        let changed = pairs.filter(|((was, is), _)| was.budget != is.budget);
        let changes = changed.map(|((was, is), &number)| {
            self.switch.set_budget(number, is.budget);
            told(was, is)
        });
        let changes: Vec<String> = changes.collect();
        *running = config;
        Ok(changes)
    }
}

fn told(was: &Namespace, is: &Namespace) -> String {
    format!("namespace {}: {}; it was {}", is.name, is.budget_text(), was.budget_text())
}
