use super::*;
use crate::controller::tests::Memory;
use alloc::rc::Rc;

fn shape() -> Shape {
    of_engine(Engine::Fission)
}

fn of_engine(engine: Engine) -> Shape {
    of_slots(64, engine)
}

fn of_slots(slots: u32, engine: Engine) -> Shape {
    let namespace = NamespaceShape { id: 1, slots, engine, parts: 2 };
    Shape { namespaces: vec![namespace], signed: false, queue_shape: 0 }
}

fn held(slot: u32, memory: &Rc<Memory>, tenure: u32) {
    let word = SlotWord { state: SlotState::Managed, agent: 2, ..SlotWord::unheld(tenure) };
    memory.write_slots(1, slot, &[[word.pack(), 0]]);
}

/// The messages of a hand-over between whose two parts a slot is taken.
fn messages(from: &Rc<Memory>, begun: u64) -> Vec<Vec<u8>> {
    let mut copying = Copying::new(shape(), 3, Time(begun));
    let mut messages = vec![copying.opening()];
    copying.send(from, |message| messages.push(message));
    held(9, from, 4 + begun as u32);
    copying.send(from, |message| messages.push(message));
    messages.push(copying.closing(7, 3, Vec::new()));
    messages
}

fn carry<'a>(to: &Rc<Memory>, messages: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<Handed, Unfit> {
    let mut reception = None;
    for message in messages {
        match Reception::take(reception.take(), to, &shape(), message, false)? {
            Came::More(more) => reception = Some(more),
            Came::All(handed) => return Ok(handed),
        }
    }
    Err(Unfit::Torn)
}

#[test]
fn every_slot_that_was_ever_changed_goes_and_nothing_else_stays() {
    let (from, to) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
    held(3, &from, 1);
    from.write_slots(1, 5, &[[SlotWord::unheld(8).pack(), 0]]);
    held(7, &to, 4);
    let handed = carry(&to, &messages(&from, 1)).expect("all has come");
    assert_eq!((handed.epoch, handed.revision), (7, 3));
    for slot in 0..64 {
        assert_eq!(to.load_slot(1, slot), from.load_slot(1, slot), "slot {slot}");
    }
    assert_eq!(to.load_slot(1, 5).tenure, 8, "of one that is unheld");
}

#[test]
fn what_is_not_whole_is_refused() {
    let to = Rc::new(Memory::default());
    for lost in 0..4 {
        let from = Rc::new(Memory::default());
        held(3, &from, 1);
        let mut messages = messages(&from, 1);
        assert_eq!(messages.len(), 4, "an opening, slots twice, a closing");
        messages.remove(lost);
        assert_eq!(carry(&to, &messages), Err(Unfit::Torn), "without message {lost}");
    }
    let of = |id, parts| {
        let [namespace] = shape().namespaces.try_into().expect("it has one");
        Shape { namespaces: vec![NamespaceShape { id, parts, ..namespace }], ..shape() }
    };
    let unlike = [
        Shape { signed: true, ..shape() },
        Shape { queue_shape: 1, ..shape() },
        of_engine(Engine::Queue),
        of_slots(65, Engine::Fission),
        of(2, 2),
        of(1, 3),
    ];
    for unlike in unlike {
        let opening = Copying::new(unlike, 3, Time(1)).opening();
        assert!(matches!(Reception::take(None, &to, &shape(), &opening, false), Err(Unfit::Unlike)));
    }
    let late = Head { revision: 3, begun: Time(1), number: u64::MAX };
    let opening = [late.message(OPENING), shape().encode()].concat();
    assert!(matches!(Reception::take(None, &to, &shape(), &opening, false), Err(Unfit::Torn)), "it is the first");
    let head = Head { number: 1, ..late };
    let with = |kind, rest: &[u8]| [&head.message(kind), rest].concat();
    let run_past_the_end = with(SLOTS, &[&[0, 1, 0, 0, 0, 63, 0, 2][..], &[7; 32]].concat());
    let run_of_nothing = with(SLOTS, &[0, 1, 0, 0, 0, 3, 0, 0]);
    let [too_little, too_much] = [1, 0].map(|nodes| with(CLOSING, &[&[0; 15][..], &[nodes], &[0; 4]].concat()));
    let short = [Vec::new(), vec![SLOTS; HEAD_BYTES - 1], with(SLOTS, &[0]), with(CLOSING, &[1])];
    for bytes in short.into_iter().chain([run_past_the_end, run_of_nothing, too_little, too_much]) {
        let taken = Reception::take(
            Some(Reception { next: head, mark: None, queues: BTreeMap::new() }),
            &to,
            &shape(),
            &bytes,
            false,
        );
        assert!(matches!(taken, Err(Unfit::Torn)), "{bytes:?}");
    }
}

/// A memory of so many slots, of which these are held.
fn large(slots: u32, held_ones: impl Iterator<Item = u32>) -> (Rc<Memory>, Shape) {
    let memory = Rc::new(Memory::default());
    held_ones.for_each(|slot| held(slot, &memory, 1 + slot));
    (memory, of_slots(slots, Engine::Fission))
}

/// All that is sent so far goes to a memory.
fn receive(to: &Rc<Memory>, shape: &Shape, messages: &[Vec<u8>]) {
    let mut reception = None;
    for message in messages {
        match Reception::take(reception.take(), to, shape, message, false).expect("it is whole") {
            Came::More(more) => reception = Some(more),
            Came::All(_) => panic!("there is more to come"),
        }
    }
}

#[test]
fn what_has_not_changed_since_it_was_sent_is_not_sent_again() {
    let (from, shape) = large(1_300, [3, 700].into_iter());
    let mut copying = Copying::new(shape.clone(), 3, Time(1));
    let mut messages = vec![copying.opening()];
    copying.send(&from, |message| messages.push(message));
    copying.send(&from, |message| messages.push(message));
    assert_eq!(messages.len(), 2, "nothing has changed");
    held(1_299, &from, 9);
    copying.send(&from, |message| messages.push(message));
    assert_eq!(messages[2].len(), HEAD_BYTES + 8 + 16, "one slot");
    let to = Rc::new(Memory::default());
    receive(&to, &shape, &messages);
    assert!((0..1_300).all(|slot| to.load_slot(1, slot) == from.load_slot(1, slot)));
}

#[test]
fn many_slots_go_in_messages_of_a_bounded_length() {
    let (from, shape) = large(10_000, 0..10_000);
    let mut copying = Copying::new(shape.clone(), 3, Time(1));
    let mut messages = vec![copying.opening()];
    copying.send(&from, |message| messages.push(message));
    assert_eq!(messages.len(), 1 + (10_000 * 16_usize).div_ceil(FULL));
    assert!(messages.iter().all(|message| message.len() < FULL + 8 + 16 * BLOCK));
    let to = Rc::new(Memory::default());
    receive(&to, &shape, &messages);
    assert!((0..10_000).all(|slot| to.load_slot(1, slot) == from.load_slot(1, slot)));
    // Each that is full goes at once, and none that is empty behind it.
    let full = (FULL / (16 * BLOCK)) as u32 * BLOCK as u32;
    let (from, shape) = large(full, 0..full);
    let mut messages = Vec::new();
    Copying::new(shape, 3, Time(1)).send(&from, |message| messages.push(message));
    assert_eq!(messages.len(), 1);
}

/// Slots of an earlier life, in whole blocks and at the end; what is not this memory's stays.
#[test]
fn nothing_of_an_earlier_life_is_left_in_the_namespaces_that_are_handed_over() {
    for slots in [64, 600] {
        let (from, shape) = large(slots, [5].into_iter());
        let (to, _) = large(slots, 0..slots);
        held(slots + 70, &to, 4);
        let mut copying = Copying::new(shape.clone(), 3, Time(1));
        let mut messages = vec![copying.opening()];
        copying.send(&from, |message| messages.push(message));
        receive(&to, &shape, &messages);
        assert!((0..slots).all(|slot| to.load_slot(1, slot) == from.load_slot(1, slot)), "of {slots}");
        assert_eq!(to.load_slot(1, slots + 70).tenure, 4);
    }
}

/// As much has come of one that came to nothing as is missing of the next, whose tokens are higher.
#[test]
fn messages_of_two_hand_overs_are_not_one() {
    let (from, to) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
    held(3, &from, 1);
    let former = messages(&from, 1);
    held(3, &from, 2);
    let latter = messages(&from, 2);
    assert_eq!(carry(&to, former[..3].iter().chain(&latter[3..])), Err(Unfit::Torn));
    assert_eq!(carry(&to, [0, 2, 1, 3].map(|index| &latter[index])), Err(Unfit::Torn), "in another order");
    assert!(carry(&to, &latter).is_ok());
}

/// Zeros are slots that nobody has ever had: their tokens would begin anew.
#[test]
fn a_memory_that_was_emptied_meanwhile_is_not_gone_on_with() {
    let empty = |memory: &Rc<Memory>| (0..64).for_each(|slot| memory.write_slots(1, slot, &[[0; 2]]));
    let (from, to) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
    held(3, &from, 1);
    let messages = messages(&from, 1);
    let emptied = messages.iter().enumerate().inspect(|(index, _)| {
        if *index == 2 {
            empty(&to)
        }
    });
    assert_eq!(carry(&to, emptied.map(|(_, message)| message)), Err(Unfit::Torn));
    let handed = carry(&to, &messages).expect("all has come");
    assert!(handed.is_kept(&to));
    empty(&to);
    assert!(!handed.is_kept(&to));
}

#[test]
fn nodes_go_as_they_are() {
    let entry = NodeEntry { address: "10.1.2.3:4711".parse().unwrap(), namespace: 9, incarnation: 1 << 40 };
    let word = NodeWord { state: wayside_wire::NodeState::Expired, sequence: 77 };
    let node = NodeMemory { entry, word, oldest: 5, rotation: 6 };
    let handed =
        Handed { epoch: 1, revision: 2, mark: None, queues: BTreeMap::new(), nodes: vec![(4, node), (65_535, node)] };
    let mut bytes = Vec::new();
    handed.encode(&mut bytes);
    assert_eq!(Handed::decode(&bytes), Some(handed));
}

/// A queue of so many cells, all of them used.
fn queue(name: u64, cells: u32) -> QueueMemory {
    let line = Line {
        name,
        cells,
        stage: Stage::Drains,
        ticket: (1 << 40) - 1,
        used: cells,
        given: u64::MAX,
        settled: 1 << 63,
        pushed: 5,
        ranked: u32::MAX,
    };
    let members = (1..=cells.into()).map(|request| [request, name << 48]).collect();
    QueueMemory { line, granted: line.ticket - 1, members }
}

fn with_queues(queues: Vec<QueueMemory>) -> Rc<Memory> {
    let servers = vec![LockServer { handle: 3, term: 4 }, LockServer::default()];
    let memory = Rc::new(Memory::default());
    memory.queues.borrow_mut().insert(1, QueuesMemory { servers, queues });
    memory
}

/// What comes of a memory's queues where there is such room.
fn sent(memory: &Rc<Memory>, room: [u32; 2]) -> Result<Handed, Unfit> {
    sent_to(memory, room, &of_engine(Engine::Queue))
}

fn sent_to(memory: &Rc<Memory>, room: [u32; 2], shape: &Shape) -> Result<Handed, Unfit> {
    let mut copying = Copying::new(shape.clone(), 3, Time(1));
    let mut messages = vec![copying.opening()];
    copying.send_queues(memory, |message| messages.push(message));
    messages.push(copying.closing(7, 3, Vec::new()));
    let (to, mut reception) = (Rc::new(Memory::default()), None);
    to.queue_room.set(room);
    for message in &messages {
        match Reception::take(reception.take(), &to, shape, message, false)? {
            Came::More(more) => reception = Some(more),
            Came::All(handed) => return Ok(handed),
        }
    }
    Err(Unfit::Torn)
}

#[test]
fn queues_go_as_they_are() {
    let memory = with_queues(vec![queue(1, 4), queue(2, 1), queue(u64::MAX, 3)]);
    assert_eq!(sent(&memory, [3, 8]).expect("all has come").queues, *memory.queues.borrow());
    let idle = QueueMemory { members: Vec::new(), line: Line { used: 0, ..queue(1, 1).line }, granted: 1 };
    for queues in [Vec::new(), vec![idle]] {
        let memory = with_queues(queues);
        assert_eq!(sent(&memory, [1, 1]).expect("all has come").queues, *memory.queues.borrow());
    }
    let slots_alone = sent_to(&memory, [3, 8], &shape()).expect("all has come");
    assert!(slots_alone.queues.is_empty(), "of a namespace that has none nothing goes");
}

#[test]
fn many_queues_go_in_messages_of_a_bounded_length() {
    let memory = with_queues((0..300).map(|name| queue(name, 1_024)).collect());
    let mut copying = Copying::new(of_engine(Engine::Queue), 3, Time(1));
    let mut lengths = Vec::new();
    copying.send_queues(&memory, |message| lengths.push(message.len()));
    // Four of 16 KiB and some more each.
    assert!(lengths.len() == 75 && lengths.iter().all(|length| *length < FULL + QUEUE_BYTES + 16 * 1_024));
    assert_eq!(sent(&memory, [300, 300 * 1_024]).expect("all has come").queues, *memory.queues.borrow());
}

#[test]
fn queues_that_there_is_no_room_for_or_that_are_none_are_refused() {
    let room = [4, 8];
    let is_torn = |queues| sent(&with_queues(queues), room) == Err(Unfit::Torn);
    assert!(!is_torn((1..5).map(|name| queue(name, 2)).collect()));
    assert!(is_torn((1..6).map(|name| queue(name, 1)).collect()), "five queues");
    assert!(is_torn(vec![queue(1, 4), queue(2, 5)]), "nine cells");
    assert!(is_torn(vec![queue(2, 1), queue(1, 1)]) && is_torn(vec![queue(1, 1); 2]), "not by name");
    let mut more = queue(1, 4);
    more.line.cells = 3;
    assert!(is_torn(vec![more]), "more of them are used than there are");

    let shape = of_engine(Engine::Queue);
    let take = |bytes: &[u8]| take_queues(room, &shape, bytes, &mut BTreeMap::new());
    let of_two = [0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0];
    let mut of_one = of_two.to_vec();
    encode_queue(&queue(1, 1), &mut of_one);
    assert_eq!(take(&of_one), Some(()));
    for end in (0..of_one.len()).filter(|end| *end != of_two.len()) {
        assert_eq!(take(&of_one[..end]), None, "{end} bytes");
    }
    let with = |at: usize, byte| [&of_one[..at], &[byte], &of_one[at + 1..]].concat();
    assert_eq!(take(&with(1, 2)), None, "a namespace that is none");
    assert_eq!(take(&with(of_two.len() + 56, 4)), None, "a stage that is none");
    let parts = |parts: u16| [&[0, 1][..], &parts.to_be_bytes(), &vec![0; 4 * usize::from(parts)]].concat();
    assert_eq!([0, 1, 2, 3].map(|number| take(&parts(number)).is_some()), [true, false, true, false]);
    let mut queues = BTreeMap::new();
    assert_eq!(take_queues(room, &shape, &of_one, &mut queues), Some(()));
    assert_eq!(take_queues(room, &shape, &of_two, &mut queues), None, "a message more that says nothing");
}
