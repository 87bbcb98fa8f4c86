//! What a host has from joining: a key, its certificate, and the authority by which it knows the switch. One file a
//! switch, named after the switch's address, for its owner alone to read: whoever reads it may begin sessions.

use crate::enrolment::hex;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddrV4;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Names the directory of credentials for every session that is not told otherwise.
pub const CREDENTIALS_VARIABLE: &str = "WAYSIDE_CREDENTIALS";
/// Root's, and looked into after a user's own.
const ROOT_DIRECTORY: &str = "/etc/wayside/node";

/// The content of a file. Everything but the address is DER, hexadecimal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Where the switch enrols.
    pub enrol: SocketAddrV4,
    /// Certificate of the switch's authority.
    pub authority: String,
    /// Certificate of this host.
    pub certificate: String,
    /// Its private key, PKCS #8.
    pub key: String,
}

/// Shows no key.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("enrol", &self.enrol).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those for the switch at `switch`, with the file they are in; None if this host has not joined it.
    ///
    /// # Errors
    /// There is a file that cannot be read, or makes no sense: then there must be no session without it either.
    pub(crate) fn find(told: Option<&Path>, switch: SocketAddrV4) -> Result<Option<(PathBuf, Credentials)>, String> {
        for directory in directories(told) {
            let path = directory.join(file_name(switch));
            if let Some(credentials) = Credentials::read(&path)? {
                return Ok(Some((path, credentials)));
            }
        }
        Ok(None)
    }

    /// Those of a file; None if there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Credentials>, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(format!("can't read this host's credentials {}: {error}", path.display())),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| format!("{} makes no sense ({error}); join the switch again", path.display()))
    }

    /// Keeps them for the switch at `switch`, in the first of the directories; the file.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn keep(&self, told: Option<&Path>, switch: SocketAddrV4) -> io::Result<PathBuf> {
        let directory = directories(told).into_iter().next().ok_or_else(|| {
            io::Error::other("no place for credentials: set WAYSIDE_CREDENTIALS, XDG_CONFIG_HOME or HOME")
        })?;
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(file_name(switch));
        self.keep_in(&path).map(|()| path)
    }

    /// Keeps them in this file.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn keep_in(&self, path: &Path) -> io::Result<()> {
        static KEPT: AtomicU32 = AtomicU32::new(0);
        // Written beside it, then renamed: a session that begins meanwhile reads the old ones or the new. Several
        // sessions of a process may renew them at a time.
        let number = KEPT.fetch_add(1, Relaxed);
        let new = path.with_extension(format!("new-{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        // Whoever was let read them, by their group, is to read the next ones too.
        let as_before = || match std::fs::metadata(path) {
            Ok(before) => fchown(&file, Some(before.uid()), Some(before.gid()))
                .and_then(|()| file.set_permissions(before.permissions())),
            Err(_) => Ok(()),
        };
        let text = serde_json::to_string_pretty(self).expect("strings and an address");
        let written = as_before()
            .and_then(|()| (&file).write_all(text.as_bytes()))
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&new, path));
        if written.is_err() {
            // As it was before, as far as that can be had.
            let _ = std::fs::remove_file(&new);
        }
        written
    }
}

/// Whether this process may put other credentials in the place of these.
pub(crate) fn may_replace(path: &Path) -> bool {
    let directory = path.parent().map(|parent| CString::new(parent.as_os_str().as_encoded_bytes()));
    let Some(Ok(directory)) = directory else { return false };
    // SAFETY: `directory` is a C string.
    unsafe { libc::access(directory.as_ptr(), libc::W_OK) == 0 }
}

/// What people may compare: the first bytes of a digest of the host's public key.
#[must_use]
pub fn host_id(digest: &[u8]) -> String {
    hex(&digest[..digest.len().min(8)])
}

fn file_name(switch: SocketAddrV4) -> String {
    format!("{}_{}.json", switch.ip(), switch.port())
}

/// What is told alone; otherwise what the environment says alone, else the user's own, then root's.
fn directories(told: Option<&Path>) -> Vec<PathBuf> {
    let from = |variable| std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(only) = told.map(Path::to_owned).or_else(|| from(CREDENTIALS_VARIABLE)) {
        return vec![only];
    }
    // SAFETY: geteuid has no preconditions and cannot fail.
    let own = match unsafe { libc::geteuid() } {
        0 => None,
        _ => from("XDG_CONFIG_HOME").or_else(|| Some(from("HOME")?.join(".config"))),
    };
    own.map(|base| base.join("wayside/node")).into_iter().chain([ROOT_DIRECTORY.into()]).collect()
}
