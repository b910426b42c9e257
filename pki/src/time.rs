//! Wall-clock time at the borders: certificates, TLS, files.
//!
//! Dates come from strangers: before 1970, in 2050, in 9999. Every conversion here is total: what can't be represented
//! is moved to the nearest end of the calendar, and no arithmetic can overflow.
//!
//! What it never does: read the clock, or refuse a date (refusing is the business of the rules in `ca` and `verify`).

use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::UnixTime;

use crate::text;

/// From what rustls and webpki use.
pub fn from_unix(time: UnixTime) -> Timestamp {
    i64::try_from(time.as_secs()).map_or(Timestamp::MAX, from_seconds)
}

/// To what rustls and webpki use; a time before 1970 becomes 1970.
pub fn to_unix(time: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0)))
}

/// From seconds since 1970; outside the calendar the nearest end is taken.
pub fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// `time + span`, or the end of the calendar.
pub fn after(time: Timestamp, span: Duration) -> Timestamp {
    let span = jiff::SignedDuration::try_from(span).unwrap_or(jiff::SignedDuration::MAX);
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// `time - span`, or the beginning of the calendar.
pub fn before(time: Timestamp, span: Duration) -> Timestamp {
    let span = jiff::SignedDuration::try_from(span).unwrap_or(jiff::SignedDuration::MAX);
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// How long from `from` until `until`; zero if it is past.
pub fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(from.duration_until(until)).unwrap_or(Duration::ZERO)
}

/// The later of the local clock and every lower bound that signed data or the build date give: a clock that was set
/// back does not make old things valid again.
pub fn effective(local: Timestamp, lower_bounds: impl IntoIterator<Item = Timestamp>) -> Timestamp {
    lower_bounds.into_iter().fold(local, Timestamp::max)
}

/// Writes `2026-11-30T20:50:00Z`, whole seconds.
pub fn format(time: Timestamp) -> String {
    from_seconds(time.as_second()).to_string()
}

/// A time that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{seen}\" is not a time: write it as 2026-11-30T20:50:00Z, in UTC, with whole seconds")]
pub struct TimeError {
    seen: String,
}

/// Reads exactly the form `2026-11-30T20:50:00Z`: no offset, no fraction, no lower case, no leap second.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    let error = || TimeError {
        seen: text::escape(text, 40),
    };
    let shape = text.len() == 20
        && text
            .bytes()
            .zip(b"dddd-dd-ddTdd:dd:ddZ")
            .all(|(seen, want)| match want {
                b'd' => seen.is_ascii_digit(),
                want => seen == *want,
            });
    if !shape {
        return Err(error());
    }
    let time: Timestamp = text.parse().map_err(|_| error())?;
    if format(time) == text { Ok(time) } else { Err(error()) }
}

#[cfg(test)]
mod tests;
