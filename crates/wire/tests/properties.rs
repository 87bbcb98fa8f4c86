//! What holds of any bytes and any fields, and between neighbouring versions.

use proptest::array::uniform24;
use proptest::array::uniform32;
use proptest::collection::vec;
use proptest::prelude::*;
use wayside_wire::{
    Attempt, BODY, Body, Copied, DropReason, Effect, Enrol, Enrolled, Entry, Fetch, Header, Heartbeat, MAJOR, MINOR,
    Names, Operation, Placement, Renewal, Routes, Watch, blocks, body_of, check, entries, entry_at, kind, limits,
    packet_bytes, service,
};

prop_compose! {
    fn any_header()(
        numbers in any::<(u8, u8, u8, u16, u16, u16)>(), words in any::<(u32, u32, u16, u16, u64)>()
    ) -> Header {
        let (service, kind, count, flags, source, destination) = numbers;
        let (epoch, shard_map, namespace, position, tag) = words;
        Header { service, kind, count, flags, source, destination, epoch, shard_map, namespace, position, tag }
    }
}

prop_compose! {
    fn any_entry()(
        words in any::<(u64, u64, u32, u32)>(), numbers in any::<(u16, u16, u16, u8, u8)>()
    ) -> Entry {
        let (name, request, slot, tenure) = words;
        let (holder, reply_port, slot_bits, flags, sequence) = numbers;
        Entry { name, request, slot, tenure, holder, reply_port, slot_bits, flags, sequence }
    }
}

prop_compose! {
    fn any_enrol()(
        words in any::<(u64, u32, u32)>(), namespace_name in uniform24(any::<u8>()), host in uniform32(any::<u8>())
    ) -> Enrol {
        let (nonce, pid, lease_us) = words;
        Enrol { nonce, pid, lease_us, namespace_name, host }
    }
}

prop_compose! {
    fn any_enrolled()(
        words in any::<(u64, u64, u32, u32, u32)>(), numbers in any::<(u8, u8, u8, u8, u64)>()
    ) -> Enrolled {
        let (nonce, incarnation, lease_us, grace_us, slots) = words;
        let (policy, reason, version, patience, lifeline) = numbers;
        Enrolled { nonce, incarnation, lease_us, grace_us, slots, policy, reason, version, patience, lifeline }
    }
}

prop_compose! {
    fn any_operation()(
        words in any::<([u64; 5], u32, u32)>(), numbers in any::<([u16; 5], u8, u8)>()
    ) -> Operation {
        let ([key_high, key_low, request, expected, check], expected_epoch, first_epoch) = words;
        let ([group, client, reply_port, length, flags], lane, condition) = numbers;
        Operation {
            key_high, key_low, request, expected, expected_epoch, group, client, reply_port, length, lane, condition,
            flags, check, first_epoch,
        }
    }
}

prop_compose! {
    fn any_effect()(
        words in any::<([u64; 5], [u32; 3])>(), numbers in any::<([u16; 5], u8, u8)>()
    ) -> Effect {
        let ([key_high, key_low, request, sequence, own_sequence], [epoch, own_epoch, owner]) = words;
        let ([group, client, reply_port, length, flags], lane, outcome) = numbers;
        Effect {
            key_high, key_low, request, sequence, epoch, group, client, reply_port, length, lane, outcome, flags,
            own_sequence, own_epoch, owner,
        }
    }
}

/// Bytes with a good magic and version, so that they get past the first checks.
fn nearly_a_packet() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 32..1200), 0..5u8, 0..24u8, 0..40u8).prop_map(|(mut bytes, service, kind, count)| {
        bytes[..6].copy_from_slice(&[0x57, 0x53, 0x10, service, kind, count]);
        if let Ok(length) = packet_bytes(service, kind, count) {
            bytes.resize(length - usize::from(count == 7), 0xaa);
        }
        bytes
    })
}

fn reads_all_of(packet: &[u8]) {
    if let Ok(header) = check(packet) {
        match body_of(header.service, header.kind) {
            Ok(Body::Entries) => assert_eq!(entries(packet).count(), usize::from(header.count)),
            Ok(Body::Enrol) => drop(Enrol::read(packet, BODY)),
            Ok(Body::Enrolled) => drop(Enrolled::read(packet, BODY)),
            Ok(Body::Names) => drop(Names::read(packet, BODY)),
            Ok(Body::Heartbeat) => drop(Heartbeat::read(packet, BODY)),
            Ok(Body::Operation) => drop(Operation::read(packet, BODY)),
            Ok(Body::Effect) => drop(Effect::read(packet, BODY)),
            Ok(Body::Routes) => drop(Routes::read(packet, BODY)),
            Ok(Body::Placement) => drop(Placement::read(packet, BODY)),
            Ok(Body::Renewal) => drop(Renewal::read(packet, BODY)),
            Ok(Body::Attempt) => drop(Attempt::read(packet, BODY)),
            Ok(Body::Fetch) => drop(Fetch::read(packet, BODY)),
            Ok(Body::Copied) => drop(Copied::read(packet, BODY)),
            Ok(Body::Watch) => drop(Watch::read(packet, BODY)),
            Err(reason) => panic!("checked, but {reason:?}"),
        }
        let counted = if header.service == service::LOCK { 0 } else { header.count.into() };
        assert_eq!(blocks(packet).len(), counted * limits::BLOCK_BYTES);
    }
}

proptest! {
    #[test]
    fn check_never_panics(packet in vec(any::<u8>(), 0..1200)) {
        reads_all_of(&packet);
    }

    #[test]
    fn what_check_passes_can_be_read(packet in nearly_a_packet()) {
        reads_all_of(&packet);
    }

    #[test]
    fn header_is_read_as_written(header in any_header()) {
        let mut packet = [0xee; 32];
        header.write(&mut packet);
        prop_assert_eq!(Header::read(&packet), Ok(header));
    }

    #[test]
    fn packets_of_entries_are_read_as_written(header in any_header(), written in vec(any_entry(), 1..=32)) {
        let header = Header { service: service::LOCK, kind: kind::lock::GRANT, count: written.len() as u8, ..header };
        let mut packet = vec![0xee; entry_at(written.len())];
        header.write(&mut packet);
        written.iter().enumerate().for_each(|(index, entry)| entry.write(&mut packet, entry_at(index)));
        prop_assert_eq!(check(&packet), Ok(header));
        prop_assert!(entries(&packet).eq(written));
    }

    #[test]
    fn packets_of_blocks_are_read_as_written(
        header in any_header(), operation in any_operation(), effect in any_effect(), written in vec(any::<[u8; 32]>(), 0..=30)
    ) {
        let header = Header { service: service::CHAIN, count: written.len() as u8, ..header };
        let mut packet = vec![0xee; BODY + 64];
        packet.extend(written.concat());
        let write = Header { kind: kind::chain::WRITE, ..header };
        write.write(&mut packet);
        operation.write(&mut packet, BODY);
        prop_assert_eq!(check(&packet), Ok(write));
        prop_assert_eq!(Operation::read(&packet, BODY), operation);
        prop_assert_eq!(blocks(&packet), written.concat());
        let apply = Header { kind: kind::chain::APPLY, ..header };
        apply.write(&mut packet);
        effect.write(&mut packet, BODY);
        prop_assert_eq!(check(&packet), Ok(apply));
        prop_assert_eq!(Effect::read(&packet, BODY), effect);
        prop_assert_eq!((blocks(&packet), entries(&packet).len()), (&written.concat()[..], 0));
        packet.pop();
        prop_assert_eq!(check(&packet), Err(DropReason::BadLength));
    }

    #[test]
    fn bodies_are_read_as_written(enrol in any_enrol(), enrolled in any_enrolled(), words in any::<[u64; 4]>()) {
        let [sequence, oldest, sent_us, incarnation] = words;
        let heartbeat = Heartbeat { sequence, oldest, sent_us, incarnation };
        let mut packet = [0xee; 128];
        enrol.write(&mut packet, BODY);
        prop_assert_eq!(Enrol::read(&packet, BODY), enrol);
        enrolled.write(&mut packet, BODY);
        prop_assert_eq!(Enrolled::read(&packet, BODY), enrolled);
        heartbeat.write(&mut packet, BODY);
        prop_assert_eq!(Heartbeat::read(&packet, BODY), heartbeat);
    }

    /// docs/packets.md, "Ports and version".
    #[test]
    fn minor_versions_work_together_and_major_ones_are_refused_by_name(major in 0..16u8, minor in 0..16u8) {
        let header = Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count: 1, ..Header::default() };
        let mut packet = [0; 64];
        header.write(&mut packet);
        prop_assert_eq!(packet[2], MAJOR << 4 | MINOR);
        packet[2] = major << 4 | minor;
        let expected = if major == MAJOR { Ok(header) } else { Err(DropReason::ForeignVersion) };
        prop_assert_eq!(check(&packet), expected);
    }
}

#[test]
fn the_longest_packet_has_the_longest_length() {
    let longest = packet_bytes(service::LOCK, kind::lock::QUEUE, limits::MAX_ENTRIES as u8);
    assert_eq!(longest, Ok(limits::MAX_PACKET_BYTES));
    let longest = packet_bytes(service::CHAIN, kind::chain::INSERT, limits::MAX_BLOCKS as u8);
    assert_eq!(longest, Ok(limits::MAX_PACKET_BYTES));
    assert_eq!(packet_bytes(service::LOCK, 0, 1), Err(DropReason::UnknownKind));
    assert_eq!(packet_bytes(5, 1, 1), Err(DropReason::UnknownService));
}
