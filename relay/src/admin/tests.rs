//! The admin socket, asked over real sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;

struct Fixed(Vec<Part>);

impl Report for Fixed {
    fn parts(&self) -> Vec<Part> {
        self.0.clone()
    }
    fn metrics(&self) -> String {
        "noderelay_relay_streams_open 0\n".into()
    }
    fn agents(&self) -> Vec<AgentRow> {
        vec![AgentRow {
            cluster: "demo".into(),
            node: "local".into(),
            instance: "00".into(),
            address: "127.0.0.1:1".into(),
            since: Timestamp::UNIX_EPOCH,
            parked: true,
        }]
    }
}

async fn ask(path: &Path, what: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let request = format!("GET {what} HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
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
    let serving = tokio::spawn(admin.serve(Arc::new(Fixed(parts)), stop.clone()));
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
    let agents = ask(&path, "/agents").await;
    assert!(
        agents.contains("\"parked\": true") && agents.contains("1970-01-01T00:00:00Z"),
        "{agents}"
    );
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
