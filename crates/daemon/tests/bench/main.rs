//! `wayside bench`, and `wayside-bench`: what they measure is looked at, and no time is judged. A program of its own,
//! which `scripts/test.sh` runs beside the other tests.

mod bench_keys;
mod bench_queues;
mod bench_quick;
mod bench_recovery;
mod bench_report;
