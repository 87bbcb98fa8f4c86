//! The names of keys on disk, for a daemon that finds its predecessor's memory at the hook: the memory has hashes.
//!
//! A line is `NAMESPACE NAME`: the namespace's number, and the name's bytes in hexadecimal digits. A name is appended
//! before the answer that its key was made leaves. Names of keys that have gone stay until the file is rewritten, a
//! piece at a time, beside the old one: names that come meanwhile go into both.
//!
//! Invariants
//! * A name counts only if the memory has the key that is its hash: a line that is damaged, or of another memory, names
//!   no key. So lines need no order, may be there twice, and what is lost costs names alone.
//! * Nothing is synced: the memory does not outlive the host either.
//! * A line begins behind a line's end: what was cut short is one damaged line.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wayside_protocol::chain::Cursor;

const FILE: &str = "names";
const NEW: &str = "names.new";
/// Names that are rewritten between two packets: some 50 us.
const PIECE: usize = 256;
/// The file is rewritten when it has twice as many lines as there are names, and this many more: 100 KiB or so.
const SPARE: u64 = 4096;

/// Names that were lost, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Lines at the start that were none.
    pub damaged: u64,
    /// Names that could not be written.
    pub unwritten: u64,
}

pub struct Names {
    directory: PathBuf,
    /// None: it can't be written, and is tried again with the next name.
    file: Option<File>,
    lines: u64,
    /// More lines than this are rewritten.
    most: u64,
    rewriting: Option<Rewriting>,
    lost: Lost,
}

struct Rewriting {
    file: BufWriter<File>,
    lines: u64,
    /// How far it has come.
    at: Cursor,
}

impl Names {
    /// Reads the directory's file. Each name is told, with its namespace's number.
    pub fn open(directory: &Path, mut tell: impl FnMut(u16, &[u8])) -> Names {
        let mut names = Names {
            directory: directory.into(),
            file: None,
            lines: 0,
            most: SPARE,
            rewriting: None,
            lost: Lost::default(),
        };
        if let Err(error) = names.read(&mut tell) {
            tracing::warn!(%error, "the file of keys' names can't be read to its end");
        }
        if names.lost.damaged > 0 {
            tracing::warn!(lines = names.lost.damaged, "damaged lines in the file of keys' names");
        }
        names
    }

    fn read(&mut self, tell: &mut impl FnMut(u16, &[u8])) -> std::io::Result<()> {
        let file = match File::open(self.directory.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line)? > 0 {
            match parse(line.trim_ascii_end()) {
                Some((namespace, name)) => tell(namespace, &name),
                None if line.trim_ascii().is_empty() => {}
                None => self.lost.damaged += 1,
            }
            self.lines += 1;
            line.clear();
        }
        Ok(())
    }

    /// A key was made.
    pub fn add(&mut self, namespace: u16, name: &[u8]) {
        let line = line(namespace, name);
        if let Err(error) = self.append(&line) {
            if self.lost.unwritten == 0 {
                tracing::error!(%error, "a key's name can't be written: after a restart it is not known");
            }
            self.lost.unwritten += 1;
            self.file = None;
        }
        self.lines += 1;
        let Some(rewriting) = &mut self.rewriting else { return };
        rewriting.lines += 1;
        if let Err(error) = rewriting.file.write_all(line.as_bytes()) {
            self.give_up(&error);
        }
    }

    fn append(&mut self, line: &str) -> std::io::Result<()> {
        if self.file.is_none() {
            let mut file = open(&self.directory.join(FILE), OpenOptions::new().append(true))?;
            // What is there may have been cut short.
            file.write_all(b"\n")?;
            self.file = Some(file);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(line.as_bytes()))
    }

    /// Whether [`Names::tidy`] has something to do. `names`: of keys that there are.
    pub fn is_untidy(&self, names: u64) -> bool {
        self.rewriting.is_some() || self.lines > self.most.max(2 * names + SPARE)
    }

    /// Rewrites a piece of the file. `next`: names from there on, as many as are asked for, and where to go on; none:
    /// that was all.
    pub fn tidy(&mut self, next: impl FnOnce(Cursor, usize, &mut dyn FnMut(u16, &[u8])) -> Option<Cursor>) {
        if let Err(error) = self.rewrite(next) {
            self.give_up(&error);
        }
    }

    fn rewrite(
        &mut self,
        next: impl FnOnce(Cursor, usize, &mut dyn FnMut(u16, &[u8])) -> Option<Cursor>,
    ) -> std::io::Result<()> {
        let mut rewriting = match self.rewriting.take() {
            Some(rewriting) => rewriting,
            None => {
                let file = open(&self.directory.join(NEW), OpenOptions::new().write(true).truncate(true))?;
                Rewriting { file: BufWriter::new(file), lines: 0, at: Cursor::default() }
            }
        };
        let mut text = String::new();
        let goes_on = next(rewriting.at, PIECE, &mut |namespace, name| {
            text += &line(namespace, name);
            rewriting.lines += 1;
        });
        rewriting.file.write_all(text.as_bytes())?;
        let Some(at) = goes_on else {
            let file = rewriting.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            std::fs::rename(self.directory.join(NEW), self.directory.join(FILE))?;
            (self.file, self.lines, self.most) = (Some(file), rewriting.lines, SPARE);
            return Ok(());
        };
        self.rewriting = Some(Rewriting { at, ..rewriting });
        Ok(())
    }

    fn give_up(&mut self, error: &std::io::Error) {
        tracing::warn!(%error, "the file of keys' names can't be rewritten: it grows");
        self.rewriting = None;
        self.most = 2 * self.lines;
    }

    pub fn lost(&self) -> Lost {
        self.lost
    }
}

fn open(path: &Path, how: &mut OpenOptions) -> std::io::Result<File> {
    how.create(true).mode(0o600).open(path)
}

fn line(namespace: u16, name: &[u8]) -> String {
    let mut line = format!("{namespace} ");
    for byte in name {
        // A string takes everything.
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    line
}

fn parse(line: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (namespace, digits) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(hex(*high)? << 4 | hex(*low)?),
        _ => None,
    };
    let name: Vec<u8> = pairs.map(byte).collect::<Option<_>>()?;
    (!name.is_empty()).then_some((namespace.parse().ok()?, name))
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directory: &Path) -> (Vec<(u16, Vec<u8>)>, Lost) {
        let mut all = Vec::new();
        let names = Names::open(directory, |namespace, name| all.push((namespace, name.to_vec())));
        (all, names.lost())
    }

    fn empty(directory: &Path) -> Names {
        Names::open(directory, |_, _| panic!("there is none"))
    }

    #[test]
    fn names_are_there_once_they_were_added() {
        let directory = tempfile::tempdir().unwrap();
        let mut names = empty(directory.path());
        names.add(1, b"config/limit");
        names.add(7, &[0, b'\n', 255]);
        // As if it had been killed: nothing is flushed.
        std::mem::forget(names);
        let expected = vec![(1, b"config/limit".to_vec()), (7, vec![0, b'\n', 255])];
        assert_eq!(read(directory.path()), (expected, Lost::default()));
    }

    #[test]
    fn a_damaged_line_costs_its_own_name_and_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE);
        std::fs::write(&file, b"1 6161\n1 6z\n\xff\xfe\x00\n1 616\n1\n99999 61\n1 6262\n1 63").unwrap();
        let mut names = Names::open(directory.path(), |_, _| {});
        names.add(2, b"dd");
        drop(names);
        let (all, lost) = read(directory.path());
        let names: Vec<_> = all.iter().map(|(_, name)| &name[..]).collect();
        // The last line had no end: it may be a whole one.
        assert_eq!(names, [&b"aa"[..], b"bb", b"c", b"dd"]);
        assert_eq!(lost, Lost { damaged: 5, unwritten: 0 });
    }

    #[test]
    fn names_of_keys_that_have_gone_go_when_the_file_is_rewritten() {
        let directory = tempfile::tempdir().unwrap();
        let mut names = empty(directory.path());
        for number in 0..=SPARE + 4 {
            assert!(!names.is_untidy(2));
            names.add(1, format!("{number}").as_bytes());
        }
        assert!(names.is_untidy(2));
        let cursor = Cursor::default();
        names.tidy(|at, most, tell| {
            assert!(at == cursor && most == PIECE);
            tell(1, b"first");
            Some(cursor)
        });
        names.add(1, b"meanwhile");
        // Killed now, all names are in the old file.
        assert_eq!(read(directory.path()).0.len() as u64, SPARE + 6);
        names.tidy(|_, _, tell| {
            tell(1, b"last");
            None
        });
        names.add(1, b"after");
        assert!(!names.is_untidy(2));
        let all: Vec<_> = read(directory.path()).0.into_iter().map(|(_, name)| name).collect();
        assert_eq!(all, [&b"first"[..], b"meanwhile", b"last", b"after"]);
    }

    #[test]
    fn what_can_not_be_written_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(FILE)).unwrap();
        let mut names = Names::open(directory.path(), |_, _| {});
        names.add(1, b"a");
        assert_eq!(names.lost().unwritten, 1);
        std::fs::remove_dir(directory.path().join(FILE)).unwrap();
        names.add(1, b"b");
        assert_eq!((names.lost().unwritten, read(directory.path()).0), (1, vec![(1, b"b".to_vec())]));
    }
}
