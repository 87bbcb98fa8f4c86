//! Sessions alone: what is sent when, and what an answer means (docs/protocol.md, "Sessions").

use super::*;
use alloc::vec::Vec;
use wayside_wire::{BODY, Engine, Enrol, VERSION, check};

const LEASE: u64 = 800_000;
const BEAT: u64 = LEASE / BEATS_PER_LEASE;
const NOW: Time = Time(1_000_000);

fn enrolled(nonce: u64) -> Enrolled {
    let lease_us = LEASE as u32;
    Enrolled { nonce, incarnation: 9, lease_us, grace_us: 77, slots: 16, lifeline: 5, ..Enrolled::default() }
}

fn answer(flags: u16) -> Header {
    Header { destination: 3, epoch: 7, namespace: 2, flags, ..Header::default() }
}

struct Scene {
    session: Session,
    out: Outbox,
}

impl Scene {
    fn new() -> Scene {
        Scene { session: Session::new(NodeConfig::new(42)), out: Outbox::new() }
    }

    /// Of which the session began at `NOW`.
    fn live() -> Scene {
        let mut scene = Scene::new();
        scene.session.start(NOW, &mut scene.out);
        scene.said();
        assert_eq!(scene.session.on_enrolled(NOW, &answer(0), &enrolled(42)), Some(Change::Enrolled));
        scene
    }

    fn tick(&mut self, now: Time) -> Option<Change> {
        self.session.on_tick(now, 11, &mut self.out)
    }

    fn said(&mut self) -> Vec<(u8, u16, Vec<u8>)> {
        let mut said = Vec::new();
        while let Some(sent) = self.out.pop(None) {
            let header = check(sent.packet).expect("a session writes packets");
            said.push((header.kind, header.flags, sent.packet.to_vec()));
        }
        said
    }

    fn kinds(&mut self) -> Vec<u8> {
        self.said().iter().map(|(kind, ..)| *kind).collect()
    }

    fn nonce(&mut self) -> u64 {
        let said = self.said();
        assert_eq!(said.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [kind::fabric::ENROL]);
        Enrol::read(&said[0].2, BODY).nonce
    }

    fn beat(&mut self) -> Heartbeat {
        let said = self.said();
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].0, kind::fabric::HEARTBEAT);
        Heartbeat::read(&said[0].2, BODY)
    }

    fn acknowledge(&mut self, sequence: u64, now: Time) -> Option<Change> {
        let body = Heartbeat { sequence, incarnation: 9, ..Heartbeat::default() };
        self.session.on_heartbeat_ack(now, VERSION, &answer(0), &body)
    }

    fn lease_end(&self) -> Time {
        self.session.info().expect("it lives").lease_end
    }
}

#[test]
fn enrolment_is_asked_for_in_pauses_that_double_up_to_half_a_second() {
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    let (mut now, mut pause) = (NOW, 5_000);
    while now.since(NOW) <= 2_000_000 {
        assert_eq!(scene.nonce(), 42, "the same question: it asks for the same session");
        assert_eq!(scene.session.due(), now + pause);
        assert_eq!(scene.tick(Time(now.0 + pause - 1)), None);
        assert!(scene.said().is_empty());
        now = now + pause;
        pause = (pause * 2).min(500_000);
        assert_eq!(scene.tick(now), None);
    }
    let second = scene.nonce();
    assert_ne!(second, 42, "an answer to the first would begin a session that is half over");
    assert_eq!(scene.session.due(), now + 5_000);
    assert_eq!(scene.session.on_enrolled(now, &answer(0), &enrolled(42)), None, "nor is one taken");
    assert_eq!(scene.session.on_enrolled(now + 1, &answer(0), &enrolled(second)), Some(Change::Enrolled));
    assert_eq!(scene.lease_end(), now + LEASE);
}

#[test]
fn a_question_of_exactly_two_seconds_is_asked_once_more() {
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    scene.said();
    scene.session.due = NOW;
    scene.tick(NOW + 4 * PAUSE_MOST);
    assert_eq!(scene.nonce(), 42);
    scene.session.due = NOW;
    scene.tick(NOW + 4 * PAUSE_MOST + 1);
    assert_ne!(scene.nonce(), 42);
}

#[test]
fn a_session_is_what_the_controller_said_and_runs_from_the_question() {
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    assert!(!scene.session.is_live() && scene.session.info().is_none());
    assert_eq!(scene.session.on_enrolled(NOW + 50, &answer(0), &enrolled(42)), Some(Change::Enrolled));
    let info = *scene.session.info().expect("it lives");
    assert_eq!((info.handle, info.incarnation, info.epoch, info.namespace), (3, 9, 7, 2));
    assert_eq!((info.slots, info.lease, info.grace, info.lifeline), (16, LEASE, 77, 5));
    assert_eq!(info.lease_end, NOW + LEASE, "from the question, not from the answer");
    assert_eq!(scene.session.due(), NOW + 50, "the first heartbeat goes at once");
    assert_eq!(scene.session.on_enrolled(NOW + 60, &answer(0), &enrolled(42)), None, "a copy");
    let header = scene.session.header(service::LOCK, 1, 4);
    assert_eq!((header.source, header.epoch, header.namespace, header.destination), (3, 7, 2, 4));
}

#[test]
fn an_enrolment_without_handle_or_slots_is_none() {
    for (destination, slots) in [(0, 16), (3, 0)] {
        let mut scene = Scene::new();
        scene.session.start(NOW, &mut scene.out);
        let header = Header { destination, ..answer(0) };
        let body = Enrolled { slots, ..enrolled(42) };
        assert_eq!(scene.session.on_enrolled(NOW, &header, &body), None);
        assert!(!scene.session.is_live());
    }
}

#[test]
fn a_refusal_is_final_unless_the_switch_recovers() {
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    let refused = |reason: Refusal| Enrolled { reason: reason as u8, ..enrolled(42) };
    let header = answer(header_flag::REFUSED);
    assert_eq!(scene.session.on_enrolled(NOW, &header, &refused(Refusal::Recovering)), None);
    assert_eq!(scene.session.due(), NOW + 5_000, "it asks again");
    let change = scene.session.on_enrolled(NOW, &header, &refused(Refusal::Version));
    assert_eq!(change, Some(Change::Refused(Refusal::Version)));
    assert_eq!(scene.session.on_enrolled(NOW, &answer(0), &enrolled(42)), None, "a late copy of another answer");
    assert_eq!(scene.session.due(), Time(u64::MAX));
    scene.said();
    assert_eq!(scene.tick(NOW + 1_000_000), None);
    assert!(scene.said().is_empty());
}

#[test]
fn heartbeats_go_eight_times_a_lease_and_rise() {
    let mut scene = Scene::live();
    for index in 0..20 {
        let now = NOW + index * BEAT;
        assert_eq!(scene.tick(now), None);
        let beat = scene.beat();
        assert_eq!((beat.sequence, beat.sent_us, beat.incarnation), (1 + index, now.0, 9));
        assert_eq!(beat.oldest, 11);
        assert_eq!(scene.acknowledge(beat.sequence, now), None);
        let next = now + BEAT;
        assert_eq!(scene.session.due(), next);
        assert_eq!(scene.tick(Time(next.0 - 1)), None);
        assert!(scene.said().is_empty());
    }
}

#[test]
fn heartbeats_that_nobody_acknowledges_come_four_times_as_often_from_the_middle_of_the_lease_on() {
    let mut scene = Scene::live();
    let mut went = Vec::new();
    while scene.session.due() < NOW + LEASE {
        let now = scene.session.due();
        assert_eq!(scene.tick(now), None);
        went.push((scene.beat().sequence, now));
    }
    let pauses: Vec<u64> = went.windows(2).map(|pair| pair[1].1.since(pair[0].1)).collect();
    assert_eq!(pauses, [[BEAT; 5].as_slice(), &[BEAT / 4; 11]].concat());
    // Any of them will do, the second as the last.
    for &(sequence, sent) in &went[1..] {
        scene.acknowledge(sequence, NOW + (LEASE - 1));
        assert_eq!(scene.lease_end(), sent + LEASE);
    }
    scene.tick(NOW + LEASE);
    assert_eq!(scene.session.due(), NOW + LEASE + BEAT, "there is no hurry any more");
    assert_eq!(scene.tick(NOW + 3 * LEASE), Some(Change::Lost));
    scene.said();
    assert_eq!(scene.tick(NOW + 4 * LEASE), None, "it is told once");
    assert_eq!(scene.session.due(), Time(u64::MAX));
}

/// The end of the lease comes before the next heartbeat, where that is late.
#[test]
fn a_session_is_due_when_its_lease_ends() {
    let mut scene = Scene::live();
    scene.tick(NOW + (LEASE - 5));
    assert_eq!(scene.session.due(), NOW + LEASE);
    assert!(scene.session.info_at(NOW + (LEASE - 1)).is_some());
    assert!(scene.session.info_at(NOW + LEASE).is_none());
    assert!(scene.session.lease_is_over(NOW + LEASE) && !scene.session.lease_is_over(NOW + (LEASE - 1)));
}

/// "The node's lease runs from the send time of the last acknowledged heartbeat", and never moves back.
#[test]
fn an_acknowledgement_lengthens_the_lease_from_when_its_heartbeat_went() {
    let mut scene = Scene::live();
    scene.tick(NOW + 10);
    scene.tick(NOW + 10 + BEAT);
    scene.said();
    assert_eq!(scene.acknowledge(2, NOW + 300_000), None);
    assert_eq!(scene.lease_end(), NOW + 10 + BEAT + LEASE);
    assert_eq!(scene.acknowledge(1, NOW + 300_000), None);
    assert_eq!(scene.lease_end(), NOW + 10 + BEAT + LEASE, "an earlier one's comes late");
    for sequence in [0, 3] {
        assert_eq!(scene.acknowledge(sequence, NOW + 300_000), None);
        assert_eq!(scene.lease_end(), NOW + 10 + BEAT + LEASE, "of no heartbeat of ours");
    }
    let body = Heartbeat { sequence: 2, incarnation: 8, ..Heartbeat::default() };
    for body in [body, Heartbeat { sequence: 3, incarnation: 9, ..body }] {
        scene.session.on_heartbeat_ack(NOW, VERSION - 1, &answer(0), &body);
        let known = scene.session.info().expect("it lives").version;
        assert_eq!(known, VERSION, "another switch's, as far as anybody knows");
    }
    let expired = answer(header_flag::EXPIRED);
    assert_eq!(scene.session.on_heartbeat_ack(NOW, VERSION, &expired, &body), None, "of an earlier session");
    assert!(scene.session.is_live());
    let body = Heartbeat { incarnation: 9, ..body };
    assert_eq!(scene.session.on_heartbeat_ack(NOW, VERSION, &expired, &body), Some(Change::Lost));
    assert!(!scene.session.is_live());
    assert_eq!(scene.session.due(), Time(u64::MAX));
}

#[test]
fn leaving_is_asked_for_at_once_and_six_times_at_most() {
    for (clean, flags) in [(true, header_flag::CLEAN), (false, 0)] {
        let mut scene = Scene::live();
        scene.tick(NOW);
        scene.said();
        assert_eq!(scene.session.leave(NOW + 1, clean, &mut scene.out), None);
        assert!(scene.session.is_live() && scene.session.info().is_none());
        let (mut now, mut pause) = (NOW + 1, 5_000);
        for _ in 0..6 {
            let said = scene.said();
            assert_eq!(said.len(), 1);
            assert_eq!((said[0].0, said[0].1), (kind::fabric::LEAVE, flags));
            assert_eq!(Heartbeat::read(&said[0].2, BODY).incarnation, 9);
            assert_eq!(scene.session.due(), now + pause);
            now = now + pause;
            pause *= 2;
            let change = scene.tick(now);
            assert_eq!(change, (pause == 5_000 << 6).then_some(Change::Left));
        }
        assert!(scene.said().is_empty() && !scene.session.is_live());
        assert_eq!(scene.session.due(), Time(u64::MAX));
    }
}

#[test]
fn leaving_is_over_when_the_controller_says_so_of_this_session() {
    let left = |incarnation| Heartbeat { incarnation, ..Heartbeat::default() };
    let mut scene = Scene::live();
    assert_eq!(scene.session.on_left(&left(9)), None, "nobody has asked for it");
    assert!(scene.session.is_live());
    scene.session.leave(NOW, true, &mut scene.out);
    assert_eq!(scene.session.on_left(&left(8)), None);
    assert_eq!(scene.session.on_left(&left(9)), Some(Change::Left));
    assert!(!scene.session.is_live());
    assert_eq!(scene.session.due(), Time(u64::MAX));
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    assert_eq!(scene.session.leave(NOW, true, &mut scene.out), Some(Change::Left), "there is no session yet");
    assert_eq!(scene.session.on_enrolled(NOW, &answer(0), &enrolled(42)), None, "nor does one begin any more");
    assert_eq!(scene.session.due(), Time(u64::MAX));
    assert_eq!(scene.kinds(), [kind::fabric::ENROL]);
    let mut scene = Scene::live();
    scene.session.leave(NOW, true, &mut scene.out);
    scene.said();
    assert_eq!(scene.tick(NOW + LEASE), Some(Change::Lost), "the lease ends meanwhile");
}

#[test]
fn the_epoch_rises_and_never_falls_and_is_followed_by_a_heartbeat_at_once() {
    let mut scene = Scene::live();
    scene.tick(NOW);
    scene.said();
    for epoch in [6, 7] {
        scene.session.raise_epoch(NOW + 9, epoch);
        assert_eq!(scene.session.info().map(|info| info.epoch), Some(7));
        assert_eq!(scene.session.due(), NOW + BEAT, "a copy of a census");
    }
    scene.session.raise_epoch(NOW + 10, 8);
    assert_eq!(scene.session.info().map(|info| info.epoch), Some(8));
    assert_eq!(scene.session.due(), NOW + 10);
    scene.tick(NOW + 10);
    assert_eq!(scene.beat().sequence, 2);
    scene.session.leave(NOW + 11, true, &mut scene.out);
    scene.said();
    scene.session.raise_epoch(NOW + 12, 9);
    assert_eq!(scene.session.due(), NOW + 11 + PAUSE_FIRST, "whoever leaves needs none");
}

fn agreed() -> Enrolment {
    Enrolment {
        handle: 3,
        incarnation: 9,
        epoch: 7,
        namespace: 2,
        slots: 16,
        engine: Engine::Fission,
        names: crate::Names::default(),
        lease: LEASE as u32,
        grace: 77,
        lifeline: 5,
        shards: 0,
        policy: wayside_wire::Policy::Fair,
        patience: crate::OVERTAKEN_MOST,
        secret: None,
        version: wayside_wire::VERSION,
    }
}

#[test]
fn a_session_that_was_agreed_on_elsewhere_begins_once() {
    let enrolment = agreed();
    let mut scene = Scene::new();
    assert_eq!(scene.session.begin(NOW + 9, NOW, &enrolment), Some(Change::Enrolled));
    assert_eq!(scene.lease_end(), NOW + LEASE);
    assert_eq!(scene.session.begin(NOW + 9, NOW, &enrolment), None);
    scene.session.leave(NOW, true, &mut scene.out);
    assert_eq!(scene.session.begin(NOW + 9, NOW, &enrolment), None);
    let mut scene = Scene::new();
    let other = Enrolment { shards: 7, ..enrolment.clone() };
    let refused = Some(Change::Refused(Refusal::Shards));
    assert_eq!(scene.session.begin(NOW + 9, NOW, &other), refused, "it divides names otherwise");
    assert!(!scene.session.is_live());
    let mut scene = Scene::new();
    assert_eq!(scene.tick(NOW), None);
    assert_eq!(scene.session.due(), Time(u64::MAX), "nothing has begun");
}

#[test]
fn a_pledge_is_said_in_pauses_that_double_however_often_it_is_wanted() {
    let mut scene = Scene::live();
    let mut said = 0;
    for step in 0..500 {
        let now = NOW + step * 20_000;
        scene.session.info.as_mut().expect("it lives").lease_end = now + LEASE;
        scene.session.follow(now, 5);
        scene.tick(now);
        said += scene.kinds().iter().filter(|kind| **kind == kind::fabric::ENROL).count();
    }
    assert!((20..30).contains(&said), "{said} in ten seconds");
    let now = NOW + 10_000_000;
    scene.session.hurry(now);
    scene.tick(now);
    assert!(scene.kinds().contains(&kind::fabric::ENROL));
    // Another one does not wait for that.
    scene.session.follow(now, 6);
    scene.tick(now);
    assert!(scene.kinds().contains(&kind::fabric::ENROL));
}

/// Its answer is under the session's own nonce, of the epoch that the session has come to, and of what was said last.
#[test]
fn a_pledge_is_counted_when_the_shard_says_so_of_it_and_is_said_until_then() {
    let is_followed = |scene: &mut Scene, flags: u16, nonce: u64, epoch: u32, pledge: u32| {
        let header = Header { epoch, shard_map: pledge, ..answer(flags) };
        scene.session.on_enrolled(NOW, &header, &enrolled(nonce))
    };
    let mut scene = Scene::live();
    assert_eq!(is_followed(&mut scene, 0, 42, 7, 5), None, "nothing was pledged");
    scene.session.follow(NOW, 5);
    let refused = header_flag::REFUSED;
    for (flags, nonce, epoch, pledge) in [(0, 43, 7, 5), (refused, 42, 7, 5), (0, 42, 8, 5), (0, 42, 7, 6)] {
        assert_eq!(is_followed(&mut scene, flags, nonce, epoch, pledge), None, "{flags} {nonce} {epoch} {pledge}");
    }
    scene.tick(NOW);
    assert!(scene.kinds().contains(&kind::fabric::ENROL), "it is said still");
    assert_eq!(is_followed(&mut scene, 0, 42, 7, 5), Some(Change::Followed(5)));
    assert_eq!(is_followed(&mut scene, 0, 42, 7, 5), None, "a copy");
    scene.tick(NOW + 1_000);
    assert!(!scene.kinds().contains(&kind::fabric::ENROL));
}

#[test]
fn who_leaves_pledges_nothing_any_more() {
    let mut scene = Scene::live();
    scene.session.follow(NOW, 5);
    scene.session.leave(NOW, true, &mut scene.out);
    scene.tick(NOW + PAUSE_FIRST);
    assert_eq!(scene.kinds(), [kind::fabric::LEAVE; 2]);
}

fn hybrid(nonce: u64) -> (Header, Enrolled) {
    (Header { position: Engine::Hybrid as u16, ..answer(0) }, enrolled(nonce))
}

/// A list of another question may be another list: that of its answer is asked for with it.
#[test]
fn a_hybrid_session_goes_by_the_names_of_its_own_question_and_epoch() {
    let names = || Names::new([2, 5]);
    for (nonce, epoch, begins) in [(42, 7, true), (43, 7, false), (42, 6, false)] {
        let mut scene = Scene::new();
        scene.session.start(NOW, &mut scene.out);
        scene.session.on_names(epoch, nonce, names());
        let (header, body) = hybrid(42);
        assert_eq!(scene.session.on_enrolled(NOW, &header, &body).is_some(), begins, "{nonce} {epoch}");
        assert_eq!(scene.session.names().has(5), begins);
    }
    // Of a question that was given up for another one.
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    scene.said();
    scene.session.on_names(7, 42, names());
    let later = NOW + (4 * PAUSE_MOST + 1);
    scene.tick(later);
    let second = scene.nonce();
    let (header, body) = hybrid(second);
    assert_eq!(scene.session.on_enrolled(later, &header, &body), None);
    scene.session.on_names(7, second, names());
    assert_eq!(scene.session.on_enrolled(later, &header, &body), Some(Change::Enrolled));
}

#[test]
fn a_session_that_is_over_or_was_refused_is_never_due_again() {
    let mut scene = Scene::live();
    assert_eq!(scene.session.fall_silent(), Change::Lost);
    assert_eq!(scene.session.due(), Time(u64::MAX));
    let mut scene = Scene::new();
    scene.session.start(NOW, &mut scene.out);
    scene.said();
    let other = Header { shard_map: 7, ..answer(0) };
    assert_eq!(scene.session.on_enrolled(NOW, &other, &enrolled(42)), Some(Change::Refused(Refusal::Shards)));
    assert_eq!(scene.session.due(), Time(u64::MAX));
    assert_eq!(scene.session.on_enrolled(NOW, &answer(0), &enrolled(42)), None, "nor does it begin after all");
}

#[test]
fn a_session_is_signed_where_it_has_a_secret() {
    let mut scene = Scene::live();
    assert_eq!(scene.session.info().map(|info| info.signed), Some(false));
    scene = Scene::new();
    let enrolment = Enrolment { secret: Some(crate::seal::Secret([7; 32])), ..agreed() };
    scene.session.begin(NOW, NOW, &enrolment);
    assert_eq!(scene.session.info().map(|info| info.signed), Some(true));
}
