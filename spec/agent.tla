------------------------------- MODULE agent -------------------------------
(* The bookkeeper of the slot (crates/protocol/src/agent/, node/agents.rs).                                        *)
(* Limbo: a packet that a node can't handle yet stays in `net`, where it may be taken later, here or by the switch.  *)
EXTENDS node

ModeFor(a, r) == IF r \in a.shared THEN "S" ELSE Wish(r).mode
Usable(a)   == a.on /\ a.confirmed /\ (~a.suspended \/ ~Use("Suspend")) /\ a.pending.op = "none"
AtWork(a)   == a.on /\ (~a.suspended \/ ~Use("Suspend")) /\ a.pending.op = "none"
Complete(a) == a.known = 1..a.expected \/ ~Use("Ordinals")
OfName(a, r) == {h \in a.holders : Wish(h).name = Wish(r).name}
IsDead(n, r) == NodeOf(r) \in downs[n] /\ Use("DeadSet")

(* Whoever comes into the books by another way than a packet of its own may be known to be dead. *)
Living(n, queue) == SelectSeq(queue, LAMBDA r : ~(NodeOf(r) \in downs[n] /\ Use("DeadQueue")))

StartTenure(a, at, open, joins) ==
  [a EXCEPT !.at = at, !.joinsAt = at, !.open = open, !.expected = joins, !.known = {}, !.retired = {}, !.sequence = 0]
Fresh(at, open, joins) == StartTenure([NoAgent EXCEPT !.on = TRUE], at, open, joins)

(* The switch said that an exclusive request has closed the slot: its joins are final. *)
Learn(a) == IF slot.at = a.at /\ slot.state = "MANAGED"
            THEN [a EXCEPT !.open = FALSE, !.expected = IF a.joinsAt = a.at THEN Max(@, slot.joins) ELSE @]
            ELSE a

(* ACQUIRE, from this very node or forwarded by the switch. That was in the agent's tenure or before it: a packet that *)
(* was sent `since` a later stamp of the slot cannot have come here. One of its own node may never have been at the  *)
(* switch, and then it says nothing of the slot.                                                                     *)
on_acquire(n) ==
  \E m \in net["ACQUIRE"] :
    /\ n \in alive /\ m.epoch = epochs[n] /\ AtWork(agent[n])
    /\ \E a \in {Learn(agent[n])} \cup (IF NodeOf(m.r) = n THEN {agent[n]} ELSE {}) :
       LET r == m.r
           known == r \in a.holders \cup Range(a.queue) \cup (IF Use("Retired") THEN a.retired ELSE {})
       IN /\ ~IsDead(n, r) /\ IF NodeOf(r) = n THEN Waits(r) ELSE m.since <= a.at
          /\ IF known \/ (a.open /\ Wish(r).mode = "X")
             THEN a # agent[n] /\ agent' = [agent EXCEPT ![n] = a]
             ELSE agent' = [agent EXCEPT ![n] = [a EXCEPT !.queue = Append(@, r)]]
          /\ Take(m, {})
    /\ UNCHANGED <<switchVars, req, claim, alive, epochs, downs, census, history>>

(* RELEASE or CANCEL: this (holder, request) is over; its ordinal closes a gap. *)
Removed(a, r) == [a EXCEPT !.holders = IF Use("OwnRequest") THEN @ \ {r} ELSE {}, !.queue = Without(@, {r})]
on_release(n) ==
  \E m \in net["RELEASE"] :
    /\ n \in alive /\ m.epoch = epochs[n] /\ agent[n].on
    /\ AtWork(agent[n]) \/ (NodeOf(m.r) = n /\ ~agent[n].suspended)
    /\ LET a == agent[n]
           learns == m.ordinal # 0 /\ (m.grantAt = a.joinsAt \/ ~Use("JoinsOfTenure"))
           b == [Removed(a, m.r) EXCEPT !.retired = @ \cup {m.r},
                                        !.known = IF learns THEN @ \cup {m.ordinal} ELSE @,
                                        !.expected = IF learns THEN Max(@, m.ordinal) ELSE @]
       IN agent' = [agent EXCEPT ![n] = b]
    /\ Take(m, {})
    /\ UNCHANGED <<switchVars, req, claim, alive, epochs, downs, census, history>>

(* JOIN: the switch has granted a shared request in this tenure. *)
on_join(n) ==
  \E m \in net["JOIN"] :
    /\ m.to = n /\ n \in alive /\ Epoch(m.at) = epochs[n] /\ AtWork(agent[n])
    /\ LET a == agent[n]
           counts == ~m.dead /\ ~IsDead(n, m.r) /\ ~(m.r \in a.retired /\ Use("Retired"))
       IN /\ m.at = a.joinsAt /\ m.ordinal \notin a.known
          /\ agent' = [agent EXCEPT ![n] = [a EXCEPT !.known = @ \cup {m.ordinal}, !.expected = Max(@, m.ordinal),
                         !.holders = IF counts THEN @ \cup {m.r} ELSE @, !.queue = Without(@, {m.r})]]
    /\ Take(m, {})
    /\ UNCHANGED <<switchVars, req, claim, alive, epochs, downs, census, history>>

on_downgrade(n) ==
  \E m \in net["DOWNGRADE"] :
    /\ n \in alive /\ m.epoch = epochs[n] /\ AtWork(agent[n])
    /\ m.r \in agent[n].holders \ agent[n].shared
    /\ agent' = [agent EXCEPT ![n].shared = @ \cup {m.r}] /\ Take(m, {})
    /\ UNCHANGED <<switchVars, req, claim, alive, epochs, downs, census, history>>

(* Nobody holds, all wait for one name, the first of them elsewhere: the agency goes there. *)
FirstTakesOver(n, a) ==
  /\ a.queue # <<>> /\ NodeOf(Head(a.queue)) # n /\ ~a.open /\ a.holders = {} /\ Complete(a)
  /\ \A r \in Range(a.queue) : Wish(r).name = Wish(Head(a.queue)).name

CanGrant(a, r) ==
  IF Wish(r).mode = "S" THEN \A h \in OfName(a, r) : ModeFor(a, h) = "S"
  ELSE ~a.open /\ OfName(a, r) = {} /\ Complete(a)

(* Nobody else has to do with the slot, and its node keeps it: whether it stays, and whether it lends what could go    *)
(* along, is counted there; here it may do either at any time.                                                       *)
MayStay(n, a) == /\ n \in Keepers /\ a.confirmed /\ a.queue = <<>> /\ ~a.open /\ Complete(a)
                 /\ \A h \in a.holders : NodeOf(h) = n

(* The first waiters of some name that may have it. *)
Grantable(n, a) ==
  IF ~(a.on /\ (Usable(a) \/ (AtWork(a) /\ ~Use("Confirm")))) \/ (FirstTakesOver(n, a) /\ n \notin Keepers) THEN {}
  ELSE {r \in Range(a.queue) : /\ CanGrant(a, r) /\ (Wish(r).mode = "X" => a.sequence < MaxSequence)
                               /\ \A i, j \in DOMAIN a.queue :
                                    (a.queue[j] = r /\ i < j) => Wish(a.queue[i]).name # Wish(r).name}

grant(n) ==
  /\ n \in alive
  /\ \E r \in Grantable(n, agent[n]) :
       LET a == [agent[n] EXCEPT !.queue = Without(@, {r})]
           sequence == IF Wish(r).mode = "X" /\ Use("Sequence") THEN a.sequence + 1 ELSE a.sequence
           granted == [a EXCEPT !.holders = @ \cup {r}, !.sequence = sequence]
       IN IF NodeOf(r) # n
          THEN agent' = [agent EXCEPT ![n] = granted] /\ Send({Grant(r, a.at, sequence, 0)}) /\ UNCHANGED <<req, history>>
          ELSE IF Waits(r)
          THEN agent' = [agent EXCEPT ![n] = granted] /\ Hold(r, a.at, sequence, 0) /\ UNCHANGED netVars
          ELSE agent' = [agent EXCEPT ![n] = a] /\ UNCHANGED <<netVars, req, history>>
  /\ UNCHANGED <<switchVars, claim, alive, epochs, downs, census>>

(* What the agent asks the switch to change now, if anything. Who has yet to be confirmed and knows of a gap names fewer *)
(* joins than there are: it is to be told whether it is the agent, not given what it asks for.                         *)
Change(a, op) == [NoChange EXCEPT !.op = op, !.joins = IF Complete(a) THEN a.expected ELSE Cardinality(a.known)]
Due(n, a) ==
  LET exhausted == \E r \in Range(a.queue) : Wish(r).mode = "X" /\ CanGrant(a, r) /\ a.sequence = MaxSequence
  IN IF ~a.confirmed /\ Use("Confirm") THEN {Change(a, IF a.holders = {} /\ a.queue = <<>> THEN "free" ELSE "renew")}
     ELSE IF FirstTakesOver(n, a)
     THEN {[Change(a, "transfer") EXCEPT !.heir = Head(a.queue), !.queue = Tail(a.queue)]}
     ELSE IF exhausted THEN {Change(a, "renew")}
     ELSE IF a.queue # <<>> \/ ~Complete(a) THEN {}
     ELSE IF a.holders = {} THEN {Change(a, "free")} \cup (IF n \in Keepers /\ a.open THEN {Change(a, "renew")} ELSE {})
     ELSE IF ~a.open /\ \A h \in a.holders : ModeFor(a, h) = "S" THEN {Change(a, "reopen")}
     ELSE {}

start(n) ==
  /\ n \in alive /\ AtWork(agent[n])
  /\ \E c \in Due(n, agent[n]) :
       /\ Send({Retenure(n, agent[n].at, c)})
       /\ agent' = [agent EXCEPT ![n] = IF ~Use("KeepState") THEN NoAgent ELSE
                      [@ EXCEPT !.pending = c, !.queue = IF c.op = "transfer" THEN c.queue ELSE @]]
  /\ UNCHANGED <<switchVars, req, claim, alive, epochs, downs, census, history>>
(* An agent does what it can before it takes the next packet. *)
Busy(n) == /\ n \in alive /\ AtWork(agent[n])
           /\ Grantable(n, agent[n]) # {} \/ (Due(n, agent[n]) # {} /\ ~MayStay(n, agent[n]))
serve == \E n \in Nodes : grant(n) \/ ((Grantable(n, agent[n]) = {} \/ FirstTakesOver(n, agent[n])) /\ start(n))
let_go == \E n \in Keepers : MayStay(n, agent[n]) /\ start(n)
=============================================================================
