//! A switch dies and comes again, and groups that are not on it do not notice (docs/chain.md): hosts of their own in
//! network namespaces, each with a switch, at the XDP hook where that is built in.

use crate::support;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use support::etcd::Etcd;
use support::{Ending, Running, end, eventually, wayside};
use tempfile::TempDir;
use wayside_client::{Error, Session, Store};
use wayside_hosts::{Bridge, Host};
use wayside_protocol::chain::Key;

const SWITCHES: u8 = 4;
/// Fewer than there are switches: so some groups are not on the one that dies.
const LENGTH: usize = 2;
/// Of the namespace `default`, without settings.
const GROUPS: u16 = 16;
/// Numbers of the other hosts.
const ETCD: u8 = 100;
const CLIENT: u8 = 200;
/// A switch that is silent for twice as long is left out, and its groups wait that long: more than twice as long as a
/// busy machine keeps a thread waiting for a processor.
const SERVING_LEASE: &str = "1s";
/// Longer than the post takes to move: sessions outlive that.
const LEASE: &str = "10s";
/// Nobody who is not on the dead switch waits as long for an answer; everybody who is on it waits longer.
const MOST: Duration = Duration::from_secs(1);

struct Switch {
    host: Host,
    address: SocketAddrV4,
    directory: TempDir,
    running: Option<Running>,
}

struct Fabric {
    switches: Vec<Switch>,
    etcd: Etcd,
    _etcd: Running,
    _host: Host,
    #[cfg(feature = "xdp")]
    _passes: Vec<wayside_hosts::Program>,
    bridge: Bridge,
}

impl Fabric {
    /// With the host of clients. None, and said, where it cannot be made.
    fn or_skip() -> Option<(Fabric, Host)> {
        if let Some(why) = wayside_hosts::missing() {
            println!("skipped: chains between hosts: {why}");
            return None;
        }
        let mut etcd = Etcd::unstarted("chains between hosts")?;
        let bridge = match Bridge::new() {
            Ok(bridge) => bridge,
            Err(error) => {
                println!("skipped: chains between hosts: no bridge: {error}");
                return None;
            }
        };
        let plug = |number| bridge.plug(number).expect("a host more");
        let host = plug(ETCD);
        etcd.url = format!("http://{}:2379", Bridge::address(ETCD));
        let mut command = etcd.command();
        host.enter(&mut command);
        let client = plug(CLIENT);
        let mut fabric = Fabric {
            switches: Vec::new(),
            etcd,
            _etcd: Running::start(command),
            _host: host,
            #[cfg(feature = "xdp")]
            _passes: Vec::new(),
            bridge,
        };
        for number in 1..=SWITCHES {
            let host = fabric.bridge.plug(number).expect("a host more");
            #[cfg(feature = "xdp")]
            fabric._passes.push(fabric.bridge.pass(number).expect("veth has XDP"));
            let address = SocketAddrV4::new(Bridge::address(number), 7600);
            let directory = TempDir::new().expect("a directory");
            fabric.switches.push(Switch { host, address, directory, running: None });
            fabric.start(usize::from(number) - 1);
        }
        Some((fabric, client))
    }

    fn start(&mut self, index: usize) {
        let Switch { host, address, directory, .. } = &self.switches[index];
        let mut command = wayside(&["switch", "--authentication", "off", "--etcd", &self.etcd.url, "--lease", LEASE]);
        command.args(["--serving-lease", SERVING_LEASE, "--chain-length", &LENGTH.to_string()]);
        command.args(["--listen", &address.to_string(), "--interfaces", "eth0"]);
        command.args(["--mode", if cfg!(feature = "xdp") { "native" } else { "userspace" }]);
        command.arg("--state-dir").arg(directory.path().join("state"));
        command.arg("--control-socket").arg(directory.path().join("control.sock"));
        command.arg("--bpf-dir").arg(self.switches[index].pins());
        host.enter(&mut command);
        let running = Running::start(command);
        let line = running.line();
        assert!(!cfg!(feature = "xdp") || line.contains("native XDP"), "{line}");
        self.switches[index].running = Some(running);
    }

    /// The host dies: nothing leaves it any more, not from the hook either, whose program outlives its daemon.
    fn kill(&mut self, index: usize) {
        self.switches[index].host.ip("link set eth0 down").expect("its interface");
        self.switches[index].running = None;
    }

    fn revive(&mut self, index: usize) {
        self.switches[index].host.ip("link set eth0 up").expect("its interface");
        self.start(index);
    }

    /// An answer of `-o json` to a command on a switch's own host: others would have to be enrolled.
    fn ask(&self, index: usize, command: &[&str]) -> serde_json::Value {
        let switch = &self.switches[index];
        let mut command = wayside(&[command, &["-o", "json", "--endpoint", &switch.address.to_string()]].concat());
        switch.host.enter(&mut command);
        serde_json::from_str(&end(command).stdout).unwrap_or_default()
    }

    /// Whose controller decides on chains.
    fn post(&self) -> usize {
        let running = || (0..self.switches.len()).filter(|index| self.switches[*index].running.is_some());
        let mut found = None;
        eventually("one has the post", || {
            found = running().find(|index| self.ask(*index, &["status"])["role"] == "serving");
            found.is_some()
        });
        found.expect("as awaited")
    }

    /// Epoch and chain of each group, once all serve and are so.
    fn settle(&self, what: &str, is_settled: impl Fn(&Group) -> bool) -> BTreeMap<u16, Group> {
        let mut settled = BTreeMap::new();
        eventually(what, || {
            let told = self.ask(self.post(), &["chain", "status"]);
            let groups = told["groups"].as_array().into_iter().flatten();
            let serving = groups.filter(|group| group["state"] == "serving").map(|group| {
                let chain = group["chain"].as_array().expect("a list").iter();
                let chain = chain.map(|switch| switch.as_str().expect("an address").to_owned()).collect();
                let epoch = group["epoch"].as_u64().expect("a number");
                (group["group"].as_u64().expect("a number") as u16, Group { epoch, chain })
            });
            settled = serving.filter(|(_, group)| is_settled(group)).collect();
            settled.len() == usize::from(GROUPS)
        });
        settled
    }
}

impl Fabric {
    /// Epoch and chain of each group, once none changes any more: a switch that has just come is given its share of
    /// the groups one after the other.
    fn rest(&self) -> BTreeMap<u16, Group> {
        let mut known = BTreeMap::new();
        eventually("no chain changes", || {
            let before = std::mem::replace(&mut known, self.settle("all groups have two switches", is_whole));
            thread::sleep(Duration::from_millis(500));
            known == before
        });
        known
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        for switch in &mut self.switches {
            switch.running = None;
            // A daemon that was killed leaves its pins.
            #[cfg(feature = "xdp")]
            switch.host.within(|| wayside_switch::xdp::remove_left(&switch.pins(), switch.address));
            let _ = std::fs::remove_dir(switch.pins());
        }
    }
}

impl Switch {
    /// No point in a name there.
    fn pins(&self) -> PathBuf {
        format!("/sys/fs/bpf/wayside-groups-{}-{}", std::process::id(), self.address.ip().to_bits()).into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    epoch: u64,
    /// Addresses, head first.
    chain: Vec<String>,
}

fn is_whole(group: &Group) -> bool {
    group.chain.len() == LENGTH
}

/// What the client of one group has seen.
#[derive(Debug, Default)]
struct Seen {
    answers: u64,
    /// Longest time from a question to its answer: of writes, and of reads.
    longest: [Duration; 2],
    failures: Vec<String>,
}

impl Seen {
    fn note<T>(&mut self, kind: usize, asked: Instant, answer: Result<T, Error>) -> Option<T> {
        self.longest[kind] = self.longest[kind].max(asked.elapsed());
        match answer {
            Ok(answer) => {
                self.answers += 1;
                return Some(answer);
            }
            Err(error) => self.failures.push(format!("{}: {error}", ["a write", "a read"][kind])),
        }
        None
    }
}

/// Writes and reads a key in turns, until it is over.
fn ask_again_and_again(store: &Store<'_>, name: &str, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    for count in (1_u64..).take_while(|_| !over.load(Relaxed)) {
        let asked = Instant::now();
        let written = seen.note(0, asked, store.put(name, count.to_be_bytes())).is_some();
        let asked = Instant::now();
        let read = seen.note(1, asked, store.get(name)).flatten();
        let found = read.map(|entry| u64::from_be_bytes(entry.value.bytes().try_into().expect("as it was written")));
        // Of a write without an answer nobody knows.
        if written && found.is_some() && found != Some(count) {
            seen.failures.push(format!("{count} was written, and {found:?} read"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    seen
}

/// A name in each group.
fn names() -> BTreeMap<u16, String> {
    let mut names = BTreeMap::new();
    for name in (0..).map(|number| format!("config/{number}")) {
        names.insert(Key::of(b"default", name.as_bytes()).expect("a name").group(GROUPS), name);
        if names.len() == usize::from(GROUPS) {
            break;
        }
    }
    names
}

/// One client for each group while `work` is done, a while before, and a while afterwards.
fn watch_all<T: Send>(session: &Session, host: &Host, work: impl FnOnce() -> T + Send) -> (T, BTreeMap<u16, Seen>) {
    let (names, over) = (names(), AtomicBool::new(false));
    let ask = |name: &str| {
        host.move_here().expect("whoever made a host may enter it");
        ask_again_and_again(&session.store().wait(support::PATIENCE), name, &over)
    };
    thread::scope(|scope| {
        let (ask, ending) = (&ask, Ending(&over));
        let asking: Vec<_> = names.iter().map(|(group, name)| (*group, scope.spawn(move || ask(name)))).collect();
        thread::sleep(Duration::from_millis(500));
        let done = work();
        thread::sleep(Duration::from_millis(500));
        drop(ending);
        (done, asking.into_iter().map(|(group, thread)| (group, thread.join().expect("it ends"))).collect())
    })
}

/// Once it is a switch that has nothing but its groups, once the one whose controller decides on all of them.
#[test]
fn groups_that_are_not_on_a_switch_do_not_notice_its_death_nor_its_return() {
    let Some((mut fabric, client)) = Fabric::or_skip() else { return };
    let endpoints: Vec<String> = fabric.switches.iter().map(|switch| switch.address.to_string()).collect();
    let session = client.within(|| support::builder().endpoint(endpoints.join(",")).connect().expect("one serves"));
    for has_post in [false, true] {
        let before = fabric.rest();
        let post = fabric.post();
        let victim = if has_post { post } else { (post + 1) % fabric.switches.len() };
        let dead = endpoints[victim].clone();
        let is_on_it = |group: &Group| group.chain.contains(&dead);
        let (after, seen) = watch_all(&session, &client, || {
            fabric.kill(victim);
            fabric.settle("others have its groups", |group| is_whole(group) && !is_on_it(group));
            fabric.revive(victim);
            let mut now = BTreeMap::new();
            eventually("it has its groups again", || {
                now = fabric.settle("all groups have two switches", is_whole);
                before.iter().all(|(number, group)| is_on_it(group) == is_on_it(&now[number]))
            });
            now
        });
        let mut worst = [[Duration::ZERO; 2]; 2];
        for (number, seen) in &seen {
            let on_it = is_on_it(&before[number]);
            let place = if on_it { "on it" } else { "elsewhere" };
            let what = format!("group {number}, {place}, {:?}: {seen:?}", before[number]);
            for (worst, longest) in worst[usize::from(on_it)].iter_mut().zip(seen.longest) {
                *worst = longest.max(*worst);
            }
            if on_it {
                // Whichever was under way, or came next.
                assert!(seen.longest.iter().any(|longest| *longest > MOST), "nothing died: {what}");
                assert!(after[number].epoch > before[number].epoch, "{what}");
            } else {
                assert!(seen.failures.is_empty() && seen.longest.iter().all(|longest| *longest < MOST), "{what}");
                assert_eq!(after[number], before[number], "its chain has not changed");
                assert!(seen.answers > 200, "{what}");
            }
        }
        let elsewhere = before.values().filter(|group| !is_on_it(group)).count();
        assert!((4..=12).contains(&elsewhere), "{elsewhere} of {GROUPS} are elsewhere");
        println!(
            "{elsewhere} of {GROUPS} groups elsewhere: longest write and read {:?}; of the others {:?}",
            worst[0], worst[1]
        );
    }
}
