//! `wayside lock` around its command: exit codes, signals, and the end of both.

use crate::support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, Running, Stopped, end, eventually, is_alive, signal_process, wayside};
use wayside_client::Session;

#[test]
fn exit_codes_are_the_commands_own() {
    let daemon = Daemon::start(&[]);
    for (command, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 128 + libc::SIGTERM),
        (&["sh", "-c", "kill -KILL $$"], 128 + libc::SIGKILL),
        (&["no-such-command-anywhere"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let ended = daemon.lock(&[&["jobs", "--"], command].concat());
        assert_eq!(ended.code, Some(code), "{command:?}: {ended:?}");
    }
    assert_eq!(daemon.count("jobs", "held"), 0);
}

/// As it is with what `sudo` runs: nobody may send a signal to another user's process, but root.
#[test]
fn a_command_of_another_user_is_said_to_run_on() {
    const CAP_KILL: libc::c_ulong = 5;
    // SAFETY: a query of this process.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can run a command as another user, without the right to end it");
    }
    let mut daemon = Daemon::start(&["--lease", "1s"]);
    let script = ["setpriv", "--reuid", "65534", "--clear-groups", "sh", "-c", "echo $$; exec sleep 600"];
    let mut command = daemon.command(&[&["lock", "jobs", "--"], &script[..]].concat());
    // SAFETY: a system call only, between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_CAPBSET_DROP, CAP_KILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let said = daemon.directory.path().join("said");
    // No pipe: the command keeps its end open.
    let mut lock = command.stderr(File::create(&said).unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(lock.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let runs_on: i32 = line.trim().parse().expect("a process");
    daemon.kill();
    let mut ended = None;
    eventually("it ends without its command", || {
        ended = lock.try_wait().unwrap();
        ended.is_some()
    });
    let was_alive = is_alive(runs_on);
    signal_process(runs_on, libc::SIGKILL);
    assert!(was_alive && ended.and_then(|status| status.code()) == Some(76), "{ended:?}");
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("lost jobs") && said.contains("still runs"), "{said}");
}

#[test]
fn names_have_1_to_1024_bytes() {
    let daemon = Daemon::start(&[]);
    let (longest, longer, endless) = ("x".repeat(1024), "x".repeat(1025), "é".repeat(60_000));
    assert_eq!(daemon.lock(&[&longest, "--", "true"]).code, Some(0));
    for name in ["", &longer, &endless] {
        let ended = daemon.lock(&[name, "--", "true"]);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.stderr.starts_with("error: invalid name: "), "{}", ended.stderr);
    }
}

#[test]
fn arguments_that_make_no_sense_are_64() {
    for arguments in [
        &["lock"][..],
        &["lock", "jobs"],
        &["lock", "jobs", "--"],
        &["lock", "jobs", "--try", "--wait", "1s", "--", "true"],
        &["lock", "jobs", "--wait", "soon", "--", "true"],
        &["lock", "jobs", "--endpoint", "[::1]:7600", "--", "true"],
        &["lock", "jobs", "--namespace", "abcdefghijklmnopqrstuvwxyz", "--", "true"],
        &["lock", "jobs", "--ttl", "0s", "--", "true"],
        &["lock", "jobs", "--lease", "1ns", "--", "true"],
        &["lock", "jobs", "--lease", "100000h", "--", "true"],
        &["lock", "jobs", "-E", "0", "--", "true"],
        &["lock", "jobs", "--priority", "8", "--", "true"],
        &["lock", "jobs", "--priority", "-1", "--", "true"],
        &["lcok"],
        &["locks", "-o", "xml"],
    ] {
        let ended = end(wayside(arguments));
        assert_eq!(ended.code, Some(64), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_lease_beyond_its_namespaces_longest_is_cut_and_that_is_told() {
    let daemon = Daemon::configured("[[namespace]]\nname = 'default'\nlongest_lease = '5s'\n", &[]);
    for (asked, told) in [("5s", ""), ("6s", "the lease is 5 s: namespace default allows no longer one\n")] {
        let ended = daemon.lock(&["jobs", "--lease", asked, "--", "true"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), told), "{ended:?}");
    }
}

#[test]
fn a_time_that_is_none_is_told_what_one_looks_like_and_a_lease_its_limits() {
    for (flag, time, expected) in [
        ("--wait", "banana", "'banana' for '--wait <TIME>': not a time; write one such as 250ms, 10s or 5m"),
        ("--ttl", "5", "not a time; write one such as 250ms, 10s or 5m"),
        ("--lease", "100000h", "must be 20 ms to 3600 s"),
        ("--lease", "19ms", "must be 20 ms to 3600 s"),
    ] {
        let ended = end(wayside(&["lock", "jobs", flag, time, "--", "true"]));
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn without_a_switch_the_error_says_how_to_start_one() {
    let mut daemon = Daemon::start(&[]);
    daemon.interrupt();
    for arguments in [&["lock", "jobs", "--wait", "500ms", "--", "true"][..], &["locks"], &["status"]] {
        let ended = end(daemon.command(arguments));
        assert_eq!(ended.code, Some(69), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("wayside dev"), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn an_unknown_namespace_is_refused() {
    let daemon = Daemon::start(&[]);
    let ended = daemon.lock(&["jobs", "--namespace", "nowhere", "--", "true"]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("namespace"), "{}", ended.stderr);
}

#[test]
fn a_wait_ends_and_says_who_had_it() {
    let daemon = Daemon::start(&[]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo held; exec sleep 60"]);
    holder.line();
    let start = Instant::now();
    let ended = daemon.lock(&["jobs", "--wait", "300ms", "--", "true"]);
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(ended.stderr.starts_with("timed out: jobs is held by "), "{}", ended.stderr);
    assert_eq!(daemon.count("jobs", "waiting"), 0, "the request is taken back");
}

#[test]
fn shared_holders_hold_together_and_keep_writers_out() {
    let daemon = Daemon::start(&[]);
    let readers: Vec<_> =
        (0..3).map(|_| daemon.hold(&["jobs", "--shared", "--", "sh", "-c", "echo held; exec sleep 60"])).collect();
    for reader in &readers {
        assert_eq!(reader.line(), "held");
    }
    assert_eq!(daemon.count("jobs", "held"), 3);
    let ended = daemon.lock(&["jobs", "--try", "--", "true"]);
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.stderr.contains("and by 2 more"), "{}", ended.stderr);
}

#[test]
fn signals_go_to_the_command_and_its_group() {
    let daemon = Daemon::start(&[]);
    for (signal, name) in
        [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGUSR1, "USR1"), (libc::SIGHUP, "HUP")]
    {
        let script = format!("trap 'echo got; exit 3' {name}; echo ready; while :; do sleep 0.02; done");
        // What is ignored where the tests are run, as by nohup, a shell cannot trap.
        let lock = daemon.hold(&["jobs", "--", "env", "--default-signal", "sh", "-c", &script]);
        assert_eq!(lock.line(), "ready");
        lock.signal(signal);
        assert_eq!(lock.line(), "got", "{name}");
        assert_eq!(lock.wait().code(), Some(3), "{name}");
    }
}

#[test]
fn a_killed_holder_takes_its_commands_children_along() {
    let daemon = Daemon::start(&[]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "sleep 600 & echo $!; wait"]);
    let grandchild: i32 = holder.line().parse().unwrap();
    assert!(is_alive(grandchild));
    holder.signal(libc::SIGKILL);
    eventually("the grandchild ends", || !is_alive(grandchild));
    assert_eq!(daemon.lock(&["jobs", "--wait", "20s", "--", "true"]).code, Some(0));
}

#[test]
fn a_stopped_holder_loses_its_command_before_its_lock() {
    let daemon = Daemon::start(&["--lease", "1s"]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; echo $$; exec sleep 600"]);
    let (token, command): (u64, i32) = (holder.line().parse().unwrap(), holder.line().parse().unwrap());
    let waiter = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    eventually("the waiter queues", || daemon.count("jobs", "waiting") == 1);
    holder.signal(libc::SIGSTOP);
    let next: u64 = waiter.line().parse().unwrap();
    assert!(!is_alive(command), "the guardian ended the command before the lease was over");
    assert!(next > token);
    holder.signal(libc::SIGCONT);
    assert_eq!(holder.wait().code(), Some(76));
}

#[test]
fn a_command_that_was_warned_and_whose_hold_goes_on_ends_by_itself() {
    let daemon = Daemon::start(&["--lease", "10s"]);
    let done = daemon.directory.path().join("done");
    let script = "trap 'echo warned' TERM; echo began; until [ -e $0 ]; do sleep 0.1; done; exit 7";
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", script, done.to_str().unwrap()]);
    assert_eq!(holder.line(), "began");
    {
        let _stopped = Stopped::stop(&daemon);
        assert_eq!(holder.line(), "warned");
    }
    // A second later it would have been killed.
    thread::sleep(Duration::from_secs(2));
    File::create(done).unwrap();
    assert_eq!(holder.wait().code(), Some(7));
}

/// The process that ends `command`'s command where it can't itself.
fn guardian_of(command: &Running) -> i32 {
    let is_it = |process: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        stat.contains("(wayside-guard)") && parent == Some(command.pid())
    };
    let mut guardian = None;
    // It says who it is once it runs.
    eventually("there is one", || {
        let files = std::fs::read_dir("/proc").unwrap();
        let names = files.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut found = names.filter(|name| name.parse::<i32>().is_ok()).filter(is_it);
        guardian = found.next().and_then(|process| process.parse().ok());
        guardian.is_some()
    });
    guardian.expect("as above")
}

/// It reads nothing while it is stopped, and its pipe has an end.
#[test]
fn a_guardian_that_is_stopped_keeps_nobody_from_ending_the_command() {
    let mut daemon = Daemon::start(&["--lease", "800ms"]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    let command: i32 = holder.line().parse().unwrap();
    let guardian = guardian_of(&holder);
    signal_process(guardian, libc::SIGSTOP);
    // It has no other descriptor. A page has room for 256 orders, of which there is one each 40 ms.
    for pipe in std::fs::read_dir(format!("/proc/{guardian}/fd")).unwrap() {
        let pipe = File::open(pipe.unwrap().path()).unwrap();
        // SAFETY: a descriptor of our own.
        assert!(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 0);
    }
    thread::sleep(Duration::from_secs(13));
    assert!(is_alive(command), "it holds its lock");
    daemon.kill();
    eventually("the command has ended", || !is_alive(command));
    assert_eq!(holder.wait().code(), Some(76));
}

#[test]
fn a_command_that_lasts_longer_than_the_ttl_is_ended() {
    let daemon = Daemon::start(&[]);
    let start = Instant::now();
    let script = "trap 'echo warned; exit 0' TERM; while :; do sleep 0.02; done";
    let ended = daemon.lock(&["jobs", "--ttl", "3s", "--", "sh", "-c", script]);
    assert_eq!(ended.code, Some(76), "never 0 when the lock went: {ended:?}");
    assert_eq!(ended.stdout, "warned\n", "SIGTERM comes first");
    assert!(start.elapsed() < Duration::from_secs(20));
    let ended =
        daemon.lock(&["jobs", "--ttl", "500ms", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.02; done"]);
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.stderr.starts_with("error: the longest hold of jobs (--ttl 500ms) ended "), "{}", ended.stderr);
}

#[test]
fn a_lock_that_is_lost_before_its_ttl_is_said_to_be_lost() {
    let mut daemon = Daemon::start(&["--lease", "600ms"]);
    let mut command = daemon.command(&["lock", "jobs", "--ttl", "60s", "--", "sh", "-c", "echo held; exec sleep 600"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    daemon.kill();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(76));
    assert!(ended.stderr.starts_with(b"error: lost jobs "), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Longer than the lease and the three seconds that an enrolment is waited for.
const AWAY: Duration = Duration::from_secs(6);

#[test]
fn a_wait_without_limit_outlasts_the_absence_of_the_switch() {
    let mut daemon = Daemon::start(&["--lease", "1500ms"]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo held; exec sleep 60"]);
    holder.line();
    let mut waiter = daemon.hold(&["jobs", "--", "echo", "mine"]);
    eventually("the waiter queues", || daemon.count("jobs", "waiting") == 1);
    daemon.kill();
    std::thread::sleep(AWAY);
    assert!(waiter.is_running());
    daemon.restart();
    assert_eq!(waiter.line(), "mine");
    assert_eq!(holder.wait().code(), Some(76));
}

#[test]
fn a_wait_with_a_limit_uses_all_of_it_to_find_a_switch() {
    let mut daemon = Daemon::start(&[]);
    daemon.interrupt();
    let waiter = daemon.hold(&["jobs", "--wait", "30s", "--", "echo", "mine"]);
    let start = Instant::now();
    let ended = daemon.lock(&["jobs", "--wait", "4s", "--", "true"]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(start.elapsed() >= Duration::from_secs(4));
    assert!(ended.stderr.contains("waiting: no Wayside switch answers at 127.0.0.1:"), "{}", ended.stderr);
    assert!(ended.stderr.contains("within 4s"), "{}", ended.stderr);
    let start = Instant::now();
    let ended = daemon.lock(&["jobs", "--", "true"]);
    assert_eq!(ended.code, Some(69), "a switch that was never there is not waited for: {ended:?}");
    assert!(start.elapsed() >= Duration::from_secs(3));
    daemon.restart();
    assert_eq!(waiter.line(), "mine");
}

#[test]
fn a_search_for_a_switch_can_be_interrupted() {
    let mut daemon = Daemon::start(&[]);
    daemon.interrupt();
    for command in [
        &["lock", "jobs"][..],
        &["semaphore", "jobs", "--permits", "2"],
        &["election", "campaign", "jobs"],
        &["group", "join", "jobs"],
        &["kv", "put", "jobs", "x"],
    ] {
        let waiter = daemon.command(&[command, &["--wait", "60s", "--", "true"]].concat());
        let waiter = Running::start(waiter);
        std::thread::sleep(Duration::from_millis(500));
        waiter.signal(libc::SIGINT);
        assert_eq!(waiter.wait().code(), None, "{command:?} ends by the signal");
    }
}

/// The kernel would reap the command then, and nobody hear of its end.
#[test]
fn it_ends_with_its_command_whatever_signals_it_was_started_with() {
    let daemon = Daemon::start(&[]);
    for (command, code) in [("exit 7", 7), ("kill -TERM $$", 128 + libc::SIGTERM)] {
        let mut lock = daemon.command(&["lock", "jobs", "--", "sh", "-c", command]);
        // SAFETY: a system call only, between fork and exec.
        unsafe {
            lock.pre_exec(|| {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                Ok(())
            })
        };
        assert_eq!(Running::start(lock).wait().code(), Some(code));
    }
}

#[test]
fn without_the_switch_the_command_ends_with_the_lease() {
    let mut daemon = Daemon::start(&["--lease", "600ms"]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    let command: i32 = holder.line().parse().unwrap();
    daemon.kill();
    assert_eq!(holder.wait().code(), Some(76));
    assert!(!is_alive(command));
}

#[test]
fn a_waiter_can_be_interrupted() {
    let daemon = Daemon::start(&[]);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo held; exec sleep 60"]);
    holder.line();
    let waiter = daemon.hold(&["jobs", "--", "true"]);
    eventually("the waiter queues", || daemon.count("jobs", "waiting") == 1);
    signal_process(waiter.pid(), libc::SIGINT);
    assert_eq!(waiter.wait().code(), None, "it ends by the signal");
    eventually("its wait ends too", || daemon.count("jobs", "waiting") == 0);
    assert_eq!(daemon.count("jobs", "held"), 1);
}

#[test]
fn commands_of_many_processes_exclude_each_other() {
    const PROCESSES: usize = 4;
    const ROUNDS: usize = 10;
    let daemon = Daemon::start(&["--threads", "2"]);
    let counter = daemon.directory.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    // Reads, dawdles, writes: without the lock most of the additions would be lost.
    let script = format!("n=$(cat {0}); sleep 0.002; echo $((n + 1)) > {0}", counter.display());
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let ended = daemon.lock(&["counter", "--wait", "25s", "--", "sh", "-c", &script]);
                    assert_eq!(ended.code, Some(0), "{ended:?}");
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&counter).unwrap().trim(), (PROCESSES * ROUNDS).to_string());
    eventually("nothing is left behind", || {
        let status = daemon.json("status");
        status["sessions"].as_array().unwrap().is_empty()
    });
}

/// docs/locality.md.
#[test]
fn what_a_process_keeps_is_told_and_others_get_it() {
    let daemon = Daemon::start(&[]);
    let session = support::builder().endpoint(daemon.address.to_string()).keep(10).connect().unwrap();
    let turn = |session: &Session| session.lock("jobs").acquire().unwrap().release().unwrap();
    turn(&session);
    let kept = || daemon.json("locks")["keepers"][0]["kept"].as_u64();
    eventually("it is kept, and told", || kept() == Some(1));
    let text = end(daemon.command(&["locks"])).stdout;
    assert!(text.contains("keeps 1 lock of default that nobody holds or awaits"), "{text}");
    // Once it is taken along: it was not used again and again.
    assert_eq!(daemon.lock(&["jobs", "--", "true"]).code, Some(0));
    eventually("it went along, and is free", || kept().is_none());
    // And then it is lent.
    (0..5).for_each(|_| turn(&session));
    assert_eq!(daemon.lock(&["jobs", "--", "true"]).code, Some(0));
    eventually("it came back", || kept() == Some(1));
    turn(&session);
    assert!(session.grants().local >= 4, "{:?}", session.grants());
    session.close();
    assert_eq!(kept(), None);
    assert_eq!(daemon.lock(&["jobs", "--try", "--", "true"]).code, Some(0), "it is free");
}
