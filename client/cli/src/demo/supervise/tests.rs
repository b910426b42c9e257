//! A child of the supervisor: a shell script in place of relay and agent.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Service;

/// A child that says more than a pipe holds after `ready` goes on, and is ended by `stop`.
#[tokio::test]
async fn what_a_child_says_after_ready_is_read_too() {
    let root = tempfile::tempdir().unwrap();
    let program = root.path().join("child.sh");
    let done = root.path().join("done");
    // Called as `child.sh internal relay CONFIG`; it opens the pipe CONFIG when everything is said.
    std::fs::write(
        &program,
        "#!/bin/sh\necho ready\nhead -c 300000 /dev/zero | tr '\\0' '\\n'\necho said > \"$3\"\nexec sleep 600\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    nix::unistd::mkfifo(&done, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let stop = CancellationToken::new();
    let (serving, served) = oneshot::channel();
    let service = Service {
        name: "relay",
        program,
        config: done.clone(),
        log: root.path().join("log"),
    };
    let kept = tokio::spawn(service.keep(stop.clone(), serving));
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, served).await.unwrap().unwrap();
    let said = tokio::time::timeout(limit, tokio::fs::read_to_string(done)).await;
    assert_eq!(said.expect("the child waits for a reader").unwrap(), "said\n");
    stop.cancel();
    tokio::time::timeout(limit, kept).await.unwrap().unwrap().unwrap();
}
