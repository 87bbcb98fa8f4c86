//! TPC-C's five transactions as the locks that they take: 121 for each warehouse, as in FissLock; or one for each row,
//! as in NetLock.
//!
//! | table | FissLock | of what | NetLock |
//! | --- | --- | --- | --- |
//! | warehouse | 1 | the row | 1 |
//! | district | 10 | each row | 10 |
//! | customer | 30 | a thirtieth of the rows | 30,000 |
//! | order, history, new order, order line | 10 each | a tenth of the table | 30,000 each, an order's lines together |
//! | stock | 30 | a thirtieth of the rows | 100,000, by TPC-C's skew |
//! | item | 10 | never taken: items do not change | none |
//!
//! Inserts take one row, or tenth, after the other.
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

/// Districts of a warehouse.
const DISTRICTS: u64 = 10;
/// Place of the first one among a warehouse's locks, and of the first customer.
const DISTRICT: u64 = 1;
const CUSTOMER: u64 = DISTRICT + DISTRICTS;

/// What a lock is of: how many there are of each table of a warehouse, besides the row itself and its districts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grain {
    customers: u64,
    /// Of each table that transactions insert into.
    inserted: u64,
    stocks: u64,
    items: u64,
}

impl Grain {
    /// FissLock's ranges of rows.
    pub(super) const RANGES: Grain = Grain { customers: 30, inserted: 10, stocks: 30, items: 10 };
    /// A lock for each row.
    pub(super) const ROWS: Grain = Grain { customers: 30_000, inserted: 30_000, stocks: 100_000, items: 0 };

    fn order(self) -> u64 {
        CUSTOMER + self.customers
    }

    fn history(self) -> u64 {
        self.order() + self.inserted
    }

    fn new_order(self) -> u64 {
        self.history() + self.inserted
    }

    fn order_line(self) -> u64 {
        self.new_order() + self.inserted
    }

    fn stock(self) -> u64 {
        self.order_line() + self.inserted
    }

    /// Locks of a warehouse.
    fn locks(self) -> u64 {
        self.stock() + self.stocks + self.items
    }
}

/// Lines of an order: TPC-C's mean.
const LINES: u64 = 10;
/// Customers of a district, and stocks of a warehouse.
const DISTRICT_CUSTOMERS: u64 = 3_000;
/// Payments by a customer of another warehouse, of a hundred.
const REMOTE_PAYMENTS: u32 = 15;
/// Customers that are looked for by their last name, of a hundred; and how many names there are.
const BY_NAME: u32 = 60;
const NAMES: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tpcc {
    pub(super) nodes: u64,
    pub(super) warehouses_of_node: u64,
    /// New order, payment, order status, delivery, stock level; of a hundred.
    pub(super) mix: [u32; 5],
    /// Lines whose stock is another warehouse's, of a hundred.
    pub(super) remote_lines: u32,
    pub(super) grain: Grain,
}

impl Tpcc {
    fn warehouses(&self) -> u64 {
        self.nodes * self.warehouses_of_node
    }
}

impl Workload for Tpcc {
    fn locks(&self) -> u64 {
        self.warehouses() * self.grain.locks()
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        let mut random = random(seed, client);
        let inserted = random.random_range(0..self.grain.inserted);
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
        let by_name = self.percent(BY_NAME);
        let row = if by_name { self.skewed(256, NAMES) } else { self.skewed(1_024, DISTRICT_CUSTOMERS) };
        if self.tpcc.grain == Grain::RANGES {
            return CUSTOMER + row % self.tpcc.grain.customers;
        }
        // Of three of a name, the middle one.
        let row = if by_name { row + NAMES } else { row };
        CUSTOMER + self.below(DISTRICTS) * DISTRICT_CUSTOMERS + row
    }

    /// The lock of a customer of this district, by number.
    fn numbered(&mut self, district: u64) -> u64 {
        let row = self.skewed(1_024, DISTRICT_CUSTOMERS) + district * DISTRICT_CUSTOMERS;
        CUSTOMER + row * self.tpcc.grain.customers / (DISTRICTS * DISTRICT_CUSTOMERS)
    }

    fn stock(&mut self) -> u64 {
        let Grain { stocks, .. } = self.tpcc.grain;
        let row = if self.tpcc.grain == Grain::ROWS { self.skewed(8_192, stocks) } else { self.below(stocks) };
        self.tpcc.grain.stock() + row
    }

    fn insert(&mut self) -> u64 {
        self.inserted += 1;
        self.inserted % self.tpcc.grain.inserted
    }

    /// One of what was inserted some time.
    fn inserted(&mut self) -> u64 {
        self.below(self.tpcc.grain.inserted)
    }

    fn new_order(&mut self, base: u64, warehouse: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        let district = self.below(DISTRICTS);
        into.ask(base, Shared);
        into.ask(base + DISTRICT + district, Exclusive);
        into.ask(base + self.numbered(district), Shared);
        let row = self.insert();
        into.ask(base + grain.order() + row, Exclusive);
        into.ask(base + grain.new_order() + row, Exclusive);
        for _ in 0..LINES {
            let remote = self.percent(self.tpcc.remote_lines);
            let from = if remote { self.other_warehouse(warehouse) * grain.locks() } else { base };
            into.ask(from + self.stock(), Exclusive);
        }
        into.ask(base + grain.order_line() + row, Exclusive);
    }

    fn payment(&mut self, base: u64, warehouse: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base, Exclusive);
        into.ask(base + DISTRICT + self.below(DISTRICTS), Exclusive);
        let remote = self.percent(REMOTE_PAYMENTS);
        let from = if remote { self.other_warehouse(warehouse) * grain.locks() } else { base };
        into.ask(from + self.customer(), Exclusive);
        into.ask(base + grain.history() + self.insert(), Exclusive);
    }

    fn order_status(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base + self.customer(), Shared);
        into.ask(base + grain.order() + self.inserted(), Shared);
        into.ask(base + grain.order_line() + self.inserted(), Shared);
    }

    fn delivery(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base + grain.new_order() + self.inserted(), Exclusive);
        into.ask(base + grain.order() + self.inserted(), Exclusive);
        into.ask(base + grain.order_line() + self.inserted(), Shared);
        let customer = self.skewed(1_024, DISTRICT_CUSTOMERS) % grain.customers;
        into.ask(base + CUSTOMER + customer, Exclusive);
    }

    fn stock_level(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base + DISTRICT + self.below(DISTRICTS), Shared);
        into.ask(base + grain.order_line() + self.inserted(), Shared);
        into.ask(base + self.stock(), Shared);
    }
}

const KINDS: [&str; 5] = ["new order", "payment", "order status", "delivery", "stock level"];

impl Generator for Transactions {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        let kind = of_mix(&self.tpcc.mix, self.random.random_range(0..100));
        into.begin(KINDS[kind]);
        let warehouse = self.warehouse();
        let base = warehouse * self.tpcc.grain.locks();
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
    use std::collections::HashSet;

    const STANDARD: Tpcc =
        Tpcc { nodes: 8, warehouses_of_node: 10, mix: [45, 43, 4, 4, 4], remote_lines: 1, grain: Grain::RANGES };
    const LOCKS: u64 = 121;
    const CUSTOMERS: u64 = 30;
    const STOCK: u64 = 81;

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

    /// Rows of stocks and customers are TPC-C's own skew, exactly; of what is inserted every row is another one.
    #[test]
    fn with_a_lock_for_each_row_hardly_anything_but_warehouse_and_district_is_shared() {
        let tpcc = Tpcc { nodes: 10, grain: Grain::ROWS, ..STANDARD };
        assert_eq!((tpcc.locks(), Grain::RANGES.locks()), (10 * 10 * 250_011, LOCKS));
        let (mut stocks, mut halves, mut inserts, mut locks, mut all) = (0, [0; 2], HashSet::new(), 0, 0);
        each(tpcc, 3, 100_000, |transaction| {
            (locks, all) = (locks + transaction.requests.len(), all + 1);
            for request in &transaction.requests {
                let row = request.lock % Grain::ROWS.locks();
                assert!(request.lock / Grain::ROWS.locks() / 10 == 3 || row > DISTRICTS, "{transaction:?}");
                if row >= Grain::ROWS.stock() {
                    stocks += 1;
                    // Bits of a number below 8,192 are set as well: an even row has none of them in its lowest bit.
                    halves[((row - Grain::ROWS.stock()) % 2) as usize] += 1;
                }
                if transaction.kind == "payment" && (Grain::ROWS.history()..Grain::ROWS.new_order()).contains(&row) {
                    inserts.insert(row);
                }
            }
        });
        assert!(fits(&halves, &[0.25, 0.75]) && !fits(&halves, &[0.5, 0.5]), "{halves:?} of {stocks}");
        assert!(inserts.len() > 20_000, "one row after the other: {}", inserts.len());
        assert!((9.0..9.7).contains(&(locks as f64 / f64::from(all))), "{locks} locks of {all} transactions");
    }

    #[test]
    fn switchtx_has_new_orders_and_payments_with_every_item_from_elsewhere() {
        let tpcc = Tpcc { nodes: 8, warehouses_of_node: 4, mix: [51, 49, 0, 0, 0], remote_lines: 100, ..STANDARD };
        each(tpcc, 0, 10_000, |transaction| {
            assert!(["new order", "payment"].contains(&transaction.kind));
            let home = transaction.requests[0].lock / LOCKS;
            let stocks = transaction.requests.iter().filter(|request| (STOCK..111).contains(&(request.lock % LOCKS)));
            assert!(stocks.clone().all(|request| request.lock / LOCKS != home), "{transaction:?}");
            assert_eq!(stocks.count() > 0, transaction.kind == "new order");
        });
    }
}
