//! What is left is ended only when it is certain whose it is.

use std::process::{Child, Command, Stdio};

use super::*;

/// A process in a kernel session of its own.
fn leader() -> Child {
    let mut command = Command::new("setsid");
    command.args(["sleep", "1000"]).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while Table::now().in_session(child.id()).is_empty() {
        assert!(tokio::time::Instant::now() < until, "no session");
        std::thread::yield_now();
    }
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_session_is_found_again_by_any_process_that_was_noted() {
    let folder = tempfile::tempdir().unwrap();
    let child = leader();
    let record = Record::of(child.id()).unwrap();
    record.write(folder.path()).unwrap();
    let read = Record::read(folder.path()).unwrap();
    assert_eq!(read, record);
    assert_eq!(read.left(&Table::now()), Left::Ours(record.known.clone()));
    assert_eq!(read.now(&Table::now()), None, "nothing changed");
    end(child);
    assert_eq!(read.left(&Table::now()), Left::Nothing);
}

#[test]
fn a_number_that_somebody_else_has_by_now_is_left_alone() {
    let child = leader();
    let record = Record::of(child.id()).unwrap();
    let mut earlier = record.clone();
    earlier.known[0].started -= 1;
    assert_eq!(earlier.left(&Table::now()), Left::Doubtful(record.known.clone()));
    assert_eq!(
        earlier.now(&Table::now()),
        None,
        "it is not taken for ours from then on either"
    );
    let another_boot = Record {
        boot: "8d0f6f60-0000-0000-0000-000000000000".into(),
        ..record
    };
    assert_eq!(another_boot.left(&Table::now()), Left::Nothing);
    end(child);
}

#[test]
fn what_was_cut_off_or_changed_says_nothing() {
    for text in [
        "",
        "boot\n",
        "boot\n12\n",
        "boot\n12 x\n",
        "boot\n-5 7\n",
        "boot\n1 7\n",
        "boot\n12 7\n\n",
        "\n12 7\n",
        "boot\r\r\n12 7\n",
    ] {
        assert_eq!(parse(text), None, "{text:?}");
    }
    assert_eq!(parse("boot\n12 7\n13 8\n").unwrap().known.len(), 2);
}
