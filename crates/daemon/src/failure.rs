//! How a command fails: an exit code that scripts can rely on and a message that says what to do next.

use std::fmt;
use wayside_client::Error;

/// Exit codes, after BSD's sysexits, which Wayside's commands keep stable.
pub mod exit {
    /// The key has no value.
    pub const ABSENT: u8 = 1;
    /// Arguments or configuration make no sense.
    pub const USAGE: u8 = 64;
    /// The switch, a port or a file can't be had.
    pub const UNAVAILABLE: u8 = 69;
    /// The lock is held by another, or did not come in time; the key is not what it was to be.
    pub const BUSY: u8 = 75;
    /// The lock was lost while the command ran.
    pub const LOST: u8 = 76;
    /// Not allowed.
    pub const DENIED: u8 = 77;
    /// As the shell: the command was found and can't be run.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// As the shell: no such command.
    pub const NOT_FOUND: u8 = 127;
}

/// A command's end for a reason that its caller can mend.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: u8,
    /// The whole line for people.
    pub message: String,
}

impl Failure {
    pub fn new(code: u8, message: impl fmt::Display) -> Self {
        Failure { code, message: format!("error: {message}") }
    }

    /// Why the library could not.
    pub fn of(error: &Error) -> Self {
        let code = match error {
            Error::InvalidPriority(_)
            | Error::InvalidName(_)
            | Error::InvalidEndpoint(_)
            | Error::InvalidNamespace(_)
            | Error::InvalidKeep(_)
            | Error::TooLarge { .. } => exit::USAGE,
            Error::Busy { .. } | Error::TimedOut | Error::OverBudget | Error::Unsure => exit::BUSY,
            Error::Lost => exit::LOST,
            Error::NotJoined(_) => exit::DENIED,
            _ => exit::UNAVAILABLE,
        };
        Failure::new(code, error)
    }

    /// An end that is no error: the lock is busy.
    pub fn plain(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }

    /// The message without its first word.
    pub fn reason(&self) -> &str {
        self.message.strip_prefix("error: ").unwrap_or(&self.message)
    }

    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(exit::USAGE, message)
    }

    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(exit::UNAVAILABLE, message)
    }

    pub fn denied(message: impl fmt::Display) -> Self {
        Self::new(exit::DENIED, message)
    }

    /// An error of the operating system: 77 where permission is missing, otherwise 69.
    pub fn system(what: impl fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::denied(format!("{what}: {error}")),
            _ => Self::unavailable(format!("{what}: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
