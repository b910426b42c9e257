//! Fuzz body: the configuration. It never panics, and what passes is written as one that says the same.
//!
//! A plain function over any bytes: ordinary tests run it over `agent/corpus/` and over mutated input, a fuzzer over anything.

use std::path::Path;

use noderelay_pki::text::is_invisible;

use crate::config::Config;

/// A configuration file.
pub fn config(bytes: &[u8]) {
    let path = Path::new("/etc/noderelay/agent.yaml");
    match Config::parse(bytes, path) {
        Ok(config) => {
            assert!(config.profiles.contains_key(&config.default_profile));
            let written = serde_saphyr::to_string(&config);
            assert!(written.is_ok(), "what was read can be written: {written:?}");
            for text in written.iter() {
                let again = Config::parse(text.as_bytes(), path).map(|again| serde_saphyr::to_string(&again).ok());
                assert_eq!(again.ok().flatten().as_ref(), Some(text));
            }
        }
        Err(error) => {
            let error = error.to_string();
            assert!(
                !error.contains(|c: char| c != '\n' && is_invisible(c)),
                "unescaped: {error:?}"
            );
        }
    }
}
