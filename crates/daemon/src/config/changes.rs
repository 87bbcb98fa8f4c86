//! What may change while the switch runs: budgets, policies and patience of namespaces. All else is laid out in memory
//! or bound when it starts.

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
    /// Why a running switch cannot go on with this configuration; None: it can.
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
            may change [namespaces]
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
            return Some(written.into());
        }
        let names = |config: &Config| config.namespaces.iter().map(|each| each.name.clone()).collect::<Vec<_>>();
        if names(self) != names(running) {
            return Some("which namespaces there are, or their order".into());
        }
        let pairs = self.namespaces.iter().zip(&running.namespaces);
        pairs.into_iter().find_map(|(one, other)| Some(format!("{} of namespace {:?}", one.fixed(other)?, one.name)))
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
