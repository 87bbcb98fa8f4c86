//! The map of all shards, as this shard has it: told to operators who ask, and to every node that is connected.

use super::control::Control;
use crate::answers::{Refused, Role, ShardStep, ShardsAnswer};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use wayside_client::control::{DAEMON_LINE, Divided};
use wayside_client::{Endpoints, Shards};
use wayside_protocol::ShardMap;
use wayside_protocol::controller::{DivisionView, Order, Step};

/// Between looks whether there is another map.
const LOOK: Duration = Duration::from_millis(50);
/// Nodes hear again of one that not all shards have yet: what they said of it may be forgotten.
const AGAIN: u32 = 20;
/// A map and the one before have to fit into a stranger's line, and into one that a node reads.
const LONGEST_MAP: usize = (DAEMON_LINE - 256) / 2;

impl From<Step> for ShardStep {
    fn from(step: Step) -> ShardStep {
        match step {
            Step::Announced => ShardStep::Announced,
            Step::Moved => ShardStep::Moved,
            Step::Decided => ShardStep::Decided,
            Step::Settled => ShardStep::Settled,
        }
    }
}

impl From<ShardStep> for Step {
    fn from(step: ShardStep) -> Step {
        match step {
            ShardStep::Announced => Step::Announced,
            ShardStep::Moved => Step::Moved,
            ShardStep::Decided => Step::Decided,
            ShardStep::Settled => Step::Settled,
        }
    }
}

/// What an operator is told.
pub async fn shards(control: &Control) -> Result<ShardsAnswer, Refused> {
    let own = own_name(control)?;
    let DivisionView { division, behind, epoch } =
        control.inbox().division().await.ok_or_else(|| elsewhere(control))?;
    let text = |map: &[u8]| String::from_utf8_lossy(map).into_owned();
    Ok(ShardsAnswer {
        shard: own,
        version: division.version,
        step: division.step.into(),
        open: division.begins.is_some(),
        map: text(&division.map),
        former: text(&division.former),
        behind,
        epoch,
    })
}

/// Does what an operator says.
pub async fn divide(control: &Control, order: Order) -> Result<(), Refused> {
    let own = own_name(control)?;
    check(&own, &order).map_err(refused)?;
    if order.map.len().max(order.former.len()) > LONGEST_MAP {
        return Err(refused(format_args!("the addresses of all shards have more than {LONGEST_MAP} bytes")));
    }
    match control.inbox().divide(order).await {
        Some(done) => done.map_err(refused),
        None => Err(elsewhere(control)),
    }
}

/// Whether both maps are some, and the order is what the later one comes to for this shard: nobody else writes down
/// what it is to be asked by.
fn check(own: &str, order: &Order) -> Result<(), String> {
    let shards = |map: &[u8]| {
        let text = std::str::from_utf8(map).map_err(|_| "a map is no text".to_owned())?;
        let endpoints = Endpoints::parse(text).map_err(|error| error.to_string())?;
        endpoints.shards().cloned().ok_or_else(|| format!("{text:?}: those are no shards"))
    };
    let (former, next) = (shards(&order.former)?, shards(&order.map)?);
    if former.place(own).or(next.place(own)).is_none() {
        return Err(format!("shard {own} has no part in that"));
    }
    let map = ShardMap { version: order.version, shards: next };
    if map.version == 0 || map.begins(own) != order.begins {
        return Err(format!("sessions of shard {own} begin by another fingerprint with that map"));
    }
    Ok(())
}

fn own_name(control: &Control) -> Result<String, Refused> {
    let division = control.facts().config.division.as_ref();
    let division = division.ok_or_else(|| refused("locks are divided among no shards here (docs/shards.md)"))?;
    Ok(division.shards.names()[division.own].clone())
}

fn refused(why: impl Display) -> Refused {
    Refused { error: why.to_string(), elsewhere: false }
}

fn elsewhere(control: &Control) -> Refused {
    let error = match control.role() {
        Role::Standby { serving: Some(at) } => format!("{at} knows: it serves the shard"),
        _ => "no switch of the shard serves at the moment".into(),
    };
    Refused { error, elsewhere: true }
}

/// The names of a map instead of those of the configuration: the own one first. None if that is not among them.
pub fn put_into(shards: &mut Vec<String>, map: &str) {
    let Ok(endpoints) = Endpoints::parse(map) else { return };
    let names = endpoints.shards().map_or(&[][..], Shards::names);
    let own = shards.first().filter(|own| names.contains(own)).cloned();
    let others = names.iter().filter(|name| own.is_some() && own.as_ref() != Some(name)).cloned();
    *shards = own.clone().into_iter().chain(others).collect();
}

/// Tells every node that is connected, and that connects, what map there is.
pub async fn tell_nodes(control: Arc<Control>) {
    let (mut known, mut looks) = (None, 0);
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(DivisionView { division, .. }) = control.inbox().division().await else { continue };
        let divided = Divided {
            shards: String::from_utf8_lossy(&division.map).into_owned(),
            version: division.version,
            settled: division.step == Step::Settled,
            former: String::from_utf8_lossy(&division.former).into_owned(),
            moved: division.step >= Step::Moved,
        };
        looks += 1;
        let is_again = !divided.settled && looks % AGAIN == 0;
        if divided.version > 0 && (is_again || known.as_ref() != Some(&divided)) {
            known = Some(divided.clone());
            control.announce(divided);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_map_comes_to_is_obeyed() {
        let (former, map) = ("a=10.0.0.1:7600;b=10.0.0.2:7600", "a=10.0.0.1:7600;b=10.0.0.2:7600;c=10.0.0.3:7600");
        let shards = Endpoints::parse(map).unwrap().shards().cloned().unwrap();
        let begins = ShardMap { version: 1, shards }.begins("a");
        let bytes = |text: &str| text.as_bytes().to_vec();
        let good = || Order { version: 1, step: Step::Moved, begins, above: 0, map: bytes(map), former: bytes(former) };
        assert_eq!(check("a", &good()), Ok(()));
        let drained = Order { begins: None, map: bytes(former), former: bytes(map), ..good() };
        assert_eq!(check("c", &drained), Ok(()));
        for (own, wrong) in [
            ("a", Order { version: 0, ..good() }),
            ("a", Order { begins: None, ..good() }),
            ("b", good()),
            ("d", Order { begins: None, ..good() }),
            ("c", Order { begins, ..drained }),
            ("a", Order { map: Vec::new(), ..good() }),
            ("a", Order { map: b"\xff".to_vec(), ..good() }),
            ("a", Order { former: bytes("10.0.0.1:7600"), ..good() }),
        ] {
            assert!(check(own, &wrong).is_err(), "{own}: {wrong:?}");
        }
    }
}
