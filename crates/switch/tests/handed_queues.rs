//! Queues that one switch hands to the next: whoever held or waited goes on there, in the same order.
//!
//! Left out one at a time, these rules of `src/queues/hand_over.rs` fail here: holders are counted; what is over stays
//! over; queues that were there are removed, and come back where there is no room; what is no queue is refused.

mod support;

use std::collections::BTreeMap;
use support::queue::{Client, Phase};
use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_protocol::memory::{LockServer, Part, QueuesMemory, Step, SwitchMemory};
use wayside_switch::{Action, QueueConfig, QueueState, Switch};

const NAME: u64 = 77;
const OTHER: u64 = 78;
const SERVER: u16 = 8;

fn switch(queues: u32, cells: u32, seed: u64) -> Switch {
    support::switch(1, SERVER).with_queues(QueueConfig { queues, cells, seed })
}

fn say(switch: &Switch, me: u16, packet: &mut Vec<u8>) -> Action {
    let verdict = switch.process(Time(0), packet, from(me));
    packet.truncate(verdict.length);
    verdict.action
}

fn ask(switch: &Switch, client: &mut Client, exclusive: bool) {
    let mut packet = client.acquire(exclusive);
    assert_eq!(say(switch, client.me, &mut packet), Action::ToSender);
    client.on_packet(&packet);
}

fn handed(from: &Switch) -> BTreeMap<u16, QueuesMemory> {
    BTreeMap::from([(NAMESPACE, from.queues_memory(NAMESPACE))])
}

/// As it is, wherever its cells are.
fn state(switch: &Switch, name: u64) -> QueueState {
    QueueState { begun: 0, ..switch.queue(NAMESPACE, name).expect("it has a queue") }
}

/// One exclusive holder and three who wait, of whom one has gone, in cells that have been used before.
fn crowd(switch: &Switch) -> Vec<Client> {
    switch.add_queue(NAMESPACE, NAME, 4, 1_000).unwrap();
    let mut clients: Vec<Client> = (1..5).map(|me| Client::new(me, NAME)).collect();
    clients.iter_mut().for_each(|client| ask(switch, client, true));
    let mut gone = clients[1].end();
    say(switch, 2, &mut gone);
    clients[1].on_packet(&gone);
    assert!(matches!(clients[1].phase, Phase::Idle));
    clients
}

#[test]
fn who_holds_and_who_waits_goes_on_in_the_same_order() {
    let (former, latter) = (switch(2, 8, 5), switch(2, 8, 6));
    let mut clients = crowd(&former);
    former.set_lock_server(NAMESPACE, Part { number: 1, of: 3 }, 7);
    former.set_lock_server(NAMESPACE, Part { number: 1, of: 3 }, SERVER);
    former.add_queue(NAMESPACE, OTHER, 1, 1).unwrap();
    assert!(former.step(NAMESPACE, OTHER, Step::Drain));
    latter.add_queue(NAMESPACE, 5, 8, 1).unwrap();
    assert!(latter.take_up_queues(&handed(&former)));
    assert_eq!(latter.queue(NAMESPACE, 5), None, "nobody handed it over");
    for name in [NAME, OTHER] {
        assert_eq!(state(&latter, name), state(&former, name));
    }
    assert_eq!(latter.queued(NAMESPACE, NAME), former.queued(NAMESPACE, NAME));
    assert_eq!(latter.parts(NAMESPACE), 3);
    assert_eq!(latter.lock_server(NAMESPACE, 1), LockServer { handle: SERVER, term: 2 });
    assert_eq!(latter.lock_server(NAMESPACE, 0), LockServer::default());
    // Whoever gives it back, the one behind has it: with the ticket that he was told before.
    for (holder, next) in [(0, 2), (2, 3)] {
        let mut packet = clients[holder].end();
        let me = clients[holder].me;
        let action = say(&latter, me, &mut packet);
        assert!(matches!(action, Action::ToNode { .. }), "{action:?}: to whoever is next");
        clients[next].on_packet(&packet);
        assert!(matches!(clients[next].phase, Phase::Holds { ticket, .. } if ticket == 1_000 + next as u64));
    }
}

#[test]
fn those_who_share_are_counted() {
    let (former, latter) = (switch(1, 4, 5), switch(1, 4, 6));
    former.add_queue(NAMESPACE, NAME, 4, 1).unwrap();
    let mut clients: Vec<Client> = (1..4).map(|me| Client::new(me, NAME)).collect();
    clients[..2].iter_mut().for_each(|client| ask(&former, client, false));
    ask(&former, &mut clients[2], true);
    assert!(latter.take_up_queues(&handed(&former)));
    let mut packet = clients[0].end();
    assert_eq!(say(&latter, 1, &mut packet), Action::ToSender, "the other one holds");
    let mut packet = clients[1].end();
    assert!(matches!(say(&latter, 2, &mut packet), Action::ToNode { .. }));
    clients[2].on_packet(&packet);
    assert!(matches!(clients[2].phase, Phase::Holds { .. }));
}

/// Its own are what it was made for: they are there, and nobody is in them.
#[test]
fn where_there_is_no_room_all_is_as_before_and_empty() {
    let former = switch(2, 8, 5);
    crowd(&former);
    former.add_queue(NAMESPACE, OTHER, 4, 1).unwrap();
    for (queues, cells) in [(1, 8), (2, 7)] {
        let latter = switch(queues, cells, 6);
        latter.add_queue(NAMESPACE, 5, 3, 1).unwrap();
        ask(&latter, &mut Client::new(1, 5), true);
        latter.set_lock_server(NAMESPACE, Part::WHOLE, SERVER);
        assert!(!latter.take_up_queues(&handed(&former)), "{queues} queues, {cells} cells");
        assert_eq!(latter.queues(), [(NAMESPACE, 5)]);
        let queue = state(&latter, 5);
        assert_eq!((queue.size, queue.head, queue.tail, queue.holders), (3, 1, 1, 0));
        assert_eq!(latter.lock_server(NAMESPACE, 0), LockServer { handle: SERVER, term: 1 });
    }
}

/// What a program at the hook would read beside its tables by.
#[test]
fn what_is_no_queue_is_refused_and_changes_nothing() {
    let former = switch(1, 8, 5);
    crowd(&former);
    let latter = switch(1, 2_000, 6);
    latter.add_queue(NAMESPACE, 5, 3, 1).unwrap();
    let refused = |what: &str, spoil: &dyn Fn(&mut QueuesMemory)| {
        let mut all = handed(&former);
        all.values_mut().for_each(spoil);
        assert!(!latter.take_up_queues(&all), "{what}");
        assert_eq!(latter.queues(), [(NAMESPACE, 5)], "{what}");
    };
    refused("no cells", &|known| known.queues[0].line.cells = 0);
    refused("too many cells", &|known| known.queues[0].line.cells = 1_025);
    refused("more used than there are", &|known| known.queues[0].line.cells = 3);
    refused("more used than come", &|known| known.queues[0].members.truncate(3));
    refused("more used than were ever", &|known| known.queues[0].line.ticket = 3);
    refused("granted below the head", &|known| known.queues[0].granted = 999);
    refused("granted above the tail", &|known| known.queues[0].granted = 1_005);
    refused("a ticket of 41 bits", &|known| {
        (known.queues[0].line.ticket, known.queues[0].granted) = ((1 << 40) + 1, 1 << 40);
    });
    refused("settled above what was given", &|known| known.queues[0].line.settled = 1);
    refused("a holder whose handle is none", &|known| known.queues[0].members[0][1] |= 0xffff << 48);
    refused("a holder who is nobody", &|known| known.queues[0].members[0][1] &= !(0xffff << 48));
    refused("a lock server whose handle is none", &|known| {
        known.servers = vec![LockServer { handle: u16::MAX, term: 1 }];
    });
    refused("too many parts", &|known| known.servers = vec![LockServer::default(); 15]);
}
