//! Ethernet, IPv4 and UDP around a packet.

use std::net::SocketAddrV4;

/// Ethernet, IPv4 without options, UDP.
pub(super) const ENVELOPE: usize = 14 + 20 + 8;
const IP: usize = 14;
const UDP: usize = IP + 20;

/// From one port of this host to one port of another, by a next hop: all that is the same in every frame.
pub(super) struct Envelope {
    bytes: [u8; ENVELOPE],
    /// IPv4's checksum so far: without the length.
    sum: u32,
}

impl Envelope {
    pub(super) fn new(macs: [[u8; 6]; 2], from: SocketAddrV4, to: SocketAddrV4) -> Envelope {
        let mut bytes = [0; ENVELOPE];
        bytes[..6].copy_from_slice(&macs[1]);
        bytes[6..12].copy_from_slice(&macs[0]);
        bytes[12..IP].copy_from_slice(&[0x08, 0x00]);
        // IPv4 of five words, not to be fragmented, 64 hops, UDP.
        bytes[IP..IP + 10].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17]);
        bytes[IP + 12..IP + 16].copy_from_slice(&from.ip().octets());
        bytes[IP + 16..UDP].copy_from_slice(&to.ip().octets());
        bytes[UDP..UDP + 2].copy_from_slice(&from.port().to_be_bytes());
        bytes[UDP + 2..UDP + 4].copy_from_slice(&to.port().to_be_bytes());
        let sum = bytes[IP..UDP].chunks_exact(2).map(|half| u32::from(u16::from_be_bytes([half[0], half[1]]))).sum();
        Envelope { bytes, sum }
    }

    /// Writes the frame of `packet`, without UDP's checksum, as IPv4 allows. Its length; None where it does not fit.
    pub(super) fn write(&self, frame: &mut [u8], packet: &[u8]) -> Option<usize> {
        let whole = ENVELOPE + packet.len();
        let frame = frame.get_mut(..whole)?;
        let length = u16::try_from(whole - IP).ok()?;
        let sum = self.sum + u32::from(length);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[..ENVELOPE].copy_from_slice(&self.bytes);
        frame[IP + 2..IP + 4].copy_from_slice(&length.to_be_bytes());
        frame[IP + 10..IP + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        frame[UDP + 4..UDP + 6].copy_from_slice(&(length - 20).to_be_bytes());
        frame[ENVELOPE..].copy_from_slice(packet);
        Some(whole)
    }
}

/// The packet in a frame that the XDP program let through, if it is for port `number`: the number may have changed
/// since.
pub(super) fn packet_for(number: u16, frame: &[u8]) -> Option<&[u8]> {
    let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    if half(UDP + 2)? != number {
        return None;
    }
    // Ethernet pads short frames: UDP's length counts.
    frame.get(ENVELOPE..UDP + usize::from(half(UDP + 4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        Envelope::new(macs, "10.9.0.1:4000".parse().unwrap(), "10.9.0.2:7600".parse().unwrap())
    }

    #[test]
    fn a_frame_is_what_ethernet_ipv4_and_udp_ask_for() {
        let mut frame = [0xee; 64];
        assert_eq!(envelope().write(&mut frame, b"lock"), Some(46));
        let expected = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // to, from, IPv4
            0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0x26, 0xb9, 10, 9, 0, 1, 10, 9, 0, 2, // 4 + 8 + 20 bytes
            0x0f, 0xa0, 0x1d, 0xb0, 0, 12, 0, 0, b'l', b'o', b'c', b'k',
        ];
        assert_eq!(frame[..46], expected);
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        assert_eq!(envelope().write(&mut [0; 45], b"lock"), None);
    }

    #[test]
    fn a_packet_is_read_without_padding_and_only_by_its_port() {
        let mut frame = [0; 60];
        envelope().write(&mut frame, b"lock").unwrap();
        assert_eq!(packet_for(7600, &frame), Some(&b"lock"[..]));
        assert_eq!(packet_for(7601, &frame), None);
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let mut frame = [0; 46];
        envelope().write(&mut frame, b"lock").unwrap();
        for length in [0u16, 7, 13, u16::MAX] {
            frame[UDP + 4..UDP + 6].copy_from_slice(&length.to_be_bytes());
            assert_eq!(packet_for(7600, &frame), None, "{length}");
        }
        assert_eq!(packet_for(7600, &frame[..UDP + 3]), None);
    }
}
