//! The daemon's configuration file: any text ends in a configuration that can be run with, or in an error for people.

use crate::config::{SHORTEST_LEASE, Settings};
use std::path::Path;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let settings: Settings = match toml::from_str(text) {
        Ok(settings) => settings,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    match Settings::default().over(settings, Some(Path::new("wayside.toml"))) {
        Ok(config) => {
            assert!(config.threads > 0 && config.lease >= SHORTEST_LEASE && !config.namespaces.is_empty());
            // Port 0 asks the kernel for any, and so do the ports that follow from it.
            assert!(config.admin_listen.port() != 0 || config.listen.port() == 0 || text.contains("admin_listen"));
        }
        Err(failure) => assert!(failure.message.contains("wayside.toml"), "{failure}"),
    }
}
