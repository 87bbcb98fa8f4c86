//! Processes: started, woken by their timers, told of events.

use wayside_protocol::Event;
use wayside_protocol::seal::Enrolment;
use wayside_wire::Refusal;

use crate::dice::Dice;
use crate::host::Process;
use crate::run::Run;
use crate::service::Service;
use crate::story::Lane;
use crate::world::{AskedFor, Asking, Happening, Phase};

impl<S: Service> Run<S> {
    fn dice(&self, process: Process, purpose: u64) -> Dice {
        Dice::of(self.world.seed, &[PROCESSES, process.host as u64, process.generation.into(), purpose])
    }

    pub(crate) fn start_process(&mut self, host: usize) {
        let world = &mut self.world;
        if world.hosts[host].running.is_some() {
            return;
        }
        let Process { generation, .. } = world.hosts[host].process();
        let process = Process { host, generation: generation + 1 };
        let mut dice = self.dice(process, 0);
        let world = &mut self.world;
        let mut config = world.setup.node(dice.any(), host, world.hosts[host].namespace);
        if dice.percent(3) {
            config.first_request = (1 << 40) - dice.between(2, 2_000);
        }
        if dice.percent(2) {
            config.first_beat = (1 << 56) - dice.between(1, 30);
        }
        let mistaken = world.setup.division.as_ref().and_then(|division| {
            let mut dice = Dice::of(world.seed, &[MISTAKEN, host as u64, process.generation.into()]);
            dice.percent(15).then(|| division.mistaken(&mut dice))
        });
        config.shards = mistaken.unwrap_or(config.shards);
        if world.phase == Phase::Calm {
            config.kept_most = 0;
        }
        let clock = world.new_clock();
        let (question, shards) = (config.question(config.seed), config.shards);
        let (by_packets, now) = (!world.setup.authenticated, world.now);
        world.hosts[host].start(config, mistaken.is_some(), by_packets, clock, now);
        world.note(Lane::Host(host), |_| format!("process {process} starts"));
        if !by_packets {
            world.connect(host, question, shards);
        }
        self.settle(host);
    }

    pub(crate) fn ring(&mut self, host: usize) {
        let world = &mut self.world;
        let now = world.now;
        let place = &mut world.hosts[host];
        let Some(running) = place.running.as_mut().filter(|running| running.timer == Some(now)) else { return };
        running.timer = None;
        if place.stopped_until.is_none() {
            let time = running.time(now);
            running.node.on_tick(time);
            self.settle(host);
        }
    }

    pub(crate) fn resume(&mut self, host: usize) {
        let world = &mut self.world;
        let now = world.now;
        let place = &mut world.hosts[host];
        if place.stopped_until.is_none_or(|until| until > now) {
            return;
        }
        place.stopped_until = None;
        world.network.trouble(host, now);
        let inbox = std::mem::take(&mut place.inbox);
        let process = place.process();
        let Some(running) = &mut place.running else { return };
        running.lapsed |= running.node.session().is_some() && !running.believes(now);
        let timer_first = self.dice(process, 1 + now).percent(50);
        self.world.note(Lane::Host(host), |_| {
            format!("h{host} goes on, {}", if timer_first { "timers first" } else { "packets first" })
        });
        if timer_first {
            self.tick(host);
        }
        for flight in &inbox {
            self.deliver(host, flight);
        }
        self.tick(host);
        self.settle(host);
    }

    fn tick(&mut self, host: usize) {
        let now = self.world.now;
        if let Some(running) = &mut self.world.hosts[host].running {
            let time = running.time(now);
            running.node.on_tick(time);
        }
    }

    /// What the node has to say goes to the service, its packets go on the wire, its timer is set.
    pub(crate) fn settle(&mut self, host: usize) {
        self.take_events(host);
        self.take_packets(host);
        let now = self.world.now;
        let place = &mut self.world.hosts[host];
        let process = place.process();
        let Some(running) = &mut place.running else { return };
        let (time, session) = (running.time(now), running.node.session());
        let believes = session.is_some_and(|session| time < session.lease_end);
        let resurrected = running.lapsed && believes;
        running.lapsed = session.is_some() && !believes;
        if let Some(session) = session {
            running.promised = session.lease_end;
        }
        let timer = running.node.next_timer().and_then(|local| running.clock.world(local));
        if let Some(at) = timer.map(|at| at.max(now)).filter(|at| running.timer.is_none_or(|t| *at < t)) {
            running.timer = Some(at);
            self.world.plan(at, Happening::Timer(host));
        }
        if resurrected {
            self.world.fail("S1", format!("process {process} goes on after the end of its lease"));
        }
    }

    fn take_packets(&mut self, host: usize) {
        loop {
            let seats = self.world.seats.len();
            let place = &mut self.world.hosts[host];
            let Some(running) = &mut place.running else { return };
            let Some(transmit) = running.node.transmit() else { return };
            let (port, packet) = (transmit.port, transmit.packet.to_vec());
            // Whoever has no session asks one switch after the other.
            if running.node.session().is_none() && !running.leaving {
                running.questions += 1;
                place.seat = (running.questions + host) % seats;
            }
            self.world.send_up(host, port, packet);
        }
    }

    fn take_events(&mut self, host: usize) {
        while let Some(event) = self.world.hosts[host].running.as_mut().and_then(|running| running.node.event()) {
            self.tell(host, event);
        }
        self.service.settled(&mut self.world, host);
    }

    fn tell(&mut self, host: usize, event: Event) {
        let Run { world, service, .. } = self;
        world.note(Lane::Host(host), |_| format!("{} is told {event:?}", world.hosts[host].process()));
        let over = match event {
            Event::Enrolled(info) => {
                world.has_begun(host, info.handle);
                world.count("session begun");
                None
            }
            Event::Refused(refusal) => Some(name_of(refusal)),
            Event::SessionLost => Some("session lost"),
            Event::Left => Some("left"),
            _ => None,
        };
        match over {
            Some(why) => {
                world.count(why);
                // What the node had to say before that leaves, as from a real one, whose owner hears of it first.
                self.take_packets(host);
                self.end_process(host);
            }
            None => service.told(world, host, event),
        }
    }

    /// The session is over; the application makes a new one, with a new node.
    fn end_process(&mut self, host: usize) {
        let process = self.world.hosts[host].process();
        let after = self.dice(process, 0xe).magnitude(1, 20_000);
        self.world.trace(7, &[host as u8]);
        self.service.gone(&mut self.world, process);
        self.world.hosts[host].running = None;
        self.world.plan(self.world.now + after, Happening::Start(host));
    }

    /// At the controller's end of the secure connection.
    pub(crate) fn ask(&mut self, asking: Asking) {
        if let AskedFor::Refused(refusal) = self.world.ask(asking) {
            self.world.count(name_of(refusal));
            self.end_process(asking.process.host);
        }
    }

    /// At the process's end.
    pub(crate) fn answered(&mut self, told: Box<(Asking, Enrolment)>) {
        let (asking, enrolment) = &*told;
        let host = asking.process.host;
        let now = self.world.now;
        let place = &mut self.world.hosts[host];
        if place.process() != asking.process {
            return;
        }
        if let Some(until) = place.stopped_until {
            return self.world.plan(until + 1, Happening::Told(told));
        }
        let Some(running) = &mut place.running else { return };
        let time = running.time(now);
        running.node.begin(time, asking.since, enrolment);
        self.settle(host);
    }
}

/// Why there is no session.
fn name_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Full => "refused: no handle",
        Refusal::Shards => "refused: other shards",
        _ => "refused",
    }
}

/// Purposes of dice.
const PROCESSES: u64 = 8;
const MISTAKEN: u64 = 41;
