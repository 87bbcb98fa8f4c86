//! The script for Redis: one command runs, if the token is not below the highest that its fence has seen.
//!
//! `EVALSHA SHA1 keys FENCE [KEY...] TOKEN [COMMAND...]`. A fence is a key of its own, a string with the highest token;
//! in a cluster its name has the hash tag of what it guards. Without a command the script only shows the token: what a
//! holder does before it reads.

/// The script, for `SCRIPT LOAD`, `EVAL`, or a client's own type for scripts.
pub const SCRIPT: &str = include_str!("fenced.lua");

/// Its digest, for `EVALSHA`.
pub const SHA1: &str = "71beebb5fba893ba05dec3056c6774c0bedc4afe";

/// With this word begins the error of a token that is refused; nothing was run then. Another error is the command's
/// own, and its token has been seen.
pub const REFUSED: &str = "FENCED";
