------------------------------ MODULE standby ------------------------------
(* Several switches of a shard, of which one serves: docs/protocol.md, "Standby switches". The post and its questions are   *)
(* controller/serving.rs, what follows from them seat.rs. The slot of one lock is as small as can be: lock_fission has it all. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Switches, Nodes,
  Lease, Session, \* of a switch and of a node, in ticks of a perfect clock
  Slack,          \* a lease may last so much longer, by a slow clock; who outwaits one by a fast clock waits for this too
  MaxTime, MaxRevision, MaxTenure, MaxSequence, MaxRestarts, MaxDrains,
  Travels,        \* of {"post", "records"}: what is asked of them takes time, and may be lost; otherwise it is answered at once
  Pauses,         \* so do heartbeats, and a switch may pause between its look at the clock and its answer
  Begun,          \* one node holds the lock by the books of another, from the beginning
  MaxAsked,       \* questions and answers of one switch that are under way
  MaxCopies,      \* how many questions and commits may be applied once more
  Broken          \* the rules that are left out, of Rules

Rules == {"FromQuestion", "Outwait", "DriftMargin", "AckInLease", "ClockAfterPacket", "GrantInLease", "ControllerInLease",
          "CountAnew", "StopFirst", "ResignIf", "TakeIf", "NodeEpoch", "RecordsOwn", "RecordsInOrder", "Census"}
ASSUME Broken \subseteq Rules
Use(rule) == rule \notin Broken

Nobody == "nobody"
None   == "none"
Long(lease) == lease + Slack
Patience == IF ~Use("Outwait") THEN 0 ELSE IF Use("DriftMargin") THEN Long(Lease) ELSE Lease
Token(epoch, tenure, sequence) == 100 * epoch + 10 * tenure + sequence
Epochs == 1..(MaxRevision + 1)
First == CHOOSE s \in Switches : TRUE
Keeper == CHOOSE n \in Nodes : TRUE
Holder == CHOOSE n \in Nodes : n # Keeper

VARIABLES
  now,      \* true time
  post,     \* the register: holder, revision
  store,    \* the records: the epoch, and a revision of its own
  asked,    \* questions and answers of the post under way, commits too: applied late, or never
  copies,   \* how many were applied again
  sw,       \* the switches: memory, controller, serving
  node,     \* the nodes: session, hold, books
  beat,     \* [node -> its last heartbeat under way]; an older one is lost
  ack,      \* [node -> the last acknowledgement under way]
  net,      \* GRANT, CENSUS, REPORT, ADOPT, DOWN: lost, late, repeated
  history   \* drains; by epoch: when its controller began to count, the latest heartbeat it acknowledged; whether all rose
vars == <<now, post, store, asked, copies, sw, node, beat, ack, net, history>>

NoBeat == [to |-> None, epoch |-> 0, sent |-> 0]
Standby(life) ==
  [phase |-> "watching", life |-> life, until |-> 0, clock |-> 0, seen |-> [holder |-> None, revision |-> -1, at |-> 0],
   abstains |-> FALSE, controller |-> "none", read |-> 0, readRevision |-> 0, began |-> 0,
   epoch |-> 0, serving |-> FALSE, agent |-> Nobody, tenure |-> 0,
   live |-> {}, heard |-> [n \in Nodes |-> 0], waits |-> {}, holds |-> {}, turn |-> <<None, NoBeat>>]

Init ==
  /\ now = 0 /\ post = [holder |-> First, revision |-> 1] /\ store = [epoch |-> 1, revision |-> 1]
  /\ asked = {} /\ copies = 0
  /\ sw = [s \in Switches |->
       LET seen == [holder |-> First, revision |-> 1, at |-> 0]
       IN IF s = First
          THEN [Standby(0) EXCEPT !.phase = "serving", !.until = Long(Lease), !.seen = seen, !.controller = "runs", !.epoch = 1,
                                  !.serving = TRUE, !.live = Nodes, !.agent = IF Begun THEN Keeper ELSE Nobody]
          ELSE [Standby(0) EXCEPT !.seen = seen]]
  /\ node = [n \in Nodes |->
       LET new == [at |-> First, epoch |-> 1, until |-> Long(Session), hold |-> 0, last |-> 0,
                   agent |-> 0, holder |-> Nobody, sequence |-> 0]
       IN IF ~Begun THEN new
          ELSE IF n = Keeper
          THEN [new EXCEPT !.agent = Token(1, 0, 0), !.sequence = 1, !.holder = Holder, !.last = Token(1, 0, 0)]
          ELSE IF n = Holder THEN [new EXCEPT !.hold = Token(1, 0, 1), !.last = Token(1, 0, 1)] ELSE new]
  /\ beat = [n \in Nodes |-> NoBeat] /\ ack = [n \in Nodes |-> 0] /\ net = {}
  /\ history = [drains |-> 0, promoted |-> [e \in Epochs |-> IF e = 1 THEN 0 ELSE MaxTime],
                 acknowledged |-> [e \in Epochs |-> 0], epoch |-> 1, rises |-> TRUE,
                 top |-> IF Begun THEN Token(1, 0, 1) ELSE 0, ordered |-> TRUE]

Believes(n) == now < node[n].until
Runs(s) == now < sw[s].until
ControllerRuns(s) == sw[s].controller = "runs" /\ (Runs(s) \/ ~Use("ControllerInLease"))

tick == now < MaxTime /\ now' = now + 1
        /\ UNCHANGED <<post, store, asked, copies, sw, node, beat, ack, net, history>>

-----------------------------------------------------------------------------
(* The post. *)
registerOnly == UNCHANGED <<now, node, beat, ack, net, history>>

(* Its answer is there at once: a later one would only make the standby wait for longer. *)
look(s) ==
  /\ sw[s].phase = "watching" /\ post.revision > sw[s].seen.revision
  /\ sw' = [sw EXCEPT ![s].seen = [holder |-> post.holder, revision |-> post.revision, at |-> now]]
  /\ UNCHANGED <<post, store, asked, copies>> /\ registerOnly

Question(s) ==
  LET me == sw[s]
  IN CASE me.phase = "serving" -> "renew"
       [] me.phase = "resigning" -> "resign"
       [] me.abstains \/ me.seen.revision < 0 -> "none"
       [] me.seen.holder = s -> "renew"
       [] me.seen.holder = Nobody \/ now >= me.seen.at + Patience -> "take"
       [] OTHER -> "none"

Asked(s) == [kind |-> Question(s), of |-> s, life |-> sw[s].life, revision |-> sw[s].seen.revision, since |-> now]

ask(s) ==
  /\ "post" \in Travels /\ Question(s) # "none" /\ post.revision < MaxRevision
  /\ Cardinality({m \in asked : m.of = s /\ m.kind # "commit"}) < MaxAsked
  /\ asked' = asked \cup {Asked(s)}
  /\ UNCHANGED <<post, store, copies, sw>> /\ registerOnly

Questions == {m \in asked : m.kind \in {"renew", "take", "resign"}}
(* A message is gone, or is to come once more. *)
Leave(m, more) == \/ asked' = (asked \ {m}) \cup more /\ UNCHANGED copies
                  \/ copies < MaxCopies /\ copies' = copies + 1 /\ asked' = asked \cup more

Allowed(m) == CASE m.kind = "renew"  -> post.holder = m.of
                [] m.kind = "take"   -> post.revision = m.revision \/ ~Use("TakeIf")
                [] m.kind = "resign" -> post.revision = m.revision \/ ~Use("ResignIf")
After(m) == IF Allowed(m) THEN [holder |-> IF m.kind = "resign" THEN Nobody ELSE m.of, revision |-> post.revision + 1] ELSE post
Answer(m) == [kind |-> "answer", of |-> m.of, life |-> m.life, question |-> m.kind, since |-> m.since, done |-> Allowed(m),
              holder |-> After(m).holder, revision |-> After(m).revision]

apply(m) ==
  /\ m \in Questions /\ post.revision < MaxRevision
  /\ post' = After(m) /\ Leave(m, {Answer(m)})
  /\ UNCHANGED <<store, sw>> /\ registerOnly

lose(m) == /\ m \in asked /\ m.kind # "commit" /\ asked' = asked \ {m}
           /\ UNCHANGED <<post, store, copies, sw>> /\ registerOnly

Demoted(me) == [Standby(me.life) EXCEPT !.clock = me.clock, !.seen = me.seen, !.abstains = me.abstains, !.turn = me.turn]

(* `hold` of serving.rs: the lease runs from before the question was sent. *)
Held(me, m) ==
  LET since == IF Use("FromQuestion") THEN m.since ELSE now
      renewed == IF since + Long(Lease) > me.until THEN [me EXCEPT !.until = since + Long(Lease)] ELSE me
  IN CASE me.phase = "resigning" -> me
       [] me.phase = "watching" /\ me.abstains -> [me EXCEPT !.phase = "resigning"]
       [] me.phase = "watching" -> [renewed EXCEPT !.phase = "serving", !.controller = "loads", !.began = now]
       [] OTHER -> renewed

Answered(m) ==
  LET s == m.of
      me == IF m.revision <= sw[s].seen.revision THEN sw[s]
            ELSE [sw[s] EXCEPT !.seen = [holder |-> m.holder, revision |-> m.revision, at |-> now]]
  IN [sw EXCEPT ![s] = CASE me.seen.holder # s -> Demoted(me)
                         [] m.done /\ m.question \in {"renew", "take"} -> Held(me, m)
                         [] OTHER -> me]

on_answer(m) ==
  /\ m \in asked /\ m.kind = "answer" /\ m.life = sw[m.of].life
  /\ sw' = Answered(m) /\ asked' = asked \ {m}
  /\ UNCHANGED <<post, store, copies>> /\ registerOnly

ask_at_once(s) ==
  /\ "post" \notin Travels /\ Question(s) # "none" /\ post.revision < MaxRevision
  /\ post' = After(Asked(s)) /\ sw' = Answered(Answer(Asked(s)))
  /\ UNCHANGED <<store, asked, copies>> /\ registerOnly

(* The planned end: the switch stops, and only then vacates the post. *)
drain(s) ==
  /\ sw[s].phase = "serving" /\ Runs(s) /\ history.drains < MaxDrains
  /\ sw' = [sw EXCEPT ![s].phase = "resigning", ![s].abstains = TRUE, ![s].until = IF Use("StopFirst") THEN 0 ELSE @]
  /\ history' = [history EXCEPT !.drains = @ + 1]
  /\ UNCHANGED <<now, post, store, asked, copies, node, beat, ack, net>>

stand(s) == /\ sw[s].abstains /\ sw' = [sw EXCEPT ![s].abstains = FALSE]
            /\ UNCHANGED <<post, store, asked, copies>> /\ registerOnly

(* Its process ends and begins anew, with empty memory and its own number; its questions are still under way. *)
restart(s) ==
  /\ sw[s].life < MaxRestarts /\ sw' = [sw EXCEPT ![s] = Standby(sw[s].life + 1)]
  /\ asked' = {m \in asked : m.of # s \/ m.kind # "answer"}
  /\ UNCHANGED <<post, store, copies>> /\ registerOnly

-----------------------------------------------------------------------------
(* Promotion: the records, a new epoch, the census of every session. *)
load(s) ==
  /\ "records" \in Travels /\ sw[s].controller = "loads"
  /\ sw' = [sw EXCEPT ![s].controller = "writes", ![s].read = store.epoch, ![s].readRevision = store.revision]
  /\ asked' = asked \cup {[kind |-> "commit", of |-> s, epoch |-> store.epoch + 1, revision |-> store.revision]}
  /\ UNCHANGED <<post, store, copies>> /\ registerOnly

(* A commit is conditional on the post, and on what was read; without an answer it is made again. *)
Written(s) == [kind |-> "written", of |-> s, epoch |-> sw[s].read + 1, revision |-> sw[s].readRevision]
commit(m) ==
  /\ m \in asked /\ m.kind = "commit" /\ store.revision < MaxRevision
  /\ LET may == (post.holder = m.of \/ ~Use("RecordsOwn")) /\ (store.revision = m.revision \/ ~Use("RecordsInOrder"))
         written == {[m EXCEPT !.kind = "written"]}
     IN /\ store' = IF may THEN [epoch |-> m.epoch, revision |-> store.revision + 1] ELSE store
        /\ Leave(m, IF may THEN written ELSE {})
  /\ UNCHANGED <<post, sw>> /\ registerOnly

again(s) == /\ sw[s].controller = "writes" /\ Written(s) \notin asked /\ store.revision # sw[s].readRevision
            /\ sw' = [sw EXCEPT ![s].controller = "loads"]
            /\ UNCHANGED <<post, store, asked, copies>> /\ registerOnly

Boot(s, epoch) ==
  LET counted == IF Use("CountAnew") THEN sw[s].began ELSE -Long(Session)
  IN /\ sw' = [sw EXCEPT ![s] = [@ EXCEPT !.controller = "runs", !.epoch = epoch, !.serving = ~Use("Census"), !.agent = Nobody,
                 !.tenure = 0, !.live = Nodes, !.waits = Nodes, !.holds = {}, !.heard = [n \in Nodes |-> counted]]]
     /\ net' = net \cup {[kind |-> "CENSUS", from |-> s, epoch |-> epoch]}
     /\ history' = [history EXCEPT !.promoted[epoch] = sw[s].began,
                                   !.rises = @ /\ epoch > history.epoch, !.epoch = epoch]
     /\ UNCHANGED <<now, post, copies, node, beat, ack>>

boot(s) ==
  /\ sw[s].controller = "writes" /\ Written(s) \in asked /\ asked' = asked \ {Written(s)}
  /\ Boot(s, sw[s].read + 1) /\ UNCHANGED store

boot_at_once(s) ==
  /\ "records" \notin Travels /\ sw[s].controller = "loads" /\ post.holder = s
  /\ store' = [epoch |-> store.epoch + 1, revision |-> store.revision + 1]
  /\ Boot(s, store.epoch + 1) /\ UNCHANGED asked

on_report(s) ==
  \E m \in net :
    /\ m.kind = "REPORT" /\ ControllerRuns(s) /\ m.epoch = sw[s].epoch /\ m.from \in sw[s].waits
    /\ sw' = [sw EXCEPT ![s].waits = @ \ {m.from}, ![s].holds = @ \cup (IF m.holds THEN {m.from} ELSE {})]
    /\ net' = net \ {m} /\ UNCHANGED <<now, post, store, asked, copies, node, beat, ack, history>>

(* Adoption takes one step here at the switch, and one at the heir. *)
decide(s) ==
  LET me == sw[s]
      heirs == me.holds \cap me.live
  IN /\ ControllerRuns(s) /\ ~me.serving /\ me.waits = {}
     /\ IF heirs = {}
        THEN sw' = [sw EXCEPT ![s].serving = TRUE] /\ UNCHANGED net
        ELSE \E n \in heirs :
               /\ sw' = [sw EXCEPT ![s] = [@ EXCEPT !.serving = TRUE, !.agent = n, !.tenure = 1]]
               /\ net' = net \cup {[kind |-> "ADOPT", to |-> n, epoch |-> me.epoch]}
     /\ UNCHANGED <<now, post, store, asked, copies, node, beat, ack, history>>

(* lease + grace by a fast clock, since the last heartbeat was recorded or the controller began. The word is EXPIRED
   then, and a heartbeat that is being decided on finds it so. *)
expire(s, n) ==
  /\ ControllerRuns(s) /\ n \in sw[s].live /\ now >= sw[s].heard[n] + Long(Session)
  /\ sw' = [sw EXCEPT ![s] = [@ EXCEPT !.live = @ \ {n}, !.waits = @ \ {n},
                                       !.turn = IF @[1] = n THEN <<None, NoBeat>> ELSE @]]
  /\ net' = net \cup {[kind |-> "DOWN", of |-> n, epoch |-> sw[s].epoch]}
  /\ UNCHANGED <<now, post, store, asked, copies, node, beat, ack, history>>

-----------------------------------------------------------------------------
(* The data plane. Between its look at the clock and what it sends any time may pass. *)
read_clock(s) == /\ ~Use("ClockAfterPacket") /\ sw[s].clock < now /\ sw' = [sw EXCEPT ![s].clock = now]
                 /\ UNCHANGED <<now, post, store, asked, copies, node, beat, ack, net, history>>

on_heartbeat(s, n) ==
  LET clock == IF Use("ClockAfterPacket") THEN now ELSE sw[s].clock
  IN /\ beat[n].to = s /\ beat[n].epoch = sw[s].epoch /\ n \in sw[s].live /\ sw[s].turn[1] = None
     /\ (clock < sw[s].until \/ ~Use("AckInLease"))
     /\ sw' = [sw EXCEPT ![s].turn = <<n, beat[n]>>] /\ beat' = [beat EXCEPT ![n] = NoBeat]
     /\ UNCHANGED <<now, post, store, asked, copies, node, ack, net, history>>

(* Both, where nothing takes time. *)
exchange(s, n) ==
  /\ ~Pauses /\ Believes(n) /\ node[n].at = s /\ node[n].epoch = sw[s].epoch /\ n \in sw[s].live
  /\ (Runs(s) \/ ~Use("AckInLease")) /\ node[n].until < now + Long(Session)
  /\ sw' = [sw EXCEPT ![s].heard[n] = now] /\ node' = [node EXCEPT ![n].until = now + Long(Session)]
  /\ history' = [history EXCEPT !.acknowledged[sw[s].epoch] = now]
  /\ UNCHANGED <<now, post, store, asked, copies, beat, ack, net>>

acknowledge(s) ==
  LET n == sw[s].turn[1]
      m == sw[s].turn[2]
  IN /\ n # None
     /\ sw' = [sw EXCEPT ![s] = [@ EXCEPT !.turn = <<None, NoBeat>>, !.heard[n] = IF m.epoch = sw[s].epoch THEN now ELSE @]]
     /\ ack' = [ack EXCEPT ![n] = IF m.sent > @ THEN m.sent ELSE @]
     /\ history' = [history EXCEPT !.acknowledged[m.epoch] = IF m.sent > @ THEN m.sent ELSE @]
     /\ UNCHANGED <<now, post, store, asked, copies, node, beat, net>>

grant(s, n) ==
  LET me == sw[s]
  IN /\ me.serving /\ (Runs(s) \/ ~Use("GrantInLease")) /\ me.epoch > 0 /\ me.agent = Nobody /\ n \in me.live
     /\ me.tenure < MaxTenure
     /\ sw' = [sw EXCEPT ![s].agent = n]
     /\ net' = net \cup {[kind |-> "GRANT", to |-> n, epoch |-> me.epoch, token |-> Token(me.epoch, me.tenure, 0), agent |-> n]}
     /\ UNCHANGED <<now, post, store, asked, copies, node, beat, ack, history>>

-----------------------------------------------------------------------------
(* The nodes. *)
nodeOnly == UNCHANGED <<now, post, store, asked, copies, sw>>

send_beat(n) ==
  /\ Pauses /\ Believes(n) /\ (beat[n].to = None \/ beat[n].sent < now)
  /\ beat' = [beat EXCEPT ![n] = [to |-> node[n].at, epoch |-> node[n].epoch, sent |-> now]]
  /\ UNCHANGED <<node, ack, net, history>> /\ nodeOnly

on_ack(n) ==
  /\ Believes(n) /\ ack[n] + Long(Session) > node[n].until
  /\ node' = [node EXCEPT ![n].until = ack[n] + Long(Session)]
  /\ UNCHANGED <<beat, ack, net, history>> /\ nodeOnly

(* `last`: no request is granted twice, nor below its floor. *)
on_grant(n) ==
  \E m \in net :
    /\ m.kind = "GRANT" /\ m.to = n /\ Believes(n) /\ node[n].hold = 0
    /\ (m.epoch = node[n].epoch \/ (~Use("NodeEpoch") /\ m.epoch < node[n].epoch))
    /\ (m.token > node[n].last \/ ~Use("NodeEpoch"))
    /\ node' = [node EXCEPT ![n] = [@ EXCEPT !.hold = m.token, !.last = m.token,
                  !.agent = IF m.agent = n /\ m.token % 10 = 0 THEN m.token ELSE @,
                  !.holder = IF m.agent = n THEN n ELSE @,
                  !.sequence = IF m.agent = n /\ m.token % 10 = 0 THEN 0 ELSE @]]
    /\ history' = [history EXCEPT !.ordered = @ /\ m.token > history.top, !.top = IF m.token > @ THEN m.token ELSE @]
    /\ net' = net \ {m} /\ UNCHANGED <<beat, ack>> /\ nodeOnly

(* An agent serves another of its names' waiters, or its own. *)
grant_on(n, to) ==
  LET me == node[n]
      token == me.agent + me.sequence + 1
  IN /\ Believes(n) /\ me.agent > 0 /\ me.holder = Nobody /\ me.sequence < MaxSequence
     /\ node' = [node EXCEPT ![n].holder = to, ![n].sequence = @ + 1]
     /\ net' = net \cup {[kind |-> "GRANT", to |-> to, epoch |-> me.epoch, token |-> token, agent |-> n]}
     /\ UNCHANGED <<beat, ack, history>> /\ nodeOnly

(* To the agent of that grant, if it still is one; what arrives late is lock_fission's. *)
release(n) ==
  /\ Believes(n) /\ node[n].hold > 0
  /\ LET agents == {x \in Nodes : node[x].agent > 0 /\ node[x].holder = n /\ node[x].epoch = node[n].epoch}
     IN node' = [x \in Nodes |-> LET after == IF x = n THEN [node[x] EXCEPT !.hold = 0] ELSE node[x]
                                 IN IF x \in agents THEN [after EXCEPT !.holder = Nobody] ELSE after]
  /\ UNCHANGED <<beat, ack, net, history>> /\ nodeOnly

(* RETENURE to UNHELD. *)
free(n, s) ==
  /\ Believes(n) /\ node[n].agent > 0 /\ node[n].holder = Nobody
  /\ sw[s].epoch = node[n].epoch /\ sw[s].agent = n /\ Runs(s)
  /\ node' = [node EXCEPT ![n].agent = 0]
  /\ sw' = [sw EXCEPT ![s].agent = Nobody, ![s].tenure = @ + 1]
  /\ UNCHANGED <<now, post, store, asked, copies, beat, ack, net, history>>

(* Whoever has answered is in the new epoch; its books of the old one are closed. *)
on_census(n) ==
  \E m \in net :
    /\ m.kind = "CENSUS" /\ Believes(n) /\ m.epoch > node[n].epoch
    /\ node' = [node EXCEPT ![n] = [@ EXCEPT !.at = m.from, !.epoch = m.epoch, !.agent = 0, !.holder = Nobody]]
    /\ net' = net \cup {[kind |-> "REPORT", from |-> n, epoch |-> m.epoch, holds |-> node[n].hold > 0]}
    /\ UNCHANGED <<beat, ack, history>> /\ nodeOnly

on_adopt(n) ==
  \E m \in net :
    /\ m.kind = "ADOPT" /\ m.to = n /\ Believes(n) /\ m.epoch = node[n].epoch /\ node[n].agent = 0
    /\ node' = [node EXCEPT ![n] = [@ EXCEPT !.agent = Token(m.epoch, 1, 0), !.sequence = 0,
                                            !.holder = IF node[n].hold > 0 THEN n ELSE Nobody]]
    /\ net' = net \ {m} /\ UNCHANGED <<beat, ack, history>> /\ nodeOnly

on_down(n) ==
  \E m \in net :
    /\ m.kind = "DOWN" /\ Believes(n) /\ m.epoch = node[n].epoch /\ node[n].agent > 0 /\ node[n].holder = m.of /\ m.of # n
    /\ node' = [node EXCEPT ![n].holder = Nobody]
    /\ UNCHANGED <<beat, ack, net, history>> /\ nodeOnly

Next ==
  \/ tick
  \/ \E m \in asked : apply(m) \/ lose(m) \/ on_answer(m) \/ commit(m)
  \/ \E s \in Switches : \/ look(s) \/ ask(s) \/ ask_at_once(s) \/ drain(s) \/ stand(s) \/ restart(s)
                         \/ load(s) \/ again(s) \/ boot(s) \/ boot_at_once(s) \/ on_report(s) \/ decide(s)
                         \/ read_clock(s) \/ acknowledge(s)
                         \/ \E n \in Nodes : expire(s, n) \/ on_heartbeat(s, n) \/ exchange(s, n) \/ grant(s, n) \/ free(n, s)
  \/ \E n \in Nodes : \/ send_beat(n) \/ on_ack(n) \/ on_grant(n) \/ release(n) \/ on_census(n) \/ on_adopt(n) \/ on_down(n)
                      \/ \E to \in Nodes : grant_on(n, to)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Nobody holds what another holds, at any true time; who no longer believes in its session holds nothing. *)
S1 == \A m, n \in Nodes : m # n => ~(Believes(m) /\ Believes(n) /\ node[m].hold > 0 /\ node[n].hold > 0)
S2 == history.ordered
EpochRises == history.rises
(* What an earlier epoch has acknowledged was sent before a later one began to count. *)
Promotion == \A e, f \in DOMAIN history.promoted : e < f => history.acknowledged[e] <= history.promoted[f]
(* A lease of a switch is over once another has the post. *)
OneServes == \A s, t \in Switches : s # t => ~(Runs(s) /\ sw[s].epoch > 0 /\ Runs(t) /\ sw[t].epoch > 0)

Symmetry == Permutations(Nodes)
=============================================================================
