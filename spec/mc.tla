--------------------------------- MODULE mc ---------------------------------
(* Small worlds: who asks for what. Numbers and rules are in the .cfg files. *)
EXTENDS lock_fission, TLC

X(name) == [name |-> name, mode |-> "X"]
S(name) == [name |-> name, mode |-> "S"]
TwoWriters     == "a" :> <<X("x"), X("x")>> @@ "b" :> <<X("x"), X("x")>>
OneEach        == "a" :> <<X("x")>> @@ "b" :> <<X("x")>>
ReaderWriter   == "a" :> <<S("x")>> @@ "b" :> <<S("x"), X("x")>>
TwoNames       == "a" :> <<X("x"), X("y")>> @@ "b" :> <<X("x"), X("y")>>
=============================================================================
