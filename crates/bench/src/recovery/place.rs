//! Where switches and those who use them are: all on loopback, with switches in userspace; or at the XDP hook, each
//! switch on a host of its own and clients and etcd on a third one, network namespaces that are joined by a bridge.

use super::switches::Etcd;
use crate::Error;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

/// See the module's documentation.
pub(super) enum Place {
    Loopback,
    #[cfg(feature = "xdp")]
    Hook(hook::Hosts),
}

/// What a record calls it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceName {
    /// Switches in userspace, on loopback.
    #[default]
    Loopback,
    /// Switches at the XDP hook of veth, each on a host of its own.
    Hook,
}

impl Place {
    /// At the hook, or an error that says what is missing.
    pub(super) fn find(at_hook: bool) -> Result<Place, Error> {
        if !at_hook {
            return Ok(Place::Loopback);
        }
        #[cfg(feature = "xdp")]
        return hook::Hosts::new().map(Place::Hook);
        #[cfg(not(feature = "xdp"))]
        Err("--hook: this was built without the feature `xdp`, which needs clang and libelf".into())
    }

    pub(super) fn name(&self) -> PlaceName {
        match self {
            Place::Loopback => PlaceName::Loopback,
            #[cfg(feature = "xdp")]
            Place::Hook(_) => PlaceName::Hook,
        }
    }

    /// Does this on the clients' host. Processes that it starts may end with the thread that it has there.
    pub(super) fn among_clients<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self {
            Place::Loopback => work(),
            #[cfg(feature = "xdp")]
            Place::Hook(hosts) => hosts.clients.within(work),
        }
    }

    /// An etcd that all switches reach, started by who is on the clients' host.
    pub(super) fn etcd(&self) -> Result<Etcd, Error> {
        match self {
            Place::Loopback => Etcd::start(),
            #[cfg(feature = "xdp")]
            Place::Hook(_) => Etcd::start_at(hook::etcd()),
        }
    }

    /// Of the switch with this number, 0 or 1.
    pub(super) fn seat(&self, _number: usize) -> Seat {
        match self {
            Place::Loopback => Seat::loopback(),
            #[cfg(feature = "xdp")]
            Place::Hook(hosts) => hosts.seat(_number),
        }
    }
}

/// Where one switch is.
pub(super) struct Seat {
    /// Port 0: any.
    pub(super) address: SocketAddrV4,
    /// How it decides there.
    pub(super) arguments: &'static [&'static str],
    #[cfg(feature = "xdp")]
    host: Option<std::sync::Arc<wayside_hosts::Host>>,
}

impl Seat {
    /// In userspace.
    pub(super) fn loopback() -> Seat {
        Seat {
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            arguments: &["--mode", "userspace", "--threads", "1", "--wait", "block"],
            #[cfg(feature = "xdp")]
            host: None,
        }
    }

    pub(super) fn is_at_hook(&self) -> bool {
        #[cfg(feature = "xdp")]
        return self.host.is_some();
        #[cfg(not(feature = "xdp"))]
        false
    }

    /// Lets a command run there.
    pub(super) fn enter(&self, _command: &mut Command) {
        #[cfg(feature = "xdp")]
        if let Some(host) = &self.host {
            host.enter(_command);
        }
    }
}

#[cfg(feature = "xdp")]
mod hook {
    use super::Seat;
    use crate::Error;
    use std::io;
    use std::net::{Ipv4Addr, SocketAddrV4};
    use std::sync::Arc;
    use wayside_hosts::{Bridge, Host, Program};

    /// Numbers of hosts on the bridge; switches have those from 1 on.
    const SWITCHES: [u8; 2] = [1, 2];
    const CLIENTS: u8 = 3;

    pub(in crate::recovery) struct Hosts {
        pub(super) clients: Host,
        switches: Vec<Arc<Host>>,
        /// What a native program sends back arrives only where there is another one.
        _passes: Vec<Program>,
        _bridge: Bridge,
    }

    impl Hosts {
        pub(super) fn new() -> Result<Hosts, Error> {
            match wayside_hosts::missing() {
                Some(why) => Err(format!("--hook: {why}")),
                None => Hosts::make().map_err(|error| format!("--hook: no hosts: {error}")),
            }
        }

        fn make() -> io::Result<Hosts> {
            let bridge = Bridge::new()?;
            let switches = SWITCHES.map(|number| bridge.plug(number).map(Arc::new));
            let switches = switches.into_iter().collect::<io::Result<_>>()?;
            let clients = bridge.plug(CLIENTS)?;
            let passes = SWITCHES.map(|number| bridge.pass(number)).into_iter().collect::<io::Result<_>>()?;
            Ok(Hosts { clients, switches, _passes: passes, _bridge: bridge })
        }

        pub(super) fn seat(&self, number: usize) -> Seat {
            Seat {
                address: SocketAddrV4::new(Bridge::address(SWITCHES[number]), 7600),
                arguments: &["--mode", "native", "--interfaces", "eth0"],
                host: Some(self.switches[number].clone()),
            }
        }
    }

    /// Where clients are.
    pub(super) fn etcd() -> Ipv4Addr {
        Bridge::address(CLIENTS)
    }
}
