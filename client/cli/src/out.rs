//! Standard output of commands that answer with text. Session output never passes here: it belongs to the remote command.

use std::io::Write as _;

use anyhow::Result;

/// One line. A reader that went away is nothing to report.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Text that ends its own lines.
pub fn text(text: &str) {
    let _ = write!(std::io::stdout(), "{text}");
}

/// Bytes as they are.
pub fn bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// One JSON document.
pub fn json(value: &impl serde::Serialize) -> Result<()> {
    line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// One line on standard error: `noderelay: TEXT`.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "noderelay: {text}");
}
