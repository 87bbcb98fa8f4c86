//! SmallBank, as FaSST and DINT have it: every account has savings and checking, with a lock each; of the transactions
//! 90 % are about the 4 % of accounts that are hot, the others about any.
//!
//! 24 million accounts in DINT. Six transactions: amalgamate 15 %, balance 15, deposit 15, payment 25, savings 15,
//! check 15.

use super::{Generator, Transaction, Workload, of_mix, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayside_client::Mode::{Exclusive, Shared};

const MIX: [u32; 6] = [15, 15, 15, 25, 15, 15];
/// Transactions about hot accounts, of a hundred.
const HOT_TRANSACTIONS: u32 = 90;
/// Hot accounts, of a hundred.
const HOT_ACCOUNTS: u64 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct SmallBank {
    pub(super) accounts: u64,
}

impl Workload for SmallBank {
    fn locks(&self) -> u64 {
        2 * self.accounts
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        let hot = self.accounts * HOT_ACCOUNTS / 100;
        Box::new(Transactions { accounts: self.accounts, hot, random: random(seed, client) })
    }
}

struct Transactions {
    accounts: u64,
    hot: u64,
    random: ChaCha8Rng,
}

fn savings(account: u64) -> u64 {
    2 * account
}

fn checking(account: u64) -> u64 {
    2 * account + 1
}

impl Generator for Transactions {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        let kind = of_mix(&MIX, self.random.random_range(0..100));
        let is_hot = self.random.random_range(0..100) < HOT_TRANSACTIONS;
        let accounts = if is_hot { self.hot } else { self.accounts };
        let one = self.random.random_range(0..accounts);
        let other = (one + self.random.random_range(1..accounts)) % accounts;
        into.begin(["amalgamate", "balance", "deposit", "payment", "savings", "check"][kind]);
        match kind {
            0 => {
                into.ask(savings(one), Exclusive);
                into.ask(checking(one), Exclusive);
                into.ask(checking(other), Exclusive);
            }
            1 => {
                into.ask(savings(one), Shared);
                into.ask(checking(one), Shared);
            }
            2 => into.ask(checking(one), Exclusive),
            3 => {
                into.ask(checking(one), Exclusive);
                into.ask(checking(other), Exclusive);
            }
            4 => into.ask(savings(one), Exclusive),
            _ => {
                into.ask(savings(one), Shared);
                into.ask(checking(one), Exclusive);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::fits;
    use super::*;

    const KINDS: [(&str, usize); 6] =
        [("amalgamate", 3), ("balance", 2), ("deposit", 1), ("payment", 2), ("savings", 1), ("check", 2)];

    #[test]
    fn the_mix_and_the_hot_accounts_are_as_published() {
        let bank = SmallBank { accounts: 1_000_000 };
        let mut generator = bank.generator(1, 0);
        let mut transaction = Transaction::empty();
        let (mut kinds, mut hot, mut places) = ([0u64; 6], [0u64; 2], [0u64; 40]);
        for _ in 0..300_000 {
            generator.next(Duration::ZERO, &mut transaction);
            let kind = KINDS.iter().position(|kind| kind.0 == transaction.kind).unwrap();
            assert_eq!(transaction.requests.len(), KINDS[kind].1, "{transaction:?}");
            kinds[kind] += 1;
            let account = transaction.requests[0].lock / 2;
            hot[usize::from(account < 40_000)] += 1;
            if account < 40_000 {
                places[account as usize / 1_000] += 1;
            }
        }
        assert!(fits(&kinds, &MIX.map(f64::from)), "{kinds:?}");
        // Of the tenth that may be about any account, 4 % are about hot ones by chance.
        let shares = [0.1 * 0.96, 0.9 + 0.1 * 0.04];
        assert!(fits(&hot, &shares) && !fits(&hot, &[0.1, 0.9]), "{hot:?}");
        assert!(fits(&places, &[1.0; 40]), "{places:?}");
    }

    /// Both accounts of a payment are hot, or both are any; the second one is another one, any of those.
    #[test]
    fn the_second_account_is_any_other_one_of_as_hot_ones() {
        let bank = SmallBank { accounts: 1_000_000 };
        let mut generator = bank.generator(1, 0);
        let mut transaction = Transaction::empty();
        let (mut hot, mut places, mut distances) = ([0u64; 4], [0u64; 40], [0u64; 40]);
        for _ in 0..400_000 {
            generator.next(Duration::ZERO, &mut transaction);
            let (one, other) = match (transaction.kind, &transaction.requests[..]) {
                ("payment", [one, other]) | ("amalgamate", [_, one, other]) => (one.lock / 2, other.lock / 2),
                _ => continue,
            };
            assert_ne!(one, other, "{transaction:?}");
            hot[2 * usize::from(one < 40_000) + usize::from(other < 40_000)] += 1;
            if one < 40_000 && other < 40_000 {
                places[other as usize / 1_000] += 1;
                distances[((other + 40_000 - one) % 40_000) as usize / 1_000] += 1;
            }
        }
        let by_chance = |one: f64, other: f64| 0.1 * one * other;
        let shares = [by_chance(0.96, 0.96), by_chance(0.96, 0.04), by_chance(0.04, 0.96), 0.9 + by_chance(0.04, 0.04)];
        assert!(fits(&hot, &shares), "{hot:?}");
        assert!(fits(&places, &[1.0; 40]) && fits(&distances, &[1.0; 40]), "{places:?} {distances:?}");
    }

    #[test]
    fn whoever_only_reads_asks_for_shared_locks() {
        let bank = SmallBank { accounts: 1_000 };
        let mut generator = bank.generator(1, 0);
        let mut transaction = Transaction::empty();
        for _ in 0..10_000 {
            generator.next(Duration::ZERO, &mut transaction);
            let exclusive = transaction.requests.iter().filter(|request| request.mode == Exclusive).count();
            let expected = match transaction.kind {
                "amalgamate" => 3,
                "balance" => 0,
                "payment" => 2,
                _ => 1,
            };
            assert_eq!(exclusive, expected, "{transaction:?}");
        }
    }
}
