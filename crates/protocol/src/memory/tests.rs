extern crate std;

use super::*;
use crate::seal::Key;
use alloc::format;
use alloc::string::String;
use core::fmt::Debug;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Mutex;

#[test]
fn a_slot_word_keeps_its_fields() {
    let word = SlotWord {
        state: SlotState::Frozen,
        transferred: true,
        tryable: false,
        agent: 0xabcd,
        joins: 4095,
        tenure: 0xdead_beef,
    };
    assert_eq!(word.pack(), 0xeabc_dfff_dead_beef);
    assert_eq!(SlotWord::unpack(word.pack()), word);
    assert_eq!(SlotWord::unpack(0), SlotWord::unheld(0));
}

#[test]
fn a_node_word_keeps_its_fields() {
    let word = NodeWord { state: NodeState::Expired, sequence: 7 };
    assert_eq!(word.pack(), 0x0200_0000_0000_0007);
    assert_eq!(NodeWord::unpack(word.pack()), word);
}

/// Notes what it is asked. No two of its answers are alike, but for those that are yes or no.
struct Asked {
    yes: bool,
    notes: Mutex<Vec<String>>,
}

/// Every method of a memory, with what it is asked, and its answer: by how often something was asked, and whether it is
/// yes.
macro_rules! methods {
    ($(fn $name:ident($($argument:ident: $type:ty = $value:expr),*) $(-> $answer:ty = $says:expr)?;)*) => {
        impl SwitchMemory for Asked {
            $(fn $name(&self $(, $argument: $type)*) $(-> $answer)? {
                let asked = format!(concat!(stringify!($name), " {:?}"), ($(&$argument,)*));
                let mut notes = self.notes.lock().expect("nobody panics");
                notes.push(asked);
                $({
                    let says: fn(u32, bool) -> $answer = $says;
                    says(notes.len() as u32, self.yes)
                })?
            })*
        }

        /// What a memory answers to all of them.
        fn ask_all(memory: &impl SwitchMemory) -> Vec<String> {
            alloc::vec![$(told(&memory.$name($($value),*))),*]
        }
    };
}

fn told(answer: &impl Debug) -> String {
    format!("{answer:?}")
}

const NODE: NodeMemory = NodeMemory {
    entry: NodeEntry { address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1), namespace: 2, incarnation: 3 },
    word: NodeWord { state: NodeState::Expired, sequence: 7 },
    oldest: 4,
    rotation: 5,
};
const LINE: Line =
    Line { name: 5, cells: 4, stage: Stage::Drains, ticket: 3, used: 2, given: 1, settled: 1, pushed: 1, ranked: 0 };
const MOMENT: Moment = Moment { time: Time(8), tick: 9 };
const ANOTHER: NodeWord = NodeWord { state: NodeState::Live, sequence: 8 };
const KEYS: Keys = Keys { up: Key([1; 2]), down: Key([2; 2]) };

methods! {
    fn epoch() -> u32 = |count, _| count;
    fn set_epoch(epoch: u32 = 7);
    fn is_new() -> bool = |_, yes| yes;
    fn await_decisions();
    fn serving() -> bool = |_, yes| yes;
    fn authenticated() -> bool = |_, yes| yes;
    fn has_followed(handle: u16 = 1) -> bool = |_, yes| yes;
    fn set_serving(serving: bool = true);
    fn moment(now: Time = Time(3)) -> Moment = |count, _| Moment { tick: count.into(), ..MOMENT };
    fn serve_for(since: Moment = MOMENT, lease: u64 = 6);
    fn serve_without_end();
    fn slot_count(namespace: u16 = 1) -> u32 = |count, _| count;
    fn load_slot(namespace: u16 = 1, slot: u32 = 2) -> SlotWord = |count, _| SlotWord::unheld(count);
    fn next_busy(namespace: u16 = 1, from: u32 = 2, end: u32 = 3) -> u32 = |count, _| count;
    fn cas_slot(namespace: u16 = 1, slot: u32 = 2, expected: SlotWord = SlotWord::unheld(1), new: SlotWord = SlotWord::unheld(2))
        -> bool = |_, yes| yes;
    fn read_slots(namespace: u16 = 1, from: u32 = 2, into: &mut [[u64; 2]] = &mut [[3, 4]]);
    fn write_slots(namespace: u16 = 1, from: u32 = 2, words: &[[u64; 2]] = &[[3, 4]]);
    fn max_handle() -> u16 = |count, _| count as u16;
    fn node_word(handle: u16 = 1) -> NodeWord = |count, _| NodeWord { sequence: count.into(), ..ANOTHER };
    fn cas_node_word(handle: u16 = 1, expected: NodeWord = NODE.word, new: NodeWord = ANOTHER) -> bool = |_, yes| yes;
    fn set_node(handle: u16 = 1, entry: &NodeEntry = &NODE.entry);
    fn node(handle: u16 = 1) -> Option<NodeMemory> = |count, _| Some(NodeMemory { rotation: count, ..NODE });
    fn take_up_node(handle: u16 = 1, node: &NodeMemory = &NODE);
    fn lock_server(namespace: u16 = 1, part: u16 = 2) -> LockServer =
        |count, _| LockServer { handle: count as u16, term: 3 };
    fn set_lock_server(namespace: u16 = 1, part: Part = Part::of_name(7, 4), handle: u16 = 2);
    fn read_lines(namespace: u16 = 1, into: &mut Vec<Line> = &mut Vec::new());
    fn lines(namespace: u16 = 1) -> Vec<Line> = |count, _| alloc::vec![Line { ticket: count.into(), ..LINE }];
    fn line(namespace: u16 = 1, name: u64 = 2) -> Option<Line> = |count, _| Some(Line { ticket: count.into(), ..LINE });
    fn step(namespace: u16 = 1, name: u64 = 2, step: Step = Step::Drain) -> bool = |_, yes| yes;
    fn queue_shape() -> u64 = |count, _| count.into();
    fn queue_room() -> [u32; 2] = |count, _| [count, 2];
    fn queues_memory(namespace: u16 = 1) -> QueuesMemory =
        |count, _| QueuesMemory { servers: alloc::vec![LockServer { handle: count as u16, term: 3 }], queues: Vec::new() };
    fn take_up_queues(all: &BTreeMap<u16, QueuesMemory> = &BTreeMap::from([(1, QueuesMemory::default())])) -> bool = |_, yes| yes;
    fn session_over(handle: u16 = 1, incarnation: Option<u64> = Some(2));
    fn set_authenticated(authenticated: bool = true);
    fn set_keys(handle: u16 = 1, first: Option<&Keys> = Some(&KEYS));
    fn rotation(handle: u16 = 1) -> u32 = |count, _| count;
    fn rotate(handle: u16 = 1, next: &Keys = &KEYS);
    fn take_up_keys(handle: u16 = 1, rotation: u32 = 2, latest: &Keys = &KEYS, former: Option<&Keys> = None);
}

/// The daemon shares the switch's memory: what a memory does in its own way, as looking for the next slot that is busy,
/// must not be done in the way of those that have none.
#[test]
fn a_shared_memory_does_all_as_the_memory_does() {
    for yes in [false, true] {
        let asked = || Asked { yes, notes: Mutex::default() };
        let (own, shared) = (asked(), Arc::new(asked()));
        assert_eq!(ask_all(&own), ask_all(&shared));
        assert_eq!(*own.notes.lock().expect("it is here"), *shared.notes.lock().expect("it is here"));
    }
}
