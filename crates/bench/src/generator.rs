//! 32 locks in a packet, packet by packet: what the switch does in a second, without guards and without a request
//! behind each lock. The same generator asks the switch for locks and the echo for an echo of the same packet:
//!
//! * it writes an ACQUIRE of 32 names that nobody has, of a real session: handle, epoch, request ids above the
//!   session's own;
//! * it sends that over the endpoint that is measured and waits for the answer;
//! * it checks every entry of it: name, request, slot, holder, flags, the slot's state, and that its tenure, with the
//!   epoch the stamp of a token, is above the one seen there before; and keeps the packet. The echo's entries are
//!   checked alike against what was sent.
//!
//! The switch has granted these locks, and says that this node is their agent. So every GRANT is handed to the
//! session, not timed: no request of it waits for that, so the node gives all back, as it does with any grant that it
//! no longer wants.

use crate::Error;
use crate::samples::Samples;
use crate::wayside::Contestant;
use std::time::Instant;
use wayside_client::probe::{Bypass, Probe};
use wayside_client::{Session, SessionInfo};
use wayside_wire::limits::{MAX_ENTRIES, MAX_PACKET_BYTES};
use wayside_wire::{Entry, Header, SlotBits, SlotState, check, entries, entry_at, entry_flag, kind, service, slot_of};

/// Packets that are timed together.
pub(crate) const RUN: usize = 20;
/// Above whatever else this program asks for: names, and request ids within an incarnation, which has 40 bits for them.
const FIRST_NAME: u64 = 1 << 40;
const FIRST_REQUEST: u64 = 1 << 39;

type Packet = [u8; MAX_PACKET_BYTES];

/// Makes packets that nobody has made before, and checks what comes of them.
pub(crate) struct Generator {
    made: u64,
    kept: Vec<Packet>,
    /// By slot: the least tenure that a grant may have, and that an echo may.
    least: [Vec<u32>; 2],
    pub(crate) grants: Samples,
    pub(crate) echoes: Samples,
}

impl Generator {
    pub(crate) fn new() -> Generator {
        Generator {
            made: 0,
            kept: vec![[0; MAX_PACKET_BYTES]; RUN],
            least: [Vec::new(), Vec::new()],
            grants: Samples::new("packet of 32 locks, checked"),
            echoes: Samples::new("echo of that packet, checked"),
        }
    }

    /// A run of packets to the switch, one after the other; then all is given back.
    pub(crate) fn acquire(&mut self, contestant: &Contestant) -> Result<(), Error> {
        let info = self.begin(&contestant.session)?;
        let bypass = Bypass::of(&contestant.session).map_err(|error| error.to_string())?;
        let began = Instant::now();
        self.run(info, Answer::Grant, |packet, accepted| bypass.exchange(packet, accepted))?;
        self.grants.record_each(began, RUN as u64);
        for packet in &self.kept {
            bypass.hand_in(packet);
            // The answers to 640 packets at once would not fit into a socket's buffer.
            contestant.settle()?;
        }
        Ok(())
    }

    /// As many to the echo.
    pub(crate) fn echo(&mut self, session: &Session, probe: &Probe) -> Result<(), Error> {
        let info = self.begin(session)?;
        let began = Instant::now();
        self.run(info, Answer::Echo, |packet, accepted| probe.exchange(packet, accepted))?;
        self.echoes.record_each(began, RUN as u64);
        Ok(())
    }

    fn begin(&mut self, session: &Session) -> Result<SessionInfo, Error> {
        let info = session.info().ok_or("the session is over")?;
        self.least.iter_mut().for_each(|least| least.resize(info.slots as usize, 0));
        Ok(info)
    }

    fn run(
        &mut self,
        info: SessionInfo,
        expected: Answer,
        exchange: impl Fn(&[u8], &mut dyn FnMut(&[u8]) -> bool) -> bool,
    ) -> Result<(), Error> {
        let mut packet = [0; MAX_PACKET_BYTES];
        let least = &mut self.least[expected as usize];
        for kept in &mut self.kept {
            let first = self.made * MAX_ENTRIES as u64;
            self.made += 1;
            write(&info, first, &mut packet);
            let mut take = |answer: &[u8]| {
                let good = is_answer(&info, first, expected, least, answer);
                if good {
                    kept.copy_from_slice(answer);
                }
                good
            };
            if !exchange(&packet, &mut take) {
                let by = if expected == Answer::Grant { "switch" } else { "echo" };
                return Err(format!("the {by} does not answer a packet of {MAX_ENTRIES} locks as it should"));
            }
        }
        Ok(())
    }
}

/// What an answer is to be, and which of the generator's books it is held against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Grant,
    Echo,
}

/// Entry `index` of the packet whose first is the `first` of all.
fn wish(info: &SessionInfo, first: u64, index: usize) -> Entry {
    let number = first + index as u64;
    Entry {
        name: FIRST_NAME + number,
        request: info.incarnation << 40 | (FIRST_REQUEST + number),
        slot: slot_of(FIRST_NAME + number, info.slots),
        holder: info.handle,
        flags: entry_flag::EXCLUSIVE,
        ..Entry::default()
    }
}

fn write(info: &SessionInfo, first: u64, packet: &mut Packet) {
    Header {
        service: service::LOCK,
        kind: kind::lock::ACQUIRE,
        count: MAX_ENTRIES as u8,
        source: info.handle,
        namespace: info.namespace,
        epoch: info.epoch,
        ..Header::default()
    }
    .write(packet);
    for index in 0..MAX_ENTRIES {
        wish(info, first, index).write(packet, entry_at(index));
    }
}

fn is_answer(info: &SessionInfo, first: u64, expected: Answer, least: &mut [u32], packet: &[u8]) -> bool {
    let Ok(header) = check(packet) else { return false };
    // A grant's tenure is over when the lock is given back, an echo has none.
    let ends = u32::from(expected == Answer::Grant);
    let (kind, flags, state) = match expected {
        Answer::Grant => (kind::lock::GRANT, entry_flag::EXCLUSIVE | entry_flag::AGENCY, SlotState::Managed),
        Answer::Echo => (kind::lock::ACQUIRE, entry_flag::EXCLUSIVE, SlotState::Unheld),
    };
    header.service == service::LOCK
        && header.kind == kind
        && header.epoch == info.epoch
        && usize::from(header.count) == MAX_ENTRIES
        && entries(packet).enumerate().all(|(index, entry)| {
            let wish = wish(info, first, index);
            let least = &mut least[wish.slot as usize];
            let good = (entry.name, entry.request) == (wish.name, wish.request)
                && (entry.slot, entry.holder) == (wish.slot, wish.holder)
                && entry.flags == flags
                && SlotBits::from_u16(entry.slot_bits).state == state
                && entry.tenure >= *least;
            *least = (*least).max(entry.tenure + ends);
            good
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 1 << 10;

    fn info() -> SessionInfo {
        SessionInfo {
            handle: 7,
            incarnation: 3,
            epoch: 5,
            namespace: 1,
            slots: SLOTS as u32,
            engine: wayside_wire::Engine::Fission,
            policy: wayside_wire::Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            lease: 0,
            grace: 0,
            lease_end: Default::default(),
            lifeline: 0,
            signed: false,
            version: wayside_wire::VERSION,
        }
    }

    /// As the switch makes a GRANT of it, but for the addresses.
    fn granted(packet: &Packet, but: impl Fn(usize, &mut Entry)) -> Packet {
        let mut grant = *packet;
        Header { kind: kind::lock::GRANT, ..check(packet).unwrap() }.write(&mut grant);
        for (index, mut entry) in entries(packet).enumerate() {
            entry.flags |= entry_flag::AGENCY;
            let bits = SlotBits { state: SlotState::Managed, transferred: false, tryable: false, joins: 0 };
            entry.slot_bits = bits.to_u16();
            but(index, &mut entry);
            entry.write(&mut grant, entry_at(index));
        }
        grant
    }

    #[test]
    fn an_answer_with_one_wrong_entry_is_none() {
        let mut packet = [0; MAX_PACKET_BYTES];
        write(&info(), 64, &mut packet);
        let is = |expected, packet: &Packet| is_answer(&info(), 64, expected, &mut vec![0; SLOTS], packet);
        assert!(is(Answer::Echo, &packet) && !is(Answer::Grant, &packet));
        let grant = granted(&packet, |_, _| {});
        assert!(is(Answer::Grant, &grant) && !is(Answer::Echo, &grant));
        assert!(!is_answer(&info(), 96, Answer::Grant, &mut vec![0; SLOTS], &grant), "of another packet");
        type Change = fn(&mut Entry);
        let changes: [Change; 5] = [
            |entry| entry.flags &= !entry_flag::AGENCY,
            |entry| entry.slot += 1,
            |entry| entry.request += 1,
            |entry| entry.slot_bits = 0,
            |entry| entry.name += 1,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let wrong = granted(&packet, |index, entry| {
                if index == 31 {
                    change(entry);
                }
            });
            assert!(!is(Answer::Grant, &wrong), "change {at}");
        }
    }

    #[test]
    fn a_slot_is_not_granted_twice_in_a_tenure() {
        let mut packet = [0; MAX_PACKET_BYTES];
        write(&info(), 0, &mut packet);
        let mut least = vec![0; SLOTS];
        let mut is = |tenure: u32| {
            let grant = granted(&packet, |_, entry| entry.tenure = tenure);
            is_answer(&info(), 0, Answer::Grant, &mut least, &grant)
        };
        assert_eq!([0, 0, 1, 3, 3, 2, 4].map(&mut is), [true, false, true, true, false, false, true]);
    }
}
