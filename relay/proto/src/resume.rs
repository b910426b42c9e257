//! The proof by which both ends of a session recognise each other on a new path.
//!
//! ```text
//! client                                             node (the holder has the key)
//!   RESUME session, epoch, sent, consumed, mac ──>     epoch is higher? mac verifies? same principal? authorized again?
//!   mac verifies? offsets possible?  <── RESUMED epoch, sent, consumed, mac, then replay from the client's `consumed`
//!   replay from the node's `consumed` ──>
//! ```
//!
//! The key is a TLS exporter value of the inner connection that carried OPEN: client and node have it, nobody sends it. Each
//! side proves it over its role, the session, the epoch, its offsets and an exporter value of the *new* connection, so a
//! proof is worth nothing on another connection, in the other direction, or later. No replayed byte leaves a side before
//! the other side's proof verifies.
//!
//! This module computes and compares; it keeps no state and sends nothing.

use aws_lc_rs::hmac;
use bytes::Bytes;
use zeroize::Zeroize;

use crate::code::Code;
use crate::id::SessionId;

/// TLS exporter label of the resume key; no context; 32 bytes; on the connection that carries OPEN.
pub const KEY_LABEL: &[u8] = b"EXPORTER-noderelay-session/1 resume key";
/// TLS exporter label of the binding; no context; 32 bytes; on the connection that carries RESUME.
pub const BINDING_LABEL: &[u8] = b"EXPORTER-noderelay-session/1 resume binding";
/// First bytes of what is authenticated: no other use of the key can collide with it.
pub const DOMAIN: &[u8; 28] = b"noderelay-session/1 resume\0\0";
/// Length of key, binding and proof.
pub const LENGTH: usize = 32;
/// Length of [`mac_input`]'s result: domain, role, session, epoch, sent, consumed, binding.
pub const INPUT_LENGTH: usize = DOMAIN.len() + 1 + 16 + 8 + 8 + 8 + LENGTH;

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// The client, in RESUME.
    Client = 1,
    /// The node, in RESUMED.
    Node = 2,
}

/// What is proved, besides the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who proves.
    pub role: Role,
    /// The session.
    pub session: SessionId,
    /// The epoch that begins.
    pub epoch: u64,
    /// The offset behind the last sequenced frame that the prover produced.
    pub sent: u64,
    /// All of the other side's offsets below this are consumed.
    pub consumed: u64,
}

macro_rules! secret {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name([u8; LENGTH]);

        impl $name {
            /// From an exporter value.
            #[must_use]
            pub const fn new(bytes: [u8; LENGTH]) -> Self {
                Self(bytes)
            }

            /// From a slice: `None` unless it has 32 bytes.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// A copy of the bytes, for the private link between agent and holder only.
            #[must_use]
            pub fn to_bytes(&self) -> Bytes {
                Bytes::copy_from_slice(&self.0)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.0.zeroize();
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    };
}

secret! {
    /// The key of a session: exporter value with [`KEY_LABEL`].
    ResumeKey
}
secret! {
    /// What ties a proof to its connection: exporter value with [`BINDING_LABEL`].
    Binding
}

/// The proof does not verify: the other side does not hold this session's key, or the message is not from this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proof of the session's key does not verify; the session stays where it is")]
pub struct BadMac;

impl BadMac {
    /// The code that is sent and logged.
    #[must_use]
    pub const fn code(self) -> Code {
        Code::SessionMac
    }
}

/// The exact bytes that are authenticated. Every field has a fixed length; numbers are big-endian.
#[must_use]
pub fn mac_input(claim: &Claim, binding: &Binding) -> Vec<u8> {
    let mut input = Vec::with_capacity(INPUT_LENGTH);
    input.extend_from_slice(DOMAIN);
    input.push(claim.role as u8);
    input.extend_from_slice(claim.session.as_bytes());
    input.extend_from_slice(&claim.epoch.to_be_bytes());
    input.extend_from_slice(&claim.sent.to_be_bytes());
    input.extend_from_slice(&claim.consumed.to_be_bytes());
    input.extend_from_slice(&binding.0);
    input
}

/// The proof: HMAC-SHA256 over [`mac_input`].
#[must_use]
pub fn sign(key: &ResumeKey, claim: &Claim, binding: &Binding) -> Bytes {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key.0);
    Bytes::copy_from_slice(hmac::sign(&key, &mac_input(claim, binding)).as_ref())
}

/// Checks a proof in constant time.
///
/// # Errors
/// [`BadMac`].
pub fn verify(key: &ResumeKey, claim: &Claim, binding: &Binding, mac: &[u8]) -> Result<(), BadMac> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key.0);
    hmac::verify(&key, &mac_input(claim, binding), mac).map_err(|_| BadMac)
}

/// Whether a RESUME of epoch `offered` may follow epoch `current`: only a higher one. The client counts one up with every
/// attempt, also with those whose fate it does not know, so an epoch that is not higher belongs to an attempt that is over.
#[must_use]
pub const fn epoch_follows(current: u64, offered: u64) -> bool {
    offered > current
}

#[cfg(test)]
mod tests;
