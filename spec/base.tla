-------------------------------- MODULE base --------------------------------
(* The lock protocol's state: one slot, its names, the nodes and the network. *)
(* docs/protocol.md is the contract; an action carries its handler's name.    *)
EXTENDS Integers, FiniteSets, Sequences

CONSTANTS
  Wishes,       \* [node -> sequence of [name, mode]]: what each node will ask for, in this order
  Parallel,     \* nodes that ask for the next before the last is given back
  Cancels,      \* requests may be given up while they wait
  Downgrades,   \* exclusive holds may become shared
  Mortals,      \* nodes whose session may end
  MaxCopies,    \* how many deliveries may be repeated, of the same packet or of one sent again
  MaxTenure, MaxSequence, MaxJoins, MaxClaims, MaxCensus, MaxRestarts,
  Broken        \* the rules that are left out, of Rules

Rules == {"Floor", "WaitingCheck", "Confirm", "KeepState", "Sequence", "OwnRequest", "Retired",
          "JoinsCondition", "TenureCondition", "ClaimNonce", "TransferredNoClaim", "ClaimKeepsJoins", "HeirCounts",
          "Ordinals", "JoinsOfTenure",
          "Suspend", "CensusFloor", "CensusAll", "AdoptTwo", "AdoptConfirm", "Serving", "EpochRaise",
          "ReadWordAgain", "DeadSet", "DeadQueue", "Sweep", "ExpiryTwoSided",
          "AskAgain", "ReleaseAgain", "GrantAgain", "RetenureAgain", "QueuedAgain", "Claim", "Gap"}
ASSUME Broken \subseteq Rules
Use(rule) == rule \notin Broken

Nodes    == DOMAIN Wishes
(* Nodes that may keep the slot though nobody holds or waits (docs/protocol.md, Locality). A scope may have others. *)
Keepers  == {}
Requests == UNION {{<<n, k>> : k \in DOMAIN Wishes[n]} : n \in Nodes}
NodeOf(r) == r[1]
Wish(r)   == Wishes[r[1]][r[2]]
Names     == {Wish(r).name : r \in Requests}
Nobody    == "nobody"

(* A stamp is (epoch, tenure), as one number; a token is a stamp and a sequence. *)
Stamp(epoch, tenure)    == 100 * epoch + tenure
Epoch(stamp)            == stamp \div 100
Token(stamp, sequence)  == 100 * stamp + sequence

VARIABLES
  slot,     \* at the switch: state, agent, transferred, joins, at (its stamp)
  serving,  \* whether the switch decides, or answers RECOVERING
  live,     \* handles whose word at the switch is LIVE
  net,      \* messages under way, by kind: one may be lost (never taken), overtaken, taken late, taken twice
  copies,   \* how often one was taken twice
  req,      \* the requests: state, mode, floor, token, ordinal of the grant
  agent,    \* [node -> its agent of the slot]
  claim,    \* [node -> its pending claim and how many it has made]
  alive,    \* nodes that believe in their lease
  epochs,   \* [node -> the epoch it knows]
  downs,    \* [node -> the dead that it has been told of]
  census,   \* the controller's recovery of the slot
  history   \* what the invariants look back on: the highest token of each name, whether all was in order
vars == <<slot, serving, live, net, copies, req, agent, claim, alive, epochs, downs, census, history>>
switchVars == <<slot, serving, live>>
netVars    == <<net, copies>>
nodeVars   == <<req, agent, claim, alive, epochs, downs, history>>

Unheld(at) == [state |-> "UNHELD", agent |-> Nobody, transferred |-> FALSE, joins |-> 0, at |-> at]

NoChange == [op |-> "none", joins |-> 0, heir |-> <<Nobody, 0>>, queue |-> <<>>]
NoAgent  == [on |-> FALSE, at |-> 0, open |-> FALSE, confirmed |-> TRUE, suspended |-> FALSE, pending |-> NoChange,
             joinsAt |-> 0, expected |-> 0, known |-> {}, holders |-> {}, shared |-> {}, queue |-> <<>>, retired |-> {},
             sequence |-> 0]
NoClaim  == [at |-> 0, nonce |-> 0, made |-> 0]
NoCensus == [phase |-> "none", at |-> 0, asked |-> {}, holds |-> {}, agents |-> {}, heir |-> Nobody, taken |-> 0, restarts |-> 0,
             gap |-> FALSE, swept |-> {}]
Holding(r, mode) == [r |-> r, mode |-> mode]

Kinds == {"ACQUIRE", "RELEASE", "DOWNGRADE", "GRANT", "AGENCY", "JOIN", "RETENURE", "RETENURED", "CLAIM", "CLAIMED", "QUEUED",
          "CENSUS", "REPORT", "ADOPT", "ADOPTED"}

Init ==
  /\ slot = Unheld(Stamp(1, 0)) /\ serving = TRUE /\ live = Nodes
  /\ net = [kind \in Kinds |-> {}] /\ copies = 0
  /\ req = [r \in Requests |-> [state |-> "idle", mode |-> Wish(r).mode, floor |-> 0, token |-> 0, ordinal |-> 0]]
  /\ agent = [n \in Nodes |-> NoAgent] /\ claim = [n \in Nodes |-> NoClaim]
  /\ alive = Nodes /\ epochs = [n \in Nodes |-> 1] /\ downs = [n \in Nodes |-> {}]
  /\ census = NoCensus
  /\ history = [top |-> [x \in Names |-> 0], ordered |-> TRUE]

Put(from, messages) == [kind \in Kinds |-> from[kind] \cup {m \in messages : m.kind = kind}]
Send(messages) == net' = Put(net, messages) /\ UNCHANGED copies
(* Takes `m`, sends `messages`; or takes a copy, and `m` is still to come. *)
Take(m, messages) ==
  \/ net' = Put([net EXCEPT ![m.kind] = @ \ {m}], messages) /\ UNCHANGED copies
  \/ copies < MaxCopies /\ copies' = copies + 1 /\ net' = Put(net, messages)

(* What a packet of each kind says that a decision depends on. `at` is its stamp. *)
Acquire(r, epoch)   == [kind |-> "ACQUIRE", r |-> r, epoch |-> epoch, since |-> slot.at]
Release(r, epoch, grantAt, ordinal) ==
  [kind |-> "RELEASE", r |-> r, epoch |-> epoch, grantAt |-> grantAt, ordinal |-> ordinal]
Downgrade(r, epoch) == [kind |-> "DOWNGRADE", r |-> r, epoch |-> epoch]
Grant(r, at, sequence, ordinal) ==
  [kind |-> "GRANT", r |-> r, at |-> at, sequence |-> sequence, ordinal |-> ordinal]
Agency(r, now, from, queue) == [kind |-> "AGENCY", r |-> r, at |-> now.at, now |-> now, from |-> from, queue |-> queue]
Join(n, r, at, ordinal, dead) ==
  [kind |-> "JOIN", to |-> n, r |-> r, at |-> at, ordinal |-> ordinal, dead |-> dead]
Retenure(n, at, change) == [kind |-> "RETENURE", from |-> n, at |-> at, change |-> change]
Retenured(n, asked, change, outcome, now) ==
  [kind |-> "RETENURED", to |-> n, at |-> asked, change |-> change, outcome |-> outcome, now |-> now]
ClaimIt(n, at, nonce) == [kind |-> "CLAIM", from |-> n, at |-> at, nonce |-> nonce]
Claimed(n, nonce, now) == [kind |-> "CLAIMED", to |-> n, nonce |-> nonce, now |-> now]
Queued(n, from, at) == [kind |-> "QUEUED", to |-> n, from |-> from, at |-> at]

Census(n, at, epoch) == [kind |-> "CENSUS", to |-> n, at |-> at, epoch |-> epoch]
Report(n, at, holds, agentAt) == [kind |-> "REPORT", from |-> n, at |-> at, holds |-> holds, agentAt |-> agentAt]
Adopt(n, at, holds) == [kind |-> "ADOPT", to |-> n, at |-> at, holds |-> holds]
Adopted(n, at) == [kind |-> "ADOPTED", from |-> n, at |-> at]

Range(sequence) == {sequence[i] : i \in DOMAIN sequence}
Without(sequence, gone) == SelectSeq(sequence, LAMBDA r : r \notin gone)
Max(a, b) == IF a > b THEN a ELSE b
=============================================================================
