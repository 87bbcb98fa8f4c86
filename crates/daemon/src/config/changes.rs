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
                relays
            ],
            may change [namespaces, slots]
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
        let total: u32 = self.namespaces.iter().map(|namespace| namespace.slots).sum();
        if total > running.slots {
            return Some(format!("its namespaces have {total} slots, the switch has {} (`slots`)", running.slots));
        }
        if self.slots != running.slots {
            return Some("slots differs".into());
        }
        self.added(running).find_map(|new| {
            let what = if new.engine.has_queues() {
                "queues"
            } else if new.keys > 0 {
                "keys (without them it says `keys = 0`)"
            } else {
                return None;
            };
            Some(format!("namespace {:?} is new and has {what}", new.name))
        })
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
