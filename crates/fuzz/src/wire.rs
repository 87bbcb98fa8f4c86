//! Bytes of any kind as a packet: whatever `check` passes can be read, and says the same when it is written again.

use wayside_wire::{
    Attempt, BODY, Body, Copied, Effect, Enrol, Enrolled, Entry, Fetch, Header, Heartbeat, Names, Operation, Placement,
    Renewal, Routes, SlotBits, Watch, blocks, body_of, check, entries, entry_at, limits, text,
};

pub fn run(input: &[u8]) {
    let header = check(input);
    if Header::read(input).is_err() {
        assert!(header.is_err(), "a packet has a header");
    }
    let Ok(header) = header else { return };
    assert!(input.len() <= limits::MAX_PACKET_BYTES);
    let mut again = input.to_vec();
    // A later minor version is read, and ours is written.
    again[3..].fill(0);
    again[2] = input[2];
    header.write(&mut again);
    again[2] = input[2];
    match body_of(header.service, header.kind).expect("it has been checked") {
        Body::Entries => {
            assert_eq!(entries(input).len(), usize::from(header.count));
            for (index, entry) in entries(input).enumerate() {
                assert_eq!(SlotBits::from_u16(entry.slot_bits).to_u16(), entry.slot_bits);
                entry.write(&mut again, entry_at(index));
                assert_eq!(Entry::read(&again, entry_at(index)), entry);
            }
        }
        Body::Enrol => {
            let body = Enrol::read(input, BODY);
            for field in [&body.namespace_name[..], &body.host[..]] {
                assert!(text(field).is_none_or(|text| !text.contains('\0')));
            }
            body.write(&mut again, BODY);
        }
        Body::Enrolled => {
            let body = Enrolled::read(input, BODY);
            body.write(&mut again, BODY);
            assert_eq!(Enrolled::read(&again, BODY), body);
        }
        Body::Names => Names::read(input, BODY).write(&mut again, BODY),
        Body::Heartbeat => Heartbeat::read(input, BODY).write(&mut again, BODY),
        Body::Operation => Operation::read(input, BODY).write(&mut again, BODY),
        Body::Effect => Effect::read(input, BODY).write(&mut again, BODY),
        Body::Routes => Routes::read(input, BODY).write(&mut again, BODY),
        Body::Placement => Placement::read(input, BODY).write(&mut again, BODY),
        Body::Renewal => Renewal::read(input, BODY).write(&mut again, BODY),
        Body::Copied => Copied::read(input, BODY).write(&mut again, BODY),
        Body::Watch => Watch::read(input, BODY).write(&mut again, BODY),
        Body::Fetch => Fetch::read(input, BODY).write(&mut again, BODY),
        Body::Attempt => Attempt::read(input, BODY).write(&mut again, BODY),
    }
    assert!(blocks(input).len().is_multiple_of(limits::BLOCK_BYTES));
    let start = again.len() - blocks(input).len();
    again[start..].copy_from_slice(blocks(input));
    assert_eq!(check(&again), Ok(header), "written again it is the same packet");
}
