//! What a thread leaves that dies while it decides on a queue, or makes or removes one, and what the next process makes
//! of it.

use super::*;
use crate::layout::{RawVerdict, View};
use crate::locks::{DAEMON, OWNER};
use crate::{Action, SwitchConfig};
use std::net::SocketAddrV4;
use wayside_protocol::Time;
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_wire::{Attempt, BODY, Header, kind, queue_flag, request_id, service};

unsafe extern "C" {
    fn ws_process_dying(view: *const View, packet: *mut u8, length: u32, from_port: u16, stores: u32) -> RawVerdict;
}

const CONFIG: QueueConfig = QueueConfig { queues: 2, cells: 4, seed: 5 };
const NAMESPACE: u16 = 1;
const NAME: u64 = 9;
const FROM: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 20_001);
/// More than a decision on a queue has.
const ENOUGH: u32 = 40;

fn switch() -> Switch {
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 10 }).with_queues(CONFIG);
    switch.set_epoch(7);
    switch.set_serving(true);
    for handle in [1, 2] {
        let address = SocketAddrV4::new(*FROM.ip(), 10_000 + handle);
        switch.set_node(handle, &NodeEntry { address, namespace: NAMESPACE, incarnation: handle.into() });
    }
    switch.add_queue(NAMESPACE, NAME, 2, 1).expect("there is room");
    switch
}

/// The same memory, as another process finds it.
fn reopened(switch: Switch) -> Switch {
    let Switch { memory, store, queues, counters, traces, tables: _, deciders: _ } = switch;
    let Queues { queues, cells, names, servers, directory, books: _ } = queues;
    let queues = Queues::over(CONFIG, queues, cells, names, servers, directory);
    Switch::of(memory, store, queues, counters, traces)
}

/// A session that wants the lock once, exclusively.
struct Client {
    handle: u16,
    ticket: u64,
    holds: bool,
    is_over: bool,
}

impl Client {
    fn new(handle: u16) -> Client {
        Client { handle, ticket: 0, holds: false, is_over: false }
    }

    fn request(&self) -> u64 {
        request_id::with_incarnation(1, self.handle.into())
    }

    fn says(&self, kind: u8) -> Vec<u8> {
        let header = Header {
            service: service::QUEUE,
            kind,
            source: self.handle,
            epoch: 7,
            namespace: NAMESPACE,
            ..Header::default()
        };
        let (request, ticket, holder) = (self.request(), self.ticket, self.handle);
        let flags = queue_flag::EXCLUSIVE;
        let mut packet = vec![0; BODY + Attempt::BYTES];
        header.write(&mut packet);
        Attempt { name: NAME, request, ticket, holder, flags, ..Attempt::default() }.write(&mut packet, BODY);
        packet
    }

    /// What it says until it is answered.
    fn again(&self) -> Vec<u8> {
        self.says(if self.holds { kind::queue::RELEASE } else { kind::queue::ACQUIRE })
    }

    fn hears(&mut self, packet: &[u8]) {
        let (header, attempt) = (Header::read(packet).expect("the switch's"), Attempt::read(packet, BODY));
        match header.kind {
            kind::queue::GRANT if header.destination == self.handle && !self.is_over => {
                assert_eq!(attempt.request, self.request());
                (self.holds, self.ticket) = (true, attempt.ticket);
            }
            kind::queue::QUEUED if header.destination == self.handle => self.ticket = attempt.ticket,
            _ => {}
        }
        // A grant says it to who was before.
        if attempt.over == self.request() && header.kind != kind::queue::QUEUED {
            (self.holds, self.is_over) = (false, true);
        }
    }
}

/// Two clients and the lock; what they say is `process`ed, and every answer arrives.
fn goes(switch: &Switch, clients: &mut [Client; 2], mut packet: Vec<u8>) {
    let verdict = switch.process(Time(0), &mut packet, FROM);
    if verdict.action != Action::Drop {
        clients.iter_mut().for_each(|client| client.hears(&packet));
    }
    assert!(!clients.iter().all(|client| client.holds), "both hold it");
}

/// Dies after every number of stores that there may be, in each of four decisions: the request is granted or waits, the
/// one that waits is next, the last one goes. Said again, it is as if nobody had died.
#[test]
fn a_queue_goes_on_where_a_thread_has_died() {
    for dies in 0..4 {
        for stores in 0..ENOUGH {
            let switch = switch();
            let mut clients = [Client::new(1), Client::new(2)];
            let order = [0, 1, 0, 1];
            for &next in &order[..dies] {
                let packet = clients[next].again();
                goes(&switch, &mut clients, packet);
            }
            let mut dying = clients[order[dies]].again();
            // SAFETY: as in `Switch::process`.
            unsafe {
                ws_process_dying(&switch.view(Time(0)), dying.as_mut_ptr(), dying.len() as u32, FROM.port(), stores);
            }
            let switch = reopened(switch);
            let (_, queue) = switch.queues.find(NAMESPACE, NAME).expect("it is there");
            assert_eq!(queue.lock.load(SeqCst) & OWNER, 0, "decision {dies}, {stores} stores: its lock is left");
            let holds = switch.queued(NAMESPACE, NAME).iter().filter(|queued| queued.holds).count();
            let counted = switch.queue(NAMESPACE, NAME).expect("it is there").holders;
            assert_eq!(counted as usize, holds, "decision {dies}, {stores} stores");
            for _ in 0..6 {
                for next in [0, 1] {
                    if !clients[next].is_over {
                        let packet = clients[next].again();
                        goes(&switch, &mut clients, packet);
                    }
                }
            }
            assert!(clients.iter().all(|client| client.is_over), "decision {dies}, {stores} stores: somebody waits");
            assert!(switch.queued(NAMESPACE, NAME).is_empty(), "decision {dies}, {stores} stores");
        }
    }
}

/// Of a queue that was being made, or removed: its lock with no cells; or with cells, and no name that leads to it.
#[test]
fn half_a_queue_is_none() {
    for cells in [0, 2] {
        let switch = switch();
        let (place, queue) = switch.queues.find(NAMESPACE, NAME).expect("it is there");
        queue.lock.store(DAEMON << 48, SeqCst);
        queue.size.store(cells, SeqCst);
        place.store(0, SeqCst);
        let switch = reopened(switch);
        assert!(switch.queues().is_empty(), "{cells} cells");
        assert!(switch.queues.queues.iter().all(|queue| queue.size.load(SeqCst) == 0), "{cells} cells");
        let locks = switch.queues.queues.iter().map(|queue| queue.lock.load(SeqCst));
        assert!(locks.into_iter().all(|lock| lock & OWNER == 0), "{cells} cells: its lock is left");
        // So are its number and its cells.
        for name in [NAME, NAME + 1] {
            switch.add_queue(NAMESPACE, name, 2, 1).unwrap_or_else(|why| panic!("{cells} cells: {why}"));
        }
    }
}
