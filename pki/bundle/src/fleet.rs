//! The fleet file (`fleet.yaml`): clusters with their certificate authorities and relays, and the approved routes between
//! clusters. Whoever reads it got it from a verified publication.
//!
//! A relay computes its next hops from this file, an agent and a client find relay addresses here, and everybody takes the
//! certificate authorities of each cluster from here. It never says who may do what.

use crate::error::BundleError;
use crate::key::{PublicKey, lower_hex};
use crate::yaml;
use jiff::Timestamp;
use noderelay_pki::identity::{Identity, Role, RoleKind};
use noderelay_pki::name::{ClusterName, RelayName, TrustDomain};
use noderelay_pki::trust::{CaEntry, TrustAnchors};
use noderelay_pki::verify::Expect;
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The name of the file in a publication.
pub const FILE: &str = "fleet.yaml";

/// Clusters in one fleet, relays and certificate authorities in one cluster, addresses of one relay, routes: far above
/// what a fleet has, so that a mistaken file cannot fill a node.
const MAX_CLUSTERS: usize = 1000;
const MAX_PER_CLUSTER: usize = 64;
const MAX_ADDRESSES: usize = 16;
const MAX_ROUTES: usize = 4000;
const MAX_OWNER: usize = 200;

/// The fleet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetFile {
    /// The trust domain of every identity in this fleet.
    pub trust_domain: TrustDomain,
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// Approved routes between clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Relays that cosign the checkpoints of audit logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// Whom recordings are sealed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<Recipient>,
    /// Who is told of break-glass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<Webhook>,
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Its name in identities.
    pub name: ClusterName,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its certificate authorities: two while one replaces the other.
    pub certificate_authorities: Vec<CertificateAuthority>,
    /// Its relays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<RelayEntry>,
}

/// A certificate authority of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateAuthority {
    /// The roles that it may certify.
    pub roles: BTreeSet<RoleKind>,
    /// The certificate, PEM.
    pub certificate: String,
}

/// One relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayEntry {
    /// Its name in its certificate.
    pub name: RelayName,
    /// Where it listens, `HOST:PORT`; IP addresses beside names, so that a dead DNS stops nobody.
    pub addresses: Vec<String>,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// SHA-256 of its public key, hex, when it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
}

/// What a route may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Sessions.
    Session,
    /// A peer without a certificate reaching an issuer.
    Enrol,
    /// Renewals.
    Issue,
    /// Publications.
    Bundle,
    /// Revocations.
    Revocation,
    /// Recordings.
    Store,
    /// Checkpoints.
    Witness,
}

/// An approved route between two clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// From the relays of this cluster
    pub from: ClusterName,
    /// to those of this one.
    pub to: ClusterName,
    /// What it carries.
    pub purposes: BTreeSet<Purpose>,
    /// Not used from here on (`YYYY-MM-DDTHH:MM:SSZ`).
    #[serde(with = "crate::fleet::instant")]
    pub expires: Timestamp,
}

/// A relay that cosigns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// Its name.
    pub name: RelayName,
    /// Its signing key.
    pub key: PublicKey,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// An auditor to whom recordings are sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipient {
    /// Who.
    pub name: String,
    /// The `age` recipient.
    pub recipient: String,
    /// Whether its key is kept offline.
    #[serde(default)]
    pub offline: bool,
}

/// A webhook that is told of break-glass. Its secret is at the relays, never here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its name; relays have the secret under it.
    pub name: String,
    /// Where to.
    pub url: String,
}

impl FleetFile {
    /// Reads and checks a fleet file.
    ///
    /// # Errors
    /// [`BundleError::Content`] with what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let fleet: Self = yaml::parse(FILE, bytes)?;
        fleet.check()?;
        Ok(fleet)
    }

    /// The file as YAML, for tools that write one.
    ///
    /// # Errors
    /// [`BundleError::Content`] when this is not a valid fleet.
    pub fn to_yaml(&self) -> Result<String, BundleError> {
        self.check()?;
        serde_saphyr::to_string(self).map_err(|e| BundleError::content(FILE, e.to_string()))
    }

    /// The certificate authorities of all clusters, each bound to its cluster and roles.
    ///
    /// # Errors
    /// [`BundleError::Content`] when one is not usable; never for a file that was read by [`FleetFile::parse`].
    pub fn trust_anchors(&self) -> Result<TrustAnchors, BundleError> {
        let entries = self
            .clusters
            .iter()
            .flat_map(|cluster| cluster.certificate_authorities.iter().map(move |ca| (cluster, ca)))
            .filter_map(|(cluster, ca)| {
                Some(CaEntry {
                    cluster: cluster.name.clone(),
                    roles: ca.roles.clone(),
                    // `check` has parsed it: nothing is left out here.
                    certificate: ca.der()?,
                })
            })
            .collect();
        TrustAnchors::new(self.trust_domain.clone(), entries).map_err(|e| BundleError::content(FILE, e.to_string()))
    }

    /// A cluster by its name.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<&Cluster> {
        self.clusters.iter().find(|c| c.name == *name)
    }

    /// The relays of a cluster; none when the fleet does not have the cluster.
    #[must_use]
    pub fn relays(&self, cluster: &ClusterName) -> &[RelayEntry] {
        self.cluster(cluster).map_or(&[], |c| &c.relays)
    }

    /// Whom the addresses of a relay of that cluster must lead to: nobody but the relay of that name, with its key where
    /// one is pinned.
    #[must_use]
    pub fn expected(&self, cluster: &ClusterName, relay: &RelayEntry) -> Expect {
        let role = Role::Relay(relay.name.clone());
        Expect::ThisRelay {
            identity: Identity::new(self.trust_domain.clone(), cluster.clone(), role),
            key: relay.key_fingerprint.clone(),
        }
    }

    /// All relays with their clusters.
    pub fn all_relays(&self) -> impl Iterator<Item = (&ClusterName, &RelayEntry)> {
        self.clusters
            .iter()
            .flat_map(|c| c.relays.iter().map(move |r| (&c.name, r)))
    }

    /// The relay of that name in that cluster.
    #[must_use]
    pub fn relay(&self, cluster: &ClusterName, name: &RelayName) -> Option<&RelayEntry> {
        self.relays(cluster).iter().find(|r| r.name == *name)
    }

    /// Whether a route for `purpose` is approved at `now`.
    #[must_use]
    pub fn route_approved(&self, from: &ClusterName, to: &ClusterName, purpose: Purpose, now: Timestamp) -> bool {
        self.routes
            .iter()
            .any(|r| r.from == *from && r.to == *to && r.purposes.contains(&purpose) && now < r.expires)
    }

    fn check(&self) -> Result<(), BundleError> {
        let wrong = |seen: String| Err(BundleError::content(FILE, seen));
        if self.clusters.is_empty() || self.clusters.len() > MAX_CLUSTERS || self.routes.len() > MAX_ROUTES {
            return wrong(format!(
                "{} clusters and {} routes",
                self.clusters.len(),
                self.routes.len()
            ));
        }
        let mut names = BTreeSet::new();
        for cluster in &self.clusters {
            if !names.insert(&cluster.name) {
                return wrong(format!("cluster {} twice", cluster.name));
            }
            cluster.check()?;
        }
        for route in &self.routes {
            if route.from == route.to || !names.contains(&route.from) || !names.contains(&route.to) {
                return wrong(format!(
                    "the route {} to {} is not between two clusters of this file",
                    route.from, route.to
                ));
            }
            if route.purposes.is_empty() {
                return wrong(format!("the route {} to {} has no purpose", route.from, route.to));
            }
        }
        let mut witnesses = BTreeSet::new();
        for witness in &self.witnesses {
            if !witnesses.insert(&witness.key) {
                return wrong(format!("the key of witness {} twice", witness.name));
            }
        }
        self.trust_anchors().map(|_| ())
    }
}

impl Cluster {
    fn check(&self) -> Result<(), BundleError> {
        let wrong = |seen: String| Err(BundleError::content(FILE, format!("cluster {}: {seen}", self.name)));
        if self.certificate_authorities.is_empty() {
            return wrong("no certificate authority".to_owned());
        }
        if self.certificate_authorities.len() > MAX_PER_CLUSTER || self.relays.len() > MAX_PER_CLUSTER {
            return wrong(format!("more than {MAX_PER_CLUSTER} relays or certificate authorities"));
        }
        if self.owner.as_ref().is_some_and(|o| o.is_empty() || o.len() > MAX_OWNER) {
            return wrong("an empty or over-long owner".to_owned());
        }
        for ca in &self.certificate_authorities {
            if ca.roles.is_empty() {
                return wrong("a certificate authority without roles".to_owned());
            }
            if ca.der().is_none() {
                return wrong("`certificate` is not exactly one PEM certificate".to_owned());
            }
        }
        let mut names = BTreeSet::new();
        for relay in &self.relays {
            if !names.insert(&relay.name) {
                return wrong(format!("relay {} twice", relay.name));
            }
            if relay.addresses.is_empty() || relay.addresses.len() > MAX_ADDRESSES {
                return wrong(format!("relay {} has {} addresses", relay.name, relay.addresses.len()));
            }
            if let Some(bad) = relay.addresses.iter().find(|a| !is_address(a)) {
                return wrong(format!("relay {}: {bad} is not HOST:PORT", relay.name));
            }
            if relay
                .key_fingerprint
                .as_ref()
                .is_some_and(|f| f.len() != 64 || !lower_hex(f))
            {
                return wrong(format!(
                    "relay {}: `key_fingerprint` is not 64 lower-case hex digits",
                    relay.name
                ));
            }
            if relay
                .owner
                .as_ref()
                .is_some_and(|o| o.is_empty() || o.len() > MAX_OWNER)
            {
                return wrong(format!("relay {}: an empty or over-long owner", relay.name));
            }
        }
        Ok(())
    }
}

impl CertificateAuthority {
    /// The certificate, when the PEM text holds exactly one.
    #[must_use]
    pub fn der(&self) -> Option<CertificateDer<'static>> {
        match noderelay_pki::pem::certificates(self.certificate.as_bytes())
            .ok()?
            .as_slice()
        {
            [one] => Some(one.clone()),
            _ => None,
        }
    }
}

/// `HOST:PORT`, `IPv4:PORT` or `[IPv6]:PORT`; port 0 is none.
fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let port_ok = port.parse::<u16>().is_ok_and(|p| p > 0) && port.bytes().all(|b| b.is_ascii_digit());
    let host_ok = match host.strip_prefix('[') {
        Some(v6) => v6
            .strip_suffix(']')
            .is_some_and(|v6| v6.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            !host.is_empty()
                && host.len() <= 253
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
        }
    };
    port_ok && host_ok
}

pub(crate) mod instant {
    //! A time in the one grammar, in YAML.
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&noderelay_pki::time::format(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        noderelay_pki::time::parse(&text).map_err(|e| D::Error::custom(e.to_string()))
    }
}

#[cfg(test)]
mod tests;
