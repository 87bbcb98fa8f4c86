//! The papers' headline figures: which there are. How each is measured: `netlock.rs`, `fisslock.rs`, `netchain.rs`.
//!
//! A headline is measured by a function of the lab, so that the same figures come of other costs: the sensitivity. What
//! `why` says of a difference was written after the figures, which were not changed for it.

use super::costs::Cost;
use super::lab::Lab;
use super::reasons::*;
use super::{Packets, fisslock, netchain, netlock};
use crate::Error;
use crate::keys::Keys;
use crate::queues::Queues;

/// What a paper has of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Paper {
    /// Nothing: the figure is ours, to explain another one.
    Nothing,
    /// A drawing, of which its text tells no number.
    Drawn,
    Number(f64),
    /// From one to the other.
    Range(f64, f64),
}

/// One figure of a headline.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Of what.
    pub name: String,
    pub paper: Paper,
    /// As the model has it.
    pub ours: f64,
    /// Of both.
    pub unit: &'static str,
}

pub type Measure = fn(&mut Lab) -> Result<Vec<Figure>, Error>;

/// What a headline takes out of a record of what was measured on packets.
#[derive(Clone, Copy)]
pub enum Look {
    /// Of keys and chains.
    Keys(fn(&Keys) -> Vec<Figure>),
    /// Of queues, priorities and budgets.
    Queues(fn(&Queues) -> Vec<Figure>),
}

impl Look {
    /// The figures, and where their record is kept; None: there is no such record.
    pub fn at(self, packets: &Packets) -> Option<(&str, Vec<Figure>)> {
        match self {
            Look::Keys(of) => packets.keys.as_ref().map(|kept| (kept.record.as_str(), of(&kept.content))),
            Look::Queues(of) => packets.queues.as_ref().map(|kept| (kept.record.as_str(), of(&kept.content))),
        }
    }
}

/// How a headline's figures come about.
#[derive(Clone, Copy)]
pub enum How {
    /// By the model, and what it does not have on packets.
    Simulated(Measure, Option<Look>),
    /// By arithmetic with the model's constants; and besides on packets.
    Computed(Measure, Option<Look>),
    /// On packets alone.
    OnPackets(Look),
}

impl How {
    pub fn measure(self) -> Option<Measure> {
        match self {
            How::Simulated(measure, _) | How::Computed(measure, _) => Some(measure),
            How::OnPackets(_) => None,
        }
    }

    /// What it takes out of a record of packets.
    pub fn look(self) -> Option<Look> {
        match self {
            How::OnPackets(look) => Some(look),
            How::Simulated(_, look) | How::Computed(_, look) => look,
        }
    }
}

/// A headline figure of a paper.
pub struct Headline {
    /// Its id in docs/headlines.md.
    pub id: &'static str,
    /// What it is.
    pub what: &'static str,
    /// How ours comes about.
    pub how: How,
    /// Why ours differs.
    pub why: &'static str,
    /// Constants on which it may depend: each is halved and doubled.
    pub varied: &'static [Cost],
}

const FISSLOCK: &[Cost] =
    &[Cost::Hop, Cost::Pipeline, Cost::Packet, Cost::Manager, Cost::Handover, Cost::FissLockClient];
/// Of DSLR, of DrTM, of NetChain's locks, each beside NetLock; and of all of them.
const DSLR: &[Cost] = &[
    Cost::Hop,
    Cost::Pipeline,
    Cost::Packet,
    Cost::Manager,
    Cost::Handover,
    Cost::NetLockClient,
    Cost::Atomic,
    Cost::Read,
    Cost::DslrBackoff,
];
const DRTM: &[Cost] = &[
    Cost::Hop,
    Cost::Pipeline,
    Cost::Packet,
    Cost::Manager,
    Cost::Handover,
    Cost::NetLockClient,
    Cost::Atomic,
    Cost::Read,
    Cost::DrtmLease,
    Cost::Retry,
];
const TEST_AND_SET: &[Cost] =
    &[Cost::Hop, Cost::Pipeline, Cost::Packet, Cost::Manager, Cost::Handover, Cost::NetLockClient, Cost::Retry];
const NETLOCK: &[Cost] = &[
    Cost::Hop,
    Cost::Pipeline,
    Cost::Packet,
    Cost::Manager,
    Cost::Handover,
    Cost::NetLockClient,
    Cost::Atomic,
    Cost::Read,
    Cost::DslrBackoff,
    Cost::DrtmLease,
    Cost::Retry,
];
const NETLOCK_ALONE: &[Cost] =
    &[Cost::Hop, Cost::Pipeline, Cost::Packet, Cost::Manager, Cost::Handover, Cost::NetLockClient];
/// What the servers, which limit both tenants, and their clients take; such runs are long.
const TENANTS: &[Cost] = &[Cost::Manager, Cost::NetLockClient];
/// What a rebuild sends, and what is decided on it; such runs are long, too.
const REACTIVATION: &[Cost] = &[Cost::Packet, Cost::Manager];
const RECOVERY: &[Cost] = &[Cost::Hop, Cost::Packet, Cost::Manager];
const BANKING: &[Cost] =
    &[Cost::Hop, Cost::Packet, Cost::FissLockClient, Cost::Command, Cost::Pipelined, Cost::RedlockRetry];
const NETCHAIN: &[Cost] = &[Cost::Hop, Cost::Pipeline, Cost::Packet];

/// A ratio of which the paper has a number.
pub fn x(name: impl Into<String>, paper: f64, ours: f64) -> Figure {
    figure(name, Paper::Number(paper), ours, "x")
}

pub fn figure(name: impl Into<String>, paper: Paper, ours: f64, unit: &'static str) -> Figure {
    Figure { name: name.into(), paper, ours, unit }
}

/// All of NetLock, FissLock and NetChain, in their order.
pub fn all() -> Vec<Headline> {
    let simulated = |id, what, measure: Measure, varied, why| {
        let how = How::Simulated(measure, None);
        Headline { id, what, how, why, varied }
    };
    let computed = |id, what, measure: Measure, look: Option<Look>, varied, why| {
        let how = How::Computed(measure, look);
        Headline { id, what, how, why, varied }
    };
    vec![
        simulated("N1", "transactions over DSLR, TPC-C, low contention, 10 + 2 machines", netlock::n1, DSLR, WHY_N1),
        simulated("N2", "transactions over DrTM, the same", netlock::n2, DRTM, WHY_N2),
        simulated("N3", "transactions over NetChain's locks, the same", netlock::n3, TEST_AND_SET, WHY_N3),
        simulated("N4", "transactions, high contention, 10 + 2 machines", netlock::n4, NETLOCK, WHY_N4),
        simulated("N5", "transactions, 6 + 6 machines, the better of both contentions", netlock::n5, NETLOCK, WHY_N5),
        simulated(
            "N6",
            "latency of transactions, DSLR's over NetLock's, the better of both contentions",
            netlock::n6,
            DSLR,
            WHY_N6,
        ),
        simulated("N7", "requests, knapsack over random allocation, 3,000 cells", netlock::n7, NETLOCK_ALONE, WHY_N7),
        simulated("N8", "requests against cells and think time", netlock::n8, NETLOCK_ALONE, WHY_N8),
        Headline {
            id: "N9",
            what: "service differentiation by priorities; isolation of two tenants, seven machines and three",
            how: How::Simulated(netlock::n9, Some(Look::Queues(netlock::n9_on_packets))),
            why: WHY_N9,
            varied: TENANTS,
        },
        simulated("N10", "switch failure and reactivation", netlock::n10, REACTIVATION, WHY_N10),
        simulated(
            "F1",
            "share of the time to a grant in a transaction's, of medians and of 90th percentiles; times to a grant",
            fisslock::f1,
            FISSLOCK,
            WHY_F1,
        ),
        computed("F2", "locks in the memory of one switch", fisslock::f2, None, &[], WHY_F2),
        simulated("F3", "time to a grant, up to, of six workloads", fisslock::f3, FISSLOCK, WHY_F3),
        simulated("F4", "requests, up to, of six workloads", fisslock::f4, FISSLOCK, WHY_F4),
        simulated("F5", "TATP's transactions", fisslock::f5, FISSLOCK, WHY_F5),
        simulated("F6", "TPC-C's transactions", fisslock::f6, FISSLOCK, WHY_F6),
        simulated("F7", "requests to a hot spot that moves", fisslock::f7, FISSLOCK, WHY_F7),
        simulated("F8", "time to a grant, 10 M locks, under ParLock's", fisslock::f8, FISSLOCK, WHY_F8),
        simulated(
            "F9",
            "peak of requests over granularities of 10 M objects, over NetLock's",
            fisslock::f9,
            FISSLOCK,
            WHY_F9,
        ),
        simulated("F10", "recovery time of a switch and a server", fisslock::f10, RECOVERY, WHY_F10),
        simulated("F11", "mobile banking over RedLock", fisslock::f11, BANKING, WHY_F11),
        computed(
            "C1",
            "queries of 4 clients, and at most, over ZooKeeper's",
            netchain::c1,
            Some(Look::Keys(netchain::c1_on_packets)),
            NETCHAIN,
            WHY_C1,
        ),
        computed(
            "C2",
            "latency of a read and of a write, beside ZooKeeper's",
            netchain::c2,
            Some(Look::Keys(netchain::c2_on_packets)),
            NETCHAIN,
            WHY_C2,
        ),
        computed(
            "C3",
            "queries of 4 clients against the sizes of values and of the store",
            netchain::c3,
            Some(Look::Keys(netchain::c3_on_packets)),
            NETCHAIN,
            WHY_C3,
        ),
        Headline {
            id: "C4",
            what: "failover and recovery with 1 and 100 virtual groups",
            how: How::OnPackets(Look::Keys(netchain::c4)),
            why: WHY_C4,
            varied: &[],
        },
    ]
}
