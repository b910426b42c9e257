//! `noderelay whoami`: who I am, until when, and whether the fleet knows my CA.
//!
//! It reads the certificate and key of the configuration and the bundle, and connects to nothing. A certificate that the
//! fleet would refuse is a finding (exit 1), told with its reason.

use std::fmt;

use jiff::Timestamp;
use noderelay_pki::tls::Credentials;
use noderelay_pki::{Expect, RoleKind, Usage, time};
use serde::Serialize;

use crate::config::Config;
use crate::creds::{self, CredsError};
use crate::pump::words;
use noderelay_pki::text::escape;

/// Roles that open sessions.
pub const PERSONS: Expect = Expect::Roles(&[RoleKind::User, RoleKind::BreakGlass]);

/// Who I am.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Whoami {
    /// The identity, as a SPIFFE URI.
    pub identity: String,
    /// user, break-glass, …
    pub role: &'static str,
    /// The name.
    pub name: String,
    /// The home cluster, whose CA signed the certificate.
    pub cluster: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Start of the certificate.
    pub not_before: String,
    /// End of the certificate.
    pub not_after: String,
    /// How long that is from now, in seconds.
    pub seconds_left: u64,
    /// When the API server attested the identity.
    pub attested_at: Option<String>,
    /// SHA-256 of the public key.
    pub key_fingerprint: String,
    /// SHA-256 of the certificate.
    pub certificate_fingerprint: String,
    /// The policy version of the bundle in force here.
    pub policy_version: Option<u64>,
    /// Whether that bundle is a demo's, or one signer alone can change it.
    pub demo: bool,
    /// Why the fleet would refuse this certificate.
    pub refused: Option<String>,
}

impl Whoami {
    /// Looks.
    ///
    /// # Errors
    /// There is no usable certificate or key.
    pub async fn look(config: &Config, now: Timestamp) -> Result<Self, CredsError> {
        let credentials = Credentials::load(&config.identity.certificate, &config.identity.key, now)?;
        let bundle = creds::publication(config, now).await;
        let refused = match &bundle {
            Ok(begun) => {
                let verified = begun.made.verify(credentials.chain(), Usage::Client, &PERSONS, now);
                verified.err().map(|refused| refused.to_string())
            }
            Err(error) => Some(format!("no bundle to compare with: {error}")),
        };
        let identity = credentials.identity();
        Ok(Self {
            identity: identity.to_string(),
            role: identity.kind().as_str(),
            name: identity.role.name().to_owned(),
            cluster: identity.cluster.to_string(),
            groups: credentials.groups().iter().map(ToString::to_string).collect(),
            not_before: time::format(credentials.not_before()),
            not_after: time::format(credentials.not_after()),
            seconds_left: time::between(now, credentials.not_after()).as_secs(),
            attested_at: credentials.attested_at().map(time::format),
            key_fingerprint: credentials.key_fingerprint().to_owned(),
            certificate_fingerprint: credentials.certificate_fingerprint(),
            policy_version: bundle.as_ref().ok().map(|begun| begun.publication.policy_version()),
            demo: bundle.is_ok_and(|begun| begun.publication.demo()),
            refused,
        })
    }

    /// 0 good, 1 a finding.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.refused.is_some())
    }
}

impl fmt::Display for Whoami {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<_> = self.groups.iter().map(|group| escape(group, 64)).collect();
        let groups = if groups.is_empty() {
            "none".to_owned()
        } else {
            groups.join(", ")
        };
        let left = words(std::time::Duration::from_secs(self.seconds_left));
        writeln!(
            f,
            "{} {} of cluster {}",
            self.role,
            escape(&self.name, 128),
            self.cluster
        )?;
        writeln!(f, "identity     {}", escape(&self.identity, 2000))?;
        writeln!(f, "groups       {groups}")?;
        writeln!(
            f,
            "valid        {} to {} ({left} left)",
            self.not_before, self.not_after
        )?;
        if let Some(attested) = &self.attested_at {
            writeln!(f, "attested     {attested}")?;
        }
        writeln!(f, "key          sha256 {}", self.key_fingerprint)?;
        writeln!(f, "certificate  sha256 {}", self.certificate_fingerprint)?;
        if let Some(version) = self.policy_version {
            let demo = if self.demo { " (a demo's, or of one signer)" } else { "" };
            writeln!(f, "bundle       policy version {version}{demo}")?;
        }
        match &self.refused {
            None => writeln!(f, "accepted     by the fleet file in force here"),
            Some(why) => writeln!(f, "refused      {}", escape(why, 800)),
        }
    }
}
