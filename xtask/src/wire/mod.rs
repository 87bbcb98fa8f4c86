//! Everything that follows from `wire/messages.toml`: generated here, committed, and compared by CI.

mod c;
mod lua;
mod markdown;
mod rust;
mod schema;
mod vectors;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use schema::Schema;
use vectors::Which;

/// A generated file: its path in the repository, and its text.
type Output = (&'static str, String);

/// Writes every file that is not yet as it should be.
pub fn generate(root: &Path) -> Result<(), String> {
    for (path, text) in outputs(root)? {
        let file = root.join(path);
        if fs::read_to_string(&file).is_ok_and(|there| there == text) {
            continue;
        }
        let folder = file.parent().expect("a path in the repository");
        fs::create_dir_all(folder).and_then(|()| fs::write(&file, text)).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: written");
    }
    Ok(())
}

/// Compares every file with what would be generated.
pub fn check(root: &Path) -> Result<(), String> {
    let differs = |(path, text): &Output| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text);
    let stale: Vec<&str> = outputs(root)?.iter().filter(|output| differs(output)).map(|output| output.0).collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("not what wire/messages.toml says: {}; run `cargo xtask wire`", stale.join(", ")))
}

/// Writes the vectors of this version where those of later ones are tested with them. What is there stays as it is.
pub fn freeze(root: &Path) -> Result<(), String> {
    let schema = schema(root)?;
    let name = format!("wire/vectors/v{}_{}", schema.protocol.major, schema.protocol.minor);
    for (path, text) in [
        (format!("{name}.json"), vectors::json(&schema, Which::Good)),
        (format!("{name}.h"), vectors::c(&schema, Which::Good)),
    ] {
        let file = fs::File::create_new(root.join(&path));
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: written; it has to be named in crates/wire/tests/vectors.rs");
    }
    Ok(())
}

fn schema(root: &Path) -> Result<Schema, String> {
    let text = fs::read_to_string(root.join("wire/messages.toml")).map_err(|error| error.to_string())?;
    Schema::parse(&text).map_err(|error| format!("wire/messages.toml: {error}"))
}

fn outputs(root: &Path) -> Result<Vec<Output>, String> {
    let schema = schema(root)?;
    Ok(vec![
        ("wire/gen/wire.h", c::emit(&schema)),
        ("wire/gen/wire.rs", rust::emit(&schema)?),
        ("wire/gen/wayside.lua", lua::emit(&schema)),
        ("wire/vectors/packets.json", vectors::json(&schema, Which::All)),
        ("wire/vectors/packets.h", vectors::c(&schema, Which::All)),
        ("docs/packets.md", markdown::emit(&schema)),
    ])
}
