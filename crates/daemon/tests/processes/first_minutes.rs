//! The README's first five minutes, as a newcomer types them.

use crate::support;

use std::net::UdpSocket;
use std::time::{Duration, Instant};
use support::{Daemon, end, is_alive};

#[test]
fn dev_is_up_in_a_second_and_says_where() {
    let start = Instant::now();
    let mut daemon = Daemon::start(&[]);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(daemon.ready.starts_with("switch: userspace on 127.0.0.1:"), "{}", daemon.ready);
    assert!(daemon.ready.contains("ready in 0."), "{}", daemon.ready);
    assert!(daemon.socket().exists());

    assert_eq!(daemon.interrupt().code(), Some(0));
    assert!(!daemon.socket().exists(), "its socket file is removed");
    UdpSocket::bind(daemon.address).expect("its port is free");
}

#[test]
fn a_command_finds_its_token() {
    let daemon = Daemon::start(&[]);
    let tokens: Vec<u64> = (0..3)
        .map(|_| {
            let ended = daemon.lock(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            ended.stdout.trim().parse().expect("a number")
        })
        .collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn a_try_is_told_who_has_it() {
    let daemon = Daemon::start(&[]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo held; exec sleep 60"]);
    assert_eq!(holder.line(), "held");
    let ended = daemon.lock(&["jobs", "--try", "--", "true"]);
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.stderr.starts_with("busy: jobs is held by "), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("/{} for ", holder.pid())), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let ended = daemon.lock(&["jobs", "--try", "-E", "9", "--", "true"]);
    assert_eq!(ended.code, Some(9), "{ended:?}");
    let ended = daemon.lock(&["other", "--try", "--", "true"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn locks_and_status_show_holder_and_waiter() {
    let daemon = Daemon::start(&[]);
    let nothing = end(daemon.command(&["locks"]));
    assert_eq!(nothing.stdout, "no lock is held or awaited\n");
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; exec sleep 60"]);
    let token = holder.line();
    let waiter = daemon.hold(&["jobs", "--", "true"]);
    support::eventually("the waiter queues", || daemon.count("jobs", "waiting") == 1);

    let text = end(daemon.command(&["locks"])).stdout;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..6], ["NAME", "NAMESPACE", "MODE", "STATE", "PRIORITY", "OWNER"]);
    assert_eq!(lines[1][..5], ["jobs", "default", "exclusive", "held", "-"], "{text}");
    assert!(lines[1][5].ends_with(&format!("/{}", holder.pid())), "{text}");
    assert_eq!(lines[1].last(), Some(&token.as_str()));
    assert_eq!(lines[2][..5], ["jobs", "default", "exclusive", "waiting", "4"], "{text}");
    assert!(lines[2][5].ends_with(&format!("/{}", waiter.pid())), "{text}");

    let status = daemon.json("status");
    assert_eq!(status["mode"], "userspace");
    assert_eq!(status["sessions"].as_array().unwrap().len(), 2);
    assert!(status["sessions"].as_array().unwrap().iter().all(|session| session["lifeline"] == true), "{status}");
    assert!(status["packets"]["granted"].as_u64().unwrap() >= 1);
    assert!(end(daemon.command(&["status"])).stdout.contains("sessions: 2"));
}

#[test]
fn a_killed_holder_makes_room_at_once_with_a_higher_token() {
    // A lease that the test would not survive: only the closed lifeline can be that fast.
    let daemon = Daemon::start(&["--lease", "10m"]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; echo $$; sleep 600; true"]);
    let (token, command): (u64, i32) = (holder.line().parse().unwrap(), holder.line().parse().unwrap());
    let waiter = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    support::eventually("the waiter queues", || daemon.count("jobs", "waiting") == 1);

    let killed = Instant::now();
    holder.signal(libc::SIGKILL);
    let next: u64 = waiter.line().parse().unwrap();
    let took = killed.elapsed();
    assert!(next > token, "{next} > {token}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!is_alive(command), "the holder's command ended before another could have the lock");
    assert_eq!(waiter.wait().code(), Some(0));
}
