//! The client's side: one question to the warm process, answered at once or not at all.
//!
//! A client that gets no stream goes its own way, so nothing here waits long and no error is more than a reason.

use std::io;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::{Bytes, BytesMut};
use noderelay_proto::control::{Answer, Ask, AskFor, Carried as What, Purpose, Report};
use noderelay_proto::resume::ResumeKey;
use noderelay_proto::{Frames, FromWarm, ToWarm};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::carried::Carried;
use super::place::Place;
use crate::config::{Config, Warm};
use crate::creds::Creds;
use crate::frames::{self, NoMessage};
use crate::target::Target;

/// The warm process asks nobody before it answers; one that is stopped or sick holds a command up no longer than this.
const ANSWER: Duration = Duration::from_secs(1);
/// What a report may take: a person asked for it.
const REPORT: Duration = Duration::from_secs(5);

/// A stream through the warm process, on its way to the node.
#[derive(Debug)]
pub struct Given {
    /// The relay that it leads through.
    pub relay: String,
    /// The round trip to that relay.
    pub rtt: Duration,
    /// The stream, and who made the inner leg over it.
    pub leg: Leg,
}

/// Who made the inner leg of what is carried: the one fact that decides what may be said on it.
#[derive(Debug)]
pub enum Leg {
    /// Nobody yet: the client makes it, and says nothing outside of it.
    Ours(Carried),
    /// The warm process, and the node proved itself to it: OPEN is what comes next.
    Standby {
        /// What carries what is said inside.
        carried: Carried,
        /// Of this inner leg.
        resume_key: ResumeKey,
    },
}

/// Why there is no answer that helps.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody serves, or not for us.
    #[error("no warm process of ours runs here ({0}); noderelay warm --for 1h starts one")]
    Nobody(io::Error),
    /// It did not answer.
    #[error("the warm process did not answer within {0:?}")]
    Silent(Duration),
    /// It went.
    #[error("the warm process went without an answer: {0}")]
    Lost(io::Error),
    /// It said something else.
    #[error("the warm process said something else than an answer: {0}")]
    Broken(String),
    /// It has nothing that fits.
    #[error("the warm process has nothing for this: {0}")]
    Nothing(String),
}

/// Asks for a stream to `target`.
///
/// # Errors
/// There is none; the client dials.
pub async fn stream(config: &Config, creds: &Creds, target: &Target) -> Result<Given, NoAnswer> {
    let ask = Ask {
        configuration: Bytes::copy_from_slice(&configuration(config)),
        certificate: Bytes::copy_from_slice(&certificate(creds)),
        cluster: target.cluster.to_string(),
        node: target.node.to_string(),
        purpose: Purpose::Session.into(),
        ..question(AskFor::Stream)
    };
    let (socket, frames, answer) = asked(config, ask, ANSWER).await?;
    let FromWarm::Answer(answer) = answer else {
        return Err(NoAnswer::Broken(answer.frame().to_string()));
    };
    let Answer {
        carried,
        relay,
        resume_key,
        seen,
        rtt_us,
    } = answer;
    let stream = Carried::new(socket, frames);
    let leg = match (What::try_from(carried), ResumeKey::from_slice(&resume_key)) {
        (Ok(What::Stream), _) => Leg::Ours(stream),
        (Ok(What::Standby), Some(resume_key)) if config.warm == Warm::Standby => Leg::Standby {
            carried: stream,
            resume_key,
        },
        (Ok(What::Standby), _) => return Err(NoAnswer::Broken("a standby that nobody wanted".to_owned())),
        _ => return Err(NoAnswer::Nothing(noderelay_pki::text::escape(&seen, 500))),
    };
    Ok(Given {
        relay,
        rtt: Duration::from_micros(rtt_us.into()),
        leg,
    })
}

/// Asks what is kept.
///
/// # Errors
/// Nobody answers.
pub async fn report(config: &Config) -> Result<Report, NoAnswer> {
    reported(config, question(AskFor::Report)).await
}

/// Asks it to go on for `period` from now.
///
/// # Errors
/// Nobody answers.
pub async fn keep(config: &Config, period: Duration) -> Result<Report, NoAnswer> {
    let keep_secs = u32::try_from(period.as_secs()).unwrap_or(u32::MAX).max(1);
    let ask = Ask {
        keep_secs,
        ..question(AskFor::Keep)
    };
    reported(config, ask).await
}

/// Asks it to end.
///
/// # Errors
/// Nobody answers.
pub async fn stop(config: &Config) -> Result<Report, NoAnswer> {
    reported(config, question(AskFor::Stop)).await
}

async fn reported(config: &Config, ask: Ask) -> Result<Report, NoAnswer> {
    match asked(config, ask, REPORT).await? {
        (_, _, FromWarm::Report(report)) => Ok(report),
        (_, _, FromWarm::Answer(answer)) => Err(NoAnswer::Nothing(noderelay_pki::text::escape(&answer.seen, 500))),
        (_, _, other) => Err(NoAnswer::Broken(other.frame().to_string())),
    }
}

fn question(wish: AskFor) -> Ask {
    Ask {
        version: Ask::VERSION,
        wish: wish.into(),
        ..Ask::default()
    }
}

/// Asks, and gives the first word that comes back.
async fn asked(
    config: &Config,
    ask: Ask,
    within: Duration,
) -> Result<(UnixStream, Frames<FromWarm>, FromWarm), NoAnswer> {
    let asking = async {
        let mut socket = Place::of(config).connect().await.map_err(NoAnswer::Nobody)?;
        let mut bytes = BytesMut::new();
        ToWarm::Ask(ask).encode(&mut bytes);
        socket.write_all_buf(&mut bytes).await.map_err(NoAnswer::Lost)?;
        let mut frames = Frames::new();
        match frames::next(&mut socket, &mut frames).await {
            Ok(answer) => Ok((socket, frames, answer)),
            Err(NoMessage::Ended) => Err(NoAnswer::Lost(io::ErrorKind::UnexpectedEof.into())),
            Err(NoMessage::Stream(error)) => Err(NoAnswer::Lost(error)),
            Err(NoMessage::Protocol(error)) => Err(NoAnswer::Broken(error.to_string())),
        }
    };
    timeout(within, asking).await.unwrap_or(Err(NoAnswer::Silent(within)))
}

/// What stands for a configuration: its path, and all that is in effect.
pub(super) fn configuration(config: &Config) -> [u8; 32] {
    let path = std::path::absolute(&config.file).unwrap_or_else(|_| config.file.clone());
    let mut text = path.as_os_str().as_encoded_bytes().to_vec();
    text.push(0);
    // A configuration is strings and numbers: writing it can't fail, and if it did, two of one path would be one.
    text.extend_from_slice(&serde_json::to_vec(config).unwrap_or_default());
    hash(&text)
}

/// What stands for a certificate.
pub(super) fn certificate(creds: &Creds) -> [u8; 32] {
    let credentials = creds.party.credentials.get();
    hash(credentials.chain().first().map(|end| &**end).unwrap_or_default())
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.iter_mut()
        .zip(digest(&SHA256, bytes).as_ref())
        .for_each(|(out, byte)| *out = *byte);
    out
}
