//! `wayside-bench --queues`: every part runs, grants are made by whom they should be, and none overlaps another. No
//! time is judged.

use serde_json::Value;
use std::path::PathBuf;
use wayside_bench::{QueuesOptions, run_queues};

#[test]
fn memory_priorities_isolation_and_fetches_are_measured_and_nothing_breaks() {
    let wayside = PathBuf::from(env!("CARGO_BIN_EXE_wayside"));
    let queues = run_queues(&QueuesOptions::least(wayside)).expect("names that there are");
    let record: Value = serde_json::from_str(&queues.to_json()).expect("one JSON document");
    for note in record["notes"].as_array().expect("a list") {
        println!("skipped: {}", note.as_str().expect("text"));
    }
    let broken: Vec<String> = queues.broken().collect();
    assert!(broken.is_empty(), "{broken:?}");

    let runs = |part: &str| record[part].as_array().expect("a list").clone();
    // The lock server alone, and each plan.
    let memory = runs("memory");
    let plans: Vec<&str> = memory.iter().filter_map(|run| run["plan"].as_str()).collect();
    assert_eq!(plans, ["none", "knapsack", "random"]);
    for run in &memory {
        let (grants, by_switch) = (run["grants"].as_u64().unwrap(), run["by_switch"].as_u64().unwrap());
        assert!(grants > 0 && run["transactions"].as_u64() > Some(0), "{run}");
        assert_eq!(by_switch > 0, run["plan"] != "none", "only a plan has queues in the switch: {run}");
    }
    for part in ["priorities", "isolation"] {
        let tenants = runs(part);
        assert_eq!(tenants.len(), 4, "both engines, without and with: {part}");
        let grants = |run: &Value, tenant: usize| {
            run["timelines"][tenant].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>()
        };
        assert!(tenants.iter().all(|run| grants(run, 0) > 0 && grants(run, 1) > 0), "{part}: {tenants:?}");
    }
    let fetches = runs("fetches");
    assert!(fetches.len() == 1 && fetches[0]["count"].as_u64() > Some(0), "{fetches:?}");
    assert!(fetches[0]["one_trip_us"][0].as_f64() > Some(0.0), "{fetches:?}");
}
