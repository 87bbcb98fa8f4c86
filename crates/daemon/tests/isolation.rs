//! Budgets of namespaces, with a real daemon and real clients: docs/isolation.md.

mod support;

use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, end, wayside};
use wayside_client::{Guard, Session};

const RATE: u32 = 200;
const THREADS: usize = 8;
const LOCKS: usize = 25;
/// Far more than the budget asks for: what is dropped is asked for again within half a second.
const WAIT: Duration = Duration::from_secs(20);

/// A switch with a namespace that has a budget, and another one.
fn daemon() -> (Daemon, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("wayside.toml");
    let text = format!("[[namespace]]\nname = 'default'\n[[namespace]]\nname = 'batch'\nrate = {RATE}\nburst = 32\n");
    std::fs::write(&file, text).expect("our directory");
    let file = file.display().to_string();
    (Daemon::start(&["--config", &file, "--admin-listen", "127.0.0.1:0"]), directory)
}

fn session(daemon: &Daemon, namespace: &str) -> Session {
    Session::builder().endpoint(daemon.address.to_string()).namespace(namespace).connect().expect("it lives")
}

/// Every thread takes and gives back locks that nobody else wants: whether all were granted, and how long it took.
fn all_granted(session: &Session) -> (bool, Duration) {
    let began = Instant::now();
    let granted = thread::scope(|scope| {
        let work = |thread: usize| {
            move || {
                (0..LOCKS).all(|lock| {
                    let name = (thread * LOCKS + lock) as u64;
                    session.lock(name).wait(WAIT).acquire().and_then(Guard::release).is_ok()
                })
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().all(|thread| thread.join().expect("it does not panic"))
    });
    (granted, began.elapsed())
}

#[test]
fn what_is_over_a_budget_is_granted_later_and_other_tenants_notice_nothing() {
    let (daemon, _directory) = daemon();
    let (granted, took) = all_granted(&session(&daemon, "batch"));
    assert!(granted, "a request failed that only had to wait");
    let least = Duration::from_secs_f64((THREADS * LOCKS - 32) as f64 / f64::from(RATE));
    assert!(took >= least.mul_f64(0.9), "{took:?}, less than the budget allows for: {least:?}");
    let (granted, unlimited) = all_granted(&session(&daemon, "default"));
    assert!(granted && unlimited < took, "{unlimited:?}");

    let status = daemon.json("status");
    let namespace = |index: usize| &status["namespaces"][index];
    assert_eq!((&namespace(0)["name"], &namespace(0)["over_budget"]), (&"default".into(), &0.into()));
    let refused = namespace(1)["over_budget"].as_u64().expect("a number");
    assert!(refused > 0, "{status}");
    assert_eq!(status["drops"]["over_budget"], refused);
    let shown = end(daemon.command(&["status"])).stdout;
    let line = format!(
        "namespace: batch, 65536 slots, fair, 200 requests a second, 32 at once: {refused} packets were over it"
    );
    assert!(shown.lines().any(|shown| shown == line), "{shown}");
    assert!(shown.lines().any(|shown| shown == "namespace: default, 65536 slots, fair"), "{shown}");
}

#[test]
fn the_configuration_says_what_it_amounts_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let check = |text: &str| {
        let file = directory.path().join("wayside.toml");
        std::fs::write(&file, text).expect("our directory");
        end(wayside(&["switch", "--config", &file.display().to_string(), "--check-config"]))
    };
    let good = check("[[namespace]]\nname = 'batch'\nrate = 500000\n");
    assert_eq!(good.code, Some(0), "{good:?}");
    let line = "namespace batch, 65536 slots, fair, 500000 requests a second, 5000 at once";
    assert!(good.stdout.lines().any(|shown| shown == line), "{}", good.stdout);
    let bad = check("[[namespace]]\nname = 'batch'\nrate = 0\n");
    assert_eq!(bad.code, Some(64), "{bad:?}");
    assert!(bad.stderr.contains("namespace.rate = 0 must be 1 to 10000000 requests a second"), "{}", bad.stderr);
}
