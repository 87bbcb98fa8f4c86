//! The configuration's `[[namespace]]` entries: what tenants have to themselves.

use super::{Layers, value_of, word_of};
use crate::failure::Failure;
use serde::Deserialize;
use std::collections::HashSet;
use wayside_wire::Policy;
use wayside_wire::limits::MAX_NAMESPACE_BYTES;

/// 2^26 slots are 1 GiB.
const MAX_SLOTS: i64 = 1 << 26;
const DEFAULT_SLOTS: u32 = 1 << 16;

/// 2^24 keys are 5.5 GiB.
const MAX_KEYS: i64 = 1 << 24;
/// 6 MiB.
const DEFAULT_KEYS: u32 = 1 << 14;
/// Groups of all namespaces together: their numbers have 16 bits.
const MAX_GROUPS: i64 = 1 << 16;
/// Chains change group by group: with 16, a sixteenth of the keys waits for each.
const DEFAULT_GROUPS: u16 = 16;

const POLICIES: [(&str, Policy); 3] = [
    ("fair", Policy::Fair),
    ("read-preferring", Policy::ReadPreferring),
    ("write-preferring", Policy::WritePreferring),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSettings {
    name: String,
    slots: Option<i64>,
    policy: Option<String>,
    keys: Option<i64>,
    groups: Option<i64>,
}

/// A namespace: names apart from those of others, with slots and keys of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub slots: u32,
    pub policy: Policy,
    /// Keys of the store that the switch has room for; those of all namespaces share it. 0: there is none.
    pub keys: u32,
    /// Virtual groups that its keys are spread over.
    pub groups: u16,
}

impl Namespace {
    /// What a file has for the policy.
    pub fn policy_word(&self) -> &'static str {
        word_of(&POLICIES, self.policy)
    }
}

impl Layers<'_> {
    pub(super) fn namespaces(&self) -> Result<Vec<Namespace>, Failure> {
        let Some((settings, _)) = self.pick(|s| s.namespaces.as_ref()) else {
            return Ok(vec![Namespace {
                name: "default".into(),
                slots: DEFAULT_SLOTS,
                policy: Policy::Fair,
                keys: DEFAULT_KEYS,
                groups: DEFAULT_GROUPS,
            }]);
        };
        let mut names = HashSet::new();
        let mut namespaces = Vec::new();
        for NamespaceSettings { name, slots, policy, keys, groups } in settings {
            if name.is_empty() || name.len() > MAX_NAMESPACE_BYTES || name.contains('\0') {
                let rule = format!("must have 1 to {MAX_NAMESPACE_BYTES} bytes, none of them zero");
                return Err(self.wrong("namespace.name", &format_args!("{name:?}"), false, &rule));
            }
            if !names.insert(name) {
                return Err(self.wrong("namespace.name", &format_args!("{name:?}"), false, "is there twice"));
            }
            let slots =
                self.number("namespace.slots", slots.unwrap_or(DEFAULT_SLOTS.into()), false, 1, MAX_SLOTS)? as u32;
            let policy = policy.as_deref().unwrap_or("fair");
            let policy = value_of(&POLICIES, policy)
                .map_err(|rule| self.wrong("namespace.policy", &format_args!("{policy:?}"), false, &rule))?;
            let keys = keys.unwrap_or(DEFAULT_KEYS.into());
            let keys = self.number("namespace.keys", keys, false, 0, MAX_KEYS)? as u32;
            let groups = groups.unwrap_or(DEFAULT_GROUPS.into());
            let groups = self.number("namespace.groups", groups, false, 1, 4_096)? as u16;
            namespaces.push(Namespace { name: name.clone(), slots, policy, keys, groups });
        }
        if namespaces.is_empty() {
            return Err(self.wrong("namespace", &"[]", false, "must have at least one entry"));
        }
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.slots)).sum();
        self.number("namespace.slots of all namespaces", total, false, 1, MAX_SLOTS)?;
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.keys)).sum();
        self.number("namespace.keys of all namespaces", total, false, 0, MAX_KEYS)?;
        let total: i64 = namespaces.iter().map(|namespace| i64::from(namespace.groups)).sum();
        self.number("namespace.groups of all namespaces", total, false, 1, MAX_GROUPS)?;
        Ok(namespaces)
    }
}
