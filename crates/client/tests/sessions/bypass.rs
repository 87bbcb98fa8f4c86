//! Measurements ask the switch past a session's requests: what it grants them is given back.

use crate::support::{TestSwitch, eventually};
use wayside_client::probe::Bypass;
use wayside_wire::{Entry, Header, check, entry_at, entry_flag, kind, service, slot_of};

const NAME: u64 = 7;

#[test]
fn what_was_granted_past_the_session_is_given_back() {
    let switch = TestSwitch::start();
    let (session, other) = (switch.session(), switch.session());
    let info = session.info().unwrap();
    let mut acquire = [0; entry_at(1)];
    let header = Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count: 1, ..Header::default() };
    Header { source: info.handle, namespace: info.namespace, epoch: info.epoch, ..header }.write(&mut acquire);
    Entry {
        name: NAME,
        request: info.incarnation << 40 | 1 << 39,
        slot: slot_of(NAME, info.slots),
        holder: info.handle,
        flags: entry_flag::EXCLUSIVE,
        ..Entry::default()
    }
    .write(&mut acquire, entry_at(0));

    let mut grant = Vec::new();
    let bypass = Bypass::of(&session).unwrap();
    let answered = bypass.exchange(&acquire, |answer| {
        grant = answer.to_vec();
        check(answer).is_ok_and(|header| header.kind == kind::lock::GRANT)
    });
    assert!(answered, "{grant:?}");
    assert!(session.is_idle(), "its node knows nothing of it");
    assert!(other.lock(NAME).try_lock().is_err(), "the switch does");
    bypass.hand_in(&grant);
    eventually(|| session.is_idle());
    drop(other.lock(NAME).try_lock().unwrap());
}
