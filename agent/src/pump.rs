//! Carries one leg of a session between the client's TLS and the holder, until the holder says that it is over.
//!
//! ```text
//! client ── ToNode ──> up ── ToHolder ──> holder     only sequenced frames, ACK, PING, PONG, and CLOSED (leaves on purpose)
//! client <─ ToClient ─ down <─ FromHolder ─ holder   whatever the holder says
//!                       orders (revoked, policy)  ──> TERMINATE
//! ```
//!
//! Back-pressure is that of the two byte streams; nothing is buffered beyond one read. The holder owns the session: a
//! client that vanishes ends this leg only, and the holder's window runs. Never decides, never records, never invents an
//! exit code. A holder that does not read holds up what is said to it, orders too: see `enforce`, which waits for no socket.

use std::time::Duration;

use noderelay_proto::code::Code;
use noderelay_proto::control::{Closed, Exit, Terminate};
use noderelay_proto::frame::Type;
use noderelay_proto::message::{FromHolder, ToClient, ToHolder, ToNode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::enforce::Word;
use crate::framed::{FrameReader, FrameWriter, FramedError};
use crate::refusal::shown;

/// What an agent that stops gives a leg for its last words: whoever does not read must not cost the log its last line.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What is said of a holder that is gone.
const GONE: &str = "the process that held the session ended without a word";

/// The same of one that said what this agent does not understand.
const CONFUSED: &str = "the process that held the session broke its protocol with the agent";

/// How a leg ended, as the agent saw it.
#[derive(Debug)]
pub struct Leg {
    /// How the command ended, when that is known.
    pub exit: Option<Exit>,
    /// Why the session or the leg ended.
    pub code: Code,
    /// The holder went without a word, or is not to be understood any more.
    pub holder_lost: bool,
    /// Whether the holder called its recording complete.
    pub recording_complete: bool,
    /// What the client lost, if it went first.
    pub client_lost: Option<String>,
    /// Data bytes from the client.
    pub bytes_in: u64,
    /// Data bytes to the client.
    pub bytes_out: u64,
}

/// Runs the leg. `orders` go to the holder, and `word` hears what it says to them; a client that takes nothing for `stalled` is gone; `stop` ends the leg, but not
/// the session, with the agent. `newer` says whether another leg took over: a holder drops this one then without a word.
pub async fn pump(
    client: (
        FrameReader<impl AsyncRead + Unpin, ToNode>,
        FrameWriter<impl AsyncWrite + Unpin>,
    ),
    holder: (
        FrameReader<impl AsyncRead + Unpin, FromHolder>,
        FrameWriter<impl AsyncWrite + Unpin>,
    ),
    orders: mpsc::Receiver<Vec<ToHolder>>,
    word: &Word,
    stalled: Duration,
    newer: impl Fn() -> bool,
    stop: &CancellationToken,
) -> Leg {
    let (from_client, mut to_client) = client;
    let (from_holder, to_holder) = holder;
    let mut leg = Leg {
        exit: None,
        code: Code::Ok,
        holder_lost: false,
        client_lost: None,
        recording_complete: true,
        bytes_in: 0,
        bytes_out: 0,
    };
    let mut bytes_in = 0;
    let mut lost = None;
    let cut_off;
    {
        let up = up(from_client, to_holder, orders, &mut bytes_in);
        let down = down(from_holder, &mut to_client, &mut leg, word, stalled, newer, stop);
        tokio::pin!(up, down);
        let bounded = async {
            tokio::select! {
                biased;
                () = &mut down => {}
                // The client went first; its end is with the holder by now, whose window runs. Wait for its word.
                error = &mut up => { lost = error; down.await; }
            }
        };
        cut_off = tokio::select! {
            biased;
            () = bounded => false,
            () = too_late(stop) => true,
        };
    }
    if cut_off {
        leg.code = Code::SessionAgentStopping;
        leg.client_lost
            .get_or_insert("the client took nothing while the agent stopped".to_owned());
    }
    leg.bytes_in = bytes_in;
    leg.client_lost = leg.client_lost.or(lost);
    if leg.client_lost.is_none() {
        tokio::select! {
            _ = tokio::time::timeout(stalled, to_client.finish()) => {}
            () = too_late(stop) => {}
        }
    }
    leg
}

/// Hears how a session ends whose client is gone, on a link that took the place of the leg's.
pub async fn hear_out(
    mut holder: FrameReader<impl AsyncRead + Unpin, FromHolder>,
    leg: &mut Leg,
    word: &Word,
    stop: &CancellationToken,
) {
    if std::mem::take(&mut leg.holder_lost) {
        leg.code = Code::Ok;
    }
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => {
                leg.code = Code::SessionAgentStopping;
                return;
            }
            next = holder.next() => next,
        };
        match next {
            Ok(Some(message)) if word.note(&message) => {}
            // Was counted when it came the first time.
            Ok(Some(FromHolder::Session(ToClient::Data(_) | ToClient::DataErr(_)))) => {}
            Ok(Some(FromHolder::Session(message))) => note(&message, leg),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    if leg.exit.is_none() && leg.code == Code::Ok {
        leg.holder_lost = true;
        leg.code = word.without_holder(GONE).0;
    }
}

async fn too_late(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}

/// Why nothing more goes from client to holder.
enum Cut {
    /// The client's stream ended, or broke the protocol.
    Client(String),
    /// The holder takes nothing more. What it said last is still to be told to the client.
    Holder,
}

impl From<FramedError> for Cut {
    fn from(error: FramedError) -> Self {
        Self::Client(error.to_string())
    }
}

/// Client to holder; ends with what was lost of the client.
async fn up(
    mut client: FrameReader<impl AsyncRead + Unpin, ToNode>,
    mut holder: FrameWriter<impl AsyncWrite + Unpin>,
    mut orders: mpsc::Receiver<Vec<ToHolder>>,
    bytes: &mut u64,
) -> Option<String> {
    let cut = 'leg: {
        // What came together with OPEN is here already.
        if let Err(cut) = pass_on(Ok(true), &mut client, &mut holder, bytes).await {
            break 'leg cut;
        }
        loop {
            tokio::select! {
                biased;
                Some(order) = orders.recv() => {
                    order.iter().for_each(|message| holder.queue(message));
                    if holder.flush().await.is_err() {
                        break 'leg Cut::Holder;
                    }
                }
                read = client.fill() => match pass_on(read, &mut client, &mut holder, bytes).await {
                    Ok(true) => {}
                    Ok(false) => break 'leg Cut::Client("the client closed the connection".to_owned()),
                    Err(cut) => break 'leg cut,
                },
            }
        }
    };
    // An order that came together with the client's end is still given; one that comes later finds the door closed.
    orders.close();
    while let Ok(order) = orders.try_recv() {
        order.iter().for_each(|message| holder.queue(message));
    }
    let _ = holder.finish().await;
    match cut {
        Cut::Client(lost) => Some(lost),
        Cut::Holder => None,
    }
}

/// Passes on what one read brought; `false` at the end of the client's stream. A breach of the protocol ends the session,
/// and nothing more is read.
async fn pass_on(
    read: Result<bool, FramedError>,
    client: &mut FrameReader<impl AsyncRead + Unpin, ToNode>,
    holder: &mut FrameWriter<impl AsyncWrite + Unpin>,
    bytes: &mut u64,
) -> Result<bool, Cut> {
    let mut breach = None;
    match read {
        Ok(false) => return Ok(false),
        Ok(true) => {}
        Err(error @ FramedError::Protocol(_)) => breach = Some(error),
        Err(error) => return Err(error.into()),
    }
    while breach.is_none() {
        match client.buffered() {
            Ok(Some(message)) => holder.queue(&allowed(message, bytes)),
            Ok(None) => break,
            Err(error) => breach = Some(error),
        }
    }
    if let Some(error) = &breach {
        holder.queue(&terminate(error.code(), &error.to_string()));
    }
    if holder.flush().await.is_err() {
        return Err(Cut::Holder);
    }
    breach.map_or(Ok(true), |error| Err(error.into()))
}

/// What a client's frame becomes for the holder. A frame out of place ends the session with its code.
fn allowed(message: ToNode, bytes: &mut u64) -> ToHolder {
    match message {
        ToNode::Data(data) => {
            *bytes += data.len() as u64;
            ToNode::Data(data).into()
        }
        ToNode::Closed(_) => terminate(Code::SessionLeft, "the client left"),
        ToNode::Open(_) | ToNode::Resume(_) | ToNode::Standby(_) => out_of_order(message.frame()),
        sequenced => sequenced.into(),
    }
}

fn out_of_order(frame: Type) -> ToHolder {
    terminate(Code::ProtocolOutOfOrder, &format!("{frame} inside a running session"))
}

/// The order that ends a session.
pub fn terminate(code: Code, seen: &str) -> ToHolder {
    Terminate {
        code: code.number(),
        seen: shown(seen),
    }
    .into()
}

/// Holder to client; ends with the holder. A client that can't be written to any more loses nothing: what it did not
/// acknowledge stays with the holder.
async fn down(
    mut holder: FrameReader<impl AsyncRead + Unpin, FromHolder>,
    client: &mut FrameWriter<impl AsyncWrite + Unpin>,
    leg: &mut Leg,
    word: &Word,
    stalled: Duration,
    newer: impl Fn() -> bool,
    stop: &CancellationToken,
) {
    let mut seen = GONE;
    'hear: loop {
        // What came together with the holder's first word is here already, and OPENED is queued: both go out now, since a
        // command that waits for input says nothing more by itself.
        loop {
            match holder.buffered() {
                Ok(Some(message)) if word.note(&message) => {}
                Ok(Some(FromHolder::Session(message))) => {
                    note(&message, leg);
                    if leg.client_lost.is_none() {
                        client.queue(&message);
                    }
                }
                Ok(Some(other)) => tracing::warn!(frame = %other.frame(), "a frame from the holder out of place"),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "the holder broke the protocol");
                    seen = CONFUSED;
                    break 'hear;
                }
            }
        }
        tell(client, leg, stalled).await;
        let read = tokio::select! {
            biased;
            () = stop.cancelled() => {
                leg.code = Code::SessionAgentStopping;
                client.queue(&closed(leg.code, "the agent stops"));
                return tell(client, leg, stalled).await;
            }
            read = holder.fill() => read,
        };
        match read {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                tracing::warn!(%error, "the connection to the session's holder failed");
                break;
            }
        }
    }
    if leg.exit.is_none() && leg.code == Code::Ok {
        // The client must not wait: the holder is gone, for this leg at least, and said nothing.
        leg.holder_lost = seen == CONFUSED || !newer();
        let seen = if leg.holder_lost {
            let (code, seen) = word.without_holder(seen);
            leg.code = code;
            seen
        } else {
            leg.code = Code::SessionSuperseded;
            "the same attempt came again and goes on with the session".to_owned()
        };
        client.queue(&closed(leg.code, &seen));
        tell(client, leg, stalled).await;
    }
}

/// Writes what is queued for the client. One that takes nothing for `stalled` is gone: an honest one always reads on,
/// since it is never sent more than its window.
async fn tell(client: &mut FrameWriter<impl AsyncWrite + Unpin>, leg: &mut Leg, stalled: Duration) {
    if leg.client_lost.is_some() {
        return;
    }
    match tokio::time::timeout(stalled, client.flush()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => leg.client_lost = Some(error.to_string()),
        Err(_) => leg.client_lost = Some(format!("the client took nothing for {stalled:?}")),
    }
}

fn closed(code: Code, seen: &str) -> ToClient {
    Closed {
        code: code.number(),
        seen: seen.to_owned(),
    }
    .into()
}

fn note(message: &ToClient, leg: &mut Leg) {
    match message {
        ToClient::Data(data) | ToClient::DataErr(data) => leg.bytes_out += data.len() as u64,
        ToClient::Exit(exit) => leg.exit = Some(*exit),
        ToClient::Closed(closed) => leg.code = Code::from_number(closed.code),
        ToClient::Notice(notice) if Code::from_number(notice.code) == Code::RecordingIncomplete => {
            leg.recording_complete = false;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
