//! The lines that the pump shows while a session runs: the answer to `~s`, and the node's notices.
//!
//! All text is ours, but for what a notice has seen, which is escaped and cut.

use std::time::Duration;

use noderelay_pki::text::escape;
use noderelay_proto::code::Code;
use noderelay_proto::control::Notice;
use tokio::time::Instant;

use super::Pump;
use crate::message::MAX_SEEN;

pub(crate) fn notice(notice: &Notice, end: &str) -> String {
    let code = Code::from_number(notice.code);
    let seen = if notice.seen.is_empty() {
        code.summary().to_owned()
    } else {
        escape(&notice.seen, MAX_SEEN)
    };
    let left = if notice.seconds_left == 0 {
        String::new()
    } else {
        format!(" in {}", words(Duration::from_secs(notice.seconds_left.into())))
    };
    format!("{end}noderelay: {}{left}: {seen}{end}", code.name())
}

pub(super) fn status(pump: &Pump<'_>) -> String {
    let heard = Instant::now().duration_since(pump.heard);
    let waiting = pump.outbox.in_flight();
    format!(
        "\r\n{}\r\nlast heard {} ago; {} bytes sent, {} shown, {waiting} not yet taken by the node\r\n",
        pump.facts.session,
        words(heard),
        pump.bytes_in,
        pump.local.screen.written(),
    )
}

/// A span of time for people.
pub fn words(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
