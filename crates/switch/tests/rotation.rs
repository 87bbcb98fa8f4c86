//! Keys change while the data plane reads them: whatever it reads, it believes nothing that was not signed under a
//! whole key, and goes on believing what was.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use support::{EPOCH, from, heartbeat, lock_packet, request};
use wayside_protocol::Time;
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::seal::{Direction, Key, Period, Secret};
use wayside_switch::Action;
use wayside_wire::{Entry, Header, header_flag, kind};

const SECRET: Secret = Secret([3; 32]);
/// Packets while keys change all the time: enough to meet a key half written, even where two CPUs are shared with
/// others.
const ROUNDS: u32 = 2_000_000;

fn period(rotation: u32) -> Period {
    Period { incarnation: 101, epoch: EPOCH, rotation }
}

fn release(rotation: u32, key: Key) -> Vec<u8> {
    let entry = Entry { holder: 1, request: request(1, 1), ..Entry::default() };
    let mut packet = lock_packet(kind::lock::RELEASE, 1, &[entry]);
    key.sign(rotation, &mut packet);
    packet
}

/// A key whose halves are of two rotations: what a reader would see while a slot is written.
fn torn(first: Key, second: Key) -> Key {
    Key([second.0[0], first.0[1]])
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// One thread rotates as fast as it can. Another one sends packets signed under keys that were in a slot for a moment,
/// or half: of the former all that still stand may pass, of the latter none.
#[test]
fn half_written_keys_sign_nothing() {
    let switch = support::switch(8, 1);
    switch.set_authenticated(true);
    // Few keys, used again and again: every mixture of two that follow each other in a slot is known.
    let keys: Vec<_> = (0..4).map(|rotation| SECRET.keys(period(rotation))).collect();
    switch.set_keys(1, Some(&keys[0]));
    let mixed: Vec<Vec<u8>> = [(0, 2), (2, 0), (1, 3), (3, 1)]
        .map(|(first, second)| release(first as u32, torn(keys[first].up, keys[second].up)))
        .into();
    let whole: Vec<Vec<u8>> = (0..4).map(|rotation| release(rotation as u32, keys[rotation].up)).collect();
    let (over, passed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for rotation in 1.. {
                switch.rotate(1, &keys[rotation % 4]);
                if over.load(SeqCst) {
                    break;
                }
            }
        });
        scope.spawn(|| {
            // The other one ends also if this one fails.
            let _over = SetOnDrop(&over);
            for round in 0..ROUNDS {
                for packet in &mixed {
                    assert_eq!(
                        switch.process(Time(0), &mut packet.clone(), from(1)).action,
                        Action::Drop,
                        "half of a key"
                    );
                }
                for packet in whole.iter().filter(|_| round % 64 == 0) {
                    let verdict = switch.process(Time(0), &mut packet.clone(), from(1));
                    passed.fetch_add(u64::from(verdict.action != Action::Drop), SeqCst);
                }
            }
        });
    });
    assert!(passed.load(SeqCst) > 100, "hardly anything passed: {passed:?}");
}

/// The two ends as they are meant: what goes up under the rotation in use or the one before passes, what comes down is
/// signed under the one in use, and the switch knows when the node has followed.
#[test]
fn a_rotation_loses_nothing() {
    let switch = support::switch(8, 1);
    switch.set_authenticated(true);
    switch.set_keys(1, Some(&SECRET.keys(period(0))));
    assert!(!switch.has_followed(1), "nothing was heard yet");
    let mut sequence = 0;
    for rotation in 0..10u32 {
        for by in [rotation, rotation.saturating_sub(1)] {
            let mut packet = release(by, SECRET.key(Direction::Up, period(by)));
            assert_eq!(switch.process(Time(0), &mut packet, from(1)).action, Action::ToSender, "{by} in {rotation}");
            assert!(SECRET.key(Direction::Down, period(rotation)).made_tag(&packet));
            let odd = Header::read(&packet).unwrap().flags & header_flag::KEY != 0;
            assert_eq!(odd, rotation % 2 == 1);
        }
        for by in [rotation.saturating_sub(1), rotation] {
            sequence += 1;
            let mut beat = heartbeat(1, sequence);
            SECRET.key(Direction::Up, period(by)).sign(by, &mut beat);
            assert_eq!(switch.process(Time(0), &mut beat, from(1)).action, Action::ToSender);
            assert_eq!(switch.has_followed(1), by == rotation);
        }
        let before_last = release(rotation, SECRET.key(Direction::Up, period(rotation.wrapping_sub(2))));
        assert_eq!(
            switch.process(Time(0), &mut before_last.clone(), from(1)).action,
            Action::Drop,
            "two rotations ago"
        );
        switch.rotate(1, &SECRET.keys(period(rotation + 1)));
    }
}

/// A handle's next session has none of the former's keys.
#[test]
fn new_keys_leave_none_of_the_old() {
    let switch = support::switch(8, 1);
    switch.set_authenticated(true);
    switch.set_keys(1, Some(&SECRET.keys(period(0))));
    switch.rotate(1, &SECRET.keys(period(1)));
    let other = Secret([4; 32]);
    switch.set_keys(1, Some(&other.keys(period(0))));
    for rotation in [0, 1] {
        let mut packet = release(rotation, SECRET.key(Direction::Up, period(rotation)));
        assert_eq!(switch.process(Time(0), &mut packet, from(1)).action, Action::Drop);
    }
    let mut packet = release(1, Key::default());
    assert_eq!(
        switch.process(Time(0), &mut packet, from(1)).action,
        Action::Drop,
        "a slot without keys is not one of zeros"
    );
    let mut packet = release(0, other.key(Direction::Up, period(0)));
    assert_eq!(switch.process(Time(0), &mut packet, from(1)).action, Action::ToSender);
}

/// After a hand-over: what was on its way under the rotation before is believed too, and the next one follows.
#[test]
fn keys_go_on_where_another_switch_was() {
    for rotation in [0, 1, 6, 7] {
        let switch = support::switch(8, 1);
        switch.set_authenticated(true);
        let former = u32::checked_sub(rotation, 1).map(|former| SECRET.keys(period(former)));
        switch.take_up_keys(1, rotation, &SECRET.keys(period(rotation)), former.as_ref());
        let passes = |by: u32| {
            let mut packet = release(by, SECRET.key(Direction::Up, period(by)));
            let is_answered = switch.process(Time(0), &mut packet, from(1)).action == Action::ToSender;
            assert!(!is_answered || SECRET.key(Direction::Down, period(switch.rotation(1))).made_tag(&packet));
            is_answered
        };
        assert!(passes(rotation) && passes(rotation.saturating_sub(1)) && !passes(rotation + 1));
        assert!(!switch.has_followed(1));
        switch.rotate(1, &SECRET.keys(period(rotation + 1)));
        assert!(passes(rotation + 1) && passes(rotation));
    }
}
