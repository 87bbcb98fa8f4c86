------------------------------ MODULE liveness ------------------------------
(* What must come about once the network heals. Before, it may lose MaxLosses packets and a node may die; after, every   *)
(* packet arrives, and what is unanswered is sent again. "Unanswered" is seen from above here: nothing under way and     *)
(* nobody's books speak of it. So retransmissions neither pile up nor hide that an answer is missing.                    *)
EXTENDS mc

CONSTANT MaxLosses
VARIABLES losses, healed
all == <<vars, losses, healed>>
unlost == <<losses, healed>>

LossyKinds == {"ACQUIRE", "RELEASE", "GRANT", "AGENCY", "JOIN", "RETENURE", "RETENURED", "CLAIM", "CLAIMED", "QUEUED"}
lose == /\ ~healed /\ losses < MaxLosses /\ losses' = losses + 1
        /\ \E kind \in LossyKinds : \E m \in net[kind] : net' = [net EXCEPT ![kind] = @ \ {m}]
        /\ UNCHANGED <<switchVars, nodeVars, copies, census, healed>>
heal == ~healed /\ healed' = TRUE /\ UNCHANGED <<vars, losses>>

Calm == \A n \in Nodes : ~Busy(n)
Some(kinds, IsIt(_)) == \E kind \in kinds : \E m \in net[kind] : IsIt(m)
About(r) == \/ Some({"ACQUIRE", "GRANT"}, LAMBDA m : m.r = r)
            \/ \E m \in net["AGENCY"] : r = m.r \/ r \in Range(m.queue)
Booked(r) == \E n \in alive : agent[n].on /\ ~agent[n].suspended
               /\ (r \in Range(agent[n].queue) \cup Range(agent[n].pending.queue) \/ r = agent[n].pending.heir)
Counted(r) == \E n \in alive : agent[n].on /\ r \in agent[n].holders

resend ==
  /\ healed /\ UNCHANGED <<switchVars, nodeVars, census, unlost>>
  /\ \/ \E r \in Requests : Waits(r) /\ NodeOf(r) \in alive /\ ~About(r) /\ ~Booked(r) /\ ~Counted(r) /\ Send({Acquire(r, EpochOf(r))})
     \* ACQUIRE of one who holds: the agent sends the GRANT again.
     \/ \E r \in Requests, n \in alive :
          /\ Waits(r) /\ r \in agent[n].holders /\ ~About(r) /\ agent[n].on /\ ~agent[n].suspended
          /\ Send({Grant(r, agent[n].at, agent[n].sequence, 0)})
     \/ \E r \in Requests : /\ req[r].state = "gone" /\ NodeOf(r) \in alive /\ (Counted(r) \/ Booked(r))
                            /\ ~Some({"RELEASE"}, LAMBDA m : m.r = r) /\ Send({GiveBack(r)})
     \/ \E n \in alive :
          /\ agent[n].on /\ agent[n].pending.op # "none"
          /\ ~Some({"RETENURE"}, LAMBDA m : m.from = n) /\ ~Some({"RETENURED", "QUEUED"}, LAMBDA m : m.to = n /\ m.at >= agent[n].at)
          /\ ~Some({"AGENCY"}, LAMBDA m : m.from = n)
          /\ Send({Retenure(n, agent[n].at, agent[n].pending)})

(* What nobody wants any more. *)
Unwanted(m) ==
  CASE m.kind = "GRANT"     -> req[m.r].state # "gone" /\ ~IsWanted(m.r, m.at)
    [] m.kind = "AGENCY"    -> agent[NodeOf(m.r)].on /\ agent[NodeOf(m.r)].at >= m.at
    [] m.kind = "JOIN"      -> ~agent[m.to].on \/ m.at < agent[m.to].joinsAt \/ m.ordinal \in agent[m.to].known
    [] m.kind = "CLAIMED"   -> claim[m.to].nonce # m.nonce
    [] m.kind = "RETENURED" -> ~agent[m.to].on \/ m.at # agent[m.to].at \/ m.change # agent[m.to].pending
    [] m.kind = "QUEUED"    -> ~agent[m.to].on \/ m.at # agent[m.to].at + 1 \/ agent[m.to].pending.op # "transfer"
    [] OTHER -> FALSE
(* A transfer that has arrived before is acknowledged again. *)
Again(m) == IF m.kind = "AGENCY" THEN IF m.from # Nobody /\ agent[NodeOf(m.r)].at = m.at THEN {Queued(m.from, NodeOf(m.r), m.at)} ELSE {}
            ELSE {}
drop == /\ \E kind \in {"GRANT", "AGENCY", "JOIN", "CLAIMED", "RETENURED", "QUEUED"} :
             \E m \in net[kind] : Unwanted(m) /\ net' = Put([net EXCEPT ![kind] = @ \ {m}], Again(m))
        /\ UNCHANGED <<switchVars, nodeVars, copies, census>>

(* GAP: an ordinal stays unknown, or the agency in limbo. *)
Limbo == /\ slot.agent \in alive /\ slot.transferred /\ ~(agent[slot.agent].on /\ agent[slot.agent].at >= slot.at)
         /\ ~Some({"AGENCY"}, LAMBDA m : m.at = slot.at)
         /\ ~Some({"CLAIMED"}, LAMBDA m : m.to = slot.agent /\ m.nonce = claim[m.to].nonce)
         /\ ~\E n \in alive : agent[n].on /\ ~agent[n].suspended /\ agent[n].pending.op = "transfer" /\ agent[n].at + 1 = slot.at
Hole(a)  == /\ ~Complete(a)
            /\ ~Some({"JOIN", "GRANT"}, LAMBDA m : m.at = a.joinsAt) /\ ~Some({"RELEASE"}, LAMBDA m : m.grantAt = a.joinsAt)
            /\ ~\E r \in Requests : Holds(r) /\ req[r].ordinal # 0
GapSeen == \/ census.gap \/ (slot.state = "FROZEN" /\ census.phase = "none") \/ Limbo
           \/ slot.agent \in alive /\ AtWork(agent[slot.agent]) /\ Hole(agent[slot.agent])

Gapped == freeze /\ healed /\ GapSeen
Others == \/ SwitchNext \/ on_grant \/ on_agency \/ on_report \/ decide \/ on_adopted \/ Gapped \/ drop
          \/ \E r \in Requests : ask(r) \/ release(r)
          \/ \E n \in Nodes : \/ on_acquire(n) \/ on_release(n) \/ on_join(n) \/ send_claim(n) \/ on_claimed(n) \/ on_retenured(n)
                              \/ on_queued(n) \/ (~healed /\ lose_session(n)) \/ expire(n) \/ sweep(n) \/ on_census(n) \/ on_adopt(n)
                              \/ \E dead \in Mortals : on_down(n, dead)
LiveNext == \/ serve /\ UNCHANGED unlost
            \/ Calm /\ Others /\ UNCHANGED unlost
            \/ Calm /\ (lose \/ heal \/ resend)

Do(A) == Calm /\ A /\ UNCHANGED unlost
LiveSpec ==
  /\ Init /\ losses = 0 /\ healed = FALSE /\ [][LiveNext]_all
  /\ WF_all(serve /\ UNCHANGED unlost) /\ WF_all(Calm /\ heal) /\ WF_all(Calm /\ resend)
  /\ WF_all(Do(on_acquire_at_switch)) /\ WF_all(Do(on_retenure)) /\ WF_all(Do(on_claim))
  /\ WF_all(Do(on_grant)) /\ WF_all(Do(on_agency)) /\ WF_all(Do(on_report)) /\ WF_all(Do(decide)) /\ WF_all(Do(on_adopted)) /\ WF_all(Do(Gapped)) /\ WF_all(Do(drop))
  /\ \A r \in Requests : WF_all(Do(release(r)))
  /\ \A n \in Nodes : /\ WF_all(Do(on_acquire(n))) /\ WF_all(Do(on_release(n))) /\ WF_all(Do(on_join(n))) /\ WF_all(Do(send_claim(n))) /\ WF_all(Do(on_claimed(n)))
                      /\ WF_all(Do(on_retenured(n))) /\ WF_all(Do(on_queued(n))) /\ WF_all(Do(expire(n))) /\ WF_all(Do(sweep(n))) /\ WF_all(Do(on_census(n)))
                      /\ WF_all(Do(on_adopt(n))) /\ \A dead \in Mortals : WF_all(Do(on_down(n, dead)))

(* L1: every living waiter is granted. L2: a lock that nobody wants becomes UNHELD. *)
L1 == \A r \in Requests : Waits(r) ~> (~Waits(r) \/ NodeOf(r) \notin alive)
L2 == []<>(slot.state = "UNHELD")
=============================================================================
