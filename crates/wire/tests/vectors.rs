//! The codec reads and writes the golden vectors byte for byte, and names the fault of each bad one. What earlier
//! versions sent, `wire/vectors/vMAJOR_MINOR.json`, is read as it was meant then (docs/upgrades.md).

mod golden;

use std::collections::HashSet;
use std::fs;

use golden::{Fields, Vector};
use wayside_wire::{
    Attempt, BODY, ChainKind, Copied, DropReason, Effect, Enrol, Enrolled, Entry, FabricKind, Fetch, Header, Heartbeat,
    LockKind, MAJOR, MINOR, Names, Operation, Placement, QueueKind, Renewal, Routes, VERSION, Watch, blocks, check,
    entries, entry_at, padded, service, text,
};

/// The files that never change, and the FNV-1a digest of each. `cargo xtask wire --freeze` makes those of a new
/// version.
const FROZEN: [(&str, u64); 30] = [
    ("v1_0.h", 0x86bb_8a7b_ee44_0705),
    ("v1_0.json", 0x4e68_a12d_450e_ece3),
    ("v1_1.h", 0x8a2f_e2e1_64ee_30c6),
    ("v1_1.json", 0x7f17_7e6d_3cb5_3961),
    ("v1_10.h", 0x1270_724c_80fb_f078),
    ("v1_10.json", 0x7c81_e2fc_07c5_f63e),
    ("v1_11.h", 0x007e_da52_1b0d_7798),
    ("v1_11.json", 0x51c4_f030_ac10_b7cc),
    ("v1_12.h", 0x81e6_1b5c_524b_8a56),
    ("v1_12.json", 0x6f29_c417_874b_ca2c),
    ("v1_13.h", 0x952d_5c83_c06e_81b4),
    ("v1_13.json", 0x06f7_683a_e9cb_1d52),
    ("v1_14.h", 0x5378_8f01_a597_90e8),
    ("v1_14.json", 0x71f4_e6de_f282_2970),
    ("v1_2.h", 0xa81e_7ce0_4ef9_0852),
    ("v1_2.json", 0x71e8_d492_e6f1_853a),
    ("v1_3.h", 0x052e_930c_807d_22db),
    ("v1_3.json", 0xec43_6ce6_5579_788d),
    ("v1_4.h", 0x49c6_72a1_c64d_94fa),
    ("v1_4.json", 0xe51d_08fa_b761_9d22),
    ("v1_5.h", 0x6d36_70bc_65e0_e914),
    ("v1_5.json", 0xa1b5_b6e9_1723_0bd3),
    ("v1_6.h", 0xd0d7_1441_ee6b_9d88),
    ("v1_6.json", 0xf37e_85c6_fc44_09ab),
    ("v1_7.h", 0x3d49_58e4_0455_99ec),
    ("v1_7.json", 0x9c04_1bdf_bed5_d162),
    ("v1_8.h", 0x6b27_29b9_db42_faf2),
    ("v1_8.json", 0x49fe_90b6_044d_d836),
    ("v1_9.h", 0x5908_733d_0301_39d4),
    ("v1_9.json", 0x05b3_9583_1ae9_ddba),
];

fn header(fields: &Fields) -> Header {
    Header {
        service: fields.as_u8("service"),
        kind: fields.as_u8("kind"),
        count: fields.as_u8("count"),
        flags: fields.as_u16("flags"),
        source: fields.as_u16("source"),
        destination: fields.as_u16("destination"),
        epoch: fields.as_u32("epoch"),
        shard_map: fields.as_u32("shard_map"),
        namespace: fields.as_u16("namespace"),
        position: fields.as_u16("position"),
        tag: fields.number("tag"),
    }
}

fn entry(fields: &Fields) -> Entry {
    Entry {
        name: fields.number("name"),
        request: fields.number("request"),
        slot: fields.as_u32("slot"),
        tenure: fields.as_u32("tenure"),
        holder: fields.as_u16("holder"),
        reply_port: fields.as_u16("reply_port"),
        slot_bits: fields.as_u16("slot_bits"),
        flags: fields.as_u8("flags"),
        sequence: fields.as_u8("sequence"),
    }
}

fn enrol(fields: &Fields) -> Enrol {
    Enrol {
        nonce: fields.number("nonce"),
        pid: fields.as_u32("pid"),
        lease_us: fields.as_u32("lease_us"),
        namespace_name: padded(fields.text("namespace_name")).expect("fits"),
        host: padded(fields.text("host")).expect("fits"),
    }
}

fn enrolled(fields: &Fields) -> Enrolled {
    Enrolled {
        nonce: fields.number("nonce"),
        incarnation: fields.number("incarnation"),
        lease_us: fields.as_u32("lease_us"),
        grace_us: fields.as_u32("grace_us"),
        slots: fields.as_u32("slots"),
        policy: fields.as_u8("policy"),
        reason: fields.as_u8("reason"),
        version: fields.as_u8("version"),
        patience: fields.later("patience") as u8,
        lifeline: fields.number("lifeline"),
    }
}

fn listing(fields: &Fields) -> Names {
    Names { nonce: fields.number("nonce"), fingerprint: fields.number("fingerprint"), listed: fields.as_u16("listed") }
}

fn heartbeat(fields: &Fields) -> Heartbeat {
    Heartbeat {
        sequence: fields.number("sequence"),
        oldest: fields.number("oldest"),
        sent_us: fields.number("sent_us"),
        incarnation: fields.number("incarnation"),
    }
}

fn operation(fields: &Fields) -> Operation {
    Operation {
        key_high: fields.number("key_high"),
        key_low: fields.number("key_low"),
        request: fields.number("request"),
        expected: fields.number("expected"),
        expected_epoch: fields.as_u32("expected_epoch"),
        group: fields.as_u16("group"),
        client: fields.as_u16("client"),
        reply_port: fields.as_u16("reply_port"),
        length: fields.as_u16("length"),
        lane: fields.as_u8("lane"),
        condition: fields.as_u8("condition"),
        flags: fields.as_u16("flags"),
        check: fields.number("check"),
        first_epoch: fields.as_u32("first_epoch"),
    }
}

fn attempt(fields: &Fields) -> Attempt {
    Attempt {
        name: fields.number("name"),
        request: fields.number("request"),
        ticket: fields.number("ticket"),
        over: fields.number("over"),
        number: fields.number("number"),
        order: fields.number("order"),
        holder: fields.as_u16("holder"),
        reply_port: fields.as_u16("reply_port"),
        room: fields.as_u16("room"),
        flags: fields.as_u8("flags"),
        cause: fields.as_u8("cause"),
        sent_us: fields.later("sent_us"),
    }
}

fn fetch(fields: &Fields) -> Fetch {
    Fetch {
        name: fields.number("name"),
        request: fields.number("request"),
        ticket: fields.number("ticket"),
        incarnation: fields.number("incarnation"),
        holder: fields.as_u16("holder"),
        reply_port: fields.as_u16("reply_port"),
        length: fields.as_u16("length"),
        flags: fields.as_u8("flags"),
        cause: fields.as_u8("cause"),
        sent_us: fields.number("sent_us"),
    }
}

fn routes(fields: &Fields) -> Routes {
    Routes { first: fields.as_u16("first"), base: fields.as_u16("base"), groups: fields.as_u16("groups") }
}

fn watch(fields: &Fields) -> Watch {
    Watch {
        key_high: fields.number("key_high"),
        key_low: fields.number("key_low"),
        request: fields.number("request"),
        number: fields.number("number"),
        scope: fields.as_u8("scope"),
        outcome: fields.as_u8("outcome"),
        changes: fields.as_u16("changes"),
        group: fields.as_u16("group"),
        client: fields.as_u16("client"),
        reply_port: fields.as_u16("reply_port"),
        length: fields.as_u16("length"),
        check: fields.number("check"),
        history: fields.number("history"),
    }
}

fn placement(fields: &Fields) -> Placement {
    Placement {
        boot: fields.number("boot"),
        pass: fields.number("pass"),
        epoch: fields.as_u32("epoch"),
        group: fields.as_u16("group"),
        previous: fields.as_u16("previous"),
        next: fields.as_u16("next"),
        source: fields.as_u16("source"),
        role: fields.as_u8("role"),
        refused: fields.as_u8("refused"),
        head_port: fields.as_u16("head_port"),
        head_address: fields.as_u32("head_address"),
        tail_address: fields.as_u32("tail_address"),
        tail_port: fields.as_u16("tail_port"),
    }
}

fn renewal(fields: &Fields) -> Renewal {
    Renewal {
        boot: fields.number("boot"),
        sent_us: fields.number("sent_us"),
        lease_us: fields.as_u32("lease_us"),
        refused: fields.as_u8("refused"),
    }
}

fn copied(fields: &Fields) -> Copied {
    Copied {
        key_high: fields.number("key_high"),
        key_low: fields.number("key_low"),
        nonce: fields.number("nonce"),
        sequence: fields.number("sequence"),
        epoch: fields.as_u32("epoch"),
        group: fields.as_u16("group"),
        length: fields.as_u16("length"),
        flags: fields.as_u16("flags"),
        part: fields.as_u8("part"),
        owner: fields.later("owner"),
    }
}

fn effect(fields: &Fields) -> Effect {
    Effect {
        key_high: fields.number("key_high"),
        key_low: fields.number("key_low"),
        request: fields.number("request"),
        sequence: fields.number("sequence"),
        epoch: fields.as_u32("epoch"),
        group: fields.as_u16("group"),
        client: fields.as_u16("client"),
        reply_port: fields.as_u16("reply_port"),
        length: fields.as_u16("length"),
        lane: fields.as_u8("lane"),
        outcome: fields.as_u8("outcome"),
        flags: fields.as_u16("flags"),
        own_sequence: fields.number("own_sequence"),
        own_epoch: fields.as_u32("own_epoch"),
        owner: fields.later("owner") as u32,
    }
}

/// Writes what the vector's fields say, over bytes that are not zero.
fn written(vector: &Vector) -> Vec<u8> {
    let mut packet = vec![0xee; vector.bytes.len()];
    header(&vector.header).write(&mut packet);
    for (index, fields) in vector.parts.iter().enumerate() {
        match vector.part {
            "entry" => entry(fields).write(&mut packet, entry_at(index)),
            "enrol" => enrol(fields).write(&mut packet, BODY),
            "enrolled" => enrolled(fields).write(&mut packet, BODY),
            "names" => listing(fields).write(&mut packet, BODY),
            "heartbeat" => heartbeat(fields).write(&mut packet, BODY),
            "operation" => operation(fields).write(&mut packet, BODY),
            "effect" => effect(fields).write(&mut packet, BODY),
            "attempt" => attempt(fields).write(&mut packet, BODY),
            "fetch" => fetch(fields).write(&mut packet, BODY),
            "routes" => routes(fields).write(&mut packet, BODY),
            "placement" => placement(fields).write(&mut packet, BODY),
            "renewal" => renewal(fields).write(&mut packet, BODY),
            "copied" => copied(fields).write(&mut packet, BODY),
            "watch" => watch(fields).write(&mut packet, BODY),
            other => panic!("no struct {other}"),
        }
    }
    let start = packet.len() - vector.blocks.len();
    packet[start..].copy_from_slice(&vector.blocks);
    packet
}

fn expect_read_as_meant(vector: &Vector) {
    let (packet, name) = (&vector.bytes, &vector.name);
    assert_eq!(check(packet), Ok(header(&vector.header)), "{name}");
    match vector.part {
        "entry" => assert!(entries(packet).eq(vector.parts.iter().map(entry)), "{name}"),
        "enrol" => assert_eq!(Enrol::read(packet, BODY), enrol(&vector.parts[0]), "{name}"),
        "enrolled" => assert_eq!(Enrolled::read(packet, BODY), enrolled(&vector.parts[0]), "{name}"),
        "names" => assert_eq!(Names::read(packet, BODY), listing(&vector.parts[0]), "{name}"),
        "heartbeat" => assert_eq!(Heartbeat::read(packet, BODY), heartbeat(&vector.parts[0]), "{name}"),
        "operation" => assert_eq!(Operation::read(packet, BODY), operation(&vector.parts[0]), "{name}"),
        "effect" => assert_eq!(Effect::read(packet, BODY), effect(&vector.parts[0]), "{name}"),
        "attempt" => assert_eq!(Attempt::read(packet, BODY), attempt(&vector.parts[0]), "{name}"),
        "fetch" => assert_eq!(Fetch::read(packet, BODY), fetch(&vector.parts[0]), "{name}"),
        "routes" => assert_eq!(Routes::read(packet, BODY), routes(&vector.parts[0]), "{name}"),
        "placement" => assert_eq!(Placement::read(packet, BODY), placement(&vector.parts[0]), "{name}"),
        "renewal" => assert_eq!(Renewal::read(packet, BODY), renewal(&vector.parts[0]), "{name}"),
        "copied" => assert_eq!(Copied::read(packet, BODY), copied(&vector.parts[0]), "{name}"),
        "watch" => assert_eq!(Watch::read(packet, BODY), watch(&vector.parts[0]), "{name}"),
        other => panic!("no struct {other}"),
    }
    assert_eq!(blocks(packet), vector.blocks, "{name}");
    if vector.part != "entry" {
        assert_eq!(entries(packet).len(), 0, "{name}");
    }
}

#[test]
fn good_packets_are_read_field_by_field() {
    golden::vectors().iter().filter(|vector| vector.drop == "none").for_each(expect_read_as_meant);
}

#[test]
fn good_packets_are_written_byte_by_byte() {
    let vectors = golden::vectors();
    let canonical: Vec<_> = vectors.iter().filter(|vector| vector.canonical).collect();
    assert!(canonical.len() >= 40);
    for vector in canonical {
        assert_eq!(written(vector), vector.bytes, "{}", vector.name);
    }
}

#[test]
fn bad_packets_are_dropped_by_name() {
    let vectors = golden::vectors();
    let mut reasons = HashSet::new();
    for vector in vectors.iter().filter(|vector| vector.drop != "none") {
        assert_eq!(check(&vector.bytes).map_err(DropReason::name), Err(vector.drop.as_str()), "{}", vector.name);
        reasons.insert(vector.drop.clone());
    }
    assert_eq!(reasons.len(), 7, "every structural reason has a vector: {reasons:?}");
}

fn have_every_kind(vectors: &[Vector]) -> bool {
    let has = |wanted: u8, kind: u8| {
        let good = vectors.iter().filter(|vector| vector.drop == "none");
        good.map(|vector| header(&vector.header)).any(|header| header.service == wanted && header.kind == kind)
    };
    FabricKind::ALL.iter().all(|kind| has(service::FABRIC, *kind as u8))
        && LockKind::ALL.iter().all(|kind| has(service::LOCK, *kind as u8))
        && QueueKind::ALL.iter().all(|kind| has(service::QUEUE, *kind as u8))
        && ChainKind::ALL.iter().all(|kind| has(service::CHAIN, *kind as u8))
}

#[test]
fn every_kind_has_a_vector() {
    assert!(have_every_kind(&golden::vectors()));
}

#[test]
fn frozen_files_are_as_they_were() {
    let folder = golden::repository().join("wire/vectors");
    let names = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut there: Vec<String> = names.filter(|name| !name.starts_with("packets.")).collect();
    there.sort();
    assert_eq!(there, FROZEN.map(|(name, _)| name));
    for (name, wanted) in FROZEN {
        let fnv = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let digest = fs::read(folder.join(name)).unwrap().into_iter().fold(0xcbf2_9ce4_8422_2325, fnv);
        assert_eq!(digest, wanted, "{name} is not what it was: {digest:#x}; a change of packets takes a new version");
    }
}

#[test]
fn what_earlier_versions_sent_is_read_and_written_as_then() {
    let mut seen = 0;
    for (name, _) in FROZEN.iter().filter(|(name, _)| name.ends_with(".json")) {
        for mut vector in golden::vectors_of(name) {
            seen += 1;
            if vector.bytes[2] >> 4 != MAJOR {
                assert_eq!(check(&vector.bytes), Err(DropReason::ForeignVersion), "{name}: {}", vector.name);
                continue;
            }
            expect_read_as_meant(&vector);
            // Another minor version is all that may differ.
            vector.bytes[2] = VERSION;
            assert!(!vector.canonical || written(&vector) == vector.bytes, "{name}: {}", vector.name);
        }
    }
    assert!(seen >= 40);
}

#[test]
fn a_new_kind_takes_a_new_version() {
    let today = format!("v{MAJOR}_{MINOR}.json");
    assert!(FROZEN.iter().any(|(name, _)| *name == today), "raise it, then `cargo xtask wire --freeze`");
    assert!(have_every_kind(&golden::vectors_of(&today)), "raise the minor version, then `cargo xtask wire --freeze`");
}

#[test]
fn text_ends_at_its_padding() {
    assert_eq!(padded::<4>("abcd"), Some(*b"abcd"));
    assert_eq!(padded::<4>("abcde"), None);
    assert_eq!(padded::<4>("a\0b"), None);
    assert_eq!(text(b"ab\0\0"), Some("ab"));
    assert_eq!(text(b"abcd"), Some("abcd"));
    assert_eq!(text(b"a\0b\0"), None);
    assert_eq!(text(b"\xff\0"), None);
}
