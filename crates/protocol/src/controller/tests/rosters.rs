//! What a switch that has not the post makes of the records of whoever has it.

use super::*;
use crate::seal::Period;

const SECRET: Secret = Secret([9; 32]);

/// A roster that has heard of epoch 5, and its switch's memory.
fn begun() -> (Roster, Rc<Memory>) {
    let (mut roster, memory) = (Roster::default(), Rc::new(Memory::default()));
    assert!(roster.take(&memory, &counters(5)));
    (roster, memory)
}

fn counters(epoch: u32) -> Record {
    Counters { epoch, ..Counters::default() }.encode()
}

fn session(handle: Handle, incarnation: u64, stage: Stage, secret: Option<Secret>) -> Record {
    let record = SessionRecord {
        incarnation,
        nonce: incarnation,
        lifeline: 2,
        address: address(handle),
        namespace: 1,
        lease: LEASE,
        grace: LEASE / 10,
        pid: 3,
        host: [0; limits::MAX_HOST_BYTES],
        stage,
        secret,
        admission: 0,
    };
    record.encode(handle)
}

fn live(handle: Handle, incarnation: u64) -> Record {
    session(handle, incarnation, Stage::Live, Some(SECRET))
}

fn keys(incarnation: u64, epoch: u32, rotation: u32) -> Option<Keys> {
    Some(SECRET.keys(Period { incarnation, epoch, rotation }))
}

fn set_word(memory: &Memory, handle: Handle, state: NodeState) {
    memory.words.borrow_mut().insert(handle, NodeWord { state, sequence: 5 });
}

#[test]
fn a_session_is_installed_when_it_begins_and_not_again_while_it_lives() {
    let (mut roster, memory) = begun();
    let word = |state, sequence| NodeWord { state, sequence };
    assert!(roster.take(&memory, &live(2, 7)));
    assert_eq!(memory.nodes.borrow()[&2].incarnation, 7);
    set_word(&memory, 2, NodeState::Live);
    assert!(roster.take(&memory, &live(2, 7)));
    assert_eq!(memory.node_word(2), word(NodeState::Live, 5), "as it was");
    set_word(&memory, 2, NodeState::Expired);
    assert!(roster.take(&memory, &live(2, 7)));
    assert_eq!(memory.node_word(2), word(NodeState::Live, 5), "the records say that it lives");
    set_word(&memory, 2, NodeState::Live);
    assert!(roster.take(&memory, &live(2, 8)));
    assert_eq!((memory.node_word(2), memory.nodes.borrow()[&2].incarnation), (word(NodeState::Live, 0), 8));
}

#[test]
fn a_session_that_is_over_in_the_records_is_over_here_and_gets_no_keys_any_more() {
    let (mut roster, memory) = begun();
    roster.take(&memory, &live(2, 7));
    roster.take(&memory, &live(3, 8));
    set_word(&memory, 2, NodeState::Live);
    assert!(roster.take(&memory, &session(2, 7, Stage::Mourned, Some(SECRET))));
    assert_eq!(memory.node_word(2), NodeWord { state: NodeState::Expired, sequence: 5 });
    assert_eq!(memory.overs.borrow().clone(), BTreeMap::from([(2, Some(7))]));
    roster.take(&memory, &counters(6));
    roster.rotate(&memory, 2, Period { incarnation: 7, epoch: 6, rotation: 1 });
    assert_eq!((memory.keys_of(2), memory.keys_of(3)), (keys(7, 5, 0), keys(8, 6, 0)));
    // One that never was here.
    assert!(roster.take(&memory, &session(1, 4, Stage::AtRest, None)));
    assert_eq!((memory.node_word(1).state, memory.overs.borrow()[&1]), (NodeState::Expired, Some(4)));
}

#[test]
fn what_is_no_record_of_this_switch_changes_nothing() {
    let (mut roster, memory) = begun();
    let (_, bytes) = live(2, 7);
    let last = memory.max_handle();
    for (key, bytes) in
        [(COUNTERS_KEY, vec![9]), (2, vec![9]), (u32::from(last) + 1, bytes.clone()), (1 << 16 | 2, bytes.clone())]
    {
        assert!(!roster.take(&memory, &(key, bytes)), "{key}");
    }
    assert!(memory.nodes.borrow().is_empty() && memory.words.borrow().is_empty());
    assert!(roster.take(&memory, &(last.into(), bytes)), "the last handle is one");
}

#[test]
fn a_session_without_a_secret_has_no_keys_and_one_that_lost_it_none_any_more() {
    let (mut roster, memory) = begun();
    roster.take(&memory, &session(2, 7, Stage::Live, None));
    assert_eq!(memory.keys_of(2), None);
    roster.take(&memory, &live(3, 8));
    assert_eq!(memory.keys_of(3), keys(8, 5, 0));
    roster.take(&memory, &session(3, 8, Stage::Live, None));
    assert_eq!(memory.keys_of(3), None, "its host was cut off");
    roster.take(&memory, &counters(6));
    roster.rotate(&memory, 3, Period { incarnation: 8, epoch: 6, rotation: 1 });
    assert_eq!(memory.keys_of(3), None);
}

#[test]
fn keys_go_from_one_rotation_to_the_next_and_are_begun_anew_with_an_epoch_or_a_session_alone() {
    let (mut roster, memory) = begun();
    let rotate = |roster: &mut Roster, incarnation, epoch, rotation| {
        roster.rotate(&memory, 2, Period { incarnation, epoch, rotation });
        (memory.rotation(2), memory.keys_of(2))
    };
    // Told before the session is.
    rotate(&mut roster, 7, 5, 2);
    roster.take(&memory, &live(2, 7));
    assert_eq!((memory.rotation(2), memory.keys_of(2)), (2, keys(7, 5, 2)));
    memory.keys.borrow_mut().get_mut(&2).expect("it has keys").followed = true;
    assert_eq!(rotate(&mut roster, 7, 5, 2), (2, keys(7, 5, 2)));
    roster.take(&memory, &counters(5));
    assert!(memory.has_followed(2), "what is known changes nothing");
    assert_eq!(rotate(&mut roster, 7, 5, 4), (4, keys(7, 5, 4)));
    assert_eq!(rotate(&mut roster, 7, 5, (1 << 20) + 1), (4, keys(7, 5, 4)), "nobody comes so far");
    roster.take(&memory, &counters(6));
    assert_eq!((memory.rotation(2), memory.keys_of(2)), (0, keys(7, 6, 0)));
    assert_eq!(rotate(&mut roster, 7, 6, 1), (1, keys(7, 6, 1)));
    roster.take(&memory, &live(2, 9));
    assert_eq!((memory.rotation(2), memory.keys_of(2)), (0, keys(9, 6, 0)));
}

/// A hook goes on under that epoch while its daemon is restarted, and a session has begun elsewhere meanwhile.
#[test]
fn a_session_that_the_memory_does_not_know_gets_its_keys_whatever_epoch_that_is_in() {
    for epoch in [0, 4, 5] {
        let (mut roster, memory) = begun();
        memory.set_epoch(epoch);
        roster.take(&memory, &live(2, 7));
        assert_eq!((memory.keys_of(2), memory.node_word(2).state), (keys(7, 5, 0), NodeState::Live));
    }
    // Nor does a roster that has heard of no epoch go on under that of an empty memory.
    let (mut roster, memory) = (Roster::default(), Rc::new(Memory::default()));
    let (_, bytes) = live(2, 7);
    memory.set_node(2, &SessionRecord::decode(&bytes).expect("a record").entry());
    roster.take(&memory, &live(2, 7));
    assert_eq!(memory.keys_of(2), keys(7, 0, 0));
}
