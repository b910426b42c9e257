//! A session that the node has opened for us: how it is reached, announced, and run to its end.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use noderelay_link::Link;
use noderelay_proto::OpenId;
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control;

use super::ending::{ended, say};
use super::local::Terminals;
use super::{Over, SessionOptions, banner};
use crate::config::{Config, Warm};
use crate::creds::Creds;
use crate::dial::{self, Reached, Ways};
use crate::farewell::Farewell;
use crate::faults::Fault;
use crate::inner::{self, Duplex, Refusal, Session};
use crate::open::Wish;
use crate::pump::{self, Ended, Facts, Finished, Liveness};
use crate::signals::Signals;
use crate::status::Status;
use crate::target::Target;
use crate::terminal;
use crate::waiting::Waiting;
use crate::warm;

/// Open, and nothing was moved yet.
pub(super) struct Open {
    session: Session<Box<dyn Duplex>>,
    relay: String,
    /// The connection to the relay; it has to live as long as the session. The warm process has its own.
    link: Option<Link>,
    terminals: Terminals,
}

/// Run to its end, with the path still there for the last words.
pub(super) struct Ran {
    stream: Box<dyn Duplex>,
    link: Option<Link>,
    ended: Ended,
    /// How long the node lets the command live on without its client.
    window: Duration,
}

impl Open {
    /// Who am I, which node is meant, the wish for it, a relay, and the node's answer. What is known of it on the way is in
    /// `status`, whatever becomes of it.
    pub(super) async fn reach(
        options: &SessionOptions,
        config: &Config,
        status: &mut Status,
        waiting: &Waiting,
    ) -> Result<Self, Refusal> {
        waiting.tell("the bundle");
        let creds = Creds::load(config, Timestamp::now())
            .await
            .map_err(|error| error.fault())?;
        if let Some(error) = creds.stale_because.as_ref().filter(|_| options.verbose) {
            waiting.note(&format!("the last good bundle is used: {error}"));
        }
        let fleet = creds.publication.fleet();
        let target = Target::find(&options.node, options.cluster.as_ref(), config.cluster.as_ref(), fleet)?;
        status.cluster = Some(target.cluster.to_string());
        status.path = Some("relay");
        let terminals = Terminals::of(options);
        let wish = wish(options, &target, terminals)?;
        waiting.tell("the node, through the relay");
        // Exactly these relays means no other connection.
        if config.warm != Warm::None
            && options.warm
            && options.relays.is_empty()
            && let Some(warm) = warm::reach(config, &creds, &target, &wish).await?
        {
            status.relay = Some(warm.relay.clone());
            return Ok(Self {
                session: warm.session,
                relay: warm.relay,
                link: None,
                terminals,
            });
        }
        let given = if options.relays.is_empty() {
            &config.relays
        } else {
            &options.relays
        };
        let ways = Ways::new(fleet, &target.cluster, given);
        let attempt = |stream| inner::open(stream, &creds.party, &target.identity, wish.clone());
        let Reached { link, relay, value } =
            dial::through_relays(&creds.party, ways, &target, &|what| waiting.tell(what), attempt)
                .await
                .map_err(|refusal| creds.explain(refusal))?;
        status.relay = Some(relay.clone());
        Ok(Self {
            session: value.boxed(),
            relay,
            link: Some(link),
            terminals,
        })
    }

    /// Notes what was opened, and says the one line before a shell.
    pub(super) fn announce(&self, options: &SessionOptions, status: &mut Status) -> Facts {
        let (opened, relay) = (&self.session.opened, &self.relay);
        status.session = opened.session_id().ok().map(|id| id.to_string());
        status.policy_version = Some(opened.policy_version);
        // A log's filters go by what is done, not by the file that does it.
        tracing::info!(
            target: "noderelay_client::session",
            node = opened.node,
            relay,
            session = status.session,
            "the session is open"
        );
        let line = banner::line(opened, relay, Timestamp::now());
        if self.terminals.remote && !options.quiet {
            say(&line);
        }
        let session = status.session.as_deref().unwrap_or("?");
        Facts {
            session: format!("{} session {session}", line.trim_end()),
        }
    }

    /// Moves bytes until the end. The local terminal is as it was before when this returns.
    pub(super) async fn run(
        self,
        facts: Facts,
        config: &Config,
        signals: Signals,
        options: &SessionOptions,
        status: &mut Status,
    ) -> Result<Ran, Fault> {
        let Session {
            mut stream,
            frames,
            opened,
        } = self.session;
        let mut local = self
            .terminals
            .local(config, signals, options.quiet)
            .map_err(|error| Fault::local_io("terminal", &error))?;
        let liveness = Liveness {
            keepalive: config.keepalive,
            patience: config.patience,
        };
        let Finished {
            ended,
            bytes_in,
            bytes_out,
        } = pump::run(&mut stream, frames, opened.window, &mut local, facts, liveness).await;
        drop(local);
        terminal::restore();
        (status.bytes_in, status.bytes_out) = (bytes_in, bytes_out);
        Ok(Ran {
            stream,
            link: self.link,
            ended,
            window: Duration::from_secs(opened.resume_window_secs.into()),
        })
    }
}

impl Ran {
    /// What is to be said of it, and what is left to do.
    pub(super) fn over(self, options: &SessionOptions, status: &mut Status) -> Over {
        let answers = !matches!(&self.ended, Ended::Fault(fault) if fault.is_transport());
        Over {
            message: ended(&self.ended, self.window, options, status),
            farewell: Some(Farewell::new(self.stream, self.link, answers)),
        }
    }
}

/// The wish for a session on `target`.
fn wish(options: &SessionOptions, target: &Target, terminals: Terminals) -> Result<control::Open, Fault> {
    let grants = grants(&options.grants)?;
    let wish = Wish {
        id: OpenId::new(random()?),
        node: &target.node,
        cluster: &target.cluster,
        work: &options.work,
        terminal: terminals.remote.then(Terminals::size),
        environment: std::env::vars_os().collect(),
        profile: options.profile.as_deref(),
        reason: options.reason.as_deref(),
        grants: &grants,
        local_user: options.local_user.as_deref(),
    };
    wish.message()
        .map_err(|error| Fault::new(error.code(), Origin::Client, error.to_string()))
}

fn grants(files: &[PathBuf]) -> Result<Vec<Bytes>, Fault> {
    let read = |path: &PathBuf| {
        noderelay_pki::files::read_bounded(path, noderelay_proto::limits::MAX_GRANT)
            .map(Bytes::from)
            .map_err(|error| Fault::new(Code::ClientUsage, Origin::Client, format!("grant: {error}")))
    };
    files.iter().map(read).collect()
}

fn random() -> Result<[u8; 16], Fault> {
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id)
        .map_err(|_| Fault::new(Code::ClientInternal, Origin::Client, "no random numbers"))?;
    Ok(id)
}
