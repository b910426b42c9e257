//! The admin socket, asked over real sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::log::LogFormat;

struct Fixed(Vec<Part>);

impl Report for Fixed {
    fn parts(&self) -> Vec<Part> {
        self.0.clone()
    }
    fn metrics(&self) -> String {
        "noderelay_relay_streams_open 0\n".into()
    }
}

async fn ask(path: &Path, what: &str) -> String {
    say(path, &format!("GET {what}"), "").await
}

async fn say(path: &Path, what: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let length = body.len();
    let head = format!("{what} HTTP/1.1\r\nhost: relay\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn answers_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    // A socket that a dead process left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let stop = CancellationToken::new();
    let admin = Admin::bind(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let parts = vec![
        Part {
            name: "listener",
            trouble: None,
        },
        Part {
            name: "bundle",
            trouble: Some("no publication".into()),
        },
    ];
    let more = Router::new().route("/more", get(|| async { "of its own" }));
    let serving = tokio::spawn(admin.serve(Arc::new(Fixed(parts)), more, stop.clone()));
    assert!(ask(&path, "/healthz").await.starts_with("HTTP/1.1 200"));
    let ready = ask(&path, "/readyz").await;
    assert!(
        ready.starts_with("HTTP/1.1 503") && ready.ends_with("listener: ok\nbundle: no publication\n"),
        "{ready}"
    );
    let metrics = ask(&path, "/metrics").await;
    assert!(
        metrics.contains("text/plain; version=0.0.4") && metrics.contains("streams_open 0"),
        "{metrics}"
    );
    assert!(ask(&path, "/more").await.ends_with("of its own"));
    assert!(ask(&path, "/shutdown").await.starts_with("HTTP/1.1 404"));
    assert!(matches!(Admin::bind(&path), Err(AdminError::InUse(_))));
    // A scraper that says nothing does not hold the end up.
    let _silent = UnixStream::connect(&path).await.unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_in_its_place_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(Admin::bind(&path), Err(AdminError::NotASocket(_))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

/// A log that takes what is written to it.
fn begun() -> &'static Log {
    Log::begin(LogFormat::Json, "warn", Some("audit")).unwrap()
}

#[tokio::test]
async fn the_filter_of_the_log_is_changed_for_a_while_and_evidence_stays() {
    let log = begun();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let admin = Admin::bind(&path).unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(admin.serve(Arc::new(Fixed(Vec::new())), Router::new(), stop.clone()));
    let seen = || {
        (
            tracing::enabled!(tracing::Level::DEBUG),
            tracing::enabled!(target: "audit", tracing::Level::INFO, event),
        )
    };
    assert_eq!(seen(), (false, true));
    assert!(ask(&path, "/log").await.ends_with("\r\n\r\nwarn\n"));
    for filter in [
        "debug,audit[{event}]=off",
        "debug,audit[{message}]=off",
        "debug,audit=off",
    ] {
        let changed = say(&path, "PUT /log?for=1h", &format!("{filter}\n")).await;
        assert!(
            changed.starts_with("HTTP/1.1 200") && changed.ends_with(&format!("{filter}\n")),
            "{changed}"
        );
        assert_eq!(seen(), (true, true), "no filter takes evidence away");
    }

    for (what, body, part) in [
        ("PUT /log", "debug=\u{1b}[31m=x", "cannot be used"),
        ("PUT /log?for=1", "debug", "not a duration"),
        ("PUT /log?for=0s", "debug", "up to 24h"),
        ("PUT /log?for=25h", "debug", "up to 24h"),
        ("PUT /log?until=1h", "debug", "not understood"),
    ] {
        let refused = say(&path, what, body).await;
        assert!(
            refused.starts_with("HTTP/1.1 400") && refused.contains(part),
            "{what}: {refused}"
        );
        assert!(!refused.contains('\u{1b}'), "{refused:?}");
    }
    let long = say(&path, "PUT /log", &"x".repeat(MAX_FILTER + 1)).await;
    assert!(long.starts_with("HTTP/1.1 413"), "{long}");
    assert_eq!(log.filter(), "debug,audit=off", "what was refused changed nothing");

    assert!(say(&path, "DELETE /log", "").await.ends_with("\r\n\r\nwarn\n"));
    assert_eq!(seen(), (false, true));

    // It ends by itself; a change that was replaced ends nothing.
    log.change("debug", Duration::from_millis(1)).unwrap();
    log.change("info", Duration::from_secs(3600)).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(log.filter(), "info");
    log.change("trace", Duration::from_millis(1)).unwrap();
    while log.filter() != "warn" {
        tokio::task::yield_now().await;
    }
    stop.cancel();
}
