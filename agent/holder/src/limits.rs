//! When a session ends by itself: deadline, idle limit, window. Pure: every call gets the time since boot.
//!
//! * **Deadline**: given in wall-clock time, turned into time since boot at once; a clock that jumps later moves nothing.
//! * **Idle** is judged on what a person does. With a terminal that is what the user sends: input and signals. Output alone
//!   (a clock, `tail -f`) does not count, or a forgotten terminal would stay open for ever. Without a terminal nobody types,
//!   so bytes in either direction count. Never count: acknowledgements, pings, resizes, a new path.
//! * **Window**: how long the session goes on with no agent to speak to.

use std::time::Duration;

use noderelay_proto::Code;
use noderelay_proto::control::{Notice, Start, Terms};

/// Warnings come this long before a scheduled end.
const WARNINGS: [Duration; 2] = [Duration::from_secs(300), Duration::from_secs(60)];

/// The limits of one session and what they are judged on.
#[derive(Debug)]
pub(crate) struct Limits {
    terminal: bool,
    window: Duration,
    deadline: Option<Duration>,
    idle: Option<Duration>,
    traffic_at: Duration,
    alone_since: Option<Duration>,
    /// The end that was warned of last, and how long before it.
    warned: Option<(Duration, Duration)>,
}

impl Limits {
    /// The limits in START. `unix` is the wall clock in seconds.
    pub(crate) fn new(start: &Start, now: Duration, unix: i64) -> Self {
        let mut limits = Self {
            terminal: start.terminal.is_some(),
            window: Duration::from_secs(start.window_secs.into()),
            deadline: None,
            idle: None,
            traffic_at: now,
            alone_since: None,
            warned: None,
        };
        limits.set(
            Terms {
                deadline_unix: start.deadline_unix,
                idle_secs: start.idle_secs,
            },
            now,
            unix,
        );
        limits
    }

    /// Replaces deadline and idle limit.
    pub(crate) fn set(&mut self, terms: Terms, now: Duration, unix: i64) {
        self.deadline = terms.deadline_unix.map(|at| {
            let left = at.saturating_sub(unix).try_into().unwrap_or(0);
            now.saturating_add(Duration::from_secs(left))
        });
        self.idle = terms.idle_secs.map(|secs| Duration::from_secs(secs.into()));
        self.warned = None;
    }

    /// The user sent something.
    pub(crate) fn user_acted(&mut self, now: Duration) {
        self.traffic_at = now;
    }

    /// The command wrote something.
    pub(crate) fn command_wrote(&mut self, now: Duration) {
        if !self.terminal {
            self.traffic_at = now;
        }
    }

    /// There is an agent, or there is none any more.
    pub(crate) fn accompanied(&mut self, by_an_agent: bool, now: Duration) {
        if by_an_agent {
            self.alone_since = None;
        } else {
            self.alone_since.get_or_insert(now);
        }
    }

    /// Whether nobody is there: the window runs.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone_since.is_some()
    }

    /// Somebody takes what is left after the end: the window in which it is kept begins anew.
    pub(crate) fn tail_taken(&mut self, finished: bool, now: Duration) {
        if finished {
            self.alone_since = Some(now);
        }
    }

    /// Why the session is over, if it is.
    pub(crate) fn over(&self, now: Duration) -> Option<(Code, String)> {
        let past = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        if past(self.deadline) {
            return Some((Code::SessionDeadline, "the session's time is over".into()));
        }
        if past(self.idle_end()) {
            let idle = self.idle.unwrap_or_default().as_secs();
            let what = if self.terminal {
                "no input"
            } else {
                "no input and no output"
            };
            return Some((Code::SessionIdle, format!("{what} for {idle} s")));
        }
        past(self.window_end()).then(|| {
            (
                Code::SessionWindow,
                format!("nobody came back for {} s", self.window.as_secs()),
            )
        })
    }

    /// Whether the window without an agent is over: what is left after the command's end is kept no longer than this.
    pub(crate) fn window_over(&self, now: Duration) -> bool {
        self.window_end().is_some_and(|at| now >= at)
    }

    /// A warning that is due, each once for each end.
    pub(crate) fn warning(&mut self, now: Duration) -> Option<Notice> {
        let (code, end) = self.scheduled()?;
        let left = end.checked_sub(now)?;
        let before = WARNINGS.into_iter().rev().find(|before| left <= *before)?;
        if self.warned.is_some_and(|(at, earlier)| at == end && earlier <= before) {
            return None;
        }
        self.warned = Some((end, before));
        let seconds_left = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
        Some(Notice {
            code: code.number(),
            seconds_left,
            seen: String::new(),
        })
    }

    /// When to look again.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let warnings = self
            .scheduled()
            .into_iter()
            .flat_map(|(_, end)| WARNINGS.map(|before| end.saturating_sub(before)));
        let ends = [self.deadline, self.idle_end(), self.window_end()]
            .into_iter()
            .flatten();
        warnings.filter(|at| *at > now).chain(ends).min()
    }

    fn scheduled(&self) -> Option<(Code, Duration)> {
        let deadline = self.deadline.map(|at| (Code::SessionDeadline, at));
        // A short idle limit needs no warning of five minutes, and one of a minute only if it is much longer than that.
        let idle = self
            .idle_end()
            .filter(|_| self.idle > WARNINGS.first().copied())
            .map(|at| (Code::SessionIdle, at));
        deadline.into_iter().chain(idle).min_by_key(|(_, at)| *at)
    }

    fn idle_end(&self) -> Option<Duration> {
        self.idle.map(|idle| self.traffic_at.saturating_add(idle))
    }

    /// When the window without an agent is over.
    pub(crate) fn window_end(&self) -> Option<Duration> {
        self.alone_since.map(|since| since.saturating_add(self.window))
    }
}

#[cfg(test)]
mod tests;
