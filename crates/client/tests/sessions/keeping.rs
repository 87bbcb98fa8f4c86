//! Locks that stay with the process that uses them (docs/locality.md).

use crate::support::{TestSwitch, eventually};
use std::sync::atomic::Ordering::SeqCst;
use wayside_client::{Path, Session};

const NAME: u64 = 7;

fn turn(session: &Session) -> Path {
    let guard = session.lock(NAME).acquire().unwrap();
    let path = guard.path();
    guard.release().unwrap();
    path
}

#[test]
fn a_lock_that_is_kept_is_taken_again_without_the_switch() {
    let switch = TestSwitch::start();
    let session = switch.builder().keep(10).connect().unwrap();
    assert_eq!(turn(&session), Path::Switch);
    eventually(|| session.kept() == 1);
    switch.faults.mute.store(true, SeqCst);
    // Not so many that the tenure has to be renewed.
    for _ in 0..100 {
        assert_eq!(turn(&session), Path::Local);
    }
    switch.faults.mute.store(false, SeqCst);
}

#[test]
fn others_get_it_and_it_comes_back() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.builder().keep(10).connect().unwrap(), switch.session());
    (0..5).for_each(|_| {
        turn(&session);
    });
    assert_eq!(turn(&other), Path::Agent);
    eventually(|| session.kept() == 1);
    assert_eq!(turn(&session), Path::Local);
}

#[test]
fn tokens_rise_whoever_decides() {
    let switch = TestSwitch::start();
    let sessions = [10, 10, 0].map(|keep| switch.builder().keep(keep).connect().unwrap());
    let mut last = None;
    for round in 0..600 {
        // One of them mostly, at times another.
        let session = &sessions[if round % 7 == 0 { round / 7 % 3 } else { round / 100 % 2 }];
        let guard = session.lock(NAME).acquire().unwrap();
        assert!(last < Some(guard.token()), "round {round}");
        last = Some(guard.token());
        guard.release().unwrap();
    }
    assert!(sessions.iter().map(|session| session.grants().local).sum::<u64>() > 200);
}

#[test]
fn who_leaves_leaves_nothing_behind() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.builder().keep(1_000).connect().unwrap(), switch.session());
    let names: Vec<u64> = (0..200).collect();
    for name in &names {
        session.lock(*name).acquire().unwrap().release().unwrap();
    }
    eventually(|| session.kept() == names.len());
    session.close();
    for name in names {
        assert_eq!(other.lock(name).acquire().unwrap().path(), Path::Switch);
    }
}
