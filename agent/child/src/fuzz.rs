//! Fuzz bodies: the files of accounts, and the orders for a child. They never panic, and what passes keeps its promise.
//!
//! Plain functions over any bytes: ordinary tests run them over `agent/child/corpus/` and over mutated input, a fuzzer over
//! anything.

use std::os::unix::ffi::OsStrExt as _;

use crate::passwd::{parse_groups, parse_passwd};
use crate::spec::shells;
use crate::{Account, Spec};

/// A passwd file, and the same bytes as a group file. An account has a name that stands in the file, and a number that is one.
pub fn accounts(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let mut accounts = 0;
    for account in parse_passwd(bytes) {
        accounts += 1;
        assert!(!account.name.is_empty() && !account.name.starts_with(['+', '-']) && !account.name.contains(':'));
        assert!(account.uid != u32::MAX && account.gid != u32::MAX, "somebody's number");
        assert_eq!(
            parse_passwd(&line(&account)).collect::<Vec<_>>(),
            std::slice::from_ref(&account),
            "one line says it again"
        );
        assert!(shells(&account).iter().all(|shell| shell.is_absolute()));
        assert!(parse_groups(bytes, &account.name).count() <= lines);
    }
    assert!(accounts <= lines);
    assert!(parse_groups(bytes, "root").all(|gid| gid != u32::MAX));
}

/// The orders for a child. What passes has one encoding.
pub fn orders(bytes: &[u8]) {
    if let Ok(spec) = Spec::decode(bytes) {
        assert_eq!(spec.encode(), bytes, "one encoding");
    }
}

fn line(account: &Account) -> Vec<u8> {
    let numbers = format!(":x:{}:{}::", account.uid, account.gid);
    [
        account.name.as_bytes(),
        numbers.as_bytes(),
        account.home.as_os_str().as_bytes(),
        b":",
        account.shell.as_os_str().as_bytes(),
    ]
    .concat()
}
