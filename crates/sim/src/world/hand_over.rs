//! A planned end of a switch whose successor asks nobody: the memory goes over a connection that may break, while
//! everything else may go wrong too.

use wayside_protocol::controller::Copying;

use super::{Happening, World};
use crate::dice::Dice;
use crate::schedule::Kind;
use crate::story::Lane;

/// Between two looks at whether all nodes would follow, and how many there are.
const LOOK: u64 = 2_000;
const LOOKS: u32 = 40;
/// From a drain until the daemon has ended, and another one starts in its place.
const ENDING: u64 = 200_000;

/// A hand-over under way.
pub struct HandOver {
    from: usize,
    to: usize,
    /// Processes of either: what another one of its place would take or send is none of this.
    generations: [u32; 2],
    copying: Option<Copying>,
    stage: Stage,
}

enum Stage {
    /// Looks so many times more whether it may stop.
    Prepared(u32),
    /// The lease is over; what was under way is to end.
    Stopped,
    /// These messages arrive.
    Arrives(Vec<Vec<u8>>),
    /// The connection is broken, or the other end does not want to.
    Refused,
}

impl World {
    /// A switch makes room for its standby.
    pub fn make_room(&mut self, seat: usize) -> bool {
        let place = &mut self.seats[seat];
        let time = place.clock.at(self.now);
        if place.stopped_until.is_some() || !place.office.as_mut().is_some_and(|office| office.drain(time)) {
            return false;
        }
        self.note(Lane::Seat(seat), |_| "the switch makes room for its standby".to_string());
        self.settle_controller(seat);
        self.plan(self.now + ENDING, Happening::Ended(seat));
        true
    }

    /// A switch is to end, and to leave all that it knows to the other one.
    pub fn begin_hand_over(&mut self, from: usize) {
        let (time, to) = (self.seats[from].clock.at(self.now), 1 - from);
        if self.seats[from].stopped_until.is_some() {
            return;
        }
        let Some(office) = &mut self.seats[from].office else { return };
        let Ok(mut copying) = office.prepare(time) else {
            if self.make_room(from) {
                self.fault(Kind::Hand);
                self.count("nothing to hand over");
            }
            return;
        };
        self.fault(Kind::Hand);
        self.note(Lane::Seat(from), |_| "the switch is to hand over".to_string());
        let mut messages = vec![copying.opening()];
        copying.send(&self.seats[from].switch, |message| messages.push(message));
        self.settle_controller(from);
        let generations = [self.seats[from].generation, self.seats[to].generation];
        let hand_over = |copying, stage| HandOver { from, to, generations, copying, stage };
        let (after, looks) = (self.hand_over_dice().magnitude(50, 5_000), Stage::Prepared(LOOKS));
        self.carry(hand_over(None, Stage::Refused), messages, after);
        self.plan_hand_over(after + LOOK, hand_over(Some(copying), looks));
    }

    /// The next step of it.
    pub fn go_on_with_hand_over(&mut self, mut hand_over: HandOver) {
        let HandOver { from, to, .. } = hand_over;
        let acting = if matches!(hand_over.stage, Stage::Arrives(_)) { to } else { from };
        if let Some(until) = self.seats[acting].stopped_until {
            return self.plan_hand_over((until + 1).saturating_sub(self.now), hand_over);
        }
        let own = usize::from(acting == to);
        if self.seats[acting].generation != hand_over.generations[own] || self.seats[acting].office.is_none() {
            // Its daemon has died: the connection is closed.
            self.seats[from].awaits_last = false;
            if acting == to {
                self.plan_hand_over(LOOK, HandOver { stage: Stage::Refused, ..hand_over });
            }
            return;
        }
        let time = self.seats[acting].clock.at(self.now);
        match std::mem::replace(&mut hand_over.stage, Stage::Refused) {
            Stage::Prepared(looks) => {
                let last = self.seats[from].in_hand.as_ref().is_some_and(|held| held.last);
                let Some(office) = &mut self.seats[from].office else { return };
                if !office.is_prepared(time) {
                    let stage = if looks > 0 { Stage::Prepared(looks - 1) } else { Stage::Refused };
                    return self.plan_hand_over(LOOK, HandOver { stage, ..hand_over });
                }
                if !last && looks > LOOKS / 2 {
                    // Rather while a request is being decided: who stops then has to see it through.
                    self.seats[from].awaits_last = true;
                    let (stage, after) = (Stage::Prepared(looks - 1), self.hand_over_dice().magnitude(1, 200));
                    return self.plan_hand_over(after, HandOver { stage, ..hand_over });
                }
                let stops = office.stop(time);
                self.seats[from].awaits_last = false;
                self.note(Lane::Seat(from), |_| format!("the switch stops, to hand over: {stops}"));
                self.settle_controller(from);
                // Workers end at once, mostly.
                let after = self.hand_over_dice().magnitude(1, if last { 50 } else { 2_000 });
                let stage = if stops { Stage::Stopped } else { Stage::Refused };
                self.plan_hand_over(after, HandOver { stage, ..hand_over });
            }
            Stage::Stopped => self.end_deciding(hand_over),
            Stage::Arrives(messages) => {
                for message in messages {
                    let Some(office) = &mut self.seats[to].office else { return };
                    match office.receive(time, &message) {
                        Ok(false) => {}
                        Ok(true) => self.note(Lane::Seat(to), |_| "all was handed over".to_string()),
                        Err(why) => {
                            self.note(Lane::Seat(to), |_| format!("takes nothing: {why}"));
                            return self.plan_hand_over(LOOK, hand_over);
                        }
                    }
                }
                self.settle_controller(to);
            }
            Stage::Refused => {
                self.make_room(from);
            }
        }
    }

    /// What has looked at the lease before it ended is decided first: nothing changes any more when the rest is read.
    fn end_deciding(&mut self, hand_over: HandOver) {
        let from = hand_over.from;
        let Some(held) = self.seats[from].in_hand.take() else { return self.send_the_rest(hand_over) };
        #[cfg(feature = "mutants")]
        if self.options.core == Some(crate::CoreMutant::HandBusy) {
            return self.decide_while(from, held, |world| world.send_the_rest(hand_over));
        }
        self.decide_while(from, held, |_| ());
        self.send_the_rest(hand_over);
    }

    fn send_the_rest(&mut self, mut hand_over: HandOver) {
        let (from, mut messages) = (hand_over.from, Vec::new());
        let copying = hand_over.copying.take();
        let office = self.seats[from].office.as_mut();
        let Some((office, copying)) = office.zip(copying) else { return };
        let after = if office.hand_over(copying, |message| messages.push(message)) {
            self.count("handed over");
            self.note(Lane::Seat(from), |_| "the switch has handed over".to_string());
            self.hand_over_dice().magnitude(50, 5_000)
        } else {
            LOOK
        };
        self.settle_controller(from);
        self.plan(self.now + ENDING, Happening::Ended(from));
        self.carry(hand_over, messages, after);
    }

    /// Messages go in their order, or the connection breaks; or one of them is lost, as no connection does.
    fn carry(&mut self, hand_over: HandOver, mut messages: Vec<Vec<u8>>, after: u64) {
        let mut dice = self.hand_over_dice();
        let breaks = dice.percent(25);
        if breaks && dice.percent(50) && messages.len() > 1 {
            // Not the last: nobody would notice that something is missing.
            messages.remove(dice.below(messages.len() as u64 - 1) as usize);
        } else if breaks {
            messages.truncate(dice.below(messages.len() as u64 + 1) as usize);
            let HandOver { from, to, generations, .. } = hand_over;
            let broken = HandOver { from, to, generations, copying: None, stage: Stage::Refused };
            self.plan_hand_over(after + LOOK, broken);
        }
        self.plan_hand_over(after, HandOver { stage: Stage::Arrives(messages), ..hand_over });
    }

    pub(super) fn hand_over_dice(&mut self) -> Dice {
        self.starts += 1;
        Dice::of(self.seed, &[HAND_OVERS, self.starts])
    }

    fn plan_hand_over(&mut self, after: u64, hand_over: HandOver) {
        self.plan(self.now + after, Happening::HandOver(Box::new(hand_over)));
    }
}

/// Purpose of dice.
const HAND_OVERS: u64 = 43;
