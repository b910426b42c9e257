//! Names to addresses: looked up anew each time, with the last good answer as fallback.
//!
//! ```text
//! "10.0.0.7:443", "[fd00::7]:443"  -> that address
//! "relay-1.example:443"            -> looked up (at most LIMIT) ; on failure the last good answer of this process
//! ```
//!
//! The system's resolver blocks and can't be interrupted, so each look-up has a thread of its own: a hung DNS server
//! delays neither the runtime nor the end of the program.
//!
//! What it never does: remember an answer in place of asking, or let a look-up outlast its limit.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noderelay_pki::text;
use tokio::sync::oneshot;

/// How long one look-up may take before the last good answer is used.
pub const LIMIT: Duration = Duration::from_secs(2);
/// Most addresses of one name that are tried.
pub const MAX_ADDRESSES: usize = 16;
/// Names whose last good answer is kept.
const MAX_NAMES: usize = 1024;

/// How a name is looked up: blocking, host and port.
pub type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// A name gave no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Not HOST:PORT.
    #[error("not an address: write HOST:PORT, with an IPv6 address in brackets")]
    Form,
    /// The resolver said no.
    #[error("the name can't be resolved: {0}")]
    Failed(String),
    /// The resolver said nothing.
    #[error("the name was not resolved within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
}

/// Looks names up and remembers the last good answers.
#[derive(Clone)]
pub struct Resolver {
    lookup: Lookup,
    limit: Duration,
    good: Arc<Mutex<HashMap<String, Vec<SocketAddr>>>>,
}

impl Default for Resolver {
    fn default() -> Resolver {
        Resolver::new(
            Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect())),
            LIMIT,
        )
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// With another way to look names up.
    pub fn new(lookup: Lookup, limit: Duration) -> Resolver {
        Resolver {
            lookup,
            limit,
            good: Arc::default(),
        }
    }

    /// The addresses of HOST:PORT, both families taking turns.
    pub async fn resolve(&self, address: &str) -> Result<Vec<SocketAddr>, ResolveError> {
        if let Ok(exact) = address.parse::<SocketAddr>() {
            return Ok(vec![exact]);
        }
        let (host, port) = address.rsplit_once(':').ok_or(ResolveError::Form)?;
        let port: u16 = port.parse().map_err(|_| ResolveError::Form)?;
        if host.is_empty() || host.len() > 253 || host.contains([':', '[', ']']) {
            return Err(ResolveError::Form);
        }
        match self.look_up(host, port).await {
            Ok(mut found) => {
                take_turns(&mut found);
                found.truncate(MAX_ADDRESSES);
                let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
                if good.len() < MAX_NAMES || good.contains_key(address) {
                    good.insert(address.to_owned(), found.clone());
                }
                Ok(found)
            }
            Err(error) => {
                let good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
                let last = good.get(address).cloned().ok_or_else(|| error.clone())?;
                tracing::warn!(address, %error, "using the last good addresses");
                Ok(last)
            }
        }
    }

    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
        let (tell, told) = oneshot::channel();
        let (lookup, name) = (Arc::clone(&self.lookup), host.to_owned());
        let thread = std::thread::Builder::new().name("resolve".to_owned());
        thread
            .spawn(move || {
                // Nobody waits any more: nothing to do.
                let _ = tell.send(lookup(&name, port));
            })
            .map_err(|error| ResolveError::Failed(error.to_string()))?;
        match tokio::time::timeout(self.limit, told).await {
            Ok(Ok(Ok(found))) if !found.is_empty() => Ok(found),
            Ok(Ok(Ok(_))) => Err(ResolveError::Failed("it has no address".to_owned())),
            Ok(Ok(Err(error))) => Err(ResolveError::Failed(text::escape(&error.to_string(), 120))),
            Ok(Err(_)) => Err(ResolveError::Failed("the look-up broke off".to_owned())),
            Err(_) => Err(ResolveError::TimedOut(self.limit)),
        }
    }
}

/// The resolver's order, but with both families taking turns: a dead one costs one stagger only.
fn take_turns(addresses: &mut Vec<SocketAddr>) {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = std::mem::take(addresses)
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut second = second.into_iter();
    for address in first {
        addresses.push(address);
        addresses.extend(second.next());
    }
    addresses.extend(second);
}
