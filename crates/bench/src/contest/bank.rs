//! The accounts of mobile banking (FissLock 7.9) in a real Redis: data that locks guard.
//!
//! A balance check reads an account. A transfer reads two and then writes both, by two commands, and between these
//! nobody but the locks keeps others away. So a service that lets two in makes money or loses it, and what all accounts
//! have together at the end is not what they had at the beginning.
//!
//! The Redis is none of those that have locks. Every node reaches it by a Unix socket, since that has no network
//! namespace: so hosts of their own have the same way to it as processes on loopback.

use super::peers::redis;
use crate::Error;
use crate::phases::PATIENCE;
use crate::recovery::switches::await_that;
use crate::servers::Server;
use crate::workloads::Transaction;
use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Connection, RedisResult, cmd};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// What every account has at first, and the most that a transfer moves.
const OPENING: i64 = 1_000;
const TRANSFER_MOST: i64 = 100;
/// Accounts that are filled and counted by one command.
const PAGE: u64 = 1_000;
/// Of Redis, in its directory.
const SOCKET: &str = "socket";

/// A Redis with accounts.
pub(crate) struct Bank {
    server: Server,
    about: String,
    url: String,
    accounts: u64,
    /// What all had together when they were last counted.
    money: AtomicI64,
}

impl Bank {
    /// Starts it, with so many accounts.
    pub(crate) fn open(accounts: u64) -> Result<Bank, Error> {
        let version = redis::installed().ok_or(redis::MISSING)?;
        let server = redis::begin(&["--unixsocket", SOCKET])?;
        let socket = server.directory().join(SOCKET);
        await_that("Redis answers at its socket", PATIENCE, || UnixStream::connect(&socket).is_ok())?;
        let about = format!("{version} without persistence, at a Unix socket");
        let url = format!("redis+unix://{}", socket.display());
        let bank = Bank { server, about, url, accounts, money: 0.into() };
        bank.fill().map_err(|error| error.to_string())?;
        bank.missing()?;
        Ok(bank)
    }

    /// For readers.
    pub(crate) fn about(&self) -> &str {
        &self.about
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    fn connection(&self) -> RedisResult<Connection> {
        Client::open(self.url.as_str())?.get_connection()
    }

    fn pages(&self) -> impl Iterator<Item = Range<u64>> {
        (0..self.accounts).step_by(PAGE as usize).map(|first| first..self.accounts.min(first + PAGE))
    }

    fn fill(&self) -> RedisResult<()> {
        let mut connection = self.connection()?;
        for page in self.pages() {
            let accounts: Vec<(String, i64)> = page.map(|account| (name(account), OPENING)).collect();
            cmd("MSET").arg(accounts).exec(&mut connection)?;
        }
        Ok(())
    }

    fn count(&self) -> RedisResult<i64> {
        let mut connection = self.connection()?;
        let mut sum = 0;
        for page in self.pages() {
            let names: Vec<String> = page.map(name).collect();
            let balances: Vec<i64> = cmd("MGET").arg(names).query(&mut connection)?;
            sum += balances.iter().sum::<i64>();
        }
        Ok(sum)
    }

    /// Counts what all accounts have, while nobody else is there: how much less that is than the last time.
    pub(crate) fn missing(&self) -> Result<i64, Error> {
        let sum = self.count().map_err(|error| format!("the accounts: {error}"))?;
        Ok(self.money.swap(sum, Relaxed) - sum)
    }

    /// For the clients of one thread, whose commands share its connection.
    pub(crate) async fn teller(&self) -> Result<Teller, Error> {
        let patient =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let client = Client::open(self.url.as_str()).map_err(said)?;
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await.map_err(said)?;
        Ok(Teller { connection })
    }
}

fn said(error: ::redis::RedisError) -> Error {
    format!("the accounts: {error}")
}

fn name(account: u64) -> String {
    format!("account:{account}")
}

/// One thread's way to the accounts.
pub(crate) struct Teller {
    connection: MultiplexedConnection,
}

impl Teller {
    /// What an operation does under its locks: looks at its account, or moves what there is of an amount that the dice
    /// say from one of its two to the other.
    pub(crate) async fn serve(&self, operation: &Transaction, dice: &mut ChaCha8Rng) -> Result<(), Error> {
        let mut connection = self.connection.clone();
        let names: Vec<String> = operation.requests.iter().map(|request| name(request.lock)).collect();
        match names.as_slice() {
            [account] => cmd("GET").arg(account).query_async(&mut connection).await.map(|_: i64| ()).map_err(said),
            [one, other] => {
                // Locks may be in order, and money must not go to higher numbers alone.
                let (from, to) = if dice.random() { (one, other) } else { (other, one) };
                let look: RedisResult<(i64, i64)> = cmd("MGET").arg(from).arg(to).query_async(&mut connection).await;
                let (has, had) = look.map_err(said)?;
                let amount = dice.random_range(1..=TRANSFER_MOST).min(has);
                let balances = [(from, has - amount), (to, had + amount)];
                cmd("MSET").arg(&balances).exec_async(&mut connection).await.map_err(said)
            }
            others => Err(format!("an operation on {} accounts", others.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{Request, Transaction};
    use rand::SeedableRng;
    use wayside_client::Mode;

    #[test]
    fn money_is_moved_and_none_is_lost_and_what_somebody_takes_away_is_missing() {
        let bank = match Bank::open(2_500) {
            Ok(bank) => bank,
            Err(why) => return println!("skipped: {why}"),
        };
        assert_eq!(bank.count().unwrap(), 2_500 * OPENING, "also of a page that is not full");
        let of = |locks: &[u64]| {
            let requests = locks.iter().map(|&lock| Request { lock, mode: Mode::Exclusive }).collect();
            Transaction { kind: "any", requests }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let teller = bank.teller().await.unwrap();
            let mut dice = ChaCha8Rng::seed_from_u64(1);
            teller.serve(&of(&[2_499]), &mut dice).await.unwrap();
            // Often enough that an account has nothing left, which is not made less.
            for _ in 0..2_000 {
                teller.serve(&of(&[0, 2_499]), &mut dice).await.unwrap();
            }
            assert!(teller.serve(&of(&[0, 1, 2]), &mut dice).await.is_err());
            assert!(teller.serve(&of(&[2_500]), &mut dice).await.is_err(), "there is no such account");
        });
        assert_eq!(bank.missing().unwrap(), 0);
        let mut connection = bank.connection().unwrap();
        let balance: i64 = cmd("GET").arg(name(0)).query(&mut connection).unwrap();
        assert!((0..=2 * OPENING).contains(&balance) && balance != OPENING, "{balance}");
        cmd("INCRBY").arg(name(7)).arg(-3).exec(&mut connection).unwrap();
        assert_eq!((bank.missing().unwrap(), bank.missing().unwrap()), (3, 0), "told once");
    }
}
