//! Keys, versions and values as they are written.

use wayside_protocol::chain::{BadName, BadVersion, Key, Value, Version};
use wayside_wire::limits;

#[test]
fn a_key_is_the_hash_of_its_namespace_and_its_name() {
    // By another implementation of SHA-256, over 07 "default" "name"; 47 bits of the third number.
    let key = Key { high: 0x4ae7_6394_6071_a6a9, low: 0x5917_9e36_b349_8fe1, check: 0x6190_e04a_d366 };
    assert_eq!(Key::of(b"default", b"name"), Ok(key));
    // The namespace's length is part of it: no byte moves from one to the other.
    assert_ne!(Key::of(b"defaultn", b"ame"), Ok(key));
}

#[test]
fn a_name_has_a_byte_and_960_at_most() {
    let long = [b'n'; limits::MAX_KEY_NAME_BYTES + 1];
    assert_eq!(Key::of(b"default", b""), Err(BadName::Empty));
    assert_eq!(Key::of(b"default", &long), Err(BadName::TooLong(961)));
    assert!(Key::of(b"default", &long[1..]).is_ok() && Key::of(b"default", &long[..1]).is_ok());
}

#[test]
fn a_version_is_read_as_it_is_shown() {
    let version = Version { epoch: 7, sequence: 42 };
    assert_eq!((version.to_string().as_str(), "7.42".parse()), ("7.42", Ok(version)));
    for bad in ["", ".", "7", "7.", ".42", "7.42.1", "7.x", "-7.42", "4294967296.1"] {
        assert_eq!(bad.parse::<Version>(), Err(BadVersion), "{bad}");
    }
}

#[test]
fn a_value_has_its_bytes_and_128_at_most() {
    for length in [0, 1, limits::MAX_VALUE_BYTES] {
        let content: Vec<u8> = (1..).take(length).collect();
        assert_eq!(Value::new(&content).expect("it is short").bytes(), content);
    }
    for length in [limits::MAX_VALUE_BYTES + 1, 256, 300] {
        assert_eq!(Value::new(&vec![0; length]), None);
    }
}
