//! Rules of the protocol, broken one at a time: how many seeds it takes until somebody notices.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use wayside_protocol::Mutant;

use crate::{CoreMutant, Failure, Options, ServiceKind, processors, run};

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Of nodes, agents and controllers.
    Machine(Mutant),
    /// Of the switch.
    Core(CoreMutant),
}

/// All of which the checkers must notice, in the order of the mends that they are (docs/simulator.md).
pub const RULES: &[Rule] = &[
    Rule::Machine(Mutant::KeepUnwantedGrant),
    Rule::Machine(Mutant::AnyRequest),
    Rule::Machine(Mutant::IgnoreFloor),
    Rule::Core(CoreMutant::AnyTenure),
    Rule::Core(CoreMutant::AnyJoins),
    Rule::Core(CoreMutant::AnyEpoch),
    Rule::Core(CoreMutant::BatchGoesOn),
    Rule::Core(CoreMutant::SeizeByRelease),
    Rule::Core(CoreMutant::StayOpen),
    Rule::Machine(Mutant::TransferUnderOthers),
    Rule::Machine(Mutant::FreeUnderOthers),
    Rule::Machine(Mutant::FreeUnderReaders),
    Rule::Machine(Mutant::ReleaseAnything),
    Rule::Machine(Mutant::ReleaseByHandle),
    Rule::Machine(Mutant::WaitersByHandle),
    Rule::Machine(Mutant::IgnorePriority),
    Rule::Machine(Mutant::NoPatience),
    Rule::Machine(Mutant::OvertakeEquals),
    Rule::Machine(Mutant::IgnorePolicy),
    Rule::Machine(Mutant::KeepPolicy),
    Rule::Machine(Mutant::AnyChange),
    Rule::Machine(Mutant::TellPolicyOnce),
    Rule::Machine(Mutant::ForgetPriority),
    Rule::Machine(Mutant::ForgetOvertaken),
    Rule::Machine(Mutant::ClaimWithoutAnswer),
    Rule::Machine(Mutant::ServeUnconfirmed),
    Rule::Machine(Mutant::ChangeOnce),
    Rule::Machine(Mutant::IgnoreGaps),
    Rule::Machine(Mutant::SameSequence),
    Rule::Machine(Mutant::ForgetSequence),
    Rule::Machine(Mutant::RestThroughCensus),
    Rule::Machine(Mutant::SequenceWraps),
    Rule::Machine(Mutant::SameEpoch),
    Rule::Machine(Mutant::IgnoreSuspension),
    Rule::Machine(Mutant::CensusKeepsFloors),
    Rule::Machine(Mutant::HastyCensus),
    Rule::Machine(Mutant::ForgetHolds),
    Rule::Machine(Mutant::AnyPage),
    Rule::Machine(Mutant::PagesTwice),
    Rule::Machine(Mutant::ForgetReports),
    Rule::Machine(Mutant::AloneTogether),
    Rule::Machine(Mutant::AdoptAlone),
    Rule::Machine(Mutant::HastyServing),
    Rule::Machine(Mutant::IgnoreLease),
    Rule::Machine(Mutant::AnyShards),
    Rule::Machine(Mutant::LeaseFromAck),
    Rule::Machine(Mutant::NoGrace),
    Rule::Machine(Mutant::HastyDismissal),
    Rule::Machine(Mutant::NoSweep),
    Rule::Core(CoreMutant::NoSecondLook),
    Rule::Machine(Mutant::BelieveTheDead),
    Rule::Machine(Mutant::DeadByHandle),
    Rule::Machine(Mutant::HastyReuse),
    Rule::Machine(Mutant::HastySuccessor),
    Rule::Core(CoreMutant::NoServingLease),
    Rule::Machine(Mutant::ServeOn),
    Rule::Machine(Mutant::KeepHanded),
    Rule::Core(CoreMutant::HandBusy),
    Rule::Machine(Mutant::HandHeldAlone),
    Rule::Machine(Mutant::TakeTorn),
    Rule::Core(CoreMutant::AnyTag),
    Rule::Machine(Mutant::AnyTag),
    Rule::Core(CoreMutant::CopyForHolder),
    Rule::Machine(Mutant::HastyRotation),
];

/// The chain service's: NetChain's holes and docs/chain.md's rules.
pub const CHAIN_RULES: &[Rule] = &[
    Rule::Core(CoreMutant::ForgetLanes),
    Rule::Core(CoreMutant::OlderRequests),
    Rule::Core(CoreMutant::AnyVersion),
    Rule::Core(CoreMutant::DropOvertaken),
    Rule::Core(CoreMutant::ShortSequences),
    Rule::Core(CoreMutant::AnswerAtHead),
    Rule::Core(CoreMutant::ReadAnywhere),
    Rule::Core(CoreMutant::AnyGroupEpoch),
    Rule::Core(CoreMutant::AnyFirstEpoch),
    Rule::Core(CoreMutant::NoChainLease),
    Rule::Machine(Mutant::HastyFence),
    Rule::Machine(Mutant::NoLastPass),
    Rule::Machine(Mutant::ForgetNames),
    Rule::Machine(Mutant::KeepOldMemory),
    Rule::Machine(Mutant::KeepEpochs),
    Rule::Machine(Mutant::EndLivingLeases),
    Rule::Machine(Mutant::ForgetLeases),
    Rule::Machine(Mutant::LeaveBehind),
    Rule::Machine(Mutant::RemoveUnmarked),
    Rule::Machine(Mutant::RemoveAnything),
    Rule::Machine(Mutant::AnyInstall),
    Rule::Machine(Mutant::InsertWhileLeaving),
    Rule::Machine(Mutant::HastyLoad),
    Rule::Machine(Mutant::SkipOverrun),
    Rule::Machine(Mutant::AnyHistory),
    Rule::Machine(Mutant::HastyWatch),
];

/// The queue service's: what docs/queue.md says of both ends, and of the switch.
pub const QUEUE_RULES: &[Rule] = &[
    Rule::Machine(Mutant::PushRanked),
    Rule::Machine(Mutant::KeepUnwantedTicket),
    Rule::Machine(Mutant::HoldForEver),
    Rule::Machine(Mutant::LeaseFromGrant),
    Rule::Machine(Mutant::LeaseFromFirst),
    Rule::Machine(Mutant::LeaveHolds),
    Rule::Machine(Mutant::KeepHolds),
    Rule::Machine(Mutant::ForgetQueues),
    Rule::Machine(Mutant::ReleaseFirst),
    Rule::Machine(Mutant::HastyTerm),
    Rule::Machine(Mutant::SameTerm),
    Rule::Machine(Mutant::SharedTerm),
    Rule::Machine(Mutant::KeepPart),
    Rule::Machine(Mutant::NeverForget),
    Rule::Machine(Mutant::AskOnce),
    Rule::Machine(Mutant::WaitForGaps),
    Rule::Machine(Mutant::OverGaps),
    Rule::Machine(Mutant::LatestFirst),
    Rule::Machine(Mutant::SettleEarly),
    Rule::Machine(Mutant::NumberAgain),
    Rule::Machine(Mutant::ForgetNumbers),
    Rule::Core(CoreMutant::AnyTicket),
    Rule::Core(CoreMutant::AnyFetched),
    Rule::Machine(Mutant::AnyFetched),
    Rule::Machine(Mutant::AnswerLatest),
    Rule::Core(CoreMutant::AnyNumber),
    Rule::Core(CoreMutant::AnySettled),
    Rule::Core(CoreMutant::HandHeld),
    Rule::Core(CoreMutant::ReuseRegion),
    Rule::Machine(Mutant::CedeHeld),
    Rule::Machine(Mutant::GrantCeded),
    Rule::Machine(Mutant::CedeLow),
    Rule::Machine(Mutant::CedeBackwards),
    Rule::Machine(Mutant::ForgetTickets),
    Rule::Machine(Mutant::OpenBehind),
    Rule::Machine(Mutant::AnyCeded),
];

/// Of namespaces with both, queues and slots: docs/queue.md, "Fission with queues for the hottest locks".
pub const HYBRID_RULES: &[Rule] = &[
    Rule::Machine(Mutant::AskSlot),
    Rule::Machine(Mutant::AnyNames),
    Rule::Machine(Mutant::OwnIds),
    Rule::Machine(Mutant::OldestOfOne),
    Rule::Machine(Mutant::ManyTogether),
];

/// Of shards that are added and drained: docs/shards.md's rules.
pub const SHARD_RULES: &[Rule] = &[
    Rule::Machine(Mutant::AskMoved),
    Rule::Machine(Mutant::HastyPledge),
    Rule::Machine(Mutant::BeginsAsBefore),
    Rule::Machine(Mutant::AnyPledge),
    Rule::Machine(Mutant::ForgetBoundary),
    Rule::Machine(Mutant::KeepEpochAtMove),
    Rule::Machine(Mutant::FollowBelow),
    Rule::Machine(Mutant::HastyMove),
    Rule::Machine(Mutant::UndoDecided),
    Rule::Machine(Mutant::LaterStep),
    Rule::Machine(Mutant::AnyFormer),
    Rule::Machine(Mutant::OpenJoiner),
];

/// These save time, or stand before another rule that holds alone: a transferred slot's claim is refused by the core as
/// well, waiters that are forgotten ask again, a slot whose FREE was lost is claimed once the controller asks about it,
/// what a retired request is granted is given back, a slot that a late copy of an old request has seized is claimed and
/// freed, a request that hops finds its agent in the end, and whoever names a slot's tenure is its agent, as a tenure
/// has but one: who lies is a matter of the core's cases. What was handed over too late is told by the records' epoch
/// besides.
pub const SECOND_LINES: &[Rule] = &[
    Rule::Machine(Mutant::ClaimTransferred),
    Rule::Machine(Mutant::ForgetQueue),
    Rule::Machine(Mutant::ForgetRetired),
    Rule::Machine(Mutant::FreeUnheard),
    Rule::Machine(Mutant::KeepOldest),
    Rule::Core(CoreMutant::AnyHops),
    Rule::Core(CoreMutant::AnyAgent),
    Rule::Machine(Mutant::TakeLate),
];

/// Those that take long, and a seed that has noticed each: a search that begins with it is over sooner, as long as
/// seeds give the histories that they gave then. Otherwise it goes on with all.
pub const LATE: &[(Rule, u64)] = &[
    (Rule::Machine(Mutant::AnyCeded), 18_145),
    (Rule::Machine(Mutant::LeaveBehind), 15_677),
    (Rule::Machine(Mutant::FollowBelow), 3_446),
    (Rule::Machine(Mutant::AnyPledge), 2_420),
    (Rule::Machine(Mutant::PagesTwice), 1_971),
    (Rule::Core(CoreMutant::AnyGroupEpoch), 1_609),
    (Rule::Machine(Mutant::KeepHanded), 1_266),
    (Rule::Machine(Mutant::OverGaps), 1_061),
    (Rule::Machine(Mutant::HastyDismissal), 993),
    (Rule::Core(CoreMutant::NoServingLease), 876),
    (Rule::Machine(Mutant::OpenBehind), 708),
    (Rule::Machine(Mutant::TakeTorn), 562),
    (Rule::Machine(Mutant::NoGrace), 547),
    (Rule::Machine(Mutant::HastyFence), 470),
    (Rule::Machine(Mutant::LeaseFromGrant), 426),
    (Rule::Machine(Mutant::LeaseFromAck), 410),
    (Rule::Machine(Mutant::DeadByHandle), 383),
    (Rule::Machine(Mutant::LeaseFromFirst), 372),
    (Rule::Machine(Mutant::ForgetReports), 237),
    (Rule::Machine(Mutant::CensusKeepsFloors), 223),
];

impl Rule {
    /// How to run a seed without it.
    pub fn broken(self) -> Options {
        let service = if CHAIN_RULES.contains(&self) {
            ServiceKind::Chain
        } else if QUEUE_RULES.contains(&self) {
            ServiceKind::Queue
        } else if HYBRID_RULES.contains(&self) {
            ServiceKind::Hybrid
        } else if SHARD_RULES.contains(&self) {
            ServiceKind::Shards
        } else {
            ServiceKind::Lock
        };
        match self {
            Rule::Machine(mutant) => Options { mutant: Some(mutant), service, ..Options::default() },
            Rule::Core(core) => Options { core: Some(core), service, ..Options::default() },
        }
    }

    fn name(self) -> String {
        match self {
            Rule::Machine(mutant) => format!("{mutant:?}"),
            Rule::Core(core) => format!("{core:?} (switch)"),
        }
    }
}

/// A seed that notices that the rule is left out: the one known for it, or else the first of so many.
pub fn noticed(rule: Rule, seeds: u64) -> Option<(u64, Failure)> {
    let broken = rule.broken();
    let known = LATE.iter().find(|(late, _)| *late == rule).map(|&(_, seed)| seed).filter(|&seed| seed < seeds);
    let by_known = known.and_then(|seed| Some((seed, shown(seed, &broken)?)));
    by_known.or_else(|| caught(&broken, seeds))
}

/// What breaks in a seed, and does not where the rule holds: a seed that fails in any case shows nothing.
fn shown(seed: u64, broken: &Options) -> Option<Failure> {
    let failure = run(seed, broken).failure?;
    let whole = Options { mutant: None, core: None, ..broken.clone() };
    run(seed, &whole).failure.is_none().then_some(failure)
}

/// The first of so many seeds that shows that the rule is left out, as many at a time as there are processors.
pub fn caught(options: &Options, seeds: u64) -> Option<(u64, Failure)> {
    let (next, first) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    thread::scope(|scope| {
        let work = || {
            let mut found = None;
            loop {
                let seed = next.fetch_add(1, Relaxed);
                if seed >= seeds || seed > first.load(Relaxed) {
                    return found;
                }
                if let Some(failure) = shown(seed, options) {
                    first.fetch_min(seed, Relaxed);
                    found = Some((seed, failure));
                }
            }
        };
        let workers: Vec<_> = (0..processors()).map(|_| scope.spawn(work)).collect();
        let found = workers.into_iter().filter_map(|worker| worker.join().expect("a world does not panic"));
        found.min_by_key(|(seed, _)| *seed)
    })
}

/// Seeds within which nobody is to notice that a second line is broken.
const SECOND_SEEDS: u64 = 1_000;

/// Breaks each rule and prints what came of it. Whether all were noticed, and none of the second lines.
pub fn table(seeds: u64, some: &[String]) -> bool {
    let is_meant = |rule: &&Rule| some.is_empty() || some.iter().any(|name| rule.name().starts_with(name.as_str()));
    let lists = [RULES, CHAIN_RULES, QUEUE_RULES, HYBRID_RULES, SHARD_RULES];
    let rules: Vec<Rule> = lists.into_iter().flatten().filter(is_meant).copied().collect();
    println!("{:<26} {:>13}  invariant that broke", "rule broken", "seeds it took");
    let mut missed = 0;
    for &rule in &rules {
        match caught(&rule.broken(), seeds) {
            Some((seed, failure)) => println!("{:<26} {:>13}  {}", rule.name(), seed + 1, failure.invariant),
            None => {
                missed += 1;
                println!("{:<26} {:>13}  none: nobody noticed", rule.name(), format!("> {seeds}"));
            }
        }
    }
    println!("{} rules, {missed} missed", rules.len());
    let second: Vec<Rule> = SECOND_LINES.iter().filter(is_meant).copied().collect();
    let seeds = seeds.min(SECOND_SEEDS);
    let mut noticed = 0;
    for &rule in &second {
        match caught(&rule.broken(), seeds) {
            Some((seed, failure)) => {
                noticed += 1;
                println!("{:<26} {:>13}  {}: it stands alone", rule.name(), seed + 1, failure.invariant);
            }
            None => println!("{:<26} {:>13}  none: another rule holds", rule.name(), format!("> {seeds}")),
        }
    }
    println!("{} second lines, {noticed} of them noticed", second.len());
    missed + noticed == 0
}
