//! The closed set of codes: one number and one name for each thing that can happen to a session or connection.
//!
//! The wire number (QUIC application error codes and the `code` fields of DENIED, CLOSED and NOTICE), the log field, the
//! metric label and `code` in `--status` are all from this table. `reason` always means the text that a person gave.
//!
//! Numbers are never reused; a code that is no longer sent stays, marked in its summary. A number that this build does
//! not know becomes [`Code::Unknown`] and keeps its number. Nobody searches texts for meaning.

use std::fmt;
use std::time::Duration;

/// Who usually raises a code. Whoever knows better (a client knows which leg a code came on) says so instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The operator's program.
    Client,
    /// A relay. Never final: relays are not trusted to end anything.
    Relay,
    /// The node: agent or holder.
    Agent,
    /// The command on the node itself.
    Remote,
}

impl Origin {
    /// The word for `origin` in `--status` and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Relay => "relay",
            Self::Agent => "agent",
            Self::Remote => "remote",
        }
    }
}

/// What a receiver does about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing is wrong.
    Success,
    /// The path failed: resume, on this or another path.
    Transport,
    /// Somebody on the way refused: try the next relay or path. Never final.
    Refused,
    /// Decided by the node (received inside the inner TLS) or by the client itself: trying again as it is won't help.
    Final,
}

impl Class {
    /// The word for documents and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Transport => "transport",
            Self::Refused => "refused",
            Self::Final => "final",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $number:literal $name:literal $origin:ident $class:ident $summary:literal;)*) => {
        /// What happened. Compare by variant; build from the wire with [`Code::from_number`] only, so that a known number
        /// never hides in [`Code::Unknown`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $summary] $variant,)*
            /// A number that this build does not know.
            Unknown(u32),
        }

        impl Code {
            /// Every known code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Unknown(number) => number,
                }
            }

            /// The code of a number.
            #[must_use]
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// The name: log field, metric label, `code` in `--status`. One name for all unknown numbers, so that a peer
            /// can't make labels.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(_) => "unknown",
                }
            }

            /// The known code of a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Who usually raises it.
            #[must_use]
            pub const fn origin(self) -> Origin {
                match self {
                    $(Self::$variant => Origin::$origin,)*
                    Self::Unknown(_) => Origin::Agent,
                }
            }

            /// What a receiver does about it. An unknown number is final when it came inside the inner TLS; on an outer leg
            /// use [`Code::on_outer_leg`].
            #[must_use]
            pub const fn class(self) -> Class {
                match self {
                    $(Self::$variant => Class::$class,)*
                    Self::Unknown(_) => Class::Final,
                }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)*
                    Self::Unknown(_) => "A code that this version does not know.",
                }
            }
        }
    };
}

codes! {
    Ok 0 "ok" Remote Success "Done; the exit code of the remote command tells the rest.";

    RelayNotAdmitted 100 "relay.not_admitted" Relay Refused "This role may not use this relay.";
    RelayNoSuchCluster 101 "relay.no_such_cluster" Relay Refused "The relay's fleet file has no such cluster.";
    RelayNoSuchNode 102 "relay.no_such_node" Relay Refused "No agent of that name is attached to this relay or its peers.";
    RelayNodeOffline 103 "relay.node_offline" Relay Refused "The agent was attached and is not any more.";
    RelayNoRoute 104 "relay.no_route" Relay Refused "No approved route leads to that cluster for this purpose.";
    RelayHopLimit 105 "relay.hop_limit" Relay Refused "The stream has passed as many relays as it may.";
    RelayPurpose 106 "relay.purpose" Relay Refused "This peer may not open streams of that purpose.";
    RelayBusy 107 "relay.busy" Relay Refused "The relay has no capacity left for now.";
    RelayQuota 108 "relay.quota" Relay Refused "This peer has used up its quota at the relay.";
    RelayDraining 109 "relay.draining" Relay Refused "The relay is going away; use another one.";
    RelayParked 110 "relay.parked" Relay Refused "Another live agent holds this name; the newcomer waits.";
    RelayReplaced 111 "relay.replaced" Relay Refused "A newer connection of the same agent took over.";
    RelayVersion 112 "relay.version" Relay Refused "The relay does not speak the version in the header.";
    RelayBadHeader 113 "relay.bad_header" Relay Refused "The route header can't be decoded or breaks a bound.";
    RelayRevoked 114 "relay.revoked" Relay Refused "The peer's certificate is revoked or expired for this relay.";
    RelayNotReady 115 "relay.not_ready" Relay Refused "The relay has no valid bundle or certificate yet.";
    RelayNextHop 116 "relay.next_hop" Relay Refused "The next relay or the agent's connection failed.";
    RelayTimeout 117 "relay.timeout" Relay Refused "The peer did not send its header in time.";
    RelayInternal 118 "relay.internal" Relay Refused "The relay failed by its own fault.";
    RelayGaveWay 119 "relay.gave_way" Relay Refused "The relay had no room left for what nobody reads, and ended this stream.";

    TransportLost 200 "transport.lost" Client Transport "The path was lost under a running session.";
    TransportUnreachable 201 "transport.unreachable" Client Transport "No address of the relay could be reached.";
    TransportTimeout 202 "transport.timeout" Client Transport "The other side did not answer in time.";
    TransportClosed 203 "transport.closed" Client Transport "The other side closed without giving a code.";
    TransportReset 204 "transport.reset" Client Transport "The stream was reset without a known code.";
    TransportTls 205 "transport.tls" Client Transport "The TLS handshake failed before either side could be judged.";
    TransportNames 206 "transport.names" Client Transport "The relay's name could not be resolved.";
    TransportNoRelay 207 "transport.no_relay" Client Refused "No relay is known for that cluster, or every one refused.";

    IdentityMissing 300 "identity.missing" Agent Final "No certificate was shown.";
    IdentityExpired 301 "identity.expired" Agent Final "The certificate has expired.";
    IdentityNotYetValid 302 "identity.not_yet_valid" Agent Final "The certificate is not valid yet; a clock may be wrong.";
    IdentityUnknownCa 303 "identity.unknown_ca" Agent Final "The certificate is from no CA of the fleet file.";
    IdentityWrongTrustDomain 304 "identity.wrong_trust_domain" Agent Final "The certificate belongs to another trust domain.";
    IdentityWrongRole 305 "identity.wrong_role" Agent Final "The certificate has a role that is not accepted here.";
    IdentityWrongCluster 306 "identity.wrong_cluster" Agent Final "The certificate names a cluster that its CA does not speak for.";
    IdentityWrongName 307 "identity.wrong_name" Agent Final "The certificate does not name the party that was asked for.";
    IdentityMalformed 308 "identity.malformed" Agent Final "The certificate or its extensions can't be decoded.";
    IdentityRevoked 309 "identity.revoked" Agent Final "The certificate, key or person is revoked.";
    IdentityChanged 310 "identity.changed" Agent Final "The session belongs to another principal.";
    IdentityResumeOnly 311 "identity.resume_only" Agent Final "The certificate has expired; it may resume, but open nothing new.";

    PolicyDenied 400 "policy.denied" Agent Final "No rule of the signed policy permits it.";
    PolicyError 401 "policy.error" Agent Final "A rule failed to evaluate, which denies.";
    PolicyProfile 402 "policy.profile" Agent Final "The rule that permits it names another profile, or the node has no such profile.";
    PolicyReason 403 "policy.reason" Agent Final "The rule asks for a reason and none was given.";
    PolicyNode 404 "policy.node" Agent Final "No signed rule assigns the node to a tenant.";
    PolicyClock 405 "policy.clock" Agent Final "The node's clock is implausible; only break-glass is accepted.";
    BundleMissing 450 "bundle.missing" Agent Final "There is no verified bundle yet.";
    BundleExpired 451 "bundle.expired" Agent Final "The bundle has expired; only break-glass is accepted.";
    BundleInvalid 452 "bundle.invalid" Agent Final "The bundle does not verify and no earlier one is in force.";

    GrantRequired 500 "grant.required" Agent Final "The rule asks for a grant and none fits.";
    GrantMalformed 501 "grant.malformed" Agent Final "The grant can't be decoded.";
    GrantSignature 502 "grant.signature" Agent Final "A signature of the grant does not verify or is by nobody known.";
    GrantApprovals 503 "grant.approvals" Agent Final "The grant has too few approvals by distinct persons.";
    GrantExpired 504 "grant.expired" Agent Final "The grant has expired.";
    GrantNotYetValid 505 "grant.not_yet_valid" Agent Final "The grant is not valid yet.";
    GrantScope 506 "grant.scope" Agent Final "The grant is for another node, action, profile or requester.";
    GrantUsed 507 "grant.used" Agent Final "The grant was for one use and is used.";
    GrantRevoked 508 "grant.revoked" Agent Final "The grant was revoked or given back.";
    ActivationRequired 550 "activation.required" Agent Final "The break-glass account has no activation.";
    ActivationInvalid 551 "activation.invalid" Agent Final "The activation does not verify or is for something else.";
    ActivationExpired 552 "activation.expired" Agent Final "The activation has expired.";

    RecordingUnavailable 600 "recording.unavailable" Agent Final "The recording could not be opened, so nothing was started.";
    RecordingFailed 601 "recording.failed" Agent Final "The recording broke and the policy wants it whole, so the session ended.";
    RecordingIncomplete 602 "recording.incomplete" Agent Final "The recording has gaps, or did not reach the disk; the policy lets the session go on.";

    SessionRevoked 700 "session.revoked" Agent Final "What the session stood on was revoked.";
    SessionIdle 701 "session.idle" Agent Final "Nobody typed and nothing was shown for as long as the policy allows.";
    SessionDeadline 702 "session.deadline" Agent Final "The session reached the end that policy or grant set.";
    SessionWindow 703 "session.window" Agent Final "Nobody came back within the resume window.";
    SessionKilled 704 "session.killed" Agent Final "Somebody with the right to do so ended the session.";
    SessionAgentStopping 705 "session.agent_stopping" Agent Transport "The agent is stopping; come back on the same or another path.";
    SessionDuplicate 706 "session.duplicate" Agent Final "The same open_id came again with other content.";
    SessionUnknown 707 "session.unknown" Agent Final "The node has no such session (any more).";
    SessionEpoch 708 "session.epoch" Agent Final "The epoch is not higher than the last one: this attempt is over, a later one resumed.";
    SessionOffset 709 "session.offset" Agent Final "Offsets lie outside what the other side holds.";
    SessionMac 710 "session.mac" Agent Final "The proof of the session's key does not verify.";
    SessionSuperseded 711 "session.superseded" Agent Final "The session goes on over a newer path.";
    SessionTakenOver 712 "session.taken_over" Agent Final "Another client of the same person took the session over.";
    SessionPolicy 713 "session.policy" Agent Final "A new policy no longer permits the session, or with another profile only.";
    SessionGrantEnded 714 "session.grant_ended" Agent Final "The grant behind the session ended.";
    SessionLimit 715 "session.limit" Agent Final "The node has as many sessions as it may.";
    SessionHolderLost 716 "session.holder_lost" Agent Final "The process that held the session is gone.";
    SessionLeft 717 "session.left" Client Final "The client ended the session on purpose.";
    SessionOverrun 718 "session.overrun" Agent Final "The other side sent more than the window allows.";

    ProtocolMalformed 800 "protocol.malformed" Agent Final "A frame could not be decoded.";
    ProtocolUnknownFrame 801 "protocol.unknown_frame" Agent Final "A frame of an unknown number came.";
    ProtocolVersion 802 "protocol.version" Agent Final "The two sides share no version.";
    ProtocolTooLarge 803 "protocol.too_large" Agent Final "A frame, field or count is above its bound.";
    ProtocolTrailing 804 "protocol.trailing" Agent Final "A frame has bytes behind its end.";
    ProtocolOutOfOrder 805 "protocol.out_of_order" Agent Final "A frame came at a moment when it may not.";
    ProtocolWrongNode 806 "protocol.wrong_node" Agent Final "Cluster, node or purpose in OPEN are not this node's.";
    ProtocolWrongDirection 807 "protocol.wrong_direction" Agent Final "A frame came from the side that may not send it.";
    ProtocolTruncated 808 "protocol.truncated" Agent Transport "The stream ended inside a frame.";
    ProtocolTimeout 809 "protocol.timeout" Agent Transport "The first frame did not come in time.";

    ShellFailed 900 "shell.failed" Agent Final "The command could not be started.";
    ShellNoShell 901 "shell.no_shell" Agent Final "The node offers no shell that can be run.";
    ShellNoAccount 902 "shell.no_account" Agent Final "The account of the profile does not exist on the node, or may not be used.";
    ShellPrivileges 903 "shell.privileges" Agent Final "The account's ids, groups or limits could not be set.";
    ShellTerminal 904 "shell.terminal" Agent Final "No pseudo-terminal could be opened.";

    ClientUsage 1000 "client.usage" Client Final "The command line is wrong.";
    ClientConfig 1001 "client.config" Client Final "The configuration is missing or wrong.";
    ClientIdentity 1002 "client.identity" Client Final "There is no usable certificate or key.";
    ClientBundle 1003 "client.bundle" Client Final "There is no usable bundle.";
    ClientNoSuchNode 1004 "client.no_such_node" Client Final "The client knows no such node or cluster.";
    ClientAmbiguous 1005 "client.ambiguous" Client Final "The name fits several nodes.";
    ClientUnsupported 1006 "client.unsupported" Client Final "This build can't do that.";
    ClientInterrupted 1007 "client.interrupted" Client Final "A signal ended the client.";
    ClientLocalIo 1008 "client.local_io" Client Final "The client's own terminal, stdin or stdout failed.";
    ClientInternal 1009 "client.internal" Client Final "The client failed by its own fault.";

    AgentInternal 1100 "agent.internal" Agent Final "The agent failed by its own fault.";
    AgentNotReady 1101 "agent.not_ready" Agent Refused "The agent can't open sessions yet.";
    AgentStandby 1102 "agent.standby" Agent Refused "The agent keeps no connection without a session (any longer); open one and it is served.";
}

/// A code as QUIC carries it, with the time to come back.
///
/// An application error code has 62 bits (RFC 9000 § 20.2): the code is in the lower 32, milliseconds until another try makes
/// sense in the 30 above (at most twelve days; 0: not said).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What happened.
    pub code: Code,
    /// When to come back, if that was said.
    pub back: Option<Duration>,
}

impl Refusal {
    /// Most milliseconds that fit.
    const MOST: u64 = (1 << 30) - 1;

    /// The application error code. A time is rounded up to a millisecond, and down to what fits.
    #[must_use]
    pub fn to_wire(self) -> u64 {
        let back = self.back.map_or(0, |back| {
            let up = back.as_nanos().div_ceil(1_000_000).max(1);
            u64::try_from(up).unwrap_or(Self::MOST).min(Self::MOST)
        });
        (back << 32) | u64::from(self.code.number())
    }

    /// What an application error code says.
    #[must_use]
    pub const fn from_wire(number: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
        let back = u32::from_be_bytes([a, b, c, d]) as u64 & Self::MOST;
        Self {
            code: Code::from_number(u32::from_be_bytes([e, f, g, h])),
            back: if back == 0 {
                None
            } else {
                Some(Duration::from_millis(back))
            },
        }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Self { code, back: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.name())?;
        match self.back {
            Some(back) => write!(f, "; try again in {} s", back.as_millis().div_ceil(1_000)),
            None => Ok(()),
        }
    }
}

impl Code {
    /// The code of a QUIC application error code.
    #[must_use]
    pub const fn from_wire(number: u64) -> Self {
        Refusal::from_wire(number).code
    }

    /// Whether trying again, here or by another path, can't help.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self.class(), Class::Final)
    }

    /// The code as an outer leg may mean it: relays are never final, so whatever else a relay sends counts as
    /// [`Class::Refused`].
    #[must_use]
    pub const fn on_outer_leg(self) -> Class {
        match self.class() {
            Class::Final => Class::Refused,
            other => other,
        }
    }
}

impl From<Code> for u32 {
    fn from(code: Code) -> Self {
        code.number()
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "unknown ({number})"),
            known => f.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests;
