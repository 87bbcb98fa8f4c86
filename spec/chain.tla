-------------------------------- MODULE chain --------------------------------
(* One group of the chain service, and one key of it: docs/chain.md. Switches decide as dataplane/chain.h does; the        *)
(* controller of chains is chain/controller.rs, what switches make of it chain/follow.rs.                                  *)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Switches, Clients,
  Length,                           \* switches of the first epoch's chain
  MaxEpoch, MaxWrites, MaxReads, MaxRestarts, MaxPass,
  Broken                            \* the rules that are left out, of Rules

Rules == {"Fence", "LastPass", "FirstEpoch", "ReadLease", "Lanes", "NewerOnly"}
ASSUME Broken \subseteq Rules
Use(rule) == rule \notin Broken

Nobody == "nobody"
First == SubSeq(<<"a", "b", "c">>, 1, Length)
None == <<0, 0>>                    \* no version
Newer(a, b) == a[1] > b[1] \/ (a[1] = b[1] /\ a[2] > b[2])
Later(a, b) == IF Newer(a, b) THEN a ELSE b
NoLane == [request |-> 0, own |-> None]
NoPlace == [epoch |-> 0, previous |-> Nobody, next |-> Nobody]
NoLoad == [pass |-> 0, epoch |-> 0, source |-> Nobody]

VARIABLES
  group,   \* the controller's: epoch, chain, stage, who owes his leaving, who has taken his place, who joins, pass
  sw,      \* the switches: boot, place, what the key has, lanes, count of versions, the epoch last told, what is copied
  lease,   \* who may serve: given by the controller; over at any time
  known,   \* boot of every switch, as the controller has heard
  net,     \* packets: late, repeated and lost as may be
  routes,  \* chains that clients were ever told of
  client,  \* request under way, the epoch in which it was first sent
  reads,   \* questions under way: what was known when they were asked
  acked,   \* the latest version that anybody was told of
  effects, \* of each write: the versions that it made
  stale    \* a read told of less than was known when it was asked
vars == <<group, sw, lease, known, net, routes, client, reads, acked, effects, stale>>

Fresh(boot) == [boot |-> boot, place |-> NoPlace, item |-> None, lane |-> [c \in Clients |-> NoLane], count |-> 0,
                told |-> 0, load |-> NoLoad]
Index(chain, s) == CHOOSE i \in 1..Len(chain) : chain[i] = s
In(chain, s) == \E i \in 1..Len(chain) : chain[i] = s
Members(chain) == {chain[i] : i \in 1..Len(chain)}
Tail1(chain) == chain[Len(chain)]
Place(epoch, chain, s) ==
  LET i == Index(chain, s)
  IN [epoch |-> epoch, previous |-> IF i = 1 THEN Nobody ELSE chain[i - 1],
      next |-> IF i = Len(chain) THEN Nobody ELSE chain[i + 1]]
Without(chain, gone) == SelectSeq(chain, LAMBDA s : s \notin gone)

Init ==
  /\ group = [epoch |-> 1, chain |-> First, stage |-> "active", owing |-> {}, placed |-> Members(First),
              joiner |-> Nobody, pass |-> 0]
  /\ sw = [s \in Switches |-> IF In(First, s) THEN [Fresh(1) EXCEPT !.place = Place(1, First, s), !.told = 1] ELSE Fresh(1)]
  /\ lease = [s \in Switches |-> TRUE] /\ known = [s \in Switches |-> 1]
  /\ net = {} /\ routes = {[epoch |-> 1, head |-> First[1], tail |-> Tail1(First)]}
  /\ client = [c \in Clients |-> [request |-> 0, waits |-> FALSE, first |-> 0]]
  /\ reads = {} /\ acked = None /\ effects = [c \in Clients |-> [r \in 1..MaxWrites |-> {}]] /\ stale = FALSE

Send(packets) == net' = net \cup packets

-----------------------------------------------------------------------------
(* Clients. *)
write(c) ==
  /\ ~client[c].waits /\ client[c].request < MaxWrites
  /\ client' = [client EXCEPT ![c] = [request |-> @.request + 1, waits |-> TRUE, first |-> 0]]
  /\ UNCHANGED <<group, sw, lease, known, net, routes, reads, acked, effects, stale>>

(* The first time, and again. *)
send(c) ==
  /\ client[c].waits
  /\ \E route \in routes :
       LET first == IF client[c].first = 0 THEN route.epoch ELSE client[c].first
       IN /\ route.epoch >= first
          /\ client' = [client EXCEPT ![c].first = first]
          /\ Send({[kind |-> "write", to |-> route.head, client |-> c, request |-> client[c].request, epoch |-> route.epoch,
                    first |-> first]})
  /\ UNCHANGED <<group, sw, lease, known, routes, reads, acked, effects, stale>>

ask ==
  /\ Cardinality(reads) < MaxReads
  /\ \E route \in routes :
       /\ reads' = reads \cup {[id |-> Cardinality(reads) + 1, known |-> acked]}
       /\ Send({[kind |-> "read", to |-> route.tail, id |-> Cardinality(reads) + 1, epoch |-> route.epoch]})
  /\ UNCHANGED <<group, sw, lease, known, routes, client, acked, effects, stale>>

onAnswer(m) ==
  /\ m.kind \in {"done", "unsure", "value"}
  /\ CASE m.kind = "value" ->
            /\ \E read \in reads : read.id = m.id /\ stale' = (stale \/ Newer(read.known, m.version))
            /\ acked' = Later(acked, m.version) /\ UNCHANGED client
       [] OTHER ->
            /\ client[m.client].waits /\ client[m.client].request = m.request
            /\ client' = [client EXCEPT ![m.client].waits = FALSE]
            /\ acked' = IF m.kind = "done" THEN Later(acked, m.version) ELSE acked
            /\ UNCHANGED stale
  /\ UNCHANGED <<group, sw, lease, known, net, routes, reads, effects>>

-----------------------------------------------------------------------------
(* Switches. *)
PassOn(s, c, request, own, version) ==
  LET place == sw[s].place
  IN IF place.next = Nobody
     THEN {[kind |-> "done", client |-> c, request |-> request, version |-> own]}
     ELSE {[kind |-> "apply", to |-> place.next, from |-> s, epoch |-> place.epoch, client |-> c, request |-> request, own |-> own,
            version |-> version]}

onWrite(s, m) ==
  LET me == sw[s]
      lane == me.lane[m.client]
      version == <<me.place.epoch, me.count + 1>>
  IN /\ m.kind = "write" /\ m.to = s /\ me.place.epoch > 0 /\ me.place.previous = Nobody /\ lease[s]
     /\ m.epoch = me.place.epoch
     /\ CASE Use("FirstEpoch") /\ m.first # m.epoch ->
               /\ Send({[kind |-> "unsure", client |-> m.client, request |-> m.request]}) /\ UNCHANGED <<sw, effects>>
          [] Use("Lanes") /\ m.request = lane.request ->
               /\ Send(PassOn(s, m.client, m.request, lane.own, me.item)) /\ UNCHANGED <<sw, effects>>
          [] m.request > lane.request \/ ~Use("Lanes") ->
               /\ sw' = [sw EXCEPT ![s].item = version, ![s].count = @ + 1,
                                   ![s].lane[m.client] = [request |-> m.request, own |-> version]]
               /\ effects' = [effects EXCEPT ![m.client][m.request] = @ \cup {version}]
               /\ Send(PassOn(s, m.client, m.request, version, version))
          [] OTHER -> UNCHANGED <<sw, effects, net>>
     /\ UNCHANGED <<group, lease, known, routes, client, reads, acked, stale>>

onApply(s, m) ==
  LET me == sw[s]
  IN /\ m.kind = "apply" /\ m.to = s /\ me.place.epoch = m.epoch /\ me.place.previous = m.from /\ lease[s]
     /\ sw' = [sw EXCEPT ![s].item = IF Use("NewerOnly") THEN Later(@, m.version) ELSE m.version,
                         ![s].lane[m.client] = IF m.request > @.request THEN [request |-> m.request, own |-> m.own] ELSE @]
     /\ Send(PassOn(s, m.client, m.request, m.own, m.version))
     /\ UNCHANGED <<group, lease, known, routes, client, reads, acked, effects, stale>>

onRead(s, m) ==
  LET me == sw[s]
  IN /\ m.kind = "read" /\ m.to = s /\ me.place.epoch = m.epoch /\ me.place.epoch > 0 /\ me.place.next = Nobody
     /\ lease[s] \/ ~Use("ReadLease")
     /\ Send({[kind |-> "value", id |-> m.id, version |-> me.item]})
     /\ UNCHANGED <<group, sw, lease, known, routes, client, reads, acked, effects, stale>>

(* Whoever leaves forgets before it says so; a pass of copying begins with nothing. *)
onPlace(s, m) ==
  LET me == sw[s]
  IN /\ m.kind = "place" /\ m.to = s /\ m.boot = me.boot /\ m.epoch >= me.told
     /\ CASE m.role = "joiner" ->
               /\ <<m.epoch, m.pass>> # <<me.load.epoch, me.load.pass>> /\ ~Newer(<<me.load.epoch, me.load.pass>>, <<m.epoch, m.pass>>)
               /\ sw' = [sw EXCEPT ![s].told = m.epoch, ![s].item = None,
                                   ![s].load = [pass |-> m.pass, epoch |-> m.epoch, source |-> m.source]]
               /\ Send({[kind |-> "fetch", to |-> m.source, from |-> s, boot |-> me.boot, pass |-> m.pass, epoch |-> m.epoch]})
          [] m.role = "none" ->
               LET gives == m.epoch > me.told \/ (me.load.pass > 0 /\ me.load.pass <= m.pass)
               IN /\ sw' = [sw EXCEPT ![s].told = m.epoch,
                              ![s].place = IF m.epoch > me.told THEN NoPlace ELSE @,
                              ![s].load = IF gives THEN NoLoad ELSE @, ![s].item = IF gives THEN None ELSE @]
                  /\ Send({[kind |-> "placed", from |-> s, boot |-> me.boot, epoch |-> m.epoch, role |-> "none"]})
          [] OTHER ->
               /\ sw' = IF m.epoch = me.told THEN sw
                        ELSE [sw EXCEPT ![s].told = m.epoch, ![s].load = NoLoad,
                                        ![s].place = [epoch |-> m.epoch, previous |-> m.previous, next |-> m.next]]
               /\ Send({[kind |-> "placed", from |-> s, boot |-> me.boot, epoch |-> m.epoch, role |-> m.role]})
     /\ UNCHANGED <<group, lease, known, routes, client, reads, acked, effects, stale>>

onFetch(s, m) ==
  /\ m.kind = "fetch" /\ m.to = s /\ sw[s].place.epoch > 0
  /\ sw[s].place.next = Nobody
  /\ Send({[kind |-> "copy", to |-> m.from, boot |-> m.boot, pass |-> m.pass, epoch |-> m.epoch, version |-> sw[s].item]})
  /\ UNCHANGED <<group, sw, lease, known, routes, client, reads, acked, effects, stale>>

onCopy(s, m) ==
  LET me == sw[s]
  IN /\ m.kind = "copy" /\ m.to = s /\ m.boot = me.boot /\ me.load.pass = m.pass /\ me.load.epoch = m.epoch
     /\ sw' = [sw EXCEPT ![s].item = Later(@, m.version)]
     /\ Send({[kind |-> "loaded", from |-> s, boot |-> me.boot, epoch |-> m.epoch, pass |-> m.pass]})
     /\ UNCHANGED <<group, lease, known, routes, client, reads, acked, effects, stale>>

(* With an empty memory. While somebody of the chain still has his: otherwise it is lost, and nothing is promised. *)
restart(s) ==
  /\ sw[s].boot - 1 < MaxRestarts
  /\ \E other \in Members(group.chain) \ {s} : sw[other].boot = known[other]
  /\ \A t \in Switches \ {s} : sw[t].boot = known[t]
  /\ sw' = [sw EXCEPT ![s] = Fresh(@.boot + 1)] /\ lease' = [lease EXCEPT ![s] = FALSE]
  /\ UNCHANGED <<group, known, net, routes, client, reads, acked, effects, stale>>

(* Time passes: of a lease nobody is told that it is over. *)
lapse(s) ==
  /\ lease[s] /\ lease' = [lease EXCEPT ![s] = FALSE]
  /\ UNCHANGED <<group, sw, known, net, routes, client, reads, acked, effects, stale>>

-----------------------------------------------------------------------------
(* The controller. *)
controllerOnly == UNCHANGED <<sw, routes, client, reads, acked, effects, stale>>

Configured(chain, leave) ==
  [group EXCEPT !.epoch = @ + 1, !.chain = chain, !.owing = @ \cup leave, !.placed = {}, !.joiner = Nobody, !.stage = "fence"]

renew(s) ==
  /\ ~lease[s] /\ s \notin group.owing /\ known[s] = sw[s].boot
  /\ lease' = [lease EXCEPT ![s] = TRUE] /\ UNCHANGED <<group, known, net>> /\ controllerOnly

(* A switch is heard that has begun anew. *)
hear(s) ==
  /\ known[s] < sw[s].boot
  /\ known' = [known EXCEPT ![s] = sw[s].boot]
  /\ LET rest == Without(group.chain, {s})
         paid == [group EXCEPT !.owing = @ \ {s}, !.placed = @ \ {s}]
     IN IF In(group.chain, s)
        THEN /\ rest # <<>> /\ group.epoch < MaxEpoch
             /\ group' = [paid EXCEPT !.epoch = @ + 1, !.chain = rest, !.placed = {}, !.joiner = Nobody, !.stage = "fence"]
        ELSE IF group.joiner # s THEN group' = paid
        ELSE IF group.stage = "load" THEN group' = [paid EXCEPT !.joiner = Nobody, !.stage = "active"]
        ELSE /\ group.epoch < MaxEpoch /\ group' = [paid EXCEPT !.epoch = @ + 1, !.placed = {}, !.joiner = Nobody, !.stage = "fence"]
  /\ UNCHANGED <<lease, net>> /\ controllerOnly

(* Silent, or taken for it. *)
exclude(s) ==
  /\ In(group.chain, s) /\ Len(group.chain) > 1 /\ group.epoch < MaxEpoch
  /\ group' = Configured(Without(group.chain, {s}), {s}) /\ UNCHANGED <<lease, known, net>> /\ controllerOnly

abandon ==
  /\ group.joiner # Nobody
  /\ IF group.stage = "load"
     THEN group' = [group EXCEPT !.stage = "active", !.joiner = Nobody, !.placed = @ \ {group.joiner}]
     ELSE group.epoch < MaxEpoch /\ group' = Configured(group.chain, {})
  /\ UNCHANGED <<lease, known, net>> /\ controllerOnly

join(s) ==
  /\ group.stage = "active" /\ ~In(group.chain, s) /\ s \notin group.owing /\ group.pass < MaxPass
  /\ group' = [group EXCEPT !.stage = "load", !.joiner = s, !.pass = @ + 1]
  /\ UNCHANGED <<lease, known, net>> /\ controllerOnly

step ==
  LET chain == group.chain
      last == Tail1(chain)
      to(stage) == group' = [group EXCEPT !.stage = stage]
  IN /\ CASE group.stage = "fence" -> (Use("Fence") => \A s \in group.owing : ~lease[s]) /\ to("fill")
          [] group.stage = "fill" -> Members(chain) \ {last} \subseteq group.placed /\ to("crown")
          [] group.stage = "crown" -> last \in group.placed /\ to("active")
          [] group.stage = "quiet" -> last \in group.placed /\ group' = [group EXCEPT !.stage = "rest", !.pass = @ + 1]
          [] OTHER -> FALSE
     /\ routes' = IF group.stage = "crown" THEN routes \cup {[epoch |-> group.epoch, head |-> chain[1], tail |-> last]} ELSE routes
     /\ UNCHANGED <<sw, lease, known, net, client, reads, acked, effects, stale>>

Told(s, role) ==
  LET chain == group.chain
      place == IF role = "member" THEN Place(group.epoch, chain, s)
               ELSE IF role = "quiet" THEN [NoPlace EXCEPT !.previous = s] ELSE NoPlace
  IN [kind |-> "place", to |-> s, boot |-> known[s], role |-> role, epoch |-> group.epoch, previous |-> place.previous,
      next |-> place.next, source |-> Tail1(chain), pass |-> group.pass]

tell ==
  /\ \E s \in Switches :
       LET chain == group.chain
           last == Tail1(chain)
           role == CASE s \in group.owing -> "none"
                     [] group.stage = "fill" /\ In(chain, s) /\ s # last -> "member"
                     [] group.stage = "crown" /\ s = last -> "member"
                     [] group.stage \in {"active", "load"} /\ ~In(chain, s) /\ s # group.joiner -> "none"
                     [] group.stage = "quiet" /\ s = last -> "quiet"
                     [] group.stage \in {"load", "rest"} /\ s = group.joiner -> "joiner"
                     [] OTHER -> "nothing"
       IN role # "nothing" /\ (s \notin group.placed \/ role = "joiner") /\ Told(s, role) \notin net /\ Send({Told(s, role)})
  /\ UNCHANGED <<group, lease, known>> /\ controllerOnly

onPlaced(m) ==
  /\ m.kind = "placed" /\ m.boot = known[m.from] /\ m.epoch = group.epoch /\ m.from \notin group.placed
  /\ group' = [group EXCEPT !.placed = @ \cup {m.from}, !.owing = IF m.role = "none" THEN @ \ {m.from} ELSE @]
  /\ UNCHANGED <<lease, known, net>> /\ controllerOnly

onLoaded(m) ==
  /\ m.kind = "loaded" /\ m.boot = known[m.from] /\ m.epoch = group.epoch /\ m.from = group.joiner /\ m.pass = group.pass
  /\ group.epoch < MaxEpoch
  /\ IF group.stage = "load" /\ Use("LastPass")
     THEN group' = [group EXCEPT !.epoch = @ + 1, !.placed = {}, !.stage = "quiet"]
     ELSE /\ group.stage \in {"load", "rest"} /\ group' = Configured(Append(group.chain, m.from), {})
  /\ UNCHANGED <<lease, known, net>> /\ controllerOnly

Next ==
  \/ \E c \in Clients : write(c) \/ send(c)
  \/ ask \/ step \/ tell \/ abandon
  \/ \E s \in Switches : restart(s) \/ lapse(s) \/ renew(s) \/ hear(s) \/ exclude(s) \/ join(s)
  \/ \E m \in net : \/ onAnswer(m) \/ onPlaced(m) \/ onLoaded(m)
                    \/ \E s \in Switches : onWrite(s, m) \/ onApply(s, m) \/ onRead(s, m) \/ onPlace(s, m) \/ onFetch(s, m) \/ onCopy(s, m)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* A value that was read is not older than any that was known when it was asked for. *)
K1 == ~stale
K2 == \A c \in Clients, r \in 1..MaxWrites : Cardinality(effects[c][r]) <= 1
K3 == \A s, t \in Switches :
        (sw[s].place.epoch > 0 /\ sw[s].place.epoch = sw[t].place.epoch /\ sw[s].place.next = t /\ sw[t].place.previous = s)
          => ~Newer(sw[t].item, sw[s].item)
(* What anybody was told of is at every switch of the chain that serves, but for those that have just begun anew. *)
K4 == group.stage \in {"active", "load", "quiet", "rest"} =>
        \A s \in Members(group.chain) : sw[s].boot = known[s] => ~Newer(acked, sw[s].item)
=============================================================================
