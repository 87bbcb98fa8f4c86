//! What `wayside plan` and `wayside locks --hot` say: what the controller has measured and planned, with the names that
//! people know. The switch knows ids alone: names are in the configuration, and with who holds or awaits a lock now.

use super::control::Control;
use super::status::first_of;
use crate::answers::{AwaitedLock, Plan, PlannedLock, Plans, Role};
use crate::config::Namespace;
use std::collections::HashMap;
use wayside_client::control::Listed;
use wayside_protocol::controller::{Allocation, LockView, PlanView};
use wayside_protocol::memory::Stage;

/// Names by namespace and id.
type Names = HashMap<(String, String), String>;

/// What lies where, of all namespaces that have queues. Err: who knows.
pub async fn plans(control: &Control, views: Vec<PlanView>) -> Result<Plans, String> {
    if let Role::Standby { serving } = control.role() {
        let who = serving.map_or_else(|| "no switch of the shard serves".into(), |at| format!("{at} knows: it serves"));
        return Err(who);
    }
    let facts = control.facts();
    let all = facts.namespaces.all();
    let namespaces = || all.iter().map(|each| &each.settings);
    let mut names = configured(namespaces());
    let count: usize = views.iter().map(|view| view.locks.len()).sum();
    // Of locks in slots nobody counts requests.
    let counts_none = |name: &str, id: &str| {
        let of = namespaces().find(|of| of.name == name);
        of.is_some_and(|of| of.engine.has_slots() && !names.contains_key(&(name.to_owned(), id.to_owned())))
    };
    let mut awaited = Vec::new();
    if count > names.len() || namespaces().any(|namespace| namespace.engine.has_slots()) {
        let listed = listed(control).await;
        awaited = awaited_of(listed.iter().filter(|(namespace, entry)| counts_none(namespace, &entry.name_id)));
        names.extend(listed.into_iter().map(|(namespace, entry)| ((namespace, entry.name_id), entry.name)));
    }
    let plan = |view: &PlanView| {
        let namespace = &all.iter().find(|each| each.number == view.namespace)?.settings;
        let lock_servers = facts.lock_servers(namespace, view.namespace);
        let locks = view.locks.iter().map(|lock| planned(&namespace.name, view, lock, &names)).collect();
        Some(Plan {
            namespace: namespace.name.clone(),
            plan: namespace.plan_word().into(),
            room: view.room.cells,
            used: view.used,
            lock_server: first_of(&lock_servers),
            lock_servers,
            locks,
        })
    };
    Ok(Plans { namespaces: views.iter().filter_map(plan).collect(), awaited })
}

fn id(name: u64) -> String {
    format!("{name:016x}")
}

/// Those that the configuration has.
fn configured<'n>(namespaces: impl Iterator<Item = &'n Namespace>) -> Names {
    let mut names = Names::new();
    for namespace in namespaces {
        let ids = namespace.queues.iter().zip(namespace.queue_ids());
        names.extend(ids.map(|(name, number)| ((namespace.name.clone(), id(number)), name.clone())));
    }
    names
}

/// What connected processes hold and await, each with its namespace.
async fn listed(control: &Control) -> Vec<(String, Listed)> {
    let mut all = Vec::new();
    for (session, listing) in control.listings(None).await {
        let entries = listing.into_iter().flat_map(|listing| listing.entries);
        all.extend(entries.map(|entry| (session.namespace.clone(), entry)));
    }
    all
}

/// The locks that somebody awaits, first those that most await.
fn awaited_of<'l>(listed: impl Iterator<Item = &'l (String, Listed)>) -> Vec<AwaitedLock> {
    let mut locks: HashMap<(&str, &str), AwaitedLock> = HashMap::new();
    for (namespace, Listed { name, name_id, state, .. }) in listed {
        let lock = locks.entry((namespace, name_id)).or_insert_with(|| AwaitedLock {
            name: name.clone(),
            name_id: name_id.clone(),
            namespace: namespace.clone(),
            holders: 0,
            waiters: 0,
        });
        *(if state == "held" { &mut lock.holders } else { &mut lock.waiters }) += 1;
    }
    let mut awaited: Vec<AwaitedLock> = locks.into_values().filter(|lock| lock.waiters > 0).collect();
    awaited.sort_by(|one, other| (other.waiters, &one.name).cmp(&(one.waiters, &other.name)));
    awaited
}

fn planned(namespace: &str, view: &PlanView, lock: &LockView, names: &Names) -> PlannedLock {
    let name_id = id(lock.name);
    let rate = lock.rate as f64 / 1_000.0;
    let at_server = matches!(lock.stage, None | Some(Stage::Awaited | Stage::Handed));
    PlannedLock {
        name: names.get(&(namespace.to_owned(), name_id.clone())).cloned().unwrap_or_default(),
        name_id,
        place: if at_server { "server" } else { "switch" }.into(),
        rate,
        concurrency: lock.concurrency,
        cells: lock.cells,
        density: rate / f64::from(lock.needed.max(1)),
        moves: moves(lock).into(),
        why: why(view, lock).into(),
    }
}

/// What is under way, or is to be.
fn moves(lock: &LockView) -> &'static str {
    match (lock.stage, lock.planned) {
        (Some(Stage::Awaited), _) if lock.is_ranked => "",
        (Some(Stage::Here | Stage::Drains | Stage::Handed), _) if lock.is_ranked => "to server",
        (Some(Stage::Awaited), _) => "to switch",
        (Some(Stage::Handed | Stage::Drains), Some(0)) => "to server",
        (Some(Stage::Handed | Stage::Drains), Some(_)) => "resize",
        (Some(Stage::Handed | Stage::Drains), None) => "to server",
        (Some(Stage::Here), Some(0)) => "to server",
        (Some(Stage::Here), Some(cells)) if cells != lock.cells => "resize",
        (None, Some(1..)) => "to switch",
        (Some(Stage::Here), _) | (None, _) => "",
    }
}

fn why(view: &PlanView, lock: &LockView) -> &'static str {
    if lock.is_ranked {
        return "asked for with priorities";
    }
    match (view.allocation, lock.planned) {
        (Allocation::Fixed, _) if lock.stage.is_some() => "configured",
        (Allocation::Fixed, _) => "not configured",
        (_, None) => "not planned yet",
        (Allocation::Knapsack, Some(0)) if !lock.is_asked_for() => "rarely asked for",
        (Allocation::Knapsack, Some(0)) => "others have more requests a cell",
        (Allocation::Knapsack, Some(_)) if !lock.is_asked_for() => "nobody needs its cells",
        (Allocation::Knapsack, Some(cells)) if cells < lock.needed => "the cells that are left",
        (Allocation::Knapsack, Some(_)) => "requests a cell",
        (Allocation::Random, Some(0)) if !lock.is_asked_for() => "rarely asked for",
        (Allocation::Random, Some(_)) => "by chance",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayside_protocol::controller::Room;

    fn lock(stage: Option<Stage>, cells: u32, planned: Option<u32>) -> LockView {
        LockView { name: 1, stage, rate: 5_000, concurrency: 2, cells, needed: 4, planned, is_ranked: false }
    }

    #[test]
    fn awaited_are_those_that_somebody_awaits_and_most_come_first() {
        let listed = |name: &str, state: &str| {
            let entry = serde_json::json!({
                "name": name, "name_id": name, "slot": 1, "mode": "exclusive", "state": state, "since_us": 1, "token": ""
            });
            ("default".to_owned(), serde_json::from_value::<Listed>(entry).expect("an entry"))
        };
        let states = [("few", "waiting"), ("held", "held"), ("many", "waiting"), ("many", "held"), ("many", "waiting")];
        let all: Vec<_> = states.iter().map(|(name, state)| listed(name, state)).collect();
        let counts: Vec<_> =
            awaited_of(all.iter()).into_iter().map(|lock| (lock.name, lock.holders, lock.waiters)).collect();
        assert_eq!(counts, [("many".to_owned(), 1, 2), ("few".to_owned(), 0, 1)]);
    }

    #[test]
    fn what_moves_is_what_lies_elsewhere_than_planned() {
        for (stage, cells, planned, wanted) in [
            (None, 0, None, ""),
            (None, 0, Some(0), ""),
            (None, 0, Some(4), "to switch"),
            (Some(Stage::Awaited), 4, Some(4), "to switch"),
            (Some(Stage::Here), 4, Some(4), ""),
            (Some(Stage::Here), 4, None, ""),
            (Some(Stage::Here), 4, Some(8), "resize"),
            (Some(Stage::Here), 4, Some(0), "to server"),
            (Some(Stage::Drains), 4, Some(0), "to server"),
            (Some(Stage::Handed), 4, Some(16), "resize"),
        ] {
            assert_eq!(moves(&lock(stage, cells, planned)), wanted, "{stage:?} {cells} {planned:?}");
        }
        for (stage, wanted) in [(Stage::Here, "to server"), (Stage::Handed, "to server"), (Stage::Awaited, "")] {
            let ranked = LockView { is_ranked: true, ..lock(Some(stage), 4, None) };
            assert_eq!(moves(&ranked), wanted, "{stage:?}");
        }
    }

    #[test]
    fn each_place_has_a_reason() {
        let view = |allocation| PlanView { namespace: 0, allocation, room: Room::default(), used: 0, locks: vec![] };
        let ranked = LockView { is_ranked: true, ..lock(Some(Stage::Awaited), 4, None) };
        let rare = LockView { rate: 10, ..lock(None, 0, Some(0)) };
        for (allocation, lock, wanted) in [
            (Allocation::Fixed, lock(Some(Stage::Here), 4, None), "configured"),
            (Allocation::Fixed, ranked, "asked for with priorities"),
            (Allocation::Knapsack, lock(None, 0, None), "not planned yet"),
            (Allocation::Knapsack, lock(None, 0, Some(0)), "others have more requests a cell"),
            (Allocation::Knapsack, rare, "rarely asked for"),
            (Allocation::Knapsack, lock(None, 0, Some(2)), "the cells that are left"),
            (Allocation::Knapsack, lock(None, 0, Some(4)), "requests a cell"),
            (Allocation::Random, lock(None, 0, Some(4)), "by chance"),
        ] {
            assert_eq!(why(&view(allocation), &lock), wanted);
        }
    }
}
