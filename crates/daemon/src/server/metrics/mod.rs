//! What a scrape sees: the switch's counters and the controller's numbers as they are at that moment, and what the
//! controller's thread has counted so far (`ledger.rs`). The data plane counts in lanes of its own in any case; a
//! scrape adds them up, and stops nobody.
//!
//! Labels are namespaces and words of the protocol, never names of locks: those are as many as there are locks, and no
//! business of whoever reads a dashboard.

mod ledger;
mod tally;

use super::names::Lost;
use super::relays::Relays;
use super::status::Facts;
use super::traces::Spans;
pub use ledger::{Commits, Ledger};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::Ordering;
pub use tally::{ACCEPTED, Asked, Tally};
use wayside_protocol::chain::Watched;
use wayside_protocol::memory::SwitchMemory;
use wayside_wire::DropReason;

/// What [`Scrape::text`] is: what Prometheus asks for first, ever since its version 2.5.
pub const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters of the switch that say where a packet went.
const VERDICTS: [&str; 4] = ["to_sender", "to_node", "to_controller", "to_nobody"];

/// What the controller knows at this moment.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Live sessions by the name of their namespace.
    pub sessions: Vec<(String, u64)>,
    /// Of these, those whose packets are signed.
    pub signed: u64,
    /// Slots that wait for a census to begin.
    pub awaiting_census: u64,
    pub keys: KeyNumbers,
}

/// Of groups of keys, and of who watches them.
#[derive(Clone, Debug)]
pub struct KeyNumbers {
    /// How many groups this switch has each place in.
    pub places: [(&'static str, u64); 5],
    /// Places that it was given.
    pub changes: u64,
    /// Groups that are being copied to here, and keys that have come so.
    pub copying: u64,
    pub copied: u64,
    pub watched: Watched,
    /// Keys whose names nobody knows, and names that were lost.
    pub unnamed: u64,
    pub lost: Lost,
}

/// Nodes that greeted and are connected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connected {
    /// On this host: with a lifeline.
    pub here: u64,
    pub elsewhere: u64,
}

/// Everything that a scrape is made of, but for the ledger.
pub struct Scrape<'a> {
    pub facts: &'a Facts,
    /// None: the controller did not answer in time.
    pub numbers: Option<Numbers>,
    /// Packets that the controller was too busy for.
    pub backlog_full: u64,
    pub connected: Connected,
    /// Connections that were closed for want of a place.
    pub refused: u64,
    /// Deadlocks that were reported, and that were ended.
    pub deadlocks: [u64; 2],
}

type Labels = Vec<(&'static str, String)>;

/// A family of metrics, read already.
#[derive(Debug)]
struct Family {
    /// Without the ending that its kind gives it.
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    values: Vec<(Labels, u64)>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Scrape<'_> {
    pub fn text(self, ledger: &Ledger) -> String {
        let mut registry = Registry::default();
        ledger.register(&mut registry);
        registry.register_collector(Box::new(Families(self.families(ledger))));
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes everything, and no gauge exceeds 63 bits");
        text
    }

    fn families(self, ledger: &Ledger) -> Vec<Family> {
        let facts = self.facts;
        let mut families = about_the_switch(facts);
        families.extend(about_authentication(facts));
        families.extend(about_packets(facts));
        families.extend(about_relays(&facts.relays));
        families.extend(about_traces(&facts.spans));
        families.push(counter(
            "wayside_controller_backlog_full",
            "Packets that found the controller's queue full; their senders repeat them",
            self.backlog_full,
        ));
        families.push(by("namespace", ledger.frozen()).gauge("wayside_frozen_slots", "Slots at a census"));
        families.push(gauge(
            "wayside_controller_answers",
            "1 if the controller answered this scrape within a second; without, what it knows is missing",
            self.numbers.is_some().into(),
        ));
        if let Some(numbers) = self.numbers {
            families.push(by("namespace", numbers.sessions).gauge("wayside_sessions", "Live sessions"));
            families.push(gauge("wayside_signed_sessions", "Live sessions whose packets are signed", numbers.signed));
            families.push(gauge(
                "wayside_slots_awaiting_census",
                "Slots that will be frozen for a census",
                numbers.awaiting_census,
            ));
            families.extend(about_keys(numbers.keys));
        }
        let Connected { here, elsewhere } = self.connected;
        families.push(
            by("host", [("here", here), ("elsewhere", elsewhere)])
                .gauge("wayside_connections", "Control connections of nodes: those here are lifelines"),
        );
        families.push(counter(
            "wayside_connections_refused",
            "Control connections that were closed because 256 strangers were connected",
            self.refused,
        ));
        let [reported, aborted] = self.deadlocks;
        families.push(
            by("result", [("reported", reported), ("aborted", aborted)])
                .counter("wayside_deadlocks", "Deadlocks found; of those aborted a wait was given up"),
        );
        families
    }
}

fn about_keys(keys: KeyNumbers) -> Vec<Family> {
    let Watched { waiting, told, resets, overruns, torn } = keys.watched;
    vec![
        by("place", keys.places).gauge("wayside_chain_groups", "Groups of keys by the switch's place in their chains"),
        counter("wayside_chain_places", "Places that the switch was given, each of a group's new epoch", keys.changes),
        gauge("wayside_chain_copying", "Groups that are being copied to this switch", keys.copying),
        counter("wayside_chain_keys_copied", "Keys that have come with groups that were copied", keys.copied),
        gauge("wayside_keys_unnamed", "Keys of this switch whose names it does not know", keys.unnamed),
        by("why", [("damaged", keys.lost.damaged), ("unwritten", keys.lost.unwritten)])
            .counter("wayside_key_names_lost", "Names of keys that could not be written down, or read again"),
        gauge("wayside_watches", "Watches that wait at this switch, each of one group", waiting),
        counter("wayside_watch_events", "Changes that were told to a watch", told),
        counter("wayside_watch_rereads", "Watches that were told that something may be missing", resets),
        by("why", [("overrun", overruns), ("torn", torn)]).counter(
            "wayside_watch_journal_losses",
            "Times that changes were lost to watches: the journal went round, or a record was not whole",
        ),
    ]
}

fn about_the_switch(facts: &Facts) -> Vec<Family> {
    let residence = &facts.residence;
    let info: Labels = vec![
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("mode", residence.mode.clone()),
        ("ports", residence.ports.join(",")),
        ("reason", residence.reason.clone().unwrap_or_default()),
    ];
    let all = facts.namespaces.all();
    let slots = all.iter().map(|each| (each.settings.name.clone(), each.settings.slots.into()));
    vec![
        Family {
            name: "wayside_switch",
            help: "Version, where packets are decided, at which interfaces, and why not at the XDP hook or not natively",
            kind: MetricType::Info,
            values: vec![(info, 1)],
        },
        gauge(
            "wayside_serving",
            "1: requests are decided; 0: the switch recovers, or is a standby",
            facts.is_serving().into(),
        ),
        gauge("wayside_epoch", "Boot epoch of the switch", facts.switch.epoch().into()),
        gauge("wayside_uptime_seconds", "Since the daemon started", facts.started.elapsed().as_secs()),
        by("namespace", slots).gauge("wayside_slots", "Slots of each namespace"),
    ]
}

fn about_authentication(facts: &Facts) -> Vec<Family> {
    let reason = vec![("reason", facts.config.authentication_reason.to_owned())];
    let answers = facts.tally.all().into_iter().map(|(asked, result, count)| {
        (vec![("question", asked.word().to_owned()), ("result", result.to_owned())], count)
    });
    let mut families = vec![
        Labelled(vec![(reason, facts.enrols.is_some().into())]).gauge(
            "wayside_authentication",
            "1: packets are signed; 0: whoever reaches the switch can speak for any session",
        ),
        Labelled(answers.collect())
            .counter("wayside_enrolment_answers", "What became of the questions at the enrolment port"),
    ];
    families.extend(facts.hosts().map(|count| gauge("wayside_joined_hosts", "Hosts that may enrol", count)));
    families
}

fn about_packets(facts: &Facts) -> Vec<Family> {
    let (mut verdicts, mut drops, mut outcomes, mut handed_up) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, count) in facts.switch.counters() {
        match name {
            "none" => {}
            "handed_up" => handed_up.push(counter(
                "wayside_handed_up",
                "Packets that the daemon sent or heard for the XDP program, which had no way of its own to them",
                count,
            )),
            "handed_up_lost" => handed_up.push(counter(
                "wayside_handed_up_lost",
                "Packets that the XDP program could not hand up, its ring being full",
                count,
            )),
            _ if VERDICTS.contains(&name) => verdicts.push((name, count)),
            _ if DropReason::ALL.iter().any(|reason| reason.name() == name) => drops.push((name, count)),
            _ => outcomes.push((name, count)),
        }
    }
    let socket = &facts.traffic;
    let traffic = [("received", &socket.received), ("sent", &socket.sent), ("unsent", &socket.unsent)];
    let traffic = traffic.map(|(what, count)| (what, count.load(Ordering::Relaxed)));
    let mut families = vec![
        by("verdict", verdicts).counter("wayside_packets", "Packets decided, by where they went"),
        by("reason", drops)
            .counter("wayside_drops", "Packets refused; stale_epoch, foreign_version and over_budget may be answered"),
        by("namespace", facts.over_budget())
            .counter("wayside_over_budget", "Packets refused because their namespace had spent its budget"),
        by("what", [("kept", facts.keys().kept.into()), ("room", facts.keys().room.into())])
            .gauge("wayside_keys", "Keys of the store: kept, and how many there is room for"),
        by("outcome", outcomes).counter("wayside_outcomes", "What the core did to slots, keys and sessions"),
        by("what", traffic).counter(
            "wayside_datagrams",
            "Datagrams of the daemon's own socket; unsent: the kernel refused them. XDP passes it by",
        ),
    ];
    families.extend(handed_up);
    families
}

/// Nothing where no request was ever followed.
fn about_traces(spans: &Spans) -> Option<Family> {
    let counts = [("sent", &spans.sent), ("overwritten", &spans.overwritten), ("refused", &spans.refused)];
    let counts = counts.map(|(result, count)| (result, count.load(Ordering::Relaxed)));
    let some = counts.iter().any(|(_, count)| *count > 0);
    some.then(|| {
        by("result", counts).counter(
            "wayside_spans",
            "Spans of requests that were followed; overwritten: before the daemon looked; refused: by the collector",
        )
    })
}

/// Nothing where there is none.
fn about_relays(relays: &Relays) -> Vec<Family> {
    let (mut packets, mut drops, mut connections) = (Vec::new(), Vec::new(), Vec::new());
    for count in relays.counts() {
        let of = |label: &'static str, word: &str| vec![("switch", count.place.to.to_string()), (label, word.into())];
        packets.extend([(of("way", "on"), count.passed_on), (of("way", "back"), count.passed_back)]);
        drops.extend(count.dropped.map(|(why, dropped)| (of("reason", why), dropped)));
        connections.push((count.place.to.to_string(), count.connections));
    }
    if packets.is_empty() {
        return Vec::new();
    }
    drops.push((vec![("switch", String::new()), ("reason", "stranger".into())], relays.strangers()));
    vec![
        Labelled(packets).counter("wayside_relayed", "Packets passed on to another switch, and back from it"),
        Labelled(drops).counter("wayside_relay_drops", "Packets that were not; no_port: no room for another client"),
        by("switch", connections).gauge("wayside_relay_connections", "Connections carried to another switch"),
        gauge("wayside_relay_ports", "Ports of clients whose packets are relayed", relays.ports()),
    ]
}

/// Values that differ in one label.
struct Labelled(Vec<(Labels, u64)>);

fn by<N: Into<String>>(label: &'static str, values: impl IntoIterator<Item = (N, u64)>) -> Labelled {
    Labelled(values.into_iter().map(|(name, value)| (vec![(label, name.into())], value)).collect())
}

impl Labelled {
    fn counter(self, name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: MetricType::Counter, values: self.0 }
    }

    fn gauge(self, name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: MetricType::Gauge, values: self.0 }
    }
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { name, help, kind: MetricType::Counter, values: vec![(Labels::new(), value)] }
}

fn gauge(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { name, help, kind: MetricType::Gauge, values: vec![(Labels::new(), value)] }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for Family { name, help, kind, values } in &self.0 {
            // The registry ends its own texts like this.
            let help = format!("{help}.");
            let mut family = encoder.encode_descriptor(name, &help, None, *kind)?;
            for (labels, value) in values {
                match kind {
                    MetricType::Info => family.encode_info(labels)?,
                    MetricType::Counter if labels.is_empty() => {
                        family.encode_counter::<NoLabelSet, _, u64>(value, None)?;
                    }
                    MetricType::Counter => ConstCounter::new(*value).encode(family.encode_family(labels)?)?,
                    _ if labels.is_empty() => family.encode_gauge(value)?,
                    _ => ConstGauge::new(*value).encode(family.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}
