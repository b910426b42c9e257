//! The way to a node: a relay of its cluster that takes the stream.
//!
//! ```text
//! fleet file (or the addresses that were given) ─> Ways ─> all addresses race ─> Link ─> stream with route header
//!                                                   ↑                                       │
//!                                                   └── relay left out ── refused or lost ──┘
//! ```
//!
//! A relay decides nothing about a session: whatever it says, the next one is tried, until none is left. Only what the
//! node says inside the inner TLS ends the search.

use std::future::Future;
use std::time::Duration;

use noderelay_bundle::FleetFile;
use noderelay_link::{Dialer, Link, Stream, client_transport};
use noderelay_pki::Expect;
use noderelay_pki::identity::Role;
use noderelay_pki::name::ClusterName;
use noderelay_pki::tls::Party;
use noderelay_proto::RouteHeader;
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::Purpose;
use tokio::time::timeout;

use crate::faults::Fault;
use crate::inner::Refusal;
use crate::message::one_line;
use crate::target::Target;

#[cfg(test)]
mod tests;

/// How long a relay may take to let a stream be opened. It allows some with the handshake: a session waits for none.
const OPEN: Duration = Duration::from_secs(5);
/// Most refusals that a message lists.
const MAX_LISTED: usize = 6;

/// One relay: its name where it is known, and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Way {
    name: Option<String>,
    addresses: Vec<String>,
    expect: Expect,
}

/// The relays that may still be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ways {
    left: Vec<Way>,
    /// A relay could not be told from the others by its address: from then on one at a time.
    single: bool,
}

impl Ways {
    /// The relays of `cluster` in the fleet file, or exactly the given addresses.
    pub fn new(fleet: &FleetFile, cluster: &ClusterName, given: &[String]) -> Self {
        if given.is_empty() {
            let way = |relay: &noderelay_bundle::fleet::RelayEntry| Way {
                name: Some(relay.name.to_string()),
                addresses: relay.addresses.clone(),
                expect: fleet.expected(cluster, relay),
            };
            return Self {
                left: fleet.relays(cluster).iter().map(way).collect(),
                single: false,
            };
        }
        let way = |address: &String| Way {
            name: None,
            addresses: vec![address.clone()],
            expect: Expect::Relay { cluster: None },
        };
        Self {
            left: given.iter().map(way).collect(),
            single: false,
        }
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Each relay alone, for looking at every one of them.
    pub fn each(&self) -> Vec<(String, Self)> {
        let alone = |way: &Way| {
            let label = way.name.clone().unwrap_or_else(|| way.addresses.join(", "));
            let ways = Self {
                left: vec![way.clone()],
                single: false,
            };
            (label, ways)
        };
        self.left.iter().map(alone).collect()
    }

    /// Every address that is tried next, with whom it must lead to.
    pub(crate) fn doors(&self) -> Vec<(String, Expect)> {
        let most = if self.single { 1 } else { usize::MAX };
        self.left
            .iter()
            .take(most)
            .flat_map(|way| {
                way.addresses
                    .iter()
                    .map(|address| (address.clone(), way.expect.clone()))
            })
            .collect()
    }

    /// Leaves out what was tried: the relay of this name and address, or (`None`) everything that was just dialled.
    fn leave_out(&mut self, tried: Option<(&str, &str)>) {
        let Some((name, remote)) = tried else {
            if self.single && !self.left.is_empty() {
                self.left.remove(0);
            } else {
                self.left.clear();
            }
            return;
        };
        if self.single {
            self.left.remove(0);
            return;
        }
        let before = self.left.len();
        self.left
            .retain(|way| way.name.as_deref() != Some(name) && !way.addresses.iter().any(|address| address == remote));
        if self.left.len() == before {
            // Given by a name that says nothing about the address behind it.
            if before == 1 {
                self.left.clear();
            }
            self.single = true;
        }
    }
}

/// A relay that was reached.
#[derive(Debug)]
pub struct Reached<T> {
    /// The connection; it has to live as long as the stream.
    pub link: Link,
    /// The relay's name.
    pub relay: String,
    /// What was made of the stream.
    pub value: T,
}

/// Tries relays until `attempt` succeeds on a stream to the node or says something final.
///
/// # Errors
/// Something final, or everything that was seen when no relay is left.
pub async fn through_relays<T, A, F>(
    party: &Party,
    mut ways: Ways,
    target: &Target,
    told: &dyn Fn(&str),
    mut attempt: A,
) -> Result<Reached<T>, Refusal>
where
    A: FnMut(Stream) -> F,
    F: Future<Output = Result<T, Refusal>>,
{
    let dialer = Dialer::new(party.clone(), client_transport());
    let mut seen: Vec<(String, Fault)> = Vec::new();
    if ways.is_empty() {
        let none = format!("the fleet file names no relay for cluster {}", target.cluster);
        return Err(Fault::new(Code::TransportNoRelay, Origin::Client, none).into());
    }
    while !ways.is_empty() {
        told("an answer from a relay");
        let link = match dialer.dial_each(&ways.doors()).await {
            Ok(link) => link,
            Err(error) => {
                let code = error.code();
                let error = one_line(&error.to_string());
                if matches!(code, Code::IdentityExpired | Code::IdentityMissing) {
                    return Err(Fault::new(code, Origin::Client, error).into());
                }
                seen.push((String::new(), Fault::on_the_way(code, error)));
                ways.leave_out(None);
                continue;
            }
        };
        let relay = match &link.peer.identity().role {
            Role::Relay(name) => name.to_string(),
            other => other.name().to_owned(),
        };
        tracing::debug!(relay, address = %link.remote, "a relay was reached");
        told("the node, through the relay");
        let header = RouteHeader::new(
            link.version,
            target.cluster.to_string(),
            target.node.to_string(),
            Purpose::Session,
        );
        let refusal = match timeout(OPEN, link.open(&header)).await {
            Ok(Ok(stream)) => match attempt(stream).await {
                Ok(value) => return Ok(Reached { link, relay, value }),
                Err(refusal) => refusal,
            },
            Ok(Err(error)) => Fault::on_the_way(Code::TransportLost, error.to_string()).into(),
            Err(_) => Fault::on_the_way(
                Code::TransportTimeout,
                format!("it let no stream be opened within {OPEN:?}"),
            )
            .into(),
        };
        if !refusal.fault.is_transport() {
            return Err(refusal);
        }
        tracing::debug!(relay, code = refusal.fault.code.name(), "next relay");
        let remote = link.remote.to_string();
        ways.leave_out(Some((&relay, &remote)));
        seen.push((relay, refusal.fault));
    }
    Err(summary(seen).into())
}

/// One fault of all that was seen. The code is the one that says most: what a relay said of the node before a relay that
/// did not answer.
fn summary(seen: Vec<(String, Fault)>) -> Fault {
    let line = |(relay, fault): &(String, Fault)| {
        let what = &fault.seen;
        if relay.is_empty() {
            what.clone()
        } else {
            format!("relay {relay}: {what}")
        }
    };
    let text = seen.iter().take(MAX_LISTED).map(line).collect::<Vec<_>>().join("; ");
    let best = seen.iter().find(|(relay, _)| !relay.is_empty()).or(seen.first());
    let (code, origin) = best.map_or((Code::TransportNoRelay, Origin::Client), |(_, fault)| {
        (fault.code, fault.origin)
    });
    Fault {
        class: code.on_outer_leg(),
        ..Fault::new(code, origin, text)
    }
}
