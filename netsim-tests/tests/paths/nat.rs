//! B073: a NAT forgets a mapping over which nothing was sent for a while.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use netsim_tests::process::Bounded as _;
use netsim_tests::told::Told;

use crate::setup::Net;

/// An agent and a session that do nothing, behind NATs that forget after `forget`; both are there after `idle`.
fn idles(quic: &str, forget: Duration, idle: Duration) {
    let net = Net::serving(quic, "");
    net.agent.forget_after(forget);
    net.client.forget_after(forget);
    std::thread::sleep(idle);
    Told::of(net.client(), &["true"]).assert_exit(0);
    assert_eq!(
        (net.agent.mappings(), net.attached()),
        (1, 1),
        "the agent's mapping was forgotten"
    );
    let sessions = net.client.mappings();
    let mut client = net.client();
    client
        .args(["local", "--", "sh", "-c", "echo begun; read word; echo \"$word\""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut first = [0; 6];
    netsim_tests::process::read_within(child.stdout.as_mut().unwrap(), &mut first);
    std::thread::sleep(idle);
    child.stdin.take().unwrap().write_all(b"still here\n").unwrap();
    let output = child.bounded();
    assert_eq!(
        output.stdout,
        b"still here\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        net.client.mappings(),
        sessions + 1,
        "the session's mapping was forgotten"
    );
    assert_eq!(
        (net.agent.mappings(), net.attached()),
        (1, 1),
        "the agent's mapping was forgotten"
    );
}

#[test]
fn b073_an_idle_agent_and_an_idle_session_outlive_a_nat_that_forgets() {
    idles(
        "keepalive: 300ms, idle: 1200ms",
        Duration::from_millis(900),
        Duration::from_secs(3),
    );
}

#[test]
#[ignore = "soak: two and a half minutes with the times of the field, behind NATs that forget after 15 s"]
fn b073_soak_an_idle_agent_and_an_idle_session_outlive_a_nat_of_the_field() {
    idles("", Duration::from_secs(15), Duration::from_secs(75));
}
