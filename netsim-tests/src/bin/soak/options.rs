//! The few words that the soak understands.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use noderelay_pki::text::Period;

/// What is asked for.
pub(crate) struct Options {
    /// How long there is load.
    pub(crate) load: Period,
    /// Between two samples.
    pub(crate) every: Duration,
    /// Agents that are attached and do nothing.
    pub(crate) idle: usize,
    /// The document whose section is replaced.
    pub(crate) report: Option<PathBuf>,
}

/// Less than this says nothing about what grows.
const SHORTEST: Duration = Duration::from_secs(20);

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options {
            load: Period::from_secs(3600),
            every: Duration::from_secs(5),
            idle: 200,
            report: None,
        };
        while let Some(word) = words.next() {
            let mut next = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--for" => options.load = Period::parse(&next()?)?,
                "--idle" => options.idle = next()?.parse().context("--idle needs a number")?,
                "--report" => options.report = Some(next()?.into()),
                other => bail!("unknown option {other}; known: --for TIME, --idle NUMBER, --report FILE"),
            }
        }
        let load = options.load.duration();
        if load < SHORTEST {
            bail!(
                "--for {} is too short to see anything grow; take at least {SHORTEST:?}",
                options.load
            );
        }
        // Enough samples to fit a line, also in a short run.
        options.every = options.every.min(load / 40);
        Ok(options)
    }
}

#[cfg(test)]
mod tests;
