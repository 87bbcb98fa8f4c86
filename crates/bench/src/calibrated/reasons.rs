//! What is to be said of each headline: why ours differs, or why there is none. Written after the figures, which were
//! not changed for it.

pub const WHY_N: &str = "the order of the peers is the paper's, its distances are not. Our TPC-C has FissLock's \
    121 locks a warehouse (80 warehouses at low contention, 8 at high), where NetLock's \
    traces have rows: far more transactions wait for each other whoever grants, so that \
    one waiting time dominates all services alike, most at high contention. In the \
    programs' own order these locks deadlock all the time; here they are taken in the \
    order of their numbers. The model's NICs do atomics at their published rate and its \
    peers back off as their papers say: nothing in it lets DSLR fall to the 0.1 M \
    transactions/s that the paper's ratios imply, and the sensitivity shows that no \
    constant does. 160 clients are Little's law for the paper's own figures, not told \
    there. Cells are the artifact's 130,000: the switch grants nearly all. At 6 + 6 \
    machines 96 clients are what limits.";
pub const WHY_N7: &str = "the paper tells neither the cells nor the warehouses' rows. Our lock server has the 16 \
    cores of both machines and answers what the switch does not, so a bad allocation costs \
    less; and a lock of which the run's clients want more than its cells leads requests to \
    the server with the knapsack, too.";
pub const WHY_N8: &str = "the knee is softer and lower: clients take 9.3 us and 8.6 locks a transaction wait for \
    each other. With 100 us of think time our overflow goes on at the lock server, and 160 \
    transactions under way are what limits; the paper's 0.60 M/s is less than so many \
    clients would make without any switch.";
pub const WHY_N9: &str = "isolation alone: queues in the switch have no priorities. All \
    locks are at the lock servers, whose cores both tenants share and whose speed limits \
    both; locks are NetLock's 55,000 without contention. Tenants of ours are namespaces, \
    whose locks are apart, where NetLock's share theirs; what is equal is what the budget \
    cuts. The paper has no number: similar is taken for 1. The second tenant cannot use all \
    of its half, since its three machines' clients wait for their own cores by then; and \
    who is refused asks again after 5 ms at the earliest, so that some of the servers' time \
    is nobody's.";
pub const WHY_N10: &str = "the paper's switch is away for seconds, and so long that clients have given up all \
    that they held: so it is here with 100 ms, ten times as long as they wait for a lock, \
    and the throughput comes back at once, that is, with their next try. With 5 ms they \
    still hold locks. Fission rebuilds them from their holders. Of queues they are lost with \
    the switch, their holders hear it at once, and nobody is granted anything before their \
    leases of 300 ms are over; NetLock's text has leases for that, and its figure shows none.";
pub const WHY_F10: &str = "the paper's text has no numbers; that it is proportional to the locks is taken for 1. The \
    model counts packets and messages, 31 locks to a page: 0.05 us a lock. What looking at \
    a lock takes is not in it, and is most of what is measured on packets, 0.7 to 1 us a \
    lock: docs/recovery.md. Who died is waited for until its lease is over, which the \
    paper's coordinator is told.";
pub const WHY_F1: &str = "the text has no numbers for its figure 3. That the share is large, falls with the \
    execution time and is smaller where the switch grants is as there.";
pub const WHY_F2: &str = "arithmetic: 8 of 12 stages of 560 KB. 18 bits would give 1.99 M, stages are filled in \
    whole fields, hence 1.68 M. A slot of ours has 128 bits, which hold what the mended \
    protocol needs (tenure, joins, 16 bits of node, hints); it was made for hosts, where a \
    million take 16 MB.";
pub const WHY_F3: &str = "close. A manager of SrvLock and ParLock has its load from the figure by which its cost \
    was set; medians and tails are the model's own. Fission's p90 is what two clients that \
    share a core do to each other, not the network: it takes 2.8 us alone.";
pub const WHY_F4: &str = "\"up to\" is over ParLock by Zipf's law with readers, where three quarters of all \
    locks asked for are at one of eight servers (the paper has 57 %; with locks dealt out \
    by number, not in ranges, there would be no such load at all); the others are uniform. \
    Fission is bound by its clients, 5.5 M/s, as SrvLock is by its server, 2.9 M/s: their \
    ratio is that of FissLock's own figures for 7.5, 6 M/s over 3 M/s. What the paper's \
    4.8 over SrvLock rests on its text does not tell. Ours sends an answer to each release \
    and has a lock server's answers, too: one packet more than the papers' protocols. By \
    Zipf's law with half writes the hottest lock is the limit of all services, and \
    NetLock's queue in the switch is the fastest: its hand-over has no node in between.";
pub const WHY_F5: &str = "ParLock has 43 % of its requests at one server here, since tables are ranges. \
    NetLock's share at the switch is larger than the paper's (10,000 locks where the paper \
    had 0.09 % of them, 600), and so is what it gains by that. Over SrvLock: the two \
    bounds of F4.";
pub const WHY_F6: &str = "close. Locks of a node's warehouses are at its own ParLock server. Ours is fission \
    without any locality, which the paper has below FissLock-Local; its 1.08 is the \
    latter's.";
pub const WHY_F7: &str = "close. Fission's 5.5 M/s against 6 is a packet more for each request; that its \
    clients' cost was set by this very figure makes the absolute value no prediction. \
    NetLock's, before and after, are.";
pub const WHY_F8: &str = "FissLock sends what is beyond its 1.68 M locks to ParLock. Here a slot is a bucket of \
    names: 10 M names over as many slots are granted by the switch like 1 M, two names \
    hardly ever meeting in a slot. So there is nothing that approaches ParLock's.";
pub const WHY_F9: &str = "with 1,000 or 10,000 locks all of them have a queue in NetLock's switch here, and \
    readers, nine in ten, do not wait for each other long enough: both engines are bound \
    by their clients, NetLock with one decision of an agent less. The paper has it at 5.65 \
    M/s, as we do, and fission at twice that, 11 M/s, which its own figure of 6 M/s for \
    7.5 does not allow with the same clients.";
pub const WHY_F11: &str = "both are bound by a Redis: fission by the one that has the accounts, whose commands come \
    together, RedLock by the one that has the locks, two commands for each. The paper blames \
    contention for RedLock's 24.8 k/s and does not tell how accounts are chosen: here all \
    alike, of a million, which 160 clients hardly meet in. Nor does it tell how many clients \
    RedLock had. RedLock beside Wayside on real Redis: docs/figures.md.";
pub const WHY_C1: &str = "no prediction: the packet's cost comes from this client. The switches are not the \
    limit; 2,000 M/s is what the paper computes from their packet rate.";
pub const WHY_C2: &str = "a sum of constants without any waiting. The paper's 9.7 us are mostly its client's \
    (DPDK batches), which the model does not have. What our chains take on packets, beside \
    etcd and ZooKeeper: docs/kv.md.";
pub const WHY_C3: &str = "no prediction but of our packets' length: a value of 128 bytes takes 4 blocks in them. The \
    clients' cores are the limit until their links are; the switches' rate does not depend \
    on a packet's length, nor on how many keys there are, of which a look-up sees two \
    buckets. On packets: docs/kv.md.";
pub const WHERE_C4: &str = "no chains are modelled. A switch that dies in a chain, on packets: docs/kv.md.";
