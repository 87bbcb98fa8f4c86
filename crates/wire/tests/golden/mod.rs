//! Reads `wire/vectors/`.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// One golden packet.
pub struct Vector {
    pub name: String,
    /// Name of the drop reason; `none` for a good packet.
    pub drop: String,
    /// Whether the codec writes these very bytes.
    pub canonical: bool,
    pub header: Fields,
    /// Name of the parts' struct.
    pub part: &'static str,
    pub parts: Vec<Fields>,
    /// What follows the body.
    pub blocks: Vec<u8>,
    pub bytes: Vec<u8>,
}

/// A struct's fields by name.
pub struct Fields(pub Map<String, Value>);

impl Fields {
    /// A number: plain, or in hexadecimal where it has 64 bits.
    pub fn number(&self, name: &str) -> u64 {
        let value = self.0.get(name).unwrap_or_else(|| panic!("no field {name}"));
        value.as_u64().unwrap_or_else(|| parse(value.as_str().expect("a number")))
    }

    /// A number that was zeros before there was such a field.
    pub fn later(&self, name: &str) -> u64 {
        if self.0.contains_key(name) { self.number(name) } else { 0 }
    }

    /// The same as [`Fields::number`], of a field of fewer bits.
    pub fn as_u32(&self, name: &str) -> u32 {
        self.number(name).try_into().expect("32 bits")
    }

    pub fn as_u16(&self, name: &str) -> u16 {
        self.number(name).try_into().expect("16 bits")
    }

    pub fn as_u8(&self, name: &str) -> u8 {
        self.number(name).try_into().expect("8 bits")
    }

    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().expect("text")
    }
}

/// A number as the vectors and tshark write it.
pub fn parse(number: &str) -> u64 {
    let hexadecimal = number.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    hexadecimal.unwrap_or_else(|| number.parse()).unwrap_or_else(|_| panic!("not a number: {number}"))
}

/// The repository's folder.
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All of today's.
pub fn vectors() -> Vec<Vector> {
    vectors_of("packets.json")
}

/// Those of a file in `wire/vectors/`.
pub fn vectors_of(file: &str) -> Vec<Vector> {
    let text = std::fs::read_to_string(repository().join("wire/vectors").join(file)).expect("the vectors");
    let vectors: Vec<Map<String, Value>> = serde_json::from_str(&text).expect("an array of objects");
    vectors.into_iter().map(vector).collect()
}

fn vector(mut object: Map<String, Value>) -> Vector {
    let text = |object: &Map<String, Value>, key: &str| object[key].as_str().expect("text").to_owned();
    let fields = |value: Value| match value {
        Value::Object(map) => Fields(map),
        other => panic!("not an object: {other}"),
    };
    let structs = [
        "entry",
        "enrol",
        "enrolled",
        "heartbeat",
        "operation",
        "effect",
        "routes",
        "placement",
        "renewal",
        "copied",
        "watch",
        "attempt",
        "fetch",
        "names",
    ];
    let part = structs.into_iter().find(|part| object.contains_key(*part));
    let parts = part.and_then(|part| object.remove(part)).unwrap_or(Value::Array(Vec::new()));
    let Value::Array(parts) = parts else { panic!("parts are an array") };
    Vector {
        name: text(&object, "name"),
        drop: text(&object, "drop"),
        canonical: object["canonical"].as_bool().expect("yes or no"),
        header: object.remove("header").map_or(Fields(Map::new()), fields),
        part: part.unwrap_or("none"),
        parts: parts.into_iter().map(fields).collect(),
        blocks: if object.contains_key("blocks") { unhex(&text(&object, "blocks")) } else { Vec::new() },
        bytes: unhex(&text(&object, "bytes")),
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal")).collect()
}
