//! An input as a sequence of commands: numbers from its bytes, zeros after its end.

use wayside_wire::{BODY, Entry, Header, Heartbeat, check, entry_at, limits, packet_bytes};

/// The rest of an input.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// Whether there is nothing left: the end of the commands.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let there = N.min(self.0.len());
        taken[..there].copy_from_slice(&self.0[..there]);
        self.0 = &self.0[there..];
        taken
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// As many bytes as the next two say, as far as there are so many.
    pub fn slice(&mut self) -> Vec<u8> {
        let length = usize::from(self.u16()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken.to_vec()
    }

    /// Small as a rule, or at the end of its 32 bits, or any: as tenures and epochs matter.
    pub fn counter(&mut self) -> u32 {
        match self.u8() {
            small @ 0..=0x7f => small.into(),
            0xff => self.u32(),
            high => u32::MAX - u32::from(0xfe - high),
        }
    }

    /// Time that passes: up to a second or up to an hour.
    pub fn pause(&mut self) -> u64 {
        let bits = self.u8();
        u64::from(bits & 0x0f) << (2 * (bits >> 4))
    }
}

/// What a packet of a session may be about.
pub struct Known<'a> {
    /// Of the switch.
    pub epoch: u32,
    /// Ids that requests have had so far, the latest last.
    pub requests: &'a [u64],
    /// Incarnation of the session, of which other ids are made.
    pub incarnation: u64,
    /// Of the latest ENROL, or any other that is known.
    pub nonces: &'a [u64],
}

/// A packet that is right in its form, and in the rest as the input says: what a mutation of bytes would take long to
/// find, as lengths and ids have to match.
pub fn packet(input: &mut Bytes, known: &Known) -> Vec<u8> {
    let (service, kind) = (input.u8() & 1, input.u8() & 31);
    let count = (input.u8() % 33).max(1);
    let epoch = match input.u8() {
        0xff => input.u32(),
        other => known.epoch.wrapping_add_signed((other as i8).into()),
    };
    let entries = packet_bytes(service, kind, count).is_ok_and(|bytes| bytes == entry_at(count.into()) && service == 1);
    let header = Header {
        service,
        kind,
        count: if entries { count } else { 0 },
        flags: input.u16(),
        source: input.u8().into(),
        destination: (input.u8() ^ 1).into(),
        epoch,
        shard_map: input.u8().into(),
        namespace: (input.u8() ^ 1).into(),
        position: input.u16(),
        tag: 0,
    };
    let mut packet = vec![0; packet_bytes(service, kind, header.count).unwrap_or(BODY)];
    header.write(&mut packet);
    if entries {
        for index in 0..usize::from(count) {
            entry(input, known).write(&mut packet, entry_at(index));
        }
    } else if packet.len() == BODY + limits::ENTRY_BYTES {
        Heartbeat {
            sequence: request(input, known),
            oldest: request(input, known),
            sent_us: input.u32().into(),
            incarnation: known.incarnation.wrapping_add_signed((input.u8() as i8).into()),
        }
        .write(&mut packet, BODY);
    } else if packet.len() > BODY {
        let nonce = pick(known.nonces, input.u8()).unwrap_or_else(|| input.u64());
        packet[BODY..BODY + 8].copy_from_slice(&nonce.to_be_bytes());
        packet[BODY + 8..].fill_with(|| input.u8());
    }
    if packet.len() > BODY {
        assert!(check(&packet).is_ok(), "right in its form");
    }
    packet
}

fn entry(input: &mut Bytes, known: &Known) -> Entry {
    let name = input.u8();
    Entry {
        name: (name & 15).into(),
        request: request(input, known),
        slot: (name >> 4 ^ name & 7).into(),
        tenure: input.counter(),
        holder: (input.u8() ^ 1).into(),
        reply_port: 20_000 + u16::from(input.u8()),
        slot_bits: input.u16(),
        flags: input.u8(),
        sequence: input.u8(),
    }
}

fn request(input: &mut Bytes, known: &Known) -> u64 {
    let which = input.u8();
    match which {
        0xff => input.u64(),
        0xf0.. => (known.incarnation << 40).wrapping_add_signed(i64::from(which & 15) - 8),
        0xc0.. => u64::from(which & 63),
        which => pick(known.requests, which).unwrap_or(which.into()),
    }
}

/// The latest but so many.
fn pick(from: &[u64], back: u8) -> Option<u64> {
    from.iter().rev().nth(back.into()).copied()
}
