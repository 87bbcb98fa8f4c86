//! Where the core runs: at the kernel's XDP hook on some interfaces, with this process beside it, or in this process
//! alone. What can't be had is fallen back from, and said.

#[cfg_attr(feature = "xdp", path = "xdp.rs")]
#[cfg_attr(not(feature = "xdp"), path = "no_xdp.rs")]
mod hook;

use super::controller::Inbox;
use super::namespaces::{lay_out, queue_shape};
use crate::config::{Config, Mode};
use crate::failure::Failure;
use hook::{Hook, remove_left};
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use wayside_switch::{QueueConfig, StoreConfig, Switch, SwitchConfig};

/// Where the core runs, for people.
#[derive(Clone, Debug)]
pub struct Residence {
    /// `native XDP`, `generic XDP` or `userspace`.
    pub mode: String,
    /// The interfaces whose packets are decided at the hook.
    pub ports: Vec<String>,
    /// Why it is not at the hook, or not natively; or what is lost because it is.
    pub reason: Option<String>,
}

impl Residence {
    /// In brackets behind the rest.
    pub fn aside(&self) -> String {
        aside(&self.ports, self.reason.as_deref())
    }
}

/// The interfaces, and what there is to say about them, or why there are none.
pub fn aside(ports: &[String], reason: Option<&str>) -> String {
    let ports = ports.join(", ");
    let all: Vec<&str> = [ports.as_str()].into_iter().filter(|ports| !ports.is_empty()).chain(reason).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

impl std::fmt::Display for Residence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.mode)
    }
}

/// The core's home.
pub struct Home {
    hook: Option<Hook>,
    keep_attached: bool,
    reason: Option<String>,
}

impl Home {
    /// Finds memory for the core: the hook's, if it may run there, or this process's own.
    pub fn find(config: &Config, listen: SocketAddrV4, numbers: &[u16]) -> Result<(Home, Switch), Failure> {
        let found = match unfit(config, listen) {
            Some(reason) => Err(Failure::unavailable(reason)),
            None => Hook::load(config, listen, numbers),
        };
        let keep_attached = config.keep_attached;
        match found {
            Ok((hook, switch)) => Ok((Home { hook: Some(hook), keep_attached, reason: None }, switch)),
            Err(failure) if config.mode.may_be_userspace() => {
                // What an earlier daemon has left there would go on deciding about the same locks.
                remove_left(config, listen);
                let home = Home { hook: None, keep_attached, reason: Some(failure.reason().into()) };
                Ok((home, in_userspace(config, numbers)?))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Begins to decide at the hook. To be called once the controller has given the memory an epoch.
    pub fn enter(
        &mut self,
        config: &Config,
        switch: &Arc<Switch>,
        socket: &Arc<UdpSocket>,
        inbox: &Inbox,
        listen: SocketAddrV4,
    ) -> Result<(), Failure> {
        let Some(hook) = &mut self.hook else { return Ok(()) };
        let entered = hook.start(switch, socket, inbox).and_then(|()| hook.attach(config, listen));
        match entered {
            Err(failure) if config.mode.may_be_userspace() => {
                // The memory stays mapped as long as this process uses it.
                self.hook.take().expect("as above").end(false);
                self.reason = Some(failure.reason().into());
                Ok(())
            }
            other => other,
        }
    }

    /// Whether the memory is that of an earlier daemon, with all locks in it.
    pub fn resumed(&self) -> bool {
        self.hook.as_ref().is_some_and(Hook::resumed)
    }

    /// Whether the memory may outlive this daemon.
    pub fn is_at_hook(&self) -> bool {
        self.hook.is_some()
    }

    /// For the ready line, `status` and the metrics.
    pub fn residence(&self) -> Residence {
        match &self.hook {
            Some(hook) => {
                let (mode, ports, reason) = hook.describe();
                Residence { mode, ports, reason }
            }
            None => Residence { mode: "userspace".into(), ports: Vec::new(), reason: self.reason.clone() },
        }
    }

    /// Returns once every decision at the hook that had begun has ended.
    ///
    /// # Errors
    /// Where that can't be known.
    pub fn await_decisions(&self) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), Hook::await_decisions)
    }

    /// The daemon ends: so does the program at the hook, unless it is to stay.
    pub fn end(self) {
        if let Some(hook) = self.hook {
            hook.end(self.keep_attached);
        }
    }
}

/// Why XDP is not even tried.
fn unfit(config: &Config, listen: SocketAddrV4) -> Option<String> {
    if config.mode == Mode::Userspace {
        return Some("as configured".into());
    }
    // SAFETY: geteuid has no preconditions and cannot fail.
    if config.mode == Mode::Auto && unsafe { libc::geteuid() } != 0 {
        return Some("XDP needs root".into());
    }
    (config.mode == Mode::Auto && listen.ip().is_loopback()).then(|| "loopback has no XDP".into())
}

fn in_userspace(config: &Config, numbers: &[u16]) -> Result<Switch, Failure> {
    let switch = Switch::new(switch_config(config)).with_store(store_config(config)?);
    let switch = switch.with_queues(queue_config(config)?);
    add_namespaces(&switch, config, numbers)?;
    set_budgets(&switch, config, numbers);
    Ok(switch)
}

fn switch_config(config: &Config) -> SwitchConfig {
    SwitchConfig { slots: config.slots, max_handle: wayside_protocol::chain::LAST_SESSION }
}

fn store_config(config: &Config) -> Result<StoreConfig, Failure> {
    let keys = config.namespaces.iter().map(|namespace| namespace.keys).sum();
    Ok(StoreConfig { keys, seed: super::random_number()? })
}

fn queue_config(config: &Config) -> Result<QueueConfig, Failure> {
    Ok(QueueConfig { queues: config.queues, cells: config.cells, seed: super::random_number()? })
}

/// Budgets as they are configured now: of memory that an earlier daemon has left, too.
fn set_budgets(switch: &Switch, config: &Config, numbers: &[u16]) {
    for (namespace, &number) in config.namespaces.iter().zip(numbers) {
        switch.set_budget(number, namespace.budget);
    }
}

fn add_namespaces(switch: &Switch, config: &Config, numbers: &[u16]) -> Result<(), Failure> {
    for (namespace, &number) in config.namespaces.iter().zip(numbers) {
        // Their queues are of no epoch yet: each epoch begins them anew.
        lay_out(switch, number, namespace).map_err(Failure::unavailable)?;
    }
    switch.set_queue_shape(queue_shape(config.lease, numbers.iter().copied().zip(&config.namespaces)));
    Ok(())
}
