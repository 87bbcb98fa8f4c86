//! TPC-C's five transactions as the locks that they take: 121 for each warehouse, as in FissLock.
//!
//! | table | locks a warehouse | of what |
//! | --- | --- | --- |
//! | warehouse | 1 | the row |
//! | district | 10 | each row |
//! | customer | 30 | a thirtieth of the rows |
//! | order, history, new order, order line | 10 each | a tenth of the table; inserts take one after the other |
//! | stock | 30 | a thirtieth of the rows |
//! | item | 10 | never taken: items do not change |
//!
//! A client has its home on one node and works in one of that node's warehouses, any, in each transaction. Of the lines
//! of a new order 1 % take their stock from another warehouse, of the payments 15 % are by another one's customer: so
//! about 90 % of the transactions stay at home. Mix 45 / 43 / 4 / 4 / 4. NetLock 6.3 varies the contention by the
//! warehouses of a node: 10 or 1. SwitchTx 5.1 has new orders and payments alone, with all items from other warehouses;
//! 24 or 4 warehouses on each of 8 servers.

use super::{Generator, Transaction, Workload, of_mix, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayside_client::Mode::{Exclusive, Shared};

/// Locks of a warehouse.
const LOCKS: u64 = 121;
const DISTRICT: u64 = 1;
const CUSTOMER: u64 = 11;
const ORDER: u64 = 41;
const HISTORY: u64 = 51;
const NEW_ORDER: u64 = 61;
const ORDER_LINE: u64 = 71;
const STOCK: u64 = 81;
/// Each of the tables of which a lock has a tenth, and districts.
const TENTHS: u64 = 10;
const CUSTOMERS: u64 = 30;
const STOCKS: u64 = 30;
/// Lines of an order: TPC-C's mean.
const LINES: u64 = 10;
/// Customers of a district, and stocks of a warehouse.
const DISTRICT_CUSTOMERS: u64 = 3_000;
/// Payments by a customer of another warehouse, of a hundred.
const REMOTE_PAYMENTS: u32 = 15;
/// Customers that are looked for by their last name, of a hundred.
const BY_NAME: u32 = 60;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tpcc {
    pub(super) nodes: u64,
    pub(super) warehouses_of_node: u64,
    /// New order, payment, order status, delivery, stock level; of a hundred.
    pub(super) mix: [u32; 5],
    /// Lines whose stock is another warehouse's, of a hundred.
    pub(super) remote_lines: u32,
}

impl Tpcc {
    fn warehouses(&self) -> u64 {
        self.nodes * self.warehouses_of_node
    }
}

impl Workload for Tpcc {
    fn locks(&self) -> u64 {
        self.warehouses() * LOCKS
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        let mut random = random(seed, client);
        let inserted = random.random_range(0..TENTHS);
        Box::new(Transactions { tpcc: *self, home: client % self.nodes, inserted, random })
    }
}

struct Transactions {
    tpcc: Tpcc,
    /// The client's node.
    home: u64,
    /// Rows that this client has inserted, from somewhere on.
    inserted: u64,
    random: ChaCha8Rng,
}

impl Transactions {
    fn warehouse(&mut self) -> u64 {
        self.home * self.tpcc.warehouses_of_node + self.below(self.tpcc.warehouses_of_node)
    }

    /// Any other, if there is one.
    fn other_warehouse(&mut self, own: u64) -> u64 {
        let all = self.tpcc.warehouses();
        if all == 1 { own } else { (own + 1 + self.below(all - 1)) % all }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    fn percent(&mut self, share: u32) -> bool {
        self.random.random_range(0..100) < share
    }

    /// TPC-C's skew: bits of a second number up to `bits` are set as well.
    fn skewed(&mut self, bits: u64, end: u64) -> u64 {
        (self.below(bits) | self.below(end)) % end
    }

    /// The lock of a customer of any district: by last name, of which there are a thousand, or by number.
    fn customer(&mut self) -> u64 {
        let row = if self.percent(BY_NAME) { self.skewed(256, 1_000) } else { self.skewed(1_024, DISTRICT_CUSTOMERS) };
        CUSTOMER + row % CUSTOMERS
    }

    fn insert(&mut self) -> u64 {
        self.inserted += 1;
        self.inserted % TENTHS
    }

    fn new_order(&mut self, base: u64, warehouse: u64, into: &mut Transaction) {
        let district = self.below(TENTHS);
        into.ask(base, Shared);
        into.ask(base + DISTRICT + district, Exclusive);
        // The thirtieths of a warehouse's customers: three for each district.
        let customer = (self.skewed(1_024, DISTRICT_CUSTOMERS) + district * DISTRICT_CUSTOMERS) / 1_000;
        into.ask(base + CUSTOMER + customer, Shared);
        let row = self.insert();
        into.ask(base + ORDER + row, Exclusive);
        into.ask(base + NEW_ORDER + row, Exclusive);
        for _ in 0..LINES {
            let remote = self.percent(self.tpcc.remote_lines);
            let from = if remote { self.other_warehouse(warehouse) * LOCKS } else { base };
            into.ask(from + STOCK + self.below(STOCKS), Exclusive);
        }
        into.ask(base + ORDER_LINE + row, Exclusive);
    }

    fn payment(&mut self, base: u64, warehouse: u64, into: &mut Transaction) {
        into.ask(base, Exclusive);
        into.ask(base + DISTRICT + self.below(TENTHS), Exclusive);
        let remote = self.percent(REMOTE_PAYMENTS);
        let from = if remote { self.other_warehouse(warehouse) * LOCKS } else { base };
        into.ask(from + self.customer(), Exclusive);
        into.ask(base + HISTORY + self.insert(), Exclusive);
    }

    fn order_status(&mut self, base: u64, into: &mut Transaction) {
        into.ask(base + self.customer(), Shared);
        into.ask(base + ORDER + self.below(TENTHS), Shared);
        into.ask(base + ORDER_LINE + self.below(TENTHS), Shared);
    }

    fn delivery(&mut self, base: u64, into: &mut Transaction) {
        into.ask(base + NEW_ORDER + self.below(TENTHS), Exclusive);
        into.ask(base + ORDER + self.below(TENTHS), Exclusive);
        into.ask(base + ORDER_LINE + self.below(TENTHS), Shared);
        into.ask(base + CUSTOMER + self.skewed(1_024, DISTRICT_CUSTOMERS) % CUSTOMERS, Exclusive);
    }

    fn stock_level(&mut self, base: u64, into: &mut Transaction) {
        into.ask(base + DISTRICT + self.below(TENTHS), Shared);
        into.ask(base + ORDER_LINE + self.below(TENTHS), Shared);
        into.ask(base + STOCK + self.below(STOCKS), Shared);
    }
}

const KINDS: [&str; 5] = ["new order", "payment", "order status", "delivery", "stock level"];

impl Generator for Transactions {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        let kind = of_mix(&self.tpcc.mix, self.random.random_range(0..100));
        into.begin(KINDS[kind]);
        let warehouse = self.warehouse();
        let base = warehouse * LOCKS;
        match kind {
            0 => self.new_order(base, warehouse, into),
            1 => self.payment(base, warehouse, into),
            2 => self.order_status(base, into),
            3 => self.delivery(base, into),
            _ => self.stock_level(base, into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::fits;
    use super::*;

    const STANDARD: Tpcc = Tpcc { nodes: 8, warehouses_of_node: 10, mix: [45, 43, 4, 4, 4], remote_lines: 1 };

    fn each(tpcc: Tpcc, client: u64, count: usize, mut look: impl FnMut(&Transaction)) {
        let mut generator = tpcc.generator(1, client);
        let mut transaction = Transaction::empty();
        for _ in 0..count {
            generator.next(Duration::ZERO, &mut transaction);
            look(&transaction);
        }
    }

    #[test]
    fn the_mix_is_tpccs_and_nine_of_ten_transactions_stay_at_home() {
        let (mut kinds, mut homes) = ([0; 5], [0; 2]);
        each(STANDARD, 3, 200_000, |transaction| {
            kinds[KINDS.iter().position(|kind| *kind == transaction.kind).unwrap()] += 1;
            let warehouse = transaction.requests[0].lock / LOCKS;
            assert_eq!(warehouse / 10, 3, "the home of client 3");
            homes[usize::from(transaction.requests.iter().all(|request| request.lock / LOCKS == warehouse))] += 1;
        });
        assert!(fits(&kinds, &[45.0, 43.0, 4.0, 4.0, 4.0]), "{kinds:?}");
        // A payment's customer, or any of ten lines.
        let away = 0.43 * 0.15 + 0.45 * (1.0 - 0.99f64.powi(10));
        assert!(fits(&homes, &[away, 1.0 - away]) && away > 0.10 && away < 0.11, "{homes:?}");
        assert!(!fits(&homes, &[0.43 * 0.15, 1.0 - 0.43 * 0.15]));
    }

    #[test]
    fn transactions_take_the_locks_of_their_tables() {
        let table = |lock: u64| match lock % LOCKS {
            0 => 'w',
            1..11 => 'd',
            11..41 => 'c',
            41..51 => 'o',
            51..61 => 'h',
            61..71 => 'n',
            71..81 => 'l',
            81..111 => 's',
            _ => 'i',
        };
        each(STANDARD, 0, 50_000, |transaction| {
            let of = |mode| {
                let mut tables: Vec<char> = transaction
                    .requests
                    .iter()
                    .filter(|request| request.mode == mode)
                    .map(|request| table(request.lock))
                    .collect();
                tables.dedup();
                tables.into_iter().collect::<String>()
            };
            let expected = match transaction.kind {
                "new order" => ("wc", "donsl"),
                "payment" => ("", "wdch"),
                "order status" => ("col", ""),
                "delivery" => ("l", "noc"),
                _ => ("dls", ""),
            };
            assert_eq!((of(Shared).as_str(), of(Exclusive).as_str()), expected, "{transaction:?}");
        });
    }

    #[test]
    fn districts_stocks_and_warehouses_are_even_and_customers_are_not() {
        let (mut districts, mut stocks, mut warehouses, mut customers) = ([0; 10], [0; 30], [0; 10], [0; 30]);
        each(STANDARD, 0, 200_000, |transaction| {
            if transaction.kind == "payment" {
                warehouses[(transaction.requests[0].lock / LOCKS) as usize] += 1;
                districts[(transaction.requests[1].lock % LOCKS - DISTRICT) as usize] += 1;
                customers[(transaction.requests[2].lock % LOCKS - CUSTOMER) as usize] += 1;
            } else if transaction.kind == "stock level" {
                stocks[(transaction.requests[2].lock % LOCKS - STOCK) as usize] += 1;
            }
        });
        assert!(fits(&districts, &[1.0; 10]) && fits(&stocks, &[1.0; 30]) && fits(&warehouses, &[1.0; 10]));
        // Exactly, by all pairs of numbers.
        let mut shares = [0.0; 30];
        for (bits, end, share) in [(256u64, 1_000u64, 0.6), (1_024, 3_000, 0.4)] {
            let each = share / (bits * end) as f64;
            let pairs = (0..bits).flat_map(|one| (0..end).map(move |other| (one | other) % end));
            pairs.for_each(|row| shares[(row % CUSTOMERS) as usize] += each);
        }
        assert!(fits(&customers, &shares), "{customers:?}");
        assert!(!fits(&customers, &[1.0; 30]));
    }

    #[test]
    fn switchtx_has_new_orders_and_payments_with_every_item_from_elsewhere() {
        let tpcc = Tpcc { nodes: 8, warehouses_of_node: 4, mix: [51, 49, 0, 0, 0], remote_lines: 100 };
        each(tpcc, 0, 10_000, |transaction| {
            assert!(["new order", "payment"].contains(&transaction.kind));
            let home = transaction.requests[0].lock / LOCKS;
            let stocks = transaction.requests.iter().filter(|request| (STOCK..111).contains(&(request.lock % LOCKS)));
            assert!(stocks.clone().all(|request| request.lock / LOCKS != home), "{transaction:?}");
            assert_eq!(stocks.count() > 0, transaction.kind == "new order");
        });
    }
}
