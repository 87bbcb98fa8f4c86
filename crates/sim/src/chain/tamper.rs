//! The core with a rule missing, as crate::tamper has it: packets are changed on their way in, or out, so that it comes
//! to the same.

use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{Key, Place, Version};
use wayside_switch::{Action, Verdict};
use wayside_wire::{BODY, Effect, Header, Operation, Outcome, check, kind, limits, service};

use super::World;
use crate::CoreMutant;
use crate::dice::Dice;
use crate::network::Flight;

/// Purpose of dice.
const TAMPER: u64 = 45;

impl World {
    /// Makes a packet fulfil the condition that the core does not ask for. `within`: somebody may have a lock.
    pub(super) fn tamper(&mut self, flight: &mut Flight, within: bool) {
        let Some(mutant) = self.options.core.filter(|_| !flight.is_tampered) else { return };
        let Ok(mut header) = check(&flight.packet) else { return };
        if header.service != service::CHAIN || !self.is_genuine(flight, header.source) {
            return;
        }
        let switch = self.seats[flight.seat].switch.clone();
        let mut operation = Operation::read(&flight.packet, BODY);
        let writes = matches!(header.kind, kind::chain::WRITE | kind::chain::DELETE);
        let applies = header.kind == kind::chain::APPLY;
        match mutant {
            CoreMutant::ForgetLanes if writes => {
                self.starts += 1;
                let mut dice = Dice::of(self.seed, &[TAMPER, self.starts]);
                operation.lane = dice.below(limits::MAX_LANES as u64) as u8;
                operation.write(&mut flight.packet, BODY);
            }
            CoreMutant::OlderRequests if writes && !within => {
                let is_older = |lane: &u8| {
                    let remembered = switch.lane(header.source, *lane).request;
                    remembered == 0 || operation.request.wrapping_sub(remembered).wrapping_sub(1) < 1 << 63
                };
                let repeats = |lane: u8| switch.lane(header.source, lane).request == operation.request;
                if !is_older(&operation.lane) && !repeats(operation.lane) {
                    operation.lane = (0..limits::MAX_LANES as u8).find(is_older).unwrap_or(operation.lane);
                    operation.write(&mut flight.packet, BODY);
                }
            }
            CoreMutant::AnyVersion | CoreMutant::DropOvertaken if applies && !within => {
                let effect = Effect::read(&flight.packet, BODY);
                let version = Version { epoch: effect.epoch, sequence: effect.sequence };
                let key = Key { high: effect.key_high, low: effect.key_low, check: 0 };
                if switch.content(effect.group, key).is_none_or(|content| content.version < version) {
                    return;
                }
                if mutant == CoreMutant::DropOvertaken {
                    return flight.packet.truncate(1);
                }
                switch.remove(effect.group, key);
                let _ = switch.insert(effect.group, key, Version::default());
            }
            CoreMutant::AnyFirstEpoch if writes => {
                operation.first_epoch = 0;
                operation.write(&mut flight.packet, BODY);
            }
            CoreMutant::AnyGroupEpoch if header.kind <= kind::chain::APPLY => {
                header.epoch = switch.place(operation.group).epoch;
                header.write(&mut flight.packet);
            }
            _ => return,
        }
        self.sign_up(flight, header.source);
    }

    /// Whether its source, as it is now, has signed it.
    fn is_genuine(&self, flight: &Flight, source: u16) -> bool {
        !self.setup.authenticated || self.up_key(flight.seat, source).is_some_and(|key| key.made_tag(&flight.packet))
    }

    fn sign_up(&self, flight: &mut Flight, source: u16) {
        if self.setup.authenticated
            && let Some(key) = self.up_key(flight.seat, source)
        {
            key.sign(0, &mut flight.packet);
        }
    }

    /// What a switch lets somebody read at a place that is not the tail's.
    pub(super) fn at_another_place(&self, flight: &Flight, within: bool) -> Option<(u16, Place)> {
        if self.options.core != Some(CoreMutant::ReadAnywhere) || within {
            return None;
        }
        let header = check(&flight.packet).ok()?;
        if header.service != service::CHAIN || header.kind != kind::chain::READ {
            return None;
        }
        let group = Operation::read(&flight.packet, BODY).group;
        let place = self.seats[flight.seat].switch.place(group);
        (place.epoch != 0 && place.next != 0).then_some((group, place))
    }

    /// Where a mutant's read goes: to any switch of the chain.
    pub(super) fn strayed(&mut self, packet: &[u8]) -> Option<usize> {
        if self.options.core != Some(CoreMutant::ReadAnywhere) {
            return None;
        }
        let header = Header::read(packet).ok()?;
        if header.service != service::CHAIN || header.kind != kind::chain::READ {
            return None;
        }
        let chain = self.chain_of(Operation::read(packet, BODY).group);
        self.starts += 1;
        let mut dice = Dice::of(self.seed, &[TAMPER, self.starts]);
        (!chain.is_empty()).then(|| dice.pick(&chain))
    }

    /// Changes what the core has decided.
    pub(super) fn spoil(&self, seat: usize, verdict: Verdict, packet: &mut [u8]) -> Verdict {
        let Some(mutant) = self.options.core else { return verdict };
        let Ok(header) = check(packet) else { return verdict };
        if header.service != service::CHAIN || header.kind != kind::chain::APPLY {
            return verdict;
        }
        let mut effect = Effect::read(packet, BODY);
        let switch = &self.seats[seat].switch;
        match mutant {
            CoreMutant::ShortSequences => {
                effect.sequence &= 0xffff;
                effect.own_sequence &= 0xffff;
                effect.write(packet, BODY);
                let _ = switch.seal(header.destination, packet);
                verdict
            }
            CoreMutant::AnswerAtHead if effect.outcome == Outcome::Unmet as u8 => {
                let (handle, port) = (effect.client, effect.reply_port);
                Header { kind: kind::chain::ANSWER, source: 0, destination: handle, ..header }.write(packet);
                let _ = switch.seal(handle, packet);
                Verdict { action: Action::ToNode { handle, port }, ..verdict }
            }
            _ => verdict,
        }
    }
}
