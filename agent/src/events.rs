//! Audit events go out here: one JSON object, log target `audit`, so that a collector can tell them from logs for people.
//! No log filter switches them off.

use jiff::Timestamp;
use noderelay_audit_event::Event;

/// The log target.
pub const TARGET: &str = "audit";

/// Writes an event. One that can't be written is an error in the log, never a panic.
pub fn emit(event: Event) {
    let name = event.name();
    match event.at(Timestamp::now()).to_json_line() {
        Ok(line) => tracing::info!(target: TARGET, event = name, "{}", line.trim_end()),
        Err(error) => tracing::error!(target: TARGET, event = name, %error, "an audit event is lost"),
    }
}
