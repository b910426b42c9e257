//! Fuzz body: what a holder reads of the system and of a session's folder. It never panics, and what passes is written again.

use crate::{processes, record};

/// The note of a session's processes, and the state of a process as the kernel writes it.
pub fn notes(bytes: &[u8]) {
    if let Some(record) = std::str::from_utf8(bytes).ok().and_then(record::parse) {
        assert_eq!(
            record::parse(&record.text()).as_ref(),
            Some(&record),
            "what was read can be written"
        );
    }
    if let Some(process) = processes::parse(2, bytes) {
        assert!(
            process.name.is_ascii() && !process.name.contains(|c: char| c.is_control()),
            "shown as it is"
        );
    }
}
