//! Mobile banking, as FissLock 7.9 has it: nine of ten operations look at an account's balance, the others transfer
//! money from one account to another. An account has one lock. How often which account is asked for the paper does not
//! tell: here all alike.

use super::{Generator, Transaction, Workload, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayside_client::Mode::{Exclusive, Shared};

/// Operations that look, of a hundred.
const BALANCES: u32 = 90;

#[derive(Clone, Copy, Debug)]
pub(super) struct Banking {
    pub(super) accounts: u64,
}

impl Workload for Banking {
    fn locks(&self) -> u64 {
        self.accounts
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        Box::new(Operations { accounts: self.accounts, random: random(seed, client) })
    }
}

struct Operations {
    accounts: u64,
    random: ChaCha8Rng,
}

impl Generator for Operations {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        let account = self.random.random_range(0..self.accounts);
        if self.random.random_range(0..100) < BALANCES {
            into.begin("balance");
            into.ask(account, Shared);
        } else {
            into.begin("transfer");
            into.ask(account, Exclusive);
            into.ask((account + self.random.random_range(1..self.accounts)) % self.accounts, Exclusive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::statistics::fits;

    #[test]
    fn accounts_are_all_alike_and_money_goes_to_any_other_one() {
        let banking = Banking { accounts: 1_000_000 };
        let mut generator = banking.generator(1, 1);
        let mut operation = Transaction::empty();
        let [mut balances, mut from, mut to, mut distances] = [[0u64; 100]; 4];
        for _ in 0..300_000 {
            generator.next(Duration::ZERO, &mut operation);
            let class = |account: u64| account as usize / 10_000;
            match &operation.requests[..] {
                [one] => balances[class(one.lock)] += 1,
                [one, other] => {
                    assert_ne!(one.lock, other.lock);
                    from[class(one.lock)] += 1;
                    to[class(other.lock)] += 1;
                    distances[class((other.lock + banking.accounts - one.lock) % banking.accounts)] += 1;
                }
                more => panic!("{more:?}"),
            }
        }
        for counts in [balances, from, to, distances] {
            assert!(fits(&counts, &[1.0; 100]), "{counts:?}");
        }
        assert!(!fits(&balances, &std::array::from_fn::<f64, 100, _>(|class| 1.0 + class as f64 / 1_000.0)));
    }

    #[test]
    fn nine_of_ten_operations_look_at_one_account_and_the_others_change_two() {
        let banking = Banking { accounts: 1_000_000 };
        let mut generator = banking.generator(1, 1);
        let mut operation = Transaction::empty();
        let mut kinds = [0u64; 2];
        for _ in 0..100_000 {
            generator.next(Duration::ZERO, &mut operation);
            let transfers = operation.kind == "transfer";
            kinds[usize::from(transfers)] += 1;
            assert_eq!(operation.requests.len(), 1 + usize::from(transfers));
            let mode = if transfers { Exclusive } else { Shared };
            assert!(operation.requests.iter().all(|request| request.mode == mode), "{operation:?}");
        }
        assert!(fits(&kinds, &[90.0, 10.0]) && !fits(&kinds, &[89.0, 11.0]), "{kinds:?}");
    }
}
