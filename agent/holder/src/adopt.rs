//! The door for a restarted agent: `holder.sock` in the session's directory.
//!
//! Three things are needed to come in: a way into the directory (0700), the holder's own user id (or root's), and the
//! session's token within a few seconds. Whoever has them *is* the agent: the old connection, if there still is one, is
//! dropped. One caller is looked at at a time; the others wait in the socket's queue.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use noderelay_proto::ToHolder;
use noderelay_proto::control::{Adopt, Start};
use tokio::net::UnixListener;

use crate::link::Link;
use crate::time::now;

/// Name of the socket, below the session's directory (which is the holder's working directory: a socket's whole path may
/// have only 107 bytes).
pub(crate) const SOCKET: &str = "holder.sock";
/// How long a caller may take to show the token.
const PATIENCE: Duration = Duration::from_secs(5);

/// The listening socket and the caller that is being looked at.
#[derive(Debug)]
pub(crate) struct Door {
    listener: UnixListener,
    caller: Option<(Link, Duration)>,
}

impl Door {
    /// Opens it in the working directory.
    pub(crate) fn open() -> std::io::Result<Self> {
        let path = Path::new(SOCKET);
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, caller: None })
    }

    /// Waits until [`Door::admit`] may have something to look at.
    pub(crate) async fn ready(&mut self) {
        match &self.caller {
            Some((link, _)) => link.ready().await,
            None => {
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let link = stream.into_std().and_then(Link::new);
                        self.caller = link.ok().map(|link| (link, now().saturating_add(PATIENCE)));
                    }
                    // Out of descriptors or memory: not to be asked again at once.
                    Err(_) => tokio::time::sleep(PATIENCE).await,
                }
            }
        }
    }

    /// The caller, once it has shown that it is the agent.
    pub(crate) fn admit(&mut self, start: &Start) -> Option<(Link, Adopt)> {
        let (link, until) = self.caller.as_mut()?;
        let patient = now() < *until;
        let own = nix::unistd::geteuid().as_raw();
        let known = link.peer_uid().is_ok_and(|uid| uid == own || uid == 0);
        match link.next() {
            _ if !known || !patient => self.caller = None,
            Ok(None) if link.is_silent() => self.caller = None,
            Ok(None) => {}
            Ok(Some(ToHolder::Adopt(adopt))) if adopt.session == start.session && same(&adopt.token, &start.token) => {
                return self.caller.take().map(|(link, _)| (link, adopt));
            }
            Ok(Some(_)) | Err(_) => self.caller = None,
        }
        None
    }

    /// When a caller's time is over.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.caller.as_ref().map(|(_, until)| *until)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(SOCKET);
    }
}

/// Looks at every byte, whatever the first ones were.
fn same(shown: &[u8], token: &[u8]) -> bool {
    let differences = shown
        .iter()
        .zip(token)
        .fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    shown.len() == token.len() && !token.is_empty() && differences == 0
}
