//! The namespaces of a switch that runs: those that it began with, as `wayside reload` has changed them, and those that
//! it has added. Whoever speaks of namespaces asks here.
//!
//! Invariants: a namespace's number stays, and it has its slots at the switch and is known to the controller before it
//! is here. None ever leaves.

use crate::config::{Config, Namespace};
use std::sync::{Arc, PoisonError, RwLock};

/// A namespace and its number in packets.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub number: u16,
    pub settings: Namespace,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Namespaces(RwLock<Arc<[Numbered]>>);

impl Namespaces {
    /// Those of a configuration, with their numbers.
    pub fn of(config: &Config, numbers: &[u16]) -> Arc<Namespaces> {
        let pairs = config.namespaces.iter().cloned().zip(numbers);
        let all = pairs.map(|(settings, &number)| Numbered { number, settings }).collect();
        Arc::new(Namespaces(RwLock::new(all)))
    }

    /// As a file with these names alone would have them.
    #[cfg(test)]
    pub fn named(all: &[(u16, &str)]) -> Arc<Namespaces> {
        let text: String = all.iter().map(|(_, name)| format!("[[namespace]]\nname = {name:?}\n")).collect();
        let config = crate::config::read(&text).expect("names alone are enough");
        let numbers: Vec<u16> = all.iter().map(|(number, _)| *number).collect();
        Namespaces::of(&config, &numbers)
    }

    /// As they are now: later ones follow those that were there before.
    pub fn all(&self) -> Arc<[Numbered]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// They are these from now on.
    pub fn replace(&self, all: Vec<Numbered>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all.into();
    }

    /// The name of one; its number, if there is none.
    pub fn name_of(&self, number: u16) -> String {
        let all = self.all();
        let found = all.iter().find(|namespace| namespace.number == number);
        found.map_or_else(|| number.to_string(), |namespace| namespace.settings.name.clone())
    }

    /// The number of one; None: there is no such namespace.
    pub fn number_of(&self, name: &str) -> Option<u16> {
        self.all().iter().find(|namespace| namespace.settings.name == name).map(|namespace| namespace.number)
    }
}
