//! `wayside plan` and `wayside locks --hot`: where locks lie whose namespace has queues, and how often they are asked
//! for.

use super::query::tell_each;
use super::text::{shown, table};
use crate::answers::{AwaitedLock, Plan, PlannedLock, Plans, Query, servers_text};
use crate::cli::{Output, QueryArgs};
use crate::failure::Failure;

/// Locks that `--hot` lists for people.
const HOTTEST: usize = 20;
const NONE: &str = "no namespace's locks are queues: nothing is measured (docs/queue.md)\n";

/// `wayside plan`.
pub fn plan(args: &QueryArgs) -> Result<(), Failure> {
    tell_each::<Plans>(args, &Query::Plan, |line, plans| args.output.of(line, || plans_text(&plans)))
}

/// `wayside locks --hot`.
pub fn hot(args: &QueryArgs) -> Result<(), Failure> {
    tell_each::<Plans>(args, &Query::Plan, |_, plans| {
        let hottest = hottest(&plans);
        match args.output {
            Output::Json => {
                let lines = hottest.into_iter().map(|(plan, lock)| as_json(plan, lock));
                serde_json::json!({ "locks": lines.collect::<Vec<_>>(), "awaited": plans.awaited }).to_string()
            }
            Output::Text if plans.namespaces.is_empty() => awaited_text(&plans.awaited),
            Output::Text if plans.awaited.is_empty() => hot_text(&hottest),
            Output::Text => hot_text(&hottest) + &awaited_text(&plans.awaited),
        }
    })
}

/// All that are asked for, of all namespaces, first those that are asked for most.
fn hottest(plans: &Plans) -> Vec<(&Plan, &PlannedLock)> {
    let locks = plans.namespaces.iter().flat_map(|plan| plan.locks.iter().map(move |lock| (plan, lock)));
    let mut asked: Vec<_> = locks.filter(|(_, lock)| lock.rate > 0.0).collect();
    asked.sort_by(|(_, one), (_, other)| other.rate.total_cmp(&one.rate));
    asked
}

fn as_json(plan: &Plan, lock: &PlannedLock) -> serde_json::Value {
    let PlannedLock { name, name_id, place, rate, concurrency, .. } = lock;
    let namespace = &plan.namespace;
    serde_json::json!({
        "name": name, "name_id": name_id, "namespace": namespace, "place": place, "rate": rate, "concurrency": concurrency
    })
}

/// Of namespaces whose requests nobody counts.
fn awaited_text(awaited: &[AwaitedLock]) -> String {
    if awaited.is_empty() {
        return "no lock is awaited now; how often they are asked for is counted where they are queues alone \
                (docs/queue.md)\n"
            .into();
    }
    let heading = ["NAME", "NAMESPACE", "HOLDERS", "WAITERS"].map(String::from).to_vec();
    let lines = awaited.iter().take(HOTTEST).map(|lock| {
        vec![shown(&lock.name), lock.namespace.clone(), lock.holders.to_string(), lock.waiters.to_string()]
    });
    let mut text = String::from("awaited now, where nobody counts how often:\n");
    text.push_str(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
    text.push_str(&and_more(awaited.len()));
    text
}

/// That there are more than are listed.
fn and_more(count: usize) -> String {
    match count.checked_sub(HOTTEST) {
        Some(more @ 1..) => format!("and {more} more; `-o json` lists them\n"),
        _ => String::new(),
    }
}

fn hot_text(hottest: &[(&Plan, &PlannedLock)]) -> String {
    if hottest.is_empty() {
        return "no lock was asked for lately\n".into();
    }
    let heading = ["NAME", "NAMESPACE", "PLACE", "RATE", "AT A TIME"].map(String::from).to_vec();
    let lines = hottest.iter().take(HOTTEST).map(|(plan, lock)| {
        vec![
            named(lock),
            plan.namespace.clone(),
            lock.place.clone(),
            per_second(lock.rate),
            lock.concurrency.to_string(),
        ]
    });
    let mut text = table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>());
    text.push_str(&and_more(hottest.len()));
    text
}

fn plans_text(plans: &Plans) -> String {
    if plans.namespaces.is_empty() {
        return NONE.into();
    }
    plans.namespaces.iter().map(plan_text).collect()
}

fn plan_text(plan: &Plan) -> String {
    let server = servers_text(plan.lock_server, &plan.lock_servers);
    let mut text =
        format!("namespace {}: plan {}, {} of {} cells, {server}\n", plan.namespace, plan.plan, plan.used, plan.room);
    if plan.locks.is_empty() {
        text.push_str("no lock was asked for lately\n");
        return text;
    }
    let heading = ["NAME", "PLACE", "RATE", "AT A TIME", "CELLS", "RATE/CELL", "MOVES", "WHY"];
    let lines = plan.locks.iter().map(|lock| {
        let or_none = |text: String, none: bool| if none { "-".into() } else { text };
        vec![
            named(lock),
            lock.place.clone(),
            per_second(lock.rate),
            lock.concurrency.to_string(),
            or_none(lock.cells.to_string(), lock.cells == 0),
            per_second(lock.density),
            or_none(lock.moves.clone(), lock.moves.is_empty()),
            lock.why.clone(),
        ]
    });
    let heading = heading.map(String::from).to_vec();
    text.push_str(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
    text
}

/// Its name, or its id where nobody is there to tell the name.
fn named(lock: &PlannedLock) -> String {
    if lock.name.is_empty() { format!("id {}", lock.name_id) } else { shown(&lock.name) }
}

fn per_second(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{rate:.0}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, rate: f64, cells: u32) -> PlannedLock {
        PlannedLock {
            name: name.into(),
            name_id: "000000000000002a".into(),
            place: if cells > 0 { "switch" } else { "server" }.into(),
            rate,
            concurrency: 3,
            cells,
            density: rate / 4.0,
            moves: if name.is_empty() { "to switch" } else { "" }.into(),
            why: "because".into(),
        }
    }

    fn plans() -> Plans {
        let locks = vec![lock("hot\n", 1234.5, 4), lock("", 2.0, 0)];
        let namespace = "default".into();
        let (plan, lock_servers) = ("knapsack".into(), vec![5]);
        Plans {
            namespaces: vec![Plan { namespace, plan, room: 8, used: 4, lock_server: 5, lock_servers, locks }],
            awaited: vec![],
        }
    }

    #[test]
    fn a_plan_is_a_table_of_its_locks() {
        let text = plans_text(&plans());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "namespace default: plan knapsack, 4 of 8 cells, lock server 5");
        assert_eq!(lines[1], "NAME                 PLACE   RATE    AT A TIME  CELLS  RATE/CELL  MOVES      WHY");
        assert_eq!(lines[2], "hot\\n                switch  1234/s  3          4      309/s      -          because");
        assert_eq!(lines[3], "id 000000000000002a  server  2.0/s   3          -      0.5/s      to switch  because");
        assert_eq!(plans_text(&Plans { namespaces: vec![], awaited: vec![] }), NONE);
        let mut of_parts = plans();
        of_parts.namespaces[0].lock_servers = vec![5, 0, 5];
        assert!(plans_text(&of_parts).contains("4 of 8 cells, lock servers of 3 parts: 5 none 5\n"));
    }

    #[test]
    fn where_nobody_counts_it_is_told_who_waits() {
        let lock = |number: u32| AwaitedLock {
            name: format!("name{number}"),
            name_id: "000000000000002a".into(),
            namespace: "default".into(),
            holders: 1,
            waiters: number,
        };
        let text = awaited_text(&(1..=22).rev().map(lock).collect::<Vec<_>>());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "NAME    NAMESPACE  HOLDERS  WAITERS");
        assert_eq!(lines[2], "name22  default    1        22");
        assert_eq!((lines.len(), lines[22]), (23, "and 2 more; `-o json` lists them"));
        assert!(awaited_text(&[]).starts_with("no lock is awaited now"));
    }

    #[test]
    fn the_hottest_come_first_and_what_nobody_asks_for_does_not() {
        let mut plans = plans();
        plans.namespaces[0].locks.insert(0, lock("cold", 0.0, 2));
        plans.namespaces[0].locks.reverse();
        let names: Vec<String> = hottest(&plans).into_iter().map(|(_, lock)| lock.name.clone()).collect();
        assert_eq!(names, ["hot\n", ""]);
        assert!(hot_text(&hottest(&plans)).starts_with("NAME"));
    }
}
