//! `wayside semaphore`, `election`, `group` and `barrier`: recipes of the library, from the shell. What runs a command
//! ends it, as `wayside lock` does, before what it runs under can be another's.

use super::lock::{Hold, Keeper, Outcome};
use super::text::{say, shown, table};
use crate::cli::{
    BarrierArgs, CampaignArgs, ElectionCommand, GroupArgs, GroupCommand, GroupJoinArgs, NameArgs, RecipeArgs,
    SemaphoreArgs,
};
use crate::failure::{Failure, exit};
use std::ffi::OsString;
use std::time::Duration;
use wayside_client::recipes::{Group, Member};
use wayside_client::{Builder, Event, Session, Value};

/// For a switch to be found.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn semaphore(args: &SemaphoreArgs) -> Result<u8, Failure> {
    let keeper = Keeper::start()?;
    let session = begin_under(&keeper, &args.to)?;
    let mut semaphore = session.semaphore(&args.name, args.permits).map_err(|error| Failure::of(&error))?;
    if let Some(wait) = args.to.wait {
        semaphore = semaphore.wait(wait);
    }
    let permit = keeper.signals.unblocked(|| semaphore.acquire()).map_err(|error| Failure::of(&error))?;
    let told = ("WAYSIDE_PERMIT", permit.number().to_string());
    let outcome = run(&keeper, &session, &permit, &args.command, told)?;
    drop(permit);
    end(session, outcome, &args.name)
}

pub fn election(command: &ElectionCommand) -> Result<u8, Failure> {
    match command {
        ElectionCommand::Campaign(args) => campaign(args),
        ElectionCommand::Leader(args) => leader(args),
        ElectionCommand::Watch(args) => watch_leaders(args).map(|()| 0),
    }
}

fn campaign(args: &CampaignArgs) -> Result<u8, Failure> {
    let keeper = Keeper::start()?;
    let session = begin_under(&keeper, &args.to)?;
    let mut election = session.election(&args.name);
    if let Some(wait) = args.to.wait {
        election = election.wait(wait);
    }
    let value = args.value.clone().unwrap_or_else(own_name);
    let leadership = keeper.signals.unblocked(|| election.campaign(&value)).map_err(|error| Failure::of(&error))?;
    let told = ("WAYSIDE_ELECTION_TOKEN", leadership.token().to_string());
    let outcome = run(&keeper, &session, &leadership, &args.command, told)?;
    drop(leadership);
    end(session, outcome, &args.name)
}

fn leader(args: &NameArgs) -> Result<u8, Failure> {
    let session = begin(&args.to)?;
    let election = session.election(&args.name).wait(args.to.wait.unwrap_or(PATIENCE));
    match election.leader().map_err(|error| Failure::of(&error))? {
        Some(entry) => say(&text(&entry.value)),
        None => return Err(Failure::plain(exit::ABSENT, format!("nobody leads {}", shown(&args.name)))),
    }
    Ok(0)
}

fn watch_leaders(args: &NameArgs) -> Result<(), Failure> {
    let session = begin(&args.to)?;
    let election = session.election(&args.name);
    let (mut leader, mut watch) = election.follow().map_err(|error| Failure::of(&error))?;
    let mut told = None;
    loop {
        let now = leader.as_ref().map(|entry| text(&entry.value));
        if told.as_ref() != Some(&now) {
            say(now.as_deref().unwrap_or("nobody"));
        }
        told = Some(now);
        match watch.next().map_err(|error| Failure::of(&error))? {
            // What was read may be newer than what is told.
            Event::Put { version, .. } | Event::Deleted { version, .. }
                if leader.is_some_and(|entry| version <= entry.version) => {}
            _ => leader = election.leader().map_err(|error| Failure::of(&error))?,
        }
    }
}

pub fn group(command: &GroupCommand) -> Result<u8, Failure> {
    match command {
        GroupCommand::Join(args) => join(args),
        GroupCommand::Ls(args) => {
            let session = begin(&args.to)?;
            let group = group_of(&session, args)?;
            list(&group.wait(args.to.wait.unwrap_or(PATIENCE)).members().map_err(|error| Failure::of(&error))?);
            Ok(0)
        }
        GroupCommand::Watch(args) => {
            let session = begin(&args.to)?;
            let show = |members: &[Member]| {
                list(members);
                true
            };
            group_of(&session, args)?.follow(show).map(|()| 0).map_err(|error| Failure::of(&error))
        }
    }
}

fn join(args: &GroupJoinArgs) -> Result<u8, Failure> {
    let keeper = Keeper::start()?;
    let session = begin_under(&keeper, &args.group.to)?;
    let group = group_of(&session, &args.group)?;
    let value = args.value.clone().unwrap_or_else(own_name);
    let membership = keeper.signals.unblocked(|| group.join(&value)).map_err(|error| Failure::of(&error))?;
    let told = ("WAYSIDE_SEAT", membership.seat().to_string());
    let outcome = run(&keeper, &session, &membership, &args.command, told)?;
    drop(membership);
    end(session, outcome, &args.group.name)
}

fn group_of(session: &Session, args: &GroupArgs) -> Result<Group, Failure> {
    let group =
        session.group(&args.name).and_then(|group| group.room(args.room)).map_err(|error| Failure::of(&error))?;
    Ok(match args.to.wait {
        Some(wait) => group.wait(wait),
        None => group,
    })
}

fn list(members: &[Member]) {
    if members.is_empty() {
        return say("nobody is there");
    }
    let heading = ["SEAT", "VERSION", "VALUE"].map(String::from).to_vec();
    let lines =
        members.iter().map(|member| vec![member.seat.to_string(), member.version.to_string(), text(&member.value)]);
    say(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
}

pub fn barrier(args: &BarrierArgs) -> Result<(), Failure> {
    let session = begin(&args.to)?;
    let mut barrier = session.barrier(&args.name, args.parties).map_err(|error| Failure::of(&error))?;
    if let Some(wait) = args.to.wait {
        barrier = barrier.wait(wait);
    }
    barrier.enter().map_err(|error| Failure::of(&error))?;
    session.close();
    Ok(())
}

fn run(
    keeper: &Keeper,
    session: &Session,
    hold: &dyn Hold,
    command: &[OsString],
    told: (&str, String),
) -> Result<Outcome, Failure> {
    keeper.run(session, hold, command, told, None).map(|(outcome, _)| outcome)
}

fn end(session: Session, outcome: Outcome, name: &str) -> Result<u8, Failure> {
    session.close();
    match outcome {
        Outcome::Exited(code) => Ok(code),
        Outcome::Ended | Outcome::RunsOn => {
            let what = format!("lost {} while the command ran: the command {}", shown(name), outcome.fate());
            Err(Failure::new(exit::LOST, what))
        }
    }
}

fn text(value: &Value) -> String {
    shown(&String::from_utf8_lossy(value.bytes()))
}

/// As sessions are shown elsewhere.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}/{}", host.trim(), std::process::id())
}

fn begin(args: &RecipeArgs) -> Result<Session, Failure> {
    builder(args).connect().map_err(|error| Failure::of(&error))
}

/// The session's thread is to have the signals blocked; this one, which waits for it, must hear Ctrl-C.
fn begin_under(keeper: &Keeper, args: &RecipeArgs) -> Result<Session, Failure> {
    let session = builder(args).begin().map_err(|error| Failure::of(&error))?;
    keeper.signals.unblocked(|| session.await_beginning()).map_err(|error| Failure::of(&error))?;
    Ok(session)
}

fn builder(args: &RecipeArgs) -> Builder {
    let builder = Session::builder().endpoint(args.endpoint.endpoints.to_string()).namespace(args.namespace.as_str());
    builder.patience(args.wait.unwrap_or(PATIENCE)).keep(0)
}
