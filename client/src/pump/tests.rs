//! A session over memory and pipes, in paused time, with a node that follows a script.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use noderelay_proto::code::{Class, Code};
use noderelay_proto::control::{Exit, SignalName};
use noderelay_proto::limits::{WINDOW_BULK, WINDOW_TERMINAL};
use noderelay_proto::{Frames, ToClient, ToNode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::{Ended, Facts, Finished, Liveness, Local, run};
use crate::escape::Keys;
use crate::exit::Remote;
use crate::screen::Screen;
use crate::signals::{Caught, Signals};
use crate::stdio::{Input, Output};

mod notices;

/// The far end: real frames over an in-memory stream.
struct Node {
    stream: DuplexStream,
    frames: Frames<ToNode>,
}

impl Node {
    async fn send(&mut self, message: impl Into<ToClient>) {
        let mut bytes = bytes::BytesMut::new();
        message.into().encode(&mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn data(&mut self, text: &'static [u8]) {
        self.send(ToClient::Data(Bytes::from_static(text))).await;
    }

    async fn exit(&mut self, code: u32) {
        self.send(ToClient::End).await;
        self.send(Exit {
            code: Some(code),
            ..Exit::default()
        })
        .await;
    }

    /// The next message; `None` at the end of the stream.
    async fn next(&mut self) -> Option<ToNode> {
        loop {
            if let Some(message) = self.frames.next().unwrap() {
                return Some(message);
            }
            if self.stream.read_buf(self.frames.buffer()).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// All input until its end, acknowledged as it comes.
    async fn input(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut offset = 0;
        while let Some(message) = self.next().await {
            match message {
                ToNode::Data(bytes) => {
                    offset += bytes.len() as u64;
                    all.extend_from_slice(&bytes);
                    self.send(ToClient::Ack(offset)).await;
                }
                ToNode::End => return all,
                other => panic!("{other:?}"),
            }
        }
        panic!("no end of input");
    }
}

/// The local end: pipes for the three descriptors.
struct Here {
    local: Local,
    stdin: Option<File>,
    stdout: File,
    stderr: File,
    signals: mpsc::Sender<Caught>,
}

fn pipe() -> (OwnedFd, File) {
    let (read, write) = nix::unistd::pipe().unwrap();
    (read, File::from(write))
}

fn here(terminal: bool) -> Here {
    let (input, stdin) = pipe();
    let (stdout, out) = pipe();
    let (stderr, err) = pipe();
    let (signals, channel) = mpsc::channel(8);
    let local = Local {
        input: Input::new(input),
        screen: Screen::new(Output::new(out.into()), Output::new(err.into()), None),
        signals: Signals::from_channel(channel),
        keys: Keys::new(terminal.then_some(b'~')),
        raw: None,
        window: None,
        terminal,
        quiet: false,
    };
    Here {
        local,
        stdin: Some(stdin),
        stdout: stdout.into(),
        stderr: stderr.into(),
        signals,
    }
}

fn node() -> (DuplexStream, Node) {
    let (ours, theirs) = duplex(64 * 1024);
    let node = Node {
        stream: theirs,
        frames: Frames::new(),
    };
    (ours, node)
}

const PATIENT: Liveness = Liveness {
    keepalive: Duration::from_secs(600),
    patience: Duration::from_secs(600),
};

async fn pump(stream: DuplexStream, local: &mut Local, window: u64) -> Finished {
    let facts = Facts {
        session: "node gpu-7".into(),
    };
    run(stream, Frames::new(), window, local, facts, PATIENT).await
}

fn text(mut file: File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

async fn both<A, B>(client: impl Future<Output = A>, node: impl Future<Output = B>) -> (A, B) {
    let both = async { tokio::join!(client, node) };
    tokio::time::timeout(Duration::from_secs(30), both)
        .await
        .expect("hangs")
}

fn fault(finished: &Finished) -> &crate::faults::Fault {
    match &finished.ended {
        Ended::Fault(fault) | Ended::Closed(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn output_is_written_before_the_exit_counts_and_the_streams_stay_apart() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let script = async {
        node.data(b"one ").await;
        node.send(ToClient::DataErr(Bytes::from_static(b"err"))).await;
        node.data(b"two").await;
        node.exit(7).await;
        let mut last = None;
        while let Some(message) = node.next().await {
            last = Some(message);
        }
        last
    };
    let (finished, last) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    assert_eq!(finished.ended, Ended::Exit(Remote::Code(7)));
    assert_eq!(finished.bytes_out, 10);
    // Ten bytes, END and EXIT are consumed: the node may forget the session.
    assert_eq!(last, Some(ToNode::Ack(12)));
    drop(here.local);
    assert_eq!(text(here.stdout), "one two");
    assert_eq!(text(here.stderr), "err");
}

#[tokio::test]
async fn b007_piped_input_arrives_whole_and_its_end_is_told() {
    let data: Vec<u8> = (0..5_000_000u32).map(|n| (n >> 5) as u8).collect();
    for terminal in [false, true] {
        let (stream, mut node) = node();
        let mut here = here(terminal);
        let mut stdin = here.stdin.take().unwrap();
        let sent = data.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
        let script = async {
            let got = node.input().await;
            node.exit(0).await;
            got
        };
        let (finished, got) = both(pump(stream, &mut here.local, WINDOW_TERMINAL), script).await;
        writer.join().unwrap();
        assert_eq!(finished.ended, Ended::Exit(Remote::Code(0)));
        assert!(got == data);
        assert_eq!(finished.bytes_in, got.len() as u64);
    }
}

#[tokio::test]
async fn b007_input_that_is_at_its_end_already() {
    let (stream, mut node) = node();
    let mut here = here(false);
    here.local.input = Input::new(File::open("/dev/null").unwrap().into());
    let script = async {
        assert_eq!(node.next().await, Some(ToNode::End));
        node.exit(0).await;
    };
    let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    assert_eq!(finished.ended, Ended::Exit(Remote::Code(0)));
}

#[tokio::test]
async fn input_stops_at_the_window_until_the_node_has_taken_some() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let mut stdin = here.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&[b'x'; 600_000]));
    let script = async {
        let mut got = 0;
        while got + 4096 <= WINDOW_TERMINAL {
            let Some(ToNode::Data(bytes)) = node.next().await else {
                panic!()
            };
            got += bytes.len() as u64;
        }
        assert!(got <= WINDOW_TERMINAL);
        // Nothing more comes.
        assert!(
            tokio::time::timeout(Duration::from_millis(50), node.next())
                .await
                .is_err()
        );
        node.send(ToClient::Ack(got)).await;
        assert!(matches!(node.next().await, Some(ToNode::Data(_))));
        node.exit(0).await;
    };
    let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_TERMINAL), script).await;
    assert_eq!(finished.ended, Ended::Exit(Remote::Code(0)));
    drop(here.local);
    // The rest finds no reader.
    assert!(writer.join().unwrap().is_err());
}

#[tokio::test]
async fn b009_a_slow_reader_only_slows_things_down() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let mut stdout = here.stdout.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = 0;
        let mut buffer = vec![0; 20_000];
        loop {
            match stdout.read(&mut buffer).unwrap() {
                0 => return got,
                n => got += n,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let total = 3_000_000u64;
    let script = async {
        let (mut sent, mut acked) = (0u64, 0u64);
        while sent < total {
            while sent - acked + 50_000 > WINDOW_TERMINAL {
                if let Some(ToNode::Ack(offset)) = node.next().await {
                    acked = offset;
                }
            }
            node.send(ToClient::Data(vec![b'z'; 50_000].into())).await;
            sent += 50_000;
        }
        node.exit(0).await;
        while let Some(message) = node.next().await {
            if let ToNode::Ack(offset) = message {
                acked = offset;
            }
        }
        acked
    };
    let (finished, acked) = both(pump(stream, &mut here.local, WINDOW_TERMINAL), script).await;
    assert_eq!(
        (finished.ended, finished.bytes_out, acked),
        (Ended::Exit(Remote::Code(0)), total, total + 2)
    );
    drop((here.local, here.stdout));
    assert_eq!(reader.join().unwrap() as u64, total);
}

#[tokio::test]
async fn a14_the_local_keys_work_while_output_is_blocked_and_the_window_is_full() {
    let (stream, mut node) = node();
    let mut here = here(true);
    let mut stdin = here.stdin.take().unwrap();
    let script = async {
        // More than the pipe takes, so that writing blocks.
        node.send(ToClient::Data(vec![b'z'; 60_000].into())).await;
        node.send(ToClient::Data(vec![b'z'; 60_000].into())).await;
        stdin.write_all(b"ls\r~.").unwrap();
        let mut seen = Vec::new();
        while let Some(message) = node.next().await {
            seen.push(message);
        }
        seen
    };
    let (finished, seen) = both(pump(stream, &mut here.local, WINDOW_TERMINAL), script).await;
    assert_eq!(finished.ended, Ended::Left);
    assert!(seen.contains(&ToNode::Data(Bytes::from_static(b"ls\r"))), "{seen:?}");
    let Some(ToNode::Closed(closed)) = seen.last() else {
        panic!("{seen:?}")
    };
    assert_eq!(closed.code, Code::SessionLeft.number());
}

#[tokio::test]
async fn a14_help_and_status_are_shown_here_and_not_sent() {
    let (stream, mut node) = node();
    let mut here = here(true);
    here.stdin.as_mut().unwrap().write_all(b"~?~s~~x").unwrap();
    let script = async {
        let mut typed = Vec::new();
        while typed.len() < 2 {
            let Some(ToNode::Data(bytes)) = node.next().await else {
                panic!()
            };
            typed.extend_from_slice(&bytes);
        }
        node.exit(0).await;
        typed
    };
    let (_, typed) = both(pump(stream, &mut here.local, WINDOW_TERMINAL), script).await;
    assert_eq!(typed, b"~x");
    drop(here.local);
    let shown = text(here.stderr);
    assert!(
        shown.contains("~.  leave the session") && shown.contains("node gpu-7") && shown.contains("last heard"),
        "{shown}"
    );
}

#[tokio::test]
async fn b006_a_path_that_ends_without_an_exit_is_never_0() {
    for cut in 0..3 {
        let (stream, mut node) = node();
        let mut here = here(false);
        let script = async {
            node.data(b"half").await;
            match cut {
                0 => node.stream.shutdown().await.unwrap(),
                1 => {}
                // Inside a frame: DATA of nine bytes, and only two.
                _ => node.stream.write_all(&[0x20, 9, 1, 2]).await.unwrap(),
            }
            drop(node);
        };
        let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
        assert_eq!(fault(&finished).class, Class::Transport, "{finished:?}");
        drop(here.local);
        // What had arrived is still written.
        assert_eq!(text(here.stdout), "half");
    }
}

#[tokio::test]
async fn the_nodes_own_reason_reaches_the_user() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let script = async {
        node.data(b"last").await;
        node.send(noderelay_proto::control::Closed {
            code: Code::SessionRevoked.number(),
            seen: "certificate revoked".into(),
        })
        .await;
        drop(node);
    };
    let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    let fault = fault(&finished);
    assert_eq!(
        (fault.code, fault.class, fault.seen.as_str()),
        (Code::SessionRevoked, Class::Final, "certificate revoked")
    );
    drop(here.local);
    assert_eq!(text(here.stdout), "last");
}

#[tokio::test]
async fn a_node_that_breaks_the_protocol_is_told_and_left() {
    let breaches: [(Vec<u8>, Code); 5] = [
        (vec![0x3f, 0], Code::ProtocolUnknownFrame),
        (vec![0x10, 0], Code::ProtocolWrongDirection),
        (vec![0x20, 0x80, 0x10, 0, 0], Code::ProtocolTooLarge),
        (vec![0x30, 1, 9], Code::SessionOffset),
        (vec![0x22, 0, 0x20, 1, b'x'], Code::ProtocolOutOfOrder),
    ];
    for (bytes, code) in breaches {
        let (stream, mut node) = node();
        let mut here = here(false);
        let script = async {
            node.stream.write_all(&bytes).await.unwrap();
            let mut last = None;
            while let Some(message) = node.next().await {
                last = Some(message);
            }
            last
        };
        let (finished, last) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
        assert_eq!(fault(&finished).code, code);
        let Some(ToNode::Closed(closed)) = last else {
            panic!("{last:?}")
        };
        assert_eq!(closed.code, code.number());
    }
}

#[tokio::test]
async fn a_node_that_ignores_the_window_is_left() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let script = async {
        // Nobody reads our output here: nothing is consumed beyond what the pipe takes.
        let mut bytes = bytes::BytesMut::new();
        for _ in 0..8 {
            ToClient::Data(vec![0; 65_536].into()).encode(&mut bytes);
        }
        let _ = node.stream.write_all(&bytes).await;
        while node.stream.read(&mut [0; 1000]).await.is_ok_and(|n| n > 0) {}
    };
    let blocked = async {
        let finished = pump(stream, &mut here.local, WINDOW_TERMINAL);
        tokio::select! {
            finished = finished => finished,
            // The verdict is there; what was received before it still has to be written.
            () = async { tokio::time::sleep(Duration::from_millis(200)).await; text_some(&here.stdout); std::future::pending().await } => unreachable!(),
        }
    };
    let (finished, ()) = both(blocked, script).await;
    assert_eq!(fault(&finished).code, Code::SessionOverrun);
}

/// Reads in a thread until the end.
fn text_some(file: &File) {
    let mut file = file.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut file, &mut std::io::sink()));
}

#[tokio::test]
async fn without_a_terminal_signals_go_to_the_command_and_the_second_leaves() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let signals = here.signals.clone();
    let script = async {
        signals.send(Caught::Int).await.unwrap();
        let Some(ToNode::Signal(signal)) = node.next().await else {
            panic!()
        };
        assert_eq!(signal.signal, i32::from(SignalName::Int));
        signals.send(Caught::Int).await.unwrap();
        let Some(ToNode::Closed(_)) = node.next().await else {
            panic!()
        };
    };
    let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    assert_eq!(finished.ended, Ended::Signalled(Caught::Int));
}

#[tokio::test]
async fn b008_an_interrupted_command_tells_its_own_end() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let signals = here.signals.clone();
    let script = async {
        signals.send(Caught::Int).await.unwrap();
        let Some(ToNode::Signal(_)) = node.next().await else {
            panic!()
        };
        node.send(ToClient::End).await;
        node.send(Exit {
            signal: Some(2),
            ..Exit::default()
        })
        .await;
    };
    let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    let Ended::Exit(remote) = finished.ended else { panic!() };
    assert_eq!(remote.exit_code(), 130);
}

#[tokio::test]
async fn an_output_without_reader_ends_the_session() {
    let (stream, mut node) = node();
    let mut here = here(false);
    drop(here.stdout);
    let script = async {
        node.data(b"nobody reads this").await;
        let Some(ToNode::Closed(closed)) = node.next().await else {
            panic!()
        };
        assert_eq!(closed.code, Code::SessionLeft.number());
    };
    let (finished, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    assert_eq!(finished.ended, Ended::OutputClosed);
}

#[tokio::test]
async fn questions_of_the_node_are_answered() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let script = async {
        node.send(ToClient::Ping(42)).await;
        assert_eq!(node.next().await, Some(ToNode::Pong(42)));
        node.exit(0).await;
    };
    both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
}

#[tokio::test]
async fn b006_a_silent_node_is_asked_and_then_given_up() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let liveness = Liveness {
        keepalive: Duration::from_millis(60),
        patience: Duration::from_millis(60),
    };
    let script = async {
        let Some(ToNode::Ping(first)) = node.next().await else {
            panic!()
        };
        node.send(ToClient::Pong(first)).await;
        let Some(ToNode::Ping(_)) = node.next().await else {
            panic!()
        };
        while node.next().await.is_some() {}
    };
    let client = run(
        stream,
        Frames::new(),
        WINDOW_BULK,
        &mut here.local,
        Facts::default(),
        liveness,
    );
    let (finished, ()) = both(client, script).await;
    assert_eq!(
        (fault(&finished).code, fault(&finished).class),
        (Code::TransportTimeout, Class::Transport)
    );
}
