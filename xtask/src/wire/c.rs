//! The C header: constants, accessors of packed big-endian fields, and of numbers packed into words.

use super::schema::{Bitfield, Bits, Field, Schema, Struct};

/// What precedes the constants. Accessors must compile to single loads in BPF and be well defined natively.
const PRELUDE: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Wayside's packets. Generated from wire/messages.toml by `cargo xtask wire`; do not edit. */
#ifndef WAYSIDE_WIRE_H
#define WAYSIDE_WIRE_H

typedef __UINT8_TYPE__ ws_u8;
typedef __UINT16_TYPE__ ws_u16;
typedef __UINT32_TYPE__ ws_u32;
typedef __UINT64_TYPE__ ws_u64;

#define WS_INLINE static inline __attribute__((always_inline, unused))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WS_SWAP16(x) __builtin_bswap16(x)
#define WS_SWAP32(x) __builtin_bswap32(x)
#define WS_SWAP64(x) __builtin_bswap64(x)
#else
#define WS_SWAP16(x) (x)
#define WS_SWAP32(x) (x)
#define WS_SWAP64(x) (x)
#endif

/* A packet may start at any address. Natively the compiler must be told (packed). For BPF it must not be: it would
 * load byte by byte, while the kernel accepts unaligned loads from packets where the CPU does. */
#ifdef __bpf__
#define WS_ANYWHERE __attribute__((may_alias))
#else
#define WS_ANYWHERE __attribute__((may_alias, packed))
#endif
struct ws_be16 { ws_u16 bits; } WS_ANYWHERE;
struct ws_be32 { ws_u32 bits; } WS_ANYWHERE;
struct ws_be64 { ws_u64 bits; } WS_ANYWHERE;

WS_INLINE ws_u8 ws_load8(const void *p) { return *(const ws_u8 *)p; }
WS_INLINE ws_u16 ws_load16(const void *p) { return WS_SWAP16(((const struct ws_be16 *)p)->bits); }
WS_INLINE ws_u32 ws_load32(const void *p) { return WS_SWAP32(((const struct ws_be32 *)p)->bits); }
WS_INLINE ws_u64 ws_load64(const void *p) { return WS_SWAP64(((const struct ws_be64 *)p)->bits); }
WS_INLINE void ws_store8(void *p, ws_u8 x) { *(ws_u8 *)p = x; }
WS_INLINE void ws_store16(void *p, ws_u16 x) { ((struct ws_be16 *)p)->bits = WS_SWAP16(x); }
WS_INLINE void ws_store32(void *p, ws_u32 x) { ((struct ws_be32 *)p)->bits = WS_SWAP32(x); }
WS_INLINE void ws_store64(void *p, ws_u64 x) { ((struct ws_be64 *)p)->bits = WS_SWAP64(x); }

/* `width` (1 to 63) bits of a word, the lowest at `low`. Writing keeps the low bits of x. */
WS_INLINE ws_u64 ws_bits(ws_u64 word, int low, int width) { return word >> low & ~(~0ull << width); }
WS_INLINE ws_u64 ws_with_bits(ws_u64 word, int low, int width, ws_u64 x)
{
	return (word & ~(~(~0ull << width) << low)) | (x & ~(~0ull << width)) << low;
}
";

/// The header's text.
pub fn emit(schema: &Schema) -> String {
    let mut out = String::from(PRELUDE);
    protocol(&mut out, schema);
    enums(&mut out, schema);
    for structure in &schema.structs {
        accessors(&mut out, structure);
    }
    for bitfield in &schema.bitfields {
        words(&mut out, bitfield);
    }
    lengths(&mut out, schema);
    names(&mut out, schema);
    out.push_str("\n#endif /* WAYSIDE_WIRE_H */\n");
    out
}

fn heading(out: &mut String, text: &str) {
    out.push_str(&format!("\n/* {text} */\n"));
}

fn define(out: &mut String, name: &str, value: &str, doc: &str) {
    let line = format!("#define WS_{} {value}", name.to_uppercase());
    out.push_str(&format!("{line:<44} /* {doc} */\n"));
}

fn number(value: u64) -> String {
    if value > u64::from(u16::MAX) { format!("{value}u") } else { value.to_string() }
}

fn protocol(out: &mut String, schema: &Schema) {
    let p = &schema.protocol;
    heading(out, "The protocol.");
    define(out, "port", &p.port.to_string(), "UDP, of the switch's address");
    define(out, "admin_port", &p.admin_port.to_string(), "TCP: the control connection");
    define(out, "magic", &format!("0x{:04x}", p.magic), "first two bytes of a packet");
    define(out, "major", &p.major.to_string(), "another one is dropped: foreign_version");
    define(out, "minor", &p.minor.to_string(), "any is accepted");
    define(out, "version", &format!("0x{:02x}", schema.version()), "major << 4 | minor");
    heading(out, "Limits.");
    for limit in schema.limits() {
        define(out, &limit.name, &number(limit.value), &limit.doc);
    }
    let limits = schema.limits();
    for structure in &schema.structs {
        let name = format!("{}_bytes", structure.name);
        if !limits.iter().any(|limit| limit.name == name) {
            define(out, &name, &structure.bytes.to_string(), &structure.doc);
        }
    }
}

fn enums(out: &mut String, schema: &Schema) {
    heading(out, "Services.");
    for service in &schema.services {
        define(out, &format!("service_{}", service.name), &service.number.to_string(), &service.doc);
    }
    for service in &schema.services {
        heading(out, &format!("Kinds of the {} service.", service.name));
        for kind in &service.kinds {
            define(out, &format!("{}_{}", service.name, kind.name), &kind.number.to_string(), &kind.doc);
        }
    }
    for flags in &schema.flags {
        heading(out, &flags.doc);
        for flag in &flags.values {
            let value = format!("0x{:0width$x}", 1u64 << flag.bit, width = flags.bits as usize / 4);
            define(out, &format!("{}_{}", flags.name, flag.name), &value, &flag.doc);
        }
    }
    for each in &schema.enums {
        heading(out, &each.doc);
        for value in &each.values {
            define(out, &format!("{}_{}", each.name, value.name), &value.number.to_string(), &value.doc);
        }
        let end = each.values.iter().map(|value| u32::from(value.number) + 1).max().unwrap_or(0);
        define(out, &format!("{}_count", each.name), &end.to_string(), "one more than the highest");
    }
}

fn accessors(out: &mut String, structure: &Struct) {
    let name = &structure.name;
    heading(out, &format!("{name}, {} bytes. {}", structure.bytes, structure.doc));
    for (at, field) in structure.layout() {
        define(out, &format!("{name}_{}_at", field.name), &at.to_string(), &described(field));
    }
    for (at, field) in structure.layout().filter(|(_, field)| !field.is_text() && !field.is_reserved()) {
        let (bits, field) = (field.size() * 8, &field.name);
        out.push_str(&format!(
            "WS_INLINE ws_u{bits} ws_{name}_{field}(const void *{name}) \
             {{ return ws_load{bits}((const ws_u8 *){name} + {at}); }}\n\
             WS_INLINE void ws_{name}_set_{field}(void *{name}, ws_u{bits} x) \
             {{ ws_store{bits}((ws_u8 *){name} + {at}, x); }}\n"
        ));
    }
}

fn described(field: &Field) -> String {
    match (&field.unit, field.is_text()) {
        (Some(unit), _) => format!("{unit}: {}", field.doc),
        (None, true) => format!("{} bytes: {}", field.size(), field.doc),
        (None, false) => field.doc.clone(),
    }
}

fn words(out: &mut String, bitfield: &Bitfield) {
    let (name, word) = (&bitfield.name, format!("ws_u{}", bitfield.bits));
    let cast = if bitfield.bits == 64 { String::new() } else { format!("({word})") };
    heading(out, &format!("{name}, {} bits. {}", bitfield.bits, bitfield.doc));
    for (low, Bits { name: field, bits: width, doc, .. }) in bitfield.layout() {
        out.push_str(&format!(
            "/* {doc} */\n\
             WS_INLINE {word} ws_{name}_{field}({word} word) {{ return {cast}ws_bits(word, {low}, {width}); }}\n\
             WS_INLINE {word} ws_{name}_with_{field}({word} word, ws_u64 x) \
             {{ return {cast}ws_with_bits(word, {low}, {width}, x); }}\n"
        ));
    }
}

fn lengths(out: &mut String, schema: &Schema) {
    heading(
        out,
        "Exact length of a packet of a known kind with `count` entries or blocks; 0 for a kind that is not known.",
    );
    out.push_str("WS_INLINE ws_u32 ws_packet_bytes(ws_u8 service, ws_u8 kind, ws_u8 count)\n{\n\tswitch (service) {\n");
    for service in &schema.services {
        out.push_str(&format!("\tcase WS_SERVICE_{}:\n\t\tswitch (kind) {{\n", service.name.to_uppercase()));
        let mut bodies: Vec<&str> = service.kinds.iter().map(|kind| kind.body.as_str()).collect();
        bodies.dedup();
        bodies.sort_unstable();
        bodies.dedup();
        for body in bodies {
            for kind in service.kinds.iter().filter(|kind| kind.body == body) {
                let name = format!("{}_{}", service.name, kind.name).to_uppercase();
                out.push_str(&format!("\t\tcase WS_{name}:\n"));
            }
            let length = match body {
                "entries" => "WS_HEADER_BYTES + (ws_u32)count * WS_ENTRY_BYTES".to_owned(),
                body => {
                    let blocks = if schema.has_blocks(body) { " + (ws_u32)count * WS_BLOCK_BYTES" } else { "" };
                    format!("WS_HEADER_BYTES + WS_{}_BYTES{blocks}", body.to_uppercase())
                }
            };
            out.push_str(&format!("\t\t\treturn {length};\n"));
        }
        out.push_str("\t\tdefault:\n\t\t\treturn 0;\n\t\t}\n");
    }
    out.push_str("\tdefault:\n\t\treturn 0;\n\t}\n}\n");
    heading(out, "Whether packets of a known kind may have as many entries or blocks; 0 where they have neither.");
    out.push_str("WS_INLINE int ws_count_fits(ws_u8 service, ws_u8 kind, ws_u8 count)\n{\n\tswitch (service) {\n");
    for service in &schema.services {
        let some = || {
            let kinds = service.with_blocks().map(|kind| format!("{}_{}", service.name, kind.name).to_uppercase());
            kinds.map(|kind| format!("kind == WS_{kind}")).collect::<Vec<_>>().join(" || ")
        };
        let condition = match (service.has_entries(), service.blocks, service.with_blocks().next()) {
            (true, ..) => "count >= 1 && count <= WS_MAX_ENTRIES".to_owned(),
            (_, true, _) => "count <= WS_MAX_BLOCKS".to_owned(),
            (.., Some(_)) => format!("count == 0 || (count <= WS_MAX_BLOCKS && ({}))", some()),
            _ => "count == 0".to_owned(),
        };
        out.push_str(&format!("\tcase WS_SERVICE_{}:\n\t\treturn {condition};\n", service.name.to_uppercase()));
    }
    out.push_str("\tdefault:\n\t\treturn 0;\n\t}\n}\n");
}

fn names(out: &mut String, schema: &Schema) {
    out.push_str("\n#ifndef __bpf__\n/* Names, for people. */\n");
    for service in &schema.services {
        let cases = service.kinds.iter().map(|kind| (format!("{}_{}", service.name, kind.name), kind.name.as_str()));
        name_function(out, &format!("{}_kind", service.name), cases);
    }
    for each in &schema.enums {
        let cases = each.values.iter().map(|value| (format!("{}_{}", each.name, value.name), value.name.as_str()));
        name_function(out, &each.name, cases);
    }
    out.push_str("#endif\n");
}

fn name_function<'a>(out: &mut String, what: &str, cases: impl Iterator<Item = (String, &'a str)>) {
    out.push_str(&format!("WS_INLINE const char *ws_{what}_name(ws_u8 {what})\n{{\n\tswitch ({what}) {{\n"));
    for (constant, name) in cases {
        out.push_str(&format!("\tcase WS_{}: return \"{name}\";\n", constant.to_uppercase()));
    }
    out.push_str("\tdefault: return \"unknown\";\n\t}\n}\n");
}
