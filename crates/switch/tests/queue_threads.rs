//! Several threads, each a node, at few locks with queues in the switch, on a network that loses and repeats: exclusive
//! holds are alone, shared ones are with shared ones only, tokens rise, every release counts once, and in the end
//! nobody is left. Natively, and in the kernel on both CPUs.

#[cfg(feature = "xdp")]
mod engine;
mod support;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use support::queue::{Client, Phase};
use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_switch::{Action, QueueConfig, Switch};
use wayside_wire::{Attempt, BODY};

const THREADS: u16 = 4;
/// Names, and the cells of their queues: too few, and enough.
const LOCKS: [(u64, u32); 2] = [(1, 2), (2, 8)];
const HOLDS: u64 = 4_000;
/// Looks at an empty mailbox before a packet is repeated, and before nobody is thought to answer any more.
const PATIENCE: u32 = 20;
const DESPAIR: u32 = 500_000;

/// What a switch makes of a packet: to whom it goes, and what.
type Decide<'a> = &'a (dyn Fn(&[u8], u16) -> Vec<(u16, Vec<u8>)> + Sync);

/// What is true of a lock beyond the switch's word.
#[derive(Default)]
struct Witness {
    /// Shared holders, and 2^32 for each exclusive one.
    holders: AtomicU64,
    /// Ticket of the latest exclusive hold.
    exclusive: AtomicU64,
    /// Exclusive holds, counted without an atomic addition: two at a time would lose one.
    counted: AtomicU64,
}

impl Witness {
    fn begin(&self, ticket: u64, exclusive: bool) {
        let one = if exclusive { 1 << 32 } else { 1 };
        let before = self.holders.fetch_add(one, SeqCst);
        assert!(if exclusive { before == 0 } else { before >> 32 == 0 }, "{before:#x} hold beside ticket {ticket}");
        let latest = self.exclusive.load(SeqCst);
        assert!(ticket > latest, "ticket {ticket} after {latest}");
        if exclusive {
            self.exclusive.store(ticket, SeqCst);
            let counted = self.counted.load(SeqCst);
            std::thread::yield_now();
            self.counted.store(counted + 1, SeqCst);
        }
    }

    fn end(&self, exclusive: bool) {
        self.holders.fetch_sub(if exclusive { 1 << 32 } else { 1 }, SeqCst);
    }
}

struct Net<'a> {
    decide: Decide<'a>,
    mailboxes: Vec<Mutex<VecDeque<Vec<u8>>>>,
}

impl Net<'_> {
    fn new(decide: Decide<'_>, nodes: u16) -> Net<'_> {
        Net { decide, mailboxes: (0..=nodes).map(|_| Mutex::default()).collect() }
    }

    /// One packet in sixteen is lost on its way to the switch or from it, one comes twice.
    fn send(&self, me: u16, packet: &[u8], random: &mut u64) {
        let mut below = |bound: u64| {
            *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (*random >> 33) % bound
        };
        let times = [0, 2].get(below(32) as usize).copied().unwrap_or(1);
        for _ in 0..times {
            for (handle, packet) in (self.decide)(packet, me) {
                if below(32) != 0 {
                    self.mailboxes[usize::from(handle)].lock().unwrap().push_back(packet);
                }
            }
        }
    }
}

/// One node: holds this often, one lock at a time. Exclusive holds of each lock.
fn play(me: u16, net: &Net<'_>, witnesses: &[Witness], locks: &[(u64, u32)], holds: u64) -> Vec<u64> {
    let mut clients: Vec<Client> = locks.iter().map(|(name, _)| Client::new(me, *name)).collect();
    let mut exclusive_holds = vec![0; locks.len()];
    let mut random = u64::from(me) << 32 | 1;
    for hold in 0..holds {
        let at = (hold + u64::from(me) * 3) as usize % 7 % locks.len();
        let exclusive = (hold * 7 + u64::from(me)) % 3 != 0;
        let packet = clients[at].acquire(exclusive);
        net.send(me, &packet, &mut random);
        let (mut told, mut patience) = (false, 0);
        while clients[at].phase != Phase::Idle {
            let mail = net.mailboxes[usize::from(me)].lock().unwrap().pop_front();
            let Some(mail) = mail else {
                patience += 1;
                assert!(patience < DESPAIR, "nobody answers {:?} of {me}", clients[at].phase);
                if patience % PATIENCE == 0
                    && let Some(packet) = clients[at].again()
                {
                    net.send(me, &packet, &mut random);
                }
                std::thread::yield_now();
                continue;
            };
            // Grants that nobody waits for come to any of the node's clients.
            let name = Attempt::read(&mail, BODY).name;
            let of = locks.iter().position(|(known, _)| *known == name).expect("one of them");
            if let Some(answer) = clients[of].on_packet(&mail) {
                net.send(me, &answer, &mut random);
            }
            if let Phase::Holds { ticket, .. } = clients[at].phase
                && !told
            {
                told = true;
                witnesses[at].begin(ticket, exclusive);
                exclusive_holds[at] += u64::from(exclusive);
                witnesses[at].end(exclusive);
                let packet = clients[at].end();
                net.send(me, &packet, &mut random);
            }
        }
    }
    exclusive_holds
}

/// All nodes at once, until the last has done its part; those who are done go on giving back what they are granted.
fn play_all(nodes: u16, net: &Net<'_>, witnesses: &[Witness], holds: u64, begin: &(dyn Fn(u16) + Sync)) {
    let running = &AtomicU64::new(nodes.into());
    let played: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let one = |me: u16| {
            begin(me);
            let done = OnDrop(running);
            let played = play(me, net, witnesses, &LOCKS, holds);
            drop(done);
            let mut clients: Vec<Client> = LOCKS.iter().map(|(name, _)| Client::new(me, *name)).collect();
            let mut random = u64::from(me) << 16 | 1;
            while running.load(SeqCst) > 0 {
                if let Some(mail) = net.mailboxes[usize::from(me)].lock().unwrap().pop_front() {
                    let name = Attempt::read(&mail, BODY).name;
                    let of = LOCKS.iter().position(|(known, _)| *known == name).expect("one of them");
                    if let Some(answer) = clients[of].on_packet(&mail) {
                        net.send(me, &answer, &mut random);
                    }
                }
                std::thread::yield_now();
            }
            played
        };
        let nodes: Vec<_> = (1..=nodes).map(|me| scope.spawn(move || one(me))).collect();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    });
    for (at, witness) in witnesses.iter().enumerate() {
        let held: u64 = played.iter().map(|played| played[at]).sum();
        assert_eq!((witness.holders.load(SeqCst), witness.counted.load(SeqCst)), (0, held), "of lock {at}");
        assert!(held > holds / 4, "hardly any exclusive holds: {held}");
    }
}

/// One fewer is running, however the thread ends.
struct OnDrop<'a>(&'a AtomicU64);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn native_threads() {
    let switch = support::switch(1, THREADS).with_queues(QueueConfig { queues: 4, cells: 16, seed: 3 });
    for (name, cells) in LOCKS {
        switch.add_queue(NAMESPACE, name, cells, 1).unwrap();
    }
    let decide = |packet: &[u8], me: u16| decide_natively(&switch, packet, me);
    let net = Net::new(&decide, THREADS);
    let witnesses: [Witness; LOCKS.len()] = Default::default();
    play_all(THREADS, &net, &witnesses, HOLDS, &|_| {});
    for counter in ["queue_granted", "queue_granted_again", "queue_waiting", "queue_released", "copied"] {
        assert!(switch.counter(counter) > 100, "hardly anybody met {counter}: {}", switch.counter(counter));
    }
    for (name, _) in LOCKS {
        let queue = switch.queue(NAMESPACE, name).expect("it has one");
        assert!(queue.head <= queue.granted && queue.granted <= queue.tail && queue.tail > HOLDS, "{queue:?}");
    }
}

fn decide_natively(switch: &Switch, packet: &[u8], me: u16) -> Vec<(u16, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let verdict = switch.process(Time(0), &mut packet, from(me));
    packet.truncate(verdict.length);
    let handle = match verdict.action {
        Action::ToSender => me,
        Action::ToNode { handle, .. } => handle,
        _ => return vec![],
    };
    let mut out = vec![];
    if let Some(other) = verdict.copy {
        let mut copy = packet.clone();
        assert!(switch.make_copy(&mut copy));
        out.push((other, copy));
    }
    out.push((handle, packet));
    out
}

/// The same in the kernel, on both CPUs.
#[cfg(feature = "xdp")]
#[test]
fn as_bpf() {
    use engine::bpf::{Bpf, ENVELOPE, frame, run_on, to_switch};
    use engine::{Directory, Engine, Node, Queue, State};
    use wayside_protocol::memory::NodeWord;
    use wayside_wire::{Header, NodeState};

    const HOLDS_OF_A_CPU: u64 = 2_000;
    const XDP_TX: u32 = 3;
    const XDP_REDIRECT: u32 = 4;
    /// Running a program is one system call on a file descriptor.
    struct Shared<'a>(&'a Bpf);
    // SAFETY: as said above.
    unsafe impl Sync for Shared<'_> {}
    impl Shared<'_> {
        fn decide(&self, packet: &[u8]) -> Vec<(u16, Vec<u8>)> {
            let (code, out) = self.0.run(&frame(&to_switch(20_001), packet, true));
            if code != XDP_TX && code != XDP_REDIRECT {
                return vec![];
            }
            let packet = out[ENVELOPE..].to_vec();
            let to = |packet: &[u8]| Header::read(packet).unwrap().destination;
            let mut out = vec![];
            if code == XDP_REDIRECT {
                let copy = self.0.copied(&packet).expect("nothing is signed");
                out.push((to(&copy), copy));
            }
            out.push((to(&packet), packet));
            out
        }
    }

    if let Some(why) = Bpf::missing() {
        return println!("skipped: threads as BPF: {why}");
    }
    let cpus = std::thread::available_parallelism().unwrap().get().min(2);
    let mut bpf = Bpf::load(false);
    let mut state = State::default();
    (state.globals.epoch, state.globals.serving) = (support::EPOCH, 1);
    let word = NodeWord { state: NodeState::Live, sequence: 0 }.pack();
    for handle in 1..=cpus {
        let oldest = support::request(handle as u16, 0);
        state.nodes[handle] = Node { word, oldest, namespace: NAMESPACE, ..Node::default() };
    }
    state.directory = Directory { seed: 7, bucket_mask: 1, ..Directory::default() };
    let mut left = 0;
    for (number, (name, size)) in (1..).zip(LOCKS) {
        let (namespace, epoch) = (NAMESPACE.into(), support::EPOCH);
        let queue = Queue { name, namespace, epoch, left, size, head: 1, granted: 1, tail: 1, ..Queue::default() };
        state.put_queue(number, queue);
        left += size;
    }
    bpf.set(&state);
    let shared = &Shared(&bpf);
    let decide = |packet: &[u8], _: u16| shared.decide(packet);
    let net = Net::new(&decide, cpus as u16);
    let witnesses: [Witness; LOCKS.len()] = Default::default();
    play_all(cpus as u16, &net, &witnesses, HOLDS_OF_A_CPU, &|me| run_on(usize::from(me) - 1));
    assert!(bpf.count("queue_granted") > HOLDS_OF_A_CPU, "{}", bpf.count("queue_granted"));
    assert!(bpf.get().queues.iter().all(|queue| queue.lock == 0), "a lock that nobody gave back");
}
