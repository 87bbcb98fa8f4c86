//! The Wireshark dissector: every field, flag and number within a number, entry by entry, and why a packet is bad.

use std::fmt::Write as _;

use super::schema::{Field, Schema, Struct};

/// The script's text.
pub fn emit(schema: &Schema) -> String {
    let mut out = String::from(
        "-- SPDX-License-Identifier: Apache-2.0\n\
         -- Wayside's packets for Wireshark. Generated from wire/messages.toml by `cargo xtask wire`; do not edit.\n\
         -- Use: tshark -X lua_script:wayside.lua, or put it among Wireshark's personal Lua plugins.\n\n\
         local wayside = Proto(\"wayside\", \"Wayside\")\nlocal f = wayside.fields\nlocal names = {}\n\n",
    );
    name_tables(&mut out, schema);
    for structure in &schema.structs {
        fields(&mut out, schema, structure);
    }
    out.push_str("f.blocks = ProtoField.bytes(\"wayside.blocks\", \"Blocks\")\n");
    out.push_str("f.drop = ProtoField.string(\"wayside.drop\", \"Dropped as\")\n\n");
    for structure in &schema.structs {
        dissect_struct(&mut out, schema, structure);
    }
    bodies(&mut out, schema);
    let p = &schema.protocol;
    let limits = format!(
        "local HEADER, ENTRY, MAX_ENTRIES, BLOCK, MAX_BLOCKS = {}, {}, {}, {}, {}\nlocal MAGIC, MAJOR = 0x{:04x}, {}\n",
        schema.limit("header_bytes"),
        schema.limit("entry_bytes"),
        schema.limit("max_entries"),
        schema.limit("block_bytes"),
        schema.limit("max_blocks"),
        p.magic,
        p.major
    );
    out.push_str(&limits);
    out.push_str(DISSECTOR);
    let _ = writeln!(out, "\nDissectorTable.get(\"udp.port\"):add({}, wayside)", p.port);
    out
}

/// The part that no schema changes.
const DISSECTOR: &str = r#"
-- Why a packet is dropped, or nil and the size of its body; faults in the order of docs/packets.md.
local function fault(buffer)
  if buffer:len() < HEADER then return "too_short" end
  if buffer(0, 2):uint() ~= MAGIC then return "bad_magic" end
  if bit.rshift(buffer(2, 1):uint(), 4) ~= MAJOR then return "foreign_version" end
  local bodies = body_of[buffer(3, 1):uint()]
  if not bodies then return "unknown_service" end
  local body = bodies[buffer(4, 1):uint()]
  if not body then return "unknown_kind" end
  local count = buffer(5, 1):uint()
  local least, most, each = 0, 0, 0
  if body.entries then least, most, each = 1, MAX_ENTRIES, ENTRY end
  if body.blocks then most, each = MAX_BLOCKS, BLOCK end
  if count < least or count > most then return "bad_count" end
  if buffer:len() ~= HEADER + body.bytes + count * each then return "bad_length" end
  return nil, body, count
end

function wayside.dissector(buffer, pinfo, tree)
  pinfo.cols.protocol = "Wayside"
  local root = tree:add(wayside, buffer())
  local drop, body, count = fault(buffer)
  if buffer:len() >= HEADER and buffer(0, 2):uint() == MAGIC then
    dissect.header(buffer(0, HEADER), root:add(wayside, buffer(0, HEADER), "Header"))
  end
  if drop then
    root:add(f.drop, drop):set_generated()
    root:add_expert_info(PI_MALFORMED, PI_ERROR, "Dropped as " .. drop)
    pinfo.cols.info = "Dropped as " .. drop
    return buffer:len()
  end
  local info = string.format("%s %d > %d", body.name, buffer(8, 2):uint(), buffer(10, 2):uint())
  if body.entries then
    for index = 0, count - 1 do
      local entry = buffer(HEADER + index * ENTRY, ENTRY)
      dissect.entry(entry, root:add(wayside, entry, "Entry " .. index))
    end
    info = info .. string.format(", %d %s, slot %d", count, count == 1 and "entry" or "entries", buffer(HEADER + 16, 4):uint())
  else
    local whole = buffer(HEADER, body.bytes)
    body.dissect(whole, root:add(wayside, whole, body.title))
    if body.blocks then info = info .. string.format(", %d %s", count, count == 1 and "block" or "blocks") end
    if count > 0 then root:add(f.blocks, buffer(HEADER + body.bytes)) end
  end
  pinfo.cols.info = info
  return buffer:len()
end
"#;

fn name_tables(out: &mut String, schema: &Schema) {
    let mut table = |name: &str, pairs: Vec<(u8, &str)>| {
        let pairs: Vec<String> = pairs.iter().map(|(number, name)| format!("[{number}] = \"{name}\"")).collect();
        let _ = writeln!(out, "names.{name} = {{ {} }}", pairs.join(", "));
    };
    table("service", schema.services.iter().map(|s| (s.number, s.name.as_str())).collect());
    for service in &schema.services {
        let kinds = service.kinds.iter().map(|kind| (kind.number, kind.name.as_str())).collect();
        table(&format!("{}_kind", service.name), kinds);
    }
    for each in &schema.enums {
        table(&each.name, each.values.iter().map(|value| (value.number, value.name.as_str())).collect());
    }
    out.push('\n');
}

/// `wayside.epoch` of the header, `wayside.entry.slot` of others; for scripts: `f.header_epoch`, `f.entry_slot`.
fn filter(structure: &Struct, field: &str) -> String {
    if structure.name == "header" { format!("wayside.{field}") } else { format!("wayside.{}.{field}", structure.name) }
}

fn fields(out: &mut String, schema: &Schema, structure: &Struct) {
    for (_, field) in structure.layout() {
        let (name, abbreviation) = (format!("{}_{}", structure.name, field.name), filter(structure, &field.name));
        let doc = &field.doc;
        if field.is_text() && field.is_reserved() {
            let _ = writeln!(
                out,
                "f.{name} = ProtoField.bytes(\"{abbreviation}\", \"{}\", base.NONE, \"{doc}\")",
                field.name
            );
            continue;
        }
        if field.is_text() {
            let _ = writeln!(
                out,
                "f.{name} = ProtoField.string(\"{abbreviation}\", \"{}\", base.UNICODE, \"{doc}\")",
                field.name
            );
            continue;
        }
        let bits = field.size() * 8;
        let (base, names) = display(structure, field);
        let _ = writeln!(
            out,
            "f.{name} = ProtoField.uint{bits}(\"{abbreviation}\", \"{}\", base.{base}, {names}, nil, \"{doc}\")",
            title(field)
        );
        parts(out, schema, structure, field);
    }
    for service in schema.services.iter().filter(|_| structure.name == "header") {
        let name = format!("{}_kind", service.name);
        let _ = writeln!(
            out,
            "f.{name} = ProtoField.uint8(\"wayside.{}.kind\", \"Kind\", base.DEC, names.{name})",
            service.name
        );
    }
    out.push('\n');
}

/// Flags, and numbers within a number.
fn parts(out: &mut String, schema: &Schema, structure: &Struct, field: &Field) {
    let bits = field.size() * 8;
    for flags in schema.flags.iter().filter(|flags| Some(&flags.name) == field.flags.as_ref()) {
        for flag in &flags.values {
            let (path, mask) = (filter(structure, &format!("{}.{}", field.name, flag.name)), 1u64 << flag.bit);
            let _ = writeln!(
                out,
                "f.{}_{}_{} = ProtoField.bool(\"{path}\", \"{}\", {bits}, nil, {mask:#x}, \"{}\")",
                structure.name, field.name, flag.name, flag.name, flag.doc
            );
        }
    }
    for bitfield in schema.bitfields.iter().filter(|bitfield| Some(&bitfield.name) == field.bitfield.as_ref()) {
        for (low, part) in bitfield.layout() {
            let path = filter(structure, &format!("{}.{}", field.name, part.name));
            let mask = ((1u64 << part.bits) - 1) << low;
            let names = part.enumeration.as_ref().map_or("nil".to_owned(), |name| format!("names.{name}"));
            let _ = writeln!(
                out,
                "f.{}_{}_{} = ProtoField.uint{bits}(\"{path}\", \"{}\", base.DEC, {names}, {mask:#x}, \"{}\")",
                structure.name, field.name, part.name, part.name, part.doc
            );
        }
    }
}

/// Base and table of names. Ids, flags and tags are read in hexadecimal.
fn display(structure: &Struct, field: &Field) -> (&'static str, String) {
    let hexadecimal = ["magic", "version", "flags", "tag", "name", "request", "nonce", "slot_bits", "lifeline"];
    let keys = ["key_high", "key_low", "expected"];
    let base = if hexadecimal.iter().chain(&keys).any(|name| *name == field.name) { "HEX" } else { "DEC" };
    let names = match (&field.enumeration, structure.name.as_str(), field.name.as_str()) {
        (Some(name), ..) => format!("names.{name}"),
        (None, "header", "service") => "names.service".to_owned(),
        _ => "nil".to_owned(),
    };
    (base, names)
}

fn title(field: &Field) -> String {
    let unit = field.unit.as_ref().map_or(String::new(), |unit| format!(" ({unit})"));
    field.name.clone() + &unit
}

fn dissect_struct(out: &mut String, schema: &Schema, structure: &Struct) {
    let name = &structure.name;
    if name == "header" {
        out.push_str("local dissect = {}\n\n");
    }
    let _ = writeln!(out, "function dissect.{name}(buffer, tree)");
    if structure.fields.iter().any(|field| field.flags.is_some() || field.bitfield.is_some()) {
        out.push_str("  local branch\n");
    }
    for (at, field) in structure.layout() {
        let whole = format!("f.{name}_{}, buffer({at}, {})", field.name, field.size());
        let flags = schema.flags.iter().filter(|flags| Some(&flags.name) == field.flags.as_ref());
        let flags = flags.flat_map(|flags| flags.values.iter().map(|flag| &flag.name));
        let bitfields = schema.bitfields.iter().filter(|each| Some(&each.name) == field.bitfield.as_ref());
        let parts: Vec<&String> = flags.chain(bitfields.flat_map(|b| b.fields.iter().map(|part| &part.name))).collect();
        if parts.is_empty() {
            let _ = writeln!(out, "  tree:add({whole})");
        } else {
            let _ = writeln!(out, "  branch = tree:add({whole})");
        }
        for part in parts {
            let _ = writeln!(out, "  branch:add(f.{name}_{}_{part}, buffer({at}, {}))", field.name, field.size());
        }
        if name == "header" && field.name == "kind" {
            for service in &schema.services {
                let kind = format!("tree:add(f.{}_kind, buffer({at}, 1))", service.name);
                let _ = writeln!(out, "  if buffer(3, 1):uint() == {} then {kind} end", service.number);
            }
        }
    }
    out.push_str("end\n\n");
}

fn bodies(out: &mut String, schema: &Schema) {
    out.push_str(
        "-- By service and kind: the body's size and dissector, and whether entries or blocks follow it.\n\
         local body_of = {\n",
    );
    for service in &schema.services {
        let _ = writeln!(out, "  [{}] = {{", service.number);
        for kind in &service.kinds {
            let name = kind.name.to_uppercase();
            let body = match kind.body.as_str() {
                "entries" => "bytes = 0, entries = true".to_owned(),
                body => {
                    let (bytes, title) = (schema.structure(body).bytes, super::rust::camel(body));
                    let blocks = if schema.has_blocks(body) { ", blocks = true" } else { "" };
                    format!("bytes = {bytes}{blocks}, title = \"{title}\", dissect = dissect.{body}")
                }
            };
            let _ = writeln!(out, "    [{}] = {{ name = \"{name}\", {body} }},", kind.number);
        }
        out.push_str("  },\n");
    }
    out.push_str("}\n\n");
}
