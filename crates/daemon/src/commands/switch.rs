//! `wayside switch` and `wayside dev`.

use super::query::tell_each;
use super::text::say;
use crate::answers::{Query, Reloaded};
use crate::cli::{Output, QueryArgs, SwitchArgs};
use crate::config::{Config, Division, Namespace, Settings, Shown};
use crate::failure::Failure;
use crate::server::{self, Reread};
#[cfg(feature = "xdp")]
use std::io::{Error, ErrorKind};
use std::net::{SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use wayside_protocol::controller::Allocation;
use wayside_wire::Engine;

/// `wayside switch`.
pub fn switch(args: SwitchArgs) -> Result<(), Failure> {
    let flags = args.settings.clone();
    let file = args.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
    let config = args.settings.over(file, args.config.as_deref())?;
    if args.check_config {
        check_host(&config)?;
        say(&shown(&config));
        return Ok(());
    }
    if args.detach {
        say(&detach(&config)?);
        return Ok(());
    }
    let state_dir = config.state_dir.clone();
    let reread =
        args.config.map(|path| -> Reread { Box::new(move || flags.clone().over(Settings::read(&path)?, Some(&path))) });
    server::run(&config, reread, move |_| state_dir.map_or_else(default_state_dir, Ok))
}

/// `wayside reload`.
pub fn reload(args: &QueryArgs) -> Result<(), Failure> {
    tell_each(args, &Query::Reload, |line, Reloaded { changes }| match args.output {
        Output::Json => line,
        Output::Text if changes.is_empty() => "nothing has changed".into(),
        Output::Text => changes.join("\n"),
    })
}

/// Detaches what a daemon that is no more has left at the hook, and tells what that was.
#[cfg(feature = "xdp")]
fn detach(config: &Config) -> Result<String, Failure> {
    use wayside_switch::xdp::{self, interfaces};
    let Config { listen, bpf_dir, .. } = config;
    // Kept until all is done: no daemon begins meanwhile. Where the address is gone, none has it.
    let _port = match UdpSocket::bind(listen) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            return Err(Failure::unavailable(format!(
                "UDP port {listen} is in use: if that is its daemon (ss -lnup tells), end it with SIGTERM, and it detaches \
                 its program itself"
            )));
        }
        other => other,
    };
    let failed = |error: Error| Failure::system(format_args!("can't look into {}", bpf_dir.display()), &error);
    let Some(left) = xdp::left(bpf_dir, *listen).map_err(failed)? else {
        return Ok(format!("nothing of {listen} is left in {}", bpf_dir.display()));
    };
    let here = interfaces::list().map_err(|error| Failure::system("can't list the network interfaces", &error))?;
    let mut ports = Vec::new();
    for (number, program) in &left.attached {
        let port = here.iter().find(|port| port.index == *number && port.program.is_some_and(|(of, _)| of == *program));
        // Another program may have taken its place: then that one stays.
        ports.extend(port.map(|port| port.name.as_str()));
    }
    xdp::remove_left(bpf_dir, *listen);
    let program = match ports.join(", ") {
        none if none.is_empty() => "no program was attached any more".into(),
        ports => format!("the program is detached from {ports}"),
    };
    let memory = left.slots.map_or_else(String::new, |slots| format!(", the memory of {slots} slots removed"));
    Ok(format!("{program}{memory}"))
}

#[cfg(not(feature = "xdp"))]
fn detach(_: &Config) -> Result<String, Failure> {
    Err(Failure::unavailable("built without XDP: it can't see what is left at the hook"))
}

/// What a configuration asks of this host. Whether the ports are free is not asked: a switch may run with it already.
fn check_host(config: &Config) -> Result<(), Failure> {
    let addresses = [("listen", config.listen), ("admin_listen", config.admin_listen)];
    let hand_over = config.sharing.as_ref().and_then(|sharing| sharing.hand_over_listen);
    let others = [("enrol_listen", config.enrol_listen), ("hand_over_listen", hand_over)];
    let others = others.into_iter().filter_map(|(key, address)| Some((key, address?)));
    for (key, address) in addresses.into_iter().chain(others) {
        UdpSocket::bind((*address.ip(), 0)).map_err(|error| {
            Failure::usage(format!(
                "{key} = {address}: {} is not an address of this host ({error}); choose one that `ip -4 address` lists",
                address.ip()
            ))
        })?;
    }
    match &config.state_dir {
        Some(path) if path.exists() && !path.is_dir() => {
            Err(Failure::usage(format!("state_dir = {} is not a directory", path.display())))
        }
        _ => Ok(()),
    }
}

/// What a configuration amounts to.
fn shown(config: &Config) -> String {
    let Config { listen, admin_listen, threads, wait, lease, grace, .. } = config;
    let mut text = format!("listen {listen}, admin_listen {admin_listen}\nthreads {threads}, wait {wait}\n");
    text.push_str(&format!("lease {}, grace {}\n", Shown(*lease), Shown(*grace)));
    text.push_str(&format!("deadlocks {}, deadlock_period {}\n", config.deadlocks, Shown(config.deadlock_period)));
    if let Some(division) = &config.division {
        text.push_str(&format!("shard {}\n", Division::recorded(Some(division))));
    }
    if let Some(sharing) = &config.sharing {
        let hand_over_listen = sharing.hand_over_listen.unwrap_or(*listen);
        text.push_str(&format!("etcd {}, hand_over_listen {hand_over_listen}\n", sharing.etcd.join(",")));
    }
    text.push_str(&match config.enrol_listen {
        Some(address) => {
            let Config { authentication_reason: reason, key_lifetime, .. } = config;
            format!("authentication on ({reason}), enrol_listen {address}, key_lifetime {}\n", Shown(*key_lifetime))
        }
        None if listen.ip().is_loopback() => format!("authentication off ({})\n", config.authentication_reason),
        None => format!("authentication off: whoever reaches {listen} can take and free every lock\n"),
    });
    for namespace in &config.namespaces {
        let (name, slots) = (&namespace.name, namespace.slots);
        let policy = Namespace::policy_text(namespace.policy_word(), namespace.patience);
        let budget = namespace.budget.map(|_| format!(", {}", namespace.budget_text()));
        let engine = match namespace.engine {
            Engine::Fission => String::new(),
            Engine::Hybrid => {
                format!(", slots, and {} queues of {} cells", namespace.queues.len(), namespace.cells)
            }
            Engine::Queue if namespace.allocation == Allocation::Fixed => {
                format!(", {} queues of {} cells", namespace.queues.len(), namespace.cells)
            }
            Engine::Queue => {
                let (plan, room) = (namespace.plan_word(), namespace.room);
                format!(", queues as planned ({plan}), {} cells, {} of each at most", room.cells, room.most)
            }
        };
        text.push_str(&format!("namespace {name}, {slots} slots, {policy}{engine}{}\n", budget.unwrap_or_default()));
    }
    let taken: u32 = config.namespaces.iter().map(|namespace| namespace.slots).sum();
    text.push_str(&format!(
        "slots {}, {} of them for namespaces that come later\n",
        config.slots,
        config.slots - taken
    ));
    text.push_str("the configuration is in order");
    text
}

/// `wayside dev`: a switch whose state is apart from that of a switch in earnest, and of others on other ports.
pub fn dev(settings: Settings) -> Result<(), Failure> {
    let config = settings.over(Settings::default(), None)?;
    let state_dir = config.state_dir.clone();
    server::run(&config, None, move |listen: SocketAddrV4| match state_dir {
        Some(directory) => Ok(directory),
        None => Ok(default_state_dir()?.join(format!("dev-{}", listen.port()))),
    })
}

pub fn default_state_dir() -> Result<PathBuf, Failure> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return Ok("/var/lib/wayside".into());
    }
    let from = |variable| std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    from("XDG_STATE_HOME")
        .or_else(|| Some(from("HOME")?.join(".local/state")))
        .map(|base| base.join("wayside"))
        .ok_or_else(|| Failure::usage("no place for the state: set --state-dir, XDG_STATE_HOME or HOME"))
}
