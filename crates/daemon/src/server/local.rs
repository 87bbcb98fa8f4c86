//! Where the daemon listens on its own host: an abstract socket and a file (`wayside_client::daemon` says why both).
//!
//! Invariants
//! * What is at the file's path is replaced only if it is a socket that nobody answers.
//! * The runtime directory, where no path was told, is this user's alone to write: else another could put a socket of
//!   its own there.

use crate::config::Config;
use crate::failure::Failure;
use std::io;
use std::net::SocketAddrV4;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use wayside_client::daemon::{abstract_name, own_control_socket};

/// For the abstract name of a daemon that was killed: the kernel frees the switch's port a moment before it.
const NAME: Duration = Duration::from_millis(500);

/// Both listeners.
pub struct LocalSockets {
    file: UnixListener,
    /// None where another process has its name.
    name: Option<UnixListener>,
}

impl LocalSockets {
    /// Opens both for the switch at `listen`, which is bound: so no other daemon can have the name.
    pub fn bind(config: &Config, listen: SocketAddrV4) -> Result<(SocketFile, LocalSockets), Failure> {
        let own = own_control_socket(listen);
        let path = config.control_socket.as_deref().unwrap_or(&own);
        // What the environment says is in the configuration too: without it the path is the default.
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if let Some(directory) = directory {
            make_directory(directory).map_err(|error| unbound(path, &error))?;
            if config.control_socket.is_none() {
                check_runtime(directory)?;
            }
        }
        let (socket_file, file) = SocketFile::bind(path)?;
        let name = bind_name(listen);
        tracing::info!(control_socket = %path.display(), abstract_socket = name.is_some(), "listening");
        Ok((socket_file, LocalSockets { file, name }))
    }

    /// The next connection on either.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = match &self.name {
            None => self.file.accept().await?,
            Some(name) => tokio::select! {
                stream = self.file.accept() => stream?,
                stream = name.accept() => stream?,
            },
        };
        Ok(stream)
    }
}

/// The abstract socket. A process that has taken its name must not keep the switch from serving; it is told of, here
/// and by `wayside doctor`.
fn bind_name(listen: SocketAddrV4) -> Option<UnixListener> {
    let since = Instant::now();
    let bind = || {
        let address = SocketAddr::from_abstract_name(abstract_name(listen))?;
        let listener = std::os::unix::net::UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    };
    loop {
        match bind() {
            Ok(listener) => return Some(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && since.elapsed() < NAME => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the abstract socket @{} can't be had: of processes that do not find the control socket by its \
                     path, the end is noticed after their lease only; `wayside doctor` says who has it",
                    abstract_name(listen)
                );
                return None;
            }
        }
    }
}

/// The Unix socket's file, removed when the daemon ends in good order.
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// Binds `path`. A file left behind by a daemon that was killed is replaced, one that answers is not.
    fn bind(path: &Path) -> Result<(SocketFile, UnixListener), Failure> {
        let failed = |error: &io::Error| unbound(path, error);
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(Failure::unavailable(format!(
                "control socket {} is in use by another Wayside daemon; end that one or choose another with --control-socket",
                path.display()
            )));
        }
        match std::fs::symlink_metadata(path) {
            Ok(file) if !file.file_type().is_socket() => {
                return Err(failed(&io::Error::new(io::ErrorKind::AlreadyExists, "a file of another kind is there")));
            }
            Ok(_) => std::fs::remove_file(path).map_err(|error| failed(&error))?,
            Err(_) => {}
        }
        let listener = std::os::unix::net::UnixListener::bind(path).map_err(|error| failed(&error))?;
        // It serves every user's processes, as the UDP port does. Greetings need the session's secret.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(|error| failed(&error))?;
        let file = SocketFile(path.into());
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        Ok((file, UnixListener::from_std(listener).map_err(|error| failed(&error))?))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn unbound(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::system(format_args!("can't open control socket {path} (choose another with --control-socket)"), error)
}

fn own_user() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes the runtime directory: /run/wayside for everyone to look into, any other for its user alone.
fn make_directory(directory: &Path) -> io::Result<()> {
    let mode = if own_user() == 0 { 0o755 } else { 0o700 };
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory)
}

/// `directory`, and above it `wayside-UID`, which among the temporary files anybody could have made first.
fn check_runtime(directory: &Path) -> Result<(), Failure> {
    let temporary = std::env::temp_dir().join(format!("wayside-{}", own_user()));
    let above = directory.parent().filter(|above| *above == temporary);
    above.into_iter().chain([directory]).try_for_each(|directory| check_owner(directory, own_user()))
}

fn check_owner(directory: &Path, user: u32) -> Result<(), Failure> {
    let shown = directory.display();
    let found = std::fs::symlink_metadata(directory)
        .map_err(|error| Failure::system(format_args!("can't look at runtime directory {shown}"), &error))?;
    let wrong = match found.mode() & 0o7777 {
        _ if !found.is_dir() => "is no directory, but a link or a file".into(),
        _ if found.uid() != user => format!("belongs to user {}, not to {user} who runs this daemon", found.uid()),
        mode if mode & 0o022 != 0 => format!("can be written by other users (mode {mode:o})"),
        _ => return Ok(()),
    };
    Err(Failure::denied(format!(
        "runtime directory {shown} {wrong}: another user could put a socket there; remove it, or choose another place \
         with XDG_RUNTIME_DIR or --control-socket"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::exit;

    #[test]
    fn a_runtime_directory_that_others_may_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("wayside");
        make_directory(&inner).unwrap();
        check_owner(&inner, own_user()).unwrap();
        let refused = |path: &Path, user: u32, expected: &str| {
            let failure = check_owner(path, user).unwrap_err();
            assert_eq!(failure.code, exit::DENIED);
            assert!(failure.message.contains(expected), "{failure}");
        };
        refused(&inner, own_user() + 1, "belongs to user");
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o770)).unwrap();
        refused(&inner, own_user(), "can be written by other users (mode 770)");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        refused(&link, own_user(), "is no directory");
    }
}
