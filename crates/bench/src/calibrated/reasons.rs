//! What is to be said of each headline: why ours differs, or why there is none. Written after the figures, which were
//! not changed for it. *Beside*: in the table, among the figures of the same headline; *below*: in what they depend on.

pub const WHY_N1: &str = "\
    by arithmetic that anybody can repeat. DSLR changes words of remote memory: two atomic operations for a lock \
    (beside: with its looks a little more), of which two machines' NICs do 2 x 2.24 M/s by their published rate. So \
    it makes half as many locks, by the locks of a transaction so many transactions; the bound and what is simulated \
    are beside, and nearly the same. The paper's 14.9 needs 1.25 to 1.5 M/s (its figure 10) over 0.084 to 0.1 M/s: \
    its DSLR is at less than half of what two such NICs can do, for a reason that its text does not tell, and no \
    constant of the model makes it so but a slower atomic (below: doubled, the ratio doubles). The rest is NetLock \
    itself, which is at half to two thirds of the paper's here: a transaction of ours has 9.3 locks (beside: of \
    those that a run has ended, of which long ones are fewer), and 6 to 7 by the axes of its figure 10 (7 to 9 M \
    locks/s by 1.25 to 1.5 M transactions/s). 160 clients are Little's law for the paper's own latencies; its \
    artifact's scripts start 4 on a machine, which would do 0.03 ms a transaction, not the figure's 0.1 ms. Cells \
    are the artifact's 130,000, and clients of NetLock ask for all locks of a transaction at once, by its artifact; \
    those of remote memory take one after the other, as their papers have it: with all clients alike the ratio is \
    that beside.";
pub const WHY_N2: &str = "\
    as N1: a compare-and-swap for a lock, a write to give back an exclusive one, and a try again for each that was \
    refused (beside), at two NICs, which by their published rate do 4.5 M swaps/s. The paper's 28.6 leaves DrTM \
    0.044 to 0.052 M/s, 0.3 to 0.4 M locks/s: a tenth of that. Tries that are refused would explain it if nine of \
    ten were; here it is the share beside, since at ten warehouses a node transactions meet seldom. How long the \
    paper's clients pause before they try again, and for how long its readers' leases keep writers out, its text \
    does not tell.";
pub const WHY_N3: &str = "\
    of another sign in short runs, so these are longer: transactions of NetChain's locks, and of NetLock's, that \
    wait in a circle end by a time-out of 2 ms, and a run of less than a few of these measures the time before any. \
    At low contention NetChain's locks need no server, nobody waits for them long, and giving one back is not \
    answered: so they are nearly as fast as NetLock, and faster where both take one lock after the other. The paper \
    has 3.5 times and blames tries that fail: with its locks all are exclusive, readers too. Here the warehouse's \
    row, which new orders share, is one of 100; how many tries are refused, and how many transactions are given up \
    for each that is done, is beside. What would bring it nearer are more clients or fewer warehouses: at 10 of \
    them, N4, it is five times the paper's.";
pub const WHY_N4: &str = "\
    one setting that the paper does not tell decides: whether clients ask for all locks of a transaction at once. \
    NetLock's artifact does, and has a lock for each row: so its clients hold nothing while they wait a round trip \
    for the next. If everybody takes one lock after the other (beside), transactions wait for others' holding, \
    whoever grants, and all services are within two of each other; if NetLock's own clients alone ask for all at \
    once, it is four to six times as fast as remote memory. The paper's 18.4 and 33.5 are beyond both. Of these a \
    factor of two or more is DSLR and DrTM themselves, which are below what their NICs allow in the paper's low \
    contention already (N1, N2), and as much NetLock's, which makes 1.25 M/s or more in the paper's figure 10 \
    (beside: ours). NetChain's locks have no queues: clients that ask for all at once hold some while they try again \
    for others, in a circle, until they give up after 2 ms (beside: how many for each that is done); the paper's 4.4 \
    is between that and one after the other, and it does not tell which its clients do.";
pub const WHY_N5: &str = "\
    as N4, of whose high contention all three are: at 6 + 6 machines 96 clients are what limits NetLock, and six \
    NICs do not limit DSLR and DrTM any more, so that these wait for each other's holding alone. The paper's ratios \
    hardly differ from those of 10 + 2, though three times as many NICs serve: its DSLR and DrTM are not limited by \
    NICs either, in neither.";
pub const WHY_N6: &str = "\
    by Little's law latencies have the ratio of throughputs (N4), since as many clients are under way: it is as far \
    off as that, for the same reasons.";
pub const WHY_N7: &str = "\
    the paper's two figures are beside: with the knapsack ours is a quarter slower, at random it is more than half \
    as fast again, and the ratio has both. At random all requests are the lock server's: ours has the 16 cores of \
    both machines and makes 5 M/s whatever it is asked for (N8, few cells); the paper's makes 2.9 M/s there, in \
    transactions that wait for each other. With the knapsack the switch has a fifth of the requests here and more \
    than half in the paper's drawing: our transactions have more rows that nobody else wants (stocks and inserts are \
    a lock for each row), and a lock of which the run's clients want more than its cells leads requests to the \
    server, too. The paper does not tell how many cells figure 13 has; 3,000 are figure 14's.";
pub const WHY_N8: &str = "\
    its client's cost was set by this figure (8.64 M/s at most), so its largest number is no prediction, even though \
    ours is below it: the switch has fewer of the requests (N7), and the lock server is what limits. The knee is \
    there. With 100 us of think time the paper has 0.60 M/s, and ours is ten times that. By Little's law so many \
    requests, of 6 to 9 locks a transaction that takes 100 us and some, are of 8 to 12 transactions under way, where \
    its 8.64 M/s of 0.12 ms a transaction are of 160: so either its clients were fewer, or their think time is for \
    each lock, or it keeps a core busy. The text does not tell. With the 40 clients of its artifact's scripts \
    (beside) ours falls to two fifths and is still far above; and that the switch has few cells can't make it so \
    alone, since what overflows goes on at a server that does 5 M/s: the line of 500 cells.";
pub const WHY_N9: &str = "\
    two figures of the paper. Service differentiation (12 a) needs priorities, which queues in the switch have not \
    and the lock server and fission have: so it is not in the model, and is measured on packets (beside; docs/queue.md \
    has the rates). Both tenants have the same without priorities, as in the paper; with them the one of the highest \
    has twice the grants of the one of the lowest, and not nearly all, since whoever waits is overtaken 8 times at \
    most. Isolation (12 b) is simulated. All locks are at the lock servers there, whose cores both tenants share and \
    whose speed limits both; there are 40 clients, on a quarter of the cores, since such a run has to be long, and \
    locks are NetLock's 55,000 without contention. Tenants of ours are namespaces, whose locks are apart, where \
    NetLock's share theirs; what is equal is what the budget cuts. The paper has no number: similar is taken for 1. \
    The second tenant cannot use all of its half, since its three machines' clients wait for their own cores by then; \
    and who is refused asks again after 5 ms at the earliest, so that some of the servers' time is nobody's.";
pub const WHY_N10: &str = "\
    other settings than in N1 to N8: 20 clients, which take one lock after the other and give up after 10 ms, so \
    that what is under way when the switch stops is few and known. the paper's switch is away for seconds, and so \
    long that clients have given up all that they held: so it is here with 100 ms, ten times as long as they wait \
    for their locks, and the throughput comes back at once, that is, with their next try. With 5 ms they still hold \
    locks. Fission rebuilds them from their holders. Of queues they are lost with the switch, their holders hear it \
    at once, and nobody is granted anything before their leases of 300 ms are over; NetLock's text has leases for \
    that, and its figure shows none.";
pub const WHY_F1: &str = "\
    the paper's figure 3 is a drawing without numbers: what its text says of it stands beside. Its left half does \
    not tell whose grants it breaks down; here they are of all four. That the share is large, falls with the \
    execution time, at the median and at the 90th percentile, and is smaller where the switch grants, is as there. A \
    client's own core is in a transaction's time here as it is there, and is most of what is neither execution nor \
    grant: that of fission is nearly all of it, so its share falls little. NetLock's switch grants more by Zipf's \
    law than the paper's 27 %: the hottest 1 % of a million locks, its 10,000, have half of all requests by that \
    law; ParLock's busiest server has more than the paper's 56.7 %, since neighbouring locks are at one server here \
    and the hottest are neighbours.";
pub const WHY_F2: &str = "\
    arithmetic: 8 of 12 stages of 560 KB. 18 bits would give 1.99 M, stages are filled in whole fields, hence 1.68 \
    M. A slot of ours has 128 bits, which hold what the mended protocol needs (tenure, joins, 16 bits of node, \
    hints); it was made for hosts, where a million take 16 MB.";
pub const WHY_F3: &str = "\
    medians close, but fission's p90 and the servers' are not: half of the cores do nothing but receive, so \
    fission's grants wait for no other client's work, and the servers' queues are as long as 160 clients make them \
    who do little besides. A manager of SrvLock and ParLock has its load from the figure by which its cost was set.";
pub const WHY_F4: &str = "\
    two bounds, both beside: fission is bound by its clients (the lines of fission alone), SrvLock by its server, \
    and their ratio is that of FissLock's own figures for 7.5, over 6 M/s by 3 M/s, which is 2, not 4.79. The \
    paper's 4.8 over SrvLock, and 7.7's 1.99 times 5.65 M/s, need clients that make 11 to 14 M/s, which those of 7.5 \
    do not: no one cost gives both. With half of it, below, these are nearer, and F5 and F7 further. \"Up to\" is \
    over ParLock by Zipf's law with readers, where three quarters of all locks asked for are at one of eight servers \
    (F1; the paper has 57 %; with locks dealt out by number, not in ranges, there would be no such load at all): one \
    server of eight, at three quarters of the load, makes a sixth of what eight would, and so the ratio is far above \
    the paper's. The others are of uniform requests. Ours sends an answer to each release and has a lock server's \
    answers, too: one packet more than the papers' protocols. By Zipf's law with half writes the hottest lock is the \
    limit of all services. With our fair default a writer closes a lock to readers who come later: by Zipf's law \
    with few writers that costs nothing that could be seen here.";
pub const WHY_F5: &str = "\
    ParLock has 43 % of its requests at one server here, since tables are ranges. NetLock stands twice: with as many \
    locks in its switch as the paper's, 0.09 % of them, and with the 10,000 of the other figures. Over SrvLock: the \
    two bounds of F4.";
pub const WHY_F6: &str = "\
    locks of a node's warehouses are at its own ParLock server; with locality their agents are at that node, which \
    has used each of them before the run. FissLock-Local places them there by a function, ours come to stay where \
    they are used: docs/locality.md. Over SrvLock and NetLock it is fission without any locality, as in the paper. \
    Medians of new orders and payments do not fall by the paper's 40 to 60 % with locality here, with ParLock's or \
    with fission's: by Little's law 1,200 clients that never pause take 1,200 by the transactions a second for each \
    (beside: fission's), whatever grants cost, because their cores are what limits, and an agent on a client's core \
    costs that core as much as the packets that it saves. The time to a grant alone, without the wait for the own \
    core, is beside, and is what falls. The paper's new orders of less than 125.5 us cannot be those of 1,200 \
    clients at 6 M locks/s either, which would take 1.8 ms: its latencies leave a wait out that ours have. Short \
    runs (each client makes not one whole transaction) had this ratio on the other side of 1: so these are longer. \
    NetLock has 10,000 locks in its switch, as elsewhere, and besides the 0.3 % of 7.4.";
pub const WHY_F7: &str = "\
    that a client's cost and a manager's were set by this very figure makes the absolute values of fission and of \
    SrvLock no predictions; NetLock's, before and after, are. Fission's 5.4 M/s against 6 is what our agents cost \
    its clients' cores. NetLock's is above the paper's range before: its switch has all 2,500 hot locks here. The \
    timeline is of ten milliseconds around a move, in the middle of the run: a shorter one than the paper's 300 ms \
    and more, as nothing changes in between. NetLock's fluctuates in the paper from 3.44 to 4.58 M/s and does not \
    here: nothing but requests by chance differs from millisecond to millisecond in a model.";
pub const WHY_F8: &str = "\
    another design, not another speed. FissLock sends what is beyond its 1.68 M locks to ParLock: of 10 M locks \
    (beside) about 10 % are granted by its switch, the rest are ParLock's own requests on less loaded servers, and \
    so its 90th percentile is nearly ParLock's. Here a slot is a bucket of names: 10 M names over as many slots are \
    all granted by the switch like 1 M (beside), two names hardly ever meeting in a slot. So nothing approaches \
    ParLock's: the difference is that of F3.";
pub const WHY_F9: &str = "\
    of the opposite sign, and the lines of each number of locks show why. With 1,000 or 10,000 locks all of them \
    have a queue in NetLock's switch here; readers, nine in ten, do not wait for each other long enough to count: so \
    both engines are bound by their clients there, NetLock's with one decision of an agent less for each lock, which \
    is the tenth by which it is ahead. From 100,000 locks on NetLock falls back to its server and fission does not, \
    as in the paper. Its peak is 5.65 M/s there, nearly as here. So the paper's 1.99 needs fission at 11 M/s, and \
    its own figure of 7.5, over 6 M/s with the same clients, does not allow that (F4).";
pub const WHY_F10: &str = "\
    the paper's text has no numbers; that it is proportional to the locks is taken for 1. What eight locks take is \
    taken off each size before the power is fitted: it does not depend on locks. The model counts packets and \
    messages, 31 locks to a page: 0.05 us a lock. What looking at a lock takes is not in it, and is most of what is \
    measured on packets, 0.7 to 1 us a lock: docs/recovery.md. Who died is waited for until its lease is over, which \
    the paper's coordinator is told. Locks are in order of arrival here, our default; nobody waits for any.";
pub const WHY_F11: &str = "\
    two prices of a Redis, both published: fission is bound by the one that has the accounts, whose commands come \
    together in pipelines of 16 at 1.31 us each, RedLock by the one that has the locks, two commands for each of \
    8.31 us and two packets, since its clients wait for every answer. Were its commands as cheap, the ratio would be \
    that beside. The paper blames contention for RedLock's 24.8 k/s and does not tell how accounts are chosen: here \
    all alike, of a million, which 160 clients hardly meet in. Nor does it tell how many clients RedLock had. \
    RedLock beside Wayside on real Redis: docs/figures.md.";
pub const WHY_C1: &str = "\
    no prediction of the 82 M/s: the packet's cost comes from this client. At most is the links of one switch of 6.5 \
    Tbit/s, full of our packets with the longest values, one in and one out for a query; the slides do not tell how \
    their 2,000 M/s are computed, and shorter values would give more, up to the switch's rate of packets. \
    ZooKeeper's 0.15 M/s is the slides'. On packets both share the two processors of one machine with their clients, \
    so that neither reaches what it could: docs/kv.md.";
pub const WHY_C2: &str = "\
    a sum of constants without any waiting. The paper's 9.7 us are mostly its client's (DPDK batches), which the \
    model does not have. On packets, beside a ZooKeeper of three on the same machine: a read takes what the paper's \
    does, and ZooKeeper's writes less, since its disk there says sooner that they are kept: docs/kv.md, which has \
    etcd, too.";
pub const WHY_C3: &str = "\
    flat until a client's link is full. A value of 128 bytes takes 4 blocks in our packets, which are so long then \
    (beside) that 40 Gbit/s do not carry as many as its cores make (beside: of which length they would): hence 69 \
    and not 82 M/s. NetChain's own packets are shorter, without our header of names, tags and tenures, and stay just \
    below; with the slides' other clients, of 25 Gbit/s, they would not. The switches' rate does not depend on a \
    packet's length here, nor on how many keys there are, of which a look-up sees two buckets: on packets a read and \
    a write of a store of ten million keys take a tenth longer than of a thousand, which is what the processor's \
    caches do not have.";
pub const WHY_C4: &str = "\
    not in the model, which has no chains: their controller waits for leases by real clocks, and their daemons look \
    for work every so often, so that a model of them would have such pauses for its figures. Measured instead, with \
    all on two processors: a switch of a chain of three is killed, and another one takes its place. The slides have \
    drawings without numbers. That one group lets no write through for a while when it takes the new switch, and \
    that of 100 some always do, is as there; that fewer do meanwhile than with one group is the other way round. \
    Here one client writes, one key after the other, and waits for its answer: with one group it stands still once \
    and writes on at full speed before and after; with a hundred it stands still whenever the key that it comes upon \
    is of the group in its change, most of the while. The paper's clients send on, so that a hundredth of their \
    writes is held up at a time. Before that both wait until the dead switch's lease is over; the paper's controller \
    is told.";
