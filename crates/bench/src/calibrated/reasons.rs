//! What is to be said of each headline: why ours differs, or why there is none. Written after the figures, which were
//! not changed for it.

pub const WHY_N: &str = "\
    two things that the text does not tell, and NetLock's artifact does, decide at high contention: its traces \
    have a lock for each row, and its clients ask for all locks of a transaction at once, so that they hold none \
    while they wait a round trip for the next. What it would be if everybody took one lock after the other is \
    beside: then transactions wait for others' holding, whoever grants, and all services are nearly alike. Clients \
    of remote memory take one after the other, as their papers have it. What is left has other reasons. At low \
    contention DSLR and DrTM are bound by the atomics of two NICs, at their published rate; the paper's ratios \
    leave DSLR 0.1 M transactions/s, a quarter of that, and no constant does so but a slower atomic: see below. \
    NetLock itself is at two thirds of the paper's 1.25 to 1.5 M/s: a transaction has 9.3 locks here, and 6 to 7 \
    by the axes of its figure 10. NetChain's locks have no queues: clients that ask for all at once hold some \
    while they try again for others, in a circle, until they give up after 2 ms; the paper's 4.4 is between that \
    and one after the other, and it does not tell which. At low contention its locks need no server and nobody \
    waits for them long, so they are as fast as NetLock. 160 clients are Little's law for the paper's own \
    latencies; the artifact's scripts start 4 on a machine, which would do 0.03 ms a transaction, not the figure's \
    0.1 ms. Cells are the artifact's 130,000. At 6 + 6 machines 96 clients are what limits.";
pub const WHY_N7: &str = "\
    the paper does not tell how many cells. Our lock server has the 16 cores of both machines and answers what the \
    switch does not, at 6 M/s: so a bad allocation costs less. The switch's share is smaller than in the artifact, \
    a third of all requests with 2,000 cells: more of our transactions' rows are wanted by nobody else. A lock of \
    which the run's clients want more than its cells leads requests to the server with the knapsack, too.";
pub const WHY_N8: &str = "\
    the knee is there, and lower: the switch has fewer of the requests (N7), and the lock server is what limits. \
    With 100 us of think time our overflow goes on at the lock server, and 160 transactions under way are what \
    limits; the paper's 0.60 M/s is less than so many clients would make without any switch.";
pub const WHY_N9: &str = "\
    isolation alone: queues in the switch have no priorities. All locks are at the lock servers, whose cores both \
    tenants share and whose speed limits both; locks are NetLock's 55,000 without contention. Tenants of ours are \
    namespaces, whose locks are apart, where NetLock's share theirs; what is equal is what the budget cuts. The \
    paper has no number: similar is taken for 1. The second tenant cannot use all of its half, since its three \
    machines' clients wait for their own cores by then; and who is refused asks again after 5 ms at the earliest, \
    so that some of the servers' time is nobody's.";
pub const WHY_N10: &str = "\
    the paper's switch is away for seconds, and so long that clients have given up all that they held: so it is \
    here with 100 ms, ten times as long as they wait for a lock, and the throughput comes back at once, that is, \
    with their next try. With 5 ms they still hold locks. Fission rebuilds them from their holders. Of queues they \
    are lost with the switch, their holders hear it at once, and nobody is granted anything before their leases of \
    300 ms are over; NetLock's text has leases for that, and its figure shows none.";
pub const WHY_F10: &str = "\
    the paper's text has no numbers; that it is proportional to the locks is taken for 1. The model counts packets \
    and messages, 31 locks to a page: 0.05 us a lock. What looking at a lock takes is not in it, and is most of \
    what is measured on packets, 0.7 to 1 us a lock: docs/recovery.md. Who died is waited for until its lease is \
    over, which the paper's coordinator is told.";
pub const WHY_F1: &str = "\
    the text has no numbers for its figure 3. That the share is large, falls with the execution time and is \
    smaller where the switch grants is as there.";
pub const WHY_F2: &str = "\
    arithmetic: 8 of 12 stages of 560 KB. 18 bits would give 1.99 M, stages are filled in whole fields, hence 1.68 \
    M. A slot of ours has 128 bits, which hold what the mended protocol needs (tenure, joins, 16 bits of node, \
    hints); it was made for hosts, where a million take 16 MB.";
pub const WHY_F3: &str = "\
    medians close, but fission's p90 and the servers' are not: half of the cores do nothing but receive, so \
    fission's grants wait for no other client's work, and the servers' queues are as long as 160 clients make them \
    who do little besides. A manager of SrvLock and ParLock has its load from the figure by which its cost was \
    set.";
pub const WHY_F4: &str = "\
    \"up to\" is over ParLock by Zipf's law with readers, where three quarters of all locks asked for are at one \
    of eight servers (the paper has 57 %; with locks dealt out by number, not in ranges, there would be no such \
    load at all); the others are uniform. Fission is bound by its clients, 5.4 M/s, as SrvLock is by its server, \
    2.9 M/s: their ratio is that of FissLock's own figures for 7.5, 6 M/s over 3 M/s. The paper's 4.8 over \
    SrvLock, and 7.7's 1.99 times 5.65 M/s, need clients that make 11 to 14 M/s, which those of 7.5 do not: no one \
    cost gives both. With half of it, below, these are nearer, and F5 and F7 further. Ours sends an answer to each \
    release and has a lock server's answers, too: one packet more than the papers' protocols. By Zipf's law with \
    half writes the hottest lock is the limit of all services.";
pub const WHY_F5: &str = "\
    ParLock has 43 % of its requests at one server here, since tables are ranges. NetLock's share at the switch is \
    larger than the paper's (10,000 locks where the paper had 0.09 % of them, 600), and so is what it gains by \
    that. Over SrvLock: the two bounds of F4.";
pub const WHY_F6: &str = "\
    locks of a node's warehouses are at its own ParLock server; with locality their agents are at that node, which has \
    used each of them before the run. FissLock-Local places them there by a function, ours come to stay where they \
    are used: docs/locality.md. It gains little here, since clients' cores are the limit: an agent of the own node \
    decides on them, at the price of a lock manager, which is what the packets cost that it saves; ours takes a \
    fraction of that. Over SrvLock and NetLock it is fission without any locality, as in the paper.";
pub const WHY_F7: &str = "\
    close. Fission's 5.4 M/s against 6 is what our agents cost its clients' cores; that a client's cost was set by \
    this very figure makes the absolute value no prediction. NetLock's, before and after, are.";
pub const WHY_F8: &str = "\
    FissLock sends what is beyond its 1.68 M locks to ParLock. Here a slot is a bucket of names: 10 M names over \
    as many slots are granted by the switch like 1 M, two names hardly ever meeting in a slot. So there is nothing \
    that approaches ParLock's.";
pub const WHY_F9: &str = "\
    with 1,000 or 10,000 locks all of them have a queue in NetLock's switch here, and readers, nine in ten, do not \
    wait for each other long enough: both engines are bound by their clients, NetLock with one decision of an \
    agent less. The paper has it at 5.65 M/s, as we do, and fission at twice that, 11 M/s, which its own figure of \
    6 M/s for 7.5 does not allow with the same clients (F4).";
pub const WHY_F11: &str = "\
    both are bound by a Redis: fission by the one that has the accounts, whose commands come together, RedLock by \
    the one that has the locks, two commands for each. The paper blames contention for RedLock's 24.8 k/s and does \
    not tell how accounts are chosen: here all alike, of a million, which 160 clients hardly meet in. Nor does it \
    tell how many clients RedLock had. RedLock beside Wayside on real Redis: docs/figures.md.";
pub const WHY_C1: &str = "\
    no prediction: the packet's cost comes from this client. The switches are not the limit; 2,000 M/s is what the \
    paper computes from their packet rate.";
pub const WHY_C2: &str = "\
    a sum of constants without any waiting. The paper's 9.7 us are mostly its client's (DPDK batches), which the \
    model does not have. What our chains take on packets, beside etcd and ZooKeeper: docs/kv.md.";
pub const WHY_C3: &str = "\
    no prediction but of our packets' length: a value of 128 bytes takes 4 blocks in them. The clients' cores are \
    the limit until their links are; the switches' rate does not depend on a packet's length, nor on how many keys \
    there are, of which a look-up sees two buckets. On packets: docs/kv.md.";
pub const WHY_C4: &str = "\
    not in the model, which has no chains: their controller waits for leases by real clocks, and their daemons look for \
    work every so often, so that a model of them would have such pauses for its figures. Measured instead, with all on \
    two processors: a switch of a chain of three is killed, and another one takes its place. The slides have drawings \
    without numbers. That one group lets no write through for a while when it takes the new switch, and that of 100 \
    some always do, is as there; that fewer do meanwhile is not. Here one client writes, one key after the other: it \
    waits for each group that it comes upon in its change, where the paper's clients send on. Before that both wait \
    until the dead switch's lease is over; the paper's controller is told.";
