//! What is asked: a principal wants to do something on a node, now, in some way.
//!
//! Never: anything that nobody vouched for, except [`Path`] and the reason, which are the client's own words.

use jiff::Timestamp;
use noderelay_pki::identity::Identity;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName};

/// One question to the policy.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who asks, as verified.
    pub principal: &'a Identity,
    /// The groups in the principal's certificate.
    pub groups: &'a [GroupName],
    /// What it wants to do.
    pub action: Action,
    /// The cluster of the node.
    pub cluster: &'a ClusterName,
    /// The node.
    pub node: &'a NodeName,
    /// The profile that it asks for.
    pub profile: &'a ProfileName,
    /// The path that the client says it came by.
    pub path: Path,
    /// Whether the bundle's timestamp keeps its promise.
    pub fresh: bool,
    /// The reason that the person gave.
    pub reason: Option<&'a str>,
    /// Whether a valid grant for exactly this came along.
    pub grant: bool,
    /// The time.
    pub now: Timestamp,
}

/// What can be done on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A login shell.
    Shell,
    /// One command.
    Exec,
    /// Forwarding a TCP connection.
    Forward,
    /// Copying files to the node.
    CopyTo,
    /// Copying files from the node.
    CopyFrom,
    /// Watching another person's session.
    Watch,
    /// Coming back to a session without its key.
    Attach,
    /// Listing sessions.
    List,
    /// Ending another person's session.
    Kill,
    /// Approving a request.
    Approve,
    /// Activating an emergency account.
    Activate,
    /// Reviewing sessions.
    Review,
    /// Replaying recordings.
    Replay,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Shell,
        Self::Exec,
        Self::Forward,
        Self::CopyTo,
        Self::CopyFrom,
        Self::Watch,
        Self::Attach,
        Self::List,
        Self::Kill,
        Self::Approve,
        Self::Activate,
        Self::Review,
        Self::Replay,
    ];

    /// The action of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }

    /// The name in policies, logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Exec => "exec",
            Self::Forward => "forward",
            Self::CopyTo => "copyTo",
            Self::CopyFrom => "copyFrom",
            Self::Watch => "watch",
            Self::Attach => "attach",
            Self::List => "list",
            Self::Kill => "kill",
            Self::Approve => "approve",
            Self::Activate => "activate",
            Self::Review => "review",
            Self::Replay => "replay",
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The path by which the client says it came. A hint: nobody vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Through the Kubernetes API server.
    Api,
    /// Through a relay.
    Relay,
    /// Directly.
    Direct,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Api, Self::Relay, Self::Direct];

    /// The path of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.as_str() == name)
    }

    /// The name in policies, logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Relay => "relay",
            Self::Direct => "direct",
        }
    }
}
