//! Certificates that open nothing, each with its code, beside one that does.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, program};
use netsim_tests::told::Told;

const HOUR: Duration = Duration::from_secs(3600);
const GROUPS: &[&str] = &["demo-operators"];

/// A CA made by hand.
fn other_ca(folder: &Path, trust_domain: &str, cluster: &str) {
    let made = Command::new(program("noderelay"))
        .args(["pki", "init", "--trust-domain", trust_domain, "--cluster", cluster])
        .arg(folder)
        .bounded();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Expired, of another CA, another trust domain, another cluster, another role: 255, the code, nothing started. The same
/// person with a good certificate gets in.
#[test]
fn bad_certificates_open_nothing() {
    let fleet = Fleet::serving();
    let good = Told::of(fleet.client_as(&fleet.layout.ca(), "tester", GROUPS, HOUR), &["id"]);
    good.assert_exit(0);
    assert_eq!(fleet.recordings().len(), 1);

    for (trust_domain, cluster, code) in [
        ("demo.noderelay", "demo", "identity.unknown_ca"),
        ("other.example", "demo", "identity.wrong_trust_domain"),
        ("demo.noderelay", "elsewhere", "identity.unknown_ca"),
    ] {
        let ca = fleet.layout.root.join(format!("ca-{trust_domain}-{cluster}"));
        other_ca(&ca, trust_domain, cluster);
        let told = Told::of(fleet.client_as(&ca, "tester", GROUPS, HOUR), &["id"]);
        told.assert_refused(code);
    }
    for other_role in ["agent/node", "relay/relay"] {
        let told = Told::of(fleet.client_of(&fleet.layout.root.join(other_role)), &["id"]);
        told.assert_refused("identity.wrong_role");
    }
    let brief = fleet.client_as(&fleet.layout.ca(), "tester", GROUPS, Duration::from_secs(1));
    // A certificate is good until the end of its last second.
    std::thread::sleep(Duration::from_millis(2100));
    Told::of(brief, &["id"]).assert_refused("identity.expired");
    assert_eq!(fleet.recordings().len(), 1, "nothing was started");
    Told::of(fleet.client(), &["id"]).assert_exit(0);
}
