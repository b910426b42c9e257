//! The log of a service: lines on stderr behind a thread of their own, and a filter that can be changed for a while.
//!
//! ```text
//! begun with ── change(filter, for) ──> changed ── time is over, or restore ──> begun with
//! ```
//!
//! Whoever looks for a fault wants more lines now, and must not have to remember to want fewer later: a change ends by itself. What
//! a program always writes (evidence, by its target) goes past the filter, so none takes it away or adds to it.
//!
//! It never holds up the program, and shows nothing that acts on a terminal.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use noderelay_pki::text::{Background, LogLines};
use tokio_util::task::AbortOnDropHandle;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, ParseError, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as lines, reload};

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
    /// A filter with characters that no target or level has.
    #[error(
        "the filter {0:?} cannot be used: it is not ASCII; write a level, or a filter such as info,noderelay_relay=debug"
    )]
    NotAscii(String),
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

type Written = Box<dyn Layer<Registry> + Send + Sync>;

/// The log of this process.
#[derive(Clone)]
pub struct Log {
    out: Background,
    shared: Arc<Shared>,
}

struct Shared {
    handle: reload::Handle<EnvFilter, Registry>,
    begun_with: String,
    now: Mutex<InForce>,
}

#[derive(Default)]
struct InForce {
    filter: String,
    /// How often it was changed.
    number: u64,
    /// Ends it.
    ends: Option<AbortOnDropHandle<()>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("filter", &self.filter())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Begins it, with a filter. What has the target `evidence` is written from level INFO on, whatever the filter says.
    ///
    /// # Errors
    /// The filter cannot be used, the system gives no thread, or there is a log already.
    pub fn begin(
        format: LogFormat,
        filter_text: &str,
        evidence: Option<&'static str>,
    ) -> Result<&'static Self, LogError> {
        let parsed = parse(filter_text)?;
        let out = Background::new(std::io::stderr(), format == LogFormat::Json)?;
        let (filter, handle) = reload::Layer::new(parsed);
        let filter = filter.and(filter_fn(move |about| evidence != Some(about.target())));
        let mut layers = vec![written(format, &out).with_filter(filter).boxed()];
        if let Some(evidence) = evidence {
            let filter = Targets::new().with_target(evidence, LevelFilter::INFO);
            layers.push(written(format, &out).with_filter(filter).boxed());
        }
        let begun = tracing_subscriber::registry().with(layers).try_init();
        begun.map_err(|error| LogError::Twice(error.to_string()))?;
        let now = InForce {
            filter: filter_text.to_owned(),
            ..InForce::default()
        };
        Ok(CURRENT.get_or_init(|| Self {
            out,
            shared: Arc::new(Shared {
                handle,
                begun_with: filter_text.to_owned(),
                now: Mutex::new(now),
            }),
        }))
    }

    /// The filter in force.
    pub fn filter(&self) -> String {
        self.now().filter.clone()
    }

    /// Puts another filter in force, until `span` is over, the next change, or [`Log::restore`].
    ///
    /// # Errors
    /// The filter cannot be used; nothing changes then.
    pub fn change(&self, filter: &str, span: Duration) -> Result<(), LogError> {
        let parsed = parse(filter)?;
        let mut now = self.now();
        self.put(&mut now, filter, parsed)?;
        let (log, number) = (self.clone(), now.number);
        now.ends = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(span).await;
            log.restore_if(|now| now.number == number);
        })));
        Ok(())
    }

    /// Puts the filter in force that the log was begun with.
    pub fn restore(&self) {
        self.restore_if(|_| true);
    }

    fn restore_if(&self, wanted: impl FnOnce(&InForce) -> bool) {
        let mut now = self.now();
        if wanted(&now)
            && let Ok(parsed) = parse(&self.shared.begun_with)
        {
            // It was in force before.
            let _ = self.put(&mut now, &self.shared.begun_with, parsed);
        }
    }

    fn put(&self, now: &mut InForce, filter: &str, parsed: EnvFilter) -> Result<(), LogError> {
        let before = now.filter.clone();
        // Said before and after: one of both filters shows it.
        tracing::warn!(%before, after = filter, "the log's filter changes");
        let put = self.shared.handle.reload(parsed);
        put.map_err(|error| LogError::Twice(error.to_string()))?;
        tracing::warn!(%before, after = filter, "the log's filter has changed");
        *now = InForce {
            filter: filter.to_owned(),
            number: now.number + 1,
            ends: None,
        };
        Ok(())
    }

    fn now(&self) -> MutexGuard<'_, InForce> {
        self.shared.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the end of the process: what was said is out, or its reader stands still.
    pub fn finish(&self) {
        self.out.finish();
    }
}

/// No colours: nothing in a line may act on the terminal that shows it.
fn written(format: LogFormat, out: &Background) -> Written {
    let (lines, out) = (lines::layer().with_ansi(false), out.clone());
    match format {
        LogFormat::Text => lines.with_writer(move || LogLines::behind(out.clone())).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines.with_writer(move || LogLines::behind(out.clone())).boxed()
        }
    }
}

pub(crate) fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    // The parser cuts text by the places of characters before it trimmed, and panics when it hits the middle of one. No target has any.
    if !filter.is_ascii() {
        return Err(LogError::NotAscii(filter.to_owned()));
    }
    EnvFilter::builder().parse(filter).map_err(|cause| LogError::Filter {
        filter: filter.to_owned(),
        cause,
    })
}
