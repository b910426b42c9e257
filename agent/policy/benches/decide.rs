//! How long a decision takes, of a whole set and of its cut for the node; and a lint and a diff of a whole set.
//!
//! ```text
//! N policies over 40 clusters, ten groups each ─> questions of members and strangers, in turns whole and cut ─> p50, p99, ratio
//! ```
//!
//! `cargo bench --bench decide`. It judges nothing: the figures are for people.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark measures real time and prints"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName, TrustDomain, UserName};
use noderelay_policy::diff::diff;
use noderelay_policy::lint::lint;
use noderelay_policy::survey::Declared;
use noderelay_policy::{Action, Path, PolicySet, Question};

const CLUSTERS: usize = 40;
const GROUPS: usize = 10;
/// Policies that are evaluated in one run, more or less: fewer decisions of larger sets.
const WORK: usize = 400_000;

/// What a fleet has: standing rules, rules by grant, rules for a tenant, hours, and for each cluster a forbid.
fn policies(count: usize, hours: u32) -> String {
    let mut text = String::new();
    for n in 0..count {
        let (cluster, group, kind) = (n % CLUSTERS, (n / CLUSTERS) % GROUPS, (n / CLUSTERS) % 5);
        let who = format!("principal in Group::\"c{cluster}/g{group}\"");
        let cluster = format!("resource in Cluster::\"c{cluster}\"");
        let shell = "action in [Action::\"shell\", Action::\"exec\"]";
        text.push_str(&match kind {
            0 => format!("@profile(\"diagnostic\") @max_duration(\"{hours}h\") permit ({who}, {shell}, {cluster});\n"),
            1 => format!(
                "@profile(\"root\") @record(\"strict\") permit ({who}, {shell}, {cluster}) when {{ context.grant && context has reason }};\n"
            ),
            2 => format!("permit ({who}, action == Action::\"list\", {cluster}) when {{ resource.tenant == \"t{group}\" }};\n"),
            3 => format!(
                "@profile(\"night\") permit ({who}, {shell}, {cluster}) when {{ context.time.toTime() > duration(\"20h\") }};\n"
            ),
            _ => format!(
                "forbid (principal, {shell}, {cluster}) when {{ resource.tenant == \"t9\" && !({who}) && !context.grant }};\n"
            ),
        });
    }
    text
}

fn set(count: usize, hours: u32) -> PolicySet {
    let mut rules = "rules:\n".to_owned();
    for cluster in 0..CLUSTERS {
        for (pool, tenant) in [("gpu", 1), ("cpu", 2), ("login", 9)] {
            rules.push_str(&format!(
                "  - {{nodes: 'c{cluster}/{pool}-*', tenant: t{tenant}, labels: {{pool: {pool}}}}}\n"
            ));
        }
    }
    let text = policies(count, hours);
    let lines: Vec<_> = text.lines().collect();
    let files = (0_usize..).zip(lines.chunks(1000));
    let files = files.map(|(n, lines)| (format!("f{n}.cedar"), lines.join("\n")));
    PolicySet::parse(1, files, rules.as_bytes()).unwrap()
}

fn declared() -> Declared {
    let cluster = |n: usize| ClusterName::parse(&format!("c{n}")).unwrap();
    let group = |n: usize| GroupName::parse(&format!("g{n}")).unwrap();
    Declared {
        trust_domain: TrustDomain::parse("example.org").unwrap(),
        clusters: (0..CLUSTERS).map(cluster).collect(),
        groups: (0..CLUSTERS * GROUPS)
            .map(|n| (cluster(n % CLUSTERS), group(n / CLUSTERS)))
            .collect(),
        persons: Vec::new(),
    }
}

/// Processor time of this thread so far: other work on the machine is not in it. Where the system does not tell it, none.
fn on_processor() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = told.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}

/// p50 and p99 of decisions about permitted and about refused questions.
fn decisions(set: &PolicySet) -> [(Duration, Duration); 2] {
    let cluster = ClusterName::parse("c7").unwrap();
    let node = NodeName::parse("gpu-17").unwrap();
    let role = Role::User(UserName::parse("kim@example.org").unwrap());
    let principal = Identity::new(TrustDomain::parse("example.org").unwrap(), cluster.clone(), role);
    let profile = ProfileName::parse("diagnostic").unwrap();
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..(WORK / set.rules().count()).clamp(40, 4000) {
        let kind = round % 2;
        let groups = [GroupName::parse(if kind == 0 { "g0" } else { "nobodys" }).unwrap()];
        let question = Question {
            principal: &principal,
            groups: &groups,
            action: Action::Shell,
            cluster: &cluster,
            node: &node,
            profile: &profile,
            path: Path::Relay,
            fresh: true,
            reason: None,
            grant: false,
            now: "2030-05-06T07:08:09Z".parse().unwrap(),
        };
        let begun = Instant::now();
        let decided = black_box(set.decide(black_box(&question)));
        times[kind].push(begun.elapsed());
        assert_eq!(decided.is_ok(), kind == 0);
    }
    times.map(|mut times| {
        times.sort();
        (times[times.len() / 2], times[times.len() * 99 / 100])
    })
}

fn main() {
    println!(
        "policies | on the node | permitted p50 (p99), whole | cut | ratio | refused p50 (p99), whole | cut | ratio | cutting"
    );
    for count in [10, 100, 1000, 10_000] {
        // At least the rule that permits is there.
        let whole = set(count.max(8), 12);
        let begun = Instant::now();
        let cut = whole.for_node(&ClusterName::parse("c7").unwrap(), &NodeName::parse("gpu-17").unwrap());
        let cutting = begun.elapsed();
        let (all, sliced) = (decisions(&whole), decisions(&cut));
        let pair = |kind: usize| {
            let ratio = all[kind].0.as_secs_f64() / sliced[kind].0.as_secs_f64();
            format!(
                "{:?} ({:?}) | {:?} ({:?}) | {ratio:.1}",
                all[kind].0, all[kind].1, sliced[kind].0, sliced[kind].1
            )
        };
        println!(
            "{count} | {} | {} | {} | {cutting:?}",
            cut.rules().count(),
            pair(0),
            pair(1)
        );
    }
    let (old, new, declared) = (set(1000, 12), set(1000, 8), declared());
    let (begun, busy) = (Instant::now(), on_processor());
    let linted = lint(&old, &declared).unwrap();
    println!(
        "lint of 1000: {:?} ({:?} of a processor), {} questions, {} findings",
        begun.elapsed(),
        on_processor() - busy,
        linted.questions,
        linted.findings.len()
    );
    let (begun, busy) = (Instant::now(), on_processor());
    let diffed = diff((&old, &declared), (&new, &declared)).unwrap();
    println!(
        "diff of 1000: {:?} ({:?} of a processor), {} questions, {} changes",
        begun.elapsed(),
        on_processor() - busy,
        diffed.questions,
        diffed.changes.len()
    );
}
