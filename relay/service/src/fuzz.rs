//! Fuzz bodies: what somebody at the admin socket asks of the log, and what is common to every configuration file. They never
//! panic, whatever is said.

use std::fmt;

use noderelay_pki::text::{escape, is_invisible};
use serde::Serialize;

/// A configuration file, and what came of it: what passes is written as one that says the same; what does not is told escaped.
pub fn configuration<C: Serialize, E: fmt::Display>(bytes: &[u8], parse: impl Fn(&[u8]) -> Result<C, E>) -> Option<C> {
    match parse(bytes) {
        Ok(config) => {
            let written = serde_saphyr::to_string(&config);
            assert!(written.is_ok(), "what was read can be written: {written:?}");
            for text in written.iter() {
                let again = parse(text.as_bytes()).map(|again| serde_saphyr::to_string(&again).ok());
                assert_eq!(again.ok().flatten().as_ref(), Some(text));
            }
            Some(config)
        }
        Err(error) => {
            let error = error.to_string();
            assert!(
                !error.contains(|c: char| c != '\n' && is_invisible(c)),
                "unescaped: {error:?}"
            );
            None
        }
    }
}

/// A filter for the log.
pub fn filter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = crate::log::parse(&text) {
        // Told to whoever asked, escaped by the socket.
        let _ = escape(&error.to_string(), 400);
    }
}
