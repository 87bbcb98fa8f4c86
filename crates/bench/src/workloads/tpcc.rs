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
//!
//! What is not as TPC-C has it. Neither NetLock nor FissLock says what its programs do there; records rest on the
//! number of locks as it is, 9.3 a transaction with a lock for each row. So the standard's programs are a workload of
//! their own ([`Programs::Standard`]), of 19 locks a transaction, and the others' are cut short:
//!
//! | transaction | cut short | TPC-C |
//! | --- | --- | --- |
//! | new order | 10 lines | 5 to 15, evenly (2.4.1.3): as many on average |
//! | order status | a row of order and one of order line, any | the customer's last order and its lines (2.6.2.2) |
//! | delivery | an order of one district, any | the oldest of each of ten districts (2.7.4.2) |
//! | stock level | one order's lines and one stock | those of a district's last 20 orders, up to 200 stocks (2.8.2.2) |
//! | all | customers in thirtieths: by number modulo 30, whatever the district, but for a new order's | one row |
//!
//! A delivery and a stock level, 8 % of the transactions, so take 3 or 4 locks where TPC-C's programs take tens and
//! hundreds, all of a stock level's shared ones. (The standard lets it do without; whoever locks what it reads does it
//! so.) A client does not know what others insert: whose order is a district's last, or its oldest, is drawn. With a
//! lock for each row a customer of the own warehouse pays in the district that it is of (2.5.1.2), and one of another
//! warehouse is of any.

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

/// What transactions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Programs {
    /// As records have them: see above.
    Short,
    /// As TPC-C has them; with a lock for each row.
    Standard,
}

/// Lines of an order: TPC-C's mean, and the least and the most.
const LINES: u64 = 10;
const LEAST_LINES: u64 = 5;
const MOST_LINES: u64 = 15;
/// Orders whose stocks a stock level looks at.
const LAST_ORDERS: u64 = 20;
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
    pub(super) programs: Programs,
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

    /// The lock of a customer, of this district or of any: by last name, of which there are a thousand, or by number.
    fn customer(&mut self, district: Option<u64>) -> u64 {
        let by_name = self.percent(BY_NAME);
        let row = if by_name { self.skewed(256, NAMES) } else { self.skewed(1_024, DISTRICT_CUSTOMERS) };
        if self.tpcc.grain == Grain::RANGES {
            return CUSTOMER + row % self.tpcc.grain.customers;
        }
        // Of three of a name, the middle one.
        let row = if by_name { row + NAMES } else { row };
        let district = district.unwrap_or_else(|| self.below(DISTRICTS));
        CUSTOMER + district * DISTRICT_CUSTOMERS + row
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

    fn is_standard(&self) -> bool {
        self.tpcc.programs == Programs::Standard
    }

    /// Of an order.
    fn lines(&mut self) -> u64 {
        if self.is_standard() { self.random.random_range(LEAST_LINES..=MOST_LINES) } else { LINES }
    }

    /// A row of a table that transactions insert into, of those of this district.
    fn of_district(&self, district: u64, row: u64) -> u64 {
        let each = self.tpcc.grain.inserted / DISTRICTS;
        district * each + row % each
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
        let row = if self.is_standard() { self.of_district(district, row) } else { row };
        into.ask(base + grain.order() + row, Exclusive);
        into.ask(base + grain.new_order() + row, Exclusive);
        for _ in 0..self.lines() {
            let remote = self.percent(self.tpcc.remote_lines);
            let from = if remote { self.other_warehouse(warehouse) * grain.locks() } else { base };
            into.ask(from + self.stock(), Exclusive);
        }
        into.ask(base + grain.order_line() + row, Exclusive);
    }

    fn payment(&mut self, base: u64, warehouse: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        let district = self.below(DISTRICTS);
        into.ask(base, Exclusive);
        into.ask(base + DISTRICT + district, Exclusive);
        let remote = self.percent(REMOTE_PAYMENTS);
        let from = if remote { self.other_warehouse(warehouse) * grain.locks() } else { base };
        into.ask(from + self.customer((!remote).then_some(district)), Exclusive);
        into.ask(base + grain.history() + self.insert(), Exclusive);
    }

    fn order_status(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base + self.customer(None), Shared);
        let order = self.inserted();
        into.ask(base + grain.order() + order, Shared);
        let lines = if self.is_standard() { order } else { self.inserted() };
        into.ask(base + grain.order_line() + lines, Shared);
    }

    fn delivery(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base + grain.new_order() + self.inserted(), Exclusive);
        into.ask(base + grain.order() + self.inserted(), Exclusive);
        into.ask(base + grain.order_line() + self.inserted(), Shared);
        let customer = if grain == Grain::RANGES {
            CUSTOMER + self.skewed(1_024, DISTRICT_CUSTOMERS) % grain.customers
        } else {
            let district = self.below(DISTRICTS);
            self.numbered(district)
        };
        into.ask(base + customer, Exclusive);
    }

    fn stock_level(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        into.ask(base + DISTRICT + self.below(DISTRICTS), Shared);
        into.ask(base + grain.order_line() + self.inserted(), Shared);
        into.ask(base + self.stock(), Shared);
    }
}

/// As the standard has them.
impl Transactions {
    /// An order of each district.
    fn deliveries(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        for district in 0..DISTRICTS {
            let any = self.inserted();
            let order = self.of_district(district, any);
            for table in [grain.new_order(), grain.order(), grain.order_line()] {
                into.ask(base + table + order, Exclusive);
            }
            into.ask(base + self.numbered(district), Exclusive);
        }
    }

    /// The stocks of a district's last orders.
    fn stock_levels(&mut self, base: u64, into: &mut Transaction) {
        let grain = self.tpcc.grain;
        let (district, last) = (self.below(DISTRICTS), self.inserted());
        into.ask(base + DISTRICT + district, Shared);
        for before in 0..LAST_ORDERS {
            into.ask(base + grain.order_line() + self.of_district(district, last + before), Shared);
            for _ in 0..self.lines() {
                into.ask(base + self.stock(), Shared);
            }
        }
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
            3 if self.is_standard() => self.deliveries(base, into),
            3 => self.delivery(base, into),
            _ if self.is_standard() => self.stock_levels(base, into),
            _ => self.stock_level(base, into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::fits;
    use super::*;
    use std::collections::HashSet;

    const STANDARD: Tpcc = Tpcc {
        nodes: 8,
        warehouses_of_node: 10,
        mix: [45, 43, 4, 4, 4],
        remote_lines: 1,
        grain: Grain::RANGES,
        programs: Programs::Short,
    };
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

    /// A customer of the own warehouse pays in its own district, others and deliveries are of any; the numbers are
    /// TPC-C's own skew, exactly.
    #[test]
    fn a_customer_with_a_lock_of_its_own_is_of_the_right_district_and_drawn_by_tpccs_skew() {
        let tpcc = Tpcc { nodes: 10, grain: Grain::ROWS, ..STANDARD };
        let rows = Grain::ROWS.locks();
        let (mut visitors, mut delivered, mut numbers) = ([0; 10], [0; 10], [0; 100]);
        each(tpcc, 3, 300_000, |transaction| {
            let customer = |at: usize| {
                let row = transaction.requests[at].lock % rows - CUSTOMER;
                (row / DISTRICT_CUSTOMERS, row % DISTRICT_CUSTOMERS)
            };
            match transaction.kind {
                "payment" => {
                    let (district, number) = customer(2);
                    numbers[(number / 30) as usize] += 1;
                    if transaction.requests[2].lock / rows == transaction.requests[0].lock / rows {
                        assert_eq!(transaction.requests[1].lock % rows, DISTRICT + district, "{transaction:?}");
                    } else {
                        visitors[district as usize] += 1;
                    }
                }
                "delivery" => delivered[customer(3).0 as usize] += 1,
                _ => {}
            }
        });
        assert!(fits(&visitors, &[1.0; 10]) && fits(&delivered, &[1.0; 10]), "{visitors:?} {delivered:?}");
        let mut shares = [0.0; 100];
        for (bits, end, first, share) in [(256u64, 1_000u64, 1_000, 0.6), (1_024, 3_000, 0, 0.4)] {
            let each = share / (bits * end) as f64;
            let pairs = (0..bits).flat_map(|one| (0..end).map(move |other| (one | other) % end + first));
            pairs.for_each(|number| shares[(number / 30) as usize] += each);
        }
        assert!(fits(&numbers, &shares) && !fits(&numbers, &[1.0; 100]), "{numbers:?}");
    }

    /// TPC-C 2.4.1.3, 2.6.2.2, 2.7.4.2 and 2.8.2.2.
    #[test]
    fn the_standards_programs_have_all_their_lines_districts_and_stocks() {
        let tpcc = Tpcc { nodes: 10, grain: Grain::ROWS, programs: Programs::Standard, ..STANDARD };
        let (rows, grain) = (Grain::ROWS.locks(), Grain::ROWS);
        let (mut lines, mut stocks, mut locks, mut all) = ([0; 11], 0, 0, 0);
        each(tpcc, 3, 100_000, |transaction| {
            (locks, all) = (locks + transaction.requests.len(), all + 1);
            let of = |first: u64, end: u64| -> Vec<u64> {
                let rows = transaction.requests.iter().map(|request| request.lock % rows);
                rows.filter(|row| (first..end).contains(row)).map(|row| row - first).collect()
            };
            let district = |rows: &[u64]| rows.iter().map(|row| row / 3_000).collect::<Vec<u64>>();
            let order_lines = of(grain.order_line(), grain.stock());
            let stock = of(grain.stock(), rows);
            match transaction.kind {
                "new order" => {
                    // One of a hundred times two lines are of one stock.
                    lines[(stock.len() as u64).clamp(LEAST_LINES, MOST_LINES) as usize - 5] += 1;
                    assert_eq!(district(&order_lines), [transaction.requests[1].lock % rows - DISTRICT]);
                }
                "order status" => assert_eq!(of(grain.order(), grain.history()), order_lines),
                "delivery" => {
                    let tables = [of(grain.new_order(), grain.order_line()), of(CUSTOMER, grain.order()), order_lines];
                    let each: Vec<u64> = (0..DISTRICTS).collect();
                    assert!(tables.iter().all(|rows| district(rows) == each), "{transaction:?}");
                    assert!(transaction.requests.iter().all(|request| request.mode == Exclusive));
                }
                "stock level" => {
                    assert_eq!(order_lines.len() as u64, LAST_ORDERS);
                    assert!(district(&order_lines).iter().all(|one| *one == district(&order_lines)[0]));
                    assert!((100..=300).contains(&stock.len()), "{}", stock.len());
                    assert!(transaction.requests.iter().all(|request| request.mode == Shared));
                    stocks = stocks.max(stock.len());
                }
                _ => {}
            }
        });
        // Evenly, but for those of which two lines are one.
        let mean = lines.iter().zip(5..).map(|(count, lines)| count * lines).sum::<u64>() as f64
            / lines.iter().sum::<u64>() as f64;
        assert!((9.9..10.1).contains(&mean) && lines.iter().all(|count| *count > 3_700), "{mean} {lines:?}");
        assert!((18.0..20.0).contains(&(locks as f64 / f64::from(all))), "{locks} locks of {all} transactions");
        assert!(stocks > 200, "{stocks}");
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
