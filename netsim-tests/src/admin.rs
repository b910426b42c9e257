//! Questions to the admin socket of a relay or an agent.
//!
//! Never waits: whoever expects another answer asks again.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The status and the body of an answer; panics where nobody answers.
pub fn ask(socket: &Path, what: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("the admin socket");
    let length = body.len();
    let head = format!("{what} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

/// The value of a metric's series.
pub fn value(socket: &Path, series: &str) -> Option<i64> {
    let (_, text) = ask(socket, "GET /metrics", "");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|number| number.parse().expect("a number"))
}
