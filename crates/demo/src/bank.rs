//! The accounts: one file, shared by processes that know nothing of each other.
//!
//! ```text
//! 8-byte words:  | transfers | accounts | money at the founding | - | account 0 | account 1 | ...
//!                account:  balance | booked | token of the last write | highest token seen | since when (us)
//! ```
//!
//! Invariants
//! * Every access is one *step*: the page is read, changed and written back under the file's own lock. That is the
//!   storage's own atomicity, such as one SQL statement has. It ends between the reading and the writing of a
//!   transfer, so it protects no transfer: the locks of Wayside do.
//! * A step writes one page with one system call, and a process dies by SIGKILL between its system calls, not within
//!   the copying of a page. So a transfer is in the file as a whole or not at all, and the sum survives `kill -9`.
//! * `balance` is what a teller wrote: what it had read, plus or minus an amount. `booked` is what the bank itself
//!   added up of these amounts, within its steps. They differ where one teller has overwritten what another one did.
//! * An account refuses tokens below the highest that it was ever shown, by readings as well as by writes. With writes
//!   alone, a stale write could slip in after the next holder has read and before it has written, and be overwritten.

use crate::system::{FileLock, now_us};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A page of the kernel's.
const PAGE_BYTES: usize = 4096;
const WORDS: usize = PAGE_BYTES / 8;
const TRANSFERS: usize = 0;
const COUNT: usize = 1;
const FOUNDED_WITH: usize = 2;
/// Words before the first account, and words of an account.
const HEADER: usize = 4;
const ACCOUNT: usize = 5;

/// As many accounts as a page has room for.
pub const MOST_ACCOUNTS: usize = (WORDS - HEADER) / ACCOUNT;

/// An account, and the fencing token of the lock under which it is used; 0 without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub account: usize,
    pub token: u64,
}

/// Why the bank refused: the account has seen a higher token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stale {
    pub account: usize,
    pub token: u64,
    pub seen: u64,
}

/// One account as it is in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub balance: i64,
    /// What it should be.
    pub booked: i64,
    /// Token of the last write.
    pub written: u64,
    /// Highest token that came with a reading or a write.
    pub seen: u64,
    /// When it first came.
    pub seen_at_us: u64,
}

/// All accounts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub transfers: u64,
    /// What the balances summed up to at the founding, and should for ever.
    pub founded_with: i64,
    pub accounts: Vec<Account>,
}

impl Statement {
    pub fn sum(&self) -> i64 {
        self.accounts.iter().map(|account| account.balance).sum()
    }

    /// What is missing on accounts that have too little, and what is too much on the others.
    pub fn astray(&self) -> (u64, u64) {
        let errors = self.accounts.iter().map(|account| account.balance - account.booked);
        errors.fold((0, 0), |(missing, surplus), error| {
            let by = error.unsigned_abs();
            if error < 0 { (missing + by, surplus) } else { (missing, surplus + by) }
        })
    }

    /// Whether every account has what it should have; then so has their sum.
    pub fn is_exact(&self) -> bool {
        self.astray() == (0, 0) && self.sum() == self.founded_with
    }
}

/// The open file. Every thread has its own: the file's lock is between open files.
pub struct Bank {
    file: File,
    fenced: bool,
}

impl Bank {
    /// Makes a bank of accounts with equal balances.
    pub fn found(path: &Path, accounts: usize, balance: i64) -> io::Result<()> {
        assert!((2..=MOST_ACCOUNTS).contains(&accounts), "{accounts} accounts do not fit in a page");
        let mut page = Page([0; WORDS]);
        page.0[COUNT] = accounts as u64;
        page.0[FOUNDED_WITH] = accounts as u64 * balance as u64;
        for account in 0..accounts {
            page.put(account, Account { balance, booked: balance, ..Account::default() });
        }
        std::fs::write(path, page.bytes())
    }

    /// Opens it. `fenced`: stale tokens are refused.
    pub fn open(path: &Path, fenced: bool) -> io::Result<Bank> {
        Ok(Bank { file: OpenOptions::new().read(true).write(true).open(path)?, fenced })
    }

    /// Balances of some accounts.
    pub fn read<const N: usize>(&self, entries: [Entry; N]) -> io::Result<Result<[i64; N], Stale>> {
        self.step(|page| {
            page.admit(&entries, self.fenced)?;
            Ok(entries.map(|entry| page.account(entry.account).balance))
        })
    }

    /// Writes both accounts of a transfer, or none: `balances` as the teller has read them, moved by `amount`.
    pub fn write(&self, entries: [Entry; 2], balances: [i64; 2], amount: i64) -> io::Result<Result<(), Stale>> {
        self.step(|page| {
            page.admit(&entries, self.fenced)?;
            for ((Entry { account, token }, balance), amount) in
                entries.into_iter().zip(balances).zip([-amount, amount])
            {
                let before = page.account(account);
                let (balance, booked) = (balance + amount, before.booked + amount);
                page.put(account, Account { balance, booked, written: token, ..before });
            }
            page.0[TRANSFERS] += 1;
            Ok(())
        })
    }

    /// Everything, without a token: for who only watches.
    pub fn statement(&self) -> io::Result<Statement> {
        self.step(|page| Statement {
            transfers: page.0[TRANSFERS],
            founded_with: page.0[FOUNDED_WITH] as i64,
            accounts: (0..page.0[COUNT] as usize).map(|account| page.account(account)).collect(),
        })
    }

    fn step<T>(&self, work: impl FnOnce(&mut Page) -> T) -> io::Result<T> {
        let _alone = FileLock::take(&self.file)?;
        let mut bytes = [0; PAGE_BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        let mut page = Page::of(&bytes);
        let result = work(&mut page);
        let after = page.bytes();
        if after != bytes {
            self.file.write_all_at(&after, 0)?;
        }
        Ok(result)
    }
}

struct Page([u64; WORDS]);

impl Page {
    fn of(bytes: &[u8; PAGE_BYTES]) -> Page {
        let mut page = Page([0; WORDS]);
        for (word, bytes) in page.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of 8"));
        }
        page
    }

    fn bytes(&self) -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(&self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn account(&self, account: usize) -> Account {
        let words = &self.0[HEADER + account * ACCOUNT..][..ACCOUNT];
        let [balance, booked, written, seen, seen_at_us] = words.try_into().expect("as many words as an account has");
        Account { balance: balance as i64, booked: booked as i64, written, seen, seen_at_us }
    }

    fn put(&mut self, account: usize, Account { balance, booked, written, seen, seen_at_us }: Account) {
        let words = &mut self.0[HEADER + account * ACCOUNT..][..ACCOUNT];
        words.copy_from_slice(&[balance as u64, booked as u64, written, seen, seen_at_us]);
    }

    /// Refuses if one of the tokens is stale, otherwise remembers the new ones.
    fn admit(&mut self, entries: &[Entry], fenced: bool) -> Result<(), Stale> {
        for &Entry { account, token } in entries {
            let seen = self.account(account).seen;
            if fenced && token < seen {
                return Err(Stale { account, token, seen });
            }
        }
        for &Entry { account, token } in entries {
            let before = self.account(account);
            if token > before.seen {
                self.put(account, Account { seen: token, seen_at_us: now_us(), ..before });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(fenced: bool) -> (tempfile::TempDir, Bank) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bank");
        Bank::found(&path, 3, 100).unwrap();
        let bank = Bank::open(&path, fenced).unwrap();
        (directory, bank)
    }

    fn entries(accounts: [usize; 2], token: u64) -> [Entry; 2] {
        accounts.map(|account| Entry { account, token })
    }

    /// A transfer of 10 under `token`, by a teller that has read 100 on both accounts.
    fn write(bank: &Bank, accounts: [usize; 2], token: u64) -> Result<(), Stale> {
        bank.write(entries(accounts, token), [100, 100], 10).unwrap()
    }

    #[test]
    fn a_transfer_is_written_whole() {
        let (_directory, bank) = bank(true);
        write(&bank, [0, 2], 5).unwrap();
        let statement = bank.statement().unwrap();
        assert_eq!(statement.accounts.iter().map(|account| account.balance).collect::<Vec<_>>(), [90, 100, 110]);
        assert!(statement.is_exact());
        assert_eq!(statement.transfers, 1);
    }

    #[test]
    fn a_stale_write_is_refused_whole_even_where_one_account_would_take_it() {
        let (_directory, bank) = bank(true);
        write(&bank, [1, 2], 7).unwrap();
        let before = bank.statement().unwrap();
        assert_eq!(write(&bank, [0, 1], 6), Err(Stale { account: 1, token: 6, seen: 7 }));
        assert_eq!(bank.statement().unwrap(), before);
    }

    #[test]
    fn a_reading_fences_off_who_read_before() {
        let (_directory, bank) = bank(true);
        bank.read(entries([0, 1], 1)).unwrap().unwrap();
        assert_eq!(bank.read(entries([0, 1], 2)).unwrap(), Ok([100, 100]));
        assert!(write(&bank, [0, 1], 1).is_err());
        assert_eq!(write(&bank, [0, 1], 2), Ok(()));
    }

    #[test]
    fn without_fencing_a_stale_write_loses_money() {
        let (_directory, bank) = bank(false);
        write(&bank, [1, 2], 7).unwrap();
        // As if account 1 still had 100.
        write(&bank, [0, 1], 6).unwrap();
        let statement = bank.statement().unwrap();
        assert_eq!((statement.sum(), statement.astray()), (310, (0, 10)));
        assert!(!statement.is_exact());
    }
}
