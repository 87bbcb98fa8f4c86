//! The statements, on a PostgreSQL of the test's own, in transactions that really run at the same time.

mod support;

use postgres::error::SqlState;
use postgres::{Client, Config, IsolationLevel, NoTls, Transaction};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use support::Postgres;
use wayside_fence::sql::{SHOW, TABLE};

/// The statement of `docs/fencing.md` that begins so.
fn documented(begin: &str) -> &'static str {
    let text = include_str!("../../../docs/fencing.md");
    let mut blocks = text.split("```sql\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.find(|block| block.starts_with(begin)).expect("it is documented")
}

fn connect(server: &Postgres) -> Client {
    let mut client = Config::new().user("postgres").host_path(server.path()).connect(NoTls).unwrap();
    client.batch_execute(&format!("SET client_min_messages = error; {TABLE}")).unwrap();
    client
}

/// Each way to show a token, and what came of it: whether it was taken.
#[derive(Clone, Copy, Debug)]
enum Way {
    Table,
    Read,
    Write,
    Upsert,
}

const WAYS: [Way; 4] = [Way::Table, Way::Read, Way::Write, Way::Upsert];

impl Way {
    fn prepare(self, client: &mut Client) {
        client.batch_execute("DROP TABLE IF EXISTS account; TRUNCATE wayside_fence").unwrap();
        client.batch_execute(documented("CREATE TABLE account")).unwrap();
        if !matches!(self, Way::Upsert) {
            client.batch_execute("INSERT INTO account VALUES (42, 100)").unwrap();
        }
    }

    fn show(self, transaction: &mut Transaction<'_>, token: i64) -> Result<bool, postgres::Error> {
        let rows = match self {
            Way::Table => transaction.query(SHOW, &[&"accounts", &token])?.len() as u64,
            Way::Read => transaction.query(documented("UPDATE account SET fence"), &[&42, &token])?.len() as u64,
            Way::Write => transaction.execute(documented("UPDATE account SET balance"), &[&42, &token, &token])?,
            Way::Upsert => transaction.execute(documented("INSERT INTO account"), &[&42, &token, &token])?,
        };
        assert!(rows <= 1);
        Ok(rows == 1)
    }
}

#[test]
fn the_documented_fence_table_is_the_librarys() {
    assert_eq!(documented("INSERT INTO wayside_fence"), SHOW);
}

#[test]
fn a_token_below_the_highest_is_refused_and_one_that_is_equal_or_above_is_not() {
    let Some(server) = Postgres::start() else { return };
    let mut client = connect(&server);
    let rising = [0, 9, 10, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, i64::MAX - 1, i64::MAX];
    for way in WAYS {
        way.prepare(&mut client);
        for (index, &highest) in rising.iter().enumerate() {
            let mut show = |token| {
                let mut transaction = client.transaction().unwrap();
                let taken = way.show(&mut transaction, token).unwrap();
                transaction.commit().unwrap();
                taken
            };
            assert!(show(highest) && show(highest), "{way:?} {highest}");
            assert!(rising[..index].iter().all(|&older| !show(older)), "{way:?} after {highest}");
        }
    }
}

/// One transaction shows `first` and stays open; another one shows `second` meanwhile. What became of that one, once
/// the first one was committed.
fn meanwhile(server: &Postgres, way: Way, level: IsolationLevel, first: i64, second: i64) -> Result<bool, SqlState> {
    let (mut one, mut another, mut observer) = (connect(server), connect(server), connect(server));
    way.prepare(&mut one);
    let mut open = one.transaction().unwrap();
    assert!(way.show(&mut open, first).unwrap());
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let second = scope.spawn(move || {
            let mut transaction = another.build_transaction().isolation_level(level).start().unwrap();
            // Its snapshot is from before the first one's commit.
            let process: i32 = transaction.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
            tell.send(process).unwrap();
            let taken = way.show(&mut transaction, second).map_err(|error| error.code().unwrap().clone())?;
            transaction.commit().unwrap();
            Ok(taken)
        });
        let process = told.recv().unwrap();
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
        while observer.query_one(waits, &[&process]).unwrap().get::<_, i64>(0) == 0 {
            assert!(!second.is_finished(), "it did not wait for the first one");
            thread::sleep(Duration::from_millis(1));
        }
        open.commit().unwrap();
        second.join().unwrap()
    })
}

#[test]
fn an_old_holder_that_met_a_new_one_is_refused_once_that_one_has_committed() {
    let Some(server) = Postgres::start() else { return };
    for way in WAYS {
        assert_eq!(meanwhile(&server, way, IsolationLevel::ReadCommitted, 34, 33), Ok(false), "{way:?}");
        assert_eq!(meanwhile(&server, way, IsolationLevel::ReadCommitted, 33, 34), Ok(true), "{way:?}");
        assert_eq!(meanwhile(&server, way, IsolationLevel::ReadCommitted, 34, 34), Ok(true), "{way:?}");
    }
}

#[test]
fn stricter_levels_fail_with_40001_where_read_committed_judges_anew() {
    let Some(server) = Postgres::start() else { return };
    for way in WAYS {
        for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
            for (first, second) in [(34, 33), (33, 34)] {
                let failed = meanwhile(&server, way, level, first, second);
                assert_eq!(failed, Err(SqlState::T_R_SERIALIZATION_FAILURE), "{way:?} {level:?}");
            }
        }
    }
}

#[test]
fn a_check_apart_from_its_write_lets_the_stale_write_by() {
    let Some(server) = Postgres::start() else { return };
    let (mut old, mut new) = (connect(&server), connect(&server));
    Way::Write.prepare(&mut old);
    let mut stale = old.transaction().unwrap();
    let seen: i64 = stale.query_one("SELECT fence FROM account WHERE id = 42", &[]).unwrap().get(0);
    assert!(seen <= 33, "so it goes on");
    let mut next = new.transaction().unwrap();
    assert!(Way::Write.show(&mut next, 34).unwrap());
    next.commit().unwrap();
    assert_eq!(stale.execute("UPDATE account SET balance = 33, fence = 33 WHERE id = 42", &[]).unwrap(), 1);
    stale.commit().unwrap();
    let row = new.query_one("SELECT balance, fence FROM account WHERE id = 42", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (33, 33), "34's write is gone: why it is one statement");
}

#[test]
fn transactions_under_a_fence_are_committed_in_the_order_of_their_tokens() {
    const WRITERS: i64 = 4;
    let Some(server) = Postgres::start() else { return };
    connect(&server).batch_execute("CREATE TABLE log (place bigserial, token bigint)").unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut client = connect(&server);
            scope.spawn(move || {
                for round in 0..200 {
                    let token = (1 << 53) + round * WRITERS + writer;
                    let mut transaction = client.transaction().unwrap();
                    if Way::Table.show(&mut transaction, token).unwrap() {
                        transaction.execute("INSERT INTO log (token) VALUES ($1)", &[&token]).unwrap();
                        transaction.commit().unwrap();
                    }
                }
            });
        }
    });
    let log = connect(&server).query("SELECT token FROM log ORDER BY place", &[]).unwrap();
    let tokens: Vec<i64> = log.iter().map(|row| row.get(0)).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert_eq!(tokens.last(), Some(&((1 << 53) + 200 * WRITERS - 1)), "the highest is never refused");
}
