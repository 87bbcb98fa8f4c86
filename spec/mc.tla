--------------------------------- MODULE mc ---------------------------------
(* Small worlds: who asks for what. Numbers and rules are in the .cfg files. *)
EXTENDS lock_fission, TLC

X(name) == [name |-> name, mode |-> "X"]
S(name) == [name |-> name, mode |-> "S"]
Alone      == "a" :> <<X("x"), X("x")>> @@ "b" :> <<>>
OneEach    == "a" :> <<X("x")>> @@ "b" :> <<X("x")>>
TwoAndOne  == "a" :> <<X("x"), X("x")>> @@ "b" :> <<X("x")>>
TwoEach    == "a" :> <<X("x"), X("x")>> @@ "b" :> <<X("x"), X("x")>>
ReadThenWrite  == "a" :> <<S("x"), X("x")>> @@ "b" :> <<S("x")>>
ReadTwiceEach  == "a" :> <<S("x"), S("x")>> @@ "b" :> <<S("x"), S("x")>>
WriteAgainstReader == "a" :> <<X("x"), X("x")>> @@ "b" :> <<S("x")>>
TwoNames   == "a" :> <<X("x"), X("y")>> @@ "b" :> <<X("y"), X("x")>>
HeirWrites == "a" :> <<X("x"), S("x")>> @@ "b" :> <<S("x"), X("x")>>
KeptReader == "a" :> <<X("x"), S("x")>> @@ "b" :> <<S("x")>>
NamesApart == "a" :> <<X("x"), X("y")>> @@ "b" :> <<X("y")>>
ThreeNodes == "a" :> <<X("x")>> @@ "b" :> <<S("x")>> @@ "c" :> <<S("x")>>

(* Both nodes keep the slot. *)
BothKeep == Nodes

(* What comes twice in `readers_again` is a RELEASE. *)
ReleasesAgain == copies' > copies => net' = net /\ net["RELEASE"] # {}
=============================================================================
