//! Names of keys outlive the daemon at the XDP hook, as the keys do: lists and watches of prefixes know them after a
//! `kill -9` (docs/chain.md).
#![cfg(feature = "xdp")]

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;
use support::world::{SWITCH, World};
use support::{PATIENCE, Running, end, wayside};
use wayside_client::Event;

/// Names and versions, as `kv ls` tells them, and how many keys have no name.
fn listed(world: &World, prefix: &str) -> (Vec<(String, String)>, u64) {
    let mut command = wayside(&["kv", "ls", prefix, "--endpoint", SWITCH, "-o", "json"]);
    world.switch.enter(&mut command);
    let ended = end(command);
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let keys = answer["keys"].as_array().expect("keys");
    let keys = keys.iter().map(|key| (text(&key["name"]), text(&key["version"])));
    (keys.collect(), answer["unnamed"].as_u64().expect("a number"))
}

fn restarted(world: &World, daemon: Running) -> Running {
    daemon.signal(libc::SIGKILL);
    daemon.wait();
    let (daemon, _) = world.daemon("native");
    assert_eq!(daemon.line(), "switch: taken over while it was running, with all its locks");
    daemon
}

fn file(world: &World) -> PathBuf {
    world.directory.path().join("state").join("names")
}

/// A name's bytes, as the file has them.
fn line(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn names_of_keys_outlive_the_daemon_at_the_hook() {
    let Some(world) = World::or_skip(1) else { return };
    let (daemon, _) = world.daemon("native");
    let session = world.session(0);
    let store = session.store().wait(PATIENCE);
    for name in ["config/limit", "config/rate", "other"] {
        store.put(name, "1").unwrap();
    }
    let before = listed(&world, "config/");
    assert_eq!((before.0.len(), before.1), (2, 0));

    let daemon = restarted(&world, daemon);
    assert_eq!(listed(&world, "config/"), before);
    let mut watch = store.watch_prefix("config/").unwrap().wait(PATIENCE);
    store.put("config/rate", "2").unwrap();
    let event = watch.next().unwrap();
    assert!(matches!(&event, Event::Put { name, .. } if **name == *b"config/rate"), "{event:?}");
    // A key that is made by the second daemon, for the third.
    store.put("config/new", "3").unwrap();

    let daemon = restarted(&world, daemon);
    let (names, unnamed) = listed(&world, "");
    let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
    assert_eq!((names, unnamed), (vec!["config/limit", "config/new", "config/rate", "other"], 0));

    // What becomes of the file costs names, and nothing else.
    let text = fs::read_to_string(file(&world)).unwrap();
    assert!(text.contains(&line("config/rate")));
    fs::write(file(&world), text.replace(&line("config/rate"), "rubbish")).unwrap();
    let _daemon = restarted(&world, daemon);
    let (names, unnamed) = listed(&world, "config/");
    let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
    assert_eq!((names, unnamed), (vec!["config/limit", "config/new"], 1));
    let mut watch = store.watch_prefix("config/").unwrap().wait(Duration::from_secs(10));
    assert_eq!(store.get("config/rate").unwrap().expect("it is there").value.bytes(), b"2");
    store.put("config/rate", "4").unwrap();
    let event = watch.next().unwrap();
    assert!(matches!(event, Event::Unnamed { .. }), "{event:?}");
    store.put("config/limit", "5").unwrap();
    let event = watch.next().unwrap();
    assert!(matches!(&event, Event::Put { name, .. } if **name == *b"config/limit"), "{event:?}");
}

/// Whoever was told that his key is there finds it in lists, however soon the daemon dies.
#[test]
fn a_name_is_in_the_file_before_its_key_is_answered() {
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, _) = world.daemon("native");
    // Whoever opens it waits for a reader.
    assert!(Command::new("mkfifo").arg(file(&world)).status().expect("it is of coreutils").success());
    let session = world.session(0);
    thread::scope(|scope| {
        let making = scope.spawn(|| session.store().wait(PATIENCE).put("config/limit", "1"));
        thread::sleep(Duration::from_millis(300));
        assert!(!making.is_finished(), "it was answered, and its name is nowhere");
        let mut written = BufReader::new(fs::File::open(file(&world)).unwrap()).lines();
        let found = written.find(|written| written.as_ref().unwrap().ends_with(&line("config/limit")));
        assert!(found.is_some());
        making.join().unwrap().unwrap();
    });
}
