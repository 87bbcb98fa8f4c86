//! A thread that moves money: two locks, a reading, a thought, a write; and now and then the whole bank, shared.

use crate::bank::{Bank, Entry, Stale};
use crate::messages::Said;
use crate::tally::Tally;
use crate::worker::{Orders, say};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error, Guards, Path, Session};

/// Between reading and writing. Long enough that others get in between, if nothing keeps them out.
const THOUGHT: Duration = Duration::from_micros(300);
/// Then the teller tries others: there is money to be moved elsewhere while an account is locked by the dead.
pub const PATIENCE: Duration = Duration::from_millis(200);
/// For accounts that it was told to want: beyond any lease of the demo.
const LONG_PATIENCE: Duration = Duration::from_secs(20);
/// One in so many operations is an audit, which stops all transfers while it reads.
const AUDITS: u32 = 250;
const LARGEST_AMOUNT: i64 = 100;

pub struct Teller {
    pub bank: Bank,
    /// Names of the accounts' locks.
    pub names: Arc<Vec<String>>,
    /// What the balances sum up to.
    pub money: i64,
    /// None: it goes without locks.
    pub session: Option<Session>,
    pub orders: Arc<Orders>,
    pub tally: Arc<Mutex<Tally>>,
}

/// Why an operation came to nothing. The money is where it was.
enum Hindrance {
    TimedOut,
    Lost,
    Refused,
    /// Nothing that the demo reckons with.
    Broken(String),
}

impl From<Error> for Hindrance {
    fn from(error: Error) -> Self {
        match error {
            Error::TimedOut | Error::OverBudget => Hindrance::TimedOut,
            Error::Lost | Error::Unavailable { .. } => Hindrance::Lost,
            error => Hindrance::Broken(error.to_string()),
        }
    }
}

impl From<Stale> for Hindrance {
    fn from(_: Stale) -> Self {
        Hindrance::Refused
    }
}

impl From<std::io::Error> for Hindrance {
    fn from(error: std::io::Error) -> Self {
        Hindrance::Broken(format!("the bank's file: {error}"))
    }
}

impl Teller {
    /// Works until it is told to stop.
    pub fn work(&self) -> Result<(), String> {
        while !self.orders.stops() {
            let wanted = self.orders.take_want();
            let done = match wanted {
                Some(accounts) => self.transfer_wanted(accounts),
                None if fastrand::u32(..AUDITS) == 0 => self.audit(),
                None => self.transfer(self.two_accounts(), PATIENCE),
            };
            if let (Some(accounts), Err(_)) = (wanted, &done) {
                self.orders.want(accounts);
            }
            let mut tally = self.tally.lock().expect("nobody panics with it");
            match done {
                Ok(()) => {}
                Err(Hindrance::TimedOut) => tally.counts.timed_out += 1,
                Err(Hindrance::Lost) => tally.counts.lost += 1,
                Err(Hindrance::Refused) => tally.counts.refused += 1,
                Err(Hindrance::Broken(why)) => return Err(why),
            }
        }
        Ok(())
    }

    fn two_accounts(&self) -> [usize; 2] {
        let count = self.names.len();
        let from = fastrand::usize(..count);
        // Any but `from`.
        [from, (from + fastrand::usize(1..count)) % count]
    }

    fn transfer_wanted(&self, accounts: [usize; 2]) -> Result<(), Hindrance> {
        say(&Said::Asking);
        self.transfer(accounts, LONG_PATIENCE)?;
        say(&Said::Moved { incarnation: self.incarnation() });
        Ok(())
    }

    fn incarnation(&self) -> u64 {
        self.session.as_ref().and_then(Session::info).map_or(0, |info| info.incarnation)
    }

    fn transfer(&self, [from, to]: [usize; 2], patience: Duration) -> Result<(), Hindrance> {
        let guards = self.acquire(&[from, to], false, patience)?;
        let entries = [from, to].map(|account| self.entry(account, guards.as_ref()));
        let balances = self.bank.read(entries)??;
        thread::sleep(THOUGHT);
        if guards.as_ref().is_some_and(Guards::is_lost) {
            return Err(Hindrance::Lost);
        }
        // Whoever is paused here has asked in time, and writes too late. Only the token can stop that.
        let held = self.orders.hold_if_told(|| {
            let tokens = entries.map(|entry| entry.token);
            say(&Said::Holding { accounts: [from, to], tokens, incarnation: self.incarnation() });
        });
        let amount = fastrand::i64(1..=LARGEST_AMOUNT);
        let written = self.bank.write(entries, balances, amount)?;
        if held {
            say(&Said::Wrote(written.err()));
        }
        written?;
        self.tally.lock().expect("nobody panics with it").counts.transfers += 1;
        Ok(())
    }

    /// Sums up all accounts, read one by one, under shared locks of all of them.
    fn audit(&self) -> Result<(), Hindrance> {
        let accounts: Vec<usize> = (0..self.names.len()).collect();
        let guards = self.acquire(&accounts, true, PATIENCE)?;
        let mut sum = 0;
        for account in accounts {
            let [balance] = self.bank.read([self.entry(account, guards.as_ref())])??;
            sum += balance;
        }
        if guards.as_ref().is_some_and(Guards::is_lost) {
            return Err(Hindrance::Lost);
        }
        let mut tally = self.tally.lock().expect("nobody panics with it");
        tally.counts.audits += 1;
        tally.counts.wrong_audits += u64::from(sum != self.money);
        Ok(())
    }

    fn acquire(&self, accounts: &[usize], shared: bool, patience: Duration) -> Result<Option<Guards>, Hindrance> {
        let Some(session) = &self.session else { return Ok(None) };
        let mut request = session.lock_many(accounts.iter().map(|&account| &self.names[account])).wait(patience);
        if shared {
            request = request.shared();
        }
        let begun = Instant::now();
        let guards = request.acquire()?;
        let mut tally = self.tally.lock().expect("nobody panics with it");
        tally.waited(begun.elapsed());
        for guard in guards.each() {
            match guard.path() {
                Path::Switch => tally.counts.by_switch += 1,
                Path::Agent => tally.counts.by_agent += 1,
                Path::Local => tally.counts.by_local += 1,
            }
        }
        Ok(Some(guards))
    }

    fn entry(&self, account: usize, guards: Option<&Guards>) -> Entry {
        let guard = guards.and_then(|guards| guards.of(&self.names[account]));
        Entry { account, token: guard.map_or(0, |guard| guard.token().0) }
    }
}
