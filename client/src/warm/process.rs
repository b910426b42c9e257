//! The warm process itself: it serves until nobody needs it, and then goes.
//!
//! ```text
//! place taken ─> ready ─> ASK: give, report, keep, stop ─┬─ time over, unused, stopped, certificate gone ─> no more questions
//!                                                        └─ what is carried goes on ─> nothing is carried any more ─> end
//! ```
//!
//! One question for each connection, from this user only, bounded in size, time and number; whatever else comes is dropped. A
//! second signal ends it at once. Never keeps a client waiting for the network.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use noderelay_proto::control::{Answer, Ask, AskFor, Carried};
use noderelay_proto::{Frames, FromWarm, ToWarm};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::carry::{bounded, carry, say};
use super::keeper::{Carrying, Given, Keeper};
use super::place::{self, Occupied, Place, PlaceError};
use super::seats::{Seat, Seats};
use super::standby::Ready;
use crate::config::Config;
use crate::creds::{Creds, CredsError};
use crate::frames::{self, NoMessage};

/// Clients that ask at once; further ones are dropped, and dial.
const CLIENTS: usize = 64;
/// A client says its question at once, and hears the answer at once.
const ASK: Duration = Duration::from_secs(2);
/// How often is looked whether it is time to end, and for standbys that are due.
const LOOK: Duration = Duration::from_secs(1);
/// How often the files are looked at.
const FILES: Duration = Duration::from_secs(5);
/// Rest after a failed accept: out of descriptors, as a rule.
const REST: Duration = Duration::from_millis(100);

/// How long it serves.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the start, unless a client asks for more.
    pub keep: Duration,
    /// From the last use.
    pub idle: Duration,
}

/// Why there is no warm process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Certificate or publication.
    #[error(transparent)]
    Creds(#[from] CredsError),
    /// The place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Signals.
    #[error("signals: {0}")]
    Signals(io::Error),
}

/// Serves; says `ready` when clients can come.
///
/// # Errors
/// It can't begin.
pub async fn serve(config: Config, limits: Limits, ready: impl FnOnce()) -> Result<(), ProcessError> {
    let place = Place::of(&config).occupy()?;
    let creds = Creds::load(&config, Timestamp::now()).await?;
    let mut signals = [
        signal(SignalKind::terminate()).map_err(ProcessError::Signals)?,
        signal(SignalKind::interrupt()).map_err(ProcessError::Signals)?,
    ];
    let process = Process {
        keeper: Arc::new(Keeper::new(config, creds, limits.keep, limits.idle)),
        stop: Notify::new(),
        asked: Notify::new(),
    };
    let process = Arc::new(process);
    tracing::info!(keep = ?limits.keep, idle = ?limits.idle, "serving");
    ready();
    let why = process.serve(place, &mut signals).await;
    tracing::info!(why, carries = process.keeper.carries(), "no more questions");
    process.keeper.stop();
    process.drain(&mut signals).await;
    tracing::info!("end");
    Ok(())
}

struct Process {
    keeper: Arc<Keeper>,
    /// A client wants it to end.
    stop: Notify,
    /// Something was given: what takes its place is made at once.
    asked: Notify,
}

impl Process {
    /// Answers until it is time to end; gives the reason. The place is free when this returns.
    async fn serve(self: &Arc<Self>, place: Occupied, signals: &mut [Signal; 2]) -> String {
        let seats = Seats::new("clients", CLIENTS);
        let (mut look, mut files) = (interval(LOOK), interval(FILES));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        files.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = signalled(signals) => return "a signal".to_owned(),
                () = self.stop.notified() => return "a client said so".to_owned(),
                () = self.asked.notified() => self.keeper.tend(),
                _ = look.tick() => {
                    if let Some(why) = self.keeper.over() {
                        return why.to_owned();
                    }
                    self.keeper.tend();
                }
                _ = files.tick() => if let Err(gone) = self.keeper.look().await {
                    return gone.to_string();
                },
                accepted = place.listener.accept() => match accepted {
                    Ok((client, _)) if !place::is_ours(&client) => tracing::warn!("another user's client was turned away"),
                    Ok((client, _)) => match seats.take() {
                        Ok(seat) => {
                            let process = Arc::clone(self);
                            tokio::spawn(async move { process.attend(client, seat).await });
                        }
                        Err(full) => tracing::warn!(%full, "a client was turned away"),
                    },
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        tokio::time::sleep(REST).await;
                    }
                },
            }
        }
    }

    /// Waits until nothing is carried, or a signal.
    async fn drain(&self, signals: &mut [Signal; 2]) {
        let mut look = interval(Duration::from_millis(100));
        while self.keeper.carries() > 0 {
            tokio::select! {
                _ = look.tick() => {}
                () = signalled(signals) => return tracing::warn!("a second signal: what is carried is broken"),
            }
        }
    }

    /// One client, which has its seat until it has its answer.
    async fn attend(&self, mut client: UnixStream, seat: Seat) {
        let mut frames = Frames::<ToWarm>::new();
        let ask = match timeout(ASK, question(&mut client, &mut frames)).await {
            Ok(Ok(ask)) => ask,
            Ok(Err(why)) => return tracing::warn!(why, "a client was turned away"),
            Err(_) => return tracing::warn!("a client said nothing"),
        };
        let (answer, given) = self.answer(&ask).await;
        // A client that is gone, or takes no answer, needs none.
        if !matches!(timeout(ASK, say(&mut client, &answer)).await, Ok(Ok(()))) {
            return;
        }
        drop(seat);
        match given {
            None => {}
            Some((Given::Stream(stream, _up), _carrying)) => carry(client, frames, stream).await,
            Some((Given::Standby(Ready { stream, up: _up, .. }), _carrying)) => carry(client, frames, stream).await,
        }
    }

    /// What is said to a question, and what is carried after it.
    async fn answer(&self, ask: &Ask) -> (FromWarm, Option<(Given, Carrying)>) {
        if ask.version != Ask::VERSION {
            return (nothing("it speaks another version; noderelay warm stop ends it"), None);
        }
        match AskFor::try_from(ask.wish) {
            Ok(AskFor::Stream) => {}
            wish => {
                match wish {
                    Ok(AskFor::Stop) => self.stop.notify_one(),
                    Ok(AskFor::Keep) => self.keeper.keep(Duration::from_secs(ask.keep_secs.into())),
                    _ => {}
                }
                return (FromWarm::Report(self.keeper.report()), None);
            }
        }
        let given = match self.keeper.carrying() {
            Ok(carrying) => self.keeper.give(ask).await.map(|given| (given, carrying)),
            Err(full) => Err(full.to_string()),
        };
        self.asked.notify_one();
        match given {
            Ok((given, carrying)) => (FromWarm::Answer(answer(&ask.node, &given)), Some((given, carrying))),
            Err(why) => {
                tracing::info!(node = ask.node, why, "nothing for a client");
                (nothing(&why), None)
            }
        }
    }
}

fn answer(node: &str, given: &Given) -> Answer {
    let (carried, up, resume_key) = match given {
        Given::Stream(_, up) => (Carried::Stream, up, Bytes::new()),
        Given::Standby(ready) => (Carried::Standby, &ready.up, ready.resume_key.to_bytes()),
    };
    tracing::info!(node, relay = up.relay, ?carried, "given");
    Answer {
        carried: carried.into(),
        relay: up.relay.clone(),
        rtt_us: u32::try_from(up.link.connection.rtt().as_micros()).unwrap_or(u32::MAX),
        resume_key,
        ..Answer::default()
    }
}

fn nothing(why: &str) -> FromWarm {
    FromWarm::Answer(Answer {
        carried: Carried::Nothing.into(),
        seen: bounded(why),
        ..Answer::default()
    })
}

/// The first frame, which is a question.
async fn question(client: &mut UnixStream, frames: &mut Frames<ToWarm>) -> Result<Ask, String> {
    match frames::next(client, frames).await {
        Ok(ToWarm::Ask(ask)) => Ok(ask),
        Ok(other) => Err(format!("{} before ASK", other.frame())),
        Err(NoMessage::Ended) => Err("it left".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn signalled([terminate, interrupt]: &mut [Signal; 2]) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
