//! Names of locks, and the 64-bit ids by which packets know them.
//!
//! A string becomes `XXH3-64(its UTF-8 bytes, seed 0) | 2^63`; a number below 2^63 stands for itself. So strings and
//! numbers never meet, and two strings share an id (then: a lock) once in 2^63 pairs: among a million names with
//! probability 5e-8. Every language must agree: `tests/names.txt` holds the vectors.

use crate::Error;
use wayside_wire::limits::MAX_LOCK_NAME_BYTES;
use xxhash_rust::xxh3::xxh3_64;

/// Set in the id of every string, clear in every number that a user may choose.
const TEXT: u64 = 1 << 63;

/// The name of a lock: text of 1 to 1,024 bytes, or a number below 2^63.
///
/// Numbers below the namespace's count of slots fall into slots of their own, one to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Any text, such as `orders/42`.
    Text(&'a str),
    /// An id of the caller's own.
    Id(u64),
}

/// A name and its id: checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) name: Name<'a>,
    pub(crate) id: u64,
    /// Known once it is asked for.
    pub(crate) slot: u32,
}

impl<'a> Name<'a> {
    #[inline]
    pub(crate) fn named(self) -> Result<Named<'a>, Error> {
        // The usual number first: what takes no calculation takes no call either.
        let id = match self {
            Name::Id(id) if id & TEXT == 0 => id,
            other => other.id()?,
        };
        Ok(Named { name: self, id, slot: 0 })
    }

    /// The id that packets carry.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for empty text, text of more than 1,024 bytes, and numbers of 2^63 or above.
    pub fn id(self) -> Result<u64, Error> {
        match self {
            Name::Text("") => Err(Error::InvalidName("it is empty".into())),
            Name::Text(text) if text.len() > MAX_LOCK_NAME_BYTES => Err(Error::InvalidName(format!(
                "it has {} bytes; at most {MAX_LOCK_NAME_BYTES} are allowed",
                text.len()
            ))),
            Name::Text(text) => Ok(xxh3_64(text.as_bytes()) | TEXT),
            Name::Id(id) if id & TEXT != 0 => Err(Error::InvalidName(format!("the number {id} is not below 2^63"))),
            Name::Id(id) => Ok(id),
        }
    }
}

impl<'a> From<&'a str> for Name<'a> {
    fn from(text: &'a str) -> Self {
        Name::Text(text)
    }
}

impl<'a> From<&'a String> for Name<'a> {
    fn from(text: &'a String) -> Self {
        Name::Text(text)
    }
}

impl From<u64> for Name<'_> {
    fn from(id: u64) -> Self {
        Name::Id(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_every_language_computes() {
        for line in include_str!("../tests/names.txt").lines().filter(|line| !line.starts_with('#')) {
            let (id, name) = line.split_once(' ').expect("id, space, name");
            assert_eq!(Name::Text(name).id().unwrap(), u64::from_str_radix(id, 16).unwrap(), "{name}");
        }
    }

    #[test]
    fn numbers_stand_for_themselves_below_the_top_bit() {
        assert_eq!(Name::Id(42).id().unwrap(), 42);
        assert_eq!(Name::Id(TEXT - 1).id().unwrap(), TEXT - 1);
        assert!(matches!(Name::Id(TEXT).id(), Err(Error::InvalidName(_))));
    }

    #[test]
    fn empty_and_endless_names_are_refused() {
        assert!(matches!(Name::Text("").id(), Err(Error::InvalidName(_))));
        assert!(Name::Text(&"a".repeat(1024)).id().is_ok());
        assert!(matches!(Name::Text(&"a".repeat(1025)).id(), Err(Error::InvalidName(_))));
        assert!(matches!(Name::Text(&"a".repeat(10 << 20)).id(), Err(Error::InvalidName(_))));
    }
}
