//! Whole packets: what is read and written, and in which order a bad one is refused.

use crate::{
    Body, ChainKind, DropReason, Entry, FabricKind, Header, LockKind, MAGIC, MAJOR, QueueKind, Service, VERSION, limits,
};

/// Where the body, or the first entry, starts.
pub const BODY: usize = limits::HEADER_BYTES;

/// Where entry `index` starts.
#[inline]
pub const fn entry_at(index: usize) -> usize {
    BODY + index * limits::ENTRY_BYTES
}

impl Header {
    /// Reads a header that is long enough, has the magic and our major version. A newer minor one is welcome.
    #[inline]
    pub fn read(packet: &[u8]) -> Result<Header, DropReason> {
        if packet.len() < Header::BYTES {
            return Err(DropReason::TooShort);
        }
        if packet[..2] != MAGIC.to_be_bytes() {
            return Err(DropReason::BadMagic);
        }
        if packet[2] >> 4 != MAJOR {
            return Err(DropReason::ForeignVersion);
        }
        Ok(Header::read_fields(packet, 0))
    }

    /// Writes the header, with our magic and version, to the start of `packet`.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        debug_assert_eq!(VERSION >> 4, MAJOR);
        self.write_fields(packet, 0);
    }
}

/// What follows the header in packets of this kind.
#[inline]
pub fn body_of(service: u8, kind: u8) -> Result<Body, DropReason> {
    let unknown_kind = |_| DropReason::UnknownKind;
    match Service::try_from(service).map_err(|_| DropReason::UnknownService)? {
        Service::Fabric => FabricKind::try_from(kind).map(FabricKind::body).map_err(unknown_kind),
        Service::Lock => LockKind::try_from(kind).map(LockKind::body).map_err(unknown_kind),
        Service::Queue => QueueKind::try_from(kind).map(QueueKind::body).map_err(unknown_kind),
        Service::Chain => ChainKind::try_from(kind).map(ChainKind::body).map_err(unknown_kind),
    }
}

/// Exact length of a packet of this kind, with `count` entries or blocks.
#[inline]
pub fn packet_bytes(service: u8, kind: u8, count: u8) -> Result<usize, DropReason> {
    Ok(BODY + body_of(service, kind)?.bytes(count))
}

/// Whether these bytes are a packet: header, known kind, count, exact length, in this order. Says nothing about state.
#[inline]
pub fn check(packet: &[u8]) -> Result<Header, DropReason> {
    let header = Header::read(packet)?;
    let body = body_of(header.service, header.kind)?;
    if !body.count_fits(header.count) {
        return Err(DropReason::BadCount);
    }
    if packet.len() != BODY + body.bytes(header.count) {
        return Err(DropReason::BadLength);
    }
    Ok(header)
}

/// The entries of a packet that [`check`] has passed; none, where its kind has a body of its own.
pub fn entries(packet: &[u8]) -> impl ExactSizeIterator<Item = Entry> + '_ {
    let header = Header::read_fields(packet, 0);
    let count = if body_of(header.service, header.kind) == Ok(Body::Entries) { header.count } else { 0 };
    (0..usize::from(count)).map(|index| Entry::read(packet, entry_at(index)))
}

/// The blocks that follow the body of a packet that [`check`] has passed: a whole number of them, or none.
pub fn blocks(packet: &[u8]) -> &[u8] {
    let header = Header::read_fields(packet, 0);
    match body_of(header.service, header.kind) {
        Ok(Body::Entries) | Err(_) => &[],
        Ok(body) => &packet[BODY + body.bytes(0)..],
    }
}

/// Text padded with zeros to a field's length; `None` if it is too long or holds a zero.
pub fn padded<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut field = [0; N];
    field.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    (!text.contains('\0')).then_some(field)
}

/// The text of a padded field; `None` if it is no UTF-8, or more than zeros follow its end.
pub fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let clean = field[end..].iter().all(|&byte| byte == 0);
    core::str::from_utf8(&field[..end]).ok().filter(|_| clean)
}
