use super::*;
use crate::answers::NodeListing;
use wayside_client::control::request_text;

/// A node with this handle lists these: `T1 holds a`, `T2 awaits b shared`, `task/… holds c`, `- awaits d`. Requests
/// are numbered from 1 on, in this order.
fn listed(handle: u16, text: &str) -> (Owner, Listing) {
    let entries = text.split(", ").filter(|line| !line.is_empty()).zip(1..).map(|(line, number)| {
        let words: Vec<&str> = line.split(' ').collect();
        let (task, parent) = words[0].split_once('<').unwrap_or((words[0], ""));
        let held = words[1] == "holds";
        Listed {
            name: words[2].into(),
            name_id: words[2].into(),
            slot: 0,
            mode: words.get(3).copied().unwrap_or("exclusive").into(),
            state: if held { "held" } else { "waiting" }.into(),
            since_us: 1_000_000 * u64::from(handle),
            token: if held { "33".into() } else { String::new() },
            request: request_text(number),
            priority: None,
            task: if task == "-" { String::new() } else { task.into() },
            parent: parent.into(),
        }
    });
    let owner = Owner { shard: String::new(), handle, host: format!("host{handle}"), pid: 4_710 + u32::from(handle) };
    let process = format!("process {handle}");
    (owner, Listing { id: 0, process, entries: entries.collect(), queues: Vec::new(), kept: 0 })
}

fn key(handle: u16, number: u64) -> RequestKey {
    RequestKey { shard: "".into(), handle, request: request_text(number) }
}

fn suspects(picture: &Picture) -> usize {
    cycles(&picture.edges()).len()
}

/// What nodes 1, 2, ... list, and a queue of (node, request) at node 1.
fn picture(nodes: &[&str], queue: &[(u16, u64)]) -> Picture {
    let mut picture = Picture::default();
    for (text, handle) in nodes.iter().zip(1..) {
        let (owner, mut listing) = listed(handle, text);
        if handle == 1 {
            let queued = queue.iter().map(|&(handle, request)| Queued { handle, request: request_text(request) });
            listing.queues.push(queued.collect());
        }
        picture.add("default", &owner, listing);
    }
    picture
}

fn found(nodes: &[&str], queue: &[(u16, u64)]) -> Vec<String> {
    let picture = picture(nodes, queue);
    find(&picture, &picture).iter().map(|found| found.deadlock.to_string()).collect()
}

#[test]
fn two_tasks_that_want_each_others_locks() {
    let nodes = ["thread/7 holds a, thread/7 awaits b", "thread/7 holds b, thread/7 awaits a"];
    let cycle = "host1/4711/7 waits for b (exclusive) held by host2/4712/7, which waits for a (exclusive) held by \
                 host1/4711/7";
    assert_eq!(found(&nodes, &[]), [cycle]);
    let picture = picture(&nodes, &[]);
    let [found] = &find(&picture, &picture)[..] else { panic!("one") };
    assert_eq!(found.waits, [key(1, 2), key(2, 2)]);
    assert_eq!(found.youngest, Some(key(1, 2)), "node 1's wait is one second old, node 2's two");
    assert_eq!(found.deadlock.cycle.iter().map(|step| &*step.because).collect::<Vec<_>>(), ["held", "held"]);
}

#[test]
fn three_tasks_in_a_circle_and_those_that_wait_for_them_are_one_deadlock() {
    let nodes = [
        "thread/1 holds a, thread/1 awaits b, thread/9 holds z",
        "thread/2 holds b, thread/2 awaits c",
        "thread/3 holds c, thread/3 awaits a",
        "thread/4 holds d, thread/4 awaits a",
        "thread/5 awaits d",
    ];
    let cycles = found(&nodes, &[]);
    assert_eq!(cycles.len(), 1, "{cycles:?}");
    assert_eq!(cycles[0].matches("waits for").count(), 3, "{cycles:?}");
}

#[test]
fn requests_without_an_id_are_not_taken_for_one_task() {
    let mut picture = Picture::default();
    for (text, handle) in ["- holds a, - awaits b", "- holds b, - awaits a"].iter().zip(1..) {
        let (owner, mut listing) = listed(handle, text);
        listing.entries.iter_mut().for_each(|listed| listed.request.clear());
        picture.add("default", &owner, listing);
    }
    assert!(find(&picture, &picture).is_empty());
}

#[test]
fn whoever_can_go_on_is_in_no_deadlock() {
    for nodes in [
        // A chain.
        &["thread/1 holds a, thread/1 awaits b", "thread/2 holds b, thread/2 awaits c", "thread/3 holds c"][..],
        // Two threads of one process.
        &["thread/1 holds a, thread/2 awaits b", "thread/1 holds b, thread/1 awaits a"],
        // The same thread id, in two processes.
        &["thread/1 holds a", "thread/1 awaits a"],
        // Shared holds bear each other.
        &["thread/1 holds a shared, thread/1 awaits b", "thread/2 holds b, thread/2 awaits a shared, thread/3 holds a"]
            [..1],
        // Nobody knows that it is one task.
        &["- holds a, - awaits b", "- holds b, - awaits a"],
        // Once more the lock that it has, both shared.
        &["thread/1 holds a shared, thread/1 awaits a shared"],
    ] {
        assert_eq!(found(nodes, &[]), Vec::<String>::new(), "{nodes:?}");
    }
}

#[test]
fn who_awaits_what_it_holds_waits_for_itself() {
    let cycle = "host1/4711/1 waits for a (exclusive) held by host1/4711/1";
    assert_eq!(found(&["thread/1 holds a, thread/1 awaits a"], &[]), [cycle]);
    // An upgrade by asking again: both have it shared, both await it alone.
    assert_eq!(found(&["thread/1 holds a shared, thread/1 awaits a"], &[]).len(), 1);
}

#[test]
fn a_reader_waits_behind_a_writer_and_the_writer_for_the_reader_before() {
    // 1 has a shared and wants b; 2 has b and wants a shared, behind 3 who wants a alone.
    let nodes = [
        "thread/1 holds a shared, thread/1 awaits b",
        "thread/2 holds b, thread/2 awaits a shared",
        "thread/3 awaits a",
    ];
    let behind = [(3, 1), (2, 2)];
    assert_eq!(found(&nodes, &behind).len(), 1);
    assert!(
        found(&nodes, &behind)[0].contains("waits for a (shared) behind host3/4713"),
        "{:?}",
        found(&nodes, &behind)
    );
    // Before the writer it is about to be granted; and without knowing the order nothing is said.
    assert_eq!(found(&nodes, &[(2, 2), (3, 1)]), Vec::<String>::new());
    assert_eq!(found(&nodes, &[]), Vec::<String>::new());
    // A writer of which no task is known is in the way all the same.
    assert_eq!(found(&[nodes[0], nodes[1], "- awaits a"], &behind).len(), 1);
}

#[test]
fn a_task_may_be_in_several_processes_and_wait_for_its_command() {
    let [one, another] = ["task/8000000000000001", "task/8000000000000002"];
    // `lock a -- lock b` and `lock b -- lock a`: four processes.
    let nodes = [
        format!("{one} holds a"),
        format!("task/8000000000000003<{one} awaits b"),
        format!("{another} holds b"),
        format!("task/8000000000000004<{another} awaits a"),
    ];
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let cycles = found(&nodes, &[]);
    assert_eq!(cycles.len(), 1);
    assert!(cycles[0].contains("host1/4711 waits for its command host2/4712, which waits for b"), "{cycles:?}");
    // The victim is one that waits for a lock.
    let picture = picture(&nodes, &[]);
    assert_eq!(find(&picture, &picture)[0].youngest, Some(key(2, 1)));
    // One task, whichever process asks.
    let nodes = [format!("{one} holds a"), format!("{one} awaits b"), "thread/1 holds b, thread/1 awaits a".into()];
    assert_eq!(found(&nodes.each_ref().map(String::as_str), &[]).len(), 1);
}

#[test]
fn a_thread_with_two_sessions_is_one_task() {
    let mut picture = Picture::default();
    let (mut one, another) = (listed(1, "thread/1 holds a"), listed(2, "thread/1 awaits b"));
    one.1.process.clone_from(&another.1.process);
    for (owner, listing) in [one, another, listed(3, "thread/1 holds b, thread/1 awaits a")] {
        picture.add("default", &owner, listing);
    }
    assert_eq!(find(&picture, &picture).len(), 1);
}

#[test]
fn a_cycle_of_one_listing_alone_is_none() {
    // Of nodes that are asked one after the other: 1 had a and awaited b, got it, gave both back; then 2 took b and
    // asks for a, which somebody else has by now.
    let first = picture(&["thread/1 holds a, thread/1 awaits b", "thread/2 holds b, thread/2 awaits a"], &[]);
    let second = picture(&["", "thread/2 holds b, thread/2 awaits a", "thread/3 holds a"], &[]);
    assert_eq!((suspects(&first), find(&first, &second).len()), (1, 0));
    // The same names in the same hands again, by other requests.
    let again =
        picture(&["- holds z, thread/1 holds a, thread/1 awaits b", "thread/2 holds b, thread/2 awaits a"], &[]);
    assert_eq!((suspects(&again), find(&first, &again).len()), (1, 0));
    assert_eq!(find(&first, &first).len(), 1);
}

#[test]
fn names_of_two_namespaces_are_two_locks() {
    let mut picture = Picture::default();
    for (namespace, handle, text) in
        [("one", 1, "thread/1 holds a, thread/1 awaits b"), ("another", 2, "thread/2 holds b, thread/2 awaits a")]
    {
        let (owner, listing) = listed(handle, text);
        picture.add(namespace, &owner, listing);
    }
    assert_eq!(suspects(&picture), 0);
}

/// Who waits at an agent: its shard and handle, and (node, request) of each.
type Waiters<'a> = (&'a str, u16, &'a [(u16, u64)]);

/// What processes list at two shards: shard, handle there, process, and what.
fn divided(nodes: &[(&str, u16, &str, &str)], queues: &[Waiters]) -> Round {
    let mut round = Round::default();
    for shard in ["east", "west"] {
        let here = nodes.iter().filter(|(at, ..)| *at == shard).map(|&(_, handle, process, text)| {
            let (owner, mut listing) = listed(handle, text);
            listing.process = process.into();
            for (_, _, queue) in queues.iter().filter(|(at, agent, _)| (*at, *agent) == (shard, handle)) {
                let queued = queue.iter().map(|&(handle, request)| Queued { handle, request: request_text(request) });
                listing.queues.push(queued.collect());
            }
            NodeListing { owner, namespace: "default".into(), listing: Some(listing) }
        });
        round.add(shard, Listings { nodes: here.collect() });
    }
    round
}

#[test]
fn a_circle_over_two_shards_is_one_whichever_handles_they_give() {
    let nodes = [
        ("east", 1, "P", "thread/1 holds a"),
        ("west", 2, "P", "thread/1 awaits b"),
        ("east", 2, "Q", "thread/7 awaits a"),
        ("west", 1, "Q", "thread/7 holds b"),
    ];
    let round = || divided(&nodes, &[]);
    assert_eq!(round().suspects(), 1);
    let search = Search::of_two(&round(), round());
    let [found] = &search.found[..] else { panic!("one: {search:?}") };
    let steps: Vec<_> = found.deadlock.cycle.iter().map(|step| (&*step.owner.shard, &*step.name)).collect();
    assert!(steps == [("west", "b"), ("east", "a")] || steps == [("east", "a"), ("west", "b")], "{steps:?}");
    assert_eq!(found.waits.len(), 2);
    // Neither shard sees it by itself, nor is it one that has come and gone between two rounds.
    for shard in ["east", "west"] {
        let own: Vec<_> = nodes.iter().copied().filter(|(at, ..)| *at == shard).collect();
        assert_eq!(divided(&own, &[]).suspects(), 0);
    }
    let later = divided(&nodes[..3], &[]);
    let told = Search::of_two(&round(), later).told();
    assert_eq!((told.deadlocks.len(), told.unconfirmed), (0, 1));
}

#[test]
fn a_handle_and_an_id_of_two_shards_are_two_requests() {
    // At east 3's is behind 2's, at west 2's behind 3's, and P goes on.
    let nodes = [
        ("east", 1, "P", "thread/9 holds a"),
        ("east", 2, "Q", "- awaits a"),
        ("east", 3, "R", "- awaits a"),
        ("west", 1, "P", "thread/9 holds b"),
        ("west", 2, "S", "- awaits b"),
        ("west", 3, "T", "- awaits b"),
    ];
    let round = divided(&nodes, &[("east", 1, &[(2, 1), (3, 1)]), ("west", 1, &[(3, 1), (2, 1)])]);
    assert_eq!(round.suspects(), 0);
}

#[test]
fn a_queue_of_thousands_is_a_chain() {
    let waiters: Vec<String> = (0..3_000).map(|thread| format!("thread/{} awaits a", thread + 10)).collect();
    let text = format!("thread/1 holds a, thread/1 awaits b, {}", waiters.join(", "));
    let queue: Vec<(u16, u64)> = (3..3_003).map(|request| (1, request)).collect();
    let picture = picture(&[&text, "thread/1 holds b, thread/1 awaits a"], &queue);
    assert!(picture.edges().len() < 10_000, "{}", picture.edges().len());
    assert_eq!(find(&picture, &picture).len(), 1);
    // And nobody's deadlock, where its holder goes on.
    let text = text.replace("thread/1 awaits b, ", "- holds b, ");
    assert_eq!(found(&[&text], &queue), Vec::<String>::new());
}
