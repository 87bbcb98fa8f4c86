//! NetChain's headlines (C1 to C4): arithmetic with the model's constants, which has no chains; and beside it what our
//! chains, and a ZooKeeper, were measured to do on packets.

use super::costs::Cost;
use super::headlines::{Figure, Paper, figure, x};
use super::lab::Lab;
use crate::Error;
use crate::keys::{Failover, Keys, groups as in_words};
use crate::recovery::summary::Spread;
use wayside_wire::{BODY, ChainKind, limits};

/// Slide 29: the clients' NICs have 25 or 40 Gbit/s, here all have the larger.
const NIC: f64 = 40.0;
/// Slide 29: of a switch.
const SWITCH: f64 = 6_500.0;
/// Of a packet on the wire, around its payload: Ethernet with preamble and gap, IPv4, UDP.
const AROUND: usize = 38 + 20 + 8;
/// Of NetChain's: the longest value.
const LONGEST: usize = 128;

/// Millions of queries a second that the cores of four clients make.
fn by_cores(lab: &Lab) -> f64 {
    4.0 * 16.0 * 1e3 / (2.0 * lab.costs.get(Cost::Packet) as f64)
}

/// Bytes on the wire of a packet with a value of so many.
fn on_wire(value: usize) -> usize {
    AROUND + BODY + ChainKind::Write.body().bytes(value.div_ceil(limits::BLOCK_BYTES) as u8)
}

/// Millions of such packets a second on a link of so many Gbit/s.
fn by_link(gigabits: f64, bytes: usize) -> f64 {
    gigabits * 1e3 / (8 * bytes) as f64
}

pub fn c1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let most = by_link(SWITCH, on_wire(LONGEST));
    let name = "4 clients of 16 cores (by which a packet's cost was set)";
    Ok(vec![
        figure(name, Paper::Number(82.0), by_cores(lab), "M/s"),
        figure("at most: a switch of 6.5 Tbit/s, values of 128 bytes", Paper::Number(2_000.0), most, "M/s"),
        x("4 clients, over the slides' ZooKeeper of 0.15 M/s", 82.0 / 0.15, by_cores(lab) / 0.15),
        x("at most, over the same", 2_000.0 / 0.15, most / 0.15),
    ])
}

pub fn c2(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let of = |cost| lab.costs.get(cost) as f64 / 1e3;
    let read = 2.0 * of(Cost::Packet) + 2.0 * of(Cost::Hop) + of(Cost::Pipeline);
    // Two more switches, and a cable to each, which is less than a host's NIC and PCIe.
    let write = read + 2.0 * of(Cost::Pipeline);
    Ok(vec![
        figure("read, one switch", Paper::Number(9.7), read, "us"),
        figure("write, three switches", Paper::Number(9.7), write, "us"),
    ])
}

pub fn c3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let cores = by_cores(lab);
    let with = |value: usize| cores.min(4.0 * by_link(NIC, on_wire(value)));
    let of = |value| figure(format!("values of {value} bytes"), Paper::Number(82.0), with(value), "M/s");
    let mut figures = [32, 64, 96, LONGEST].map(of).to_vec();
    // As many packets as a client's cores make.
    let room = NIC * 1e3 / 8.0 / (cores / 4.0);
    let bytes = on_wire(LONGEST) as f64;
    figures.push(figure("a packet with 128 bytes, on the wire", Paper::Nothing, bytes, "bytes"));
    figures.push(figure("of which 40 Gbit/s carry what a client's cores make", Paper::Nothing, room, "bytes"));
    Ok(figures)
}

// ---- on packets ----

/// Chains of three, as of slide 33's ZooKeeper.
const OURS: &str = "wayside-hook-3";
const THEIRS: &str = "zookeeper-3";

/// Median of all rounds: what one client (`Read, 1 clients`) or the most of them did with a store.
fn median(keys: &Keys, what: &str, store: &str, head: &str) -> Option<f64> {
    let end = format!(": {store}: {head}");
    let figures = keys.compared();
    let values = &figures.iter().find(|one| one.name.starts_with(what) && one.name.ends_with(&end))?.values;
    Spread::of(values.clone()).map(|spread| spread.median)
}

/// Both stores', if both were measured.
fn beside(keys: &Keys, what: &str, head: &str) -> Option<(f64, f64)> {
    median(keys, what, OURS, head).zip(median(keys, what, THEIRS, head))
}

pub fn c1_on_packets(keys: &Keys) -> Vec<Figure> {
    let each = |(what, name): (&str, &str)| {
        let (ours, theirs) = beside(keys, what, "a second")?;
        Some([
            figure(format!("on packets, {name}: chain of three"), Paper::Number(82.0), ours / 1e6, "M/s"),
            figure(format!("on packets, {name}: ZooKeeper of three"), Paper::Number(0.15), theirs / 1e6, "M/s"),
            x(format!("on packets, {name}: over ZooKeeper"), 82.0 / 0.15, ours / theirs),
        ])
    };
    [("Read", "reads of many clients"), ("Write", "writes of many clients")]
        .into_iter()
        .filter_map(each)
        .flatten()
        .collect()
}

pub fn c2_on_packets(keys: &Keys) -> Vec<Figure> {
    let each = |(what, name, paper): (&str, &str, f64)| {
        let (ours, theirs) = beside(keys, &format!("{what}, 1 clients"), "median, us")?;
        Some([
            figure(format!("on packets, {name}: chain of three"), Paper::Number(9.7), ours, "us"),
            figure(format!("on packets, {name}: ZooKeeper of three"), Paper::Number(paper), theirs, "us"),
            x(format!("on packets, {name}: ZooKeeper's over ours"), paper / 9.7, theirs / ours),
        ])
    };
    [("Read", "read", 170.0), ("Write", "write", 2_350.0)].into_iter().filter_map(each).flatten().collect()
}

/// Keys of a store, by what its mode is called.
fn keys_of(name: &str) -> Option<u64> {
    name.strip_prefix("a store of ")?.strip_suffix(" keys")?.parse().ok()
}

pub fn c3_on_packets(keys: &Keys) -> Vec<Figure> {
    let took = |mode: &crate::report::Mode, operation: &str| {
        mode.rows.iter().find(|row| row.operation == operation).map(|row| row.median_us)
    };
    let mut figures = Vec::new();
    for mode in keys.at_hook().iter().filter(|mode| mode.name == "values of several lengths") {
        for what in ["read", "write"] {
            let [none, whole] = [0, LONGEST].map(|bytes| took(mode, &format!("{what} of {bytes} bytes")));
            let ratio = none.zip(whole).map(|(none, whole)| whole / none);
            let name = format!("on packets, {what} of 128 bytes over one of none");
            figures.extend(ratio.map(|ratio| x(name, 1.0, ratio)));
        }
    }
    let mut stores: Vec<_> = keys.at_hook().iter().filter_map(|mode| Some((keys_of(&mode.name)?, mode))).collect();
    stores.sort_by_key(|store| store.0);
    let Some(&(few, least)) = stores.first() else { return figures };
    for &(many, mode) in &stores[1..] {
        for what in ["read", "write"] {
            let operation = format!("{what} of 128 bytes");
            let ratio = took(least, &operation).zip(took(mode, &operation)).map(|(least, most)| most / least);
            let name = format!("on packets, {what} in a store of {many} keys over one of {few}");
            figures.extend(ratio.map(|ratio| x(name, 1.0, ratio)));
        }
    }
    figures
}

pub fn c4(keys: &Keys) -> Vec<Figure> {
    let each = |failover: Failover| {
        let Failover { groups, away_ms, copying_away_ms, copying_share } = failover;
        let of = |what: &str, ours, unit| figure(format!("{}: {what}", in_words(groups)), Paper::Drawn, ours, unit);
        [
            of("no write until chains go on without the dead switch", away_ms, "ms"),
            of("no write while another one copies, at most", copying_away_ms, "ms"),
            of("writes meanwhile, over before", copying_share, ""),
        ]
    };
    keys.failovers().flat_map(each).collect()
}
