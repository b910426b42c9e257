//! The metrics' text and their description.

use super::*;

#[test]
fn every_metric_is_described_and_no_other() {
    let described = include_str!("../../../docs/metrics.md");
    let metrics = Metrics::new();
    // Codes have no series before they happen; numbers that this build does not know share one.
    metrics.denied.get_or_create(&Code::PolicyDenied.into()).inc();
    metrics.strangers.get_or_create(&Code::Unknown(70_001).into()).inc();
    metrics.strangers.get_or_create(&Code::Unknown(70_002).into()).inc();
    metrics.ended(Code::SessionHolderLost, false);
    let text = metrics.text();
    for line in [
        "noderelay_agent_denied_total{code=\"policy.denied\"} 1",
        "noderelay_agent_strangers_total{code=\"unknown\"} 2",
        "noderelay_agent_sessions_ended_total{code=\"session.holder_lost\"} 1",
        "noderelay_agent_recordings_incomplete_total 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let types = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let mut counted: Vec<_> = types.map(str::to_owned).collect();
    counted.sort_unstable();
    let row = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    let mut rows: Vec<String> = described.lines().filter_map(row).collect();
    rows.retain(|name| name.starts_with("noderelay_agent_"));
    rows.sort_unstable();
    assert_eq!(counted, rows);
}
