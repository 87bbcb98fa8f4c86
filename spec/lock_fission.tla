---------------------------- MODULE lock_fission ----------------------------
(* The whole protocol, and what must hold. *)
EXTENDS controller

Next == IF \E n \in Nodes : Busy(n) THEN serve ELSE SwitchNext \/ NodeNext \/ AgentNext \/ ControllerNext \/ let_go
Spec == Init /\ [][Next]_vars

Bounded == slot.at % 100 <= MaxTenure

(* S1: conflicting holds of a name never overlap. *)
S1 == \A r, q \in Requests : (r # q /\ Wish(r).name = Wish(q).name /\ Holds(r) /\ Holds(q)) => req[r].mode = "S" /\ req[q].mode = "S"
(* S2: an exclusive token exceeds every earlier token of its name. *)
S2 == history.ordered
(* S3: only its own release ends a hold; so whoever could let others in knows of it. *)
S3 == \A r \in Requests : Holds(r) /\ serving =>
        /\ slot.state # "UNHELD"
        /\ \A n \in alive : Usable(agent[n]) /\ agent[n].at = slot.at /\ slot.agent = n /\ ~agent[n].open /\ Complete(agent[n])
                            => r \in agent[n].holders
(* Who has given back in this tenure is not counted as a holder again. *)
Forgotten == \A n \in alive : agent[n].holders \cap agent[n].retired = {}
(* I2: at most one node acts as agent under a stamp. *)
I2 == \A n, m \in alive : n # m /\ Usable(agent[n]) /\ Usable(agent[m]) => agent[n].at # agent[m].at
(* I3: joins counts the ordinals granted in this tenure, and no ordinal is given twice. *)
I3 == \A m, k \in net["JOIN"] : /\ (m.at = slot.at /\ slot.state \in {"OPEN", "MANAGED"}) => m.ordinal <= slot.joins
                                /\ (m.at = k.at /\ m.ordinal = k.ordinal) => m.r = k.r
(* L2, as far as a state can tell: no living agent counts those that it knows to be dead, ... *)
NoGhosts == \A n \in alive : \A r \in agent[n].holders \cup Range(agent[n].queue) : AtWork(agent[n]) => NodeOf(r) \notin downs[n]
(* ... and nobody is left with a dead agent without the controller's knowing. *)
NoOrphans == slot.agent \in census.swept => census.gap
(* I1: the stamp of the slot never falls. *)
I1 == [][slot'.at >= slot.at]_vars
=============================================================================
