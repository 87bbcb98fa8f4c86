//! A memory of keys that is shared: whoever has a part in it calls the memory itself.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use wayside_protocol::chain::memory::{
    Content, ItemMemory, JournalMemory, Lane, Owner, Record, Recorded, Seen, Unmade,
};
use wayside_protocol::chain::{Key, Place, Version};
use wayside_protocol::memory::Moment;
use wayside_protocol::{Handle, Time};
use wayside_wire::value_flag;

const KEY: Key = Key { high: 1, low: 2, check: 3 };
const VERSION: Version = Version { epoch: 4, sequence: 5 };
const OWNER: Owner = Owner { handle: 6, incarnation: 7 };
const PLACE: Place = Place { epoch: 8, previous: 9, next: 10 };
const LANE: Lane = Lane { request: 11, own: VERSION, outcome: 12 };
const MOMENT: Moment = Moment { time: Time(13), tick: 14 };
const SEEN: Seen = Seen { group: 15, key: KEY, version: VERSION, is_present: true, lease: Some(OWNER) };

/// Notes what it is asked, and answers every second question of a kind by the other of yes and no.
#[derive(Default)]
struct Noting(Mutex<Vec<String>>);

impl Noting {
    fn note(&self, call: String) {
        self.0.lock().expect("nobody died").push(call);
    }

    /// Yes for the first of two that are the same.
    fn answer(&self, call: String) -> bool {
        let is_second = self.0.lock().expect("nobody died").last() == Some(&call);
        self.note(call);
        !is_second
    }
}

impl JournalMemory for Noting {
    fn watch_groups(&self, groups: Range<u16>, watched: bool) {
        self.note(format!("watch {groups:?} {watched}"));
    }

    fn drawn(&self) -> u64 {
        21
    }

    fn torn(&self) -> u64 {
        22
    }

    fn record(&self, number: u64) -> Recorded {
        self.note(format!("record {number}"));
        let content = Content::nothing(VERSION);
        Recorded::Record(Record { group: 23, key: KEY, before: VERSION, content })
    }

    fn serves_places_at(&self, now: Time) -> bool {
        self.answer(format!("serves {now:?}"))
    }

    fn live_session(&self, handle: Handle) -> Option<(u16, u64)> {
        Some((handle, 24))
    }
}

impl ItemMemory for Noting {
    fn set_own_handle(&self, handle: Handle) {
        self.note(format!("own {handle}"));
    }

    fn serve_places_for(&self, since: Moment, lease: u64) {
        self.note(format!("serve {since:?} {lease}"));
    }

    fn serve_places_without_end(&self) {
        self.note("serve".into());
    }

    fn place(&self, group: u16) -> Place {
        self.note(format!("place {group}"));
        PLACE
    }

    fn set_place(&self, group: u16, namespace: u16, place: Place) {
        self.note(format!("place {group} {namespace} {place:?}"));
    }

    fn next_sequence(&self, group: u16) -> u64 {
        u64::from(group) + 100
    }

    fn insert(&self, group: u16, key: Key, version: Version) -> Result<bool, Unmade> {
        self.note(format!("insert {group} {key:?} {version:?}"));
        Err(Unmade::Places)
    }

    fn remove(&self, group: u16, key: Key) -> bool {
        self.answer(format!("remove {group} {key:?}"))
    }

    fn content(&self, group: u16, key: Key) -> Option<Content> {
        self.note(format!("content {group} {key:?}"));
        Some(Content::nothing(VERSION))
    }

    fn raise(&self, group: u16, key: Key, content: &Content) -> bool {
        self.answer(format!("raise {group} {key:?} {:?}", content.version))
    }

    fn lane(&self, client: Handle, lane: u8) -> Lane {
        self.note(format!("lane {client} {lane}"));
        LANE
    }

    fn raise_lane(&self, client: Handle, lane: u8, content: &Lane) {
        self.note(format!("lane {client} {lane} {content:?}"));
    }

    fn keys(&self) -> (u32, u32) {
        (25, 26)
    }

    fn look(&self, from: u32, most: u32, show: &mut dyn FnMut(Seen)) -> Option<u32> {
        show(SEEN);
        Some(from + most)
    }

    fn end_lease(&self, group: u16, key: Key, leased: Version, epoch: u32) -> Option<Content> {
        self.note(format!("end {group} {key:?} {leased:?} {epoch}"));
        Some(Content::nothing(leased))
    }

    fn leave(&self, group: u16, key: Key, at: Version) -> bool {
        self.answer(format!("leave {group} {key:?} {at:?}"))
    }

    fn stay(&self, group: u16, key: Key) {
        self.note(format!("stay {group} {key:?}"));
    }

    fn remove_at(&self, group: u16, key: Key, at: Version) -> bool {
        self.answer(format!("remove {group} {key:?} {at:?}"))
    }

    fn is_over(&self, owner: Owner) -> bool {
        self.answer(format!("over {owner:?}"))
    }

    fn ends(&self) -> u64 {
        27
    }
}

/// Calls everything that there is; what was answered.
fn call_all<M: ItemMemory>(memory: &M) -> Vec<String> {
    let content = Content::nothing(VERSION);
    memory.watch_groups(1..2, true);
    memory.set_own_handle(31);
    memory.serve_places_for(MOMENT, 32);
    memory.serve_places_without_end();
    memory.set_place(33, 34, PLACE);
    memory.raise_lane(35, 36, &LANE);
    memory.stay(37, KEY);
    let mut shown = None;
    let numbers = [memory.drawn(), memory.torn(), memory.ends(), memory.next_sequence(38)];
    let twice = |ask: &dyn Fn() -> bool| [ask(), ask()];
    vec![
        format!("{numbers:?} {:?} {:?}", memory.keys(), memory.live_session(39)),
        format!("{:?} {:?} {:?}", memory.record(40), memory.place(41), memory.lane(42, 43)),
        format!("{:?} {:?}", memory.insert(44, KEY, VERSION), memory.content(45, KEY)),
        format!("{:?} {shown:?}", memory.look(46, 47, &mut |seen| shown = Some(seen))),
        format!("{:?}", memory.end_lease(48, KEY, VERSION, 49)),
        format!("{:?}", twice(&|| memory.serves_places_at(Time(50)))),
        format!("{:?} {:?}", twice(&|| memory.remove(51, KEY)), twice(&|| memory.remove_at(52, KEY, VERSION))),
        format!("{:?} {:?}", twice(&|| memory.raise(53, KEY, &content)), twice(&|| memory.leave(54, KEY, VERSION))),
        format!("{:?}", twice(&|| memory.is_over(OWNER))),
    ]
}

#[test]
fn a_memory_that_is_shared_is_the_same_memory() {
    let (alone, shared) = (Noting::default(), Arc::new(Noting::default()));
    let answers = call_all(&alone);
    // (Its own answers are what they are meant to be.)
    assert_eq!(answers[5], "[true, false]");
    assert_eq!(call_all::<Arc<Noting>>(&shared), answers);
    let calls = |noting: &Noting| noting.0.lock().expect("nobody died").clone();
    assert_eq!(calls(&shared), calls(&alone));
}

#[test]
fn flags_say_whether_there_is_a_value_and_whether_it_is_leased() {
    let present = value_flag::PRESENT;
    let leased = value_flag::LEASED;
    let cases = [
        (None, None, 0),
        (Some(0), None, present),
        (None, Some(OWNER), leased),
        (Some(0), Some(OWNER), present | leased),
    ];
    for (length, lease, flags) in cases {
        assert_eq!(Content { length, lease, ..Content::nothing(VERSION) }.flags(), flags);
    }
}
