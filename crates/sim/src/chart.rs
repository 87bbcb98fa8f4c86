//! The message chart: every packet and every event of a run as a line that people can read.

use std::fmt::Write;
use std::net::SocketAddrV4;

use wayside_wire::{
    BODY, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, LockKind, Service, SlotBits, check, entries,
    entry_flag, header_flag,
};

/// `Some(name)` of every flag that is set.
const HEADER_FLAGS: &[(u16, &str)] = &[
    (header_flag::CLAIM, "CLAIM"),
    (header_flag::APPLIED, "APPLIED"),
    (header_flag::REFUSED, "REFUSED"),
    (header_flag::STALE_TENURE, "STALE"),
    (header_flag::LAST, "LAST"),
    (header_flag::DEAD, "DEAD"),
    (header_flag::EXPIRED, "EXPIRED"),
    (header_flag::CLEAN, "CLEAN"),
    (header_flag::RETRY, "RETRY"),
    (header_flag::KEY, "KEY"),
];

const ENTRY_FLAGS: &[(u8, &str)] = &[
    (entry_flag::EXCLUSIVE, "X"),
    (entry_flag::TRY, "TRY"),
    (entry_flag::AGENCY, "AGENCY"),
    (entry_flag::JOINED, "JOINED"),
    (entry_flag::HELD, "HELD"),
    (entry_flag::DEAD, "DEAD"),
];

/// A packet in words.
pub fn packet(bytes: &[u8]) -> String {
    let header = match check(bytes) {
        Ok(header) => header,
        Err(reason) => return format!("{} bytes: {}", bytes.len(), reason.name()),
    };
    let mut line = String::new();
    let known = match Service::try_from(header.service) {
        Ok(Service::Fabric) => FabricKind::try_from(header.kind).map(|kind| fabric(&mut line, kind, &header, bytes)),
        _ => LockKind::try_from(header.kind).map(|kind| lock(&mut line, kind, &header, bytes)),
    };
    debug_assert!(known.is_ok(), "checked");
    line
}

fn head(line: &mut String, name: &str, header: &Header) {
    let _ = write!(line, "{:<13} {}>{} e{}", name.to_uppercase(), header.source, header.destination, header.epoch);
    if header.position != 0 {
        let _ = write!(line, " @{}", header.position);
    }
    for (_, name) in HEADER_FLAGS.iter().filter(|(flag, _)| header.flags & flag != 0) {
        let _ = write!(line, " {name}");
    }
}

fn fabric(line: &mut String, kind: FabricKind, header: &Header, bytes: &[u8]) {
    head(line, kind.name(), header);
    let _ = match kind {
        FabricKind::Enrol => write!(line, " nonce {:x}", Enrol::read(bytes, BODY).nonce),
        FabricKind::Enrolled => {
            let body = Enrolled::read(bytes, BODY);
            write!(line, " nonce {:x} incarnation {} lease {} us", body.nonce, body.incarnation, body.lease_us)
        }
        _ => {
            let body = Heartbeat::read(bytes, BODY);
            write!(line, " #{} oldest {:x} incarnation {}", body.sequence, body.oldest, body.incarnation)
        }
    };
}

fn lock(line: &mut String, kind: LockKind, header: &Header, bytes: &[u8]) {
    head(line, kind.name(), header);
    for entry in entries(bytes) {
        let _ = write!(line, " | ");
        one(line, &entry);
    }
}

fn one(line: &mut String, entry: &Entry) {
    let bits = SlotBits::from_u16(entry.slot_bits);
    let _ =
        write!(line, "s{} t{} n{} h{} r{:x}", entry.slot as i32, entry.tenure, entry.name, entry.holder, entry.request);
    let _ = write!(line, " {:?}", bits.state);
    if bits.transferred {
        line.push_str("/moved");
    }
    if bits.tryable {
        line.push_str("/try");
    }
    let _ = write!(line, " j{} q{}", bits.joins, entry.sequence);
    for (_, name) in ENTRY_FLAGS.iter().filter(|(flag, _)| entry.flags & flag != 0) {
        let _ = write!(line, " {name}");
    }
}

/// An address in words: hosts are 10.0.0.1 and up.
pub fn place(address: SocketAddrV4) -> String {
    format!("h{}:{}", address.ip().octets()[3].wrapping_sub(1), address.port())
}
