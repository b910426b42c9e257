//! The local terminal: raw while a session runs, and as it was afterwards in every case that can be caught.
//!
//! [`Raw::enter`] saves the attributes, switches to raw and registers what was saved. It is put back exactly once by
//! whichever comes first: [`Raw`] going out of scope (end, refusal, lost path, a signal that ends the session), or the
//! panic hook, which also runs when panics abort. Putting back means: attributes, the modes that the remote program
//! left on ([`crate::modes`]), and unread input thrown away, so that late keys and mouse reports are not typed into the
//! local shell.
//!
//! It never waits for a terminal that takes no output, never touches one that belongs to another job (a background
//! process would be stopped), and never changes file status flags, which the local shell shares.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, FlushArg, SetArg, SpecialCharacterIndices, Termios};
use nix::unistd::{getpgrp, isatty, tcgetpgrp};

use crate::modes::Modes;

#[cfg(test)]
mod tests;

/// How long restoring waits for a terminal to take the reset bytes.
const RESET_WAIT_MS: u16 = 200;

/// What has to be put back. One terminal per process is all there is.
static SAVED: Mutex<Option<Saved>> = Mutex::new(None);
static HOOK: Once = Once::new();

struct Saved {
    terminal: OwnedFd,
    attributes: Termios,
    modes: Modes,
}

/// A terminal in raw mode; put back when it goes out of scope.
#[derive(Debug)]
pub struct Raw {
    modes: Modes,
    owed: AtomicBool,
}

impl Raw {
    /// Switches `terminal` to raw mode. `modes` is where the output tracker notes what the remote program switches on.
    ///
    /// # Errors
    /// The terminal refuses its attributes, or another guard is alive.
    pub fn enter(terminal: impl AsFd, modes: Modes) -> std::io::Result<Self> {
        HOOK.call_once(|| {
            let earlier = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                earlier(info);
            }));
        });
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        let attributes = termios::tcgetattr(&terminal)?;
        let mut saved = lock();
        if saved.is_some() {
            return Err(std::io::Error::other(
                "the terminal is already in use by a session of this process",
            ));
        }
        set(&terminal, &raw(&attributes))?;
        *saved = Some(Saved {
            terminal,
            attributes,
            modes: modes.clone(),
        });
        Ok(Self {
            modes,
            owed: AtomicBool::new(false),
        })
    }

    /// The process was stopped and continued: the local shell has set its own mode meanwhile. Continued in the background it gets
    /// the terminal later, and nothing tells it so: see [`Self::owed`].
    pub fn again(&self) {
        self.owed.store(true, Ordering::Relaxed);
    }

    /// Raw mode once more, if it is owed and the terminal is ours by now; whether it is still owed. To be asked now and then.
    pub fn owed(&self) -> bool {
        if self.owed.load(Ordering::Relaxed)
            && let Some(saved) = lock().as_ref()
            && foreground(&saved.terminal)
        {
            // A terminal that refuses its attributes is asked again.
            let refused = set(&saved.terminal, &raw(&saved.attributes)).is_err();
            self.owed.store(refused, Ordering::Relaxed);
        }
        self.owed.load(Ordering::Relaxed)
    }

    /// The flags of this terminal.
    pub fn modes(&self) -> &Modes {
        &self.modes
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back if a session holds it. May be called from anywhere, any number of times.
pub fn restore() {
    // A lock that is held here belongs to a thread that is itself entering or restoring.
    let saved = match SAVED.try_lock() {
        Ok(mut saved) => saved.take(),
        Err(std::sync::TryLockError::Poisoned(saved)) => saved.into_inner().take(),
        Err(std::sync::TryLockError::WouldBlock) => None,
    };
    let Some(Saved {
        terminal,
        attributes,
        modes,
    }) = saved
    else {
        return;
    };
    if !foreground(&terminal) {
        return;
    }
    let reset = modes.reset();
    if !reset.is_empty() && takes_output(&terminal) {
        let mut terminal = File::from(match terminal.try_clone() {
            Ok(copy) => copy,
            Err(_) => return finish(&terminal, &attributes),
        });
        // A terminal that went away needs no reset.
        let _ = terminal.write_all(&reset);
    }
    finish(&terminal, &attributes);
}

/// Whether this descriptor is a terminal.
pub fn is_terminal(descriptor: impl AsFd) -> bool {
    isatty(descriptor).unwrap_or(false)
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Width in pixels, 0 where unknown.
    pub xpixel: u16,
    /// Height in pixels, 0 where unknown.
    pub ypixel: u16,
}

/// The size of `terminal`, if it is one and knows (a size of 0×0 means that it does not).
pub fn size(terminal: impl AsFd) -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size {
        cols: size.ws_col,
        rows: size.ws_row,
        xpixel: size.ws_xpixel,
        ypixel: size.ws_ypixel,
    })
}

fn finish(terminal: &OwnedFd, attributes: &Termios) {
    // What was typed for the node must not be read by the local shell.
    let _ = termios::tcflush(terminal, FlushArg::TCIFLUSH);
    // At once, not after the output drained: a terminal that takes no output would hold us.
    let _ = set(terminal, attributes);
}

fn set(terminal: &OwnedFd, attributes: &Termios) -> nix::Result<()> {
    loop {
        match termios::tcsetattr(terminal, SetArg::TCSANOW, attributes) {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other,
        }
    }
}

fn raw(attributes: &Termios) -> Termios {
    let mut raw = attributes.clone();
    termios::cfmakeraw(&mut raw);
    for (index, value) in [(SpecialCharacterIndices::VMIN, 1), (SpecialCharacterIndices::VTIME, 0)] {
        if let Some(character) = raw.control_chars.get_mut(index as usize) {
            *character = value;
        }
    }
    raw
}

/// Whether changing this terminal would not stop us: it is ours, or not a controlling terminal at all.
fn foreground(terminal: &OwnedFd) -> bool {
    tcgetpgrp(terminal).map_or(true, |group| group == getpgrp())
}

fn takes_output(terminal: &OwnedFd) -> bool {
    let mut wanted = [PollFd::new(terminal.as_fd(), PollFlags::POLLOUT)];
    matches!(poll(&mut wanted, PollTimeout::from(RESET_WAIT_MS)), Ok(1..))
}

fn lock() -> MutexGuard<'static, Option<Saved>> {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}
