------------------------------ MODULE liveness ------------------------------
(* What must come about once the network heals: it loses MaxLosses packets, whenever it likes, and then no more.     *)
(* What is unanswered is sent again. "Unanswered" is seen from above here: nothing under way and nobody's books      *)
(* speak of it. So retransmissions neither pile up nor hide that an answer is missing.                               *)
(* No scope of this module has a CONSTRAINT: nothing is cut off, and a run that comes to a limit ends there, which   *)
(* TLC would report.                                                                                                 *)
EXTENDS mc

CONSTANTS
  MaxLosses,    \* how many packets may be lost,
  Lossy,        \* and of which kinds
  HastyClaims   \* how many claims a node may make although the agency may still come

VARIABLES
  losses,   \* packets lost
  races     \* how often a node was found dead only after the slot was won for it, at most once
all   == <<vars, losses, races>>
spared == UNCHANGED <<losses, races>>

LockKinds == Kinds \ {"CENSUS", "REPORT", "ADOPT", "ADOPTED"}
ASSUME Lossy \subseteq LockKinds
lose == /\ losses < MaxLosses /\ losses' = losses + 1
        /\ \E kind \in Lossy : \E m \in net[kind] : net' = [net EXCEPT ![kind] = @ \ {m}]
        /\ UNCHANGED <<switchVars, nodeVars, copies, census, races>>

Some(kinds, IsIt(_)) == \E kind \in kinds : \E m \in net[kind] : IsIt(m)
Acts(n)    == n \in alive /\ agent[n].on /\ ~agent[n].suspended
(* The agency on its way to somebody who lives to take it. *)
Coming(m)  == NodeOf(m.r) \in alive /\ Epoch(m.at) = EpochOf(m.r)
About(r) == \/ Some({"ACQUIRE"}, LAMBDA m : m.r = r /\ m.epoch = EpochOf(r))
            \/ Some({"GRANT"}, LAMBDA m : m.r = r)
            \/ Some({"AGENCY"}, LAMBDA m : Coming(m) /\ r \in {m.r} \cup Range(m.queue))
Booked(n, r) == r \in Range(agent[n].queue) \cup Range(agent[n].pending.queue) \cup {agent[n].pending.heir}
Known(r)   == \E n \in Nodes : Acts(n) /\ (Booked(n, r) \/ r \in agent[n].holders)
Counted(r) == \E n \in Nodes : Acts(n) /\ agent[n].at >= slot.at /\ (Booked(n, r) \/ r \in agent[n].holders)

ask_anew(r) == /\ Use("AskAgain") /\ Waits(r) /\ NodeOf(r) \in alive /\ ~About(r) /\ ~Known(r)
               /\ Send({Acquire(r, EpochOf(r))}) /\ UNCHANGED <<req, history>>
(* RELEASED is missing as long as the books that count have the request; or the agent's reminder is given back. *)
release_anew(r) == /\ Use("ReleaseAgain") /\ req[r].state = "gone" /\ NodeOf(r) \in alive /\ Counted(r)
                   /\ ~Some({"RELEASE"}, LAMBDA m : m.r = r /\ m.epoch = EpochOf(r))
                   /\ Send({GiveBack(r)}) /\ UNCHANGED <<req, history>>
(* ACQUIRE of one who holds, or the agent's own reminder: the grant again. A local one needs no packet. *)
grant_anew(n, r) ==
  /\ Use("GrantAgain") /\ Acts(n) /\ Waits(r) /\ r \in agent[n].holders
  /\ ~Some({"GRANT", "AGENCY"}, LAMBDA m : m.r = r)
  /\ IF NodeOf(r) = n THEN Hold(r, agent[n].at, agent[n].sequence, 0) /\ UNCHANGED netVars
     ELSE Send({Grant(r, agent[n].at, agent[n].sequence, 0)}) /\ UNCHANGED <<req, history>>
retenure_anew(n) ==
  /\ Use("RetenureAgain") /\ Acts(n) /\ agent[n].pending.op # "none"
  /\ ~Some({"RETENURE"}, LAMBDA m : m.from = n /\ m.at = agent[n].at)
  /\ ~Some({"RETENURED", "QUEUED"}, LAMBDA m : m.to = n /\ m.at >= agent[n].at)
  /\ ~Some({"AGENCY"}, LAMBDA m : m.from = n /\ m.at = agent[n].at + 1 /\ Coming(m))
  /\ Send({Retenure(n, agent[n].at, agent[n].pending)}) /\ UNCHANGED <<req, history>>
again == /\ \/ \E r \in Requests : ask_anew(r) \/ release_anew(r)
            \/ \E n \in Nodes : retenure_anew(n) \/ \E r \in Requests : grant_anew(n, r)
         /\ UNCHANGED <<switchVars, agent, claim, alive, epochs, downs, census>>

(* What nobody wants any more. *)
Unwanted(m) ==
  CASE m.kind = "GRANT"     -> Epoch(m.at) # EpochOf(m.r) \/ (req[m.r].state # "gone" /\ ~IsWanted(m.r, m.at))
    [] m.kind = "AGENCY"    -> ~Coming(m) \/ (agent[NodeOf(m.r)].on /\ agent[NodeOf(m.r)].at >= m.at)
    [] m.kind = "JOIN"      -> ~agent[m.to].on \/ m.at < agent[m.to].joinsAt \/ m.ordinal \in agent[m.to].known
    [] m.kind = "CLAIMED"   -> claim[m.to].nonce # m.nonce
    [] m.kind = "RETENURED" -> ~agent[m.to].on \/ m.at # agent[m.to].at \/ m.change # agent[m.to].pending
    [] m.kind = "QUEUED"    -> ~agent[m.to].on \/ m.at # agent[m.to].at + 1 \/ agent[m.to].pending.op # "transfer"
    [] OTHER -> FALSE
(* A transfer that has arrived before is acknowledged again. *)
Acknowledged(m) ==
  IF Use("QueuedAgain") /\ m.kind = "AGENCY" /\ m.from # Nobody /\ agent[NodeOf(m.r)].at = m.at
  THEN {Queued(m.from, NodeOf(m.r), m.at)} ELSE {}
drop == /\ \E kind \in {"GRANT", "AGENCY", "JOIN", "CLAIMED", "RETENURED", "QUEUED"} :
             \E m \in net[kind] : Unwanted(m) /\ net' = Put([net EXCEPT ![kind] = @ \ {m}], Acknowledged(m))
        /\ UNCHANGED <<switchVars, nodeVars, copies, census>>

(* GAP: an ordinal stays unknown, or the agency in limbo. *)
Limbo == /\ slot.agent \in alive /\ slot.transferred /\ ~(agent[slot.agent].on /\ agent[slot.agent].at >= slot.at)
         /\ ~Some({"AGENCY"}, LAMBDA m : m.at = slot.at)
         /\ ~Some({"CLAIMED"}, LAMBDA m : m.to = slot.agent /\ m.nonce = claim[m.to].nonce)
         /\ ~\E n \in Nodes : Acts(n) /\ agent[n].pending.op = "transfer" /\ agent[n].at + 1 = slot.at
Hole(a)  == /\ ~Complete(a)
            /\ ~Some({"JOIN", "GRANT"}, LAMBDA m : m.at = a.joinsAt)
            /\ ~Some({"RELEASE"}, LAMBDA m : m.grantAt = a.joinsAt)
            /\ ~\E r \in Requests : Holds(r) /\ req[r].ordinal # 0
GapSeen == \/ census.gap \/ (slot.state = "FROZEN" /\ census.phase = "none") \/ Limbo
           \/ slot.agent \in alive /\ AtWork(agent[slot.agent]) /\ Hole(agent[slot.agent])

claim_it(n) == /\ Use("Claim") /\ send_claim(n)
               /\ claim[n].made >= HastyClaims => ~Some({"AGENCY"}, LAMBDA m : NodeOf(m.r) = n /\ m.at = slot.at)
at_switch == SwitchNext /\ UNCHANGED losses /\ IF census' = census THEN UNCHANGED races ELSE races = 0 /\ races' = 1
at_controller == \/ on_report \/ decide \/ on_adopted \/ (Use("Gap") /\ GapSeen /\ freeze)
                 \/ \E n \in Nodes : expire(n) \/ sweep(n)
at_asker == on_grant \/ on_agency \/ \E n \in Nodes : on_claimed(n) \/ on_retenured(n) \/ on_queued(n)
at_asked == \E n \in Nodes :
  \/ on_acquire(n) \/ on_release(n) \/ on_join(n) \/ claim_it(n) \/ on_census(n) \/ on_adopt(n)
  \/ \E dead \in Mortals : on_down(n, dead)
Step == at_switch \/ (spared /\ (\/ at_controller \/ at_asker \/ at_asked \/ drop \/ again
                                 \/ \E r \in Requests : release(r)))
(* Who asks, and what fails: nothing of this must ever happen. *)
Outside == spared /\ ((\E r \in Requests : ask(r)) \/ (\E n \in Nodes : lose_session(n)) \/ restart)

Calm     == \A n \in Nodes : ~Busy(n)
Progress == IF Calm THEN Step ELSE spared /\ serve
LiveNext == IF Calm THEN Step \/ Outside \/ lose ELSE spared /\ serve

(* Fair is only that something is done while anything can be, and that each of four places does something while it   *)
(* has something to do. Nothing is said of single packets, so that every order of them that lasts is checked too.    *)
LiveSpec ==
  /\ Init /\ losses = 0 /\ races = 0 /\ [][LiveNext]_all
  /\ WF_all(Progress) /\ WF_all(Calm /\ at_switch)
  /\ WF_all(Calm /\ spared /\ at_controller) /\ WF_all(Calm /\ spared /\ at_asker) /\ WF_all(Calm /\ spared /\ at_asked)

(* L1: every living waiter is granted. L2: a lock that nobody wants becomes UNHELD. As each request waits once, and  *)
(* every holder gives back, "again and again" says the same as "from then on some time", and TLC needs no tableau.   *)
L1 == []<>(\A r \in Requests : Waits(r) => NodeOf(r) \notin alive)
L2 == []<>(slot.state = "UNHELD")
=============================================================================
