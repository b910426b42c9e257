//! What the two ends do with a stream, whichever relay is between them.
//!
//! ```text
//! client: 'u', bytes …, end ──> node: counts, answers one byte, end
//! client: 'd', length (8 bytes) ──> node: that many bytes, end
//! ```

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What is written at once.
const PIECE: usize = 64 * 1024;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToNode,
    ToClient,
}

/// The client's end: returns when the other side has, or has sent, everything.
pub(crate) async fn client<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, way: Way, total: u64) -> Result<()> {
    match way {
        Way::ToNode => {
            stream.write_all(b"u").await?;
            send(&mut stream, total).await?;
            stream.shutdown().await?;
            let mut answer = Vec::new();
            (&mut stream).take(2).read_to_end(&mut answer).await?;
            if answer != total.to_be_bytes()[..1] {
                bail!("the node did not count {total} bytes: {answer:?}");
            }
        }
        Way::ToClient => {
            stream.write_all(b"d").await?;
            stream.write_all(&total.to_be_bytes()).await?;
            stream.shutdown().await?;
            let seen = drain(&mut stream).await?;
            if seen != total {
                bail!("{seen} bytes arrived instead of {total}");
            }
        }
    }
    Ok(())
}

/// The node's end.
pub(crate) async fn node<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Result<()> {
    let mut way = [0];
    stream.read_exact(&mut way).await.context("no word from the client")?;
    match &way {
        b"u" => {
            let seen = drain(&mut stream).await?;
            stream.write_all(&seen.to_be_bytes()[..1]).await?;
        }
        b"d" => send_asked(&mut stream).await?,
        other => bail!("unknown word {other:?}"),
    }
    stream.shutdown().await?;
    Ok(())
}

async fn send_asked<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<()> {
    let mut total = [0; 8];
    stream.read_exact(&mut total).await?;
    send(stream, u64::from_be_bytes(total)).await
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, total: u64) -> Result<()> {
    let piece = Bytes::from(vec![7; PIECE]);
    let mut left = total;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        stream.write_all(piece.get(..length).unwrap_or_default()).await?;
        left -= length as u64;
    }
    Ok(())
}

async fn drain<S: AsyncRead + Unpin>(stream: &mut S) -> Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut seen = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(seen),
            length => seen += length as u64,
        }
    }
}
