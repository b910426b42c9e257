//! The answer to a wish is lost between the warm process and the client: whatever the client does then, the command runs once.
//!
//! ```text
//! client ── ASK, OPEN ──> the test ──> warm process ──> node: the command runs
//!        <── ANSWER ───── the test <── OPENED …        and the test hangs up
//! ```

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc;

use bytes::BytesMut;
use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, PATIENCE, eventually};
use netsim_tests::told::Told;
use netsim_tests::warm::Warm;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noderelay_proto::{Frames, FromWarm};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Between the client and the warm process: passes on what the client says, and of what comes back only the answer to its question. Gives
/// its end to whoever waits for the node to have begun.
fn between(socket: &Path) -> mpsc::Receiver<(UnixStream, UnixStream)> {
    let real = socket.with_file_name("real");
    std::fs::rename(socket, &real).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    let (give, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut process = UnixStream::connect(real).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), process.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let (mut answers, mut bytes) = (Frames::<FromWarm>::new(), [0; 4096]);
        let answer = loop {
            if let Some(answer) = answers.next().unwrap() {
                break answer;
            }
            let n = process.read(&mut bytes).unwrap();
            assert_ne!(n, 0, "no answer");
            answers.buffer().extend_from_slice(&bytes[..n]);
        };
        let mut first = BytesMut::new();
        answer.encode(&mut first);
        client.write_all(&first).unwrap();
        let _ = give.send((client, process));
    });
    ends
}

/// The answer to OPEN is lost on the way: the client repeats its wish on a path of its own, under the same id, and the command runs
/// once, whether it still runs then (its session goes on) or has ended (255, and which session it was).
#[test]
fn a_wish_whose_answer_was_lost_runs_its_command_once() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    let (file, go) = (fleet.layout.root.join("runs"), fleet.layout.root.join("go"));
    let socket = warm.folder().join("socket");
    let ran = || std::fs::read_to_string(&file).unwrap_or_default();
    let line = format!(
        "echo run >>{}; while ! [ -e {} ]; do sleep 0.05; done; echo end",
        file.display(),
        go.display()
    );
    for ended in [false, true] {
        // Used once, so that the node stands by.
        std::fs::write(&go, "").unwrap();
        eventually("a session over what is warm", || {
            Told::of(fleet.client(), &["true"]).assert_exit(0);
            warm.count("streams") + warm.count("standbys") > 0
        });
        warm.until_standby();
        std::fs::remove_file(&go).unwrap();
        let _ = std::fs::remove_file(&file);
        let over = || fleet.logs().matches("session.ended").count();
        let before = over();
        let ends = between(&socket);
        let mut client = fleet.client();
        client.args(["-v", "local", "--", "sh", "-c", &line]);
        let child = client
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let ends = ends.recv_timeout(PATIENCE).unwrap();
        eventually("the command runs", || ran() == "run\n");
        if ended {
            // Long before the client asks again.
            kill(pid, Signal::SIGSTOP).unwrap();
            std::fs::write(&go, "").unwrap();
            ends.1.shutdown(std::net::Shutdown::Both).unwrap();
            eventually("the session is over", || over() > before);
        }
        drop(ends);
        std::fs::rename(socket.with_file_name("real"), &socket).unwrap();
        kill(pid, Signal::SIGCONT).unwrap();
        if !ended {
            eventually("the client is back", || fleet.logs().contains("the same attempt again"));
            std::fs::write(&go, "").unwrap();
        }
        let output = child.bounded();
        assert!(
            said(&output).contains("what was warm did not work; dialling"),
            "{}",
            said(&output)
        );
        if ended {
            assert_eq!(output.status.code(), Some(255), "{}", said(&output));
            assert!(said(&output).contains("session.unknown"), "{}", said(&output));
            assert!(said(&output).contains("carried out already"), "{}", said(&output));
        } else {
            assert_eq!(
                (output.status.code(), &output.stdout[..]),
                (Some(0), &b"end\n"[..]),
                "{}",
                said(&output)
            );
        }
        assert_eq!(ran(), "run\n", "it ran more than once");
    }
}
