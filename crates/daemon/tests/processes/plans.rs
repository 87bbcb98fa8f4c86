//! What lies in the switch follows what is asked for, with real processes: docs/queue.md, "The plan".

use crate::support;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;
use support::{Daemon, Ending, Running, check_config, end, eventually};
use wayside_client::Name;

/// Two locks of four cells each fill it: three who ask need that many.
const NAMESPACE: &str = "[[namespace]]\nname = 'default'\nengine = 'queue'\nplan = 'knapsack'\nroom = 8\ncells = 4\n";
const CLIENTS: usize = 3;
const NAMES: usize = 300;
/// So many at a time are asked for far more often than the others.
const HOT: usize = 2;

struct World {
    daemon: Daemon,
}

impl World {
    fn new() -> World {
        World { daemon: Daemon::configured(NAMESPACE, &[]) }
    }

    fn server(&self) -> Running {
        let server = self.daemon.lock_server(&[]);
        eventually("it serves", || self.plan()["lock_server"] != 0);
        server
    }

    fn plan(&self) -> serde_json::Value {
        self.daemon.json("plan")["namespaces"][0].clone()
    }

    /// Names, by their number, that lie in the switch.
    fn in_switch(&self) -> Vec<usize> {
        let plan = self.plan();
        let ids: Vec<String> =
            (0..NAMES).map(|name| format!("{:016x}", Name::from(&name_of(name)).id().unwrap())).collect();
        let locks = plan["locks"].as_array().expect("a list").iter().filter(|lock| lock["place"] == "switch");
        let mut names: Vec<usize> =
            locks.map(|lock| ids.iter().position(|id| lock["name_id"] == **id).expect("one of ours")).collect();
        names.sort_unstable();
        names
    }

    fn run(&self, arguments: &[&str]) -> String {
        let ended = end(self.daemon.command(arguments));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    }
}

fn name_of(number: usize) -> String {
    format!("orders/{number}")
}

/// What all clients together have done.
struct Load {
    /// The first of the hot names.
    hot: AtomicUsize,
    ends: AtomicBool,
    /// Of each name, changed only by who holds it, and not at one stroke.
    counts: Vec<AtomicU64>,
    tokens: Vec<AtomicU64>,
    granted: AtomicU64,
}

impl Load {
    fn new() -> Load {
        let zeros = || (0..NAMES).map(|_| AtomicU64::new(0)).collect();
        let (hot, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
        Load { hot, ends, counts: zeros(), tokens: zeros(), granted: AtomicU64::new(0) }
    }

    /// Takes and gives back locks: nine times of ten a hot one.
    fn ask(&self, daemon: &Daemon, client: usize) {
        let session = support::builder().endpoint(daemon.address.to_string()).connect().expect("it lives");
        let mut turn = client;
        while !self.ends.load(Relaxed) {
            turn += 1;
            let hot = self.hot.load(Relaxed) + turn % HOT;
            let name = if turn.is_multiple_of(10) { turn / 10 * 7 % NAMES } else { hot };
            let guard = session.lock(name_of(name).as_str()).acquire().expect("a grant");
            let before = self.tokens[name].swap(guard.token().0, SeqCst);
            assert!(guard.token().0 > before, "{name}: token {} after {before}", guard.token().0);
            let count = self.counts[name].load(SeqCst);
            thread::yield_now();
            self.counts[name].store(count + 1, SeqCst);
            self.granted.fetch_add(1, SeqCst);
        }
    }

    /// While `work` is done, clients ask.
    fn during(&self, daemon: &Daemon, work: impl FnOnce()) {
        thread::scope(|scope| {
            let _ending = Ending(&self.ends);
            (0..CLIENTS).for_each(|client| drop(scope.spawn(move || self.ask(daemon, client))));
            work();
        });
        let counted: u64 = self.counts.iter().map(|count| count.load(SeqCst)).sum();
        assert_eq!(counted, self.granted.load(SeqCst), "two held the same lock at a time");
    }
}

#[test]
fn what_is_hot_gets_into_the_switch_by_itself_and_makes_room_for_what_gets_hot() {
    let mut world = World::new();
    assert_eq!(world.in_switch(), [] as [usize; 0], "the configuration names none");
    let server = world.server();
    let load = Load::new();
    load.during(&world.daemon, || {
        eventually("the hot ones are in the switch", || world.in_switch() == [0, 1]);
        eventually("they are listed by name", || {
            let text = world.run(&["plan"]);
            text.starts_with("namespace default: plan knapsack, 8 of 8 cells, lock server")
                && text.lines().any(|line| {
                    line.starts_with("orders/0 ") && line.contains(" switch ") && line.contains("requests a cell")
                })
        });
        eventually("and are the hottest", || {
            let text = world.run(&["locks", "--hot"]);
            let mut hottest: Vec<&str> =
                text.lines().skip(1).take(HOT).map(|line| line.split(' ').next().unwrap()).collect();
            hottest.sort_unstable();
            hottest == ["orders/0", "orders/1"]
        });
        load.hot.store(100, Relaxed);
        eventually("others have taken their places", || world.in_switch() == [100, 101]);
        load.hot.store(0, Relaxed);
        eventually("and they theirs", || world.in_switch() == [0, 1]);
    });
    let status = &world.daemon.json("status")["namespaces"][0];
    assert_eq!((&status["plan"], &status["in_switch"]), (&"knapsack".into(), &2.into()));

    // A switch without memory knows nothing, and finds out again.
    world.daemon.kill();
    world.daemon.restart();
    assert_eq!(world.in_switch(), [] as [usize; 0]);
    drop(server);
    let _server = world.server();
    let load = Load::new();
    load.hot.store(50, Relaxed);
    load.during(&world.daemon, || {
        eventually("the hot ones are in the switch", || world.in_switch() == [50, 51]);
    });
}

#[test]
fn what_is_fixed_stays_and_is_measured_all_the_same() {
    let text = "[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['orders/7']\n";
    let world = World { daemon: Daemon::configured(text, &[]) };
    let _server = world.server();
    let load = Load::new();
    load.during(&world.daemon, || {
        eventually("the hot ones are known", || {
            let plan = world.plan();
            let locks = plan["locks"].as_array().expect("a list");
            let rates =
                locks.iter().take(HOT).all(|lock| lock["rate"].as_f64().unwrap() > 10.0 && lock["place"] == "server");
            locks.len() > HOT && rates && plan["plan"] == "fixed"
        });
        assert_eq!(world.in_switch(), [7]);
    });
}

/// The other engine's requests nobody counts.
#[test]
fn where_locks_are_no_queues_it_is_told_who_waits() {
    let daemon = Daemon::start(&[]);
    let world = World { daemon };
    assert!(world.run(&["locks", "--hot"]).starts_with("no lock is awaited now"));
    let holder = world.daemon.hold(&["crowded", "--", "sh", "-c", "echo held; exec sleep 600"]);
    assert_eq!(holder.line(), "held");
    let _waiters: Vec<Running> = (0..2).map(|_| world.daemon.hold(&["crowded", "--", "true"])).collect();
    eventually("they wait", || world.daemon.count("crowded", "waiting") == 2);
    let text = world.run(&["locks", "--hot"]);
    let columns: Vec<&str> = text.lines().nth(2).expect("a lock").split_whitespace().collect();
    assert_eq!(columns, ["crowded", "default", "1", "2"], "{text}");
}

#[test]
fn a_plan_that_cannot_be_is_told() {
    for (text, wanted) in [
        ("plan = 'knapsack'", "namespace.plan = \"knapsack\" goes with engine = \"queue\""),
        ("engine = 'queue'\nplan = 'greedy'", "namespace.plan = \"greedy\" must be fixed, knapsack, random"),
        ("engine = 'queue'\nroom = 5", "namespace.room = 5 goes with plan = \"knapsack\" or \"random\""),
        ("engine = 'queue'\nplan = 'knapsack'\nroom = 63", "namespace.room = 63 must be at least 64: `cells`"),
        ("engine = 'queue'\nplan = 'random'\nroom = 65537", "namespace.room = 65537 must be 1 to 65536"),
        ("engine = 'queue'\nplan = 'knapsack'\ncells = 4\nroom = 7\nqueues = ['a', 'b']", "must be at least 8"),
    ] {
        let ended = check_config(&format!("[[namespace]]\nname = 'a'\n{text}\n"));
        assert!(ended.code == Some(64) && ended.stderr.contains(wanted), "{text}: {ended:?}");
    }
    let ended = check_config(NAMESPACE);
    assert!(ended.stdout.contains("queues as planned (knapsack), 8 cells, 4 of each at most"), "{ended:?}");
}
