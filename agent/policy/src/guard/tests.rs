//! Texts that would exhaust the parser are refused before it sees them; what people write passes.

use super::*;

#[test]
fn what_people_write_passes() {
    let text = r#"
        // ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
        @id("a;b((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((")
        permit (principal in Group::"alpha/\"((((((((((((((((((((((((((((((((((((((((((((((((((((", action, resource)
        when { ((principal == principal)) && !(resource.hasTag("pool")) };
    "#;
    assert_eq!(check(text), Ok(()));
    assert_eq!(check(&text.repeat(1000)), Ok(()));
}

#[test]
fn nesting_length_and_size_are_bounded() {
    let nested = |open: &str, n| format!("permit (principal, action, resource) when {{ {} }};", open.repeat(n));
    assert_eq!(check(&nested("(", 100_000)), Err(Refused::Depth));
    assert_eq!(check(&nested("[{(", 100)), Err(Refused::Depth));
    assert_eq!(check(&nested("!", 100_000)), Err(Refused::Size));
    assert_eq!(check(&nested("-", 100_000)), Err(Refused::Size));
    assert_eq!(check(&nested("if true then true else ", 10_000)), Err(Refused::Size));
    assert_eq!(check(&nested("true && ", 10_000)), Err(Refused::Size));
    assert_eq!(check(&nested("principal.name.name", 1000)), Err(Refused::Size));
    assert_eq!(check(&" ".repeat(MAX_TEXT + 1)), Err(Refused::Length(MAX_TEXT + 1)));
}

#[test]
fn what_is_just_within_the_bounds_does_not_end_the_process() {
    let texts = [
        format!(
            "permit (principal, action, resource) when {{ {}true{} }};",
            "(".repeat(60),
            ")".repeat(60)
        ),
        format!(
            "permit (principal, action, resource) when {{ {}true }};",
            "true && ".repeat(500)
        ),
        format!(
            "permit (principal, action, resource) when {{ {}true }};",
            "true || ".repeat(500)
        ),
        format!(
            "permit (principal, action, resource) when {{ {}true }};",
            "if context.grant then true else ".repeat(500)
        ),
        format!(
            "permit (principal, action, resource) when {{ {}true }};",
            "!".repeat(1000)
        ),
        format!(
            "permit (principal, action, resource) when {{ {}1 == 1 }};",
            "-".repeat(1000)
        ),
        format!(
            "permit (principal, action, resource) when {{ principal{} }};",
            ".name".repeat(1000)
        ),
        format!(
            "permit (principal, action, resource) when {{ {}1 == 1 }};",
            "1 + ".repeat(1000)
        ),
    ];
    for text in texts {
        assert_eq!(check(&text), Ok(()));
        // Good or bad, it comes back, also on the small stack of a worker thread.
        let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
            if let Ok(set) = crate::testing::set(&text) {
                let _ = crate::testing::Ask::alice(&["oncall"]).of(&set);
            }
        });
        worker.unwrap().join().unwrap();
    }
}
