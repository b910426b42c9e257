//! One-shot commands through a real relay: exit codes, arguments, input, output, environment, record.

use std::io::{Read as _, Write as _};
use std::process::{Output, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, PATIENCE, wait_within};
use netsim_tests::told::Told;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout {:?}\nstderr {}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// As [`assert_code`], where the output may be any bytes.
#[track_caller]
fn assert_code_of(output: &Output, code: i32) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
}

/// Exit codes are the command's own, a signal is 128 + n with a note, with a terminal as without; `--status` says that they are.
#[test]
fn b008_exit_codes_are_the_commands_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let fleet = Fleet::serving();
    let file = |name: &str, mode: u32, content: &[u8]| {
        let path = fleet.layout.root.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let not_executable = file("not-executable", 0o644, b"");
    let script = file("script", 0o755, b"[ \"$1\" = given ] && exit 7\nexit 8\n");
    let no_program = file("no-program", 0o755, b"\x7fELF\0nothing\n");
    let folder = fleet.layout.root.display().to_string();
    let exit = |code: i32| format!("exit {code}");
    let mut rows: Vec<(Vec<String>, i32, &str)> = vec![
        (words(&["true"]), 0, ""),
        (words(&["false"]), 1, ""),
        (words(&["nosuchcmd"]), 127, "nosuchcmd"),
        (words(&["/no/such/file"]), 127, "/no/such/file"),
        (words(&[&not_executable]), 126, "not-executable"),
        (words(&[&folder]), 126, "ermission denied"),
        // What has no `#!` is the shell's to run, if it is text.
        (words(&[&script, "given"]), 7, ""),
        (words(&[&no_program]), 126, "no-program"),
        (words(&["sh", "-c", "kill -TERM $$"]), 143, "signal 15"),
        (words(&["sh", "-c", "kill -SEGV $$"]), 139, "signal 11"),
        (words(&["sh", "-c", "kill -KILL $$"]), 137, "signal 9"),
    ];
    let plain = [2, 64, 125, 126, 127, 128, 130, 137, 254, 255];
    rows.extend(plain.map(|code| (words(&["sh", "-c", &exit(code)]), code, "")));
    for (argv, code, note) in &rows {
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        for terminal in [false, true] {
            let mut client = fleet.client();
            if terminal {
                client.arg("-t");
            }
            let told = Told::of(client, &argv);
            told.assert_exit(*code);
            let (shown, said) = (text(&told.output.stdout), told.said());
            assert!(format!("{shown}{said}").contains(note), "{argv:?}: {shown}{said}");
            assert!(terminal || shown.is_empty(), "{argv:?}: {shown}");
            let signal = note.strip_prefix("signal ").map_or(0, |number| number.parse().unwrap());
            assert_eq!(told.status["signal"].as_u64().unwrap_or(0), signal, "{}", told.status);
        }
    }
    for terminal in [false, true] {
        let mut client = fleet.client();
        if terminal {
            client.arg("-t");
        }
        let status = fleet.layout.root.join("status.json");
        let ours = client
            .arg("--status")
            .arg(&status)
            .args(["nowhere", "--", "true"])
            .bounded();
        assert_code(&ours, 255);
        let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&status).unwrap()).unwrap();
        assert_ne!(said["origin"].as_str(), Some("remote"), "{said}");
        assert_ne!(said["code"].as_str(), Some("ok"), "{said}");
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Arguments arrive one by one, exactly as given.
#[test]
fn b031_arguments_are_a_list_never_a_line() {
    let fleet = Fleet::serving();
    let output = fleet.run(&["printf", "%s|", "a b", "c'd", "$HOME", "", "*", "x\ny"]);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "a b|c'd|$HOME||*|x\ny|");
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = std::ffi::OsStr::from_bytes(b"\xff\xfe a");
    let raw = fleet
        .client()
        .args(["local", "--", "printf", "%s|"])
        .arg(bytes)
        .bounded();
    assert_code_of(&raw, 0);
    assert_eq!(raw.stdout, b"\xff\xfe a|");
    let line = fleet
        .client()
        .args(["-c", "printf '%s|' a  b; exit 3", "local"])
        .bounded();
    assert_code(&line, 3);
    assert_eq!(text(&line.stdout), "a|b|");
}

/// The end of input travels; a command without input starts.
#[test]
fn b007_the_end_of_input_is_a_message() {
    let fleet = Fleet::serving();
    let mut child = fleet
        .client()
        .args(["local", "--", "wc", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"abc").unwrap();
    let output = child.bounded();
    assert_eq!(text(&output.stdout).trim(), "3");

    let data: Vec<u8> = (0..5_000_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let file = fleet.layout.root.join("5MB.bin");
    std::fs::write(&file, &data).unwrap();
    let input = std::fs::File::open(&file).unwrap();
    let output = fleet
        .client()
        .args(["local", "--", "cat"])
        .stdin(input)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
        .bounded();
    assert_code(&output, 0);
    assert!(
        output.stdout == data,
        "{} bytes came back of {}",
        output.stdout.len(),
        data.len()
    );

    let output = fleet.client().args(["local", "--", "cat"]).bounded();
    assert_code(&output, 0);
    // A closed stdin: the shell closes it before it becomes the client.
    let client = fleet.client();
    let closed = std::process::Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" <&-"])
        .arg(client.get_program())
        .args(client.get_args())
        .args(["local", "--", "echo", "started"])
        .bounded();
    assert_code(&closed, 0);
    assert_eq!(text(&closed.stdout), "started\n");
}

/// A reader that is slow from the first byte to the last gets every byte and then the exit code.
#[test]
fn b009_a_steadily_slow_reader_gets_everything() {
    // 64 KiB every 16 ms are 4 MiB a second.
    const SIZE: usize = 24 * 1024 * 1024;
    let fleet = Fleet::serving();
    let mut child = fleet
        .client()
        .args(["local", "--", "sh", "-c", &format!("head -c {SIZE} /dev/zero; exit 6")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut seen, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let n = stdout.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        assert!(buffer[..n].iter().all(|b| *b == 0));
        seen += n;
        std::thread::sleep(std::time::Duration::from_micros(n as u64 / 4));
    }
    assert_eq!(seen, SIZE);
    assert_eq!(wait_within(&mut child, PATIENCE).code(), Some(6));
}

/// A reader that begins slowly gets every byte and then the exit code.
#[test]
fn b009_the_tail_of_the_output_is_never_lost() {
    const SIZE: usize = 200 * 1024 * 1024;
    let fleet = Fleet::serving();
    let mut child = fleet
        .client()
        .args(["local", "--", "sh", "-c", &format!("head -c {SIZE} /dev/zero; exit 5")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // Slow at first, so that every buffer on the way is full when the command ends its writing; then fast.
    let (mut seen, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        if seen < 2 * 1024 * 1024 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let n = stdout.read(&mut buffer).unwrap();
        assert!(buffer[..n].iter().all(|b| *b == 0));
        seen += n;
        if n == 0 {
            break;
        }
    }
    assert_eq!(seen, SIZE);
    assert_eq!(wait_within(&mut child, PATIENCE).code(), Some(5));
}

/// Input that cannot be read to its end is not passed on as if it had been: the far end would take half of it for the whole.
#[test]
fn input_that_cannot_be_read_is_a_failure() {
    let fleet = Fleet::serving();
    let folder = std::fs::File::open(&fleet.layout.root).unwrap();
    let mut client = fleet.client();
    client.args(["-q", "local", "--", "cat"]).stdin(folder);
    let output = client
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .bounded();
    assert_code(&output, 255);
    let said = text(&output.stderr);
    assert!(
        said.contains("client.local_io") && said.contains("reading standard input"),
        "{said}"
    );
}

/// Stdout belongs to the command alone, stderr comes apart.
#[test]
fn stdout_and_stderr_come_apart() {
    let fleet = Fleet::serving();
    let output = fleet
        .client()
        .arg("-q")
        .args(["local", "--", "sh", "-c", "echo out; echo err >&2"])
        .bounded();
    assert_code(&output, 0);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n", "err\n"));
}

/// One-shot commands are recorded as shells are: who, where, what, under which policy, and what was shown.
#[test]
fn b023_every_kind_of_session_is_recorded() {
    let fleet = Fleet::serving();
    let seen = |output: Output, words: &[&str]| {
        assert_code(&output, 0);
        let found = fleet.recordings().into_iter().any(|path| {
            let cast = std::fs::read_to_string(path).unwrap();
            words.iter().all(|word| cast.contains(word))
        });
        assert!(found, "no recording holds {words:?}");
    };
    seen(
        fleet.run(&["echo", "mark-exec"]),
        &["mark-exec\\n", "\"version\":2", "user/tester", "\"policy_version\":1"],
    );
    let line = fleet
        .client()
        .args(["--reason", "mark-reason", "-c", "echo mark-line", "local"])
        .bounded();
    seen(line, &["mark-line\\n", "mark-reason"]);
    let terminal = fleet.client().args(["-t", "local", "--", "echo", "mark-tty"]).bounded();
    seen(terminal, &["mark-tty\\r\\n"]);
    assert_eq!(fleet.recordings().len(), 3, "one recording for each session");
    // A recording plays.
    let one = fleet.recordings().remove(0);
    let played = fleet.plain().args(["replay", "--no-wait"]).arg(one).bounded();
    assert_code(&played, 0);
    assert!(text(&played.stdout).contains("mark-"), "{}", text(&played.stdout));
}
