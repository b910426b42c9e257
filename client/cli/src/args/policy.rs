//! The words of `noderelay policy`. Names are parsed here, so that a bad one is a usage error.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName, UserName};
use noderelay_policy::Action;

use super::{OutputArgs, examples};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Write a policy repository with starter policies
    #[command(after_help = examples::POLICY_INIT)]
    Init(PolicyInitArgs),
    /// Say what a node would answer, and why
    #[command(after_help = examples::POLICY_EXPLAIN)]
    Explain(ExplainArgs),
    /// Ask every question of the test tables, and compare
    #[command(after_help = examples::POLICY_TEST)]
    Test(TestArgs),
    /// Find what will hurt: locked-out clusters, rules for everybody, rules that nobody can meet, what expires
    #[command(after_help = examples::POLICY_LINT)]
    Lint(LintArgs),
    /// Say who gains, who loses and whose obligations change from OLD to NEW
    #[command(after_help = examples::POLICY_DIFF)]
    Diff(DiffArgs),
    /// Add one key holder's signature over what is there now
    #[command(after_help = examples::POLICY_SIGN)]
    Sign {
        /// The policy repository
        dir: PathBuf,
        /// The signer's key
        #[arg(long)]
        key: PathBuf,
        /// Which document
        #[arg(long, value_enum, default_value = "targets")]
        role: SignRole,
    },
    /// Assemble a publication from signed files
    #[command(after_help = examples::POLICY_PUBLISH)]
    Publish {
        /// The policy repository
        dir: PathBuf,
        /// The pipeline's key
        #[arg(long)]
        key: PathBuf,
        /// Directory of the publication
        #[arg(long)]
        to: PathBuf,
    },
    /// Check a publication as an agent would
    #[command(after_help = examples::POLICY_VERIFY)]
    Verify {
        /// Directory of the publication
        publication: PathBuf,
        /// A root that is trusted beforehand
        #[arg(long)]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Args)]
pub struct PolicyInitArgs {
    /// The repository's folder, new or empty
    pub dir: PathBuf,
    /// Trust domain of the fleet
    #[arg(long)]
    pub trust_domain: String,
    /// Public keys of those who sign the root (repeatable)
    #[arg(long = "root-key", required = true, value_name = "FILE.pub")]
    pub root_keys: Vec<PathBuf>,
    /// Public keys of policy signers (repeatable)
    #[arg(long = "signer", required = true, value_name = "FILE.pub")]
    pub signers: Vec<PathBuf>,
    /// How many policy signers are needed
    #[arg(long, default_value_t = 1)]
    pub threshold: u64,
    /// How many root signers are needed
    #[arg(long, default_value_t = 1)]
    pub root_threshold: u64,
    /// Public key of the publishing pipeline
    #[arg(long, value_name = "FILE.pub")]
    pub pipeline: PathBuf,
    /// A cluster: NAME=CA-CERTIFICATE (repeatable)
    #[arg(long = "cluster", value_name = "NAME=FILE")]
    pub clusters: Vec<String>,
    /// A relay: CLUSTER/NAME=HOST:PORT (repeatable)
    #[arg(long = "relay", value_name = "CLUSTER/NAME=HOST:PORT")]
    pub relays: Vec<String>,
}

/// One question to a policy.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A policy repository or a publication
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Who asks
    #[arg(long, value_name = "NAME")]
    pub user: UserName,
    /// A group that the certificate carries (repeatable)
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<GroupName>,
    /// The user's home cluster [default: the node's]
    #[arg(long, value_name = "NAME")]
    pub home: Option<ClusterName>,
    /// The node's cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: ClusterName,
    /// The node
    #[arg(long, value_name = "NAME")]
    pub node: NodeName,
    /// What is done: shell, exec, forward, copyTo, copyFrom, watch, attach, list, kill, approve, activate, review, replay
    #[arg(long, value_parser = action)]
    pub action: Action,
    /// The profile that is asked for
    #[arg(long, value_name = "NAME", default_value = "diagnostic")]
    pub profile: ProfileName,
    /// At this time instead of now (2030-01-31T08:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = noderelay_pki::time::parse)]
    pub at: Option<Timestamp>,
    /// A valid grant for exactly this comes along
    #[arg(long)]
    pub with_grant: bool,
    /// The reason that is given
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The bundle's timestamp is older than it may be
    #[arg(long)]
    pub stale: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn action(name: &str) -> Result<Action, String> {
    Action::parse(name).ok_or_else(|| {
        let names = Action::ALL.map(Action::as_str);
        format!("one of {}", names.join(", "))
    })
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// The policy repository; its tables are tests/*.yaml
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Write the outcome as JUnit XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LintArgs {
    /// A policy repository or a publication
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Tell what expires within so many days
    #[arg(long, value_name = "N", default_value_t = 14)]
    pub days: u16,
    /// Warnings are failures, too
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The policy repository or publication that is in force
    pub old: PathBuf,
    /// The one that is to come
    pub new: PathBuf,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SignRole {
    Root,
    Targets,
}
