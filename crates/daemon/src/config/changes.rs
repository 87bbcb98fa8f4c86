//! What may change while the switch runs: budgets, policies and patience of namespaces, and which there are, as long as
//! none goes. All else is laid out in memory or bound when it starts.

use super::{Config, Namespace};

/// The first of these fields in which two differ. All fields have to be named, here or as `may change`.
macro_rules! first_difference {
    ($kind:ident, $one:expr, $other:expr, [$($field:ident),*], may change [$($free:ident),*]) => {{
        let $kind { $($field: _,)* $($free: _),* } = $one;
        let fields = [$((stringify!($field), $one.$field != $other.$field)),*];
        fields.into_iter().find(|(_, differs)| *differs).map(|(name, _)| name)
    }};
}

impl Config {
    /// What keeps a running switch from going on with this configuration, as in "nothing has changed: ... needs another
    /// start"; None: nothing does.
    pub fn needs_restart(&self, running: &Config) -> Option<String> {
        let general = first_difference!(
            Config,
            self,
            running,
            [
                listen,
                admin_listen,
                enrol_listen,
                authentication_reason,
                key_lifetime,
                certificate_lifetime,
                collect_after,
                threads,
                wait,
                state_dir,
                control_socket,
                mode,
                interfaces,
                bpf_dir,
                keep_attached,
                lease,
                grace,
                deadlocks,
                deadlock_period,
                sharing,
                division,
                joins,
                relays,
                trace_collector
            ],
            may change [trace_one_in, namespaces, slots, cells, queues]
        );
        if let Some(field) = general {
            // Every other one is called as it is written.
            let written = match field {
                "authentication_reason" => "authentication",
                "sharing" => "what is said about etcd, the chains or hand-overs",
                "division" => "shards",
                "joins" => "shard_joins",
                field => field,
            };
            return Some(format!("{written} differs"));
        }
        self.what_stays(running).or_else(|| self.what_comes(running))
    }

    /// As [`Config::needs_restart`], of namespaces that there are.
    fn what_stays(&self, running: &Config) -> Option<String> {
        running.namespaces.iter().find_map(|before| {
            let Some(now) = self.namespace(&before.name) else {
                return Some(format!("namespace {:?} is gone", before.name));
            };
            Some(format!("{} of namespace {:?} differs", now.fixed(before)?, before.name))
        })
    }

    /// And of those that are new.
    fn what_comes(&self, running: &Config) -> Option<String> {
        let total = |of: fn(&Namespace) -> u32| self.namespaces.iter().map(of).sum::<u32>();
        let room = [
            (total(|namespace| namespace.slots), "slots", running.slots, " (`slots`)"),
            (total(|namespace| namespace.room.cells), "cells of queues", running.cells, " (`cells`)"),
            (total(|namespace| namespace.room.queues), "queues", running.queues, ""),
        ];
        if let Some((total, what, has, key)) = room.into_iter().find(|(total, _, has, _)| total > has) {
            return Some(format!("its namespaces have {total} {what}, the switch has {has}{key}"));
        }
        let differs = [("slots", self.slots != running.slots), ("cells", self.cells != running.cells)];
        if let Some((key, _)) = differs.into_iter().find(|(_, differs)| *differs) {
            return Some(format!("{key} differs"));
        }
        let new = self.added(running).find(|new| new.keys > 0)?;
        Some(format!("namespace {:?} is new and has keys (without them it says `keys = 0`)", new.name))
    }

    fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }

    /// The namespaces that a running switch does not have.
    pub fn added(&self, running: &Config) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter().filter(|new| running.namespace(&new.name).is_none())
    }
}

impl Namespace {
    fn fixed(&self, other: &Namespace) -> Option<&'static str> {
        let field = first_difference!(
            Namespace,
            self,
            other,
            [
                name,
                slots,
                engine,
                queues,
                cells,
                allocation,
                room,
                servers,
                longest_lease,
                keys,
                groups
            ],
            may change [policy, patience, budget]
        )?;
        Some(if field == "allocation" { "plan" } else { field })
    }
}
