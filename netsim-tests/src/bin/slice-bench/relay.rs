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

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::runtime::Runtime;

use crate::options::Options;
use crate::report::{Frames, Report};

pub(crate) use plain::serve as serve_plain;

/// What it costs the relay to carry bytes.
pub(crate) fn measure(options: &Options, frames: Frames, folder: &Path, report: &mut Report) -> Result<()> {
    runtime()?.block_on(async {
        let plain = plain::Plain::start().await.context("the bare relay does not start")?;
        let ours = relay(options, &folder.join("bulk")).await?;
        bulk::measure(&ours, &plain, frames, &options.rounds, report).await
    })
}

/// What agents cost that are attached and do nothing, at a relay that has done nothing else.
pub(crate) fn idle_agents(options: &Options, folder: &Path, report: &mut Report) -> Result<()> {
    runtime()?.block_on(async {
        let ours = relay(options, &folder.join("idle")).await?;
        idle::measure(&ours, &options.rounds, report).await
    })
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")
}

async fn relay(options: &Options, folder: &Path) -> Result<ours::Ours> {
    std::fs::create_dir(folder)?;
    let started = ours::Ours::start(&options.binaries, folder).await;
    started.context("the relay does not start")
}
