//! The Rust half: constants, enums, flags, structs with their places, words. `crates/wire` builds its checks on it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::schema::{Bitfield, Schema, Struct};

/// What the rest builds on.
const PRELUDE: &str = "\
// SPDX-License-Identifier: Apache-2.0
//! Wayside's packets. Generated from wire/messages.toml by `cargo xtask wire`; do not edit.

/// A number that names nothing in an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(pub u8);

/// The `N` bytes at `at`.
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
bytes[at..].first_chunk().expect(\"long enough\")
}

#[inline]
fn array_mut<const N: usize>(bytes: &mut [u8], at: usize) -> &mut [u8; N] {
bytes[at..].first_chunk_mut().expect(\"long enough\")
}

/// `width` (1 to 63) bits of a word, the lowest at `low`.
const fn bits(word: u64, low: u32, width: u32) -> u64 {
word >> low & !(!0 << width)
}

const fn with_bits(word: u64, low: u32, width: u32, x: u64) -> u64 {
word & !(!(!0 << width) << low) | (x & !(!0 << width)) << low
}
";

/// The module's text, as rustfmt has it.
pub fn emit(schema: &Schema) -> Result<String, String> {
    let mut out = String::from(PRELUDE);
    protocol(&mut out, schema);
    kinds(&mut out, schema);
    for flags in &schema.flags {
        out.push_str(&format!("\n/// {}\npub mod {} {{\n", flags.doc, flags.name));
        for flag in &flags.values {
            constant(&mut out, &flag.name, &format!("u{}", flags.bits), &format!("1 << {}", flag.bit), &flag.doc);
        }
        out.push_str("}\n");
    }
    for each in &schema.enums {
        let values: Vec<_> = each.values.iter().map(|v| (v.name.as_str(), v.number, v.doc.as_str())).collect();
        enumeration(&mut out, &each.name, &each.doc, &values);
    }
    for structure in &schema.structs {
        packed(&mut out, structure);
    }
    for bitfield in &schema.bitfields {
        words(&mut out, bitfield);
    }
    rustfmt(out)
}

/// `heartbeat_ack` as `HeartbeatAck`.
pub fn camel(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(capital).collect()
}

fn constant(out: &mut String, name: &str, kind: &str, value: &str, doc: &str) {
    out.push_str(&format!("\n/// {}\npub const {}: {kind} = {value};\n", sentence(doc), name.to_uppercase()));
}

/// With a capital and a full stop.
fn sentence(doc: &str) -> String {
    let stop = if doc.ends_with('.') { "" } else { "." };
    doc[..1].to_uppercase() + &doc[1..] + stop
}

fn protocol(out: &mut String, schema: &Schema) {
    let p = &schema.protocol;
    constant(out, "port", "u16", &p.port.to_string(), "UDP port of the switch's address");
    constant(out, "admin_port", "u16", &p.admin_port.to_string(), "TCP port of the control connection");
    constant(out, "magic", "u16", &format!("0x{:04x}", p.magic), "first two bytes of a packet");
    constant(out, "major", "u8", &p.major.to_string(), "version; packets of another are dropped");
    constant(out, "minor", "u8", &p.minor.to_string(), "minor version; any is accepted");
    constant(out, "version", "u8", "MAJOR << 4 | MINOR", "the version byte");
    out.push_str("\n/// Limits.\npub mod limits {\n");
    for limit in schema.limits() {
        let kind = limit.bits.map_or("usize".to_owned(), |bits| format!("u{bits}"));
        constant(out, &limit.name, &kind, &limit.value.to_string(), &limit.doc);
    }
    out.push_str("}\n");
}

fn kinds(out: &mut String, schema: &Schema) {
    let services: Vec<_> = schema.services.iter().map(|s| (s.name.as_str(), s.number, s.doc.as_str())).collect();
    enumeration(out, "service", "A service.", &services);
    out.push_str("\n/// Services by number.\npub mod service {\n");
    for service in &schema.services {
        constant(out, &service.name, "u8", &service.number.to_string(), &service.doc);
    }
    out.push_str("}\n\n/// Kinds by number, per service.\npub mod kind {\n");
    for service in &schema.services {
        out.push_str(&format!("\n/// {}\npub mod {} {{\n", service.doc, service.name));
        for kind in &service.kinds {
            constant(out, &kind.name, "u8", &kind.number.to_string(), &kind.doc);
        }
        out.push_str("}\n");
    }
    out.push_str("}\n");
    for service in &schema.services {
        let values: Vec<_> = service.kinds.iter().map(|k| (k.name.as_str(), k.number, k.doc.as_str())).collect();
        enumeration(
            out,
            &format!("{}_kind", service.name),
            &format!("Kinds of the {} service.", service.name),
            &values,
        );
    }
    bodies(out, schema);
}

fn bodies(out: &mut String, schema: &Schema) {
    out.push_str(
        "\n/// What follows the header.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum Body {\n\
         /// As many entries as the header counts.\nEntries,\n",
    );
    // Some structs lie in blocks, and are no kind's body.
    let is_body = |name: &str| schema.services.iter().flat_map(|service| &service.kinds).any(|kind| kind.body == name);
    let bodies: Vec<&Struct> = schema.structs.iter().filter(|structure| is_body(&structure.name)).collect();
    for body in &bodies {
        let blocks = if schema.has_blocks(&body.name) { ", and as many blocks as the header counts" } else { "" };
        out.push_str(&format!("/// One [`{0}`](struct@{0}){blocks}.\n{0},\n", camel(&body.name)));
    }
    out.push_str(
        "}\n\nimpl Body {\n/// Bytes after the header.\npub const fn bytes(self, count: u8) -> usize {\nmatch self {\n",
    );
    out.push_str("Body::Entries => count as usize * Entry::BYTES,\n");
    for body in &bodies {
        let blocks = if schema.has_blocks(&body.name) { " + count as usize * limits::BLOCK_BYTES" } else { "" };
        out.push_str(&format!("Body::{0} => {0}::BYTES{blocks},\n", camel(&body.name)));
    }
    out.push_str(
        "}\n}\n\n/// Whether there may be as many entries or blocks; 0 where there are neither.\n\
         pub const fn count_fits(self, count: u8) -> bool {\nlet count = count as usize;\nmatch self {\n\
         Body::Entries => count >= 1 && count <= limits::MAX_ENTRIES,\n",
    );
    let with: Vec<&&Struct> = bodies.iter().filter(|body| schema.has_blocks(&body.name)).collect();
    let patterns: Vec<String> = with.iter().map(|body| format!("Body::{}", camel(&body.name))).collect();
    if !patterns.is_empty() {
        out.push_str(&format!("{} => count <= limits::MAX_BLOCKS,\n", patterns.join(" | ")));
    }
    out.push_str("_ => count == 0,\n}\n}\n}\n");
    for service in &schema.services {
        let kind = format!("{}Kind", camel(&service.name));
        out.push_str(&format!("\nimpl {kind} {{\n/// What follows the header.\npub const fn body(self) -> Body {{\n"));
        let first = &service.kinds[0].body;
        if service.kinds.iter().all(|kind| kind.body == *first) {
            out.push_str(&format!("Body::{}\n}}\n}}\n", camel(first)));
            continue;
        }
        out.push_str("match self {\n");
        for structure in ["entries"].into_iter().chain(bodies.iter().map(|body| body.name.as_str())) {
            let with = service.kinds.iter().filter(|kind| kind.body == structure);
            let patterns: Vec<String> =
                with.map(|kind| format!("{}Kind::{}", camel(&service.name), camel(&kind.name))).collect();
            if !patterns.is_empty() {
                out.push_str(&format!("{} => Body::{},\n", patterns.join(" | "), camel(structure)));
            }
        }
        out.push_str("}\n}\n}\n");
    }
}

fn enumeration(out: &mut String, name: &str, doc: &str, values: &[(&str, u8, &str)]) {
    let camel_name = camel(name);
    out.push_str(&format!(
        "\n/// {}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u8)]\npub enum {camel_name} {{\n",
        sentence(doc)
    ));
    for (value, number, doc) in values {
        out.push_str(&format!("/// {}\n{} = {number},\n", sentence(doc), camel(value)));
    }
    out.push_str(&format!("}}\n\nimpl {camel_name} {{\n/// Every one, in the order of their numbers.\n"));
    let all: Vec<String> = values.iter().map(|(value, ..)| format!("{camel_name}::{}", camel(value))).collect();
    out.push_str(&format!("pub const ALL: [{camel_name}; {}] = [{}];\n", all.len(), all.join(", ")));
    out.push_str("\n/// Its name in the schema, for people and metrics.\npub const fn name(self) -> &'static str {\nmatch self {\n");
    for (value, ..) in values {
        out.push_str(&format!("{camel_name}::{} => \"{value}\",\n", camel(value)));
    }
    out.push_str(&format!(
        "}}\n}}\n}}\n\nimpl TryFrom<u8> for {camel_name} {{\ntype Error = Unknown;\n\n\
         fn try_from(number: u8) -> Result<Self, Unknown> {{\nmatch number {{\n"
    ));
    for (value, number, _) in values {
        out.push_str(&format!("{number} => Ok({camel_name}::{}),\n", camel(value)));
    }
    out.push_str("_ => Err(Unknown(number)),\n}\n}\n}\n");
}

/// A struct with its fields' offsets. One that has fixed fields (the header) is read and written by `crates/wire`,
/// which checks them, so its own functions are named otherwise and hidden.
fn packed(out: &mut String, structure: &Struct) {
    let name = camel(&structure.name);
    let has_fixed = structure.fields.iter().any(|field| field.fixed);
    let carried: Vec<_> = structure.layout().filter(|(_, field)| !field.fixed && !field.is_reserved()).collect();
    out.push_str(&format!(
        "\n/// {}\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\npub struct {name} {{\n",
        sentence(&structure.doc)
    ));
    for (_, field) in &carried {
        let unit = field.unit.as_ref().map_or(String::new(), |unit| format!(" In {unit}."));
        let kind = if field.is_text() { format!("[u8; {}]", field.size()) } else { format!("u{}", field.size() * 8) };
        out.push_str(&format!("/// {}{unit}\npub {}: {kind},\n", sentence(&field.doc), field.name));
    }
    out.push_str(&format!("}}\n\nimpl {name} {{\n/// Its length.\npub const BYTES: usize = {};\n", structure.bytes));
    let (visibility, read, write) =
        if has_fixed { ("pub(crate)", "read_fields", "write_fields") } else { ("pub", "read", "write") };
    out.push_str(&format!(
        "\n/// Reads it at `at`; `packet` must reach that far, which [`crate::check`] has seen to.\n#[inline]\n\
         {visibility} fn {read}(packet: &[u8], at: usize) -> Self {{\nlet bytes: &[u8; {}] = array(packet, at);\n{name} {{\n",
        structure.bytes
    ));
    for (at, field) in &carried {
        let value = match (field.is_text(), field.size()) {
            (true, _) => format!("*array(bytes, {at})"),
            (false, 1) => format!("bytes[{at}]"),
            (false, size) => format!("u{}::from_be_bytes(*array(bytes, {at}))", size * 8),
        };
        out.push_str(&format!("{}: {value},\n", field.name));
    }
    out.push_str(&format!(
        "}}\n}}\n\n/// Writes it at `at`, all of its bytes; reserved ones as zero.\n#[inline]\n\
         {visibility} fn {write}(&self, packet: &mut [u8], at: usize) {{\nlet bytes: &mut [u8; {}] = array_mut(packet, at);\n",
        structure.bytes
    ));
    for (at, field) in structure.layout() {
        let value = match (field.fixed, field.is_reserved(), field.is_text()) {
            (true, ..) => format!("{}.to_be_bytes()", field.name.to_uppercase()),
            (_, true, _) => format!("[0; {}]", field.size()),
            (.., true) => format!("self.{}", field.name),
            _ => format!("self.{}.to_be_bytes()", field.name),
        };
        out.push_str(&format!("*array_mut(bytes, {at}) = {value};\n"));
    }
    out.push_str("}\n}\n");
}

fn words(out: &mut String, bitfield: &Bitfield) {
    let word = format!("u{}", bitfield.bits);
    let (widen, narrow) = if bitfield.bits == 64 { ("", String::new()) } else { (" as u64", format!(" as {word}")) };
    out.push_str(&format!("\n/// {}\npub mod {} {{\nuse super::{{bits, with_bits}};\n", bitfield.doc, bitfield.name));
    for (low, field) in bitfield.layout() {
        let (name, width) = (&field.name, field.bits);
        let kind = format!("u{}", width.next_power_of_two().max(8));
        let (to, from) = if kind == "u64" { ("", String::new()) } else { (" as u64", format!(" as {kind}")) };
        out.push_str(&format!(
            "\n/// {doc}\n#[inline]\npub const fn {name}(word: {word}) -> {kind} {{\nbits(word{widen}, {low}, {width}){from}\n}}\n\
             \n/// The word with another {name}, of which it keeps the low {width} bits.\n#[inline]\n\
             pub const fn with_{name}(word: {word}, {name}: {kind}) -> {word} {{\n\
             with_bits(word{widen}, {low}, {width}, {name}{to}){narrow}\n}}\n",
            doc = sentence(&field.doc)
        ));
    }
    out.push_str("}\n");
}

fn rustfmt(text: String) -> Result<String, String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--config-path", concat!(env!("CARGO_MANIFEST_DIR"), "/..")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("rustfmt: {error}; `rustup component add rustfmt` installs it"))?;
    let mut input = child.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).map_err(|error| format!("rustfmt: {error}"))?;
    drop(input);
    let output = child.wait_with_output().map_err(|error| format!("rustfmt: {error}"))?;
    if !output.status.success() {
        return Err("rustfmt refused what was generated".to_owned());
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
