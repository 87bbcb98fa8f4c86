//! The core at the kernel's XDP hook: which interfaces, in which mode, and the thread that serves its upcalls.

#[path = "ways.rs"]
mod ways;

use super::{add_namespaces, queue_config, set_budgets, store_config, switch_config};
use crate::card::{Card, choice};
use crate::config::Config;
use crate::failure::Failure;
use crate::kernel::release;
use crate::server::controller::Inbox;
use crate::server::keys::groups_of;
use crate::server::namespaces::{await_missing, queue_shape};

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use ways::Ways;
use wayside_protocol::memory::SwitchMemory;
use wayside_switch::xdp::interfaces::{self, Interface, Mode};
use wayside_switch::xdp::{self, Options, Upcall};
use wayside_switch::{Action, Switch};
use wayside_wire::limits::MAX_PACKET_BYTES;

/// A loaded program and what serves it.
pub struct Hook {
    hook: xdp::Hook,
    /// Wakes the thread of upcalls, which then ends.
    stop: OwnedFd,
    upcalls: Option<JoinHandle<()>>,
    /// The ports, once the program is attached to them.
    ports: Arc<OnceLock<Vec<Interface>>>,
    /// Why it is not native, or what is lost because it is.
    reason: Option<String>,
}

fn options(config: &Config, listen: SocketAddrV4) -> Result<Options, Failure> {
    Ok(Options {
        listen,
        config: switch_config(config),
        store: store_config(config)?,
        queues: queue_config(config)?,
        directory: config.bpf_dir.clone(),
    })
}

/// Detaches and removes what an earlier daemon of this address has left at the hook.
pub fn remove_left(config: &Config, listen: SocketAddrV4) {
    xdp::remove_left(&config.bpf_dir, listen);
}

impl Hook {
    /// Loads the program, on the memory that an earlier daemon has left if its namespaces are these.
    pub fn load(config: &Config, listen: SocketAddrV4, numbers: &[u16]) -> Result<(Hook, Switch), Failure> {
        let options = options(config, listen)?;
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Failure::denied(format!("XDP needs root: {error}")),
            _ => Failure::unavailable(format!("XDP: {error}")),
        };
        let (mut hook, mut switch) = xdp::Hook::load(&options).map_err(failed)?;
        let wanted: Vec<(u16, u32)> =
            numbers.iter().copied().zip(config.namespaces.iter().map(|namespace| namespace.slots)).collect();
        let groups = groups_of(config, numbers);
        let of = |group| groups.iter().find(|groups| groups.has(group)).map(|groups| groups.namespace);
        let shape = queue_shape(config.lease, numbers.iter().copied().zip(&config.namespaces));
        let is_its = || switch.has_exactly(&wanted) && switch.has_groups_of(of) && switch.queue_shape() == shape;
        if hook.resumed() && !is_its() {
            tracing::warn!(
                "the namespaces, or their queues, are not those of the switch that was left at the hook: its memory begins anew"
            );
            drop(switch);
            (hook, switch) = hook.discard(&options).map_err(failed)?;
        }
        if hook.resumed() {
            for (namespace, &number) in config.namespaces.iter().zip(numbers) {
                switch.set_policy(number, namespace.policy);
                await_missing(&switch, number, namespace);
            }
        } else {
            add_namespaces(&switch, config, numbers)?;
        }
        set_budgets(&switch, config, numbers);
        // SAFETY: no pointers; the descriptor that comes back is owned by nobody else.
        let stop = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if stop < 0 {
            return Err(Failure::system("XDP: no eventfd", &io::Error::last_os_error()));
        }
        // SAFETY: as above.
        let stop = unsafe { OwnedFd::from_raw_fd(stop) };
        Ok((Hook { hook, stop, upcalls: None, ports: Arc::default(), reason: None }, switch))
    }

    /// Attaches the program to the switch's interfaces: natively only where nothing is lost by that, as far as is
    /// known.
    pub fn attach(&mut self, config: &Config, listen: SocketAddrV4) -> Result<(), Failure> {
        let ports = ports(config, listen)?;
        self.reason =
            choice::attach(config.mode, release().1, &mut Attachment { hook: &mut self.hook, ports: &ports })?;
        // It is attached once.
        let _ = self.ports.set(self.hook.ports().cloned().collect());
        let (mode, names, _) = self.describe();
        tracing::info!(%mode, ports = ?names, reason = self.reason, "attached to the XDP hook");
        Ok(())
    }

    /// Starts the thread that sends what the program can't.
    pub fn start(&mut self, switch: &Arc<Switch>, socket: &Arc<UdpSocket>, inbox: &Inbox) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::system("XDP: can't serve its upcalls", &error);
        let upcalls = self.hook.upcalls().map_err(failed)?;
        let ways = Ways::start(Arc::clone(switch), Arc::clone(&self.ports)).map_err(failed)?;
        let delivery = Delivery { switch: Arc::clone(switch), socket: Arc::clone(socket), inbox: inbox.clone(), ways };
        let stop = self.stop.as_raw_fd();
        let thread = std::thread::Builder::new().name("upcalls".into()).spawn(move || {
            if let Err(error) = upcalls.run(stop, |upcall| delivery.deliver(&upcall)) {
                tracing::error!(%error, "the XDP program's upcalls can't be read");
            }
        });
        self.upcalls = Some(thread.map_err(failed)?);
        Ok(())
    }

    pub fn resumed(&self) -> bool {
        self.hook.resumed()
    }

    /// Mode, interfaces, and what is to be said about them.
    pub fn describe(&self) -> (String, Vec<String>, Option<String>) {
        let mode = self.hook.mode().map_or_else(|| "userspace".into(), |mode| format!("{mode} XDP"));
        (mode, self.hook.ports().map(|port| port.name.clone()).collect(), self.reason.clone())
    }

    /// Returns once every run of the program that had begun has ended.
    pub fn await_decisions(&self) -> io::Result<()> {
        xdp::await_decisions()
    }

    /// `stays`: the program goes on deciding, until the next daemon takes it over.
    pub fn end(mut self, stays: bool) {
        let one = 1u64;
        // SAFETY: eight readable bytes and an open descriptor.
        unsafe { libc::write(self.stop.as_raw_fd(), (&raw const one).cast(), 8) };
        if let Some(thread) = self.upcalls.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
        if !stays {
            self.hook.remove();
        }
    }
}

/// The program and where it goes.
struct Attachment<'a> {
    hook: &'a mut xdp::Hook,
    ports: &'a [Interface],
}

impl choice::Ports for Attachment<'_> {
    fn cards(&self) -> Vec<Card> {
        self.ports.iter().map(Card::of).collect()
    }

    fn were_generic(&self) -> bool {
        self.ports.iter().any(|port| port.program.is_some_and(|(_, mode)| mode == Mode::Generic))
    }

    fn attach(&mut self, modes: &[Mode]) -> Result<(Mode, Option<String>), Failure> {
        let attached = self.hook.attach(self.ports, modes);
        let (mode, refused) = attached.map_err(|error| Failure::unavailable(error.to_string()))?;
        Ok((mode, refused.map(|error| error.to_string())))
    }

    fn detach(&mut self) {
        self.hook.detach();
    }
}

/// Where upcalls go.
struct Delivery {
    switch: Arc<Switch>,
    socket: Arc<UdpSocket>,
    inbox: Inbox,
    ways: Ways,
}

impl Delivery {
    fn deliver(&self, upcall: &Upcall<'_>) {
        match upcall.action {
            Action::ToNode { handle, port } => {
                if let Some(to) = self.switch.address(handle, port) {
                    self.send(upcall.packet, to);
                    self.ways.ask(handle);
                }
            }
            Action::ToController => {
                self.inbox.packet(upcall.from, self.switch.tenant_of(upcall.packet), upcall.packet);
            }
            Action::Drop | Action::ToSender => {}
        }
        if let Some(agent) = upcall.copy.and_then(|agent| self.switch.address(agent, 0)) {
            let mut copy = [0; MAX_PACKET_BYTES];
            let copy = &mut copy[..upcall.packet.len()];
            copy.copy_from_slice(upcall.packet);
            if self.switch.make_copy(copy) {
                self.send(copy, agent);
            }
        }
    }

    fn send(&self, packet: &[u8], to: SocketAddrV4) {
        // Lost like any packet: whoever waits for it asks again.
        if let Err(error) = self.socket.send_to(packet, to) {
            tracing::debug!(%to, %error, "a packet was not sent");
        }
    }
}

/// The interfaces that are named, or the one that has the switch's address: a bridge's ports, if it is one.
fn ports(config: &Config, listen: SocketAddrV4) -> Result<Vec<Interface>, Failure> {
    let all = interfaces::list().map_err(|error| Failure::system("can't list the network interfaces", &error))?;
    if config.interfaces.is_empty() {
        let has_address = |interface: &&Interface| interface.addresses.contains(listen.ip());
        let found = all.iter().find(has_address).ok_or_else(|| {
            Failure::unavailable(format!("no interface has the address {}; name some with --interfaces", listen.ip()))
        })?;
        if found.kind.as_deref() != Some("bridge") {
            return Ok(vec![found.clone()]);
        }
        return Ok(all.iter().filter(|port| port.master == Some(found.index)).cloned().collect());
    }
    let named = config.interfaces.iter().map(|name| {
        let known = all.iter().find(|interface| interface.name == *name).cloned();
        known.ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|interface| interface.name.as_str()).collect();
            Failure::usage(format!("there is no interface {name}; there are {}", names.join(", ")))
        })
    });
    named.collect()
}
