//! Budgets of namespaces, with a real daemon and real clients: docs/isolation.md.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, Running, check_config, end, eventually, signal_process};
use wayside_client::{Error, Guard, Session};

const RATE: u32 = 200;
const THREADS: usize = 8;
const LOCKS: usize = 25;
/// Far more than the budget asks for: what is dropped is asked for again within half a second.
const WAIT: Duration = Duration::from_secs(20);

/// A switch with a namespace that has a budget, and another one.
fn daemon() -> Daemon {
    started(&format!("rate = {RATE}\nburst = 32\n"))
}

/// With this of the second namespace.
fn settings(batch: &str) -> String {
    format!("[[namespace]]\nname = 'default'\n[[namespace]]\nname = 'batch'\n{batch}")
}

fn started(batch: &str) -> Daemon {
    Daemon::configured(&settings(batch), &[])
}

/// The second namespace's lock server.
fn serve_batch(daemon: &Daemon) -> Running {
    let server = daemon.lock_server(&["--namespace", "batch"]);
    eventually("it serves", || daemon.json("status")["namespaces"][1]["lock_server"] != 0);
    server
}

fn session(daemon: &Daemon, namespace: &str) -> Session {
    support::builder().endpoint(daemon.address.to_string()).namespace(namespace).connect().expect("it lives")
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
    let daemon = daemon();
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

/// Whose time is over while the namespace asks for too much hears that it was that, from the library and the command.
#[test]
fn who_waits_in_vain_for_its_budget_is_told_so() {
    for engine in ["fission", "queue"] {
        let daemon = started(&format!("engine = '{engine}'\nrate = 1\nburst = 32\n"));
        let server = (engine == "queue").then(|| serve_batch(&daemon));
        let session = session(&daemon, "batch");
        let most = Duration::from_millis(100);
        let ask = |name: u64| session.lock(name).wait(most).acquire().and_then(Guard::release);
        let ended: Vec<_> = (0..40).map(ask).collect();
        // One more for each second that it takes, and one less for each that had to be sent again.
        assert!(ended.iter().filter(|ended| ended.is_ok()).count() >= 16, "{engine}: {ended:?}");
        let failed: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
        assert!(!failed.is_empty() && failed.iter().all(|error| *error == Error::OverBudget), "{engine}: {failed:?}");
        // A refusal is told once for each request that is admitted, so that it may take one of these first.
        let command = ["lock", "33", "--namespace", "batch", "--wait", "200ms", "--", "true"];
        let ended = (0..30).map(|_| end(daemon.command(&command))).find(|ended| ended.stderr.contains("over budget"));
        let ended = ended.expect("it is told");
        assert!(ended.code == Some(75) && ended.stderr.contains("`rate`"), "{ended:?}");
        let told = daemon.json("status")["packets"]["rejected"].clone();
        assert!(told.as_u64().is_some_and(|told| told > 1), "{told}");
        drop(server);
    }
}

#[test]
fn the_configuration_says_what_it_amounts_to() {
    let good = check_config("[[namespace]]\nname = 'batch'\nrate = 500000\n");
    assert_eq!(good.code, Some(0), "{good:?}");
    let line = "namespace batch, 65536 slots, fair, 500000 requests a second, 5000 at once";
    assert!(good.stdout.lines().any(|shown| shown == line), "{}", good.stdout);
    let bad = check_config("[[namespace]]\nname = 'batch'\nrate = 0\n");
    assert_eq!(bad.code, Some(64), "{bad:?}");
    assert!(bad.stderr.contains("namespace.rate = 0 must be 1 to 10000000 requests a second"), "{}", bad.stderr);
}

/// A tenant that asks as often as it is let.
struct Load {
    granted: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn begin(daemon: &Daemon) -> Load {
        let (granted, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let session = Arc::new(session(daemon, "batch"));
        let threads = (0..THREADS).map(|thread| {
            let (session, granted, failed) = (Arc::clone(&session), Arc::clone(&granted), Arc::clone(&failed));
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                for lock in 0u64.. {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let name = lock << 8 | thread as u64;
                    let ended = session.lock(name).wait(WAIT).acquire().and_then(Guard::release);
                    if ended.is_ok() { &granted } else { &failed }.fetch_add(1, Relaxed);
                }
            })
        });
        Load { threads: threads.collect(), granted, failed, stop }
    }

    /// Grants a second, from now on.
    fn rate(&self) -> f64 {
        // Who was refused under the last budget comes again.
        thread::sleep(Duration::from_millis(700));
        let (before, began) = (self.granted.load(Relaxed), Instant::now());
        thread::sleep(Duration::from_secs(1));
        (self.granted.load(Relaxed) - before) as f64 / began.elapsed().as_secs_f64()
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        assert_eq!(self.failed.load(Relaxed), 0, "whoever is over the budget only waits");
    }
}

/// By the command, and by the signal; for locks of either engine.
#[test]
fn a_budget_changes_under_load_and_nobody_loses_anything() {
    for engine in ["fission", "queue"] {
        let with = |budget: &str| settings(&format!("engine = '{engine}'\n{budget}"));
        let daemon = Daemon::configured(&with("rate = 200\nburst = 32\n"), &[]);
        let _server = (engine == "queue").then(|| serve_batch(&daemon));
        let load = Load::begin(&daemon);
        let held = session(&daemon, "batch").lock("held").wait(WAIT).acquire().expect("in time");
        let slow = load.rate();
        assert!(slow < 400.0, "{engine}: {slow}/s of 200/s");

        daemon.configure(&with("rate = 1000\nburst = 32\n"));
        let ended = end(daemon.command(&["reload"]));
        let told = "namespace batch: 1000 requests a second, 32 at once; it was 200 requests a second, 32 at once\n";
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), told), "{ended:?}");
        assert_eq!(daemon.json("status")["namespaces"][1]["rate"], 1_000);
        let fast = load.rate();
        assert!(fast > 1.5 * slow && fast < 2_000.0, "{engine}: {fast}/s of 1000/s, after {slow}/s");

        // What cannot change, or makes no sense, changes nothing, and is told.
        for (wrong, why) in [
            ("rate = 0\n", "must be 1 to"),
            ("rate = 100\nslots = 5\n", "slots of namespace \"batch\" differs, which needs another start"),
            ("rate = 100\nburst = 5\n", "namespace.burst"),
        ] {
            daemon.configure(&with(wrong));
            let ended = end(daemon.command(&["reload"]));
            assert!(ended.code == Some(69) && ended.stderr.contains(why), "{ended:?}");
            assert!(ended.stderr.contains("nothing has changed"), "{ended:?}");
            assert_eq!(daemon.json("status")["namespaces"][1]["rate"], 1_000);
        }
        daemon.configure(&with(""));
        signal_process(daemon.pid(), libc::SIGHUP);
        eventually("the limit is gone", || daemon.json("status")["namespaces"][1]["rate"].is_null());
        let free = load.rate();
        assert!(free > fast, "{engine}: {free}/s without a limit, {fast}/s with one");
        assert_eq!(end(daemon.command(&["reload"])).stdout, "nothing has changed\n");
        assert!(held.release().is_ok(), "it was held all the while");
        load.end();
    }
}

#[test]
fn where_there_is_no_file_there_is_nothing_to_read_again() {
    let daemon = Daemon::start(&[]);
    let ended = end(daemon.command(&["reload"]));
    assert!(ended.code == Some(69) && ended.stderr.contains("without --config"), "{ended:?}");
}
