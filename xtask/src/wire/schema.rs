//! The schema of the packets: `wire/messages.toml` as types, and what must hold of it before anything is generated.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;

/// All of `wire/messages.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    pub protocol: Protocol,
    limits: toml::Table,
    #[serde(rename = "struct")]
    pub structs: Vec<Struct>,
    #[serde(rename = "bitfield")]
    pub bitfields: Vec<Bitfield>,
    #[serde(rename = "service")]
    pub services: Vec<Service>,
    pub reserved_services: BTreeMap<String, u8>,
    pub flags: Vec<Flags>,
    #[serde(rename = "enum")]
    pub enums: Vec<Enum>,
}

/// Ports and version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    pub port: u16,
    pub admin_port: u16,
    pub magic: u16,
    pub major: u8,
    pub minor: u8,
}

/// A number that bounds packets or state.
pub struct Limit {
    pub name: String,
    pub value: u64,
    /// Width of the type that holds it; `None` for counts of bytes and entries.
    pub bits: Option<u32>,
    pub doc: String,
}

/// A run of fields at fixed places.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Struct {
    pub name: String,
    pub bytes: usize,
    pub doc: String,
    pub fields: Vec<Field>,
}

/// A field: a number of `bits`, or `bytes` of text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub name: String,
    bits: Option<usize>,
    bytes: Option<usize>,
    pub doc: String,
    pub unit: Option<String>,
    /// The same in every packet (magic, version), so no part of the Rust struct.
    #[serde(default)]
    pub fixed: bool,
    pub bitfield: Option<String>,
    pub flags: Option<String>,
    #[serde(rename = "enum")]
    pub enumeration: Option<String>,
}

/// Numbers packed into one, from the high bits down.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bitfield {
    pub name: String,
    pub bits: u32,
    pub doc: String,
    /// A word in memory or in users' hands, not a field of a packet.
    #[serde(default)]
    pub memory: bool,
    pub fields: Vec<Bits>,
}

/// One number within a bitfield.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bits {
    pub name: String,
    pub bits: u32,
    pub doc: String,
    #[serde(rename = "enum")]
    pub enumeration: Option<String>,
}

/// A service and its kinds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    pub number: u8,
    pub doc: String,
    /// Blocks follow the body of all its kinds, as many as the header counts.
    #[serde(default)]
    pub blocks: bool,
    pub kinds: Vec<Kind>,
}

/// A message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub name: String,
    pub number: u8,
    /// `entries`, or the struct that follows the header.
    pub body: String,
    /// Blocks follow that, though not in all kinds of the service.
    #[serde(default)]
    pub blocks: bool,
    pub doc: String,
}

/// Single bits with names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    pub name: String,
    pub bits: u32,
    pub doc: String,
    pub values: Vec<Flag>,
}

/// One of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    pub name: String,
    pub bit: u32,
    pub doc: String,
}

/// Numbers with names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enum {
    pub name: String,
    pub doc: String,
    pub values: Vec<Value>,
}

/// One of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    pub name: String,
    pub number: u8,
    pub doc: String,
}

impl Field {
    /// Bytes that the field takes.
    pub fn size(&self) -> usize {
        self.bytes.unwrap_or_else(|| self.bits.unwrap_or(0) / 8)
    }

    /// Text padded with zeros, rather than a number.
    pub fn is_text(&self) -> bool {
        self.bytes.is_some()
    }

    /// Written as zero and not read.
    pub fn is_reserved(&self) -> bool {
        self.name == "reserved"
    }
}

impl Struct {
    /// The fields with their offsets.
    pub fn layout(&self) -> impl Iterator<Item = (usize, &Field)> {
        self.fields.iter().scan(0, |at, field| {
            let here = *at;
            *at += field.size();
            Some((here, field))
        })
    }
}

impl Service {
    /// Its kinds whose body blocks follow.
    pub fn with_blocks(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|kind| self.blocks || kind.blocks)
    }

    /// All of its packets carry entries, or none does.
    pub fn has_entries(&self) -> bool {
        self.kinds.iter().any(|kind| kind.body == "entries")
    }
}

impl Bitfield {
    /// The fields with the place of their lowest bit.
    pub fn layout(&self) -> impl Iterator<Item = (u32, &Bits)> {
        self.fields.iter().scan(self.bits, |above, field| {
            *above -= field.bits;
            Some((*above, field))
        })
    }
}

impl Schema {
    /// Parses and validates.
    pub fn parse(text: &str) -> Result<Schema, String> {
        let schema: Schema = toml::from_str(text).map_err(|error| error.to_string())?;
        schema.validate()?;
        Ok(schema)
    }

    /// The limits, in the order of the file's names.
    pub fn limits(&self) -> Vec<Limit> {
        let number = |table: &toml::Table, key: &str| table.get(key).and_then(toml::Value::as_integer);
        let limit = |(name, value): (&String, &toml::Value)| {
            let table = value.as_table()?;
            Some(Limit {
                name: name.clone(),
                value: u64::try_from(number(table, "value")?).ok()?,
                bits: number(table, "bits").and_then(|bits| u32::try_from(bits).ok()),
                doc: table.get("doc")?.as_str()?.to_owned(),
            })
        };
        self.limits.iter().filter_map(limit).collect()
    }

    /// A limit's value, which must exist.
    pub fn limit(&self, name: &str) -> u64 {
        let found = self.limits().into_iter().find(|limit| limit.name == name);
        found.unwrap_or_else(|| panic!("no limit {name}")).value
    }

    /// The struct of that name, which must exist.
    pub fn structure(&self, name: &str) -> &Struct {
        let found = self.structs.iter().find(|structure| structure.name == name);
        found.unwrap_or_else(|| panic!("no struct {name}"))
    }

    /// Whether blocks follow this body.
    pub fn has_blocks(&self, body: &str) -> bool {
        self.services.iter().flat_map(Service::with_blocks).any(|kind| kind.body == body)
    }

    /// The version byte of a packet.
    pub fn version(&self) -> u8 {
        self.protocol.major << 4 | self.protocol.minor
    }

    fn validate(&self) -> Result<(), String> {
        let p = &self.protocol;
        ensure(p.major < 16 && p.minor < 16, "major and minor are 4 bits each")?;
        ensure(self.limits().len() == self.limits.len(), "a limit lacks value or doc")?;
        let mut offending = self
            .limits()
            .into_iter()
            .filter(|limit| limit.bits.is_some_and(|bits| bits < 64 && limit.value >> bits != 0));
        ensure(offending.next().is_none(), "a limit exceeds its bits")?;
        for structure in &self.structs {
            self.validate_struct(structure)?;
        }
        for bitfield in &self.bitfields {
            let sum: u32 = bitfield.fields.iter().map(|field| field.bits).sum();
            ensure(bitfield.fields.iter().all(|field| field.bits < 64), "a bitfield of one field")?;
            ensure(sum == bitfield.bits, &format!("bitfield {}: {sum} bits", bitfield.name))?;
        }
        for name in ["header", "entry"] {
            let bytes = self.structure(name).bytes as u64;
            ensure(bytes == self.limit(&format!("{name}_bytes")), &format!("{name}_bytes is not {bytes}"))?;
        }
        let longest = self.limit("header_bytes") + self.limit("entry_bytes") * self.limit("max_entries");
        ensure(longest == self.limit("max_packet_bytes"), "max_packet_bytes is not header and entries")?;
        self.validate_numbers()?;
        self.validate_blocks()
    }

    /// The longest body with all of its blocks is a longest packet, and the longest name fills the blocks.
    fn validate_blocks(&self) -> Result<(), String> {
        let blocks = self.limit("block_bytes") * self.limit("max_blocks");
        ensure(blocks == self.limit("max_key_name_bytes"), "max_key_name_bytes is not all blocks")?;
        ensure(self.limit("max_value_bytes") <= blocks, "a value has no room in its blocks")?;
        for service in self.services.iter().filter(|service| service.with_blocks().next().is_some()) {
            let bodies = service.with_blocks().map(|kind| self.structure(&kind.body).bytes as u64);
            let longest = self.limit("header_bytes") + bodies.max().unwrap_or(0) + blocks;
            ensure(longest == self.limit("max_packet_bytes"), "max_packet_bytes is not header, body and blocks")?;
        }
        Ok(())
    }

    fn validate_struct(&self, structure: &Struct) -> Result<(), String> {
        let name = &structure.name;
        for (at, field) in structure.layout() {
            let what = format!("{name}.{}", field.name);
            ensure(field.bits.is_some() != field.bytes.is_some(), &format!("{what}: either bits or bytes"))?;
            let sized = field.is_text() || [8, 16, 32, 64].contains(&field.bits.unwrap_or(0));
            ensure(sized, &format!("{what}: 8, 16, 32 or 64 bits"))?;
            ensure(field.is_text() || at % field.size() == 0, &format!("{what}: not aligned"))?;
            let refers = |reference: &Option<String>, mut names: Box<dyn Iterator<Item = &String> + '_>| {
                reference.as_ref().is_none_or(|wanted| names.any(|name| name == wanted))
            };
            let known = refers(&field.bitfield, Box::new(self.bitfields.iter().map(|b| &b.name)))
                && refers(&field.flags, Box::new(self.flags.iter().map(|f| &f.name)))
                && refers(&field.enumeration, Box::new(self.enums.iter().map(|e| &e.name)));
            ensure(known, &format!("{what}: refers to nothing"))?;
        }
        let sum: usize = structure.fields.iter().map(Field::size).sum();
        ensure(sum == structure.bytes, &format!("struct {name}: {sum} bytes"))
    }

    fn validate_numbers(&self) -> Result<(), String> {
        let reserved = self.reserved_services.iter().map(|(name, number)| (name.clone(), *number));
        let services = self.services.iter().map(|s| (s.name.clone(), s.number));
        unique("services", services.chain(reserved))?;
        for service in &self.services {
            let pure = service.kinds.iter().all(|kind| (kind.body == "entries") == service.has_entries());
            ensure(pure, &format!("{}: some kinds with entries, some without", service.name))?;
            let has_blocks = service.with_blocks().next().is_some();
            ensure(!(has_blocks && service.has_entries()), &format!("{}: entries and blocks", service.name))?;
            let of_kind = |kind: &Kind| service.blocks || kind.blocks;
            let alike = service.kinds.iter().all(|kind| self.has_blocks(&kind.body) == of_kind(kind));
            ensure(alike, &format!("{}: a body that has blocks in another kind only", service.name))?;
            unique(&service.name, service.kinds.iter().map(|kind| (kind.name.clone(), kind.number)))?;
            for kind in &service.kinds {
                let known = kind.body == "entries" || self.structs.iter().any(|s| s.name == kind.body);
                ensure(known, &format!("{}.{}: no body {}", service.name, kind.name, kind.body))?;
            }
        }
        for flags in &self.flags {
            unique(&flags.name, flags.values.iter().map(|flag| (flag.name.clone(), flag.bit as u8)))?;
            ensure(flags.values.iter().all(|flag| flag.bit < flags.bits), "a flag beyond its field")?;
        }
        for each in &self.enums {
            unique(&each.name, each.values.iter().map(|value| (value.name.clone(), value.number)))?;
        }
        Ok(())
    }
}

fn ensure(holds: bool, complaint: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.to_owned()) }
}

fn unique(what: &str, pairs: impl Iterator<Item = (String, u8)>) -> Result<(), String> {
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (name, number) in pairs {
        let fresh = numbers.insert(number) && names.insert(name.clone());
        ensure(fresh, &format!("{what}: {name} = {number} is there already"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Schema;

    const MESSAGES: &str = include_str!("../../../wire/messages.toml");

    /// What is wrong with the schema after a change of one place.
    fn complaint(from: &str, to: &str) -> String {
        assert_eq!(MESSAGES.matches(from).count(), 1, "{from}");
        Schema::parse(&MESSAGES.replace(from, to)).err().unwrap_or_default()
    }

    #[test]
    fn lengths_agree_with_the_longest_packet() {
        assert!(Schema::parse(MESSAGES).is_ok());
        let (entries, blocks) = ("max_entries = { value = 32", "max_blocks = { value = 30");
        assert_eq!(complaint(entries, "max_entries = { value = 33"), "max_packet_bytes is not header and entries");
        assert_eq!(complaint(blocks, "max_blocks = { value = 31"), "max_key_name_bytes is not all blocks");
        let value = complaint("max_value_bytes = { value = 128", "max_value_bytes = { value = 961");
        assert_eq!(value, "a value has no room in its blocks");
        let name = "max_key_name_bytes = { value = 960";
        let shorter = MESSAGES.replace(name, "max_key_name_bytes = { value = 928");
        let shorter = shorter.replace(blocks, "max_blocks = { value = 29");
        let complaint = Schema::parse(&shorter).err();
        assert_eq!(complaint.as_deref(), Some("max_packet_bytes is not header, body and blocks"));
    }

    #[test]
    fn a_body_has_blocks_in_every_kind_or_in_none() {
        let fabric = r#"name = "enrol", number = 1, body = "enrol""#;
        let shared = complaint(fabric, r#"name = "enrol", number = 1, body = "effect""#);
        assert_eq!(shared, "fabric: a body that has blocks in another kind only");
        let queue = r#"name = "fetched", number = 23, body = "fetch", blocks = true"#;
        let shared = complaint(queue, r#"name = "fetched", number = 23, body = "fetch""#);
        assert_eq!(shared, "queue: a body that has blocks in another kind only");
        let lock = "doc = \"Lock fission.\"\n";
        assert_eq!(complaint(lock, "doc = \"Lock fission.\"\nblocks = true\n"), "lock: entries and blocks");
    }
}
