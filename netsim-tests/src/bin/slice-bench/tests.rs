//! The bench is tested before it judges: statistics, the delay, the timing of processes, the echo, the report.

use std::process::Command;
use std::time::Duration;

use netsim_tests::document::{Machine, replaced};
use netsim_tests::stats::{Sample, fit};
use netsim_tests::{echo, running};

use crate::options::Options;
use crate::report::{Goal, Report, Row};
use crate::{delay, product, report};

fn words(words: &[&str]) -> impl Iterator<Item = String> {
    words
        .iter()
        .map(|word| (*word).to_owned())
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn percentiles_are_nearest_rank() {
    let sample = Sample::of((1..=100).rev().map(Duration::from_millis).collect()).unwrap();
    assert_eq!(sample.median(), Duration::from_millis(50));
    assert_eq!(sample.percentile(99), Duration::from_millis(99));
    assert_eq!(
        sample.quartiles(),
        (Duration::from_millis(25), Duration::from_millis(75))
    );
    let one = Sample::of(vec![Duration::from_millis(7)]).unwrap();
    assert_eq!(
        (one.percentile(1), one.percentile(99)),
        (Duration::from_millis(7), Duration::from_millis(7))
    );
    assert!(Sample::of(Vec::new()).is_none());
}

#[test]
fn a_line_is_fitted() {
    let line = fit(&[(0.0, 20.0), (50.0, 170.0), (150.0, 470.0)]).unwrap();
    assert!(
        (line.slope - 3.0).abs() < 1e-9 && (line.fixed - 20.0).abs() < 1e-9,
        "{line:?}"
    );
    assert!(fit(&[(1.0, 2.0), (1.0, 3.0)]).is_none());
    assert!(fit(&[]).is_none());
}

#[test]
fn the_delay_forwarder_delays_by_what_it_says() {
    // A machine that runs all tests at once is late; early it must never be.
    let proof = delay::proof(Duration::from_millis(40), Duration::from_secs(2)).unwrap();
    assert_eq!(proof.matches("asked for 40 ms").count(), 2, "{proof}");
}

#[test]
fn a_command_is_timed_and_its_failure_is_told() {
    let timing = running::timed(Command::new("sh").args(["-c", "printf x; sleep 0.2"])).unwrap();
    assert!(timing.first_byte.unwrap() < timing.total);
    assert!(timing.total >= Duration::from_millis(200));
    assert!(running::timed(&mut Command::new("true")).unwrap().first_byte.is_none());
    let error = running::timed(Command::new("sh").args(["-c", "echo why >&2; exit 3"]))
        .err()
        .unwrap();
    assert!(error.to_string().contains("why"), "{error:#}");
}

#[test]
fn a_terminal_echoes_through_cat() {
    let [shell, flag, line] = echo::FAR;
    let mut session = echo::Session::open(Command::new(shell).args([flag, line])).unwrap();
    for byte in b"abc\n~." {
        assert!(session.once(*byte).unwrap() < Duration::from_secs(10));
    }
}

#[test]
fn a_crowd_is_typed_into_at_its_pace() {
    let [shell, flag, line] = echo::FAR;
    let open = |_| echo::Session::open(Command::new(shell).args([flag, line])).unwrap();
    let mut sessions: Vec<_> = (0..3).map(open).collect();
    let begun = tokio::time::Instant::now();
    let times = echo::paced(&mut sessions, 3).unwrap();
    assert_eq!(times.len(), 9);
    // The first byte of each is due at once, the last two turns later.
    assert!(begun.elapsed() >= 2 * echo::PACE);
}

#[test]
fn the_relays_address_is_found() {
    let fleet = "clusters:\n- name: demo\n  relays:\n  - name: r1\n    addresses: [\"127.0.0.1:40123\"]\n";
    assert_eq!(product::address_in(fleet).unwrap().to_string(), "127.0.0.1:40123");
    assert_eq!(
        product::address_in("relays: [127.0.0.1:9]").unwrap().to_string(),
        "127.0.0.1:9"
    );
    assert_eq!(product::address_in("- '[::1]:7'").unwrap().to_string(), "[::1]:7");
    assert!(product::address_in("relays: [relay.example.org:443, 10.0.0.1:443]").is_none());
}

#[test]
fn settings_are_the_same_elsewhere_but_for_the_state() {
    let text = "identity: {certificate: c/u.crt, key: c/u.key}\nbundle: p\nroot: p/r.json\nstate: c/state\n";
    let (folder, state) = (std::path::Path::new("/demo"), std::path::Path::new("/s"));
    assert_eq!(
        product::settings_elsewhere(text, folder, state).unwrap(),
        "identity: {certificate: /demo/c/u.crt, key: /demo/c/u.key}\nbundle: /demo/p\nroot: /demo/p/r.json\nstate: /s\n"
    );
    assert!(product::settings_elsewhere("other: 1\n", folder, state).is_none());
}

#[test]
fn the_report_names_goals_and_what_missed_them() {
    let options = Options::parse(words(&["--quick", "--check", "--report", "x.md"])).unwrap();
    assert!(options.check && options.report.is_some());
    assert!(Options::parse(words(&["--fast"])).is_err());
    let mut report = Report::new(options.subject, Machine::look(), options.rounds);
    let goal = |seen| {
        Some(Goal {
            seen,
            at_most: 0.3,
            noise: 0.0,
            unit: " ×",
        })
    };
    report.row(Row {
        what: "good".into(),
        ours: "1 ms".into(),
        beside: "4 ms".into(),
        goal: goal(0.25),
    });
    assert!(report.all_met());
    report.row(Row {
        what: "bad".into(),
        ours: "2 ms".into(),
        beside: "4 ms".into(),
        goal: goal(0.5),
    });
    assert!(!report.all_met());
    let text = report.markdown();
    assert!(
        text.contains("| good | 1 ms | 4 ms | 0.25 × | ≤ 0.3 × | met |"),
        "{text}"
    );
    assert!(
        text.contains("| bad | 2 ms | 4 ms | 0.50 × | ≤ 0.3 × | **missed** |"),
        "{text}"
    );
}

#[test]
fn only_the_section_between_the_marks_is_replaced() {
    let document =
        "# B\n<!-- slice-bench one-processor: begin -->\nold\n<!-- slice-bench one-processor: end -->\nrest\n";
    let new = replaced(document, &report::Subject::OneProcessor.mark(), "new\n").unwrap();
    assert_eq!(
        new,
        "# B\n<!-- slice-bench one-processor: begin -->\n\nnew\n\n<!-- slice-bench one-processor: end -->\nrest\n"
    );
    assert!(replaced("# nothing", &report::Subject::Session.mark(), "new").is_none());
}

#[test]
fn growth_is_judged_by_its_exponent_and_drawn() {
    let mut report = Report::new(
        report::Subject::Growth,
        Machine::look(),
        Options::parse(words(&[])).unwrap().rounds,
    );
    report.growth("memory", "MB", &[(100.0, 10.0), (1_000.0, 40.0), (10_000.0, 390.0)]);
    assert!(report.all_met(), "{}", report.markdown());
    let text = report.markdown();
    assert!(
        text.contains("exponent 0.80; of the last step 0.99 |  | 0.99 | ≤ 1 | met |"),
        "{text}"
    );
    assert!(text.contains("```\nmemory\n     100      10.0 MB ███|\n"), "{text}");
    // Better than in proportion at first, worse where it is largest.
    report.growth("worse", "MB", &[(100.0, 10.0), (1_000.0, 11.0), (10_000.0, 200.0)]);
    assert!(!report.all_met(), "{}", report.markdown());
}
