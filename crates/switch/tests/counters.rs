//! Lanes of a switch that more threads use than it has: some have one for themselves, others share the last.

mod support;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Barrier;
use std::thread;

use support::{from, lock_packet, request, switch};
use wayside_protocol::Time;
use wayside_switch::{Switch, SwitchConfig};
use wayside_wire::{Entry, entry_flag, kind};

const LANES: usize = 16;

/// More than there are lanes to count in: some count alone, others together.
#[test]
fn every_packet_is_counted_however_many_threads_there_are() {
    const THREADS: usize = 40;
    const PACKETS: u64 = 200_000;
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 1 });
    let ready = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                ready.wait();
                for _ in 0..PACKETS {
                    switch.process(Time(0), &mut [0; 64], SocketAddrV4::new(Ipv4Addr::LOCALHOST, 20_001));
                }
            });
        }
    });
    assert_eq!(switch.counter("bad_magic"), THREADS as u64 * PACKETS);
}

/// Who shares a lane has no place of his own to keep what he follows.
#[test]
fn threads_that_share_a_lane_follow_nothing() {
    const THREADS: u16 = 2 * LANES as u16;
    let switch = switch(THREADS.into(), 1);
    let mut reader = switch.trace_reader();
    switch.set_trace_one_in(1);
    let ready = Barrier::new(THREADS.into());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (switch, ready) = (&switch, &ready);
            scope.spawn(move || {
                ready.wait();
                let (name, request, slot) = (number.into(), request(1, number.into()), number.into());
                let entry = Entry { name, request, slot, flags: entry_flag::EXCLUSIVE, holder: 1, ..Entry::default() };
                switch.process(Time(0), &mut lock_packet(kind::lock::ACQUIRE, 1, &[entry]), from(1));
            });
        }
    });
    let mut followed = 0;
    let lost = switch.read_traces(&mut reader, |_| followed += 1);
    assert!(followed < LANES && lost == 0, "{followed}");
    assert_eq!(switch.counter("granted"), THREADS.into(), "all of them are served");
}
