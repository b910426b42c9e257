//! `noderelay policy explain`, `test`, `lint` and `diff` through the real program, on a policy repository and on what is
//! published from it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test of processes"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A folder with keys, a CA and a policy repository as `policy init` writes it.
struct Place(tempfile::TempDir);

impl Place {
    fn new(clusters: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for key in ["root", "signer", "pipeline"] {
            place.good(&format!("key create {key}"));
        }
        let mut init = "policy init policy --trust-domain example.org --root-key root.pub --signer signer.pub \
                        --pipeline pipeline.pub"
            .to_owned();
        for cluster in clusters {
            place.good(&format!(
                "pki init ca-{cluster} --trust-domain example.org --cluster {cluster}"
            ));
            init.push_str(&format!(" --cluster {cluster}=ca-{cluster}/ca.pem"));
        }
        place.good(&init);
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noderelay"));
        command
            .env_remove("NODERELAY_CONFIG")
            .env_remove("RUST_LOG")
            .env("HOME", self.path());
        command
            .current_dir(self.path())
            .args(line.split_whitespace())
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    /// What it answers; it must end with this code and say nothing on standard error.
    #[track_caller]
    fn ends(&self, line: &str, code: i32) -> String {
        let output = self.run(line);
        let (out, err) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert_eq!(output.status.code(), Some(code), "{line}: {out}{err}");
        assert_eq!(err, "", "{line}: {out}");
        out
    }

    #[track_caller]
    fn good(&self, line: &str) -> String {
        self.ends(line, 0)
    }

    #[track_caller]
    fn json(&self, line: &str, code: i32) -> Value {
        serde_json::from_str(&self.ends(&format!("{line} -o json"), code)).unwrap()
    }

    fn publish(&self) {
        self.good("policy sign policy --role root --key root");
        self.good("policy sign policy --key signer");
        self.good("policy publish policy --key pipeline --to published");
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path().join(file), text).unwrap();
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path().join(file)).unwrap();
        assert!(text.contains(from), "{file}: {text}");
        self.write(file, &text.replace(from, to));
    }
}

const ASK: &str = "--user kim --cluster lab --node gpu-7";

#[test]
fn explain_says_what_a_node_would_answer_and_why() {
    let place = Place::new(&["lab"]);
    let oncall = format!("policy explain policy {ASK} --group oncall");
    let permitted = place.good(&format!("{oncall} --action shell"));
    for part in [
        "permitted: kim of cluster lab, shell on lab/gpu-7 with profile diagnostic",
        "record required, max_duration 12h, idle 1h",
        "on-call-diagnostic (policies/on-call.cedar, policy 1, @id(\"on-call-diagnostic\"), for profile diagnostic)",
        "tenant platform: rule 1 of nodes.yaml (lab/*)",
    ] {
        assert!(permitted.contains(part), "{part} is not in {permitted}");
    }
    let denied = place.ends(&format!("{oncall} --action shell --profile root"), 1);
    for part in [
        "denied: ",
        "a grant and a reason would permit it",
        "grant (needs_grant)",
    ] {
        assert!(denied.contains(part), "{part} is not in {denied}");
    }
    let granted = place.json(
        &format!("{oncall} --action exec --profile root --with-grant --reason INC-42"),
        0,
    );
    assert_eq!(
        (
            &granted["permitted"],
            &granted["tier"],
            &granted["obligations"]["record"]
        ),
        (&true.into(), &"grant".into(), &"strict".into())
    );
    assert_eq!(granted["decided_by"][0]["file"], "policies/root.cedar");
    assert_eq!(granted["holds_too"][0]["rule"], "on-call-diagnostic");
    let stranger = place.json(&format!("policy explain policy {ASK} --action shell"), 1);
    assert_eq!(
        (
            &stranger["refusal"]["missing"],
            &stranger["refusal"]["kind"],
            &stranger["decided_by"][0]["rule"]
        ),
        (&"rule".into(), &"forbidden".into(), &"tenants-apart".into())
    );
    let elsewhere = place.json(&format!("{oncall} --action shell --home west"), 1);
    assert_eq!(elsewhere["refusal"]["missing"], "identity");
    for bad in [
        "--action Shell",
        "--action shell --profile Root",
        "--action shell --at now",
    ] {
        assert_eq!(place.run(&format!("{oncall} {bad}")).status.code(), Some(2), "{bad}");
    }
}

#[test]
fn explain_asks_a_publication_at_any_time() {
    let place = Place::new(&["lab"]);
    place.write(
        "policy/policies/late.cedar",
        "@id(\"late\") permit (principal in Group::\"lab/oncall\", action == Action::\"watch\", resource) \
         when { context.bundle.fresh && context.time < datetime(\"2100-01-01\") };",
    );
    place.publish();
    let ask = format!("policy explain published {ASK} --group oncall --action watch");
    let now = place.json(&ask, 0);
    assert_eq!(
        (&now["policy_version"], &now["question"]["fresh"]),
        (&1.into(), &true.into())
    );
    assert_eq!(place.json(&format!("{ask} --stale"), 1)["refusal"]["missing"], "bundle");
    // The repository has no signature that could expire, a publication has.
    let repository = ask.replace("published", "policy");
    assert_eq!(
        place.json(&format!("{repository} --at 2099-12-31T23:59:59Z"), 0)["permitted"],
        true
    );
    assert_eq!(
        place.json(&format!("{repository} --at 2100-01-01T00:00:00Z"), 1)["refusal"]["kind"],
        "no_rule"
    );
    let expired = place.json(&format!("{ask} --at 2099-12-31T23:59:59Z"), 1);
    assert_eq!(
        (&expired["refusal"]["missing"], &expired["refusal"]["kind"]),
        (&"bundle".into(), &"expired".into())
    );
    // What was changed after it was signed is not explained.
    let changed = place.path().join("published/targets");
    let policies = fs::read_dir(&changed).unwrap().map(|entry| entry.unwrap().path());
    let folder = policies.filter(|path| path.is_dir()).last().unwrap();
    let file = folder.join("late.cedar");
    fs::write(&file, "").unwrap();
    let output = place.run(&ask);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("late.cedar"));
}

#[test]
fn a_new_repository_passes_its_tests_and_a_failure_is_told_with_its_reason() {
    for clusters in [&["lab"][..], &["east", "west"]] {
        let place = Place::new(clusters);
        let passed = place.good("policy test policy --junit report.xml");
        assert_eq!(passed, format!("{} passed, 0 failed\n", 6 * clusters.len()));
        let report = fs::read_to_string(place.path().join("report.xml")).unwrap();
        assert!(report.contains("tests=\"6\" failures=\"0\""), "{report}");
    }
    let place = Place::new(&["lab"]);
    place.edit("policy/policies/on-call.cedar", "12h", "8h");
    place.write(
        "policy/tests/own.yaml",
        "tests: [{name: 'a <b> & \"c\"', who: {user: kim, groups: [oncall]}, node: lab/x, action: exec, expect: deny, missing: rule}]",
    );
    let failed = place.ends("policy test policy --junit report.xml", 1);
    for part in [
        "FAILED tests/starter.yaml: on-call people look into any node at any time\n  max_duration: expected 12h, seen 8h",
        "FAILED tests/own.yaml: a <b> & \"c\"\n  expect: expected deny, seen permit",
        "  decided by on-call-diagnostic (policies/on-call.cedar, policy 1",
        "5 passed, 2 failed\n",
    ] {
        assert!(failed.contains(part), "{part} is not in {failed}");
    }
    let report = fs::read_to_string(place.path().join("report.xml")).unwrap();
    assert!(report.contains("name=\"a &lt;b&gt; &amp; &quot;c&quot;\">"), "{report}");
    assert_eq!(report.matches("<failure ").count(), 2, "{report}");
    // A table that cannot be read fails, and so does a repository without one.
    place.write("policy/tests/own.yaml", "tests: [{name: t, expekt: deny}]");
    let output = place.run("policy test policy");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("tests/own.yaml"),
        "{output:?}"
    );
    fs::remove_dir_all(place.path().join("policy/tests")).unwrap();
    fs::create_dir(place.path().join("policy/tests")).unwrap();
    assert_eq!(place.run("policy test policy").status.code(), Some(1));
}

fn codes(answer: &Value) -> Vec<&str> {
    let findings = answer["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn lint_tells_what_will_hurt_by_codes_and_exit_code() {
    let place = Place::new(&["lab"]);
    let warnings = ["catch-all-node-rule", "nobody-approves"];
    assert_eq!(codes(&place.json("policy lint policy", 0)), warnings);
    assert_eq!(place.json("policy lint policy --strict", 1)["warnings"], 2);
    // What is published is read alike; its signatures are looked at, too.
    place.publish();
    assert_eq!(codes(&place.json("policy lint published", 0)), warnings);
    let soon = place.json("policy lint published --days 120", 0);
    assert_eq!(
        codes(&soon),
        ["catch-all-node-rule", "expires-soon", "expires-soon", "nobody-approves"]
    );

    place.edit(
        "policy/principals.yaml",
        "persons: []",
        "persons: [{name: kim, usernames: [{cluster: lab, user: 'arn:aws:sts::1:assumed-role/Ops/kim'}]}]",
    );
    place.edit("policy/policies/tenants.cedar", "platform", "nobodys");
    let found = place.json("policy lint policy", 1);
    assert_eq!(codes(&found)[..2], ["caller-chosen-name", "locked-out"], "{found}");
    let table = place.ends("policy lint policy", 1);
    assert!(
        table.starts_with("error caller-chosen-name: principals.yaml, person kim\n"),
        "{table}"
    );
    assert!(table.contains("error locked-out: cluster lab\n"), "{table}");
    // Faults of files come first, all of them.
    place.write(
        "policy/policies/a.cedar",
        "@recrod(\"strict\") permit (principal, action, resource);",
    );
    place.write("policy/policies/b.cedar", "permit (principal");
    assert_eq!(
        codes(&place.json("policy lint policy", 1)),
        ["does-not-parse", "unknown-annotation"]
    );
}

#[test]
fn lint_tells_routes_that_expire() {
    let place = Place::new(&["east", "west"]);
    let fleet = fs::read_to_string(place.path().join("policy/fleet.yaml")).unwrap();
    let route = |expires: &str| {
        let route = format!("routes: [{{from: east, to: west, purposes: [session], expires: '{expires}'}}]\n");
        place.write("policy/fleet.yaml", &format!("{fleet}{route}"));
        let answer = place.json(
            "policy lint policy --days 14",
            if expires.starts_with("2020") { 1 } else { 0 },
        );
        codes(&answer)
            .into_iter()
            .filter(|code| code.starts_with("expire"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(route("2020-01-01T00:00:00Z"), ["expired"]);
    assert_eq!(route("9000-01-01T00:00:00Z"), [""; 0]);
    let soon = noderelay_pki::time::after(jiff::Timestamp::now(), std::time::Duration::from_secs(13 * 86_400));
    assert_eq!(route(&noderelay_pki::time::format(soon)), ["expires-soon"]);
}

#[test]
fn diff_tells_who_gains_and_loses_and_nothing_else() {
    let place = Place::new(&["lab"]);
    place.publish();
    assert_eq!(
        place.good("policy diff published policy"),
        "no change in who may do what\n"
    );
    place.edit(
        "policy/policies/on-call.cedar",
        "@id(\"on-call-diagnostic\")",
        "@id(\"renamed\") // and more",
    );
    assert_eq!(
        place.good("policy diff published policy"),
        "no change in who may do what\n"
    );
    assert_eq!(
        place.json("policy diff published policy", 0)["changes"],
        Value::Array(Vec::new())
    );
    place.edit("policy/policies/on-call.cedar", "Action::\"list\"", "Action::\"watch\"");
    let told = place.good("policy diff published policy");
    let obligations = "permitted, standing: record required, max_duration 12h, idle 1h";
    assert_eq!(
        told,
        format!(
            "gains    group lab/oncall: watch on lab/* (tenant platform), profile diagnostic\n         \
             from denied\n         to   {obligations}\n\
             loses    group lab/oncall: list on lab/* (tenant platform), profile diagnostic\n         \
             from {obligations}\n         to   denied\n"
        )
    );
    let json = place.json("policy diff published policy", 0);
    assert_eq!(
        (
            &json["changes"][0]["change"],
            &json["changes"][0]["actions"][0],
            &json["changes"][0]["grant"]
        ),
        (&"gains".into(), &"watch".into(), &"either".into())
    );
}
