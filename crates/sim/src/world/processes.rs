//! Processes: started, woken by their timers, told of events; and what the checker hears of them.

use wayside_protocol::{Event, NodeConfig, Path, RequestId};

use super::{Happening, World, clock};
use crate::checker::Owner;
use crate::network::{Flight, Way};

impl World {
    pub(super) fn start_process(&mut self, index: usize) {
        if self.hosts[index].running.is_some() {
            return;
        }
        let config = NodeConfig {
            seed: self.dice.any(),
            first_request: if self.dice.percent(3) { (1 << 40) - self.dice.between(2, 2_000) } else { 1 },
            ..self.node.clone()
        };
        let clock = clock(&mut self.dice, &self.faults);
        self.hosts[index].generation += 1;
        let question = config.question(config.seed);
        self.hosts[index].start(config, !self.authenticated, clock, self.habits.tasks, self.now);
        if self.authenticated {
            self.connect(index, question);
        }
        self.settle(index);
    }

    pub(super) fn ring(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(running) = host.running.as_mut().filter(|running| running.timer == Some(self.now)) else { return };
        running.timer = None;
        if host.stopped_until.is_none() {
            let time = running.time(self.now);
            running.node.on_tick(time);
            self.settle(index);
        }
    }

    pub(super) fn resume(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.stopped_until.is_none_or(|until| until > self.now) {
            return;
        }
        host.stopped_until = None;
        let inbox = std::mem::take(&mut host.inbox);
        let Some(running) = &mut host.running else { return };
        running.lapsed |= running.node.session().is_some() && !running.believes(self.now);
        let time = running.time(self.now);
        let timer_first = self.dice.percent(50);
        self.chart(|_| format!("host {index} goes on, {}", if timer_first { "timers first" } else { "packets first" }));
        let Some(running) = &mut self.hosts[index].running else { return };
        if timer_first {
            running.node.on_tick(time);
        }
        for flight in &inbox {
            self.deliver(index, flight);
        }
        if let Some(running) = &mut self.hosts[index].running {
            running.node.on_tick(time);
        }
        self.settle(index);
    }

    /// Passes on what the process says, and sets its timer.
    pub(super) fn settle(&mut self, index: usize) {
        self.take_events(index);
        self.take_packets(index);
        let process = self.hosts[index].process();
        let Some(running) = &mut self.hosts[index].running else { return };
        let believes = running.believes(self.now);
        if running.lapsed && believes {
            self.checker.resurrected(self.now, process);
        }
        running.lapsed = running.node.session().is_some() && !believes;
        let timer = running.node.next_timer().and_then(|local| running.clock.world(local));
        if let Some(at) = timer.map(|at| at.max(self.now)).filter(|at| running.timer.is_none_or(|t| *at < t)) {
            running.timer = Some(at);
            self.plan(at, Happening::Timer(index));
        }
    }

    pub(super) fn take_packets(&mut self, index: usize) {
        loop {
            let host = &mut self.hosts[index];
            let Some(running) = &mut host.running else { return };
            let Some(transmit) = running.node.transmit() else { return };
            let (port, packet) = (transmit.port, transmit.packet.to_vec());
            let socket = host.socket(port);
            self.send(Flight::new(index, Way::Up, socket, packet));
        }
    }

    pub(super) fn take_events(&mut self, index: usize) {
        while let Some(event) = self.hosts[index].running.as_mut().and_then(|running| running.node.event()) {
            self.chart(|world| format!("{:?} is told {event:?}", world.hosts[index].process()));
            self.trace(3, format!("{event:?}").as_bytes());
            self.tell(index, event);
        }
    }

    pub(super) fn owner(&self, index: usize, request: RequestId) -> Owner {
        Owner { process: self.hosts[index].process(), request }
    }

    /// Whether a task still cares for this request.
    pub(super) fn asks(&self, index: usize, request: RequestId) -> bool {
        self.hosts[index].running.as_ref().is_some_and(|running| running.askers.contains_key(&request))
    }

    pub(super) fn tell(&mut self, index: usize, event: Event) {
        match event {
            Event::Enrolled(_) => {
                self.count("session begun");
                for task in 0..self.habits.tasks as usize {
                    self.pause_task(index, task);
                }
            }
            Event::Refused(_) => {
                self.count("refused");
                self.end_process(index);
            }
            // Given back between the grant and this event.
            Event::Granted { request, .. } if !self.asks(index, request) => self.count("granted too late"),
            Event::Granted { request, token, mode, path } => {
                self.count(match path {
                    Path::Switch => "granted by switch",
                    Path::Agent => "granted by agent",
                    Path::Local => "granted locally",
                });
                let (owner, now) = (self.owner(index, request), self.now);
                let hosts = &self.hosts;
                self.checker.granted(now, owner, mode, token, |process| hosts[process.host].believes(process, now));
                self.on_granted(index, request);
            }
            Event::Busy { request, .. } => self.on_refused(index, request, "busy"),
            Event::TimedOut { request } => self.on_refused(index, request, "timed out"),
            Event::Lost { request } => self.on_refused(index, request, "lost with the session"),
            Event::Downgraded { .. } => self.count("downgraded"),
            Event::SessionLost => {
                self.count("session lost");
                self.end_process(index);
            }
            Event::Left => {
                self.count("left");
                self.end_process(index);
            }
        }
    }

    /// The session is over; the application makes a new one, with a new node.
    pub(super) fn end_process(&mut self, index: usize) {
        self.checker.died(self.hosts[index].process());
        self.hosts[index].running = None;
        let at = self.now + self.dice.magnitude(1, 20_000);
        self.plan(at, Happening::Start(index));
    }
}
