//! What sessions left behind whose holder died: at the agent's start for all of them, later for the one that is noticed and,
//! from time to time, for those that an agent before this one had started.
//!
//! ```text
//! folder of a session  held ─> its processes noted      not held ─> those are killed, its log into ours, removed
//! recording            written or ended ─> left alone      cut off ─> closed with the reason, an audit event, kept
//! ```
//!
//! Locks say who lives; no list is kept that could be wrong after a crash. Nothing here fails the start: what can't be
//! tidied is said and looked at again. Never removes a recording, never touches a session that is held.

use std::cell::LazyCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use noderelay_audit::Recording;
use noderelay_audit::remains::{self as recordings, Found};
use noderelay_audit_event::{Event, SessionEnded, SessionId, SessionStarted};
use noderelay_holder::remains as holders;
use noderelay_proto::code::Code;
use tokio::time::Instant;

use crate::events;
use crate::metrics::Metrics;
use crate::places::Places;

/// Why such a session is over.
const CODE: Code = Code::SessionHolderLost;
const SEEN: &str = "the process that held the session ended without a word";

/// A killed process lets go of its files within moments; its locks are waited for no longer than this.
const LETTING_GO: Duration = Duration::from_secs(2);

/// Pause between two looks at them.
const AGAIN: Duration = Duration::from_millis(5);

/// Tidies up after all sessions that nobody holds; gives what was closed. For the start, when the agent has none of its own.
/// May wait for the disk.
pub fn sweep(places: &Places, now: Timestamp) -> Vec<SessionStarted> {
    let mut closed = folders(places, &[], now);
    // Where the agent died before there was a folder.
    let casts = entries(places.recordings()).into_iter();
    let casts = casts.filter(|path| path.extension() == Some(OsStr::new("cast")) && named(path).is_some());
    closed.extend(casts.filter_map(|cast| close(&cast, now)).flatten());
    closed
}

/// The same for sessions whose folder is still there: holders that an agent before this one had started, and that died since.
/// The agent's `own` are tidied by whoever serves them. Of all that live it is noted which processes they have.
pub fn folders(places: &Places, own: &[SessionId], now: Timestamp) -> Vec<SessionStarted> {
    let mut closed = Vec::new();
    let table = LazyCell::new(holders::Table::now);
    for folder in entries(places.sessions()) {
        let Some(session) = named(&folder).filter(|_| folder.is_dir()) else {
            continue;
        };
        match holders::is_held(&folder) {
            Ok(false) if own.contains(&session) => {}
            Ok(true) => note(&folder, session, &table),
            Ok(false) => {
                // Who just died may not have let go of everything; then it is looked at again. Whoever still writes the
                // recording lives, whatever has become of its folder.
                if let Some(lost) = close(&cast(places, session), now) {
                    end(&folder, session);
                    closed.extend(lost);
                    remove(&folder);
                }
            }
            Err(error) => tracing::warn!(folder = %folder.display(), %error, "can't be looked at; left as it is"),
        }
    }
    closed
}

/// The processes of a session that goes on, for the case that its holder dies together with us.
fn note(folder: &Path, session: SessionId, table: &holders::Table) {
    match holders::note(folder, table) {
        Ok(()) => tracing::debug!(%session, "a session goes on with its holder"),
        Err(error) => tracing::warn!(%session, %error, "the processes of a session cannot be noted"),
    }
}

/// Jobs that ignore HUP live on when holder and agent die together.
fn end(folder: &Path, session: SessionId) {
    match holders::end(folder) {
        Ok(0) => {}
        Ok(killed) => {
            tracing::error!(%session, killed, "a session went on with nobody to hold it; what was left is killed")
        }
        Err(seen) => tracing::warn!(%session, %seen, "something may be left of a session that nobody holds"),
    }
}

/// Tidies up after one session whose holder was lost a moment ago: kills what it left, closes its recording, removes its
/// folder. Whoever lives after all is left alone; says whether that is so. Waits for the disk.
pub fn bury(places: &Places, session: SessionId, leader: u32, now: Timestamp) -> bool {
    let noticed = holders::Noticed::now();
    let folder = places.session(session);
    let until = Instant::now() + LETTING_GO;
    while holders::is_held(&folder).unwrap_or(false) {
        if Instant::now() >= until {
            return true;
        }
        std::thread::sleep(AGAIN);
    }
    let killed = holders::kill(leader, noticed);
    tracing::error!(%session, code = %CODE, killed, "the process that held a session is gone; nothing goes on unrecorded");
    while close(&cast(places, session), now).is_none() && Instant::now() < until {
        std::thread::sleep(AGAIN);
    }
    remove(&folder);
    false
}

fn cast(places: &Places, session: SessionId) -> PathBuf {
    Recording::path(places.recordings(), session)
}

/// Closes a recording that was cut off, and gives its facts then; `None` while somebody still writes it.
fn close(cast: &Path, now: Timestamp) -> Option<Option<SessionStarted>> {
    let file = cast.display();
    match recordings::close(cast, CODE.name(), SEEN, now) {
        Ok(Found::Written) => None,
        Ok(Found::Ended) => Some(None),
        Ok(Found::Closed(header)) => {
            tracing::warn!(%file, code = %CODE, "a recording was cut off; it is closed with the reason, and kept");
            Some(Some(header.session))
        }
        Err(error) => {
            tracing::error!(%file, %error, "a recording that was cut off can't be closed; it is kept as it is");
            Some(None)
        }
    }
}

/// The audit event of a session that ended with nobody there to see how.
pub fn tell(metrics: &Metrics, lost: SessionStarted) {
    metrics.ended(CODE, false);
    events::emit(Event::SessionEnded(SessionEnded {
        session: lost.session,
        code: CODE.name().to_owned(),
        exit_code: None,
        signal: None,
        bytes_in: 0,
        bytes_out: 0,
        recording_complete: false,
    }));
}

fn remove(folder: &Path) {
    let shown = folder.display();
    match holders::remove(folder) {
        Ok(said) if said.is_empty() => tracing::info!(folder = %shown, "removed what a dead session left"),
        Ok(said) => {
            tracing::warn!(folder = %shown, %said, "removed what a dead session left; its holder had said this")
        }
        Err(error) => tracing::warn!(folder = %shown, %error, "can't be removed"),
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            tracing::error!(folder = %folder.display(), %error, "can't be read; nothing was tidied there");
            Vec::new()
        }
    }
}

/// The session that a file or folder is named after.
fn named(path: &Path) -> Option<SessionId> {
    path.file_stem()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
