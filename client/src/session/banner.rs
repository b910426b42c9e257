//! The one line before a shell: node, cluster, path, policy version, "recorded", time left.
//!
//! What the node says of itself is escaped and cut; names that were asked for stand as they are.

use std::time::Duration;

use jiff::Timestamp;
use noderelay_pki::text::escape;
use noderelay_proto::control::Opened;

/// The line, with its end.
pub(crate) fn line(opened: &Opened, relay: &str, now: Timestamp) -> String {
    let mut line = format!(
        "noderelay: node {} (cluster {}) through relay {}, policy version {}, recorded, as {}",
        escape(&opened.node, 253),
        escape(&opened.cluster, 253),
        escape(relay, 253),
        opened.policy_version,
        escape(&opened.account, 64),
    );
    if let Some(deadline) = opened.deadline_unix {
        let left = u64::try_from(deadline.saturating_sub(now.as_second())).unwrap_or(0);
        line.push_str(&format!(", {} left", words(Duration::from_secs(left))));
    }
    if let Some(idle) = opened.idle_secs {
        line.push_str(&format!(
            ", ends after {} without use",
            words(Duration::from_secs(idle.into()))
        ));
    }
    if opened.demo {
        line.push_str(", DEMO OR ONE SIGNER: not for real nodes");
    }
    line.push('\n');
    line
}

/// A span of time for people.
pub(super) use crate::pump::words;
