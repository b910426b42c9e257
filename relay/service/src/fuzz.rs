//! Fuzz body: what somebody at the admin socket asks of the log. It never panics, whatever it says.

use noderelay_pki::text::escape;

/// A filter for the log.
pub fn filter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = crate::log::parse(&text) {
        // Told to whoever asked, escaped by the socket.
        let _ = escape(&error.to_string(), 400);
    }
}
