//! The metrics' text and their description.

use noderelay_proto::Code;
use noderelay_service::metrics::{Held, Material};

use super::*;

#[test]
fn the_text_has_prefix_units_and_closed_labels() {
    let metrics = Metrics::new();
    metrics.bytes(Way::ToNode).inc_by(5);
    metrics.refused.get_or_create(&Code::IdentityExpired.into()).inc();
    metrics.refused.get_or_create(&Code::Unknown(70_001).into()).inc();
    metrics.refused.get_or_create(&Code::Unknown(70_002).into()).inc();
    metrics.conflict(Verdict::Parked);
    metrics.common.reloaded(Material::Bundle, false);
    let held = Held::new(&metrics.streams_open);
    let text = metrics.text();
    for line in [
        "noderelay_relay_spliced_bytes_total{way=\"to_node\"} 5",
        "noderelay_relay_spliced_bytes_total{way=\"to_client\"} 0",
        "noderelay_relay_connections_refused_total{code=\"identity.expired\"} 1",
        "noderelay_relay_connections_refused_total{code=\"unknown\"} 2",
        "noderelay_relay_agent_conflicts_total{verdict=\"parked\"} 1",
        "noderelay_relay_reload_failures_total{material=\"bundle\"} 1",
        "noderelay_relay_streams_open 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    drop(held);
    assert!(metrics.text().contains("noderelay_relay_streams_open 0"));
}

#[test]
fn every_metric_is_described_and_no_other() {
    let described = include_str!("../../../docs/metrics.md");
    let metrics = Metrics::new();
    // Codes have no series before they happen.
    metrics.refused.get_or_create(&Code::RelayVersion.into()).inc();
    metrics.streams_refused.get_or_create(&Code::RelayVersion.into()).inc();
    let text = metrics.text();
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    names.sort_unstable();
    let mut rows: Vec<&str> = described
        .lines()
        .filter_map(|line| line.strip_prefix("| `noderelay_relay_")?.split('`').next())
        .collect();
    rows.sort_unstable();
    let rows: Vec<String> = rows.iter().map(|row| format!("noderelay_relay_{row}")).collect();
    assert_eq!(names, rows);
}
