//! The page of the packets, `docs/packets.md`: diagrams in the style of RFCs, and tables.

use std::fmt::Write as _;

use super::schema::{Bitfield, Enum, Field, Flags, Schema, Service, Struct};

/// The page's text.
pub fn emit(schema: &Schema) -> String {
    let mut out = String::from(
        "# Packets\n\nGenerated from `wire/messages.toml` by `cargo xtask wire`; do not edit. What the messages mean is \
         in [protocol.md](protocol.md).\n\n\
         A packet is one UDP payload: the header, then either 1 to 32 entries or the one body of its kind, which in \
         some kinds 0 to 30 blocks of 32 bytes follow, and nothing else. Numbers are unsigned, in network byte order. \
         Text is UTF-8, padded with zeros.\n\n",
    );
    protocol(&mut out, schema);
    for structure in &schema.structs {
        layout(&mut out, structure);
    }
    for bitfield in schema.bitfields.iter().filter(|bitfield| !bitfield.memory) {
        bits(&mut out, bitfield);
    }
    for flags in &schema.flags {
        flag_table(&mut out, flags);
    }
    for service in &schema.services {
        kinds(&mut out, service);
    }
    for each in &schema.enums {
        values(&mut out, each);
    }
    out.push_str("## Words\n\nNot in packets, but read by more than one part, so defined once too.\n\n");
    for bitfield in schema.bitfields.iter().filter(|bitfield| bitfield.memory) {
        bits(&mut out, bitfield);
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn protocol(out: &mut String, schema: &Schema) {
    let p = &schema.protocol;
    let _ = write!(
        out,
        "## Ports and version\n\n| what | value |\n| --- | --- |\n\
         | packets | UDP port {} of the switch |\n| control connection of nodes and commands | TCP port {} |\n\
         | magic | 0x{:04x} |\n| version | {}.{} (byte 0x{:02x}) |\n\n\
         * Same major version: a newer minor one only adds services, kinds, flags, and bits and bytes that were \
         reserved. Receivers accept it, ignore what is reserved, and drop services and kinds that they do not know as \
         `unknown_service` and `unknown_kind`.\n\
         * Another major version is dropped as `foreign_version`. An ENROL of one is answered REFUSED with reason \
         `version`, and names the version that the switch speaks.\n\
         * Faults are looked for in this order, and the first one names the drop: `too_short`, `bad_magic`, \
         `foreign_version`, `unknown_service`, `unknown_kind`, `bad_count`, `bad_length`.\n\n\
         ## Limits\n\n| limit | value | |\n| --- | ---: | --- |\n",
        p.port,
        p.admin_port,
        p.magic,
        p.major,
        p.minor,
        schema.version()
    );
    for limit in schema.limits() {
        let _ = writeln!(out, "| {} | {} | {} |", limit.name, grouped(limit.value), limit.doc);
    }
    out.push('\n');
}

/// With commas between thousands.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let grouped = digits.char_indices().map(|(at, digit)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        if comma { format!(",{digit}") } else { digit.to_string() }
    });
    grouped.collect()
}

fn layout(out: &mut String, structure: &Struct) {
    let name = &structure.name;
    let _ = write!(out, "## {}, {} bytes\n\n{}\n\n", title(name), structure.bytes, structure.doc);
    let _ = write!(out, "```text\n{}```\n\n", diagram(structure));
    out.push_str("| byte | field | bits | unit | |\n| ---: | --- | ---: | --- | --- |\n");
    for (at, field) in structure.layout() {
        let unit = unit(field);
        let _ = writeln!(out, "| {at} | {} | {} | {unit} | {} |", field.name, field.size() * 8, field.doc);
    }
    out.push('\n');
}

fn unit(field: &Field) -> String {
    let refers = field.bitfield.as_ref().or(field.flags.as_ref()).or(field.enumeration.as_ref());
    match (&field.unit, refers) {
        (Some(unit), _) => unit.clone(),
        (None, Some(name)) => format!("[{name}](#{name})"),
        (None, None) if field.is_text() && !field.is_reserved() => "text".to_owned(),
        (None, None) => String::new(),
    }
}

/// 32 bits a row, two characters a bit.
fn diagram(structure: &Struct) -> String {
    let rule = "+-".repeat(32) + "+\n";
    let ones: String = (0..32).map(|bit| format!(" {}", bit % 10)).collect();
    let tens: String = (0..32).map(|bit| if bit % 10 == 0 { format!(" {}", bit / 10) } else { "  ".into() }).collect();
    let mut out = format!("{}\n{}\n{rule}", tens.trim_end(), ones);
    let mut row = 0;
    for field in &structure.fields {
        let rows = field.size() / 4;
        if rows <= 1 {
            let width = field.size() * 16 - 1;
            let _ = write!(out, "|{:^width$}", field.name);
            row += field.size();
            if row.is_multiple_of(4) {
                let _ = write!(out, "|\n{rule}");
            }
            continue;
        }
        let label =
            if field.is_text() { format!("{} ({} bytes)", field.name, field.size()) } else { field.name.clone() };
        // Long text is not drawn row by row: 3 rows say that there are more.
        let drawn = if field.is_text() { 3 } else { rows };
        for line in 0..drawn {
            let edge = if field.is_text() && line == 1 { '/' } else { '|' };
            let text = if line == (drawn - 1) / 2 { label.as_str() } else { "" };
            let gap = if line + 1 == drawn { rule.clone() } else { format!("+{:63}+\n", "") };
            let _ =
                write!(out, "{edge}{text:^63}{edge}\n{}", if field.is_text() && line + 1 < drawn { "" } else { &gap });
        }
    }
    out
}

fn bits(out: &mut String, bitfield: &Bitfield) {
    let _ = write!(out, "### {}\n\n{}\n\n", bitfield.name, bitfield.doc);
    out.push_str("| bits | field | |\n| ---: | --- | --- |\n");
    for (low, field) in bitfield.layout() {
        let high = low + field.bits - 1;
        let place = if high == low { low.to_string() } else { format!("{high}..{low}") };
        let refers = field.enumeration.as_ref().map_or(String::new(), |name| format!(" ([{name}](#{name}))"));
        let _ = writeln!(out, "| {place} | {} | {}{refers} |", field.name, field.doc);
    }
    out.push('\n');
}

fn flag_table(out: &mut String, flags: &Flags) {
    let _ = write!(out, "### {}\n\n{}\n\n| bit | flag | |\n| ---: | --- | --- |\n", flags.name, flags.doc);
    for flag in &flags.values {
        let _ = writeln!(out, "| {} | {} | {} |", flag.bit, flag.name.to_uppercase(), flag.doc);
    }
    out.push_str("\nThe other bits are zero, and ignored.\n\n");
}

fn kinds(out: &mut String, service: &Service) {
    let _ = write!(out, "## Kinds of the {} service ({})\n\n{}\n\n", service.name, service.number, service.doc);
    out.push_str("| kind | message | body | |\n| ---: | --- | --- | --- |\n");
    for kind in &service.kinds {
        let (name, body) = (kind.name.to_uppercase(), &kind.body);
        let blocks = if service.blocks || kind.blocks { ", blocks" } else { "" };
        let _ = writeln!(out, "| {} | {name} | {body}{blocks} | {} |", kind.number, kind.doc);
    }
    out.push('\n');
}

fn values(out: &mut String, each: &Enum) {
    let _ = write!(out, "### {}\n\n{}\n\n| number | name | |\n| ---: | --- | --- |\n", each.name, each.doc);
    for value in &each.values {
        let _ = writeln!(out, "| {} | {} | {} |", value.number, value.name, value.doc);
    }
    out.push('\n');
}

fn title(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}
