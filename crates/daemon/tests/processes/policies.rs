//! A namespace's policy changes while sessions live and wait.

use crate::support;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use support::{Daemon, Running, connect, end, eventually};
use wayside_client::Session;

const WAIT: Duration = Duration::from_secs(10);
/// Between two that ask.
const PAUSE: Duration = Duration::from_millis(30);

fn settings(engine: &str, policy: &str) -> String {
    format!("[[namespace]]\nname = 'default'\nengine = '{engine}'\npolicy = '{policy}'\n")
}

/// Who is granted first when the lock is let go: one that asked first, to read, or one that asked then, to write.
fn first(sessions: &[Session; 3]) -> &'static str {
    let [holder, reader, writer] = sessions;
    let held = holder.lock("orders").wait(WAIT).acquire().expect("it is free");
    let (granted, order) = mpsc::channel();
    thread::scope(|scope| {
        for (session, who) in [(reader, "reader"), (writer, "writer")] {
            let granted = granted.clone();
            scope.spawn(move || {
                let lock = session.lock("orders").wait(WAIT);
                let lock = if who == "reader" { lock.shared() } else { lock };
                let guard = lock.acquire().expect("in time");
                granted.send(who).expect("it is awaited");
                guard.release().expect("it was held");
            });
            thread::sleep(PAUSE);
        }
        held.release().expect("it was held");
    });
    order.recv().expect("both were granted")
}

/// Whether one that reads gets in where one reads and one that writes waits.
fn is_joined(sessions: &[Session; 3]) -> bool {
    let [holder, reader, writer] = sessions;
    let held = holder.lock("orders").shared().wait(WAIT).acquire().expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| writer.lock("orders").wait(WAIT).acquire().expect("in time").release());
        thread::sleep(PAUSE);
        let joined = reader.lock("orders").shared().try_lock();
        held.release().expect("it was held");
        let is_joined = joined.is_ok();
        if let Ok(joined) = joined {
            assert!(!waiting.is_finished(), "it writes beside one that reads");
            joined.release().expect("it was held");
        }
        waiting.join().expect("it was granted").expect("it was held");
        is_joined
    })
}

#[test]
fn a_policy_changes_for_sessions_that_live_and_for_those_to_come() {
    for engine in ["fission", "queue"] {
        let daemon = Daemon::configured(&settings(engine, "fair"), &[]);
        let server: Option<Running> = (engine == "queue").then(|| {
            let server = daemon.lock_server(&[]);
            eventually("it serves", || daemon.json("status")["namespaces"][0]["lock_server"] != 0);
            server
        });
        let begin = || connect(daemon.address.to_string());
        let sessions = [begin(), begin(), begin()];
        assert_eq!(first(&sessions), "reader", "{engine}: it was the first");
        assert!(!is_joined(&sessions), "{engine}: the writer was before");

        daemon.configure(&settings(engine, "write-preferring"));
        let ended = end(daemon.command(&["reload"]));
        let told = "namespace default: write-preferring; it was fair\n";
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), told), "{ended:?}");
        assert_eq!(daemon.json("status")["namespaces"][0]["policy"], "write-preferring");
        eventually(&format!("{engine}: the writer goes first"), || first(&sessions) == "writer");
        let new = [begin(), begin(), begin()];
        eventually(&format!("{engine}: the writer goes first in new sessions"), || first(&new) == "writer");

        daemon.configure(&format!("{}patience = 0\n", settings(engine, "write-preferring")));
        let ended = end(daemon.command(&["reload"]));
        assert!(ended.code == Some(69) && ended.stderr.contains("nothing has changed"), "{ended:?}");
        daemon.configure(&settings(engine, "fair"));
        assert_eq!(end(daemon.command(&["reload"])).code, Some(0));
        eventually(&format!("{engine}: the reader goes first again"), || first(&sessions) == "reader");

        daemon.configure(&settings(engine, "read-preferring"));
        assert_eq!(end(daemon.command(&["reload"])).code, Some(0));
        eventually(&format!("{engine}: readers join"), || is_joined(&sessions));
        let new = [begin(), begin(), begin()];
        eventually(&format!("{engine}: readers join in new sessions"), || is_joined(&new));
        drop(server);
    }
}
