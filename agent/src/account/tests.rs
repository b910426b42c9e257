//! Whom profiles run as, and what is said when they can't.

use super::*;

fn name() -> ProfileName {
    ProfileName::parse("diagnostic").unwrap()
}

fn named(account: &str) -> Profile {
    Profile {
        run_as: RunAs::Account(account.to_owned()),
    }
}

const AGENT: Profile = Profile { run_as: RunAs::Agent };

#[test]
fn a_profile_that_the_node_does_not_have() {
    let refusal = resolve(&name(), None, "").unwrap_err();
    assert_eq!((refusal.code, refusal.missing), (Code::PolicyProfile, Missing::Node));
    assert!(refusal.seen.contains("no profile diagnostic"), "{}", refusal.seen);
}

#[test]
fn an_account_that_the_node_does_not_have() {
    let refusal = resolve(&name(), Some(&named("nobody-has-this-name")), "").unwrap_err();
    assert_eq!((refusal.code, refusal.missing), (Code::ShellNoAccount, Missing::Node));
    assert!(refusal.seen.contains("nobody-has-this-name"), "{}", refusal.seen);
}

#[test]
fn the_agents_own_account_needs_no_root() {
    let account = resolve(&name(), Some(&AGENT), "").unwrap();
    assert_eq!(account.uid, nix::unistd::geteuid().as_raw());
    // Who says `-l` and means it gets the same.
    assert_eq!(resolve(&name(), Some(&AGENT), &account.name).unwrap(), account);
}

#[test]
fn an_account_that_was_asked_for_and_is_not_the_profiles() {
    let refusal = resolve(&name(), Some(&AGENT), "somebody-else").unwrap_err();
    assert_eq!(refusal.code, Code::ShellNoAccount);
    assert!(refusal.seen.contains("somebody-else was asked for"), "{}", refusal.seen);
}

// What is asked for and what is refused differ with who runs the tests, and both ways are held.
#[test]
fn another_account_needs_root() {
    let own = nix::unistd::geteuid();
    let other = if own.is_root() { "daemon" } else { "root" };
    match resolve(&name(), Some(&named(other)), "") {
        Ok(account) => assert!(own.is_root() && account.name == other, "without root: {}", account.name),
        Err(refusal) => {
            assert!(!own.is_root(), "with root: {}", refusal.seen);
            assert_eq!(refusal.code, Code::ShellNoAccount);
            assert!(refusal.seen.contains("an agent without root"), "{}", refusal.seen);
        }
    }
}

#[test]
fn an_id_without_a_name_is_called_by_its_number() {
    let account = nameless();
    assert_eq!(account.name, account.uid.to_string());
    assert_eq!(account.shell, Path::new("/bin/sh"));
}
