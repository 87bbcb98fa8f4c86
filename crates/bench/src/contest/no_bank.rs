//! Instead of `bank.rs`, where clients of Redis are not built in.

use crate::Error;
use crate::workloads::Transaction;
use rand_chacha::ChaCha8Rng;

/// There is none.
pub(crate) enum Bank {}

impl Bank {
    pub(crate) fn open(_: u64) -> Result<Bank, Error> {
        Err("this was built without the feature `peers`".into())
    }

    pub(crate) fn about(&self) -> &str {
        match *self {}
    }

    pub(crate) fn id(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn missing(&self) -> Result<i64, Error> {
        match *self {}
    }

    pub(crate) async fn teller(&self) -> Result<Teller, Error> {
        match *self {}
    }
}

/// Nobody's.
pub(crate) enum Teller {}

impl Teller {
    pub(crate) async fn serve(&self, _: &Transaction, _: &mut ChaCha8Rng) -> Result<(), Error> {
        match *self {}
    }
}
