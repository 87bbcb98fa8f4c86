//! Files: who is refused, and what a crash leaves.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use wayside_fence::file::Error;
use wayside_fence::{FileFence, Token};

fn token(token: u64) -> Token {
    Token::new(token).unwrap()
}

/// What [`write`] wrote: a token, and so many copies of it that a torn file would show.
fn read(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let first: u64 = lines.next().unwrap().parse().unwrap();
    assert_eq!(lines.map(|line| assert_eq!(line, first.to_string())).count(), COPIES - 1);
    first
}

fn write(directory: &Path, with: u64) -> Result<(), Error> {
    let pass = FileFence::new(directory.join("fence")).pass(token(with))?;
    Ok(pass.replace(directory.join("data"), format!("{with}\n").repeat(COPIES).as_bytes())?)
}

const COPIES: usize = 2_000;

#[test]
fn a_token_below_the_highest_is_refused_and_one_that_is_equal_or_above_is_not() {
    let directory = tempfile::tempdir().unwrap();
    // Beyond 2^53 neighbours are one double; of 9 and 10 the texts sort the other way.
    let rising = [0, 9, 10, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 2, (1 << 63) - 1];
    for (index, &highest) in rising.iter().enumerate() {
        for _ in 0..2 {
            write(directory.path(), highest).unwrap();
            assert_eq!(read(&directory.path().join("data")), highest);
        }
        for &older in &rising[..index] {
            let refused = write(directory.path(), older).unwrap_err();
            assert!(matches!(refused, Error::Refused { token: shown, seen }
                if (shown, seen) == (token(older), token(highest))));
            assert_eq!(refused.to_string(), format!("fenced: token {older} is older than {highest}"));
        }
        assert_eq!(read(&directory.path().join("data")), highest);
    }
}

#[test]
fn who_only_shows_a_token_fences_as_well() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 1).unwrap();
    drop(FileFence::new(directory.path().join("fence")).pass(token(2)).unwrap());
    assert!(matches!(write(directory.path(), 1), Err(Error::Refused { .. })));
}

#[test]
fn a_reader_keeps_out_a_writer_of_the_same_token_and_not_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 7).unwrap();
    for _ in 0..2 {
        drop(FileFence::new(directory.path().join("fence")).pass(token(7).of_reader()).unwrap());
    }
    assert!(matches!(write(directory.path(), 7), Err(Error::Refused { .. })));
    write(directory.path(), 8).unwrap();
}

#[test]
fn what_is_no_fence_lets_nobody_by() {
    let directory = tempfile::tempdir().unwrap();
    for text in ["12", "0012\n", "-1\n", "12\n13\n", "\n", "\0\0\0"] {
        fs::write(directory.path().join("fence"), text).unwrap();
        assert!(matches!(write(directory.path(), 99), Err(Error::System(_))), "{text:?}");
    }
}

#[test]
fn writers_at_the_same_time_never_go_back() {
    const WRITERS: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    fs::write(&log, "").unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (directory, log) = (directory.path(), &log);
            scope.spawn(move || {
                let fence = FileFence::new(directory.join("fence"));
                for round in 1..=100 {
                    let Ok(pass) = fence.pass(token(round * WRITERS + writer)) else { continue };
                    // Read and written under the pass: what another wrote meanwhile would be lost.
                    let before = fs::read_to_string(log).unwrap();
                    pass.replace(log, format!("{before}{}\n", round * WRITERS + writer).as_bytes()).unwrap();
                }
            });
        }
    });
    let log = fs::read_to_string(&log).unwrap();
    let tokens: Vec<u64> = log.lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    let last = *tokens.last().unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("fence")).unwrap(), format!("{last}\n"));
    assert_eq!(last, 100 * WRITERS + WRITERS - 1, "the highest is never refused");
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_file_and_a_fence_that_is_not_below_it() {
    if let Some(directory) = std::env::var_os("FENCE_TEST_DIRECTORY") {
        for with in 1.. {
            write(Path::new(&directory), with).unwrap();
        }
    }
    let mut furthest = 0;
    for round in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), 0).unwrap();
        let test = "a_writer_that_is_killed_leaves_a_whole_file_and_a_fence_that_is_not_below_it";
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("FENCE_TEST_DIRECTORY", directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while read(&directory.path().join("data")) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(700 * round));
        writer.kill().unwrap();
        assert_eq!(writer.wait().unwrap().signal(), Some(libc::SIGKILL));
        let written = read(&directory.path().join("data"));
        let seen: u64 = fs::read_to_string(directory.path().join("fence")).unwrap().trim_end().parse().unwrap();
        assert!(seen == written || seen == written + 1, "fence {seen}, file {written}");
        furthest = furthest.max(written);
        // Whoever comes next is not kept out by what the dead one left.
        write(directory.path(), seen).unwrap();
        assert_eq!(read(&directory.path().join("data")), seen);
        assert!(write(directory.path(), seen - 1).is_err());
    }
    assert!(furthest > 1, "nobody was killed at work");
}
