//! Places of fields and values of constants, written down by hand from docs/protocol.md: a slip in the schema or in
//! its generator does not pass by being made everywhere at once.

use wayside_wire::{
    ADMIN_PORT, Attempt, Change, Condition, Copied, DropReason, Effect, Engine, Enrol, Enrolled, Entry, Fetch, Header,
    Heartbeat, Listed, Names, NodeState, Operation, Outcome, PORT, SlotBits, SlotState, Watch, cell_who, entry_at,
    entry_flag, group_place, header_flag, item_lock, kind, lease_owner, limits, mix, name_hash, node_word, queue_flag,
    queue_holding, request_id, service, slot_of, slot_w0, slot_w1, token, value_flag,
};

/// The places that change when a field does.
fn places(write: impl Fn(&mut [u8])) -> Vec<usize> {
    let mut packet = [0; 128];
    write(&mut packet);
    packet.iter().enumerate().filter(|(_, byte)| **byte == 0xff).map(|(place, _)| place).collect()
}

fn header(header: Header) -> Vec<usize> {
    places(|packet| header.write(packet))
}

fn entry(entry: Entry) -> Vec<usize> {
    places(|packet| entry.write(packet, 0))
}

fn range(from: usize, to: usize) -> Vec<usize> {
    (from..=to).collect()
}

#[test]
fn header_is_32_bytes() {
    let none = Header::default();
    let mut packet = [0; 32];
    none.write(&mut packet);
    assert_eq!(packet[..3], [0x57, 0x53, 0x1e]);
    assert_eq!(header(Header { service: 0xff, ..none }), [3]);
    assert_eq!(header(Header { kind: 0xff, ..none }), [4]);
    assert_eq!(header(Header { count: 0xff, ..none }), [5]);
    assert_eq!(header(Header { flags: 0xffff, ..none }), [6, 7]);
    assert_eq!(header(Header { source: 0xffff, ..none }), [8, 9]);
    assert_eq!(header(Header { destination: 0xffff, ..none }), [10, 11]);
    assert_eq!(header(Header { epoch: u32::MAX, ..none }), range(12, 15));
    assert_eq!(header(Header { shard_map: u32::MAX, ..none }), range(16, 19));
    assert_eq!(header(Header { namespace: 0xffff, ..none }), [20, 21]);
    assert_eq!(header(Header { position: 0xffff, ..none }), [22, 23]);
    assert_eq!(header(Header { tag: u64::MAX, ..none }), range(24, 31));
    assert_eq!(Header::BYTES, 32);
}

#[test]
fn entry_is_32_bytes() {
    let none = Entry::default();
    assert_eq!(entry(Entry { name: u64::MAX, ..none }), range(0, 7));
    assert_eq!(entry(Entry { request: u64::MAX, ..none }), range(8, 15));
    assert_eq!(entry(Entry { slot: u32::MAX, ..none }), range(16, 19));
    assert_eq!(entry(Entry { tenure: u32::MAX, ..none }), range(20, 23));
    assert_eq!(entry(Entry { holder: 0xffff, ..none }), [24, 25]);
    assert_eq!(entry(Entry { reply_port: 0xffff, ..none }), [26, 27]);
    assert_eq!(entry(Entry { slot_bits: 0xffff, ..none }), [28, 29]);
    assert_eq!(entry(Entry { flags: 0xff, ..none }), [30]);
    assert_eq!(entry(Entry { sequence: 0xff, ..none }), [31]);
    assert_eq!((Entry::BYTES, entry_at(0), entry_at(31)), (32, 32, 1024));
}

#[test]
fn bodies_of_the_fabric() {
    let enrol = |enrol: Enrol| places(|packet| enrol.write(packet, 0));
    let none = Enrol::default();
    assert_eq!(enrol(Enrol { nonce: u64::MAX, ..none }), range(0, 7));
    assert_eq!(enrol(Enrol { pid: u32::MAX, ..none }), range(8, 11));
    assert_eq!(enrol(Enrol { lease_us: u32::MAX, ..none }), range(12, 15));
    assert_eq!(enrol(Enrol { namespace_name: [0xff; 24], ..none }), range(16, 39));
    assert_eq!(enrol(Enrol { host: [0xff; 32], ..none }), range(40, 71));
    assert_eq!(Enrol::BYTES, 80);

    let enrolled = |enrolled: Enrolled| places(|packet| enrolled.write(packet, 0));
    let none = Enrolled::default();
    assert_eq!(enrolled(Enrolled { nonce: u64::MAX, ..none }), range(0, 7));
    assert_eq!(enrolled(Enrolled { incarnation: u64::MAX, ..none }), range(8, 15));
    assert_eq!(enrolled(Enrolled { lease_us: u32::MAX, ..none }), range(16, 19));
    assert_eq!(enrolled(Enrolled { grace_us: u32::MAX, ..none }), range(20, 23));
    assert_eq!(enrolled(Enrolled { slots: u32::MAX, ..none }), range(24, 27));
    assert_eq!(enrolled(Enrolled { policy: 0xff, ..none }), [28]);
    assert_eq!(enrolled(Enrolled { reason: 0xff, ..none }), [29]);
    assert_eq!(enrolled(Enrolled { version: 0xff, ..none }), [30]);
    assert_eq!(enrolled(Enrolled { patience: 0xff, ..none }), [31]);
    assert_eq!(enrolled(Enrolled { lifeline: u64::MAX, ..none }), range(32, 39));
    assert_eq!(Enrolled::BYTES, 40);

    let heartbeat = |heartbeat: Heartbeat| places(|packet| heartbeat.write(packet, 0));
    let none = Heartbeat::default();
    assert_eq!(heartbeat(Heartbeat { sequence: u64::MAX, ..none }), range(0, 7));
    assert_eq!(heartbeat(Heartbeat { oldest: u64::MAX, ..none }), range(8, 15));
    assert_eq!(heartbeat(Heartbeat { sent_us: u64::MAX, ..none }), range(16, 23));
    assert_eq!(heartbeat(Heartbeat { incarnation: u64::MAX, ..none }), range(24, 31));
    assert_eq!(Heartbeat::BYTES, 32);

    let names = |names: Names| places(|packet| names.write(packet, 0));
    let none = Names::default();
    assert_eq!(names(Names { nonce: u64::MAX, ..none }), range(0, 7));
    assert_eq!(names(Names { fingerprint: u64::MAX, ..none }), range(8, 15));
    assert_eq!(names(Names { listed: 0xffff, ..none }), [16, 17]);
    assert_eq!(Names::BYTES, 64);

    let listed = |listed: Listed| places(|packet| listed.write(packet, 0));
    let none = Listed::default();
    assert_eq!(listed(Listed { first: u64::MAX, ..none }), range(0, 7));
    assert_eq!(listed(Listed { second: u64::MAX, ..none }), range(8, 15));
    assert_eq!(listed(Listed { third: u64::MAX, ..none }), range(16, 23));
    assert_eq!(listed(Listed { fourth: u64::MAX, ..none }), range(24, 31));
    assert_eq!(Listed::BYTES, 32);
}

#[test]
fn bodies_of_the_chain() {
    let operation = |operation: Operation| places(|packet| operation.write(packet, 0));
    let none = Operation::default();
    assert_eq!(operation(Operation { key_high: u64::MAX, ..none }), range(0, 7));
    assert_eq!(operation(Operation { key_low: u64::MAX, ..none }), range(8, 15));
    assert_eq!(operation(Operation { request: u64::MAX, ..none }), range(16, 23));
    assert_eq!(operation(Operation { expected: u64::MAX, ..none }), range(24, 31));
    assert_eq!(operation(Operation { expected_epoch: u32::MAX, ..none }), range(32, 35));
    assert_eq!(operation(Operation { group: 0xffff, ..none }), [36, 37]);
    assert_eq!(operation(Operation { client: 0xffff, ..none }), [38, 39]);
    assert_eq!(operation(Operation { reply_port: 0xffff, ..none }), [40, 41]);
    assert_eq!(operation(Operation { length: 0xffff, ..none }), [42, 43]);
    assert_eq!(operation(Operation { lane: 0xff, ..none }), [44]);
    assert_eq!(operation(Operation { condition: 0xff, ..none }), [45]);
    assert_eq!(operation(Operation { flags: 0xffff, ..none }), [46, 47]);
    assert_eq!(operation(Operation { check: u64::MAX, ..none }), range(48, 55));
    assert_eq!(Operation::BYTES, 64);

    let effect = |effect: Effect| places(|packet| effect.write(packet, 0));
    let none = Effect::default();
    assert_eq!(effect(Effect { key_high: u64::MAX, ..none }), range(0, 7));
    assert_eq!(effect(Effect { key_low: u64::MAX, ..none }), range(8, 15));
    assert_eq!(effect(Effect { request: u64::MAX, ..none }), range(16, 23));
    assert_eq!(effect(Effect { sequence: u64::MAX, ..none }), range(24, 31));
    assert_eq!(effect(Effect { epoch: u32::MAX, ..none }), range(32, 35));
    assert_eq!(effect(Effect { group: 0xffff, ..none }), [36, 37]);
    assert_eq!(effect(Effect { client: 0xffff, ..none }), [38, 39]);
    assert_eq!(effect(Effect { reply_port: 0xffff, ..none }), [40, 41]);
    assert_eq!(effect(Effect { length: 0xffff, ..none }), [42, 43]);
    assert_eq!(effect(Effect { lane: 0xff, ..none }), [44]);
    assert_eq!(effect(Effect { outcome: 0xff, ..none }), [45]);
    assert_eq!(effect(Effect { flags: 0xffff, ..none }), [46, 47]);
    assert_eq!(effect(Effect { own_sequence: u64::MAX, ..none }), range(48, 55));
    assert_eq!(effect(Effect { own_epoch: u32::MAX, ..none }), range(56, 59));
    assert_eq!(effect(Effect { owner: u32::MAX, ..none }), range(60, 63));
    assert_eq!(Effect::BYTES, 64);

    let copied = |copied: Copied| places(|packet| copied.write(packet, 0));
    let none = Copied::default();
    assert_eq!(copied(Copied { nonce: u64::MAX, ..none }), range(16, 23));
    assert_eq!(copied(Copied { sequence: u64::MAX, ..none }), range(24, 31));
    assert_eq!(copied(Copied { epoch: u32::MAX, ..none }), range(32, 35));
    assert_eq!(copied(Copied { group: 0xffff, ..none }), [36, 37]);
    assert_eq!(copied(Copied { flags: 0xffff, ..none }), [40, 41]);
    assert_eq!(copied(Copied { part: 0xff, ..none }), [42]);
    assert_eq!(copied(Copied { owner: u64::MAX, ..none }), range(56, 63));
    assert_eq!(Copied::BYTES, 64);
}

#[test]
fn a_watch_is_64_bytes_and_has_what_an_operation_has_at_its_places() {
    let watch = |watch: Watch| places(|packet| watch.write(packet, 0));
    let none = Watch::default();
    assert_eq!(watch(Watch { key_high: u64::MAX, ..none }), range(0, 7));
    assert_eq!(watch(Watch { key_low: u64::MAX, ..none }), range(8, 15));
    assert_eq!(watch(Watch { request: u64::MAX, ..none }), range(16, 23));
    assert_eq!(watch(Watch { number: u64::MAX, ..none }), range(24, 31));
    assert_eq!(watch(Watch { scope: 0xff, ..none }), [32]);
    assert_eq!(watch(Watch { outcome: 0xff, ..none }), [33]);
    assert_eq!(watch(Watch { changes: 0xffff, ..none }), [34, 35]);
    assert_eq!(watch(Watch { group: 0xffff, ..none }), [36, 37]);
    assert_eq!(watch(Watch { client: 0xffff, ..none }), [38, 39]);
    assert_eq!(watch(Watch { reply_port: 0xffff, ..none }), [40, 41]);
    assert_eq!(watch(Watch { length: 0xffff, ..none }), [42, 43]);
    assert_eq!(watch(Watch { check: u64::MAX, ..none }), range(48, 55));
    assert_eq!(watch(Watch { history: u64::MAX, ..none }), range(56, 63));
    assert_eq!(Watch::BYTES, 64);
}

#[test]
fn a_change_is_32_bytes() {
    let change = |change: Change| places(|packet| change.write(packet, 0));
    let none = Change::default();
    assert_eq!(change(Change { sequence: u64::MAX, ..none }), range(0, 7));
    assert_eq!(change(Change { before_sequence: u64::MAX, ..none }), range(8, 15));
    assert_eq!(change(Change { epoch: u32::MAX, ..none }), range(16, 19));
    assert_eq!(change(Change { before_epoch: u32::MAX, ..none }), range(20, 23));
    assert_eq!(change(Change { length: 0xffff, ..none }), [24, 25]);
    assert_eq!(change(Change { name_length: 0xffff, ..none }), [26, 27]);
    assert_eq!(change(Change { flags: 0xffff, ..none }), [28, 29]);
    assert_eq!(change(Change { part: 0xff, ..none }), [30]);
    assert_eq!(Change::BYTES, 32);
}

#[test]
fn words_of_the_chain() {
    assert_eq!(group_place::with_epoch(0, u32::MAX), 0xffff_ffff << 32);
    assert_eq!(group_place::with_previous(0, 0xffff), 0xffff << 16);
    assert_eq!(group_place::with_next(0, 0xffff), 0xffff);
    assert_eq!(item_lock::with_owner(0, 0xffff), 0xffff << 48);
    assert_eq!(item_lock::with_changes(0, u64::MAX), 0xffff_ffff_fffe);
    assert_eq!(item_lock::with_which(0, 1), 1);
    assert_eq!(lease_owner::with_handle(0, 0xffff), 0xffff << 32);
    assert_eq!(lease_owner::with_incarnation(0, u32::MAX), 0xffff_ffff);
    assert_eq!([value_flag::PRESENT, value_flag::LEASED, value_flag::LEAVING], [1, 2, 4]);
}

#[test]
fn body_of_the_queue() {
    let attempt = |attempt: Attempt| places(|packet| attempt.write(packet, 0));
    let none = Attempt::default();
    assert_eq!(attempt(Attempt { name: u64::MAX, ..none }), range(0, 7));
    assert_eq!(attempt(Attempt { request: u64::MAX, ..none }), range(8, 15));
    assert_eq!(attempt(Attempt { ticket: u64::MAX, ..none }), range(16, 23));
    assert_eq!(attempt(Attempt { over: u64::MAX, ..none }), range(24, 31));
    assert_eq!(attempt(Attempt { number: u64::MAX, ..none }), range(32, 39));
    assert_eq!(attempt(Attempt { order: u64::MAX, ..none }), range(40, 47));
    assert_eq!(attempt(Attempt { holder: 0xffff, ..none }), [48, 49]);
    assert_eq!(attempt(Attempt { reply_port: 0xffff, ..none }), [50, 51]);
    assert_eq!(attempt(Attempt { room: 0xffff, ..none }), [52, 53]);
    assert_eq!(attempt(Attempt { flags: 0xff, ..none }), [54]);
    assert_eq!(attempt(Attempt { cause: 0xff, ..none }), [55]);
    assert_eq!(attempt(Attempt { sent_us: u64::MAX, ..none }), range(56, 63));
    assert_eq!(Attempt::BYTES, 64);
}

/// Where an attempt has the same, it is at the same place.
#[test]
fn fetch_layout() {
    let fetch = |fetch: Fetch| places(|packet| fetch.write(packet, 0));
    let none = Fetch::default();
    assert_eq!(fetch(Fetch { name: u64::MAX, ..none }), range(0, 7));
    assert_eq!(fetch(Fetch { request: u64::MAX, ..none }), range(8, 15));
    assert_eq!(fetch(Fetch { ticket: u64::MAX, ..none }), range(16, 23));
    assert_eq!(fetch(Fetch { incarnation: u64::MAX, ..none }), range(24, 31));
    assert_eq!(fetch(Fetch { holder: 0xffff, ..none }), [48, 49]);
    assert_eq!(fetch(Fetch { reply_port: 0xffff, ..none }), [50, 51]);
    assert_eq!(fetch(Fetch { length: 0xffff, ..none }), [52, 53]);
    assert_eq!(fetch(Fetch { flags: 0xff, ..none }), [54]);
    assert_eq!(fetch(Fetch { cause: 0xff, ..none }), [55]);
    assert_eq!(fetch(Fetch { sent_us: u64::MAX, ..none }), range(56, 63));
    assert_eq!(Fetch::BYTES, Attempt::BYTES);
    assert_eq!((kind::queue::REJECT, kind::queue::FETCH, kind::queue::FETCHED), (21, 22, 23));
}

#[test]
fn words_of_the_queue() {
    assert_eq!(cell_who::with_holder(0, 0xffff), 0xffff << 48);
    assert_eq!(cell_who::with_reply_port(0, 0xffff), 0xffff << 32);
    assert_eq!((cell_who::with_exclusive(0, 1), cell_who::with_over(0, 1)), (2, 1));
    assert_eq!(queue_holding::with_exclusive(0, 1), 1 << 32);
    assert_eq!(queue_holding::with_holders(0, u32::MAX), 0xffff_ffff);
}

#[test]
fn words_of_a_slot() {
    assert_eq!(SlotBits { state: SlotState::Frozen, transferred: false, tryable: false, joins: 0 }.to_u16(), 0xc000);
    assert_eq!(SlotBits { state: SlotState::Unheld, transferred: true, tryable: false, joins: 0 }.to_u16(), 0x2000);
    assert_eq!(SlotBits { state: SlotState::Unheld, transferred: false, tryable: true, joins: 0 }.to_u16(), 0x1000);
    assert_eq!(SlotBits { state: SlotState::Open, transferred: true, tryable: true, joins: 4095 }.to_u16(), 0x7fff);
    for word in 0..=u16::MAX {
        assert_eq!(SlotBits::from_u16(word).to_u16(), word);
    }
    assert_eq!(slot_w0::with_state(0, 3), 3 << 62);
    assert_eq!(slot_w0::with_transferred(0, 1), 1 << 61);
    assert_eq!(slot_w0::with_tryable(0, 1), 1 << 60);
    assert_eq!(slot_w0::with_agent(0, u16::MAX), 0xffff << 44);
    assert_eq!(slot_w0::with_joins(0, 4095), 0xfff << 32);
    assert_eq!(slot_w0::with_tenure(0, u32::MAX), 0xffff_ffff);
    assert_eq!(slot_w0::with_joins(u64::MAX, 0), !(0xfff << 32));
    assert_eq!(slot_w1::with_tenure(0, 0xf_ffff), 0xf_ffff << 44);
    assert_eq!(slot_w1::with_name_hash(0, u64::MAX), (1 << 44) - 1);
    assert_eq!(node_word::with_state(0, NodeState::Live as u8), 1 << 56);
    assert_eq!(node_word::sequence(u64::MAX), (1 << 56) - 1);
}

#[test]
fn tokens_and_request_ids() {
    let highest = token::with_epoch(token::with_tenure(token::with_sequence(0, 255), u32::MAX), limits::MAX_EPOCH);
    assert_eq!(highest, i64::MAX as u64, "a token fits a signed 64-bit column");
    assert!(token::with_epoch(0, 2) > token::with_tenure(token::with_epoch(0, 1), u32::MAX));
    assert!(token::with_tenure(0, 2) > token::with_sequence(token::with_tenure(0, 1), 255));
    assert_eq!(request_id::with_counter(request_id::with_incarnation(0, 5), 7), 5 << 40 | 7);
}

#[test]
fn constants() {
    assert_eq!((PORT, ADMIN_PORT), (7600, 7601));
    assert_eq!((limits::MAX_ENTRIES, limits::MAX_PACKET_BYTES), (32, 32 + 32 * 32));
    assert_eq!((limits::MAX_HOPS, limits::MAX_JOINS), (8, 4095));
    assert_eq!((limits::BLOCK_BYTES, limits::MAX_BLOCKS, 32 + 64 + 30 * 32), (32, 30, limits::MAX_PACKET_BYTES));
    assert_eq!((limits::MAX_VALUE_BYTES, limits::MAX_KEY_NAME_BYTES), (128, 960));
    assert_eq!((limits::MAX_CHAIN, limits::MAX_LANES), (5, 16));
    assert_eq!(limits::MAX_PRIORITY, 7);
    assert_eq!((service::FABRIC, service::LOCK, service::QUEUE, service::CHAIN), (0, 1, 2, 3));
    assert_eq!((kind::queue::ACQUIRE, kind::queue::GRANT, kind::queue::QUEUED, kind::queue::RELEASE), (1, 2, 3, 4));
    assert_eq!((kind::queue::CANCEL, kind::queue::RELEASED, kind::queue::NEXT, kind::queue::BUSY), (5, 6, 7, 8));
    assert_eq!((kind::queue::RECOVERING, kind::queue::PUSH, kind::queue::SETTLE), (9, 10, 11));
    assert_eq!((kind::queue::PUSHED, kind::queue::ROOM), (12, 13));
    assert_eq!((queue_flag::EXCLUSIVE, queue_flag::TRY, queue_flag::MORE), (1, 2, 4));
    assert_eq!((kind::fabric::ENROL, kind::fabric::HEARTBEAT, kind::fabric::STALE), (1, 3, 9));
    assert_eq!((kind::fabric::TURN, kind::fabric::TURN_ACK, kind::fabric::NAMES), (10, 11, 12));
    assert_eq!((Engine::Fission as u8, Engine::Queue as u8, Engine::Hybrid as u8), (0, 1, 2));
    assert_eq!(limits::MAX_LISTED, 4 * limits::MAX_BLOCKS);
    assert_eq!((kind::lock::ACQUIRE, kind::lock::RETENURE, kind::lock::ADOPTED), (1, 8, 18));
    assert_eq!((kind::chain::READ, kind::chain::WRITE, kind::chain::DELETE, kind::chain::APPLY), (1, 2, 3, 4));
    assert_eq!((kind::chain::ANSWER, kind::chain::INSERT, kind::chain::INSTALL, value_flag::PRESENT), (5, 6, 7, 1));
    assert_eq!((Condition::Version as u8, Condition::Absent as u8, Condition::Word as u8), (1, 2, 3));
    assert_eq!((Outcome::Unmet as u8, Outcome::Missing as u8, Outcome::NoRoom as u8), (1, 2, 3));
    assert_eq!((Outcome::Moved as u8, Outcome::Recovering as u8), (4, 5));
    assert_eq!((Outcome::Full as u8, Outcome::Collision as u8), (6, 7));
    assert_eq!((header_flag::CLAIM, header_flag::LAST, header_flag::RETRY, header_flag::KEY), (1, 16, 256, 512));
    assert_eq!((header_flag::QUIET, kind::lock::FREE, kind::lock::FREED), (1_024, 21, 22));
    assert_eq!((entry_flag::EXCLUSIVE, entry_flag::AGENCY, entry_flag::DEAD), (1, 4, 32));
    assert_eq!((SlotState::Open as u8, SlotState::Managed as u8), (1, 2));
    assert_eq!(DropReason::StaleEpoch.name(), "stale_epoch");
    assert_eq!(DropReason::try_from(7), Ok(DropReason::BadCount));
    assert_eq!((DropReason::BadTag as u8, DropReason::EnrolInClear as u8, DropReason::NoKey as u8), (20, 22, 23));
    assert_eq!((DropReason::UnknownGroup as u8, DropReason::WrongPlace as u8), (26, 27));
    assert_eq!((DropReason::BadValue as u8, DropReason::BadLane as u8), (28, 29));
    assert_eq!((DropReason::NoServer as u8, DropReason::NotItsServer as u8), (30, 31));
    assert_eq!(DropReason::NoQueue as u8, 32);
    assert!(DropReason::try_from(250).is_err());
}

/// The constants of MurmurHash3's finalizer, by values computed apart from this code.
#[test]
fn names_find_their_slots() {
    assert_eq!(mix(0), 0);
    assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
    assert_eq!(mix(u64::MAX), 0x64b5_720b_4b82_5f21);
    assert_eq!(name_hash(1), 0xb456_bcfc_34c2_cb2c >> 20);
    assert_eq!(slot_of(7, 1024), 7);
    assert_eq!(slot_of(u64::MAX, 1000), 615);
}
