//! How the four findings are told, and what a missing part does to the others.

use jiff::Timestamp;
use noderelay_proto::code::{Code, Origin};

use super::{DoctorOptions, Finding, Part, Report, Verdict, doctor, failed, good, unknown};
use crate::config::{Config, Places};
use crate::faults::Fault;

fn report(findings: Vec<Finding>) -> Report {
    Report {
        node: Some("gpu-7".into()),
        cluster: None,
        policy_version: Some(3),
        findings,
    }
}

#[test]
fn one_failed_part_is_exit_1_and_each_failure_has_its_fix() {
    let fault = Fault::new(Code::GrantRequired, Origin::Client, "the rule asks for a grant");
    let report = report(vec![
        good(Part::Identity, "user kim"),
        good(Part::Path, "node answers"),
        good(Part::Policy, "permitted"),
        failed(Part::Grant, &fault, "gpu-7"),
    ]);
    assert_eq!(report.exit_code(), 1);
    let text = report.to_string();
    assert!(
        text.contains("grant     FAILED  grant.required: the rule asks for a grant"),
        "{text}"
    );
    assert!(text.contains("Ask the owners of the policy"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        (
            json["findings"][3]["part"].as_str(),
            json["findings"][3]["verdict"].as_str()
        ),
        (Some("grant"), Some("failed"))
    );
}

#[test]
fn what_could_not_be_looked_at_is_no_failure_of_its_own() {
    assert_eq!(
        report(vec![good(Part::Identity, ""), unknown(Part::Path, "name a node")]).exit_code(),
        0
    );
}

#[tokio::test]
async fn without_certificate_the_identity_fails_and_the_rest_waits() {
    let folder = tempfile::tempdir().unwrap();
    let text = "identity: {certificate: c.pem, key: k.pem}\nbundle: b\nstate: s\n";
    let config = Config::parse(
        text.as_bytes(),
        &folder.path().join("config.yaml"),
        folder.path(),
        &Places::default(),
    )
    .unwrap();
    let options = DoctorOptions {
        node: Some("gpu-7".into()),
        ..DoctorOptions::default()
    };
    let report = doctor(&config, &options, Timestamp::now()).await;
    assert_eq!(report.findings.len(), 4);
    let first = &report.findings[0];
    assert_eq!(
        (first.part, first.verdict, first.code),
        (Part::Identity, Verdict::Failed, Some("client.identity"))
    );
    assert!(
        report.findings[1..]
            .iter()
            .all(|finding| finding.verdict == Verdict::Unknown)
    );
    assert_eq!(report.exit_code(), 1);
}
