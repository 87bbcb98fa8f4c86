//! Values on chains of several switches, with a real etcd: they outlive each of them (docs/chain.md).

use crate::support;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::etcd::{Detour, Etcd};
use support::{Daemon, Ended, Ending, Running, Stopped, end, eventually, signal_process, wayside};
use wayside_client::{Error, Event, Session, Store};
use wayside_protocol::chain::Key;

/// Switches of one shard.
struct Switches {
    all: Vec<Daemon>,
    /// Last, so that it outlives them.
    etcd: Etcd,
}

impl Switches {
    fn or_skip(count: usize, length: usize) -> Option<Switches> {
        Switches::or_skip_with(count, length, &[])
    }

    fn or_skip_with(count: usize, length: usize, flags: &[&str]) -> Option<Switches> {
        let etcd = Etcd::or_skip("chains of several switches")?;
        let told = length.to_string();
        let flags = [&["--etcd", &etcd.url, "--chain-length", &told], flags].concat();
        let all = (0..count).map(|_| Daemon::start(&flags)).collect();
        let switches = Switches { all, etcd };
        let most = length.min(count);
        switches.settle("all groups have their chains", |group| group["chain"].as_array().unwrap().len() == most);
        Some(switches)
    }

    fn endpoints(&self) -> String {
        self.all.iter().map(|daemon| daemon.address.to_string()).collect::<Vec<_>>().join(",")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wayside(arguments);
        command.env("WAYSIDE_ENDPOINTS", self.endpoints());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        end(self.command(arguments))
    }

    /// `wayside chain status`; null while nobody knows.
    fn chains(&self) -> serde_json::Value {
        serde_json::from_str(&self.run(&["chain", "status", "-o", "json"]).stdout).unwrap_or_default()
    }

    /// The chains, once all groups are so.
    fn settle(&self, what: &str, is_settled: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let mut settled = None;
        eventually(what, || {
            let chains = self.chains();
            let is_its = |group: &serde_json::Value| group["state"] == "serving" && is_settled(group);
            settled = chains["groups"].as_array().is_some_and(|groups| groups.iter().all(is_its)).then_some(chains);
            settled.is_some()
        });
        settled.expect("as awaited")
    }

    fn session(&self) -> Session {
        support::builder().endpoint(self.endpoints()).connect().expect("one of them serves")
    }

    fn at(&self, address: &str) -> usize {
        self.all.iter().position(|daemon| daemon.address.to_string() == address).expect("one of them")
    }
}

/// A key in each of many groups, and what it has.
fn names() -> impl Iterator<Item = String> {
    (0..40).map(|number| format!("config/{number}"))
}

fn write_all(store: &Store<'_>, value: &str) {
    for name in names() {
        // One that is under way when a chain changes may have been written, or not.
        while let Err(error) = store.put(&name, format!("{value} {name}")) {
            assert_eq!(error, Error::Unsure);
        }
    }
}

fn check_all(store: &Store<'_>, value: &str) {
    for name in names() {
        let entry = store.get(&name).unwrap().unwrap_or_else(|| panic!("{name} has no value"));
        assert_eq!(entry.value.bytes(), format!("{value} {name}").as_bytes());
    }
}

#[test]
fn values_outlive_every_switch_of_three_one_after_the_other() {
    let Some(mut switches) = Switches::or_skip(3, 3) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "first");
    check_all(&store, "first");
    let listed = switches.run(&["kv", "ls", "config/", "-o", "json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["keys"].as_array().unwrap().len(), names().count());

    for index in 0..3 {
        let dead = switches.all[index].address.to_string();
        switches.all[index].kill();
        check_all(&store, if index == 0 { "first" } else { "again" });
        write_all(&store, "again");
        check_all(&store, "again");
        switches.all[index].restart();
        switches.settle("the one that was killed has joined again", |group| {
            let chain = group["chain"].as_array().unwrap();
            chain.len() == 3 && chain.iter().any(|switch| *switch == dead)
        });
        check_all(&store, "again");
    }
}

/// The longest chain that there is.
#[test]
fn values_on_five_switches_outlive_four_of_them() {
    let Some(mut switches) = Switches::or_skip(5, 5) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "first");
    check_all(&store, "first");
    // Two at a moment.
    switches.all[..2].iter_mut().for_each(Daemon::kill);
    check_all(&store, "first");
    write_all(&store, "second");
    switches.settle("three are left", |group| group["chain"].as_array().unwrap().len() == 3);
    switches.all[2..4].iter_mut().for_each(Daemon::kill);
    check_all(&store, "second");
    write_all(&store, "third");
    check_all(&store, "third");
}

/// Without what it says last its chains would wait for twice its lease of 10 s, and for 20 s to be sure that it is
/// silent.
#[test]
fn nobody_waits_for_a_switch_that_is_ended_in_order() {
    const FLAGS: [&str; 4] = ["--serving-lease", "10s", "--lease", "40s"];
    let Some(mut switches) = Switches::or_skip_with(3, 3, &FLAGS) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(8));
    write_all(&store, "first");
    // The first has the post.
    assert!(switches.all[2].interrupt().success());
    write_all(&store, "second");
    check_all(&store, "second");
}

/// It would not hear of sessions that are over: nobody may read or write there any more, though the controller hears
/// it.
#[test]
fn a_switch_that_is_cut_off_from_etcd_alone_leaves_its_chains() {
    let Some(mut switches) = Switches::or_skip(2, 3) else { return };
    let detour = Detour::to(&switches.etcd.url);
    let url = detour.url();
    switches.all.push(Daemon::start(&["--etcd", &url, "--chain-length", "3"]));
    let cut_off = switches.all[2].address.to_string();
    let has_it = |group: &serde_json::Value| group["chain"].as_array().unwrap().iter().any(|switch| *switch == cut_off);
    switches.settle("it has joined", has_it);
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "first");
    detour.close();
    switches.settle("it has left", |group| !has_it(group));
    check_all(&store, "first");
    write_all(&store, "second");
    detour.open();
    switches.settle("it has joined again", has_it);
    check_all(&store, "second");
}

/// They wait for etcd on the thread that hears the other switches and gives them their leases; one after the other
/// they would take 48 x 60 ms, longer than the chains' lease of 2 s. They wait together: otherwise nodes would give up
/// before it was their turn, again and again, and leave sessions behind that nobody has.
#[test]
fn a_burst_of_enrolments_makes_no_switch_look_silent() {
    let Some(etcd) = Etcd::or_skip("chains of several switches") else { return };
    let mut switches = Switches { all: Vec::new(), etcd };
    let detour = Detour::to(&switches.etcd.url);
    let url = detour.url();
    // The first has the post.
    let flags = ["--chain-length", "3", "--lease", "40s", "--serving-lease", "1s"];
    switches.all.push(Daemon::start(&[&["--etcd", &url], &flags[..]].concat()));
    eventually("it serves", || switches.all[0].json("status")["role"] == "serving");
    for _ in 0..2 {
        switches.all.push(Daemon::start(&[&["--etcd", &switches.etcd.url], &flags[..]].concat()));
    }
    let whole = |group: &serde_json::Value| group["chain"].as_array().unwrap().len() == 3;
    let before = switches.settle("three each", whole);
    let status = || switches.all[0].json("status");
    let sessions = || status()["sessions"].as_array().unwrap().len();
    let (served, others) = (status()["epoch"].clone(), sessions());
    detour.late.store(60, SeqCst);
    let endpoint = switches.all[0].address.to_string();
    let begun: Vec<Session> =
        (0..48).map(|_| support::builder().endpoint(endpoint.as_str()).begin().unwrap()).collect();
    eventually("all have their sessions", || begun.iter().all(|session| session.info().is_some()));
    assert_eq!(sessions(), others + 48, "and nobody has two");
    detour.late.store(0, SeqCst);
    let after = switches.settle("three each", whole);
    assert_eq!(before["groups"], after["groups"], "no chain has changed");
    assert_eq!(status()["epoch"], served, "nobody has taken its post meanwhile");
}

#[test]
fn a_switch_that_is_stopped_answers_nobody_afterwards() {
    let Some(switches) = Switches::or_skip(2, 2) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "before");
    // Tail of some groups, head of others.
    let chains = switches.settle("two each", |group| group["chain"].as_array().unwrap().len() == 2);
    let tail = chains["groups"][0]["chain"][1].as_str().expect("it has two").to_owned();
    let stopped = &switches.all[switches.at(&tail)];
    signal_process(stopped.pid(), libc::SIGSTOP);
    write_all(&store, "after");
    signal_process(stopped.pid(), libc::SIGCONT);
    check_all(&store, "after");
    switches.settle("it is back", |group| group["chain"].as_array().unwrap().len() == 2);
    check_all(&store, "after");
}

/// The one that has the post is stopped for longer than its lease, so that another takes it; then it goes on where it
/// was. It knows chains that are no more, and changes nothing by that.
#[test]
fn of_two_controllers_at_once_one_changes_chains() {
    let Some(switches) = Switches::or_skip(3, 3) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "before");
    let serves = |index: &usize| switches.all[*index].json("status")["role"] == "serving";
    let epochs = |chains: &serde_json::Value| -> Vec<u64> {
        chains["groups"].as_array().unwrap().iter().map(|group| group["epoch"].as_u64().unwrap()).collect()
    };
    for round in 0..3 {
        let former = (0..3).find(serves).expect("one of them has the post");
        let stopped = Stopped::stop(&switches.all[former]);
        eventually("another has the post", || (0..3).filter(|other| *other != former).any(|other| serves(&other)));
        write_all(&store, &format!("round {round}"));
        let before = switches.settle("without it", |group| group["chain"].as_array().unwrap().len() == 2);
        drop(stopped);
        let after = switches.settle("it is back", |group| group["chain"].as_array().unwrap().len() == 3);
        assert!(epochs(&before).iter().zip(epochs(&after)).all(|(before, after)| after > *before));
        assert_eq!((0..3).filter(serves).collect::<Vec<_>>().len(), 1, "one has the post");
        check_all(&store, &format!("round {round}"));
    }
}

#[test]
fn a_switch_is_emptied_before_it_is_taken_away_and_takes_its_share_when_it_is_added() {
    let Some(mut switches) = Switches::or_skip(2, 1) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "kept");
    let leaver = switches.all[1].address.to_string();
    let change = |how: &str| {
        let changed = switches.run(&["chain", how, &leaver]);
        assert_eq!(changed.code, Some(0), "{changed:?}");
    };
    change("remove");
    let is_away = |group: &serde_json::Value| {
        let chain = group["chain"].as_array().unwrap();
        chain.len() == 1 && chain[0] != leaver
    };
    switches.settle("it has no groups", is_away);
    check_all(&store, "kept");
    change("add");
    eventually("it has its share", || {
        let chains = switches.settle("one each", |group| group["chain"].as_array().unwrap().len() == 1);
        chains["groups"].as_array().unwrap().iter().filter(|group| group["chain"][0] == *leaver).count() > 3
    });
    check_all(&store, "kept");
    change("remove");
    switches.settle("it has no groups", is_away);
    check_all(&store, "kept");
    assert_eq!(switches.all[1].interrupt().code(), Some(0));
    check_all(&store, "kept");
    let unknown = switches.run(&["chain", "add", "127.0.0.1:9"]);
    assert!(unknown.stderr.contains("has no switch at 127.0.0.1:9"), "{unknown:?}");
    let status = switches.run(&["chain", "status"]).stdout;
    assert!(status.contains("HEAD > ... > TAIL") && status.contains("serving"), "{status}");
}

#[test]
fn what_no_switch_has_any_more_is_said_to_be_lost() {
    let Some(mut switches) = Switches::or_skip(1, 1) else { return };
    let session = switches.session();
    write_all(&session.store(), "lost");
    switches.all[0].kill();
    switches.all[0].restart();
    let lost = |switches: &Switches| switches.chains()["groups"][0]["state"] == "lost";
    eventually("the groups are lost", || lost(&switches));
    // Whoever has the post next knows it too, and begins nothing by itself.
    switches.etcd.kill();
    eventually("the post is nobody's", || switches.chains().is_null());
    switches.etcd.start();
    eventually("the switch is heard", || switches.chains()["switches"][0]["up"] == true);
    std::thread::sleep(Duration::from_millis(500));
    assert!(lost(&switches), "{}", switches.chains());
    let refused = switches.run(&["kv", "get", "config/0", "--wait", "300ms"]);
    assert_eq!((refused.code, refused.stderr.trim()), (Some(75), "error: timed out: no answer"));
    let refused = switches.run(&["kv", "put", "config/0", "x", "--wait", "300ms"]);
    assert!(refused.code == Some(75) && refused.stderr.contains("may have been, or will be"), "{refused:?}");
    // Who has lost the post for a moment, on a busy machine, knows of no chains until he has read them.
    let recovered = || switches.run(&["chain", "recover"]).stdout.contains("begin anew, empty");
    eventually("they begin anew", recovered);
    switches.settle("they serve", |_| true);
    assert_eq!(switches.run(&["kv", "get", "config/0"]).code, Some(1), "it has no value");
    assert_eq!(switches.run(&["kv", "put", "config/0", "new"]).code, Some(0));
}

/// The tail is killed while values are written: who watches goes on at the next one, and knows that he has to read
/// again.
#[test]
fn watches_outlive_the_tail() {
    let Some(mut switches) = Switches::or_skip(3, 3) else { return };
    let (writer, watcher) = (switches.session(), switches.session());
    let stores = [&writer, &watcher].map(Session::store);
    let [write, read] = stores.map(|store| store.wait(Duration::from_secs(30)));
    write.put("limit", 0u64.to_be_bytes()).unwrap();
    let mut watch = read.watch("limit").unwrap().wait(Duration::from_secs(30));
    let group = Key::of(b"default", b"limit").unwrap().group(16);
    let tail_of = |chains: &serde_json::Value| {
        let is_its = |found: &&serde_json::Value| found["group"] == group;
        let found = chains["groups"].as_array().unwrap().iter().find(is_its).expect("one of them").clone();
        found["chain"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()
    };
    let tail = switches.at(&tail_of(&switches.chains()));
    let is_over = AtomicBool::new(false);
    let (mut known, mut told, mut rereads) = (None, 0, 0);
    let last = std::thread::scope(|scope| {
        let ending = Ending(&is_over);
        let writing = scope.spawn(|| {
            let mut round = 0u64;
            while !is_over.load(SeqCst) {
                round += 1;
                while let Err(error) = write.put("limit", round.to_be_bytes()) {
                    assert!(matches!(error, Error::Unsure | Error::Lost), "{error}");
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            round
        });
        let mut kill = Some(());
        let begun = std::time::Instant::now();
        while rereads == 0 || told <= 400 || begun.elapsed() < Duration::from_secs(5) {
            if told > 200 && kill.take().is_some() {
                switches.all[tail].kill();
            }
            match watch.next().expect("in time") {
                Event::Put { version, before, .. } => {
                    if known.is_some_and(|known| version <= known) {
                        continue;
                    }
                    assert!(known.is_none_or(|known| known == before), "{before} was not told, after {known:?}");
                    known = Some(version);
                    told += 1;
                }
                Event::Reread => {
                    rereads += 1;
                    known = read.get("limit").unwrap().map(|entry| entry.version);
                }
                other => panic!("{other:?}"),
            }
        }
        drop(ending);
        writing.join().unwrap()
    });
    let entry = read.get("limit").unwrap().expect("it has been written");
    assert_eq!(entry.value.bytes(), last.to_be_bytes());
    while known < Some(entry.version) {
        match watch.next().expect("in time") {
            Event::Put { version, before, .. } => {
                assert!(known.is_none_or(|known| known == before || version <= known));
                known = known.max(Some(version));
            }
            Event::Reread => known = read.get("limit").unwrap().map(|entry| entry.version),
            other => panic!("{other:?}"),
        }
    }
    println!("{told} told, {rereads} rereads, {last} written");
    assert_ne!(tail_of(&switches.chains()), switches.all[tail].address.to_string());
}

/// Switches sign to each other and to clients, whose keys change meanwhile; then one that had the sessions dies.
#[test]
fn values_on_chains_are_signed() {
    let Some(etcd) = Etcd::or_skip("chains whose packets are signed") else { return };
    let start = |from: u16| Daemon::signing(&etcd.url, from, &["--key-lifetime", "500ms"]);
    let all = vec![start(37_000), start(40_000)];
    let mut switches = Switches { all, etcd };
    switches.settle("all groups have two switches", |group| group["chain"].as_array().unwrap().len() == 2);
    let (state, credentials) = {
        let directory = switches.all[0].directory.path();
        (directory.join("state"), directory.join("credentials"))
    };
    let node = |arguments: &[&str]| {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", &state).env("WAYSIDE_CREDENTIALS", &credentials);
        end(command)
    };
    let joined = node(&["join", node(&["token"]).stdout.trim()]);
    assert_eq!(joined.code, Some(0), "{joined:?}");
    let session = support::builder().endpoint(switches.endpoints()).credentials(&credentials).connect().unwrap();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    let rotations = |switches: &Switches| -> u64 {
        let of = |daemon: &Daemon| daemon.json("status")["authentication"]["key_rotations"].as_u64().unwrap_or(0);
        switches.all.iter().map(of).sum()
    };
    let mut round = 0;
    while rotations(&switches) < 3 {
        round += 1;
        write_all(&store, &format!("round {round}"));
        check_all(&store, &format!("round {round}"));
    }
    switches.all[0].kill();
    check_all(&store, &format!("round {round}"));
    write_all(&store, "the other one");
    check_all(&store, "the other one");
    assert!(session.info().is_some());
}

/// Two switches of one shard, one at the kernel's hook and the other in userspace on another host.
#[cfg(feature = "xdp")]
struct AtTheHook {
    first: Running,
    second: Running,
    url: String,
    world: support::world::World,
    _etcd: Running,
    _directory: Etcd,
}

#[cfg(feature = "xdp")]
impl AtTheHook {
    const OTHER: &str = "10.78.0.2:7600";

    fn or_skip() -> Option<AtTheHook> {
        let world = support::world::World::or_skip(1)?;
        let mut etcd = Etcd::unstarted("chains at the hook")?;
        world.switch.within(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).expect("root");
        etcd.url = "http://10.78.0.1:2379".into();
        let mut command = etcd.command();
        world.switch.enter(&mut command);
        let running = Running::start(command);
        let url = etcd.url.clone();
        let (first, line) = world.daemon_with("native", &["--etcd", &url, "--chain-length", "2"]);
        assert!(line.contains("native XDP"), "{line}");
        let listen = ["--listen", AtTheHook::OTHER, "--mode", "userspace", "--authentication", "off"];
        let mut command = wayside(&[&["switch"], &listen[..]].concat());
        command.args(["--etcd", &url, "--chain-length", "2", "--lease", "5s"]);
        command.arg("--state-dir").arg(world.directory.path().join("other"));
        command.arg("--control-socket").arg(world.directory.path().join("other.sock"));
        world.clients[0].enter(&mut command);
        let second = Running::start(command);
        second.line();
        let both = AtTheHook { first, second, url, world, _etcd: running, _directory: etcd };
        eventually("all groups have two switches", || both.have(2));
        Some(both)
    }

    /// At the second client, where this thread is from now on.
    fn session(&self) -> Session {
        self.world.clients[1].move_here().expect("whoever made a host may enter it");
        let endpoints = format!("{},{}", support::world::SWITCH, AtTheHook::OTHER);
        support::builder().endpoint(endpoints).connect().expect("one serves")
    }

    /// Whether all groups serve on so many switches.
    fn have(&self, length: usize) -> bool {
        let endpoints = format!("{},{}", support::world::SWITCH, AtTheHook::OTHER);
        let mut command = wayside(&["chain", "status", "-o", "json", "--endpoint", &endpoints]);
        self.world.switch.enter(&mut command);
        let chains: serde_json::Value = serde_json::from_str(&end(command).stdout).unwrap_or_default();
        let is_its = |group: &serde_json::Value| {
            group["state"] == "serving" && group["chain"].as_array().unwrap().len() == length
        };
        chains["groups"].as_array().is_some_and(|groups| groups.iter().all(is_its))
    }

    /// Leaves the program and its memory where they are.
    fn kill_hook(&mut self) {
        self.first.signal(libc::SIGKILL);
        eventually("its daemon is no more", || !self.first.is_running());
    }

    fn restart_hook(&mut self) {
        self.first = self.world.daemon_with("native", &["--etcd", &self.url, "--chain-length", "2"]).0;
    }

    fn kill_other(&mut self) {
        self.second.signal(libc::SIGKILL);
        eventually("it is no more", || !self.second.is_running());
    }
}

#[cfg(feature = "xdp")]
#[test]
fn values_on_chains_at_the_hook() {
    let Some(mut both) = AtTheHook::or_skip() else { return };
    let session = both.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "first");
    check_all(&store, "first");
    let world = &both.world;
    assert!(world.count("written") + world.count("applied") >= 40, "the hook had its part");
    // By now the daemon has found the way to the other switch: what goes there leaves from the hook.
    std::thread::sleep(Duration::from_millis(100));
    let before = [world.count("handed_up"), world.count("to_node")];
    (0..5).for_each(|_| write_all(&store, "again"));
    let (by_daemon, to_others) = (world.count("handed_up") - before[0], world.count("to_node") - before[1]);
    assert!(to_others >= 50 && by_daemon * 4 < to_others, "{by_daemon} of {to_others} packets went by the daemon");
    write_all(&store, "first");
    both.kill_other();
    write_all(&store, "second");
    check_all(&store, "second");
    eventually("the hook is alone", || both.have(1));
    check_all(&store, "second");
}

/// The program at the hook and what it remembers outlive their daemon. What was written meanwhile is in the other
/// switch alone.
#[cfg(feature = "xdp")]
#[test]
fn a_hook_that_comes_back_with_its_old_memory_tells_nothing_of_it() {
    let Some(mut both) = AtTheHook::or_skip() else { return };
    let session = both.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "old");
    check_all(&store, "old");
    both.kill_hook();
    write_all(&store, "new");
    both.restart_hook();
    check_all(&store, "new");
    eventually("it has joined again", || both.have(2));
    check_all(&store, "new");
    both.kill_other();
    check_all(&store, "new");
}

/// The head of some groups dies at the same moment as who had leased keys in all of them: the next heads have not
/// seen the session end, and look.
#[test]
fn leases_end_although_the_head_dies_with_their_session() {
    const LEASES: usize = 16;
    let Some(mut switches) = Switches::or_skip(3, 3) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "kept");
    for round in 0..3 {
        let chains = switches.settle("three each", |group| group["chain"].as_array().unwrap().len() == 3);
        // A process of its own, with a lease in every group.
        let holders: Vec<Running> = (0..LEASES)
            .map(|number| {
                let name = format!("leased/{number}");
                let held = ["--wait", "30s", "--", "sh", "-c", "echo there; sleep 600"];
                Running::start(switches.command(&[&["kv", "put", &name, "x"][..], &held].concat()))
            })
            .collect();
        holders.iter().for_each(|holder| assert_eq!(holder.line(), "there"));
        for number in 0..LEASES {
            assert!(store.get(format!("leased/{number}")).unwrap().is_some_and(|entry| entry.is_leased));
        }
        holders.iter().for_each(|holder| holder.signal(libc::SIGKILL));
        let head = chains["groups"][round]["chain"][0].as_str().expect("it has three").to_owned();
        let dead = switches.at(&head);
        switches.all[dead].kill();
        for number in 0..LEASES {
            let name = format!("leased/{number}");
            eventually("the key has gone", || store.get(&name).unwrap().is_none());
        }
        check_all(&store, "kept");
        switches.all[dead].restart();
        drop(holders);
    }
}

/// Every switch has copied the leased keys from another by the time that their sessions end.
#[test]
fn leases_go_with_the_keys_that_are_copied() {
    let Some(mut switches) = Switches::or_skip(3, 3) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    let owner = switches.session();
    let leased = owner.store().leased();
    let leased = leased.wait(Duration::from_secs(30));
    write_all(&leased, "leased");
    for index in 0..3 {
        let dead = switches.all[index].address.to_string();
        switches.all[index].kill();
        check_all(&store, "leased");
        switches.all[index].restart();
        switches.settle("the one that was killed has joined again", |group| {
            let chain = group["chain"].as_array().unwrap();
            chain.len() == 3 && chain.iter().any(|switch| *switch == dead)
        });
    }
    assert!(store.get(names().next().unwrap()).unwrap().is_some_and(|entry| entry.is_leased));
    owner.close();
    for name in names() {
        eventually("the key has gone", || store.get(&name).unwrap().is_none());
    }
}

#[test]
fn keys_without_a_value_give_their_place_back_at_every_switch() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("wayside.toml");
    std::fs::write(&config, "[[namespace]]\nname = 'default'\nkeys = 64\n").unwrap();
    let flags = ["--config", config.to_str().unwrap(), "--collect-after", "1s"];
    let Some(mut switches) = Switches::or_skip_with(3, 3, &flags) else { return };
    let session = switches.session();
    let store = session.store();
    let store = store.wait(Duration::from_secs(30));
    write_all(&store, "kept");
    let fill = |from: usize, to: usize| {
        for number in from..to {
            let name = format!("goes/{number}");
            let mut written = Err(Error::StoreFull);
            eventually("there is room at all of them", || {
                written = store.put(&name, "x");
                written.is_ok()
            });
            assert!(store.get(&name).unwrap().is_some());
            while store.delete(&name).is_err() {}
        }
    };
    fill(0, 60);
    switches.all[0].kill();
    fill(60, 120);
    check_all(&store, "kept");
    switches.all[0].restart();
    switches.settle("three each", |group| group["chain"].as_array().unwrap().len() == 3);
    fill(120, 180);
    check_all(&store, "kept");
    eventually("nothing of them is left", || switches.run(&["kv", "ls", "goes"]).stdout == "no such key\n");
}
