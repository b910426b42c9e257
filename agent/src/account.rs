//! Whom a profile runs as on this node.
//!
//! Read from `/etc/passwd` directly, never through a directory service that may hang on a sick node. An agent without root
//! serves only profiles that run as itself.

use std::path::Path;

use noderelay_child::Account;
use noderelay_child::passwd::{self, AccountError};
use noderelay_pki::name::ProfileName;
use noderelay_proto::code::Code;
use noderelay_proto::control::Missing;

use crate::config::{Profile, RunAs};
use crate::refusal::Refusal;

/// Finds the account of `profile`. `expected` is the caller's `-l`, empty when it does not say.
///
/// # Errors
/// `policy.profile` when the node has no such profile, `shell.no_account` when the account can't be used.
pub fn resolve(name: &ProfileName, profile: Option<&Profile>, expected: &str) -> Result<Account, Refusal> {
    let root = Path::new("/");
    let own = nix::unistd::geteuid();
    let unusable = |seen: String| Refusal::node(Code::ShellNoAccount, seen);
    let Some(profile) = profile else {
        let seen = format!("the node's agent has no profile {name} in its configuration");
        return Err(Refusal::new(Code::PolicyProfile, Missing::Node, seen));
    };
    let account = match &profile.run_as {
        RunAs::Account(account) => passwd::find(root, account).map_err(|e| unusable(e.to_string()))?,
        RunAs::Agent => match passwd::find_uid(root, own.as_raw()) {
            Err(AccountError::Unknown { .. }) => nameless(),
            found => found.map_err(|e| unusable(e.to_string()))?,
        },
    };
    if !own.is_root() && account.uid != own.as_raw() {
        let seen = format!(
            "profile {name} runs as {}, and an agent without root (uid {own}) can't",
            account.name
        );
        return Err(unusable(seen));
    }
    if !expected.is_empty() && expected != account.name {
        let seen = format!("profile {name} runs as {}, and {expected} was asked for", account.name);
        return Err(unusable(seen));
    }
    Ok(account)
}

/// An id without a line in `/etc/passwd`, as containers have it.
fn nameless() -> Account {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    Account {
        name: uid.to_string(),
        uid,
        gid,
        groups: Vec::new(),
        home: "/".into(),
        shell: "/bin/sh".into(),
    }
}

#[cfg(test)]
mod tests;
