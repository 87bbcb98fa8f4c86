-------------------------------- MODULE node --------------------------------
(* A node's lock client (crates/protocol/src/node/requests.rs): asks, takes grants, gives back. *)
EXTENDS switch

EpochOf(r) == epochs[NodeOf(r)]
Waits(r)   == req[r].state = "wait"
Holds(r)   == req[r].state = "held" /\ NodeOf(r) \in alive
Above(r, at) == at > req[r].floor \/ ~Use("Floor")
(* A grant is taken by a request that waits for it, and only above its floor. *)
IsWanted(r, at) == /\ Above(r, at)
                   /\ Waits(r) \/ (~Use("WaitingCheck") /\ req[r].state = "gone")

(* What the request is from now on, and what the invariants remember of it. *)
Taken(r, at, sequence, ordinal) ==
  [req[r] EXCEPT !.state = "held", !.token = Token(at, sequence), !.ordinal = ordinal]
Noted(r, at, sequence) ==
  LET token == Token(at, sequence)
      top == history.top[Wish(r).name]
  IN [history EXCEPT !.top[Wish(r).name] = Max(top, token),
                     !.ordered = @ /\ (Wish(r).mode = "X" => token > top)]
Hold(r, at, sequence, ordinal) ==
  req' = [req EXCEPT ![r] = Taken(r, at, sequence, ordinal)] /\ history' = Noted(r, at, sequence)

(* The node has served the slot up to `at`: older grants to what waits are stale. *)
Floored(n, at) == [r \in Requests |-> IF NodeOf(r) = n /\ Waits(r) THEN [req[r] EXCEPT !.floor = Max(@, at)] ELSE req[r]]

ask(r) ==
  LET n == NodeOf(r)
      before == <<n, r[2] - 1>>
  IN /\ n \in alive /\ req[r].state = "idle"
     /\ r[2] > 1 => req[before].state # "idle" /\ (n \in Parallel \/ req[before].state = "gone")
     /\ req' = [req EXCEPT ![r].state = "wait", ![r].floor = IF agent[n].on THEN agent[n].at ELSE 0]
     /\ Send({Acquire(r, EpochOf(r))})
     /\ UNCHANGED <<switchVars, agent, claim, alive, epochs, downs, census, history>>

(* A hold ends. What an ordinal counts is over under another epoch. *)
GiveBack(r) ==
  LET at == req[r].token \div 100
      known == req[r].ordinal # 0 /\ Epoch(at) = EpochOf(r)
  IN Release(r, EpochOf(r), IF known THEN at ELSE 0, IF known THEN req[r].ordinal ELSE 0)

(* What is unanswered is sent again: one copy more. *)
ask_again(r) ==
  /\ NodeOf(r) \in alive
  /\ \/ /\ Waits(r) /\ ~\E m \in net["ACQUIRE"] : m.r = r /\ m.epoch = EpochOf(r)
        /\ net' = Put(net, {Acquire(r, EpochOf(r))})
     \/ /\ req[r].state = "gone" /\ ~\E m \in net["RELEASE"] : m.r = r /\ m.epoch = EpochOf(r)
        /\ net' = Put(net, {GiveBack(r)})
  /\ copies < MaxCopies /\ copies' = copies + 1
  /\ UNCHANGED <<switchVars, nodeVars, census>>

release(r) ==
  /\ Holds(r)
  /\ req' = [req EXCEPT ![r].state = "gone"] /\ Send({GiveBack(r)})
  /\ UNCHANGED <<switchVars, agent, claim, alive, epochs, downs, census, history>>

cancel(r) ==
  /\ Cancels /\ Waits(r) /\ NodeOf(r) \in alive
  /\ req' = [req EXCEPT ![r].state = "gone"] /\ Send({Release(r, EpochOf(r), 0, 0)})
  /\ UNCHANGED <<switchVars, agent, claim, alive, epochs, downs, census, history>>

downgrade(r) ==
  /\ Downgrades /\ Holds(r) /\ req[r].mode = "X"
  /\ req' = [req EXCEPT ![r].mode = "S"] /\ Send({Downgrade(r, EpochOf(r))})
  /\ UNCHANGED <<switchVars, agent, claim, alive, epochs, downs, census, history>>

(* GRANT without the agency: a join, or by the agent. *)
on_grant ==
  \E m \in net["GRANT"] :
    /\ NodeOf(m.r) \in alive /\ Epoch(m.at) = EpochOf(m.r)
    /\ UNCHANGED <<switchVars, agent, claim, alive, epochs, downs, census>>
    /\ IF IsWanted(m.r, m.at)
       THEN Hold(m.r, m.at, m.sequence, m.ordinal) /\ Take(m, {})
       ELSE /\ req[m.r].state = "gone"
            /\ Take(m, {Release(m.r, EpochOf(m.r), IF m.ordinal = 0 THEN 0 ELSE m.at, m.ordinal)})
            /\ UNCHANGED <<req, history>>

NodeNext ==
  \/ \E r \in Requests : ask(r) \/ ask_again(r) \/ release(r) \/ cancel(r) \/ downgrade(r)
  \/ on_grant
=============================================================================
