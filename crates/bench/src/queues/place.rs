//! Where it is measured: a switch at the XDP hook with hosts on veth; without the right to that, in userspace on
//! loopback. A run has a switch and lock servers of its own, which begin with nothing.

use crate::Error;
use crate::contest::peers::lock_server;
use crate::recovery::switches::{Process, Switch};
use std::path::Path;
use std::process::Command;

/// See the module's documentation.
pub(super) enum Place {
    #[cfg(feature = "xdp")]
    Hook(hook::Hosts),
    Loopback,
}

/// A switch and its lock servers, for a run.
pub(super) struct Running<'p> {
    /// They go first.
    servers: Vec<Process>,
    switch: Kind,
    place: &'p Place,
}

enum Kind {
    #[cfg(feature = "xdp")]
    Hook(hook::AtHook),
    Loopback(Switch),
}

impl Place {
    /// For so many nodes and lock servers: at the hook, or why not.
    pub(super) fn find(nodes: usize, servers: usize) -> (Place, Option<String>) {
        #[cfg(feature = "xdp")]
        let why = match hook::Hosts::new(nodes, servers) {
            Ok(hosts) => return (Place::Hook(hosts), None),
            Err(why) => why,
        };
        #[cfg(not(feature = "xdp"))]
        let why = {
            let _ = (nodes, servers);
            "this was built without the feature `xdp`, which needs clang and libelf".to_owned()
        };
        (Place::Loopback, Some(why))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            #[cfg(feature = "xdp")]
            Place::Hook(_) => "a switch at the XDP hook (native), each node a network namespace behind veth",
            Place::Loopback => "a switch in userspace on loopback, one thread",
        }
    }

    /// Where a node has an address that the first one reaches without the switch.
    pub(super) fn address_beside(&self, _node: usize) -> String {
        match self {
            #[cfg(feature = "xdp")]
            Place::Hook(_) => hook::beside(_node),
            Place::Loopback => "127.0.0.1".into(),
        }
    }

    /// A switch whose configuration goes on so after the name of the namespace `default`, and a lock server for each of
    /// these namespaces.
    pub(super) fn start(&self, program: &Path, settings: &str, served: &[&str]) -> Result<Running<'_>, Error> {
        let switch = match self {
            #[cfg(feature = "xdp")]
            Place::Hook(hosts) => Kind::Hook(hosts.start(program, settings)?),
            Place::Loopback => Kind::Loopback(Switch::start_with(program, settings, None, "error")?),
        };
        let mut running = Running { servers: Vec::new(), switch, place: self };
        for (index, namespace) in served.iter().enumerate() {
            let enter = |command: &mut Command| {
                command.args(["--namespace", namespace]);
                self.enter_server(index, command);
            };
            let server = lock_server(program, &running.endpoint(), enter)?;
            running.servers.push(server);
        }
        Ok(running)
    }

    fn enter_server(&self, _index: usize, _command: &mut Command) {
        #[cfg(feature = "xdp")]
        if let Place::Hook(hosts) = self {
            hosts.servers[_index].enter(_command);
        }
    }
}

impl Running<'_> {
    pub(super) fn endpoint(&self) -> String {
        match &self.switch {
            #[cfg(feature = "xdp")]
            Kind::Hook(_) => hook::SWITCH.into(),
            Kind::Loopback(switch) => switch.address.to_string(),
        }
    }

    /// Whose processor time counts.
    pub(super) fn processes(&self) -> Vec<u32> {
        let switch = match &self.switch {
            #[cfg(feature = "xdp")]
            Kind::Hook(switch) => Some(switch.id()),
            Kind::Loopback(switch) => switch.id(),
        };
        switch.into_iter().chain(self.servers.iter().map(Process::id)).collect()
    }

    /// Brings the calling thread to a node's host.
    pub(super) fn enter(&self, _node: usize) {
        #[cfg(feature = "xdp")]
        if let Place::Hook(hosts) = self.place {
            hosts.nodes[_node].move_here().expect("whoever made a host may enter it");
        }
        let _ = self.place;
    }
}

#[cfg(feature = "xdp")]
mod hook {
    use crate::Error;
    use crate::recovery::switches::{Directory, Process, await_that, without_settings};
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;
    use wayside_hosts::{Host, Program};

    pub(super) const SWITCH: &str = "10.83.0.1:7600";
    const ADMIN: &str = "10.83.0.1:7601";
    const PATIENCE: Duration = Duration::from_secs(5);

    /// A host for the switch, one for each node and one for each lock server.
    pub(in crate::queues) struct Hosts {
        switch: Host,
        pub(super) nodes: Vec<Host>,
        pub(super) servers: Vec<Host>,
        /// What a native program sends back arrives only where there is another one.
        _passes: Vec<Program>,
    }

    impl Hosts {
        pub(super) fn new(nodes: usize, servers: usize) -> Result<Hosts, String> {
            if let Some(why) = wayside_hosts::missing() {
                return Err(why);
            }
            let made = || {
                let switch = Host::new()?;
                let all = (0..nodes + servers).map(|number| join(&switch, number)).collect::<Result<Vec<_>, _>>()?;
                Ok((switch, all))
            };
            let (switch, mut nodes_and_servers) =
                made().map_err(|error: std::io::Error| format!("no hosts: {error}"))?;
            let passes = nodes_and_servers.iter().map(|host| host.pass("wayside0")).collect::<Result<Vec<_>, _>>();
            let passes = passes.map_err(|error| format!("no XDP on veth: {error}"))?;
            let servers = nodes_and_servers.split_off(nodes);
            if let [first, second, ..] = &nodes_and_servers[..] {
                lay_cable(first, second).map_err(|error| format!("no cable between two hosts: {error}"))?;
            }
            Ok(Hosts { switch, nodes: nodes_and_servers, servers, _passes: passes })
        }

        pub(super) fn start(&self, program: &Path, settings: &str) -> Result<AtHook, Error> {
            let directory = Directory::new()?;
            let at = |name: &str| directory.path().join(name);
            let config = format!("[[namespace]]\nname = \"default\"\n{settings}\n");
            fs::write(at("switch.toml"), config).map_err(|error| error.to_string())?;
            let ports: Vec<String> = (0..self.nodes.len() + self.servers.len()).map(port).collect();
            let mut command = Command::new(program);
            command.args(["--log", "error", "switch", "--mode", "native", "--authentication", "off"]);
            command.args(["--listen", SWITCH, "--admin-listen", ADMIN, "--interfaces", &ports.join(",")]);
            command.arg("--config").arg(at("switch.toml")).arg("--state-dir").arg(at("state"));
            command.arg("--control-socket").arg(at("control.sock"));
            without_settings(&mut command).stdin(Stdio::null()).stdout(Stdio::piped());
            self.switch.enter(&mut command);
            let mut process = Process::start(command)?;
            let said = process.child().stdout.take().and_then(|out| BufReader::new(out).lines().next());
            let said = said.and_then(Result::ok).unwrap_or_default();
            if !said.contains(SWITCH) {
                return Err(format!("the switch did not say where it is, but {said:?}"));
            }
            Ok(AtHook { process, _directory: directory })
        }
    }

    /// Of a cable between the first node and the second.
    pub(super) fn beside(node: usize) -> String {
        format!("10.84.0.{}", node + 1)
    }

    fn port(number: usize) -> String {
        format!("port{number}")
    }

    fn lay_cable(first: &Host, second: &Host) -> std::io::Result<()> {
        first.join("beside", second, "beside", 1)?;
        first.ip(&format!("addr add {}/24 dev beside", beside(0)))?;
        second.ip(&format!("addr add {}/24 dev beside", beside(1)))
    }

    fn join(switch: &Host, number: usize) -> std::io::Result<Host> {
        let host = Host::new()?;
        host.join("wayside0", switch, &port(number), 1)?;
        switch.ip(&format!("addr add 10.83.{number}.1/24 dev {}", port(number)))?;
        host.ip(&format!("addr add 10.83.{number}.2/24 dev wayside0"))?;
        if number > 0 {
            host.ip(&format!("route add 10.83.0.0/24 via 10.83.{number}.1"))?;
        }
        Ok(host)
    }

    /// A switch there.
    pub(super) struct AtHook {
        process: Process,
        _directory: Directory,
    }

    impl AtHook {
        pub(super) fn id(&self) -> u32 {
            self.process.id()
        }
    }

    impl Drop for AtHook {
        /// In order, so that it takes its pins with it: the next one listens at the same place.
        fn drop(&mut self) {
            self.process.signal(libc::SIGTERM);
            let process = &mut self.process;
            let has_ended = || process.child().try_wait().is_ok_and(|end| end.is_some());
            // One that does not is killed.
            let _ = await_that("the switch ends", PATIENCE, has_ended);
        }
    }
}
