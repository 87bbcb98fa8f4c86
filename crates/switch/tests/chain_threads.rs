//! Several threads, each a client, on few keys: every increment counts once, no value is torn, versions never fall, and
//! a request has one effect, whoever else writes; while the daemon makes and removes keys and changes the place.

#[cfg(feature = "xdp")]
mod engine;
mod support;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use support::chain::{Client, Decide, FIRST_EPOCH, GROUP, counter_of, key};
use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{Place, Version};
use wayside_switch::{Action, StoreConfig, Switch};

const THREADS: u16 = 4;
/// Keys that are only ever added to, keys that are written and deleted, and keys that come and go.
const COUNTERS: u64 = 2;
const WRITTEN: u64 = 2;
const PASSING: u64 = 4;
const STEPS: u64 = 20_000;
/// Steps of the daemon between two changes of the place.
const STAY: u64 = 20;

/// One client's part: what it added to each counter, and how many requests it sent again.
fn play(me: u16, decide: Decide<'_>, steps: u64, passing: u64) -> (BTreeMap<u64, u64>, u64) {
    let mut client = Client::new(me, decide);
    for step in 0..steps {
        // With fewer cores than threads whoever has a lock must get its turn.
        if step % 100 == 0 {
            std::thread::yield_now();
        }
        let number = client.below(COUNTERS + WRITTEN + passing);
        if number < COUNTERS {
            client.add(number);
        } else if client.below(2) == 0 {
            client.read(number);
        } else {
            client.overwrite(number);
        }
    }
    (client.added, client.repeated)
}

/// Makes and removes keys and changes epochs until the clients are done.
fn keep(switch: &Switch, running: &AtomicU64) -> u64 {
    let mut changes = 0;
    while running.load(SeqCst) > 0 {
        let number = COUNTERS + WRITTEN + changes % PASSING;
        let place = switch.place(GROUP);
        if !switch.remove(GROUP, key(number)) {
            let version = Version { epoch: place.epoch, sequence: switch.next_sequence(GROUP) };
            assert_eq!(switch.insert(GROUP, key(number), version), Ok(true));
            let content = switch.content(GROUP, key(number)).expect("just made");
            assert!(content.version >= version);
        }
        if let Some(content) = switch.content(GROUP, key(changes % (COUNTERS + WRITTEN)))
            && let Some(length) = content.length
        {
            counter_of(changes % (COUNTERS + WRITTEN), &content.bytes[..usize::from(length)]);
        }
        if changes % STAY == 0 {
            switch.set_place(GROUP, NAMESPACE, Place { epoch: place.epoch + 1, ..place });
        }
        changes += 1;
        std::thread::yield_now();
    }
    changes
}

fn switch() -> Switch {
    let switch = support::switch(1, THREADS).with_store(StoreConfig { keys: 100, seed: 7 });
    switch.set_place(GROUP, NAMESPACE, Place { epoch: FIRST_EPOCH, previous: 0, next: 0 });
    for number in 0..COUNTERS + WRITTEN {
        let version = Version { epoch: FIRST_EPOCH, sequence: switch.next_sequence(GROUP) };
        assert_eq!(switch.insert(GROUP, key(number), version), Ok(true));
    }
    switch
}

#[test]
fn native_threads() {
    let switch = &switch();
    let decide = |mut packet: Vec<u8>, me: u16| {
        let verdict = switch.process(Time(0), &mut packet, from(me));
        packet.truncate(verdict.length);
        (verdict.action == Action::ToSender).then_some(packet)
    };
    let running = &AtomicU64::new(THREADS.into());
    let (played, changes) = std::thread::scope(|scope| {
        let decide = &decide;
        let clients: Vec<_> = (1..=THREADS)
            .map(|me| {
                scope.spawn(move || {
                    let _done = OnDrop(running);
                    play(me, decide, STEPS, PASSING)
                })
            })
            .collect();
        let changes = keep(switch, running);
        (clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>(), changes)
    });
    for number in 0..COUNTERS {
        let added: u64 = played.iter().map(|(added, _)| added.get(&number).copied().unwrap_or(0)).sum();
        let content = switch.content(GROUP, key(number)).expect("nobody removes it");
        let length = usize::from(content.length.expect("somebody added"));
        assert_eq!(counter_of(number, &content.bytes[..length]), added, "every increment once");
        assert!(added > STEPS / 10, "hardly any increments: {added}");
    }
    let repeated: u64 = played.iter().map(|(_, repeated)| repeated).sum();
    assert!(repeated > STEPS / 10, "hardly any requests were repeated: {repeated}");
    assert!(switch.counter("repeated") >= repeated && changes > STAY, "{changes} changes by the daemon");
    for counter in ["unmet", "written", "read", "missing", "moved"] {
        assert!(switch.counter(counter) > 0, "nobody met {counter}");
    }
}

/// One fewer is running, however the thread ends.
struct OnDrop<'a>(&'a AtomicU64);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The same in the kernel, on both CPUs; keys stay.
#[cfg(feature = "xdp")]
#[test]
fn as_bpf() {
    use engine::bpf::{Bpf, ENVELOPE, frame, run_on, to_switch};
    use engine::{Engine, Group, Node, State, Store};
    use wayside_protocol::memory::NodeWord;
    use wayside_wire::NodeState;

    const STEPS_OF_A_CPU: u64 = 10_000;
    const XDP_TX: u32 = 3;
    /// Running a program is one system call on a file descriptor.
    struct Shared<'a>(&'a Bpf);
    // SAFETY: as said above.
    unsafe impl Sync for Shared<'_> {}
    impl Shared<'_> {
        fn decide(&self, packet: &[u8]) -> Option<Vec<u8>> {
            let (code, out) = self.0.run(&frame(&to_switch(20_001), packet, true));
            (code == XDP_TX).then(|| out[ENVELOPE..].to_vec())
        }
    }

    if let Some(why) = Bpf::missing() {
        return println!("skipped: threads as BPF: {why}");
    }
    let cpus = std::thread::available_parallelism().unwrap().get().min(2);
    let mut bpf = Bpf::load(false);
    let mut state = State::default();
    state.globals.epoch = support::EPOCH;
    let word = NodeWord { state: NodeState::Live, sequence: 0 }.pack();
    for handle in 1..=cpus {
        state.nodes[handle] = Node { word, namespace: NAMESPACE, ..Node::default() };
    }
    let place = Place { epoch: FIRST_EPOCH, previous: 0, next: 0 }.pack();
    state.groups[usize::from(GROUP)] = Group { place, sequence: 10, namespace: NAMESPACE.into(), watched: 0 };
    state.store = Store { seed: 7, bucket_mask: 1, handle: 9, ..Store::default() };
    for number in 0..COUNTERS + WRITTEN {
        state.put_key(1 + number as usize, GROUP, key(number));
        state.write_item(1 + number as usize, (FIRST_EPOCH, 1 + number), None);
    }
    bpf.set(&state);
    let shared = &Shared(&bpf);
    let played: Vec<_> = std::thread::scope(|scope| {
        let client = |cpu: usize| {
            run_on(cpu);
            play(1 + cpu as u16, &|packet, _| shared.decide(&packet), STEPS_OF_A_CPU, 0)
        };
        let clients: Vec<_> = (0..cpus).map(|cpu| scope.spawn(move || client(cpu))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let after = bpf.get();
    for number in 0..COUNTERS {
        let added: u64 = played.iter().map(|(added, _)| added.get(&number).copied().unwrap_or(0)).sum();
        let item = &after.items[1 + number as usize];
        assert_eq!(item.values[(item.lock & 1) as usize][0], added, "every increment once");
        assert!(added > STEPS_OF_A_CPU / 10, "hardly any increments: {added}");
    }
    assert!(bpf.count("repeated") >= played.iter().map(|(_, repeated)| repeated).sum());
    assert!(after.items.iter().chain(&[]).all(|item| item.lock >> 48 == 0), "a lock that nobody gave back");
}
