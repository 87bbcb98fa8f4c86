----------------------------- MODULE controller -----------------------------
(* Sessions that end, and the one recovery: freeze, census, adopt, unfreeze (crates/protocol/src/controller, node/census.rs). *)
(* A session that ended does not return: whoever enrols again is another node here.                                      *)
EXTENDS agency

sessionVars == <<alive, live, downs>>
Restarting == ~serving
HeirAt == census.at + (IF Restarting THEN 2 ELSE 1)

(* The lease ends, or the process does: its holds, requests and agents are gone. *)
lose_session(n) ==
  /\ n \in Mortals \cap alive
  /\ alive' = alive \ {n} /\ agent' = [agent EXCEPT ![n] = NoAgent]
  /\ UNCHANGED <<switchVars, netVars, req, claim, epochs, downs, census, history>>

(* The controller outwaits lease and grace, so that only those can be expired who no longer believe. *)
expire(n) ==
  /\ n \in live \cap Mortals /\ (n \notin alive \/ ~Use("ExpiryTwoSided"))
  /\ live' = live \ {n}
  /\ LET orphaned == census.phase = "adopting" /\ census.heir = n
     IN /\ census' = [census EXCEPT !.asked = @ \ {n}, !.phase = IF orphaned THEN "none" ELSE @, !.gap = @ \/ orphaned]
        /\ serving' = (serving \/ orphaned)
        /\ slot' = IF orphaned /\ Restarting THEN [Unheld(HeirAt) EXCEPT !.state = "FROZEN"] ELSE slot
  /\ UNCHANGED <<netVars, nodeVars>>

sweep(n) ==
  /\ n \notin live /\ n \notin census.swept
  /\ census' = [census EXCEPT !.swept = @ \cup {n}, !.gap = @ \/ (slot.agent = n /\ Use("Sweep"))]
  /\ UNCHANGED <<switchVars, netVars, nodeVars>>

(* DOWN: that handle is dead. *)
on_down(n, dead) ==
  /\ n \in alive /\ dead \notin live /\ dead \notin downs[n]
  /\ downs' = [downs EXCEPT ![n] = @ \cup {dead}]
  /\ LET theirs == {r \in Requests : NodeOf(r) = dead}
     IN agent' = [agent EXCEPT ![n].holders = @ \ theirs, ![n].queue = Without(@, theirs)]
  /\ UNCHANGED <<switchVars, netVars, req, claim, alive, epochs, census, history>>

freeze ==
  /\ serving /\ census.phase = "none" /\ census.taken < MaxCensus /\ slot.state # "UNHELD"
  /\ LET at == IF Use("AdoptTwo") THEN slot.at + 1 ELSE slot.at
     IN /\ slot' = [Unheld(at) EXCEPT !.state = "FROZEN", !.transferred = TRUE]
        /\ census' = [census EXCEPT !.phase = "asking", !.at = at, !.asked = live, !.holds = {}, !.agents = {},
                                    !.heir = Nobody, !.taken = @ + 1, !.gap = FALSE]
        /\ Send({Census(n, at, Epoch(at)) : n \in live})
  /\ UNCHANGED <<serving, live, nodeVars>>

(* The switch comes up with empty memory, under an epoch that was never used. *)
restart ==
  /\ census.restarts < MaxRestarts
  /\ LET epoch == IF Use("EpochRaise") THEN Epoch(slot.at) + 1 ELSE Epoch(slot.at)
         at == Stamp(epoch, 0) - 1
     IN /\ slot' = Unheld(at + 1)
        /\ census' = [census EXCEPT !.phase = "asking", !.at = at, !.asked = live, !.holds = {}, !.agents = {},
                                    !.heir = Nobody, !.restarts = @ + 1, !.gap = FALSE]
        /\ Send({Census(n, at, epoch) : n \in live})
  /\ serving' = ~Use("Serving") /\ UNCHANGED <<live, nodeVars>>

(* CENSUS and REPORT: from the answer on nothing of the past counts. An agent that is younger than the census goes on. *)
on_census(n) ==
  \E m \in net["CENSUS"] :
    LET a == agent[n]
        stops == a.on /\ a.at <= m.at
        stopped == [a EXCEPT !.suspended = TRUE, !.pending = NoChange,
                             !.queue = IF a.pending.op = "transfer" THEN Living(n, <<a.pending.heir>> \o @) ELSE @]
        holds == {Holding(r, req[r].mode) : r \in {x \in Requests : NodeOf(x) = n /\ req[x].state = "held"}}
    IN /\ m.to = n /\ n \in alive /\ m.epoch >= epochs[n]
       /\ epochs' = [epochs EXCEPT ![n] = m.epoch]
       /\ agent' = IF stops THEN [agent EXCEPT ![n] = stopped] ELSE agent
       /\ claim' = [claim EXCEPT ![n].nonce = 0]
       /\ req' = IF Use("CensusFloor") /\ ~(a.on /\ a.at > m.at) THEN Floored(n, m.at) ELSE req
       /\ Take(m, {Report(n, m.at, holds, IF stops THEN a.at ELSE 0)})
       /\ UNCHANGED <<switchVars, alive, downs, census, history>>

on_report ==
  \E m \in net["REPORT"] :
    /\ census.phase = "asking" /\ m.at = census.at /\ m.from \in census.asked
    /\ census' = [census EXCEPT !.asked = @ \ {m.from}, !.holds = @ \cup m.holds,
                                !.agents = IF m.agentAt = 0 THEN @ ELSE @ \cup {<<m.agentAt, m.from>>}]
    /\ Take(m, {}) /\ UNCHANGED <<switchVars, nodeVars>>

(* All have answered or are dead: the youngest agent inherits, else a holder's node; nobody: UNHELD. *)
decide ==
  LET holds == {h \in census.holds : NodeOf(h.r) \in live}
      agents == {x \in census.agents : x[2] \in live}
      youngest == {x[2] : x \in {y \in agents : \A z \in agents : z[1] <= y[1]}}
      heirs == IF agents # {} THEN youngest ELSE {NodeOf(h.r) : h \in holds}
  IN /\ census.phase = "asking" /\ Cardinality(census.asked) <= (IF Use("CensusAll") THEN 0 ELSE 1)
     /\ IF heirs = {}
        THEN /\ slot' = Unheld(census.at + 1) /\ serving' = TRUE /\ UNCHANGED netVars
             /\ census' = [census EXCEPT !.phase = "none", !.holds = {}, !.agents = {}, !.asked = {}]
        ELSE /\ \E n \in heirs : /\ census' = [census EXCEPT !.phase = "adopting", !.heir = n]
                                 /\ Send({Adopt(n, HeirAt, holds)})
             /\ UNCHANGED <<slot, serving>>
     /\ UNCHANGED <<live, nodeVars>>

(* ADOPT: be the agent, with these holders. A copy may be old, so the switch is asked to confirm before anything else. *)
on_adopt(n) ==
  \E m \in net["ADOPT"] :
    LET a == agent[n]
        held == {h.r : h \in m.holds} \ (IF Use("DeadQueue") THEN {r \in Requests : NodeOf(r) \in downs[n]} ELSE {})
        queue == IF a.on /\ a.suspended THEN Without(a.queue, held) ELSE <<>>
    IN /\ m.to = n /\ n \in alive /\ Epoch(m.at) = epochs[n] /\ ~(a.on /\ a.at >= m.at)
       /\ agent' = [agent EXCEPT ![n] = [Fresh(m.at, FALSE, 0) EXCEPT
                      !.confirmed = ~Use("AdoptConfirm"), !.holders = held, !.queue = queue,
                      !.shared = {h.r : h \in {x \in m.holds : x.mode = "S"}}]]
       /\ claim' = [claim EXCEPT ![n].nonce = 0]
       /\ req' = Floored(n, m.at)
       /\ Take(m, {Adopted(n, m.at)})
       /\ UNCHANGED <<switchVars, alive, epochs, downs, census, history>>

on_adopted ==
  \E m \in net["ADOPTED"] :
    /\ census.phase = "adopting" /\ m.from = census.heir /\ m.at = HeirAt
    /\ slot' = [state |-> "MANAGED", agent |-> m.from, transferred |-> TRUE, joins |-> 0, at |-> HeirAt]
    /\ serving' = TRUE
    /\ census' = [census EXCEPT !.phase = "none", !.heir = Nobody, !.holds = {}, !.agents = {}, !.asked = {}]
    /\ Take(m, {}) /\ UNCHANGED <<live, nodeVars>>

(* Nobody adopted the slot here: somebody else has it. *)
forget_suspended(n) ==
  /\ agent[n].suspended /\ census.phase = "none" /\ agent' = [agent EXCEPT ![n] = NoAgent]
  /\ UNCHANGED <<switchVars, netVars, req, claim, alive, epochs, downs, census, history>>

ControllerNext ==
  \/ freeze \/ restart \/ on_report \/ decide \/ on_adopted
  \/ \E n \in Nodes : \/ lose_session(n) \/ expire(n) \/ sweep(n) \/ on_census(n) \/ on_adopt(n) \/ forget_suspended(n)
                      \/ \E dead \in Mortals : on_down(n, dead)
=============================================================================
