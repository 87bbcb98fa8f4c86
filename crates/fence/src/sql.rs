//! Statements for PostgreSQL, and for databases that have its `ON CONFLICT` (SQLite has).
//!
//! Two forms. Where what is written is one row, the row has a column for the token, and the statement that writes it
//! checks it: `docs/fencing.md` has both of that form, `UPDATE` and `INSERT ... ON CONFLICT`. Where it is several rows
//! or tables, a row of the table [`TABLE`] stands for all of them, and every transaction begins with [`SHOW`].
//!
//! Both rest on the row's own lock: `UPDATE` and `ON CONFLICT DO UPDATE` wait for a transaction that has changed the
//! row and has not ended, and then, under READ COMMITTED, judge their `WHERE` by what that one committed. Under
//! REPEATABLE READ and SERIALIZABLE they fail instead (SQLSTATE 40001), as any concurrent change does there: begin
//! anew. A `SELECT` of the token with a write after it is no check: it waits for nobody.

/// The table: a row for each name of a lock.
pub const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS wayside_fence (
    name text PRIMARY KEY,
    token bigint NOT NULL CHECK (token >= 0)
)";

/// Shows `$2`, a token, to the fence of `$1`, a name. One row: it is the highest now, and until the transaction ends
/// nobody else gets by. No row: refused; roll back.
///
/// The first statement of every transaction that reads or writes what the lock protects.
pub const SHOW: &str = "\
INSERT INTO wayside_fence AS fence (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = EXCLUDED.token WHERE fence.token <= EXCLUDED.token
RETURNING token";
