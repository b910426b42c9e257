//! Dialling a relay: every address is tried, none can hold the others up.
//!
//! ```text
//! addresses ─> resolve (all at once) ─> candidates ─> a new attempt every STAGGER, or at once after a failure
//!                                                      first complete handshake with the right peer wins
//! ```
//!
//! Each attempt has a limit of its own. Sockets are new for each call: a NAT mapping that went bad is not used again.
//!
//! What it never does: wait without a limit, dial an address that the caller did not give, or fall silent about why an
//! address failed.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use noderelay_pki::tls::{Leg, Note, Party, SERVER_NAME, TlsError};
use noderelay_pki::{Expect, PeerRefused, text};
use noderelay_proto::code::Code;
use noderelay_proto::version;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, TransportConfig};
use tokio::task::JoinSet;

use crate::endpoint::client_endpoint;
use crate::link::{Link, LinkError, Lost};
use crate::resolve::{ResolveError, Resolver};

/// How long one attempt may take: five round trips of a satellite link, with a lost packet.
pub const ATTEMPT: Duration = Duration::from_secs(5);
/// How long the next attempt waits for the one before (RFC 8305 § 5).
pub const STAGGER: Duration = Duration::from_millis(250);
/// Most addresses that one call dials.
const MAX_CANDIDATES: usize = 64;

/// Dials relays for one party.
#[derive(Debug, Clone)]
pub struct Dialer {
    party: Party,
    transport: Arc<TransportConfig>,
    resolver: Resolver,
    attempt: Duration,
    stagger: Duration,
}

/// One address that failed.
#[derive(Debug)]
pub struct Attempt {
    /// As it was given.
    pub address: String,
    /// What it was resolved to.
    pub remote: Option<SocketAddr>,
    /// Why it failed.
    pub cause: Cause,
}

/// Why one address failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The name.
    #[error(transparent)]
    Name(#[from] ResolveError),
    /// No answer in time.
    #[error("no complete answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// Whoever answered is not whom we want.
    #[error(transparent)]
    Peer(PeerRefused),
    /// The connection ended during the handshake.
    #[error(transparent)]
    Lost(Lost),
    /// This side's socket or set-up.
    #[error("{0}")]
    Here(String),
}

/// No address could be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Our own certificate can't be shown.
    #[error(transparent)]
    Own(TlsError),
    /// There is nothing to dial.
    #[error("no relay address is known")]
    NoAddress,
    /// Every address failed.
    #[error("none of {} could be reached{}", count(.0.len()), List(.0))]
    AllFailed(Vec<Attempt>),
}

impl DialError {
    /// The one code that says most: a wrong or expired certificate before silence.
    pub fn code(&self) -> Code {
        let attempts = match self {
            DialError::Own(TlsError::Expired { .. }) => return Code::IdentityExpired,
            DialError::Own(_) => return Code::IdentityMissing,
            DialError::NoAddress => return Code::TransportNoRelay,
            DialError::AllFailed(attempts) => attempts,
        };
        let codes = || attempts.iter().map(|attempt| attempt.cause.code());
        let order = [
            Code::TransportTls,
            Code::TransportUnreachable,
            Code::TransportTimeout,
            Code::TransportNames,
        ];
        codes()
            .find(|code| !order.contains(code))
            .or_else(|| order.into_iter().find(|wanted| codes().any(|code| code == *wanted)))
            .unwrap_or(Code::TransportUnreachable)
    }
}

impl DialError {
    /// When those who refused want to be tried again, if they said so: the last of them.
    pub fn back(&self) -> Option<Duration> {
        match self {
            DialError::AllFailed(attempts) => attempts.iter().filter_map(|attempt| attempt.cause.back()).max(),
            DialError::Own(_) | DialError::NoAddress => None,
        }
    }
}

impl Cause {
    /// When the relay at this address wants to be tried again, if it said so.
    pub fn back(&self) -> Option<Duration> {
        match self {
            Cause::Lost(lost) => lost.back(),
            _ => None,
        }
    }

    fn code(&self) -> Code {
        match self {
            Cause::Name(_) => Code::TransportNames,
            Cause::TimedOut(_) | Cause::Lost(Lost::Silent) => Code::TransportTimeout,
            Cause::Lost(Lost::Closed(refusal)) => refusal.code,
            // The address leads to another relay than the fleet file says.
            Cause::Peer(PeerRefused::WrongName { .. }) => Code::IdentityWrongName,
            Cause::Peer(_) | Cause::Lost(Lost::Alert(_) | Lost::Handshake(_)) => Code::TransportTls,
            Cause::Lost(_) | Cause::Here(_) => Code::TransportUnreachable,
        }
    }
}

fn count(number: usize) -> String {
    if number == 1 {
        "1 address".to_owned()
    } else {
        format!("{number} addresses")
    }
}

/// Every attempt with its cause, one a line.
struct List<'a>(&'a [Attempt]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for attempt in self.0 {
            write!(f, "\n  {attempt}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = text::escape(&self.address, 300);
        match self.remote {
            Some(remote) if remote.to_string() != self.address => write!(f, "{address} ({remote}): {}", self.cause),
            _ => write!(f, "{address}: {}", self.cause),
        }
    }
}

impl Dialer {
    /// For a party, with the transport numbers of its kind.
    pub fn new(party: Party, transport: Arc<TransportConfig>) -> Dialer {
        Dialer {
            party,
            transport,
            resolver: Resolver::default(),
            attempt: ATTEMPT,
            stagger: STAGGER,
        }
    }

    /// With another limit for each attempt.
    #[must_use]
    pub fn attempt_limit(mut self, limit: Duration) -> Dialer {
        self.attempt = limit;
        self
    }

    /// With another wait before the next address is tried as well.
    #[must_use]
    pub fn stagger(mut self, stagger: Duration) -> Dialer {
        self.stagger = stagger;
        self
    }

    /// With another resolver.
    #[must_use]
    pub fn resolver(mut self, resolver: Resolver) -> Dialer {
        self.resolver = resolver;
        self
    }

    /// The party that dials.
    pub fn party(&self) -> &Party {
        &self.party
    }

    /// Dials the addresses (HOST:PORT) and gives the first link to whom `expect` says.
    pub async fn dial(&self, addresses: &[String], expect: Expect) -> Result<Link, DialError> {
        let doors: Vec<_> = addresses.iter().map(|a| (a.clone(), expect.clone())).collect();
        self.dial_each(&doors).await
    }

    /// The same with one's own expectation for each address.
    pub async fn dial_each(&self, doors: &[(String, Expect)]) -> Result<Link, DialError> {
        self.party
            .credentials
            .get()
            .check(Timestamp::now())
            .map_err(DialError::Own)?;
        if doors.is_empty() {
            return Err(DialError::NoAddress);
        }
        let mut race = Race {
            dialer: self,
            sockets: Sockets::default(),
            running: JoinSet::new(),
        };
        race.run(doors).await
    }
}

/// The sockets of one call, one for each address family.
#[derive(Default)]
struct Sockets {
    v4: Option<Endpoint>,
    v6: Option<Endpoint>,
}

impl Sockets {
    fn for_remote(&mut self, remote: SocketAddr) -> Result<Endpoint, LinkError> {
        let place = if remote.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        match place {
            Some(endpoint) => Ok(endpoint.clone()),
            None => Ok(place.insert(client_endpoint(remote)?).clone()),
        }
    }
}

type Resolved = (usize, String, Result<Vec<SocketAddr>, ResolveError>);

/// One socket address that is to be tried, and whom it must lead to.
struct Candidate {
    rank: usize,
    address: String,
    remote: SocketAddr,
    expect: Expect,
}

struct Race<'a> {
    dialer: &'a Dialer,
    sockets: Sockets,
    running: JoinSet<Result<Link, Attempt>>,
}

impl Race<'_> {
    async fn run(&mut self, doors: &[(String, Expect)]) -> Result<Link, DialError> {
        let mut names: JoinSet<Resolved> = JoinSet::new();
        for (rank, (address, _)) in doors.iter().take(MAX_CANDIDATES).enumerate() {
            let (resolver, address) = (self.dialer.resolver.clone(), address.clone());
            names.spawn(async move {
                let found = resolver.resolve(&address).await;
                (rank, address, found)
            });
        }
        let mut failed = Vec::new();
        let mut waiting: VecDeque<Candidate> = VecDeque::new();
        let mut tried: Vec<(SocketAddr, Expect)> = Vec::new();
        let mut next_start = tokio::time::Instant::now();
        loop {
            let now = tokio::time::Instant::now();
            if !waiting.is_empty() && (self.running.is_empty() || next_start <= now) {
                if let Some(candidate) = waiting.pop_front() {
                    self.start(candidate, &mut failed);
                    next_start = now + self.dialer.stagger;
                }
                continue;
            }
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next() => match ended {
                    Ok(Ok(link)) => return Ok(link),
                    Ok(Err(attempt)) => {
                        failed.push(attempt);
                        // Nothing to wait for: the next one starts at once.
                        next_start = tokio::time::Instant::now();
                    }
                    // The task was not cancelled by us; it broke off.
                    Err(error) => tracing::error!(%error, "an attempt broke off"),
                },
                Some(Ok((rank, address, found))) = names.join_next() => match found {
                    Ok(found) => {
                        let Some((_, expect)) = doors.get(rank) else { continue };
                        for remote in found {
                            // One address under two relays' names is tried for each of them.
                            let pair = (remote, expect.clone());
                            if tried.len() < MAX_CANDIDATES && !tried.contains(&pair) {
                                tried.push(pair);
                                let (address, expect) = (address.clone(), expect.clone());
                                waiting.push_back(Candidate { rank, address, remote, expect });
                            }
                        }
                        // The caller's order, as far as it is known by now.
                        waiting.make_contiguous().sort_by_key(|candidate| candidate.rank);
                    }
                    Err(error) => failed.push(Attempt { address, remote: None, cause: error.into() }),
                },
                () = tokio::time::sleep_until(next_start), if !waiting.is_empty() => {}
                else => return Err(DialError::AllFailed(failed)),
            }
        }
    }

    fn start(&mut self, candidate: Candidate, failed: &mut Vec<Attempt>) {
        let Candidate {
            address,
            remote,
            expect,
            ..
        } = candidate;
        let note = Note::default();
        let made = self
            .sockets
            .for_remote(remote)
            .map_err(|error| error.to_string())
            .and_then(|endpoint| {
                let connecting = endpoint
                    .connect_with(self.config(&expect, &note)?, remote, SERVER_NAME)
                    .map_err(|error| error.to_string())?;
                Ok((endpoint, connecting))
            });
        let (endpoint, connecting) = match made {
            Ok(made) => made,
            Err(error) => {
                return failed.push(Attempt {
                    address,
                    remote: Some(remote),
                    cause: Cause::Here(error),
                });
            }
        };
        let (party, limit) = (self.dialer.party.clone(), self.dialer.attempt);
        self.running.spawn(async move {
            let cause = match tokio::time::timeout(limit, connecting).await {
                Err(_) => Cause::TimedOut(limit),
                Ok(Err(error)) => match note.take() {
                    Some(refused) => Cause::Peer(refused),
                    None => Cause::Lost(Lost::from(&error)),
                },
                Ok(Ok(connection)) => {
                    match Link::new(connection, endpoint, &address, &party, &expect, Timestamp::now()) {
                        Ok(link) => return Ok(link),
                        Err(LinkError::Peer(refused)) => Cause::Peer(refused),
                        Err(error) => Cause::Here(error.to_string()),
                    }
                }
            };
            Err(Attempt {
                address,
                remote: Some(remote),
                cause,
            })
        });
    }

    fn config(&self, expect: &Expect, note: &Note) -> Result<ClientConfig, String> {
        let tls = self
            .dialer
            .party
            .client_noting(expect.clone(), Leg::Outer, version::OUTER, note)
            .map_err(|error| error.to_string())?;
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::clone(&self.dialer.transport));
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
