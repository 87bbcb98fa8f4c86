//! Files that are replaced under a fence.
//!
//! ```text
//! orders.fence        the highest token seen, one line; empty: none yet. Locked by who has a pass
//! orders.fence.new    its next content, while that is written
//! orders.json         what the fence guards: plain files, as many as one likes, in the same file system or in others
//! orders.json.new     its next content, while that is written
//! ```
//!
//! Invariants
//! * A process that writes what the fence guards has the `flock` of the file that is the fence *now*. A fence is
//!   replaced by one that the same process has locked already, and who gets the lock of one that was replaced begins
//!   anew.
//! * The fence is on disk before anything is written under its token, so a crash may leave a fence that is too high for
//!   what was written, never one too low: the same holder goes on, older ones are refused.
//! * Fence and content are replaced as a whole (written, `fsync`, renamed, directory `fsync`): a crash leaves the old
//!   one or the new one. What a crash leaves under the name `.new` is overwritten.

use crate::Token;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that knows the highest token shown to it, on a local file system.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let at = |name| directory.path().join(name);
/// use wayside_fence::{FileFence, Token};
///
/// let fence = FileFence::new(at("orders.fence"));
/// let token = Token::new(512772640776126464).unwrap(); // guard.token().0
/// let pass = fence.pass(token)?; // before what it guards is read
/// pass.replace(at("orders.json"), b"[42]")?;
/// # drop(pass);
/// # assert!(fence.pass(Token::new(1).unwrap()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileFence {
    path: PathBuf,
}

/// Why there is no pass, or nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The fence has seen a higher token: this holder's lock is another's by now.
    Refused {
        /// What was shown.
        token: Token,
        /// The highest that was ever shown.
        seen: Token,
    },
    /// The file system's.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused { token, seen } => write!(f, "fenced: token {token} is older than {seen}"),
            Error::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::System(error)
    }
}

impl FileFence {
    /// The fence at this path. It is made when a token is shown to it first.
    pub fn new(path: impl Into<PathBuf>) -> FileFence {
        FileFence { path: path.into() }
    }

    /// Shows a token, and keeps all others out, older and newer, for as long as the pass lives. Waits for another's
    /// pass.
    ///
    /// A pass is for reading and writing, not for the time between: a holder gets one before it reads, and another one
    /// when it writes.
    ///
    /// # Errors
    /// [`Error::Refused`] if a higher token was shown before, else the file system's.
    pub fn pass(&self, token: Token) -> Result<Pass, Error> {
        let (mut locked, seen) = self.lock()?;
        if token < seen {
            return Err(Error::Refused { token, seen });
        }
        if token > seen {
            locked = replace(&self.path, format!("{token}\n").as_bytes())?;
        }
        Ok(Pass { _locked: locked })
    }

    /// The fence's file, locked, and the highest token that it has seen.
    fn lock(&self) -> io::Result<(File, Token)> {
        loop {
            let mut file = File::options().read(true).append(true).create(true).open(&self.path)?;
            file.lock()?;
            let (ours, now) = (file.metadata()?, fs::metadata(&self.path)?);
            if (ours.dev(), ours.ino()) != (now.dev(), now.ino()) {
                continue;
            }
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let seen = match text.as_str() {
                "" => Token::new(0),
                line => line.strip_suffix('\n').and_then(|line| line.parse().ok()),
            };
            let no_fence = || io::Error::new(io::ErrorKind::InvalidData, format!("{}: no fence", self.path.display()));
            return Ok((file, seen.ok_or_else(no_fence)?));
        }
    }
}

/// The right to write, until it is dropped.
#[derive(Debug)]
#[must_use = "others get by as soon as it is dropped"]
pub struct Pass {
    /// The kernel unlocks it when it is closed, or when its process ends.
    _locked: File,
}

impl Pass {
    /// Replaces a file as a whole, or makes it; it is on disk then. Readers see the old content or the new one. The
    /// file's owner and mode become those of a new file.
    ///
    /// # Errors
    /// The file system's; then the file has its old content.
    pub fn replace(&self, path: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
        replace(path.as_ref(), content).map(|_| ())
    }
}

/// Replaces what is at `path` by a file that is locked before anybody else can find it there.
fn replace(path: &Path, content: &[u8]) -> io::Result<File> {
    let new = PathBuf::from([path.as_os_str(), ".new".as_ref()].into_iter().collect::<OsString>());
    let mut file = File::create(&new)?;
    file.lock()?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()?;
    Ok(file)
}
