//! Pseudo-terminals: opening a pair, its size, who is in front, which key ends the input.
//!
//! The master is never inherited by anyone (B015): it is opened close-on-exec and non-blocking. Reading and writing it is
//! the holder's business.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::libc;
use nix::sys::termios::{self, InputFlags, LocalFlags, SetArg, SpecialCharacterIndices};

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Width in pixels, 0 if unknown.
    pub xpixel: u16,
    /// Height in pixels, 0 if unknown.
    pub ypixel: u16,
}

impl Size {
    /// What a terminal has whose real size is not known.
    pub const USUAL: Self = Self {
        cols: 80,
        rows: 24,
        xpixel: 0,
        ypixel: 0,
    };
    /// Most columns or rows: programs allocate a cell for each place on the screen, so a size that no screen has would be
    /// a way to fill the node's memory.
    pub const MAX: u16 = 2048;

    /// The size to set for what a client says: nothing for a zero side, and at most [`Size::MAX`] each way.
    pub fn usable(self) -> Option<Self> {
        (self.cols > 0 && self.rows > 0).then_some(Self {
            cols: self.cols.min(Self::MAX),
            rows: self.rows.min(Self::MAX),
            ..self
        })
    }
}

/// Our side of a pty.
#[derive(Debug)]
pub struct Master(File);

/// How the terminal takes the end of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndKey {
    /// The byte of the key (usually Ctrl-D).
    pub byte: u8,
    /// Whether the terminal gathers lines: then the key ends the input only at the start of one.
    pub lines: bool,
}

/// Opens a pty of this size. The second is the terminal side.
pub fn open(size: Size) -> io::Result<(Master, OwnedFd)> {
    let master = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open("/dev/ptmx")?;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int through the pointer, which is valid for the length of the call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) })?;
    let slave = terminal_side(&master)?;
    let master = Master(master);
    master.resize(size)?;
    // Erasing a character of several bytes in line mode erases all of them.
    let mut modes = termios::tcgetattr(&slave)?;
    modes.input_flags.insert(InputFlags::IUTF8);
    termios::tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
    Ok((master, slave))
}

impl Master {
    /// Sets the size; programs are told by SIGWINCH when it changed.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let size = libc::winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: size.xpixel,
            ws_ypixel: size.ypixel,
        };
        // SAFETY: TIOCSWINSZ reads one winsize through the pointer, which is valid for the length of the call.
        Errno::result(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
        Ok(())
    }

    /// The process group in front, if there is one.
    pub fn foreground(&self) -> Option<i32> {
        nix::unistd::tcgetpgrp(&self.0)
            .ok()
            .map(nix::unistd::Pid::as_raw)
            .filter(|group| *group > 1)
    }

    /// The key that ends the input, unless the terminal has none.
    pub fn end_key(&self) -> Option<EndKey> {
        let modes = termios::tcgetattr(&self.0).ok()?;
        let byte = *modes.control_chars.get(SpecialCharacterIndices::VEOF as usize)?;
        (byte != libc::_POSIX_VDISABLE).then_some(EndKey {
            byte,
            lines: modes.local_flags.contains(LocalFlags::ICANON),
        })
    }

    /// The key that interrupts the program in front, when the terminal would act on it and throw away what was typed
    /// before it.
    pub fn interrupt_key(&self) -> Option<u8> {
        let modes = termios::tcgetattr(&self.0).ok()?;
        let byte = *modes.control_chars.get(SpecialCharacterIndices::VINTR as usize)?;
        let acts = modes.local_flags.contains(LocalFlags::ISIG) && !modes.local_flags.contains(LocalFlags::NOFLSH);
        (acts && byte != libc::_POSIX_VDISABLE).then_some(byte)
    }

    /// Throws away what was typed and not yet read, on its way (our output queue) and in the terminal's own queue.
    pub fn forget_input(&self) {
        let _ = termios::tcflush(&self.0, termios::FlushArg::TCOFLUSH);
        if let Ok(slave) = terminal_side(&self.0) {
            let _ = termios::tcflush(&slave, termios::FlushArg::TCIFLUSH);
        }
    }

    /// The open file, to read and write.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl AsFd for Master {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Master {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The terminal side, from the master itself: right in every mount namespace. Kernels before 4.13 need its name.
fn terminal_side(master: &File) -> io::Result<OwnedFd> {
    const TIOCGPTPEER: libc::Ioctl = 0x5441;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes an integer, no pointer.
    let made = unsafe { libc::ioctl(master.as_raw_fd(), TIOCGPTPEER, flags) };
    if made >= 0 {
        // SAFETY: the kernel has just made this descriptor for us; nobody else knows its number.
        return Ok(unsafe { OwnedFd::from_raw_fd(made) });
    }
    let mut number: libc::c_uint = 0;
    // SAFETY: TIOCGPTN writes one unsigned int through the pointer, which is valid for the length of the call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) })?;
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(format!("/dev/pts/{number}"))?;
    Ok(file.into())
}
