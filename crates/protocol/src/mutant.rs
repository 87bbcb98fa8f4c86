//! Rules that can be broken on purpose, one at a time, so that the simulator can prove that it would notice.

/// A broken rule. Has no effect unless the crate is built with the feature `mutants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A grant is taken even if its stamp is at or below the request's floor.
    IgnoreFloor,
    /// A grant for a request that does not wait is kept instead of given back.
    KeepUnwantedGrant,
    /// The agent grants exclusively although joins are unknown.
    IgnoreGaps,
    /// A claim gives authority without its answer.
    ClaimWithoutAnswer,
    /// A claim is made although the agency was transferred.
    ClaimTransferred,
    /// The agent goes on granting after it has answered a census.
    IgnoreSuspension,
    /// An agent that rests goes on after a census of all slots, of which it told nothing.
    RestThroughCensus,
    /// An agent that comes to rest forgets how often it has granted.
    ForgetSequence,
    /// A census does not raise floors.
    CensusKeepsFloors,
    /// A release frees whatever is held in the slot.
    ReleaseAnything,
    /// A release frees whatever its node holds in the slot: the agent looks at the handle, not at the request id.
    ReleaseByHandle,
    /// A release takes whatever its node awaits in the slot out of the queue.
    WaitersByHandle,
    /// An agent hands its slot over while somebody holds another name of it.
    TransferUnderOthers,
    /// An agent frees its slot once nobody holds the name that it was won for, whoever holds another one.
    FreeUnderOthers,
    /// The agent does not raise its sequence.
    SameSequence,
    /// The node goes on although its lease has ended.
    IgnoreLease,
    /// The lease runs from the acknowledgement instead of the heartbeat.
    LeaseFromAck,
    /// An agent without a holder serves its queue without asking the switch.
    ServeUnconfirmed,
    /// Packets of dead nodes are believed.
    BelieveTheDead,
    /// The old agent forgets its queue before the new one has it.
    ForgetQueue,
    /// Whoever comes goes last, whatever its priority.
    IgnorePriority,
    /// Those of lower priority are overtaken however often they were.
    NoPatience,
    /// A newcomer overtakes its equals.
    OvertakeEquals,
    /// Who wants to be alone does not go before who shares, whatever the namespace's policy.
    IgnorePolicy,
    /// A node goes on by the policy that its session began with, and says that it has heard of another one.
    KeepPolicy,
    /// A late copy of an earlier change of the policy takes it back.
    AnyChange,
    /// The controller tells of another policy once.
    TellPolicyOnce,
    /// Waiters come to their line's next agent as if they had said nothing of their priority,
    ForgetPriority,
    /// or had never been overtaken.
    ForgetOvertaken,
    /// A retired request may be queued by a late copy of itself.
    ForgetRetired,
    /// Nodes and controllers begin sessions whichever shards the other one divides names among.
    AnyShards,
    /// A node asks its shard for what it has pledged to ask it for no more.
    AskMoved,
    /// It pledges that while it holds such locks.
    HastyPledge,
    /// A shard that was told of a later map begins sessions by that of its configuration as well.
    BeginsAsBefore,
    /// A shard counts a session under the map of today that has said so of an earlier one of the same shards.
    AnyPledge,
    /// A controller that starts does not know which sessions began under the map before.
    ForgetBoundary,
    /// A shard that gets names goes on under its epoch.
    KeepEpochAtMove,
    /// A node takes names that its shard was given before it has come to the epoch that this takes.
    FollowBelow,
    /// Shards get names while others still have sessions that may hold them.
    HastyMove,
    /// A change is taken back although it was decided.
    UndoDecided,
    /// Shards: how far a shard has come with a later map counts as how far it has come with this one.
    LaterStep,
    /// Shards: a change is begun whatever the map is that it was planned on.
    AnyFormer,
    /// Shards: one that begins sessions already is added as any other.
    OpenJoiner,
    /// The controller adds no grace to a lease.
    NoGrace,
    /// The controller takes a session for over once it has expired its word, though its lease may still run.
    HastyDismissal,
    /// The controller does not sweep the slots of the dead.
    NoSweep,
    /// The controller does not wait for the last report of a census.
    HastyCensus,
    /// The controller's heirs hear of no holds.
    ForgetHolds,
    /// A report is complete with its last page, whichever are missing.
    AnyPage,
    /// A page that comes again counts for one that is missing.
    PagesTwice,
    /// A node forgets what it has reported in several pages as soon as it reports something else.
    ForgetReports,
    /// A slot that several have reported goes to the first of them, as if that one were alone.
    AloneTogether,
    /// A node adopts alone what it is told to adopt with others.
    AdoptAlone,
    /// A standby does not wait until the lease of the switch that serves is over.
    HastySuccessor,
    /// A switch that hands over ends neither its serving lease nor its memory before.
    ServeOn,
    /// A switch that has handed over keeps its memory for the next time.
    KeepHanded,
    /// A hand-over leaves out the slots that nobody holds.
    HandHeldAlone,
    /// A successor goes on with what has come, whatever is missing.
    TakeTorn,
    /// A successor goes on with it whatever became of the post meanwhile.
    TakeLate,
    /// A grant of a request that is over is taken for another one that waits for the same name.
    AnyRequest,
    /// What a node gives back frees the slot, whoever else holds it: the paper's RELEASE by the agent's own server.
    FreeUnderReaders,
    /// An agent asks for a change once: what is lost is lost.
    ChangeOnce,
    /// An agent's sequence begins anew when it has come to its end.
    SequenceWraps,
    /// Heartbeats do not say which requests are over.
    KeepOldest,
    /// The dead are known by their handle alone, as if it were never given again.
    DeadByHandle,
    /// A handle is given again before its former session is swept.
    HastyReuse,
    /// A switch that has lost its memory takes up the epoch that it had.
    SameEpoch,
    /// The switch serves before all slots are recovered.
    HastyServing,
    /// A node takes packets whatever their tag.
    AnyTag,
    /// The controller begins a rotation without waiting for nodes to follow the last.
    HastyRotation,
    /// Queue: a node keeps for itself what it is granted and does not wait for.
    KeepUnwantedTicket,
    /// Queue: a hold of a lock server's own lock lasts as long as the session, and is not renewed.
    HoldForEver,
    /// Queue: its lease runs from the arrival of the grant, not from the packet that was answered.
    LeaseFromGrant,
    /// Queue: the lease of who waited as a lock moved to its server runs from the first packet, not the latest.
    LeaseFromFirst,
    /// Queue: whoever cannot be sure of what it holds leaves, long before the end that it told its owner.
    LeaveHolds,
    /// Queue: a hold outlives the epoch of its switch.
    KeepHolds,
    /// Queue: a lock server's RELEASE takes whoever is first, whomever it names.
    ReleaseFirst,
    /// Queue: a lock server grants before it has heard who holds by a former one.
    HastyTerm,
    /// Queue: a lock server counts tickets as the one before it did.
    SameTerm,
    /// Queue: the parts of a namespace have one term, that of the first.
    SharedTerm,
    /// Queue: who is the lock server of a part again, which was another's meanwhile, goes on as it was.
    KeepPart,
    /// Queue: a lock server waits for those who are silent.
    NeverForget,
    /// Queue: a lock server waits for an order that was lost.
    WaitForGaps,
    /// Queue: a lock server pushes what came although something before it did not.
    OverGaps,
    /// Queue: a lock server pushes the last first.
    LatestFirst,
    /// Queue: a lock server tells that it has nothing more while it has.
    SettleEarly,
    /// Queue: what is pushed again gets another number.
    NumberAgain,
    /// Queue: what is cancelled leaves its number to nobody.
    ForgetNumbers,
    /// Queue: a lock server cedes a lock that somebody holds.
    CedeHeld,
    /// Queue: a lock server goes on with a lock that it has ceded.
    GrantCeded,
    /// Queue: a lock is ceded with the first of all tickets.
    CedeLow,
    /// Queue: who waits for a lock that is ceded is turned round.
    CedeBackwards,
    /// Queue: a lock that comes back to its server goes on with the server's tickets.
    ForgetTickets,
    /// Queue: who waits for a lock that comes back to its server goes behind those who came after.
    OpenBehind,
    /// Queue: a lock server pushes who says a priority behind others, as if nobody did.
    PushRanked,
    /// Queue: a successor goes on with queues that are empty.
    ForgetQueues,
    /// Queue: the controller takes any CEDED for that of its move.
    AnyCeded,
    /// Queue: what a third node says is taken for any request that waits for the same name.
    AnyFetched,
    /// Queue: a third node answers under the latest grant, whichever it was asked with.
    AnswerLatest,
    /// Queue: a node asks once: what is lost is lost.
    AskOnce,
    /// Hybrid: nodes with odd handles ask for a listed name at its slot.
    AskSlot,
    /// Hybrid: a node goes on with the list that it has, whichever is the epoch's.
    AnyNames,
    /// A slot that was freed quietly is taken for free at once.
    FreeUnheard,
    /// Hybrid: each machine of a node counts its requests for itself.
    OwnIds,
    /// Hybrid: the oldest request that a node tells is that of its slots alone.
    OldestOfOne,
    /// Hybrid: of several locks those that are listed are asked for at once, not after those of slots.
    ManyTogether,
    /// Chain: a new chain is told before who left is known to serve no more.
    HastyFence,
    /// Chain: a joiner becomes the tail with what it copied while the chain worked.
    NoLastPass,
    /// Chain: a joiner copies no names.
    ForgetNames,
    /// Chain: who leaves a group forgets nothing, and comes back as it is.
    KeepOldMemory,
    /// Chain: a controller keeps the epochs that it finds, whoever was to join in them.
    KeepEpochs,
    /// Chain: a lease is ended whether its session is over or not.
    EndLivingLeases,
    /// Chain: who becomes a head does not look for leases that are over.
    ForgetLeases,
    /// Chain: who has a leased value behind the head whose session is over asks nobody for something newer.
    LeaveBehind,
    /// Chain: a head does not mark what it removes, and may write it meanwhile.
    RemoveUnmarked,
    /// Chain: a switch removes a key whatever it has.
    RemoveAnything,
    /// Chain: a removed key is made again by any INSTALL, however old.
    AnyInstall,
    /// Chain: a key is made while it is being removed.
    InsertWhileLeaving,
    /// Chain: a joiner takes a group for copied when the first of its parts is.
    HastyLoad,
    /// Chain: what the journal has lost by going round is left out, and nobody is told.
    SkipOverrun,
    /// Chain: a position is taken for one of the history that is here, whichever it is of.
    AnyHistory,
    /// Chain: a watch is acknowledged before what happens is noted.
    HastyWatch,
}
