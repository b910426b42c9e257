//! The agent's own folders, as they were when it started: a folder that was replaced or opened to others since is noticed.
//!
//! Everything a session leaves behind lies below the state folder, and the recordings may lie elsewhere. The very folder is
//! remembered (device and number), not only its name, and looked at through an open handle that follows no link at its end.
//! A fault is one of the recorder: the level of the recording decides whether a session starts. Never repairs anything.

use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// One folder.
#[derive(Debug, Clone)]
struct Place {
    path: PathBuf,
    is: (u64, u64),
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        // A link that was there from the start is the operator's; one that comes later is noticed.
        let path = path.canonicalize()?;
        let facts = look(&path)?;
        let is = (facts.dev(), facts.ino());
        Ok(Self { path, is })
    }

    fn check(&self) -> io::Result<()> {
        let path = self.path.display();
        let wrong = |seen: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, seen));
        let facts = match look(&self.path) {
            Ok(facts) => facts,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{path}: {error}"))),
        };
        if (facts.dev(), facts.ino()) != self.is {
            return wrong(format!(
                "{path} is not the folder that it was when the agent started; if that is meant, start the agent again"
            ));
        }
        if facts.mode() & 0o077 != 0 {
            let mode = facts.mode() & 0o7777;
            return wrong(format!(
                "{path} is open to others (mode {mode:04o}): run chmod 0700 {path}"
            ));
        }
        Ok(())
    }
}

fn look(path: &Path) -> io::Result<Metadata> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?
        .metadata()
}

/// The folders of one agent.
#[derive(Debug, Clone)]
pub struct Places {
    state: Place,
    sessions: Place,
    recordings: Place,
}

impl Places {
    /// As they are now.
    ///
    /// # Errors
    /// When one of them can't be opened.
    pub fn of(state: &Path, sessions: &Path, recordings: &Path) -> io::Result<Self> {
        Ok(Self {
            state: Place::of(state)?,
            sessions: Place::of(sessions)?,
            recordings: Place::of(recordings)?,
        })
    }

    /// Where recordings go.
    pub fn recordings(&self) -> &Path {
        &self.recordings.path
    }

    /// Where sessions keep their sockets.
    pub fn sessions(&self) -> &Path {
        &self.sessions.path
    }

    /// The folder of one session: its holder's, while it lives.
    pub fn session(&self, id: impl Display) -> PathBuf {
        self.sessions.path.join(id.to_string())
    }

    /// Whether they are what they were, and nobody else's.
    ///
    /// # Errors
    /// What was seen.
    pub fn check(&self) -> io::Result<()> {
        [&self.state, &self.sessions, &self.recordings]
            .into_iter()
            .try_for_each(Place::check)
    }
}

#[cfg(test)]
mod tests;
