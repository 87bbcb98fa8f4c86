//! The Wireshark dissector on a real capture: the golden vectors go over a loopback interface of their own, tshark
//! captures and dissects them, and every field must come out as the vectors have it.

#[expect(dead_code, reason = "fields are taken by the names that tshark knows, not one by one")]
mod golden;

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use golden::{Vector, parse, repository, vectors};
use serde_json::Value;
use wayside_wire::{PORT, Service, entry_flag, slot_bits, value_flag};

/// Set for the copy of this test that runs in the network namespace.
const INSIDE: &str = "WAYSIDE_TEST_INSIDE_NAMESPACE";

#[test]
fn tshark_decodes_what_was_sent() {
    if std::env::var_os(INSIDE).is_some() {
        return capture_and_compare();
    }
    if let Some(missing) = missing() {
        eprintln!("skipped: the Wireshark dissector was not tested: {missing}");
        return;
    }
    let myself = std::env::current_exe().expect("this test");
    let inside = Command::new("unshare")
        .arg("--net")
        .arg(myself)
        .args(["--exact", "tshark_decodes_what_was_sent", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare runs");
    let said = [inside.stdout, inside.stderr].concat();
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// What this machine lacks for the test.
fn missing() -> Option<&'static str> {
    let runs = |program: &str, arguments: &[&str]| {
        let silent = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        silent.is_ok_and(|status| status.success())
    };
    if !runs("tshark", &["--version"]) {
        return Some("tshark is not installed (Debian: apt-get install tshark)");
    }
    (!runs("unshare", &["--net", "true"])).then_some("a network namespace and a capture need root")
}

fn capture_and_compare() {
    let sent: Vec<Vector> = vectors().into_iter().filter(|vector| !vector.bytes.is_empty()).collect();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wayside-{}.pcapng", std::process::id()));
    capture(&sent, &file);
    let names = field_names(&sent);
    let rows = dissect(&file, &names);
    fs::remove_file(&file).expect("the capture is there");
    assert_eq!(rows.len(), sent.len());
    for (vector, row) in sent.iter().zip(rows) {
        let shown: Vec<(&str, Vec<&str>)> =
            names.iter().map(String::as_str).zip(row.iter().map(|cell| split(cell))).collect();
        let of = |name: &str| shown.iter().find(|(field, _)| *field == name).expect("asked for").1.clone();
        if vector.drop != "none" {
            assert_eq!(of("wayside.drop"), [vector.drop.as_str()], "{}", vector.name);
            continue;
        }
        assert_eq!(of("wayside.drop"), [""; 0], "{}", vector.name);
        compare(vector, of);
    }
}

/// Sends the vectors over this namespace's loopback while tshark writes what passes to `file`.
fn capture(sent: &[Vector], file: &Path) {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip runs");
    assert!(up.success(), "the namespace's loopback comes up");
    let mut tshark = Command::new("tshark")
        .args(["-q", "-i", "lo", "-f", &format!("udp port {PORT}"), "-a", "duration:30"])
        .args(["-c", &sent.len().to_string(), "-w"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("tshark runs");
    // The file has its header once the interface is open.
    let deadline = Instant::now() + Duration::from_secs(20);
    while fs::metadata(file).map_or(0, |metadata| metadata.len()) == 0 {
        assert!(Instant::now() < deadline, "tshark does not begin to capture");
        sleep(Duration::from_millis(50));
    }
    let switch = UdpSocket::bind(("127.0.0.1", PORT)).expect("nobody else is in this namespace");
    let node = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for vector in sent {
        node.send_to(&vector.bytes, switch.local_addr().expect("bound")).expect("loopback takes it");
    }
    assert!(tshark.wait().expect("tshark ends").success());
}

/// All that the dissector has been asked to show, by the vectors' names of fields.
fn field_names(sent: &[Vector]) -> Vec<String> {
    let header = sent.iter().flat_map(|vector| vector.header.0.keys()).map(|key| format!("wayside.{key}"));
    let parts = sent.iter().flat_map(|vector| {
        let part = vector.part;
        vector.parts.iter().flat_map(move |fields| fields.0.keys().map(move |key| format!("wayside.{part}.{key}")))
    });
    let more = ["drop", "fabric.kind", "lock.kind", "queue.kind", "chain.kind", "blocks", "operation.flags.present"];
    let more = more.into_iter().chain(["entry.slot_bits.state", "entry.slot_bits.transferred"]);
    let more = more.chain(["entry.slot_bits.tryable", "entry.slot_bits.joins", "entry.flags.exclusive"]);
    let mut names: Vec<String> = header.chain(parts).chain(more.map(|name| format!("wayside.{name}"))).collect();
    names.sort();
    names.dedup();
    names
}

/// One row a packet, one cell a field.
fn dissect(file: &Path, names: &[String]) -> Vec<Vec<String>> {
    let script: PathBuf = repository().join("wire/gen/wayside.lua");
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .arg("-X")
        .arg(format!("lua_script:{}", script.display()))
        .args(["-T", "fields", "-E", "separator=|", "-E", "aggregator=;", "-E", "occurrence=a"])
        .args(names.iter().flat_map(|name| ["-e", name]))
        .output()
        .expect("tshark runs");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

fn split(cell: &str) -> Vec<&str> {
    if cell.is_empty() { Vec::new() } else { cell.split(';').collect() }
}

fn compare<'a>(vector: &Vector, of: impl Fn(&str) -> Vec<&'a str>) {
    let name = &vector.name;
    let numbers = |field: &str| of(field).into_iter().map(parse).collect::<Vec<u64>>();
    for key in vector.header.0.keys() {
        assert_eq!(numbers(&format!("wayside.{key}")), [vector.header.number(key)], "{name}: {key}");
    }
    let service = Service::try_from(vector.header.as_u8("service")).expect("a good packet").name();
    let kind = vector.header.number("kind");
    assert_eq!(numbers(&format!("wayside.{service}.kind")), [kind], "{name}: kind of its service");
    for (key, value) in &vector.parts[0].0 {
        let field = format!("wayside.{}.{key}", vector.part);
        if let (Value::String(text), "namespace_name" | "host") = (value, key.as_str()) {
            assert_eq!(of(&field).join(""), *text, "{name}: {key}");
            continue;
        }
        let wanted: Vec<u64> = vector.parts.iter().map(|fields| fields.number(key)).collect();
        assert_eq!(numbers(&field), wanted, "{name}: {key}");
    }
    let blocks: String = vector.blocks.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(of("wayside.blocks").join(""), blocks, "{name}: blocks");
    if vector.part == "operation" {
        let present = vector.parts[0].as_u16("flags") & value_flag::PRESENT != 0;
        let shown: Vec<bool> = of("wayside.operation.flags.present").into_iter().map(is_set).collect();
        assert_eq!(shown, [present], "{name}: present");
    }
    if vector.part == "entry" {
        compare_bits(vector, numbers, of("wayside.entry.flags.exclusive"));
    }
}

fn is_set(cell: &str) -> bool {
    matches!(cell, "1" | "True")
}

/// Numbers within numbers, and a flag.
fn compare_bits(vector: &Vector, numbers: impl Fn(&str) -> Vec<u64>, exclusive: Vec<&str>) {
    let of_bits = |part: &str, number: &dyn Fn(u16) -> u64| {
        let wanted: Vec<u64> = vector.parts.iter().map(|fields| number(fields.as_u16("slot_bits"))).collect();
        assert_eq!(numbers(&format!("wayside.entry.slot_bits.{part}")), wanted, "{}: {part}", vector.name);
    };
    of_bits("state", &|word| slot_bits::state(word).into());
    of_bits("transferred", &|word| slot_bits::transferred(word).into());
    of_bits("tryable", &|word| slot_bits::tryable(word).into());
    of_bits("joins", &|word| slot_bits::joins(word).into());
    let shown: Vec<bool> = exclusive.into_iter().map(is_set).collect();
    let set = |flags: u8| flags & entry_flag::EXCLUSIVE != 0;
    let wanted: Vec<bool> = vector.parts.iter().map(|fields| set(fields.as_u8("flags"))).collect();
    assert_eq!(shown, wanted, "{}: exclusive", vector.name);
}
