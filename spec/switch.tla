------------------------------- MODULE switch -------------------------------
(* What the switch decides (dataplane/fission.h). A request that it only forwards is taken by the agent itself, in   *)
(* agent.tla: nothing is decided on the way, and a forward may be late like any packet.                              *)
EXTENDS base

Current(m) == m.epoch = Epoch(slot.at)
Decides == serving /\ slot.state # "FROZEN"

(* ACQUIRE. The holder was LIVE when the packet came in; only what is read after winning counts. *)
on_acquire_unheld(m) ==
  LET r == m.r
      won == [state |-> IF Wish(r).mode = "S" THEN "OPEN" ELSE "MANAGED", agent |-> NodeOf(r), transferred |-> FALSE,
              joins |-> 0, at |-> slot.at]
  IN /\ slot.state = "UNHELD"
     /\ IF NodeOf(r) \in live \/ ~Use("ReadWordAgain")
        THEN slot' = won /\ Take(m, {Agency(r, won, Nobody, <<>>)}) /\ UNCHANGED census
        ELSE \/ slot' = Unheld(slot.at + 1) /\ Take(m, {}) /\ UNCHANGED census
             \* Somebody joined before it could be undone: a GAP.
             \/ slot' = won /\ census' = [census EXCEPT !.gap = TRUE] /\ Take(m, {})

on_acquire_open(m) ==
  LET r == m.r
      ordinal == slot.joins + 1
      dead == NodeOf(r) \notin live
      join == Join(slot.agent, r, slot.at, ordinal, dead)
  IN /\ slot.state = "OPEN" /\ UNCHANGED census
     /\ IF Wish(r).mode = "S" /\ slot.joins < MaxJoins
        THEN /\ slot' = [slot EXCEPT !.joins = ordinal]
             /\ Take(m, IF dead THEN {join} ELSE {join, Grant(r, slot.at, 0, ordinal)})
        ELSE /\ Wish(r).mode = "X"
             /\ slot' = [slot EXCEPT !.state = "MANAGED"] /\ UNCHANGED netVars

on_acquire_at_switch ==
  \E m \in net["ACQUIRE"] :
    /\ Current(m) /\ Decides
    /\ (on_acquire_unheld(m) \/ on_acquire_open(m))
    /\ UNCHANGED <<serving, live, nodeVars>>

(* RETENURE: the one conditional change of the slot, by its agent. *)
Changed(m) ==
  LET c == m.change
      next == slot.at + 1
      heirs == {c.heir} \cup Range(c.queue)
  IN CASE c.op = "free"     -> Unheld(next)
       [] c.op = "renew"    -> [state |-> "MANAGED", agent |-> m.from, transferred |-> FALSE, joins |-> 0, at |-> next]
       [] c.op = "reopen"   -> [state |-> "OPEN", agent |-> m.from, transferred |-> FALSE, joins |-> 0, at |-> next]
       [] c.op = "transfer" -> [state |-> IF \E r \in heirs : Wish(r).mode = "X" THEN "MANAGED" ELSE "OPEN",
                                agent |-> NodeOf(c.heir), transferred |-> TRUE, joins |-> 0, at |-> next]

Handed(m, now) == Agency(m.change.heir, now, m.from, m.change.queue)
IsCurrent(m) == /\ slot.state # "UNHELD"
                /\ slot.agent = m.from
                /\ Use("TenureCondition") => slot.at = m.at
(* The slot as it is; who else has it by now is of no interest to the one whose tenure is over. *)
Answer(m, outcome) ==
  LET mine == slot.agent = m.from /\ slot.at <= m.at + 1
  IN Take(m, {Retenured(m.from, m.at, m.change, outcome, IF mine THEN slot ELSE Unheld(m.at + 1))})

on_retenure ==
  \E m \in net["RETENURE"] :
    /\ Epoch(m.at) = Epoch(slot.at) /\ Decides
    /\ UNCHANGED <<serving, live, nodeVars>>
    /\ LET transfers == m.change.op = "transfer"
           heir == NodeOf(m.change.heir)
       IN \/ /\ ~IsCurrent(m) /\ UNCHANGED <<slot, census>>
             /\ IF transfers /\ slot.at = m.at + 1 /\ slot.transferred /\ slot.agent = heir
                THEN Take(m, {Handed(m, slot)})
                ELSE Answer(m, "stale")
          \/ /\ IsCurrent(m) /\ Use("JoinsCondition") /\ slot.joins # m.change.joins
             /\ Answer(m, "refused") /\ UNCHANGED <<slot, census>>
          \/ /\ IsCurrent(m) /\ (Use("JoinsCondition") => slot.joins = m.change.joins)
             /\ IF transfers /\ heir \notin live
                THEN \/ Answer(m, "dead") /\ UNCHANGED <<slot, census>>
                     \* It died between the check and the change: read again after winning, so a GAP.
                     \/ /\ slot' = Changed(m) /\ Take(m, {})
                        /\ census' = [census EXCEPT !.gap = @ \/ Use("ReadWordAgain")]
                ELSE /\ slot' = Changed(m) /\ UNCHANGED census
                     /\ IF transfers THEN Take(m, {Handed(m, Changed(m))})
                        ELSE Take(m, {Retenured(m.from, m.at, m.change, "applied", Changed(m))})

(* CLAIM: by the named agent that never heard of its agency. The joins stay: their ordinals are what it must learn. *)
on_claim ==
  \E m \in net["CLAIM"] :
    /\ Epoch(m.at) = Epoch(slot.at) /\ Decides
    /\ slot.state # "UNHELD" /\ slot.agent = m.from
    /\ IF slot.at = m.at /\ (~slot.transferred \/ ~Use("TransferredNoClaim"))
       THEN /\ slot' = [slot EXCEPT !.state = "MANAGED", !.transferred = TRUE, !.at = @ + 1,
                                    !.joins = IF Use("ClaimKeepsJoins") THEN @ ELSE 0]
            /\ Take(m, {Claimed(m.from, m.nonce, slot')})
       ELSE /\ slot.at = m.at + 1 /\ slot.transferred /\ UNCHANGED slot
            /\ Take(m, {Claimed(m.from, m.nonce, slot)})
    /\ UNCHANGED <<serving, live, nodeVars, census>>

SwitchNext == on_acquire_at_switch \/ on_retenure \/ on_claim
=============================================================================
