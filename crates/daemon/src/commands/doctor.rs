//! `wayside doctor`: what this host offers Wayside, one finding per check, each with its fix.

#[cfg(feature = "xdp")]
mod facts;
#[cfg(feature = "xdp")]
mod hook;

use super::query::{Unanswered, ask};
use super::text::{lasted, say, table};
use crate::answers::{Authentication, Query, Status};
use crate::cli::{DoctorArgs, EndpointArgs, Output};
#[cfg(feature = "xdp")]
use crate::config::DEFAULT_BPF_DIR;
use crate::failure::{Failure, exit};
use crate::kernel::release;
use serde::Serialize;
use std::fs;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use wayside_client::daemon::{SOCKET_VARIABLE, connect_here, own_control_socket};
use wayside_client::{Endpoint, Error, Session};
use wayside_udp::ROOM_BYTES;
use wayside_wire::limits::MAX_PACKET_BYTES;

/// For a session's lifeline, which takes a millisecond where there is one.
const LIFELINE: Duration = Duration::from_secs(1);

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    /// Works, and could be better.
    Note,
    /// Works, and lets others do harm.
    Warning,
    /// Does not work.
    Problem,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    finding: String,
    /// What to do about it; empty where there is nothing to do.
    fix: String,
}

#[derive(Serialize)]
struct Report {
    findings: Vec<Finding>,
    not_checked: &'static [&'static str],
}

const NOT_CHECKED: &[&str] = &["firewalls between this host and others", "the drift of other hosts' clocks"];

fn ok(check: &'static str, finding: impl Into<String>) -> Finding {
    Finding { check, level: Level::Ok, finding: finding.into(), fix: String::new() }
}

fn note(check: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check, level: Level::Note, finding: finding.into(), fix: fix.into() }
}

fn problem(check: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check, level: Level::Problem, finding: finding.into(), fix: fix.into() }
}

/// `wayside doctor`.
pub fn doctor(args: &DoctorArgs) -> Result<(), Failure> {
    let DoctorArgs { query: args, interfaces } = args;
    let mut findings = Vec::new();
    for (_, endpoints) in args.endpoint.of_each() {
        findings.extend(switch(endpoints)?);
    }
    if findings.iter().all(|finding| finding.level != Level::Problem) {
        findings.push(lifeline(&args.endpoint));
    }
    findings.extend([
        kernel(),
        privileges(),
        processors(),
        wake_up(),
        clock_source(),
        clock_drift(),
        receive_buffer(),
        open_files(),
        locked_memory(),
    ]);
    findings.extend(mtus());
    findings.extend(hook(&args.endpoint, interfaces)?);
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
    let report = Report { findings, not_checked: NOT_CHECKED };
    match args.output {
        Output::Json => say(&serde_json::to_string(&report).expect("strings alone")),
        Output::Text => say(&text(&report)),
    }
    match problems {
        0 => Ok(()),
        count => Err(Failure::new(
            exit::UNAVAILABLE,
            format!("{count} of these checks found a problem; its fix is beneath it"),
        )),
    }
}

fn text(report: &Report) -> String {
    let level = |level| match level {
        Level::Ok => "ok",
        Level::Note => "note",
        Level::Warning => "WARNING",
        Level::Problem => "PROBLEM",
    };
    let lines: Vec<Vec<String>> = report
        .findings
        .iter()
        .flat_map(|finding| {
            let line = vec![level(finding.level).into(), finding.check.into(), finding.finding.clone()];
            let fix =
                (!finding.fix.is_empty()).then(|| vec![String::new(), String::new(), format!("-> {}", finding.fix)]);
            std::iter::once(line).chain(fix)
        })
        .collect();
    let mut text = table(&lines);
    for unchecked in report.not_checked {
        text.push_str(&format!("not checked yet: {unchecked}\n"));
    }
    text
}

/// Whether a switch answers, and whom it believes; where none does, whether one could be started here.
fn switch(endpoints: &[Endpoint]) -> Result<Vec<Finding>, Failure> {
    match ask::<Status>(endpoints, &Query::Status) {
        Ok((_, status)) if status.serving => {
            let Status { mode, mode_reason, listen, version, authentication, .. } = status;
            let why = mode_reason.map_or_else(String::new, |why| format!(" ({why})"));
            let switch = ok("switch", format!("{mode} on {listen}{why}, version {version}, serving"));
            Ok(vec![switch, signatures(&listen, &authentication)])
        }
        Ok((_, status)) => {
            let fix = "wait for a lease and its grace; if it lasts, look at the daemon's log";
            Ok(vec![problem("switch", format!("on {}, recovering", status.listen), fix)])
        }
        Err(Unanswered { failure, .. }) if failure.code == exit::USAGE => Err(failure),
        Err(Unanswered { hangs: Some(hung), failure }) => {
            let fix = match hung.pid {
                0 => "look at its process there: continue it (kill -CONT) if it is stopped, else restart it".into(),
                pid => format!("continue it (kill -CONT {pid}) if it is stopped, else restart it"),
            };
            Ok(vec![problem("switch", failure.reason(), fix)])
        }
        Err(_) => {
            let fix = "start one with `wayside dev`, or set WAYSIDE_ENDPOINTS to where one runs";
            let mut findings = vec![problem("switch", "none answers", fix)];
            findings.extend(endpoints.iter().filter_map(|endpoint| endpoint.resolve().ok()).map(ports));
            findings.push(socket_directory(endpoints));
            Ok(findings)
        }
    }
}

/// Whom the switch at `listen` believes.
fn signatures(listen: &str, authentication: &Authentication) -> Finding {
    const CHECK: &str = "authentication";
    let Authentication { on, reason, hosts, .. } = authentication;
    let on_loopback = listen.parse().is_ok_and(|address: SocketAddrV4| address.ip().is_loopback());
    match (on, on_loopback) {
        (true, _) => {
            let hosts = hosts.map_or_else(String::new, |count| format!(", {count} hosts have joined"));
            ok(CHECK, format!("on ({reason}): packets are signed{hosts}"))
        }
        (false, true) => note(
            CHECK,
            format!("off ({reason}): any process of this host can speak for any session, and take and free every lock"),
            "authentication = \"on\" where processes of this host do not trust each other",
        ),
        (false, false) => Finding {
            check: CHECK,
            level: Level::Warning,
            finding: format!(
                "OFF ({reason}) at {listen}, off loopback: ANY PROCESS OF ANY HOST THAT REACHES IT CAN SPEAK FOR ANY SESSION, \
                 and take and free every lock"
            ),
            fix: "authentication = \"auto\" or \"on\", then let each host join: `wayside node token`, `wayside node join`"
                .into(),
        },
    }
}

/// Begins a session, as an application would, and looks whether it gets its lifeline.
fn lifeline(endpoints: &EndpointArgs) -> Finding {
    const CHECK: &str = "lifeline";
    let session = match Session::builder().endpoint(endpoints.endpoints.to_string()).connect() {
        Ok(session) => session,
        Err(Error::Refused(why)) => {
            return note(
                CHECK,
                format!("not tried, {why}"),
                "set WAYSIDE_NAMESPACE to a namespace that the switch has",
            );
        }
        Err(error @ Error::Transport(_)) => {
            return problem(CHECK, format!("not tried, {error}"), "mend that, or set WAYSIDE_TRANSPORT=udp");
        }
        Err(error) => return problem(CHECK, format!("not tried, {error}"), "make sure that UDP reaches the switch"),
    };
    let begun = Instant::now();
    while !session.has_lifeline() && begun.elapsed() < LIFELINE {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (has, switch) = (session.has_lifeline(), session.switch());
    let lease = session.info().map_or(Duration::ZERO, |info| Duration::from_micros(info.lease));
    session.close();
    let late = format!("a dead process would be noticed after the lease only ({})", lasted(lease));
    match connect_here(switch) {
        Ok(daemon) if has => ok(CHECK, format!("a dead process is noticed at once, through {}", daemon.place)),
        Ok(daemon) => problem(
            CHECK,
            format!("{late}: {} is another switch's, or hangs", daemon.place),
            format!("unset {SOCKET_VARIABLE}, or set it to the control socket of the daemon at {switch}"),
        ),
        // An address of this host can be bound, with any port that is free.
        Err(_) if UdpSocket::bind((*switch.ip(), 0)).is_err() => {
            note(CHECK, format!("{late}: the switch is on another host"), "ask for a shorter lease if that is too long")
        }
        Err(refused) => {
            let fix = match refused.impostor() {
                Some(_) => "end that process, then restart the daemon",
                None if std::env::var_os(SOCKET_VARIABLE).is_some() => {
                    "unset WAYSIDE_SOCKET, or set it to the daemon's control_socket"
                }
                None => {
                    "look at the daemon's log; if it runs in another network namespace, let this one see its \
                     control_socket, and set WAYSIDE_SOCKET to it"
                }
            };
            problem(CHECK, format!("{late}: {refused}"), fix)
        }
    }
}

fn ports(address: SocketAddrV4) -> Finding {
    let admin = SocketAddrV4::new(*address.ip(), address.port().saturating_add(1));
    match (UdpSocket::bind(address), TcpListener::bind(admin)) {
        (Ok(_), Ok(_)) => ok("ports", format!("UDP {address} and TCP {admin} are free here")),
        (Err(error), _) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            note("ports", format!("{address} is another host's"), "make sure that UDP and TCP reach it")
        }
        (Err(error), _) => {
            problem("ports", format!("UDP {address}: {error}"), "end what has it, or use another --listen")
        }
        (_, Err(error)) => {
            problem("ports", format!("TCP {admin}: {error}"), "end what has it, or use another --admin-listen")
        }
    }
}

/// Where a daemon of this user would have the file of its socket.
fn socket_directory(endpoints: &[Endpoint]) -> Finding {
    let resolved = endpoints.iter().find_map(|endpoint| endpoint.resolve().ok());
    let Some(path) = resolved.map(own_control_socket) else {
        return problem("control socket", "no endpoint resolves", "write --endpoint host:port");
    };
    let shown = path.display();
    // The socket, or else the nearest directory that exists, which must let this user make the rest.
    let mut nearest = path.as_path();
    while let (false, Some(parent)) = (nearest.exists(), nearest.parent()) {
        nearest = parent;
    }
    match writable(nearest) {
        true if nearest == path => ok("control socket", format!("{shown}")),
        true => ok("control socket", format!("{shown} can be made")),
        false => problem(
            "control socket",
            format!("{shown}: no permission to write {}", nearest.display()),
            "set XDG_RUNTIME_DIR, or --control-socket for the daemon",
        ),
    }
}

fn writable(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: `path` is a C string.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

fn kernel() -> Finding {
    match release() {
        (_, (0, _)) => note("kernel", "unknown release", "Wayside is made for Linux 5.4 and newer"),
        // close_range, the youngest call in use, has a fallback; what is older than 5.4 nobody tests.
        (release, old) if old < (5, 4) => problem("kernel", format!("Linux {release}"), "use Linux 5.4 or newer"),
        (release, _) => ok("kernel", format!("Linux {release}")),
    }
}

/// What a switch of this host would find at the XDP hook.
#[cfg(feature = "xdp")]
fn hook(endpoints: &EndpointArgs, interfaces: &[String]) -> Result<Vec<Finding>, Failure> {
    let addresses: Vec<_> = endpoints.all().filter_map(|endpoint| Some(*endpoint.resolve().ok()?.ip())).collect();
    let all = match wayside_switch::xdp::interfaces::list() {
        Ok(all) => all,
        Err(error) => {
            let finding = format!("the interfaces can't be listed: {error}");
            return Ok(vec![note("XDP", finding, "look at what forbids netlink")]);
        }
    };
    let chosen = match interfaces {
        [] => facts::likely(&all, &addresses),
        names => facts::named(&all, names).map_err(Failure::usage)?,
    };
    let ports: Vec<hook::Port> = chosen.into_iter().map(facts::port).collect();
    let mut findings = hook::findings(&facts::host(release().1), &ports);
    findings.extend(endpoints.all().filter_map(|endpoint| left(endpoint.resolve().ok()?)));
    Ok(findings)
}

/// What a daemon of this address has left at the hook, if it is an address of this host and none has its port.
#[cfg(feature = "xdp")]
fn left(listen: SocketAddrV4) -> Option<Finding> {
    UdpSocket::bind(listen).ok()?;
    let directory = std::env::var_os("WAYSIDE_BPF_DIR").unwrap_or_else(|| DEFAULT_BPF_DIR.into());
    // Who may not look has nothing to find.
    let left = wayside_switch::xdp::left(Path::new(&directory), listen).ok()??;
    let ports = left.attached.len();
    (ports > 0).then(|| {
        let finding = format!(
            "{listen} has no daemon, and its program is attached ({ports} of the interfaces): it goes on deciding, but nobody \
             begins or ends a session, and nothing is recovered"
        );
        note("XDP", finding, format!("start the switch again, or `wayside switch --detach --listen {listen}`"))
    })
}

#[cfg(not(feature = "xdp"))]
fn hook(_: &EndpointArgs, _: &[String]) -> Result<Vec<Finding>, Failure> {
    let fix = "cargo build --release -p wayside-daemon --features xdp, with clang, libelf and zlib";
    Ok(vec![note("XDP", "this wayside was built without it: the switch stays in userspace", fix)])
}

fn privileges() -> Finding {
    // SAFETY: geteuid has no preconditions and cannot fail.
    match unsafe { libc::geteuid() } {
        0 => ok("privileges", "root; the userspace switch needs no privileges"),
        user => ok("privileges", format!("user {user}; enough for the userspace switch")),
    }
}

fn processors() -> Finding {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => note(
            "processors",
            "1: switch and clients take turns",
            "use wait = \"block\"; expect latencies of the scheduler's",
        ),
        count => ok("processors", format!("{count}")),
    }
}

/// Median cost of waking another thread: what a blocking wait adds to every answer.
fn wake_up() -> Finding {
    const ROUNDS: usize = 201;
    let (ask, asked) = sync_channel::<()>(1);
    let (answer, answered) = sync_channel::<()>(1);
    let echo = std::thread::spawn(move || while asked.recv().is_ok() && answer.send(()).is_ok() {});
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            // Long enough for the other side to fall asleep.
            std::thread::sleep(Duration::from_micros(100));
            let start = Instant::now();
            let _ = ask.send(());
            let _ = answered.recv();
            start.elapsed()
        })
        .collect();
    drop(ask);
    let _ = echo.join();
    rounds.sort();
    let each = rounds[ROUNDS / 2].as_micros() / 2;
    let finding = format!("{each} us to wake a sleeping thread (median of {ROUNDS})");
    if each <= 15 {
        return ok("halt latency", finding);
    }
    note(
        "halt latency",
        finding,
        "processors sleep deeply: hold /dev/cpu_dma_latency open at 0 (root; tuned's latency-performance does), or use wait = \"spin\"",
    )
}

fn clock_source() -> Finding {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match fs::read_to_string(path).unwrap_or_default().trim() {
        "" => note("clock source", "unknown", "none needed if reading the clock takes less than 100 ns"),
        slow @ ("hpet" | "acpi_pm" | "jiffies") => note(
            "clock source",
            format!("{slow}: reading the clock takes about a microsecond"),
            "boot with clocksource=tsc if the processor's TSC is stable",
        ),
        source => ok("clock source", source),
    }
}

/// Leases need clocks that run equally fast, not clocks that agree.
fn clock_drift() -> Finding {
    // SAFETY: a timex of zeros asks for nothing to be changed.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `clock` outlives the call.
    if unsafe { libc::adjtimex(&raw mut clock) } < 0 {
        return note("clock rate", "can't be read", "make sure that the clock is disciplined, for example by chrony");
    }
    // Parts per million, scaled by 2^16.
    let ppm = clock.freq as f64 / 65_536.0;
    if ppm.abs() < 490.0 {
        return ok("clock rate", format!("corrected by {ppm:+.1} ppm; leases allow for 1000"));
    }
    note(
        "clock rate",
        format!("corrected by {ppm:+.1} ppm, the kernel's limit"),
        "the oscillator may be off by more: raise grace",
    )
}

fn receive_buffer() -> Finding {
    let most =
        fs::read_to_string("/proc/sys/net/core/rmem_max").ok().and_then(|text| text.trim().parse::<usize>().ok());
    match most {
        Some(most) if most < ROOM_BYTES => note(
            "receive buffer",
            format!("at most {} KiB a socket", most >> 10),
            format!(
                "sysctl net.core.rmem_max={ROOM_BYTES}, so that switches, agents and lock servers take bursts without loss \
                 (those of root do not need it)"
            ),
        ),
        Some(_) => ok("receive buffer", format!("{} KiB can be had", ROOM_BYTES >> 10)),
        None => note("receive buffer", "limit unknown", "look at net.core.rmem_max"),
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_max
}

fn open_files() -> Finding {
    match limit(libc::RLIMIT_NOFILE) {
        few @ 0..4_096 => note(
            "open files",
            format!("{few} a process: the daemon has a connection per local node"),
            "raise RLIMIT_NOFILE (systemd: LimitNOFILE=65536)",
        ),
        many => ok("open files", format!("{many} a process")),
    }
}

fn locked_memory() -> Finding {
    match limit(libc::RLIMIT_MEMLOCK) {
        libc::RLIM_INFINITY => ok("locked memory", "unlimited"),
        bytes => ok("locked memory", format!("{} KiB; the userspace switch locks none", bytes >> 10)),
    }
}

/// Interfaces that cannot carry the largest packet whole.
fn mtus() -> Vec<Finding> {
    // IPv4 and UDP headers go before the packet.
    const LEAST: usize = MAX_PACKET_BYTES + 28;
    let mut interfaces: Vec<(String, usize)> = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let mtu = fs::read_to_string(entry.path().join("mtu")).ok()?.trim().parse().ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), mtu))
        })
        .collect();
    interfaces.sort();
    let shown = |(name, mtu): &(String, usize)| format!("{name} {mtu}");
    let (enough, small): (Vec<_>, Vec<_>) = interfaces.iter().partition(|(_, mtu)| *mtu >= LEAST);
    let mut findings = Vec::new();
    if !enough.is_empty() {
        findings.push(ok("MTU", enough.into_iter().map(shown).collect::<Vec<_>>().join(", ")));
    }
    if !small.is_empty() {
        let finding = small.into_iter().map(shown).collect::<Vec<_>>().join(", ");
        findings.push(note("MTU", finding, format!("raise it to {LEAST} or more where Wayside's packets go")));
    }
    findings
}
