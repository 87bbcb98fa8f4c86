//! The script, on a Redis of the test's own.

mod support;

use redis::{Connection, RedisError, RedisResult, Value};
use std::thread;
use support::Redis;
use wayside_fence::redis::{REFUSED, SCRIPT, SHA1};

/// A connection that knows the script.
fn connect(server: &Redis) -> Connection {
    let url = format!("unix://{}", server.socket().display());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let digest: String = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(&mut connection).unwrap();
    assert_eq!(digest, SHA1);
    connection
}

/// A command on `key` under the fence `fence`.
fn fenced(connection: &mut Connection, token: &str, command: &[&str]) -> RedisResult<Value> {
    let mut evalsha = redis::cmd("EVALSHA");
    evalsha.arg(SHA1).arg(2).arg("fence").arg("key").arg(token).arg(command);
    evalsha.query(connection)
}

fn get(connection: &mut Connection, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query(connection).unwrap()
}

fn is_refused(error: &RedisError) -> bool {
    error.code() == Some(REFUSED)
}

#[test]
fn a_token_below_the_highest_is_refused_and_one_that_is_equal_or_above_is_not() {
    let Some(server) = Redis::start() else { return };
    let mut connection = connect(&server);
    // Beyond 2^53 neighbours are one double; of 9 and 10 the texts sort the other way.
    let rising: [u64; 10] = [0, 9, 10, 99, 100, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 2, (1 << 63) - 1];
    for (index, highest) in rising.iter().enumerate() {
        let highest = highest.to_string();
        for _ in 0..2 {
            fenced(&mut connection, &highest, &["SET", "key", &highest]).unwrap();
            assert_eq!(get(&mut connection, "key").as_ref(), Some(&highest));
        }
        for older in &rising[..index] {
            let refused = fenced(&mut connection, &older.to_string(), &["SET", "key", "stale"]).unwrap_err();
            assert!(is_refused(&refused), "{refused}");
            assert_eq!(refused.detail(), Some(&*format!("token {older} is older than {highest}")));
        }
        assert_eq!(get(&mut connection, "key").as_ref(), Some(&highest));
    }
}

#[test]
fn what_is_no_token_is_neither_taken_nor_compared() {
    let Some(server) = Redis::start() else { return };
    let mut connection = connect(&server);
    for text in
        ["", "-1", "+1", "007", "1e3", "1.5", "0x10", " 1", "1\n", "9223372036854775808", "99999999999999999999"]
    {
        let error = fenced(&mut connection, text, &["SET", "key", "value"]).unwrap_err();
        assert!(!is_refused(&error) && error.detail().unwrap().starts_with("not a fencing token"), "{text:?}: {error}");
    }
    assert_eq!((get(&mut connection, "fence"), get(&mut connection, "key")), (None, None));
    let _: () = redis::cmd("SET").arg("fence").arg("rubbish").query(&mut connection).unwrap();
    assert!(fenced(&mut connection, "5", &["SET", "key", "value"]).is_err());
    assert_eq!(get(&mut connection, "key"), None);
}

#[test]
fn who_only_shows_a_token_fences_as_well_and_so_does_a_command_that_fails() {
    let Some(server) = Redis::start() else { return };
    let mut connection = connect(&server);
    fenced(&mut connection, "1", &["SET", "key", "one"]).unwrap();
    assert_eq!(fenced(&mut connection, "2", &[]).unwrap(), Value::Okay);
    assert!(is_refused(&fenced(&mut connection, "1", &["SET", "key", "stale"]).unwrap_err()));
    let failed = fenced(&mut connection, "3", &["LPUSH", "key", "no list"]).unwrap_err();
    assert!(!is_refused(&failed), "{failed}");
    assert!(is_refused(&fenced(&mut connection, "2", &["SET", "key", "stale"]).unwrap_err()));
    assert_eq!(get(&mut connection, "key").as_deref(), Some("one"));
}

#[test]
fn the_answer_is_the_commands_own() {
    let Some(server) = Redis::start() else { return };
    let mut connection = connect(&server);
    assert_eq!(fenced(&mut connection, "7", &["RPUSH", "key", "a", "b"]).unwrap(), Value::Int(2));
    let list = fenced(&mut connection, "7", &["LRANGE", "key", "0", "-1"]).unwrap();
    assert_eq!(redis::from_redis_value::<Vec<String>>(list).unwrap(), ["a", "b"]);
    assert_eq!(get(&mut connection, "fence").as_deref(), Some("7"));
}

#[test]
fn writers_at_the_same_time_never_go_back() {
    const WRITERS: u64 = 4;
    let Some(server) = Redis::start() else { return };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut connection = connect(&server);
            scope.spawn(move || {
                for round in 0..500 {
                    let token = ((1 << 53) + round * WRITERS + writer).to_string();
                    match fenced(&mut connection, &token, &["RPUSH", "key", &token]) {
                        Ok(_) => {}
                        Err(error) => assert!(is_refused(&error), "{error}"),
                    }
                }
            });
        }
    });
    let taken: Vec<u64> = redis::cmd("LRANGE").arg("key").arg(0).arg(-1).query(&mut connect(&server)).unwrap();
    assert!(taken.is_sorted(), "{taken:?}");
    assert_eq!(taken.last(), Some(&((1 << 53) + 500 * WRITERS - 1)), "the highest is never refused");
}
