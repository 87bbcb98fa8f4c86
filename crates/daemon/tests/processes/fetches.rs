//! A lock and what it protects in one round trip, by way of a server that is a process of its own (docs/queue.md, "By
//! way of a third node"): and the lock alone, whatever becomes of that server.

use crate::support;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, Running, connect, eventually};
use wayside_client::{Error, Fetch, NodeId, NotFetched, Path, Session};

const NAMESPACE: &str = "[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['hot', 'warm']\ncells = 3\n";
/// Have a queue in the switch; the other is the lock server's.
const HOT: &str = "hot";
const WARM: &str = "warm";
const COLD: &str = "cold";
/// Longer than a client waits for an answer.
const LATE: Duration = Duration::from_millis(60);

/// Where the switch is, for a process of the test that is to be a server.
const SERVES: &str = "TEST_FETCHES_OF";

struct World {
    daemon: Daemon,
}

impl World {
    fn new() -> World {
        World { daemon: Daemon::configured(&format!("lease = '1s'\n{NAMESPACE}"), &[]) }
    }

    fn session(&self) -> Session {
        connect(self.daemon.address.to_string())
    }
}

/// The row of an item, as a server has it.
fn row(item: &[u8]) -> Vec<u8> {
    [b"row of ", item].concat()
}

fn answer(fetch: Fetch) {
    let row = row(fetch.ask());
    fetch.answer(&row).unwrap();
}

/// Not a test: what a process does that the others start.
#[test]
fn a_process_that_serves() {
    let Ok(endpoint) = std::env::var(SERVES) else { return };
    let session = connect(endpoint);
    session.serve_fetches(answer);
    println!("\nserves as {}", session.id().unwrap());
    loop {
        thread::sleep(Duration::from_secs(60));
    }
}

fn server_at(endpoint: &str, enter: impl FnOnce(&mut std::process::Command)) -> (Running, NodeId) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "fetches::a_process_that_serves", "--nocapture"]).env(SERVES, endpoint);
    enter(&mut command);
    let server = Running::start(command);
    let said =
        std::iter::from_fn(|| Some(server.line())).find_map(|line| Some(line.split_once("serves as ")?.1.to_owned()));
    (server, said.unwrap().parse().unwrap())
}

#[test]
fn a_lock_comes_with_what_it_protects() {
    let world = World::new();
    let (_process, server) = server_at(&world.daemon.address.to_string(), |_| ());
    let session = world.session();
    let (mut latest, mut fetched) = (0, 0);
    for round in 0..50_u32 {
        let item = round.to_string().into_bytes();
        let request = session.lock(HOT).fetch(server, &item);
        let mut guard = if round % 2 == 0 { request.acquire() } else { request.shared().try_lock() }.unwrap();
        let data = guard.fetched();
        fetched += u32::from(data.is_ok());
        // A busy machine may keep the server from answering in time.
        assert!(data == Ok(row(&item)) || data == Err(NotFetched::Silent), "{data:?}");
        assert_eq!((guard.fetched(), guard.path()), (Err(NotFetched::Direct), Path::Switch), "once");
        assert!(guard.token().0 > latest);
        latest = guard.token().0;
        assert!(
            matches!(world.session().lock(HOT).try_lock(), Err(Error::Busy { .. })) || round % 2 == 1,
            "it is held"
        );
        guard.release().unwrap();
    }
    assert!(fetched > 25, "{fetched} of 50");
    // The whole packet, both ways; and not a byte more.
    let most = [7; 960 - 7];
    eventually("it answers", || session.lock(HOT).fetch(server, &most).acquire().unwrap().fetched() == Ok(row(&most)));
    let error = session.lock(HOT).fetch(server, &[0; 961]).acquire().unwrap_err();
    assert_eq!(error, Error::FetchTooLarge { bytes: 961, limit: 960 });
}

#[test]
fn as_a_future_too() {
    let world = World::new();
    let (_process, server) = server_at(&world.daemon.address.to_string(), |_| ());
    let session = world.session();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::spawn(session.driver());
        let mut data = Err(NotFetched::Silent);
        while data == Err(NotFetched::Silent) {
            data = session.lock(HOT).fetch(server, b"7").await.unwrap().fetched();
        }
        assert_eq!(data, Ok(row(b"7")));
    });
}

#[test]
fn the_server_sees_who_holds_what() {
    let world = World::new();
    let (owner, asker) = (world.session(), world.session());
    let seen = Arc::new(Mutex::new(None));
    let noted = seen.clone();
    owner.serve_fetches(move |fetch| {
        *noted.lock().unwrap() = Some((fetch.name(), fetch.token(), fetch.mode(), fetch.ask().to_vec()));
        fetch.answer(b"").unwrap();
    });
    let ask = || {
        let mut guard = asker.lock(HOT).shared().fetch(owner.id().unwrap(), b"item").acquire().unwrap();
        (guard.fetched() == Ok(vec![])).then_some(guard)
    };
    let guard = std::iter::repeat_with(ask).flatten().next().unwrap();
    let (name, token, mode, ask) = seen.lock().unwrap().take().unwrap();
    assert_eq!((token, mode, &ask[..]), (guard.token(), guard.mode(), b"item".as_slice()));
    assert_eq!(Ok(name), wayside_client::Name::from(HOT).id());
}

#[test]
fn the_lock_is_had_whatever_the_server_does() {
    let world = World::new();
    let (owner, asker) = (world.session(), world.session());
    let server = owner.id().unwrap();
    let fetched = |server| {
        let mut guard = asker.lock(HOT).fetch(server, b"item").acquire().unwrap();
        assert_eq!(guard.path(), Path::Switch);
        (guard.fetched(), guard.token())
    };
    eventually("it does not serve yet", || fetched(server).0 == Err(NotFetched::Refused));
    owner.serve_fetches(drop);
    eventually("it has nothing", || fetched(server).0 == Err(NotFetched::Refused));
    let too_long = Arc::new(Mutex::new(None));
    let noted = too_long.clone();
    owner.serve_fetches(move |fetch| *noted.lock().unwrap() = Some(fetch.answer(&[0; 961])));
    let answered = || too_long.lock().unwrap().take();
    let mut answer = None;
    eventually("it answers too much", || {
        assert_eq!(fetched(server).0, Err(NotFetched::Refused));
        // The asker hears of it before who answers does.
        answer = answered();
        answer.is_some()
    });
    assert_eq!(answer, Some(Err(Error::FetchTooLarge { bytes: 961, limit: 960 })));
    // It keeps the question to itself for a while.
    let (sender, kept) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    owner.serve_fetches(move |fetch| sender.lock().unwrap().send(fetch).unwrap());
    let began = Instant::now();
    let (none, first) = fetched(server);
    assert_eq!(none, Err(NotFetched::Silent));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    thread::sleep(LATE);
    let question: Fetch = kept.recv().unwrap();
    assert_eq!(question.token(), first);
    // By now somebody else holds it, and asks too: he does not get what was meant for another.
    let mut next = asker.lock(HOT).fetch(server, b"other");
    next = next.wait(Duration::from_secs(10));
    let guard = thread::scope(|scope| {
        let waits = scope.spawn(|| next.acquire().unwrap());
        let other = kept.recv().unwrap();
        assert_eq!(other.ask(), b"other");
        question.answer(b"late").unwrap();
        other.answer(b"right").unwrap();
        let mut guard = waits.join().unwrap();
        let data = guard.fetched();
        assert!(data == Ok(b"right".to_vec()) || data == Err(NotFetched::Silent), "{data:?}");
        guard
    });
    assert!(guard.token() > first && !guard.is_lost());
    drop(guard);
    let nobody: NodeId = "60000.77".parse().unwrap();
    eventually("nobody is there", || fetched(nobody).0 == Err(NotFetched::Unknown));
    owner.close();
    eventually("its session is over", || fetched(server).0 == Err(NotFetched::Unknown));
}

/// It is the session's own thread that calls it.
#[test]
fn a_server_that_panics_has_no_answer_and_its_session_goes_on() {
    let world = World::new();
    let (asker, owner) = (world.session(), world.session());
    let own = owner.lock(WARM).acquire().unwrap();
    owner.serve_fetches(|fetch| match fetch.ask() {
        // Without the hook, whose backtrace takes longer on a busy machine than an asker waits.
        b"bad" => std::panic::resume_unwind(Box::new("as it is meant to")),
        _ => answer(fetch),
    });
    let server = owner.id().unwrap();
    let fetched = |ask: &[u8]| asker.lock(HOT).fetch(server, ask).acquire().unwrap().fetched();
    eventually("it has nothing", || fetched(b"bad") == Err(NotFetched::Refused));
    eventually("it answers", || fetched(b"item") == Ok(row(b"item")));
    assert_eq!(owner.id(), Some(server));
    assert!(!own.is_lost());
}

#[test]
fn a_server_that_is_stopped_or_killed_keeps_no_lock() {
    let world = World::new();
    let (process, server) = server_at(&world.daemon.address.to_string(), |_| ());
    let session = world.session();
    let fetched = || session.lock(HOT).fetch(server, b"item").acquire().unwrap().fetched();
    eventually("it answers", || fetched() == Ok(row(b"item")));
    process.signal(libc::SIGSTOP);
    eventually("it is silent", || fetched() == Err(NotFetched::Silent));
    // What it says when it goes on is of a hold that is over, and reaches nobody.
    process.signal(libc::SIGCONT);
    eventually("it answers again", || fetched() == Ok(row(b"item")));
    process.signal(libc::SIGKILL);
    eventually("its end is noticed", || fetched() == Err(NotFetched::Unknown));
}

#[test]
fn who_has_to_wait_or_asks_a_lock_server_gets_the_lock_alone() {
    let world = World::new();
    let (_process, server) = server_at(&world.daemon.address.to_string(), |_| ());
    let session = world.session();
    let holder = session.lock(WARM).acquire().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| session.lock(WARM).fetch(server, b"item").acquire().unwrap().fetched());
        eventually("it waits", || world.daemon.count(WARM, "waiting") == 1);
        thread::sleep(LATE);
        holder.release().unwrap();
        assert_eq!(waits.join().unwrap(), Err(NotFetched::Direct));
    });
    let _serves = world.daemon.lock_server(&[]);
    assert_eq!(session.lock(COLD).fetch(server, b"item").acquire().unwrap().fetched(), Err(NotFetched::Direct));
}

#[test]
fn where_nodes_keep_the_books_the_lock_comes_alone() {
    let daemon = Daemon::start(&[]);
    let session = |_| connect(daemon.address.to_string());
    let (owner, asker) = (session(1), session(2));
    owner.serve_fetches(answer);
    let mut guard = asker.lock(HOT).fetch(owner.id().unwrap(), b"item").acquire().unwrap();
    assert_eq!(guard.fetched(), Err(NotFetched::Direct));
}

/// The same decisions in the kernel, each process on a host of its own.
#[cfg(feature = "xdp")]
#[test]
fn at_the_hook() {
    use support::world::SWITCH;

    const ROUNDS: u64 = 300;
    let Some(world) = support::world::World::or_skip(1) else { return };
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("wayside.toml");
    std::fs::write(&configuration, NAMESPACE).unwrap();
    let (_daemon, line) = world.daemon_with("native", &["--config", configuration.to_str().unwrap()]);
    assert!(line.contains("native XDP"), "{line}");
    let (process, server) = server_at(SWITCH, |command| world.clients[1].enter(command));
    let session = world.session(0);
    let before = world.count("queue_granted");
    let mut fetched = 0;
    for round in 0..ROUNDS {
        let item = round.to_string().into_bytes();
        let mut guard = session.lock([HOT, WARM][(round % 2) as usize]).fetch(server, &item).acquire().unwrap();
        match guard.fetched() {
            Ok(data) => {
                assert_eq!(data, row(&item));
                fetched += 1;
            }
            // A busy machine may keep the server from answering in time.
            Err(why) => assert_eq!(why, NotFetched::Silent),
        }
    }
    assert!(fetched > ROUNDS / 2, "{fetched} of {ROUNDS}");
    assert!(world.count("queue_granted") - before >= ROUNDS && world.count("relayed") >= fetched, "the hook grants");
    let fetched = || session.lock(HOT).fetch(server, b"item").acquire().unwrap().fetched();
    process.signal(libc::SIGSTOP);
    eventually("it is silent", || fetched() == Err(NotFetched::Silent));
    process.signal(libc::SIGCONT);
    eventually("it answers again", || fetched() == Ok(row(b"item")));
}
