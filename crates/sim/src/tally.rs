//! Counts by name, cheap enough for every packet.

use crate::report::Counts;

/// Counts of a few dozen names, all of them constants: a name is mostly found by its address.
#[derive(Debug, Default)]
pub struct Tally(Vec<(&'static str, u64)>);

impl Tally {
    /// One more.
    pub fn count(&mut self, name: &'static str) {
        let same = |(known, _): &&mut (&'static str, u64)| {
            std::ptr::eq(known.as_ptr(), name.as_ptr()) && known.len() == name.len()
        };
        if let Some((_, count)) = self.0.iter_mut().find(same) {
            *count += 1;
        } else if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == name) {
            *count += 1;
        } else {
            self.0.push((name, 1));
        }
    }

    /// Adds them to others.
    pub fn add_to(&self, counts: &mut Counts) {
        for (name, count) in &self.0 {
            *counts.entry(name).or_default() += count;
        }
    }
}
