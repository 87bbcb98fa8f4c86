//! The data path: one thread's loop of receive, decide, send. No allocation, no lock.

use super::batch::Batch;
use super::clock;
use super::controller::Inbox;
use crate::config::Wait;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wayside_protocol::Time;
use wayside_switch::{Action, Switch};
use wayside_wire::limits::MAX_PACKET_BYTES;

/// What an adaptive worker spins for after its last packet: about the cost of being woken, so that it never spends
/// more than twice what the better of spinning and sleeping would have cost.
const SPIN: Duration = Duration::from_micros(50);

/// What the workers count besides the switch's own counters.
#[derive(Default)]
pub struct Traffic {
    pub received: AtomicU64,
    pub sent: AtomicU64,
    /// The kernel refused to send them.
    pub unsent: AtomicU64,
}

/// What every worker of a switch shares.
#[derive(Clone)]
pub struct Worker {
    pub switch: Arc<Switch>,
    pub socket: Arc<UdpSocket>,
    pub inbox: Inbox,
    pub wait: Wait,
    pub traffic: Arc<Traffic>,
    pub stop: Arc<AtomicBool>,
}

impl Worker {
    /// Runs until `stop` is set and the socket is shut down, which wakes those that sleep.
    pub fn run(self) -> std::io::Result<()> {
        let socket = self.socket.as_fd();
        let mut batch = Batch::new();
        let mut decider = self.switch.decider();
        // An older kernel gives datagrams one by one.
        let _ = wayside_udp::take_trains(socket);
        let mut last = Instant::now();
        let mut poll = self.wait != Wait::Block;
        while !self.stop.load(Ordering::Relaxed) {
            let count = batch.receive(socket, poll)?;
            if self.wait == Wait::Adaptive {
                if count > 0 {
                    last = Instant::now();
                    poll = true;
                } else if poll {
                    poll = last.elapsed() < SPIN;
                }
            }
            if count == 0 {
                continue;
            }
            {
                let _deciding = decider.begin();
                // After the packets came: what they ask for is judged by a clock that is not older.
                let now = clock::now();
                for index in 0..count {
                    self.decide(now, &mut batch, index);
                }
            }
            let sent = batch.send(socket);
            self.traffic.received.fetch_add(count as u64, Ordering::Relaxed);
            self.traffic.sent.fetch_add(sent.sent as u64, Ordering::Relaxed);
            if sent.failed > 0 {
                self.traffic.unsent.fetch_add(sent.failed as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn decide(&self, now: Time, batch: &mut Batch, index: usize) {
        let (packet, from) = batch.datagram(index);
        let account = self.switch.account_of(packet);
        let verdict = self.switch.process(now, packet, from);
        let sends = matches!(verdict.action, Action::ToSender | Action::ToNode { .. });
        if sends && account.is_some_and(|account| !self.switch.may_send(now, account)) {
            return;
        }
        let to = match verdict.action {
            Action::Drop => return,
            Action::ToSender => Some(from),
            Action::ToNode { handle, port } => self.switch.address(handle, port),
            Action::ToController => {
                let packet = &packet[..verdict.length.min(MAX_PACKET_BYTES)];
                self.inbox.packet(from, self.switch.tenant_of(packet), packet);
                None
            }
        };
        // Whoever was granted something waits for it; nobody waits for a copy.
        if let Some(to) = to {
            batch.queue(index, verdict.length, to);
        }
        if let Some(agent) = verdict.copy.and_then(|agent| self.switch.address(agent, 0)) {
            batch.queue_copy(index, agent, |packet, copy| {
                let copy = &mut copy[..verdict.length];
                copy.copy_from_slice(&packet[..verdict.length]);
                self.switch.make_copy(copy).then_some(verdict.length)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::controller::Inbox;
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;
    use std::net::{SocketAddr, SocketAddrV4};
    use wayside_protocol::chain::FELLOWS;
    use wayside_protocol::memory::{NodeEntry, SwitchMemory};
    use wayside_switch::{Budget, SwitchConfig};
    use wayside_wire::{Entry, Header, Policy, kind, service};

    /// Counts the allocations of each thread.
    struct Counting;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    // SAFETY: hands everything on to the system's allocator.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.with(|count| count.set(count.get() + 1));
            // SAFETY: the caller's promises are the system allocator's conditions.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(at, layout) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    const SLOTS: u32 = 64;

    fn ipv4(socket: &UdpSocket) -> SocketAddrV4 {
        match socket.local_addr().unwrap() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => unreachable!("bound to IPv4"),
        }
    }

    /// A serving switch with one node, whose socket is the second.
    fn worker(inbox: Inbox) -> (Worker, UdpSocket) {
        let node = UdpSocket::bind("127.0.0.1:0").unwrap();
        let switch = Arc::new(Switch::new(SwitchConfig { slots: SLOTS, max_handle: 4 }));
        switch.add_namespace(0, SLOTS, Policy::Fair).unwrap();
        switch.set_epoch(1);
        switch.set_node(1, &NodeEntry { address: ipv4(&node), namespace: 0, incarnation: 1 });
        switch.set_serving(true);
        let worker = Worker {
            switch,
            socket: Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()),
            inbox,
            wait: Wait::Block,
            traffic: Arc::default(),
            stop: Arc::default(),
        };
        (worker, node)
    }

    fn packet(kind: u8, name: u64) -> [u8; 64] {
        let mut packet = [0; 64];
        Header { service: service::LOCK, kind, count: 1, source: 1, epoch: 1, ..Header::default() }.write(&mut packet);
        let slot = wayside_wire::slot_of(name, SLOTS);
        Entry { name, request: 1 << 40 | name, slot, holder: 1, ..Entry::default() }.write(&mut packet, 32);
        packet
    }

    #[test]
    fn deciding_and_handing_over_allocates_nothing() {
        let (inbox, events, _fellows) = Inbox::with_channels();
        let (worker, node) = worker(inbox);
        let to = ipv4(&worker.socket);
        let mut batch = Batch::new();
        let mut round = |names: std::ops::Range<u64>| {
            for name in names {
                // Granted by the switch; for the controller; dropped.
                for kind in [kind::lock::ACQUIRE, kind::lock::GAP, 99] {
                    node.send_to(&packet(kind, name), to).unwrap();
                }
            }
            let before = ALLOCATIONS.with(Cell::get);
            let (mut received, mut sent) = (0, 0);
            while let count @ 1.. = batch.receive(worker.socket.as_fd(), true).unwrap() {
                (0..count).for_each(|index| worker.decide(Time(0), &mut batch, index));
                received += count;
                sent += batch.send(worker.socket.as_fd()).sent;
            }
            (received, sent, ALLOCATIONS.with(Cell::get) - before)
        };
        // The switch's counters and the channel set themselves up once.
        round(0..1);
        assert_eq!(round(1..21), (60, 20, 0));
        assert_eq!(events.try_iter().flatten().count(), 21, "the controller has its packets");
        assert_eq!(worker.switch.counter("granted"), 21);
    }

    /// Whoever waits for the grant would wait for the copy as well.
    #[test]
    fn a_grant_goes_before_its_copy() {
        let (inbox, _events, _fellows) = Inbox::with_channels();
        let (worker, node) = worker(inbox);
        let mut batch = Batch::new();
        let mut answers = |request: u64| -> Vec<u8> {
            let mut shared = packet(kind::lock::ACQUIRE, 1);
            let request = 1 << 40 | request;
            Entry { name: 1, request, slot: wayside_wire::slot_of(1, SLOTS), holder: 1, ..Entry::default() }
                .write(&mut shared, 32);
            node.send_to(&shared, ipv4(&worker.socket)).unwrap();
            let count = batch.receive(worker.socket.as_fd(), true).unwrap();
            (0..count).for_each(|index| worker.decide(Time(0), &mut batch, index));
            let sent = batch.send(worker.socket.as_fd()).sent;
            let kind_of_next = |_| {
                let mut answer = [0; 64];
                node.recv(&mut answer).unwrap();
                Header::read(&answer).unwrap().kind
            };
            (0..sent).map(kind_of_next).collect()
        };
        assert_eq!(answers(1), [kind::lock::GRANT]);
        assert_eq!(answers(2), [kind::lock::GRANT, kind::lock::JOIN]);
    }

    #[test]
    fn a_tenant_that_floods_the_controller_keeps_nobody_out() {
        let (inbox, events, _fellows) = Inbox::with_channels();
        let (worker, node) = worker(inbox.clone());
        let mut batch = Batch::new();
        let share = u64::from(super::super::controller::SHARE);
        for _ in 0..share + 5 {
            node.send_to(&packet(kind::lock::GAP, 3), ipv4(&worker.socket)).unwrap();
            let count = batch.receive(worker.socket.as_fd(), true).unwrap();
            (0..count).for_each(|index| worker.decide(Time(0), &mut batch, index));
        }
        assert_eq!(inbox.overflowed(), 5, "what the controller cannot take is counted");
        let packet = packet(kind::lock::GAP, 3);
        for tenant in [Some(7), None] {
            inbox.packet(ipv4(&node), tenant, &packet);
        }
        assert_eq!(inbox.overflowed(), 5, "others have places of their own");
        assert_eq!(events.try_iter().flatten().count() as u64, share + 2);
    }

    #[test]
    fn a_tenant_that_floods_with_what_no_budget_limits_is_answered_up_to_a_limit() {
        let (inbox, _events, _fellows) = Inbox::with_channels();
        let (worker, node) = worker(inbox);
        worker.switch.set_budget(0, Some(Budget { rate: 1_000, burst: 32 }));
        let mut batch = Batch::new();
        let mut answered = |now: Time| -> usize {
            let mut sent = 0;
            for name in 0..2_000 {
                node.send_to(&packet(kind::lock::RELEASE, name), ipv4(&worker.socket)).unwrap();
                let count = batch.receive(worker.socket.as_fd(), true).unwrap();
                (0..count).for_each(|index| worker.decide(now, &mut batch, index));
                sent += batch.send(worker.socket.as_fd()).sent;
            }
            sent
        };
        // 58,000 packets a second: of 20 ms, and of 32 requests.
        let at_once = 58_000 / 50 + 8 * 32;
        let first = answered(Time(1_000_000));
        assert!(first.abs_diff(at_once) <= 20, "{first}");
        assert_eq!(worker.switch.over_budget(0), 2_000 - first as u64, "what is lost is counted");
        let later = answered(Time(1_010_000));
        assert!(later.abs_diff(580) <= 20, "{later}: of 10 ms");
        worker.switch.set_budget(0, None);
        assert_eq!(answered(Time(1_010_000)), 2_000);
    }

    /// However many enrolments wait, each of them for etcd: what is behind them would look like a silent switch.
    #[test]
    fn what_other_switches_say_goes_before_what_nodes_do() {
        let (inbox, events, fellows) = Inbox::with_channels();
        let (_, node) = worker(inbox.clone());
        let backlog = super::super::controller::BACKLOG as u64;
        let say = |tenant: u16, name: u64| inbox.packet(ipv4(&node), Some(tenant), &packet(kind::lock::GAP, name));
        (0..2 * backlog).for_each(|turn| say((turn % 10) as u16, turn));
        let overflowed = inbox.overflowed();
        (0..backlog).for_each(|name| say(FELLOWS, name));
        assert_eq!(inbox.overflowed(), overflowed, "they have places of their own");
        inbox.listens();
        assert!(
            fellows
                .try_iter()
                .map(|said| said.bytes().to_vec())
                .eq((0..backlog).map(|name| packet(kind::lock::GAP, name)))
        );
        assert_eq!(events.try_iter().flatten().count() as u64, backlog);
        // Since the thread has looked, the next one wakes it, once.
        say(FELLOWS, 1);
        say(FELLOWS, 2);
        assert_eq!((events.try_iter().count(), fellows.try_iter().count()), (1, 2));
        (0..2 * backlog).for_each(|name| say(FELLOWS, name));
        assert_eq!((fellows.try_iter().count() as u64, inbox.overflowed()), (backlog, overflowed + backlog));
    }

    #[test]
    fn tenants_together_have_no_more_places_than_there_are() {
        let (inbox, events, _fellows) = Inbox::with_channels();
        let (_, node) = worker(inbox.clone());
        let backlog = super::super::controller::BACKLOG as u64;
        for turn in 0..2 * backlog {
            inbox.packet(ipv4(&node), Some((turn % 10) as u16), &packet(kind::lock::GAP, 3));
        }
        assert_eq!(inbox.overflowed(), backlog);
        // What was refused for want of a place in the channel has not cost its tenant a place of its share.
        let first = events.try_recv().unwrap().expect("a packet");
        inbox.took(&first);
        inbox.packet(ipv4(&node), Some(9), &packet(kind::lock::GAP, 3));
        assert_eq!(inbox.overflowed(), backlog);
    }
}
