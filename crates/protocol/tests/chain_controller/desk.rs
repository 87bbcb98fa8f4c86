//! A few groups, and a controller that is told and asked by hand: what it says is looked at packet by packet.

use super::records::{SWITCHES, group};
use super::*;
use wayside_protocol::chain::controller::Notice;

/// When controllers get their post.
pub const START: u64 = 1_000_000;

/// Here clocks are bad: more than a tick in a lease.
pub const DRIFT: u32 = 20_000;
/// So long a lease may run by the controller's clock, in microseconds.
pub const LONGEST: u64 = LEASE + LEASE * 3 * DRIFT as u64 / 1_000_000 + 1;

/// A group's record: number, epoch, chain, and who owes his leaving.
pub type Kept<'a> = (u16, u32, &'a [Handle], &'a [Handle]);

/// A store with these groups, as whoever kept them all left it, and all switches' beginnings.
pub fn store_of(groups: &[Kept], switches: &[Handle]) -> Disk {
    let of_groups =
        groups.iter().map(|(number, epoch, chain, owing)| (u32::from(*number), group(*epoch, chain, owing)));
    let of_switches = switches.iter().map(|handle| (SWITCHES + u32::from(*handle), BOOT.to_be_bytes().to_vec()));
    let sum = groups.iter().map(|(_, epoch, ..)| u64::from(*epoch)).sum();
    Disk::of(&of_groups.chain(of_switches).collect::<Vec<_>>(), sum)
}

/// Whoever has got the post with such a store: everybody counts as heard.
pub fn kept_by(groups: &[Kept], switches: &[Handle], change: impl FnOnce(&mut Config)) -> World {
    let mut config = config(groups.iter().map(|(number, ..)| *number));
    change(&mut config);
    begun_as(config, &store_of(groups, switches), switches, START)
}

/// The same for one group, 7, and chains of three: it serves, and everybody knows.
pub fn serving(epoch: u32, chain: &[Handle], switches: &[Handle]) -> World {
    let mut world = kept_by(&[(7, epoch, chain, &[])], switches, |config| config.drift_ppm = DRIFT);
    world.obey();
    world.notices();
    world
}

/// What a switch is told of a group with this chain.
pub fn place(group: u16, epoch: u32, chain: &[Handle], handle: Handle, role: Role) -> (Handle, Placement) {
    let at = chain.iter().position(|known| *known == handle).filter(|_| role == Role::Member);
    let ends = [chain.first(), chain.last()].map(|end| end.copied().map(address));
    let [(head_address, head_port), (tail_address, tail_port)] =
        ends.map(|end| end.map_or((0, 0), |end| ((*end.ip()).into(), end.port())));
    let placement = Placement {
        boot: BOOT,
        pass: 0,
        epoch,
        group,
        previous: at.and_then(|at| at.checked_sub(1)).map_or(0, |before| chain[before]),
        next: at.and_then(|at| chain.get(at + 1)).copied().unwrap_or(0),
        source: chain.last().copied().unwrap_or(0),
        role: role as u8,
        refused: 0,
        head_port,
        head_address,
        tail_address,
        tail_port,
    };
    (handle, placement)
}

/// The same of a copying.
pub fn pass(pass: u64, (handle, placement): (Handle, Placement)) -> (Handle, Placement) {
    (handle, Placement { pass, ..placement })
}

impl World {
    fn said(&mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.controller.transmit()).collect()
    }

    /// The places that it tells, after a tick at this very time.
    pub fn places_at(&mut self, now: u64) -> Vec<(Handle, Placement)> {
        self.now = now;
        self.controller.on_tick(Time(now));
        let mut places = vec![];
        for sent in self.said() {
            let header = check(&sent.packet).expect("a packet");
            assert_eq!((header.service, header.source, header.destination), (service::CHAIN, 1, sent.to));
            assert_eq!(sent.port, 0, "its agent port");
            if header.kind == kind::chain::PLACE {
                let placement = Placement::read(&sent.packet, BODY);
                assert_eq!(header.epoch, placement.epoch);
                places.push((sent.to, placement));
            }
        }
        places
    }

    pub fn places(&mut self) -> Vec<(Handle, Placement)> {
        self.places_at(self.now)
    }

    /// A switch asks for its lease, at this time by its own clock. What it is answered.
    pub fn asks(&mut self, handle: Handle, boot: u64, sent_us: u64) -> Option<Renewal> {
        let renewal = Renewal { boot, sent_us, ..Renewal::default() };
        self.say(handle, kind::chain::RENEW, |packet| renewal.write(packet, BODY));
        let said = self.said();
        let answer = said.iter().find(|sent| {
            sent.to == handle && check(&sent.packet).is_ok_and(|header| header.kind == kind::chain::RENEWED)
        });
        answer.map(|sent| Renewal::read(&sent.packet, BODY))
    }

    /// They are heard of at this time.
    pub fn hear(&mut self, handles: &[Handle]) {
        for &handle in handles {
            let boot = self.boots.get(&handle).copied().unwrap_or(BOOT);
            self.asks(handle, boot, self.now).expect("an answer");
        }
    }

    /// It listens until shortly before this time, and these are heard of. What it tells meanwhile.
    pub fn listen(&mut self, until: u64, up: &[Handle]) -> Vec<(Handle, Placement)> {
        let mut told = vec![];
        while self.now + TICK < until {
            self.now += TICK;
            told.extend(self.places());
            self.hear(up);
        }
        told
    }

    /// Everybody takes his place at once, until there is nothing more to do at this time. Who is told to copy.
    pub fn obey(&mut self) -> Vec<(Handle, Placement)> {
        let mut joiners = vec![];
        loop {
            for (to, told) in self.places() {
                if told.role == Role::Joiner as u8 {
                    joiners.push((to, told));
                } else {
                    self.say_placed(to, &told);
                }
            }
            if self.controller.next_timer() > Time(self.now) {
                return joiners;
            }
        }
    }

    /// The same, and these are taken before.
    pub fn obey_all(&mut self, places: &[(Handle, Placement)]) -> Vec<(Handle, Placement)> {
        places.iter().for_each(|(to, told)| self.say_placed(*to, told));
        self.obey()
    }

    pub fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.controller.notice()).collect()
    }

    pub fn chain(&self, number: u16) -> Vec<Handle> {
        let found = self.controller.groups().find(|group| group.number == number).expect("there is such a group");
        found.chain.to_vec()
    }
}
