//! What a condition looks at is found wherever it stands.

use super::*;
use crate::testing::set;

fn reads(condition: &str) -> Reads {
    let set = set(&format!("permit (principal, action, resource) {condition};")).unwrap();
    let policy = set.policies.policies().next().unwrap();
    Reads::of(policy)
}

#[test]
fn each_part_of_the_context_is_found() {
    let none = Reads::default;
    assert_eq!(reads(""), none());
    assert_eq!(
        reads("when { resource.tenant == \"acme\" }").texts,
        BTreeSet::from(["acme".to_owned()])
    );
    let flags = |reads: Reads| Reads {
        texts: BTreeSet::new(),
        ..reads
    };
    for (condition, expected) in [
        ("when { context.grant }", Reads { grant: true, ..none() }),
        ("unless { !(context.bundle.fresh) }", Reads { fresh: true, ..none() }),
        ("when { context has reason }", Reads { reason: true, ..none() }),
        (
            "when { context has reason && context.reason like \"x*\" }",
            Reads {
                reason: true,
                reason_text: true,
                ..none()
            },
        ),
        (
            "when { [\"a\", \"b\"].contains(context.profile) }",
            Reads {
                profile: true,
                ..none()
            },
        ),
        (
            "when { if context.path == \"api\" then false else true }",
            Reads { path: true, ..none() },
        ),
        (
            "when { context.time > datetime(\"2030-01-01\") }",
            Reads { time: true, ..none() },
        ),
        (
            "when { context.time.offset(duration(\"1h\")) > datetime(\"2030-01-01\") }",
            Reads {
                time: true,
                can_fail: true,
                ..none()
            },
        ),
        (
            "when { {a: principal is User}.a && resource.name == \"x\" }",
            Reads { name: true, ..none() },
        ),
        ("when { context.breakGlass }", none()),
    ] {
        assert_eq!(flags(reads(condition)), expected, "{condition}");
    }
}

#[test]
fn the_whole_context_is_everything() {
    let all = reads("when { context == context }");
    assert!(all.opaque && all.grant && all.reason && all.reason_text && all.fresh && all.profile);
    assert_eq!(all.told(), ["the words of the reason", "the whole context"]);
    assert!(reads("when { context has time }").opaque);
    assert!(reads("when { resource has name }").opaque);
}

#[test]
fn a_long_chain_of_conditions_is_walked_on_a_small_stack() {
    let chain = format!("when {{ {}context.grant }}", "context.bundle.fresh && ".repeat(200));
    let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let reads = worker.spawn(move || reads(&chain)).unwrap().join().unwrap();
    assert!(reads.grant && reads.fresh);
}
