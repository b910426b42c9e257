//! The relay under load, beside a bare relay of QUIC streams: quinn with its defaults, two legs, and a loop that copies.
//!
//! ```text
//! this process ── client's connection ──> relay (a process of its own, watched from outside) ──> this process, as the node
//! ```
//!
//! What a byte costs is read from the kernel's account of the relay's threads, so that the two ends, which live in this
//! process, don't count.

mod bulk;
mod ends;
mod idle;
mod ours;
mod plain;
mod seen;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::options::Options;
use crate::report::{Frames, Report};

pub(crate) use plain::serve as serve_plain;

/// Everything about the relay.
pub(crate) fn measure(options: &Options, frames: Frames, folder: &Path, report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    runtime.block_on(async {
        let plain = plain::Plain::start().await.context("the bare relay does not start")?;
        let ours = ours::Ours::start(&options.binaries, folder)
            .await
            .context("the relay does not start")?;
        if options.wants("bulk") {
            bulk::measure(&ours, &plain, frames, &options.rounds, report).await?;
        }
        if frames == Frames::Usual && options.wants("idle") {
            idle::measure(&ours, &options.rounds, report).await?;
        }
        Ok(())
    })
}
