//! Speed of one holder alone. The bounds are loose, for a machine that does other things too; the figures are printed
//! (`cargo test --release -p noderelay-holder --test speed -- --nocapture`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use common::{Session, run, start, start_terminal};
use tokio::time::Instant;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test]
async fn from_start_to_the_running_command_and_to_its_end() {
    for (name, start) in [("pipes", start(&["true"])), ("terminal", start_terminal(&["true"]))] {
        let (mut started, mut ended) = (vec![], vec![]);
        for _ in 0..30 {
            let mut session = Session::begin(start.clone()).await;
            started.push(session.started_after);
            let began = Instant::now();
            session.end().await;
            ended.push(began.elapsed());
        }
        let (fastest, started, ended) = (*started.iter().min().unwrap(), median(started), median(ended));
        eprintln!("{name}: the command runs after {started:?} (at best {fastest:?}); its end is known {ended:?} later");
        assert!(started + ended < Duration::from_millis(250), "{started:?} {ended:?}");
    }
}

#[tokio::test]
async fn bulk_output_and_echo() {
    let began = Instant::now();
    let session = run(start(&["head", "-c", "209715200", "/dev/zero"]), b"").await;
    assert_eq!(session.out.len(), 209_715_200);
    let rate = 200.0 / began.elapsed().as_secs_f64();
    eprintln!("pipes: {rate:.0} MiB/s");
    assert!(rate > 20.0);

    let began = Instant::now();
    let session = run(
        start_terminal(&[
            "sh",
            "-c",
            "yes 0123456789012345678901234567890123456789 | head -c 20000000",
        ]),
        b"",
    )
    .await;
    let rate = session.out.len() as f64 / 1048576.0 / began.elapsed().as_secs_f64();
    eprintln!("terminal: {rate:.0} MiB/s");
    assert!(rate > 1.0);

    let mut session = Session::begin(start_terminal(&["sh", "-c", "stty raw -echo; echo on; cat"])).await;
    session.until("on", |session| session.text().contains("on")).await;
    session.out.clear();
    let mut times = vec![];
    for count in 1..=300 {
        let began = Instant::now();
        session.keys(b"x");
        session.until("its echo", |session| session.out.len() == count).await;
        times.push(began.elapsed());
    }
    let echo = median(times);
    eprintln!("one key and its echo: {echo:?}");
    assert!(echo < Duration::from_millis(50));
}

#[tokio::test]
async fn an_idle_session_is_small() {
    let mut session = Session::begin(start_terminal(&["sh", "-c", "echo on; cat"])).await;
    session.until("on", |session| session.text().contains("on")).await;
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", session.holder.pid.unwrap())).unwrap();
    let kib = |name: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let own = kib("Private_Dirty:") + kib("Private_Clean:");
    eprintln!(
        "idle holder: {} KiB of its share (PSS), {own} KiB of its own, {} KiB anonymous",
        kib("Pss:"),
        kib("Anonymous:")
    );
    assert!(kib("Anonymous:") < 4096);
}
