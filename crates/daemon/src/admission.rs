//! Who may enrol: tokens that let a host in once, and the hosts that were let in. Files in the state directory, which
//! is the daemon's user's alone, so that `wayside node` works whether a daemon runs or not.
//!
//! ```text
//!   enrolment/authority.der  the certificate of the switch's authority
//!   enrolment/place          where hosts join, and which namespaces there are
//!   enrolment/tokens/ID      what a token is good for, as JSON    ──redeemed──► ID.used
//!   enrolment/hosts/ID       a host that may enrol, as JSON       ──removed──► removed/ID, until all switches know
//!   enrolment/ends/ID        when its latest certificate ends
//!   enrolment/shared         the names of files that all switches of the shard have had; none: it is the only one
//! ```
//!
//! Invariants
//! * A token's secret is nowhere: its ID is the SHA-256 of it. Renaming its file is what redeems it, so that of any
//!   number of hosts with one token one is let in.
//! * A host may enrol only as long as its file in `hosts` is there, which is written once: whoever renews a certificate
//!   can't bring back a host that is being removed. Its ID is the SHA-256 of its public key, so that it stays the same.

use crate::failure::Failure;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddrV4;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wayside_client::credentials::host_id;
use wayside_client::enrolment::{Token, hex};

const AUTHORITY: &str = "authority.der";
const PLACE: &str = "place";
const TOKENS: &str = "tokens";
const HOSTS: &str = "hosts";
const ENDS: &str = "ends";
const REMOVED: &str = "removed";
const SHARED: &str = "shared";
const USED: &str = "used";
/// For so long after its end a token is told apart from one that never was.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is in them, by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The files.
#[derive(Clone, Debug)]
pub struct Admission {
    directory: PathBuf,
}

/// A host that may enrol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Of its public key.
    #[serde(default)]
    pub id: String,
    /// As it calls itself.
    pub host: String,
    /// Where it joined from.
    pub address: String,
    /// Seconds since 1970.
    pub joined: u64,
    /// The namespaces that it may begin sessions in; none: all.
    pub namespaces: Vec<String>,
    /// When its latest certificate ends, in seconds since 1970.
    #[serde(skip)]
    pub expires: u64,
}

impl Host {
    pub fn may_enrol_in(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace)
    }
}

/// What tokens are to say, and may be for.
#[derive(Serialize, Deserialize)]
struct Place {
    address: SocketAddrV4,
    namespaces: Vec<String>,
}

/// What a token is good for.
#[derive(Default, Serialize, Deserialize)]
struct Promise {
    /// Seconds since 1970.
    ends: u64,
    namespaces: Vec<String>,
}

/// Why a token does not let a host in.
#[derive(Debug)]
pub enum NotRedeemed {
    Used,
    Expired,
    Unknown,
    Failed(io::Error),
}

impl Admission {
    /// Of the switch with this state directory.
    pub fn of(state_dir: &Path) -> Admission {
        Admission { directory: state_dir.join("enrolment") }
    }

    /// Makes the directories, each for its owner alone.
    pub fn make(&self) -> io::Result<()> {
        for directory in [TOKENS, HOSTS, ENDS, REMOVED] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(self.directory.join(directory))?;
        }
        Ok(())
    }

    /// A file of the authority, if it is there.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.directory.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file for its owner alone: all of it or nothing.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = self.write_new(&new, bytes).and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            // On a full disk.
            let _ = fs::remove_file(&new);
        }
        written?;
        path.parent().map_or(Ok(()), settle)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // Root's commands write for the daemon's user.
        let (owner, writer) = (fs::metadata(&self.directory)?, file.metadata()?.uid());
        if owner.uid() != writer {
            fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Every file that switches of one shard have in common, by its name; and those that can't be read.
    pub fn files(&self) -> io::Result<(Files, Vec<String>)> {
        let (mut files, mut unreadable) = (Files::new(), Vec::new());
        for directory in ["", TOKENS, HOSTS, ENDS] {
            for entry in fs::read_dir(self.directory.join(directory))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                // Each switch's own.
                if entry.file_type()?.is_dir() || [PLACE, SHARED].contains(&&*name) || name.contains(".new-") {
                    continue;
                }
                let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                match self.read(&name) {
                    Ok(Some(bytes)) => drop(files.insert(name, bytes)),
                    // Removed since it was listed.
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(name, %error, "can't be read");
                        unreadable.push(name);
                    }
                }
            }
        }
        Ok((files, unreadable))
    }

    /// The names of files that all switches have had; None: no other switch has had any.
    pub fn shared(&self) -> io::Result<Option<BTreeSet<String>>> {
        let text = self.read(SHARED)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).lines().map(String::from).collect()))
    }

    pub fn set_shared<'n>(&self, names: impl Iterator<Item = &'n str>) -> io::Result<()> {
        self.write(SHARED, names.collect::<Vec<_>>().join("\n").as_bytes())
    }

    /// The hosts that were removed here, of which other switches may not know yet.
    pub fn removed(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.directory.join(REMOVED))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    /// All know of it.
    pub fn forget_removed(&self, id: &str) -> io::Result<()> {
        self.delete(&format!("{REMOVED}/{id}"))
    }

    /// Removes a file, if it is there.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.directory.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Says what tokens are to say: where hosts join, and whom they will meet there; and which namespaces there are.
    pub fn publish(&self, address: SocketAddrV4, authority: &[u8], namespaces: Vec<String>) -> io::Result<()> {
        self.write(AUTHORITY, authority)?;
        self.write(PLACE, &serde_json::to_vec(&Place { address, namespaces })?)
    }

    /// Says which namespaces there are now, where it [was said](Self::publish) before.
    pub fn publish_namespaces(&self, namespaces: Vec<String>) -> io::Result<()> {
        let Some(place) = self.read(PLACE)? else { return Err(ErrorKind::NotFound.into()) };
        let place: Place = serde_json::from_slice(&place)?;
        self.write(PLACE, &serde_json::to_vec(&Place { namespaces, ..place })?)
    }

    /// Writes a token that is good once, for `lifetime`: it lets a host enrol in `namespaces`, or in all if that is
    /// empty.
    pub fn token(&self, lifetime: Duration, namespaces: &[String]) -> Result<Token, Failure> {
        let shown = self.directory.display();
        let failed = |error: io::Error| Failure::system(format_args!("can't write a token in {shown}"), &error);
        let none = || {
            Failure::unavailable(format!(
                "no switch that takes enrolled hosts only has run with this state directory ({shown} does not say where): \
                 start it first, and tell --state-dir if it is another"
            ))
        };
        let authority = self.read(AUTHORITY).map_err(failed)?.ok_or_else(none)?;
        let place = self.read(PLACE).map_err(failed)?.ok_or_else(none)?;
        let place: Place = serde_json::from_slice(&place).map_err(|_| none())?;
        if let Some(unknown) = namespaces.iter().find(|name| !place.namespaces.contains(name)) {
            return Err(Failure::usage(format!(
                "the switch has no namespace {unknown:?}; it has {}",
                place.namespaces.join(", ")
            )));
        }
        let mut secret = [0; 16];
        SystemRandom::new().fill(&mut secret).map_err(|_| Failure::unavailable("no random numbers"))?;
        self.forget_old_tokens().map_err(failed)?;
        let promise = Promise { ends: (since_1970() + lifetime).as_secs(), namespaces: namespaces.to_vec() };
        let text = serde_json::to_vec(&promise).expect("strings and a number");
        self.write(&format!("{TOKENS}/{}", token_id(&secret)), &text).map_err(failed)?;
        let pin = digest(&SHA256, &authority).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Token { address: place.address, pin, secret })
    }

    /// Whether [`Admission::redeem`] would redeem a token now.
    pub fn look_up(&self, secret: &[u8]) -> Result<(), NotRedeemed> {
        let path = self.directory.join(TOKENS).join(token_id(secret));
        match path.try_exists() {
            Ok(true) => match promise_in(&path) {
                Ok(promise) if Duration::from_secs(promise.ends) > since_1970() => Ok(()),
                Ok(_) => Err(NotRedeemed::Expired),
                Err(error) => Err(NotRedeemed::Failed(error)),
            },
            Ok(false) if path.with_extension(USED).exists() => Err(NotRedeemed::Used),
            Ok(false) => Err(NotRedeemed::Unknown),
            Err(error) => Err(NotRedeemed::Failed(error)),
        }
    }

    /// Redeems a token: the namespaces that it is good for.
    pub fn redeem(&self, secret: &[u8]) -> Result<Vec<String>, NotRedeemed> {
        let id = token_id(secret);
        let path = self.directory.join(TOKENS).join(&id);
        let used = path.with_extension(USED);
        match fs::rename(&path, &used) {
            Ok(()) => {
                settle(&self.directory.join(TOKENS)).map_err(NotRedeemed::Failed)?;
                let promise = promise_in(&used);
                if let Ok(Promise { ends, namespaces }) = &promise
                    && Duration::from_secs(*ends) > since_1970()
                {
                    return Ok(namespaces.clone());
                }
                // Expired it stays, used or not.
                fs::rename(&used, &path).map_err(NotRedeemed::Failed)?;
                Err(promise.map_or_else(NotRedeemed::Failed, |_| NotRedeemed::Expired))
            }
            Err(error) if error.kind() == ErrorKind::NotFound && used.exists() => Err(NotRedeemed::Used),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(NotRedeemed::Unknown),
            Err(error) => Err(NotRedeemed::Failed(error)),
        }
    }

    /// Lets the host with this public key in.
    pub fn admit(
        &self,
        key: &[u8],
        host: &str,
        address: SocketAddrV4,
        namespaces: Vec<String>,
        expires: u64,
    ) -> io::Result<Host> {
        let host = Host {
            id: key_id(key),
            host: host.into(),
            address: address.ip().to_string(),
            joined: since_1970().as_secs(),
            namespaces,
            expires,
        };
        // It may come back.
        self.forget_removed(&host.id)?;
        self.note_end(&host.id, expires)?;
        let text = serde_json::to_vec(&host).expect("strings and a number");
        self.write(&format!("{HOSTS}/{}", host.id), &text)?;
        Ok(host)
    }

    /// When the latest certificate of a host ends.
    pub fn note_end(&self, id: &str, expires: u64) -> io::Result<()> {
        self.write(&format!("{ENDS}/{id}"), expires.to_string().as_bytes())
    }

    fn end_of(&self, id: &str) -> u64 {
        let text = fs::read_to_string(self.directory.join(ENDS).join(id)).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// The number of the host with this public key, and what is written of it, if it may enrol. What makes no sense
    /// allows nothing.
    pub fn host(&self, key: &[u8]) -> io::Result<Option<(u64, Host)>> {
        let id = key_id(key);
        let text = self.read(&format!("{HOSTS}/{id}"))?.unwrap_or_default();
        let host: Option<Host> = serde_json::from_slice(&text).ok();
        Ok(host.and_then(|host| Some((number_of(&id)?, Host { expires: self.end_of(&id), ..host }))))
    }

    /// The hosts that may enrol, in the order of their joining.
    pub fn hosts(&self) -> io::Result<Vec<Host>> {
        let mut hosts = Vec::new();
        let entries = match fs::read_dir(self.directory.join(HOSTS)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(hosts),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let id = entry.file_name().to_string_lossy().into_owned();
            let text = match fs::read(entry.path()) {
                // Removed since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                _ if number_of(&id).is_none() => continue,
                text => text?,
            };
            // What a full disk has left of a file is a host none the less, and can be removed.
            let unknown = || String::from("?");
            let unreadable = || Host {
                id: String::new(),
                host: unknown(),
                address: unknown(),
                joined: 0,
                namespaces: vec![unknown()],
                expires: 0,
            };
            let host = serde_json::from_slice(&text).unwrap_or_else(|_| unreadable());
            hosts.push(Host { expires: self.end_of(&id), id, ..host });
        }
        hosts.sort_by(|one, other| (one.joined, &one.id).cmp(&(other.joined, &other.id)));
        Ok(hosts)
    }

    /// The same by their numbers, which sessions bear; fast enough to be asked several times a second.
    pub fn numbers(&self) -> io::Result<HashSet<u64>> {
        let entries = fs::read_dir(self.directory.join(HOSTS))?;
        let mut numbers = HashSet::new();
        for entry in entries {
            numbers.extend(number_of(&entry?.file_name().to_string_lossy()));
        }
        Ok(numbers)
    }

    /// Lets a host in no more. False: there was none with this id.
    pub fn remove(&self, id: &str) -> io::Result<bool> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(false);
        }
        let (path, removed) = (self.directory.join(HOSTS).join(id), self.directory.join(REMOVED));
        // Where there are other switches they must hear of it, although no daemon may run here now.
        let is_shared = self.shared()?.is_some();
        match if is_shared { fs::rename(&path, removed.join(id)) } else { fs::remove_file(&path) } {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            gone => {
                // Worth nothing by itself.
                let _ = fs::remove_file(self.directory.join(ENDS).join(id));
                gone?;
                if is_shared {
                    settle(&removed)?;
                }
                settle(&self.directory.join(HOSTS))?;
                Ok(true)
            }
        }
    }

    fn forget_old_tokens(&self) -> io::Result<()> {
        let now = since_1970();
        for entry in fs::read_dir(self.directory.join(TOKENS))? {
            let path = entry?.path();
            // What can't be read is not known to be old.
            if promise_in(&path).is_ok_and(|promise| Duration::from_secs(promise.ends) + REMEMBERED < now) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// What was renamed or removed in this directory is so after a power failure, too.
fn settle(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

/// What the shard's other switches are to hear first from one that starts: what has happened in its directory since all
/// had the files named `shared`. By the file, with its bytes, or None where it goes. `here` and `there`: what the
/// directory and the others have; `removed`: hosts that were removed here.
///
/// Otherwise a host would be back that was removed while no daemon ran, and one that had just joined would be gone.
pub fn unheard(
    here: &Files,
    there: &Files,
    shared: &BTreeSet<String>,
    removed: &[String],
) -> Vec<(String, Option<Vec<u8>>)> {
    let of_removed = removed.iter().flat_map(|id| [HOSTS, ENDS].map(|directory| format!("{directory}/{id}")));
    let mut changes: Vec<_> = of_removed.filter(|name| there.contains_key(name)).map(|name| (name, None)).collect();
    for (name, bytes) in here {
        let is_of_hosts = [TOKENS, HOSTS, ENDS].into_iter().any(|directory| name.starts_with(&format!("{directory}/")));
        let is_used = there.contains_key(&format!("{name}.{USED}"));
        if is_of_hosts && !is_used && !shared.contains(name) && !there.contains_key(name) {
            changes.push((name.clone(), Some(bytes.clone())));
            // A token that was redeemed.
            changes.extend(
                name.strip_suffix(USED)
                    .and_then(|token| token.strip_suffix('.'))
                    .filter(|token| there.contains_key(*token))
                    .map(|token| (token.into(), None)),
            );
        }
    }
    changes
}

/// The name of the file of the host with this ID.
pub fn file_of_host(id: &str) -> String {
    format!("{HOSTS}/{id}")
}

/// The numbers of the hosts among these files, which are named as [`Admission::files`] names them.
pub fn numbers_in<'n>(files: impl Iterator<Item = &'n str>) -> HashSet<u64> {
    files.filter_map(|name| number_of(name.strip_prefix(HOSTS)?.strip_prefix('/')?)).collect()
}

/// The number of a host with this id; None: it is none, but a file that is being written.
fn number_of(id: &str) -> Option<u64> {
    u64::from_str_radix(id, 16).ok()
}

/// What a token is good for: for nothing, and since long ago, where that makes no sense.
fn promise_in(path: &Path) -> io::Result<Promise> {
    Ok(serde_json::from_slice(&fs::read(path)?).unwrap_or_default())
}

fn token_id(secret: &[u8]) -> String {
    hex(digest(&SHA256, secret).as_ref())
}

fn key_id(key: &[u8]) -> String {
    host_id(digest(&SHA256, key).as_ref())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn admission() -> (tempfile::TempDir, Admission) {
        let directory = tempfile::tempdir().unwrap();
        let admission = Admission::of(directory.path());
        admission.make().unwrap();
        (directory, admission)
    }

    #[test]
    fn a_token_is_good_once() {
        let (_directory, admission) = admission();
        assert!(admission.token(HOUR, &[]).unwrap_err().message.contains("start it first"));
        admission.publish("10.0.0.1:7602".parse().unwrap(), b"certificate", vec!["a".into(), "b".into()]).unwrap();
        let token = admission.token(HOUR, &[]).unwrap();
        assert_eq!(token.address.to_string(), "10.0.0.1:7602");
        assert!(admission.look_up(&token.secret).is_ok() && admission.look_up(&token.secret).is_ok());
        assert_eq!(admission.redeem(&token.secret).unwrap(), [""; 0]);
        assert!(matches!(admission.look_up(&token.secret), Err(NotRedeemed::Used)));
        assert!(matches!(admission.look_up(b"another"), Err(NotRedeemed::Unknown)));
        assert!(matches!(admission.redeem(&token.secret), Err(NotRedeemed::Used)));
        assert!(matches!(admission.redeem(b"another"), Err(NotRedeemed::Unknown)));
    }

    #[test]
    fn an_expired_token_stays_expired() {
        let (_directory, admission) = admission();
        admission.publish("10.0.0.1:7602".parse().unwrap(), b"certificate", vec!["a".into(), "b".into()]).unwrap();
        let token = admission.token(Duration::ZERO, &[]).unwrap();
        for _ in 0..2 {
            assert!(matches!(admission.look_up(&token.secret), Err(NotRedeemed::Expired)));
            assert!(matches!(admission.redeem(&token.secret), Err(NotRedeemed::Expired)));
        }
    }

    #[test]
    fn a_host_is_known_until_it_is_removed() {
        let (_directory, admission) = admission();
        let host = admission.admit(b"key", "a", "10.0.0.2:1".parse().unwrap(), vec![], 5).unwrap();
        let (number, known) = admission.host(b"key").unwrap().expect("known");
        assert_eq!(known, host);
        assert_eq!(format!("{number:016x}"), host.id);
        assert_eq!(
            (admission.host(b"another").unwrap(), admission.numbers().unwrap()),
            (None, HashSet::from([number]))
        );
        assert_eq!(admission.hosts().unwrap(), std::slice::from_ref(&host));
        assert!(!admission.remove("../hosts").unwrap() && !admission.remove("").unwrap());
        admission.note_end(&host.id, 7).unwrap();
        assert_eq!(admission.hosts().unwrap()[0].expires, 7);
        assert!(admission.remove(&host.id).unwrap() && !admission.remove(&host.id).unwrap());
        assert_eq!((admission.host(b"key").unwrap(), admission.numbers().unwrap().len()), (None, 0));
    }

    #[test]
    fn a_token_may_be_for_some_namespaces() {
        let (_directory, admission) = admission();
        let namespaces = || ["a", "b", "c"].map(String::from);
        admission.publish("10.0.0.1:7602".parse().unwrap(), b"certificate", namespaces().into()).unwrap();
        let failure = admission.token(HOUR, &["a".into(), "d".into()]).unwrap_err();
        assert!(failure.message.ends_with("the switch has no namespace \"d\"; it has a, b, c"), "{failure}");
        let token = admission.token(HOUR, &namespaces()[..2]).unwrap();
        let allowed = admission.redeem(&token.secret).unwrap();
        assert_eq!(allowed, ["a", "b"]);
        admission.admit(b"key", "h", "10.0.0.2:1".parse().unwrap(), allowed, 5).unwrap();
        let (_, host) = admission.host(b"key").unwrap().unwrap();
        assert_eq!(namespaces().map(|name| host.may_enrol_in(&name)), [true, true, false]);
        // What a full disk has left of a record allows nothing.
        let path = admission.directory.join(HOSTS).join(key_id(b"key"));
        fs::write(path, "{").unwrap();
        assert_eq!(admission.host(b"key").unwrap(), None);
    }

    fn files(all: &[(&str, &str)]) -> Files {
        all.iter().map(|(name, text)| ((*name).into(), text.as_bytes().to_vec())).collect()
    }

    /// Whoever is removed has been here, and is back only by joining again.
    #[test]
    fn a_host_that_was_removed_is_told_to_the_other_switches() {
        let (_directory, admission) = admission();
        let admit = || admission.admit(b"key", "a", "10.0.0.2:1".parse().unwrap(), vec![], 5).unwrap().id;
        let id = admit();
        assert!(admission.remove(&id).unwrap() && admission.removed().unwrap().is_empty(), "there are no others");
        admit();
        let all = admission.files().unwrap().0;
        admission.set_shared(all.keys().map(String::as_str)).unwrap();
        assert!(admission.remove(&id).unwrap() && !admission.remove(&id).unwrap());
        assert_eq!((admission.removed().unwrap(), admission.numbers().unwrap().len()), (vec![id.clone()], 0));
        let (here, shared) = (admission.files().unwrap().0, admission.shared().unwrap().expect("named"));
        let gone = vec![(format!("hosts/{id}"), None), (format!("ends/{id}"), None)];
        assert_eq!(unheard(&here, &all, &shared, &admission.removed().unwrap()), gone);
        admit();
        assert_eq!((admission.removed().unwrap(), admission.files().unwrap().0.len()), (vec![], all.len()));
    }

    #[test]
    fn what_the_others_have_not_heard_is_what_none_of_them_had() {
        let shared: BTreeSet<String> = ["hosts/old", "tokens/1"].map(String::from).into();
        let there = files(&[("authority.der", "A"), ("tokens/1", "t"), ("tokens/2", "t")]);
        // The old one was removed elsewhere. A new one has joined, by the token 1; 3 was written; the authority is not
        // for a start to change.
        let here = files(&[
            ("authority.der", "B"),
            ("hosts/old", "o"),
            ("hosts/new", "n"),
            ("tokens/1.used", "t"),
            ("tokens/2", "t"),
            ("tokens/3", "t"),
        ]);
        let some = |text: &str| Some(text.as_bytes().to_vec());
        let expected =
            [("hosts/new", some("n")), ("tokens/1.used", some("t")), ("tokens/1", None), ("tokens/3", some("t"))];
        let expected: Vec<_> = expected.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        assert_eq!(unheard(&here, &there, &shared, &[]), expected);
    }

    /// Root's commands write for another user's daemon, or nothing can be read.
    #[test]
    fn what_cannot_be_read_is_neither_expired_nor_gone() {
        let (_directory, admission) = admission();
        admission.publish("10.0.0.1:7602".parse().unwrap(), b"certificate", vec!["a".into()]).unwrap();
        let token = admission.token(HOUR, &[]).unwrap();
        let path = admission.directory.join(TOKENS).join(token_id(&token.secret));
        // Nobody can read a directory as a file, root included.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(admission.look_up(&token.secret), Err(NotRedeemed::Failed(_))));
        assert!(matches!(admission.redeem(&token.secret), Err(NotRedeemed::Failed(_))));
        assert!(path.is_dir(), "it is not spent");
        let host = admission.admit(b"key", "a", "10.0.0.2:1".parse().unwrap(), vec![], 5).unwrap();
        fs::write(admission.directory.join(HOSTS).join(format!("{}.new-7", host.id)), "{").unwrap();
        assert_eq!(admission.hosts().unwrap().len(), 1, "what a full disk has left is none");
        let path = admission.directory.join(HOSTS).join(&host.id);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(admission.host(b"key").is_err());
    }
}
