//! A namespace whose names are divided among several lock servers, with real processes: what one that dies, or joins,
//! means to those who use its part, and to the others (docs/queue.md, "Parts").

use crate::support;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{Daemon, Ending, Running, eventually};
use wayside_client::{Name, Session};
use wayside_protocol::memory::Part;

const LEASE: Duration = Duration::from_secs(2);
/// Grants of other parts that a part's wait of a lease has room for, on any machine: there are some thousand.
const MEANWHILE: u64 = 50;

struct World {
    daemon: Daemon,
    parts: u16,
}

/// A process that offers itself, and its handle.
struct Server {
    process: Running,
    handle: u64,
}

fn configuration(parts: u16) -> String {
    let namespace = format!("[[namespace]]\nname = 'default'\nengine = 'queue'\nservers = {parts}\n");
    format!("lease = '{}s'\n{namespace}", LEASE.as_secs())
}

impl World {
    fn new(parts: u16) -> World {
        World { daemon: Daemon::configured(&configuration(parts), &[]), parts }
    }

    fn server(&self) -> Server {
        let process = Running::start(self.daemon.command(&["node", "serve-locks"]));
        let line = process.line();
        let handle = line.strip_prefix("lock server: node ").and_then(|rest| rest.split(' ').next()).expect("a handle");
        Server { handle: handle.parse().unwrap_or_else(|_| panic!("{line:?}")), process }
    }

    /// Handles of the parts' lock servers; 0: none.
    fn serving(&self) -> Vec<u64> {
        let namespace = &self.daemon.json("status")["namespaces"][0];
        let servers: Vec<u64> = namespace["lock_servers"].as_array().unwrap().iter().flat_map(|s| s.as_u64()).collect();
        assert_eq!((servers.len(), namespace["lock_server"].as_u64()), (usize::from(self.parts), Some(servers[0])));
        servers
    }

    /// So many names of a part.
    fn names(&self, part: u16, count: usize) -> Vec<String> {
        let names = (0..).map(|number| format!("job-{number}"));
        let is_its = |name: &String| Part::of_name(Name::from(name).id().unwrap(), self.parts).number == part;
        names.filter(is_its).take(count).collect()
    }

    fn session(&self) -> Session {
        support::builder().endpoint(self.daemon.address.to_string()).connect().unwrap()
    }
}

#[test]
fn the_loss_of_a_lock_server_stops_its_own_part_and_no_other() {
    let world = World::new(3);
    let servers = [world.server(), world.server(), world.server()];
    let handles: Vec<u64> = servers.iter().map(|server| server.handle).collect();
    eventually("each has a part", || handles.iter().all(|handle| world.serving().contains(handle)));
    let text = support::end(world.daemon.command(&["status"])).stdout;
    assert!(text.contains("lock servers of 3 parts: "), "{text}");

    let first = world.serving()[0];
    let dies = servers.iter().find(|server| server.handle == first).expect("one of them");
    let session = world.session();
    let lost = world.names(0, 2);
    let others: Vec<String> = [1, 2].iter().flat_map(|part| world.names(*part, 3)).collect();
    let held = session.lock(lost[0].as_str()).acquire().expect("a grant");
    let before = held.token();
    for name in &others {
        session.lock(name.as_str()).acquire().expect("a grant").release().unwrap();
    }
    dies.process.signal(libc::SIGKILL);
    eventually("another one serves", || ![0, first].contains(&world.serving()[0]));

    // Its successor waits a lease for those who hold; nobody else waits for anything.
    let is_over = AtomicBool::new(false);
    let meanwhile = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ending = Ending(&is_over);
            session.lock(lost[1].as_str()).acquire().expect("a grant, if late").release().unwrap();
        });
        let mut granted = 0;
        while !is_over.load(SeqCst) {
            for name in &others {
                session.lock(name.as_str()).acquire().expect("a grant").release().unwrap();
            }
            granted += u64::from(!is_over.load(SeqCst));
        }
        granted
    });
    assert!(meanwhile > MEANWHILE, "{meanwhile} rounds while the part waited");
    assert!(!held.is_lost(), "who holds goes on");
    assert!(!world.daemon.is_free(&lost[0]));
    held.release().unwrap();
    assert!(session.lock(lost[0].as_str()).acquire().expect("a grant").token() > before, "tokens rise");

    let serving = world.serving();
    let share = |handle: &u64| serving.iter().filter(|other| *other == handle).count();
    let mut shares: Vec<usize> = handles.iter().map(share).collect();
    shares.sort_unstable();
    assert_eq!(shares, [0, 1, 2], "{serving:?} of {handles:?}");
}

#[test]
fn who_joins_takes_a_part_and_whoever_holds_goes_on() {
    let world = World::new(2);
    let only = world.server();
    eventually("it has all", || world.serving() == [only.handle; 2]);
    let names = [0, 1].map(|part| world.names(part, 1).remove(0));
    let mut holders = names.each_ref().map(|name| world.daemon.hold_with_token(name));
    let second = world.server();
    eventually("each has one", || world.serving().contains(&second.handle) && world.serving().contains(&only.handle));
    // Longer than the new one waits for those who hold.
    std::thread::sleep(2 * LEASE);
    for (name, (holder, _)) in names.iter().zip(&mut holders) {
        assert!(holder.is_running() && !world.daemon.is_free(name), "{name} is held as it was");
    }
    for (name, (holder, before)) in names.iter().zip(holders) {
        holder.signal(libc::SIGTERM);
        holder.wait();
        let (_after, token) = world.daemon.hold_with_token(name);
        assert!(token > before, "{name}: {token} after {before}");
    }
    assert_ne!(world.serving()[0], world.serving()[1], "nobody has two more than another");
}

#[test]
fn another_number_of_parts_ends_what_is_held_by_the_one_before() {
    let mut world = World::new(1);
    let _server = world.server();
    let name = "job";
    for parts in [4, 1] {
        eventually("it has all", || !world.serving().contains(&0));
        world.daemon.begins_anew_with(&configuration(parts), name);
        world.parts = parts;
    }
}

#[test]
fn a_configuration_that_cannot_be_is_told() {
    for (text, wanted) in [
        ("servers = 2", "goes with engine = \"queue\""),
        ("engine = 'queue'\nservers = 0", "1 to 14"),
        ("engine = 'queue'\nservers = 15", "1 to 14"),
    ] {
        support::refuses_namespace(text, wanted);
    }
}
