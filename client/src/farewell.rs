//! The very last thing of a session: our last words are heard before the connection goes.
//!
//! ```text
//! ── ACK of EXIT (or CLOSED), close_notify, FIN ──> node: its holder ends, so the agent ends its side
//! <──────────────── close_notify, FIN ────────────
//! ── CONNECTION_CLOSE ──> relay     (also of a connection over which there was no session)
//! ```
//!
//! A QUIC connection that is closed takes what it had not yet delivered with it. Then the node would keep the session for
//! its whole resume window. So the client waits for the end of the node's side, one round trip as a rule and never longer
//! than [`LIMIT`]. Everything is written, said and restored by then: it costs the user nothing but the end of the process.
//!
//! It reads and throws away; nothing that comes here changes how the session ended.

use std::time::Duration;

use noderelay_link::Link;
use noderelay_proto::code::Code;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

#[cfg(test)]
mod tests;

/// A node that did not end its side by then is far away, busy ending the command, or gone.
const LIMIT: Duration = Duration::from_millis(300);
/// Size of a read of what nobody needs any more.
const READ: usize = 16 * 1024;

/// A session that is over, and whose connection still stands.
#[derive(Debug)]
#[must_use = "without it the node does not hear the last words"]
pub struct Farewell<S> {
    stream: S,
    link: Option<Link>,
    answers: bool,
}

impl<S: AsyncRead + Unpin> Farewell<S> {
    /// `link`: the connection, when it is ours alone; the warm process keeps its own. `answers`: whether the path still works, so that the end of the node's side can be expected.
    pub fn new(stream: S, link: Option<Link>, answers: bool) -> Self {
        Self { stream, link, answers }
    }

    /// Waits for the node's end, then closes the connection.
    pub async fn take(mut self) {
        if self.answers {
            until_end(&mut self.stream, LIMIT).await;
        }
        if let Some(link) = self.link {
            link.connection.close(Code::Ok.number().into(), b"");
            told().await;
        }
    }
}

/// Lets the last packet of every connection that was closed, or that nobody holds any more, leave. It goes with the next turns of
/// the runtime, and nobody waits for an answer to it.
///
/// Whoever ends without it leaves its connections behind at the relays, which count them among those of this person until their idle
/// limit.
pub async fn told() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

/// Reads until the other side has ended or `limit` is over; tells whether it ended.
async fn until_end<S: AsyncRead + Unpin>(stream: &mut S, limit: Duration) -> bool {
    let end = async {
        let mut nothing = vec![0; READ];
        // An error is an end too: there is nobody left who could hear us.
        while stream.read(&mut nothing).await.is_ok_and(|read| read > 0) {}
    };
    timeout(limit, end).await.is_ok()
}
