//! What a switch makes of a packet, on one processor or on two.

use wayside_protocol::memory::SwitchMemory;
use wayside_switch::{Action, Budget, Verdict};
use wayside_wire::{Attempt, BODY, DropReason, Entry, Header, kind, service};

use super::{Happening, Phase, World};
use crate::decisions::Asked;
use crate::dice::Dice;
use crate::network::Flight;
use crate::queues::acquires;
use crate::schedule::Kind;
use crate::seat::InHand;
use crate::story::{Lane, Story};

/// Copies of a request that arrive at once, at most: more than a burst.
const FLOOD: u64 = 300;
/// Turns that the other processor gets during a decision: most decisions swap one word.
const TURNS: u64 = 3;

impl World {
    /// A packet arrives at a switch. Sometimes another processor has one in hand, of which the decision has begun.
    pub fn at_switch(&mut self, flight: Flight) {
        if self.options.chart {
            Story::of(self).arrives(&flight);
        }
        let seat = flight.seat;
        if self.seats[seat].stopped_until.is_some() {
            return self.seats[seat].inbox.push(flight);
        }
        self.flood(&flight);
        if let Some(first) = self.seats[seat].in_hand.take_if(|first| !first.last) {
            // Two in one slot are what matters; others now and then.
            if slot_of(&first.flight.packet) == slot_of(&flight.packet) || first.number.is_multiple_of(4) {
                return self.decide_while(seat, first, |world| world.decide(flight));
            }
            self.seats[seat].in_hand = Some(first);
            return self.decide(flight);
        }
        if self.seats[seat].in_hand.is_some() || slot_of(&flight.packet).is_none() {
            return self.decide(flight);
        }
        let last = acquire_of(&flight.packet).is_some() && std::mem::take(&mut self.seats[seat].awaits_last);
        let dice = if last { Some(self.hand_over_dice()) } else { self.schedule.happens(self.now, Kind::Overlap) };
        match dice {
            Some(dice) => self.take_in_hand(flight, dice, last),
            None => self.decide(flight),
        }
    }

    /// The decision on a packet begins, and ends a little later.
    fn take_in_hand(&mut self, flight: Flight, mut dice: Dice, last: bool) {
        self.fault(Kind::Overlap);
        let (seat, number) = (flight.seat, dice.any());
        // What a stop comes in between has changed nothing yet.
        let step = if last { 0 } else { dice.below(TURNS) as u32 };
        let doomed = dice.percent(5) && self.mix.lifelines && self.phase == Phase::Safety;
        let most = 2 * self.mix.delay + self.mix.jitter + 50;
        self.plan(self.now + 1 + dice.below(most), Happening::Decide(seat, number));
        let begun = self.seats[seat].clock.at(self.now);
        self.seats[seat].in_hand = Some(InHand { number, flight, step, doomed, last, begun });
    }

    /// Sometimes many copies of a request arrive before it, from who has a budget.
    fn flood(&mut self, flight: &Flight) {
        let Some(header) = acquire_of(&flight.packet).filter(|header| self.budget_of(header.namespace).is_some())
        else {
            return;
        };
        if let Some(mut dice) = self.schedule.happens(self.now, Kind::Flood) {
            self.fault(Kind::Flood);
            self.note(Lane::Seat(flight.seat), |_| format!("a flood of space{}", header.namespace));
            for _ in 0..dice.between(10, FLOOD) {
                self.decide(flight.clone());
            }
        }
    }

    fn budget_of(&self, namespace: u16) -> Option<Budget> {
        self.setup.namespaces.iter().find(|space| space.id == namespace)?.budget
    }

    /// B1: a budget refuses requests of its own namespace that have no place in a queue yet, and nothing else.
    fn check_refusal(&mut self, packet: &[u8], verdict: &Verdict) {
        if verdict.reason != DropReason::OverBudget {
            return;
        }
        self.count("over budget");
        let header = if verdict.action == Action::Drop {
            acquire_of(packet)
        } else {
            self.count("told over budget");
            let rejects = |header: &Header| match header.service {
                service::QUEUE => header.kind == kind::queue::REJECT,
                _ => header.kind == kind::lock::REJECT,
            };
            Header::read(packet).ok().filter(rejects)
        };
        if has_ticket(packet) || header.is_none_or(|header| self.budget_of(header.namespace).is_none()) {
            self.fail("B1", format!("a budget refuses {}", crate::story::packet(packet)));
        }
    }

    /// Nobody else came in between.
    pub fn decide_alone(&mut self, seat: usize, number: u64) {
        if let Some(held) = self.seats[seat].in_hand.take_if(|held| held.number == number) {
            self.decide_while(seat, held, |_| ());
        }
    }

    fn decide(&mut self, flight: Flight) {
        let mut flight = flight;
        let asked = self.asked(&mut flight);
        let switch = self.seats[flight.seat].switch.now();
        let now = self.seats[flight.seat].clock.at(self.now);
        let verdict = switch.process(now, &mut flight.packet, flight.socket);
        self.pass_on(flight, &asked, verdict);
    }

    /// One processor decides on what it has in hand, and another does `other` between two of its steps.
    pub(super) fn decide_while(&mut self, seat: usize, held: InHand, other: impl FnOnce(&mut World)) {
        let InHand { mut flight, step: at, doomed, begun: now, .. } = held;
        let asked = self.asked(&mut flight);
        let switch = self.seats[seat].switch.now();
        let mut other = Some(other);
        let socket = flight.socket;
        let host = flight.host;
        let verdict = switch.process_meanwhile(now, &mut flight.packet, socket, self.is_blind(), &mut |step| {
            if step == at
                && let Some(other) = other.take()
            {
                self.count("decided between two steps");
                if doomed {
                    self.doom(host);
                }
                other(self);
            }
        });
        self.between = other.is_none();
        self.pass_on(flight, &asked, verdict);
        self.between = false;
        if let Some(other) = other {
            other(self);
        }
    }

    /// The mutant that does not look at the holder's word again after it has won a slot.
    fn is_blind(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.options.core == Some(crate::CoreMutant::NoSecondLook);
        #[cfg(not(feature = "mutants"))]
        false
    }

    /// The process of a host dies at this moment: the controller hears of it at once, the rest follows in a moment.
    fn doom(&mut self, host: usize) {
        let place = &self.hosts[host];
        let session = place.running.as_ref().and_then(|running| running.node.session());
        if let Some(session) = session {
            self.doomed = Some(host);
            self.close_lifeline(place.seat, &session);
        }
    }

    /// What is asked, before the switch turns the packet into its answer.
    fn asked(&mut self, flight: &mut Flight) -> Asked {
        self.trace(0, &flight.packet);
        #[cfg(feature = "mutants")]
        if let Some(mutant) =
            self.options.core.filter(|mutant| !flight.is_tampered || *mutant == crate::CoreMutant::AnyTag)
        {
            let seat = &self.seats[flight.seat];
            crate::tamper::fulfil(mutant, &seat.switch, &seat.disk, &mut flight.packet);
        }
        Asked::of(&flight.packet, &self.seats[flight.seat].switch)
    }

    fn pass_on(&mut self, flight: Flight, asked: &Asked, verdict: Verdict) {
        let Flight { seat, socket, mut packet, is_tampered, .. } = flight;
        self.decisions.note(asked, &verdict, &packet);
        self.watch_queue(seat, asked);
        #[cfg(feature = "mutants")]
        if self.options.core == Some(crate::CoreMutant::StayOpen) && !is_tampered {
            crate::tamper::reopen(&self.seats[seat].switch, asked.slot, &packet);
        }
        self.check_refusal(&packet, &verdict);
        if verdict.action == Action::Drop {
            if self.options.chart {
                Story::of(self).dropped(seat, verdict.reason.name());
            }
            return;
        }
        if is_tampered && self.setup.authenticated {
            self.believed(format!("the switch believes what became {}", crate::story::packet(&packet)));
        }
        packet.truncate(verdict.length);
        if let Some(agent) = verdict.copy {
            if self.schedule.happens(self.now, Kind::JoinLost).is_some() {
                self.fault(Kind::JoinLost);
            } else {
                let mut join = packet.clone();
                if self.seats[seat].switch.now().make_copy(&mut join) {
                    #[cfg(feature = "mutants")]
                    if self.options.core == Some(crate::CoreMutant::CopyForHolder) {
                        let seat = &self.seats[seat];
                        crate::tamper::sign_for_holder(&seat.switch, &seat.disk, &mut join);
                    }
                    self.check_signed(seat, agent, &join);
                    self.send_to_node(seat, agent, 0, join);
                }
            }
        }
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => {
                self.check_signed(seat, asked.source, &packet);
                self.send_down(seat, socket, packet);
            }
            Action::ToNode { handle, port } => {
                self.check_signed(seat, handle, &packet);
                self.send_to_node(seat, handle, port, packet);
            }
            Action::ToController => self.at_controller(seat, socket, &packet),
        }
    }

    fn send_to_node(&mut self, seat: usize, handle: u16, port: u16, packet: Vec<u8>) {
        if let Some(address) = self.seats[seat].switch.now().address(handle, port) {
            self.send_down(seat, address, packet);
        }
    }

    /// Whether there is a switch that decides.
    pub fn is_serving(&self) -> bool {
        self.seats[self.serving_seat()].switch.serving()
    }
}

/// The header of an ACQUIRE.
fn acquire_of(packet: &[u8]) -> Option<Header> {
    let is_acquire = |header: &Header| match header.service {
        service::LOCK => header.kind == kind::lock::ACQUIRE,
        service::QUEUE => acquires(header.kind),
        _ => false,
    };
    Header::read(packet).ok().filter(is_acquire)
}

/// Whether it names its ticket: then it has been paid for.
fn has_ticket(packet: &[u8]) -> bool {
    let is_queued = Header::read(packet).is_ok_and(|header| header.service == service::QUEUE);
    is_queued && packet.len() >= BODY + Attempt::BYTES && Attempt::read(packet, BODY).ticket != 0
}

/// The namespace and slot that a packet asks the switch about.
fn slot_of(packet: &[u8]) -> Option<(u16, u32)> {
    let header = Header::read(packet).ok().filter(|header| header.service == service::LOCK)?;
    let decided = matches!(
        header.kind,
        kind::lock::ACQUIRE
            | kind::lock::RELEASE
            | kind::lock::CANCEL
            | kind::lock::DOWNGRADE
            | kind::lock::RETENURE
            | kind::lock::FREE
    );
    (decided && packet.len() >= BODY + Entry::BYTES).then(|| (header.namespace, Entry::read(packet, BODY).slot))
}
