//! Sessions that a store has though it said that it failed: their numbers and secrets are nobody else's.

use super::*;

const QUARANTINE: u64 = 10_000_000;

/// A signed cluster whose handle 1 is free a little after the handles 2 and 3 are: those are already.
fn bench() -> Bench {
    let mut bench = Bench::with(Config { root: Some(ROOT), quarantine: QUARANTINE, ..config() });
    for nonce in 1..=3 {
        bench.enrol_securely(nonce).expect("there is room");
    }
    bench.controller.closed(Time(bench.now), 2);
    bench.controller.closed(Time(bench.now), 3);
    bench.live(&[1], 200_000);
    bench.controller.closed(Time(bench.now), 1);
    bench.pass(QUARANTINE - 100_000);
    bench
}

impl Bench {
    /// The store writes it all, and says that it failed.
    fn enrol_in_doubt(&mut self, nonce: u64) -> Handle {
        self.disk.fails_late.set(true);
        assert_eq!(self.enrol_securely(nonce), Err(Refusal::Recovering));
        self.disk.fails_late.set(false);
        let mut stored = self.stored().into_iter().filter(|(_, record)| record.nonce == nonce);
        stored.next().expect("it was written").0
    }

    fn stored(&self) -> Vec<(Handle, SessionRecord)> {
        let records = self.disk.records.borrow();
        let sessions = records.iter().filter_map(|(&key, bytes)| Some((key.try_into().ok()?, bytes)));
        let sessions = sessions.filter(|(key, _)| u32::from(*key) != COUNTERS_KEY);
        sessions.map(|(handle, bytes)| (handle, SessionRecord::decode(bytes).expect("its own record"))).collect()
    }

    fn known(&self) -> Vec<(Handle, SessionRecord)> {
        self.controller.sessions().map(|session| (session.handle, *session.record)).collect()
    }
}

/// The next controller would take both for living, and sign what is for the one with keys that the other believes.
#[test]
fn who_asks_again_has_one_session_in_the_store() {
    let mut bench = bench();
    assert_eq!(bench.enrol_in_doubt(4), 2);
    bench.pass(200_000);
    let enrolment = bench.enrol_securely(4).expect("handle 1 is free by now, too");
    assert_eq!((enrolment.handle, bench.stored()), (2, bench.known()));
    assert_eq!(bench.enrol_securely(5).map(|enrolment| enrolment.handle), Ok(3), "in turn again");
}

/// Its handle may not be free any more: then what the store had there before is put back.
#[test]
fn a_session_that_never_began_goes_with_the_next_one_whatever_its_handle() {
    let mut bench = bench();
    assert_eq!(bench.enrol_in_doubt(4), 2);
    bench.restart_switch();
    bench.memory.more_handles.set(1);
    assert_ne!(bench.stored(), bench.known());
    let enrolment = bench.enrol_securely(5).expect("a handle that nobody has had");
    assert_eq!((enrolment.handle, bench.stored()), (4, bench.known()));
}

/// Several at once, of which another one than the first asks again first: it has its own handle, and not the first's.
#[test]
fn of_several_in_doubt_each_has_one_session_in_the_store() {
    let mut bench = Bench::signed();
    let asks = |nonce| {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        (applicant(nonce), 0, body)
    };
    bench.disk.fails_late.set(true);
    let answers = bench.controller.enrol_all(Time(bench.now), &[asks(4), asks(5), asks(6)]);
    assert_eq!(answers, [const { Err(Refusal::Recovering) }; 3]);
    bench.disk.fails_late.set(false);
    let nonces = |bench: &Bench| -> Vec<u64> { bench.stored().iter().map(|(_, record)| record.nonce).collect() };
    assert_eq!(nonces(&bench), [4, 5, 6]);
    assert_eq!(bench.enrol_securely(5).map(|enrolment| enrolment.handle), Ok(2));
    assert_eq!(nonces(&bench), [4, 5, 6], "the others' may still be theirs");
    assert_eq!(bench.enrol_securely(7).map(|enrolment| enrolment.handle), Ok(1));
    assert_eq!(bench.enrol_securely(6).map(|enrolment| enrolment.handle), Ok(3));
    assert_eq!((nonces(&bench), bench.stored()), (vec![7, 5, 6], bench.known()));
}

/// Not even where the counters were written again before anybody knew of it.
#[test]
fn an_incarnation_that_may_have_been_written_is_not_given_again() {
    let mut bench = Bench::signed();
    assert_eq!(bench.enrol_in_doubt(1), 1);
    bench.restart_switch();
    bench.restart_controller();
    let [doubted, other] = [1, 2].map(|nonce| bench.enrol_securely(nonce).expect("there is room"));
    assert_eq!((doubted.handle, doubted.incarnation), (1, 1), "it is the next controller's session");
    assert_eq!((other.handle, other.incarnation), (2, 2));
}

/// The switch may know the session that had the handle before, and its keys: whoever asks again would not be heard.
#[test]
fn a_session_that_the_switch_was_never_told_of_begins_with_the_next_controller() {
    let mut bench = bench();
    assert_eq!(bench.enrol_in_doubt(4), 2);
    let known = |bench: &Bench| bench.memory.node(2).map(|node| (node.entry.incarnation, node.word.state));
    assert_eq!(known(&bench), Some((2, NodeState::Expired)));
    bench.restart_controller();
    assert_eq!(known(&bench), Some((4, NodeState::Live)));
    let enrolment = bench.enrol_securely(4).expect("it is told of it");
    assert_eq!((enrolment.handle, enrolment.incarnation, bench.memory.rotation(2)), (2, 4, 0));
}

/// Nor by the same controller: who asks again has other keys than what may be in the store.
#[test]
fn no_two_attempts_have_the_same_secret() {
    let mut bench = Bench::signed();
    bench.enrol_in_doubt(1);
    let doubted = bench.stored()[0].1.secret;
    assert_ne!(bench.enrol_securely(1).expect("there is room").secret, doubted);
}
