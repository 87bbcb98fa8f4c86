//! Takes over what may change while the switch runs (`config/changes.rs`), when its file is read again: all of it, or
//! nothing where anything in the file is wrong or needs another start. Namespaces that are new come one by one: where
//! the switch can't take one in, those before it and all changes stay.

use super::controller::Inbox;
use super::metrics::Ledger;
use super::namespaces::{Namespaces, Numbered, queue_shape};
use super::records::Records;
use crate::admission::Admission;
use crate::config::{Config, Namespace};
use crate::failure::Failure;
use std::sync::Arc;
use tokio::sync::{Mutex, watch};
use wayside_switch::Switch;

/// Reads the configuration as it was read when the daemon was started, flags and environment included.
pub type Reread = Box<dyn Fn() -> Result<Config, Failure> + Send + Sync>;

pub struct Reload {
    /// None: there is no file.
    pub read: Option<Reread>,
    pub running: Mutex<Config>,
    pub namespaces: Arc<Namespaces>,
    pub switch: Arc<Switch>,
    pub inbox: Inbox,
    pub ledger: Arc<Ledger>,
    pub records: Records,
    /// Where tokens for hosts are written, if packets are signed: they may be for some namespaces alone.
    pub admission: Option<Admission>,
    /// Of so many requests one is followed.
    pub trace_one_in: watch::Sender<u32>,
}

impl Reload {
    /// Whether there is a file to read again.
    pub fn has_file(&self) -> bool {
        self.read.is_some()
    }

    /// What has changed, for people, or why nothing has, or not all.
    pub async fn reload(&self) -> Result<Vec<String>, String> {
        let read =
            self.read.as_ref().ok_or("the switch was started without --config: there is no file to read again")?;
        let mut running = self.running.lock().await;
        let config = read().map_err(|failure| format!("nothing has changed: {failure}"))?;
        if let Some(why) = config.needs_restart(&running) {
            return Err(format!("nothing has changed: {why}, which needs another start of the switch"));
        }
        let mut changes = Vec::new();
        let (now, before) = (config.trace_one_in, running.trace_one_in);
        if now != before {
            self.switch.set_trace_one_in(now);
            self.trace_one_in.send_replace(now);
            running.trace_one_in = now;
            changes.push(format!("traces: {}; it was {}", Config::traces_of(now), Config::traces_of(before)));
        }
        let mut all = self.namespaces.all().to_vec();
        for Numbered { number, settings } in &mut all {
            let is = config.namespaces.iter().find(|now| now.name == settings.name).expect("it is not gone");
            changes.extend(self.change(*number, settings, is));
            *settings = is.clone();
        }
        self.take_over(&mut running, all);
        let added: Vec<Namespace> = config.added(&running).cloned().collect();
        for new in added {
            let added = self.add(&config, &new).await;
            let number = added.map_err(|why| {
                let so_far: String = changes.iter().map(|change| format!("; {change}")).collect();
                format!("namespace {:?} was not added: {why}{so_far}", new.name)
            })?;
            changes.push(format!("namespace {}: added, with {}, {}", new.name, new.room_text(), new.order_text()));
            let mut all = self.namespaces.all().to_vec();
            all.push(Numbered { number, settings: new });
            self.take_over(&mut running, all);
            self.ledger.begin(number);
        }
        Ok(changes)
    }

    fn take_over(&self, running: &mut Config, all: Vec<Numbered>) {
        running.namespaces = all.iter().map(|namespace| namespace.settings.clone()).collect();
        let numbered = all.iter().map(|namespace| (namespace.number, &namespace.settings));
        self.switch.set_queue_shape(queue_shape(running.lease, numbered));
        self.namespaces.replace(all);
    }

    /// Takes a namespace in: its number.
    async fn add(&self, config: &Config, new: &Namespace) -> Result<u16, String> {
        // The records may be at the other end of a network.
        let (mut records, wanted) = (self.records.clone(), [new.clone()]);
        let numbered = tokio::task::spawn_blocking(move || records.number(&wanted)).await;
        let numbered = numbered.map_err(|error| error.to_string())?.map_err(|failure| failure.to_string())?;
        let [number] = numbered[..] else { return Err("it has no number".into()) };
        if let Some(admission) = &self.admission {
            let known = self.namespaces.all();
            let names = known.iter().map(|namespace| &namespace.settings.name).chain([&new.name]).cloned().collect();
            admission.publish_namespaces(names).map_err(|error| format!("can't write the state directory: {error}"))?;
        }
        // Before anybody can ask for anything in it.
        self.switch.set_budget(number, new.budget);
        self.inbox.add_namespace(Numbered { number, settings: new.clone() }, config.lease).await?;
        Ok(number)
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
