//! What the user is told when something fails: one line with the code and what was seen, and under it the fix.
//!
//! ```text
//! noderelay: policy.denied: no rule permits shell on node gpu-7 (policy version 12)
//!   Ask the owners of the policy for a rule, or see what would be needed: noderelay doctor gpu-7
//! ```
//!
//! The fix comes from the table here, never from a peer. What was seen may come from elsewhere: it is escaped and cut.
//! The table is complete over [`Code`] (a test walks it). Only [`line`] writes anything.

use noderelay_pki::text::escape;
use noderelay_proto::code::{Class, Code, Origin};

#[cfg(test)]
mod tests;

/// Most characters of a text from elsewhere that are shown.
pub const MAX_SEEN: usize = 300;

/// Something that a person has to know, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What happened.
    pub code: Code,
    /// Who said so.
    pub origin: Origin,
    /// What was seen, fit to be shown.
    pub seen: String,
    /// What helps.
    pub fix: String,
}

/// What the fixes speak about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About<'a> {
    /// The node.
    pub node: &'a str,
    /// Whether a session was open.
    pub open: bool,
}

impl Message {
    /// A message of our own about `about`. `seen` may contain text from elsewhere.
    pub fn new(code: Code, seen: &str, about: About<'_>) -> Self {
        Self::from(code, code.origin(), seen, about)
    }

    /// The same, when it is known who said so.
    pub fn from(code: Code, origin: Origin, seen: &str, about: About<'_>) -> Self {
        let seen = if seen.is_empty() { code.summary() } else { seen };
        Self {
            code,
            origin,
            seen: escape(seen, MAX_SEEN),
            fix: fix(code, &escape(about.node, 64), about.open),
        }
    }

    /// The lines for standard error, each ended by `end` (`\r\n` while the terminal is raw).
    pub fn lines(&self, end: &str) -> String {
        let name = match self.code {
            Code::Unknown(number) => format!("unknown ({number})"),
            code => code.name().to_owned(),
        };
        format!("noderelay: {name}: {}{end}  {}{end}", self.seen, self.fix)
    }
}

/// A list of lines of ours as one: `none of 2 could be reached: a:1: refused; b:1: silent`.
pub fn one_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut whole = lines.next().unwrap_or_default().to_owned();
    for (number, line) in lines.enumerate() {
        let headed = number > 0 || whole.ends_with(':');
        whole.push_str(match (number, headed) {
            (0, true) => " ",
            (0, false) => ": ",
            _ => "; ",
        });
        whole.push_str(line);
    }
    whole
}

/// Every fix there is, for `node`.
pub fn fixes(node: &str) -> impl Iterator<Item = (Code, String)> {
    let unknown = Code::Unknown(u32::MAX);
    Code::ALL
        .iter()
        .copied()
        .chain([unknown])
        .flat_map(move |code| [true, false].map(|open| (code, fix(code, node, open))))
}

/// A session was lost after it was open.
const UNKNOWN_END: &str = "How the command ended is not known; it may still run. Open a new session to look: the node keeps a lost one \
    only for its resume window.";

/// The command or action that helps. What it names exists in the command line (a test of that compares them).
fn fix(code: Code, node: &str, open: bool) -> String {
    let node = if node.is_empty() { "NODE" } else { node };
    match code {
        Code::Ok => "Nothing has to be done.".into(),

        Code::RelayNoSuchNode | Code::RelayNodeOffline => {
            format!(
                "The agent of {node} is attached to none of the relays that were asked. Check the name, and the \
                agent's log on the node for its uplink."
            )
        }
        Code::RelayNoSuchCluster | Code::RelayNoRoute | Code::RelayHopLimit | Code::RelayPurpose => {
            "Name the relays of the node's own cluster with --relay HOST:PORT, or have a route to it signed into \
                the fleet file."
                .into()
        }
        Code::RelayNotAdmitted | Code::RelayRevoked => "See who you are for this relay: noderelay whoami".into(),
        Code::RelayBusy
        | Code::RelayQuota
        | Code::RelayDraining
        | Code::RelayNotReady
        | Code::RelayTimeout
        | Code::RelayNextHop
        | Code::RelayInternal => "Try again, or name another relay with --relay HOST:PORT.".into(),
        Code::RelayGaveWay => {
            "The relay is short of memory, and this output was not read for long: read it, or send it to a file. \
            What ran may still run; open a new session to look."
                .into()
        }
        Code::RelayVersion | Code::RelayBadHeader | Code::ProtocolVersion => {
            "Compare the versions: noderelay --version here, and those of the relay and of the agent. Update the \
                older one."
                .into()
        }
        Code::RelayParked | Code::RelayReplaced => "Two agents use one name: find out which of them is the node's, \
            and stop the other."
            .into(),

        Code::TransportLost
        | Code::TransportClosed
        | Code::TransportReset
        | Code::SessionAgentStopping
        | Code::ProtocolTruncated
            if !open =>
        {
            "No session was opened; what the node began all the same ends after its resume window. Try again, or name \
                another relay with --relay HOST:PORT."
                .into()
        }
        Code::TransportTimeout | Code::ProtocolTimeout if open => UNKNOWN_END.into(),
        Code::TransportLost
        | Code::TransportClosed
        | Code::TransportReset
        | Code::SessionAgentStopping
        | Code::ProtocolTruncated => UNKNOWN_END.into(),
        Code::TransportUnreachable
        | Code::TransportTimeout
        | Code::TransportNames
        | Code::TransportNoRelay
        | Code::ProtocolTimeout => {
            format!(
                "Check that UDP to these addresses is allowed, or name another relay with --relay HOST:PORT. \
                All parts at once: noderelay doctor {node}"
            )
        }
        Code::TransportTls => format!(
            "Either the bytes were damaged on the way (name another relay with --relay HOST:PORT), or one side refuses \
            the other's certificate; which one: noderelay doctor {node}"
        ),

        Code::IdentityExpired | Code::IdentityResumeOnly | Code::IdentityMissing => {
            "Get a new certificate from whoever keeps the cluster's CA (noderelay pki issue), and check the clock \
                of this machine."
                .into()
        }
        Code::IdentityNotYetValid | Code::PolicyClock => "Compare the clocks of this machine and of the node; one \
            of them is wrong."
            .into(),
        Code::IdentityWrongName => {
            "The other end is not the node that was asked for: nothing was sent to it. Check the name, and tell the \
                owners of the relay."
                .into()
        }
        Code::IdentityUnknownCa
        | Code::IdentityWrongTrustDomain
        | Code::IdentityWrongRole
        | Code::IdentityWrongCluster
        | Code::IdentityMalformed => {
            "Compare your certificate with the fleet file: noderelay whoami. Both sides must have the same bundle."
                .into()
        }
        Code::IdentityRevoked | Code::IdentityChanged => "Ask the owners of the policy why it was revoked; a new \
            certificate with a new key may be needed."
            .into(),

        Code::PolicyDenied | Code::PolicyNode | Code::SessionPolicy => {
            format!("Ask the owners of the policy for a rule. What would be needed: noderelay doctor {node}")
        }
        Code::PolicyError | Code::BundleInvalid | Code::BundleMissing => {
            "The signed policy has to be repaired by its owners: noderelay policy verify shows what is wrong.".into()
        }
        Code::PolicyProfile => "Name another profile: --profile NAME".into(),
        Code::PolicyReason => "Give the reason: --reason TEXT".into(),
        Code::BundleExpired => "The owners of the policy have to publish again: noderelay policy publish.".into(),

        Code::GrantRequired
        | Code::GrantExpired
        | Code::GrantUsed
        | Code::GrantScope
        | Code::GrantApprovals
        | Code::SessionGrantEnded => {
            format!(
                "This version takes no grants. Ask the owners of the policy for a rule that needs none: \
                noderelay doctor {node}"
            )
        }
        Code::GrantMalformed | Code::GrantSignature | Code::GrantNotYetValid | Code::GrantRevoked => {
            "This version takes no grants. Ask the owners of the policy for a rule that needs none.".into()
        }
        Code::ActivationRequired | Code::ActivationInvalid | Code::ActivationExpired => "This version cannot \
            activate break-glass accounts. Ask the owners of the policy for a rule for your own certificate."
            .into(),

        Code::RecordingUnavailable | Code::RecordingFailed | Code::RecordingIncomplete => {
            "The node cannot record, and its policy permits no session without. Make room on the node's recording \
                volume; the agent's log names it."
                .into()
        }

        Code::SessionIdle | Code::SessionDeadline => "Open a new session.".into(),
        Code::SessionLeft => "Nothing has to be done.".into(),
        Code::SessionSuperseded => "The session goes on over the newer connection; nothing has to be done here.".into(),
        Code::SessionRevoked | Code::SessionKilled | Code::SessionTakenOver => "Ask the owners of the node; the \
            record says who ended it."
            .into(),
        Code::SessionLimit => "Wait until another session on this node has ended.".into(),
        Code::SessionWindow
        | Code::SessionUnknown
        | Code::SessionEpoch
        | Code::SessionOffset
        | Code::SessionMac
        | Code::SessionHolderLost
        | Code::SessionDuplicate => "Open a new session; this one cannot be continued.".into(),

        Code::SessionOverrun
        | Code::ProtocolMalformed
        | Code::ProtocolUnknownFrame
        | Code::ProtocolTooLarge
        | Code::ProtocolTrailing
        | Code::ProtocolOutOfOrder
        | Code::ProtocolWrongNode
        | Code::ProtocolWrongDirection => "One side has a fault or a wrong version: compare noderelay --version \
            here with the agent's, and report it."
            .into(),

        Code::ShellFailed => "Check the command, and that the account of the profile may run it.".into(),
        Code::ShellNoShell => "The node offers no shell for this account. Name a command instead: noderelay NODE -- \
            CMD"
        .into(),
        Code::ShellNoAccount | Code::ShellPrivileges => "The agent's configuration maps the profile to an account \
            that does not work on this node; --profile names another."
            .into(),
        Code::ShellTerminal => "Try without a terminal: -T".into(),

        Code::ClientUsage => "noderelay --help lists the options.".into(),
        Code::ClientConfig => "Correct the file, or name another one with --config FILE. noderelay check-config \
            reads it without connecting."
            .into(),
        Code::ClientIdentity => "noderelay whoami shows what is there. A certificate comes from whoever keeps the \
            cluster's CA (noderelay pki issue); a key must have mode 0600."
            .into(),
        Code::ClientBundle => "noderelay policy verify checks a publication; the configuration names its directory \
            (bundle) and the root to pin (root)."
            .into(),
        Code::ClientNoSuchNode => "Names are lower case. --cluster NAME chooses the cluster; the fleet file of the \
            bundle names the clusters."
            .into(),
        Code::ClientAmbiguous => "Name the cluster: --cluster NAME".into(),
        Code::ClientUnsupported => {
            "The contingency path through a relay is built in: noderelay --via-relay NODE".into()
        }
        Code::ClientInterrupted if !open => {
            "No session was opened; what the node began all the same ends after its resume window.".into()
        }
        Code::ClientInterrupted => "Nothing has to be done.".into(),
        Code::ClientLocalIo => "Check where standard input and output lead; a full disk is the usual cause.".into(),
        Code::ClientInternal => {
            "This is a fault of NodeRelay itself: report it with the output of noderelay -v.".into()
        }

        Code::AgentInternal => "The log of the agent on the node has the cause.".into(),
        Code::AgentNotReady => "The agent has no valid bundle or certificate yet; its log has the cause.".into(),

        Code::AgentStandby => "Nothing has to be done: a session opens all the same.".into(),

        Code::Unknown(_) => "The other side is newer than this program: update it.".into(),
    }
}

/// Writes one line of ours to standard error. When nobody reads it, there is nobody to tell.
pub fn line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "noderelay: {text}");
}

/// Whether a message about `code` speaks of a lost path rather than of a decision.
pub fn is_transport(code: Code) -> bool {
    matches!(code.class(), Class::Transport | Class::Refused)
}
