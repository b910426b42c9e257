//! Fuzz body: the configuration. It never panics, and what passes is written as one that says the same.
//!
//! A plain function over any bytes: ordinary tests run it over `agent/corpus/` and over mutated input, a fuzzer over anything.

use std::path::Path;

use noderelay_service::fuzz::configuration;

use crate::config::Config;

/// A configuration file.
pub fn config(bytes: &[u8]) {
    let path = Path::new("/etc/noderelay/agent.yaml");
    if let Some(config) = configuration(bytes, |bytes| Config::parse(bytes, path)) {
        assert!(config.profiles.contains_key(&config.default_profile));
    }
}
