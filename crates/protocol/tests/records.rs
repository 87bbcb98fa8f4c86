//! Records as each version of their layout has written them are read by this one: whoever upgrades finds its sessions
//! (docs/upgrades.md). The bytes below never change; a new layout adds its own.

use std::net::{Ipv4Addr, SocketAddrV4};
use wayside_protocol::controller::{Counters, SessionRecord, Stage};
use wayside_protocol::seal::Secret;

/// What all layouts have, without the first byte: numbers, address, lease, the host's name, stage 1.
const SESSION: &str = concat!(
    "000000000000000900000000000000aa00000000000000bb0a01020312670002",
    "000f4240000030390000004d",
    "6120686f73740000000000000000000000000000000000000000000000000000",
    "01"
);
/// From layout 2 on.
const SECRET: &str = "011111111111111111111111111111111111111111111111111111111111111111";
/// From layout 3 on.
const ADMISSION: &str = "0000000000000007";
const COUNTERS: &str = "000000070000000300000000000000090201";

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn session() -> SessionRecord {
    let mut host = [0; 32];
    host[..6].copy_from_slice(b"a host");
    SessionRecord {
        incarnation: 9,
        nonce: 0xaa,
        lifeline: 0xbb,
        address: SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 4711),
        namespace: 2,
        lease: 1_000_000,
        grace: 12_345,
        pid: 77,
        host,
        stage: Stage::Mourned,
        secret: None,
        admission: 0,
    }
}

#[test]
fn sessions_of_every_layout_are_taken_up() {
    let secret = Some(Secret([0x11; 32]));
    for (layout, bytes, record) in [
        (1, format!("01{SESSION}"), session()),
        (2, format!("02{SESSION}{SECRET}"), SessionRecord { secret, ..session() }),
        (3, format!("03{SESSION}{SECRET}{ADMISSION}"), SessionRecord { secret, admission: 7, ..session() }),
    ] {
        assert_eq!(SessionRecord::decode(&unhex(&bytes)), Some(record), "layout {layout}");
    }
}

#[test]
fn counters_of_every_layout_are_taken_up() {
    let counters = Counters { epoch: 7, starts: 3, incarnation: 9, handle: 0x201 };
    for layout in 1..=3 {
        assert_eq!(Counters::decode(&unhex(&format!("0{layout}{COUNTERS}"))), Some(counters), "layout {layout}");
    }
}

/// Without this, a new layout would have no bytes above.
#[test]
fn what_is_written_today_is_the_last_of_these() {
    let record = SessionRecord { secret: Some(Secret([0x11; 32])), admission: 7, ..session() };
    assert_eq!(record.encode(5).1, unhex(&format!("03{SESSION}{SECRET}{ADMISSION}")));
    let counters = Counters { epoch: 7, starts: 3, incarnation: 9, handle: 0x201 };
    assert_eq!(counters.encode().1, unhex(&format!("03{COUNTERS}")));
}
