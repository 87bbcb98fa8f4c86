//! Records in a real etcd, which the tests start.

use super::super::mirror::Mirror;
use super::fabric::{Changes, SILENCE};
use super::*;
use crate::admission::Admission;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use tempfile::TempDir;
use wayside_protocol::memory::Moment;

/// A real one, which ends with its test.
struct Server {
    child: Child,
    url: String,
    peers: String,
    directory: TempDir,
}

impl Server {
    /// Dies, and comes back with what it knew.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = started(&self.url, &self.peers, self.directory.path()).unwrap();
    }

    /// Answers nothing from now on. A signal alone may find a thread that answers first.
    fn pause(&self) {
        let (id, mut status) = (self.child.id() as libc::pid_t, 0);
        // SAFETY: a child that this test started and has not waited for keeps its id; it is looked at, not reaped.
        let stopped =
            unsafe { libc::kill(id, libc::SIGSTOP) == 0 && libc::waitpid(id, &mut status, libc::WUNTRACED) == id };
        assert!(stopped && libc::WIFSTOPPED(status), "{status:#x}");
    }
}

fn started(url: &str, peers: &str, directory: &Path) -> std::io::Result<Child> {
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(directory).args(["--log-level", "fatal", "--logger", "zap"]);
    command.args(["--listen-client-urls", url, "--advertise-client-urls", url]);
    command.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
    command.arg("--initial-cluster").arg(format!("default={peers}"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of loopback that no other test has, of this process or of another: a port of 127.0.0.1 that is free when
/// it is looked for is somebody else's a moment later, now and then.
fn own_address() -> Ipv4Addr {
    static GIVEN: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 128, low, GIVEN.fetch_add(1, Relaxed))
}

/// One that answers.
fn server() -> Option<Server> {
    use std::os::unix::fs::PermissionsExt;
    let address = own_address();
    let (url, peers) = (format!("http://{address}:2379"), format!("http://{address}:2380"));
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let Ok(child) = started(&url, &peers, directory.path()) else {
        println!("skipped: records in etcd: it is not installed (Debian: etcd-server)");
        return None;
    };
    let mut server = Server { child, url, peers, directory };
    while TcpStream::connect((address, 2379)).is_err() {
        assert!(server.child.try_wait().unwrap().is_none(), "etcd has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(server)
}

/// The switch with number 1, as this process of it.
fn shard(server: &Server, process: u64) -> Shard {
    shard_at(&server.url, process)
}

fn shard_at(url: &str, process: u64) -> Shard {
    let sharing = Sharing {
        etcd: vec![url.into()],
        shard: "main".into(),
        serving_lease: Duration::from_secs(5),
        chain_length: 3,
        history: Duration::ZERO,
        hand_over_listen: None,
        ca: None,
        certificate: None,
        key: None,
    };
    Shard::connect(&sharing, 1, process, "127.0.0.1:7600".parse().unwrap()).unwrap()
}

fn take_post(shard: &Shard) {
    let asking = shard.clone();
    let (answer, _) = shard.within(async move { asking.asked(Question::Take(0)).await }).unwrap();
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
}

fn renew(shard: &Shard) {
    let asking = shard.clone();
    shard.within(async move { asking.asked(Question::Renew).await }).unwrap();
}

fn records(shard: &mut Shard) -> Vec<Record> {
    shard.load().unwrap()
}

/// What a shard is told from now on.
fn watch(shard: &Shard) -> mpsc::Receiver<Changes> {
    let (told, changes) = mpsc::channel();
    // The test may have ended.
    shard.spawn(shard.clone().watch(move |changes| drop(told.send(changes))));
    changes
}

/// Waits for somebody to be told of a record, and of nothing before it that is not expected.
fn await_record(changes: &mpsc::Receiver<Changes>, record: &Record) {
    let begun = Instant::now();
    loop {
        let told = changes.recv_timeout(Duration::from_secs(10)).expect("something is told");
        match told.records.last() {
            None => assert!(begun.elapsed() < Duration::from_secs(20), "{record:?} is not told"),
            Some(last) => return assert_eq!(last, record),
        }
    }
}

/// However much else is told.
fn await_all(changes: &mpsc::Receiver<Changes>) {
    let begun = Instant::now();
    while !changes.recv_timeout(Duration::from_secs(10)).expect("something is told").is_all {
        assert!(begun.elapsed() < Duration::from_secs(20), "that all is known is not told");
    }
}

#[test]
fn what_changes_is_told_and_all_is_read_only_after_a_connection_was_lost() {
    let Some(mut server) = server() else { return };
    let mut writer = shard(&server, 1);
    take_post(&writer);
    records(&mut writer);
    writer.commit(&[(0, vec![0]), (1, vec![0])]).unwrap();
    let reader = shard(&server, 2);
    let changes = watch(&reader);
    let first = changes.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!((first.records, first.is_all), (vec![(0, vec![0]), (1, vec![0])], true));
    for value in 1..=20 {
        writer.commit(&[(1, vec![value])]).unwrap();
        await_record(&changes, &(1, vec![value]));
    }
    // What etcd has forgotten meanwhile was told.
    let (etcd, revision) = (writer.etcd.clone(), writer.latest().revision);
    writer.within(async move { Ok(etcd.compact(revision).await?) }).unwrap();
    writer.commit(&[(2, vec![1])]).unwrap();
    await_record(&changes, &(2, vec![1]));
    // And so it is known that nothing is missing, for longer than it may be unknown.
    let begun = Instant::now();
    while begun.elapsed() < 3 * SILENCE / 2 {
        renew(&writer);
        await_all(&changes);
    }
    assert_eq!(reader.commits.reads(), 1, "once, at the beginning");
    server.restart();
    let begun = Instant::now();
    while let Err(error) = writer.commit(&[(2, vec![2])]) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
    }
    await_record(&changes, &(2, vec![2]));
    writer.commit(&[(2, vec![3])]).unwrap();
    await_record(&changes, &(2, vec![3]));
    await_all(&changes);
    let reads = reader.commits.reads();
    assert!((2..20).contains(&reads), "{reads}: once for each connection");
}

#[test]
fn what_was_forgotten_is_not_told_but_read() {
    let Some(server) = server() else { return };
    let mut writer = shard(&server, 1);
    take_post(&writer);
    records(&mut writer);
    for value in 1..=3 {
        writer.commit(&[(0, vec![value])]).unwrap();
    }
    let (etcd, revision) = (writer.etcd.clone(), writer.latest().revision);
    let error = writer.within(async move {
        etcd.compact(revision).await?;
        let mut watching = etcd.watch(&Keys::beginning_with("/wayside/"), 1).await?;
        watching.next().await?;
        Ok(())
    });
    assert!(error.unwrap_err().to_string().contains("forgotten"));
}

/// Carries bytes between a client and etcd. What etcd tells of changes stays here while `stops`.
fn relay(server: &Server, stops: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, to) = (format!("http://{}", listener.local_addr().unwrap()), server.url.replace("http://", ""));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(etcd)) = (client, TcpStream::connect(&to)) else { continue };
            let (is_watch, stops) = (Arc::new(AtomicBool::new(false)), Arc::clone(&stops));
            let (mut from, mut into) = (client.try_clone().unwrap(), etcd.try_clone().unwrap());
            let asks = Arc::clone(&is_watch);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut bytes) {
                    if bytes[..length].windows(9).any(|part| part == b"/v3/watch") {
                        asks.store(true, SeqCst);
                    }
                    if into.write_all(&bytes[..length]).is_err() {
                        return;
                    }
                }
                let _ = into.shutdown(Shutdown::Both);
            });
            let (mut from, mut into) = (etcd, client);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut bytes) {
                    if !(is_watch.load(SeqCst) && stops.load(SeqCst)) && into.write_all(&bytes[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn a_connection_that_tells_nothing_is_noticed_and_says_nothing_of_being_up_to_date() {
    let Some(server) = server() else { return };
    let mut writer = shard(&server, 1);
    take_post(&writer);
    records(&mut writer);
    let stops = Arc::new(AtomicBool::new(false));
    let reader = shard_at(&relay(&server, Arc::clone(&stops)), 2);
    let changes = watch(&reader);
    writer.commit(&[(0, vec![1])]).unwrap();
    await_record(&changes, &(0, vec![1]));
    await_all(&changes);
    stops.store(true, SeqCst);
    writer.commit(&[(0, vec![2])]).unwrap();
    renew(&writer);
    // Somebody may have asked for the post before it was renewed.
    std::thread::sleep(SILENCE / 4);
    while let Ok(told) = changes.try_recv() {
        assert_eq!(told.records, []);
    }
    loop {
        let told = changes.recv_timeout(Duration::from_secs(20)).expect("all is read again");
        if told.records == [(0, vec![2])] {
            break;
        }
        assert!(!told.is_all && told.records.is_empty(), "the renewal was not told: {told:?}");
    }
    stops.store(false, SeqCst);
    writer.commit(&[(0, vec![3])]).unwrap();
    await_record(&changes, &(0, vec![3]));
    await_all(&changes);
    assert!(reader.commits.reads() > 1);
}

#[test]
fn a_commit_that_is_applied_late_is_refused() {
    let Some(server) = server() else { return };
    let mut first = shard(&server, 1);
    assert!(matches!(first.commit(&[(0, vec![1])]), Err(Error::Deposed)), "nobody has the post");
    take_post(&first);
    assert_eq!(records(&mut first), []);
    // Given up while a member of etcd was paused, and made again at another one.
    let late = {
        let conditions = vec![first.is_own(), at_revision(&first.key(SESSIONS.order), first.latest().revision)];
        (conditions, vec![Put::new(&first.key("record/00000000"), [1])])
    };
    first.commit(&[(0, vec![1])]).unwrap();
    // Started anew, and further.
    let mut again = shard(&server, 2);
    assert_eq!(records(&mut again), [(0, vec![1])]);
    again.commit(&[(0, vec![2]), (7, vec![7])]).unwrap();
    let etcd = again.etcd.clone();
    let outcome = again.within(async move { Ok(etcd.write_if(late.0, late.1, None).await?) }).unwrap();
    assert!(matches!(outcome, Outcome::Not(_)));
    assert_eq!(records(&mut again), [(0, vec![2]), (7, vec![7])]);
    // The former process knows nothing of what came since.
    assert!(matches!(first.commit(&[(0, vec![9])]), Err(Error::Deposed)));
    assert_eq!(records(&mut first), [(0, vec![2]), (7, vec![7])]);
    first.commit(&[(0, vec![3])]).unwrap();
}

/// Whoever waits for it renews nothing meanwhile.
#[test]
fn a_commit_leaves_of_the_posts_lease_what_it_takes_to_renew_it() {
    let Some(server) = server() else { return };
    let mut shard = shard(&server, 1);
    take_post(&shard);
    records(&mut shard);
    assert_eq!(shard.patience_now(), PATIENCE, "it was never told");
    let renewed = |shard: &Shard, ago: Duration| {
        let time = Time(clock::now().0 - ago.as_micros() as u64);
        let inquiry = Inquiry { question: Question::Renew, since: Moment { time, tick: 0 } };
        shard.heard(&inquiry, Answer::Is(Post::default()));
        shard.heard(&inquiry, Answer::Done(Post::default()));
    };
    let least = shard.lease / LEAST;
    renewed(&shard, shard.lease - least / 4);
    assert_eq!(shard.patience_now(), least);
    server.pause();
    let begun = Instant::now();
    let outcome = shard.commit(&[(0, vec![1])]);
    assert!(matches!(outcome, Err(Error::Silent(_))), "{outcome:?}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let rest = least * 3 / 2;
    renewed(&shard, shard.lease - rest);
    assert!(shard.patience_now() <= rest * 3 / 4);
    renewed(&shard, Duration::ZERO);
    assert_eq!(shard.patience_now(), PATIENCE, "never more than that");
}

#[test]
fn what_this_process_gave_up_and_was_done_after_all_hinders_nothing() {
    let Some(server) = server() else { return };
    let mut shard = shard(&server, 1);
    take_post(&shard);
    records(&mut shard);
    shard.commit(&[(0, vec![1])]).unwrap();
    // As if the answer to the next one had not come.
    let (etcd, order) = (shard.etcd.clone(), shard.key(SESSIONS.order));
    let process = shard.latest().process.clone();
    shard.latest().commits += 1;
    let value = format!("{process} 2").into_bytes();
    shard.within(async move { Ok(etcd.write(&order, Some(value)).await?) }).unwrap();
    shard.commit(&[(0, vec![2])]).unwrap();
    assert_eq!(records(&mut shard), [(0, vec![2])]);
}

/// etcd takes 128 operations in one: a switch that was alone may have more hosts.
#[test]
fn more_files_than_a_transaction_holds_are_written_once() {
    let Some(server) = server() else { return };
    let shard = shard(&server, 1);
    const LAST: &[&str] = &["authority.key", "authority.der"];
    let files = |bytes: &str| -> Files {
        let names = (0..300).map(|number| format!("hosts/{number}")).chain(LAST.iter().map(|name| (*name).to_owned()));
        names.map(|name| (name, bytes.as_bytes().to_vec())).collect()
    };
    shard.found(LAST, files("first")).unwrap();
    assert_eq!(shard.files().unwrap(), files("first"));
    shard.found(LAST, files("second")).unwrap();
    assert_eq!(shard.files().unwrap(), files("first"), "there is an authority");
    // It is the last that is written: without it all is written anew.
    shard.tell_file(LAST[0], None).unwrap();
    shard.tell_file(LAST[1], None).unwrap();
    shard.found(LAST, files("third")).unwrap();
    assert_eq!(shard.files().unwrap(), files("third"));
}

/// The key that hosts' certificates are signed with is in the switches' directories alone, should etcd be another one.
#[test]
fn nobody_takes_another_authority_for_the_one_that_he_has() {
    let Some(server) = server() else { return };
    let shard = shard(&server, 1);
    let directory = tempfile::tempdir().unwrap();
    let admission = Admission::of(directory.path());
    let look = |mirror: Mirror| {
        let mut mirror = mirror;
        shard.within(async move { Ok(mirror.look().await) }).unwrap()
    };
    assert_eq!(look(Mirror::begin(shard.clone(), admission.clone()).unwrap()), Ok(vec![]));
    let mirror = Mirror::begin(shard.clone(), admission.clone()).unwrap();
    admission.write("authority.der", b"anew").unwrap();
    assert_eq!(look(mirror), Ok(vec![]), "of the same key");
    let own = shard.files().unwrap();
    assert_eq!((own["authority.der"].as_slice(), &admission.files().unwrap().0), (&b"anew"[..], &own));
    let mirror = Mirror::begin(shard.clone(), admission.clone()).unwrap();
    for name in own.keys() {
        shard.tell_file(name, Some(b"another".to_vec())).unwrap();
    }
    assert!(look(mirror).unwrap_err().contains("authority of other switches"));
    let Err(failure) = Mirror::begin(shard.clone(), admission.clone()) else { panic!("it joins them") };
    assert!(failure.message.contains("remove `enrolment`"), "{failure}");
    assert_eq!(admission.files().unwrap().0, own, "it has its own still");
    std::fs::remove_dir_all(directory.path().join("enrolment")).unwrap();
    Mirror::begin(shard.clone(), admission.clone()).unwrap();
    assert_eq!(admission.read("authority.key").unwrap().as_deref(), Some(&b"another"[..]));
}

/// All sessions' keys may change in one tick.
#[test]
fn rotations_of_many_sessions_are_told_together_and_the_latest_of_each() {
    let Some(server) = server() else { return };
    let shard = shard(&server, 1);
    let period = |rotation| Period { incarnation: 5, epoch: 7, rotation };
    for handle in 0..1_000u16 {
        shard.note_rotation(handle, period(1));
        shard.note_rotation(handle, period(2));
    }
    let (etcd, prefix) = (shard.etcd.clone(), Keys::beginning_with(&shard.key("rotation/")));
    let told = || {
        let (etcd, prefix) = (etcd.clone(), prefix.clone());
        shard.within(async move { Ok(etcd.range(&prefix).await?) }).unwrap()
    };
    let begun = Instant::now();
    while told().kvs.len() < 1_000 || !shard.untold.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    let found = told();
    assert!(found.kvs.iter().all(|entry| entry.value == b"5 7 2"));
    let revisions: HashSet<u64> = found.kvs.iter().map(|entry| entry.mod_revision).collect();
    assert!(revisions.len() <= 12, "{} transactions", revisions.len());
    // The next one is told too.
    shard.note_rotation(3, period(3));
    while !shard.untold.lock().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(told().kvs.iter().any(|entry| entry.value == b"5 7 3"));
}

/// Or the next start would tell it as news, whoever has removed it meanwhile; or not know that it was removed here.
#[test]
fn what_all_have_heard_of_is_named_so() {
    let Some(server) = server() else { return };
    let shard = shard(&server, 1);
    let directory = tempfile::tempdir().unwrap();
    let admission = Admission::of(directory.path());
    let mut mirror = Mirror::begin(shard.clone(), admission.clone()).unwrap();
    let runtime = shard.runtime.0.as_ref().unwrap().handle().clone();
    let look = |mirror: &mut Mirror| runtime.block_on(mirror.look()).unwrap();
    let (id, file) = ("00000000000000aa", "hosts/00000000000000aa");
    let named = || admission.shared().unwrap().unwrap().contains(file);
    admission.write(file, b"{}").unwrap();
    assert!(!named());
    look(&mut mirror);
    assert!(named() && shard.files().unwrap().contains_key(file));
    assert!(admission.remove(id).unwrap());
    assert_eq!(admission.removed().unwrap(), [id]);
    look(&mut mirror);
    assert!(!named() && !shard.files().unwrap().contains_key(file) && admission.removed().unwrap().is_empty());
    // Who has died before he named it, or forgot what he knew, does it with the next look.
    shard.tell_file(file, Some(b"{}".to_vec())).unwrap();
    look(&mut mirror);
    assert!(named() && admission.files().unwrap().0.contains_key(file));
    std::fs::remove_file(directory.path().join("enrolment/shared")).unwrap();
    Mirror::begin(shard.clone(), admission.clone()).unwrap();
    assert!(named());
}
