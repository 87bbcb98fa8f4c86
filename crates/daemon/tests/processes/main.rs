//! The product as people run it: real processes, on loopback and in network namespaces. One program, for each would
//! be linked with all of it; `cargo test -p wayside-daemon --test processes chains` runs those of one file.

mod chains;
mod deadlocks;
mod divide;
mod doctor;
mod enrolment;
mod fencing;
mod fetches;
mod first_minutes;
mod hybrid;
mod isolation;
mod kv;
mod leases;
mod lifelines;
mod lock_command;
mod metrics;
mod names;
mod operators;
mod other_groups;
mod parts;
mod plans;
mod policies;
mod priorities;
mod queues;
mod recipe_tasks;
mod recipes;
mod relays;
mod shards;
mod standby;
mod support;
mod switch_daemon;
mod tenants;
mod traces;
mod watch;
mod xdp;
