//! The local side of a session: which terminals take part, and what is made of this process's descriptors.

use std::os::fd::{AsFd, OwnedFd};

use super::SessionOptions;
use crate::config::Config;
use crate::escape::Keys;
use crate::modes::{Modes, Tracker};
use crate::pump::Local;
use crate::screen::Screen;
use crate::signals::Signals;
use crate::stdio::{Input, Output};
use crate::terminal::{self, Raw, Size, is_terminal};

/// Which ends of a session are terminals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminals {
    /// Our standard input is one.
    stdin: bool,
    /// The remote command gets one.
    pub(super) remote: bool,
}

impl Terminals {
    /// As the options say, and as standard input is.
    pub(super) fn of(options: &SessionOptions) -> Self {
        let stdin = is_terminal(std::io::stdin());
        Self {
            stdin,
            remote: options.terminal.decide(&options.work, stdin),
        }
    }

    /// The size that a remote terminal begins with.
    pub(super) fn size() -> Option<Size> {
        local_terminal().as_ref().and_then(terminal::size)
    }

    /// Takes what the session needs of this process. Keys are only then keys when a terminal is at both ends.
    pub(super) fn local(self, config: &Config, signals: Signals, quiet: bool) -> std::io::Result<Local> {
        let modes = Modes::default();
        let interactive = self.remote && self.stdin;
        let raw = if interactive {
            Some(Raw::enter(std::io::stdin(), modes.clone())?)
        } else {
            None
        };
        let tracker = (interactive && is_terminal(std::io::stdout())).then(|| Tracker::new(modes));
        Ok(Local {
            input: Input::stdin()?,
            screen: Screen::new(Output::stdout()?, Output::stderr()?, tracker),
            signals,
            keys: Keys::new(config.escape.filter(|_| interactive)),
            raw,
            window: if self.remote { local_terminal() } else { None },
            terminal: self.remote,
            quiet,
        })
    }
}

/// The terminal whose size counts: standard input, else output, else error.
fn local_terminal() -> Option<OwnedFd> {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    all.into_iter()
        .find(|descriptor| is_terminal(descriptor))?
        .try_clone_to_owned()
        .ok()
}
