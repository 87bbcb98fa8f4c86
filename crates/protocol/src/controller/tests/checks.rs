//! What an operator may ask for.

use super::*;
use crate::Names;

fn with(change: impl FnOnce(&mut Config)) -> Result<(), ConfigError> {
    let mut changed = config();
    change(&mut changed);
    changed.check()
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let name = |name: &str| with(|config| config.namespaces[0].name = name.to_string());
    let longest = "x".repeat(limits::MAX_NAMESPACE_BYTES);
    for good in ["a", &longest] {
        assert_eq!(name(good), Ok(()));
    }
    for bad in ["", "a\0b", &(longest.clone() + "x")] {
        assert_eq!(name(bad), Err(ConfigError::BadName(bad.to_string())));
    }
    assert_eq!(with(|config| config.namespaces.clear()), Err(ConfigError::NoNamespace));
    let second = |id, name: &str| {
        with(|config| config.namespaces.push(Namespace { id, name: name.to_string(), ..config.namespaces[0].clone() }))
    };
    assert_eq!(second(2, "other"), Ok(()));
    assert_eq!(second(1, "other"), Err(ConfigError::Twice("other".to_string())));
    assert_eq!(second(2, "default"), Err(ConfigError::Twice("default".to_string())));
    let leases = |shortest, longest| {
        let set = |config: &mut Config| {
            (config.shortest_lease, config.namespaces[0].longest_lease) = (shortest, longest);
        };
        with(set).map_err(|error| assert_eq!(error, ConfigError::BadLeases))
    };
    assert_eq!([leases(5, 5), leases(5, LONGEST_LEASE)], [Ok(()); 2]);
    assert_eq!([leases(0, 5), leases(6, 5), leases(5, LONGEST_LEASE + 1)], [Err(()); 3]);
    let second_lease = |longest_lease| {
        with(|config| {
            let first = config.namespaces[0].clone();
            config.namespaces.push(Namespace { id: 2, name: "other".to_string(), longest_lease, ..first });
        })
    };
    assert_eq!(second_lease(LONGEST_LEASE), Ok(()));
    assert_eq!(second_lease(LONGEST_LEASE + 1), Err(ConfigError::BadLeases), "one of several is enough");
    let zeroes: [fn(&mut Config); 4] = [
        |config| config.poll_period = 0,
        |config| config.retransmit = 0,
        |config| config.slots_per_tick = 0,
        |config| config.plan_period = 0,
    ];
    assert!(zeroes.into_iter().all(|zero| with(zero) == Err(ConfigError::ZeroPeriod)));
    assert_eq!(with(|config| config.drift_ppm = 499_999), Ok(()));
    assert_eq!(with(|config| config.drift_ppm = 500_000), Err(ConfigError::BadDrift(500_000)));
}

/// Nodes are told what is listed, once: so something is, and nobody plans it anew.
#[test]
fn a_hybrid_namespace_has_a_list_and_no_plan() {
    let hybrid = |engine, allocation, names: &[u64]| {
        with(|config| {
            let names = Names::new(names.iter().copied()).expect("few");
            let first = config.namespaces[0].clone();
            config.namespaces[0] = Namespace { engine, allocation, names, ..first };
        })
    };
    let bad = Err(ConfigError::BadList("default".to_string()));
    assert_eq!(hybrid(Engine::Hybrid, Allocation::Fixed, &[7]), Ok(()));
    assert_eq!(hybrid(Engine::Hybrid, Allocation::Fixed, &[]), bad);
    assert_eq!(hybrid(Engine::Hybrid, Allocation::Knapsack, &[7]), bad);
    assert_eq!(hybrid(Engine::Queue, Allocation::Knapsack, &[]), Ok(()));
    assert_eq!(hybrid(Engine::Fission, Allocation::Fixed, &[]), Ok(()));
}

/// docs/protocol.md, "Sessions": a lease of 100 ms by a clock that is slow by 0.1 %, counted by one that is fast by it.
#[test]
fn a_session_has_the_lease_that_it_asks_for_and_the_grace_that_drifting_clocks_need() {
    let mut config = config();
    config.namespaces[0].longest_lease = 300_000;
    assert_eq!(config.least_grace(100_000), 201 + 10_000);
    let namespace = &config.namespaces[0];
    let leases = [0, 50_000, 1, 900_000].map(|asked| config.lease(namespace, asked).0);
    assert_eq!(leases, [LEASE, 50_000, config.shortest_lease, 300_000]);
    let patient = Config { shortest_grace: 70_000, ..config.clone() };
    assert_eq!(patient.lease(namespace, 100_000), (100_000, 70_000));
}
