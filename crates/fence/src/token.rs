//! Tokens as resources store and compare them.

use std::fmt;
use std::str::FromStr;

/// A fencing token: a number below 2^63, so that a signed 64-bit column holds it.
///
/// ```
/// use wayside_fence::Token;
///
/// let token = Token::new(512_772_640_776_126_464).unwrap(); // guard.token().0
/// assert_eq!("512772640776126464".parse(), Ok(token)); // WAYSIDE_LOCK_TOKEN
/// assert_eq!(token.as_i64(), 512_772_640_776_126_464);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// None if the top bit is set: no grant has such a token.
    #[must_use]
    pub const fn new(token: u64) -> Option<Token> {
        if token >> 63 == 0 { Some(Token(token)) } else { None }
    }

    /// For a `BIGINT`.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0 as i64
    }

    /// What a shared holder shows that only reads, so that no exclusive holder before it writes from now on: one more.
    ///
    /// A shared grant may have the very token of the exclusive grant before it, which a resource that has seen just
    /// that token goes on accepting. Every later exclusive token is higher, so it is at least this one. Who writes
    /// under shared locks shows their tokens as they are, and never this.
    #[must_use]
    pub const fn of_reader(self) -> Token {
        // A grant's tenure is below its maximum, so there is always one more.
        Token(if self.0 < i64::MAX as u64 { self.0 + 1 } else { self.0 })
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> u64 {
        token.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text or a number that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidToken;

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fencing token is a decimal number below 2^63, without sign and leading zeros")
    }
}

impl std::error::Error for InvalidToken {}

impl TryFrom<u64> for Token {
    type Error = InvalidToken;

    fn try_from(token: u64) -> Result<Token, InvalidToken> {
        Token::new(token).ok_or(InvalidToken)
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    /// As [`Token`] is written, and no other way: Redis compares the texts.
    fn from_str(text: &str) -> Result<Token, InvalidToken> {
        let token = text.parse().ok().and_then(Token::new).ok_or(InvalidToken)?;
        if token.to_string() == text { Ok(token) } else { Err(InvalidToken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_written_in_one_way() {
        for (text, token) in [("0", 0), ("9007199254740993", (1 << 53) + 1), ("9223372036854775807", (1 << 63) - 1)] {
            assert_eq!(text.parse(), Ok(Token(token)));
            assert_eq!(Token(token).to_string(), text);
        }
        for text in ["", "-1", "+1", "007", " 1", "1 ", "1\n", "0x1", "9223372036854775808", "18446744073709551616"] {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text:?}");
        }
        assert_eq!(Token::new(1 << 63), None);
    }

    #[test]
    fn a_readers_token_lies_above_its_grants_and_not_above_the_next_exclusive_one() {
        // The least that an exclusive token can be higher: the sequence, its last byte, by one.
        let (before, next) = (Token(7 << 8 | 254), Token(7 << 8 | 255));
        assert!(before < before.of_reader() && before.of_reader() <= next);
        // After 255 the tenure rises.
        assert!(next < next.of_reader() && next.of_reader() <= Token(8 << 8));
        assert_eq!(Token(i64::MAX as u64).of_reader(), Token(i64::MAX as u64));
    }
}
