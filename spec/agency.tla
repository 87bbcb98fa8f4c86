------------------------------- MODULE agency -------------------------------
(* How the agency comes to a node and leaves it (crates/protocol/src/node/agents.rs). *)
EXTENDS agent

(* GRANT with the agency: fresh, or handed over with the waiters. It shows the slot, and one that is said again shows *)
(* what has become of the slot since: closed, with joins of which the heir need not have heard. A grant that nobody  *)
(* waits for makes an agent that may do nothing before the switch has confirmed it.                                  *)
on_agency ==
  \E m \in net["AGENCY"] :
    LET r == m.r
        n == NodeOf(r)
        wanted == IsWanted(r, m.at)
        queue == Living(n, m.queue)
        joins == IF Use("HeirCounts") THEN m.now.joins ELSE 0
        fresh == [Fresh(m.at, m.now.state = "OPEN", joins) EXCEPT !.queue = queue]
    IN /\ n \in alive /\ Epoch(m.at) = epochs[n]
       /\ ~(agent[n].on /\ agent[n].at >= m.at)
       /\ agent' = [agent EXCEPT ![n] = [fresh EXCEPT !.confirmed = wanted, !.holders = IF wanted THEN {r} ELSE {}]]
       /\ claim' = [claim EXCEPT ![n].nonce = 0]
       /\ IF wanted THEN Hold(r, m.at, 0, 0) ELSE UNCHANGED <<req, history>>
       /\ Take(m, IF m.from # Nobody THEN {Queued(m.from, n, m.at)} ELSE {})
       /\ UNCHANGED <<switchVars, alive, epochs, downs, census>>

(* A forwarded packet names this node as an agent that nothing was handed over to, and it has no agent. *)
send_claim(n) ==
  /\ n \in alive /\ claim[n].made < MaxClaims
  /\ slot.agent = n /\ (slot.transferred => ~Use("TransferredNoClaim"))
  /\ LET at == slot.at
     IN /\ Epoch(at) = epochs[n] /\ (agent[n].on => AtWork(agent[n]) /\ agent[n].at < at)
        /\ claim' = [claim EXCEPT ![n] = [at |-> at, nonce |-> @.made + 1, made |-> @.made + 1]]
        /\ Send({ClaimIt(n, at, claim[n].made + 1)})
  /\ UNCHANGED <<switchVars, req, agent, alive, epochs, downs, census, history>>

(* RETENURED for a claim: authority, over joins of the tenure before. *)
on_claimed(n) ==
  \E m \in net["CLAIMED"] :
    /\ m.to = n /\ n \in alive /\ Epoch(m.now.at) = epochs[n]
    /\ Use("ClaimNonce") => claim[n].nonce = m.nonce
    /\ ~(agent[n].on /\ agent[n].at >= m.now.at)
    /\ agent' = [agent EXCEPT ![n] = [Fresh(m.now.at, FALSE, m.now.joins) EXCEPT !.joinsAt = m.now.at - 1]]
    /\ claim' = [claim EXCEPT ![n].nonce = 0]
    /\ req' = Floored(n, m.now.at) /\ Take(m, {})
    /\ UNCHANGED <<switchVars, alive, epochs, downs, census, history>>

End(n) == agent' = [agent EXCEPT ![n] = NoAgent] /\ req' = Floored(n, agent[n].at)

(* RETENURED: the outcome of the pending change. *)
on_retenured(n) ==
  \E m \in net["RETENURED"] :
    LET a == agent[n]
        c == a.pending
        told == [a EXCEPT !.pending = NoChange, !.confirmed = TRUE]
        mine == m.now.agent = n /\ m.now.at = a.at + 1
    IN /\ m.to = n /\ n \in alive
       /\ a.on /\ ~a.suspended /\ c.op # "none" /\ m.at = a.at /\ m.change = c
       /\ Take(m, {})
       /\ CASE m.outcome = "refused" ->
                 /\ agent' = [agent EXCEPT ![n] = [told EXCEPT
                       !.open = @ /\ m.now.state = "OPEN",
                       !.expected = IF a.joinsAt = a.at THEN Max(@, m.now.joins) ELSE @,
                       !.queue = IF c.op = "transfer" THEN Living(n, <<c.heir>> \o @) ELSE @]]
                 /\ UNCHANGED req
            [] m.outcome = "dead" ->
                 /\ agent' = [agent EXCEPT ![n] = [told EXCEPT !.queue = SelectSeq(@, LAMBDA q : NodeOf(q) # NodeOf(c.heir))]]
                 /\ UNCHANGED req
            [] OTHER ->
                 IF c.op \in {"renew", "reopen"} /\ mine
                 THEN agent' = [agent EXCEPT ![n] = StartTenure(told, m.now.at, m.now.state = "OPEN", m.now.joins)] /\ UNCHANGED req
                 ELSE End(n)
  /\ UNCHANGED <<switchVars, claim, alive, epochs, downs, census, history>>

(* QUEUED: the new agent has the agency and the waiters; only now may the old one forget. *)
on_queued(n) ==
  /\ \E m \in net["QUEUED"] : /\ m.to = n /\ n \in alive
                    /\ agent[n].pending.op = "transfer" /\ m.at = agent[n].at + 1 /\ Take(m, {})
  /\ End(n)
  /\ UNCHANGED <<switchVars, claim, alive, epochs, downs, census, history>>

AgentNext ==
  \/ on_agency
  \/ \E n \in Nodes : \/ on_acquire(n) \/ on_release(n) \/ on_join(n) \/ on_downgrade(n)
                      \/ send_claim(n) \/ on_claimed(n) \/ on_retenured(n) \/ on_queued(n)
=============================================================================
