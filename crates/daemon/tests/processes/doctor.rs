//! What `wayside doctor` finds at the XDP hook of real interfaces: two hosts in network namespaces, joined by veth.
#![cfg(feature = "xdp")]

use crate::support;

use support::{end, wayside};
use wayside_hosts::Host;

/// The findings about `port`: level and text.
fn findings(host: &Host) -> Vec<(String, String)> {
    let mut command = wayside(&["doctor", "--endpoint", "10.79.0.1:7600", "-o", "json"]);
    host.enter(&mut command);
    let ended = end(command);
    // No switch runs there, which is the one problem.
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("1 of these checks"), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let all = report["findings"].as_array().expect("a list").iter();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().expect("a text").to_owned();
    let ours = all
        .filter(|finding| finding["check"] == "XDP")
        .map(|finding| (text(finding, "level"), text(finding, "finding")));
    ours.filter(|(_, finding)| finding.contains("port0")).collect()
}

#[test]
fn veth_is_told_with_its_driver_its_limits_and_what_has_the_hook() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: doctor in namespaces: {why}");
    }
    let (switch, client) = (Host::new().expect("as above"), Host::new().expect("as above"));
    client.join("eth0", &switch, "port0", 2).expect("veth");
    switch.ip("addr add 10.79.0.1/24 dev port0").expect("an address");
    let found = findings(&switch);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == "note" && found[0].1.contains("veth"), "{found:?}");

    switch.ip("link set port0 mtu 9000").expect("an MTU");
    let found = findings(&switch);
    let mtu = "port0: MTU 9000: if the other end's is above 3506 too, veth takes no native XDP here";
    assert!(found.contains(&("note".into(), mtu.into())), "{found:?}");

    switch.ip("link set port0 mtu 1500").expect("an MTU");
    let program = switch.pass("port0").expect("veth has XDP");
    let found = findings(&switch);
    assert!(
        found.iter().any(|(level, text)| level == "note" && text.contains("another program (number ")),
        "{found:?}"
    );
    drop(program);
    assert_eq!(findings(&switch).len(), 1);
}
