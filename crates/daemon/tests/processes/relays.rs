//! A switch that stands for another rack's switch, with real processes: locks by way of it, a standby there, deaths,
//! and what it lets through (docs/shards.md, "By way of another switch").

use crate::support;

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use support::etcd::Etcd;
use support::{Daemon, Running, connect, end, eventually, three_ports, wayside};
use wayside_client::{Error, Session};
use wayside_hosts::Host;
use wayside_wire::{BODY, Header, Heartbeat, kind};

fn local(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// A switch whose admin port is the next one, as those of relays are.
fn switch(from: u16, flags: &[&str]) -> Daemon {
    Daemon::start_at(&local(three_ports(from)).to_string(), flags)
}

/// A switch with a relay to each of these, and where they are.
fn relaying(from: u16, to: &[SocketAddrV4]) -> (Daemon, Vec<SocketAddrV4>) {
    let relays: Vec<SocketAddrV4> = (0..to.len()).map(|n| local(three_ports(from + 400 * n as u16))).collect();
    let told: Vec<String> = relays.iter().zip(to).map(|(relay, to)| format!("{}={to}", relay.port())).collect();
    (Daemon::start(&["--relays", &told.join(",")]), relays)
}

fn relay_of(daemon: &Daemon, index: usize) -> serde_json::Value {
    daemon.json("status")["relays"][index].clone()
}

fn dropped(daemon: &Daemon, why: &str) -> u64 {
    relay_of(daemon, 0)["dropped"][why].as_u64().unwrap()
}

fn heard(socket: &UdpSocket, for_ms: u64) -> Option<(Vec<u8>, SocketAddrV4)> {
    socket.set_read_timeout(Some(Duration::from_millis(for_ms))).unwrap();
    let mut packet = [0; 2048];
    let (length, from) = socket.recv_from(&mut packet).ok()?;
    let std::net::SocketAddr::V4(from) = from else { panic!("bound to IPv4") };
    Some((packet[..length].to_vec(), from))
}

/// As long as what is to come takes on a loaded machine, and as what must not come is waited for.
const LONG: u64 = 30_000;
const SHORT: u64 = 300;

fn udp() -> (UdpSocket, SocketAddrV4) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, local(port))
}

fn packet() -> Vec<u8> {
    let mut packet = vec![0; BODY + Heartbeat::BYTES];
    Header { kind: kind::fabric::HEARTBEAT, epoch: 7, ..Header::default() }.write(&mut packet);
    packet
}

#[test]
fn locks_are_had_by_way_of_another_switch_and_handed_over_to_those_who_go_straight() {
    let east = switch(21_000, &["--lease", "1s"]);
    let (west, relays) = relaying(23_000, &[east.address]);
    let (far, near) = (connect(relays[0].to_string()), connect(east.address.to_string()));
    let tokens: Vec<_> = (0..200)
        .map(|round| {
            let guard = [&far, &near][round % 2].lock("orders/42").acquire().unwrap();
            guard.token()
        })
        .collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
    let held = far.lock("orders/42").acquire().unwrap();
    assert!(matches!(near.lock("orders/42").try_lock(), Err(Error::Busy { .. })));
    let waiting = std::thread::scope(|scope| {
        let waits = scope.spawn(|| near.lock("orders/42").acquire().map(|guard| guard.token()));
        eventually("it waits", || east.count("orders/42", "waiting") == 1);
        let token = held.token();
        held.release().unwrap();
        (token, waits.join().unwrap().unwrap())
    });
    assert!(waiting.1 > waiting.0);
    // Its own locks are another switch's matter.
    assert_eq!(west.json("status")["sessions"].as_array().unwrap().len(), 0);
    let [on, back] = ["passed_on", "passed_back"].map(|way| relay_of(&west, 0)[way].as_u64().unwrap());
    assert!(on > 100 && back > 100, "{on} on, {back} back");
    let text = end(west.command(&["status"])).stdout;
    assert!(text.contains(&format!("relay: port {} stands for {}: ", relays[0].port(), east.address)), "{text}");
}

/// As from any other host: the switch hears of names by a connection, and of a death by heartbeats that do not come.
#[test]
fn the_names_of_locks_are_known_by_the_relay_too_and_the_dead_are_noticed() {
    let east = switch(25_000, &["--lease", "1s"]);
    let (west, relays) = relaying(27_000, &[east.address]);
    let mut command = wayside(&["lock", "jobs", "--", "sleep", "60"]);
    command.env("WAYSIDE_ENDPOINTS", relays[0].to_string());
    let holder = Running::start(command);
    eventually("its name is known", || east.count("jobs", "held") == 1);
    assert_eq!(relay_of(&west, 0)["connections"], 1);
    drop(holder);
    eventually("its connection is over", || relay_of(&west, 0)["connections"] == 0);
    eventually("its lock is free", || east.lock(&["jobs", "--try", "--", "true"]).code == Some(0));
}

#[test]
fn with_a_relay_to_each_switch_of_a_shard_holders_outlive_the_one_that_serves() {
    let Some(etcd) = Etcd::or_skip("a shard by way of another switch") else { return };
    let flags = ["--etcd", &etcd.url];
    let serves = |daemon: &Daemon| daemon.json("status")["role"].as_str() == Some("serving");
    let mut first = switch(11_000, &flags);
    eventually("the first serves", || serves(&first));
    let second = switch(13_000, &flags);
    let (_west, relays) = relaying(15_000, &[first.address, second.address]);
    let session = connect(format!("{},{}", relays[0], relays[1]));
    assert_eq!(session.switch(), relays[0]);
    let guard = session.lock("jobs").acquire().unwrap();
    first.kill();
    eventually("the second serves", || serves(&second));
    let other = session.lock("other").acquire().unwrap();
    assert_eq!(session.switch(), relays[1], "it has heard of it by the other relay");
    assert!(!guard.is_lost());
    assert_eq!(second.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    guard.release().unwrap();
    other.release().unwrap();
}

#[test]
fn a_relay_passes_packets_of_its_clients_and_its_switch_and_nothing_else() {
    let (behind, to) = udp();
    let (west, relays) = relaying(17_000, &[to]);
    let (client, client_address) = udp();
    client.send_to(&packet(), relays[0]).unwrap();
    let (bytes, port) = heard(&behind, LONG).expect("it is passed on");
    assert_eq!(bytes, packet(), "as it is");
    assert_ne!(port, client_address);
    // The way back, by the port that stands for this switch.
    behind.send_to(b"whatever", port).unwrap();
    assert_eq!(heard(&client, LONG), Some((b"whatever".to_vec(), relays[0])));
    // The same client has the same port, another one another.
    client.send_to(&packet(), relays[0]).unwrap();
    assert_eq!(heard(&behind, LONG).map(|(_, from)| from), Some(port));
    let (other, _) = udp();
    other.send_to(&packet(), relays[0]).unwrap();
    assert_ne!(heard(&behind, LONG).expect("it is passed on").1, port);
    // Nobody but the switch gets through to a client.
    other.send_to(b"forged", port).unwrap();
    assert_eq!(heard(&client, SHORT), None);
    // What is no packet goes nowhere.
    for junk in [vec![], vec![0xff; 64], vec![0; 2000]] {
        client.send_to(&junk, relays[0]).unwrap();
    }
    eventually("they are counted", || dropped(&west, "malformed") == 3);
    assert_eq!(heard(&behind, SHORT), None);
    let metrics = west.scrape();
    for line in [
        format!("wayside_relayed_total{{switch=\"{to}\",way=\"on\"}} 3"),
        format!("wayside_relayed_total{{switch=\"{to}\",way=\"back\"}} 1"),
        format!("wayside_relay_drops_total{{switch=\"{to}\",reason=\"malformed\"}} 3"),
        "wayside_relay_drops_total{switch=\"\",reason=\"stranger\"} 1".into(),
        "wayside_relay_ports 2".into(),
    ] {
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

/// Packets are signed for their switch and their node: the one between has no keys.
#[test]
fn hosts_join_and_enrol_by_a_relay() {
    let port = three_ports(29_000);
    let enrol = local(port + 2).to_string();
    let east = Daemon::start_at(&local(port).to_string(), &["--authentication", "on", "--enrol-listen", &enrol]);
    let (_west, relays) = relaying(20_000, &[east.address]);
    let credentials = east.directory.path().join("credentials");
    let run = |arguments: &[&str]| {
        let mut command = wayside(arguments);
        command.env("WAYSIDE_STATE_DIR", east.directory.path().join("state"));
        command.env("WAYSIDE_CREDENTIALS", &credentials).env("WAYSIDE_ENDPOINTS", relays[0].to_string());
        end(command)
    };
    assert_eq!(run(&["lock", "jobs", "--", "true"]).code, Some(77), "it has not joined");
    let token = run(&["node", "token"]).stdout;
    let joined = run(&["node", "join", token.trim(), "--relay", &relays[0].to_string()]);
    assert_eq!(joined.code, Some(0), "{joined:?}");
    assert!(joined.stdout.contains(&format!("the switch at {}", relays[0])), "{joined:?}");
    let locked = run(&["lock", "jobs", "--", "true"]);
    assert_eq!(locked.code, Some(0), "{locked:?}");
    assert!(run(&["node", "renew"]).stdout.starts_with("not due"));
}

/// However they are set up, no packet goes round in circles.
#[test]
fn nothing_is_relayed_twice() {
    let (behind, to) = udp();
    let admin = TcpListener::bind(local(to.port() + 1));
    let (_second, seconds) = relaying(18_000, &[to]);
    let (first, firsts) = relaying(19_000, &[seconds[0]]);
    let (client, _) = udp();
    client.send_to(&packet(), firsts[0]).unwrap();
    eventually("it is passed on", || relay_of(&first, 0)["passed_on"] == 1);
    assert_eq!(heard(&behind, SHORT), None, "and not taken again");
    client.send_to(&packet(), seconds[0]).unwrap();
    assert!(heard(&behind, LONG).is_some(), "as it is from who sends it there himself");
    let Ok(admin) = admin else { return println!("skipped: connections: the next port is somebody else's") };
    admin.set_nonblocking(true).unwrap();
    let twice = TcpStream::connect(local(firsts[0].port() + 1)).unwrap();
    std::thread::sleep(Duration::from_millis(SHORT));
    assert!(admin.accept().is_err(), "nor a connection");
    drop(twice);
    let _once = TcpStream::connect(local(seconds[0].port() + 1)).unwrap();
    eventually("one that goes straight is", || admin.accept().is_ok());
}

/// The client's host has a way to its own rack's switch, and none to the other one.
#[test]
fn who_reaches_one_switch_alone_has_the_locks_of_both() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: hosts in namespaces: {why}");
    }
    let [client, west, east] = [(); 3].map(|()| Host::new().unwrap());
    client.join("eth0", &west, "port0", 1).unwrap();
    west.join("uplink", &east, "eth0", 1).unwrap();
    client.ip("addr add 10.81.1.2/24 dev eth0").unwrap();
    west.ip("addr add 10.81.1.1/24 dev port0\naddr add 10.81.0.1/24 dev uplink").unwrap();
    east.ip("addr add 10.81.0.2/24 dev eth0").unwrap();
    // Relays are at the address of the rack: where they send from, the other rack has to have a way back to.
    east.ip("route add 10.81.1.1/32 via 10.81.0.1").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let start = |host: &Host, shard: &str, listen: &str, more: &[&str]| {
        let flags =
            ["switch", "--mode", "userspace", "--authentication", "off", "--shards", "east,west", "--lease", "1s"];
        let mut command = wayside(&[&flags[..], &["--shard", shard, "--listen", listen], more].concat());
        command.env("WAYSIDE_STATE_DIR", directory.path().join(shard));
        command.env("WAYSIDE_SOCKET", directory.path().join(format!("{shard}.sock")));
        host.enter(&mut command);
        let running = Running::start(command);
        assert!(running.line().contains("userspace on"));
        running
    };
    let _east = start(&east, "east", "10.81.0.2:7600", &[]);
    let west_daemon = start(&west, "west", "10.81.1.1:7600", &["--relays", "7610=10.81.0.2:7600"]);
    let straight = client.within(|| Session::connect("east=10.81.0.2:7600;west=10.81.1.1:7600"));
    assert!(straight.is_err(), "there is no way");
    let by_relay = "east=10.81.1.1:7610;west=10.81.1.1:7600";
    client.within(|| {
        let session = connect(by_relay);
        let names: Vec<String> = (0..64).map(|number| format!("job-{number}")).collect();
        let guards = session.lock_many(names.iter().map(String::as_str)).acquire().unwrap();
        assert_eq!(guards.each().len(), 64, "both shards'");
        // What dies with the switch between is the way.
        drop(west_daemon);
        eventually("sessions end with their leases", || guards.each().iter().all(|guard| guard.is_lost()));
    });
    fs::remove_dir_all(directory.path().join("west")).unwrap();
}
