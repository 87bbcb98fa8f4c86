//! `wayside locks`, `wayside deadlocks` and `wayside status`.

use super::plan;
use super::query::{ask, of_shard, tell_each};
use super::text::{lasted, say, shown, table};
use crate::answers::{
    Authentication, Deadlock, Deadlocks, Keeper, Listings, Locks, Namespace, Owner, Query, Queue, Relay, Role, Status,
};
use crate::cli::{LocksArgs, QueryArgs};
use crate::deadlocks::{Round, Search};
use crate::failure::Failure;
use crate::server::aside;
use std::thread;
use std::time::Duration;

/// `wayside locks`.
pub fn locks(args: &LocksArgs) -> Result<(), Failure> {
    let LocksArgs { hot, query: args } = args;
    if *hot {
        return plan::hot(args);
    }
    tell_each::<Locks>(args, &Query::Locks, |line, locks| args.output.of(line, || locks_text(&locks)))
}

fn locks_text(answer: &Locks) -> String {
    let mut text = String::new();
    if answer.locks.is_empty() {
        text.push_str("no lock is held or awaited\n");
    } else {
        let heading =
            ["NAME", "NAMESPACE", "MODE", "STATE", "PRIORITY", "OWNER", "FOR", "TOKEN"].map(String::from).to_vec();
        let lines = answer.locks.iter().map(|lock| {
            vec![
                shown(&lock.name),
                lock.namespace.clone(),
                lock.mode.clone(),
                lock.state.clone(),
                lock.priority.map_or_else(|| "-".into(), |priority| priority.to_string()),
                lock.owner.to_string(),
                lasted(Duration::from_micros(lock.since_us)),
                lock.token.clone(),
            ]
        });
        text.push_str(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
    }
    for Keeper { owner, namespace, kept } in &answer.keepers {
        let plural = if *kept == 1 { "" } else { "s" };
        text.push_str(&format!("{owner} keeps {kept} lock{plural} of {namespace} that nobody holds or awaits\n"));
    }
    text.push_str(&unheard(&answer.silent, &answer.partial));
    text
}

/// `wayside deadlocks`.
pub fn deadlocks(args: &QueryArgs) -> Result<(), Failure> {
    let show = |line, deadlocks| args.output.of(line, || deadlocks_text(&deadlocks));
    if args.endpoint.of_each().count() == 1 {
        return tell_each::<Deadlocks>(args, &Query::Deadlocks, show);
    }
    let (search, failure) = search_all(args)?;
    let deadlocks = search.told();
    let line = serde_json::to_string(&deadlocks).expect("answers have string keys and finite numbers");
    say(&show(line, deadlocks));
    failure.map_or(Ok(()), Err)
}

/// Looks for circles over all shards: each knows the waits at its own. Those that do not answer are left out, and the
/// failure of one of them comes with what was found among the others.
fn search_all(args: &QueryArgs) -> Result<(Search, Option<Failure>), Failure> {
    let (first, missing) = round(args)?;
    if first.suspects() == 0 {
        return Ok((Search::of_one(first), missing));
    }
    let (second, missing_now) = round(args)?;
    Ok((Search::of_two(&first, second), missing_now.or(missing)))
}

/// Asks all shards at once: nodes that do not answer keep a daemon waiting for a second.
fn round(args: &QueryArgs) -> Result<(Round, Option<Failure>), Failure> {
    let shards: Vec<_> = args.endpoint.of_each().map(|(shard, list)| (shard.unwrap_or_default(), list)).collect();
    let answers: Vec<_> = thread::scope(|scope| {
        let asked = shards.iter().map(|(_, endpoints)| scope.spawn(|| ask::<Listings>(endpoints, &Query::Listings)));
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|asked| asked.join().expect("a question does not panic")).collect()
    });
    let (mut round, mut failure, mut heard) = (Round::default(), None, false);
    for ((shard, _), answer) in shards.into_iter().zip(answers) {
        match answer {
            Ok((_, listings)) => {
                round.add(shard, listings);
                heard = true;
            }
            Err(unanswered) => failure = Some(of_shard(shard, unanswered)),
        }
    }
    match failure {
        Some(failure) if !heard => Err(failure),
        failure => Ok((round, failure)),
    }
}

fn deadlocks_text(answer: &Deadlocks) -> String {
    let mut text = String::new();
    if answer.deadlocks.is_empty() {
        text.push_str("no deadlock\n");
    }
    for Deadlock { cycle } in &answer.deadlocks {
        let tasks = if cycle.len() == 1 { "one task".into() } else { format!("{} tasks", cycle.len()) };
        text.push_str(&format!("deadlock of {tasks}, each waiting for the next, the last for the first\n"));
        let heading = ["OWNER", "TASK", "WAITS FOR", "NAMESPACE", "MODE", "WHICH", "FOR"].map(String::from).to_vec();
        let lines = cycle.iter().map(|step| {
            let which = match step.because.as_str() {
                "held" => "the next one holds",
                "queued" => "the next one awaits before it",
                _ => "is the next one",
            };
            let waits_for = if step.name.is_empty() { "its command".into() } else { shown(&step.name) };
            vec![
                step.owner.to_string(),
                if step.task.is_empty() { "unknown".into() } else { step.task.clone() },
                waits_for,
                step.namespace.clone(),
                step.mode.clone(),
                which.into(),
                lasted(Duration::from_micros(step.since_us)),
            ]
        });
        text.push_str(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
    }
    text.push_str(&unheard(&answer.silent, &answer.partial));
    text
}

/// Who did not list everything.
fn unheard(silent: &[Owner], partial: &[Owner]) -> String {
    let mut text = String::new();
    let who = |owner: &Owner| match owner.shard.as_str() {
        "" => format!("{owner} (handle {})", owner.handle),
        shard => format!("{owner} (handle {} of shard {shard})", owner.handle),
    };
    for owner in silent {
        text.push_str(&format!("{} did not say what it holds\n", who(owner)));
    }
    for owner in partial {
        text.push_str(&format!("{} holds or awaits more than this\n", who(owner)));
    }
    text
}

/// `wayside status`.
pub fn status(args: &QueryArgs) -> Result<(), Failure> {
    tell_each::<Status>(args, &Query::Status, |line, status| args.output.of(line, || status_text(&status)))
}

fn authentication_text(status: &Status) -> String {
    let Authentication { reason, enrols, hosts, key_rotations, answers, .. } = &status.authentication;
    let Some(address) = enrols else { return format!("authentication: off ({reason})\n") };
    let signed = status.sessions.iter().filter(|session| session.signed).count();
    let hosts = hosts.map_or_else(|| "an unknown number".into(), |count| count.to_string());
    let mut text = format!(
        "authentication: on ({reason}), hosts join at {address}\nhosts: {hosts} joined; signed sessions: {signed} of {}; \
         changes of keys: {key_rotations}\n",
        status.sessions.len()
    );
    let all =
        answers.iter().flat_map(|(asked, results)| results.iter().map(move |(result, count)| (asked, result, count)));
    let counted: Vec<String> = all
        .filter(|(_, _, count)| **count > 0)
        .map(|(asked, result, count)| format!("{asked} {result} {count}"))
        .collect();
    text.push_str(&format!("enrolment: {}\n", if counted.is_empty() { "none".into() } else { counted.join(", ") }));
    text
}

fn status_text(status: &Status) -> String {
    let uptime = lasted(Duration::from_micros(status.uptime_us));
    let serving = match status.role {
        Role::Standby { .. } => "standby",
        _ if status.serving => "serving",
        _ => "recovering",
    };
    let Status { version, listen, mode, threads, wait, epoch, .. } = status;
    let aside = aside(&status.ports, status.mode_reason.as_deref());
    let plural = if *threads == 1 { "" } else { "s" };
    let mut text = format!(
        "switch: {mode}{aside} on {listen}, {serving}, up {uptime}, epoch {epoch}, {threads} thread{plural} ({wait}), version {version}\n"
    );
    match status.role {
        Role::Alone => {}
        Role::Serving => text.push_str("shard: this switch serves; others may stand by\n"),
        Role::Standby { serving: Some(address) } => text.push_str(&format!("shard: the switch at {address} serves\n")),
        Role::Standby { serving: None } => text.push_str("shard: no switch serves\n"),
    }
    if let [_, others @ ..] = &status.shards[..] {
        let (own, all) = (&status.shards[0], status.shards.len());
        let share = 100.0 / all as f64;
        text.push_str(&format!(
            "shards: this is {own}, which has {share:.0} % of the names; the others: {}\n",
            others.join(", ")
        ));
    }
    if !status.admin_listen.is_empty() {
        text.push_str(&format!("metrics: http://{}/metrics\n", status.admin_listen));
    }
    text.push_str(&authentication_text(status));
    for namespace in &status.namespaces {
        let Namespace { name, slots, policy, patience, .. } = namespace;
        let policy = crate::config::Namespace::policy_text(policy, *patience);
        let (engine, budget) = (namespace.engine(), namespace.budget());
        text.push_str(&format!("namespace: {name}, {slots} slots, {policy}{engine}{budget}\n"));
        for queue in &namespace.queues {
            let Queue { name, cells, holders, waiters, has_more, asked } = queue;
            let name = shown(name);
            let more = if *has_more { ", more at the lock server" } else { "" };
            text.push_str(&format!(
                "queue: {name}, {cells} cells, {holders} hold, {waiters} wait{more}, {asked} so far\n"
            ));
        }
    }
    for Relay { port, to, passed_on, passed_back, dropped, connections } in &status.relays {
        let dropped: u64 = dropped.values().sum();
        text.push_str(&format!(
            "relay: port {port} stands for {to}: {passed_on} packets on, {passed_back} back, {dropped} dropped, {connections} connections\n"
        ));
    }
    text.push_str(&format!("keys: {} of {}\n", status.keys.kept, status.keys.room));
    text.push_str(&format!("sessions: {}\n", status.sessions.len()));
    if !status.sessions.is_empty() {
        let heading = ["HANDLE", "OWNER", "NAMESPACE", "ADDRESS", "LEASE", "LIFELINE"].map(String::from).to_vec();
        let lines = status.sessions.iter().map(|session| {
            vec![
                session.handle.to_string(),
                session.owner().to_string(),
                session.namespace.clone(),
                session.address.clone(),
                lasted(Duration::from_micros(session.lease_us)),
                if session.lifeline { "yes" } else { "no" }.into(),
            ]
        });
        text.push_str(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
    }
    for (title, counters) in [("packets", &status.packets), ("drops", &status.drops)] {
        let counted: Vec<String> =
            counters.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}")).collect();
        text.push_str(&format!("{title}: {}\n", if counted.is_empty() { "none".into() } else { counted.join(", ") }));
    }
    text
}
