//! Standard input and output as pipes, files and terminals that others share.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::{Input, Output, Source, Target};

async fn all(mut input: Input) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        let piece = input.read(10_000).await.unwrap();
        if piece.is_empty() {
            return got;
        }
        got.extend_from_slice(&piece);
    }
}

async fn write_all(output: &mut Output, mut data: Bytes) {
    while !data.is_empty() {
        let written = output.write(&data).await.unwrap();
        assert!(written > 0);
        let _ = data.split_to(written);
    }
}

fn flags(descriptor: &OwnedFd) -> OFlag {
    OFlag::from_bits_truncate(fcntl(descriptor, FcntlArg::F_GETFL).unwrap())
}

#[tokio::test]
async fn b007_a_pipe_is_read_to_its_end_and_stays_blocking_for_others() {
    let (read, write) = nix::unistd::pipe().unwrap();
    let keep = read.try_clone().unwrap();
    let input = Input::new(read);
    assert!(matches!(input.source, Source::Ready(_)));
    let sent: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    let expected = sent.clone();
    let thread = std::thread::spawn(move || File::from(write).write_all(&sent).unwrap());
    assert_eq!(all(input).await, expected);
    thread.join().unwrap();
    assert!(!flags(&keep).contains(OFlag::O_NONBLOCK));
}

#[tokio::test]
async fn b007_a_file_is_read_to_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    let data: Vec<u8> = (0..1_000_000u32).map(|n| (n >> 3) as u8).collect();
    file.write_all(&data).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    assert_eq!(all(Input::new(file.into())).await, data);
}

#[tokio::test]
async fn b007_dev_null_is_at_its_end() {
    let null = File::open("/dev/null").unwrap();
    assert_eq!(all(Input::new(null.into())).await, b"");
}

#[tokio::test]
async fn a_socket_is_read_by_a_thread() {
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let input = Input::new(ours.into());
    assert!(matches!(input.source, Source::Thread(_)));
    theirs.write_all(b"abc").unwrap();
    drop(theirs);
    assert_eq!(all(input).await, b"abc");
}

/// As rsync hands them over: non-blocking, with a far end that is late.
#[tokio::test]
async fn a_socket_that_does_not_block_is_waited_for() {
    const MANY: usize = 1024 * 1024;
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        theirs.write_all(b"abc").unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        got
    });
    let input = Input::new(ours.try_clone().unwrap().into());
    let mut output = Output::new(ours.into());
    assert_eq!(all(input).await, b"abc");
    let mut rest = Bytes::from(vec![7; MANY]);
    while !rest.is_empty() {
        let written = output.write(&rest).await.unwrap();
        bytes::Buf::advance(&mut rest, written);
    }
    drop(output);
    assert_eq!(late.join().unwrap(), vec![7; MANY]);
}

#[tokio::test]
async fn a_dropped_read_loses_nothing() {
    let (read, write) = nix::unistd::pipe().unwrap();
    let mut input = Input::new(read);
    let mut write = File::from(write);
    assert!(
        tokio::time::timeout(Duration::from_millis(5), input.read(10_000))
            .await
            .is_err()
    );
    write.write_all(b"x").unwrap();
    assert_eq!(input.read(10_000).await.unwrap(), &b"x"[..]);
}

#[tokio::test]
async fn a_full_pipe_waits_and_stays_blocking_for_others() {
    let (read, write) = nix::unistd::pipe().unwrap();
    let keep = write.try_clone().unwrap();
    let mut output = Output::new(write);
    assert!(matches!(output.target, Target::Ready(_)));
    let data: Vec<u8> = (0..500_000u32).map(|n| (n * 7) as u8).collect();
    let expected = data.clone();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; expected.len()];
        File::from(read).read_exact(&mut got).unwrap();
        assert!(got == expected);
    });
    write_all(&mut output, data.into()).await;
    reader.join().unwrap();
    assert!(!flags(&keep).contains(OFlag::O_NONBLOCK));
}

#[tokio::test]
async fn a_pipe_without_reader_is_a_broken_pipe() {
    let (read, write) = nix::unistd::pipe().unwrap();
    let mut output = Output::new(write);
    drop(read);
    let error = output.write(&Bytes::from_static(b"x")).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_file_is_written_at_the_shared_offset() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before ").unwrap();
    let mut output = Output::new(file.try_clone().unwrap().into());
    assert!(matches!(output.target, Target::Thread { .. }));
    write_all(&mut output, Bytes::from_static(b"after")).await;
    std::io::Seek::rewind(&mut file).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before after");
}
