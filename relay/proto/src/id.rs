//! The three 16-byte identifiers. They are names, never capabilities: knowing one opens nothing.
//!
//! This crate makes none of them; whoever does takes 128 random bits.

use bytes::Bytes;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// From 16 bytes.
            #[must_use]
            pub const fn new(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// From a slice: `None` unless it has 16 bytes.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// The 16 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// The bytes as a field of a message.
            #[must_use]
            pub fn to_bytes(self) -> Bytes {
                Bytes::copy_from_slice(&self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NotAnId;

            /// Exactly 32 lower-case hexadecimal digits.
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let digits = text.as_bytes();
                if digits.len() != 32 {
                    return Err(NotAnId);
                }
                let mut bytes = [0_u8; 16];
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    for &digit in pair {
                        let value = match digit {
                            b'0'..=b'9' => digit - b'0',
                            b'a'..=b'f' => digit - b'a' + 10,
                            _ => return Err(NotAnId),
                        };
                        *byte = (*byte << 4) | value;
                    }
                }
                Ok(Self(bytes))
            }
        }
    };
}

id! {
    /// A session on a node, minted by the agent.
    SessionId
}
id! {
    /// One wish to open a session, minted by the client: the same principal, key and id again return the same session.
    OpenId
}
id! {
    /// One run of an agent or issuer, minted at its start: tells a reconnect from a second party with the same key.
    InstanceId
}

/// The text is not 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: 32 lower-case hexadecimal digits are wanted")]
pub struct NotAnId;

#[cfg(test)]
mod tests;
