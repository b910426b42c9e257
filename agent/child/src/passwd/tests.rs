//! Accounts are found in the node's own files, and lines that are none are left out.

use super::*;

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
# a comment
+nisuser::::::
-::::::
broken line
odd:x:+5:5::/:/bin/sh
nobody-id:x:4294967295:5::/:/bin/sh
more:x:7:7::/:/bin/sh:extra
oncall:x:1001:1001:On call,,,:/home/on call:/usr/bin/zsh
short:x:12:13::/var/short
last:x:14:15::/:";
const GROUP: &str = "\
root:x:0:
adm:x:4:oncall,other
oncall:x:1001:
video:x:44:other
systemd-journal:x:101:x,oncall
+::0:oncall
oncaller:x:55:oncall2
again:x:4:oncall
";

fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("etc")).unwrap();
    std::fs::write(root.path().join("etc/passwd"), PASSWD).unwrap();
    std::fs::write(root.path().join("etc/group"), GROUP).unwrap();
    root
}

#[test]
fn an_account_has_its_groups_sorted_and_once() {
    let root = host();
    let account = find(root.path(), "oncall").unwrap();
    assert_eq!((account.uid, account.gid), (1001, 1001));
    assert_eq!(account.groups, [4, 101, 1001]);
    assert_eq!(account.home, Path::new("/home/on call"));
    assert_eq!(account.shell, Path::new("/usr/bin/zsh"));
    assert_eq!(find_uid(root.path(), 1001).unwrap(), account);
}

#[test]
fn lines_that_are_not_accounts_are_left_out() {
    let names: Vec<_> = parse_passwd(PASSWD.as_bytes()).map(|account| account.name).collect();
    assert_eq!(names, ["root", "oncall", "short", "last"]);
    let root = host();
    for name in ["+nisuser", "-", "odd", "nobody-id", "more", "ROOT", "oncall2", ""] {
        assert!(
            matches!(find(root.path(), name), Err(AccountError::Unknown { .. })),
            "{name}"
        );
    }
}

#[test]
fn a_missing_or_huge_file_is_an_error_and_a_missing_group_file_gives_less() {
    let root = host();
    std::fs::remove_file(root.path().join("etc/group")).unwrap();
    assert_eq!(find(root.path(), "oncall").unwrap().groups, [1001]);
    std::fs::write(root.path().join("etc/passwd"), vec![b'\n'; MAX_FILE as usize + 1]).unwrap();
    assert!(matches!(find(root.path(), "root"), Err(AccountError::TooLarge { .. })));
    std::fs::remove_file(root.path().join("etc/passwd")).unwrap();
    assert!(matches!(
        find(root.path(), "root"),
        Err(AccountError::Unreadable { .. })
    ));
}
