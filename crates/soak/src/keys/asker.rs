//! A thread that reads and writes keys.

use super::history::{Entry, Event, Only};
use crate::history;
use crate::worker::{Part, word_of};
use std::io;
use std::time::Duration;
use wayside_client::{Condition, Entry as Kept, Error, Value, Written};

/// Reads, writes or deletes, with a condition or without.
pub fn one(part: &mut Part<'_>, operation: u64) -> io::Result<()> {
    let key = part.random.u64(1..=part.args.names);
    let does = part.random.u8(..100);
    if does < 45 {
        read(part, operation, key).map(|_| ())
    } else if does < 65 {
        let value = number(part, operation);
        write(part, operation, key, Some(value), Only::Always, Condition::Always)
    } else if does < 72 {
        write(part, operation, key, None, Only::Always, Condition::Always)
    } else if does < 80 {
        let value = number(part, operation);
        write(part, operation, key, Some(value), Only::IfAbsent, Condition::Absent)
    } else {
        // Compare and swap: what was read becomes something else.
        let Some(found) = read(part, operation, key)? else { return Ok(()) };
        let condition = match part.random.bool() {
            true => Condition::Version(found.version),
            false => Condition::Word(number_of(&found.value)),
        };
        let value = if does < 95 { Some(number(part, operation)) } else { None };
        write(part, operation, key, value, Only::IfValue(number_of(&found.value)), condition)
    }
}

fn read(part: &mut Part<'_>, operation: u64, key: u64) -> io::Result<Option<Kept>> {
    part.history.write(history::now(), operation, Event::Read { key })?;
    let patience = patience(part);
    let read = part.session.store().wait(patience).get(name_of(key));
    let at = history::now();
    let event = match &read {
        Ok(entry) => Event::Found { entry: entry.as_ref().map(told) },
        Err(error) => Event::Unknown { why: word_of(error) },
    };
    part.history.write(at, operation, event)?;
    Ok(read.ok().flatten())
}

fn write(
    part: &mut Part<'_>,
    operation: u64,
    key: u64,
    value: Option<u64>,
    only: Only,
    condition: Condition,
) -> io::Result<()> {
    part.history.write(history::now(), operation, Event::Write { key, value, only })?;
    let patience = patience(part);
    let store = part.session.store().wait(patience);
    let written = match value {
        Some(value) => store.put_if(name_of(key), bytes_of(value), condition),
        None => store.delete_if(name_of(key), condition),
    };
    let at = history::now();
    part.history.write(at, operation, told_of_write(&written))
}

fn told_of_write(written: &Result<Written, Error>) -> Event {
    match written {
        Ok(Written::Done(version)) => Event::Done { version: version.to_string() },
        Ok(Written::Unmet(Ok(found))) => Event::Found { entry: found.as_ref().map(told) },
        Ok(Written::Unmet(Err(_))) => Event::Overwritten,
        Err(error) => Event::Unknown { why: word_of(error) },
    }
}

/// Often less than a chain takes to become another.
fn patience(part: &mut Part<'_>) -> Duration {
    Duration::from_millis(part.random.u64(1..part.args.lease_ms * 3))
}

fn name_of(key: u64) -> String {
    format!("key/{key}")
}

/// A number that no other write of the run has: of the process that was started as the so-many-th, its thread's
/// operation.
fn number(part: &Part<'_>, operation: u64) -> u64 {
    ((part.args.seed & 0xf_ffff) << 40) | (operation + 1)
}

/// A number's value: eight bytes of its own, then as many of a kind as it says, so that a value of two writes is seen.
fn bytes_of(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    let (length, filling) = shape(number);
    bytes.resize(length, filling);
    bytes
}

/// Bytes of a number's value, and the one that fills it.
fn shape(number: u64) -> (usize, u8) {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (8 + mixed as usize % 121, (mixed >> 7) as u8)
}

/// The number of a value; of one that is no write's, one that no write has.
fn number_of(value: &Value) -> u64 {
    let Some((first, rest)) = value.bytes().split_first_chunk() else { return u64::MAX };
    let number = u64::from_be_bytes(*first);
    let (length, filling) = shape(number);
    if value.bytes().len() == length && rest.iter().all(|&byte| byte == filling) { number } else { u64::MAX }
}

fn told(entry: &Kept) -> Entry {
    Entry { value: number_of(&entry.value), version: entry.version.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_value_is_nobodys() {
        for number in [1, 7 << 40 | 3, 0xf_ffff << 40 | 99] {
            let mut bytes = bytes_of(number);
            assert!((8..=128).contains(&bytes.len()));
            assert_eq!(number_of(&Value::new(&bytes).unwrap()), number);
            bytes.push(9);
            assert!(bytes.len() > 128 || number_of(&Value::new(&bytes).unwrap()) == u64::MAX);
        }
        assert_eq!(number_of(&Value::new(b"short").unwrap()), u64::MAX);
    }
}
