//! The log of a service: lines on stderr behind a thread of their own, and a filter that can be changed for a while.
//!
//! ```text
//! begun with ── change(filter, for) ──> changed ── time is over, or restore ──> begun with
//! ```
//!
//! Whoever looks for a fault wants more lines now, and must not have to remember to want fewer later: a change ends by itself. What
//! a program always writes (`always`: evidence) no filter takes away.
//!
//! It never holds up the program, and shows nothing that acts on a terminal.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use noderelay_pki::text::{Background, LogLines};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Longest time for which a filter may be changed.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For collectors: one JSON object a line.
    Json,
}

/// Why there is no log, or no other filter.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Whoever wrote it has to mend it.
    #[error(
        "the filter {filter:?} cannot be used: {cause}; write a level, or a filter such as info,noderelay_relay=debug"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// What the parser said.
        cause: ParseError,
    },
    /// The system gives no thread.
    #[error("no thread for the log: {0}")]
    Thread(#[from] std::io::Error),
    /// The process has a log already.
    #[error("the log cannot be set up: {0}")]
    Twice(String),
}

/// There is one log in a process, as there is one standard error.
static CURRENT: OnceLock<Log> = OnceLock::new();

/// The log of this process, once it was begun.
pub fn current() -> Option<&'static Log> {
    CURRENT.get()
}

type Apply = dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync;

/// The log of this process.
#[derive(Clone)]
pub struct Log {
    out: Background,
    shared: Arc<Shared>,
}

struct Shared {
    apply: Box<Apply>,
    always: Option<&'static str>,
    begun_with: String,
    /// The filter in force, and how often it was changed.
    now: Mutex<(String, u64)>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("filter", &self.filter())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Begins it, with a filter, beside which the directive `always` counts whatever the filter says.
    ///
    /// # Errors
    /// The filter cannot be used, the system gives no thread, or there is a log already.
    pub fn begin(format: LogFormat, filter: &str, always: Option<&'static str>) -> Result<&'static Self, LogError> {
        let parsed = parse(filter, always)?;
        let out = Background::new(std::io::stderr())?;
        let to = out.clone();
        // No colours: nothing in a line may act on the terminal that shows it.
        let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_ansi(false);
        let twice = |error: Box<dyn std::error::Error + Send + Sync>| LogError::Twice(error.to_string());
        let apply: Box<Apply> = match format {
            LogFormat::Text => {
                let lines = lines
                    .with_writer(move || LogLines::text(to.clone()))
                    .with_filter_reloading();
                let handle = lines.reload_handle();
                lines.try_init().map_err(twice)?;
                Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
            }
            LogFormat::Json => {
                let lines = lines.json().flatten_event(true);
                let lines = lines
                    .with_writer(move || LogLines::json(to.clone()))
                    .with_filter_reloading();
                let handle = lines.reload_handle();
                lines.try_init().map_err(twice)?;
                Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
            }
        };
        Ok(CURRENT.get_or_init(|| Self {
            out,
            shared: Arc::new(Shared {
                apply,
                always,
                begun_with: filter.to_owned(),
                now: Mutex::new((filter.to_owned(), 0)),
            }),
        }))
    }

    /// The filter in force.
    pub fn filter(&self) -> String {
        self.shared.now.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Puts another filter in force, until `span` is over, the next change, or [`Log::restore`].
    ///
    /// # Errors
    /// The filter cannot be used; nothing changes then.
    pub fn change(&self, filter: &str, span: Duration) -> Result<(), LogError> {
        let number = self.put(filter)?;
        let log = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(span).await;
            let newest = log.shared.now.lock().unwrap_or_else(PoisonError::into_inner).1;
            if newest == number {
                log.restore();
            }
        });
        Ok(())
    }

    /// Puts the filter in force that the log was begun with.
    pub fn restore(&self) {
        // It was in force before.
        let _ = self.put(&self.shared.begun_with);
    }

    fn put(&self, filter: &str) -> Result<u64, LogError> {
        let parsed = parse(filter, self.shared.always)?;
        let mut now = self.shared.now.lock().unwrap_or_else(PoisonError::into_inner);
        // Said before and after: one of both filters shows it.
        let before = std::mem::replace(&mut now.0, filter.to_owned());
        tracing::warn!(%before, after = filter, "the log's filter changes");
        (self.shared.apply)(parsed).map_err(LogError::Twice)?;
        tracing::warn!(%before, after = filter, "the log's filter has changed");
        now.1 += 1;
        Ok(now.1)
    }

    /// For the end of the process: what was said is out, or its reader stands still.
    pub fn finish(&self) {
        self.out.finish();
    }
}

fn parse(filter: &str, always: Option<&str>) -> Result<EnvFilter, LogError> {
    let failed = |cause| LogError::Filter {
        filter: filter.to_owned(),
        cause,
    };
    let mut parsed = EnvFilter::builder().parse(filter).map_err(failed)?;
    if let Some(always) = always {
        parsed = parsed.add_directive(always.parse().map_err(failed)?);
    }
    Ok(parsed)
}
