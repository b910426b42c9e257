//! Shells on a real terminal through a real relay: sizes, pastes, the last line.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually, processes_with};
use netsim_tests::terminal::Terminal;
use tokio::time::Instant;

/// A mebibyte of lines.
fn paste() -> String {
    let line = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n";
    line.repeat(1024 * 1024 / line.len())
}

/// A shell without echo and prompt.
fn shell(fleet: &Fleet, cols: u16, rows: u16) -> Terminal {
    let mut client = fleet.client();
    client.arg("local");
    Terminal::shell(client, cols, rows)
}

/// A round trip through the shell: whatever the client was told before has been dealt with.
fn sync(terminal: &mut Terminal, count: &mut u32) {
    *count += 1;
    terminal.type_in(format!("echo sync-$(({count}))-\n"));
    terminal.wait_for(&format!("sync-{count}-"));
}

/// The first size is the client's, the last valid one wins, zero is ignored, what no screen has is clamped, and none ends
/// anything.
#[test]
fn b002_no_size_ends_a_session_and_the_last_valid_one_wins() {
    let fleet = Fleet::serving();
    let mut terminal = shell(&fleet, 101, 37);
    terminal.type_in("stty size; echo first-$((1))\n");
    assert!(terminal.wait_for("first-1").contains("37 101"));
    let mut count = 0;
    // (columns, rows) of the local terminal, and what `stty size` says then: rows first.
    for ((cols, rows), said) in [
        ((0, 0), "37 101"),
        ((1, 1), "1 1"),
        ((0, 50), "1 1"),
        ((50, 0), "1 1"),
        ((u16::MAX, u16::MAX), "2048 2048"),
        ((0, 0), "2048 2048"),
        ((1, u16::MAX), "2048 1"),
        ((80, 24), "24 80"),
    ] {
        terminal.resize(cols, rows);
        sync(&mut terminal, &mut count);
        // A size is done on arrival, but may arrive behind the keys.
        let mut asked = 0;
        eventually(&format!("after {cols}x{rows} the size is {said}"), || {
            asked += 1;
            terminal.type_in(format!("echo asked-{count}-$(({asked}))-$(stty size)-\n"));
            terminal.wait_for(&format!("asked-{count}-{asked}-"));
            terminal.wait_for("-\r\n");
            terminal.shown().contains(&format!("asked-{count}-{asked}-{said}-"))
        });
    }
    // A thousand within a second.
    let begun = Instant::now();
    for n in 1..=1000 {
        terminal.resize(n, 1001 - n);
        std::thread::sleep(Duration::from_micros(500));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    terminal.resize(132, 43);
    eventually("the last size arrives", || {
        terminal.type_in("stty size\n");
        sync(&mut terminal, &mut count);
        terminal.shown().contains("43 132")
    });
    terminal.type_in("exit 4\n");
    // Also while the shell ends and after it has.
    for n in 1..200 {
        terminal.resize(n, n);
    }
    assert_eq!(terminal.wait().code(), Some(4));
}

/// A size that changes before the shell exists is the one that the shell finds, and a terminal that knows no size does
/// for a session.
#[test]
fn b002_sizes_before_the_shell_and_none_at_all() {
    let fleet = Fleet::serving();
    let mut client = fleet.client();
    client.arg("local");
    let mut early = Terminal::start(client, 90, 30);
    for n in 1..100 {
        early.resize(n, n);
    }
    early.resize(77, 33);
    early.quiet();
    eventually("the size from before the shell", || {
        early.type_in("stty size\n");
        early.shown().contains("33 77")
    });
    early.type_in("exit\n");
    assert_eq!(early.wait().code(), Some(0));

    // Also the very first look of a command sees the client's size.
    for ((cols, rows), said) in [((123, 45), "45 123"), ((0, 0), "24 80")] {
        let mut client = fleet.client();
        client.args(["-q", "-t", "local", "--", "stty", "size"]);
        let mut command = Terminal::start(client, cols, rows);
        assert_eq!(command.wait().code(), Some(0), "{}", command.shown());
        command.wait_for(&format!("{said}\r\n"));
    }
}

/// A paste of a mebibyte arrives whole while its echo comes back: by the terminal itself, by a program that blocks on
/// its echo, and in an editor.
#[test]
fn b001_a_large_paste_arrives_whole() {
    let fleet = Fleet::serving();
    let mut terminal = shell(&fleet, 80, 24);
    let paste = paste();
    let arrived = |name: &str| {
        let file = fleet.layout.root.join(name);
        assert!(
            std::fs::read_to_string(&file).unwrap_or_default() == paste,
            "{} differs from the paste",
            file.display()
        );
    };
    let file = |name: &str| fleet.layout.root.join(name).display().to_string();

    terminal.type_in(format!(
        "stty echo; cat > {}; stty -echo; echo cat-$((1))\n",
        file("cat")
    ));
    terminal.type_in(&paste);
    terminal.type_in("\x04");
    terminal.wait_for("cat-1");
    arrived("cat");

    // `tee` writes each piece to the terminal before it reads the next: if nobody drained it, it and the writer of its
    // input would wait for each other.
    let size = paste.len();
    terminal.type_in(format!(
        "stty raw; echo go-$((1)); head -c {size} | tee {}; stty sane -echo; echo raw-$((1))\n",
        file("raw")
    ));
    terminal.wait_for("go-1");
    terminal.type_in(&paste);
    terminal.wait_for("raw-1");
    arrived("raw");

    if fleet.run(&["vim", "--version"]).status.success() {
        terminal.type_in(format!(
            "TERM=xterm vim -u NONE -i NONE -n {}; echo vim-$((1))\n",
            file("vim")
        ));
        terminal.wait_for("[New");
        terminal.type_in("i");
        // The editor ends the last line itself.
        terminal.type_in(paste.trim_end());
        terminal.type_in("\x1b:wq\r");
        terminal.wait_for("vim-1");
        arrived("vim");
    } else {
        println!("no vim here: the terminal and tee alone");
    }
    terminal.type_in("exit 3\n");
    assert_eq!(terminal.wait().code(), Some(3), "keys work afterwards");
}

/// Keys work in the middle of a paste: an interrupt reaches a program that reads and echoes, and one that reads nothing.
#[test]
fn b001_keys_work_during_a_paste() {
    let fleet = Fleet::serving();
    let mut terminal = shell(&fleet, 80, 24);
    let paste = paste();
    let (first, rest) = paste.split_at(paste.len() / 2);
    let file = fleet.layout.root.join("rest");
    // The key ends the first `cat`; the second takes what is pasted behind it.
    terminal.type_in(format!(
        "stty echo; sh -c 'trap \"echo answer-\\$((1))\" INT; cat > /dev/null; cat > {}'; echo after-$((1))\n",
        file.display()
    ));
    terminal.type_in(format!("{first}\x03{rest}\x04"));
    let shown = terminal.wait_for("after-1");
    let answer = shown.find("answer-1").expect("the key was answered");
    assert!(
        shown[..answer].contains("cdef0123"),
        "the echo came back before the key"
    );
    assert!(shown[answer..].contains("cdef0123"), "the paste went on behind the key");
    let arrived = std::fs::read_to_string(&file).unwrap();
    assert!(
        !arrived.is_empty() && rest.ends_with(&arrived),
        "{} bytes",
        arrived.len()
    );
    // Nobody reads at all, and the terminal's own queues are full: what was pasted stands in the way of the key.
    let nap = format!("600.{}", std::process::id());
    terminal.type_in(format!("stty -echo; sleep {nap}\n"));
    eventually("the sleep runs", || {
        !processes_with(&format!("sleep\0{nap}")).is_empty()
    });
    terminal.type_in(&paste[..32 * 1024]);
    terminal.type_in("\x03");
    terminal.type_in("echo woken-$((1))\n");
    terminal.wait_for("woken-1");
    terminal.type_in("exit 6\n");
    assert_eq!(terminal.wait().code(), Some(6));
}

/// Ends the spinners, whatever happens.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The last line is there in 200 of 200 runs, with all cores busy.
#[test]
fn b010_the_last_line_is_always_shown() {
    const RUNS: usize = 200;
    let fleet = Fleet::serving();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let (stop, left, failed) = (AtomicBool::new(false), AtomicUsize::new(RUNS), AtomicUsize::new(0));
    let one = || {
        let output = fleet
            .client()
            .args(["-q", "-t", "local", "--", "seq", "1", "20000"])
            .bounded();
        let whole = String::from_utf8_lossy(&output.stdout).trim_end().ends_with("\n20000");
        if !whole || !output.status.success() {
            failed.fetch_add(1, Ordering::Relaxed);
            eprintln!(
                "{} bytes, {}, {}",
                output.stdout.len(),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        // Also when a run panics: the scope waits for the spinners.
        let _guard = Stop(&stop);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let took = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                    while took().is_ok() {
                        one();
                    }
                });
            }
        });
    });
    assert_eq!(failed.into_inner(), 0, "of {RUNS} runs");
}
