//! Which names of a hybrid namespace have their queue in the switch: docs/queue.md, "Fission with queues for the
//! hottest locks".
//!
//! Invariant: the list of a namespace is the same for as long as its epoch lasts, and a node's is that of the epoch
//! that its session is under. So no two ask for one name at two places.

use alloc::vec::Vec;
use wayside_wire::{Listed, blocks, limits, mix};

/// Name ids, which rise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<u64>);

/// Names in a block of a packet.
const IN_BLOCK: usize = limits::BLOCK_BYTES / 8;

impl Names {
    /// As many as a packet tells.
    pub const MOST: usize = limits::MAX_LISTED;

    /// These, in any order. None: more than [`Names::MOST`].
    pub fn new(names: impl IntoIterator<Item = u64>) -> Option<Names> {
        let mut names: Vec<u64> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        (names.len() <= Names::MOST).then_some(Names(names))
    }

    /// Whether this one is listed.
    #[inline]
    pub fn has(&self, name: u64) -> bool {
        self.0.binary_search(&name).is_ok()
    }

    /// None is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    /// By which two ends see that they have the same list; 0 of an empty one. Against slips, not against a foe: whoever
    /// could look for another list with the same one writes the configuration.
    pub fn fingerprint(&self) -> u64 {
        self.0.iter().fold(0, |folded, name| mix(folded ^ mix(*name).wrapping_add(1)) | 1)
    }

    /// What a NAMES begins with, in answer to an ENROL.
    pub(crate) fn to_body(&self, nonce: u64) -> wayside_wire::Names {
        wayside_wire::Names { nonce, fingerprint: self.fingerprint(), listed: self.0.len() as u16 }
    }

    /// The blocks of a NAMES.
    pub(crate) fn to_blocks(&self) -> Vec<Listed> {
        let block = |names: &[u64]| {
            let at = |index: usize| names.get(index).copied().unwrap_or(0);
            Listed { first: at(0), second: at(1), third: at(2), fourth: at(3) }
        };
        self.0.chunks(IN_BLOCK).map(block).collect()
    }

    /// What a NAMES that `check` has passed tells. None: it makes no sense.
    pub(crate) fn read(packet: &[u8], told: &wayside_wire::Names) -> Option<Names> {
        let blocks = blocks(packet).chunks_exact(limits::BLOCK_BYTES).map(|block| Listed::read(block, 0));
        let all = blocks.flat_map(|block| [block.first, block.second, block.third, block.fourth]);
        let names: Vec<u64> = all.take(told.listed.into()).collect();
        let is_whole = names.len() == usize::from(told.listed) && names.is_sorted_by(|one, next| one < next);
        let names = Names(names);
        (is_whole && names.fingerprint() == told.fingerprint).then_some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use wayside_wire::{BODY, Header, kind, service};

    fn packet(names: &Names) -> Vec<u8> {
        let blocks = names.to_blocks();
        let mut packet = vec![0; BODY + wayside_wire::Names::BYTES + blocks.len() * limits::BLOCK_BYTES];
        let count = blocks.len() as u8;
        Header { service: service::FABRIC, kind: kind::fabric::NAMES, count, ..Header::default() }.write(&mut packet);
        for (index, block) in blocks.iter().enumerate() {
            block.write(&mut packet, BODY + wayside_wire::Names::BYTES + index * limits::BLOCK_BYTES);
        }
        packet
    }

    #[test]
    fn a_list_reads_back_whatever_its_length() {
        for count in [0, 1, 3, 4, 5, 119, 120] {
            let names = Names::new((0..count).map(|name| mix(name + 1))).expect("no more than fit");
            let packet = packet(&names);
            assert!(wayside_wire::check(&packet).is_ok() && packet.len() <= limits::MAX_PACKET_BYTES);
            assert_eq!(Names::read(&packet, &names.to_body(7)), Some(names));
        }
        assert_eq!(Names::new(0..121), None);
    }

    #[test]
    fn a_list_that_makes_no_sense_is_none() {
        let names = Names::new([3, 5, 9]).expect("few");
        let good = packet(&names);
        let is_read = |told: wayside_wire::Names| Names::read(&good, &told).is_some();
        assert!(is_read(names.to_body(7)));
        assert!(!is_read(wayside_wire::Names { listed: 2, ..names.to_body(7) }), "another list's fingerprint");
        assert!(!is_read(wayside_wire::Names { listed: 4, ..names.to_body(7) }), "0 is not above 9");
        assert!(!is_read(wayside_wire::Names { listed: 5, ..names.to_body(7) }), "more than the blocks have");
    }

    /// Its fingerprint is right: whoever made it up can compute that.
    #[test]
    fn a_list_that_is_not_in_order_is_none() {
        for names in [vec![5, 3], vec![3, 3], vec![3, 5, 5]] {
            let names = Names(names);
            assert_eq!(Names::read(&packet(&names), &names.to_body(7)), None, "{names:?}");
        }
    }

    #[test]
    fn an_empty_list_says_so() {
        assert_eq!([&[][..], &[0]].map(|names| Names(names.to_vec()).is_empty()), [true, false]);
    }

    #[test]
    fn lists_that_differ_are_told_apart() {
        let lists = [&[][..], &[0], &[1], &[0, 1], &[1, 2], &[0, 1, 2], &[2]];
        let prints = lists.map(|names| Names::new(names.iter().copied()).expect("few").fingerprint());
        let mut distinct = prints.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), prints.len());
        assert_eq!(prints[0], 0);
        assert_eq!(Names::new([5, 3, 5]), Names::new([3, 5]));
    }
}
