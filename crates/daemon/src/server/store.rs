//! The controller's records on disk, and which number each namespace has had ever since.
//!
//! Invariants
//! * One daemon at a time has the directory open: redb locks its file.
//! * `commit` returns after the transaction is on disk; a daemon killed in between finds all of a batch or none.
//! * A namespace keeps its number and its count of slots for as long as the directory lives: sessions outlive the
//!   daemon, and two nodes that disagree about a name's slot would both hold it.

use super::metrics::Commits;
use crate::config::Namespace;
use crate::failure::Failure;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition,
};
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use wayside_protocol::controller::{Record, Store};

const FILE: &str = "controller.redb";
/// Handle (0: the counters) to the controller's record.
const RECORDS: TableDefinition<u32, &[u8]> = TableDefinition::new("records");
/// What this switch is among those of its shard.
const OWN: TableDefinition<&str, u64> = TableDefinition::new("own");
const NUMBER: &str = "number";
/// What the records are those of, [`crate::config::Division`]; nothing where they are older than that.
const DIVISION: TableDefinition<(), &str> = TableDefinition::new("division");
/// Name of a namespace to its number and count of slots.
const NAMESPACES: TableDefinition<&str, (u16, u32)> = TableDefinition::new("namespaces");

/// An open state directory. Clones are the same.
#[derive(Clone)]
pub struct StateDir {
    file: PathBuf,
    /// None after a write that failed: redb takes no other before it was opened anew.
    database: Arc<Mutex<Option<Database>>>,
    commits: Commits,
}

impl StateDir {
    /// Opens `directory`, which is made if it is missing.
    pub fn open(directory: &Path) -> Result<StateDir, Failure> {
        let shown = directory.display();
        // The records have the secrets of sessions in them.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
            Failure::system(
                format_args!("can't make state directory {shown} (choose another with --state-dir)"),
                &error,
            )
        })?;
        let file = directory.join(FILE);
        // What a full disk leaves of a first start, or a copy that failed: nothing can be read of it.
        if std::fs::metadata(&file).is_ok_and(|found| found.len() == 0) {
            tracing::warn!(
                "{} was empty and is begun anew: who held which lock before is not known; if it had records, stop their \
                 holders, or restore it from a copy",
                file.display()
            );
        }
        let database = Database::create(&file).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => Failure::unavailable(format!(
                "state directory {shown} is in use by another Wayside daemon; end that one or choose another with --state-dir"
            )),
            DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::PermissionDenied => {
                Failure::denied(format!("can't open state directory {shown}: {error}; choose another with --state-dir"))
            }
            error => Failure::unavailable(format!(
                "can't open {shown}/{FILE}: {error}; restore it from a copy, or choose an empty --state-dir \
                 (tokens then start over: resources that remember higher ones will refuse them)"
            )),
        })?;
        std::fs::set_permissions(&file, Permissions::from_mode(0o600))
            .map_err(|error| Failure::system(format_args!("can't close {} to other users", file.display()), &error))?;
        // A file that may not grow is an error like a full disk, and not the daemon's end.
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        Ok(StateDir { file, database: Arc::new(Mutex::new(Some(database))), commits: Commits::default() })
    }

    /// Works with the database; where that fails it is opened anew for the next time.
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let mut open = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let database = match open.take() {
            Some(database) => database,
            None => Database::create(&self.file)?,
        };
        let done = work(&database);
        if done.is_ok() {
            *open = Some(database);
        }
        done
    }

    /// How its commits go from now on.
    pub fn commits(&self) -> Commits {
        self.commits.clone()
    }

    fn write(&self, batch: &[Record]) -> Result<(), redb::Error> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                for (key, value) in batch {
                    table.insert(key, value.as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    /// This switch's own number, the same for as long as the directory lives: `made` becomes it where there is none.
    pub fn own_number(&mut self, made: u64) -> Result<u64, Failure> {
        let number = |database: &Database| {
            let transaction = database.begin_write()?;
            let number = {
                let mut table = transaction.open_table(OWN)?;
                let known = table.get(NUMBER)?.map(|entry| entry.value());
                if known.is_none() {
                    table.insert(NUMBER, made)?;
                }
                known.unwrap_or(made)
            };
            transaction.commit()?;
            Ok(number)
        };
        self.with(number).map_err(|error| Failure::unavailable(format!("can't write the state directory: {error}")))
    }

    /// The shards that the records are those of: `wanted` from now on, if they are new.
    pub fn division(&mut self, wanted: &str) -> Result<String, Failure> {
        let division = |database: &Database| {
            let transaction = database.begin_write()?;
            let division = {
                let is_new = transaction.open_table(NAMESPACES)?.is_empty()?;
                let mut table = transaction.open_table(DIVISION)?;
                let known = table.get(())?.map(|entry| entry.value().to_owned());
                let division = known.unwrap_or_else(|| if is_new { wanted.to_owned() } else { String::new() });
                table.insert((), division.as_str())?;
                division
            };
            transaction.commit()?;
            Ok(division)
        };
        self.with(division).map_err(|error| Failure::unavailable(format!("can't write the state directory: {error}")))
    }

    /// The number of each of `namespaces`, in their order.
    pub fn number(&mut self, namespaces: &[Namespace]) -> Result<Vec<u16>, Failure> {
        let numbered = self.with(|database| {
            let mut numbers = Vec::with_capacity(namespaces.len());
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(NAMESPACES)?;
                for Namespace { name, slots, .. } in namespaces {
                    let known = table.get(name.as_str())?.map(|entry| entry.value());
                    let number = match known {
                        Some((number, before)) if before == *slots => number,
                        Some((_, before)) => {
                            return Ok(Err(Failure::usage(format!(
                                "namespace {name:?} has {before} slots in this state directory, not {slots}: nodes that \
                                 still know the old count would hold the same locks; give it a new name, or an empty \
                                 --state-dir"
                            ))));
                        }
                        None => {
                            let Ok(number) = u16::try_from(table.len()?) else {
                                let why = "this state directory has known 65,536 namespaces, and numbers no other";
                                return Ok(Err(Failure::usage(why)));
                            };
                            table.insert(name.as_str(), (number, *slots))?;
                            number
                        }
                    };
                    numbers.push(number);
                }
            }
            transaction.commit()?;
            Ok(Ok(numbers))
        });
        numbered.map_err(|error| Failure::unavailable(format!("can't write the state directory: {error}")))?
    }
}

impl Store for StateDir {
    type Error = redb::Error;

    fn load(&mut self) -> Result<Vec<Record>, redb::Error> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let table = match transaction.open_table(RECORDS) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                table => table?,
            };
            let mut records = Vec::new();
            for record in table.iter()? {
                let (key, value) = record?;
                records.push((key.value(), value.value().to_vec()));
            }
            Ok(records)
        })
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), redb::Error> {
        let begun = Instant::now();
        let outcome = self.write(batch);
        self.commits.note(begun.elapsed(), outcome.is_ok());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::exit;
    use wayside_protocol::controller::{Allocation, Room};
    use wayside_wire::{Engine, Policy};

    fn namespace(name: &str, slots: u32) -> Namespace {
        Namespace {
            name: name.into(),
            slots,
            policy: Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            engine: Engine::Fission,
            queues: Vec::new(),
            cells: 0,
            allocation: Allocation::Fixed,
            room: Room::default(),
            servers: 1,
            longest_lease: std::time::Duration::from_secs(60),
            keys: 0,
            groups: 1,
            budget: None,
        }
    }

    #[test]
    fn records_survive_and_the_latest_counts() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(directory.path()).unwrap();
        assert_eq!(state.load().unwrap(), []);
        state.commit(&[(0, vec![1]), (7, vec![2, 3])]).unwrap();
        state.commit(&[(7, vec![4])]).unwrap();
        drop(state);
        let mut state = StateDir::open(directory.path()).unwrap();
        assert_eq!(state.load().unwrap(), [(0, vec![1]), (7, vec![4])]);
    }

    #[test]
    fn a_switch_keeps_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(directory.path()).unwrap();
        assert_eq!((state.own_number(5).unwrap(), state.own_number(6).unwrap()), (5, 5));
    }

    #[test]
    fn records_are_of_the_shards_that_they_began_with() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(directory.path()).unwrap();
        assert_eq!(state.division("a of a,b").unwrap(), "a of a,b");
        assert_eq!(state.division("a of a,b,c").unwrap(), "a of a,b");
        let directory = tempfile::tempdir().unwrap();
        let mut before = StateDir::open(directory.path()).unwrap();
        before.number(&[namespace("a", 4)]).unwrap();
        assert_eq!(before.division("a of a,b").unwrap(), "", "of before there were any");
    }

    #[test]
    fn secrets_are_for_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("state");
        let _state = StateDir::open(&inner).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&inner), mode(&inner.join(FILE))), (0o700, 0o600));
    }

    #[test]
    fn one_daemon_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let _first = StateDir::open(directory.path()).unwrap();
        let failure = StateDir::open(directory.path()).err().unwrap();
        assert_eq!(failure.code, exit::UNAVAILABLE);
        assert!(failure.message.contains("in use by another Wayside daemon"), "{failure}");
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), [7; 5000]).unwrap();
        let failure = StateDir::open(directory.path()).err().unwrap();
        assert!(failure.message.contains("choose an empty --state-dir"), "{failure}");
    }

    #[test]
    fn namespaces_keep_their_numbers_and_slots() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(directory.path()).unwrap();
        assert_eq!(state.number(&[namespace("a", 4), namespace("b", 8)]).unwrap(), [0, 1]);
        assert_eq!(state.number(&[namespace("c", 2), namespace("b", 8)]).unwrap(), [2, 1]);
        let failure = state.number(&[namespace("a", 5)]).unwrap_err();
        assert_eq!(failure.code, exit::USAGE);
        assert!(failure.message.contains("has 4 slots"), "{failure}");
    }
}
