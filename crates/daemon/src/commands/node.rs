//! `wayside node`: which hosts may enrol with a switch whose packets are signed.

use super::signals::Signals;
use super::switch::default_state_dir;
use super::text::{lasted, say, shown, table};
use crate::admission::{Admission, Host};
use crate::cli::{JoinArgs, Node, RemoveArgs, RenewArgs, ServeLocksArgs, StateArgs};
use crate::config::Relay;
use crate::failure::Failure;
use std::io::Read;
use std::net::SocketAddrV4;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wayside_client::Session;
use wayside_client::enrolment::{NotJoined, Token};

/// A token has about 120 bytes.
const LONGEST_TOKEN: u64 = 1 << 10;

pub fn node(node: &Node) -> Result<(), Failure> {
    match node {
        Node::Token(args) => {
            // The token alone, so that a script can take it.
            say(&admission(&args.state)?.token(args.lifetime, &args.namespaces)?.to_string());
            Ok(())
        }
        Node::Join(args) => join(args),
        Node::Renew(args) => renew(args),
        Node::List(args) => list(args),
        Node::Remove(args) => remove(args),
        Node::ServeLocks(args) => serve_locks(args),
    }
}

/// How long a wait for a signal is at most: there is nothing else to do.
const LOOKS: Duration = Duration::from_secs(3600);

/// Until a signal comes. The session's own threads do the work, and begin another session when it is lost.
fn serve_locks(args: &ServeLocksArgs) -> Result<(), Failure> {
    let signals = Signals::block([libc::SIGINT, libc::SIGTERM]);
    let session = Session::builder().endpoint(args.endpoint.endpoints.to_string());
    let session = session.namespace(args.namespace.as_str()).lock_server();
    let session = session.connect().map_err(Failure::unavailable)?;
    let info = session.info().ok_or_else(|| Failure::unavailable("the session was lost at once"))?;
    if !info.engine.has_queues() {
        let rule = "its locks are no queues, and need no lock server: see `engine` in the switch's configuration";
        return Err(Failure::usage(format!("namespace {:?}: {rule}", args.namespace)));
    }
    say(&format!("lock server: node {} offers itself to namespace {}", info.handle, shown(&args.namespace)));
    while signals.next(LOOKS).is_none() {}
    drop(session);
    Ok(())
}

fn join(args: &JoinArgs) -> Result<(), Failure> {
    // Read here and not with the arguments, whose errors repeat what was wrong.
    let token = match args.token.as_str() {
        "-" => std::io::read_to_string(std::io::stdin().take(LONGEST_TOKEN))
            .map_err(|error| Failure::system("can't read a token", &error))?,
        given => given.into(),
    };
    let mut token: Token = token.parse().map_err(Failure::usage)?;
    if let Some(relay) = args.relay {
        let Relay { port, .. } = format!("{}={}", relay.port(), token.address).parse().map_err(Failure::usage)?;
        token.address = SocketAddrV4::new(*relay.ip(), port + 2);
    }
    let (switch, credentials) = wayside_client::join(&token, &host()).map_err(|error| failure("not joined", error))?;
    // Sessions know the switch by where they find it.
    let switch = args.relay.unwrap_or(switch);
    let path = credentials.keep(args.credentials.as_deref(), switch).map_err(|error| {
        Failure::system(
            "joined, but this host's credentials can't be kept, and the token is used; mend that and join anew",
            &error,
        )
    })?;
    say(&format!("joined: sessions with the switch at {switch} begin with {}", path.display()));
    Ok(())
}

fn failure(what: &str, error: NotJoined) -> Failure {
    match error {
        NotJoined::Denied(why) => Failure::denied(format!("{what}: {why}")),
        NotJoined::Failed(why) => Failure::unavailable(format!("{what}: {why}")),
    }
}

/// With every switch that is named.
fn renew(args: &RenewArgs) -> Result<(), Failure> {
    for endpoint in args.endpoint.all() {
        let switch = endpoint.resolve().map_err(|error| Failure::usage(error.to_string()))?;
        let renewed = wayside_client::renew(args.credentials.as_deref(), switch);
        let (_, is_new) = renewed.map_err(|error| failure("not renewed", error))?;
        say(&if is_new {
            format!("renewed for the switch at {switch}")
        } else {
            format!("not due with the switch at {switch}: more than a third of its time is left")
        });
    }
    Ok(())
}

fn list(args: &StateArgs) -> Result<(), Failure> {
    let hosts = admission(args)?.hosts().map_err(|error| Failure::system("can't list the hosts", &error))?;
    if hosts.is_empty() {
        say("no host has joined");
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let heading = ["ID", "HOST", "ADDRESS", "JOINED", "CERTIFICATE", "NAMESPACES"].map(String::from).to_vec();
    let line = |host: &Host| {
        let ago = lasted(now.saturating_sub(Duration::from_secs(host.joined)));
        // It is good to the end of its last second.
        let certificate = match host.expires.checked_sub(now.as_secs()) {
            Some(left) => format!("ends in {}", lasted(Duration::from_secs(left))),
            None => format!("expired {} ago", lasted(now - Duration::from_secs(host.expires))),
        };
        let namespaces = if host.namespaces.is_empty() { "all".into() } else { host.namespaces.join(", ") };
        vec![
            host.id.clone(),
            shown(&host.host),
            host.address.clone(),
            format!("{ago} ago"),
            certificate,
            shown(&namespaces),
        ]
    };
    say(&table(&std::iter::once(heading).chain(hosts.iter().map(line)).collect::<Vec<_>>()));
    Ok(())
}

fn remove(args: &RemoveArgs) -> Result<(), Failure> {
    match admission(&args.state)?.remove(&args.id) {
        Ok(true) => {
            say(&format!(
                "host {} begins no more sessions; those that it has are cut off, and what they hold is free when their \
                 leases are over",
                args.id
            ));
            Ok(())
        }
        Ok(false) => Err(Failure::usage(format!("no host {:?} has joined; `wayside node list` shows them", args.id))),
        Err(error) => Err(Failure::system("can't remove the host", &error)),
    }
}

fn admission(args: &StateArgs) -> Result<Admission, Failure> {
    Ok(Admission::of(&args.state_dir.clone().map_or_else(default_state_dir, Ok)?))
}

/// The host's name, for people.
fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: as many writable bytes as it is told.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}
